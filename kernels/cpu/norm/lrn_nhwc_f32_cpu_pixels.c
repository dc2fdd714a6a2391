/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local response normalisation across channels that lie side by side.
 *
 * A block of channels takes three passes in the L1 cache: sums of squares over
 * the window, their power (through exp and log), and the product.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/norm/lrn.h"

#define BLOCK 512

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_lrn *a = &p->attr.lrn;

    (void)d;
    if (!cpu_is_f32(x) || !cpu_is_f32(y) || x->rank < 2 ||
        !cpu_channels_inner(x) || !cpu_channels_inner(y))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels-last F32 tensors");
    if (a->size < 1 || !(a->alpha >= 0.0f) || !(a->bias >= 1e-30f))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes a size above 0, alpha from 0 up and a bias "
                         "above 0");
    return 0;
}

/* s[i] = bias + factor * sum of squares over the window of channel first + i */
CPU_CLONES static void energies(const float *x, int64_t channels, int64_t first,
                                int64_t n, int size, float bias, float factor,
                                float *s)
{
    lrn_window(x, x, channels, first, n, (size - 1) / 2, size, bias, factor, s);
}

CPU_CLONES static void multiply(const float *x, const float *s, float *y,
                                int64_t n)
{
    int64_t i;

#pragma omp simd
    for (i = 0; i < n; i++)
        y[i] = x[i] * s[i];
}

static void pixel(const struct kern_lrn *a, const float *x, float *y,
                  int64_t channels)
{
    const struct kern_unary exponential = {.kind = KERN_EXP};
    const struct kern_unary power = {.kind = KERN_LINEAR, .a = -a->beta};
    float s[BLOCK];
    int64_t c;

    for (c = 0; c < channels; c += BLOCK) {
        const int64_t n = channels - c < BLOCK ? channels - c : BLOCK;

        energies(x, channels, c, n, a->size, a->bias, a->alpha / (float)a->size,
                 s);
        cpu_log(s, s, n);
        cpu_act(&power, s, s, n);
        cpu_act(&exponential, s, s, n);
        multiply(x + c, s, y + c, n);
    }
}

/* Walks all dimensions but the channels, one pixel an element. */
static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct kern_problem *p = context;
    int64_t r, i;

    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            pixel(&p->attr.lrn, at[1] + r * row_stride[1] + i * stride[1],
                  at[0] + r * row_stride[0] + i * stride[0], p->in[0].dim[1]);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const struct kern_tensor *t[] = {&y, &x};
    void *base[] = {args->out[0], (void *)args->in[0]};
    struct cpu_walk w;

    (void)err;
    if (kern_tensor_count(&x) == 0)
        return 0;
    x.dim[1] = y.dim[1] = 1;
    cpu_walk_init(&w, 2, t);
    w.weight = p->in[0].dim[1] * p->attr.lrn.size;
    cpu_walk_run(&w, cpu_threads_of(e), base, rows_of, p);
    return 0;
}

KERN_FUNCTIONS(lrn_nhwc_f32_cpu_pixels) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
