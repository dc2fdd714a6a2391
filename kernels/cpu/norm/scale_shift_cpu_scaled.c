/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = act(x scale[c] + shift[c]) of 8 bits with scales
 * (kernels/quant/quant.h), of any strides: the values of a run, then the
 * function, then 8 bits.  Vectors are broadcast along lines.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/bytes.h"

enum { X, SCALE, SHIFT };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    float low, high;

    (void)d;
    if (!quant_is_scaled(p) || !bytes_known(&p->in[X]) ||
        !bytes_known(&p->out[0]))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 8 bits and F32 with scales");
    if (!cpu_act_bounds(&p->epilogue.act, &low, &high))
        return error_set(why, INFER_EUNSUPPORTED, "takes bounded activations");
    return 0;
}

/* v = v a + b within limits; a and b a_step and b_step apart. */
CPU_CLONES static void apply(float *restrict v, const float *restrict a,
                             int64_t a_step, const float *restrict b,
                             int64_t b_step, float low, float high, int64_t n)
{
    if (a_step == 1 && b_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            v[i] = __builtin_fmaf(v[i], a[i], b[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            v[i] = __builtin_fmaf(v[i], a[i * a_step], b[i * b_step]);
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float f = v[i] < low ? low : v[i];

        v[i] = f > high ? high : f;
    }
}

/* A vector of channels as a tensor that is broadcast to x; one that is absent
 * is a single number. */
static struct kern_tensor broadcast(const struct kern_problem *p, int i)
{
    const struct kern_tensor *v = kern_problem_in(p, i);
    struct kern_tensor t = p->in[X];

    t.dtype = INFER_F32;
    for (int d = 0; d < t.rank; d++) {
        t.stride[d] = d == 1 && v ? v->stride[0] : 0;
        t.dim[d] = d == 1 && v ? v->dim[0] : 1;
    }
    return t;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    static const float none[2] = {1, 0};
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor a = broadcast(p, SCALE), b = broadcast(p, SHIFT);
    const struct kern_tensor *t[4] = {&p->out[0], &p->in[X], &a, &b};
    const struct kern_quant *q = &p->quant;
    const struct bytes_scale from = {p->in[X].dtype, q->x_scale, q->x_zero};
    const struct bytes_scale to = {p->out[0].dtype, q->y_scale, q->y_zero};
    const float *scale =
        kern_problem_in(p, SCALE) ? args->in[SCALE] : (const void *)none;
    const float *shift =
        kern_problem_in(p, SHIFT) ? args->in[SHIFT] : (const void *)(none + 1);
    const int count =
        cpu_threads(cpu_threads_of(e), kern_tensor_count(&p->out[0]));
    struct bytes_lines l;
    float low, high;

    (void)err;
    (void)count; /* of use with OpenMP only */
    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    (void)cpu_act_bounds(&p->epilogue.act, &low, &high);
    bytes_lines_init(&l, 4, t);
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < l.count; i++) {
        int64_t at[CPU_MAX_OPERAND], step[4];
        const int64_t n = bytes_lines_at(&l, i, at);
        float v[BYTES_RUN];

        for (int k = 0; k < 4; k++)
            step[k] = bytes_lines_step(&l, k);
        for (int64_t j = 0; j < n; j += BYTES_RUN) {
            const int64_t m = n - j < BYTES_RUN ? n - j : BYTES_RUN;

            bytes_load(&from,
                       bytes_at(args->in[X], from.dtype, at[1] + j * step[1]),
                       step[1], v, m);
            apply(v, scale + at[2] + j * step[2], step[2],
                  shift + at[3] + j * step[3], step[3], low, high, m);
            bytes_store(&to, v,
                        bytes_at(args->out[0], to.dtype, at[0] + j * step[0]),
                        step[0], m);
        }
    }
    return 0;
}

KERN_FUNCTIONS(scale_shift_cpu_scaled) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
