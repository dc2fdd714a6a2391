/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1x1 convolution of channels-last tensors as a matrix product: pixels x C
 * times C x K.
 *
 * It is as fast as oneDNN's row and stands after it in the table.  It also
 * takes strided pixels, which oneDNN's row does not: results that are a slice
 * of a concatenation.
 *
 * Pixels are handled in runs of equal distance (all of them, or a row of the
 * image where a stride or a gap separates rows).  Threads divide the pixels or,
 * where those are few, the output channels.
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

/* in[] of a convolution */
enum { X, W, BIAS, RESIDUAL };

/* Fewest pixels of a block, for which all of U is read once.  A block's input
 * is read once a panel, from the L2 cache, of which half is for it.  The
 * cache's size where the system does not say it: L2_BYTES. */
#define FEW_PIXELS 96
#define L2_BYTES   (1 << 20)
/* Blocks of single panels for each thread at least, where pixels allow it. */
#define EACH 4

struct state {
    const struct vector_steps *steps;
    int threads;
    int64_t panels;
    /* Runs: count of them, pixels in one; where run i starts is found from
     * its image and row, which `merged` runs leave at 0. */
    int64_t runs, length;
    bool merged;
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

/* ---- preparation --------------------------------------------------- */

/* Output pixels of all images follow one another at one distance. */
static bool even(const struct kern_tensor *t, const struct kern_tensor *y,
                 const int stride[2])
{
    const int64_t step = t->stride[3] * stride[1];

    return (y->dim[2] == 1 || t->stride[2] * stride[0] == y->dim[3] * step) &&
           (y->dim[0] == 1 || t->stride[0] == y->dim[2] * y->dim[3] * step);
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

/* Pixels of equal blocks that keep to half of the L2 cache and give every
 * thread work. */
static int64_t block_of(const struct state *s, int64_t channels)
{
    const int64_t row = channels * (int64_t)sizeof(float);
    const int64_t items =
        s->threads > 1 && s->panels < EACH * s->threads && s->panels > 0
            ? divide_up(EACH * s->threads, s->panels)
            : 1;
    const int64_t each = s->runs > 0 ? divide_up(items, s->runs) : 1;
    int64_t most = row > 0 ? l2_bytes() / 2 / row : 0;

    if (most > divide_up(s->length, each))
        most = divide_up(s->length, each);
    if (most < FEW_PIXELS)
        most = FEW_PIXELS;
    const int64_t blocks = divide_up(s->length, most);
    return blocks > 0 ? divide_up(s->length, blocks) : 1;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    static const int one[2] = {1, 1};
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0];
    struct state *s = calloc(1, sizeof *s);
    size_t bytes;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->steps = vector_steps();
    s->threads = d->threads;
    s->panels = (y->dim[1] + s->steps->panel - 1) / s->steps->panel;
    s->merged =
        even(&p->in[X], y, p->attr.conv.stride) && even(y, y, one) &&
        (!kern_problem_in(p, RESIDUAL) || even(&p->in[RESIDUAL], y, one));
    s->length = y->dim[3];
    s->runs = y->dim[0] * y->dim[2];
    if (s->merged) {
        s->length *= s->runs;
        s->runs = 1;
    }
    s->block = block_of(s, p->in[X].dim[1]);
    if (!checked_mul((size_t)(s->panels * s->steps->panel),
                     (size_t)p->in[X].dim[1] * sizeof(float), &bytes)) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: too large", e->row->name);
    }
    e->packed[W] = bytes;
    e->state = s;
    return 0;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct state *s = e->state;
    const int64_t channels = e->problem.in[X].dim[1];
    const int64_t outputs = e->problem.out[0].dim[1], panel = s->steps->panel;
    const float *w = src;
    float *u = dst;
    int64_t k, c;

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    memset(u, 0, e->packed[W]);
    for (k = 0; k < outputs; k++)
        for (c = 0; c < channels; c++)
            u[(k / panel * channels + c) * panel + k % panel] =
                w[k * channels + c];
    return 0;
}

/* ---- launch -------------------------------------------------------- */

static struct vector_rows locate(const struct kern_problem *p,
                                 const struct kern_args *args, int64_t run,
                                 int64_t first)
{
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];
    const struct kern_tensor *r = &p->in[RESIDUAL];
    const int64_t n = run / y->dim[2], h = run % y->dim[2];
    struct vector_rows rows = {.x_step = x->stride[3] * p->attr.conv.stride[1],
                               .y_step = y->stride[3]};

    rows.x = (const float *)args->in[X] + n * x->stride[0] +
             h * p->attr.conv.stride[0] * x->stride[2] + first * rows.x_step;
    rows.y = (float *)args->out[0] + n * y->stride[0] + h * y->stride[2] +
             first * rows.y_step;
    if (kern_problem_in(p, RESIDUAL)) {
        rows.r_step = r->stride[3];
        rows.residual = (const float *)args->in[RESIDUAL] + n * r->stride[0] +
                        h * r->stride[2] + first * rows.r_step;
    }
    return rows;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct state *s = e->state;
    const struct kern_problem *p = &e->problem;
    const int64_t channels = p->in[X].dim[1], outputs = p->out[0].dim[1];
    const int64_t blocks = (s->length + s->block - 1) / s->block * s->runs;
    /* Few blocks: each is divided among threads by panels. */
    const int64_t wanted = blocks >= 4 * s->threads ? 1 : s->threads;
    const int64_t parts = wanted < s->panels ? wanted : s->panels;
    const int count =
        cpu_threads(s->threads, s->runs * s->length * channels * outputs / 16);
    struct vector_epilogue epilogue;
    int64_t i;

    (void)err;
    (void)count; /* of use with OpenMP only */
    vector_epilogue_fill(&epilogue, &p->epilogue);
    epilogue.bias = kern_problem_in(p, BIAS) ? args->in[BIAS] : NULL;
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (i = 0; i < blocks * parts; i++) {
        const int64_t block = i / parts, run = block % s->runs;
        const int64_t first = block / s->runs * s->block;
        const int64_t rest = s->length - first;
        const struct vector_rows rows = locate(p, args, run, first);
        int64_t from, to;

        cpu_share(s->panels, (int)(i % parts), (int)parts, &from, &to);
        s->steps->rows(&rows, rest < s->block ? rest : s->block, &epilogue,
                       args->in[W], channels, outputs, from, to);
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
