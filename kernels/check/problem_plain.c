/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the problems of inference without windows: products, norms,
 * element-wise functions, reductions, moves. */
#include "kernels/check/problem_check.h"

#include <math.h>

#include "kernels/base/scalar.h"

/* ---- parts of several checks --------------------------------------- */

int problem_check_axis(const struct kern_problem *p, int axis,
                       struct infer_error *why)
{
    if (axis < 0 || axis >= p->in[0].rank)
        return REFUSE(p, why, "axis %d is outside rank %d", axis,
                      p->in[0].rank);
    return 0;
}

int problem_check_same_dtype(const struct kern_problem *p, int i,
                             struct infer_error *why)
{
    if (p->in[i].dtype != p->out[0].dtype)
        return REFUSE(p, why, "input %d is %s and the output %s", i,
                      infer_dtype_name(p->in[i].dtype),
                      infer_dtype_name(p->out[0].dtype));
    return 0;
}

/* Broadcasts shape `t` into dim[], aligned at the last dimension. */
static bool broadcast_into(const struct kern_tensor *t, int rank, int64_t *dim)
{
    const int shift = rank - t->rank;

    for (int i = 0; i < t->rank; i++) {
        if (dim[i + shift] == 1)
            dim[i + shift] = t->dim[i];
        else if (t->dim[i] != 1 && t->dim[i] != dim[i + shift])
            return false;
    }
    return true;
}

/* The output must have the shape that inputs from..to broadcast to. */
static int check_broadcast(const struct kern_problem *p, int from, int to,
                           struct infer_error *why)
{
    int64_t dim[KERN_MAX_RANK];
    char text[KERN_SHAPE_TEXT];
    int rank = 0;

    for (int i = from; i <= to; i++)
        rank = p->in[i].rank > rank ? p->in[i].rank : rank;
    for (int i = 0; i < rank; i++)
        dim[i] = 1;
    for (int i = from; i <= to; i++)
        if (!broadcast_into(&p->in[i], rank, dim))
            return REFUSE(p, why, "input %d (%s) does not broadcast", i,
                          kern_shape_text(p->in[i].rank, p->in[i].dim, text));
    return problem_expect_shape(p, "output", &p->out[0], rank, dim, why);
}

/* ---- products ------------------------------------------------------ */

int problem_check_dense(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1];
    struct kern_tensor y = *x;

    if (x->rank < 1 || w->rank != 2)
        return REFUSE(p, why,
                      "input has rank %d and weights %d, expected 1 "
                      "or more and 2",
                      x->rank, w->rank);
    if (w->dim[1] != x->dim[x->rank - 1])
        return REFUSE(p, why, "weights take %lld values, found %lld",
                      (long long)w->dim[1], (long long)x->dim[x->rank - 1]);
    y.dim[y.rank - 1] = w->dim[0];
    const int r = problem_expect_like(p, "output", &p->out[0], &y, why);
    return r < 0 ? r : problem_expect_vectors(p, 2, 2, "bias", w->dim[0], why);
}

/* numpy.matmul: a vector counts as a row on the left and as a column on the
 * right, and that dimension is missing in the output. */
int problem_check_matmul(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *a = &p->in[0], *b = &p->in[1];
    const struct kern_matmul *m = &p->attr.matmul;
    struct kern_tensor batch_a = *a, batch_b = *b;
    int64_t dim[KERN_MAX_RANK] = {0};

    if (a->rank < 1 || b->rank < 1)
        return REFUSE(p, why, "inputs need at least one dimension");
    const bool ta = a->rank > 1 && m->transpose_a;
    const bool tb = b->rank > 1 && m->transpose_b;
    const int64_t inner_a = a->dim[a->rank - (ta ? 2 : 1)];
    const int64_t inner_b =
        b->rank == 1 ? b->dim[0] : b->dim[b->rank - (tb ? 1 : 2)];
    if (inner_a != inner_b)
        return REFUSE(p, why, "inner extents %lld and %lld differ",
                      (long long)inner_a, (long long)inner_b);
    batch_a.rank = a->rank > 2 ? a->rank - 2 : 0;
    batch_b.rank = b->rank > 2 ? b->rank - 2 : 0;
    int rank = batch_a.rank > batch_b.rank ? batch_a.rank : batch_b.rank;
    for (int i = 0; i < rank; i++)
        dim[i] = 1;
    if (!broadcast_into(&batch_a, rank, dim) ||
        !broadcast_into(&batch_b, rank, dim))
        return REFUSE(p, why, "batches do not broadcast");
    if (a->rank > 1)
        dim[rank++] = a->dim[a->rank - (ta ? 1 : 2)];
    if (b->rank > 1)
        dim[rank++] = b->dim[b->rank - (tb ? 2 : 1)];
    return problem_expect_shape(p, "output", &p->out[0], rank, dim, why);
}

/* ---- norms --------------------------------------------------------- */

int problem_check_channels(const struct kern_problem *p,
                           struct infer_error *why)
{
    if (p->in[0].rank < 2)
        return REFUSE(p, why, "input has rank %d, expected at least 2",
                      p->in[0].rank);
    return problem_expect_like(p, "output", &p->out[0], &p->in[0], why);
}

int problem_check_channel_vectors(const struct kern_problem *p, int last,
                                  struct infer_error *why)
{
    const int r = problem_check_channels(p, why);

    return r < 0 ? r
                 : problem_expect_vectors(p, 1, last, "channel vector",
                                          p->in[0].dim[1], why);
}

int problem_check_batch_norm(const struct kern_problem *p,
                             struct infer_error *why)
{
    return problem_check_channel_vectors(p, 4, why);
}

int problem_check_scale_shift(const struct kern_problem *p,
                              struct infer_error *why)
{
    return problem_check_channel_vectors(p, 2, why);
}

int problem_check_group_norm(const struct kern_problem *p,
                             struct infer_error *why)
{
    const int r = problem_check_channel_vectors(p, 2, why);
    const int groups = p->attr.norm.groups;

    if (r == 0 && (groups < 1 || p->in[0].dim[1] % groups))
        return REFUSE(p, why, "%d groups do not divide %lld channels", groups,
                      (long long)p->in[0].dim[1]);
    return r;
}

int problem_check_layer_norm(const struct kern_problem *p,
                             struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0];
    const int axis = p->attr.norm.axis;
    int r = problem_check_axis(p, axis, why);

    if (r == 0)
        r = problem_expect_like(p, "output", &p->out[0], x, why);
    for (int i = 1; i <= 2 && r == 0; i++)
        r = problem_expect_shape(p, "scale or shift", kern_problem_in(p, i),
                                 x->rank - axis, x->dim + axis, why);
    return r;
}

int problem_check_lrn(const struct kern_problem *p, struct infer_error *why)
{
    const int r = problem_check_channels(p, why);

    if (r == 0 && (p->attr.lrn.size < 1 || p->attr.lrn.size > MAX_STEP))
        return REFUSE(p, why, "size %d is out of range", p->attr.lrn.size);
    return r;
}

/* ---- element-wise, reductions, moves ------------------------------- */

int problem_check_unary_kind(const struct kern_problem *p,
                             enum kern_unary_kind kind, struct infer_error *why)
{
    if ((int)kind < 0 || kind >= KERN_UNARY_COUNT)
        return REFUSE(p, why, "unknown function %d", (int)kind);
    return 0;
}

int problem_check_like_input(const struct kern_problem *p,
                             struct infer_error *why)
{
    return problem_expect_like(p, "output", &p->out[0], &p->in[0], why);
}

int problem_check_unary(const struct kern_problem *p, struct infer_error *why)
{
    const int r = problem_check_unary_kind(p, p->attr.unary.kind, why);

    return r < 0 ? r : problem_check_like_input(p, why);
}

int problem_check_prelu(const struct kern_problem *p, struct infer_error *why)
{
    const int r = check_broadcast(p, 0, 1, why);

    return r < 0 ? r : problem_check_like_input(p, why);
}

int problem_check_requantize(const struct kern_problem *p,
                             struct infer_error *why)
{
    const struct kern_requantize *a = &p->attr.requantize;
    const struct kern_tensor *y = &p->out[0];
    int r = check_broadcast(p, 0, kern_problem_in(p, 3) ? 3 : 2, why);

    for (int i = 1; i <= 3 && r == 0; i++)
        if (kern_problem_in(p, i) && p->in[i].dtype != INFER_I32)
            r = REFUSE(p, why, "multiplier, shift or addend is %s, not I32",
                       infer_dtype_name(p->in[i].dtype));
    if (r == 0 &&
        ((!scalar_is_float(p->in[0].dtype) && p->in[0].dtype != INFER_I32) ||
         (!scalar_is_float(y->dtype) && y->dtype != INFER_I32)))
        r = REFUSE(p, why, "%s to %s, expected floats or I32",
                   infer_dtype_name(p->in[0].dtype),
                   infer_dtype_name(y->dtype));
    if (r == 0 && (a->left < 0 || a->left > 31 || a->low > a->high))
        r = REFUSE(p, why, "shift by %d to the left, bounds %d and %d", a->left,
                   a->low, a->high);
    return r;
}

int problem_check_binary(const struct kern_problem *p, struct infer_error *why)
{
    const enum kern_binary_kind kind = p->attr.binary.kind;

    if ((int)kind < 0 || kind >= KERN_BINARY_COUNT)
        return REFUSE(p, why, "unknown function %d", (int)kind);
    if (kern_binary_needs_integers(kind) &&
        (!scalar_is_integer(p->in[0].dtype) ||
         !scalar_is_integer(p->in[1].dtype) ||
         !scalar_is_integer(p->out[0].dtype) || kern_problem_in(p, 2) ||
         p->epilogue.act.kind != KERN_IDENTITY))
        return REFUSE(p, why, "takes integers, and nothing may follow");
    return check_broadcast(p, 0, 1, why);
}

int problem_check_where(const struct kern_problem *p, struct infer_error *why)
{
    int r = check_broadcast(p, 0, 2, why);

    for (int i = 1; i <= 2 && r == 0; i++)
        r = problem_check_same_dtype(p, i, why);
    return r;
}

int problem_check_softmax(const struct kern_problem *p, struct infer_error *why)
{
    const int r = problem_check_axis(p, p->attr.softmax.axis, why);

    return r < 0 ? r : problem_check_like_input(p, why);
}

/* Reduced dimensions have size 1; kinds without a neutral element need at
 * least one. */
static int check_reduced(const struct kern_problem *p, uint32_t axes,
                         bool need_one, struct infer_error *why)
{
    struct kern_tensor y = p->in[0];

    if (axes >> p->in[0].rank)
        return REFUSE(p, why, "axes 0x%x are outside rank %d", (unsigned)axes,
                      p->in[0].rank);
    for (int i = 0; i < y.rank; i++) {
        if (!(axes >> i & 1))
            continue;
        if (need_one && y.dim[i] == 0)
            return REFUSE(p, why, "nothing to choose from along %d", i);
        y.dim[i] = 1;
    }
    return problem_expect_like(p, "output", &p->out[0], &y, why);
}

int problem_check_reduce(const struct kern_problem *p, struct infer_error *why)
{
    const enum kern_reduce_kind kind = p->attr.reduce.kind;

    if ((int)kind < 0 || kind >= KERN_REDUCE_KIND_COUNT)
        return REFUSE(p, why, "unknown kind %d", (int)kind);
    return check_reduced(p, p->attr.reduce.axes,
                         kind == KERN_REDUCE_MAX || kind == KERN_REDUCE_MIN,
                         why);
}

int problem_check_squeeze(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1], *w2 = &p->in[2];
    struct kern_tensor y = *x;

    if (x->rank < 3 || x->rank > 2 + KERN_MAX_SPATIAL || w->rank != 2 ||
        w2->rank != 2)
        return REFUSE(p, why, "ranks %d, %d and %d, expected 3 to %d, 2 and 2",
                      x->rank, w->rank, w2->rank, 2 + KERN_MAX_SPATIAL);
    if (w->dim[1] != x->dim[1] || w2->dim[1] != w->dim[0])
        return REFUSE(p, why,
                      "weights take %lld and %lld values, found %lld and %lld",
                      (long long)w->dim[1], (long long)w2->dim[1],
                      (long long)x->dim[1], (long long)w->dim[0]);
    y.dim[1] = w2->dim[0];
    for (int i = 2; i < y.rank; i++)
        y.dim[i] = 1;
    int r = problem_expect_like(p, "output", &p->out[0], &y, why);
    if (r == 0)
        r = problem_check_unary_kind(p, p->attr.squeeze_excite.act.kind, why);
    if (r == 0)
        r = problem_expect_vectors(p, 3, 3, "bias", w->dim[0], why);
    return r < 0 ? r
                 : problem_expect_vectors(p, 4, 4, "bias2", w2->dim[0], why);
}

int problem_check_arg_reduce(const struct kern_problem *p,
                             struct infer_error *why)
{
    const int r = problem_check_axis(p, p->attr.arg_reduce.axis, why);

    if (r < 0)
        return r;
    if (p->out[0].dtype != INFER_I64)
        return REFUSE(p, why, "output is %s, expected I64",
                      infer_dtype_name(p->out[0].dtype));
    return check_reduced(p, 1u << p->attr.arg_reduce.axis, true, why);
}

int problem_check_gather(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *index = &p->in[1];
    const int axis = p->attr.gather.axis;
    int64_t dim[2 * KERN_MAX_RANK];
    int rank = 0;
    int r = problem_check_axis(p, axis, why);

    if (r == 0)
        r = problem_check_same_dtype(p, 0, why);
    if (r < 0)
        return r;
    if (!scalar_is_integer(index->dtype) || index->dtype == INFER_BOOL)
        return REFUSE(p, why, "indices are %s, expected integers",
                      infer_dtype_name(index->dtype));
    if (x->dim[axis] == 0 && kern_tensor_count(index) > 0)
        return REFUSE(p, why, "has no element to gather along %d", axis);
    for (int i = 0; i < axis; i++)
        dim[rank++] = x->dim[i];
    for (int i = 0; i < index->rank; i++)
        dim[rank++] = index->dim[i];
    for (int i = axis + 1; i < x->rank; i++)
        dim[rank++] = x->dim[i];
    if (rank > KERN_MAX_RANK)
        return REFUSE(p, why, "output has rank %d, supported up to %d", rank,
                      KERN_MAX_RANK);
    return problem_expect_shape(p, "output", &p->out[0], rank, dim, why);
}

int problem_check_pad(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_pad *a = &p->attr.pad;
    const struct kern_tensor *x = &p->in[0];
    struct kern_tensor y = *x;
    bool empty = false;

    if ((int)a->mode < 0 || a->mode > KERN_PAD_WRAP)
        return REFUSE(p, why, "unknown mode %d", (int)a->mode);
    for (int i = 0; i < x->rank; i++) {
        y.dim[i] += (int64_t)a->begin[i] + a->end[i];
        /* What cropping leaves is the source of every other mode's values. */
        const int64_t left = x->dim[i] + (a->begin[i] < 0 ? a->begin[i] : 0) +
                             (a->end[i] < 0 ? a->end[i] : 0);
        empty = empty || left <= 0;
        if (y.dim[i] < 0)
            return REFUSE(p, why, "crops more than there is along %d", i);
    }
    if (empty && a->mode != KERN_PAD_CONSTANT && kern_tensor_count(&y) > 0)
        return REFUSE(p, why, "has no element to repeat");
    const int r = problem_check_same_dtype(p, 0, why);
    return r < 0 ? r : problem_expect_like(p, "output", &p->out[0], &y, why);
}

int problem_check_resize(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_resize *a = &p->attr.resize;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];

    if ((int)a->mode < 0 || a->mode > KERN_BICUBIC || (int)a->coord < 0 ||
        a->coord > KERN_HALF_PIXEL_SYMMETRIC || (int)a->nearest < 0 ||
        a->nearest > KERN_CEIL_NEAREST)
        return REFUSE(p, why, "unknown mode");
    if (y->rank != x->rank)
        return REFUSE(p, why, "output has rank %d, expected %d", y->rank,
                      x->rank);
    for (int i = 0; i < x->rank; i++) {
        /* Written so that NaN fails. */
        if (!(a->scale[i] > 0 && a->scale[i] < 1e9f))
            return REFUSE(p, why, "scale %g is out of range",
                          (double)a->scale[i]);
        if (a->scale[i] == 1.0f && y->dim[i] != x->dim[i])
            return REFUSE(p, why,
                          "extent changes from %lld to %lld with scale 1",
                          (long long)x->dim[i], (long long)y->dim[i]);
        const double exact = (double)a->scale[i] * (double)x->dim[i];
        if (fabs(exact - (double)y->dim[i]) > 1.001 + exact * 1e-6)
            return REFUSE(p, why, "extent %lld times scale %g is not %lld",
                          (long long)x->dim[i], (double)a->scale[i],
                          (long long)y->dim[i]);
        if (x->dim[i] == 0 && y->dim[i] != 0)
            return REFUSE(p, why, "has no element to resize along %d", i);
    }
    return 0;
}
