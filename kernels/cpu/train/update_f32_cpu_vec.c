/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of an optimiser over a flat range of weights, by several threads:
 * one pass over all that belongs to a weight.  The 16-bit copy, which only a
 * GPU reads, is left to the reference.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/problem.h"

enum { W, DW, RATE, STEP, M, V, AVERAGE };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (kern_problem_out(p, KERN_UPDATE_COPY))
        return error_set(why, INFER_EUNSUPPORTED, "makes no 16-bit copy");
    for (int i = 0; i < p->n_in; i++)
        if (!cpu_is_dense(kern_problem_in(p, i), KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED, "takes dense F32");
    for (int i = 0; i < p->n_out; i++)
        if (!cpu_is_dense(kern_problem_out(p, i), KERN_NCHW))
            return error_set(why, INFER_EUNSUPPORTED, "takes dense F32");
    return 0;
}

/* The arrays from some weight on; NULL where absent. */
struct arrays {
    const float *w, *g, *m, *v, *average;
    float *new_w, *new_m, *new_v, *new_average;
};

struct rule {
    struct kern_update of;
    float factor, rate, c1, c2; /* c1, c2: 1 / corrections */
};

/* The direction with momentum. */
CPU_INLINE float with_momentum(bool has_m, const struct rule *r,
                               const struct arrays *a, int64_t i, float d)
{
    float m;

    if (!has_m)
        return d;
    m = r->of.beta1 * a->m[i] + d;
    a->new_m[i] = m;
    return r->of.nesterov ? d + r->of.beta1 * m : m;
}

CPU_INLINE void sgd(bool has_m, const struct rule *r, const struct arrays *a,
                    int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float w = a->w[i], g = a->g[i] * r->factor + r->of.decay * w;

        a->new_w[i] = w - r->rate * with_momentum(has_m, r, a, i, g);
    }
}

CPU_INLINE void rmsprop(bool has_m, const struct rule *r,
                        const struct arrays *a, int64_t n)
{
    const float beta2 = r->of.beta2;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float w = a->w[i], g = a->g[i] * r->factor + r->of.decay * w;
        const float v = beta2 * a->v[i] + (1.0f - beta2) * (g * g);

        a->new_v[i] = v;
        a->new_w[i] =
            w - r->rate * with_momentum(has_m, r, a, i,
                                        g / (sqrtf(v) + r->of.epsilon));
    }
}

/* AdamW's decay does not enter the moments. */
CPU_INLINE void adam(bool decoupled, const struct rule *r,
                     const struct arrays *a, int64_t n)
{
    const float beta1 = r->of.beta1, beta2 = r->of.beta2;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float old = a->w[i];
        const float g =
            a->g[i] * r->factor + (decoupled ? 0.0f : r->of.decay * old);
        const float w = decoupled ? old - r->rate * r->of.decay * old : old;
        const float m = beta1 * a->m[i] + (1.0f - beta1) * g;
        const float v = beta2 * a->v[i] + (1.0f - beta2) * (g * g);

        a->new_m[i] = m;
        a->new_v[i] = v;
        a->new_w[i] =
            w - r->rate * (m * r->c1) / (sqrtf(v * r->c2) + r->of.epsilon);
    }
}

CPU_CLONES static void update(const struct rule *r, const struct arrays *a,
                              int64_t n)
{
    switch (r->of.kind) {
    case KERN_UPDATE_SGD:
        if (a->m)
            sgd(true, r, a, n);
        else
            sgd(false, r, a, n);
        break;
    case KERN_UPDATE_RMSPROP:
        if (a->m)
            rmsprop(true, r, a, n);
        else
            rmsprop(false, r, a, n);
        break;
    case KERN_UPDATE_ADAM:
        adam(false, r, a, n);
        break;
    case KERN_UPDATE_ADAMW:
        adam(true, r, a, n);
        break;
    case KERN_UPDATE_NONE:
    case KERN_UPDATE_KIND_COUNT:
        break;
    }
}

/* average = keep average + (1 - keep) w */
CPU_CLONES static void move_average(float keep, const float *average,
                                    const float *w, float *to, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = keep * average[i] + (1.0f - keep) * w[i];
}

static void copy(const float *from, float *to, int64_t n)
{
    if (to && from != to)
        memcpy(to, from, (size_t)n * sizeof(*to));
}

/* A factor of 0 leaves everything as it was. */
static void update_part(const struct rule *r, const struct arrays *a, int64_t n)
{
    const bool counts = r->factor != 0;

    if (counts && r->of.kind != KERN_UPDATE_NONE) {
        update(r, a, n);
    } else {
        copy(a->w, a->new_w, n);
        copy(a->m, a->new_m, n);
        copy(a->v, a->new_v, n);
    }
    if (!a->average)
        return;
    if (counts)
        move_average(r->of.average_decay, a->average, a->new_w, a->new_average,
                     n);
    else
        copy(a->average, a->new_average, n);
}

static const float *in_at(const struct kern_problem *p,
                          const struct kern_args *args, int i, int64_t at)
{
    return kern_problem_in(p, i) ? (const float *)args->in[i] + at : NULL;
}

static float *out_at(const struct kern_problem *p, const struct kern_args *args,
                     int i, int64_t at)
{
    return kern_problem_out(p, i) ? (float *)args->out[i] + at : NULL;
}

static struct arrays arrays_at(const struct kern_problem *p,
                               const struct kern_args *args, int64_t at)
{
    const struct arrays a = {.w = in_at(p, args, W, at),
                             .g = in_at(p, args, DW, at),
                             .m = in_at(p, args, M, at),
                             .v = in_at(p, args, V, at),
                             .average = in_at(p, args, AVERAGE, at),
                             .new_w = out_at(p, args, KERN_UPDATE_W, at),
                             .new_m = out_at(p, args, KERN_UPDATE_M, at),
                             .new_v = out_at(p, args, KERN_UPDATE_V, at),
                             .new_average =
                                 out_at(p, args, KERN_UPDATE_AVERAGE, at)};

    return a;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const float *step = in_at(p, args, STEP, 0),
                *rate = in_at(p, args, RATE, 0);
    const struct rule rule = {
        .of = p->attr.update,
        .factor = step ? step[KERN_STEP_FACTOR] : 1.0f,
        .rate = rate ? *rate : 0.0f,
        .c1 = step ? 1.0f / step[KERN_STEP_CORRECTION1] : 1.0f,
        .c2 = step ? 1.0f / step[KERN_STEP_CORRECTION2] : 1.0f};
    const int64_t n = kern_tensor_count(&p->in[W]);
    const int count = cpu_threads(cpu_threads_of(e), n);
    int i;

    (void)err;
#pragma omp parallel for num_threads(count) schedule(static, 1) if (count > 1)
    for (i = 0; i < count; i++) {
        int64_t from, to;

        cpu_share(n, i, count, &from, &to);
        const struct arrays a = arrays_at(p, args, from);
        update_part(&rule, &a, to - from);
    }
    return 0;
}

KERN_FUNCTIONS(update_f32_cpu_vec) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
