/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, cross-entropy with smoothed labels and the gradient of both, one
 * picture after the other.  With d = logit - largest logit, S = log of the sum
 * of exp d, and the target t = smoothing / C plus 1 - smoothing at the label,
 *     loss = S - smoothing / C sum of d - (1 - smoothing) d of the label.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { LOGITS, LABEL, STEP };
enum { LOSS, DLOGITS, HIT };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!cpu_is_dense(&p->in[LOGITS], KERN_NCHW) ||
        !cpu_is_dense(kern_problem_in(p, STEP), KERN_NCHW) ||
        !cpu_is_dense(&p->out[LOSS], KERN_NCHW) ||
        !cpu_is_dense(kern_problem_out(p, DLOGITS), KERN_NCHW) ||
        !cpu_is_dense(kern_problem_out(p, HIT), KERN_NCHW) ||
        !kern_tensor_is_dense(&p->in[LABEL], KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED, "takes dense F32 rows");
    return 0;
}

CPU_CLONES static float largest(const float *x, int64_t n)
{
    float top = x[0];

#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

CPU_CLONES static double sum_of(const float *x, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* Turns exp d into factor exp d - offset. */
CPU_CLONES static void scale_row(float *y, float factor, float offset,
                                 int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] * factor - offset;
}

/* True if the label's logit is the first maximum. */
static bool is_hit(const float *x, int64_t label, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (i != label && !(i < label ? x[i] < x[label] : x[i] <= x[label]))
            return false;
    return true;
}

/* One picture; dx may be NULL. */
static float row_of(const struct kern_cross_entropy *a, const float *x,
                    int64_t label, int64_t n, float scale, float *dx)
{
    const float top = largest(x, n);
    const float sum = cpu_exp_sum(x, top, dx, n);
    const double even = (double)a->smoothing / (double)n;
    const double at_label = 1 - (double)a->smoothing;
    double loss =
        log((double)sum) - at_label * ((double)x[label] - (double)top);

    if (a->smoothing > 0)
        loss -= even * (sum_of(x, n) - (double)n * (double)top);
    if (dx) {
        scale_row(dx, scale / sum, (float)((double)scale * even), n);
        dx[label] -= (float)((double)scale * at_label);
    }
    return (float)loss;
}

static int64_t label_of(const struct kern_problem *p,
                        const struct kern_args *args, int64_t row)
{
    return p->in[LABEL].dtype == INFER_I32
               ? ((const int32_t *)args->in[LABEL])[row]
               : ((const int64_t *)args->in[LABEL])[row];
}

static void rows_of(const struct kern_problem *p, const struct kern_args *args,
                    int64_t from, int64_t to)
{
    const struct kern_cross_entropy *a = &p->attr.cross_entropy;
    const int64_t n = p->in[LOGITS].dim[1];
    const float loss_scale =
        kern_problem_in(p, STEP)
            ? ((const float *)args->in[STEP])[KERN_STEP_LOSS_SCALE]
            : 1.0f;

    for (int64_t r = from; r < to; r++) {
        const float *x = (const float *)args->in[LOGITS] + r * n;
        float *dx = kern_problem_out(p, DLOGITS)
                        ? (float *)args->out[DLOGITS] + r * n
                        : NULL;
        const int64_t label = label_of(p, args, r);
        const bool counts = label >= 0 && label < n;

        ((float *)args->out[LOSS])[r] =
            counts ? row_of(a, x, label, n, a->scale * loss_scale, dx) : 0.0f;
        if (dx && !counts)
            memset(dx, 0, (size_t)n * sizeof(*dx));
        if (kern_problem_out(p, HIT))
            ((float *)args->out[HIT])[r] = counts && is_hit(x, label, n);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int64_t rows = p->in[LOGITS].dim[0];
    const int count =
        cpu_threads(cpu_threads_of(e), 4 * kern_tensor_count(&p->in[LOGITS]));
    int i;

    (void)err;
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        int64_t from, to;

        cpu_share(rows, i, count, &from, &to);
        rows_of(p, args, from, to);
    }
    return 0;
}

KERN_FUNCTIONS(cross_entropy_f32_cpu_rows) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
