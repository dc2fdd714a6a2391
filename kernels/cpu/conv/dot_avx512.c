/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops with VNNI on 16 lanes: a block of 12 rows x 32 channels keeps 24
 * sums, 2 vectors of weights and 4 inputs. */
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
#define LANES 16
#define ROWS  12
#define COLS  2
#define V     static inline __attribute__((always_inline)) TARGET

typedef float vec __attribute__((vector_size(64)));
typedef int32_t veci __attribute__((vector_size(64)));

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

V veci v_madd(veci a, veci x, veci w)
{
    return (veci)_mm512_dpwssd_epi32((__m512i)a, (__m512i)x, (__m512i)w);
}

V veci v_widen_u8(const uint8_t *p, int64_t n)
{
    return (veci)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(n), p));
}

V veci v_widen_i8(const int8_t *p, int64_t n)
{
    return (veci)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(n), p));
}

V void v_narrow(uint8_t *p, veci v, int64_t n)
{
    _mm512_mask_cvtepi32_storeu_epi8(p, first(n), (__m512i)v);
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
#else
typedef int dot_avx512_is_not_built;
#endif
