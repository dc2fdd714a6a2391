/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: tensors on the way: constants of the file, shapes at the
 * probes, and the two orders of axes. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "kernels/base/text.h"
#include "weights/tflite/tflite.h"

static int no_memory(struct tflite_import *im)
{
    return tflite_fail(im, INFER_EMEMORY, "out of memory");
}

/* ---- names --------------------------------------------------------- */

void tflite_name(const struct tflite_tensor *t, char *out, size_t bytes)
{
    const unsigned char *s = t->name.count ? fb_list_data(&t->name) : NULL;
    size_t i = 0, n = 0;

    while (i < t->name.count && s[i]) {
        uint32_t code = 0;
        size_t step = text_utf8(s + i, t->name.count - i, &code);
        const bool good = step > 0 && code >= 32 && code != 127;

        if (step == 0)
            step = 1;
        if (n + step + 1 > bytes)
            break;
        if (good)
            memcpy(out + n, s + i, step);
        else
            out[n] = '_';
        n += good ? step : 1;
        i += step;
    }
    out[n] = 0;
}

/* ---- constants ----------------------------------------------------- */

struct constant *tflite_constant_new(struct tflite_import *im,
                                     enum infer_dtype dtype, int rank,
                                     const int64_t *dim)
{
    struct constant *c;
    const size_t bytes = array_bytes(dtype, rank, dim);

    if (im->status < 0)
        return NULL;
    if (rank > INFER_MAX_RANK ||
        bytes > im->max_constant_bytes - im->constant_bytes) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "constants of more than %zu MiB in a file of %zu bytes",
                    im->max_constant_bytes >> 20, im->m->file.bytes);
        return NULL;
    }
    c = constant_new(dtype, rank, dim);
    if (!c)
        no_memory(im);
    else
        im->constant_bytes += bytes;
    return c;
}

struct constant *tflite_constant_copy(struct tflite_import *im,
                                      const struct constant *c,
                                      const int *order)
{
    struct constant *to;

    if (order) {
        if (im->status < 0)
            return NULL;
        if (c->bytes > im->max_constant_bytes - im->constant_bytes) {
            tflite_fail(im, INFER_EUNSUPPORTED, "too many constants");
            return NULL;
        }
        im->constant_bytes += c->bytes;
        to = constant_transpose(c, order);
        if (!to)
            no_memory(im);
        return to;
    }
    to = tflite_constant_new(im, c->dtype, c->rank, c->dim);
    if (to && c->bytes > 0)
        memcpy(to->data, c->data, c->bytes);
    return to;
}

/* The elements of a buffer: in place where they are aligned. */
static struct constant *view(struct tflite_import *im,
                             const struct tflite_tensor *t,
                             enum infer_dtype dtype, const unsigned char *data,
                             size_t bytes)
{
    const size_t size = infer_dtype_size(dtype);
    struct constant *c;

    if (bytes > 0 && (uintptr_t)data % size == 0) {
        c = constant_in_blob(dtype, t->rank, t->dim, im->m->blob,
                             im->m->blob->data + (data - im->m->file.data));
        if (!c)
            no_memory(im);
        return c;
    }
    c = tflite_constant_new(im, dtype, t->rank, t->dim);
    if (c && bytes > 0)
        memcpy(c->data, data, bytes);
    return c;
}

static bool load(struct tflite_import *im, int index)
{
    struct tflite_value *v = &im->value[index];
    const unsigned char *data = NULL;
    struct infer_error fault;
    struct tflite_tensor t;
    size_t bytes = 0;
    enum infer_dtype dtype;
    struct constant *c;
    int64_t count;
    int rc = tflite_model_tensor(im->m, index, &fault, &t);

    if (rc == 0)
        rc = tflite_model_buffer(im->m, t.buffer, &fault, &data, &bytes);
    if (rc < 0) {
        tflite_fail(im, rc, "%s", fault.text);
        return false;
    }
    if (!checked_count(t.rank, t.dim, &count) || (bytes == 0 && count > 0))
        return false;
    dtype = tflite_dtype(t.type);
    if (dtype == INFER_NONE) {
        tflite_fail(im, INFER_EUNSUPPORTED, "a constant that is %s",
                    tflite_type_name(t.type));
        return false;
    }
    if (array_bytes(dtype, t.rank, t.dim) != bytes && !t.sparse) {
        tflite_fail(im, INFER_EFORMAT,
                    "constant tensor %d has %zu bytes, which is not its shape",
                    index, bytes);
        return false;
    }
    c = t.sparse ? tflite_sparse(im, &t, dtype, data, bytes)
        : weights_kept_has(&im->m->kept, data)
            ? weights_kept_get(&im->m->kept, data)
            : view(im, &t, dtype, data, bytes);
    if (!c) {
        if (im->status == 0)
            no_memory(im);
        return false;
    }
    v->known[0] = c;
    for (int p = 1; p < TFLITE_PROBES; p++)
        v->known[p] = constant_ref(c);
    v->state = TFLITE_KNOWN;
    v->loaded = true;
    return true;
}

bool tflite_load(struct tflite_import *im, int t)
{
    if (t < 0 || t >= im->n_values || im->status < 0)
        return false;
    if (im->value[t].state == TFLITE_UNKNOWN)
        return load(im, t);
    return im->value[t].state == TFLITE_KNOWN;
}

void tflite_value_forget(struct tflite_value *v)
{
    for (int p = 0; p < TFLITE_PROBES; p++) {
        constant_unref(v->known[p]);
        v->known[p] = NULL;
    }
}

void tflite_values_clear(struct tflite_import *im)
{
    for (int i = 0; im->value && i < im->n_values; i++)
        tflite_value_forget(&im->value[i]);
    free(im->value);
    free(im->type);
}

bool tflite_is_fixed(const struct tflite_import *im,
                     const struct tflite_value *v)
{
    for (int p = 1; p < im->probes; p++) {
        const struct constant *a = v->known[0], *b = v->known[p];

        if (a == b)
            continue;
        if (a->dtype != b->dtype || a->rank != b->rank ||
            a->bytes != b->bytes ||
            memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) != 0 ||
            (a->bytes > 0 && memcmp(a->data, b->data, a->bytes) != 0))
            return false;
    }
    return true;
}

/* ---- types --------------------------------------------------------- */

bool tflite_set_type(struct tflite_import *im, int value,
                     const struct graph_type *type)
{
    if (value >= im->types_capacity) {
        int capacity = im->types_capacity ? im->types_capacity : 128;
        void *p;

        while (capacity <= value)
            capacity *= 2;
        p = realloc(im->type, (size_t)capacity * sizeof *im->type);
        if (!p) {
            no_memory(im);
            return false;
        }
        im->type = p;
        im->types_capacity = capacity;
    }
    memcpy(im->type[value], type, sizeof *type * TFLITE_PROBES);
    return true;
}

const struct graph_type *tflite_value_type(const struct tflite_import *im,
                                           int value, int probe)
{
    return &im->type[value][probe];
}

bool tflite_same_type(const struct tflite_import *im, int a, int b)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type *s = tflite_value_type(im, a, p);
        const struct graph_type *t = tflite_value_type(im, b, p);

        if (s->dtype != t->dtype || s->rank != t->rank ||
            memcmp(s->dim, t->dim, (size_t)s->rank * sizeof *s->dim) != 0)
            return false;
    }
    return true;
}

static int add_constant(struct tflite_import *im, const char *name,
                        struct constant *c)
{
    struct graph_type type[TFLITE_PROBES];
    int v;

    memset(type, 0, sizeof type);
    for (int p = 0; p < TFLITE_PROBES; p++) {
        type[p].dtype = c->dtype;
        type[p].rank = c->rank;
        memcpy(type[p].dim, c->dim, sizeof type[p].dim);
    }
    v = graph_add_constant(im->g, name, constant_ref(c));
    if (v == INFER_EARGUMENT)
        v = graph_add_constant(im->g, NULL, constant_ref(c));
    constant_unref(c);
    if (v < 0)
        return no_memory(im);
    return tflite_set_type(im, v, type) ? v : -1;
}

int tflite_add_constant(struct tflite_import *im, int tensor,
                        struct constant *c)
{
    struct infer_error fault;
    struct tflite_tensor t;
    char name[256] = "";

    if (im->status < 0 || !c) {
        constant_unref(c);
        return -1;
    }
    if (tensor >= 0 && tflite_model_tensor(im->m, tensor, &fault, &t) == 0)
        tflite_name(&t, name, sizeof name);
    return add_constant(im, *name ? name : NULL, c);
}

int tflite_vector(struct tflite_import *im, const float *v, int64_t n)
{
    struct constant *c = tflite_constant_new(im, INFER_F32, 1, &n);

    if (c && n > 0)
        memcpy(c->data, v, (size_t)n * sizeof *v);
    return tflite_add_constant(im, -1, c);
}

int tflite_scalar(struct tflite_import *im, float v)
{
    struct constant *c = tflite_constant_new(im, INFER_F32, 0, NULL);

    if (c)
        memcpy(c->data, &v, sizeof v);
    return tflite_add_constant(im, -1, c);
}

/* ---- orders of axes ------------------------------------------------ */

void tflite_order(int rank, bool to_swapped, int *order)
{
    for (int i = 0; i < rank; i++)
        order[i] = i;
    for (int i = 1; i < rank; i++)
        order[i] = to_swapped ? (i == 1 ? rank - 1 : i - 1)
                              : (i == rank - 1 ? 1 : i + 1);
}

int tflite_map_axis(int axis, int rank, bool swapped)
{
    if (!swapped || rank < 3 || axis == 0)
        return axis;
    return axis == rank - 1 ? 1 : axis + 1;
}

int tflite_reorder(struct tflite_import *im, int x, int rank, bool to_swapped)
{
    int64_t dim[INFER_MAX_RANK];
    int order[INFER_MAX_RANK];

    if (rank < 3)
        return x;
    tflite_order(rank, to_swapped, order);
    for (int i = 0; i < rank; i++)
        dim[i] = order[i];
    return tflite_dims(im, GRAPH_TRANSPOSE, x, rank, dim);
}

/* A known tensor as floats, or as integers where it is not quantised.  order
 * may be NULL; *moved: the result is transposed by it. */
struct constant *tflite_as_computed(struct tflite_import *im, int index,
                                    bool raw, const int *order, bool *moved)
{
    const struct constant *c = im->value[index].known[0];
    struct infer_error fault;
    struct tflite_tensor t;
    struct constant *to;

    if (!tflite_is_fixed(im, &im->value[index])) {
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "a tensor that is computed from free sizes");
        return NULL;
    }
    if (tflite_model_tensor(im->m, index, &fault, &t) < 0)
        return NULL; /* it was read before */
    if (tflite_is_quantised(&t))
        return tflite_dequantised(im, &t, c, raw);
    *moved =
        order != NULL && (!scalar_is_float(c->dtype) || c->dtype == INFER_F32);
    if (!scalar_is_float(c->dtype) || c->dtype == INFER_F32)
        return tflite_constant_copy(im, c, order);
    to = tflite_constant_new(im, INFER_F32, c->rank, c->dim);
    if (to)
        scalar_convert(c->dtype, c->data, INFER_F32, to->data,
                       (size_t)constant_count(c));
    return to;
}

/* A known tensor with `rank` dimensions, ones in front of its own. */
int tflite_known_value(struct tflite_import *im, int index, bool raw, int rank,
                       bool swapped)
{
    bool moved = false;
    struct constant *c = tflite_as_computed(im, index, raw, NULL, &moved);
    struct constant *made;
    int64_t dim[INFER_MAX_RANK];
    int order[INFER_MAX_RANK];

    if (c && rank > c->rank) {
        const int add = rank - c->rank;
        for (int i = 0; i < rank; i++)
            dim[i] = i < add ? 1 : c->dim[i - add];
        made = constant_reshape(c, rank, dim);
        constant_unref(c);
        c = made;
    }
    if (c && swapped && c->rank >= 3) {
        tflite_order(c->rank, true, order);
        made = constant_transpose(c, order);
        constant_unref(c);
        c = made;
    }
    if (!c && im->status == 0)
        return no_memory(im);
    return tflite_add_constant(im, index, c);
}

int tflite_tensor_value(struct tflite_import *im, int t, bool swapped)
{
    struct tflite_value *v = &im->value[t];
    int *want = swapped ? &v->swapped : &v->plain;
    int other;

    if (im->status < 0)
        return -1;
    if (*want >= 0)
        return *want;
    if (tflite_load(im, t)) {
        *want = tflite_known_value(im, t, true, 0, swapped);
        return *want;
    }
    other = swapped ? v->plain : v->swapped;
    if (v->state != TFLITE_GRAPH || other < 0)
        return tflite_fail(im, INFER_EFORMAT,
                           "nothing before it produces tensor %d", t);
    *want = tflite_reorder(im, other, tflite_value_type(im, other, 0)->rank,
                           swapped);
    return *want;
}
