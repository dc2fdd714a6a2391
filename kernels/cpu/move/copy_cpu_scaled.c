/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation, its inverse, and both: copies with scales between F32, I8 and
 * U8 of any strides (kernels/quant/quant.h).
 *
 * Lines go along the innermost dimension of the F32 tensor, or of the output if
 * there is none.  Threads divide the lines.
 */
#include "config.h"

#include "kernels/base/error.h"
#include "kernels/cpu/bytes.h"

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!quant_is_scaled(p) || !bytes_known(&p->in[0]) ||
        !bytes_known(&p->out[0]))
        return error_set(why, INFER_EUNSUPPORTED,
                         "copies I8, U8 and F32 with scales");
    return 0;
}

static void copy_run(const struct bytes_scale *from, const void *x,
                     int64_t x_step, const struct bytes_scale *to, void *y,
                     int64_t y_step, int64_t n)
{
    float v[BYTES_RUN];

    for (int64_t i = 0; i < n; i += BYTES_RUN) {
        const int64_t m = n - i < BYTES_RUN ? n - i : BYTES_RUN;
        const void *a = bytes_at(x, from->dtype, i * x_step);
        void *b = bytes_at(y, to->dtype, i * y_step);

        if (from->dtype == INFER_F32 && x_step == 1) {
            bytes_store(to, a, b, y_step, m);
        } else if (to->dtype == INFER_F32 && y_step == 1) {
            bytes_load(from, a, x_step, b, m);
        } else {
            bytes_load(from, a, x_step, v, m);
            bytes_store(to, v, b, y_step, m);
        }
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_quant *q = &p->quant;
    const struct bytes_scale from = {x->dtype, q->x_scale, q->x_zero};
    const struct bytes_scale to = {y->dtype, q->y_scale, q->y_zero};
    const int in = x->dtype == INFER_F32 ? 0 : 1;
    const struct kern_tensor *t[2] = {in ? y : x, in ? x : y};
    const int count = cpu_threads(cpu_threads_of(e), kern_tensor_count(y));
    struct bytes_lines lines;

    (void)err;
    (void)count; /* of use with OpenMP only */
    if (kern_tensor_count(y) == 0)
        return 0;
    bytes_lines_init(&lines, 2, t);
#pragma omp parallel for num_threads(count) schedule(static) if (count > 1)
    for (int64_t i = 0; i < lines.count; i++) {
        int64_t at[CPU_MAX_OPERAND];
        const int64_t n = bytes_lines_at(&lines, i, at);

        copy_run(&from, bytes_at(args->in[0], from.dtype, at[in]),
                 bytes_lines_step(&lines, in), &to,
                 bytes_at(args->out[0], to.dtype, at[1 - in]),
                 bytes_lines_step(&lines, 1 - in), n);
    }
    return 0;
}

KERN_FUNCTIONS(copy_cpu_scaled) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
