/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the problems of convolution and pooling, both ways. */
#include "kernels/check/problem_check.h"

#include <string.h>

#include "kernels/base/scalar.h"
#include "kernels/input_scale.h"
#include "kernels/bn_stats.h"

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
        r = problem_expect_vectors(p, 2, 2, "bias", p->out[0].dim[1], why);
    return r;
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

/* The weight gradient is the problem of its convolution with w and y
 * exchanged: y = in[1] stands where the output is and dw where w is. */
int problem_check_conv_wgrad(const struct kern_problem *p,
                             struct infer_error *why)
{
    struct kern_problem fprop = *p;

    fprop.n_in = 2;
    fprop.in[1] = p->out[0];
    fprop.out[0] = p->in[1];
    return check_conv(&fprop, why);
}

/* Moments have parts as kernels/bn_stats.h has them. */
int problem_check_bn_stats(const struct kern_problem *p,
                           const struct kern_tensor *of,
                           struct infer_error *why)
{
    const struct kern_tensor *t = bn_stats_of(p);

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
        t->dim[0] != bn_stats_parts(bn_stats_part(t->dim[0], pixels), pixels))
        return REFUSE(p, why, "%lld pixels have no moments of %lld parts",
                      (long long)pixels, (long long)t->dim[0]);
    return 0;
}

/* One factor an image and channel of the input. */
static int check_input_scale(const struct kern_problem *p,
                             struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *factors = input_scale_of(p);
    int64_t dim[KERN_MAX_RANK] = {x->dim[0], x->dim[1], 1, 1, 1};

    if (factors && (factors->dtype != x->dtype || !scalar_is_float(x->dtype)))
        return REFUSE(p, why, "factors are %s and the input %s, expected reals",
                      infer_dtype_name(factors->dtype),
                      infer_dtype_name(x->dtype));
    return problem_expect_shape(p, "factors", factors, x->rank, dim, why);
}

int problem_check_conv_fprop(const struct kern_problem *p,
                             struct infer_error *why)
{
    int r = check_conv(p, why);

    if (r == 0)
        r = check_input_scale(p, why);
    return r < 0 ? r : problem_check_bn_stats(p, &p->out[0], why);
}

/* The output extent is free: every output takes what reaches it. */
int problem_check_conv_transpose(const struct kern_problem *p,
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

int problem_check_pool(const struct kern_problem *p, struct infer_error *why)
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
int problem_check_pool_dgrad(const struct kern_problem *p,
                             struct infer_error *why)
{
    const struct kern_tensor *x = kern_problem_in(p, 1);
    struct kern_problem fprop = *p;

    if (!x != (p->attr.pool.kind != KERN_POOL_MAX))
        return REFUSE(p, why, "x is needed for a maximum and nowhere else");
    fprop.in[0] = p->out[0];
    fprop.out[0] = p->in[0];
    const int r = problem_check_pool(&fprop, why);
    return r < 0 ? r : problem_expect_like(p, "x", x, &p->out[0], why);
}
