/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and dense layers on integers of 8 bits (kernels/quant/quant.h).
 *
 * A layer is a product: pixels times terms by terms times outputs, of one group
 * after the other.  Terms are the taps of the window, and of each the channels.
 * A block of pixels is multiplied by all panels of weights.  Its rows are
 *   direct     where the pixels lie as rows of U8 values already
 *   windows    pieces of the input: of all rows of the window, or of all taps.
 *              The part of the input that a block reads is copied to a strip,
 *              with its padding, unless it needs none and is U8
 *   gathered   otherwise, and where the processor has a unit of tiles: that
 *              sums whole steps of terms, and the vectors add the others.
 * A dense layer is a window of one.  Threads divide the blocks, and the panels
 * where blocks are few.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/cpu/conv/dot_layer.h"

enum { X = DOT_X, W = DOT_W };

/* Most pixels of a block, without tiles: a panel of weights is used for so
 * many, five times the rows that AVX-512 takes at once. */
#define BLOCK 60
/* Most rows of a window by pieces, and bytes of a strip in the L2 cache. */
#define MAX_PIECES 64
/* Most outputs of narrow images by windows. */
#define WINDOW_OUTPUTS 64
#define MAX_STRIP      (1 << 18)

struct state {
    struct dot_layer g;
    const struct dot_steps *steps;
    int threads;
    int64_t merged; /* groups that are one, weights between them being 0 */
    int64_t even;   /* of even_step() */
    bool direct;    /* such pixels are U8: they are multiplied where they lie */
    int64_t block;  /* pixels of a block */
    bool windows; /* rows are windows of the input; the following are theirs */
    bool strip;   /* which is copied first */
    bool x_flip;  /* x is I8 */
    int64_t lines, columns; /* output rows and columns of a block */
    int64_t pixel, row;     /* bytes between input pixels and rows */
    int64_t piece_at[MAX_PIECES];
    int64_t pieces, quads; /* of a row; quads: of a piece */
    int64_t tiled;         /* steps of terms that the unit of tiles sums */
    int64_t panels;        /* of a group */
    int64_t parts;         /* into which the panels of a block are divided */
    int64_t vector;        /* floats of a vector of outputs, rounded up */
    size_t weights; /* bytes of them in the packed form; offsets follow */
    size_t buffer;  /* bytes of a thread's rows, and of its sums */
};

/* ---- preparation --------------------------------------------------- */

static int conv_supports(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    (void)d;
    return dot_conv_supports(p, why);
}

static int dense_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    (void)d;
    return dot_dense_supports(p, why);
}

/* Distance of neighbouring pixels where all images' pixels lie as rows of whole
 * quads, else 0. */
static int64_t even_step(const struct dot_layer *g)
{
    const int64_t step = g->out[2] > 1 ? g->x[2] : g->x_image;

    for (int d = 0; d < 3; d++)
        if (g->step[d] != 1 || g->pad[d] != 0 || g->in[d] != g->out[d])
            return 0;
    if (g->taps != 1 || g->groups != 1 || g->channels % 4 ||
        (g->out[1] > 1 && g->x[1] != step * g->out[2]) ||
        (g->out[0] > 1 && g->x[0] != step * g->out[2] * g->out[1]) ||
        g->x_image != step * g->out[2] * g->out[1] * g->out[0])
        return 0;
    return step;
}

/* Groups of few outputs become one that fills a vector, or a panel of tiles: it
 * is multiplied as a whole anyway, and their pixels are gathered at once. */
static void merge_groups(struct state *s)
{
    struct dot_layer *g = &s->g;

    const int64_t fill = s->steps->sums ? s->steps->panel : dot_lanes(s->steps);

    s->merged = g->outputs > 0 ? fill / g->outputs : 1;
    if (s->merged > g->groups)
        s->merged = g->groups;
    while (s->merged > 1 && (g->groups % s->merged != 0 ||
                             g->terms * s->merged > QUANT_MAX_TERMS))
        s->merged--;
    if (s->merged <= 1) {
        s->merged = 1;
        return;
    }
    g->groups /= s->merged;
    g->channels *= s->merged;
    g->outputs *= s->merged;
    g->terms *= s->merged;
    g->quads = (g->terms + 3) / 4;
}

/* Input rows, columns and bytes that a block of windows reads. */
static int64_t strip_rows(const struct state *s)
{
    return (s->lines - 1) * s->g.step[1] +
           (s->g.window[1] - 1) * s->g.dilation[1] + 1;
}

static int64_t strip_columns(const struct state *s)
{
    return (s->columns - 1) * s->g.step[2] +
           (s->g.window[2] - 1) * s->g.dilation[2] + 1;
}

/* And the bytes behind them that the last quad of a piece reads. */
static int64_t strip_bytes(const struct state *s)
{
    return strip_rows(s) * strip_columns(s) * s->g.channels + 4;
}

/* Divides the outputs into blocks of about as many rows and columns. */
static void set_window_block(struct state *s)
{
    const struct dot_layer *g = &s->g;
    int64_t parts = (g->out[2] + BLOCK - 1) / BLOCK;

    s->columns = (g->out[2] + parts - 1) / parts;
    s->lines = BLOCK / s->columns < g->out[1] ? BLOCK / s->columns : g->out[1];
    parts = (g->out[1] + s->lines - 1) / s->lines;
    s->lines = (g->out[1] + parts - 1) / parts;
}

/* Chooses pieces of windows; false: a gathered row is better, or the layer is
 * none of such. */
static bool set_windows(struct state *s)
{
    const struct dot_layer *g = &s->g;
    int64_t inner, tap, down;

    if (g->in[0] != 1 || g->window[0] != 1 || g->pad[0] != 0 ||
        g->pixels == 0 || g->channels == 0 ||
        g->window[1] * g->window[2] > MAX_PIECES)
        return false;
    set_window_block(s);
    /* Many outputs hide the cost of gathering, and rows of several lines make
     * higher tiles. */
    if (g->outputs > WINDOW_OUTPUTS && s->columns < BLOCK / 2)
        return false;
    s->strip = dot_is_padded(g) || s->x_flip || g->channels % 4 != 0;
    /* A strip would have the pixels that strides leave out. */
    if (s->strip && g->taps == 1)
        return false;
    if (s->strip && strip_rows(s) * strip_columns(s) > MAX_STRIP / g->channels)
        return false;
    s->pixel = s->strip ? g->channels : g->x[2];
    s->row = s->strip ? strip_columns(s) * g->channels : g->x[1];
    tap = g->dilation[2] * s->pixel;
    down = g->dilation[1] * s->row;
    inner = tap == g->channels ? g->window[2] : 1;
    s->quads = (inner * g->channels + 3) / 4;
    s->pieces = g->taps / inner;
    for (int64_t i = 0; i < s->pieces; i++)
        s->piece_at[i] = inner > 1
                             ? i * down
                             : i / g->window[2] * down + i % g->window[2] * tap;
    /* Quads that are not full cost as much as full ones. */
    if (s->pieces * s->quads <= g->quads + g->quads / 2)
        return true;
    s->pieces = 1;
    s->quads = g->quads;
    return false;
}

/* Sets what depends on sizes that may be too large; false: they are. */
static bool set_sizes(struct kern_exec *e, struct state *s)
{
    const struct dot_layer *g = &s->g;
    size_t panel, rows, scratch;

    s->vector = dot_layer_vector(g);
    if (!checked_mul((size_t)(s->panels * g->groups), (size_t)s->steps->panel,
                     &panel) ||
        !checked_mul(panel, (size_t)(s->pieces * s->quads) * 4 + 4, &rows) ||
        rows > SIZE_MAX / 2)
        return false;
    s->weights = rows - panel * 4;
    e->packed[W] = rows;
    if (s->windows)
        s->buffer = s->strip ? (size_t)strip_bytes(s) : 0;
    else
        s->buffer = s->direct ? 0 : (size_t)(g->quads * 4 * s->block);
    if (s->tiled > 0)
        s->buffer += DOT_SUM_ROWS * DOT_SUM_PANEL * sizeof(int32_t);
    s->buffer = (s->buffer + 63) / 64 * 64;
    if (!checked_mul(s->buffer, (size_t)s->threads, &scratch))
        return false;
    e->workspace = (size_t)s->vector * 2 * sizeof(float) + scratch;
    return true;
}

/* Number of blocks of one group. */
static int64_t blocks_of(const struct state *s)
{
    const struct dot_layer *g = &s->g;

    if (g->pixels == 0)
        return 0;
    if (!s->windows)
        return (g->pixels + s->block - 1) / s->block;
    return g->pixels / (g->out[1] * g->out[2]) *
           ((g->out[1] + s->lines - 1) / s->lines) *
           ((g->out[2] + s->columns - 1) / s->columns);
}

/* Whole tiles of rows, without a last block of few: that would read all weights
 * again for them. */
static int64_t block_of(int64_t pixels)
{
    const int64_t tile = 12;
    const int64_t rest = pixels % (BLOCK - tile);

    return rest > 0 && rest <= tile ? BLOCK : BLOCK - tile;
}

/* Blocks of pixels, and parts of their panels, enough of them for the threads.
 */
static void set_blocks(struct state *s)
{
    const struct dot_layer *g = &s->g;
    int64_t blocks;

    s->tiled = s->steps->sums ? g->quads / DOT_SUM_QUADS : 0;
    s->panels = (g->outputs + s->steps->panel - 1) / s->steps->panel;
    s->pieces = 1;
    s->quads = g->quads;
    /* With tiles, a multiple of the rows that they take. */
    s->block = s->tiled > 0 ? 2 * DOT_SUM_ROWS : block_of(g->pixels);
    s->windows = s->even == 0 && s->tiled == 0 && set_windows(s);
    blocks = blocks_of(s) * g->groups;
    s->parts = blocks > 0 ? (2 * s->threads - 1) / blocks + 1 : 1;
    if (s->threads == 1)
        s->parts = 1;
    if (s->parts > s->panels)
        s->parts = s->panels > 0 ? s->panels : 1;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = calloc(1, sizeof *s);

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    dot_layer_read(&e->problem, &s->g);
    s->steps = dot_steps();
    s->threads = d->threads;
    s->x_flip = dot_flip(&e->problem) != 0;
    merge_groups(s);
    s->even = even_step(&s->g);
    s->direct = e->problem.in[X].dtype == INFER_U8 && s->even > 0;
    set_blocks(s);
    if (!set_sizes(e, s)) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: too large", e->row->name);
    }
    e->state = s;
    return 0;
}

/* Place of channel c of tap t in a row of whole quads. */
static int64_t term_of(const struct state *s, int64_t t, int64_t c)
{
    const int64_t taps = s->g.taps / s->pieces; /* of a piece */

    return t / taps * s->quads * 4 + t % taps * s->g.channels + c;
}

/* Outputs of panel p of group i. */
static void pack_panel(const struct state *s, const int8_t *w, int zero,
                       int64_t i, int64_t p, int8_t *to, int32_t *offset)
{
    const struct dot_layer *g = &s->g;
    const int64_t nb = s->steps->panel;

    for (int64_t j = 0; j < nb && p * nb + j < g->outputs; j++) {
        const int64_t k = p * nb + j, channels = g->channels / s->merged;
        const int64_t first = k / (g->outputs / s->merged) * channels;
        const int8_t *from = w + (i * g->outputs + k) * channels * g->taps;
        int32_t sum = 0;

        for (int64_t c = 0; c < channels; c++)
            for (int64_t t = 0; t < g->taps; t++) {
                const int64_t term = term_of(s, t, first + c);

                to[(term / 4 * nb + j) * 4 + term % 4] = from[c * g->taps + t];
                sum += from[c * g->taps + t];
            }
        offset[j] = sum * zero;
    }
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;
    const int64_t nb = s->steps->panel;
    int32_t *offset = (int32_t *)(void *)((char *)dst + s->weights);

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    memset(dst, 0, e->packed[W]);
    for (int64_t n = 0; n < s->g.groups * s->panels; n++)
        pack_panel(s, src, dot_zero(&e->problem), n / s->panels, n % s->panels,
                   (int8_t *)dst + n * nb * s->pieces * s->quads * 4,
                   offset + n * nb);
    return 0;
}

/* ---- gathering ----------------------------------------------------- */

/* A few bytes, often the 3 to 32 of a pixel: two copies that overlap. */
CPU_INLINE void copy_few(uint8_t *to, const uint8_t *from, int64_t n)
{
    if (n > 32 || n < 4) {
        if (n > 32)
            memcpy(to, from, (size_t)n);
        else
            for (int64_t i = 0; i < n; i++)
                to[i] = from[i];
    } else if (n >= 16) {
        memcpy(to, from, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    }
}

/* Pieces of n bytes, `step` apart; sizes that are common are known to the
 * compiler. */
CPU_INLINE void copy_taps(uint8_t *to, const uint8_t *from, int64_t step,
                          int64_t n, int64_t taps)
{
    if (n == 16) {
        for (int64_t t = 0; t < taps; t++)
            memcpy(to + t * 16, from + t * step, 16);
    } else if (n == 32) {
        for (int64_t t = 0; t < taps; t++)
            memcpy(to + t * 32, from + t * step, 32);
    } else {
        for (int64_t t = 0; t < taps; t++)
            copy_few(to + t * n, from + t * step, n);
    }
}

/* One row of the window: x is at tap 0 along the width. */
static void gather_taps(const struct dot_layer *g, const uint8_t *x, int64_t lo,
                        int64_t hi, int zero, uint8_t *to)
{
    const int64_t c = g->channels, step = g->dilation[2] * g->x[2];

    if (lo > 0)
        memset(to, zero, (size_t)(lo * c));
    if (step == c) {
        copy_few(to + lo * c, x + lo * c, (hi - lo) * c);
    } else {
        copy_taps(to + lo * c, x + lo * step, step, c, hi - lo);
    }
    if (hi < g->window[2])
        memset(to + hi * c, zero, (size_t)((g->window[2] - hi) * c));
}

/* The same where all taps of the window lie inside the input; x is at tap 0. */
static void gather_inside(const struct dot_layer *g, const uint8_t *x,
                          uint8_t *to)
{
    const int64_t row = g->window[2] * g->channels;
    const int64_t down = g->dilation[1] * g->x[1];
    const int64_t step = g->dilation[2] * g->x[2];

    for (int64_t i = 0; i < g->window[0]; i++, x += g->dilation[0] * g->x[0]) {
        const uint8_t *from = x;

        for (int64_t j = 0; j < g->window[1]; j++, to += row, from += down)
            if (step == g->channels)
                copy_few(to, from, row);
            else
                copy_taps(to, from, step, g->channels, g->window[2]);
    }
    for (int64_t i = g->terms; i < g->quads * 4; i++)
        *to++ = 0;
}

/* True if all taps lie inside. */
static bool is_inside(const struct dot_layer *g, const int64_t at[3])
{
    for (int d = 0; d < 3; d++)
        if (at[d] < 0 ||
            at[d] + (g->window[d] - 1) * g->dilation[d] >= g->in[d])
            return false;
    return true;
}

/* All terms of a pixel; x is that of its image and group.  Bytes behind the
 * last term meet weights of 0. */
static void gather(const struct dot_layer *g, const uint8_t *x,
                   const struct dot_at *a, int zero, uint8_t *to)
{
    const int64_t row = g->window[2] * g->channels;
    int64_t lo[3], hi[3], at[3];

    for (int d = 0; d < 3; d++)
        at[d] = a->d[d] * g->step[d] - g->pad[d];
    if (is_inside(g, at)) {
        gather_inside(
            g, x + at[0] * g->x[0] + at[1] * g->x[1] + at[2] * g->x[2], to);
        return;
    }
    for (int d = 0; d < 3; d++) {
        dot_inside(at[d], g->dilation[d], g->in[d], g->window[d], &lo[d],
                   &hi[d]);
    }
    for (int64_t i = 0; i < g->window[0]; i++)
        for (int64_t j = 0; j < g->window[1]; j++, to += row) {
            if (i < lo[0] || i >= hi[0] || j < lo[1] || j >= hi[1] ||
                lo[2] >= hi[2])
                memset(to, zero, (size_t)row);
            else
                gather_taps(g,
                            x + (at[0] + i * g->dilation[0]) * g->x[0] +
                                (at[1] + j * g->dilation[1]) * g->x[1] +
                                at[2] * g->x[2],
                            lo[2], hi[2], zero, to);
        }
    for (int64_t i = g->terms; i < g->quads * 4; i++)
        *to++ = 0;
}

/* I8 values plus 128; x may be to. */
CPU_CLONES static void make_unsigned(const uint8_t *x, uint8_t *to, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = x[i] ^ 0x80;
}

/* ---- launch -------------------------------------------------------- */

struct job {
    const struct state *s;
    const struct kern_problem *p;
    const uint8_t *x;
    const int8_t *w;
    const int32_t *offset;
    struct dot_finish finish;
};

/* The places of n pixels from `first` on. */
static void fill_places(const struct dot_layer *g, int64_t first, int64_t n,
                        int64_t *y_at, int64_t *r_at)
{
    struct dot_at a = dot_pixel_at(g, first);

    for (int64_t i = 0; i < n; i++, dot_next_pixel(g, &a))
        if (i > 0 && a.d[2] > 0) {
            y_at[i] = y_at[i - 1] + g->y[2];
            r_at[i] = r_at[i - 1] + g->r[2];
        } else {
            y_at[i] = dot_place(g->y_image, g->y, &a);
            r_at[i] = dot_place(g->r_image, g->r, &a);
        }
}

/* Copies the part of the input that a block reads: rows from `top` on and
 * columns from `left` on of the group whose image x is. */
static void fill_strip(const struct job *j, const uint8_t *x, int64_t top,
                       int64_t left, int64_t rows, int64_t columns, uint8_t *to)
{
    const struct dot_layer *g = &j->s->g;
    const uint8_t flip = dot_flip(j->p);
    const int zero = dot_zero(j->p) ^ flip;
    const int64_t c = g->channels, bytes = columns * c;
    int64_t lo, hi;

    dot_inside(left, 1, g->in[2], columns, &lo, &hi);
    for (int64_t i = 0; i < rows; i++, to += j->s->row) {
        const int64_t h = top + i;

        if (h < 0 || h >= g->in[1] || lo >= hi) {
            memset(to, zero, (size_t)bytes);
        } else {
            const uint8_t *from = x + h * g->x[1] + (left + lo) * g->x[2];

            memset(to, zero, (size_t)(lo * c));
            if (g->x[2] == c)
                memcpy(to + lo * c, from, (size_t)((hi - lo) * c));
            else
                copy_taps(to + lo * c, from, g->x[2], c, hi - lo);
            memset(to + hi * c, zero, (size_t)(bytes - hi * c));
        }
        if (flip)
            make_unsigned(to, to, bytes);
    }
}

/* Block number i of windows of one group, and its places. */
static void fill_windows(const struct job *j, int64_t group, int64_t i,
                         uint8_t *buffer, struct dot_rows *r, int64_t *y_at,
                         int64_t *r_at)
{
    const struct state *s = j->s;
    const struct dot_layer *g = &s->g;
    const int64_t across = (g->out[2] + s->columns - 1) / s->columns;
    const int64_t down = (g->out[1] + s->lines - 1) / s->lines;
    const int64_t q = i % across * s->columns;
    const int64_t p = i / across % down * s->lines;
    const int64_t image = i / across / down;
    const int64_t top = p * g->step[1] - g->pad[1];
    const int64_t left = q * g->step[2] - g->pad[2];
    const uint8_t *x = j->x + image * g->x_image + group * g->channels;
    const int64_t first = (image * g->out[1] + p) * g->out[2] + q;

    r->lines = g->out[1] - p < s->lines ? g->out[1] - p : s->lines;
    r->rows = g->out[2] - q < s->columns ? g->out[2] - q : s->columns;
    r->line = g->step[1] * s->row;
    r->step = g->step[2] * s->pixel;
    for (int64_t l = 0; l < r->lines; l++)
        fill_places(g, first + l * g->out[2], r->rows, y_at + l * r->rows,
                    r_at + l * r->rows);
    if (!s->strip) {
        r->x = x + top * g->x[1] + left * g->x[2];
        return;
    }
    r->x = buffer;
    fill_strip(
        j, x, top, left,
        (r->lines - 1) * g->step[1] + (g->window[1] - 1) * g->dilation[1] + 1,
        (r->rows - 1) * g->step[2] + (g->window[2] - 1) * g->dilation[2] + 1,
        buffer);
}

/* The rows of a block of one group, made unsigned in the buffer. */
static void fill_rows(const struct job *j, int64_t group, int64_t first,
                      uint8_t *buffer, struct dot_rows *r)
{
    const struct state *s = j->s;
    const struct dot_layer *g = &s->g;
    const uint8_t flip = dot_flip(j->p);
    struct dot_at a;

    r->step = s->even;
    if (s->direct) {
        r->x = j->x + first * r->step;
        return;
    }
    r->x = buffer;
    if (s->even == g->channels) {
        make_unsigned(j->x + first * s->even, buffer, r->rows * s->even);
        return;
    }
    r->step = g->quads * 4;
    a = dot_pixel_at(g, first);
    for (int64_t i = 0; i < r->rows; i++, dot_next_pixel(g, &a))
        gather(g, j->x + a.n * g->x_image + group * g->channels, &a,
               dot_zero(j->p) ^ flip, buffer + i * r->step);
    if (flip)
        make_unsigned(buffer, buffer, r->rows * r->step);
}

/* One panel by the unit of tiles, a few rows at a time. */
static void run_tiles(const struct job *j, const struct dot_rows *all,
                      int64_t *begun, int32_t *sums)
{
    const struct dot_steps *steps = j->s->steps;
    struct dot_rows r = *all;

    r.sums = sums;
    r.first = j->s->tiled * DOT_SUM_QUADS;
    for (int64_t i = 0; i < all->rows; i += DOT_SUM_ROWS) {
        r.rows = all->rows - i < DOT_SUM_ROWS ? all->rows - i : DOT_SUM_ROWS;
        r.x = all->x + i * all->step;
        r.y_at = all->y_at + i;
        r.r_at = all->r_at + i;
        if (*begun != r.rows)
            steps->begin(r.rows);
        *begun = r.rows;
        steps->sums(&r, r.rows, j->s->tiled, sums);
        steps->rows(&r, &j->finish);
    }
}

/* Block number i of one group, and one part of its panels. */
static void run_block(const struct job *j, int64_t group, int64_t i,
                      int64_t part, uint8_t *buffer)
{
    static const int64_t whole[1] = {0};
    const struct state *s = j->s;
    const struct dot_layer *g = &s->g;
    const int64_t nb = s->steps->panel, first = i * s->block;
    int32_t *sums = (int32_t *)(void *)buffer;
    int64_t y_at[DOT_MAX_ROWS], r_at[DOT_MAX_ROWS], from, to, begun = 0;
    struct dot_rows r = {.lines = 1,
                         .pieces = s->pieces,
                         .quads = s->quads,
                         .piece_at = s->windows ? s->piece_at : whole,
                         .y_at = y_at,
                         .r_at = r_at};

    if (s->tiled > 0)
        buffer += DOT_SUM_ROWS * DOT_SUM_PANEL * sizeof *sums;
    if (s->windows) {
        fill_windows(j, group, i, buffer, &r, y_at, r_at);
    } else {
        r.rows = g->pixels - first < s->block ? g->pixels - first : s->block;
        fill_places(g, first, r.rows, y_at, r_at);
        fill_rows(j, group, first, buffer, &r);
    }
    cpu_share(s->panels, (int)part, (int)s->parts, &from, &to);
    for (int64_t p = from; p < to; p++) {
        const int64_t panel = group * s->panels + p;

        r.w = j->w + panel * nb * s->pieces * s->quads * 4;
        r.offset = j->offset + panel * nb;
        r.k = group * g->outputs + p * nb;
        r.n = g->outputs - p * nb;
        if (s->tiled > 0)
            run_tiles(j, &r, &begun, sums);
        else
            s->steps->rows(&r, &j->finish);
    }
    if (begun > 0)
        s->steps->end();
}

static int this_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct dot_layer *g = &s->g;
    float *scale = args->workspace, *bias = scale + s->vector;
    uint8_t *buffers = (uint8_t *)(bias + s->vector);
    const int64_t blocks = blocks_of(s);
    const int64_t each = g->groups * s->parts;
    const int count = cpu_threads(s->threads, g->pixels * g->terms *
                                                  g->outputs / 16 * g->groups);
    struct job j = {s, &e->problem, args->in[X], args->in[W], NULL, {0}};

    (void)err;
    (void)count; /* of use with OpenMP only */
    dot_layer_vectors(g, &e->problem, args, scale, bias);
    dot_layer_finish(&e->problem, args, &j.finish);
    j.finish.scale = scale;
    j.finish.bias = bias;
    j.offset = (const int32_t *)(const void *)(j.w + s->weights);
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < blocks * each; i++)
        run_block(&j, i % each / s->parts, i / each, i % s->parts,
                  buffers + (size_t)this_thread() * s->buffer);
    return 0;
}

KERN_FUNCTIONS(conv_fprop_nhwc_8bit_cpu_dot) = {
    .supports = conv_supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = cpu_release,
};

KERN_FUNCTIONS(dense_fprop_8bit_cpu_dot) = {
    .supports = dense_supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = cpu_release,
};
