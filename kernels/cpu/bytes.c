/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and lines of 8 bits with scales. */
#include "config.h"

#include "kernels/cpu/bytes.h"

/* ---- runs ---------------------------------------------------------- */

/* The values of x; elements side by side are a loop of their own, which
 * vectorises. */
#define LOAD(name, type)                                                       \
    CPU_CLONES static void name(const type *restrict x, int64_t step,          \
                                float scale, int zero, float *restrict v,      \
                                int64_t n)                                     \
    {                                                                          \
        if (step != 1) {                                                       \
            for (int64_t i = 0; i < n; i++)                                    \
                v[i] = (float)(x[i * step] - zero) * scale;                    \
            return;                                                            \
        }                                                                      \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) v[i] =             \
            (float)(x[i] - zero) * scale;                                      \
    }

LOAD(load_i8, int8_t)
LOAD(load_u8, uint8_t)

CPU_CLONES static void load_f8(const uint8_t *restrict x, int64_t step,
                               float scale, float *restrict v, int64_t n)
{
    if (step != 1) {
        for (int64_t i = 0; i < n; i++)
            v[i] = scalar_f8e4m3[x[i * step]] * scale;
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        v[i] = scalar_f8e4m3[x[i]] * scale;
}

void bytes_load(const struct bytes_scale *s, const void *x, int64_t step,
                float *v, int64_t n)
{
    if (s->dtype == INFER_I8)
        load_i8(x, step, s->scale, s->zero, v, n);
    else if (s->dtype == INFER_U8)
        load_u8(x, step, s->scale, s->zero, v, n);
    else if (s->dtype == INFER_F8E4M3)
        load_f8(x, step, s->scale, v, n);
    else if (step == 1)
        memcpy(v, x, (size_t)n * sizeof *v);
    else
        for (int64_t i = 0; i < n; i++)
            v[i] = ((const float *)x)[i * step];
}

/* The sum with 1.5 2^23 has no bits behind the point: its low byte is that of
 * the integer to the nearest, ties to even.  NaN becomes the lower limit. */
CPU_INLINE uint8_t nearest(float v, float scale, float low, float high,
                           int zero)
{
    v = v / scale;
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (uint8_t)(float_bits(v + 0x1.8p23f) + (uint32_t)zero);
}

CPU_CLONES static void store_divided(const float *restrict v, float scale,
                                     float low, float high, int zero,
                                     uint8_t *restrict y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = nearest(v[i], scale, low, high, zero);
}

/* Elements that are stored again where a quotient may be rounded otherwise. */
#define STORED 128

/* Products with 1 / scale are within 3 * 2^-24 * 256 of the quotients between
 * the limits.  Where none is that near to the middle of two integers, they give
 * the same, and divisions take several times as long. */
static void store_bytes(const float *v, float scale, float low, float high,
                        int zero, uint8_t *y, int64_t n)
{
#ifdef HAVE_TARGET_CLONES
    if (cpu_has_avx512() && scale > 0x1p-100f && scale < 0x1p100f) {
        const float inverse = 1 / scale;

        for (int64_t i = 0; i < n; i += STORED) {
            const int64_t m = n - i < STORED ? n - i : STORED;

            if (!(bytes_multiplied_avx512(v + i, inverse, low, high, zero,
                                          y + i, m) < 0.4999f))
                store_divided(v + i, scale, low, high, zero, y + i, m);
        }
        return;
    }
#endif
    store_divided(v, scale, low, high, zero, y, n);
}

/* scalar_to_f8e4m3() without branches: the limit, which no rounding exceeds,
 * then both of its forms. */
CPU_INLINE uint8_t nearest_f8(float v)
{
    const uint32_t bits = float_bits(v), size = bits & 0x7fffffff;
    const uint32_t most = 0x43e00000; /* 448 */
    const uint32_t a = size < most ? size : most;
    const uint32_t normal = (a + 0x7ffff + (a >> 20 & 1)) >> 20;
    const uint32_t tiny = float_bits(float_of_bits(a) + 0x1p14f) & 0xff;
    const uint32_t code = a < 0x3c800000 ? tiny : normal - (120 << 3);

    return (uint8_t)((size > 0x7f800000 ? 0x7f : code) | (bits >> 24 & 0x80));
}

CPU_CLONES static void store_f8(const float *restrict v, float scale,
                                uint8_t *restrict y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = nearest_f8(v[i] / scale);
}

static void store_run(const struct bytes_scale *s, const float *v, uint8_t *y,
                      int64_t n)
{
    float low, high;

    quant_limits(s->dtype, s->zero, &low, &high);
    if (s->dtype == INFER_F8E4M3)
        store_f8(v, s->scale, y, n);
    else
        store_bytes(v, s->scale, low, high, s->zero, y, n);
}

void bytes_store(const struct bytes_scale *s, const float *v, void *y,
                 int64_t step, int64_t n)
{
    uint8_t part[BYTES_RUN];

    if (s->dtype == INFER_F32) {
        for (int64_t i = 0; i < n; i++)
            ((float *)y)[i * step] = v[i];
        return;
    }
    if (step == 1) {
        store_run(s, v, y, n);
        return;
    }
    for (int64_t i = 0; i < n; i += BYTES_RUN) {
        const int64_t m = n - i < BYTES_RUN ? n - i : BYTES_RUN;

        store_run(s, v + i, part, m);
        for (int64_t j = 0; j < m; j++)
            ((uint8_t *)y)[(i + j) * step] = part[j];
    }
}

/* ---- lines --------------------------------------------------------- */

/* Elements of a piece of a line. */
#define PIECE (16 * BYTES_RUN)

void bytes_lines_init(struct bytes_lines *l, int operands,
                      const struct kern_tensor *const *t)
{
    const struct cpu_walk *w = &l->walk;

    cpu_walk_init(&l->walk, operands, t);
    l->pieces = (w->dim[w->rank - 1] + PIECE - 1) / PIECE;
    l->count = l->pieces;
    for (int d = 0; d < w->rank - 1; d++)
        l->count *= w->dim[d];
}

int64_t bytes_lines_at(const struct bytes_lines *l, int64_t i,
                       int64_t offset[CPU_MAX_OPERAND])
{
    const struct cpu_walk *w = &l->walk;
    const int inner = w->rank - 1;
    const int64_t first = i % l->pieces * PIECE, rest = w->dim[inner] - first;

    i /= l->pieces;
    for (int k = 0; k < w->operands; k++)
        offset[k] = first * w->stride[k][inner];
    for (int d = inner - 1; d >= 0; d--) {
        for (int k = 0; k < w->operands; k++)
            offset[k] += i % w->dim[d] * w->stride[k][d];
        i /= w->dim[d];
    }
    return rest < PIECE ? rest : PIECE;
}
