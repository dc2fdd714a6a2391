/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of vector.h, compiled once for each level of instructions.  The
 * file that includes this one defines
 *   STEPS    the struct vector_steps to define
 *   TARGET   attribute that selects the instructions
 *   BYTES    bytes of a vector
 *   ROWS     rows in a register block of the product: 2 ROWS sums, 2 vectors
 *            of U and one value of V must fit the registers
 *   LOAD_PART(p, n), STORE_PART(p, v, n)
 *            the first n lanes, 0 <= n < LANES, of a vector at p; loads leave 0
 *            in the others
 *   LARGER(a, b), SMALLER(a, b)
 *            of each lane; b where one of the two is NaN
 */
#include "kernels/cpu/conv/vector.h"
#include "kernels/cpu/cpu.h"

#include <string.h>

#define LANES  (BYTES / 4)
#define INLINE static inline __attribute__((always_inline)) TARGET

typedef float vec __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(BYTES), aligned(4), may_alias));

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
    return n >= LANES ? load(p) : (vec)LOAD_PART(p, n);
}

INLINE void store_part(float *p, vec v, int64_t n)
{
    if (n >= LANES)
        store(p, v);
    else
        STORE_PART(p, v, n);
}

/* Lane i is lane from[i] of v, each below LANES. */
INLINE vec pick_lanes(vec v, mask from)
{
#ifdef __clang__ /* which has no shuffle by variables */
    vec picked = v;

    for (int i = 0; i < LANES; i++)
        picked[i] = v[from[i]];
    return picked;
#else
    return __builtin_shuffle(v, from);
#endif
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

/* How a block of sums is stored: unchanged, or with an epilogue.  n is the
 * number of output channels from the first on; k is that channel. */
struct target {
    float *y;
    int64_t y_step;
    const float *residual;
    int64_t r_step, k, n;
    const struct vector_epilogue *epilogue; /* NULL: unchanged */
};

INLINE vec bounded(const struct vector_epilogue *e, vec v)
{
    v = (vec)LARGER(splat(e->low), v);
    return (vec)SMALLER(splat(e->high), v);
}

INLINE vec activated(const struct vector_epilogue *e, vec v)
{
    float lanes[LANES];

    store(lanes, v);
    cpu_act(&e->of.act, lanes, lanes, LANES);
    return load(lanes);
}

/* v is a sum with its bias; n of its lanes are stored at y. */
INLINE void finish(const struct vector_epilogue *e, vec v,
                   const float *residual, float *y, int64_t n)
{
    const bool last = e->of.residual_last;
    vec r = {0};

    if (residual)
        r = load_part(residual, n);
    if (residual && !last)
        v += r;
    if (e->bounded)
        v = bounded(e, v);
    else if (last)
        v = activated(e, v);
    if (residual && last)
        v += r;
    store_part(y, v, n);
}

INLINE void store_sum(const struct target *t, int row, int col, vec sum)
{
    const int64_t at = (int64_t)col * LANES, n = t->n - at;
    const struct vector_epilogue *e = t->epilogue;

    if (e->bias)
        sum += load_part(e->bias + t->k + at, n);
    finish(e, sum, t->residual ? t->residual + row * t->r_step + at : NULL,
           t->y + row * t->y_step + at, n);
}

/* Bounded sums, the residual (if there) in front of the bounds.  whole: of the
 * last vector too. */
INLINE void store_bounded(int rows, int cols, const struct target *t,
                          vec sum[ROWS][2], bool residual, bool whole)
{
    const struct vector_epilogue *e = t->epilogue;
    const int64_t last = whole ? LANES : t->n - (int64_t)(cols - 1) * LANES;
    const float *r = t->residual;
    float *y = t->y;
    int i, j;

#pragma GCC unroll 2
    for (j = 0; j < cols; j++) {
        const vec bias = e->bias
                             ? load_part(e->bias + t->k + (int64_t)j * LANES,
                                         j + 1 < cols ? LANES : last)
                             : (vec){0};

#pragma GCC unroll 12
        for (i = 0; i < rows; i++)
            sum[i][j] += bias;
    }
#pragma GCC unroll 12
    for (i = 0; i < rows; i++) {
#pragma GCC unroll 2
        for (j = 0; j < cols; j++) {
            const int64_t at = (int64_t)j * LANES;
            const int64_t n = j + 1 < cols ? LANES : last;

            if (residual)
                sum[i][j] += load_part(r + at, n);
            store_part(y + at, bounded(e, sum[i][j]), n);
        }
        y += t->y_step;
        if (residual)
            r += t->r_step;
    }
}

INLINE void store_sums(int rows, int cols, const struct target *t,
                       vec sum[ROWS][2])
{
    const struct vector_epilogue *e = t->epilogue;
    vec kept[ROWS][2];
    int r, c;

    if (e && e->bounded && !(t->residual && e->of.residual_last)) {
        if (t->n < (int64_t)cols * LANES)
            store_bounded(rows, cols, t, sum, t->residual != NULL, false);
        else if (t->residual)
            store_bounded(rows, cols, t, sum, true, true);
        else
            store_bounded(rows, cols, t, sum, false, true);
        return;
    }
#pragma GCC unroll 12
    for (r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (c = 0; c < cols; c++)
            if (!e)
                store(t->y + r * t->y_step + (int64_t)c * LANES, sum[r][c]);
            else
                kept[r][c] = sum[r][c];
#pragma GCC unroll 1
    for (r = 0; r < rows && e; r++)
#pragma GCC unroll 1
        for (c = 0; c < cols; c++)
            store_sum(t, r, c, kept[r][c]);
}

/* Rows of U that are fetched ahead: a panel is often read from memory for few
 * rows of V, faster than the processor's own prefetcher follows. */
#ifndef AHEAD
#define AHEAD 32
#endif

/* Tiles of a panel at most among which the next panel's bytes are divided. */
#define FETCHES 16

/* What a tile fetches while it computes: `step` bytes for each row of U, from
 * `at` on.  u: its part of the next panel, into the L2 cache; x: the next
 * tile's rows of V. */
struct fetch {
    struct {
        const char *at;
        int64_t step;
    } u, x;
};

/* `rows` rows of V times `cols` vectors of a panel of U, in registers.  Rows
 * are addressed from every third one, which x86 can do in one instruction. */
INLINE void product_tile(int rows, int cols, const float *v, int64_t v_row,
                         const float *u, int64_t channels,
                         const struct target *t, struct fetch f)
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

        __builtin_prefetch(u + AHEAD * 2 * LANES);
        if (cols > 1)
            __builtin_prefetch(u + AHEAD * 2 * LANES + LANES);
        __builtin_prefetch(f.u.at, 0, 2);
        f.u.at += f.u.step;
        if (f.x.at) {
            __builtin_prefetch(f.x.at);
            f.x.at += f.x.step;
        }
#pragma GCC unroll 12
        for (r = 0; r < rows; r++) {
            const vec s = splat(q[r / 3][r % 3 * v_row + c]);

            sum[r][0] += s * u0;
            if (cols > 1)
                sum[r][1] += s * u1;
        }
        u += 2 * LANES;
    }
    store_sums(rows, cols, t, sum);
}

#define CASE(n)                                                                \
    case n:                                                                    \
        product_tile((n) < ROWS ? (n) : ROWS, cols, v, v_row, u, channels, t,  \
                     f);                                                       \
        break

INLINE void product_rows(int64_t rows, int cols, const float *v, int64_t v_row,
                         const float *u, int64_t channels,
                         const struct target *t, struct fetch f)
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
        CASE(12);
    default:
        break;
    }
}

/* Tiles of rows, as even as can be.  next: the panel that is read after this
 * one.  fetch_x: V may be in memory, and its rows follow one another. */
INLINE void product_panel(int cols, const float *v, int64_t v_row,
                          const float *u, const float *next, int64_t channels,
                          int64_t rows, struct target t, bool fetch_x)
{
    const int64_t tiles = (rows + ROWS - 1) / ROWS;
    const int64_t fetches = tiles < FETCHES ? tiles : FETCHES;
    int64_t i;

    for (i = 0; i < tiles; i++) {
        const int64_t n = rows / tiles + (i < rows % tiles);
        struct fetch f = {.u.at = (const char *)next};

        if (i < fetches) {
            f.u.step = 2 * BYTES / fetches;
            f.u.at += i * f.u.step * channels;
        }
        if (fetch_x) {
            f.x.at = (const char *)(v + n * v_row);
            f.x.step = n * (int64_t)sizeof(float);
        }
        product_rows(n, cols, v, v_row, u, channels, &t, f);
        v += n * v_row;
        t.y += n * t.y_step;
        if (t.residual)
            t.residual += n * t.r_step;
    }
}

TARGET static void product(const struct winograd *w, const float *v,
                           const float *u, float *m, int64_t rows, int64_t xi,
                           int64_t from, int64_t to)
{
    struct target t = {.y_step = w->m_row};
    int64_t p;

    v += xi * w->v_plane;
    u += xi * w->u_plane;
    for (p = from; p < to; p++) {
        const float *panel = u + p * w->channels * 2 * LANES;
        const float *next = p + 1 < w->panels ? panel + w->channels * 2 * LANES
                                              : u + w->u_plane;

        t.y = m + xi * w->m_plane + p * 2 * LANES;
        if (w->outputs - p * 2 * LANES > LANES)
            product_panel(2, v, w->v_row, panel, next, w->channels, rows, t,
                          false);
        else
            product_panel(1, v, w->v_row, panel, next, w->channels, rows, t,
                          false);
    }
}

TARGET static void rows_of(const struct vector_rows *r, int64_t rows,
                           const struct vector_epilogue *e, const float *u,
                           int64_t channels, int64_t outputs, int64_t from,
                           int64_t to)
{
    const int64_t first = from * 2 * LANES;
    const int64_t last = to * 2 * LANES < outputs ? to * 2 * LANES : outputs;
    struct target t = {.y_step = r->y_step, .r_step = r->r_step, .epilogue = e};
    int64_t p, i;

    for (p = from; p < to; p++) {
        const float *panel = u + p * channels * 2 * LANES;
        const float *next =
            p + 1 < to ? panel + channels * 2 * LANES : u + first * channels;

        t.k = p * 2 * LANES;
        t.n = outputs - t.k;
        t.y = r->y + t.k;
        t.residual = r->residual ? r->residual + t.k : NULL;
        if (t.n > LANES)
            product_panel(2, r->x, r->x_step, panel, next, channels, rows, t,
                          p == from);
        else
            product_panel(1, r->x, r->x_step, panel, next, channels, rows, t,
                          p == from);
    }
    if (e->on_rows && r->y_step == last - first) { /* all of the rows */
        cpu_act(&e->of.act, r->y, r->y, rows * r->y_step);
        return;
    }
    for (i = 0; i < rows && e->on_rows; i++) {
        float *y = r->y + i * r->y_step + first;

        cpu_act(&e->of.act, y, y, last - first);
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

/* One vector of n output channels of one tile. */
INLINE void output_vector(int a, const struct winograd *w,
                          const struct place *p,
                          const struct vector_epilogue *e, int64_t k, int64_t n,
                          const float *m)
{
    const vec b = e->bias ? load_part(e->bias + k, n) : (vec){0};
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
            if (i < p->rows && j < p->cols)
                finish(e, o[j] + b,
                       p->residual ? p->residual + i * w->r_stride[1] +
                                         j * w->r_stride[2] + k
                                   : NULL,
                       p->y + i * w->y_stride[1] + j * w->y_stride[2] + k, n);
    }
}

INLINE void output_tile(int a, const struct winograd *w, const struct place *p,
                        const struct vector_epilogue *e, const float *m)
{
    int64_t k;

    for (k = 0; k + LANES <= w->outputs; k += LANES)
        output_vector(a, w, p, e, k, LANES, m);
    if (k < w->outputs)
        output_vector(a, w, p, e, k, w->outputs - k, m);
}

TARGET static void output(const struct winograd *w,
                          const struct winograd_data *data, int64_t t,
                          int64_t at, const float *m)
{
    const struct vector_epilogue *e = data->epilogue;
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
        output_tile(6, w, &p, e, m);
    else
        output_tile(4, w, &p, e, m);
    for (i = 0; i < p.rows && e->on_rows; i++)
        for (j = 0; j < p.cols; j++) {
            float *y = p.y + i * w->y_stride[1] + j * w->y_stride[2];

            cpu_act(&e->of.act, y, y, w->outputs);
        }
}

#include "kernels/cpu/conv/depthwise_steps.h"
#include "kernels/cpu/conv/window_steps.h"

const struct vector_steps STEPS = {.panel = 2 * LANES,
                                   .input = input,
                                   .product = product,
                                   .output = output,
                                   .rows = rows_of,
                                   .window = window,
                                   .window_spread = window_spread,
                                   .spread = spread,
                                   .depthwise = depthwise};
