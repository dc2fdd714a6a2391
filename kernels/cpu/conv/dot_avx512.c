/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops with VNNI on 16 lanes: a block of 12 rows x 32 channels keeps 24
 * sums, 2 vectors of weights and 4 inputs; one of 6 depthwise pixels x 64
 * channels 24 sums and 4 vectors of weights. */
#include "kernels/cpu/conv/vector.h"
#include "kernels/cpu/conv/dot.h"

#ifdef VECTOR_LEVELS
#include <immintrin.h>
#include <string.h>

#define STEPS dot_steps_avx512
#define STORAGE
#define TARGET                                                                 \
    __attribute__((                                                            \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))
#define LANES  16
#define ROWS   12
#define COLS   2
#define PIXELS 6
#define V      static inline __attribute__((always_inline)) TARGET

typedef float vec __attribute__((vector_size(64)));
typedef int32_t veci __attribute__((vector_size(64)));
typedef uint8_t vecb __attribute__((vector_size(64)));

V __mmask16 first(int64_t n)
{
    return n >= LANES ? 0xffff : (__mmask16)((1u << n) - 1);
}

V veci v_splati(int v)
{
    return (veci)_mm512_set1_epi32(v);
}

V vec v_splat(float v)
{
    return (vec)_mm512_set1_ps(v);
}

V veci v_quad(const uint8_t *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v_splati(v);
}

V veci v_dot(veci a, veci x, veci w)
{
    return (veci)_mm512_dpbusd_epi32((__m512i)a, (__m512i)x, (__m512i)w);
}

V veci v_widen_u8(const uint8_t *p, int64_t n)
{
    return (veci)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(n), p));
}

V veci v_widen_i8(const int8_t *p, int64_t n)
{
    return (veci)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(n), p));
}

V __mmask64 first_bytes(int64_t n)
{
    return n >= 4 * LANES ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
}

V vecb v_bytes(const uint8_t *p, int64_t n)
{
    return (vecb)_mm512_maskz_loadu_epi8(first_bytes(n), p);
}

V void v_store_bytes(uint8_t *p, vecb b, int64_t n)
{
    if (n >= 4 * LANES)
        _mm512_storeu_si512(p, (__m512i)b);
    else
        _mm512_mask_storeu_epi8(p, first_bytes(n), (__m512i)b);
}

V vecb v_splatb(uint8_t v)
{
    return (vecb)_mm512_set1_epi8((char)v);
}

V vecb v_minb(vecb a, vecb b)
{
    return (vecb)_mm512_min_epu8((__m512i)a, (__m512i)b);
}

V vecb v_maxb(vecb a, vecb b)
{
    return (vecb)_mm512_max_epu8((__m512i)a, (__m512i)b);
}

/* The minimum is its second operand where that is NaN, which becomes INT_MIN.
 */
V veci v_nearest(vec v)
{
    return (veci)_mm512_cvtps_epi32(
        _mm512_min_ps(_mm512_set1_ps(0x1p30f), (__m512)v));
}

V vecb v_pack(const veci q[4], int shift)
{
    const __m512i by = _mm512_set1_epi16((short)shift);
    const __m512i a = _mm512_packs_epi32((__m512i)q[0], (__m512i)q[1]);
    const __m512i b = _mm512_packs_epi32((__m512i)q[2], (__m512i)q[3]);

    return (vecb)_mm512_packus_epi16(_mm512_adds_epi16(a, by),
                                     _mm512_adds_epi16(b, by));
}

V vecb v_runs(vecb b)
{
    const __m512i order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);

    return (vecb)_mm512_permutexvar_epi32(order, (__m512i)b);
}

V void v_store_run(uint8_t *p, vecb b, int i, int64_t n)
{
    const __m512i v = (__m512i)b;
    const __m128i run = i == 0   ? _mm512_castsi512_si128(v)
                        : i == 1 ? _mm512_extracti32x4_epi32(v, 1)
                        : i == 2 ? _mm512_extracti32x4_epi32(v, 2)
                                 : _mm512_extracti32x4_epi32(v, 3);

    if (n >= LANES)
        _mm_storeu_si128((__m128i *)(void *)p, run);
    else
        _mm_mask_storeu_epi8(p, first(n), run);
}

V void v_store_pair(uint8_t *p, vecb b, int i)
{
    const __m512i v = (__m512i)b;

    _mm256_storeu_si256((__m256i *)(void *)p,
                        i ? _mm512_extracti64x4_epi64(v, 1)
                          : _mm512_castsi512_si256(v));
}

V void v_mix(const vecb a[4], veci q[4])
{
    const __m512i l0 = _mm512_unpacklo_epi8((__m512i)a[0], (__m512i)a[1]);
    const __m512i h0 = _mm512_unpackhi_epi8((__m512i)a[0], (__m512i)a[1]);
    const __m512i l1 = _mm512_unpacklo_epi8((__m512i)a[2], (__m512i)a[3]);
    const __m512i h1 = _mm512_unpackhi_epi8((__m512i)a[2], (__m512i)a[3]);

    q[0] = (veci)_mm512_unpacklo_epi16(l0, l1);
    q[1] = (veci)_mm512_unpackhi_epi16(l0, l1);
    q[2] = (veci)_mm512_unpacklo_epi16(h0, h1);
    q[3] = (veci)_mm512_unpackhi_epi16(h0, h1);
}

V veci v_loadi(const void *p)
{
    return (veci)_mm512_loadu_si512(p);
}

V vec v_load(const float *p)
{
    return (vec)_mm512_loadu_ps(p);
}

V vec v_load_part(const float *p, int64_t n)
{
    return (vec)_mm512_maskz_loadu_ps(first(n), p);
}

V void v_store_part(float *p, vec v, int64_t n)
{
    _mm512_mask_storeu_ps(p, first(n), (__m512)v);
}

V vec v_float(veci i)
{
    return (vec)_mm512_cvtepi32_ps((__m512i)i);
}

V vec v_fma(vec a, vec b, vec c)
{
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

V vec v_min(vec a, vec b)
{
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
}

V vec v_max(vec a, vec b)
{
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
}

#include "kernels/cpu/conv/dot_steps.h"

#ifdef DOT_AMX
const struct dot_steps dot_steps_amx = {COLS * LANES, 4 * LANES,  rows,
                                        mix,          depth,      dot_amx_begin,
                                        dot_amx_sums, dot_amx_end};
#endif
#else
typedef int dot_avx512_is_not_built;
#endif
