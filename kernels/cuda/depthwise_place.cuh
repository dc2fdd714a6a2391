/* SPDX-License-Identifier: Apache-2.0 */
/* What the depthwise kernels share: their arguments, and which outputs are a
 * thread's. */
#ifndef KERNELS_CUDA_DEPTHWISE_PLACE_CUH
#define KERNELS_CUDA_DEPTHWISE_PLACE_CUH

#include "kernels/cuda/output.cuh"
#include "kernels/cuda/walk.cuh"

struct depthwise_args {
    struct conv_geometry g;
    const void *x, *w;
    int64_t count;            /* threads with work */
    struct fast_div channels; /* vectors of channels */
    struct fast_div tiles, p; /* tiles of a row, rows or strips of an image */
    int strip;                /* rows of outputs in a strip */
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

#endif
