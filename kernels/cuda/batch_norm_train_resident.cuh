/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation in training in one launch, for tensors that fit into the
 * registers of the device: a block keeps its share of x from the sums to the
 * result, and all blocks meet once in between.
 *
 * A block of 512 threads has 512 K vectors that lie side by side; thread t has
 * vectors t, t + 512, ... of them, which are of the same V channels, since C /
 * V divides 32.  Sums go across the lanes of a warp, then across the 16 warps
 * through 16 x 2 C floats of shared memory (32 KiB at most), then as
 * parts[block][2][C] to the workspace; behind the gate every block adds up all
 * parts, in a fixed order.  They are 8192 numbers at most, which keeps that
 * short.  K is 16 at most: 64 registers.
 */
#ifndef KERNELS_CUDA_BATCH_NORM_TRAIN_RESIDENT_CUH
#define KERNELS_CUDA_BATCH_NORM_TRAIN_RESIDENT_CUH

#include "kernels/cuda/batch_norm_train.cuh"
#include "kernels/cuda/gate.cuh"

enum {
    RESIDENT_THREADS = 512,
    RESIDENT_WARPS = RESIDENT_THREADS / 32,
    RESIDENT_SUMS = 8192,    /* of all blocks */
    RESIDENT_CHANNELS = 256, /* two sums each: one a thread */
    RESIDENT_MOST = 16       /* vectors a thread */
};

struct resident_args {
    struct train_args t;
    unsigned gate;
};

/* Vectors a thread and blocks for a problem; vectors 0 where it does not fit.
 */
struct resident_shape {
    int vectors, blocks;
};

static inline struct resident_shape
resident_shape_of(const struct kern_problem *p, int multiprocessors)
{
    const struct kern_tensor *x = &p->in[0];
    const int v = 16 / (int)infer_dtype_size(x->dtype);
    const int64_t c = x->dim[1], all = kern_tensor_count(x) / v;
    struct resident_shape s = {0, 0};
    int64_t most;

    if (c < 1 || c > RESIDENT_CHANNELS || c % v || 32 % (c / v) || all < 1)
        return s;
    most = RESIDENT_SUMS / (2 * c);
    most = most < multiprocessors ? most : multiprocessors;
    for (int k = 1; k <= RESIDENT_MOST; k *= 2) {
        const int64_t blocks = (all + (int64_t)k * RESIDENT_THREADS - 1) /
                               ((int64_t)k * RESIDENT_THREADS);
        if (blocks <= most) {
            s.vectors = k;
            s.blocks = (int)blocks;
            break;
        }
    }
    return s;
}

/* This block's sums of all channels to its part. */
template <int V>
static __device__ __forceinline__ void
resident_put(int channels, float (&sum)[2][V], float *joined, float *part)
{
    const int per_pixel = channels / V, lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;

#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < V; j++)
            for (int step = 16; step >= per_pixel; step /= 2)
                sum[i][j] += __shfl_xor_sync(~0u, sum[i][j], step);
    if (lane < per_pixel)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < V; j++)
                joined[(warp * 2 + i) * channels + lane * V + j] = sum[i][j];
    __syncthreads();
    if (threadIdx.x < 2 * channels) {
        float all = 0;
#pragma unroll
        for (int w = 0; w < RESIDENT_WARPS; w++)
            all += joined[w * 2 * channels + threadIdx.x];
        part[threadIdx.x] = all;
    }
}

/* Both sums of all channels over all blocks: joined[2][C]. */
static __device__ __forceinline__ void
resident_join(int channels, const float *parts, float *joined)
{
    const int width = 2 * channels, rows = RESIDENT_THREADS / width;
    const int column = threadIdx.x % width, row = threadIdx.x / width;
    float sum = 0;

#pragma unroll 8
    for (int i = row; i < (int)gridDim.x && row < rows; i += rows)
        sum += gate_load(parts + (size_t)i * width + column);
    joined[threadIdx.x] = sum;
    __syncthreads();
    if (row == 0)
        for (int i = 1; i < rows; i++)
            sum += joined[i * width + column];
    __syncthreads();
    if (row == 0)
        joined[column] = sum;
    __syncthreads();
}

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
    gate_pass(r.gate);
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
