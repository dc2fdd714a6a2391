/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators do with tensors whose number of entries is computed at run
 * time (counted.c).  An operator that keeps entries apart gives the count on;
 * one that mixes them gets the rest masked first, and others are refused.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "weights/onnx/counted/counted.h"

/* ---- entries stay apart -------------------------------------------- */

typedef int rule_fn(struct onnx_import *im, const struct onnx_op *op);

/* Whether the size in the shape of an Expand is that of the axis. */
static bool expands_to(struct onnx_import *im, int axis, int count)
{
    const int at = counted_size_at(im, 1);
    struct graph_type shape;
    int own;

    return at >= 0 && counted_limit_at(im, 1, 0, &own) >= 0 && own == count &&
           onnx_input_type(im, 1, 0, &shape) == 0 && shape.rank == 1 &&
           at + counted_output(im, 0, 0).rank - (int)shape.dim[0] == axis;
}

/* Element by element, with shapes that are aligned at their ends. */
static int rule_each(struct onnx_import *im, const struct onnx_op *op)
{
    int axis = -1, count = -1, rank;

    op->import(im);
    rank = counted_output(im, 0, 0).rank;
    for (int i = 0; i < im->node->n_in && im->rc == 0; i++) {
        const struct counted p = counted_part(im, i);
        const int at = p.axis + rank - counted_rank(im, i);

        if (p.count < 0)
            continue;
        if (count >= 0 && at != axis)
            return counted_mixes(im);
        axis = at;
        count = count < 0 ? p.count : count;
    }
    if (counted_input_is_sized(im, 1) && !expands_to(im, axis, count))
        return counted_mixes(im);
    return onnx_set_counted(im, 0, axis, count);
}

/* Along dimensions of input 0 that the count is not of. */
static int rule_rows(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    int64_t flipped = 0;
    int i;

    counted_first(im, &i);
    if (i != 0 || p.axis != 0)
        return counted_mixes(im);
    for (i = 1; i < im->node->n_in; i++)
        if (counted_part(im, i).count >= 0)
            return counted_mixes(im);
    if (op->import == onnx_import_gemm)
        onnx_int(im, "transA", 0, 1, &flipped);
    if (flipped || counted_rank(im, 0) < 2 ||
        (counted_input_is_sized(im, 3) && counted_size_at(im, 3) != 0))
        return counted_mixes(im);
    op->import(im);
    return onnx_set_counted(im, 0, 0, p.count);
}

static int rule_matmul(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    const int rank = counted_rank(im, 0);

    if (p.count < 0 || counted_part(im, 1).count >= 0 || p.axis >= rank - 1)
        return counted_mixes(im);
    op->import(im);
    return onnx_set_counted(
        im, 0, p.axis + counted_output(im, 0, 0).rank - rank, p.count);
}

static int rule_transpose(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    const struct onnx_attr *a = onnx_attr(im, "perm");
    const int rank = counted_rank(im, 0);
    int at = rank - 1 - p.axis;

    for (size_t k = 0; a && a->type == ONNX_ATTR_INTS && k < a->count; k++)
        if (a->ints[k] == p.axis || a->ints[k] + rank == p.axis)
            at = (int)k;
    op->import(im);
    return onnx_set_counted(im, 0, at, p.count);
}

/* Whether output dimension d is input dimensions axis .. end - 1 together, at
 * every probe; *times: how many elements those behind the axis have. */
static bool is_joined(struct onnx_import *im, int axis, int end, int d,
                      int64_t *times)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type out = counted_output(im, 0, p);
        const struct graph_type in = onnx_type_of_input(im, 0, p);

        if (counted_elements(&in, 0, axis) != counted_elements(&out, 0, d) ||
            counted_elements(&in, axis, end) != out.dim[d] ||
            (p > 0 && counted_elements(&in, axis + 1, end) != *times))
            return false;
        *times = counted_elements(&in, axis + 1, end);
    }
    return true;
}

/* Output 0 has so many times as many entries. */
static int counted_set_times(struct onnx_import *im, int axis, int count,
                             int64_t times)
{
    const int all = compose_binary(im, KERN_MUL, count,
                                   compose_integer(im, INFER_I64, times));
    struct onnx_times *multiple = onnx_alloc(&im->keep, sizeof *multiple);
    int v;

    if (!multiple)
        return onnx_no_memory(im);
    *multiple = (struct onnx_times){times, count};
    if (onnx_set_counted(im, 0, axis, all) < 0)
        return im->rc;
    v = onnx_value_find(im, im->node->out[0]);
    if (v >= 0)
        im->value[v].multiple = multiple;
    return im->rc;
}

/* Another shape: the axis is where as many elements lie before it, and it has
 * the same size, or that of the axis and some behind it together. */
static int rule_shape(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    const bool sized = counted_input_is_sized(im, 1);
    const int rank = counted_rank(im, 0);
    int64_t times = 1;

    if (p.count < 0)
        return counted_mixes(im);
    op->import(im);
    for (int d = 0; d < counted_output(im, 0, 0).rank; d++)
        for (int end = p.axis + 1; end <= rank; end++) {
            if (!is_joined(im, p.axis, end, d, &times) ||
                (sized && (times != 1 || counted_size_at(im, 1) != d)))
                continue;
            if (times == 1)
                return onnx_set_counted(im, 0, d, p.count);
            return counted_set_times(im, d, p.count, times);
        }
    return counted_mixes(im);
}

/* Operators of one axis, which is another one, or along which the first
 * entries do not depend on later ones. */
static int rule_axis(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    const int x = compose_input(im, 0);
    const int axis = compose_axis(im, x, 0);

    if (p.count < 0 || (im->rc == 0 && axis == p.axis))
        return counted_mixes(im);
    op->import(im);
    for (int i = 0; i < im->node->n_out; i++)
        onnx_set_counted(im, i, p.axis, p.count);
    return im->rc;
}

static int rule_tile(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    const int rank = counted_rank(im, 0);

    if (p.count < 0 || counted_input_is_sized(im, 1))
        return counted_mixes(im);
    op->import(im);
    if (im->rc == 0 && (counted_output(im, 0, 0).rank != rank ||
                        !counted_same_size(im, p.axis)))
        return counted_mixes(im);
    return onnx_set_counted(im, 0, p.axis, p.count);
}

static int rule_roi_align(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 1);

    if (counted_part(im, 0).count >= 0 || p.count < 0 || p.axis != 0)
        return counted_mixes(im);
    op->import(im);
    return onnx_set_counted(im, 0, 0, p.count);
}

/* ---- along the axis ------------------------------------------------ */

static double fill_of(const char *op)
{
    if (strcmp(op, "ReduceMax") == 0 || strcmp(op, "ReduceLogSumExp") == 0)
        return -INFINITY;
    if (strcmp(op, "ReduceMin") == 0)
        return INFINITY;
    return strcmp(op, "ReduceProd") == 0 ? 1 : 0;
}

static int rule_reduce(struct onnx_import *im, const struct onnx_op *op)
{
    const int since = strcmp(op->name, "ReduceSum") == 0 ? 13 : 18;
    const struct counted p = counted_part(im, 0);
    const int rank = counted_rank(im, 0);
    int64_t axes[INFER_MAX_RANK];
    bool keep = true, noop = false, along;
    int n = 0, below = 0;

    onnx_flag(im, "keepdims", &keep);
    onnx_flag(im, "noop_with_empty_axes", &noop);
    onnx_axes(im, "axes", 1, since, axes, &n);
    along = n == 0 && !noop;
    for (int i = 0; i < n && im->rc == 0; i++) {
        const int64_t axis = axes[i] + (axes[i] < 0 ? rank : 0);

        along = along || axis == p.axis;
        below += axis < p.axis;
    }
    if (im->rc < 0)
        return im->rc;
    if (!along) {
        op->import(im);
        return onnx_set_counted(im, 0, p.axis - (keep ? 0 : below), p.count);
    }
    if (strcmp(op->name, "ReduceMean") == 0)
        return counted_mixes(im);
    return counted_import_masked(im, op, 0, fill_of(op->name));
}

static int rule_softmax(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    const bool old = im->opset < 13; /* all dimensions from the axis on */
    const int axis = compose_axis(im, compose_input(im, 0), old ? 1 : -1);

    if (old ? p.axis >= axis : p.axis == axis)
        counted_import_masked(im, op, 0, -(double)FLT_MAX);
    else
        op->import(im);
    return onnx_set_counted(im, 0, p.axis, p.count);
}

static int rule_top_k(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    const int axis = compose_axis(im, compose_input(im, 0), -1);
    bool largest = true;
    int count = p.count, k = -1;

    onnx_flag(im, "largest", &largest);
    if (im->rc < 0)
        return im->rc;
    if (counted_input_is_sized(im, 1)) {
        if (axis != p.axis || counted_limit_at(im, 1, 0, &k) < 0)
            return counted_mixes(im);
        if (k != count)
            count = compose_binary(im, KERN_MIN, count, k);
    }
    if (axis == p.axis) {
        counted_import_masked(im, op, 0, largest ? -INFINITY : INFINITY);
        count = counted_at_most(
            im, count,
            counted_output(im, onnx_has_output(im, 0) ? 0 : 1, 0).dim[axis]);
    } else {
        op->import(im);
    }
    onnx_set_counted(im, 0, p.axis, count);
    return onnx_set_counted(im, 1, p.axis, count);
}

static int rule_arg(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    const int axis = compose_axis(im, compose_input(im, 0), 0);
    bool keep = true;

    onnx_flag(im, "keepdims", &keep);
    if (im->rc < 0 || axis == p.axis)
        return counted_import_masked(im, op, 0,
                                     op->param ? INFINITY : -INFINITY);
    op->import(im);
    return onnx_set_counted(im, 0, p.axis - (!keep && axis < p.axis), p.count);
}

static int rule_cumulate(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);
    int64_t axis = 0;
    bool reverse = false;
    int n = 0;

    onnx_flag(im, "reverse", &reverse);
    onnx_input_ints(im, 1, "the axis", 1, &axis, &n);
    if (reverse && (axis + (axis < 0 ? counted_rank(im, 0) : 0)) == p.axis)
        return counted_mixes(im);
    op->import(im);
    return onnx_set_counted(im, 0, p.axis, p.count);
}

/* Parts are moved together, in their order. */
static int join(struct onnx_import *im, int axis)
{
    const int n = im->node->n_in;
    int *x = onnx_alloc(&im->scratch, 2 * (size_t)n * sizeof *x);
    int *flag = x + n, count = -1, at, y;

    if (!x)
        return onnx_no_memory(im);
    for (int i = 0; i < n && im->rc == 0; i++) {
        const struct counted p = counted_part(im, i);

        if (p.count >= 0 && p.axis != axis)
            return counted_mixes(im);
        x[i] = compose_input(im, i);
        if (p.count < 0)
            flag[i] = compose_filled(im, 1, x[i], axis);
        else
            flag[i] = compose_cast(
                im, INFER_I64,
                compose_binary(im, KERN_LESS,
                               compose_count_of(im, x[i], axis, 1, 0),
                               p.count));
    }
    if (im->rc < 0)
        return im->rc;
    at = counted_ones(im, compose_concat(im, n, flag, 0), &count);
    y = compose_gather(im, compose_concat(im, n, x, axis), at, axis);
    compose_output(im, 0, y);
    return onnx_set_counted(im, 0, axis, count);
}

static int rule_concat(struct onnx_import *im, const struct onnx_op *op)
{
    int i, axis;
    const struct counted p = counted_first(im, &i);

    axis = compose_axis(im, compose_input(im, i), 1);
    if (im->rc < 0)
        return im->rc;
    if (axis == p.axis && im->node->n_in > 1)
        return join(im, axis);
    for (i = 0; i < im->node->n_in; i++)
        if (counted_part(im, i).count >= 0 &&
            counted_part(im, i).axis != p.axis)
            return counted_mixes(im);
    op->import(im);
    return onnx_set_counted(im, 0, p.axis, p.count);
}

/* ---- picking ------------------------------------------------------- */

static int rule_gather(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted data = counted_part(im, 0),
                         index = counted_part(im, 1);
    const int axis = compose_axis(im, compose_input(im, 0), 0);
    const int wide = counted_rank(im, 1);

    if (im->rc == 0 && index.count >= 0 && data.count >= 0 && data.axis != axis)
        return counted_mixes(im);
    op->import(im);
    if (index.count >= 0)
        return onnx_set_counted(im, 0, axis + index.axis, index.count);
    if (data.axis == axis) /* chosen entries, which have to be there */
        return im->rc;
    return onnx_set_counted(
        im, 0, data.axis + (data.axis > axis ? wide - 1 : 0), data.count);
}

static int rule_gather_nd(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted data = counted_part(im, 0),
                         index = counted_part(im, 1);
    int64_t batch = 0;

    onnx_int(im, "batch_dims", 0, INFER_MAX_RANK, &batch);
    if (im->rc == 0 &&
        (batch != 0 || (data.count >= 0 && data.axis != 0) ||
         (index.count >= 0 && index.axis == counted_rank(im, 1) - 1)))
        return counted_mixes(im);
    op->import(im);
    return onnx_set_counted(im, 0, index.axis, index.count);
}

static int rule_gather_elements(struct onnx_import *im,
                                const struct onnx_op *op)
{
    const struct counted data = counted_part(im, 0),
                         index = counted_part(im, 1);
    const int axis = compose_axis(im, compose_input(im, 0), 0);

    if (im->rc == 0 && data.count >= 0 && data.axis != axis &&
        (index.count < 0 || index.axis != data.axis))
        return counted_mixes(im);
    op->import(im);
    return onnx_set_counted(im, 0, index.axis, index.count);
}

/* Indices behind the count become those of a row behind the last, and the
 * result is without it. */
static int scatter_rows(struct onnx_import *im, const char *op, int axis,
                        struct counted index)
{
    const int x = compose_input(im, 0), at = compose_input(im, 1);
    struct pb_span in[3], out = onnx_fresh_name(im, im->node->out[0]);
    const struct onnx_node *own = im->node;
    const struct counted data = counted_part(im, 0);
    int y = -1, wide;

    if (im->rc == 0 && data.count >= 0 && data.axis != axis)
        return counted_mixes(im);
    wide = compose_pad(im, x, axis, 0, 1, 0);
    in[0] = counted_name(im, wide);
    in[1] = counted_name(
        im, counted_masked_by(im, compose_cast(im, INFER_I64, at), index,
                              compose_entries(im, x, axis)));
    in[2] = counted_name(im, compose_input(im, 2)); /* without its count */
    onnx_step(im, op, in, 3, out, own->attr, own->n_attr);
    for (int i = 0; i < own->n_attr; i++)
        own->attr[i].used = true;
    if (im->rc == 0 && onnx_value_get(im, out, &y) == 0)
        onnx_value_graph(im, y, &y);
    y = compose_slice(im, y, axis, 0, -1, 1);
    compose_output(im, 0, y);
    return onnx_set_counted(im, 0, data.axis, data.count);
}

static int rule_scatter(struct onnx_import *im, const struct onnx_op *op)
{
    const bool nd = op->import == onnx_import_scatter_nd;
    struct counted index = counted_part(im, 1);
    int axis = 0;

    if (index.count < 0) {
        index = counted_part(im, 2);
        if (index.count < 0) { /* only what is written to */
            index = counted_part(im, 0);
            op->import(im);
            return onnx_set_counted(im, 0, index.axis, index.count);
        }
    }
    if (!nd)
        axis = compose_axis(im, compose_input(im, 0), 0);
    if (im->rc < 0)
        return im->rc;
    if (nd ? index.axis == counted_rank(im, 1) - 1 : index.axis != axis)
        return counted_mixes(im);
    if (nd) {
        struct graph_type t;

        if (onnx_input_type(im, 1, 0, &t) == 0 && t.dim[t.rank - 1] != 1)
            return counted_mixes(im);
    }
    return scatter_rows(im, op->name, axis, index);
}

/* From the first entry on, in steps of 1. */
static int rule_slice(struct onnx_import *im, const struct onnx_op *op)
{
    int64_t begin[INFER_MAX_RANK], end[INFER_MAX_RANK], axes[INFER_MAX_RANK];
    int64_t step[INFER_MAX_RANK];
    const struct counted p = counted_part(im, 0);
    int n = 0, m = 0, n_axes = -1, n_steps = -1, count = p.count, own = -1;
    bool sized = im->opset >= 10 && counted_input_is_sized(im, 2);
    const int at = sized ? counted_limit_at(im, 2, 0, &own) : -1;
    const int rank = counted_rank(im, 0);

    if (im->opset < 10) {
        onnx_ints(im, "starts", INFER_MAX_RANK, begin, &n);
        onnx_ints(im, "ends", INFER_MAX_RANK, end, &m);
        onnx_ints(im, "axes", INFER_MAX_RANK, axes, &n_axes);
    } else {
        onnx_input_ints(im, 1, "starts", INFER_MAX_RANK, begin, &n);
        onnx_input_ints(im, 2, "ends", INFER_MAX_RANK, end, &m);
        onnx_input_ints(im, 3, "axes", INFER_MAX_RANK, axes, &n_axes);
        onnx_input_ints(im, 4, "steps", INFER_MAX_RANK, step, &n_steps);
    }
    for (int i = 0; i < n && i < m && im->rc == 0; i++) {
        const int64_t axis = n_axes > i ? axes[i] : i;

        if (axis + (axis < 0 ? rank : 0) != p.axis)
            continue;
        if (begin[i] != 0 || end[i] < 0 || (n_steps > i && step[i] != 1) ||
            (sized && at != i))
            return counted_mixes(im);
        if (sized && own != p.count)
            count = compose_binary(im, KERN_MIN, count, own);
        sized = false;
        if (end[i] < INT32_MAX)
            count = counted_at_most(im, count, end[i]);
    }
    if (sized) /* along another axis */
        return counted_mixes(im);
    op->import(im);
    return onnx_set_counted(im, 0, p.axis, count);
}

/* Whether element k of a small tensor is 0 at every probe. */
static bool is_zero(const struct onnx_import *im,
                    const struct onnx_small *const *small, int k)
{
    for (int p = 0; p < im->probes; p++)
        if (!small[p]->i || k >= small[p]->count || small[p]->i[k] != 0)
            return false;
    return true;
}

/* Padding by as many entries as are missing from a fixed number, behind the
 * last: then all of them count. */
static int pad_missing(struct onnx_import *im, const struct onnx_op *op)
{
    static const char *const constant[] = {"constant", NULL};
    const struct counted p = counted_part(im, 0);
    const int v = onnx_value_find(im, im->node->in[0]);
    const struct onnx_times *multiple = im->value[v].multiple;
    const int64_t times = multiple ? multiple->times : 0;
    const int base = multiple ? multiple->base : p.count;
    const struct onnx_small *const *pads;
    const int rank = counted_rank(im, 0);
    float fill = 0;
    int own = -1, mode = 0;

    onnx_word(im, "mode", constant, &mode);
    pads = onnx_small_input(im, 1);
    if (im->rc < 0)
        return im->rc;
    if (!pads || pads[0]->count != 2 * rank || !is_zero(im, pads, p.axis) ||
        counted_limit_at(im, 1, times > 0 ? times : 1, &own) != rank + p.axis ||
        own != base || onnx_has_input(im, 3))
        return counted_mixes(im);
    onnx_input_float(im, 2, "the value", &fill);
    return counted_import_masked(im, op, 0, (double)fill);
}

static int rule_pad(struct onnx_import *im, const struct onnx_op *op)
{
    const struct counted p = counted_part(im, 0);

    if (im->opset >= 11 && counted_input_is_sized(im, 1))
        return pad_missing(im, op);
    op->import(im);
    if (im->rc == 0 && !counted_same_size(im, p.axis))
        return counted_mixes(im);
    return onnx_set_counted(im, 0, p.axis, p.count);
}

/* Boxes behind the count have no score that is high enough. */
static int rule_nms(struct onnx_import *im, const struct onnx_op *op)
{
    struct counted p = counted_part(im, 1);

    if (p.count < 0)
        p = (struct counted){2, counted_part(im, 0).count};
    if (p.axis != 2 ||
        (counted_part(im, 0).count >= 0 && counted_part(im, 0).axis != 1))
        return counted_mixes(im);
    return counted_import_with(
        im, op, 1, counted_masked(im, compose_input(im, 1), p, -INFINITY));
}

static int rule_non_zero(struct onnx_import *im, const struct onnx_op *op)
{
    (void)op;
    return onnx_counted_non_zero(im);
}

/* ---- the table ----------------------------------------------------- */

static const struct {
    onnx_op_fn *import;
    rule_fn *rule;
} rules[] = {
    {onnx_import_unary, rule_each},
    {onnx_import_binary, rule_each},
    {onnx_import_variadic, rule_each},
    {onnx_import_where, rule_each},
    {onnx_import_cast, rule_each},
    {onnx_import_clip, rule_each},
    {onnx_import_identity, rule_each},
    {onnx_import_gelu, rule_each},
    {onnx_import_pow, rule_each},
    {onnx_import_xor, rule_each},
    {onnx_import_mean, rule_each},
    {onnx_import_is_nan, rule_each},
    {onnx_import_is_inf, rule_each},
    {onnx_import_expand, rule_each},
    {onnx_import_dropout, rule_each},
    {onnx_import_gemm, rule_rows},
    {onnx_import_conv, rule_rows},
    {onnx_import_pool, rule_rows},
    {onnx_import_global_pool, rule_rows},
    {onnx_import_batch_norm, rule_rows},
    {onnx_import_instance_norm, rule_rows},
    {onnx_import_group_norm, rule_rows},
    {onnx_import_resize, rule_rows},
    {onnx_import_upsample, rule_rows},
    {onnx_import_matmul, rule_matmul},
    {onnx_import_transpose, rule_transpose},
    {onnx_import_reshape, rule_shape},
    {onnx_import_flatten, rule_shape},
    {onnx_import_ones, rule_shape},
    {onnx_import_split, rule_axis},
    {onnx_import_tile, rule_tile},
    {onnx_import_roi_align, rule_roi_align},
    {onnx_import_reduce, rule_reduce},
    {onnx_import_reduce_square, rule_reduce},
    {onnx_import_reduce_log_sum, rule_reduce},
    {onnx_import_log_sum_exp, rule_reduce},
    {onnx_import_softmax, rule_softmax},
    {onnx_import_top_k, rule_top_k},
    {onnx_import_arg_reduce, rule_arg},
    {onnx_import_cumulate, rule_cumulate},
    {onnx_import_concat, rule_concat},
    {onnx_import_gather, rule_gather},
    {onnx_import_gather_nd, rule_gather_nd},
    {onnx_import_gather_elements, rule_gather_elements},
    {onnx_import_scatter_nd, rule_scatter},
    {onnx_import_scatter_elements, rule_scatter},
    {onnx_import_slice, rule_slice},
    {onnx_import_pad, rule_pad},
    {onnx_import_nms, rule_nms},
    {onnx_import_non_zero, rule_non_zero},
    /* their bodies read what is counted */
    {onnx_import_if, NULL},
    {onnx_import_loop, NULL},
};

/* Inputs that may be computed from a size; their rules look at them. */
static const struct {
    onnx_op_fn *import;
    int input;
} sizes[] = {
    {onnx_import_expand, 1}, {onnx_import_reshape, 1}, {onnx_import_resize, 3},
    {onnx_import_top_k, 1},  {onnx_import_slice, 2},   {onnx_import_pad, 1},
};

static bool takes_size(const struct onnx_op *op, int i)
{
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        if (sizes[k].import == op->import && sizes[k].input == i)
            return true;
    return op->import == onnx_import_loop;
}

int onnx_import_counted(struct onnx_import *im, const struct onnx_op *op)
{
    for (int i = 0; i < im->node->n_in; i++)
        if (counted_input_is_sized(im, i) && !takes_size(op, i))
            return counted_as_data(im, i);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].import == op->import)
            return rules[i].rule ? rules[i].rule(im, op) : op->import(im);
    return counted_mixes(im);
}
