/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution (one input channel a group) on F8E4M3, channels last,
 * of any window.
 *
 * Products and sums are in single precision, as its FMA rounds them.  Weights
 * are packed as F32 [r][s][k].  A thread has N channels of TW outputs along the
 * width, and reads the weights of a tap once for all of them: four channels
 * where a word holds them, that is one output a channel and channels in 4s,
 * else one.
 *
 * Thread i computes channels N (i % (k/N)), columns TW (i / (k/N) % tiles) and
 * on, of row i / (k/N) / tiles of all rows n, p.  No shared memory.
 */
#include <stdlib.h>

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/quant/end.cuh"

#define THREADS 128
#define TW      4

struct float8_depthwise_args {
    struct conv_geometry g;
    const uint8_t *x;
    const float *w;
    struct output_args out;
    struct quant_end end;
    int64_t count; /* threads with work */
    int tiles;     /* of a row of outputs */
};

/* Adds the products of one tap.  x: the channels of column 0 of its line. */
template <int N>
static __device__ __forceinline__ void add_tap(const struct conv_geometry &g,
                                               const uint8_t *x, const float *w,
                                               int column, float (&acc)[TW][N])
{
    float f[N];

    load_floats<float, N>(w, f);
#pragma unroll
    for (int t = 0; t < TW; t++) {
        const int at = column + t * g.stride_w;
        float v[4];
        if ((unsigned)at >= (unsigned)g.w)
            continue;
        const uint8_t *from = x + (int64_t)at * g.x_pitch;
        float8_values(N == 4 ? __ldg((const uint32_t *)from) : __ldg(from), v);
#pragma unroll
        for (int j = 0; j < N; j++)
            acc[t][j] = fmaf(v[j], f[j], acc[t][j]);
    }
}

template <int N>
static __global__ void __launch_bounds__(THREADS)
    float8_depthwise(const __grid_constant__ struct float8_depthwise_args a)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const struct conv_geometry &g = a.g;
    const int parts = g.k / N;

    launch_wait();
    if (i >= a.count)
        return;
    const int k = (int)(i % parts) * N;
    const int64_t rest = i / parts;
    const int q = (int)(rest % a.tiles) * TW;
    const int np = (int)(rest / a.tiles);
    const int row = np % g.p * g.stride_h - g.pad_top;
    const int column = q * g.stride_w - g.pad_left;
    float acc[TW][N] = {};

    for (int r = 0; r < g.r; r++) {
        const int h = row + r * g.dilation_h;
        if ((unsigned)h >= (unsigned)g.h)
            continue;
        const uint8_t *line =
            a.x + (int64_t)(np / g.p * g.h + h) * g.w * g.x_pitch + k / g.kg;
        for (int s = 0; s < g.s; s++)
            add_tap<N>(g, line, a.w + (int64_t)(r * g.s + s) * g.k + k,
                       column + s * g.dilation_w, acc);
    }
    struct quant_channels<N> c;
    quant_load_channels<N>(a.end, a.out.bias, k, g.k, &c);
#pragma unroll
    for (int t = 0; t < TW; t++)
        if (q + t < g.q) {
            const int m = np * g.q + q + t;
            if constexpr (N == 4)
                quant_store_four<false>(a.end, a.out, c, m, k, acc[t]);
            else
                quant_store<N, QUANT_ANY>(a.end, a.out, c, m, k, acc[t]);
        }
}

/* ---- the host's side ----------------------------------------------- */

struct float8_depthwise_state {
    struct conv_geometry g;
    bool words; /* four channels a thread */
    size_t packed;
};

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *, int,
                        struct float8_depthwise_state *s,
                        struct infer_error *why)
{
    const int rc = conv_geometry_read_pitched(p, &s->g, why);
    const struct conv_geometry *g = &s->g;

    if (rc < 0)
        return rc;
    if (g->cg != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "%d channels a group, supported 1", g->cg);
    s->words = g->kg == 1 && g->k % 4 == 0 && g->x_pitch % 4 == 0 &&
               g->y_pitch % 4 == 0 && g->r_pitch % 4 == 0;
    s->packed = (size_t)g->k * g->r * g->s * sizeof(float);
    return quant_check(p, false, why);
}

/* Instructions of a channel's output at 0.6 of the peak, or the bytes. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct float8_depthwise_state s;

    if (read_problem(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const double each = 16 + (s.words ? 4.0 : 10.0) * s.g.r * s.g.s;
    const double products = (double)s.g.m * s.g.k * each / 128 /
                            (conv_multiprocessors(d) * 1.7e3 * 0.6);

    return 2 + cost_overlapped(products, kern_problem_bytes(p) / 3e6, 0.2);
}

static void declare(struct kern_exec *e, const struct float8_depthwise_state *s)
{
    e->packed[CONV_W] = quant_packed_bytes(s->packed, s->g.k);
}

static int pack(const struct kern_exec *e, int, const void *src, void *dst,
                struct infer_error *)
{
    const struct float8_depthwise_state *s =
        (const struct float8_depthwise_state *)e->state;

    quant_pack_tail(&e->problem, (const int8_t *)src, s->g.k,
                    (int64_t)s->g.r * s->g.s, s->packed, dst);
    conv_pack_taps(&s->g, INFER_F8E4M3, src, INFER_F32, dst);
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct float8_depthwise_state *s =
        (const struct float8_depthwise_state *)e->state;
    const struct conv_geometry *g = &s->g;
    struct float8_depthwise_args a = {};

    if (g->m == 0)
        return 0;
    a.g = *g;
    a.x = (const uint8_t *)args->in[CONV_X];
    a.w = (const float *)args->in[CONV_W];
    a.out = output_of(e, args, g->k);
    a.out.y_pitch = g->y_pitch;
    a.out.r_pitch = g->r_pitch;
    a.end = quant_end_of(e, args, s->packed, g->k);
    a.tiles = conv_ceil_div(g->q, TW);
    a.count = (int64_t)g->n * g->p * a.tiles * (g->k / (s->words ? 4 : 1));
    const dim3 grid((unsigned)((a.count + THREADS - 1) / THREADS));
    return s->words ? launch_chained(float8_depthwise<4>, grid, dim3(THREADS),
                                     0, args->stream, a, err)
                    : launch_chained(float8_depthwise<1>, grid, dim3(THREADS),
                                     0, args->stream, a, err);
}

KERN_FUNCTIONS(conv2d_fprop_nhwc_f8e4m3_cuda_depthwise) = {
    .supports = state_supports<struct float8_depthwise_state, read_problem>,
    .estimate = estimate,
    .prepare =
        state_prepare<struct float8_depthwise_state, read_problem, declare>,
    .pack = pack,
    .launch = launch,
    .release = cuda_state_release,
};
