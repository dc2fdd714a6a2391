/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of any data type. */
#include "kernels/base/scalar.h"

#include <math.h>
#include <string.h>

#include "kernels/base/clones.h"

static uint32_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

float scalar_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 0x1f;
    uint32_t fraction = bits & 0x3ff;

    if (exponent == 0x1f)
        return bits_float(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) {
        float tiny = (float)fraction * 0x1p-24f; /* subnormal, exact */

        return sign ? -tiny : tiny;
    }
    return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t scalar_to_f16(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t half, rest;

    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal or zero */
        /* Adding 0.5 lines the value up so that the last place of the sum is
         * 2^-24, that of subnormal halves; the addition rounds. */
        float sum = bits_float(magnitude) + 0.5f;

        return (uint16_t)(sign | (float_bits(sum) - float_bits(0.5f)));
    }
    half = (magnitude - 0x38000000) >> 13;
    rest = magnitude & 0x1fff;
    if (rest > 0x1000 || (rest == 0x1000 && (half & 1)))
        half++;
    return (uint16_t)(sign | half);
}

float scalar_from_bf16(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}

uint16_t scalar_to_bf16(float value)
{
    uint32_t bits = float_bits(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* quiet, payload kept */
    bits += 0x7fff + ((bits >> 16) & 1);
    return (uint16_t)(bits >> 16);
}

/* The eight fractions of one exponent, in units u. */
#define EIGHT(u)                                                               \
    8 * (u), 9 * (u), 10 * (u), 11 * (u), 12 * (u), 13 * (u), 14 * (u), 15 * (u)
/* The codes 0 to 127, times s. */
#define HALF_OF_F8E4M3(s)                                                      \
    0 * (s), 0x1p-9f * (s), 0x2p-9f * (s), 0x3p-9f * (s), 0x4p-9f * (s),       \
        0x5p-9f * (s), 0x6p-9f * (s), 0x7p-9f * (s), EIGHT(0x1p-9f * (s)),     \
        EIGHT(0x1p-8f * (s)), EIGHT(0x1p-7f * (s)), EIGHT(0x1p-6f * (s)),      \
        EIGHT(0x1p-5f * (s)), EIGHT(0x1p-4f * (s)), EIGHT(0x1p-3f * (s)),      \
        EIGHT(0x1p-2f * (s)), EIGHT(0x1p-1f * (s)), EIGHT(0x1p0f * (s)),       \
        EIGHT(0x1p1f * (s)), EIGHT(0x1p2f * (s)), EIGHT(0x1p3f * (s)),         \
        EIGHT(0x1p4f * (s)), 256 * (s), 288 * (s), 320 * (s), 352 * (s),       \
        384 * (s), 416 * (s), 448 * (s), NAN

const float scalar_f8e4m3[256] = {HALF_OF_F8E4M3(1.0f), HALF_OF_F8E4M3(-1.0f)};

uint8_t scalar_to_f8e4m3(float value)
{
    uint32_t bits = float_bits(value);
    const uint8_t sign = (uint8_t)(bits >> 24 & 0x80);

    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return sign | 0x7f;
    if (bits >= 0x43e00000) /* 448 */
        return sign | 0x7e;
    if (bits < 0x3c800000) { /* below 2^-6: subnormal or zero */
        /* The last place of a number in 2^14 .. 2^15 is 2^-9. */
        const float sum = bits_float(bits) + 0x1p14f;

        return (uint8_t)(sign | (float_bits(sum) - float_bits(0x1p14f)));
    }
    /* Half of the last place of 20 that go, less one where the place that
     * stays is even. */
    bits += 0x7ffff + (bits >> 20 & 1);
    return (uint8_t)(sign | ((bits >> 20) - (120 << 3)));
}

double scalar_load(enum infer_dtype dtype, const void *base, int64_t i)
{
    switch (dtype) {
    case INFER_F64:
        return ((const double *)base)[i];
    case INFER_F32:
        return ((const float *)base)[i];
    case INFER_F16:
        return scalar_from_f16(((const uint16_t *)base)[i]);
    case INFER_BF16:
        return scalar_from_bf16(((const uint16_t *)base)[i]);
    case INFER_F8E4M3:
        return scalar_f8e4m3[((const uint8_t *)base)[i]];
    case INFER_U64:
        return (double)((const uint64_t *)base)[i];
    case INFER_I64:
    case INFER_I32:
    case INFER_I16:
    case INFER_I8:
    case INFER_U32:
    case INFER_U16:
    case INFER_U8:
    case INFER_BOOL:
    case INFER_NONE:
    case INFER_DTYPE_COUNT:
        break;
    }
    return (double)scalar_load_i64(dtype, base, i);
}

int64_t scalar_load_i64(enum infer_dtype dtype, const void *base, int64_t i)
{
    uint64_t wide;

    switch (dtype) {
    case INFER_I64:
        return ((const int64_t *)base)[i];
    case INFER_I32:
        return ((const int32_t *)base)[i];
    case INFER_I16:
        return ((const int16_t *)base)[i];
    case INFER_I8:
        return ((const int8_t *)base)[i];
    case INFER_U64:
        wide = ((const uint64_t *)base)[i];
        return wide > INT64_MAX ? INT64_MAX : (int64_t)wide;
    case INFER_U32:
        return ((const uint32_t *)base)[i];
    case INFER_U16:
        return ((const uint16_t *)base)[i];
    case INFER_U8:
        return ((const uint8_t *)base)[i];
    case INFER_BOOL:
        return ((const uint8_t *)base)[i] != 0;
    case INFER_F64:
    case INFER_F32:
    case INFER_F16:
    case INFER_BF16:
    case INFER_F8E4M3: {
        double value = scalar_load(dtype, base, i);

        if (isnan(value))
            return 0;
        if (value >= 0x1p63)
            return INT64_MAX;
        return value < -0x1p63 ? INT64_MIN : (int64_t)value;
    }
    case INFER_NONE:
    case INFER_DTYPE_COUNT:
        break;
    }
    return 0;
}

void scalar_store(enum infer_dtype dtype, void *base, int64_t i, double value)
{
    switch (dtype) {
    case INFER_F64:
        ((double *)base)[i] = value;
        break;
    case INFER_F32:
        ((float *)base)[i] = (float)value;
        break;
    case INFER_F16:
        ((uint16_t *)base)[i] = scalar_to_f16((float)value);
        break;
    case INFER_BF16:
        ((uint16_t *)base)[i] = scalar_to_bf16((float)value);
        break;
    case INFER_F8E4M3:
        ((uint8_t *)base)[i] = scalar_to_f8e4m3((float)value);
        break;
    case INFER_BOOL:
        ((uint8_t *)base)[i] = value != 0;
        break;
    case INFER_U64:
        if (!(value > 0))
            ((uint64_t *)base)[i] = 0;
        else
            ((uint64_t *)base)[i] =
                value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
        break;
    case INFER_I64:
    case INFER_I32:
    case INFER_I16:
    case INFER_I8:
    case INFER_U32:
    case INFER_U16:
    case INFER_U8:
    case INFER_NONE:
    case INFER_DTYPE_COUNT:
        scalar_store_i64(dtype, base, i, scalar_load_i64(INFER_F64, &value, 0));
        break;
    }
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void scalar_store_i64(enum infer_dtype dtype, void *base, int64_t i,
                      int64_t value)
{
    switch (dtype) {
    case INFER_I64:
        ((int64_t *)base)[i] = value;
        break;
    case INFER_I32:
        ((int32_t *)base)[i] = (int32_t)clamp(value, INT32_MIN, INT32_MAX);
        break;
    case INFER_I16:
        ((int16_t *)base)[i] = (int16_t)clamp(value, INT16_MIN, INT16_MAX);
        break;
    case INFER_I8:
        ((int8_t *)base)[i] = (int8_t)clamp(value, INT8_MIN, INT8_MAX);
        break;
    case INFER_U64:
        ((uint64_t *)base)[i] = value < 0 ? 0 : (uint64_t)value;
        break;
    case INFER_U32:
        ((uint32_t *)base)[i] = (uint32_t)clamp(value, 0, UINT32_MAX);
        break;
    case INFER_U16:
        ((uint16_t *)base)[i] = (uint16_t)clamp(value, 0, UINT16_MAX);
        break;
    case INFER_U8:
        ((uint8_t *)base)[i] = (uint8_t)clamp(value, 0, UINT8_MAX);
        break;
    case INFER_BOOL:
        ((uint8_t *)base)[i] = value != 0;
        break;
    case INFER_F64:
    case INFER_F32:
    case INFER_F16:
    case INFER_BF16:
    case INFER_F8E4M3:
        scalar_store(dtype, base, i, (double)value);
        break;
    case INFER_NONE:
    case INFER_DTYPE_COUNT:
        break;
    }
}

bool scalar_is_integer(enum infer_dtype dtype)
{
    return dtype >= INFER_I64 && dtype <= INFER_BOOL;
}

bool scalar_is_float(enum infer_dtype dtype)
{
    return (dtype >= INFER_F64 && dtype <= INFER_BF16) || dtype == INFER_F8E4M3;
}

/* ---- whole arrays --------------------------------------------------- */

/*
 * The conversions that weights need when they are loaded, of BLOCK elements at
 * a time: loops of a constant length without branches, which the compiler turns
 * into vector instructions.  Each gives the bits of its function above.
 */
#define BLOCK 32

CPU_INLINE void f16_of_block(const float *src, uint16_t *dst)
{
    uint32_t bits[BLOCK];
    float sum[BLOCK];

    memcpy(bits, src, sizeof bits);
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t magnitude = bits[i] & 0x7fffffff;

        memcpy(&sum[i], &magnitude, sizeof sum[i]);
    }
    for (int i = 0; i < BLOCK; i++)
        sum[i] += 0.5f; /* as scalar_to_f16() for subnormal halves */
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t magnitude = bits[i] & 0x7fffffff;
        const uint32_t odd = magnitude >> 13 & 1;
        uint32_t half = (magnitude - 0x38000000 + 0xfff + odd) >> 13, tiny;

        memcpy(&tiny, &sum[i], sizeof tiny);
        half = magnitude < 0x38800000 ? tiny - 0x3f000000 : half;
        half = magnitude >= 0x477ff000 ? 0x7c00 : half;
        half = magnitude > 0x7f800000 ? 0x7e00 : half;
        dst[i] = (uint16_t)(half | (bits[i] >> 16 & 0x8000));
    }
}

CPU_INLINE void bf16_of_block(const float *src, uint16_t *dst)
{
    uint32_t bits[BLOCK];

    memcpy(bits, src, sizeof bits);
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t rounded = bits[i] + 0x7fff + (bits[i] >> 16 & 1);
        const uint32_t quiet = bits[i] | 0x400000;

        dst[i] = (uint16_t)(((bits[i] & 0x7fffffff) > 0x7f800000 ? quiet
                                                                 : rounded) >>
                            16);
    }
}

CPU_INLINE void block_of_f16(const uint16_t *src, float *dst)
{
    uint32_t bits[BLOCK];
    float tiny[BLOCK];

    for (int i = 0; i < BLOCK; i++)
        tiny[i] = (float)(int32_t)(src[i] & 0x3ff) * 0x1p-24f;
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t magnitude = src[i] & 0x7fff;
        uint32_t word = magnitude << 13, small;

        memcpy(&small, &tiny[i], sizeof small);
        word += magnitude >= 0x7c00 ? 0x70000000 : 0x38000000;
        word = magnitude < 0x400 ? small : word;
        bits[i] = word | (uint32_t)(src[i] & 0x8000) << 16;
    }
    memcpy(dst, bits, sizeof bits);
}

CPU_CLONES static void f32_to_f16(const float *src, uint16_t *dst, int64_t n)
{
    int64_t i;

    for (i = 0; i + BLOCK <= n; i += BLOCK)
        f16_of_block(src + i, dst + i);
    for (; i < n; i++)
        dst[i] = scalar_to_f16(src[i]);
}

CPU_CLONES static void f32_to_bf16(const float *src, uint16_t *dst, int64_t n)
{
    int64_t i;

    for (i = 0; i + BLOCK <= n; i += BLOCK)
        bf16_of_block(src + i, dst + i);
    for (; i < n; i++)
        dst[i] = scalar_to_bf16(src[i]);
}

CPU_CLONES static void f16_to_f32(const uint16_t *src, float *dst, int64_t n)
{
    int64_t i;

    for (i = 0; i + BLOCK <= n; i += BLOCK)
        block_of_f16(src + i, dst + i);
    for (; i < n; i++)
        dst[i] = scalar_from_f16(src[i]);
}

void scalar_convert(enum infer_dtype from, const void *src, enum infer_dtype to,
                    void *dst, size_t n)
{
    int64_t i, count = (int64_t)n;

    if (from == to) {
        if (n > 0)
            memcpy(dst, src, n * infer_dtype_size(from));
    } else if (from == INFER_F16 && to == INFER_F32) {
        f16_to_f32(src, dst, count);
    } else if (from == INFER_F32 && to == INFER_F16) {
        f32_to_f16(src, dst, count);
    } else if (from == INFER_F32 && to == INFER_BF16) {
        f32_to_bf16(src, dst, count);
    } else if (scalar_is_integer(from) && scalar_is_integer(to)) {
        for (i = 0; i < count; i++)
            scalar_store_i64(to, dst, i, scalar_load_i64(from, src, i));
    } else {
        for (i = 0; i < count; i++)
            scalar_store(to, dst, i, scalar_load(from, src, i));
    }
}
