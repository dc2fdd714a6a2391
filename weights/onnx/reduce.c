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
                          struct reduction *r, struct infer_error *err)
{
    int64_t axis[INFER_MAX_RANK];
    bool noop = false, keep = true;
    int i, n = 0;
    int rc = onnx_arity(im, 1, im->opset >= since ? 2 : 1, err);

    if (rc == 0)
        rc = onnx_flag(im, "keepdims", &keep, err);
    if (rc == 0)
        rc = onnx_flag(im, "noop_with_empty_axes", &noop, err);
    if (rc == 0)
        rc = onnx_axes(im, "axes", 1, since, axis, &n, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &r->in, err);
    if (rc < 0)
        return rc;
    r->reduce.keep_dims = keep;
    r->reduce.n_axes = n;
    for (i = 0; i < n; i++) {
        if (axis[i] < -INFER_MAX_RANK || axis[i] >= INFER_MAX_RANK)
            return error_set(err, INFER_EFORMAT, "axis %lld",
                             (long long)axis[i]);
        r->reduce.axis[i] = (int)axis[i];
    }
    r->noop = noop && n == 0;
    return 0;
}

static int emit_reduce(struct onnx_import *im, const struct reduction *r,
                       int in, int out, int *value, struct infer_error *err)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_REDUCE, &attr);
    attr.reduce = r->reduce;
    return onnx_emit(im, GRAPH_REDUCE, &attr, &in, 1, out, value, err);
}

/* Truth values have an order, but no kernel of their own. */
static int reduce_bool(struct onnx_import *im, const struct reduction *r,
                       struct infer_error *err)
{
    int v, rc = onnx_emit_cast(im, INFER_U8, r->in, -1, &v, err);

    if (rc == 0)
        rc = emit_reduce(im, r, v, -1, &v, err);
    if (rc == 0)
        rc = onnx_emit_cast(im, INFER_BOOL, v, 0, NULL, err);
    return rc;
}

int onnx_import_reduce(struct onnx_import *im, int kind,
                       struct infer_error *err)
{
    struct reduction r;
    int64_t count;
    int rc;

    memset(&r, 0, sizeof(r));
    rc = read_reduction(im, kind == KERN_REDUCE_SUM ? 13 : 18, &r, err);
    if (rc < 0)
        return rc;
    r.reduce.kind = (enum kern_reduce_kind)kind;
    if (r.noop && (kind == KERN_REDUCE_L1 || kind == KERN_REDUCE_L2))
        return onnx_emit_unary(im, KERN_ABS, 0, 0, r.in, 0, NULL, err);
    if (r.noop)
        return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, r.in, 0, NULL, err);
    if ((kind == KERN_REDUCE_MAX || kind == KERN_REDUCE_MIN) &&
        checked_count(im->type[r.in][0].rank, im->type[r.in][0].dim, &count) &&
        count == 0)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the extreme of an empty tensor");
    if (im->type[r.in][0].dtype == INFER_BOOL)
        return reduce_bool(im, &r, err);
    return emit_reduce(im, &r, r.in, 0, NULL, err);
}

/* ReduceSumSquare. */
int onnx_import_reduce_square(struct onnx_import *im, int param,
                              struct infer_error *err)
{
    struct reduction r;
    int square, rc;

    (void)param;
    memset(&r, 0, sizeof(r));
    rc = read_reduction(im, 18, &r, err);
    r.reduce.kind = KERN_REDUCE_SUM;
    if (rc == 0)
        rc = onnx_emit_binary(im, KERN_MUL, r.in, r.in, r.noop ? 0 : -1,
                              &square, err);
    if (rc < 0 || r.noop)
        return rc;
    return emit_reduce(im, &r, square, 0, NULL, err);
}

/* ReduceLogSum. */
int onnx_import_reduce_log_sum(struct onnx_import *im, int param,
                               struct infer_error *err)
{
    struct reduction r;
    int sum, rc;

    (void)param;
    memset(&r, 0, sizeof(r));
    rc = read_reduction(im, 18, &r, err);
    r.reduce.kind = KERN_REDUCE_SUM;
    sum = r.in;
    if (rc == 0 && !r.noop)
        rc = emit_reduce(im, &r, r.in, -1, &sum, err);
    if (rc < 0)
        return rc;
    return onnx_emit_unary(im, KERN_LOG, 0, 0, sum, 0, NULL, err);
}

int onnx_import_arg_reduce(struct onnx_import *im, int min,
                           struct infer_error *err)
{
    union graph_attr attr;
    int64_t axis = 0;
    bool keep = true, last = false;
    int in, rc = onnx_arity(im, 1, 1, err);

    onnx_defaults(GRAPH_ARG_REDUCE, &attr);
    if (rc == 0)
        rc = onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis, err);
    if (rc == 0)
        rc = onnx_flag(im, "keepdims", &keep, err);
    if (rc == 0)
        rc = onnx_flag(im, "select_last_index", &last, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    attr.axis.axis = (int)axis;
    attr.axis.keep_dims = keep;
    attr.axis.select_last = last;
    attr.axis.min = min != 0;
    return onnx_emit(im, GRAPH_ARG_REDUCE, &attr, &in, 1, 0, NULL, err);
}

/* Before opset 13 the sum runs over all dimensions from axis (default 1) on;
 * later over axis (default the last) alone. */
int onnx_import_softmax(struct onnx_import *im, int log,
                        struct infer_error *err)
{
    union graph_attr attr;
    int64_t axis = im->opset < 13 ? 1 : -1;
    int in, rc = onnx_arity(im, 1, 1, err);

    onnx_defaults(GRAPH_SOFTMAX, &attr);
    if (rc == 0)
        rc = onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    attr.axis.axis = (int)axis;
    attr.axis.log = log != 0;
    attr.axis.flatten = im->opset < 13;
    return onnx_emit(im, GRAPH_SOFTMAX, &attr, &in, 1, 0, NULL, err);
}
