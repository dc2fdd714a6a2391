/* SPDX-License-Identifier: Apache-2.0 */
/* The epilogue of a convolution, from accumulators in single precision to
 * stored outputs: bias, residual, activation, conversion; and the sum of
 * split-K's partial sums. */
#ifndef KERNELS_CUDA_CONV_OUTPUT_CUH
#define KERNELS_CUDA_CONV_OUTPUT_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/launch.cuh"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

/* y and residual may be the same memory: an element of the residual is read by
 * the thread that writes it, before it does. */
struct output_args {
    void *y;
    const void *residual; /* NULL for none */
    const float *bias;    /* NULL for none */
    int k;                /* channels */
    int y_pitch, r_pitch; /* elements from pixel to pixel */
    struct kern_epilogue epilogue;
};

/* True if N channels at a time can be read and written everywhere. */
static inline bool output_is_wide(const struct output_args *o, int n)
{
    return o->k % n == 0 && o->y_pitch % n == 0 && o->r_pitch % n == 0;
}

/* The tensors of a launch, dense.  k: output channels. */
static inline struct output_args output_of(const struct kern_exec *e,
                                           const struct kern_args *args, int k)
{
    const struct kern_problem *p = &e->problem;
    struct output_args o;

    o.y = args->out[0];
    o.residual =
        kern_problem_in(p, CONV_RESIDUAL) ? args->in[CONV_RESIDUAL] : NULL;
    o.bias = kern_problem_in(p, CONV_BIAS) ? (const float *)args->in[CONV_BIAS]
                                           : NULL;
    o.k = k;
    o.y_pitch = o.r_pitch = k;
    o.epilogue = p->epilogue;
    return o;
}

/* ---- finishing ----------------------------------------------------- */

/* Finishes and stores N adjacent channels k .. k+N-1 of pixel m, of which r are
 * the residuals where there are any.  k is a multiple of N, and so are the
 * number of channels and the pitches. */
template <typename T, int N>
static __device__ __forceinline__ void
output_with_residual(const struct output_args &o, int m, int k, float *v,
                     const float *r)
{
    const bool last = o.epilogue.residual_last;

    if (o.residual && !last)
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] += r[i];
    unary_vector<N>(o.epilogue.act, v);
    if (o.residual && last)
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] += r[i];
    store_floats<T, N>((T *)o.y + (size_t)m * o.y_pitch + k, v);
}

template <typename T, int N>
static __device__ __forceinline__ void
output_load_residual(const struct output_args &o, int m, int k, float *r)
{
    load_floats<T, N>((const T *)o.residual + (size_t)m * o.r_pitch + k, r);
}

/* The same with the bias, and with residuals that are still to be loaded. */
template <typename T, int N>
static __device__ __forceinline__ void
output_vector(const struct output_args &o, int m, int k, float *v)
{
    float r[N];

    if (o.bias) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] += __ldg(o.bias + k + i);
    }
    if (o.residual)
        output_load_residual<T, N>(o, m, k, r);
    output_with_residual<T, N>(o, m, k, v, r);
}

/* As output_vector() for channels k .. k+N-1 below `end`, one at a time. */
template <typename T, int N>
static __device__ __forceinline__ void
output_scalars(const struct output_args &o, int m, int k, int end, float *v)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        if (k + i < end)
            output_vector<T, 1>(o, m, k + i, v + i);
}

/* ---- split-K ------------------------------------------------------- */

/* parts[split][m][k], each a partial sum: the second pass adds them in order,
 * so that the result does not depend on timing. */
struct reduce_args {
    struct output_args out;
    const float *parts;
    int m, splits;
};

/* One thread finishes N channels of a pixel. */
template <typename T, int N>
static __global__ void __launch_bounds__(256)
    output_reduce(const __grid_constant__ struct reduce_args a)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t per_row = a.out.k / N;
    const size_t count = (size_t)a.m * a.out.k;
    /* Parts are read 16 bytes at a time at most. */
    constexpr int L = N < 4 ? N : 4;

    launch_wait();
    if (i >= (size_t)a.m * per_row)
        return;
    float sum[N], part[N];
#pragma unroll
    for (int j = 0; j < N; j++)
        sum[j] = 0;
    for (int s = 0; s < a.splits; s++) {
#pragma unroll
        for (int j = 0; j < N; j += L)
            load_floats<float, L>(a.parts + s * count + i * N + j, part + j);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += part[j];
    }
    output_vector<T, N>(a.out, (int)(i / per_row), (int)(i % per_row) * N, sum);
}

#endif
