/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a problem is well-formed: shapes, types and attributes that fit
 * together.  Every row relies on it, so no kernel has to doubt a shape. */
#include "kernels/problem_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/checked.h"
#include "kernels/error.h"
#include "kernels/moments.h"
#include "kernels/scalar.h"

/* Limit on strides, dilations, windows and pads, so that products of two of
 * them with an extent stay far from the end of 64 bits. */
#define MAX_STEP (1 << 24)

int problem_refuse(const struct kern_problem *p, struct infer_error *why,
                   int code)
{
    error_prefix(why, "%s", kern_op_name(p->op));
    return code;
}

/* ---- one tensor ---------------------------------------------------- */

/* True where every element lies within 2^62 bytes of the first. */
static bool reach_fits(const struct kern_tensor *t)
{
    int64_t reach = 1, bytes;

    for (int i = 0; i < t->rank; i++) {
        int64_t part;
        if (t->dim[i] == 0)
            return true;
        if (t->stride[i] == INT64_MIN)
            return false;
        const int64_t step = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
        if (!checked_mul_i64(t->dim[i] - 1, step, &part) ||
            !checked_add_i64(reach, part, &reach))
            return false;
    }
    return checked_mul_i64(reach, (int64_t)infer_dtype_size(t->dtype),
                           &bytes) &&
           bytes <= INT64_MAX / 2;
}

static int check_tensor(const struct kern_problem *p, const char *what, int i,
                        const struct kern_tensor *t, struct infer_error *why)
{
    int64_t count;

    if (infer_dtype_size(t->dtype) == 0)
        return REFUSE(p, why, "%s %d has no data type", what, i);
    if (t->rank < 0 || t->rank > KERN_MAX_RANK)
        return REFUSE(p, why, "%s %d has rank %d, supported 0 to %d", what, i,
                      t->rank, KERN_MAX_RANK);
    if (!checked_count(t->rank, t->dim, &count) || !reach_fits(t)) {
        char text[KERN_SHAPE_TEXT];
        return REFUSE(p, why, "%s %d has an impossible size %s", what, i,
                      kern_shape_text(t->rank, t->dim, text));
    }
    return 0;
}

/* True where no two elements lie in the same place: with the dimensions in the
 * order of their strides, each steps over all that the smaller ones reach.
 * Every view of a dense tensor (slice, permutation, split) does. */
static bool is_injective(const struct kern_tensor *t)
{
    int order[KERN_MAX_RANK], n = 0;
    int64_t reach = 0;

    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] == 0)
            return true;
        if (t->dim[i] == 1)
            continue;
        int at = n++;
        while (at > 0 &&
               llabs(t->stride[order[at - 1]]) > llabs(t->stride[i])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    for (int i = 0; i < n; i++) {
        const int64_t step = llabs(t->stride[order[i]]);
        if (step <= reach)
            return false;
        reach += (t->dim[order[i]] - 1) * step;
    }
    return true;
}

static int check_outputs(const struct kern_problem *p, int min_out, int max_out,
                         struct infer_error *why)
{
    if (p->n_out < min_out || p->n_out > max_out)
        return REFUSE(p, why, "has %d outputs, expected %d to %d", p->n_out,
                      min_out, max_out);
    for (int i = 0; i < p->n_out; i++) {
        if (p->out[i].dtype == INFER_NONE && i >= min_out)
            continue;
        const int r = check_tensor(p, "output", i, &p->out[i], why);
        if (r < 0)
            return r;
        if (!is_injective(&p->out[i]))
            return REFUSE(p, why, "elements of output %d share their place", i);
    }
    return 0;
}

static int check_inputs(const struct kern_problem *p, int min_in, int max_in,
                        struct infer_error *why)
{
    if (p->n_in < min_in || p->n_in > max_in)
        return REFUSE(p, why, "has %d inputs, expected %d to %d", p->n_in,
                      min_in, max_in);
    for (int i = 0; i < p->n_in; i++) {
        if (p->in[i].dtype == INFER_NONE && i >= min_in)
            continue;
        const int r = check_tensor(p, "input", i, &p->in[i], why);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- shapes -------------------------------------------------------- */

static bool same_shape(const struct kern_tensor *t, int rank,
                       const int64_t *dim)
{
    if (t->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (t->dim[i] != dim[i])
            return false;
    return true;
}

int problem_expect_shape(const struct kern_problem *p, const char *what,
                         const struct kern_tensor *t, int rank,
                         const int64_t *dim, struct infer_error *why)
{
    char found[KERN_SHAPE_TEXT], expected[KERN_SHAPE_TEXT];

    if (!t || same_shape(t, rank, dim))
        return 0;
    return REFUSE(p, why, "%s has shape %s, expected %s", what,
                  kern_shape_text(t->rank, t->dim, found),
                  kern_shape_text(rank, dim, expected));
}

int problem_expect_like(const struct kern_problem *p, const char *what,
                        const struct kern_tensor *t,
                        const struct kern_tensor *as, struct infer_error *why)
{
    return problem_expect_shape(p, what, t, as->rank, as->dim, why);
}

/* Optional vectors of `count` elements: bias, scale, shift. */
static int expect_vectors(const struct kern_problem *p, int from, int to,
                          const char *what, int64_t count,
                          struct infer_error *why)
{
    for (int i = from; i <= to; i++) {
        const int r = problem_expect_shape(p, what, kern_problem_in(p, i), 1,
                                           &count, why);
        if (r < 0)
            return r;
    }
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

static int check_axis(const struct kern_problem *p, int axis,
                      struct infer_error *why)
{
    if (axis < 0 || axis >= p->in[0].rank)
        return REFUSE(p, why, "axis %d is outside rank %d", axis,
                      p->in[0].rank);
    return 0;
}

static int check_same_dtype(const struct kern_problem *p, int i,
                            struct infer_error *why)
{
    if (p->in[i].dtype != p->out[0].dtype)
        return REFUSE(p, why, "input %d is %s and the output %s", i,
                      infer_dtype_name(p->in[i].dtype),
                      infer_dtype_name(p->out[0].dtype));
    return 0;
}

/* ---- windows ------------------------------------------------------- */

static int check_spatial(const struct kern_problem *p, struct infer_error *why)
{
    const int rank = p->in[0].rank;

    if (rank < 3 || rank > 2 + KERN_MAX_SPATIAL)
        return REFUSE(p, why, "input has rank %d, supported 3 to %d", rank,
                      2 + KERN_MAX_SPATIAL);
    if (p->out[0].rank != rank || p->out[0].dim[0] != p->in[0].dim[0])
        return REFUSE(p, why,
                      "output does not match the input's rank and "
                      "batch");
    return 0;
}

static int check_steps(const struct kern_problem *p, const int *stride,
                       const int *dilation, const int *begin, const int *end,
                       struct infer_error *why)
{
    for (int i = 0; i < p->in[0].rank - 2; i++) {
        if (stride[i] < 1 || stride[i] > MAX_STEP)
            return REFUSE(p, why, "stride %d is out of range", stride[i]);
        if (dilation[i] < 1 || dilation[i] > MAX_STEP)
            return REFUSE(p, why, "dilation %d is out of range", dilation[i]);
        if (begin[i] < -MAX_STEP || begin[i] > MAX_STEP || end[i] < -MAX_STEP ||
            end[i] > MAX_STEP)
            return REFUSE(p, why, "pads %d, %d are out of range", begin[i],
                          end[i]);
    }
    return 0;
}

/* Positions of a window of the effective extent in a padded input: as many as
 * fit, and with `ceil` those that start inside but reach over the end. */
static int64_t positions(int64_t in, int64_t window, int dilation, int stride,
                         int begin, int end, bool ceil)
{
    const int64_t room = in + begin + end - (dilation * (window - 1) + 1);

    if (room < 0)
        return ceil && room > -stride ? 1 : 0;
    return (room + (ceil ? stride - 1 : 0)) / stride + 1;
}

static int check_groups(const struct kern_problem *p, int64_t channels,
                        struct infer_error *why)
{
    const int groups = p->attr.conv.groups;

    if (groups < 1 || p->in[0].dim[1] % groups || channels % groups)
        return REFUSE(p, why, "%d groups do not divide %lld and %lld channels",
                      groups, (long long)p->in[0].dim[1], (long long)channels);
    return 0;
}

static int check_window_extents(const struct kern_problem *p,
                                struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[1];

    if (w->rank != p->in[0].rank)
        return REFUSE(p, why, "weights have rank %d, expected %d", w->rank,
                      p->in[0].rank);
    for (int i = 2; i < w->rank; i++)
        if (w->dim[i] < 1 || w->dim[i] > MAX_STEP ||
            p->in[0].dim[i] > INT64_MAX / 4)
            return REFUSE(p, why, "window or extent out of range along %d",
                          i - 2);
    return 0;
}

static int check_conv_common(const struct kern_problem *p,
                             struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    int r = check_spatial(p, why);

    if (r == 0)
        r = check_steps(p, c->stride, c->dilation, c->pad_begin, c->pad_end,
                        why);
    if (r == 0)
        r = check_window_extents(p, why);
    if (r == 0)
        r = check_groups(p, p->out[0].dim[1], why);
    if (r == 0)
        r = expect_vectors(p, 2, 2, "bias", p->out[0].dim[1], why);
    return r;
}

/* The weight gradient is the problem of its convolution with w and y
 * exchanged: y = in[1] stands where the output is and dw where w is. */
static int check_conv(const struct kern_problem *p, struct infer_error *why);

static int check_conv_wgrad(const struct kern_problem *p,
                            struct infer_error *why)
{
    struct kern_problem fprop = *p;

    fprop.n_in = 2;
    fprop.in[1] = p->out[0];
    fprop.out[0] = p->in[1];
    return check_conv(&fprop, why);
}

static int check_conv(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    int r = check_conv_common(p, why);

    if (r < 0)
        return r;
    int64_t dim[KERN_MAX_RANK] = {y->dim[1], x->dim[1] / c->groups};
    memcpy(dim + 2, p->in[1].dim + 2, (size_t)(x->rank - 2) * sizeof(dim[0]));
    r = problem_expect_shape(p, "weights", &p->in[1], x->rank, dim, why);
    if (r < 0)
        return r;
    dim[0] = x->dim[0];
    dim[1] = y->dim[1];
    for (int i = 0; i < x->rank - 2; i++)
        dim[i + 2] =
            positions(x->dim[i + 2], p->in[1].dim[i + 2], c->dilation[i],
                      c->stride[i], c->pad_begin[i], c->pad_end[i], false);
    return problem_expect_shape(p, "output", y, x->rank, dim, why);
}

/* Moments have parts as kernels/moments.h has them. */
int problem_check_moments(const struct kern_problem *p,
                          const struct kern_tensor *of, struct infer_error *why)
{
    const struct kern_tensor *t = moments_of(p);

    if (!t)
        return 0;
    const int64_t pixels =
        of->dim[1] > 0 ? kern_tensor_count(of) / of->dim[1] : 0;
    if (!scalar_is_float(of->dtype) ||
        (t->dtype != INFER_F32 && t->dtype != INFER_F64))
        return REFUSE(p, why, "moments of %s are %s, expected F32 of reals",
                      infer_dtype_name(of->dtype), infer_dtype_name(t->dtype));
    if (!kern_tensor_is_dense(t, KERN_NCHW) || t->rank != 3 || t->dim[1] != 2 ||
        t->dim[2] != of->dim[1])
        return REFUSE(p, why, "moments are not dense P, 2, %lld",
                      (long long)of->dim[1]);
    if (pixels < 1 || t->dim[0] < 1 ||
        t->dim[0] != moments_parts(moments_part(t->dim[0], pixels), pixels))
        return REFUSE(p, why, "%lld pixels have no moments of %lld parts",
                      (long long)pixels, (long long)t->dim[0]);
    return 0;
}

static int check_conv_fprop(const struct kern_problem *p,
                            struct infer_error *why)
{
    const int r = check_conv(p, why);

    return r < 0 ? r : problem_check_moments(p, &p->out[0], why);
}

/* The output extent is free: every output takes what reaches it. */
static int check_conv_transpose(const struct kern_problem *p,
                                struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *w = &p->in[1];
    const int r = check_conv_common(p, why);

    if (r < 0)
        return r;
    if (w->dim[0] != x->dim[1] ||
        w->dim[1] != p->out[0].dim[1] / p->attr.conv.groups)
        return REFUSE(p, why,
                      "weights are for %lld to %lld channels a group, expected "
                      "%lld to %lld",
                      (long long)w->dim[0], (long long)w->dim[1],
                      (long long)x->dim[1],
                      (long long)(p->out[0].dim[1] / p->attr.conv.groups));
    return 0;
}

static int check_pool(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_pool *a = &p->attr.pool;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    int r = check_spatial(p, why);

    if (r == 0)
        r = check_steps(p, a->stride, a->dilation, a->pad_begin, a->pad_end,
                        why);
    if (r < 0)
        return r;
    if (a->kind != KERN_POOL_MAX && a->kind != KERN_POOL_AVERAGE)
        return REFUSE(p, why, "unknown kind %d", (int)a->kind);
    if (y->dim[1] != x->dim[1])
        return REFUSE(p, why, "output has %lld channels, expected %lld",
                      (long long)y->dim[1], (long long)x->dim[1]);
    for (int i = 0; i < x->rank - 2; i++) {
        if (a->window[i] < 1 || a->window[i] > MAX_STEP ||
            x->dim[i + 2] > INT64_MAX / 4)
            return REFUSE(p, why, "window %d is out of range", a->window[i]);
        const int64_t low =
            positions(x->dim[i + 2], a->window[i], a->dilation[i], a->stride[i],
                      a->pad_begin[i], a->pad_end[i], false);
        const int64_t high =
            positions(x->dim[i + 2], a->window[i], a->dilation[i], a->stride[i],
                      a->pad_begin[i], a->pad_end[i], true);
        if (y->dim[i + 2] < low || y->dim[i + 2] > high)
            return REFUSE(p, why, "output extent is %lld, expected %lld",
                          (long long)y->dim[i + 2], (long long)low);
    }
    return 0;
}

/* dgrad: dy has the shape of the pool's output, dx that of its input. */
static int check_pool_dgrad(const struct kern_problem *p,
                            struct infer_error *why)
{
    const struct kern_tensor *x = kern_problem_in(p, 1);
    struct kern_problem fprop = *p;

    if (!x != (p->attr.pool.kind != KERN_POOL_MAX))
        return REFUSE(p, why, "x is needed for a maximum and nowhere else");
    fprop.in[0] = p->out[0];
    fprop.out[0] = p->in[0];
    const int r = check_pool(&fprop, why);
    return r < 0 ? r : problem_expect_like(p, "x", x, &p->out[0], why);
}

/* ---- products ------------------------------------------------------ */

static int check_dense(const struct kern_problem *p, struct infer_error *why)
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
    return r < 0 ? r : expect_vectors(p, 2, 2, "bias", w->dim[0], why);
}

/* numpy.matmul: a vector counts as a row on the left and as a column on the
 * right, and that dimension is missing in the output. */
static int check_matmul(const struct kern_problem *p, struct infer_error *why)
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
                 : expect_vectors(p, 1, last, "channel vector", p->in[0].dim[1],
                                  why);
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
    int r = check_axis(p, axis, why);

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

static int check_unary_kind(const struct kern_problem *p,
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
    const int r = check_unary_kind(p, p->attr.unary.kind, why);

    return r < 0 ? r : problem_check_like_input(p, why);
}

int problem_check_prelu(const struct kern_problem *p, struct infer_error *why)
{
    const int r = check_broadcast(p, 0, 1, why);

    return r < 0 ? r : problem_check_like_input(p, why);
}

static int check_binary(const struct kern_problem *p, struct infer_error *why)
{
    const enum kern_binary_kind kind = p->attr.binary.kind;

    if ((int)kind < 0 || kind >= KERN_BINARY_COUNT)
        return REFUSE(p, why, "unknown function %d", (int)kind);
    return check_broadcast(p, 0, 1, why);
}

static int check_where(const struct kern_problem *p, struct infer_error *why)
{
    int r = check_broadcast(p, 0, 2, why);

    for (int i = 1; i <= 2 && r == 0; i++)
        r = check_same_dtype(p, i, why);
    return r;
}

static int check_softmax(const struct kern_problem *p, struct infer_error *why)
{
    const int r = check_axis(p, p->attr.softmax.axis, why);

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

static int check_squeeze(const struct kern_problem *p, struct infer_error *why)
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
        r = check_unary_kind(p, p->attr.squeeze.act.kind, why);
    if (r == 0)
        r = expect_vectors(p, 3, 3, "bias", w->dim[0], why);
    return r < 0 ? r : expect_vectors(p, 4, 4, "bias2", w2->dim[0], why);
}

static int check_arg_reduce(const struct kern_problem *p,
                            struct infer_error *why)
{
    const int r = check_axis(p, p->attr.arg_reduce.axis, why);

    if (r < 0)
        return r;
    if (p->out[0].dtype != INFER_I64)
        return REFUSE(p, why, "output is %s, expected I64",
                      infer_dtype_name(p->out[0].dtype));
    return check_reduced(p, 1u << p->attr.arg_reduce.axis, true, why);
}

static int check_gather(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *index = &p->in[1];
    const int axis = p->attr.gather.axis;
    int64_t dim[2 * KERN_MAX_RANK];
    int rank = 0;
    int r = check_axis(p, axis, why);

    if (r == 0)
        r = check_same_dtype(p, 0, why);
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

static int check_pad(const struct kern_problem *p, struct infer_error *why)
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
    const int r = check_same_dtype(p, 0, why);
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

/* ---- all operations ------------------------------------------------ */

/* min_in inputs must be there, max_in may; so with outputs. */
static const struct op_rule {
    int min_in, max_in;
    bool act; /* knows an activation behind it */
    int (*check)(const struct kern_problem *p, struct infer_error *why);
    int min_out, max_out;
} rules[KERN_OP_COUNT] = {
    [KERN_CONV_FPROP] = {2, 4, true, check_conv_fprop, 1, 2},
    [KERN_CONV_TRANSPOSE_FPROP] = {2, 4, true, check_conv_transpose, 1, 1},
    [KERN_DENSE_FPROP] = {2, 4, true, check_dense, 1, 1},
    [KERN_MATMUL] = {2, 2, false, check_matmul, 1, 1},
    [KERN_POOL_FPROP] = {1, 1, true, check_pool, 1, 1},
    [KERN_BATCH_NORM] = {5, 6, true, NULL, 1, 1},
    [KERN_SCALE_SHIFT] = {1, 4, true, NULL, 1, 1},
    [KERN_LAYER_NORM] = {1, 3, false, problem_check_layer_norm, 1, 1},
    [KERN_GROUP_NORM] = {1, 3, false, problem_check_group_norm, 1, 1},
    [KERN_LRN] = {1, 1, false, problem_check_lrn, 1, 1},
    [KERN_UNARY] = {1, 1, false, problem_check_unary, 1, 1},
    [KERN_PRELU] = {2, 2, false, problem_check_prelu, 1, 1},
    [KERN_BINARY] = {2, 3, true, check_binary, 1, 1},
    [KERN_WHERE] = {3, 3, false, check_where, 1, 1},
    [KERN_SOFTMAX] = {1, 1, false, check_softmax, 1, 1},
    [KERN_REDUCE] = {1, 2, false, problem_check_reduce, 1, 1},
    [KERN_SQUEEZE] = {3, 5, true, check_squeeze, 1, 1},
    [KERN_ARG_REDUCE] = {1, 1, false, check_arg_reduce, 1, 1},
    [KERN_GATHER] = {2, 2, false, check_gather, 1, 1},
    [KERN_PAD] = {1, 1, false, check_pad, 1, 1},
    [KERN_RESIZE] = {1, 1, false, problem_check_resize, 1, 1},
    [KERN_COPY] = {1, 1, false, problem_check_like_input, 1, 1},
    [KERN_CONV_WGRAD] = {2, 3, false, check_conv_wgrad, 1, 1},
    [KERN_BATCH_NORM_TRAIN] = {3, 7, true, problem_check_batch_norm_train, 3,
                               6},
    [KERN_BATCH_NORM_DGRAD] = {5, 8, true, problem_check_batch_norm_dgrad, 3,
                               4},
    [KERN_POOL_DGRAD] = {1, 3, false, check_pool_dgrad, 1, 1},
    [KERN_REDUCE_DGRAD] = {1, 3, false, problem_check_reduce_dgrad, 1, 1},
    [KERN_UNARY_DGRAD] = {1, 4, false, problem_check_unary_dgrad, 1, 1},
    [KERN_LRN_DGRAD] = {2, 3, false, problem_check_lrn_dgrad, 1, 1},
    [KERN_PRELU_DGRAD] = {3, 4, false, problem_check_prelu_dgrad, 1, 2},
    [KERN_LAYER_NORM_DGRAD] = {2, 4, false, problem_check_norm_dgrad, 1, 2},
    [KERN_GROUP_NORM_DGRAD] = {2, 4, false, problem_check_norm_dgrad, 1, 2},
    [KERN_RESIZE_DGRAD] = {1, 2, false, problem_check_resize_dgrad, 1, 1},
    [KERN_DROPOUT] = {2, 2, false, problem_check_dropout, 1, 1},
    [KERN_CROSS_ENTROPY] = {2, 3, false, problem_check_cross_entropy, 1, 3},
    [KERN_STEP] = {2, 3, false, problem_check_step, 1, 2},
    [KERN_UPDATE] = {1, 7, false, problem_check_update, 1, 5},
};

static int check_epilogue(const struct kern_problem *p, struct infer_error *why)
{
    const int r = kern_op_residual(p->op);
    const int bad = check_unary_kind(p, p->epilogue.act.kind, why);

    if (bad < 0)
        return bad;
    if (p->epilogue.act.kind != KERN_IDENTITY && !rules[p->op].act)
        return REFUSE(p, why, "knows no activation behind it");
    return r < 0 ? 0
                 : problem_expect_like(p, "residual", kern_problem_in(p, r),
                                       &p->out[0], why);
}

int kern_problem_check(const struct kern_problem *p, struct infer_error *why)
{
    if ((int)p->op < 0 || p->op >= KERN_OP_COUNT)
        return error_set(why, INFER_EUNSUPPORTED, "unknown operation %d",
                         (int)p->op);
    const struct op_rule *rule = &rules[p->op];
    int r = check_inputs(p, rule->min_in, rule->max_in, why);
    if (r == 0)
        r = check_outputs(p, rule->min_out, rule->max_out, why);
    if (r < 0)
        return r;
    if (rule->check)
        r = rule->check(p, why);
    else
        r = problem_check_channel_vectors(p, p->op == KERN_BATCH_NORM ? 4 : 2,
                                          why);
    return r < 0 ? r : check_epilogue(p, why);
}
