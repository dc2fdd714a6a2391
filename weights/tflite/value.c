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

static bool fixed(const struct tflite_import *im, const struct tflite_value *v)
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

static int transpose(struct tflite_import *im, int x, int rank, bool to_swapped)
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
static struct constant *as_computed_in(struct tflite_import *im, int index,
                                       bool raw, const int *order, bool *moved)
{
    const struct constant *c = im->value[index].known[0];
    struct infer_error fault;
    struct tflite_tensor t;
    struct constant *to;

    if (!fixed(im, &im->value[index])) {
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

static struct constant *as_computed(struct tflite_import *im, int index,
                                    bool raw)
{
    bool moved = false;

    return as_computed_in(im, index, raw, NULL, &moved);
}

/* A known tensor with `rank` dimensions, ones in front of its own. */
static int known_value(struct tflite_import *im, int index, bool raw, int rank,
                       bool swapped)
{
    struct constant *c = as_computed(im, index, raw), *made;
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
        *want = known_value(im, t, true, 0, swapped);
        return *want;
    }
    other = swapped ? v->plain : v->swapped;
    if (v->state != TFLITE_GRAPH || other < 0)
        return tflite_fail(im, INFER_EFORMAT,
                           "nothing before it produces tensor %d", t);
    *want =
        transpose(im, other, tflite_value_type(im, other, 0)->rank, swapped);
    return *want;
}

/* ---- inputs of the operator ---------------------------------------- */

bool tflite_has(const struct tflite_import *im, int i)
{
    return i < im->op.n_in && fb_list_i32(&im->op.in, (size_t)i) >= 0;
}

bool tflite_arity(struct tflite_import *im, int min, int max)
{
    if (im->status < 0)
        return false;
    if (im->op.n_in < min || im->op.n_in > max || im->op.n_out < 1) {
        tflite_fail(im, INFER_EFORMAT, "%d inputs and %d outputs", im->op.n_in,
                    im->op.n_out);
        return false;
    }
    for (int i = 0; i < min; i++)
        if (!tflite_has(im, i)) {
            tflite_fail(im, INFER_EFORMAT, "input %d is missing", i);
            return false;
        }
    return true;
}

int tflite_input_index(struct tflite_import *im, int i)
{
    const int t = tflite_has(im, i) ? fb_list_i32(&im->op.in, (size_t)i) : -1;

    if (t < 0 || t >= im->n_values)
        return tflite_fail(im, INFER_EFORMAT, "input %d is missing", i);
    return t;
}

int tflite_output_index(struct tflite_import *im, int o)
{
    const int t = o < im->op.n_out ? fb_list_i32(&im->op.out, (size_t)o) : -1;

    if (t < 0 || t >= im->n_values)
        return tflite_fail(im, INFER_EFORMAT, "output %d is missing", o);
    return t;
}

static struct tflite_tensor tensor_at(struct tflite_import *im, int index)
{
    struct infer_error fault;
    struct tflite_tensor t = {.rank = 0};
    int rc = index < 0 ? 0 : tflite_model_tensor(im->m, index, &fault, &t);

    if (rc < 0)
        tflite_fail(im, rc, "%s", fault.text);
    return t;
}

struct tflite_tensor tflite_input_tensor(struct tflite_import *im, int i)
{
    return tensor_at(im, tflite_input_index(im, i));
}

struct tflite_tensor tflite_output_tensor(struct tflite_import *im, int o)
{
    return tensor_at(im, tflite_output_index(im, o));
}

struct graph_type tflite_type(struct tflite_import *im, int i, int probe)
{
    struct graph_type t = {.rank = 0}, s;
    const int index = tflite_input_index(im, i);
    const struct tflite_value *v;
    int order[INFER_MAX_RANK];

    if (index < 0)
        return t;
    v = &im->value[index];
    if (tflite_load(im, index)) {
        const struct constant *c = v->known[probe];
        t.dtype = c->dtype;
        t.rank = c->rank;
        memcpy(t.dim, c->dim, sizeof t.dim);
    } else if (v->plain >= 0) {
        t = *tflite_value_type(im, v->plain, probe);
    } else if (v->swapped >= 0) {
        s = *tflite_value_type(im, v->swapped, probe);
        t = s;
        tflite_order(s.rank, false, order);
        for (int d = 0; d < s.rank && s.rank >= 3; d++)
            t.dim[d] = s.dim[order[d]];
    } else {
        tflite_fail(im, INFER_EFORMAT, "nothing before it produces input %d",
                    i);
    }
    return t;
}

int tflite_rank(struct tflite_import *im, int i)
{
    return tflite_type(im, i, 0).rank;
}

bool tflite_is_swapped(struct tflite_import *im, int i)
{
    const int index = tflite_has(im, i) ? tflite_input_index(im, i) : -1;

    return index >= 0 && im->value[index].state == TFLITE_GRAPH &&
           im->value[index].plain < 0;
}

const struct constant *tflite_known(struct tflite_import *im, int i, int probe)
{
    const int index = tflite_has(im, i) ? tflite_input_index(im, i) : -1;

    return index >= 0 && tflite_load(im, index) ? im->value[index].known[probe]
                                                : NULL;
}

const struct constant *tflite_fixed(struct tflite_import *im, int i)
{
    const struct constant *c = tflite_known(im, i, 0);

    return c && fixed(im, &im->value[tflite_input_index(im, i)]) ? c : NULL;
}

int tflite_ints_at(struct tflite_import *im, int i, int probe, const char *what,
                   int max, int64_t *out)
{
    const struct constant *c = tflite_known(im, i, probe);
    int64_t n;

    if (im->status < 0)
        return -1;
    if (!c)
        return tflite_fail(im, INFER_EUNSUPPORTED,
                           "%s must be constant, but is computed at run time",
                           what);
    n = constant_count(c);
    /* A list, or one row of a matrix. */
    if (!scalar_is_integer(c->dtype) || n > max ||
        (c->rank > 1 && c->dim[c->rank - 1] != n))
        return tflite_fail(im, INFER_EFORMAT,
                           "%s is %s of rank %d with %lld elements", what,
                           infer_dtype_name(c->dtype), c->rank, (long long)n);
    for (int64_t k = 0; k < n; k++)
        out[k] = scalar_load_i64(c->dtype, c->data, k);
    return (int)n;
}

int tflite_ints(struct tflite_import *im, int i, const char *what, int max,
                int64_t *out)
{
    const int n = tflite_ints_at(im, i, 0, what, max, out);

    if (n >= 0 && !tflite_fixed(im, i))
        return tflite_fail(im, INFER_EUNSUPPORTED, "%s depends on free sizes",
                           what);
    return n;
}

int tflite_axis(struct tflite_import *im, int64_t axis, int rank)
{
    if (axis < -rank || axis >= rank) {
        tflite_fail(im, INFER_EFORMAT, "axis %lld of a tensor of rank %d",
                    (long long)axis, rank);
        return 0;
    }
    return (int)(axis < 0 ? axis + rank : axis);
}

int tflite_axes(struct tflite_import *im, int i, int rank, int *out)
{
    int64_t given[2 * INFER_MAX_RANK];
    const int n = tflite_ints(im, i, "the axes", 2 * INFER_MAX_RANK, given);
    unsigned seen = 0;
    int count = 0;

    for (int k = 0; k < n; k++) {
        const int a = tflite_axis(im, given[k], rank);
        if (im->status < 0)
            return -1;
        if (seen >> a & 1)
            continue;
        seen |= 1u << a;
        out[count++] = a;
    }
    return im->status < 0 ? -1 : count;
}

/* Real numbers from what the graph holds for a quantised tensor. */
static int real(struct tflite_import *im, int i, int x)
{
    const struct tflite_tensor t = tflite_input_tensor(im, i);

    if (im->raw || im->status < 0 || !tflite_is_quantised(&t))
        return x;
    return tflite_unary(im, x, KERN_LINEAR, tflite_quant(im, &t).scale, 0);
}

/* Whether a known input needs a constant of its own: real numbers of a
 * quantised tensor. */
static bool is_known_quantised(struct tflite_import *im, int i, int index)
{
    const struct tflite_tensor t = tflite_input_tensor(im, i);

    return !im->raw && tflite_is_quantised(&t) && tflite_load(im, index);
}

int tflite_in(struct tflite_import *im, int i, bool swapped)
{
    const int index = tflite_input_index(im, i);

    if (index < 0 || (tflite_input_tensor(im, i).type == TFLITE_COMPLEX64 &&
                      !tflite_may_read_complex(im, index)))
        return -1;
    if (is_known_quantised(im, i, index))
        return known_value(im, index, false, 0, swapped);
    return real(im, i, tflite_tensor_value(im, index, swapped));
}

int tflite_in_any_order(struct tflite_import *im, bool *swapped)
{
    *swapped = tflite_is_swapped(im, 0);
    return tflite_in(im, 0, *swapped);
}

int tflite_operand(struct tflite_import *im, int i, int rank, bool swapped)
{
    const int index = tflite_input_index(im, i), own = tflite_rank(im, i);
    int64_t axis[INFER_MAX_RANK];
    int x;

    if (im->status < 0)
        return -1;
    if (own == rank || own == 0 || !swapped)
        return tflite_in(im, i, swapped && own == rank);
    if (tflite_load(im, index))
        return known_value(im, index, im->raw, rank, swapped);
    x = tflite_in(im, i, false);
    for (int d = 0; d < rank - own; d++)
        axis[d] = d;
    x = tflite_dims(im, GRAPH_UNSQUEEZE, x, rank - own, axis);
    return transpose(im, x, rank, true);
}

/* A constant tensor of floats that shares its bytes with no other one: as it
 * is, or transposed in place of the original.  NULL where it is none, or after
 * a failure. */
static struct constant *own_floats(struct tflite_import *im, int index,
                                   const int *order)
{
    struct tflite_value *v = &im->value[index];
    struct constant *c = v->known[0];
    const unsigned char *data = NULL;
    struct infer_error fault;
    struct tflite_tensor t;
    size_t bytes = 0;

    if (im->folding || !im->m->own || !im->m->own[index] ||
        c->dtype != INFER_F32 || c->bytes == 0 ||
        tflite_model_tensor(im->m, index, &fault, &t) < 0 ||
        tflite_is_quantised(&t) || t.sparse ||
        tflite_model_buffer(im->m, t.buffer, &fault, &data, &bytes) < 0 ||
        bytes == 0)
        return NULL;
    if (!order)
        return constant_ref(c);
    if (!weights_kept_has(&im->m->kept, data) &&
        !weights_kept_add(&im->m->kept, data, c)) {
        no_memory(im);
        return NULL;
    }
    tflite_value_forget(v); /* loaded again where it is asked for */
    v->state = TFLITE_UNKNOWN;
    c = weights_kept_transpose(&im->m->kept, data, order);
    if (!c)
        no_memory(im);
    return c;
}

int tflite_weight(struct tflite_import *im, int i, const int *order, bool raw)
{
    const int index = tflite_input_index(im, i);
    int64_t way[INFER_MAX_RANK];
    struct constant *c, *made;
    struct tflite_value *v;
    int x;

    if (index < 0)
        return -1;
    v = &im->value[index];
    if (v->weight >= 0 && v->weight_order == order && v->weight_raw == raw)
        return v->weight;
    if (tflite_load(im, index)) {
        bool moved = false;

        c = own_floats(im, index, order);
        if (c)
            moved = true;
        else if (im->status == 0)
            c = as_computed_in(im, index, raw, order, &moved);
        if (c && order && !moved) {
            made = constant_transpose(c, order);
            constant_unref(c);
            c = made;
        }
        if (!c && im->status == 0)
            return no_memory(im);
        v->weight = tflite_add_constant(im, index, c);
        v->weight_order = order;
        v->weight_raw = raw;
        return v->weight;
    }
    if (raw)
        return tflite_fail(im, INFER_EUNSUPPORTED,
                           "quantised weights that are computed");
    x = tflite_in(im, i, false);
    for (int d = 0; order && d < tflite_rank(im, i); d++)
        way[d] = order[d];
    return order ? tflite_dims(im, GRAPH_TRANSPOSE, x, tflite_rank(im, i), way)
                 : x;
}

/* ---- outputs of the operator --------------------------------------- */

/* The value that output o fills, or NULL. */
static struct tflite_value *output(struct tflite_import *im, int o)
{
    const int index = tflite_output_index(im, o);

    if (index < 0 || im->status < 0)
        return NULL;
    if (im->value[index].state != TFLITE_UNKNOWN) {
        tflite_fail(im, INFER_EFORMAT, "tensor %d is produced twice", index);
        return NULL;
    }
    return &im->value[index];
}

void tflite_out(struct tflite_import *im, int o, int value, bool swapped)
{
    const struct tflite_tensor t = tflite_output_tensor(im, o);
    struct tflite_value *v = output(im, o);
    char name[256];
    int rank;

    if (!v || value < 0)
        return;
    if (!im->raw && tflite_is_quantised(&t)) {
        const struct tflite_quant q = tflite_quant(im, &t);
        value = tflite_quantise(im, value, &q);
    }
    if (im->status < 0)
        return;
    rank = tflite_value_type(im, value, 0)->rank;
    if (im->freed_batch && t.rank > 0 && rank != t.rank) {
        tflite_fail(im, INFER_EUNSUPPORTED, "%d dimensions, the file says %d",
                    rank, t.rank);
        return;
    }
    v->state = TFLITE_GRAPH;
    v->plain = swapped && rank >= 3 ? -1 : value;
    v->swapped = swapped || rank < 3 ? value : -1;
    tflite_name(&t, name, sizeof name);
    if (*name && im->g->value[value].producer >= im->first_node)
        tflite_rename(im, value, name);
}

void tflite_rename(struct tflite_import *im, int value, const char *name)
{
    if (graph_rename_value(im->g, value, name) == INFER_EMEMORY)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
}

void tflite_out_known(struct tflite_import *im, int o,
                      struct constant *const *known)
{
    struct tflite_value *v = output(im, o);

    for (int p = 0; p < TFLITE_PROBES; p++)
        if (v)
            v->known[p] = known[p];
        else
            constant_unref(known[p]);
    if (v)
        v->state = TFLITE_KNOWN;
}
