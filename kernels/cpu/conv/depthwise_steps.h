/* SPDX-License-Identifier: Apache-2.0 */
/* The function of depthwise.h; a part of vector_steps.h. */

/* Outputs in registers at a time: as many sums as two units of four cycles
 * work on, and one vector of weights. */
#define DEPTHWISE_TILE 8

/* How a block lies in the input: a vector, a part of one, or channels that
 * several outputs share. */
enum depthwise_kind { DEPTHWISE_WHOLE, DEPTHWISE_PART, DEPTHWISE_SHARED };

INLINE vec depthwise_load(enum depthwise_kind kind,
                          const struct depthwise_run *d, const float *x)
{
    if (kind == DEPTHWISE_WHOLE)
        return load(x);
    if (kind == DEPTHWISE_PART)
        return (vec)LOAD_PART(x, d->channels);
    return pick_lanes((vec)LOAD_PART(x, d->channels), *(const mask *)d->lane);
}

INLINE void depthwise_store(const struct depthwise_run *d, int64_t i, vec sum)
{
    const struct vector_epilogue *e = d->epilogue;

    if (e->bias)
        sum += load_part(e->bias + d->k, d->n);
    finish(e, sum, d->residual ? d->residual + i * d->r_step : NULL,
           d->y + i * d->y_step, d->n);
}

/* `count` outputs from `from` on, all taps of a row inside. */
INLINE void depthwise_tile(int count, enum depthwise_kind kind,
                           const struct depthwise_run *d, int64_t from)
{
    const int64_t step = d->step;
    const float *u = d->u, *line = d->x + from * step;
    vec sum[DEPTHWISE_TILE];
    int i;

#pragma GCC unroll 8
    for (i = 0; i < count; i++)
        sum[i] = (vec){0};
    for (int64_t r = 0; r < d->rows; r++, line += d->row) {
        const float *q[3] = {line, line + 3 * step, line + 6 * step};

        for (int64_t s = 0; s < d->window; s++) {
            const vec w = load(u);

#pragma GCC unroll 8
            for (i = 0; i < count; i++)
                sum[i] += depthwise_load(kind, d, q[i / 3] + i % 3 * step) * w;
            q[0] += d->tap;
            q[1] += d->tap;
            q[2] += d->tap;
            u += LANES;
        }
    }
#pragma GCC unroll 8
    for (i = 0; i < count; i++)
        depthwise_store(d, from + i, sum[i]);
}

/* Pixels of an input row that a tile copies. */
#define DEPTHWISE_SPAN 48

/* Input positions that `count` outputs look at. */
INLINE int64_t depthwise_span(const struct depthwise_run *d, int64_t count)
{
    return (count - 1) * d->stride + (d->window - 1) * d->dilation + 1;
}

/* The same through a copy of the input with its padding, row by row: of tiles
 * at the border, and where each load would have to shuffle or to read two cache
 * lines. */
INLINE void depthwise_copied(int count, enum depthwise_kind kind,
                             const struct depthwise_run *d, int64_t from)
{
    __attribute__((aligned(64))) vec line[DEPTHWISE_SPAN];
    const int64_t span = depthwise_span(d, count);
    const int64_t at = from * d->stride - d->pad;
    const int64_t first = at < 0 ? -at : 0;
    const int64_t last = at + span > d->in ? d->in - at : span;
    const float *u = d->u, *x = d->x + from * d->step;
    vec sum[DEPTHWISE_TILE];
    int i;

#pragma GCC unroll 8
    for (i = 0; i < count; i++)
        sum[i] = (vec){0};
    for (int64_t p = 0; p < span; p++)
        line[p] = (vec){0};
    for (int64_t r = 0; r < d->rows; r++, x += d->row) {
        for (int64_t p = first; p < last; p++)
            line[p] = depthwise_load(kind, d, x + p * d->pixel);
        for (int64_t s = 0; s < d->window; s++) {
            const vec w = load(u), *q = line + s * d->dilation;

#pragma GCC unroll 8
            for (i = 0; i < count; i++)
                sum[i] += q[i * d->stride] * w;
            u += LANES;
        }
    }
#pragma GCC unroll 8
    for (i = 0; i < count; i++)
        depthwise_store(d, from + i, sum[i]);
}

/* One output of a window that is too wide for that. */
INLINE void depthwise_wide(enum depthwise_kind kind,
                           const struct depthwise_run *d, int64_t i)
{
    const int64_t at = i * d->stride - d->pad;
    vec sum = {0};

    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t s = 0; s < d->window; s++) {
            const int64_t p = at + s * d->dilation;

            if (p >= 0 && p < d->in)
                sum +=
                    depthwise_load(
                        kind, d, d->x + r * d->row + i * d->step + s * d->tap) *
                    load(d->u + (r * d->window + s) * LANES);
        }
    depthwise_store(d, i, sum);
}

#define DEPTHWISE_CASE(n)                                                      \
    case n:                                                                    \
        if (direct && kind != DEPTHWISE_SHARED)                                \
            depthwise_tile(n, kind, d, from);                                  \
        else                                                                   \
            depthwise_copied(n, kind, d, from);                                \
        break

INLINE void depthwise_row(enum depthwise_kind kind,
                          const struct depthwise_run *d)
{
    const int64_t tiles = (d->pixels + DEPTHWISE_TILE - 1) / DEPTHWISE_TILE;
    /* Loads of two cache lines, often enough. */
    const bool split = d->pixel % LANES != 0 && d->window > 3;

    if (depthwise_span(d, DEPTHWISE_TILE) > DEPTHWISE_SPAN) {
        for (int64_t i = 0; i < d->pixels; i++)
            depthwise_wide(kind, d, i);
        return;
    }
    for (int64_t i = 0, from = 0; i < tiles; i++) {
        const int64_t count = d->pixels / tiles + (i < d->pixels % tiles);
        const bool direct =
            from >= d->left && from + count <= d->right && !split;

        switch (count) {
            DEPTHWISE_CASE(1);
            DEPTHWISE_CASE(2);
            DEPTHWISE_CASE(3);
            DEPTHWISE_CASE(4);
            DEPTHWISE_CASE(5);
            DEPTHWISE_CASE(6);
            DEPTHWISE_CASE(7);
            DEPTHWISE_CASE(8);
        default:
            break;
        }
        from += count;
    }
}

TARGET static void depthwise(const struct depthwise_run *d)
{
    if (d->lane)
        depthwise_row(DEPTHWISE_SHARED, d);
    else if (d->channels < LANES)
        depthwise_row(DEPTHWISE_PART, d);
    else
        depthwise_row(DEPTHWISE_WHOLE, d);
}
