/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1x1 convolution of channels-last tensors, and dense layers of any number of
 * rows, as a matrix product: pixels x C times C x K.
 *
 * A panel of U stays in the caches for all pixels of a block, whose tiles fetch
 * the next panel meanwhile (vector_steps.h): weights are read from memory once
 * a run, and no tile waits for them.
 *
 * Pixels are handled in runs of equal distance: all of them, which a stride
 * has gathered first, or a row of the image where a gap separates rows of the
 * result.  Threads divide the pixels or, where those are few, the output
 * channels.
 */
#include "config.h"

#include "kernels/cpu/conv/vector.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"

/* in[] of a convolution and of a dense layer */
enum { X, W, BIAS, RESIDUAL };

/* Fewest pixels of a block, for which all of U is read once. */
#define FEW_PIXELS 96
/* Bytes of the L2 cache where the system does not say it. */
#define L2_BYTES (1 << 20)
/* Blocks of single panels for each thread at least, where pixels allow it. */
#define EACH 4

/* Floats from an image, a row and a pixel of a tensor to the next. */
struct steps {
    int64_t image, row, pixel;
};

struct state {
    const struct vector_steps *steps;
    int threads;
    int64_t channels, outputs, panels;
    /* Runs: count of them, pixels in one; run i is a row of an image of
     * `height` rows, or all pixels. */
    int64_t runs, length, height;
    struct steps x, y, r;
    /* Pixels are gathered from rows of `height` and `width` first, as a stride
     * leaves gaps between rows: x is where they lie then. */
    bool gathers;
    struct steps apart;
    int64_t width, rows;
    int64_t block; /* pixels of a run that are computed at once */
};

/* ---- which problems ------------------------------------------------ */

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_conv *a = &p->attr.conv;
    const struct kern_tensor *x = &p->in[X], *w = &p->in[W];

    (void)d;
    if (x->rank != 4 || w->dim[2] != 1 || w->dim[3] != 1 || a->groups != 1 ||
        a->pad_begin[0] != 0 || a->pad_begin[1] != 0 || a->pad_end[0] > 0 ||
        a->pad_end[1] > 0)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1x1 windows without padding or groups");
    return vector_conv_supports(p, why);
}

static int dense_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[W];
    int i;

    (void)d;
    if (!vector_steps())
        return error_set(why, INFER_EUNSUPPORTED, "needs AVX2 or AVX-512");
    for (i = 0; i < p->n_in; i++)
        if (!cpu_is_dense(kern_problem_in(p, i), KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes dense row-major F32");
    if (!cpu_is_dense(&p->out[0], KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED, "gives dense row-major F32");
    if (!(p->constant_in & 1u << W) || w->rank != 2 || w->dim[1] < 1)
        return error_set(why, INFER_EUNSUPPORTED, "takes constant weights");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    return 0;
}

/* ---- preparation --------------------------------------------------- */

/* Output pixels of all images follow one another at one distance. */
static bool even(const struct steps *t, const struct kern_tensor *y)
{
    return (y->dim[2] == 1 || t->row == y->dim[3] * t->pixel) &&
           (y->dim[0] == 1 || t->image == y->dim[2] * y->dim[3] * t->pixel);
}

static struct steps steps_of(const struct kern_tensor *t, const int stride[2])
{
    return (struct steps){t->stride[0], t->stride[2] * stride[0],
                          t->stride[3] * stride[1]};
}

static void fill_conv(const struct kern_problem *p, struct state *s)
{
    static const int one[2] = {1, 1};
    const struct kern_tensor *y = &p->out[0];
    const struct kern_tensor *r = kern_problem_in(p, RESIDUAL);

    s->channels = p->in[X].dim[1];
    s->outputs = y->dim[1];
    s->x = steps_of(&p->in[X], p->attr.conv.stride);
    s->y = steps_of(y, one);
    if (r)
        s->r = steps_of(r, one);
    s->height = y->dim[2];
    s->length = y->dim[3];
    s->runs = y->dim[0] * y->dim[2];
    if (s->runs * s->length == 0)
        return;
    if (!even(&s->y, y) || (r && !even(&s->r, y)))
        return;
    if (!even(&s->x, y)) {
        s->gathers = true;
        s->apart = s->x;
        s->width = s->length;
        s->rows = s->height;
        s->x = (struct steps){0, 0, s->channels};
    }
    s->length *= s->runs;
    s->runs = s->height = 1;
}

static void fill_dense(const struct kern_problem *p, struct state *s)
{
    s->channels = p->in[W].dim[1];
    s->outputs = p->in[W].dim[0];
    s->x.pixel = s->channels;
    s->y.pixel = s->r.pixel = s->outputs;
    s->length = kern_tensor_count(&p->in[X]) / s->channels;
    s->runs = s->height = 1;
}

static int64_t l2_bytes(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
    const long n = sysconf(_SC_LEVEL2_CACHE_SIZE);

    if (n > 0)
        return n;
#endif
    return L2_BYTES;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Pixels of equal blocks that give every thread work.  Where half of the L2
 * cache holds U, which every block reads, input and output of a block take a
 * quarter of it; else a block is as large as its input fits half of it, which
 * every panel reads. */
static int64_t block_of(const struct state *s)
{
    const int64_t l2 = l2_bytes(), size = (int64_t)sizeof(float);
    const int64_t u = s->panels * s->steps->panel * s->channels * size;
    const int64_t items =
        s->threads > 1 && s->panels < EACH * s->threads && s->panels > 0
            ? divide_up(EACH * s->threads, s->panels)
            : 1;
    const int64_t each = s->runs > 0 ? divide_up(items, s->runs) : 1;
    int64_t most = u <= l2 / 2 ? l2 / 4 / (s->channels + s->outputs + 1) / size
                               : l2 / 2 / s->channels / size;

    if (most > divide_up(s->length, each))
        most = divide_up(s->length, each);
    if (most < FEW_PIXELS)
        most = FEW_PIXELS;
    const int64_t blocks = divide_up(s->length, most);
    return blocks > 0 ? divide_up(s->length, blocks) : 1;
}

static int prepare_filled(struct kern_exec *e, const struct kern_device *d,
                          void (*fill)(const struct kern_problem *p,
                                       struct state *s),
                          struct infer_error *err)
{
    struct state *s = calloc(1, sizeof *s);
    size_t bytes;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->steps = vector_steps();
    s->threads = d->threads;
    fill(&e->problem, s);
    s->panels = (s->outputs + s->steps->panel - 1) / s->steps->panel;
    if (!checked_mul((size_t)(s->panels * s->steps->panel),
                     (size_t)s->channels * sizeof(float), &bytes) ||
        !checked_mul((size_t)(s->gathers ? s->length : 0),
                     (size_t)s->channels * sizeof(float), &e->workspace)) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: too large", e->row->name);
    }
    s->block = block_of(s);
    e->packed[W] = bytes;
    e->state = s;
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    return prepare_filled(e, d, fill_conv, err);
}

static int dense_prepare(struct kern_exec *e, const struct kern_device *d,
                         struct infer_error *err)
{
    return prepare_filled(e, d, fill_dense, err);
}

/* Inputs of all outputs of a panel that are packed at once: what is read
 * of a row of W stays in the L1 cache until all of it is used. */
#define PACK_INPUTS 16

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;
    const int64_t channels = s->channels, panel = s->steps->panel;
    const float *w = src;
    float *u = dst;

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (int64_t p = 0; p < s->panels; p++) {
        const int64_t rest = s->outputs - p * panel;
        const int64_t n = rest < panel ? rest : panel;
        float *to = u + p * panel * channels;

        memset(to, 0, (size_t)(panel * channels) * sizeof *to);
        for (int64_t first = 0; first < channels; first += PACK_INPUTS)
            for (int64_t k = 0; k < n; k++)
                for (int64_t c = first; c < first + PACK_INPUTS && c < channels;
                     c++)
                    to[c * panel + k] = w[(p * panel + k) * channels + c];
    }
    return 0;
}

/* ---- launch -------------------------------------------------------- */

static int64_t place(const struct state *s, const struct steps *t, int64_t run,
                     int64_t first)
{
    return run / s->height * t->image + run % s->height * t->row +
           first * t->pixel;
}

/* Pixels of all rows, one after the other. */
static void gather(const struct state *s, const float *x, float *to, int count)
{
    const int64_t rows = s->length / s->width;
    const size_t bytes = (size_t)s->channels * sizeof *to;

    (void)count; /* of use with OpenMP only */
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < rows; i++) {
        const float *row =
            x + i / s->rows * s->apart.image + i % s->rows * s->apart.row;

        for (int64_t j = 0; j < s->width; j++)
            memcpy(to + (i * s->width + j) * s->channels,
                   row + j * s->apart.pixel, bytes);
    }
}

static struct vector_rows locate(const struct state *s,
                                 const struct kern_args *args, bool residual,
                                 int64_t run, int64_t first)
{
    struct vector_rows rows = {
        .x_step = s->x.pixel, .y_step = s->y.pixel, .r_step = s->r.pixel};

    rows.x = (const float *)(s->gathers ? args->workspace : args->in[X]) +
             place(s, &s->x, run, first);
    rows.y = (float *)args->out[0] + place(s, &s->y, run, first);
    if (residual)
        rows.residual =
            (const float *)args->in[RESIDUAL] + place(s, &s->r, run, first);
    return rows;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct kern_problem *p = &e->problem;
    const bool residual = kern_problem_in(p, RESIDUAL) != NULL;
    const int64_t blocks = (s->length + s->block - 1) / s->block * s->runs;
    /* Few blocks: each is divided among threads by panels. */
    const int64_t wanted = blocks >= 4 * s->threads ? 1 : s->threads;
    const int64_t parts = wanted < s->panels ? wanted : s->panels;
    const int count = cpu_threads(
        s->threads, s->runs * s->length * s->channels * s->outputs / 16);
    struct vector_epilogue epilogue;
    int64_t i;

    (void)err;
    (void)count; /* of use with OpenMP only */
    vector_epilogue_fill(&epilogue, &p->epilogue);
    epilogue.bias = kern_problem_in(p, BIAS) ? args->in[BIAS] : NULL;
    if (s->gathers)
        gather(s, args->in[X], args->workspace, count);
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (i = 0; i < blocks * parts; i++) {
        const int64_t block = i / parts, run = block % s->runs;
        const int64_t first = block / s->runs * s->block;
        const int64_t rest = s->length - first;
        const struct vector_rows rows = locate(s, args, residual, run, first);
        int64_t from, to;

        cpu_share(s->panels, (int)(i % parts), (int)parts, &from, &to);
        s->steps->rows(&rows, rest < s->block ? rest : s->block, &epilogue,
                       args->in[W], s->channels, s->outputs, from, to);
    }
    return 0;
}

KERN_FUNCTIONS(conv2d_fprop_nhwc_f32_cpu_pointwise) = {
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = cpu_release,
};

KERN_FUNCTIONS(dense_fprop_f32_cpu_pointwise) = {
    .supports = dense_supports,
    .prepare = dense_prepare,
    .pack = pack,
    .launch = launch,
    .release = cpu_release,
};
