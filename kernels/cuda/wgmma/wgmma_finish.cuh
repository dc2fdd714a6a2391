/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The epilogue: from a warpgroup's sums in registers, which start with the
 * bias, to outputs in shared memory, from where TMA stores them: residual,
 * activation, conversion.
 *
 * An epilogue stage is 64 rows of 128 bytes of channels in the 128-byte
 * swizzle: vector v (16 bytes) of row i lies at v ^ (i % 8), so the 8 rows x 4
 * lanes of a fragment of halves cover all 32 banks, and a half-warp's of floats
 * each bank twice.
 */
#ifndef KERNELS_CUDA_WGMMA_WGMMA_FINISH_CUH
#define KERNELS_CUDA_WGMMA_WGMMA_FINISH_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/hopper.cuh"

/* ---- limits -------------------------------------------------------- */

/* Code for sm_90a runs on compute capability 9.0 alone; other builds hold empty
 * kernels instead. */
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

/* ---- sums ---------------------------------------------------------- */

/* Initialises a warpgroup's sums, MT times 64 rows by BN columns from n0 on,
 * with the bias, which then costs nothing after the products. v[mt]: in wgmma's
 * layout; k: channels of the whole output. */
template <int MT, int BN>
static __device__ __forceinline__ void
wgmma_start_sums(const float *bias, int k, int n0, float (&v)[MT][BN / 2])
{
    const int at = n0 + threadIdx.x % 4 * 2;

#pragma unroll
    for (int j = 0; j < BN / 8; j++) {
        float2 b = {0, 0};
        if (bias && at + j * 8 < k)
            b = __ldg((const float2 *)(bias + at + j * 8));
#pragma unroll
        for (int mt = 0; mt < MT; mt++) {
            v[mt][j * 4] = v[mt][j * 4 + 2] = b.x;
            v[mt][j * 4 + 1] = v[mt][j * 4 + 3] = b.y;
        }
    }
}

/* ---- halves -------------------------------------------------------- */

/* Two neighbours of a row as the 32 bits that lie in memory. */
template <typename T>
static __device__ __forceinline__ uint32_t wgmma_pair(float x, float y);
template <>
__device__ __forceinline__ uint32_t wgmma_pair<__half>(float x, float y)
{
    const __half2 h = __floats2half2_rn(x, y);
    return *(const uint32_t *)&h;
}
template <>
__device__ __forceinline__ uint32_t wgmma_pair<__nv_bfloat16>(float x, float y)
{
    const __nv_bfloat162 h = __floats2bfloat162_rn(x, y);
    return *(const uint32_t *)&h;
}

template <typename T>
static __device__ __forceinline__ float2 wgmma_floats(uint32_t pair);
template <>
__device__ __forceinline__ float2 wgmma_floats<__half>(uint32_t pair)
{
    return __half22float2(*(const __half2 *)&pair);
}
template <>
__device__ __forceinline__ float2 wgmma_floats<__nv_bfloat16>(uint32_t pair)
{
    return __bfloat1622float2(*(const __nv_bfloat162 *)&pair);
}

/* Halves move between fragments and an epilogue stage four 8x8 matrices at a
 * time: rows 0 to 7 and 8 to 15 of vector 2i, then of vector 2i + 1. This
 * lane's address for i = 0 in its warp's 16 rows; that of i has bits 5 and up
 * flipped by i. */
static __device__ __forceinline__ uint32_t wgmma_matrices_at(uint32_t epi)
{
    const int lane = threadIdx.x % 32, row = lane % 16;

    return epi + (threadIdx.x / 32 % 4 * 16 + row) * 128 +
           ((lane / 16 ^ row % 8) << 4);
}

/* Adds the residuals of this lane's part of an epilogue stage, or stores into
 * it. v: J times 4 sums. */
template <typename T, int J> struct wgmma_epi_stage {
    static __device__ __forceinline__ void add(uint32_t epi, float *v)
    {
        const uint32_t from = wgmma_matrices_at(epi);

#pragma unroll
        for (int i = 0; i < J / 2; i++) {
            uint32_t r[4];
            ptx_ldmatrix_x4(r, from ^ i << 5);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float2 f = wgmma_floats<T>(r[e]);
                v[i * 8 + e * 2] += f.x;
                v[i * 8 + e * 2 + 1] += f.y;
            }
        }
    }
    static __device__ __forceinline__ void store(uint32_t epi, const float *v)
    {
        const uint32_t to = wgmma_matrices_at(epi);

#pragma unroll
        for (int i = 0; i < J / 2; i++) {
            uint32_t r[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                r[e] = wgmma_pair<T>(v[i * 8 + e * 2], v[i * 8 + e * 2 + 1]);
            stmatrix_x4(to ^ i << 5, r);
        }
    }
};

/* ---- floats -------------------------------------------------------- */

/* Columns 8 j + 2 t and the next of row g, of 32 columns in 8 vectors. */
template <int J> struct wgmma_epi_stage<float, J> {
    static __device__ __forceinline__ uint32_t at(uint32_t epi, int j)
    {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;

        return epi + (threadIdx.x / 32 % 4 * 16 + g) * 128 +
               ((2 * j + t / 2 ^ g) << 4) + t % 2 * 8;
    }
    static __device__ __forceinline__ void add(uint32_t epi, float *v)
    {
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float x, y;
                ld_shared_v2(at(epi, j) + half * 1024, &x, &y);
                v[j * 4 + half * 2] += x;
                v[j * 4 + half * 2 + 1] += y;
            }
    }
    static __device__ __forceinline__ void store(uint32_t epi, const float *v)
    {
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                st_shared_v2(at(epi, j) + half * 1024, v[j * 4 + half * 2],
                             v[j * 4 + half * 2 + 1]);
    }
};

/* ---- outputs ------------------------------------------------------- */

/* Properties of the epilogue that are known at compile time. */
enum wgmma_epilogue_kind {
    WGMMA_ANY,
    WGMMA_PIECEWISE_LINEAR, /* the activation is one of
                               unary_is_piecewise_linear() */
    WGMMA_CONVERT_ONLY      /* neither residual nor activation */
};

/* Turns an epilogue stage's columns of sums into outputs in this lane's part of
 * the stage, which holds the residual if there is one. v: J times 4 sums in
 * wgmma's layout. */
template <typename T, int J, wgmma_epilogue_kind KIND>
static __device__ __forceinline__ void
wgmma_finish(const struct output_args &out, float *v, uint32_t epi)
{
    const bool last = out.epilogue.residual_last;

    if constexpr (KIND == WGMMA_CONVERT_ONLY) {
        wgmma_epi_stage<T, J>::store(epi, v);
        return;
    }
    if (out.residual && !last)
        wgmma_epi_stage<T, J>::add(epi, v);
    if constexpr (KIND == WGMMA_PIECEWISE_LINEAR)
        unary_piecewise_linear<4 * J>(out.epilogue.act, v);
    else
        unary_inline<4 * J>(out.epilogue.act, v);
    if (out.residual && last)
        wgmma_epi_stage<T, J>::add(epi, v);
    wgmma_epi_stage<T, J>::store(epi, v);
}

#endif
