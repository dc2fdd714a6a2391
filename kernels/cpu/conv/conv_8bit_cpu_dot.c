/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and dense layers on integers of 8 bits (kernels/quant/quant.h).
 *
 * A layer is a product: pixels times terms by terms times outputs, of one group
 * after the other.  Terms are the taps of the window, and of each the channels.
 * A block of pixels is gathered into rows of U8 values, then multiplied by all
 * panels of weights; where the pixels lie as such rows already, it is not
 * gathered.  A dense layer is a window of one.  A depthwise layer takes each
 * pixel's taps where they lie.  Threads divide the blocks.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/cpu/conv/vector.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/conv/dot.h"
#include "kernels/quant/quant.h"

enum { X, W, BIAS, RESIDUAL };

/* Pixels of a block: a panel of weights is used for so many. */
#define BLOCK 48
/* Taps of a depthwise window: their places are kept on the stack. */
#define MAX_TAPS 256

/* Extents and strides along depth, height, width; those that the problem lacks
 * are 1 and 0. */
struct geometry {
    int64_t in[3], out[3], window[3], step[3], dilation[3], pad[3];
    int64_t x[3], y[3], r[3]; /* strides */
    int64_t x_image, y_image, r_image;
    int64_t pixels;            /* of all images */
    int64_t channels, outputs; /* of one group */
    int64_t groups, taps, terms, quads;
};

struct state {
    struct geometry g;
    const struct dot_steps *steps;
    int threads;
    bool depthwise, direct;
    int64_t panels; /* of a group */
    int64_t vector; /* floats of a vector of outputs, rounded up */
    size_t weights; /* bytes of them in the packed form; offsets follow */
    size_t buffer;  /* bytes of a thread's rows */
};

/* ---- which problems ------------------------------------------------ */

static bool is_vector_type(const struct kern_tensor *t)
{
    return !t || quant_is_byte(t->dtype) || t->dtype == INFER_F32;
}

static int supports(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, RESIDUAL);
    const struct kern_tensor *b = kern_problem_in(p, BIAS);

    if (!quant_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes integers of 8 bits");
    if (!(p->constant_in & 1u << W) ||
        !kern_tensor_is_dense(&p->in[W], KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes constant dense weights");
    if ((b && !kern_tensor_is_dense(b, KERN_NCHW)) ||
        !is_vector_type(&p->out[0]) || !is_vector_type(r))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes and gives I8, U8 and F32, and a dense bias");
    if (!vector_bounds(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

static int conv_supports(const struct kern_problem *p,
                         const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, RESIDUAL);

    (void)d;
    if (!cpu_channels_inner(&p->in[X]) || !cpu_channels_inner(&p->out[0]) ||
        (r && !cpu_channels_inner(r)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels-last activations");
    return supports(p, why);
}

static int dense_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, RESIDUAL);

    (void)d;
    if (!kern_tensor_is_dense(&p->in[X], KERN_NCHW) ||
        !kern_tensor_is_dense(&p->out[0], KERN_NCHW) ||
        (r && !kern_tensor_is_dense(r, KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED, "takes dense rows");
    return supports(p, why);
}

/* ---- preparation --------------------------------------------------- */

static void conv_geometry(const struct kern_problem *p, struct geometry *g)
{
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];
    const struct kern_tensor *r = kern_problem_in(p, RESIDUAL);
    const int spatial = x->rank - 2;

    for (int i = 0; i < spatial; i++) {
        const int d = 3 - spatial + i;

        g->in[d] = x->dim[i + 2];
        g->out[d] = y->dim[i + 2];
        g->window[d] = p->in[W].dim[i + 2];
        g->step[d] = c->stride[i];
        g->dilation[d] = c->dilation[i];
        g->pad[d] = c->pad_begin[i];
        g->x[d] = x->stride[i + 2];
        g->y[d] = y->stride[i + 2];
        g->r[d] = r ? r->stride[i + 2] : 0;
    }
    g->x_image = x->stride[0];
    g->y_image = y->stride[0];
    g->r_image = r ? r->stride[0] : 0;
    g->groups = c->groups;
    g->channels = p->in[W].dim[1];
    g->outputs = y->dim[1] / c->groups;
    g->pixels = y->dim[1] ? kern_tensor_count(y) / y->dim[1] : 0;
}

static void dense_geometry(const struct kern_problem *p, struct geometry *g)
{
    g->channels = g->x_image = p->in[W].dim[1];
    g->outputs = g->y_image = g->r_image = p->in[W].dim[0];
    g->pixels = g->outputs ? kern_tensor_count(&p->out[0]) / g->outputs : 0;
}

static void read_geometry(const struct kern_problem *p, struct geometry *g)
{
    for (int d = 0; d < 3; d++)
        g->in[d] = g->out[d] = g->window[d] = g->step[d] = g->dilation[d] = 1;
    g->groups = 1;
    if (p->op == KERN_CONV_FPROP)
        conv_geometry(p, g);
    else
        dense_geometry(p, g);
    g->taps = g->window[0] * g->window[1] * g->window[2];
    g->terms = g->taps * g->channels;
    g->quads = (g->terms + 3) / 4;
}

/* Distance of neighbouring pixels where all images' pixels lie as rows of whole
 * quads, else 0. */
static int64_t even_step(const struct geometry *g)
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

/* Sets what depends on sizes that may be too large; false: they are. */
static bool set_sizes(struct kern_exec *e, struct state *s)
{
    const struct geometry *g = &s->g;
    const size_t threads = (size_t)s->threads;
    size_t panel, rows, scratch;

    s->panels = (g->outputs + s->steps->panel - 1) / s->steps->panel;
    s->vector = (g->outputs * g->groups + 2 * DOT_MAX_PANEL) / 16 * 16;
    if (s->depthwise) {
        s->weights = (size_t)(g->taps * s->vector) * 4;
        e->packed[W] = s->weights;
    } else if (!checked_mul((size_t)(s->panels * g->groups),
                            (size_t)s->steps->panel, &panel) ||
               !checked_mul(panel, (size_t)g->quads * 4 + 4, &rows) ||
               rows > SIZE_MAX / 2) {
        return false;
    } else {
        s->weights = rows - panel * 4;
        e->packed[W] = rows;
    }
    s->buffer = s->direct || s->depthwise
                    ? 0
                    : ((size_t)g->quads * 4 * BLOCK + 63) / 64 * 64;
    if (!checked_mul(s->buffer, threads, &scratch))
        return false;
    e->workspace = (size_t)s->vector * 2 * sizeof(float) + scratch;
    return true;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = calloc(1, sizeof *s);
    struct geometry *g;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    g = &s->g;
    read_geometry(&e->problem, g);
    s->steps = dot_steps();
    s->threads = d->threads;
    s->depthwise = g->groups > 1 && g->channels == 1 && g->outputs == 1 &&
                   g->taps <= MAX_TAPS;
    s->direct =
        e->problem.in[X].dtype == INFER_U8 && !s->depthwise && even_step(g) > 0;
    if (!set_sizes(e, s)) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: too large", e->row->name);
    }
    e->state = s;
    return 0;
}

/* The value that stands for 0 in gathered rows. */
static int zero_of(const struct kern_problem *p)
{
    return p->quant.x_zero + (p->in[X].dtype == INFER_I8 ? 128 : 0);
}

static void pack_depthwise(const struct state *s, const int8_t *w, int32_t *to)
{
    const int64_t row =
        (s->g.groups + DOT_MAX_PANEL - 1) / DOT_MAX_PANEL * DOT_MAX_PANEL;

    for (int64_t t = 0; t < s->g.taps; t++)
        for (int64_t k = 0; k < s->g.groups; k++)
            to[t * row + k] = (uint16_t)w[k * s->g.taps + t];
}

/* Outputs of panel p of group i. */
static void pack_panel(const struct state *s, const int8_t *w, int zero,
                       int64_t i, int64_t p, int8_t *to, int32_t *offset)
{
    const struct geometry *g = &s->g;
    const int64_t nb = s->steps->panel;

    for (int64_t j = 0; j < nb && p * nb + j < g->outputs; j++) {
        const int8_t *from = w + (i * g->outputs + p * nb + j) * g->terms;
        int32_t sum = 0;

        for (int64_t c = 0; c < g->channels; c++)
            for (int64_t t = 0; t < g->taps; t++) {
                const int64_t term = t * g->channels + c;

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
    if (s->depthwise) {
        pack_depthwise(s, src, dst);
        return 0;
    }
    for (int64_t n = 0; n < s->g.groups * s->panels; n++)
        pack_panel(s, src, zero_of(&e->problem), n / s->panels, n % s->panels,
                   (int8_t *)dst + n * nb * s->g.quads * 4, offset + n * nb);
    return 0;
}

/* ---- pixels -------------------------------------------------------- */

struct job {
    const struct state *s;
    const struct kern_problem *p;
    const uint8_t *x;
    const int8_t *w;
    const int32_t *offset;
    struct dot_finish finish;
};

/* Index of an output pixel along the image and the three axes. */
struct at {
    int64_t n, d[3];
};

static struct at pixel_at(const struct geometry *g, int64_t i)
{
    struct at a;

    for (int d = 2; d >= 0; d--) {
        a.d[d] = i % g->out[d];
        i /= g->out[d];
    }
    a.n = i;
    return a;
}

static void next_pixel(const struct geometry *g, struct at *a)
{
    for (int d = 2; d >= 0; d--) {
        if (++a->d[d] < g->out[d])
            return;
        a->d[d] = 0;
    }
    a->n++;
}

static int64_t place(int64_t image, const int64_t stride[3], const struct at *a)
{
    return a->n * image + a->d[0] * stride[0] + a->d[1] * stride[1] +
           a->d[2] * stride[2];
}

/* Taps lo .. hi - 1 of the window along d lie inside the input. */
static void taps_inside(const struct geometry *g, int d, const struct at *a,
                        int64_t *lo, int64_t *hi)
{
    const int64_t base = a->d[d] * g->step[d] - g->pad[d], by = g->dilation[d];

    *lo = base >= 0 ? 0 : (-base + by - 1) / by;
    *hi = g->in[d] - base <= 0 ? 0 : (g->in[d] - base - 1) / by + 1;
    if (*hi > g->window[d])
        *hi = g->window[d];
    if (*lo > *hi)
        *lo = *hi;
}

/* ---- gathering ----------------------------------------------------- */

/* One row of the window: x is at tap 0 along the width. */
static void gather_taps(const struct geometry *g, const uint8_t *x, int64_t lo,
                        int64_t hi, int zero, uint8_t *to)
{
    const int64_t c = g->channels, step = g->dilation[2] * g->x[2];

    memset(to, zero, (size_t)(lo * c));
    if (step == c) {
        memcpy(to + lo * c, x + lo * c, (size_t)((hi - lo) * c));
    } else {
        for (int64_t t = lo; t < hi; t++)
            memcpy(to + t * c, x + t * step, (size_t)c);
    }
    memset(to + hi * c, zero, (size_t)((g->window[2] - hi) * c));
}

/* All terms of a pixel; x is that of its image and group.  Bytes behind the
 * last term meet weights of 0. */
static void gather(const struct geometry *g, const uint8_t *x,
                   const struct at *a, int zero, uint8_t *to)
{
    const int64_t row = g->window[2] * g->channels;
    int64_t lo[3], hi[3], at[3];

    for (int d = 0; d < 3; d++) {
        taps_inside(g, d, a, &lo[d], &hi[d]);
        at[d] = a->d[d] * g->step[d] - g->pad[d];
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
    memset(to, 0, (size_t)(g->quads * 4 - g->terms));
}

/* I8 values plus 128. */
CPU_CLONES static void make_unsigned(uint8_t *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] ^= 0x80;
}

/* ---- launch -------------------------------------------------------- */

/* Pixels from `first` on of one group. */
static void run_block(const struct job *j, int64_t group, int64_t first,
                      int64_t n, uint8_t *buffer)
{
    const struct state *s = j->s;
    const struct geometry *g = &s->g;
    const bool is_signed = j->p->in[X].dtype == INFER_I8;
    const int64_t nb = s->steps->panel;
    int64_t y_at[BLOCK], r_at[BLOCK];
    struct dot_rows r = {.x = buffer, .step = g->quads * 4, .rows = n};
    struct at a = pixel_at(g, first);

    for (int64_t i = 0; i < n; i++, next_pixel(g, &a)) {
        y_at[i] = place(g->y_image, g->y, &a);
        r_at[i] = place(g->r_image, g->r, &a);
        if (!s->direct)
            gather(g, j->x + a.n * g->x_image + group * g->channels, &a,
                   is_signed ? (uint8_t)j->p->quant.x_zero : zero_of(j->p),
                   buffer + i * r.step);
    }
    if (s->direct) {
        r.step = even_step(g);
        r.x = j->x + first * r.step;
    } else if (is_signed) {
        make_unsigned(buffer, n * r.step);
    }
    r.quads = g->quads;
    r.y_at = y_at;
    r.r_at = r_at;
    for (int64_t p = 0; p < s->panels; p++) {
        const int64_t panel = group * s->panels + p;

        r.w = j->w + panel * nb * g->quads * 4;
        r.offset = j->offset + panel * nb;
        r.k = group * g->outputs + p * nb;
        r.n = g->outputs - p * nb;
        s->steps->rows(&r, &j->finish);
    }
}

static void run_depthwise(const struct job *j, int64_t first, int64_t n)
{
    const struct geometry *g = &j->s->g;
    int64_t tap[MAX_TAPS];
    int number[MAX_TAPS];
    struct dot_pixel p = {.is_signed = j->p->in[X].dtype == INFER_I8,
                          .x_zero = j->p->quant.x_zero,
                          .channels = g->groups,
                          .w = (const int32_t *)(const void *)j->w,
                          .tap = tap,
                          .number = number};
    struct at a = pixel_at(g, first);

    for (int64_t i = 0; i < n; i++, next_pixel(g, &a)) {
        int64_t lo[3], hi[3], at[3];

        for (int d = 0; d < 3; d++) {
            taps_inside(g, d, &a, &lo[d], &hi[d]);
            at[d] = a.d[d] * g->step[d] - g->pad[d];
        }
        p.taps = 0;
        for (int64_t u = lo[0]; u < hi[0]; u++)
            for (int64_t v = lo[1]; v < hi[1]; v++)
                for (int64_t w = lo[2]; w < hi[2]; w++) {
                    tap[p.taps] = (at[0] + u * g->dilation[0]) * g->x[0] +
                                  (at[1] + v * g->dilation[1]) * g->x[1] +
                                  (at[2] + w * g->dilation[2]) * g->x[2];
                    number[p.taps++] =
                        (int)((u * g->window[1] + v) * g->window[2] + w);
                }
        p.x = j->x + a.n * g->x_image;
        p.y_at = place(g->y_image, g->y, &a);
        p.r_at = place(g->r_image, g->r, &a);
        j->s->steps->pixel(&p, &j->finish);
    }
}

/* Scales and bias of all channels, and zeros behind them. */
static void fill_vectors(const struct state *s, const struct kern_problem *p,
                         const struct kern_args *args, float *scale,
                         float *bias)
{
    const int64_t step = quant_of(p)->stride[0], n = s->g.outputs * s->g.groups;
    const float *from = args->in[QUANT_IN], *b = args->in[BIAS];

    memset(scale, 0, (size_t)s->vector * 2 * sizeof(float));
    for (int64_t k = 0; k < n; k++) {
        scale[k] = p->quant.x_scale * from[k * step];
        bias[k] = kern_problem_in(p, BIAS) ? b[k] : 0;
    }
}

static void fill_finish(const struct kern_problem *p,
                        const struct kern_args *args, struct dot_finish *f)
{
    const struct kern_tensor *r = kern_problem_in(p, RESIDUAL);
    struct vector_epilogue bounds;

    vector_epilogue_fill(&bounds, &p->epilogue);
    f->y = args->out[0];
    f->y_type = p->out[0].dtype;
    f->residual = r ? args->in[RESIDUAL] : NULL;
    f->type = r ? r->dtype : INFER_NONE;
    f->act_low = bounds.low;
    f->act_high = bounds.high;
    f->residual_last = p->epilogue.residual_last;
    f->r_scale = p->quant.residual_scale;
    f->r_zero = p->quant.residual_zero;
    if (!quant_is_byte(f->y_type))
        return;
    f->inverse = 1 / p->quant.y_scale;
    f->zero = p->quant.y_zero;
    quant_limits(f->y_type, f->zero, &f->low, &f->high);
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
    const struct geometry *g = &s->g;
    float *scale = args->workspace, *bias = scale + s->vector;
    uint8_t *buffers = (uint8_t *)(bias + s->vector);
    const int64_t blocks = (g->pixels + BLOCK - 1) / BLOCK;
    const int64_t groups = s->depthwise ? 1 : g->groups;
    const int count = cpu_threads(s->threads, g->pixels * g->terms *
                                                  g->outputs / 16 * g->groups);
    struct job j = {s, &e->problem, args->in[X], args->in[W], NULL, {0}};

    (void)err;
    (void)count; /* of use with OpenMP only */
    fill_vectors(s, &e->problem, args, scale, bias);
    fill_finish(&e->problem, args, &j.finish);
    j.finish.scale = scale;
    j.finish.bias = bias;
    j.offset = (const int32_t *)(const void *)(j.w + s->weights);
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < blocks * groups; i++) {
        const int64_t first = i / groups * BLOCK;
        const int64_t rest = g->pixels - first, n = rest < BLOCK ? rest : BLOCK;

        if (s->depthwise)
            run_depthwise(&j, first, n);
        else
            run_block(&j, i % groups, first, n,
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
