/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single elements on the device: loads and stores of every data type, and the
 * functions of one argument.  Arithmetic is in float.
 */
#ifndef KERNELS_CUDA_ELEMENT_CUH
#define KERNELS_CUDA_ELEMENT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "kernels/cuda/cuda_rt.h"
#include "kernels/cuda/float8.cuh"

/* ---- conversions --------------------------------------------------- */

static __device__ __forceinline__ float to_float(float v)
{
    return v;
}
static __device__ __forceinline__ float to_float(__half v)
{
    return __half2float(v);
}
static __device__ __forceinline__ float to_float(__nv_bfloat16 v)
{
    return __bfloat162float(v);
}

/* Rounds to nearest, ties to even. */
template <typename T> static __device__ __forceinline__ T from_float(float v);
template <> __device__ __forceinline__ float from_float<float>(float v)
{
    return v;
}
template <> __device__ __forceinline__ __half from_float<__half>(float v)
{
    return __float2half_rn(v);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v)
{
    return __float2bfloat16_rn(v);
}
/* A truth value. */
template <> __device__ __forceinline__ uint8_t from_float<uint8_t>(float v)
{
    return v != 0;
}

/* ---- vectors ------------------------------------------------------- */

/* N elements moved at once; N * sizeof(T) is 2, 4, 8 or 16 bytes, and so is the
 * alignment of the address. */
template <typename T, int N> struct alignas(sizeof(T) * N) vec {
    T at[N];
};

template <typename T, int N>
static __device__ __forceinline__ vec<T, N> load_vec(const T *p)
{
    return *reinterpret_cast<const vec<T, N> *>(p);
}

template <typename T, int N>
static __device__ __forceinline__ void store_vec(T *p, const vec<T, N> &v)
{
    *reinterpret_cast<vec<T, N> *>(p) = v;
}

/* V adjacent elements; the address is aligned to all of them. */
template <typename T, int V>
static __device__ __forceinline__ void load_floats(const T *p, float *v)
{
    const vec<T, V> t = load_vec<T, V>(p);
#pragma unroll
    for (int j = 0; j < V; j++)
        v[j] = to_float(t.at[j]);
}

template <typename T, int V>
static __device__ __forceinline__ void store_floats(T *p, const float *v)
{
    vec<T, V> t;
#pragma unroll
    for (int j = 0; j < V; j++)
        t.at[j] = from_float<T>(v[j]);
    store_vec<T, V>(p, t);
}

/* ---- any data type ------------------------------------------------- */

/* Converted as kernels/base/scalar.h says.  For paths where the type is known
 * only when running; a tensor without a type has no elements. */
static __device__ __forceinline__ double load_any(enum infer_dtype t,
                                                  const void *p, int64_t i)
{
    switch (t) {
    case INFER_F64:
        return ((const double *)p)[i];
    case INFER_F32:
        return ((const float *)p)[i];
    case INFER_F16:
        return __half2float(((const __half *)p)[i]);
    case INFER_BF16:
        return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
    case INFER_I64:
        return (double)((const int64_t *)p)[i];
    case INFER_I32:
        return ((const int32_t *)p)[i];
    case INFER_I16:
        return ((const int16_t *)p)[i];
    case INFER_I8:
        return ((const int8_t *)p)[i];
    case INFER_U64:
        return (double)((const uint64_t *)p)[i];
    case INFER_U32:
        return ((const uint32_t *)p)[i];
    case INFER_U16:
        return ((const uint16_t *)p)[i];
    case INFER_U8:
        return ((const uint8_t *)p)[i];
    case INFER_BOOL:
        return ((const uint8_t *)p)[i] != 0;
    case INFER_F8E4M3:
        return float8_value(((const uint8_t *)p)[i]);
    }
    return 0;
}

/* Cut toward zero and to the range; NaN gives 0. */
static __device__ __forceinline__ double cut(double v, double low, double high)
{
    return v != v ? 0 : trunc(fmin(fmax(v, low), high));
}

static __device__ __forceinline__ void store_any(enum infer_dtype t, void *p,
                                                 int64_t i, double v)
{
    switch (t) {
    case INFER_F64:
        ((double *)p)[i] = v;
        break;
    case INFER_F32:
        ((float *)p)[i] = (float)v;
        break;
    case INFER_F16:
        ((__half *)p)[i] = __float2half_rn((float)v);
        break;
    case INFER_BF16:
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn((float)v);
        break;
    case INFER_I64: /* conversions on the device saturate; NaN is special */
        ((int64_t *)p)[i] = v != v ? 0 : __double2ll_rz(v);
        break;
    case INFER_I32:
        ((int32_t *)p)[i] = (int32_t)cut(v, -2147483648.0, 2147483647.0);
        break;
    case INFER_I16:
        ((int16_t *)p)[i] = (int16_t)cut(v, -32768, 32767);
        break;
    case INFER_I8:
        ((int8_t *)p)[i] = (int8_t)cut(v, -128, 127);
        break;
    case INFER_U64:
        ((uint64_t *)p)[i] = v != v || v < 0 ? 0 : __double2ull_rz(v);
        break;
    case INFER_U32:
        ((uint32_t *)p)[i] = (uint32_t)cut(v, 0, 4294967295.0);
        break;
    case INFER_U16:
        ((uint16_t *)p)[i] = (uint16_t)cut(v, 0, 65535);
        break;
    case INFER_U8:
        ((uint8_t *)p)[i] = (uint8_t)cut(v, 0, 255);
        break;
    case INFER_BOOL:
        ((uint8_t *)p)[i] = v != 0;
        break;
    case INFER_F8E4M3:
        ((uint8_t *)p)[i] = (uint8_t)float8_code((float)v);
        break;
    }
}

/* As scalar_load_i64() of integer types; U64 beyond 2^63 turns negative. */
static __device__ __forceinline__ int64_t load_i64(enum infer_dtype t,
                                                   const void *p, int64_t i)
{
    return t == INFER_I64 || t == INFER_U64 ? ((const int64_t *)p)[i]
                                            : (int64_t)load_any(t, p, i);
}

static __device__ __forceinline__ void store_i64(enum infer_dtype t, void *p,
                                                 int64_t i, int64_t v)
{
    if (t == INFER_I64)
        ((int64_t *)p)[i] = v;
    else if (t == INFER_U64)
        ((int64_t *)p)[i] = v < 0 ? 0 : v;
    else
        store_any(t, p, i, (double)v);
}

/* An element of the kernel's own type or of another. */
template <typename T> struct dtype_of;
template <> struct dtype_of<float> {
    static const enum infer_dtype value = INFER_F32;
};
template <> struct dtype_of<__half> {
    static const enum infer_dtype value = INFER_F16;
};
template <> struct dtype_of<__nv_bfloat16> {
    static const enum infer_dtype value = INFER_BF16;
};

template <typename T>
static __device__ __forceinline__ float load_as(enum infer_dtype t,
                                                const void *p, int64_t i)
{
    return t == dtype_of<T>::value ? to_float(((const T *)p)[i])
                                   : (float)load_any(t, p, i);
}

/* ---- functions of one argument ------------------------------------- */

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + __expf(-x));
}

static __device__ __forceinline__ float softplus(float x)
{
    return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

/* NaN passes through both bounds. */
static __device__ __forceinline__ float clip(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* The words of kernels/unary.def. */
typedef float real;
#define REAL(c)               c##f
#define REAL_ABS              fabsf
#define REAL_CEIL             ceilf
#define REAL_ERF              erff
#define REAL_EXP              expf
#define REAL_EXPM1            expm1f
#define REAL_FLOOR            floorf
#define REAL_LOG              logf
#define REAL_RINT             rintf
#define REAL_SQRT             sqrtf
#define REAL_TANH             tanhf
#define REAL_SIN              sinf
#define REAL_COS              cosf
#define REAL_TAN              tanf
#define REAL_ASIN             asinf
#define REAL_ACOS             acosf
#define REAL_ATAN             atanf
#define REAL_SINH             sinhf
#define REAL_COSH             coshf
#define REAL_ASINH            asinhf
#define REAL_ACOSH            acoshf
#define REAL_ATANH            atanhf
#define REAL_SIGMOID          sigmoid
#define REAL_SOFTPLUS         softplus
#define REAL_CLIP             clip
#define REAL_MADD(a, x, b)    fmaf(a, x, b)
#define REAL_DIV_ADD(x, c, b) fmaf(x, 1.0f / REAL(c), REAL(b))
#define REAL_ABOVE(x, a)      ((x) > (a) || (x) != (x))
#define REAL_FLAT(x)          0
#define FORM                  static __device__ __forceinline__
#include "kernels/unary_forms.h"

/* Kinds that are computed in line.  The others are calls, so that code that
 * takes any kind stays small. */
static constexpr __host__ __device__ bool
unary_is_common(enum kern_unary_kind kind)
{
    return kind <= KERN_HARD_SWISH;
}

static __device__ __noinline__ float unary_rare(struct kern_unary f, float x)
{
    const float a = f.a, b = f.b;

    switch (f.kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        if (!unary_is_common(kind))                                            \
            return value;                                                      \
        break;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return x;
}

/* As ref_unary().  NaN passes through, as it does there. */
static __device__ __forceinline__ float apply_unary(struct kern_unary f,
                                                    float x)
{
    const float a = f.a, b = f.b;

    switch (f.kind) {
#define UNARY(kind, name, facts, value, derivative)                            \
    case kind:                                                                 \
        if (unary_is_common(kind))                                             \
            return value;                                                      \
        break;
#include "kernels/unary.def"
    case KERN_UNARY_COUNT:
        break;
    }
    return unary_rare(f, x);
}

/* y = act(acc + residual), or act(acc) + residual. */
static __device__ __forceinline__ float
apply_epilogue(const struct kern_epilogue &e, float acc, float residual)
{
    if (e.residual_last)
        return apply_unary(e.act, acc) + residual;
    return apply_unary(e.act, acc + residual);
}

#endif
