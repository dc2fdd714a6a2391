/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Unique: the distinct elements of a tensor, or its distinct slices along
 * an axis.
 *
 * Elements are put in ascending order; one that differs from the element before
 * it starts a group of equals.  A slice stands for the number of slices that
 * are lexicographically below it: equal slices have equal numbers, in the order
 * of the slices.  How many groups there are is known at run time (counted.c).
 */
#include "kernels/base/checked.h"
#include "weights/onnx/composed/compose.h"

/* Comparisons of slices: all of them at once are values of the graph. */
#define MOST_COMPARED ((int64_t)1 << 26)

static int sums(struct onnx_import *im, int x, bool product)
{
    union graph_attr attr;
    int y = -1;

    onnx_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.axis = compose_rank(im, x) - 1;
    attr.cumulate.product = attr.cumulate.exclusive = product;
    onnx_emit(im, GRAPH_CUMULATE, &attr, &x, 1, -1, &y);
    return y;
}

/* The numbers of the groups that flags of 0 and 1 start, from 0 on. */
static int groups(struct onnx_import *im, int flags)
{
    return compose_binary(im, KERN_SUB, sums(im, flags, false),
                          compose_integer(im, INFER_I64, 1));
}

/* Entry `to` of n: the value whose flag is 1; 0 in entries that no flag names.
 * All are vectors of n. */
static int put(struct onnx_import *im, int64_t n, int flags, int to, int value)
{
    /* What has no flag goes to an entry behind the last. */
    to = compose_where(im, compose_cast(im, INFER_BOOL, flags), to,
                       compose_integer(im, INFER_I64, n));
    return compose_slice(im,
                         compose_scatter(im, compose_equal(im, n + 1, 0), to,
                                         value, 0, KERN_SCATTER_SET),
                         0, 0, n, 1);
}

/* ---- what is compared ---------------------------------------------- */

/* Product of the sizes, which have to be fixed. */
static int64_t elements(struct onnx_import *im, int x)
{
    int64_t all = 1;

    for (int d = 0; d < compose_rank(im, x); d++)
        if (!checked_mul_i64(all, compose_dim(im, x, d), &all))
            onnx_fail(im, INFER_EFORMAT, "the input overflows");
    return all;
}

/* For each of n slices along the axis, how many are below it. */
static int slices_below(struct onnx_import *im, int x, int axis, int64_t n)
{
    const int64_t rows[2] = {n, -1}, line = n;
    const int64_t m = n > 0 ? elements(im, x) / n : 0;
    int64_t order[INFER_MAX_RANK], all;
    int one, other, lower, equal, first;

    if (im->rc == 0 && (!checked_mul_i64(n, n, &all) ||
                        !checked_mul_i64(all, m, &all) || all > MOST_COMPARED))
        onnx_fail(im, INFER_EUNSUPPORTED, "%lld slices of %lld elements",
                  (long long)n, (long long)m);
    order[0] = axis;
    for (int d = 0, at = 1; d < compose_rank(im, x); d++)
        if (d != axis)
            order[at++] = d;
    if (axis != 0)
        x = compose_transpose(im, x, compose_rank(im, x), order);
    if (compose_dtype(im, x) == INFER_BOOL)
        x = compose_cast(im, INFER_I64, x);
    x = compose_reshape(im, x, 2, rows);
    one = compose_unsqueeze(im, x, 1);
    other = compose_unsqueeze(im, x, 0);
    lower = compose_binary(im, KERN_LESS, other, one);
    equal = compose_binary(im, KERN_EQUAL, other, one);
    /* 1 where the slices agree in all elements before. */
    first = sums(im, compose_cast(im, INFER_I64, equal), true);
    lower =
        compose_binary(im, KERN_MUL, compose_cast(im, INFER_I64, lower), first);
    lower = compose_reduce(im, KERN_REDUCE_SUM, lower, 2);
    lower = compose_reduce(im, KERN_REDUCE_SUM, lower, 1);
    return compose_reshape(im, lower, 1, &line);
}

/* ---- the operator -------------------------------------------------- */

struct unique {
    int64_t n;
    int first;   /* index of each group's first element; 0 behind the last */
    int inverse; /* the group of each element */
    int count;   /* how many groups, one element */
};

/* Groups of equal keys, a vector, in ascending order. */
static struct unique ascending(struct onnx_import *im, int key, int64_t n)
{
    const int64_t one = 1;
    struct unique u = {n, -1, -1, -1};
    int order = -1, sorted, flags, group, start[2];
    union graph_attr attr;
    int64_t *data;

    onnx_defaults(GRAPH_TOP_K, &attr);
    attr.top_k.axis = 0;
    attr.top_k.k = (int)n;
    attr.top_k.smallest = true;
    onnx_emit(im, GRAPH_TOP_K, &attr, &key, 1, -1, &order);
    sorted = compose_gather(im, key, order, 0);
    start[0] = flags = compose_i64(im, 1, &one, &data);
    if (data)
        data[0] = 1;
    if (n > 1) {
        const int same = compose_binary(
            im, KERN_EQUAL, compose_slice(im, sorted, 0, 1, n, 1),
            compose_slice(im, sorted, 0, 0, n - 1, 1));

        start[1] =
            compose_cast(im, INFER_I64, compose_unary(im, KERN_NOT, same));
        flags = compose_concat(im, 2, start, 0);
    }
    group = groups(im, flags);
    u.count = compose_reduce(im, KERN_REDUCE_SUM, flags, 0);
    /* Of equals the order has the lowest index first. */
    u.first = put(im, n, flags, group, order);
    u.inverse = compose_scatter(im, compose_equal(im, n, 0), order, group, 0,
                                KERN_SCATTER_SET);
    return u;
}

/* The same groups in the order of their first elements. */
static void by_appearance(struct onnx_import *im, struct unique *u)
{
    const int index = compose_count(im, u->n, 1, 0);
    /* An element that is the first one of its group. */
    const int flags = compose_cast(
        im, INFER_I64,
        compose_binary(im, KERN_EQUAL,
                       compose_gather(im, u->first, u->inverse, 0), index));
    const int group = groups(im, flags);

    u->inverse = compose_gather(im, group,
                                compose_gather(im, u->first, u->inverse, 0), 0);
    u->first = put(im, u->n, flags, group, index);
}

int onnx_import_unique(struct onnx_import *im)
{
    static const int64_t line = -1;
    const bool whole = !onnx_has_attr(im, "axis");
    bool sorted = true;
    struct unique u;
    int x, key, axis = 0;
    int64_t n;

    onnx_arity(im, 1, 1);
    onnx_flag(im, "sorted", &sorted);
    x = compose_input(im, 0);
    axis = whole ? 0 : compose_axis(im, x, 0);
    n = elements(im, x);
    if (im->rc == 0 && (n < 1 || n > INT32_MAX - 1))
        return onnx_fail(im, INFER_EUNSUPPORTED, "an input of %lld elements",
                         (long long)n);
    if (whole) {
        key = x = compose_reshape(im, x, 1, &line);
    } else {
        n = compose_dim(im, x, axis);
        key = slices_below(im, x, axis, n);
    }
    u = ascending(im, key, n);
    if (!sorted)
        by_appearance(im, &u);
    compose_output(im, 0, compose_gather(im, x, u.first, axis));
    onnx_set_counted(im, 0, axis, u.count);
    if (onnx_has_output(im, 1)) {
        compose_output(im, 1, u.first);
        onnx_set_counted(im, 1, 0, u.count);
    }
    if (onnx_has_output(im, 2))
        compose_output(im, 2, u.inverse);
    if (onnx_has_output(im, 3)) {
        compose_output(im, 3,
                       compose_scatter(im, compose_equal(im, n, 0), u.inverse,
                                       compose_equal(im, n, 1), 0,
                                       KERN_SCATTER_ADD));
        onnx_set_counted(im, 3, 0, u.count);
    }
    return im->rc;
}
