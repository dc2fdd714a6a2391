/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution by strips: a thread computes TW columns of two adjacent
 * channels from the top of its strip to the bottom.  A row of the image is read
 * once, converted once, and added to all outputs whose windows hold it; the
 * next one is on its way meanwhile.  Neighbours in a warp take neighbouring
 * channels: 128 bytes a load in half precision.
 *
 * Outputs in the making: SLOTS = R / STRIDE, rounded up, rows of them; output o
 * of the strip is in slot o % SLOTS, and slots recur every SLOTS * STRIDE rows
 * of the image, over which the loop is unrolled.  Registers, in floats: 2 R R
 * weights, 2 SLOTS TW sums, twice a row of (TW - 1) STRIDE + R columns.
 */
#ifndef KERNELS_CUDA_DEPTHWISE_STRIP_CUH
#define KERNELS_CUDA_DEPTHWISE_STRIP_CUH

#include "kernels/cuda/depthwise.cuh"

template <int R, int STRIDE, int TW> struct depthwise_shape {
    enum {
        COLUMNS = (TW - 1) * STRIDE + R,
        SLOTS = (R + STRIDE - 1) / STRIDE,
        PERIOD = SLOTS * STRIDE,
        BLOCKS = R == 5 && TW == 4 ? 3 : 4 /* of a multiprocessor */
    };
};

/* The columns of a row, zeros outside the image; x points at its column 0 and
 * is read where `inside`. */
template <typename T, int COLUMNS>
static __device__ __forceinline__ void
depthwise_fetch(const T *x, bool inside, int column, int width, int pitch,
                vec<T, 2> (&v)[COLUMNS])
{
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        v[i] = inside && (unsigned)(column + i) < (unsigned)width
                   ? load_vec<T, 2>(x + (column + i) * pitch)
                   : vec<T, 2>();
}

/* Adds row U of the period to the outputs that it belongs to. */
template <typename T, int R, int STRIDE, int TW, int U>
static __device__ __forceinline__ void
depthwise_add(const vec<T, 2> (&v)[depthwise_shape<R, STRIDE, TW>::COLUMNS],
              const float (&w)[R][R][2],
              float (&acc)[depthwise_shape<R, STRIDE, TW>::SLOTS][TW][2])
{
    typedef depthwise_shape<R, STRIDE, TW> S;
    float x[S::COLUMNS][2];

#pragma unroll
    for (int i = 0; i < S::COLUMNS; i++) {
        x[i][0] = to_float(v[i].at[0]);
        x[i][1] = to_float(v[i].at[1]);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int from = U - r + S::PERIOD * R; /* not negative */
        if (from % STRIDE)
            continue;
#pragma unroll
        for (int s = 0; s < R; s++)
#pragma unroll
            for (int t = 0; t < TW; t++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    acc[from / STRIDE % S::SLOTS][t][j] =
                        fmaf(x[t * STRIDE + s][j], w[r][s][j],
                             acc[from / STRIDE % S::SLOTS][t][j]);
    }
}

/* Finishes and stores `count` of TW adjacent pixels, m the first. */
template <typename T, int TW>
static __device__ __forceinline__ void
depthwise_store(const struct output_args &o, int m, int k, int count,
                const float (&acc)[TW][2])
{
    float v[2 * TW], r[2 * TW];

#pragma unroll
    for (int t = 0; t < TW; t++) {
        v[2 * t] = acc[t][0];
        v[2 * t + 1] = acc[t][1];
        r[2 * t] = r[2 * t + 1] = 0;
        if (o.residual && t < count)
            output_load_residual<T, 2>(o, m + t, k, r + 2 * t);
    }
    if (o.residual && !o.epilogue.residual_last)
#pragma unroll
        for (int i = 0; i < 2 * TW; i++)
            v[i] += r[i];
    unary_vector<2 * TW>(o.epilogue.act, v);
    if (o.residual && o.epilogue.residual_last)
#pragma unroll
        for (int i = 0; i < 2 * TW; i++)
            v[i] += r[i];
#pragma unroll
    for (int t = 0; t < TW; t++)
        if (t < count)
            store_floats<T, 2>((T *)o.y + (size_t)(m + t) * o.y_pitch + k,
                               v + 2 * t);
}

/* Where a strip stands. */
template <typename T> struct depthwise_walk {
    const T *x;    /* column 0 of row h */
    int h, column; /* of the image; the first column */
    int row, rows; /* of the strip, from 0 */
    int k, q, m;   /* the first output of the next row to be finished */
};

/* Row U of the period: adds it, and finishes the outputs that it completes.
 * Those above the strip are begun anew instead. */
template <typename T, int R, int STRIDE, int TW, int U>
static __device__ __forceinline__ void
depthwise_step(const struct depthwise_args &a, struct depthwise_walk<T> &at,
               vec<T, 2> (&next)[depthwise_shape<R, STRIDE, TW>::COLUMNS],
               const float (&w)[R][R][2], const float (&bias)[2],
               float (&acc)[depthwise_shape<R, STRIDE, TW>::SLOTS][TW][2])
{
    typedef depthwise_shape<R, STRIDE, TW> S;
    const bool inside = (unsigned)at.h < (unsigned)a.g.h;
    vec<T, 2> v[S::COLUMNS];

    if (at.row >= at.rows)
        return;
#pragma unroll
    for (int i = 0; i < S::COLUMNS; i++)
        v[i] = next[i];
    at.h++;
    at.x += a.g.w * a.g.c;
    depthwise_fetch<T, S::COLUMNS>(
        at.x, at.row + 1 < at.rows && (unsigned)at.h < (unsigned)a.g.h,
        at.column, a.g.w, a.g.c, next);
    if (inside)
        depthwise_add<T, R, STRIDE, TW, U>(v, w, acc);
    const int last = U - (R - 1) + S::PERIOD * R;
    if (last % STRIDE == 0) {
        float(&done)[TW][2] = acc[last / STRIDE % S::SLOTS];
        if (at.row >= R - 1) {
            depthwise_store<T, TW>(a.out, at.m, at.k, a.g.q - at.q, done);
            at.m += a.g.q;
        }
#pragma unroll
        for (int t = 0; t < TW; t++) {
            done[t][0] = bias[0];
            done[t][1] = bias[1];
        }
    }
    at.row++;
}

/* Rows U .. PERIOD - 1. */
template <typename T, int R, int STRIDE, int TW, int U> struct depthwise_steps {
    typedef depthwise_shape<R, STRIDE, TW> S;
    static __device__ __forceinline__ void
    run(const struct depthwise_args &a, struct depthwise_walk<T> &at,
        vec<T, 2> (&next)[S::COLUMNS], const float (&w)[R][R][2],
        const float (&bias)[2], float (&acc)[S::SLOTS][TW][2])
    {
        depthwise_step<T, R, STRIDE, TW, U>(a, at, next, w, bias, acc);
        if constexpr (U + 1 < (int)S::PERIOD)
            depthwise_steps<T, R, STRIDE, TW, U + 1>::run(a, at, next, w, bias,
                                                          acc);
    }
};

template <typename T, int R, int STRIDE, int TW>
static __global__ void
__launch_bounds__(DEPTHWISE_STRIP_THREADS,
                  (depthwise_shape<R, STRIDE, TW>::BLOCKS))
    depthwise_strip(const __grid_constant__ struct depthwise_args a)
{
    typedef depthwise_shape<R, STRIDE, TW> S;
    const int64_t i =
        (int64_t)(gridDim.x - 1 - blockIdx.x) * DEPTHWISE_STRIP_THREADS +
        (int)threadIdx.x;
    const struct depthwise_place to =
        depthwise_place_of(a, i < a.count ? i : 0, 2, TW);
    const int p = to.p * a.strip;
    struct depthwise_walk<T> at;
    vec<T, 2> next[S::COLUMNS];
    float w[R][R][2], bias[2] = {0, 0}, acc[S::SLOTS][TW][2];

#pragma unroll
    for (int j = 0; j < R * R; j++)
        load_floats<T, 2>((const T *)a.w + j * a.g.k + to.k, w[j / R][j % R]);
    launch_wait();
    if (i >= a.count)
        return;
    if (a.out.bias)
        load_floats<float, 2>(a.out.bias + to.k, bias);
#pragma unroll
    for (int j = 0; j < S::SLOTS * TW; j++) {
        acc[j / TW][j % TW][0] = bias[0];
        acc[j / TW][j % TW][1] = bias[1];
    }
    at.h = p * STRIDE - a.g.pad_top;
    at.column = to.q * STRIDE - a.g.pad_left;
    at.x = (const T *)a.x + (to.n * a.g.h + at.h) * a.g.w * a.g.c + to.k;
    at.row = 0;
    at.rows = (min(a.strip, a.g.p - p) - 1) * STRIDE + R;
    at.k = to.k;
    at.q = to.q;
    at.m = (to.n * a.g.p + p) * a.g.q + to.q;
    depthwise_fetch<T, S::COLUMNS>(at.x, (unsigned)at.h < (unsigned)a.g.h,
                                   at.column, a.g.w, a.g.c, next);
    while (at.row < at.rows)
        depthwise_steps<T, R, STRIDE, TW, 0>::run(a, at, next, w, bias, acc);
}

#endif
