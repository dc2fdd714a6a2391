/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors have bytes of the file for themselves.  Equal constants of a
 * file share a buffer, and a malformed file may let any two overlap. */
#include <stdlib.h>

#include "kernels/base/error.h"
#include "weights/tflite/tflite.h"

/* Constant tensors of all networks of a file. */
#define MAX_EXTENTS ((size_t)1 << 20)

struct extent {
    const unsigned char *begin, *end;
    int tensor;
};

static int compare(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* Extents of the tensors of the selected network with constant bytes: how
 * many.  What cannot be read is left to whoever needs it. */
static size_t collect(struct tflite_model *m, bool outermost, struct extent *e)
{
    const struct fb file = m->file;
    size_t n = 0;

    for (size_t i = 0; i < m->tensors.count; i++) {
        const unsigned char *data;
        struct infer_error fault;
        struct tflite_tensor t;
        size_t bytes;

        if (tflite_model_tensor(m, (int)i, &fault, &t) == 0 &&
            tflite_model_buffer(m, t.buffer, &fault, &data, &bytes) == 0 &&
            bytes > 0)
            e[n++] =
                (struct extent){data, data + bytes, outermost ? (int)i : -1};
        m->file = file; /* one damaged tensor hides no other */
    }
    return n;
}

/* The extents of all networks of the file; *out is to be freed, after a failure
 * as well. */
static int collect_all(struct tflite_model *m, struct infer_error *err,
                       struct extent **out, size_t *n)
{
    *out = NULL;
    *n = 0;
    for (size_t k = m->graphs.count; k-- > 0;) {
        struct infer_error fault;
        void *p;

        if (tflite_model_select(m, (int)k, &fault) < 0)
            continue;
        if (*n > MAX_EXTENTS)
            return error_set(err, INFER_EUNSUPPORTED,
                             "more than %zu constant tensors in %zu networks",
                             MAX_EXTENTS, m->graphs.count);
        p = realloc(*out, (*n + m->tensors.count + 1) * sizeof **out);
        if (!p)
            return error_set(err, INFER_EMEMORY,
                             "no memory for the tensors of %zu networks",
                             m->graphs.count);
        *out = p;
        *n += collect(m, k == 0, *out + *n);
    }
    return 0;
}

int tflite_model_find_own(struct tflite_model *m, struct infer_error *err)
{
    const struct fb file = m->file;
    const unsigned char *reach = NULL;
    struct extent *e;
    size_t n;
    int rc = collect_all(m, err, &e, &n);

    m->file = file; /* damage of what nobody needs is no matter */
    m->own = rc == 0 ? calloc(m->tensors.count + 1, 1) : NULL;
    if (rc == 0 && !m->own)
        rc = error_set(err, INFER_EMEMORY, "no memory for %zu tensors",
                       m->tensors.count);
    if (rc < 0) {
        free(e);
        return rc;
    }
    if (n > 0)
        qsort(e, n, sizeof *e, compare);
    for (size_t i = 0; i < n; i++) {
        const bool before = i > 0 && reach > e[i].begin;
        const bool after = i + 1 < n && e[i + 1].begin < e[i].end;

        if (e[i].tensor >= 0)
            m->own[e[i].tensor] = !before && !after;
        if (!reach || e[i].end > reach)
            reach = e[i].end;
    }
    free(e);
    return 0;
}
