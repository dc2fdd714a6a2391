/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dgrad of a strided convolution by phases.  Pixels of dx whose rows and
 * columns have the same remainder modulo the strides see the same filter
 * positions, every stride-th: they are a convolution of dy, stride 1, with
 * those positions flipped.  All phases together take as many products as fprop;
 * dy with zeros between its pixels would take stride_h stride_w times as many.
 *
 * For row h = stride h' + a the first tap is r0 = (a + pad) mod stride, the
 * i-th is r0 + stride i, i < R' = ceil((R - r0) / stride), and dx[h'] = sum
 * over i of dy[h' + (a + pad - r0) / stride - i] w[r0 + stride i].  A phase is
 * a problem of its own with a view of w, run by the repack row into the
 * workspace.  The last kernel interleaves the phases: one thread copies V
 * channels of a pixel.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/rows.h"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

#define THREADS 256

enum { MAX_PHASES = 4 };

struct phase {
    struct kern_problem problem;
    int64_t w_offset; /* elements of w to its element 0 */
};

struct phases_state {
    struct kern_exec exec[MAX_PHASES];
    struct phase phase[MAX_PHASES];
    size_t at[MAX_PHASES]; /* of the result in the workspace */
    size_t inner_at;
};

/* ---- interleaving -------------------------------------------------- */

struct interleave_args {
    int64_t count; /* vectors of dx */
    struct fast_div units, w, h, stride_h, stride_w;
    int high[2], wide[2]; /* extents of the phases, by remainder */
    const void *from[MAX_PHASES];
    void *to;
};

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    interleave_kernel(const __grid_constant__ struct interleave_args a)
{
    launch_wait();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < a.count;
         i += (int64_t)gridDim.x * THREADS) {
        uint32_t unit, w, h, row, column;
        uint32_t n = a.units.divmod((uint32_t)i, &unit);
        n = a.w.divmod(n, &w);
        n = a.h.divmod(n, &h);
        h = a.stride_h.divmod(h, &row);
        w = a.stride_w.divmod(w, &column);
        const T *from = (const T *)a.from[row * a.stride_w.divisor + column];
        const int64_t pixel =
            ((int64_t)n * a.high[row] + h) * a.wide[column] + w;
        store_vec<T, V>(
            (T *)a.to + i * V,
            load_vec<T, V>(from + (pixel * a.units.divisor + unit) * V));
    }
}

/* ---- planning ------------------------------------------------------ */

/* The filter positions of a phase along one axis: the first, their number, and
 * the leading pad. */
struct taps {
    int64_t first, count, begin, extent;
};

static struct taps taps_of(const struct kern_problem *p, int axis,
                           int remainder)
{
    const struct kern_conv *c = &p->attr.conv;
    const int64_t stride = c->stride[axis], at = remainder + c->pad_begin[axis];
    struct taps t;

    t.first = at % stride;
    t.count = (p->in[CONV_W].dim[axis + 2] - t.first + stride - 1) / stride;
    t.begin = t.count - 1 - (at - t.first) / stride;
    t.extent = (p->out[0].dim[axis + 2] - remainder + stride - 1) / stride;
    return t;
}

static void make_phase(const struct kern_problem *p, int row, int column,
                       struct phase *out)
{
    const struct kern_tensor *w = &p->in[CONV_W], *dy = &p->in[CONV_X];
    const struct taps t[2] = {taps_of(p, 0, row), taps_of(p, 1, column)};
    struct kern_problem *q = &out->problem;
    struct kern_tensor *view = &q->in[CONV_W];
    int64_t dim[4] = {dy->dim[0], p->out[0].dim[1], 0, 0};

    *q = *p;
    q->op = KERN_CONV_FPROP;
    *view = *w;
    view->dim[0] = w->dim[1];
    view->dim[1] = w->dim[0];
    view->stride[0] = w->stride[1];
    view->stride[1] = w->stride[0];
    out->w_offset = 0;
    for (int i = 0; i < 2; i++) {
        const int stride = p->attr.conv.stride[i];
        struct kern_conv *c = &q->attr.conv;

        view->dim[i + 2] = t[i].count;
        view->stride[i + 2] = -stride * w->stride[i + 2];
        out->w_offset +=
            (t[i].first + stride * (t[i].count - 1)) * w->stride[i + 2];
        c->stride[i] = 1;
        c->pad_begin[i] = (int)t[i].begin;
        c->pad_end[i] =
            (int)(t[i].extent - dy->dim[i + 2] - t[i].begin + t[i].count - 1);
        dim[i + 2] = t[i].extent;
    }
    q->out[0] = kern_tensor_dense(p->out[0].dtype, 4, dim, KERN_NHWC);
}

/* The repack row for dy's type; supports() refuses other types. */
static const struct kern_row *row_of(enum infer_dtype type, unsigned flags)
{
    return kern_row_at(
        type == INFER_F16    ? KERN_ROW_conv2d_fprop_nhwc_f16_cuda_repack
        : type == INFER_BF16 ? KERN_ROW_conv2d_fprop_nhwc_bf16_cuda_repack
        : flags & KERN_TF32  ? KERN_ROW_conv2d_fprop_nhwc_tf32_cuda_repack
                             : KERN_ROW_conv2d_fprop_nhwc_f32_cuda_repack);
}

static int check(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    const struct kern_tensor *x = &p->in[CONV_X], *w = &p->in[CONV_W];
    bool ok = x->rank == 4 && c->groups == 1 &&
              c->stride[0] * c->stride[1] > 1 && c->stride[0] <= 2 &&
              c->stride[1] <= 2;

    for (int i = 0; ok && i < 2; i++)
        ok = c->dilation[i] == 1 && w->dim[i + 2] >= c->stride[i] &&
             c->pad_begin[i] >= 0 && p->out[0].dim[i + 2] >= c->stride[i];
    if (!ok)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group, strides of 2, no dilation, windows "
                         "no smaller than the stride");
    if (kern_problem_in(p, CONV_BIAS) || kern_problem_in(p, CONV_RESIDUAL) ||
        p->epilogue.act.kind != KERN_IDENTITY)
        return error_set(why, INFER_EUNSUPPORTED,
                         "nothing can be added to what is put together");
    if (!kern_tensor_is_dense(&p->out[0], KERN_NHWC) ||
        p->out[0].dtype != x->dtype || kern_tensor_count(&p->out[0]) < 1 ||
        kern_tensor_count(&p->out[0]) > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "dx is not dense with channels last, of dy's type "
                         "and of 1 to 2^31 elements");
    return 0;
}

/* The number of phases, and the i-th: remainders of rows first. */
static int phases_of(const struct kern_problem *p)
{
    return p->attr.conv.stride[0] * p->attr.conv.stride[1];
}

static void phase_at(const struct kern_problem *p, int i, struct phase *out)
{
    make_phase(p, i / p->attr.conv.stride[1], i % p->attr.conv.stride[1], out);
}

template <unsigned FLAGS>
static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    int rc = check(p, why);

    for (int i = 0; rc == 0 && i < phases_of(p); i++) {
        struct phase one;
        phase_at(p, i, &one);
        rc = kern_row_supports(row_of(p->in[CONV_X].dtype, FLAGS), &one.problem,
                               d, why);
    }
    return rc;
}

template <unsigned FLAGS>
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    double time = 3 + 2 * (double)kern_tensor_span(&p->out[0]) / 3e6;

    for (int i = 0; i < phases_of(p); i++) {
        struct phase one;
        phase_at(p, i, &one);
        time +=
            row_of(p->in[CONV_X].dtype, FLAGS)->fn->estimate(&one.problem, d);
    }
    return time;
}

/* The i-th variant of every phase: as many as the phase with the fewest has. */
template <unsigned FLAGS>
static int variants(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *err)
{
    int fewest = 0;

    for (int i = 0; i < phases_of(p); i++) {
        struct phase one;
        phase_at(p, i, &one);
        const int n = kern_variants(row_of(p->in[CONV_X].dtype, FLAGS),
                                    &one.problem, d, err);
        if (n < 0)
            return n;
        fewest = i == 0 || n < fewest ? n : fewest;
    }
    return fewest;
}

/* ---- preparing ----------------------------------------------------- */

static void release(struct kern_exec *e)
{
    struct phases_state *s = (struct phases_state *)e->state;

    for (int i = 0; i < MAX_PHASES; i++)
        kern_release(&s->exec[i]);
    free(s);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

template <unsigned FLAGS>
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct phases_state *s = (struct phases_state *)calloc(1, sizeof(*s));
    const struct kern_row *row = row_of(e->problem.in[CONV_X].dtype, FLAGS);
    size_t inner = 0;
    int rc = 0;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);
    for (int i = 0; rc == 0 && i < phases_of(&e->problem); i++) {
        struct kern_exec *x = &s->exec[i];

        phase_at(&e->problem, i, &s->phase[i]);
        rc = kern_prepare_variant(row, &s->phase[i].problem, d, e->variant, err,
                                  x);
        s->at[i] = s->inner_at;
        s->inner_at += aligned(kern_tensor_span(&s->phase[i].problem.out[0]));
        inner = rc == 0 && x->workspace > inner ? x->workspace : inner;
    }
    e->state = s;
    if (rc < 0) {
        release(e);
        e->state = NULL;
        return rc;
    }
    snprintf(e->variant_name, sizeof(e->variant_name), "%s",
             s->exec[0].variant_name);
    e->workspace = s->inner_at + inner;
    return 0;
}

/* ---- launching ----------------------------------------------------- */

template <typename T>
static int interleave(const struct kern_exec *e, const struct kern_args *args,
                      struct infer_error *err)
{
    const struct phases_state *s = (const struct phases_state *)e->state;
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *dx = &p->out[0];
    const int wide = 16 / (int)sizeof(T);
    const bool vectors = dx->dim[1] % wide == 0;
    const int v = vectors ? wide : 1;
    struct interleave_args a = {};

    a.count = kern_tensor_count(dx) / v;
    a.units.init((uint32_t)(dx->dim[1] / v));
    a.h.init((uint32_t)dx->dim[2]);
    a.w.init((uint32_t)dx->dim[3]);
    a.stride_h.init((uint32_t)p->attr.conv.stride[0]);
    a.stride_w.init((uint32_t)p->attr.conv.stride[1]);
    for (int i = 0; i < 2; i++) {
        a.high[i] = (int)taps_of(p, 0, i).extent;
        a.wide[i] = (int)taps_of(p, 1, i).extent;
    }
    for (int i = 0; i < phases_of(p); i++)
        a.from[i] = (const char *)args->workspace + s->at[i];
    a.to = args->out[0];
    return launch_chained(vectors ? interleave_kernel<T, wide>
                                  : interleave_kernel<T, 1>,
                          dim3(cuda_grid(a.count, THREADS)), dim3(THREADS), 0,
                          args->stream, a, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct phases_state *s = (const struct phases_state *)e->state;
    const struct kern_tensor *w = &e->problem.in[CONV_W];
    char *base = (char *)args->workspace;
    int rc = 0;

    for (int i = 0; rc == 0 && i < phases_of(&e->problem); i++) {
        struct kern_args one = *args;

        one.in[CONV_W] =
            (const char *)args->in[CONV_W] +
            s->phase[i].w_offset * (int64_t)infer_dtype_size(w->dtype);
        one.out[0] = base + s->at[i];
        one.workspace = base + s->inner_at;
        rc = s->exec[i].row->fn->launch(&s->exec[i], &one, err);
    }
    if (rc < 0)
        return rc;
    /* 16-bit types are copied alike. */
    return e->problem.in[CONV_X].dtype == INFER_F32
               ? interleave<float>(e, args, err)
               : interleave<__half>(e, args, err);
}

#define PHASES_ROW(symbol, row_flags)                                          \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = supports<row_flags>,                                       \
        .estimate = estimate<row_flags>,                                       \
        .variants = variants<row_flags>,                                       \
        .prepare = prepare<row_flags>,                                         \
        .launch = launch,                                                      \
        .release = release,                                                    \
    };

PHASES_ROW(conv2d_dgrad_nhwc_cuda_phases, 0)
PHASES_ROW(conv2d_dgrad_nhwc_tf32_cuda_phases, KERN_TF32)
