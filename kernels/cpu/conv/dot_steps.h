/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of dot.h, compiled once for each level of instructions.  The
 * file that includes this one defines
 *   STEPS         the struct dot_steps to define, STORAGE its storage class
 *   TARGET        attribute that selects the instructions
 *   LANES         32-bit lanes of a vector
 *   ROWS, COLS    rows and vectors of outputs in a register block
 *   vec, veci     vectors of floats and of 32-bit integers
 * and functions on them, whose names begin with v_:
 *   v_quad(p)           four bytes at p in every lane
 *   v_dot(a, x, w)      a + sum of 4 products of U8 x and I8 w in each lane
 *   v_madd(a, x, w)     a + x * w of integers of 16 bits in 32-bit lanes, w
 *                       without its sign in the upper half
 *   v_widen_u8/i8(p,n)  n bytes as integers
 *   v_narrow(p, v, n)   the low bytes of n lanes
 *   v_loadi, v_load(p), v_load_part(p, n), v_store_part(p, v, n)
 *   v_float(i), v_splat(f), v_splati(i), v_fma(a, b, c), v_min, v_max
 */
#include <string.h>

#define INLINE static inline __attribute__((always_inline)) TARGET

/* To the nearest, ties to even, of |v| below 2^22: the sum has no bits behind
 * the point. */
INLINE veci nearest(vec v)
{
    const vec magic = v_splat(0x1.8p23f);

    return (veci)(v + magic) - (veci)magic;
}

INLINE vec add_residual(const struct dot_finish *f, vec v, int64_t at,
                        int64_t n)
{
    veci i;

    if (f->type == INFER_F32)
        return v + v_load_part((const float *)f->residual + at, n);
    i = f->type == INFER_U8 ? v_widen_u8((const uint8_t *)f->residual + at, n)
                            : v_widen_i8((const int8_t *)f->residual + at, n);
    return v_fma(v_float(i - v_splati(f->r_zero)), v_splat(f->r_scale), v);
}

/* n sums of channels from k on, to y at `at`; the residual is at `from`. */
INLINE void finish(const struct dot_finish *f, veci sum, int64_t k, int64_t n,
                   int64_t at, int64_t from)
{
    vec v = v_fma(v_float(sum), v_load(f->scale + k), v_load(f->bias + k));

    if (f->residual && !f->residual_last)
        v = add_residual(f, v, from, n);
    v = v_min(v_max(v, v_splat(f->act_low)), v_splat(f->act_high));
    if (f->residual && f->residual_last)
        v = add_residual(f, v, from, n);
    if (f->y_type == INFER_F32) {
        v_store_part((float *)f->y + at, v, n);
        return;
    }
    v = v * v_splat(f->inverse);
    v = v_min(v_max(v, v_splat(f->low)), v_splat(f->high));
    v_narrow((uint8_t *)f->y + at, nearest(v) + v_splati(f->zero), n);
}

/* `rows` rows from the first-th on, times `cols` vectors of the panel. */
INLINE void tile(int rows, int cols, const struct dot_rows *r, int64_t first,
                 const struct dot_finish *f)
{
    const uint8_t *x = r->x + first * r->step;
    const int8_t *w = r->w;
    veci sum[ROWS < 4 ? 4 : ROWS][COLS];

#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int c = 0; c < cols; c++)
            sum[i][c] = v_splati(0) - v_loadi(r->offset + c * LANES);
    for (int64_t q = 0; q < r->quads; q++) {
        veci u[COLS];

#pragma GCC unroll 2
        for (int c = 0; c < cols; c++)
            u[c] = v_loadi(w + c * LANES * 4);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const veci s = v_quad(x + i * r->step + q * 4);

#pragma GCC unroll 2
            for (int c = 0; c < cols; c++)
                sum[i][c] = v_dot(sum[i][c], s, u[c]);
        }
        w += COLS * LANES * 4;
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int c = 0; c < cols; c++)
            finish(f, sum[i][c], r->k + c * LANES, r->n - c * LANES,
                   r->y_at[first + i] + r->k + c * LANES,
                   r->r_at[first + i] + r->k + c * LANES);
}

INLINE void panel_rows(int cols, const struct dot_rows *r,
                       const struct dot_finish *f)
{
    int64_t i = 0;

    for (; i + ROWS <= r->rows; i += ROWS)
        tile(ROWS, cols, r, i, f);
    for (; i + 4 <= r->rows; i += 4)
        tile(4, cols, r, i, f);
    for (; i < r->rows; i++)
        tile(1, cols, r, i, f);
}

TARGET static void rows(const struct dot_rows *r, const struct dot_finish *f)
{
    if (r->n > LANES)
        panel_rows(COLS, r, f);
    else
        panel_rows(1, r, f);
}

INLINE void pixel_as(bool is_signed, const struct dot_pixel *p,
                     const struct dot_finish *f)
{
    const int64_t row =
        (p->channels + DOT_MAX_PANEL - 1) / DOT_MAX_PANEL * DOT_MAX_PANEL;
    const veci zero = v_splati(p->x_zero);

    for (int64_t k = 0; k < p->channels; k += LANES) {
        const int64_t n = p->channels - k;
        veci sum = v_splati(0);

        for (int t = 0; t < p->taps; t++) {
            const uint8_t *x = (const uint8_t *)p->x + p->tap[t] + k;
            const veci v =
                is_signed ? v_widen_i8((const int8_t *)x, n) : v_widen_u8(x, n);

            sum = v_madd(sum, v - zero, v_loadi(p->w + p->number[t] * row + k));
        }
        finish(f, sum, k, n, p->y_at + k, p->r_at + k);
    }
}

TARGET static void pixel(const struct dot_pixel *p, const struct dot_finish *f)
{
    if (p->is_signed)
        pixel_as(true, p, f);
    else
        pixel_as(false, p, f);
}

STORAGE const struct dot_steps STEPS = {COLS * LANES, rows, pixel};
