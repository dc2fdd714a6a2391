/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element-wise functions of one tensor, any strides.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int rc = cpu_need_f32(p, why);

    (void)d;
    if (rc < 0)
        return rc;
    if (!cpu_act_known(&p->attr.unary))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this function");
    return 0;
}

static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct kern_unary *act = context;
    int64_t r, i;

    for (r = 0; r < rows; r++) {
        float *y = at[0] + r * row_stride[0];
        const float *x = at[1] + r * row_stride[1];

        if (stride[0] == 1 && stride[1] == 1) {
            cpu_act(act, x, y, n);
            continue;
        }
        for (i = 0; i < n; i++)
            cpu_act(act, x + i * stride[1], y + i * stride[0], 1);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    (void)err;
    return cpu_walk_problem(e, args, rows_of, &e->problem.attr.unary);
}

KERN_FUNCTIONS(unary_f32_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
