/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: what an operator takes and gives: its tensors as values of
 * the graph, as known numbers, as weights. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

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

    return c && tflite_is_fixed(im, &im->value[tflite_input_index(im, i)])
               ? c
               : NULL;
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
        return tflite_known_value(im, index, false, 0, swapped);
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
        return tflite_known_value(im, index, im->raw, rank, swapped);
    x = tflite_in(im, i, false);
    for (int d = 0; d < rank - own; d++)
        axis[d] = d;
    x = tflite_dims(im, GRAPH_UNSQUEEZE, x, rank - own, axis);
    return tflite_reorder(im, x, rank, true);
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
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return NULL;
    }
    tflite_value_forget(v); /* loaded again where it is asked for */
    v->state = TFLITE_UNKNOWN;
    c = weights_kept_transpose(&im->m->kept, data, order);
    if (!c)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
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
            c = tflite_as_computed(im, index, raw, order, &moved);
        if (c && order && !moved) {
            made = constant_transpose(c, order);
            constant_unref(c);
            c = made;
        }
        if (!c && im->status == 0)
            return tflite_fail(im, INFER_EMEMORY, "out of memory");
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
