/* SPDX-License-Identifier: Apache-2.0 */
/* Which outputs a thread of a depthwise kernel computes, and how it stores
 * them; common to all windows.  depthwise.cuh has the map. */
#ifndef KERNELS_CUDA_DEPTHWISE_DEPTHWISE_THREAD_CUH
#define KERNELS_CUDA_DEPTHWISE_DEPTHWISE_THREAD_CUH

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"

#define DEPTHWISE_THREADS 256

struct depthwise_args {
    struct conv_geometry g;
    const void *x, *w;
    int64_t count;            /* threads with work */
    struct fast_div channels; /* vectors of channels */
    struct fast_div tiles, p; /* tiles of a row, rows of an image */
    struct output_args out;
};

struct depthwise_place {
    int k, q, p, n;
};

static __device__ __forceinline__ struct depthwise_place
depthwise_place_of(const struct depthwise_args &a, int64_t i, int v, int tw)
{
    uint32_t k, q, p, rest;

    rest = a.channels.divmod((uint32_t)i, &k);
    rest = a.tiles.divmod(rest, &q);
    const uint32_t n = a.p.divmod(rest, &p);
    return {(int)k * v, (int)q * tw, (int)p, (int)n};
}

/* The number of this thread.  Blocks go from the last to the first: the
 * previous kernel, which went from the first to the last, has left the last
 * images in the L2 cache, and the next kernel begins with the first, which this
 * one has just written. */
static __device__ __forceinline__ int64_t depthwise_thread(void)
{
    return (int64_t)(gridDim.x - 1 - blockIdx.x) * DEPTHWISE_THREADS +
           (int)threadIdx.x;
}

/* Finishes channels k .. k+V-1 of `count` of TW adjacent pixels, m the first,
 * with the bias fetched once for all of them. */
template <typename T, int V, int TW>
static __device__ __forceinline__ void
depthwise_finish(const struct output_args &o, int m, int k, int count,
                 float (&acc)[TW][V])
{
    enum { L = V < 4 ? V : 4 };
    float bias[V], r[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        bias[j] = 0;
    if (o.bias)
#pragma unroll
        for (int j = 0; j < V; j += L)
            load_floats<float, L>(o.bias + k + j, bias + j);
#pragma unroll
    for (int t = 0; t < TW; t++) {
        if (t >= count)
            continue;
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[t][j] += bias[j];
        if (o.residual)
            output_load_residual<T, V>(o, m + t, k, r);
        output_with_residual<T, V>(o, m + t, k, acc[t], r);
    }
}

static inline void depthwise_split(struct depthwise_args *a, int v, int tw)
{
    const int tiles = conv_ceil_div(a->g.q, tw);

    a->channels.init((uint32_t)(a->g.k / v));
    a->tiles.init((uint32_t)tiles);
    a->p.init((uint32_t)a->g.p);
    a->count = (int64_t)(a->g.k / v) * tiles * a->g.p * a->g.n;
}

#endif
