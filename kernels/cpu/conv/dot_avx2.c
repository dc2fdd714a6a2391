/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner loops with AVX2 on 8 lanes: a block of 4 rows x 8 channels.  The
 * product of bytes that AVX2 has limits sums of two to 16 bits, which 255 * 127
 * twice exceed, so bytes are widened to 16 bits in their places: the even and
 * the odd ones of each quad.
 */
#include "kernels/cpu/conv/vector.h"
#include "kernels/cpu/conv/dot.h"

#ifdef VECTOR_LEVELS
#include <immintrin.h>
#include <string.h>

#define STEPS dot_steps_avx2
#define STORAGE
#define TARGET __attribute__((target("avx2,fma")))
#define LANES  8
#define ROWS   4
#define COLS   2
#define PIXELS 2
#define V      static inline __attribute__((always_inline)) TARGET

typedef float vec __attribute__((vector_size(32)));
typedef int32_t veci __attribute__((vector_size(32)));
typedef uint8_t vecb __attribute__((vector_size(32)));

V veci v_splati(int v)
{
    return (veci)_mm256_set1_epi32(v);
}

V vec v_splat(float v)
{
    return (vec)_mm256_set1_ps(v);
}

V veci v_quad(const uint8_t *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v_splati(v);
}

V veci v_dot(veci a, veci x, veci w)
{
    const __m256i low = _mm256_set1_epi16(0xff);
    const __m256i even = _mm256_madd_epi16(
        _mm256_and_si256((__m256i)x, low),
        _mm256_srai_epi16(_mm256_slli_epi16((__m256i)w, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16((__m256i)x, 8),
                                          _mm256_srai_epi16((__m256i)w, 8));

    return a + (veci)even + (veci)odd;
}

V __m128i few_bytes(const void *p, int64_t n)
{
    uint8_t b[16] = {0};

    if (n >= LANES)
        return _mm_loadl_epi64(p);
    memcpy(b, p, (size_t)n);
    return _mm_loadl_epi64((const void *)b);
}

V veci v_widen_u8(const uint8_t *p, int64_t n)
{
    return (veci)_mm256_cvtepu8_epi32(few_bytes(p, n));
}

V veci v_widen_i8(const int8_t *p, int64_t n)
{
    return (veci)_mm256_cvtepi8_epi32(few_bytes(p, n));
}

V vecb v_bytes(const uint8_t *p, int64_t n)
{
    vecb b = {0};

    memcpy(&b, p, n >= 4 * LANES ? 4 * LANES : (size_t)n);
    return b;
}

V void v_store_bytes(uint8_t *p, vecb b, int64_t n)
{
    memcpy(p, &b, n >= 4 * LANES ? 4 * LANES : (size_t)n);
}

V vecb v_splatb(uint8_t v)
{
    return (vecb)_mm256_set1_epi8((char)v);
}

V vecb v_minb(vecb a, vecb b)
{
    return (vecb)_mm256_min_epu8((__m256i)a, (__m256i)b);
}

V vecb v_maxb(vecb a, vecb b)
{
    return (vecb)_mm256_max_epu8((__m256i)a, (__m256i)b);
}

/* The minimum is its second operand where that is NaN, which becomes INT_MIN.
 */
V veci v_nearest(vec v)
{
    return (veci)_mm256_cvtps_epi32(
        _mm256_min_ps(_mm256_set1_ps(0x1p30f), (__m256)v));
}

V vecb v_pack(const veci q[4], int shift)
{
    const __m256i by = _mm256_set1_epi16((short)shift);
    const __m256i a = _mm256_packs_epi32((__m256i)q[0], (__m256i)q[1]);
    const __m256i b = _mm256_packs_epi32((__m256i)q[2], (__m256i)q[3]);

    return (vecb)_mm256_packus_epi16(_mm256_adds_epi16(a, by),
                                     _mm256_adds_epi16(b, by));
}

V vecb v_runs(vecb b)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

    return (vecb)_mm256_permutevar8x32_epi32((__m256i)b, order);
}

V void v_store_run(uint8_t *p, vecb b, int i, int64_t n)
{
    const __m256i v = (__m256i)b;
    const int64_t run = i == 0   ? _mm256_extract_epi64(v, 0)
                        : i == 1 ? _mm256_extract_epi64(v, 1)
                        : i == 2 ? _mm256_extract_epi64(v, 2)
                                 : _mm256_extract_epi64(v, 3);

    memcpy(p, &run, n >= LANES ? LANES : (size_t)n);
}

V void v_store_pair(uint8_t *p, vecb b, int i)
{
    const __m256i v = (__m256i)b;

    _mm_storeu_si128((__m128i *)(void *)p, i ? _mm256_extracti128_si256(v, 1)
                                             : _mm256_castsi256_si128(v));
}

V void v_mix(const vecb a[4], veci q[4])
{
    const __m256i l0 = _mm256_unpacklo_epi8((__m256i)a[0], (__m256i)a[1]);
    const __m256i h0 = _mm256_unpackhi_epi8((__m256i)a[0], (__m256i)a[1]);
    const __m256i l1 = _mm256_unpacklo_epi8((__m256i)a[2], (__m256i)a[3]);
    const __m256i h1 = _mm256_unpackhi_epi8((__m256i)a[2], (__m256i)a[3]);

    q[0] = (veci)_mm256_unpacklo_epi16(l0, l1);
    q[1] = (veci)_mm256_unpackhi_epi16(l0, l1);
    q[2] = (veci)_mm256_unpacklo_epi16(h0, h1);
    q[3] = (veci)_mm256_unpackhi_epi16(h0, h1);
}

V veci v_loadi(const void *p)
{
    return (veci)_mm256_loadu_si256(p);
}

V vec v_load(const float *p)
{
    return (vec)_mm256_loadu_ps(p);
}

V vec v_load_part(const float *p, int64_t n)
{
    vec v = {0};

    if (n >= LANES)
        return v_load(p);
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

V void v_store_part(float *p, vec v, int64_t n)
{
    if (n >= LANES)
        _mm256_storeu_ps(p, (__m256)v);
    else
        memcpy(p, &v, (size_t)n * sizeof *p);
}

V vec v_float(veci i)
{
    return (vec)_mm256_cvtepi32_ps((__m256i)i);
}

V vec v_fma(vec a, vec b, vec c)
{
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

V vec v_min(vec a, vec b)
{
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
}

V vec v_max(vec a, vec b)
{
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
}

#include "kernels/cpu/conv/dot_steps.h"
#else
typedef int dot_avx2_is_not_built;
#endif
