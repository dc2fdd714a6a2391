/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, dense layers and pools on F8E4M3 (kernels/quant/quant.h) by a
 * row of F32: the input becomes floats in the workspace, which that row turns
 * into sums, or into the pool's values; these get what follows them and become
 * 8 bits again.  Weights become floats when they are packed.
 *
 * Of the CPU's rows of F32 the one of the lowest estimate is taken, else the
 * first of the table.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/base/error.h"
#include "kernels/cpu/bytes.h"
#include "kernels/quant/act.h"
#include "kernels/rows.h"

enum { X, W, BIAS, RESIDUAL };

/* Bytes of the workspace: floats of x, then of y, then the other row's. */
struct floats {
    struct kern_exec inner;
    size_t y_at, inner_at;
    int threads;
};

/* ---- the row of F32 ------------------------------------------------ */

static enum kern_layout layout_of(const struct kern_problem *p)
{
    return p->op == KERN_DENSE_FPROP ? KERN_NCHW : KERN_NHWC;
}

static void make_inner(const struct kern_problem *p, struct kern_problem *out)
{
    const enum kern_layout layout = layout_of(p);

    *out = *p;
    memset(&out->quant, 0, sizeof out->quant);
    out->in[X] =
        kern_tensor_dense(INFER_F32, p->in[X].rank, p->in[X].dim, layout);
    out->out[0] =
        kern_tensor_dense(INFER_F32, p->out[0].rank, p->out[0].dim, layout);
    if (p->op == KERN_POOL_FPROP)
        return;
    out->in[W].dtype = INFER_F32;
    memset(&out->in[BIAS], 0, (KERN_MAX_IN - BIAS) * sizeof out->in[0]);
    out->n_in = 2;
    out->constant_in = 1u << W;
    out->epilogue = (struct kern_epilogue){.act = {.kind = KERN_IDENTITY}};
}

static const struct kern_row *find_row(const struct kern_problem *inner,
                                       const struct kern_device *d)
{
    const struct kern_row *found = NULL;
    double least = INFINITY;

    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *r = kern_row_at(i);

        if (r->op != inner->op || r->dtype != INFER_F32 ||
            (r->backend != INFER_BACKEND_CPU &&
             r->backend != INFER_BACKEND_ONEDNN) ||
            (r->flags & (KERN_INEXACT | KERN_PRODUCT_TABLE)) ||
            kern_row_supports(r, inner, d, NULL) < 0)
            continue;
        const double us =
            r->fn->estimate ? r->fn->estimate(inner, d) : INFINITY;
        if (!found || us < least) {
            found = r;
            least = us;
        }
    }
    return found;
}

/* ---- limits -------------------------------------------------------- */

static bool is_known(const struct kern_problem *p, const struct kern_tensor *t)
{
    return !t || (bytes_known(t) && kern_tensor_is_dense(t, layout_of(p)));
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const bool pool = p->op == KERN_POOL_FPROP;
    const struct kern_tensor *b = pool ? NULL : kern_problem_in(p, BIAS);
    struct kern_problem inner;
    float low, high;

    if (!quant_of(p) && !quant_is_scaled(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes F8_E4M3 with scales");
    if (!pool && (!(p->constant_in & 1u << W) ||
                  !kern_tensor_is_dense(&p->in[W], KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes constant dense weights");
    if (!is_known(p, &p->in[X]) || !is_known(p, &p->out[0]) ||
        (!pool && !is_known(p, kern_problem_in(p, RESIDUAL))) ||
        (b && !kern_tensor_is_dense(b, KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes and gives dense tensors of F8_E4M3 and F32");
    if (!cpu_act_bounds(&p->epilogue.act, &low, &high) &&
        (pool || !quant_is_smooth(p->epilogue.act.kind)))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this activation");
    make_inner(p, &inner);
    if (!find_row(&inner, d))
        return error_set(why, INFER_EUNSUPPORTED, "no row of F32 computes it");
    return 0;
}

/* ---- preparing ----------------------------------------------------- */

static size_t whole_lines(int64_t elements)
{
    return ((size_t)elements * sizeof(float) + 63) / 64 * 64;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int64_t outputs = kern_tensor_count(&p->out[0]);
    struct floats *f = calloc(1, sizeof *f);
    struct kern_problem inner;
    int rc;

    if (!f)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    make_inner(p, &inner);
    rc = kern_prepare(find_row(&inner, d), &inner, d, err, &f->inner);
    if (rc < 0) {
        free(f);
        return rc;
    }
    f->y_at = whole_lines(kern_tensor_count(&p->in[X]));
    f->inner_at = f->y_at + whole_lines(outputs);
    f->threads = d->threads;
    e->state = f;
    e->workspace = f->inner_at + f->inner.workspace;
    if (p->op != KERN_POOL_FPROP)
        e->packed[W] = f->inner.packed[W]
                           ? f->inner.packed[W]
                           : whole_lines(kern_tensor_count(&p->in[W]));
    return 0;
}

static void release(struct kern_exec *e)
{
    struct floats *f = e->state;

    if (f)
        kern_release(&f->inner);
    free(f);
    e->state = NULL;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    const struct floats *f = e->state;
    const size_t n = (size_t)kern_tensor_count(&e->problem.in[W]);
    float *values;
    int rc;

    if (i != W)
        return error_set(err, INFER_EARGUMENT, "input %d is not packed", i);
    if (!f->inner.packed[W]) {
        memset(dst, 0, e->packed[W]);
        scalar_convert(INFER_F8E4M3, src, INFER_F32, dst, n);
        return 0;
    }
    values = malloc(n * sizeof *values + 1);
    if (!values)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    scalar_convert(INFER_F8E4M3, src, INFER_F32, values, n);
    rc = f->inner.row->fn->pack(&f->inner, W, values, dst, err);
    free(values);
    return rc;
}

/* ---- launch -------------------------------------------------------- */

/* Sums, or a pool's values, of outputs [from, to) as outputs. */
struct finish {
    const struct kern_problem *p;
    const struct kern_args *args;
    const float *sum;
    int64_t channels;
    float low, high;
    struct bytes_scale y, r; /* their scales are applied by hand */
};

CPU_CLONES static void scale_sums(const float *restrict sum,
                                  const float *restrict scale, int64_t step,
                                  float x_scale, const float *restrict bias,
                                  float *restrict v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = fmaf(sum[i], x_scale * scale[i * step], bias ? bias[i] : 0);
}

CPU_CLONES static void add_residual(const float *restrict r, float scale,
                                    float *restrict v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = fmaf(r[i], scale, v[i]);
}

CPU_CLONES static void limit(float low, float high, float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float f = v[i] < low ? low : v[i];

        v[i] = f > high ? high : f;
    }
}

CPU_CLONES static void multiply(float factor, float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        v[i] *= factor;
}

/* The residual of n outputs from one on, if there is one. */
static void add(const struct finish *f, int64_t at, float *v, int64_t n)
{
    float r[BYTES_RUN];

    if (f->r.dtype == INFER_NONE)
        return;
    bytes_load(&f->r, bytes_at(f->args->in[RESIDUAL], f->r.dtype, at), 1, r, n);
    add_residual(r, f->r.dtype == INFER_F32 ? 1 : f->p->quant.residual_scale, v,
                 n);
}

/* n outputs from one on, of one pixel: channels from k on. */
static void finish_part(const struct finish *f, int64_t at, int64_t k,
                        int64_t n)
{
    const struct kern_problem *p = f->p;
    const int64_t step = quant_of(p)->stride[0];
    const float *bias =
        kern_problem_in(p, BIAS) ? (const float *)f->args->in[BIAS] + k : NULL;
    float v[BYTES_RUN];

    scale_sums(f->sum + at, (const float *)f->args->in[QUANT_IN] + k * step,
               step, p->quant.x_scale, bias, v, n);
    if (!p->epilogue.residual_last)
        add(f, at, v, n);
    limit(f->low, f->high, v, n);
    if (quant_is_smooth(p->epilogue.act.kind))
        cpu_quant_act(&p->epilogue.act, v, n);
    if (p->epilogue.residual_last)
        add(f, at, v, n);
    if (f->y.dtype != INFER_F32)
        multiply(1 / p->quant.y_scale, v, n);
    bytes_store(&f->y, v, bytes_at(f->args->out[0], f->y.dtype, at), 1, n);
}

static void finish_pixel(const struct finish *f, int64_t pixel)
{
    for (int64_t k = 0; k < f->channels; k += BYTES_RUN)
        finish_part(f, pixel * f->channels + k, k,
                    f->channels - k < BYTES_RUN ? f->channels - k : BYTES_RUN);
}

/* Floats of n dense elements, or the other way round. */
static void convert(const struct bytes_scale *s, const void *x, void *y,
                    bool store, int64_t n, int most)
{
    const int threads = cpu_threads(most, n);

    (void)threads; /* of use with OpenMP only */
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < n; i += BYTES_RUN) {
        const int64_t m = n - i < BYTES_RUN ? n - i : BYTES_RUN;

        if (store)
            bytes_store(s, (const float *)x + i, bytes_at(y, s->dtype, i), 1,
                        m);
        else
            bytes_load(s, bytes_at(x, s->dtype, i), 1, (float *)y + i, m);
    }
}

static void finish_layer(const struct kern_exec *e,
                         const struct kern_args *args, const float *sum)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0], *r = kern_problem_in(p, RESIDUAL);
    const int channel = p->op == KERN_DENSE_FPROP ? y->rank - 1 : 1;
    struct finish f = {.p = p,
                       .args = args,
                       .sum = sum,
                       .channels = y->dim[channel],
                       .y = {y->dtype, 1, 0},
                       .r = {r ? r->dtype : INFER_NONE, 1, 0}};
    const int64_t pixels = kern_tensor_count(y) / f.channels;
    const int threads = cpu_threads(((const struct floats *)e->state)->threads,
                                    kern_tensor_count(y));

    (void)cpu_act_bounds(&p->epilogue.act, &f.low, &f.high);
    (void)threads; /* of use with OpenMP only */
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < pixels; i++)
        finish_pixel(&f, i);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct floats *f = e->state;
    const struct kern_tensor *x = &p->in[X], *y = &p->out[0];
    const bool pool = p->op == KERN_POOL_FPROP;
    const struct bytes_scale from = {x->dtype, pool ? p->quant.x_scale : 1, 0};
    const struct bytes_scale to = {y->dtype, p->quant.y_scale, 0};
    unsigned char *at = args->workspace;
    struct kern_args inner = {.stream = args->stream};
    int rc;

    if (kern_tensor_count(y) == 0)
        return 0;
    convert(&from, args->in[X], at, false, kern_tensor_count(x), f->threads);
    inner.in[X] = at;
    inner.in[W] = pool ? NULL : args->in[W];
    inner.out[0] = at + f->y_at;
    inner.workspace = at + f->inner_at;
    rc = f->inner.row->fn->launch(&f->inner, &inner, err);
    if (rc < 0)
        return rc;
    if (pool)
        convert(&to, at + f->y_at, args->out[0], true, kern_tensor_count(y),
                f->threads);
    else
        finish_layer(e, args, (const float *)(const void *)(at + f->y_at));
    return 0;
}

KERN_FUNCTIONS(f8e4m3_cpu_floats) = {
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .launch = launch,
    .release = release,
};
