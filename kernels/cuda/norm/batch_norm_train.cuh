/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the rows of batch normalisation in training: the statistics of a
 * channel from its sums, the activation, ReLU's bit mask. */
#ifndef KERNELS_CUDA_NORM_BATCH_NORM_TRAIN_CUH
#define KERNELS_CUDA_NORM_BATCH_NORM_TRAIN_CUH

#include "kernels/cuda/norm/batch_norm_resident.cuh"

struct train_args {
    struct norm_shape s;      /* of what is summed: x or its parts */
    const void *x, *residual; /* NULL: none */
    const float *bn_stats;    /* NULL: none */
    int pixels, part;         /* of x, and of a part */
    const float *scale, *shift, *mean_in, *var_in;
    float *mean, *inverse, *mean_out, *var_out;
    void *y;
    uint8_t *mask;       /* NULL: not wanted */
    float *parts, *line; /* line: factor [C], summand [C] */
    float epsilon, momentum;
    struct kern_unary act;
    uint32_t vectors;
};

/* What the normalising pass applies to a channel, from its sums; first: leaves
 * the statistics, once. */
template <typename T>
static __device__ __forceinline__ void
statistics(const struct train_args &a, int c, float sum, float squares,
           bool first, float *factor, float *summand)
{
    const float n = (float)a.pixels;
    const float offset = sum / n;
    const float x0 = a.bn_stats ? a.bn_stats[c] : to_float(((const T *)a.x)[c]);
    const float mean = x0 + offset;
    const float var = fmaxf(squares / n - offset * offset, 0.0f);
    const float inverse = 1.0f / sqrtf(var + a.epsilon);

    *factor = a.scale[c] * inverse;
    *summand = fmaf(-mean, *factor, a.shift[c]);
    if (!first)
        return;
    a.mean[c] = mean;
    a.inverse[c] = inverse;
    if (a.mean_in) {
        const float free = n > 1 ? n - 1 : 1;
        a.mean_out[c] = a.mean_in[c] + a.momentum * (mean - a.mean_in[c]);
        a.var_out[c] =
            a.var_in[c] + a.momentum * (var * (n / free) - a.var_in[c]);
    }
}

template <int ACT>
static __device__ __forceinline__ float activate(const struct kern_unary &act,
                                                 float x)
{
    if (ACT == NORM_PLAIN)
        return x;
    return ACT == NORM_RELU ? (x < 0 ? 0 : x) : apply_unary(act, x);
}

/* A bit for each element of vector i: whether it is above 0.  8 / V neighbours,
 * which are in the tensor together, share a byte. */
template <typename T, int V>
static __device__ __forceinline__ void
store_relu_mask(uint8_t *mask, uint32_t i, const pack<T, V> &y)
{
    const uint32_t lanes = 8 / V, place = i % lanes;
    const uint32_t group = ((1u << lanes) - 1) << (threadIdx.x % 32 - place);
    uint32_t bits = 0;
    float v[V];

    unpack<T, V>(y, v);
#pragma unroll
    for (int j = 0; j < V; j++)
        bits |= (v[j] > 0 ? 1u : 0u) << j;
    bits <<= place * V;
#pragma unroll
    for (uint32_t other = 1; other < lanes; other *= 2)
        bits |= __shfl_xor_sync(group, bits, other);
    if (place == 0)
        mask[i / lanes] = (uint8_t)bits;
}

/* ---- in one launch ------------------------------------------------- */

/* As batch_norm_resident.cuh has it: a thread keeps K vectors of x, 16 at most:
 * 64 registers. */
#define RESIDENT_TRAIN_MOST 16

struct resident_args {
    struct train_args t;
    unsigned barrier;
};

/* Vector i of the result. */
template <typename T, int V, int ACT>
static __device__ __forceinline__ void
resident_finish(const struct train_args &a, uint32_t i, const pack<T, V> &x,
                const pack<T, V> &residual, const float (&factor)[V],
                const float (&summand)[V])
{
    float v[V], add[V];

    unpack<T, V>(x, v);
    unpack<T, V>(residual, add);
#pragma unroll
    for (int j = 0; j < V; j++)
        v[j] = activate<ACT>(a.act, fmaf(v[j], factor[j], summand[j]) + add[j]);
    const pack<T, V> y = pack_of<T, V>(v);
    pack_store<T, V>((T *)a.y + (size_t)i * V, y);
    if (a.mask)
        store_relu_mask<T, V>(a.mask, i, y);
}

template <typename T, int V, int ACT, int K>
static __global__ void __launch_bounds__(RESIDENT_THREADS, 1)
    resident_kernel(const __grid_constant__ struct resident_args r)
{
    enum { GROUP = K < 4 ? K : 4 }; /* residuals on their way at once */
    __shared__ float joined[RESIDENT_WARPS * 2 * RESIDENT_CHANNELS];
    const struct train_args &a = r.t;
    const int channels = a.s.channels;
    const int c = (int)(threadIdx.x % (channels / V)) * V;
    const uint32_t first =
        blockIdx.x * (uint32_t)(K * RESIDENT_THREADS) + threadIdx.x;
    float x0[V], sum[2][V], factor[V], summand[V];
    pack<T, V> x[K];

    launch_wait();
#pragma unroll
    for (int k = 0; k < K; k++)
        if (first + k * RESIDENT_THREADS < a.vectors)
            x[k] = pack_load<T, V>((const T *)a.x +
                                   (size_t)(first + k * RESIDENT_THREADS) * V);
    unpack<T, V>(pack_load<T, V>((const T *)a.x + c), x0);
#pragma unroll
    for (int j = 0; j < V; j++)
        sum[0][j] = sum[1][j] = 0;
#pragma unroll
    for (int k = 0; k < K; k++)
        if (first + k * RESIDENT_THREADS < a.vectors) {
            float v[V];
            unpack<T, V>(x[k], v);
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float d = v[j] - x0[j];
                sum[0][j] += d;
                sum[1][j] = fmaf(d, d, sum[1][j]);
            }
        }
    resident_put<V>(channels, sum, joined,
                    a.parts + (size_t)blockIdx.x * 2 * channels);
    grid_barrier_wait(r.barrier);
    resident_join(channels, a.parts, joined);
    if (threadIdx.x < channels) {
        float *at = joined + threadIdx.x;
        statistics<T>(a, (int)threadIdx.x, at[0], at[channels], blockIdx.x == 0,
                      at, at + channels);
    }
    __syncthreads();
    norm_line<V>(joined, c, factor);
    norm_line<V>(joined + channels, c, summand);
#pragma unroll
    for (int k = 0; k < K; k += GROUP) {
        pack<T, V> residual[GROUP] = {};
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            const uint32_t i = first + (k + g) * RESIDENT_THREADS;
            if (a.residual && i < a.vectors)
                residual[g] =
                    pack_load<T, V>((const T *)a.residual + (size_t)i * V);
        }
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            const uint32_t i = first + (k + g) * RESIDENT_THREADS;
            if (i < a.vectors)
                resident_finish<T, V, ACT>(a, i, x[k + g], residual[g], factor,
                                           summand);
        }
    }
}

template <typename T, int V, int ACT>
static int resident_start(const struct resident_args *a,
                          struct resident_shape s, void *stream,
                          struct infer_error *err)
{
    return launch_chained(s.vectors == 1   ? resident_kernel<T, V, ACT, 1>
                          : s.vectors == 2 ? resident_kernel<T, V, ACT, 2>
                          : s.vectors == 4 ? resident_kernel<T, V, ACT, 4>
                          : s.vectors == 8 ? resident_kernel<T, V, ACT, 8>
                                           : resident_kernel<T, V, ACT, 16>,
                          (unsigned)s.blocks, RESIDENT_THREADS, 0, stream, *a,
                          err);
}

#endif
