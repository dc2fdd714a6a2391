/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution, 1-D and 2-D, with any window, stride and dilation and
 * with 1, 2, 4 or 8 outputs a channel; the inner loop is that of depthwise.h.
 *
 * It reads and writes pixels at any distance: parts of splits and of
 * concatenations, which oneDNN's row takes as copies only.  Nothing is copied,
 * no workspace is needed.
 *
 * Outputs are divided into blocks of one vector, rows into bands whose input
 * stays in the L2 cache while all blocks of the band are computed.  U is
 * [block][R S][vector].
 */
#include "config.h"

#include "kernels/cpu/conv/axis.h"
#include "kernels/cpu/conv/vector.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"

/* in[] of a convolution */
enum { X, W, BIAS, RESIDUAL };

/* Bytes of the input rows of a band. */
#define BAND_BYTES (256 << 10)

struct state {
    const struct vector_steps *steps;
    int threads;
    bool residual;
    struct axis a[2];
    int64_t images, x_image, y_image, r_image;
    int64_t k, shared; /* outputs, outputs a channel */
    int64_t lanes, blocks, taps;
    int64_t rows, bands;
    int64_t left, right; /* outputs of a row with all taps inside */
    int32_t lane[16];
};

/* ---- which problems ------------------------------------------------ */

/* Whether oneDNN's row computes the problem, in 0.5 to 0.9 of the time: one
 * output a channel, no parts of other tensors. */
static bool is_of_onednn(const struct kern_problem *p)
{
#ifdef HAVE_ONEDNN
    return p->out[0].dim[1] == p->attr.conv.groups && !p->deterministic &&
           cpu_is_dense(&p->in[X], KERN_NHWC) &&
           cpu_is_dense(&p->out[0], KERN_NHWC) &&
           cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NHWC);
#else
    (void)p;
    return false;
#endif
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int64_t groups = p->attr.conv.groups;
    const int rc = vector_conv_supports(p, why);
    int64_t shared;

    (void)d;
    if (rc < 0)
        return rc;
    if (p->in[X].rank != 3 && p->in[X].rank != 4)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one or two spatial dimensions");
    if (kern_tensor_count(&p->out[0]) == 0 || kern_tensor_count(&p->in[X]) == 0)
        return error_set(why, INFER_EUNSUPPORTED, "takes no empty tensors");
    shared = p->out[0].dim[1] / groups;
    if (groups != p->in[X].dim[1] || groups < 2 ||
        (shared != 1 && shared != 2 && shared != 4 && shared != 8))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes groups of one channel with 1, 2, 4 or 8 "
                         "outputs");
    if (is_of_onednn(p))
        return error_set(why, INFER_EUNSUPPORTED,
                         "leaves dense tensors to oneDNN's row");
    return 0;
}

/* ---- preparation --------------------------------------------------- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Outputs of a row all of whose taps lie inside. */
static void find_inside(struct state *s)
{
    const struct axis *w = &s->a[1];
    const int64_t last = w->in - 1 - (w->window - 1) * w->dilation + w->pad;

    s->left = w->pad > 0 ? (w->pad + w->stride - 1) / w->stride : 0;
    s->right = last < 0 ? 0 : last / w->stride + 1;
    s->left = smaller(s->left, w->out);
    s->right = larger(smaller(s->right, w->out), s->left);
}

static void find_bands(struct state *s, int64_t channels)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    const int64_t row = w->in * channels * (int64_t)sizeof(float) * h->stride;

    s->rows = larger(smaller(BAND_BYTES / larger(row, 1), h->out), 1);
    s->bands = (h->out + s->rows - 1) / s->rows;
    s->rows = (h->out + s->bands - 1) / s->bands;
}

static void fill(const struct kern_problem *p, int threads, struct state *s)
{
    *s = (struct state){.steps = vector_steps(), .threads = threads};
    axis_fill(p, 0, &s->a[0]);
    axis_fill(p, 1, &s->a[1]);
    s->images = p->in[X].dim[0];
    s->x_image = p->in[X].stride[0];
    s->y_image = p->out[0].stride[0];
    s->residual = kern_problem_in(p, RESIDUAL) != NULL;
    if (s->residual)
        s->r_image = p->in[RESIDUAL].stride[0];
    s->k = p->out[0].dim[1];
    s->shared = s->k / p->in[X].dim[1];
    s->lanes = s->steps->panel / 2;
    s->blocks = (s->k + s->lanes - 1) / s->lanes;
    s->taps = s->a[0].window * s->a[1].window;
    for (int i = 0; i < s->lanes; i++)
        s->lane[i] = i / (int)s->shared;
    find_inside(s);
    find_bands(s, p->in[X].dim[1]);
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = malloc(sizeof *s);
    size_t bytes;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    fill(&e->problem, d->threads, s);
    if (!checked_mul((size_t)s->blocks, (size_t)s->taps, &bytes) ||
        !checked_mul(bytes, (size_t)s->lanes * sizeof(float), &e->packed[W])) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: too large", e->row->name);
    }
    e->state = s;
    return 0;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;
    const float *w = src;
    float *u = dst;

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    memset(u, 0, e->packed[W]);
    for (int64_t k = 0; k < s->k; k++)
        for (int64_t t = 0; t < s->taps; t++)
            u[(k / s->lanes * s->taps + t) * s->lanes + k % s->lanes] =
                w[k * s->taps + t];
    return 0;
}

/* ---- launch -------------------------------------------------------- */

/* What a thread works on: rows [first, first + rows) of an image's output,
 * blocks [from, to). */
struct item {
    int64_t image, first, rows, from, to;
};

static void run_row(const struct state *s, const struct item *i, int64_t h,
                    int64_t block, struct depthwise_run *run,
                    const struct kern_args *args)
{
    const struct axis *v = &s->a[0];
    const int64_t at = h * v->stride - v->pad;
    int64_t from = 0, to = v->window;

    while (from < to && at + from * v->dilation < 0)
        from++;
    while (from < to && at + (to - 1) * v->dilation >= v->in)
        to--;
    run->rows = to - from;
    run->u = (const float *)args->in[W] +
             (block * s->taps + from * run->window) * s->lanes;
    run->x = (const float *)args->in[X] + i->image * s->x_image +
             (at + from * v->dilation) * v->x_step - run->pad * s->a[1].x_step +
             run->k / s->shared;
    run->y =
        (float *)args->out[0] + i->image * s->y_image + h * v->y_step + run->k;
    if (s->residual)
        run->residual = (const float *)args->in[RESIDUAL] +
                        i->image * s->r_image + h * v->r_step + run->k;
    s->steps->depthwise(run);
}

/* The activation of finished sums, where it is none of limits. */
static void activate(const struct state *s, const struct item *i,
                     const struct vector_epilogue *e, float *y)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    const int64_t from = i->from * s->lanes;
    const int64_t n = smaller(i->to * s->lanes, s->k) - from;

    y += i->image * s->y_image + from;
    for (int64_t r = i->first; r < i->first + i->rows; r++) {
        float *row = y + r * h->y_step;

        if (w->y_step == n) {
            cpu_act(&e->of.act, row, row, n * w->out);
            continue;
        }
        for (int64_t q = 0; q < w->out; q++)
            cpu_act(&e->of.act, row + q * w->y_step, row + q * w->y_step, n);
    }
}

static void run_item(const struct state *s, const struct item *i,
                     const struct vector_epilogue *e,
                     const struct kern_args *args)
{
    const struct axis *h = &s->a[0], *w = &s->a[1];
    struct depthwise_run run = {.step = w->stride * w->x_step,
                                .tap = w->dilation * w->x_step,
                                .row = h->dilation * h->x_step,
                                .pixel = w->x_step,
                                .window = w->window,
                                .pixels = w->out,
                                .left = s->left,
                                .right = s->right,
                                .stride = w->stride,
                                .dilation = w->dilation,
                                .pad = w->pad,
                                .in = w->in,
                                .lane = s->shared > 1 ? s->lane : NULL,
                                .y_step = w->y_step,
                                .r_step = w->r_step,
                                .epilogue = e};

    for (int64_t b = i->from; b < i->to; b++) {
        run.k = b * s->lanes;
        run.n = smaller(s->k - run.k, s->lanes);
        run.channels = run.n / s->shared;
        for (int64_t r = i->first; r < i->first + i->rows; r++)
            run_row(s, i, r, b, &run, args);
    }
    if (e->on_rows)
        activate(s, i, e, args->out[0]);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct kern_problem *p = &e->problem;
    const int64_t bands = s->images * s->bands;
    /* Few bands: each is divided among threads by blocks. */
    const int64_t parts =
        bands >= 4 * s->threads ? 1 : smaller(s->threads, s->blocks);
    const int count =
        cpu_threads(s->threads, kern_tensor_count(&p->out[0]) * s->taps / 16);
    struct vector_epilogue epilogue;

    (void)err;
    (void)count; /* of use with OpenMP only */
    vector_epilogue_fill(&epilogue, &p->epilogue);
    epilogue.bias = kern_problem_in(p, BIAS) ? args->in[BIAS] : NULL;
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < bands * parts; i++) {
        const int64_t band = i / parts;
        struct item item = {.image = band / s->bands,
                            .first = band % s->bands * s->rows};

        item.rows = smaller(s->rows, s->a[0].out - item.first);
        cpu_share(s->blocks, (int)(i % parts), (int)parts, &item.from,
                  &item.to);
        run_item(s, &item, &epilogue, args);
    }
    return 0;
}

KERN_FUNCTIONS(conv_fprop_nhwc_f32_cpu_depthwise) = {
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = cpu_release,
};
