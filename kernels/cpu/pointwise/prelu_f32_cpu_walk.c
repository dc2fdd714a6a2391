/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = x < 0 ? slope x : x, with the slope broadcast to x, any strides.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    return cpu_need_f32(p, why);
}

CPU_INLINE void row(const float *x, int64_t sx, const float *slope, int64_t ss,
                    float *y, int64_t sy, int64_t n)
{
    int64_t i;

#pragma omp simd
    for (i = 0; i < n; i++) {
        const float v = x[i * sx];

        y[i * sy] = v < 0.0f ? slope[i * ss] * v : v;
    }
}

CPU_CLONES static void rows_of(const void *context, int64_t rows, int64_t n,
                               float *const *at, const int64_t *row_stride,
                               const int64_t *stride)
{
    const bool dense = stride[0] == 1 && stride[1] == 1;
    int64_t r;

    (void)context;
    for (r = 0; r < rows; r++) {
        float *y = at[0] + r * row_stride[0];
        const float *x = at[1] + r * row_stride[1];
        const float *slope = at[2] + r * row_stride[2];

        if (dense && stride[2] == 1)
            row(x, 1, slope, 1, y, 1, n);
        else if (dense && stride[2] == 0)
            row(x, 1, slope, 0, y, 1, n);
        else
            row(x, stride[1], slope, stride[2], y, stride[0], n);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    (void)err;
    return cpu_walk_problem(e, args, rows_of, NULL);
}

KERN_FUNCTIONS(prelu_f32_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
