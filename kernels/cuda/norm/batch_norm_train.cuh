/* SPDX-License-Identifier: Apache-2.0 */
/* What the ways of batch normalisation in training share: the statistics of a
 * channel from its sums, the activation, the signs of what comes out. */
#ifndef KERNELS_CUDA_NORM_BATCH_NORM_TRAIN_CUH
#define KERNELS_CUDA_NORM_BATCH_NORM_TRAIN_CUH

#include "kernels/cuda/norm/batch_norm.cuh"

struct train_args {
    struct norm_shape s;      /* of what is summed: x or its parts */
    const void *x, *residual; /* NULL: none */
    const float *bn_stats;    /* NULL: none */
    int pixels, part;         /* of x, and of a part */
    const float *scale, *shift, *mean_in, *var_in;
    float *mean, *inverse, *mean_out, *var_out;
    void *y;
    uint8_t *signs;      /* NULL: not wanted */
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

/* The signs of vector i.  8 / V neighbours, which are in the tensor together,
 * share a byte. */
template <typename T, int V>
static __device__ __forceinline__ void store_signs(uint8_t *signs, uint32_t i,
                                                   const pack<T, V> &y)
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
        signs[i / lanes] = (uint8_t)bits;
}

#endif
