/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three steps of Winograd convolution, compiled once for each level of
 * vector instructions.  The file that includes this one defines
 *   STEPS    the struct winograd_steps to define
 *   TARGET   attribute that selects the instructions
 *   BYTES    bytes of a vector
 *   ROWS     tiles in a register block of the product: 2 ROWS accumulators, 2
 *            vectors of U and one value of V must fit the registers
 */
#include "kernels/onednn/cpu.h"
#include "kernels/onednn/winograd.h"

#include <string.h>

#define LANES  (BYTES / 4)
#define INLINE static inline __attribute__((always_inline)) TARGET

typedef float vec __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(BYTES)));

INLINE vec load(const float *p)
{
    return *(const vec *)p;
}

INLINE void store(float *p, vec v)
{
    *(vec *)p = v;
}

/* The first n lanes; the rest are 0. */
INLINE vec load_part(const float *p, int64_t n)
{
    vec v = {0};

    if (n >= LANES)
        return load(p);
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

INLINE void store_part(float *p, vec v, int64_t n)
{
    if (n >= LANES)
        store(p, v);
    else
        memcpy(p, &v, (size_t)n * sizeof *p);
}

INLINE vec select_lanes(mask m, vec yes, vec no)
{
    return (vec)(((mask)yes & m) | ((mask)no & ~m));
}

INLINE vec splat(float s)
{
    return s - (vec){0};
}

/* ---- input --------------------------------------------------------- */

/* o = B^T d, m = 4, with p and q of winograd.h */
INLINE void input4(const vec d[6], vec o[6])
{
    const float p = WINOGRAD_P, q = WINOGRAD_Q;
    const vec e = d[4] - q * q * d[2], f = d[3] - q * q * d[1];
    const vec g = d[4] - p * p * d[2], h = d[3] - p * p * d[1];

    o[0] = p * p * q * q * d[0] - (p * p + q * q) * d[2] + d[4];
    o[1] = e + p * f;
    o[2] = e - p * f;
    o[3] = g + q * h;
    o[4] = g - q * h;
    o[5] = p * p * q * q * d[1] - (p * p + q * q) * d[3] + d[5];
}

/* o = B^T d, m = 2 */
INLINE void input2(const vec d[4], vec o[4])
{
    o[0] = d[0] - d[2];
    o[1] = d[1] + d[2];
    o[2] = d[2] - d[1];
    o[3] = d[1] - d[3];
}

INLINE void input_1d(int a, const vec *d, vec *o)
{
    if (a == 6)
        input4(d, o);
    else
        input2(d, o);
}

/* One vector of channels of one tile; at[] are the tile's pixels. */
INLINE void input_vector(int a, const float *const *at, int64_t c, int64_t n,
                         float *v, int64_t plane)
{
    vec t[WINOGRAD_MAX_A][WINOGRAD_MAX_A];
    int i, j;

#pragma GCC unroll 6
    for (j = 0; j < a; j++) {
        vec d[WINOGRAD_MAX_A], o[WINOGRAD_MAX_A];

#pragma GCC unroll 6
        for (i = 0; i < a; i++)
            d[i] = load_part(at[i * a + j] + c, n);
        input_1d(a, d, o);
#pragma GCC unroll 6
        for (i = 0; i < a; i++)
            t[i][j] = o[i];
    }
#pragma GCC unroll 6
    for (i = 0; i < a; i++) {
        vec o[WINOGRAD_MAX_A];

        input_1d(a, t[i], o);
#pragma GCC unroll 6
        for (j = 0; j < a; j++)
            store(v + (i * a + j) * plane + c, o[j]);
    }
}

INLINE void input_tile(int a, const struct winograd *w, const float *const *at,
                       float *v)
{
    int64_t c;

    for (c = 0; c + LANES <= w->channels; c += LANES)
        input_vector(a, at, c, LANES, v, w->v_plane);
    if (c < w->channels)
        input_vector(a, at, c, w->channels - c, v, w->v_plane);
}

TARGET static void input(const struct winograd *w, const float *x,
                         const float *zeros, int64_t t, int64_t at, float *v)
{
    const int64_t image = t / (w->tiles_h * w->tiles_w);
    const int64_t top = t / w->tiles_w % w->tiles_h * w->m - w->pad_top;
    const int64_t left = t % w->tiles_w * w->m - w->pad_left;
    const float *pixel[WINOGRAD_MAX_A * WINOGRAD_MAX_A];
    int64_t i, j;

    for (i = 0; i < w->a; i++)
        for (j = 0; j < w->a; j++) {
            const int64_t h = top + i, c = left + j;
            const bool inside = h >= 0 && h < w->in_h && c >= 0 && c < w->in_w;

            pixel[i * w->a + j] = inside ? x + image * w->x_stride[0] +
                                               h * w->x_stride[1] +
                                               c * w->x_stride[2]
                                         : zeros;
        }
    v += at * w->v_row;
    if (w->a == 6)
        input_tile(6, w, pixel, v);
    else
        input_tile(4, w, pixel, v);
}

/* ---- product ------------------------------------------------------- */

/* `rows` rows of V times `cols` vectors of a panel of U, in registers.  Rows
 * are addressed from every third one, which x86 can do in one instruction. */
INLINE void product_tile(int rows, int cols, const float *v, int64_t v_row,
                         const float *u, int64_t channels, float *m,
                         int64_t m_row)
{
    const float *q[4] = {v, v + 3 * v_row, v + 6 * v_row, v + 9 * v_row};
    vec sum[ROWS][2];
    int64_t c;
    int r;

#pragma GCC unroll 12
    for (r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = (vec){0};
    for (c = 0; c < channels; c++) {
        const vec u0 = load(u), u1 = cols > 1 ? load(u + LANES) : u0;

#pragma GCC unroll 12
        for (r = 0; r < rows; r++) {
            const vec s = splat(q[r / 3][r % 3 * v_row + c]);

            sum[r][0] += s * u0;
            if (cols > 1)
                sum[r][1] += s * u1;
        }
        u += 2 * LANES;
    }
#pragma GCC unroll 12
    for (r = 0; r < rows; r++) {
        store(m + r * m_row, sum[r][0]);
        if (cols > 1)
            store(m + r * m_row + LANES, sum[r][1]);
    }
}

#define CASE(n)                                                                \
    case n:                                                                    \
        product_tile((n) < ROWS ? (n) : ROWS, cols, v, v_row, u, channels, m,  \
                     m_row);                                                   \
        break

/* The rows that are left over, fewer than ROWS. */
INLINE void product_rest(int64_t rows, int cols, const float *v, int64_t v_row,
                         const float *u, int64_t channels, float *m,
                         int64_t m_row)
{
    switch (rows) {
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
        CASE(7);
        CASE(8);
        CASE(9);
        CASE(10);
        CASE(11);
    default:
        break;
    }
}

INLINE void product_panel(int cols, const float *v, int64_t v_row,
                          const float *u, int64_t channels, float *m,
                          int64_t m_row, int64_t rows)
{
    int64_t t;

    for (t = 0; t + ROWS <= rows; t += ROWS)
        product_tile(ROWS, cols, v + t * v_row, v_row, u, channels,
                     m + t * m_row, m_row);
    product_rest(rows - t, cols, v + t * v_row, v_row, u, channels,
                 m + t * m_row, m_row);
}

TARGET static void product(const struct winograd *w, const float *v,
                           const float *u, float *m, int64_t rows, int64_t xi,
                           int64_t from, int64_t to)
{
    int64_t p;

    v += xi * w->v_plane;
    u += xi * w->u_plane;
    m += xi * w->m_plane;
    for (p = from; p < to; p++) {
        const float *panel = u + p * w->channels * 2 * LANES;
        float *columns = m + p * 2 * LANES;

        if (w->outputs - p * 2 * LANES > LANES)
            product_panel(2, v, w->v_row, panel, w->channels, columns, w->m_row,
                          rows);
        else
            product_panel(1, v, w->v_row, panel, w->channels, columns, w->m_row,
                          rows);
    }
}

/* ---- output -------------------------------------------------------- */

/* o = A^T m, m = 4, with p and q of winograd.h */
INLINE void output4(const vec m[6], vec o[4])
{
    const float p = WINOGRAD_P, q = WINOGRAD_Q;
    const vec e = m[1] + m[2], f = m[1] - m[2];
    const vec g = m[3] + m[4], h = m[3] - m[4];

    o[0] = m[0] + e + g;
    o[1] = p * f + q * h;
    o[2] = p * p * e + q * q * g;
    o[3] = p * p * p * f + q * q * q * h + m[5];
}

/* o = A^T m, m = 2 */
INLINE void output2(const vec m[4], vec o[2])
{
    o[0] = m[0] + m[1] + m[2];
    o[1] = m[1] - m[2] - m[3];
}

INLINE void output_1d(int a, const vec *m, vec *o)
{
    if (a == 6)
        output4(m, o);
    else
        output2(m, o);
}

/* Where a tile's pixels go: y and the residual at its first pixel, and how
 * much of it lies inside the output. */
struct place {
    float *y;
    const float *residual;
    int64_t rows, cols;
};

INLINE vec bounded(const struct winograd *w, vec v)
{
    const vec low = splat(w->low), high = splat(w->high);

    v = select_lanes(v < low, low, v);
    return select_lanes(v > high, high, v);
}

INLINE void output_pixel(const struct winograd *w, const struct place *p, int i,
                         int j, int64_t k, int64_t n, vec v)
{
    const bool last = w->epilogue.residual_last;
    vec r = {0};

    if (i >= p->rows || j >= p->cols)
        return;
    if (p->residual)
        r = load_part(p->residual + i * w->r_stride[1] + j * w->r_stride[2] + k,
                      n);
    if (p->residual && !last)
        v += r;
    if (w->bounded)
        v = bounded(w, v);
    if (p->residual && last)
        v += r;
    store_part(p->y + i * w->y_stride[1] + j * w->y_stride[2] + k, v, n);
}

/* One vector of n output channels of one tile. */
INLINE void output_vector(int a, const struct winograd *w,
                          const struct place *p, const float *bias, int64_t k,
                          int64_t n, const float *m)
{
    const vec b = bias ? load_part(bias + k, n) : (vec){0};
    vec t[WINOGRAD_MAX_A - 2][WINOGRAD_MAX_A];
    int i, j;

#pragma GCC unroll 6
    for (j = 0; j < a; j++) {
        vec d[WINOGRAD_MAX_A], o[WINOGRAD_MAX_A - 2];

#pragma GCC unroll 6
        for (i = 0; i < a; i++)
            d[i] = load(m + (i * a + j) * w->m_plane + k);
        output_1d(a, d, o);
#pragma GCC unroll 4
        for (i = 0; i < a - 2; i++)
            t[i][j] = o[i];
    }
#pragma GCC unroll 4
    for (i = 0; i < a - 2; i++) {
        vec o[WINOGRAD_MAX_A - 2];

        output_1d(a, t[i], o);
#pragma GCC unroll 4
        for (j = 0; j < a - 2; j++)
            output_pixel(w, p, i, j, k, n, o[j] + b);
    }
}

INLINE void output_tile(int a, const struct winograd *w, const struct place *p,
                        const float *bias, const float *m)
{
    int64_t k;

    for (k = 0; k + LANES <= w->outputs; k += LANES)
        output_vector(a, w, p, bias, k, LANES, m);
    if (k < w->outputs)
        output_vector(a, w, p, bias, k, w->outputs - k, m);
}

TARGET static void output(const struct winograd *w,
                          const struct winograd_data *data, int64_t t,
                          int64_t at, const float *m)
{
    const int64_t image = t / (w->tiles_h * w->tiles_w);
    const int64_t top = t / w->tiles_w % w->tiles_h * w->m;
    const int64_t left = t % w->tiles_w * w->m;
    struct place p;
    int64_t i, j;

    p.y = data->y + image * w->y_stride[0] + top * w->y_stride[1] +
          left * w->y_stride[2];
    p.residual = data->residual
                     ? data->residual + image * w->r_stride[0] +
                           top * w->r_stride[1] + left * w->r_stride[2]
                     : NULL;
    p.rows = w->out_h - top < w->m ? w->out_h - top : w->m;
    p.cols = w->out_w - left < w->m ? w->out_w - left : w->m;
    m += at * w->m_row;
    if (w->a == 6)
        output_tile(6, w, &p, data->bias, m);
    else
        output_tile(4, w, &p, data->bias, m);
    if (w->bounded)
        return;
    for (i = 0; i < p.rows; i++)
        for (j = 0; j < p.cols; j++) {
            float *y = p.y + i * w->y_stride[1] + j * w->y_stride[2];

            cpu_act(&w->epilogue.act, y, y, w->outputs);
        }
}

const struct winograd_steps STEPS = {2 * LANES, input, product, output};
