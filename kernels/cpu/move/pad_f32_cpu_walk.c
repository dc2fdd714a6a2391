/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant padding and cropping of 4-byte elements, any strides: the result is
 * filled, then the part of the input that remains is copied into it.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!cpu_is_f32(&p->in[0]) || !cpu_is_f32(&p->out[0]) ||
        p->attr.pad.mode != KERN_PAD_CONSTANT)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes constant padding of F32");
    return 0;
}

static void fill_rows(const void *context, int64_t rows, int64_t n,
                      float *const *at, const int64_t *row_stride,
                      const int64_t *stride)
{
    const float value = *(const float *)context;
    int64_t r, i;

    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            at[0][r * row_stride[0] + i * stride[0]] = value;
}

static void copy_rows(const void *context, int64_t rows, int64_t n,
                      float *const *at, const int64_t *row_stride,
                      const int64_t *stride)
{
    int64_t r, i;

    (void)context;
    for (r = 0; r < rows; r++)
        for (i = 0; i < n; i++)
            at[0][r * row_stride[0] + i * stride[0]] =
                at[1][r * row_stride[1] + i * stride[1]];
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_pad *a = &p->attr.pad;
    struct kern_tensor x = p->in[0], y = p->out[0];
    const struct kern_tensor *t[] = {&y, &x};
    int64_t x_first = 0, y_first = 0;
    void *base[2] = {args->out[0], NULL};
    struct cpu_walk w;
    int i;

    (void)err;
    if (kern_tensor_count(&y) == 0)
        return 0;
    cpu_walk_init(&w, 1, t);
    cpu_walk_run(&w, cpu_threads_of(e), base, fill_rows, &a->value);
    /* What remains: negative amounts drop elements at either end. */
    for (i = 0; i < x.rank; i++) {
        const int64_t begin = a->begin[i], end = a->end[i];

        x_first += begin < 0 ? -begin * x.stride[i] : 0;
        y_first += begin > 0 ? begin * y.stride[i] : 0;
        x.dim[i] += (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
        if (x.dim[i] < 1)
            return 0;
        y.dim[i] = x.dim[i];
    }
    base[0] = (float *)args->out[0] + y_first;
    base[1] = (float *)args->in[0] + x_first;
    cpu_walk_init(&w, 2, t);
    cpu_walk_run(&w, cpu_threads_of(e), base, copy_rows, NULL);
    return 0;
}

KERN_FUNCTIONS(pad_f32_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
