/* SPDX-License-Identifier: Apache-2.0 */
/* F8E4M3 (include/infer.h) on the device: values of codes, and codes of values
 * to the nearest, ties to even, 448 of their sign beyond that; NaN stays NaN.
 * From sm_89 on four at a time are four instructions. */
#ifndef KERNELS_CUDA_FLOAT8_CUH
#define KERNELS_CUDA_FLOAT8_CUH

#include <stdint.h>

/* An element, for kernels that are templates of the type. */
struct float8 {
    uint8_t code;
};

static __device__ __forceinline__ float float8_value(uint32_t code)
{
    const uint32_t size = code & 0x7f;
    const float v = size == 0x7f ? __uint_as_float(0x7fffffff)
                    : size < 8   ? (float)size * 0x1p-9f
                                 : __uint_as_float((size << 20) + (120u << 23));

    return code & 0x80 ? -v : v;
}

/* scalar_to_f8e4m3() (kernels/base/scalar.c). */
static __device__ __forceinline__ uint32_t float8_code(float v)
{
    const uint32_t bits = __float_as_uint(v), size = bits & 0x7fffffff;
    const uint32_t most = 0x43e00000; /* 448 */
    const uint32_t a = size < most ? size : most;
    const uint32_t normal = (a + 0x7ffff + (a >> 20 & 1)) >> 20;
    const uint32_t tiny =
        __float_as_uint(__fadd_rn(__uint_as_float(a), 0x1p14f)) & 0xff;
    const uint32_t code = a < 0x3c800000 ? tiny : normal - (120 << 3);

    return (size > 0x7f800000 ? 0x7f : code) | (bits >> 24 & 0x80);
}

/* The codes of four values in a word, the first in its lowest byte. */
static __device__ __forceinline__ uint32_t float8_codes(const float *v)
{
    uint32_t word;

#if __CUDA_ARCH__ >= 890
    asm("{\n.reg .b16 low, high;\n"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n}"
        : "=r"(word)
        : "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]));
#else
    word = float8_code(v[0]) | float8_code(v[1]) << 8 |
           float8_code(v[2]) << 16 | float8_code(v[3]) << 24;
#endif
    return word;
}

/* And back. */
static __device__ __forceinline__ void float8_values(uint32_t word, float *v)
{
#if __CUDA_ARCH__ >= 890
    uint32_t half[2];

    asm("{\n.reg .b16 low, high;\n"
        "mov.b32 {low, high}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, low;\n"
        "cvt.rn.f16x2.e4m3x2 %1, high;\n}"
        : "=r"(half[0]), "=r"(half[1])
        : "r"(word));
#pragma unroll
    for (int i = 0; i < 2; i++)
        asm("{\n.reg .b16 low, high;\n"
            "mov.b32 {low, high}, %2;\n"
            "cvt.f32.f16 %0, low;\n"
            "cvt.f32.f16 %1, high;\n}"
            : "=f"(v[i * 2]), "=f"(v[i * 2 + 1])
            : "r"(half[i]));
#else
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = float8_value(word >> i * 8 & 0xff);
#endif
}

#endif
