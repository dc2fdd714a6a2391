/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that are one at all sizes that were tried.
 *
 * A number of the file that no size changed is taken for a constant, and a
 * condition for known.  Both may come of a comparison with a size that was not
 * tried: "is the height below 32".  So these numbers are compared with those
 * of imports at other sizes (verify.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "weights/onnx/import.h"

struct onnx_number {
    uint64_t name, value; /* hashes */
    char text[48];        /* the name, cut where it is longer */
};

static int by_name(const void *a, const void *b)
{
    const struct onnx_number *x = a, *y = b;

    return (x->name > y->name) - (x->name < y->name);
}

static uint64_t hash_small(const struct onnx_small *s)
{
    const size_t n = (size_t)s->count;
    uint64_t h = s->i ? hash_bytes(s->i, n * sizeof *s->i)
                      : hash_bytes(s->d, n * sizeof *s->d);

    for (int d = 0; d < s->rank; d++)
        h = h * 31 + (uint64_t)s->dim[d];
    return h;
}

/* Names that the import made differ from one to the next. */
static bool is_number(const struct onnx_import *im, const struct onnx_value *v)
{
    return v->state == ONNX_SMALL && v->name.bytes > 0 &&
           !memchr(v->name.data, '@', v->name.bytes) &&
           onnx_small_is_fixed(im, v->small);
}

int onnx_numbers_of(const struct onnx_import *im, struct onnx_numbers *out)
{
    size_t n = 0;

    free(out->item);
    *out = (struct onnx_numbers){NULL, 0};
    for (int i = 0; i < im->n_values; i++)
        n += is_number(im, &im->value[i]);
    if (n == 0)
        return 0;
    out->item = malloc(n * sizeof *out->item);
    if (!out->item)
        return error_set(im->err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < im->n_values; i++) {
        const struct onnx_value *v = &im->value[i];
        struct onnx_number *number = &out->item[out->n];

        if (!is_number(im, v))
            continue;
        number->name = hash_bytes(v->name.data, v->name.bytes);
        number->value = hash_small(v->small[0]);
        snprintf(number->text, sizeof number->text, "%.*s",
                 v->name.bytes < sizeof number->text ? (int)v->name.bytes
                                                     : (int)sizeof number->text,
                 (const char *)v->name.data);
        out->n++;
    }
    qsort(out->item, out->n, sizeof *out->item, by_name);
    return 0;
}

const char *onnx_numbers_differ(const struct onnx_numbers *a,
                                const struct onnx_numbers *b)
{
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        if (a->item[i].name == b->item[j].name &&
            a->item[i].value != b->item[j].value)
            return a->item[i].text;
        if (a->item[i].name <= b->item[j].name)
            i++;
        else
            j++;
    }
    return NULL;
}
