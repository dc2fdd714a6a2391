/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of window.h; a part of vector_steps.h. */

/* A value of x times the one or two vectors of a row of U.  fetch: what is
 * fetched meanwhile, `fetched` bytes for each row of U. */
INLINE void window_tile(int rows, int cols, const struct window_run *run,
                        int64_t from, const char *fetch, int64_t fetched)
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

            __builtin_prefetch(u + AHEAD * 2 * LANES);
            if (cols > 1)
                __builtin_prefetch(u + AHEAD * 2 * LANES + LANES);
            __builtin_prefetch(fetch, 0, 2);
            fetch += fetched;
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

/* The epilogue of one vector of outputs of `rows` pixels. */
INLINE void spread_finish(int rows, const struct window_run *run, int64_t from,
                          vec sum[ROWS])
{
    const struct vector_epilogue *e = run->epilogue;
    const vec bias = e->bias ? load_part(e->bias + run->k, run->n) : (vec){0};
    float *y = run->y + from * run->y_step;
    int r;

    if (run->n >= LANES && !run->residual && e->bounded) {
#pragma GCC unroll 12
        for (r = 0; r < rows; r++)
            store(y + r * run->y_step, bounded(e, sum[r] + bias));
        return;
    }
    vec kept[ROWS];

#pragma GCC unroll 12
    for (r = 0; r < rows; r++)
        kept[r] = sum[r] + bias;
#pragma GCC unroll 1
    for (r = 0; r < rows; r++)
        finish(e, kept[r],
               run->residual ? run->residual + (from + r) * run->r_step : NULL,
               y + r * run->y_step, run->n);
}

/* A vector of x times a vector of U, lane by lane; all segments at once. */
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
    spread_finish(rows, run, from, sum);
}

#define WINDOW_CASE(n)                                                         \
    case n:                                                                    \
        if (kind == 0)                                                         \
            spread_tile((n) < ROWS ? (n) : ROWS, run, from);                   \
        else                                                                   \
            window_tile((n) < ROWS ? (n) : ROWS, kind, run, from, fetch,       \
                        fetched);                                              \
        break

/* kind: vectors of a panel, 0 where channels are spread. */
INLINE void window_rows(int64_t rows, int kind, const struct window_run *run,
                        int64_t from, const char *fetch, int64_t fetched)
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
    int64_t depth = 1;

    for (int s = 0; s < run->segments; s++)
        depth += run->segment[s].length;
    const int64_t fetched = tiles > 0 ? run->share / tiles / depth : 0;

    for (int64_t i = 0, from = 0; i < tiles; i++) {
        const int64_t rows = pixels / tiles + (i < pixels % tiles);

        window_rows(rows, kind, run, from, run->next + i * fetched * depth,
                    fetched);
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
}

/* `count` of the vectors of each pixel, from vector `first` on; whole: a pixel
 * fills a vector. */
INLINE void spread_vectors(bool whole, int count, const struct window_spread *s,
                           int first)
{
    const int64_t pixel = (int64_t)s->vectors * LANES;
    const int32_t *lane = s->lane + (int64_t)first * LANES;
    float *to = s->to + (int64_t)first * LANES;
    mask from[4];

#pragma GCC unroll 4
    for (int c = 0; c < count; c++)
        from[c] = *(const mask *)(lane + c * LANES);
    for (int64_t i = 0; i < s->pixels; i++, to += pixel) {
        const float *x = s->x + i * s->x_step;
        const vec v = whole ? load(x) : load_part(x, s->channels);

#pragma GCC unroll 4
        for (int c = 0; c < count; c++)
            store(to + c * LANES, pick_lanes(v, from[c]));
    }
}

INLINE void spread_pixels(bool whole, const struct window_spread *s)
{
    int c = 0;

    for (; c + 4 <= s->vectors; c += 4)
        spread_vectors(whole, 4, s, c);
    for (; c + 2 <= s->vectors; c += 2)
        spread_vectors(whole, 2, s, c);
    for (; c < s->vectors; c++)
        spread_vectors(whole, 1, s, c);
}

TARGET static void spread(const struct window_spread *s)
{
    if (!s->lane)
        for (int64_t i = 0; i < s->pixels; i++)
            store(s->to + i * LANES,
                  load_part(s->x + i * s->x_step, s->channels));
    else if (s->channels >= LANES)
        spread_pixels(true, s);
    else
        spread_pixels(false, s);
}
