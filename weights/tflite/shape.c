/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: operators that give elements another shape or order. */
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/tflite/tflite.h"

/* ---- RESHAPE ------------------------------------------------------- */

/* The target at a probe, from input 1, or from the options. */
static bool stated(struct tflite_import *im, int probe, int64_t *dim, int *rank)
{
    const struct fb_vector v = fb_list(&im->op.options, 0, 4);

    if (tflite_has(im, 1)) {
        *rank =
            tflite_ints_at(im, 1, probe, "the new shape", INFER_MAX_RANK, dim);
        return *rank >= 0;
    }
    if (v.count > INFER_MAX_RANK) {
        tflite_fail(im, INFER_EUNSUPPORTED, "%zu dimensions", v.count);
        return false;
    }
    *rank = (int)v.count;
    for (int i = 0; i < *rank; i++)
        dim[i] = fb_list_i32(&v, (size_t)i);
    return true;
}

/* Resolves -1.  Where the file states the batch of 1 that is read as free, the
 * first size follows the input's. */
static bool resolve(struct tflite_import *im, const struct graph_type *x,
                    struct graph_type *t, bool batch)
{
    int64_t count = 0, known = 1;
    int rest = -1;

    if (batch && t->rank > 0 && x->rank > 0 && t->dim[0] == 1)
        t->dim[0] = x->dim[0];
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] == -1 && rest < 0) {
            rest = i;
        } else if (t->dim[i] < 0 ||
                   !checked_mul_i64(known, t->dim[i], &known)) {
            tflite_fail(im, INFER_EFORMAT, "a new size of %lld",
                        (long long)t->dim[i]);
            return false;
        }
    }
    if (!checked_count(x->rank, x->dim, &count) ||
        (rest >= 0 && (known == 0 || count % known != 0)) ||
        (rest < 0 && count != known)) {
        tflite_fail(im, INFER_EFORMAT, "%lld elements do not fit the new shape",
                    (long long)count);
        return false;
    }
    if (rest >= 0)
        t->dim[rest] = count / known;
    return true;
}

void tflite_import_reshape(struct tflite_import *im, int param)
{
    struct graph_type target[TFLITE_PROBES];

    (void)param;
    if (!tflite_arity(im, 1, 2))
        return;
    memset(target, 0, sizeof target);
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type x = tflite_type(im, 0, p);
        const bool batch = im->freed_batch && tflite_type(im, 0, 1).dim[0] !=
                                                  tflite_type(im, 0, 0).dim[0];
        if (im->status < 0 || !stated(im, p, target[p].dim, &target[p].rank) ||
            !resolve(im, &x, &target[p], batch))
            return;
        if (target[p].rank != target[0].rank) {
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "a rank that depends on free sizes");
            return;
        }
    }
    tflite_out(im, 0, tflite_reshape_to(im, tflite_in(im, 0, false), target),
               false);
}

/* ---- dimensions of one --------------------------------------------- */

void tflite_import_squeeze(struct tflite_import *im, int param)
{
    const struct fb_vector v = fb_list(&im->op.options, 0, 4);
    struct graph_type t;
    int64_t axis[INFER_MAX_RANK];
    int n = 0, x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    t = tflite_type(im, 0, 0);
    if (v.count > INFER_MAX_RANK) {
        tflite_fail(im, INFER_EFORMAT, "%zu axes", v.count);
        return;
    }
    for (size_t i = 0; i < v.count; i++)
        axis[n++] = tflite_axis(im, fb_list_i32(&v, i), t.rank);
    for (int d = 0; d < t.rank && v.count == 0; d++)
        if (t.dim[d] == 1)
            axis[n++] = d;
    x = tflite_in(im, 0, false);
    if (n > 0)
        x = tflite_dims(im, GRAPH_SQUEEZE, x, n, axis);
    else
        x = tflite_plain_unary(im, x, KERN_IDENTITY);
    tflite_out(im, 0, x, false);
}

void tflite_import_expand_dims(struct tflite_import *im, int param)
{
    int64_t axis;
    int rank;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    rank = tflite_rank(im, 0);
    if (tflite_ints(im, 1, "the axis", 1, &axis) != 1) {
        tflite_fail(im, INFER_EFORMAT, "no axis");
        return;
    }
    axis = tflite_axis(im, axis, rank + 1);
    tflite_out(
        im, 0,
        tflite_dims(im, GRAPH_UNSQUEEZE, tflite_in(im, 0, false), 1, &axis),
        false);
}

/* ---- orders -------------------------------------------------------- */

static bool is_order(const int64_t *order, int rank, bool to_swapped)
{
    int want[INFER_MAX_RANK];

    tflite_order(rank, to_swapped, want);
    for (int i = 0; i < rank; i++)
        if (order[i] != want[i])
            return false;
    return rank >= 3;
}

/* Between the two orders of axes it is another name for a value that is there.
 */
void tflite_import_transpose(struct tflite_import *im, int param)
{
    int64_t order[INFER_MAX_RANK];
    int rank, n;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    rank = tflite_rank(im, 0);
    n = tflite_ints(im, 1, "the order", INFER_MAX_RANK, order);
    if (im->status == 0 && n != rank)
        tflite_fail(im, INFER_EFORMAT, "%d axes for an input of rank %d", n,
                    rank);
    for (int i = 0; i < n && im->status == 0; i++)
        order[i] = tflite_axis(im, order[i], rank);
    if (im->status < 0)
        return;
    if (is_order(order, rank, true) && tflite_is_swapped(im, 0))
        tflite_out(im, 0, tflite_in(im, 0, true), false);
    else if (is_order(order, rank, false) && rank > 3)
        tflite_out(im, 0, tflite_in(im, 0, false), true);
    else
        tflite_out(
            im, 0,
            tflite_dims(im, GRAPH_TRANSPOSE, tflite_in(im, 0, false), n, order),
            false);
}

void tflite_import_reverse(struct tflite_import *im, int param)
{
    int axis[2 * INFER_MAX_RANK], rank, n, x;
    union graph_attr attr;
    bool swapped;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    rank = tflite_rank(im, 0);
    swapped = tflite_is_swapped(im, 0);
    n = tflite_axes(im, 1, rank, axis);
    tflite_defaults(GRAPH_SLICE, &attr);
    attr.slice.n_axes = n < 0 ? 0 : n;
    for (int i = 0; i < n; i++) {
        attr.slice.axis[i] = tflite_map_axis(axis[i], rank, swapped);
        attr.slice.begin[i] = INT32_MAX;
        attr.slice.end[i] = -INT32_MAX;
        attr.slice.step[i] = -1;
    }
    x = tflite_in(im, 0, swapped);
    tflite_out(im, 0, tflite_emit(im, GRAPH_SLICE, &attr, &x, 1), swapped);
}

/* ---- repetition ---------------------------------------------------- */

void tflite_import_tile(struct tflite_import *im, int param)
{
    int64_t times[INFER_MAX_RANK];
    int n;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    n = tflite_ints(im, 1, "the repeats", INFER_MAX_RANK, times);
    if (n >= 0)
        tflite_out(
            im, 0,
            tflite_dims(im, GRAPH_TILE, tflite_in(im, 0, false), n, times),
            false);
}

/* Sizes that follow the batch stay as the input's where it has them. */
void tflite_import_broadcast_to(struct tflite_import *im, int param)
{
    int64_t dim[INFER_MAX_RANK], other[INFER_MAX_RANK];
    int n, rank;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    rank = tflite_rank(im, 0);
    n = tflite_ints_at(im, 1, 0, "the new shape", INFER_MAX_RANK, dim);
    for (int p = 1; p < im->probes && n >= 0; p++) {
        const struct graph_type x = tflite_type(im, 0, p);
        if (tflite_ints_at(im, 1, p, "the new shape", INFER_MAX_RANK, other) !=
            n)
            return;
        for (int i = 0; i < n; i++) {
            if (dim[i] == other[i])
                continue;
            if (i < n - rank || x.dim[i - (n - rank)] != other[i]) {
                tflite_fail(im, INFER_EUNSUPPORTED,
                            "a new shape that depends on free sizes");
                return;
            }
            dim[i] = -1;
        }
    }
    if (n >= 0)
        tflite_out(
            im, 0,
            tflite_dims(im, GRAPH_EXPAND, tflite_in(im, 0, false), n, dim),
            false);
}

/* A shape and a number. */
void tflite_import_fill(struct tflite_import *im, int param)
{
    int64_t dim[INFER_MAX_RANK];
    int n;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    n = tflite_ints(im, 0, "the shape", INFER_MAX_RANK, dim);
    if (n >= 0)
        tflite_out(
            im, 0,
            tflite_dims(im, GRAPH_EXPAND, tflite_in(im, 1, false), n, dim),
            false);
}

/* x < x, which holds nowhere, as numbers. */
void tflite_import_zeros_like(struct tflite_import *im, int param)
{
    bool swapped;
    int x;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    x = tflite_in_any_order(im, &swapped);
    if (im->status < 0)
        return;
    tflite_out(im, 0,
               tflite_cast(im, tflite_binary(im, KERN_LESS, x, x),
                           tflite_value_type(im, x, 0)->dtype),
               swapped);
}
