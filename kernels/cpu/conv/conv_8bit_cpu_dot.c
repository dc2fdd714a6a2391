/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and dense layers on integers of 8 bits (kernels/quant/quant.h).
 *
 * A layer is a product: pixels times terms by terms times outputs, of one group
 * after the other.  Terms are the taps of the window, and of each the channels.
 * A block of pixels is gathered into rows of U8 values, then multiplied by all
 * panels of weights; where the pixels lie as such rows already, it is not
 * gathered.  A dense layer is a window of one.  Where the processor has a unit
 * of tiles, that sums whole steps of terms, and the vectors add the others.
 * Threads divide the blocks, and the panels where blocks are few.
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

/* Most pixels of a block: a panel of weights is used for so many. */
#define BLOCK 64

struct state {
    struct dot_layer g;
    const struct dot_steps *steps;
    int threads;
    int64_t merged; /* groups that are one, weights between them being 0 */
    int64_t even;   /* of even_step() */
    bool direct;    /* such pixels are U8: they are multiplied where they lie */
    int64_t block;  /* pixels of a block */
    int64_t tiled;  /* steps of terms that the unit of tiles sums */
    int64_t panels; /* of a group */
    int64_t parts;  /* into which the panels of a block are divided */
    int64_t vector; /* floats of a vector of outputs, rounded up */
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

/* Groups of few outputs become one that fills a panel: it is multiplied as a
 * whole anyway, and their pixels are gathered at once. */
static void merge_groups(struct state *s)
{
    struct dot_layer *g = &s->g;

    s->merged = g->outputs > 0 ? s->steps->panel / g->outputs : 1;
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

/* Sets what depends on sizes that may be too large; false: they are. */
static bool set_sizes(struct kern_exec *e, struct state *s)
{
    const struct dot_layer *g = &s->g;
    size_t panel, rows, scratch;

    s->vector = dot_layer_vector(g);
    if (!checked_mul((size_t)(s->panels * g->groups), (size_t)s->steps->panel,
                     &panel) ||
        !checked_mul(panel, (size_t)g->quads * 4 + 4, &rows) ||
        rows > SIZE_MAX / 2)
        return false;
    s->weights = rows - panel * 4;
    e->packed[W] = rows;
    s->buffer = s->direct ? 0 : (size_t)(g->quads * 4 * s->block);
    if (s->tiled > 0)
        s->buffer += DOT_SUM_ROWS * DOT_SUM_PANEL * sizeof(int32_t);
    s->buffer = (s->buffer + 63) / 64 * 64;
    if (!checked_mul(s->buffer, (size_t)s->threads, &scratch))
        return false;
    e->workspace = (size_t)s->vector * 2 * sizeof(float) + scratch;
    return true;
}

/* Blocks of pixels, and parts of their panels, enough of them for the threads.
 */
static void set_blocks(struct state *s)
{
    const struct dot_layer *g = &s->g;
    int64_t blocks;

    s->tiled = s->steps->sums ? g->quads / DOT_SUM_QUADS : 0;
    /* A multiple of the rows that the inner loops take. */
    s->block = s->tiled > 0 ? 2 * DOT_SUM_ROWS : 48;
    s->panels = (g->outputs + s->steps->panel - 1) / s->steps->panel;
    blocks = (g->pixels + s->block - 1) / s->block * g->groups;
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
                const int64_t term = t * g->channels + first + c;

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
                   (int8_t *)dst + n * nb * s->g.quads * 4, offset + n * nb);
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

/* The rows of a block of one group, made unsigned in the buffer. */
static void fill_rows(const struct job *j, int64_t group, int64_t first,
                      uint8_t *buffer, struct dot_rows *r)
{
    const struct state *s = j->s;
    const struct dot_layer *g = &s->g;
    const uint8_t flip = dot_flip(j->p);
    struct dot_at a;

    r->quads = g->quads;
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

/* Pixels from `first` on of one group, and one part of its panels. */
static void run_block(const struct job *j, int64_t group, int64_t first,
                      int64_t n, int64_t part, uint8_t *buffer)
{
    const struct state *s = j->s;
    const struct dot_layer *g = &s->g;
    const int64_t nb = s->steps->panel;
    int32_t *sums = (int32_t *)(void *)buffer;
    int64_t y_at[BLOCK], r_at[BLOCK], from, to, begun = 0;
    struct dot_rows r = {.rows = n, .y_at = y_at, .r_at = r_at};

    if (s->tiled > 0)
        buffer += DOT_SUM_ROWS * DOT_SUM_PANEL * sizeof *sums;
    fill_places(g, first, n, y_at, r_at);
    fill_rows(j, group, first, buffer, &r);
    cpu_share(s->panels, (int)part, (int)s->parts, &from, &to);
    for (int64_t p = from; p < to; p++) {
        const int64_t panel = group * s->panels + p;

        r.w = j->w + panel * nb * g->quads * 4;
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
    const int64_t blocks = (g->pixels + s->block - 1) / s->block;
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
    for (int64_t i = 0; i < blocks * each; i++) {
        const int64_t first = i / each * s->block, rest = g->pixels - first;

        run_block(&j, i % each / s->parts, first,
                  rest < s->block ? rest : s->block, i % s->parts,
                  buffers + (size_t)this_thread() * s->buffer);
    }
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
