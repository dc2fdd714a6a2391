/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of group and instance normalisation, channels last.
 *
 * An item of work is one image.  Sums are kept for each channel in double
 * precision while pixels stream by: of x, then of its squares about the
 * group's mean, then of h = dy scale and h xn; a fourth pass makes
 *     dx = inverse (h - mean h - xn mean(h xn)) = a dy - b xn - c,
 * with a, b and c one per channel.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { DY, X, SCALE, RESIDUAL };
enum { DX, DSCALE };

/* Vectors of a thread in the workspace: two of doubles, six of floats. */
#define VECTOR_BYTES (2 * sizeof(double) + 6 * sizeof(float))

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!cpu_is_dense(&p->in[DY], KERN_NHWC) ||
        !cpu_is_dense(&p->in[X], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NHWC) ||
        !cpu_is_dense(&p->out[DX], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_out(p, DSCALE), KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense channels-last F32 tensors");
    if (!cpu_is_dense(kern_problem_in(p, SCALE), KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED, "takes a dense F32 scale");
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const size_t channels = ((size_t)e->problem.in[X].dim[1] + 15) / 16 * 16;

    if (!checked_mul(channels * VECTOR_BYTES, (size_t)d->threads,
                     &e->workspace))
        return error_set(err, INFER_EMEMORY, "%s: workspace overflows",
                         e->row->name);
    return cpu_prepare(e, d, err);
}

/* One image. */
struct image {
    const struct kern_norm *norm;
    const float *dy, *x, *scale, *residual;
    float *dx, *dscale;
    int64_t channels, pixels;
    double *sum, *other;
    float *mean, *inverse, *a, *b, *c, *ones;
};

/* ---- sums ---------------------------------------------------------- */

CPU_CLONES static void add_pixel(const float *x, double *sum, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += (double)x[i];
}

CPU_CLONES static void add_squares(const float *x, const float *mean,
                                   double *sum, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += (double)((x[i] - mean[i]) * (x[i] - mean[i]));
}

/* Of h and h xn. */
CPU_CLONES static void add_products(const struct image *m, const float *dy,
                                    const float *x)
{
    const float *scale = m->scale ? m->scale : m->ones, *mean = m->mean;
    const float *inverse = m->inverse;
    double *sum = m->sum, *other = m->other;

#pragma omp simd
    for (int64_t i = 0; i < m->channels; i++) {
        const float h = dy[i] * scale[i];

        sum[i] += (double)h;
        other[i] += (double)(h * ((x[i] - mean[i]) * inverse[i]));
    }
}

/* The mean over the group of channel `first` of what is in sum[]. */
static double group_mean(const struct image *m, const double *sum,
                         int64_t first)
{
    const int64_t n = m->channels / m->norm->groups;
    double total = 0;

    for (int64_t i = 0; i < n; i++)
        total += sum[first + i];
    return total / ((double)n * (double)m->pixels);
}

static void measure(const struct image *m)
{
    const int64_t n = m->channels / m->norm->groups;

    memset(m->sum, 0, (size_t)m->channels * sizeof(*m->sum));
    for (int64_t p = 0; p < m->pixels; p++)
        add_pixel(m->x + p * m->channels, m->sum, m->channels);
    for (int64_t c = 0; c < m->channels; c++)
        m->mean[c] =
            m->norm->rms ? 0.0f : (float)group_mean(m, m->sum, c / n * n);
    memset(m->sum, 0, (size_t)m->channels * sizeof(*m->sum));
    for (int64_t p = 0; p < m->pixels; p++)
        add_squares(m->x + p * m->channels, m->mean, m->sum, m->channels);
    for (int64_t c = 0; c < m->channels; c++)
        m->inverse[c] = (float)(1 / sqrt(group_mean(m, m->sum, c / n * n) +
                                         (double)m->norm->epsilon));
}

/* a, b and c from the means of h and h xn. */
static void fill_input_scale(const struct image *m)
{
    const int64_t n = m->channels / m->norm->groups;

    memset(m->sum, 0, (size_t)m->channels * sizeof(*m->sum));
    memset(m->other, 0, (size_t)m->channels * sizeof(*m->other));
    for (int64_t p = 0; p < m->pixels; p++)
        add_products(m, m->dy + p * m->channels, m->x + p * m->channels);
    for (int64_t c = 0; c < m->channels; c++) {
        const double h = m->norm->rms ? 0 : group_mean(m, m->sum, c / n * n);
        const double h_xn = group_mean(m, m->other, c / n * n);

        m->a[c] = m->inverse[c] * (m->scale ? m->scale[c] : 1.0f);
        m->b[c] = (float)((double)m->inverse[c] * h_xn);
        m->c[c] = (float)((double)m->inverse[c] * h);
    }
}

/* ---- result -------------------------------------------------------- */

/* dscale first: dx may lie where the residual does. */
CPU_CLONES static void store_pixel(const struct image *m, int64_t at)
{
    const float *dy = m->dy + at, *x = m->x + at;
    const float *residual = m->residual ? m->residual + at : NULL;
    float *dx = m->dx + at, *dscale = m->dscale ? m->dscale + at : NULL;

    if (dscale)
#pragma omp simd
        for (int64_t i = 0; i < m->channels; i++)
            dscale[i] = dy[i] * ((x[i] - m->mean[i]) * m->inverse[i]);
#pragma omp simd
    for (int64_t i = 0; i < m->channels; i++) {
        const float xn = (x[i] - m->mean[i]) * m->inverse[i];

        dx[i] = m->a[i] * dy[i] - (m->b[i] * xn + m->c[i]) +
                (residual ? residual[i] : 0.0f);
    }
}

static void run_image(const struct image *m)
{
    measure(m);
    for (int64_t c = 0; c < m->channels; c++)
        m->ones[c] = 1.0f;
    fill_input_scale(m);
    for (int64_t p = 0; p < m->pixels; p++)
        store_pixel(m, p * m->channels);
}

static size_t thread_number(void)
{
#ifdef _OPENMP
    return (size_t)omp_get_thread_num();
#else
    return 0;
#endif
}

static struct image image_of(const struct kern_exec *e,
                             const struct kern_args *args, int64_t number)
{
    const struct kern_problem *p = &e->problem;
    const int64_t channels = p->in[X].dim[1];
    const int64_t each = kern_tensor_count(&p->in[X]) / p->in[X].dim[0];
    const size_t wide = ((size_t)channels + 15) / 16 * 16;
    double *memory = (double *)((char *)args->workspace +
                                thread_number() * wide * VECTOR_BYTES);
    float *floats = (float *)(memory + 2 * wide);
    const int64_t at = number * each;
    const struct image m = {
        .norm = &p->attr.norm,
        .dy = (const float *)args->in[DY] + at,
        .x = (const float *)args->in[X] + at,
        .scale = kern_problem_in(p, SCALE) ? args->in[SCALE] : NULL,
        .residual = kern_problem_in(p, RESIDUAL)
                        ? (const float *)args->in[RESIDUAL] + at
                        : NULL,
        .dx = (float *)args->out[DX] + at,
        .dscale = kern_problem_out(p, DSCALE) ? (float *)args->out[DSCALE] + at
                                              : NULL,
        .channels = channels,
        .pixels = each / channels,
        .sum = memory,
        .other = memory + wide,
        .mean = floats,
        .inverse = floats + wide,
        .a = floats + 2 * wide,
        .b = floats + 3 * wide,
        .c = floats + 4 * wide,
        .ones = floats + 5 * wide};

    return m;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_tensor *x = &e->problem.in[X];
    const int64_t count = kern_tensor_count(x);
    const int threads = cpu_threads(cpu_threads_of(e), 4 * count);
    int64_t i;

    (void)err;
    (void)threads; /* of use with OpenMP only */
    if (count == 0)
        return 0;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (i = 0; i < x->dim[0]; i++) {
        const struct image m = image_of(e, args, i);

        run_image(&m);
    }
    return 0;
}

KERN_FUNCTIONS(group_norm_dgrad_nhwc_f32_cpu_pixels) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cpu_release,
};
