/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of layer and RMS normalisation of dense row-major tensors, row by
 * row.  With xn = (x - mean) inverse and h = dy scale,
 *     dx = inverse (h - mean h - xn mean(h xn)),
 * where RMS norm has no mean h.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { DY, X, SCALE, RESIDUAL };
enum { DX, DSCALE };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    for (int i = 0; i < p->n_in; i++)
        if (!cpu_is_dense(kern_problem_in(p, i), KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED,
                             "takes dense row-major F32 tensors");
    for (int i = 0; i < p->n_out; i++)
        if (!cpu_is_dense(kern_problem_out(p, i), KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED,
                             "makes dense row-major F32 tensors");
    return 0;
}

struct row {
    const float *dy, *x, *scale, *residual;
    float *dx, *dscale;
    int64_t n;
    float epsilon;
    bool rms;
};

CPU_CLONES static float mean_of(const float *x, int64_t n)
{
    float sum = 0.0f;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (float)n;
}

/* 1 / deviation about the mean */
CPU_CLONES static float inverse_of(const float *x, float mean, float epsilon,
                                   int64_t n)
{
    float sum = 0.0f;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return 1.0f / sqrtf(sum / (float)n + epsilon);
}

/* Means of h and h xn. */
CPU_CLONES static void means_of(const struct row *r, float mean, float inverse,
                                float *h, float *h_xn)
{
    const float *dy = r->dy, *x = r->x, *scale = r->scale;
    float a = 0.0f, b = 0.0f;

    if (scale) {
#pragma omp simd reduction(+ : a, b)
        for (int64_t i = 0; i < r->n; i++) {
            const float v = dy[i] * scale[i];

            a += v;
            b += v * ((x[i] - mean) * inverse);
        }
    } else {
#pragma omp simd reduction(+ : a, b)
        for (int64_t i = 0; i < r->n; i++) {
            a += dy[i];
            b += dy[i] * ((x[i] - mean) * inverse);
        }
    }
    *h = r->rms ? 0.0f : a / (float)r->n;
    *h_xn = b / (float)r->n;
}

/* dscale first: dx may lie where the residual does. */
CPU_CLONES static void store_row(const struct row *r, float mean, float inverse,
                                 float h, float h_xn)
{
    if (r->dscale)
#pragma omp simd
        for (int64_t i = 0; i < r->n; i++)
            r->dscale[i] = r->dy[i] * ((r->x[i] - mean) * inverse);
#pragma omp simd
    for (int64_t i = 0; i < r->n; i++) {
        const float xn = (r->x[i] - mean) * inverse;
        const float v = r->scale ? r->dy[i] * r->scale[i] : r->dy[i];

        r->dx[i] = inverse * (v - h - xn * h_xn) +
                   (r->residual ? r->residual[i] : 0.0f);
    }
}

static void row_of(const struct row *r)
{
    const float mean = r->rms ? 0.0f : mean_of(r->x, r->n);
    const float inverse = inverse_of(r->x, mean, r->epsilon, r->n);
    float h, h_xn;

    means_of(r, mean, inverse, &h, &h_xn);
    store_row(r, mean, inverse, h, h_xn);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int64_t count = kern_tensor_count(&p->in[X]);
    const int threads = cpu_threads(cpu_threads_of(e), 4 * count);
    int64_t n = 1, i;

    (void)err;
    (void)threads; /* of use with OpenMP only */
    if (count == 0)
        return 0;
    for (int d = p->attr.norm.axis; d < p->in[X].rank; d++)
        n *= p->in[X].dim[d];
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (i = 0; i < count / n; i++) {
        const struct row r = {
            .dy = (const float *)args->in[DY] + i * n,
            .x = (const float *)args->in[X] + i * n,
            .scale = kern_problem_in(p, SCALE) ? args->in[SCALE] : NULL,
            .residual = kern_problem_in(p, RESIDUAL)
                            ? (const float *)args->in[RESIDUAL] + i * n
                            : NULL,
            .dx = (float *)args->out[DX] + i * n,
            .dscale = kern_problem_out(p, DSCALE)
                          ? (float *)args->out[DSCALE] + i * n
                          : NULL,
            .n = n,
            .epsilon = p->attr.norm.epsilon,
            .rms = p->attr.norm.rms};

        row_of(&r);
    }
    return 0;
}

KERN_FUNCTIONS(layer_norm_dgrad_f32_cpu_rows) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
