/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that pick elements, count along an axis, or sum over labels. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/tensorflow/tensorflow.h"

/* Input i, a constant of one integer, as the list of one that ONNX wants. */
static struct pb_span as_list(struct onnx_import *im, int i, const char *word)
{
    int64_t v = 0;

    tf_axis(im, i, &v);
    return tf_ints(im, word, &v, 1);
}

/* Largest elements of the last axis and where they are. */
int tf_top_k(struct onnx_import *im)
{
    const struct onnx_attr *type = onnx_attr(im, "index_type");
    const struct tf_import *tf = im->context;
    union graph_attr attr;
    struct pb_span index;
    struct onnx_attr to;
    int64_t k = 0;
    int in[2], at, v;

    onnx_arity(im, 2, 2);
    onnx_ignore(im, "sorted"); /* sorted is one of all orders */
    tf_axis(im, 1, &k);
    if (im->rc == 0 && (k < 0 || k > INT32_MAX))
        return onnx_fail(im, INFER_EFORMAT, "k is %lld", (long long)k);
    onnx_input(im, 0, &in[0]);
    onnx_defaults(GRAPH_TOP_K, &attr);
    attr.top_k.k = (int)k;
    onnx_emit(im, GRAPH_TOP_K, &attr, in, 1, -1, &at);
    in[1] = at;
    onnx_defaults(GRAPH_GATHER_ELEMENTS, &attr);
    attr.axis.axis = -1;
    onnx_emit(im, GRAPH_GATHER_ELEMENTS, &attr, in, 2, 0, NULL);
    index = tf_temp(im, "index");
    if (im->rc < 0 || onnx_value_get(im, index, &v) < 0)
        return im->rc;
    im->value[v].state = ONNX_GRAPH;
    im->value[v].graph = at;
    to = tf_set_int("to", type ? tf_onnx_type((uint64_t)type->i) : ONNX_INT32);
    onnx_step(im, "Cast", &index, 1,
              tf_value_name(im, (struct tf_edge){tf->node, 1}), &to, 1);
    return im->rc;
}

/* param 1: products instead of sums. */
int tf_cumulate(struct onnx_import *im)
{
    bool exclusive = false, reverse = false;
    union graph_attr attr;
    int64_t axis = 0;
    struct graph_type t;
    int x;

    onnx_arity(im, 2, 2);
    onnx_flag(im, "exclusive", &exclusive);
    onnx_flag(im, "reverse", &reverse);
    tf_axis(im, 1, &axis);
    if (onnx_input_type(im, 0, 0, &t) < 0 || onnx_input(im, 0, &x) < 0)
        return im->rc;
    if (axis < -t.rank || axis >= t.rank)
        return onnx_fail(im, INFER_EFORMAT,
                         "axis %lld is outside a tensor of rank %d",
                         (long long)axis, t.rank);
    onnx_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.axis = (int)(axis < 0 ? axis + t.rank : axis);
    attr.cumulate.exclusive = exclusive;
    attr.cumulate.reverse = reverse;
    attr.cumulate.product = tf_row(im)->param;
    return onnx_emit(im, GRAPH_CUMULATE, &attr, &x, 1, 0, NULL);
}

/* Indices, depth, and the numbers at the index and elsewhere: ONNX has the
 * last two as one tensor, in the other order. */
int tf_one_hot(struct onnx_import *im)
{
    static const int64_t zero = 0;
    struct pb_span in[3], pair[2], axes, line[2];
    struct onnx_attr attr;
    int64_t axis = -1;

    onnx_arity(im, 4, 4);
    onnx_int(im, "axis", -1, INFER_MAX_RANK, &axis);
    axes = tf_ints(im, "axes", &zero, 1);
    for (int i = 0; i < 2; i++) {
        line[0] = im->node->in[3 - i];
        line[1] = axes;
        pair[i] = tf_temp(im, i ? "on" : "off");
        onnx_step(im, "Unsqueeze", line, 2, pair[i], NULL, 0);
    }
    attr = tf_set_int("axis", 0);
    in[0] = im->node->in[0];
    in[1] = as_list(im, 1, "depth");
    in[2] = tf_temp(im, "values");
    onnx_step(im, "Concat", pair, 2, in[2], &attr, 1);
    attr = tf_set_int("axis", axis);
    return tf_last(im, "OneHot", in, 3, &attr, 1);
}

/* A sum of products by labels, as ONNX writes it. */
int tf_einsum(struct onnx_import *im)
{
    const struct onnx_attr *own = onnx_attr(im, "equation");
    struct onnx_attr attr;

    onnx_ignore(im, "N");
    onnx_arity(im, 1, -1);
    if (im->rc == 0 && (!own || own->type != ONNX_ATTR_STRING))
        return onnx_fail(im, INFER_EFORMAT, "no equation");
    if (im->rc < 0)
        return im->rc;
    attr = *own;
    return tf_last(im, "Einsum", im->node->in, im->node->n_in, &attr, 1);
}

/* All and Any: the smallest or the largest of 0 and 1. */
int tf_reduce_bool(struct onnx_import *im)
{
    struct onnx_attr attr[2];
    int64_t axes[INFER_MAX_RANK];
    struct pb_span in[2], out;
    bool keep = false;
    int n = 0;

    onnx_arity(im, 2, 2);
    onnx_flag(im, "keep_dims", &keep);
    if (onnx_input_ints(im, 1, "the axes", INFER_MAX_RANK, axes, &n) < 0)
        return im->rc;
    attr[0] = tf_set_int("to", ONNX_FLOAT);
    in[0] = tf_temp(im, "real");
    onnx_step(im, "Cast", im->node->in, 1, in[0], attr, 1);
    in[1] = tf_ints(im, "axes", axes, n);
    attr[0] = tf_set_int("keepdims", keep);
    attr[1] = tf_set_int("noop_with_empty_axes", 1);
    out = tf_temp(im, "reduced");
    onnx_step(im, tf_row(im)->onnx, in, 2, out, attr, 2);
    attr[0] = tf_set_int("to", ONNX_BOOL);
    return tf_last(im, "Cast", &out, 1, attr, 1);
}

/* The axes that are listed, backwards. */
int tf_reverse(struct onnx_import *im)
{
    int64_t axes[INFER_MAX_RANK], begin[INFER_MAX_RANK], end[INFER_MAX_RANK],
        step[INFER_MAX_RANK];
    struct pb_span in[5];
    int n = 0;

    onnx_arity(im, 2, 2);
    if (onnx_input_ints(im, 1, "the axes", INFER_MAX_RANK, axes, &n) < 0)
        return im->rc;
    for (int i = 0; i < n; i++) {
        begin[i] = -1;
        end[i] = INT64_MIN;
        step[i] = -1;
    }
    if (n == 0)
        return tf_last(im, "Identity", im->node->in, 1, NULL, 0);
    in[0] = im->node->in[0];
    in[1] = tf_ints(im, "begin", begin, n);
    in[2] = tf_ints(im, "end", end, n);
    in[3] = tf_ints(im, "axes", axes, n);
    in[4] = tf_ints(im, "step", step, n);
    return tf_last(im, "Slice", in, 5, NULL, 0);
}

/* ---- writes -------------------------------------------------------- */

static struct onnx_attr reduction(int kind)
{
    static const char *const words[] = {"none", "add", "max", "min"};

    return tf_set_word("reduction", words[kind]);
}

/* A tensor with values at indices: instead of its own (param 0), added (1), the
 * larger (2) or the smaller (3), or subtracted (4). */
int tf_tensor_scatter(struct onnx_import *im)
{
    const bool minus = tf_row(im)->param == 4;
    const struct onnx_attr how = reduction(minus ? 1 : tf_row(im)->param);
    struct pb_span in[3];

    if (onnx_arity(im, 3, 3) < 0)
        return im->rc;
    onnx_ignore(im, "bad_indices_policy");
    memcpy(in, im->node->in, sizeof in);
    if (minus)
        in[2] = tf_next(im, "Neg", in[2], "negative");
    return tf_last(im, "ScatterND", in, 3, &how, 1);
}

/* The same with zeros of a given shape, to which values are added. */
int tf_scatter(struct onnx_import *im)
{
    const struct onnx_attr how = reduction(1);
    struct pb_span in[3];
    struct constant *zero;
    struct graph_type t;

    onnx_arity(im, 3, 3);
    onnx_ignore(im, "bad_indices_policy");
    if (onnx_input_type(im, 1, 0, &t) < 0)
        return im->rc;
    zero = constant_new(t.dtype, 0, NULL);
    if (zero)
        scalar_store(t.dtype, zero->data, 0, 0);
    in[0] = onnx_step_constant(im, zero);
    in[1] = im->node->in[2];
    in[2] = tf_temp(im, "zeros");
    onnx_step(im, "Expand", in, 2, in[2], NULL, 0);
    in[0] = in[2];
    in[1] = im->node->in[0];
    in[2] = im->node->in[1];
    return tf_last(im, "ScatterND", in, 3, &how, 1);
}

/* ---- sorted rows --------------------------------------------------- */

/* How many entries of a sorted row lie below each value of a row (param 0), or
 * not above it (1). */
int tf_bound(struct onnx_import *im)
{
    const struct onnx_attr drop = tf_set_int("keepdims", 0);
    const bool equal = tf_row(im)->param;
    int64_t type = TF_INT32, axis = 1, last = 2;
    struct pb_span in[2], list[2];
    struct onnx_attr to;

    if (onnx_arity(im, 2, 2) < 0)
        return im->rc;
    onnx_int(im, "out_type", 1, INT32_MAX, &type);
    to = tf_set_int("to", tf_onnx_type((uint64_t)type));
    for (int i = 0; i < 2; i++) {
        in[0] = im->node->in[i];
        in[1] = onnx_step_ints(im, 1, 1, i ? &last : &axis);
        list[i] = tf_temp(im, i ? "values" : "row");
        onnx_step(im, "Unsqueeze", in, 2, list[i], NULL, 0);
    }
    in[0] = list[1];
    in[1] = list[0];
    list[0] = tf_temp(im, "below");
    onnx_step(im, equal ? "GreaterOrEqual" : "Greater", in, 2, list[0], NULL,
              0);
    in[0] = tf_temp(im, "ones");
    onnx_step(im, "Cast", list, 1, in[0], &to, 1);
    in[1] = onnx_step_ints(im, 1, 1, &last);
    return tf_last(im, "ReduceSum", in, 2, &drop, 1);
}

/* Where of one input: the places of what is not 0, a row each. */
int tf_where_true(struct onnx_import *im)
{
    static const int64_t order[2] = {1, 0};
    const struct onnx_attr rows = tf_set_ints("perm", order, 2);
    struct pb_span places;

    if (onnx_arity(im, 1, 1) < 0)
        return im->rc;
    places = tf_next(im, "NonZero", im->node->in[0], "places");
    return tf_last(im, "Transpose", &places, 1, &rows, 1);
}
