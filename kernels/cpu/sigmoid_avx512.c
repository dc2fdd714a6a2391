/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sigmoid and SiLU with AVX-512, which can scale by a power of two and estimate
 * a reciprocal in one instruction each: twice as fast as what the compiler
 * makes of the portable code in act.c.  Networks of the EfficientNet family
 * spend a quarter of their time in this function otherwise.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#ifdef HAVE_TARGET_CLONES

#include <immintrin.h>

#define TARGET __attribute__((target("arch=x86-64-v4")))
#define INLINE static inline __attribute__((always_inline)) TARGET

/* 2^(k / 16), k = 0 .. 15 */
static const float roots[16] = {
    1.0f,          1.0442737824f, 1.0905077327f, 1.1387886348f,
    1.1892071150f, 1.2418578121f, 1.2968395547f, 1.3542555469f,
    1.4142135624f, 1.4768261459f, 1.5422108254f, 1.6104903319f,
    1.6817928305f, 1.7562521604f, 1.8340080864f, 1.9152065614f};

/* 1 / (1 + 2^n 2^f), with n + f = -x log2 e, n a multiple of 1/16: a table of
 * its fractions and a polynomial of degree 3 in f, |f| <= 1/32, make 2^n 2^f.
 * The reciprocal has 14 bits and takes one Newton step. */
INLINE __m512 sigmoid(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 log2_e = _mm512_set1_ps(-1.4426950216293335f);
    const __m512 log2_e_low = _mm512_set1_ps(-1.9259629911266175e-8f);
    /* Adding it leaves multiples of 1/16 in the lowest bits. */
    const __m512 magic = _mm512_set1_ps(0x1.8p19f);
    __m512 n, f, p, t, d, r;

    /* In this order NaN comes through. */
    x = _mm512_min_ps(_mm512_set1_ps(86.0f), x);
    x = _mm512_max_ps(_mm512_set1_ps(-86.0f), x);
    t = _mm512_fmadd_ps(x, log2_e, magic);
    n = _mm512_sub_ps(t, magic);
    f = _mm512_fmadd_ps(x, log2_e_low, _mm512_fmsub_ps(x, log2_e, n));
    p = _mm512_set1_ps(5.550410866e-2f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.402265070e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.931471806e-1f));
    t = _mm512_permutexvar_ps(_mm512_castps_si512(t), _mm512_loadu_ps(roots));
    p = _mm512_fmadd_ps(_mm512_mul_ps(p, f), t, t);
    /* scalef takes the whole part of n, rounded down. */
    d = _mm512_add_ps(one, _mm512_scalef_ps(p, n));
    r = _mm512_rcp14_ps(d);
    return _mm512_fmadd_ps(r, _mm512_fnmadd_ps(d, r, one), r);
}

TARGET void cpu_sigmoid_avx512(float a, bool times_x, const float *x, float *y,
                               int64_t n)
{
    const __m512 factor = _mm512_set1_ps(a);
    int64_t i;

    for (i = 0; i < n; i += 16) {
        const __mmask16 lanes =
            n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        const __m512 v = _mm512_maskz_loadu_ps(lanes, x + i);
        const __m512 s = sigmoid(_mm512_mul_ps(v, factor));

        _mm512_mask_storeu_ps(y + i, lanes, times_x ? _mm512_mul_ps(v, s) : s);
    }
}

#else

void cpu_sigmoid_avx512(float a, bool times_x, const float *x, float *y,
                        int64_t n)
{
    const struct kern_unary act = {.kind = times_x ? KERN_SILU : KERN_SIGMOID,
                                   .a = a};

    cpu_act(&act, x, y, n);
}

#endif
