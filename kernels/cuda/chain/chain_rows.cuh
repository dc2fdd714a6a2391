/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a depthwise convolution of 3x3 and the 1x1 behind it in one
 * kernel, which chain_depthwise.cuh describes. */
#ifndef KERNELS_CUDA_CHAIN_CHAIN_ROWS_CUH
#define KERNELS_CUDA_CHAIN_CHAIN_ROWS_CUH

#include <stdio.h>

#include "kernels/cuda/chain/chain_repeat.cuh"
#include "kernels/cuda/conv/state.cuh"

extern "C" {
#include "kernels/base/scalar.h"
#include "kernels/chain/chain.h"
}

/* ---- the kernel ---------------------------------------------------- */

/* Blocks that share a multiprocessor, by the registers that sums take
 * (chain_tile.c knows how many). */
template <int MT, int NT> struct chain_bounds {
    enum { BLOCKS = MT * NT <= 8 ? 3 : 2 };
};

/* Waits for a buffer that stages - 1 groups ago was asked for, or one. */
static __device__ __forceinline__ void chain_wait(int stages)
{
    if (stages <= 2)
        ptx_cp_async_wait<0>();
    else if (stages == 3)
        ptx_cp_async_wait<1>();
    else
        ptx_cp_async_wait<2>();
}

template <typename T, int R, int STRIDE, int MT, int NT>
static __global__ void __launch_bounds__(32 * CHAIN_WARPS,
                                         chain_bounds<MT, NT>::BLOCKS)
    chain_kernel(const __grid_constant__ struct chain_args a)
{
    LAUNCH_SHARED(shared);
    int2 *const table = (int2 *)shared;
    const int lane = threadIdx.x % 32, even = (a.g.c + 15) / 16 * 16;
    const int warp = depthwise_warp_number();
    const struct chain_place at = chain_place_of(a);
    const int room = (a.t.pixels * 8 + 15) / 16 * 16;
    const uint32_t buffer = ptx_shared(shared) + room;
    float sum[MT][NT][4];
    bool bad = false;

    chain_fill_weights<R>(a, buffer, 0);
    chain_make_table(a, at, table);
    /* Lane i names place i % 16 of a window's first tap, from 16 on of the
     * next. */
    uint32_t pixel = chain_pixel(a, warp * 16 + lane % 16);
    if (lane >= 16)
        pixel += (STRIDE == 1 ? 1 : a.t.odd) * a.t.pixel;
    launch_wait();
#pragma unroll
    for (int j = 0; j < NT; j++) {
        const int k = 8 * j + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float bias =
                a.out.bias && k + i < a.out.k ? a.out.bias[k + i] : 0;
#pragma unroll
            for (int m = 0; m < MT; m++)
                sum[m][j][i] = sum[m][j][i + 2] = bias;
        }
    }
    __syncthreads();
    for (int chunk = 0; chunk < max(a.t.stages - 1, 1); chunk++) {
        const uint32_t to = buffer + chunk * a.t.stage;
        if (chunk > 0)
            chain_fill_weights<R>(a, to, chunk * a.t.channels);
        chain_fill<T>(a, table, to, chunk * a.t.channels);
        ptx_cp_async_commit();
    }
#pragma unroll 1
    for (int chunk = 0, from = 0; chunk < a.t.chunks; chunk++) {
        const int next = chunk + a.t.stages - 1;
        /* The buffer that was read last. */
        const int to = from == 0 ? a.t.stages - 1 : from - 1;
        chain_wait(a.t.stages);
        __syncthreads();
        if (a.t.stages > 1 && next < a.t.chunks) {
            chain_fill_weights<R>(a, buffer + to * a.t.stage,
                                  next * a.t.channels);
            chain_fill<T>(a, table, buffer + to * a.t.stage,
                          next * a.t.channels);
        }
        ptx_cp_async_commit();
        const uint32_t read = buffer + from * a.t.stage;
        const int steps = min(a.t.channels, even - chunk * a.t.channels) / 16;
        if (a.act.clips)
            bad = chain_multiply<T, R, STRIDE, MT, NT, true>(a, read, steps,
                                                             pixel, sum) ||
                  bad;
        else
            bad = chain_multiply<T, R, STRIDE, MT, NT, false>(a, read, steps,
                                                              pixel, sum) ||
                  bad;
        from = from + 1 == a.t.stages ? 0 : from + 1;
    }
    if (__syncthreads_or(bad)) {
        chain_repeat<T, R>(a, (T *)(shared + room),
                           a.t.stages * a.t.stage / (int)sizeof(T));
        return;
    }
    int out[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            out[m][i] = chain_output(a, at, warp * 16 + lane / 4 + 8 * i, m);
    chain_finish<T, MT, NT>(a, out, sum);
}

/* ---- the host's side ----------------------------------------------- */

struct chain_state {
    struct conv_geometry g; /* of the first convolution */
    int k, y_pitch, r_pitch;
    struct chain_tile t;
};

static int chain_check(const struct kern_problem *p,
                       const struct conv_geometry *g,
                       const struct conv_geometry *second,
                       struct infer_error *why)
{
    if (g->cg != 1 || g->kg != 1 || g->r != 3 || g->s != 3 ||
        g->stride_h != g->stride_w || g->stride_h > 2 || g->dilation_h != 1 ||
        g->dilation_w != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes depthwise windows of 3x3 and strides of 1 and "
                         "2, without dilation");
    if (g->c % 8 || g->x_pitch % 8 || second->k > CHAIN_OUTPUTS || g->m == 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels that are multiples of 8, and up to %d "
                         "outputs, found %d and %d",
                         CHAIN_OUTPUTS, g->c, second->k);
    if (!chain_act_takes(p->attr.chain.act.kind) ||
        !chain_act_takes(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "does not compute this activation");
    return 0;
}

static int chain_read(const struct kern_problem *p, const struct kern_device *d,
                      int variant, struct chain_state *s,
                      struct infer_error *why)
{
    const enum infer_dtype type = p->in[CHAIN_X].dtype;
    struct kern_problem first, second;
    struct conv_geometry g2;
    int rc;

    chain_first(p, type, KERN_NHWC, &first);
    chain_second(p, type, KERN_NHWC, &second);
    rc = conv_geometry_read_pitched(&first, &s->g, why);
    if (rc == 0)
        rc = conv_weights_packable(&first, why);
    if (rc == 0)
        rc = conv_geometry_read_pitched(&second, &g2, why);
    if (rc == 0)
        rc = conv_weights_packable(&second, why);
    if (rc == 0)
        rc = chain_check(p, &s->g, &g2, why);
    if (rc < 0)
        return rc;
    s->k = g2.k;
    s->y_pitch = g2.y_pitch;
    s->r_pitch = g2.r_pitch;
    if (!chain_tile_of(&s->g, g2.k, kern_problem_bytes(p), d, variant, &s->t))
        return error_set(why, INFER_EUNSUPPORTED, "has no variant %d", variant);
    return 0;
}

static int chain_variants(const struct kern_problem *,
                          const struct kern_device *, struct infer_error *)
{
    return CHAIN_VARIANTS;
}

static double chain_estimate_variant(const struct kern_problem *p,
                                     const struct kern_device *d, int variant)
{
    struct chain_state s;

    return chain_read(p, d, variant, &s, NULL) < 0 ? 1e30 : s.t.us;
}

static double chain_estimate(const struct kern_problem *p,
                             const struct kern_device *d)
{
    return chain_estimate_variant(p, d, 0);
}

static void chain_declare(struct kern_exec *e, const struct chain_state *s)
{
    const struct chain_tile *t = &s->t;
    const size_t even = (size_t)conv_round_up(s->g.c, 16);

    e->packed[CHAIN_W] = even / 8 * 16 * (size_t)chain_tap_words(s->g.r);
    e->packed[CHAIN_W2] = even / 16 * (size_t)t->pairs * 512;
    snprintf(e->variant_name, sizeof(e->variant_name), "m%dn%d_%dx%dx%d_c%ds%d",
             16 * t->mt * t->warps, 8 * t->nt, t->images, t->rows, t->columns,
             t->channels, t->stages);
}

static const auto chain_supports =
    state_supports<struct chain_state, chain_read>;
static const auto chain_prepare =
    state_prepare<struct chain_state, chain_read, chain_declare>;

/* The packed weights' order: chain_depthwise.cuh. */
static int chain_pack(const struct kern_exec *e, int i, const void *src,
                      void *dst, struct infer_error *err)
{
    const struct chain_state *s = (const struct chain_state *)e->state;
    const enum infer_dtype from = e->problem.in[i].dtype;
    const enum infer_dtype to = e->problem.in[CHAIN_X].dtype;
    const int taps = s->g.r * s->g.r, words = chain_tap_words(s->g.r);

    (void)err;
    for (int c = 0; i == CHAIN_W && c < s->g.c; c++)
        for (int tap = 0; tap < taps; tap++)
            scalar_store(to, dst, ((int64_t)(c / 2) * words + tap) * 2 + c % 2,
                         scalar_load(from, src, (int64_t)c * taps + tap));
    for (int k = 0; i == CHAIN_W2 && k < s->k; k++)
        for (int c = 0; c < s->g.c; c++) {
            const int64_t block = (int64_t)(c / 16) * s->t.pairs + k / 16;
            const int lane = k % 8 * 4 + c / 2 % 4;
            scalar_store(to, dst,
                         block * 256 + lane * 8 + k / 8 % 2 * 4 +
                             c / 8 % 2 * 2 + c % 2,
                         scalar_load(from, src, (int64_t)k * s->g.c + c));
        }
    return 0;
}

typedef void (*chain_function)(const struct chain_args);

template <typename T, int R, int STRIDE>
static chain_function chain_of(const struct chain_tile *t)
{
    if (t->mt == 4)
        return chain_kernel<T, R, STRIDE, 4, 4>;
    if (t->mt == 1)
        return chain_kernel<T, R, STRIDE, 1, 8>;
    return t->nt == 4 ? chain_kernel<T, R, STRIDE, 2, 4>
                      : chain_kernel<T, R, STRIDE, 2, 8>;
}

template <typename T>
static chain_function chain_for(const struct conv_geometry *g,
                                const struct chain_tile *t)
{
    return g->stride_w == 1 ? chain_of<T, 3, 1>(t) : chain_of<T, 3, 2>(t);
}

static struct output_args chain_output_of(const struct kern_exec *e,
                                          const struct kern_args *args)
{
    const struct chain_state *s = (const struct chain_state *)e->state;
    const struct kern_problem *p = &e->problem;
    struct output_args o;

    o.y = args->out[0];
    o.residual =
        kern_problem_in(p, CHAIN_RESIDUAL) ? args->in[CHAIN_RESIDUAL] : NULL;
    o.bias = kern_problem_in(p, CHAIN_BIAS2)
                 ? (const float *)args->in[CHAIN_BIAS2]
                 : NULL;
    o.k = s->k;
    o.y_pitch = s->y_pitch;
    o.r_pitch = s->r_pitch;
    o.epilogue = p->epilogue;
    return o;
}

template <typename T>
static int chain_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct chain_state *s = (const struct chain_state *)e->state;
    const struct chain_tile *t = &s->t;
    struct chain_args a;

    a.g = s->g;
    a.t = *t;
    a.x = args->in[CHAIN_X];
    a.w = args->in[CHAIN_W];
    a.w2 = args->in[CHAIN_W2];
    a.bias = kern_problem_in(&e->problem, CHAIN_BIAS)
                 ? (const float *)args->in[CHAIN_BIAS]
                 : NULL;
    a.act = chain_act_of(&e->problem.attr.chain.act);
    a.end = chain_act_of(&e->problem.epilogue.act);
    a.out = chain_output_of(e, args);
    a.width = fragment_width(s->k | s->y_pitch, s->r_pitch);
    a.across.init((uint32_t)t->across);
    a.down.init((uint32_t)t->down);
    a.vectors.init((uint32_t)t->channels / 8);
    a.wide.init((uint32_t)t->wide);
    a.plane.init((uint32_t)(t->high * t->wide));
    a.columns.init((uint32_t)t->columns);
    a.places.init((uint32_t)(t->rows / t->mt * t->columns));
    return launch_chained(
        chain_for<T>(&s->g, t), dim3((unsigned)(t->across * t->down * t->deep)),
        dim3(32 * (unsigned)t->warps), (size_t)t->bytes, args->stream, a, err);
}

#define CHAIN_ROW(symbol, T)                                                   \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = chain_supports,                                            \
        .estimate = chain_estimate,                                            \
        .variants = chain_variants,                                            \
        .estimate_variant = chain_estimate_variant,                            \
        .prepare = chain_prepare,                                              \
        .pack = chain_pack,                                                    \
        .launch = chain_launch<T>,                                             \
        .release = cuda_state_release,                                         \
    };

#endif
