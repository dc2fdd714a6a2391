/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of the inner loops, and those for machines with neither AVX-512 VNNI
 * nor AVX2: one lane. */
#include "config.h"

#include "kernels/cpu/conv/dot.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/conv/vector.h"
#include "kernels/cpu/cpu.h"

#define STEPS   plain
#define STORAGE static
#define TARGET
#define LANES 1
#define ROWS  1
#define COLS  1
#define V     static inline

typedef float vec __attribute__((vector_size(4)));
typedef int32_t veci __attribute__((vector_size(4)));

V veci v_splati(int v)
{
    return (veci){v};
}

V vec v_splat(float v)
{
    return (vec){v};
}

V veci v_quad(const uint8_t *p)
{
    veci v;

    memcpy(&v, p, sizeof v);
    return v;
}

V veci v_dot(veci a, veci x, veci w)
{
    uint8_t u[4];
    int8_t s[4];

    memcpy(u, &x, sizeof u);
    memcpy(s, &w, sizeof s);
    for (int i = 0; i < 4; i++)
        a[0] += u[i] * s[i];
    return a;
}

V veci v_madd(veci a, veci x, veci w)
{
    a[0] += x[0] * (int16_t)w[0];
    return a;
}

V veci v_widen_u8(const uint8_t *p, int64_t n)
{
    (void)n;
    return v_splati(*p);
}

V veci v_widen_i8(const int8_t *p, int64_t n)
{
    (void)n;
    return v_splati(*p);
}

V void v_narrow(uint8_t *p, veci v, int64_t n)
{
    (void)n;
    *p = (uint8_t)v[0];
}

V veci v_loadi(const void *p)
{
    return v_quad(p);
}

V vec v_load(const float *p)
{
    return v_splat(*p);
}

V vec v_load_part(const float *p, int64_t n)
{
    (void)n;
    return v_splat(*p);
}

V void v_store_part(float *p, vec v, int64_t n)
{
    (void)n;
    *p = v[0];
}

V vec v_float(veci i)
{
    return v_splat((float)i[0]);
}

V vec v_fma(vec a, vec b, vec c)
{
    return v_splat(fmaf(a[0], b[0], c[0]));
}

V vec v_min(vec a, vec b)
{
    return v_splat(a[0] < b[0] ? a[0] : b[0]);
}

V vec v_max(vec a, vec b)
{
    return v_splat(a[0] > b[0] ? a[0] : b[0]);
}

static const struct dot_steps plain;
#include "kernels/cpu/conv/dot_steps.h"

const struct dot_steps *dot_steps(void)
{
#ifdef VECTOR_LEVELS
    if (cpu_has_avx512() && __builtin_cpu_supports("avx512vnni"))
        return &dot_steps_avx512;
    if (cpu_has_avx2())
        return &dot_steps_avx2;
#endif
    return &plain;
}
