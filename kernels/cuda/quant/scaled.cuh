/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of copies, pools and functions of two arguments on 8 bits with
 * scales (kernels/quant/quant.h): values in single precision. */
#ifndef KERNELS_CUDA_QUANT_SCALED_CUH
#define KERNELS_CUDA_QUANT_SCALED_CUH

#include "kernels/cuda/activation.cuh"

extern "C" {
#include "kernels/quant/quant.h"
}

/* A tensor's type; scale and zero point of 8 bits. */
struct scaled_type {
    enum infer_dtype dtype;
    float scale, inverse, low, high;
    int zero;
};

static inline struct scaled_type scaled_type_of(enum infer_dtype dtype,
                                                float scale, int zero)
{
    struct scaled_type t = {dtype, scale, 0, 0, 0, zero};

    if (quant_is_byte(dtype)) {
        t.inverse = 1 / scale;
        quant_limits(dtype, zero, &t.low, &t.high);
    }
    return t;
}

/* True of types that have these functions. */
static inline bool scaled_is_known(const struct kern_tensor *t)
{
    return quant_is_byte(t->dtype) || t->dtype == INFER_F32 ||
           t->dtype == INFER_F16 || t->dtype == INFER_BF16;
}

static inline bool scaled_act_is_known(const struct kern_unary *act)
{
    return act->kind == KERN_IDENTITY || act->kind == KERN_RELU ||
           act->kind == KERN_LEAKY_RELU || act->kind == KERN_CLIP;
}

/* N values from element i on, N being 1 or 4. */
template <int N>
static __device__ __forceinline__ void
scaled_load(const struct scaled_type &t, const void *p, int64_t i, float *v)
{
    if (t.dtype == INFER_F32) {
        load_floats<float, N>((const float *)p + i, v);
    } else if (t.dtype == INFER_F16) {
        load_floats<__half, N>((const __half *)p + i, v);
    } else if (t.dtype == INFER_BF16) {
        load_floats<__nv_bfloat16, N>((const __nv_bfloat16 *)p + i, v);
    } else if (t.dtype == INFER_F8E4M3) {
        float four[4];
        float8_values(N == 4 ? *(const uint32_t *)((const uint8_t *)p + i)
                             : ((const uint8_t *)p)[i],
                      four);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = __fmul_rn(four[j], t.scale);
    } else {
        const vec<uint8_t, N> bytes =
            load_vec<uint8_t, N>((const uint8_t *)p + i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int q = t.dtype == INFER_I8 ? (int)(int8_t)bytes.at[j]
                                              : (int)bytes.at[j];
            v[j] = __fmul_rn((float)(q - t.zero), t.scale);
        }
    }
}

/* v / scale, or what rounds to the same integer within the limits, which are
 * below 2^9: the product with the inverse is off by 2^-22 of itself at most, so
 * that only near the middle of two integers the quotient is needed. */
static __device__ __forceinline__ float
scaled_quotient(const struct scaled_type &t, float v)
{
    const float q = __fmul_rn(v, t.inverse);

    return fabsf(q - rintf(q)) < 0.499f ? q : __fdiv_rn(v, t.scale);
}

template <int N>
static __device__ __forceinline__ void
scaled_store(const struct scaled_type &t, void *p, int64_t i, const float *v)
{
    if (t.dtype == INFER_F32) {
        store_floats<float, N>((float *)p + i, v);
    } else if (t.dtype == INFER_F16) {
        store_floats<__half, N>((__half *)p + i, v);
    } else if (t.dtype == INFER_BF16) {
        store_floats<__nv_bfloat16, N>((__nv_bfloat16 *)p + i, v);
    } else if (t.dtype == INFER_F8E4M3) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            four[j] = j < N ? __fdiv_rn(v[j < N ? j : 0], t.scale) : 0;
        if constexpr (N == 4)
            *(uint32_t *)((uint8_t *)p + i) = float8_codes(four);
        else
            ((uint8_t *)p)[i] = (uint8_t)float8_codes(four);
    } else {
        vec<uint8_t, N> bytes;
#pragma unroll
        for (int j = 0; j < N; j++) {
            const float q =
                fminf(fmaxf(scaled_quotient(t, v[j]), t.low), t.high);
            bytes.at[j] = (uint8_t)(__float2int_rn(q) + t.zero);
        }
        store_vec<uint8_t, N>((uint8_t *)p + i, bytes);
    }
}

#endif
