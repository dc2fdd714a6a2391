/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution by columns: a thread computes TW columns of two
 * adjacent channels from the top of its strip to the bottom.  A row of the
 * image is read once, converted once, and added to all outputs whose windows
 * hold it; the next rows are on their way meanwhile.  Neighbours in a warp take
 * neighbouring channels: 128 bytes a load in half precision.
 *
 * A step takes STRIDE rows of the padded image, j STRIDE and on, and completes
 * row j - LIVE of the outputs, LIVE = (R - 1) / STRIDE.  The sums of the next
 * LIVE rows stay in registers; each step's first product moves them up by one,
 * so that the loop is short and holds one end of a row, whose instructions are
 * many.  Registers, in words: 2 R R weights, 2 TW (LIVE + 1) sums, and of a row
 * of COLUMNS = (TW - 1) STRIDE + R pixels 2, and STRIDE more under way.
 */
#ifndef KERNELS_CUDA_DEPTHWISE_COLUMNS_CUH
#define KERNELS_CUDA_DEPTHWISE_COLUMNS_CUH

#include "kernels/cuda/depthwise_place.cuh"

#define DEPTHWISE_COLUMN_THREADS 128
/* Columns of a thread: 7 divides the widths of most networks' images, but twice
 * as many pixels would not fit into registers. */
#define DEPTHWISE_COLUMNS(stride) ((stride) == 2 ? 4 : 7)

template <int R, int STRIDE, int TW> struct depthwise_column {
    enum {
        COLUMNS = (TW - 1) * STRIDE + R,
        LIVE = (R - 1) / STRIDE,
        BLOCKS = R == 5 ? 3 : 4 /* of a multiprocessor */
    };
};

/* The pixels of a row, zeros outside the image; x points at its column 0, and
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

/* The rows of step j. */
template <typename T, int STRIDE, int COLUMNS>
static __device__ __forceinline__ void
depthwise_fetch_step(const struct depthwise_args &a, const T *image, int j,
                     int column, vec<T, 2> (&v)[STRIDE][COLUMNS])
{
#pragma unroll
    for (int i = 0; i < STRIDE; i++) {
        const int h = j * STRIDE + i - a.g.pad_top;
        depthwise_fetch<T, COLUMNS>(image + (int64_t)h * a.g.w * a.g.c,
                                    (unsigned)h < (unsigned)a.g.h, column,
                                    a.g.w, a.g.c, v[i]);
    }
}

/* to = from + a row of the window. */
template <int R, int STRIDE, int TW, int COLUMNS>
static __device__ __forceinline__ void
depthwise_add_row(const float (&x)[COLUMNS][2], const float (&w)[R][2],
                  const float (&from)[TW][2], float (&to)[TW][2])
{
#pragma unroll
    for (int t = 0; t < TW; t++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float sum = from[t][j];
#pragma unroll
            for (int s = 0; s < R; s++)
                sum = fmaf(x[t * STRIDE + s][j], w[s][j], sum);
            to[t][j] = sum;
        }
}

template <typename T, int COLUMNS>
static __device__ __forceinline__ void
depthwise_convert(const vec<T, 2> (&v)[COLUMNS], float (&x)[COLUMNS][2])
{
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        x[i][0] = to_float(v[i].at[0]);
        x[i][1] = to_float(v[i].at[1]);
    }
}

template <int TW>
static __device__ __forceinline__ void
depthwise_take(const float (&from)[TW][2], float (&to)[TW][2])
{
#pragma unroll
    for (int t = 0; t < TW; t++) {
        to[t][0] = from[t][0];
        to[t][1] = from[t][1];
    }
}

/* One step: the row that it completes, and the sums behind it; sum[LIVE] is
 * what they begin with. */
template <typename T, int R, int STRIDE, int TW>
static __device__ __forceinline__ void depthwise_step(
    const vec<T, 2> (&v)[STRIDE][depthwise_column<R, STRIDE, TW>::COLUMNS],
    bool inside, const float (&w)[R][R][2],
    float (&sum)[depthwise_column<R, STRIDE, TW>::LIVE + 1][TW][2],
    float (&done)[TW][2])
{
    typedef depthwise_column<R, STRIDE, TW> S;
    float x[S::COLUMNS][2];

    if (inside) {
        depthwise_convert<T, S::COLUMNS>(v[0], x);
        depthwise_add_row<R, STRIDE, TW>(x, w[R - 1], sum[0], done);
#pragma unroll
        for (int i = 0; i < S::LIVE; i++)
            depthwise_add_row<R, STRIDE, TW>(x, w[R - 1 - STRIDE * (i + 1)],
                                             sum[i + 1], sum[i]);
    } else {
        depthwise_take<TW>(sum[0], done);
#pragma unroll
        for (int i = 0; i < S::LIVE; i++)
            depthwise_take<TW>(sum[i + 1], sum[i]);
    }
    if constexpr (STRIDE == 2) {
        depthwise_convert<T, S::COLUMNS>(v[1], x);
#pragma unroll
        for (int i = 0; i < S::LIVE; i++)
            depthwise_add_row<R, STRIDE, TW>(x, w[R - 2 - STRIDE * i], sum[i],
                                             sum[i]);
    }
}

/* Finishes and stores `count` of TW adjacent pixels, m the first. */
template <typename T, int TW>
static __device__ __forceinline__ void
depthwise_store(const struct output_args &o, int m, int k, int count,
                const float (&sum)[TW][2])
{
    float v[2 * TW], r[2 * TW];

#pragma unroll
    for (int t = 0; t < TW; t++) {
        v[2 * t] = sum[t][0];
        v[2 * t + 1] = sum[t][1];
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

/* Strips of a.strip rows of outputs.  The first step is the first with a row
 * inside the image, but none behind that which completes the first output. */
template <typename T, int R, int STRIDE, int TW>
static __global__ void
__launch_bounds__(DEPTHWISE_COLUMN_THREADS,
                  (depthwise_column<R, STRIDE, TW>::BLOCKS))
    depthwise_columns(const __grid_constant__ struct depthwise_args a)
{
    typedef depthwise_column<R, STRIDE, TW> S;
    const int64_t i =
        (int64_t)(gridDim.x - 1 - blockIdx.x) * DEPTHWISE_COLUMN_THREADS +
        (int)threadIdx.x;
    vec<T, 2> next[STRIDE][S::COLUMNS], v[STRIDE][S::COLUMNS];
    float w[R][R][2], bias[2] = {0, 0}, sum[S::LIVE + 1][TW][2], done[TW][2];

    launch_wait();
    if (i >= a.count)
        return;
    const struct depthwise_place to = depthwise_place_of(a, i, 2, TW);
    const int first = to.p * a.strip, end = min(first + a.strip, a.g.p);
    const int column = to.q * STRIDE - a.g.pad_left;
    const T *const image =
        (const T *)a.x + (int64_t)to.n * a.g.h * a.g.w * a.g.c + to.k;
    int j = max(first, min(a.g.pad_top / STRIDE, first + S::LIVE));

    depthwise_fetch_step<T, STRIDE, S::COLUMNS>(a, image, j, column, next);
#pragma unroll
    for (int f = 0; f < R * R; f++)
        load_floats<T, 2>((const T *)a.w + f * a.g.k + to.k, w[f / R][f % R]);
    if (a.out.bias)
        load_floats<float, 2>(a.out.bias + to.k, bias);
#pragma unroll
    for (int l = 0; l < (S::LIVE + 1) * TW; l++) {
        sum[l / TW][l % TW][0] = bias[0];
        sum[l / TW][l % TW][1] = bias[1];
    }
    for (; j < end + S::LIVE; j++) {
#pragma unroll
        for (int f = 0; f < STRIDE * S::COLUMNS; f++)
            v[f / S::COLUMNS][f % S::COLUMNS] =
                next[f / S::COLUMNS][f % S::COLUMNS];
        if (j + 1 < end + S::LIVE)
            depthwise_fetch_step<T, STRIDE, S::COLUMNS>(a, image, j + 1, column,
                                                        next);
        const bool inside =
            (unsigned)(j * STRIDE - a.g.pad_top) < (unsigned)a.g.h;
        depthwise_step<T, R, STRIDE, TW>(v, inside, w, sum, done);
        const int p = j - S::LIVE;
        if (p >= first)
            depthwise_store<T, TW>(a.out, (to.n * a.g.p + p) * a.g.q + to.q,
                                   to.k, a.g.q - to.q, done);
    }
}

#endif
