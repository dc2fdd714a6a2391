/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of local response normalisation across channels that lie side by
 * side, pixel by pixel.  With s the denominator before its power,
 *     dx_c = dy_c s_c^-beta - 2 alpha beta / size x_c * the sum of
 *            dy_i x_i s_i^(-beta - 1) over the i whose window holds c.
 */
#include "config.h"

#include "kernels/cpu/norm/lrn.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { DY, X, RESIDUAL };

/* Channels of a pixel: what four arrays may take of a thread's stack. */
#define MAX_CHANNELS 4096

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_lrn *a = &p->attr.lrn;

    (void)d;
    if (!cpu_is_dense(&p->in[DY], KERN_NHWC) ||
        !cpu_is_dense(&p->in[X], KERN_NHWC) ||
        !cpu_is_dense(&p->out[0], KERN_NHWC) ||
        !cpu_is_dense(kern_problem_in(p, RESIDUAL), KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense channels-last F32 tensors");
    if (p->in[DY].dim[1] > MAX_CHANNELS || !(a->alpha >= 0.0f) ||
        !(a->bias >= 1e-30f))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to %d channels, alpha from 0 up and a bias "
                         "above 0",
                         MAX_CHANNELS);
    return 0;
}

CPU_CLONES static void energies(const struct kern_lrn *a, const float *x,
                                int64_t n, float *s)
{
    lrn_window(x, x, n, 0, n, (a->size - 1) / 2, a->size, a->bias,
               a->alpha / (float)a->size, s);
}

/* power: s^-beta; t becomes dy power / s. */
CPU_CLONES static void inner(const float *dy, const float *s,
                             const float *power, float *t, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        t[i] = dy[i] * power[i] / s[i];
}

/* Channel i's window holds c where c - above <= i <= c + below. */
CPU_CLONES static void outer(const struct kern_lrn *a, const float *dy,
                             const float *x, const float *power, const float *t,
                             float *sum, const float *residual, float *dx,
                             int64_t n)
{
    const int64_t below = (a->size - 1) / 2;
    const float factor = -2.0f * a->alpha * a->beta / (float)a->size;

    lrn_window(t, x, n, 0, n, a->size - 1 - below, a->size, 0.0f, factor, sum);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] =
            dy[i] * power[i] + x[i] * sum[i] + (residual ? residual[i] : 0.0f);
}

static void pixel(const struct kern_lrn *a, const float *dy, const float *x,
                  const float *residual, float *dx, int64_t n)
{
    const struct kern_unary exponential = {.kind = KERN_EXP};
    const struct kern_unary times = {.kind = KERN_LINEAR, .a = -a->beta};
    float s[MAX_CHANNELS], power[MAX_CHANNELS], t[MAX_CHANNELS];

    energies(a, x, n, s);
    cpu_log(s, power, n);
    cpu_act(&times, power, power, n);
    cpu_act(&exponential, power, power, n);
    inner(dy, s, power, t, n);
    outer(a, dy, x, power, t, s, residual, dx, n);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int64_t n = p->in[DY].dim[1], count = kern_tensor_count(&p->in[DY]);
    const int threads = cpu_threads(cpu_threads_of(e), 4 * count);
    const float *residual =
        kern_problem_in(p, RESIDUAL) ? args->in[RESIDUAL] : NULL;
    const int64_t pixels = n > 0 ? count / n : 0;
    int64_t i;

    (void)err;
    (void)threads; /* of use with OpenMP only */
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (i = 0; i < pixels; i++)
        pixel(&p->attr.lrn, (const float *)args->in[DY] + i * n,
              (const float *)args->in[X] + i * n,
              residual ? residual + i * n : NULL, (float *)args->out[0] + i * n,
              n);
    return 0;
}

KERN_FUNCTIONS(lrn_dgrad_nhwc_f32_cpu_pixels) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
