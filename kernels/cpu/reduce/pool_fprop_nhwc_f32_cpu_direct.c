/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling over windows, and reductions over all spatial dimensions, which are
 * pooling with one window.  Channels lie side by side; pixels may lie at any
 * distance, so a result may be a slice of a concatenation.
 *
 * An item of work is one row of output pixels, or a part of its channels where
 * there are fewer rows than threads.  Up to 64 channels of an output pixel stay
 * in registers while the pixels of its window are folded in.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/reduce/pool_axis.h"
#include "kernels/problem.h"

enum fold { FOLD_MAX, FOLD_MIN, FOLD_SUM };

/* The arguments of an item; axes are D,H,W with size 1 where absent. */
struct pool {
    enum fold fold;
    bool average, count_include_pad;
    struct pool_axis axis[KERN_MAX_SPATIAL];
    int64_t images, channels, x_image, y_image;
    const struct kern_epilogue *epilogue; /* may be NULL */
};

/* ---- folding ------------------------------------------------------- */

typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
#define LANES 16

/* For AVX2, GCC 12 compares vectors of 64 bytes one element at a time, which is
 * 30 times as slow as two vectors of 32 bytes (SqueezeNet's first pool, 12 and
 * 0.4 ms, one thread of an AMD EPYC). */
typedef float half __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(32)));
#define HALF 8

CPU_INLINE half fold_half(enum fold fold, half a, half b)
{
    mask take;

    if (fold == FOLD_SUM)
        return a + b;
    take = fold == FOLD_MAX ? a < b : b < a;
    return (half)(((mask)b & take) | ((mask)a & ~take));
}

CPU_INLINE float fold_one(enum fold fold, float a, float b)
{
    if (fold == FOLD_SUM)
        return a + b;
    return (fold == FOLD_MAX ? a < b : b < a) ? b : a;
}

/* Part of a window that is a run of pixels, `rows` times. */
struct run {
    const float *x;
    int64_t step, taps, row_step, rows;
};

/* y = fold of y (unless first) and the run, `count` times HALF channels. */
CPU_INLINE void fold_halves(enum fold fold, bool first, int count,
                            const struct run *r, int64_t c, float *y)
{
    half v[8];
    int64_t h, t;
    int i;

#pragma GCC unroll 8
    for (i = 0; i < count; i++)
        v[i] = *(const half *)((first ? r->x : y) + c + i * HALF);
    for (h = 0; h < r->rows; h++) {
        const float *x = r->x + h * r->row_step + c;

        for (t = first && h == 0 ? 1 : 0; t < r->taps; t++)
#pragma GCC unroll 8
            for (i = 0; i < count; i++)
                v[i] = fold_half(fold, v[i],
                                 *(const half *)(x + t * r->step + i * HALF));
    }
#pragma GCC unroll 8
    for (i = 0; i < count; i++)
        *(half *)(y + c + i * HALF) = v[i];
}

/* Sums of more pixels than this are sums of sums of BLOCK pixels, which are
 * added with compensation (Kahan), so that the rounding error does not grow
 * with the number of pixels. */
#define BLOCK 32

/* The same for sums of many pixels. */
CPU_INLINE void sum_vectors(bool first, int count, const struct run *r,
                            int64_t c, float *y)
{
    vec v[4], u[4] = {{0}}, lost[4] = {{0}}, sum;
    int64_t in_block = 0, h, t, end;
    int i;

#pragma GCC unroll 4
    for (i = 0; i < count; i++)
        v[i] = first ? u[i] : *(const vec *)(y + c + i * LANES);
    for (h = 0; h < r->rows; h++) {
        const float *x = r->x + h * r->row_step + c;

        for (t = 0; t < r->taps;) {
            end =
                t + BLOCK - in_block < r->taps ? t + BLOCK - in_block : r->taps;
            in_block += end - t;
            for (; t < end; t++)
#pragma GCC unroll 4
                for (i = 0; i < count; i++)
                    u[i] += *(const vec *)(x + t * r->step + i * LANES);
            if (in_block < BLOCK)
                continue;
#pragma GCC unroll 4
            for (i = 0; i < count; i++) {
                u[i] -= lost[i];
                sum = v[i] + u[i];
                lost[i] = (sum - v[i]) - u[i];
                v[i] = sum;
                u[i] = (vec){0};
            }
            in_block = 0;
        }
    }
#pragma GCC unroll 4
    for (i = 0; i < count; i++)
        *(vec *)(y + c + i * LANES) = v[i] + (u[i] - lost[i]);
}

/* The same of one channel. */
CPU_INLINE float sum_one(float v, const struct run *r, int64_t c)
{
    float u = 0, lost = 0, sum;
    int64_t in_block = 0, h, t;

    for (h = 0; h < r->rows; h++)
        for (t = 0; t < r->taps; t++) {
            u += r->x[h * r->row_step + t * r->step + c];
            if (++in_block < BLOCK)
                continue;
            u -= lost;
            sum = v + u;
            lost = (sum - v) - u;
            v = sum;
            u = 0;
            in_block = 0;
        }
    return v + (u - lost);
}

CPU_CLONES static void sum_run(bool first, const struct run *r, float *y,
                               int64_t n)
{
    int64_t c = 0;

    for (; c + 4 * LANES <= n; c += 4 * LANES)
        sum_vectors(first, 4, r, c, y);
    for (; c + LANES <= n; c += LANES)
        sum_vectors(first, 1, r, c, y);
    for (; c < n; c++)
        y[c] = sum_one(first ? 0 : y[c], r, c);
}

/* n channels of one output pixel. */
CPU_INLINE void fold_channels(enum fold fold, bool first, const struct run *r,
                              float *y, int64_t n)
{
    int64_t c = 0, h, t;

    for (; c + 8 * HALF <= n; c += 8 * HALF)
        fold_halves(fold, first, 8, r, c, y);
    for (; c + HALF <= n; c += HALF)
        fold_halves(fold, first, 1, r, c, y);
    for (; c < n; c++) {
        float v = first ? r->x[c] : y[c];

        for (h = 0; h < r->rows; h++)
            for (t = first && h == 0 ? 1 : 0; t < r->taps; t++)
                v = fold_one(fold, v, r->x[h * r->row_step + t * r->step + c]);
        y[c] = v;
    }
}

CPU_CLONES static void fold_run(enum fold fold, bool first, const struct run *r,
                                float *y, int64_t n)
{
    if (fold == FOLD_MAX)
        fold_channels(FOLD_MAX, first, r, y, n);
    else if (fold == FOLD_MIN)
        fold_channels(FOLD_MIN, first, r, y, n);
    else
        fold_channels(FOLD_SUM, first, r, y, n);
}

CPU_CLONES static void scale_row(float *y, float factor, int64_t n)
{
    int64_t c;

#pragma omp simd
    for (c = 0; c < n; c++)
        y[c] *= factor;
}

/* ---- windows ------------------------------------------------------- */

/* Channels [c, c + n) of one output pixel; y is its address. */
static void pool_pixel(const struct pool *p, const float *x, float *y,
                       const int64_t o[3], int64_t n)
{
    const struct pool_axis *a = p->axis;
    int64_t from[3], to[3], counted[3], at[3], d, i, area = 1;

    for (i = 0; i < 3; i++) {
        pool_taps(&a[i], o[i], &from[i], &to[i], &counted[i]);
        area *= to[i] - from[i];
        at[i] = o[i] * a[i].stride - a[i].begin + from[i] * a[i].dilation;
        x += at[i] * a[i].x_stride;
    }
    for (d = from[0]; d < to[0] && area > 0; d++) {
        const struct run run = {x + (d - from[0]) * a[0].dilation *
                                        a[0].x_stride,
                                a[2].dilation * a[2].x_stride, to[2] - from[2],
                                a[1].dilation * a[1].x_stride, to[1] - from[1]};

        if (p->fold == FOLD_SUM && run.taps * run.rows > BLOCK)
            sum_run(d == from[0], &run, y, n);
        else
            fold_run(p->fold, d == from[0], &run, y, n);
    }
    if (area == 0)
        for (i = 0; i < n; i++)
            y[i] = 0.0f;
    if (p->count_include_pad)
        area = counted[0] * counted[1] * counted[2];
    if (p->average && area > 1)
        scale_row(y, 1.0f / (float)area, n);
    if (p->epilogue)
        cpu_epilogue(p->epilogue, y, NULL, n);
}

static void pool_run(const struct pool *p, int threads, const float *x,
                     float *y)
{
    const struct pool_axis *a = p->axis;
    const int64_t rows = p->images * a[0].out * a[1].out;
    int64_t taps = a[0].window * a[1].window * a[2].window, parts = 1, item;
    int count;

    taps *= rows * a[2].out;
    count = cpu_threads(threads, taps * p->channels);
    /* Parts hold at least a cache line of channels. */
    if (rows < count && p->channels >= 32)
        parts = p->channels / 16 < count ? p->channels / 16 : count;
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (item = 0; item < rows * parts; item++) {
        const int64_t row = item / parts;
        int64_t o[3], c, end, n;

        cpu_share((p->channels + 15) / 16, (int)(item % parts), (int)parts, &c,
                  &end);
        c *= 16;
        n = (end * 16 < p->channels ? end * 16 : p->channels) - c;
        o[1] = row % a[1].out;
        o[0] = row / a[1].out % a[0].out;
        for (o[2] = 0; o[2] < a[2].out && n > 0; o[2]++) {
            const int64_t image = row / (a[1].out * a[0].out);

            pool_pixel(p, x + image * p->x_image + c,
                       y + image * p->y_image + o[0] * a[0].y_stride +
                           o[1] * a[1].y_stride + o[2] * a[2].y_stride + c,
                       o, n);
        }
    }
}

/* ---- pooling ------------------------------------------------------- */

/* attr NULL: reductions. */
static void fill_tensors(struct pool *pool, const struct kern_tensor *x,
                         const struct kern_tensor *y,
                         const struct kern_pool *attr)
{
    pool->images = x->dim[0];
    pool->channels = x->dim[1];
    pool->x_image = x->stride[0];
    pool->y_image = y->stride[0];
    pool_axes(pool->axis, x, y, attr);
}

static int check_tensors(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];

    if (!cpu_is_f32(x) || !cpu_is_f32(y) || x->rank < 3 || x->rank > 5)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes F32 with 1 to 3 spatial dimensions");
    if (!cpu_channels_inner(x) || !cpu_channels_inner(y))
        return error_set(why, INFER_EUNSUPPORTED, "takes channels last");
    return 0;
}

static int pool_supports(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    int i;

    (void)d;
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    for (i = 0; i < p->in[0].rank - 2 && i < KERN_MAX_SPATIAL; i++)
        if (p->attr.pool.pad_begin[i] < 0 || p->attr.pool.pad_end[i] < 0)
            return error_set(why, INFER_EUNSUPPORTED, "takes pads from 0 up");
    return check_tensors(p, why);
}

static int pool_launch(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_pool *attr = &p->attr.pool;
    struct pool pool = {
        .fold = attr->kind == KERN_POOL_MAX ? FOLD_MAX : FOLD_SUM,
        .average = attr->kind == KERN_POOL_AVERAGE,
        .count_include_pad = attr->count_include_pad,
        .epilogue =
            p->epilogue.act.kind == KERN_IDENTITY ? NULL : &p->epilogue};

    (void)err;
    fill_tensors(&pool, &p->in[0], &p->out[0], attr);
    pool_run(&pool, cpu_threads_of(e), args->in[0], args->out[0]);
    return 0;
}

KERN_FUNCTIONS(pool_fprop_nhwc_f32_cpu_direct) = {
    .supports = pool_supports,
    .prepare = cpu_prepare,
    .launch = pool_launch,
    .release = cpu_release,
};

/* ---- reductions ---------------------------------------------------- */

static int reduce_supports(const struct kern_problem *p,
                           const struct kern_device *d, struct infer_error *why)
{
    int i, r = check_tensors(p, why);

    (void)d;
    if (r < 0)
        return r;
    if (kern_problem_in(p, 1))
        return error_set(why, INFER_EUNSUPPORTED, "adds no residual");
    if (p->attr.reduce.kind > KERN_REDUCE_MIN)
        return error_set(why, INFER_EUNSUPPORTED, "does mean, sum, max, min");
    for (i = 0; i < p->in[0].rank; i++) {
        const bool reduced = p->attr.reduce.axes >> i & 1;

        if (p->in[0].dim[i] < 1 || (reduced ? i < 2 : i >= 2))
            return error_set(why, INFER_EUNSUPPORTED,
                             "reduces all spatial dimensions and no other");
    }
    return 0;
}

static int reduce_launch(const struct kern_exec *e,
                         const struct kern_args *args, struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    struct pool pool = {.fold = kind == KERN_REDUCE_MAX   ? FOLD_MAX
                                : kind == KERN_REDUCE_MIN ? FOLD_MIN
                                                          : FOLD_SUM,
                        .average = kind == KERN_REDUCE_MEAN};
    int i;

    (void)err;
    fill_tensors(&pool, &p->in[0], &p->out[0], NULL);
    for (i = 0; i < KERN_MAX_SPATIAL; i++)
        pool.axis[i].window = pool.axis[i].in;
    pool_run(&pool, cpu_threads_of(e), args->in[0], args->out[0]);
    return 0;
}

KERN_FUNCTIONS(reduce_nhwc_f32_cpu_direct) = {
    .supports = reduce_supports,
    .prepare = cpu_prepare,
    .launch = reduce_launch,
    .release = cpu_release,
};
