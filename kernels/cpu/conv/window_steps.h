/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of window.h; a part of vector_steps.h. */

/* A value of x times the one or two vectors of a row of U. */
INLINE void window_tile(int rows, int cols, const struct window_run *run,
                        int64_t from)
{
    const int64_t step = run->x_step;
    const float *u = run->u;
    vec sum[ROWS][2];
    int r;

#pragma GCC unroll 12
    for (r = 0; r < rows; r++) {
        const float *kept = run->sums + (from + r) * 2 * LANES;

        sum[r][0] = run->first ? (vec){0} : load(kept);
        sum[r][1] = run->first || cols < 2 ? (vec){0} : load(kept + LANES);
    }
    for (int s = 0; s < run->segments; s++) {
        const float *v = run->x + from * step + run->segment[s].at;
        const float *q[4] = {v, v + 3 * step, v + 6 * step, v + 9 * step};
        const int64_t length = run->segment[s].length;

        for (int64_t c = 0; c < length; c++) {
            const vec u0 = load(u), u1 = cols > 1 ? load(u + LANES) : u0;

#pragma GCC unroll 12
            for (r = 0; r < rows; r++) {
                const vec x = splat(q[r / 3][r % 3 * step + c]);

                sum[r][0] += x * u0;
                if (cols > 1)
                    sum[r][1] += x * u1;
            }
            u += 2 * LANES;
        }
    }
#pragma GCC unroll 12
    for (r = 0; r < rows; r++) {
        float *kept = run->sums + (from + r) * 2 * LANES;

        store(kept, sum[r][0]);
        if (cols > 1)
            store(kept + LANES, sum[r][1]);
    }
}

/* A vector of x times a vector of U, lane by lane. */
INLINE void spread_tile(int rows, const struct window_run *run, int64_t from)
{
    const int64_t step = run->x_step;
    const float *u = run->u;
    vec sum[ROWS];
    int r;

#pragma GCC unroll 12
    for (r = 0; r < rows; r++)
        sum[r] = (vec){0};
    for (int s = 0; s < run->segments; s++) {
        const float *v = run->x + from * step + run->segment[s].at;
        const float *q[4] = {v, v + 3 * step, v + 6 * step, v + 9 * step};
        const int64_t length = run->segment[s].length * LANES;

        for (int64_t c = 0; c < length; c += LANES) {
            const vec w = load(u);

#pragma GCC unroll 12
            for (r = 0; r < rows; r++)
                sum[r] += load(q[r / 3] + r % 3 * step + c) * w;
            u += LANES;
        }
    }
#pragma GCC unroll 12
    for (r = 0; r < rows; r++)
        store(run->sums + (from + r) * LANES, sum[r]);
}

#define WINDOW_CASE(n)                                                         \
    case n:                                                                    \
        if (kind == 0)                                                         \
            spread_tile((n) < ROWS ? (n) : ROWS, run, from);                   \
        else                                                                   \
            window_tile((n) < ROWS ? (n) : ROWS, kind, run, from);             \
        break

/* kind: vectors of a panel, 0 where channels are spread. */
INLINE void window_rows(int64_t rows, int kind, const struct window_run *run,
                        int64_t from)
{
    switch (rows) {
        WINDOW_CASE(1);
        WINDOW_CASE(2);
        WINDOW_CASE(3);
        WINDOW_CASE(4);
        WINDOW_CASE(5);
        WINDOW_CASE(6);
        WINDOW_CASE(7);
        WINDOW_CASE(8);
        WINDOW_CASE(9);
        WINDOW_CASE(10);
        WINDOW_CASE(11);
        WINDOW_CASE(12);
    default:
        break;
    }
}

/* Tiles of a row of pixels, as even as can be. */
INLINE void window_tiles(int kind, const struct window_run *run, int64_t pixels)
{
    const int64_t tiles = (pixels + ROWS - 1) / ROWS;

    for (int64_t i = 0, from = 0; i < tiles; i++) {
        const int64_t rows = pixels / tiles + (i < pixels % tiles);

        window_rows(rows, kind, run, from);
        from += rows;
    }
}

/* The epilogue of one vector of outputs of each pixel of a row. */
INLINE void finish_vector(const struct window_run *run, int64_t pixels,
                          int64_t panel, int64_t at, int64_t n, bool residual)
{
    const struct vector_epilogue *e = run->epilogue;
    const vec bias = e->bias ? load_part(e->bias + run->k + at, n) : (vec){0};
    const float *sums = run->sums + at;
    const float *r = residual ? run->residual + at : NULL;
    float *y = run->y + at;

    for (int64_t i = 0; i < pixels; i++) {
        finish(e, load(sums) + bias, r, y, n);
        sums += panel;
        y += run->y_step;
        r = residual ? r + run->r_step : NULL;
    }
}

/* The epilogue of a row of pixels whose sums lie `panel` floats apart. */
INLINE void window_finish(const struct window_run *run, int64_t pixels,
                          int64_t panel)
{
    for (int64_t at = 0; at < run->n; at += LANES) {
        const int64_t n = run->n - at;

        if (n >= LANES && !run->residual)
            finish_vector(run, pixels, panel, at, LANES, false);
        else if (n >= LANES)
            finish_vector(run, pixels, panel, at, LANES, true);
        else
            finish_vector(run, pixels, panel, at, n, run->residual != NULL);
    }
}

TARGET static void window(const struct window_run *run, int64_t pixels)
{
    if (run->n > LANES)
        window_tiles(2, run, pixels);
    else
        window_tiles(1, run, pixels);
    if (run->last)
        window_finish(run, pixels, 2 * LANES);
}

TARGET static void window_spread(const struct window_run *run, int64_t pixels)
{
    window_tiles(0, run, pixels);
    window_finish(run, pixels, LANES);
}

TARGET static void spread(const struct window_spread *s)
{
    float *to = s->to;

    for (int64_t i = 0; i < s->pixels; i++) {
        const vec v = load_part(s->x + i * s->x_step, s->channels);

        if (!s->lane) {
            store(to, v);
            to += LANES;
        }
        for (int c = 0; s->lane && c < s->vectors; c++, to += LANES)
            store(to, pick_lanes(v, *(const mask *)(s->lane + c * LANES)));
    }
}
