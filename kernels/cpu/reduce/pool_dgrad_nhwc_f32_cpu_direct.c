/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of 1-D to 3-D pooling, channels last.
 *
 * An item of work is one image and up to CHANNELS of its channels: no other
 * item writes there.  It starts from zeros or from what is to be added to, and
 * every window then adds its gradient to its inputs: in equal parts to all that
 * it averaged, or to the tap that held its first maximum, which is found again
 * for all channels of a pixel side by side.
 */
#include "config.h"

#include "kernels/cpu/reduce/pool_axis.h"

#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { DY, X, RESIDUAL };

/* Channels whose maxima and taps stay in the first-level cache. */
#define CHANNELS 64

struct pool {
    const struct kern_problem *p;
    struct pool_axis axis[KERN_MAX_SPATIAL]; /* of dx, which x lies like */
    const float *dy, *x, *residual;
    float *dx;
    int64_t blocks; /* of channels */
};

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (p->in[DY].rank < 3 || p->in[DY].rank > 5 ||
        !cpu_is_dense(&p->in[DY], KERN_NHWC) ||
        !cpu_is_dense(&p->out[0], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_in(p, X), KERN_NHWC) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense channels-last F32 tensors with 1 to 3 "
                         "spatial dimensions");
    for (int i = 0; i < p->in[DY].rank - 2; i++)
        if (p->attr.pool.pad_begin[i] < 0 || p->attr.pool.pad_end[i] < 0)
            return error_set(why, INFER_EUNSUPPORTED, "takes pads from 0 up");
    return 0;
}

/* ---- one window ---------------------------------------------------- */

/* `yes` if mask is all ones, `no` if it is 0.  Without a branch, since the
 * place of a maximum cannot be predicted. */
CPU_INLINE uint32_t choose(uint32_t mask, uint32_t yes, uint32_t no)
{
    return (yes & mask) | (no & ~mask);
}

/* All ones where v is above top, or NaN. */
CPU_INLINE uint32_t takes(float v, float top)
{
    return 0u - ((uint32_t)(v > top) | (uint32_t)(v != v));
}

/* dx[i] += dy[i] * factor */
CPU_INLINE void add_part(const float *dy, float factor, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] += dy[i] * factor;
}

/* Tap number `tap` where it holds more than all before it, or is NaN. */
CPU_INLINE void keep_top(const float *x, uint32_t tap, float *top, uint32_t *at,
                         int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const uint32_t mask = takes(x[i], top[i]);

        top[i] =
            float_of_bits(choose(mask, float_bits(x[i]), float_bits(top[i])));
        at[i] = choose(mask, tap, at[i]);
    }
}

CPU_INLINE void add_where(const float *dy, const uint32_t *at, uint32_t tap,
                          float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] +=
            float_of_bits(float_bits(dy[i]) & (0u - (uint32_t)(at[i] == tap)));
}

/* The part of a window inside the input. */
struct part {
    int64_t from[3], to[3]; /* taps */
    int64_t at;             /* offset of tap from[] in x and dx */
};

/* Calls fn for every tap, numbered from 0. */
#define EACH_TAP(d, h, w, part)                                                \
    for (int64_t d = (part)->from[0]; d < (part)->to[0]; d++)                  \
        for (int64_t h = (part)->from[1]; h < (part)->to[1]; h++)              \
            for (int64_t w = (part)->from[2]; w < (part)->to[2]; w++)

/* Offset of a tap from the first. */
CPU_INLINE int64_t offset_of(const struct pool *v, const struct part *t,
                             int64_t d, int64_t h, int64_t w)
{
    const struct pool_axis *a = v->axis;

    return (d - t->from[0]) * a[0].dilation * a[0].x_stride +
           (h - t->from[1]) * a[1].dilation * a[1].x_stride +
           (w - t->from[2]) * a[2].dilation * a[2].x_stride;
}

/* A whole window of so many taps, in one loop over the channels: there may be
 * few of them. */
CPU_INLINE void give_taps(int taps, const int64_t *at, const float *dy,
                          const float *x, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = dy[i];
        float top = x[at[0] + i];
        uint32_t best = 0;

#pragma GCC unroll 9
        for (int t = 1; t < taps; t++) {
            const float v = x[at[t] + i];
            const uint32_t mask = takes(v, top);

            top = float_of_bits(choose(mask, float_bits(v), float_bits(top)));
            best = choose(mask, (uint32_t)t, best);
        }
#pragma GCC unroll 9
        for (int t = 0; t < taps; t++)
            dx[at[t] + i] += float_of_bits(
                float_bits(g) & (0u - (uint32_t)(best == (uint32_t)t)));
    }
}

/* True where the window was one of the usual sizes, and is done. */
CPU_INLINE bool give_whole(const struct pool *v, const struct part *t,
                           const float *dy, const float *x, float *dx,
                           int64_t n)
{
    const int64_t taps = (t->to[0] - t->from[0]) * (t->to[1] - t->from[1]) *
                         (t->to[2] - t->from[2]);
    int64_t at[9];
    int count = 0;

    if (taps != 4 && taps != 9)
        return false;
    EACH_TAP(d, h, w, t)
    at[count++] = offset_of(v, t, d, h, w);
    if (taps == 4)
        give_taps(4, at, dy, x, dx, n);
    else
        give_taps(9, at, dy, x, dx, n);
    return true;
}

CPU_INLINE void scatter_maximum(const struct pool *v, const struct part *t,
                                const float *dy, const float *x, float *dx,
                                int64_t n)
{
    float top[CHANNELS];
    uint32_t at[CHANNELS] = {0}, tap = 0;

    if (give_whole(v, t, dy, x, dx, n))
        return;
    memcpy(top, x, (size_t)n * sizeof(*top));
    EACH_TAP(d, h, w, t)
    {
        if (tap > 0)
            keep_top(x + offset_of(v, t, d, h, w), tap, top, at, n);
        tap++;
    }
    tap = 0;
    EACH_TAP(d, h, w, t)
    {
        add_where(dy, at, tap, dx + offset_of(v, t, d, h, w), n);
        tap++;
    }
}

/* One output pixel; offsets are those of the image and the channels. */
CPU_INLINE void scatter(const struct pool *v, const int64_t *o, int64_t dy,
                        int64_t image, int64_t n)
{
    const struct kern_pool *a = &v->p->attr.pool;
    struct part t = {.at = image};
    int64_t inside = 1, counted = 1;

    for (int i = 0; i < 3; i++) {
        const struct pool_axis *x = &v->axis[i];
        int64_t padded, at;

        pool_taps(x, o[i], &t.from[i], &t.to[i], &padded);
        at = o[i] * x->stride - x->begin + t.from[i] * x->dilation;
        inside *= t.to[i] - t.from[i];
        counted *= padded;
        t.at += at * x->x_stride;
        dy += o[i] * x->y_stride;
    }
    if (inside == 0)
        return;
    if (a->kind == KERN_POOL_MAX) {
        scatter_maximum(v, &t, v->dy + dy, v->x + t.at, v->dx + t.at, n);
        return;
    }
    EACH_TAP(d, h, w, &t)
    add_part(v->dy + dy,
             1.0f / (float)(a->count_include_pad ? counted : inside),
             v->dx + t.at + offset_of(v, &t, d, h, w), n);
}

/* ---- items --------------------------------------------------------- */

/* Fills the image's pixels before the windows are added: zeros or the
 * residual. */
static void start(const struct pool *v, int64_t at, int64_t pixels, int64_t n)
{
    const int64_t step = v->p->out[0].dim[1];
    const size_t bytes = (size_t)(n == step ? pixels * n : n) * sizeof(float);

    /* All channels are one run. */
    if (n == step)
        pixels = 1;
    for (int64_t i = 0; i < pixels; i++, at += step)
        if (!v->residual)
            memset(v->dx + at, 0, bytes);
        else if (v->residual != v->dx)
            memcpy(v->dx + at, v->residual + at, bytes);
}

/* All windows of an image; the loops over channels may be short, so that all
 * of it is one function in each clone. */
CPU_CLONES static void scatter_all(const struct pool *v, int64_t dy, int64_t dx,
                                   int64_t n)
{
    const struct pool_axis *a = v->axis;
    int64_t o[3];

    for (o[0] = 0; o[0] < a[0].out; o[0]++)
        for (o[1] = 0; o[1] < a[1].out; o[1]++)
            for (o[2] = 0; o[2] < a[2].out; o[2]++)
                scatter(v, o, dy, dx, n);
}

static void item(void *context, int64_t i)
{
    const struct pool *v = context;
    const struct pool_axis *a = v->axis;
    const int64_t channels = v->p->out[0].dim[1];
    const int64_t image = i / v->blocks, c = i % v->blocks * CHANNELS;
    const int64_t n = channels - c < CHANNELS ? channels - c : CHANNELS;
    const int64_t in = a[0].in * a[1].in * a[2].in;
    const int64_t out = a[0].out * a[1].out * a[2].out;
    const int64_t dx = image * in * channels + c;

    start(v, dx, in, n);
    scatter_all(v, image * out * channels + c, dx, n);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct pool v = {
        .p = p,
        .dy = args->in[DY],
        .x = args->in[X],
        .residual = kern_problem_in(p, RESIDUAL) ? args->in[RESIDUAL] : NULL,
        .dx = args->out[0],
        .blocks = (p->out[0].dim[1] + CHANNELS - 1) / CHANNELS};
    const int64_t count = kern_tensor_count(&p->out[0]);

    (void)err;
    if (count == 0)
        return 0;
    pool_axes(v.axis, &p->out[0], &p->in[DY], &p->attr.pool);
    kern_cpu_each(cpu_threads(cpu_threads_of(e), count),
                  p->out[0].dim[0] * v.blocks, item, &v);
    return 0;
}

KERN_FUNCTIONS(pool_dgrad_nhwc_f32_cpu_direct) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
