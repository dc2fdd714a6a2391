/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX reductions, arg reductions and softmax. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"

/* ---- reductions ---------------------------------------------------- */

struct reduction {
    struct graph_reduce reduce;
    bool noop; /* no axes mean no reduction */
    int in;
};

/* Axes moved from attribute to input with opset 13 for ReduceSum, 18 for the
 * others. */
static int read_reduction(struct onnx_import *im, int since,
                          enum kern_reduce_kind kind, struct reduction *r)
{
    int64_t axis[INFER_MAX_RANK];
    bool noop = false, keep = true;
    int i, n = 0;

    memset(r, 0, sizeof(*r));
    r->reduce.kind = kind;
    onnx_arity(im, 1, im->opset >= since ? 2 : 1);
    onnx_flag(im, "keepdims", &keep);
    onnx_flag(im, "noop_with_empty_axes", &noop);
    onnx_axes(im, "axes", 1, since, axis, &n);
    if (onnx_input(im, 0, &r->in) < 0)
        return im->rc;
    r->reduce.keep_dims = keep;
    r->reduce.n_axes = n;
    for (i = 0; i < n; i++) {
        if (axis[i] < -INFER_MAX_RANK || axis[i] >= INFER_MAX_RANK)
            return onnx_fail(im, INFER_EFORMAT, "axis %lld",
                             (long long)axis[i]);
        r->reduce.axis[i] = (int)axis[i];
    }
    r->noop = noop && n == 0;
    return 0;
}

static int emit_reduce(struct onnx_import *im, const struct reduction *r,
                       int in, int out, int *value)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_REDUCE, &attr);
    attr.reduce = r->reduce;
    return onnx_emit(im, GRAPH_REDUCE, &attr, &in, 1, out, value);
}

/* Truth values have an order, but no kernel of their own. */
static int reduce_bool(struct onnx_import *im, const struct reduction *r)
{
    int v;

    onnx_emit_cast(im, INFER_U8, r->in, -1, &v);
    emit_reduce(im, r, v, -1, &v);
    return onnx_emit_cast(im, INFER_BOOL, v, 0, NULL);
}

int onnx_import_reduce(struct onnx_import *im)
{
    const enum kern_reduce_kind kind = (enum kern_reduce_kind)im->param;
    struct reduction r;
    int64_t count;

    if (read_reduction(im, kind == KERN_REDUCE_SUM ? 13 : 18, kind, &r) < 0)
        return im->rc;
    if (r.noop && (kind == KERN_REDUCE_L1 || kind == KERN_REDUCE_L2))
        return onnx_emit_unary(im, KERN_ABS, 0, 0, r.in, 0, NULL);
    if (r.noop)
        return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, r.in, 0, NULL);
    if ((kind == KERN_REDUCE_MAX || kind == KERN_REDUCE_MIN) &&
        checked_count(im->type[r.in][0].rank, im->type[r.in][0].dim, &count) &&
        count == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "the extreme of an empty tensor");
    if (im->type[r.in][0].dtype == INFER_BOOL)
        return reduce_bool(im, &r);
    return emit_reduce(im, &r, r.in, 0, NULL);
}

/* ReduceSumSquare. */
int onnx_import_reduce_square(struct onnx_import *im)
{
    struct reduction r;
    int square;

    read_reduction(im, 18, KERN_REDUCE_SUM, &r);
    onnx_emit_binary(im, KERN_MUL, r.in, r.in, r.noop ? 0 : -1, &square);
    return r.noop ? im->rc : emit_reduce(im, &r, square, 0, NULL);
}

/* ReduceLogSum. */
int onnx_import_reduce_log_sum(struct onnx_import *im)
{
    struct reduction r;
    int sum;

    read_reduction(im, 18, KERN_REDUCE_SUM, &r);
    sum = r.in;
    if (!r.noop)
        emit_reduce(im, &r, r.in, -1, &sum);
    return onnx_emit_unary(im, KERN_LOG, 0, 0, sum, 0, NULL);
}

int onnx_import_arg_reduce(struct onnx_import *im)
{
    union graph_attr attr;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_ARG_REDUCE, &attr);
    attr.axis.axis = onnx_axis(im, 0);
    attr.axis.keep_dims = true;
    attr.axis.select_last = false;
    attr.axis.min = im->param != 0;
    onnx_flag(im, "keepdims", &attr.axis.keep_dims);
    onnx_flag(im, "select_last_index", &attr.axis.select_last);
    return onnx_emit_node(im, GRAPH_ARG_REDUCE, &attr, 1);
}

/* Before opset 13 the sum runs over all dimensions from axis (default 1) on;
 * later over axis (default the last) alone. */
int onnx_import_softmax(struct onnx_import *im)
{
    union graph_attr attr;

    onnx_arity(im, 1, 1);
    onnx_defaults(GRAPH_SOFTMAX, &attr);
    attr.axis.axis = onnx_axis(im, im->opset < 13 ? 1 : -1);
    attr.axis.log = im->param != 0;
    attr.axis.flatten = im->opset < 13;
    return onnx_emit_node(im, GRAPH_SOFTMAX, &attr, 1);
}
