/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolutions on integers of 8 bits (kernels/quant/quant.h).
 *
 * A product instruction sums four terms of a lane, here four taps of a channel.
 * The taps of one column of the window (along depth and height) make quads,
 * with weights of 0 behind the last.  For a stretch of output pixels along the
 * width, the input rows of each quad are put side by side, pixel for pixel, in
 * a buffer in the L1 cache: padding as the value that stands for 0, so that the
 * sums know no edges.  A column is then read by every output pixel that it
 * belongs to, whatever stride and dilation are.  Where quads have room for the
 * taps of the next rows of outputs too (3 of 4 input rows of a 3x3 window of
 * stride 1), the buffer serves as many rows as fit: putting it together is a
 * third of the work.  Threads divide the rows of outputs.
 *
 * Packed weights: [rows of outputs][blocks of
 * channels][quads][columns][channels of a block][4], then offsets in the order
 * of dot.h.
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

/* Bytes of a buffer that stays in the L1 cache. */
#define BUFFER 24576
/* Fewest output pixels of a stretch, unless the row has fewer. */
#define FEW_PIXELS 8
/* Most bytes of a thread's buffer: rows of products need less for windows whose
 * taps lie far apart. */
#define MAX_BUFFER (1 << 24)

struct state {
    struct dot_layer g;
    const struct dot_steps *steps;
    int threads;
    int64_t block;   /* channels */
    int64_t blocks;  /* of channels */
    int64_t quads;   /* of a column of the window */
    int64_t turns;   /* rows of outputs that a buffer serves */
    int64_t taps;    /* input rows that these read */
    size_t turn;     /* bytes of weights of one of them */
    int64_t pixels;  /* output pixels of a stretch */
    int64_t columns; /* input pixels that they read */
    int64_t vector;  /* floats of a vector of channels */
    size_t weights, buffer;
};

/* Bytes of the quads of FEW_PIXELS output pixels. */
static double least_buffer(const struct dot_layer *g)
{
    const double quads = (double)(g->window[0] * g->window[1]) / 4 + 1;
    const double columns = (double)(FEW_PIXELS - 1) * (double)g->step[2] +
                           (double)(g->window[2] - 1) * (double)g->dilation[2] +
                           1;

    return quads * columns * DOT_MAX_PANEL * 4;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct dot_layer g;
    const int rc = dot_conv_supports(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    memset(&g, 0, sizeof g);
    dot_layer_read(p, &g);
    if (!dot_is_depthwise(&g))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one channel and one output a group");
    if (least_buffer(&g) > MAX_BUFFER)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes windows whose rows fit %d bytes", MAX_BUFFER);
    return 0;
}

/* Sets what depends on sizes that may be too large; false: they are. */
static bool set_sizes(struct kern_exec *e, struct state *s)
{
    const struct dot_layer *g = &s->g;
    const size_t quad = (size_t)s->block * 4;
    const int64_t halo = (g->window[2] - 1) * g->dilation[2] + 1;
    const int64_t room = BUFFER / (int64_t)(quad * (size_t)s->quads);
    size_t all, columns;

    s->pixels = room > halo ? (room - halo) / g->step[2] + 1 : 1;
    if (s->pixels < FEW_PIXELS)
        s->pixels = FEW_PIXELS;
    if (s->pixels > g->out[2])
        s->pixels = g->out[2];
    s->columns = s->pixels > 0 ? (s->pixels - 1) * g->step[2] + halo : 0;
    if (!checked_mul((size_t)(s->quads * g->window[2]), quad, &columns) ||
        !checked_mul(columns, (size_t)s->blocks, &s->turn) ||
        !checked_mul(s->turn, (size_t)s->turns, &s->weights) ||
        !checked_add(s->weights, (size_t)(s->block * s->blocks) * 4, &all) ||
        all > SIZE_MAX / 2)
        return false;
    e->packed[W] = all;
    if (!checked_mul((size_t)(s->quads * s->columns), quad, &s->buffer) ||
        !checked_mul(s->buffer, (size_t)s->threads, &all) || all > SIZE_MAX / 2)
        return false;
    e->workspace = (size_t)s->vector * 4 * sizeof(float) + all;
    return true;
}

/* How many rows of outputs the quads of one hold the taps of; fewer where every
 * thread is to have some. */
static int64_t turns_of(const struct dot_layer *g, int64_t quads, int threads)
{
    const bool plane = g->window[0] == 1 && g->dilation[1] == 1;
    const int64_t free = quads * 4 - g->window[1], rows = g->out[1];
    const int64_t planes = g->pixels > 0 ? g->pixels / g->out[2] / rows : 0;
    int64_t turns = plane && g->step[1] > 0 ? free / g->step[1] + 1 : 1;

    if (turns > rows)
        turns = rows > 0 ? rows : 1;
    while (threads > 1 && turns > 1 &&
           planes * ((rows - 1) / turns + 1) < 2 * threads)
        turns /= 2;
    return turns;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = calloc(1, sizeof *s);
    const struct dot_layer *g;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    g = &s->g;
    dot_layer_read(&e->problem, &s->g);
    s->steps = dot_steps();
    s->threads = d->threads;
    s->block = s->steps->block;
    s->blocks = (g->groups + s->block - 1) / s->block;
    s->quads = (g->window[0] * g->window[1] + 3) / 4;
    s->turns = turns_of(g, s->quads, s->threads);
    s->taps = g->window[0] * g->window[1] + (s->turns - 1) * g->step[1];
    s->vector = dot_layer_vector(g);
    if (!set_sizes(e, s)) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: too large", e->row->name);
    }
    e->state = s;
    return 0;
}

/* Lane of the mixed order that channel c of a block has. */
static int64_t mixed_lane(const struct state *s, int64_t c)
{
    return c % 16 / 4 * (s->block / 4) + c / 16 * 4 + c % 4;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;
    const struct dot_layer *g = &s->g;
    const int64_t rows = g->window[0] * g->window[1], columns = g->window[2];
    const int8_t *from = src;
    int8_t *to = dst;
    int32_t *offset = (int32_t *)(void *)(to + s->weights);

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    memset(dst, 0, e->packed[W]);
    for (int64_t k = 0; k < g->groups; k++) {
        const int64_t block = k / s->block, lane = mixed_lane(s, k % s->block);
        int32_t sum = 0;

        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) {
                const int8_t w = from[(k * rows + r) * columns + c];

                for (int64_t t = 0; t < s->turns; t++) {
                    const int64_t at = r + t * g->step[1];

                    to[t * (int64_t)s->turn +
                       (((block * s->quads + at / 4) * columns + c) * s->block +
                        lane) *
                           4 +
                       at % 4] = w;
                }
                sum += w;
            }
        offset[block * s->block + lane] = sum * dot_zero(&e->problem);
    }
    return 0;
}

/* ---- launch -------------------------------------------------------- */

struct job {
    const struct state *s;
    const struct kern_problem *p;
    const uint8_t *x;
    const int8_t *w;
    const float *scale, *bias; /* in the mixed order */
    struct dot_finish finish;
};

/* The input of one quad of taps: rows from 4 * quad on, of the stretch whose
 * first output pixel is `a`, channels from k on. */
static void mix_quad(const struct job *j, const struct dot_at *a, int64_t quad,
                     int64_t k, const uint8_t *padding, uint8_t *to,
                     struct dot_mix *m)
{
    const struct state *s = j->s;
    const struct dot_layer *g = &s->g;
    const int64_t left = a->d[2] * g->step[2] - g->pad[2];

    for (int i = 0; i < 4; i++) {
        const int64_t row = quad * 4 + i;
        const bool plane = s->turns > 1; /* rows are those of one plane */
        const int64_t d = a->d[0] * g->step[0] - g->pad[0] +
                          (plane ? 0 : row / g->window[1]) * g->dilation[0];
        const int64_t h = a->d[1] * g->step[1] - g->pad[1] +
                          (plane ? row : row % g->window[1]) * g->dilation[1];

        m->row[i] = padding;
        m->step[i] = 0;
        if (row >= s->taps || d < 0 || d >= g->in[0] || h < 0 || h >= g->in[1])
            continue;
        m->row[i] = j->x + a->n * g->x_image + d * g->x[0] + h * g->x[1] +
                    left * g->x[2] + k;
        m->step[i] = g->x[2];
    }
    dot_inside(left, 1, g->in[2], m->pixels, &m->low, &m->high);
    m->to = to;
}

/* `n` output pixels along the width from `a` on, of as many rows as a buffer
 * serves. */
static void run_stretch(const struct job *j, const struct dot_at *a, int64_t n,
                        uint8_t *buffer)
{
    const struct state *s = j->s;
    const struct dot_layer *g = &s->g;
    const int64_t row = s->columns * s->block * 4;
    uint8_t padding[DOT_MAX_PANEL];
    struct dot_mix m = {.flip = dot_flip(j->p),
                        .zero = (uint8_t)dot_zero(j->p),
                        .pixels = (n - 1) * g->step[2] +
                                  (g->window[2] - 1) * g->dilation[2] + 1};
    struct dot_depth d = {.x = buffer,
                          .pixel = g->step[2] * s->block * 4,
                          .tap = g->dilation[2] * s->block * 4,
                          .row = row,
                          .rows = s->quads,
                          .taps = g->window[2],
                          .pixels = n,
                          .y_step = g->y[2],
                          .r_step = g->r[2]};

    memset(padding, m.zero ^ m.flip, sizeof padding);
    for (int64_t b = 0; b < s->blocks; b++) {
        d.k = b * s->block;
        d.n = m.n = g->groups - d.k < s->block ? g->groups - d.k : s->block;
        for (int64_t q = 0; q < s->quads; q++) {
            mix_quad(j, a, q, d.k, padding, buffer + q * row, &m);
            s->steps->mix(&m);
        }
        d.offset = (const int32_t *)(const void *)(j->w + s->weights) + d.k;
        d.scale = j->scale + d.k;
        d.bias = j->bias + d.k;
        for (int64_t t = 0; t < s->turns && a->d[1] + t < g->out[1]; t++) {
            d.w = j->w + t * (int64_t)s->turn +
                  b * s->quads * g->window[2] * s->block * 4;
            d.y_at = dot_place(g->y_image, g->y, a) + t * g->y[1];
            d.r_at = dot_place(g->r_image, g->r, a) + t * g->r[1];
            s->steps->depth(&d, &j->finish);
        }
    }
}

/* A vector's channels in the mixed order of each block. */
static void mix_vector(const struct state *s, const float *from, float *to)
{
    for (int64_t k = 0; k < s->blocks * s->block; k++)
        to[k / s->block * s->block + mixed_lane(s, k % s->block)] =
            k < s->g.groups ? from[k] : 0;
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
    float *v = args->workspace;
    uint8_t *buffers = (uint8_t *)(v + s->vector * 4);
    const int64_t each = g->out[2] > 0 ? (g->out[2] - 1) / s->pixels + 1 : 0;
    const int64_t groups = (g->out[1] - 1) / s->turns + 1; /* of rows */
    const int64_t rows =
        g->pixels > 0 ? g->pixels / g->out[2] / g->out[1] * groups : 0;
    const int count =
        cpu_threads(s->threads, g->pixels * g->terms * g->groups / 4);
    struct job j = {s, &e->problem, args->in[X], args->in[W], NULL, NULL, {0}};

    (void)err;
    (void)count; /* of use with OpenMP only */
    dot_layer_vectors(g, &e->problem, args, v, v + s->vector);
    dot_layer_finish(&e->problem, args, &j.finish);
    j.finish.scale = v;
    j.finish.bias = v + s->vector;
    mix_vector(s, v, v + s->vector * 2);
    mix_vector(s, v + s->vector, v + s->vector * 3);
    j.scale = v + s->vector * 2;
    j.bias = v + s->vector * 3;
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < rows * each; i++) {
        const int64_t first = i % each * s->pixels, rest = g->out[2] - first;
        const int64_t plane = i / each / groups, row = i / each % groups;
        const struct dot_at a = dot_pixel_at(
            g, (plane * g->out[1] + row * s->turns) * g->out[2] + first);

        run_stretch(&j, &a, rest < s->pixels ? rest : s->pixels,
                    buffers + (size_t)this_thread() * s->buffer);
    }
    return 0;
}

KERN_FUNCTIONS(conv_fprop_nhwc_8bit_cpu_depthwise) = {
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = cpu_release,
};
