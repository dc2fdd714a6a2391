/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of dot.h, compiled once for each level of instructions.  The
 * file that includes this one defines
 *   STEPS         the struct dot_steps to define, STORAGE its storage class
 *   TARGET        attribute that selects the instructions
 *   LANES         32-bit lanes of a vector, a multiple of 4
 *   ROWS, COLS    rows and vectors of outputs in a register block
 *   PIXELS        pixels of a depthwise register block, times 4 vectors
 *   vec, veci     vectors of floats and of 32-bit integers
 *   vecb          vectors of 4 LANES bytes
 * and functions on them, whose names begin with v_:
 *   v_quad(p)           four bytes at p in every lane
 *   v_dot(a, x, w)      a + sum of 4 products of U8 x and I8 w in each lane
 *   v_widen_u8/i8(p,n)  n bytes as integers
 *   v_loadi, v_load(p), v_load_part(p, n), v_store_part(p, v, n)
 *   v_float(i), v_splat(f), v_splati(i), v_fma(a, b, c), v_min, v_max
 *   v_nearest(v)        to the nearest, ties to even; magnitudes above 2^20 and
 *                       NaN may give any integer from 2^20 on of their sign,
 *                       NaN one below -2^20
 *   v_pack(q, shift)    q[0..3] + shift as U8, saturated: dot.h's mixed order
 *   v_bytes(p, n), v_store_bytes(p, b, n), v_splatb(u), v_minb, v_maxb
 *   v_runs(b)           packed vectors one after the other
 *   v_store_run(p, b, i, n)  n bytes of vector i of those
 *   v_store_pair(p, b, i)    vectors 2 i and 2 i + 1 of those
 *   v_mix(a, q)         q[0..3]: bytes of a[0..3] side by side, mixed order
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

#define INLINE static inline __attribute__((always_inline)) TARGET

/* ---- the end of a layer -------------------------------------------- */

INLINE vec add_bytes(const struct dot_finish *f, bool is_u8, vec v, int64_t at,
                     int64_t n)
{
    const veci i = is_u8 ? v_widen_u8((const uint8_t *)f->residual + at, n)
                         : v_widen_i8((const int8_t *)f->residual + at, n);

    return v_fma(v_float(i - v_splati(f->r_zero)), v_splat(f->r_scale), v);
}

INLINE vec add_residual(const struct dot_finish *f, vec v, int64_t at,
                        int64_t n)
{
    if (f->type == INFER_F32)
        return v + v_load_part((const float *)f->residual + at, n);
    return add_bytes(f, f->type == INFER_U8, v, at, n);
}

/* Four vectors of an integer y, from values before they are scaled. */
INLINE vecb to_bytes(const struct dot_finish *f, const vec v[4])
{
    const vec inverse = v_splat(f->inverse);
    veci q[4];
    vecb b;

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        q[i] = v_nearest(v[i] * inverse);
    b = v_pack(q, f->shift);
    b = v_minb(v_maxb(b, v_splatb(f->least)), v_splatb(f->most));
    return b ^ v_splatb(f->flip);
}

/* Where a vector of sums belongs: channels k ..., n of them; its place in y
 * and in the residual. */
struct place {
    int64_t k, n, at, from;
};

/* What ends a layer.  The limits of bytes are the activation's as well, unless
 * a residual is added after it. */
enum mode {
    BYTES,        /* from sums alone */
    BYTES_AND_U8, /* with a residual of U8 before the activation */
    BYTES_AND_I8, /* of I8 */
    ANY
};

INLINE enum mode mode_of(const struct dot_finish *f)
{
    if (f->y_type == INFER_F32 || f->residual_last || f->is_smooth)
        return ANY;
    if (!f->residual)
        return BYTES;
    return f->type == INFER_U8   ? BYTES_AND_U8
           : f->type == INFER_I8 ? BYTES_AND_I8
                                 : ANY;
}

/* Vectors of an activation that are computed side by side: a step of one waits
 * for the step before, which takes the time of eight. */
#define BESIDE 8

#define EACH(expression)                                                       \
    _Pragma("GCC unroll 8") for (int i = 0; i < BESIDE; i++)                   \
    {                                                                          \
        expression;                                                            \
    }

/* The functions of kernels/quant/act.h, step by step: limits give their second
 * operand for NaN, as v_min and v_max do.  x = 1 / (1 + exp(-x)). */
INLINE void logistic(vec x[BESIDE])
{
    const vec log2_e = v_splat(-1.44269504088896340736f);
    const vec shift = v_splat(12582912.0f), one = v_splat(1);
    vec t[BESIDE], p[BESIDE];

    EACH(x[i] = v_min(v_max(x[i], v_splat(-60)), v_splat(60)))
    EACH(t[i] = v_fma(x[i], log2_e, shift))
    EACH(p[i] = -(t[i] - shift))
    EACH(x[i] = v_fma(x[i], log2_e, p[i])) /* f */
    EACH(p[i] = v_fma(v_splat(0x1.5c082ap-10f), x[i], v_splat(0x1.3d0c5p-7f)))
    EACH(p[i] = v_fma(p[i], x[i], v_splat(0x1.c6b6e6p-5f)))
    EACH(p[i] = v_fma(p[i], x[i], v_splat(0x1.ebf918p-3f)))
    EACH(p[i] = v_fma(p[i], x[i], v_splat(0x1.62e428p-1f)))
    EACH(p[i] = v_fma(p[i], x[i], one))
    EACH(p[i] = (vec)((veci)p[i] + ((veci)t[i] << 23)) + one) /* d */
    EACH(x[i] = (vec)(v_splati(0x7ef311c7) - (veci)p[i]))     /* r */
    EACH(t[i] = v_fma(-p[i], x[i], one))
    EACH(x[i] = v_fma(x[i], t[i], x[i]))
    EACH(t[i] = v_fma(-p[i], x[i], one))
    EACH(x[i] = v_fma(x[i], t[i], x[i]))
    EACH(t[i] = v_fma(-p[i], x[i], one))
    EACH(x[i] = v_fma(x[i], t[i], x[i]))
}

INLINE void smooth(const struct quant_smooth *s, const vec v[BESIDE],
                   vec g[BESIDE])
{
    if (s->hard) {
        EACH(g[i] = v_fma(v_splat(s->alpha), v[i], v_splat(s->beta)))
        EACH(g[i] = v_min(v_max(g[i], v_splat(0)), v_splat(1)))
    } else if (s->c1 == 0) {
        EACH(g[i] = v_splat(s->c0) * v[i])
        logistic(g);
    } else {
        EACH(const vec w = v_min(v[i] * v[i], v_splat(64));
             g[i] = v_fma(w, v_splat(s->c2), v_splat(s->c1));
             g[i] = v[i] * v_fma(w, g[i], v_splat(s->c0)))
        logistic(g);
    }
    if (s->times) {
        EACH(g[i] = v_max(v_splat(-0x1p60f), v[i]) * g[i])
        return;
    }
    if (!s->hard)
        EACH(g[i] = v_fma(v_splat(s->alpha), g[i], v_splat(s->beta)))
    EACH(const veci is_nan = v[i] != v[i];
         g[i] = (vec)(((veci)v[i] & is_nan) | ((veci)g[i] & ~is_nan)))
}

/* Vectors of the buffer of an activation: those of a tile and what fills the
 * last BESIDE of them. */
#define ACT_VECTORS(n) (((n) + BESIDE - 1) / BESIDE * BESIDE)

/* all = act(all) for `vectors` vectors; what fills the last BESIDE is cleared
 * first.  A function of its own, for its size. */
TARGET static __attribute__((noinline)) void
apply_act(const struct quant_smooth *of, float *all, int vectors)
{
    const struct quant_smooth s = *of;
    const int there = vectors * LANES, filled = ACT_VECTORS(vectors) * LANES;

    memset(all + there, 0, (size_t)(filled - there) * sizeof *all);
    for (int first = 0; first < vectors; first += BESIDE) {
        float *at = all + first * LANES;
        vec v[BESIDE], g[BESIDE];

        EACH(v[i] = v_load(at + i * LANES))
        smooth(&s, v, g);
        EACH(memcpy(at + i * LANES, &g[i], sizeof g[i]))
    }
}
#undef EACH

/* Up to four vectors of sums with their bias and an earlier residual. */
INLINE void finish_sums(enum mode mode, const struct dot_finish *f,
                        const veci *sum, int vectors, const struct place *p,
                        vec v[4])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        if (i >= vectors) {
            v[i] = v_splat(0);
            continue;
        }
        v[i] = v_fma(v_float(sum[i]), v_load(f->scale + p[i].k),
                     v_load(f->bias + p[i].k));
        if (mode == BYTES)
            continue;
        if (mode != ANY) {
            v[i] = add_bytes(f, mode == BYTES_AND_U8, v[i], p[i].from, p[i].n);
            continue;
        }
        if (f->residual && !f->residual_last)
            v[i] = add_residual(f, v[i], p[i].from, p[i].n);
    }
}

/* What follows a smooth activation, if there is one; stores floats. */
INLINE void finish_any(const struct dot_finish *f, vec v[4], int vectors,
                       const struct place *p)
{
#pragma GCC unroll 4
    for (int i = 0; i < vectors; i++) {
        v[i] = v_min(v_max(v[i], v_splat(f->act_low)), v_splat(f->act_high));
        if (f->residual && f->residual_last)
            v[i] = add_residual(f, v[i], p[i].from, p[i].n);
        if (f->y_type == INFER_F32)
            v_store_part((float *)f->y + p[i].at, v[i], p[i].n);
    }
}

/* Up to four vectors to y.  pairs: vectors 0, 1 and 2, 3 are neighbours. */
INLINE void finish_values(enum mode mode, const struct dot_finish *f, vec v[4],
                          int vectors, bool pairs, const struct place *p)
{
    vecb b;

    if (mode == ANY)
        finish_any(f, v, vectors, p);
    if (mode == ANY && f->y_type == INFER_F32)
        return;
    b = v_runs(to_bytes(f, v));
    if (pairs && vectors == 4 && p[0].n >= 2 * LANES) {
        v_store_pair((uint8_t *)f->y + p[0].at, b, 0);
        v_store_pair((uint8_t *)f->y + p[2].at, b, 1);
        return;
    }
#pragma GCC unroll 4
    for (int i = 0; i < vectors; i++)
        v_store_run((uint8_t *)f->y + p[i].at, b, i, p[i].n);
}

/* ---- the product --------------------------------------------------- */

/* Adds `rows` rows times `cols` vectors of the panel to sum [rows][cols]. */
INLINE void add_products(int rows, int cols, const struct dot_rows *r,
                         const uint8_t *x, veci *sum)
{
    const int8_t *w = r->w + r->first * COLS * LANES * 4;
    const int64_t step = r->step, quads = r->quads - r->first;

    for (int64_t piece = 0; piece < r->pieces; piece++) {
        const uint8_t *at = x + r->piece_at[piece] + r->first * 4;
        /* Every third row, which x86 addresses the next two from. */
        const uint8_t *third[4] = {at, at + 3 * step, at + 6 * step,
                                   at + 9 * step};

        for (int64_t k = 0; k < quads; k++) {
            veci u[COLS];

#pragma GCC unroll 2
            for (int c = 0; c < cols; c++)
                u[c] = v_loadi(w + c * LANES * 4);
#pragma GCC unroll 12
            for (int i = 0; i < rows; i++) {
                const veci s = v_quad(third[i / 3] + i % 3 * step);

#pragma GCC unroll 2
                for (int c = 0; c < cols; c++)
                    sum[i * cols + c] = v_dot(sum[i * cols + c], s, u[c]);
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                third[i] += 4;
            w += COLS * LANES * 4;
        }
    }
}

/* The sums before the first quad of rows `row` and following. */
INLINE void first_sums(int rows, int cols, const struct dot_rows *r,
                       int64_t row, veci *sum)
{
    const int32_t *before = r->sums ? r->sums + row * DOT_SUM_PANEL : NULL;

#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int c = 0; c < cols; c++)
            sum[i * cols + c] =
                (before ? v_loadi(before + i * DOT_SUM_PANEL + c * LANES)
                        : v_splati(0)) -
                v_loadi(r->offset + c * LANES);
}

/* Places of up to four vectors of a tile of `cols` columns, from vector v on.
 */
INLINE void find_places(const struct dot_rows *r, int64_t row, int cols, int v,
                        int vectors, struct place p[4])
{
#pragma GCC unroll 4
    for (int i = 0; i < vectors; i++) {
        const int at = (v + i) / cols, c = (v + i) % cols;

        p[i].k = r->k + c * LANES;
        p[i].n = r->n - c * LANES;
        p[i].at = r->y_at[row + at] + p[i].k;
        p[i].from = r->r_at[row + at] + p[i].k;
    }
}

INLINE int smaller_of(int a, int b)
{
    return a < b ? a : b;
}

INLINE void tile(enum mode mode, int rows, int cols, const struct dot_rows *r,
                 const uint8_t *x, int64_t row, const struct dot_finish *f)
{
    __attribute__((aligned(64))) float all[ACT_VECTORS(ROWS * COLS) * LANES];
    veci sum[(ROWS < 4 ? 4 : ROWS) * COLS];
    const int count = rows * cols;
    const bool smooth = mode == ANY && f->is_smooth;

    first_sums(rows, cols, r, row, sum);
    add_products(rows, cols, r, x, sum);
#pragma GCC unroll 6
    for (int at = 0; at < count; at += 4) {
        const int vectors = smaller_of(count - at, 4);
        struct place p[4];
        vec v[4];

        find_places(r, row, cols, at, vectors, p);
        finish_sums(mode, f, sum + at, vectors, p, v);
        if (smooth)
            memcpy(all + at * LANES, v, sizeof v);
        else
            finish_values(mode, f, v, vectors, cols == 2, p);
    }
    if (!smooth)
        return;
    apply_act(&f->smooth, all, count);
#pragma GCC unroll 6
    for (int at = 0; at < count; at += 4) {
        const int vectors = smaller_of(count - at, 4);
        struct place p[4];
        vec v[4];

        find_places(r, row, cols, at, vectors, p);
        memcpy(v, all + at * LANES, sizeof v);
        finish_values(mode, f, v, vectors, cols == 2, p);
    }
}

/* Rows of the next tile where so many are left: 14 are two of 7. */
static inline int64_t tile_rows(int64_t left)
{
    if (left >= ROWS && (ROWS < 12 || left != 14))
        return ROWS;
    if (ROWS > 7 && left >= 7 && left != 8)
        return 7;
    return left >= 4 ? 4 : 1;
}

INLINE void panel_rows(enum mode mode, int cols, const struct dot_rows *r,
                       const struct dot_finish *f)
{
    int64_t row = 0;

    for (int64_t l = 0; l < r->lines; l++)
        for (int64_t i = 0, n; i < r->rows; i += n, row += n) {
            const uint8_t *x = r->x + l * r->line + i * r->step;

            n = tile_rows(r->rows - i);
            if (n == ROWS)
                tile(mode, ROWS, cols, r, x, row, f);
            else if (ROWS > 7 && n == 7)
                tile(mode, ROWS > 7 ? 7 : 1, cols, r, x, row, f);
            else if (ROWS > 4 && n == 4)
                tile(mode, ROWS > 4 ? 4 : 1, cols, r, x, row, f);
            else
                tile(mode, 1, cols, r, x, row, f);
        }
}

/* Functions of their own, so that each finds room in the registers. */
#define PANEL(name, mode)                                                      \
    TARGET static void name(const struct dot_rows *r,                          \
                            const struct dot_finish *f)                        \
    {                                                                          \
        if (r->n > LANES)                                                      \
            panel_rows(mode, COLS, r, f);                                      \
        else                                                                   \
            panel_rows(mode, 1, r, f);                                         \
    }

PANEL(rows_bytes, BYTES)
PANEL(rows_and_u8, BYTES_AND_U8)
PANEL(rows_and_i8, BYTES_AND_I8)
PANEL(rows_any, ANY)
#undef PANEL

TARGET static void rows(const struct dot_rows *r, const struct dot_finish *f)
{
    switch (mode_of(f)) {
    case BYTES:
        rows_bytes(r, f);
        break;
    case BYTES_AND_U8:
        rows_and_u8(r, f);
        break;
    case BYTES_AND_I8:
        rows_and_i8(r, f);
        break;
    case ANY:
        rows_any(r, f);
        break;
    }
}

/* ---- depthwise ----------------------------------------------------- */

INLINE void mix_store(const vecb a[4], uint8_t *to)
{
    veci q[4];

    v_mix(a, q);
    memcpy(to, q, sizeof q);
}

TARGET static void mix(const struct dot_mix *m)
{
    const vecb flip = v_splatb(m->flip), zero = v_splatb(m->zero);
    const vecb padding[4] = {zero, zero, zero, zero};
    uint8_t *to = m->to;
    int64_t i = 0;

    for (; i < m->low; i++, to += 16 * LANES)
        mix_store(padding, to);
    for (; i < m->high; i++, to += 16 * LANES) {
        vecb a[4];

#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            a[j] = v_bytes(m->row[j] + i * m->step[j], m->n) ^ flip;
        mix_store(a, to);
    }
    for (; i < m->pixels; i++, to += 16 * LANES)
        mix_store(padding, to);
}

/* A pixel's sums in the mixed order, to y by the natural one. */
INLINE void finish_mixed(const struct dot_depth *d, int64_t pixel,
                         const struct dot_finish *f, const veci sum[4])
{
    int32_t mixed[4 * LANES], natural[4 * LANES];
    veci s[4];
    struct place p[4];
    int vectors = 0;

    memcpy(mixed, sum, sizeof mixed);
    for (int i = 0; i < 4; i++)
        for (int e = 0; e < LANES; e++)
            natural[dot_mixed_channel(i, e)] = mixed[i * LANES + e];
    memcpy(s, natural, sizeof s);
    for (; vectors < 4 && vectors * LANES < d->n; vectors++) {
        const int64_t k = d->k + vectors * LANES;

        p[vectors] = (struct place){k, d->n - vectors * LANES,
                                    d->y_at + pixel * d->y_step + k,
                                    d->r_at + pixel * d->r_step + k};
    }
    for (int i = 0; i < vectors; i++) {
        __attribute__((aligned(64))) float all[ACT_VECTORS(1) * LANES];
        vec v[4];

        finish_sums(ANY, f, s + i, 1, p + i, v);
        if (f->is_smooth) {
            memcpy(all, v, sizeof v[0]);
            apply_act(&f->smooth, all, 1);
            memcpy(v, all, sizeof v[0]);
        }
        finish_values(ANY, f, v, 1, false, p + i);
    }
}

INLINE void depth_tile(bool plain, int pixels, const struct dot_depth *d,
                       int64_t first, const struct dot_finish *f)
{
    const uint8_t *x = d->x + first * d->pixel;
    const int8_t *w = d->w;
    veci sum[PIXELS < 4 ? 4 : PIXELS][4];
    __attribute__((aligned(
        64))) float all[ACT_VECTORS(4 * (PIXELS < 4 ? 4 : PIXELS)) * LANES];

#pragma GCC unroll 6
    for (int i = 0; i < pixels; i++)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            sum[i][c] = v_splati(0) - v_loadi(d->offset + c * LANES);
    for (int64_t r = 0; r < d->rows; r++) {
        const uint8_t *at = x + r * d->row;

        for (int64_t t = 0; t < d->taps; t++, at += d->tap, w += 16 * LANES) {
            veci u[4];

#pragma GCC unroll 4
            for (int c = 0; c < 4; c++)
                u[c] = v_loadi(w + c * LANES * 4);
#pragma GCC unroll 6
            for (int i = 0; i < pixels; i++)
#pragma GCC unroll 4
                for (int c = 0; c < 4; c++)
                    sum[i][c] =
                        v_dot(sum[i][c],
                              v_loadi(at + i * d->pixel + c * LANES * 4), u[c]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < pixels && !plain; i++)
        finish_mixed(d, first + i, f, sum[i]);
    if (!plain)
        return;
#pragma GCC unroll 6
    for (int i = 0; i < pixels; i++)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const vec v =
                v_fma(v_float(sum[i][c]), v_load(d->scale + c * LANES),
                      v_load(d->bias + c * LANES));

            memcpy(all + (i * 4 + c) * LANES, &v, sizeof v);
        }
    if (f->is_smooth)
        apply_act(&f->smooth, all, pixels * 4);
#pragma GCC unroll 6
    for (int i = 0; i < pixels; i++) {
        vec v[4];

        memcpy(v, all + (int64_t)i * 4 * LANES, sizeof v);
        v_store_bytes((uint8_t *)f->y + d->y_at + (first + i) * d->y_step +
                          d->k,
                      to_bytes(f, v), d->n);
    }
}

INLINE void depth_as(bool plain, const struct dot_depth *d,
                     const struct dot_finish *f)
{
    int64_t i = 0;

    for (; i + PIXELS <= d->pixels; i += PIXELS)
        depth_tile(plain, PIXELS, d, i, f);
    for (; i + 2 <= d->pixels; i += 2)
        depth_tile(plain, 2, d, i, f);
    for (; i < d->pixels; i++)
        depth_tile(plain, 1, d, i, f);
}

TARGET static void depth(const struct dot_depth *d, const struct dot_finish *f)
{
    if (f->y_type != INFER_F32 && !f->residual)
        depth_as(true, d, f);
    else
        depth_as(false, d, f);
}

STORAGE const struct dot_steps STEPS = {COLS * LANES, 4 * LANES, rows, mix,
                                        depth,        NULL,      NULL, NULL};
