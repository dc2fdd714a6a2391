/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a warpgroup's sums in registers to outputs in shared memory, where the
 * copy engine fetches them: bias, residual, activation, conversion.
 *
 * A slot is 64 rows of 128 bytes of channels in the 128-byte swizzle: vector v
 * (16 bytes) of row i lies at v ^ (i % 8), so the 8 rows x 4 lanes of a
 * fragment of halves cover all 32 banks, and a half-warp's of floats each bank
 * twice.
 */
#ifndef KERNELS_CUDA_WGMMA_FINISH_CUH
#define KERNELS_CUDA_WGMMA_FINISH_CUH

#include "kernels/cuda/output.cuh"
#include "kernels/cuda/silu.cuh"

/* ---- limits -------------------------------------------------------- */

/* Code for sm_90a runs on compute capability 9.0 and on no other; other builds
 * hold empty kernels in its place. */
static inline int wgmma_check_device(const struct kern_device *d,
                                     struct infer_error *why)
{
#ifdef HAVE_CUDA_SM90A
    const bool built = true;
#else
    const bool built = false;
#endif

    if (d->sm != 90 || !built)
        return error_set(why, INFER_EUNSUPPORTED,
                         "is for compute capability 9.0, found %d.%d and code "
                         "for %s",
                         d->sm / 10, d->sm % 10, CUDA_ARCH_LIST);
    return 0;
}

/* ---- activations --------------------------------------------------- */

/* The functions computed here, in place of calls that would push accumulators
 * out of the registers. */
static inline bool wgmma_knows(enum kern_unary_kind kind)
{
    switch (kind) {
    case KERN_IDENTITY:
    case KERN_RELU:
    case KERN_LEAKY_RELU:
    case KERN_CLIP:
    case KERN_SIGMOID:
    case KERN_SILU:
    case KERN_HARD_SIGMOID:
    case KERN_HARD_SWISH:
    case KERN_GELU:
        return true;
    default:
        return false;
    }
}

/* v = act(v), chosen once for N values.  What is piecewise linear is
 * min(max(v < 0 ? slope v : v, low), high), with NaN passing through. */
template <int N>
static __device__ __forceinline__ void wgmma_activate(struct kern_unary f,
                                                      float *v)
{
    const bool times = f.kind == KERN_HARD_SWISH;

    if (f.kind == KERN_SILU) {
        silu_vector<N>(f.a, v);
    } else if (f.kind == KERN_SIGMOID) {
        sigmoid_vector<N>(v);
    } else if (f.kind == KERN_HARD_SIGMOID || f.kind == KERN_HARD_SWISH) {
        const float scale = times ? 1.0f / 6 : f.a;
        const float shift = times ? 0.5f : f.b;
#pragma unroll
        for (int i = 0; i < N; i++) {
            float s = fmaf(scale, v[i], shift);
            s = s < 0 ? 0 : s;
            s = s > 1 ? 1 : s;
            v[i] = times ? v[i] * s : s;
        }
    } else if (f.kind == KERN_GELU) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = 0.5f * v[i] * (1 + erff(v[i] * 0.70710678118654752440f));
    } else if (f.kind != KERN_IDENTITY) {
        const bool clip = f.kind == KERN_CLIP;
        const float infinity = __int_as_float(0x7f800000);
        const float low = clip ? f.a : f.kind == KERN_RELU ? 0 : -infinity;
        const float high = clip ? f.b : infinity;
        const float slope = f.kind == KERN_LEAKY_RELU ? f.a : 1;
#pragma unroll
        for (int i = 0; i < N; i++) {
            float x = v[i] < 0 ? slope * v[i] : v[i];
            x = x < low ? low : x;
            v[i] = x > high ? high : x;
        }
    }
}

/* ---- outputs ------------------------------------------------------- */

/* Where channels 8 j + 2 t and the next lie in row i, i % 8 == g, of a slot. */
template <typename T>
static __device__ __forceinline__ int wgmma_pair_at(int j, int g, int t)
{
    const int byte = (8 * j + 2 * t) * (int)sizeof(T);

    return (((byte >> 4) ^ g) << 4) + (byte & 15);
}

/* Adds the residuals in this lane's part of a slot.  v: J times 4 sums. */
template <typename T, int J>
static __device__ __forceinline__ void wgmma_add_slot(const unsigned char *row,
                                                      int g, int t, float *v)
{
#pragma unroll
    for (int j = 0; j < J; j++) {
        const unsigned char *from = row + wgmma_pair_at<T>(j, g, t);
        float r[4];
        load_floats<T, 2>((const T *)from, r);
        load_floats<T, 2>((const T *)(from + 1024), r + 2);
#pragma unroll
        for (int e = 0; e < 4; e++)
            v[j * 4 + e] += r[e];
    }
}

/* Turns a slot's columns of sums, n0 the first, into outputs in this lane's
 * part of the slot.  v: J times 4 sums as a product leaves them; k: channels of
 * the whole output. */
template <typename T, int J>
static __device__ __forceinline__ void
wgmma_finish(const struct output_args &out, int k, float *v,
             unsigned char *slot, int n0)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    unsigned char *row = slot + (threadIdx.x / 32 % 4 * 16 + g) * 128;
    const bool last = out.epilogue.residual_last;

    if (out.bias) {
#pragma unroll
        for (int j = 0; j < J; j++) {
            const int n = n0 + j * 8 + t * 2;
            if (n >= k)
                continue;
            const float2 b = __ldg((const float2 *)(out.bias + n));
            v[j * 4] += b.x;
            v[j * 4 + 1] += b.y;
            v[j * 4 + 2] += b.x;
            v[j * 4 + 3] += b.y;
        }
    }
    if (out.residual && !last)
        wgmma_add_slot<T, J>(row, g, t, v);
    wgmma_activate<4 * J>(out.epilogue.act, v);
    if (out.residual && last)
        wgmma_add_slot<T, J>(row, g, t, v);
#pragma unroll
    for (int j = 0; j < J; j++) {
        unsigned char *to = row + wgmma_pair_at<T>(j, g, t);
        store_floats<T, 2>((T *)to, v + j * 4);
        store_floats<T, 2>((T *)(to + 1024), v + j * 4 + 2);
    }
}

#endif
