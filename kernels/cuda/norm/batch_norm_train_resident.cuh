/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation in training in one launch, as batch_norm_resident.cuh has
 * it: a thread keeps K vectors of x, 16 at most: 64 registers. */
#ifndef KERNELS_CUDA_NORM_BATCH_NORM_TRAIN_RESIDENT_CUH
#define KERNELS_CUDA_NORM_BATCH_NORM_TRAIN_RESIDENT_CUH

#include "kernels/cuda/norm/batch_norm_resident.cuh"
#include "kernels/cuda/norm/batch_norm_train.cuh"

/* Vectors a thread. */
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
    if (a.signs)
        store_signs<T, V>(a.signs, i, y);
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
                          dim3((unsigned)s.blocks), dim3(RESIDENT_THREADS), 0,
                          stream, *a, err);
}

#endif
