/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution with a window of any size, stride, dilation and number
 * of outputs a channel, in single precision.  depthwise.cuh has the map of
 * threads; the window is a loop.
 *
 * A weight is loaded and converted once for the TW outputs of a thread.  With
 * stride and dilation 1 along the width a pixel is, too: the thread goes along
 * the row of the window's pixels and keeps the last TW weights in registers, so
 * that a pixel meets the weights of all outputs that it is part of.  For 8
 * channels of 16 bits that takes 14 instructions an output and filter position,
 * the 8 multiply-adds included; otherwise 24.
 *
 * Outputs a channel.  V adjacent outputs come from V / KG adjacent input
 * channels; KG 0: from one channel.
 *
 * Pixels outside the image and weights outside the window are not multiplied: a
 * zero times an infinity would be NaN.
 */
#ifndef KERNELS_CUDA_DEPTHWISE_DEPTHWISE_WINDOW_CUH
#define KERNELS_CUDA_DEPTHWISE_DEPTHWISE_WINDOW_CUH

#include "kernels/cuda/depthwise/depthwise_thread.cuh"

/* Input channels that V outputs come from. */
template <int V, int KG> struct depthwise_inputs {
    enum { N = KG == 0 ? 1 : V / KG };
};

/* The values of V outputs' channels. */
template <typename T, int V, int KG>
static __device__ __forceinline__ void
depthwise_spread(const vec<T, depthwise_inputs<V, KG>::N> &from, float (&x)[V])
{
    enum { EACH = KG == 0 ? V : KG };

#pragma unroll
    for (int j = 0; j < V; j++)
        x[j] = to_float(from.at[j / EACH]);
}

/* A row of the window.  x: the image's row, of which output t's window begins
 * at column + t stride_w; taps: the row's weights. */
template <typename T, int V, int KG, int TW>
static __device__ __forceinline__ void
depthwise_window_row(const struct conv_geometry &g, const T *x, const T *taps,
                     int column, float (&acc)[TW][V])
{
    enum { N = depthwise_inputs<V, KG>::N };

#pragma unroll 2
    for (int s = 0; s < g.s; s++) {
        vec<T, N> pixel[TW];
        float w[V], value[V];
        bool ok[TW];

#pragma unroll
        for (int t = 0; t < TW; t++) {
            const int at = column + t * g.stride_w;
            ok[t] = (unsigned)at < (unsigned)g.w;
            pixel[t] = load_vec<T, N>(x + (ok[t] ? at : 0) * g.x_pitch);
        }
        load_floats<T, V>(taps + s * g.k, w);
#pragma unroll
        for (int t = 0; t < TW; t++) {
            depthwise_spread<T, V, KG>(pixel[t], value);
            if (ok[t])
#pragma unroll
                for (int j = 0; j < V; j++)
                    acc[t][j] = fmaf(value[j], w[j], acc[t][j]);
        }
        column += g.dilation_w;
    }
}

/* The same with stride and dilation 1.  Weight s stays in slot s % TW while it
 * has pixels left; a turn of the loop takes TW pixels. */
template <typename T, int V, int TW>
static __device__ __forceinline__ void
depthwise_window_slide(const struct conv_geometry &g, const T *x, const T *taps,
                       int column, float (&acc)[TW][V])
{
    float w[TW][V], value[V];

    for (int s = 0; s < g.s + TW - 1; s += TW) {
        vec<T, V> pixel[TW], weight[TW];
        bool ok[TW];
#pragma unroll
        for (int i = 0; i < TW; i++) {
            ok[i] = (unsigned)(column + s + i) < (unsigned)g.w;
            pixel[i] =
                load_vec<T, V>(x + (ok[i] ? column + s + i : 0) * g.x_pitch);
            weight[i] = load_vec<T, V>(taps + min(s + i, g.s - 1) * g.k);
        }
#pragma unroll
        for (int i = 0; i < TW; i++) {
#pragma unroll
            for (int j = 0; j < V; j++) {
                w[i][j] = to_float(weight[i].at[j]);
                value[j] = to_float(pixel[i].at[j]);
            }
#pragma unroll
            for (int t = 0; t < TW; t++)
                if (ok[i] && (unsigned)(s + i - t) < (unsigned)g.s)
#pragma unroll
                    for (int j = 0; j < V; j++)
                        acc[t][j] =
                            fmaf(value[j], w[(i - t + TW) % TW][j], acc[t][j]);
        }
    }
}

template <typename T, int V, int KG, int TW, bool SLIDE>
static __global__ void __launch_bounds__(DEPTHWISE_THREADS, 2)
    depthwise_window(const __grid_constant__ struct depthwise_args a)
{
    const int64_t i = depthwise_thread();
    const struct conv_geometry &g = a.g;

    launch_wait();
    if (i >= a.count)
        return;
    const struct depthwise_place at = depthwise_place_of(a, i, V, TW);
    const int column = at.q * g.stride_w - g.pad_left;
    const T *x = (const T *)a.x + at.k / g.kg;
    float acc[TW][V] = {};

    for (int r = 0; r < g.r; r++) {
        const int h = at.p * g.stride_h - g.pad_top + r * g.dilation_h;
        if ((unsigned)h >= (unsigned)g.h || g.w == 0)
            continue;
        const T *row = x + (at.n * g.h + h) * g.w * g.x_pitch;
        const T *taps = (const T *)a.w + r * g.s * g.k + at.k;
        if constexpr (SLIDE)
            depthwise_window_slide<T, V, TW>(g, row, taps, column, acc);
        else
            depthwise_window_row<T, V, KG, TW>(g, row, taps, column, acc);
    }
    depthwise_finish<T, V, TW>(a.out, (at.n * g.p + at.p) * g.q + at.q, at.k,
                               g.q - at.q, acc);
}

/* ---- launching ----------------------------------------------------- */

/* Outputs that depthwise_window() computes together: V, which is 16 bytes of
 * them; a pair of channels where these would not be whole vectors; 1 where the
 * outputs would have channels in common with others. */
static inline int depthwise_window_vector(const struct conv_geometry *g,
                                          size_t size)
{
    const int v = 16 / (int)size;

    if (g->k % v == 0 && (g->kg <= 2 || g->kg % v == 0))
        return v;
    return g->kg == 1 && g->k % 2 == 0 ? 2 : 1;
}

/* True if a thread of several outputs goes along the row. */
static inline bool depthwise_window_slides(const struct conv_geometry *g)
{
    return g->kg == 1 && g->stride_w == 1 && g->dilation_w == 1;
}

template <typename T, int V, int KG, int TW, bool SLIDE>
static int depthwise_window_run(struct depthwise_args *a, void *stream,
                                struct infer_error *err)
{
    depthwise_split(a, V, TW);
    return launch_chained(depthwise_window<T, V, KG, TW, SLIDE>,
                          dim3(cuda_blocks(a->count, DEPTHWISE_THREADS)),
                          dim3(DEPTHWISE_THREADS), 0, stream, *a, err);
}

/* width: outputs of a thread, 1 or 4 (2: 4). */
template <typename T>
static int depthwise_launch_window(struct depthwise_args *a, int width,
                                   void *stream, struct infer_error *err)
{
    enum { V = 16 / (int)sizeof(T), W = 4 };
    const int kg = a->g.kg;
    const int v = depthwise_window_vector(&a->g, sizeof(T));

    if (v == 2 && width == 1)
        return depthwise_window_run<T, 2, 1, 1, false>(a, stream, err);
    if (v == 2)
        return depthwise_window_slides(&a->g)
                   ? depthwise_window_run<T, 2, 1, W, true>(a, stream, err)
                   : depthwise_window_run<T, 2, 1, W, false>(a, stream, err);
    if (v == 1)
        return width == 1
                   ? depthwise_window_run<T, 1, 0, 1, false>(a, stream, err)
                   : depthwise_window_run<T, 1, 0, W, false>(a, stream, err);
    if (kg == 1 && width == 1)
        return depthwise_window_run<T, V, 1, 1, false>(a, stream, err);
    if (kg == 1)
        return depthwise_window_slides(&a->g)
                   ? depthwise_window_run<T, V, 1, W, true>(a, stream, err)
                   : depthwise_window_run<T, V, 1, W, false>(a, stream, err);
    if (kg == 2)
        return width == 1
                   ? depthwise_window_run<T, V, 2, 1, false>(a, stream, err)
                   : depthwise_window_run<T, V, 2, W, false>(a, stream, err);
    return width == 1 ? depthwise_window_run<T, V, 0, 1, false>(a, stream, err)
                      : depthwise_window_run<T, V, 0, W, false>(a, stream, err);
}

#endif
