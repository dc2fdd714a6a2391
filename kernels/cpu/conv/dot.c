/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of the inner loops, and those for machines with neither AVX-512 VNNI
 * nor AVX2: four lanes of the compiler's vectors. */
#include "config.h"

#include "kernels/cpu/conv/dot.h"

#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "kernels/cpu/conv/vector.h"
#include "kernels/cpu/cpu.h"

#define STEPS   compiled
#define STORAGE static
#define TARGET
#define LANES  4
#define ROWS   4
#define COLS   1
#define PIXELS 2
#define V      static inline

typedef float vec __attribute__((vector_size(16)));
typedef int32_t veci __attribute__((vector_size(16)));
typedef uint8_t vecb __attribute__((vector_size(16)));

V veci v_splati(int v)
{
    return (veci){v, v, v, v};
}

V vec v_splat(float v)
{
    return (vec){v, v, v, v};
}

V veci v_quad(const uint8_t *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v_splati(v);
}

#ifdef __SSE2__
/* The even and the odd bytes of each quad, widened in their places. */
V veci v_dot(veci a, veci x, veci w)
{
    const __m128i even =
        _mm_madd_epi16(_mm_and_si128((__m128i)x, _mm_set1_epi16(0xff)),
                       _mm_srai_epi16(_mm_slli_epi16((__m128i)w, 8), 8));
    const __m128i odd = _mm_madd_epi16(_mm_srli_epi16((__m128i)x, 8),
                                       _mm_srai_epi16((__m128i)w, 8));

    return a + (veci)even + (veci)odd;
}
#else
V veci v_dot(veci a, veci x, veci w)
{
    uint8_t u[16];
    int8_t s[16];

    memcpy(u, &x, sizeof u);
    memcpy(s, &w, sizeof s);
    for (int i = 0; i < 16; i++)
        a[i / 4] += u[i] * s[i];
    return a;
}
#endif

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
    return (vecb){v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v};
}

V vecb v_minb(vecb a, vecb b)
{
    const vecb less = (vecb)(a < b);

    return (a & less) | (b & ~less);
}

V vecb v_maxb(vecb a, vecb b)
{
    const vecb less = (vecb)(a < b);

    return (b & less) | (a & ~less);
}

V veci v_widen_u8(const uint8_t *p, int64_t n)
{
    const vecb b = v_bytes(p, n < LANES ? n : LANES);

    return (veci){b[0], b[1], b[2], b[3]};
}

V veci v_widen_i8(const int8_t *p, int64_t n)
{
    const vecb b = v_bytes((const uint8_t *)p, n < LANES ? n : LANES);

    return (veci){(int8_t)b[0], (int8_t)b[1], (int8_t)b[2], (int8_t)b[3]};
}

V veci v_loadi(const void *p)
{
    veci v;

    memcpy(&v, p, sizeof v);
    return v;
}

V vec v_load(const float *p)
{
    vec v;

    memcpy(&v, p, sizeof v);
    return v;
}

V vec v_load_part(const float *p, int64_t n)
{
    vec v = {0};

    memcpy(&v, p, n >= LANES ? sizeof v : (size_t)n * sizeof *p);
    return v;
}

V void v_store_part(float *p, vec v, int64_t n)
{
    memcpy(p, &v, n >= LANES ? sizeof v : (size_t)n * sizeof *p);
}

V vec v_float(veci i)
{
    return (vec){(float)i[0], (float)i[1], (float)i[2], (float)i[3]};
}

/* The product is exact in double precision.  Its sum with c, rounded, rounds to
 * the float that is right unless it lies in the middle of two, or is so small
 * that floats have fewer bits. */
V float fused(float a, float b, float c)
{
    const double sum = (double)a * (double)b + (double)c;
    uint64_t bits;

    memcpy(&bits, &sum, sizeof bits);
    if ((bits & 0x1fffffff) == 0x10000000 || fabs(sum) < 0x1p-120)
        return fmaf(a, b, c);
    return (float)sum;
}

V vec v_fma(vec a, vec b, vec c)
{
    return (vec){fused(a[0], b[0], c[0]), fused(a[1], b[1], c[1]),
                 fused(a[2], b[2], c[2]), fused(a[3], b[3], c[3])};
}

V vec v_min(vec a, vec b)
{
    const veci less = a < b;

    return (vec)(((veci)a & less) | ((veci)b & ~less));
}

V vec v_max(vec a, vec b)
{
    const veci more = a > b;

    return (vec)(((veci)a & more) | ((veci)b & ~more));
}

/* Below 2^22 the sum has no bits behind the point; NaN is the lower limit. */
V veci v_nearest(vec v)
{
    const vec magic = v_splat(0x1.8p23f);

    v = v_min(v_max(v, v_splat(-0x1p21f)), v_splat(0x1p21f));
    return (veci)(v + magic) - (veci)magic;
}

V vecb v_pack(const veci q[4], int shift)
{
    vecb b;

    for (int i = 0; i < 16; i++) {
        const int v = q[i / 4][i % 4] + shift;

        b[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
    return b;
}

/* With four lanes the mixed order is the natural one. */
V vecb v_runs(vecb b)
{
    return b;
}

V void v_store_run(uint8_t *p, vecb b, int i, int64_t n)
{
    uint8_t all[16];

    memcpy(all, &b, sizeof all);
    memcpy(p, all + i * LANES, n >= LANES ? LANES : (size_t)n);
}

V void v_store_pair(uint8_t *p, vecb b, int i)
{
    memcpy(p, (const uint8_t *)&b + i * 8, 8);
}

V void v_mix(const vecb a[4], veci q[4])
{
    uint8_t to[64];

    for (int c = 0; c < 16; c++)
        for (int i = 0; i < 4; i++)
            to[c * 4 + i] = a[i][c];
    memcpy(q, to, sizeof to);
}

static const struct dot_steps compiled;
#include "kernels/cpu/conv/dot_steps.h"

const struct dot_steps *dot_steps(void)
{
#ifdef VECTOR_LEVELS
    if (cpu_has_avx512() && __builtin_cpu_supports("avx512vnni")) {
#ifdef DOT_AMX
        if (dot_has_amx())
            return &dot_steps_amx;
#endif
        return &dot_steps_avx512;
    }
    if (cpu_has_avx2())
        return &dot_steps_avx2;
#endif
    return &compiled;
}
