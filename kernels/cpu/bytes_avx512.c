/* SPDX-License-Identifier: Apache-2.0 */
/* Integers of 8 bits from floats with AVX-512, which narrows 16 integers in one
 * instruction: compilers make vectors of 4 floats of the portable loop. */
#include "config.h"

#include "kernels/cpu/bytes.h"

#ifdef HAVE_TARGET_CLONES

#include <immintrin.h>

#define TARGET __attribute__((target("arch=x86-64-v4")))

TARGET float bytes_multiplied_avx512(const float *v, float inverse, float low,
                                     float high, int zero, uint8_t *y,
                                     int64_t n)
{
    const __m512 by = _mm512_set1_ps(inverse);
    const __m512 least = _mm512_set1_ps(low), most = _mm512_set1_ps(high);
    __m512 worst = _mm512_setzero_ps();

    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 lanes =
            n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        __m512 q = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, v + i), by);
        __m512i whole;

        /* NaN gives the second operand. */
        q = _mm512_min_ps(_mm512_max_ps(q, least), most);
        whole = _mm512_cvtps_epi32(q);
        q = _mm512_abs_ps(_mm512_sub_ps(q, _mm512_cvtepi32_ps(whole)));
        worst = _mm512_mask_max_ps(worst, lanes, worst, q);
        whole = _mm512_add_epi32(whole, _mm512_set1_epi32(zero));
        _mm_mask_storeu_epi8(y + i, lanes, _mm512_cvtepi32_epi8(whole));
    }
    return _mm512_reduce_max_ps(worst);
}

#endif
