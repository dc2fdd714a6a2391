/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors whose number of entries along an axis is computed at run time: what
 * NonZero and NonMaxSuppression find.
 *
 * Sizes of the graph do not depend on data.  Such a tensor has room for the
 * most entries that there can be, and a count beside it, a value of the graph;
 * what lies behind the count is of no meaning.  Shape gives the room.  An
 * operator that keeps entries apart gives the count on; one that mixes them
 * gets the rest masked first, and others are refused.  At the end of the graph
 * the rest is 0, or -1 in integers, and the count is an output, too.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"

/* ---- counts of inputs and outputs ---------------------------------- */

struct part {
    int axis, count; /* count: a value of the graph, -1 where all count */
};

static struct part part_of(const struct onnx_import *im, int i)
{
    const int v =
        onnx_has_input(im, i) ? onnx_value_find(im, im->node->in[i]) : -1;

    if (v < 0 || im->value[v].count == 0)
        return (struct part){0, -1};
    return (struct part){im->value[v].axis, im->value[v].count - 1};
}

/* The first counted input; its number in *i. */
static struct part first_part(const struct onnx_import *im, int *i)
{
    struct part p = {0, -1};

    for (*i = 0; *i < im->node->n_in; (*i)++) {
        p = part_of(im, *i);
        if (p.count >= 0)
            break;
    }
    return p;
}

bool onnx_reads_counted(const struct onnx_import *im)
{
    int i;

    return first_part(im, &i).count >= 0;
}

static int set_part(struct onnx_import *im, int output, int axis, int count)
{
    int v;

    if (im->rc < 0 || !onnx_has_output(im, output) || count < 0 ||
        onnx_value_get(im, im->node->out[output], &v) < 0)
        return im->rc;
    im->value[v].count = count + 1;
    im->value[v].axis = axis;
    return 0;
}

int onnx_set_counted(struct onnx_import *im, int output, int axis, int count)
{
    return set_part(im, output, axis, count);
}

static int mixes(struct onnx_import *im)
{
    return onnx_fail(im, INFER_EUNSUPPORTED,
                     "how many entries an input has is computed at run time, "
                     "and this operator is not known to keep them apart");
}

static int rank_of_input(struct onnx_import *im, int i)
{
    struct graph_type t;

    onnx_input_type(im, i, 0, &t);
    return im->rc < 0 ? 0 : t.rank;
}

/* Type of an output that was made. */
static struct graph_type output_type(struct onnx_import *im, int i)
{
    struct graph_type t = {.rank = 0};

    if (im->rc == 0 && onnx_has_output(im, i))
        onnx_named_type(im, im->node->out[i], 0, &t);
    return t;
}

/* ---- sizes --------------------------------------------------------- */

/* The first input that is computed from the size of a counted axis; NULL where
 * there is none.  Shape and Size of a counted tensor fill *own. */
static const struct onnx_value *sized_input(struct onnx_import *im,
                                            struct onnx_value *own)
{
    const bool of_shape =
        strcmp(im->node->op, "Shape") == 0 || strcmp(im->node->op, "Size") == 0;

    for (int i = 0; i < im->node->n_in; i++) {
        const int v =
            onnx_has_input(im, i) ? onnx_value_find(im, im->node->in[i]) : -1;
        struct graph_type t;

        if (v >= 0 && im->value[v].sized && !of_shape)
            return &im->value[v];
        if (v < 0 || im->value[v].count == 0 || !of_shape ||
            onnx_input_type(im, i, 0, &t) < 0)
            continue;
        own->sized = im->value[v].count;
        own->room = t.dim[im->value[v].axis];
        own->axis = strcmp(im->node->op, "Shape") == 0 && im->node->n_attr == 0
                        ? im->value[v].axis
                        : -1;
        return own;
    }
    return NULL;
}

/* True where the current node picks other entries of a shape. */
static bool picks_other_sizes(struct onnx_import *im,
                              const struct onnx_value *from)
{
    const struct onnx_small *const *at;
    const struct onnx_small *const *shape;

    if (strcmp(im->node->op, "Gather") != 0 || from->axis < 0 ||
        onnx_input_small(im, 0, &shape) < 0 ||
        onnx_input_small(im, 1, &at) < 0 || !at || !shape || !at[0]->i)
        return false;
    for (int64_t k = 0; k < at[0]->count; k++)
        if (at[0]->i[k] == from->axis ||
            at[0]->i[k] == from->axis - shape[0]->count)
            return false;
    return true;
}

/* What Range, ConstantOfShape and Expand make of a size has as many entries.
 * Whatever else is folded is a number that depends on the size. */
int onnx_note_sizes(struct onnx_import *im, bool folded)
{
    static const char *const fills[] = {"Range", "ConstantOfShape", "Expand"};
    struct onnx_value own = {.sized = 0};
    const struct onnx_value *from;
    struct graph_type t;
    bool fill = false;
    int v, sized;
    int64_t room;

    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++)
        fill = fill || strcmp(im->node->op, fills[i]) == 0;
    if (im->rc < 0 || (!folded && !fill))
        return im->rc;
    from = sized_input(im, &own);
    if (!from || picks_other_sizes(im, from))
        return im->rc;
    sized = from->sized;
    room = from->room;
    for (int i = 0; i < im->node->n_out; i++) {
        v = onnx_has_output(im, i) ? onnx_value_find(im, im->node->out[i]) : -1;
        if (v < 0 || im->value[v].count > 0)
            continue;
        if (!fill) {
            im->value[v].sized = sized;
            im->value[v].room = room;
            im->value[v].axis = from == &own ? own.axis : -1;
            continue;
        }
        t = output_type(im, i);
        for (int d = t.rank - 1; d >= 0; d--)
            if (t.dim[d] == room) {
                im->value[v].count = sized;
                im->value[v].axis = d;
            }
        if (im->value[v].count == 0)
            return mixes(im);
    }
    return im->rc;
}

/* ---- masks --------------------------------------------------------- */

/* Which entries along the axis of x count. */
static int entries(struct onnx_import *im, int x, int axis, int count)
{
    const int n =
        compose_count(im, compose_dim(im, x, axis), compose_rank(im, x), axis);

    return compose_binary(im, KERN_LESS, n, count);
}

/* x, with this number behind the count. */
static int masked(struct onnx_import *im, int x, struct part p, double fill)
{
    const enum infer_dtype dtype = compose_dtype(im, x);
    int other;

    if (dtype == INFER_BOOL)
        return compose_binary(im, KERN_AND, x, entries(im, x, p.axis, p.count));
    if (scalar_is_integer(dtype))
        other = compose_integer(im, dtype,
                                fill > INT32_MAX   ? INT32_MAX
                                : fill < INT32_MIN ? INT32_MIN
                                                   : (int64_t)fill);
    else
        other = compose_number(im, dtype, fill);
    return compose_where(im, entries(im, x, p.axis, p.count), x, other);
}

/* A name for a value of the graph. */
static struct pb_span named(struct onnx_import *im, int value)
{
    const struct pb_span word = {(unsigned char *)"masked", 6};
    struct pb_span name = onnx_fresh_name(im, word);
    int v;

    if (im->rc == 0 && onnx_value_get(im, name, &v) == 0) {
        im->value[v].state = ONNX_GRAPH;
        im->value[v].graph = value;
    }
    return name;
}

/* Imports the node with another value as input i. */
static int import_with(struct onnx_import *im, const struct onnx_op *op, int i,
                       int value)
{
    const struct onnx_node *own = im->node;
    struct onnx_node node = *own;

    node.in = onnx_alloc(&im->scratch, (size_t)own->n_in * sizeof *node.in);
    if (!node.in)
        return onnx_no_memory(im);
    memcpy(node.in, own->in, (size_t)own->n_in * sizeof *node.in);
    node.in[i] = named(im, value);
    im->node = &node;
    if (im->rc == 0)
        op->import(im);
    im->node = own;
    return im->rc;
}

static int import_masked(struct onnx_import *im, const struct onnx_op *op,
                         int i, double fill)
{
    return import_with(im, op, i,
                       masked(im, compose_input(im, i), part_of(im, i), fill));
}

/* The smaller of a count and a number. */
static int at_most(struct onnx_import *im, int count, int64_t most)
{
    return compose_binary(im, KERN_MIN, count,
                          compose_integer(im, INFER_I64, most));
}

/* ---- NonZero ------------------------------------------------------- */

/* Indices of the elements of a flat I64 tensor of 0 and 1 that are 1, in
 * order; -1 behind them.  *count of one element. */
static int ones_of(struct onnx_import *im, int flags, int *count)
{
    const int64_t n = compose_dim(im, flags, 0), room = n + 1;
    union graph_attr attr;
    int64_t *data;
    int at, base;

    onnx_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.exclusive = true;
    onnx_emit(im, GRAPH_CUMULATE, &attr, &flags, 1, -1, &at);
    /* What is 0 goes to an element behind the last. */
    at = compose_where(im, compose_cast(im, INFER_BOOL, flags), at,
                       compose_integer(im, INFER_I64, n));
    base = compose_i64(im, 1, &room, &data);
    for (int64_t k = 0; base >= 0 && k < room; k++)
        data[k] = -1;
    *count = compose_reduce(im, KERN_REDUCE_SUM, flags, 0);
    at = compose_scatter(im, base, at, compose_count(im, n, 1, 0), 0,
                         KERN_SCATTER_SET);
    return compose_slice(im, at, 0, 0, n, 1);
}

/* 1 where an element of x is not 0, as a flat I64 tensor. */
static int flags_of(struct onnx_import *im, int x)
{
    const int64_t line = -1;

    if (compose_dtype(im, x) != INFER_BOOL)
        x = compose_unary(
            im, KERN_NOT,
            compose_binary(im, KERN_EQUAL, x,
                           compose_number(im, compose_dtype(im, x), 0)));
    return compose_reshape(im, compose_cast(im, INFER_I64, x), 1, &line);
}

/* Rows of coordinates of flat indices into x; -1 stays -1. */
static int coordinates(struct onnx_import *im, int x, int flat)
{
    const int rank = compose_rank(im, x);
    const int zero = compose_integer(im, INFER_I64, 0);
    int row[INFER_MAX_RANK], none;
    int64_t stride = 1;

    none = compose_binary(im, KERN_LESS, flat, zero);
    for (int d = rank - 1; d >= 0; d--) {
        const int64_t n = compose_dim(im, x, d);
        int at = flat;

        if (stride > 1)
            at = compose_binary(im, KERN_DIV, at,
                                compose_integer(im, INFER_I64, stride));
        if (d > 0)
            at = compose_binary(im, KERN_MOD, at,
                                compose_integer(im, INFER_I64, n));
        if (rank > 1)
            at = compose_where(im, none, flat, at);
        row[d] = compose_unsqueeze(im, at, 0);
        stride *= n > 0 ? n : 1;
    }
    return compose_concat(im, rank, row, 0);
}

int onnx_counted_non_zero(struct onnx_import *im)
{
    const struct part p = part_of(im, 0);
    int x = compose_input(im, 0), flat, count = -1;
    int64_t all = 1;

    compose_need_rank(im, x, 1, INFER_MAX_RANK);
    for (int d = 0; d < compose_rank(im, x); d++)
        if (!checked_mul_i64(all, compose_dim(im, x, d), &all))
            onnx_fail(im, INFER_EFORMAT, "the input overflows");
    if (im->rc == 0 && (all < 1 || all > INT32_MAX))
        return onnx_fail(im, INFER_EUNSUPPORTED, "an input of %lld elements",
                         (long long)all);
    if (p.count >= 0)
        x = masked(im, x, p, 0);
    flat = ones_of(im, flags_of(im, x), &count);
    compose_output(im, 0, coordinates(im, x, flat));
    return set_part(im, 0, 1, count);
}

/* ---- entries stay apart -------------------------------------------- */

typedef int rule_fn(struct onnx_import *im, const struct onnx_op *op);

/* Element by element, with shapes that are aligned at their ends. */
static int rule_each(struct onnx_import *im, const struct onnx_op *op)
{
    int axis = -1, count = -1, rank;

    op->import(im);
    rank = output_type(im, 0).rank;
    for (int i = 0; i < im->node->n_in && im->rc == 0; i++) {
        const struct part p = part_of(im, i);
        const int at = p.axis + rank - rank_of_input(im, i);

        if (p.count < 0)
            continue;
        if (count >= 0 && at != axis)
            return mixes(im);
        axis = at;
        count = count < 0 ? p.count : count;
    }
    return set_part(im, 0, axis, count);
}

/* Along dimensions of input 0 that the count is not of. */
static int rule_rows(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    int64_t flipped = 0;
    int i;

    first_part(im, &i);
    if (i != 0 || p.axis != 0)
        return mixes(im);
    for (i = 1; i < im->node->n_in; i++)
        if (part_of(im, i).count >= 0)
            return mixes(im);
    if (op->import == onnx_import_gemm)
        onnx_int(im, "transA", 0, 1, &flipped);
    if (flipped || rank_of_input(im, 0) < 2)
        return mixes(im);
    op->import(im);
    return set_part(im, 0, 0, p.count);
}

static int rule_matmul(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    const int rank = rank_of_input(im, 0);

    if (p.count < 0 || part_of(im, 1).count >= 0 || p.axis >= rank - 1)
        return mixes(im);
    op->import(im);
    return set_part(im, 0, p.axis + output_type(im, 0).rank - rank, p.count);
}

static int rule_transpose(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    const struct onnx_attr *a = onnx_attr(im, "perm");
    const int rank = rank_of_input(im, 0);
    int at = rank - 1 - p.axis;

    for (size_t k = 0; a && a->type == ONNX_ATTR_INTS && k < a->count; k++)
        if (a->ints[k] == p.axis || a->ints[k] + rank == p.axis)
            at = (int)k;
    op->import(im);
    return set_part(im, 0, at, p.count);
}

/* Another shape: the axis is where as many elements lie before it, and it has
 * the same size, or that of the axis and some behind it together. */
static int rule_shape(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    struct graph_type in, out;
    int64_t before = 1, passed = 1, size;

    if (p.count < 0 || onnx_input_type(im, 0, 0, &in) < 0)
        return mixes(im);
    for (int d = 0; d < p.axis; d++)
        before *= in.dim[d];
    op->import(im);
    out = output_type(im, 0);
    for (int d = 0; d < out.rank; d++) {
        size = in.dim[p.axis];
        for (int e = p.axis; passed == before && e < in.rank;) {
            if (out.dim[d] == size)
                return set_part(
                    im, 0, d,
                    size == in.dim[p.axis]
                        ? p.count
                        : compose_binary(
                              im, KERN_MUL, p.count,
                              compose_integer(im, INFER_I64,
                                              size / in.dim[p.axis])));
            if (++e < in.rank)
                size *= in.dim[e];
        }
        passed *= out.dim[d];
    }
    return mixes(im);
}

/* Operators of one axis, which is another one, or along which the first
 * entries do not depend on later ones. */
static int rule_axis(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    const int x = compose_input(im, 0);
    const int axis = compose_axis(im, x, 0);

    if (p.count < 0 || (im->rc == 0 && axis == p.axis))
        return mixes(im);
    op->import(im);
    for (int i = 0; i < im->node->n_out; i++)
        set_part(im, i, p.axis, p.count);
    return im->rc;
}

static int rule_tile(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    struct graph_type in, out;

    if (p.count < 0 || onnx_input_type(im, 0, 0, &in) < 0)
        return mixes(im);
    op->import(im);
    out = output_type(im, 0);
    if (im->rc == 0 &&
        (out.rank != in.rank || out.dim[p.axis] != in.dim[p.axis]))
        return mixes(im);
    return set_part(im, 0, p.axis, p.count);
}

static int rule_roi_align(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 1);

    if (part_of(im, 0).count >= 0 || p.count < 0 || p.axis != 0)
        return mixes(im);
    op->import(im);
    return set_part(im, 0, 0, p.count);
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
    const struct part p = part_of(im, 0);
    const int rank = rank_of_input(im, 0);
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
        return set_part(im, 0, p.axis - (keep ? 0 : below), p.count);
    }
    if (strcmp(op->name, "ReduceMean") == 0)
        return mixes(im);
    return import_masked(im, op, 0, fill_of(op->name));
}

static int rule_softmax(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    const bool old = im->opset < 13; /* all dimensions from the axis on */
    const int axis = compose_axis(im, compose_input(im, 0), old ? 1 : -1);

    if (old ? p.axis >= axis : p.axis == axis)
        import_masked(im, op, 0, -(double)FLT_MAX);
    else
        op->import(im);
    return set_part(im, 0, p.axis, p.count);
}

static int rule_top_k(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    const int axis = compose_axis(im, compose_input(im, 0), -1);
    bool largest = true;
    int count = p.count;

    onnx_flag(im, "largest", &largest);
    if (im->rc < 0)
        return im->rc;
    if (axis == p.axis) {
        import_masked(im, op, 0, largest ? -INFINITY : INFINITY);
        count =
            at_most(im, count,
                    output_type(im, onnx_has_output(im, 0) ? 0 : 1).dim[axis]);
    } else {
        op->import(im);
    }
    set_part(im, 0, p.axis, count);
    return set_part(im, 1, p.axis, count);
}

static int rule_arg(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    const int axis = compose_axis(im, compose_input(im, 0), 0);
    bool keep = true;

    onnx_flag(im, "keepdims", &keep);
    if (im->rc < 0 || axis == p.axis)
        return import_masked(im, op, 0, op->param ? INFINITY : -INFINITY);
    op->import(im);
    return set_part(im, 0, p.axis - (!keep && axis < p.axis), p.count);
}

static int rule_cumulate(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    int64_t axis = 0;
    bool reverse = false;
    int n = 0;

    onnx_flag(im, "reverse", &reverse);
    onnx_input_ints(im, 1, "the axis", 1, &axis, &n);
    if (reverse && (axis + (axis < 0 ? rank_of_input(im, 0) : 0)) == p.axis)
        return mixes(im);
    op->import(im);
    return set_part(im, 0, p.axis, p.count);
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
        const struct part p = part_of(im, i);
        int64_t size, *data;

        if (p.count >= 0 && p.axis != axis)
            return mixes(im);
        x[i] = compose_input(im, i);
        size = compose_dim(im, x[i], axis);
        if (p.count >= 0) {
            flag[i] = compose_cast(im, INFER_I64,
                                   compose_binary(im, KERN_LESS,
                                                  compose_count(im, size, 1, 0),
                                                  p.count));
            continue;
        }
        flag[i] = compose_i64(im, 1, &size, &data);
        for (int64_t k = 0; flag[i] >= 0 && k < size; k++)
            data[k] = 1;
    }
    if (im->rc < 0)
        return im->rc;
    at = ones_of(im, compose_concat(im, n, flag, 0), &count);
    y = compose_gather(im, compose_concat(im, n, x, axis), at, axis);
    compose_output(im, 0, y);
    return set_part(im, 0, axis, count);
}

static int rule_concat(struct onnx_import *im, const struct onnx_op *op)
{
    int i, axis;
    const struct part p = first_part(im, &i);

    axis = compose_axis(im, compose_input(im, i), 1);
    if (im->rc < 0)
        return im->rc;
    if (axis == p.axis && im->node->n_in > 1)
        return join(im, axis);
    for (i = 0; i < im->node->n_in; i++)
        if (part_of(im, i).count >= 0 && part_of(im, i).axis != p.axis)
            return mixes(im);
    op->import(im);
    return set_part(im, 0, p.axis, p.count);
}

/* ---- picking ------------------------------------------------------- */

static int rule_gather(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part data = part_of(im, 0), index = part_of(im, 1);
    const int axis = compose_axis(im, compose_input(im, 0), 0);
    const int wide = rank_of_input(im, 1);

    if (im->rc == 0 && index.count >= 0 && data.count >= 0 && data.axis != axis)
        return mixes(im);
    op->import(im);
    if (index.count >= 0)
        return set_part(im, 0, axis + index.axis, index.count);
    if (data.axis == axis) /* chosen entries, which have to be there */
        return im->rc;
    return set_part(im, 0, data.axis + (data.axis > axis ? wide - 1 : 0),
                    data.count);
}

static int rule_gather_nd(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part data = part_of(im, 0), index = part_of(im, 1);
    int64_t batch = 0;

    onnx_int(im, "batch_dims", 0, INFER_MAX_RANK, &batch);
    if (im->rc == 0 &&
        (batch != 0 || (data.count >= 0 && data.axis != 0) ||
         (index.count >= 0 && index.axis == rank_of_input(im, 1) - 1)))
        return mixes(im);
    op->import(im);
    return set_part(im, 0, index.axis, index.count);
}

static int rule_gather_elements(struct onnx_import *im,
                                const struct onnx_op *op)
{
    const struct part data = part_of(im, 0), index = part_of(im, 1);
    const int axis = compose_axis(im, compose_input(im, 0), 0);

    if (im->rc == 0 && data.count >= 0 && data.axis != axis &&
        (index.count < 0 || index.axis != data.axis))
        return mixes(im);
    op->import(im);
    return set_part(im, 0, index.axis, index.count);
}

/* Indices behind the count become those of a row behind the last, and the
 * result is without it. */
static int scatter_rows(struct onnx_import *im, const char *op, int axis,
                        struct part index)
{
    const int x = compose_input(im, 0), at = compose_input(im, 1);
    const int64_t n = compose_dim(im, x, axis);
    struct pb_span in[3], out = onnx_fresh_name(im, im->node->out[0]);
    const struct onnx_node *own = im->node;
    const struct part data = part_of(im, 0);
    int y = -1, wide;

    if (im->rc == 0 && data.count >= 0 && data.axis != axis)
        return mixes(im);
    wide = compose_pad(im, x, axis, 0, 1, 0);
    in[0] = named(im, wide);
    in[1] = named(
        im, masked(im, compose_cast(im, INFER_I64, at), index, (double)n));
    in[2] = named(im, compose_input(im, 2)); /* without its count */
    onnx_step(im, op, in, 3, out, own->attr, own->n_attr);
    for (int i = 0; i < own->n_attr; i++)
        own->attr[i].used = true;
    if (im->rc == 0 && onnx_value_get(im, out, &y) == 0)
        onnx_value_graph(im, y, &y);
    y = compose_slice(im, y, axis, 0, n, 1);
    compose_output(im, 0, y);
    return set_part(im, 0, data.axis, data.count);
}

static int rule_scatter(struct onnx_import *im, const struct onnx_op *op)
{
    const bool nd = op->import == onnx_import_scatter_nd;
    struct part index = part_of(im, 1);
    int axis = 0;

    if (index.count < 0) {
        index = part_of(im, 2);
        if (index.count < 0) { /* only what is written to */
            index = part_of(im, 0);
            op->import(im);
            return set_part(im, 0, index.axis, index.count);
        }
    }
    if (!nd)
        axis = compose_axis(im, compose_input(im, 0), 0);
    if (im->rc < 0)
        return im->rc;
    if (nd ? index.axis == rank_of_input(im, 1) - 1 : index.axis != axis)
        return mixes(im);
    if (nd) {
        struct graph_type t;

        if (onnx_input_type(im, 1, 0, &t) == 0 && t.dim[t.rank - 1] != 1)
            return mixes(im);
    }
    return scatter_rows(im, op->name, axis, index);
}

/* From the first entry on, in steps of 1. */
static int rule_slice(struct onnx_import *im, const struct onnx_op *op)
{
    int64_t begin[INFER_MAX_RANK], end[INFER_MAX_RANK], axes[INFER_MAX_RANK];
    int64_t step[INFER_MAX_RANK];
    const struct part p = part_of(im, 0);
    int n = 0, m = 0, n_axes = -1, n_steps = -1, count = p.count;
    const int rank = rank_of_input(im, 0);

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
        if (begin[i] != 0 || end[i] < 0 || (n_steps > i && step[i] != 1))
            return mixes(im);
        if (end[i] < INT32_MAX)
            count = at_most(im, count, end[i]);
    }
    op->import(im);
    return set_part(im, 0, p.axis, count);
}

/* Padding by as many entries as are missing from a fixed number: then all of
 * them count. */
static int rule_pad(struct onnx_import *im, const struct onnx_op *op)
{
    const struct part p = part_of(im, 0);
    const int v = im->opset >= 11 && onnx_has_input(im, 1)
                      ? onnx_value_find(im, im->node->in[1])
                      : -1;
    struct graph_type in, out;
    float fill = 0;

    if (onnx_input_type(im, 0, 0, &in) < 0)
        return im->rc;
    if (v >= 0 && im->value[v].sized) {
        onnx_input_float(im, 2, "the value", &fill);
        return import_masked(im, op, 0, (double)fill);
    }
    op->import(im);
    out = output_type(im, 0);
    if (im->rc == 0 && out.dim[p.axis] != in.dim[p.axis])
        return mixes(im);
    return set_part(im, 0, p.axis, p.count);
}

/* Boxes behind the count have no score that is high enough. */
static int rule_nms(struct onnx_import *im, const struct onnx_op *op)
{
    struct part p = part_of(im, 1);

    if (p.count < 0)
        p = (struct part){2, part_of(im, 0).count};
    if (p.axis != 2 || (part_of(im, 0).count >= 0 && part_of(im, 0).axis != 1))
        return mixes(im);
    return import_with(im, op, 1,
                       masked(im, compose_input(im, 1), p, -INFINITY));
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

int onnx_import_counted(struct onnx_import *im, const struct onnx_op *op)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].import == op->import)
            return rules[i].rule ? rules[i].rule(im, op) : op->import(im);
    return mixes(im);
}

/* ---- outputs of the graph ------------------------------------------ */

int onnx_settle_output(struct onnx_import *im, int v, int *value)
{
    const struct onnx_node *own = im->node;
    const struct onnx_node none = {
        .name = (char *)"", .op = (char *)"", .domain = (char *)""};
    const struct part p = {im->value[v].axis, im->value[v].count - 1};
    char *name, *hidden;
    int all;

    if (onnx_value_graph(im, v, value) < 0 || p.count < 0)
        return im->rc;
    all = *value;
    im->node = &none;
    *value =
        masked(im, all, p, scalar_is_integer(compose_dtype(im, all)) ? -1 : 0);
    im->node = own;
    if (im->rc < 0 || onnx_name(im, im->value[v].name, &name) < 0 ||
        onnx_name(im, onnx_fresh_name(im, im->value[v].name), &hidden) < 0)
        return im->rc;
    if (graph_rename_value(im->g, all, hidden) == INFER_EMEMORY ||
        graph_rename_value(im->g, *value, name) == INFER_EMEMORY)
        return onnx_no_memory(im);
    return 0;
}

int onnx_count_output(struct onnx_import *im, int v)
{
    const int count = im->value[v].count - 1;
    char label[512];
    char *name;
    int rc;

    if (count < 0 || graph_is_output(im->g, count))
        return 0;
    if (onnx_name(im, im->value[v].name, &name) < 0)
        return im->rc;
    snprintf(label, sizeof label, "%.500s.count", name);
    /* A name that is taken leaves the count its own. */
    if (graph_rename_value(im->g, count, label) == INFER_EMEMORY)
        return onnx_no_memory(im);
    rc = graph_add_output(im->g, count);
    return rc < 0 ? onnx_fail(im, rc, "no room for the output '%s'", label) : 0;
}
