/* SPDX-License-Identifier: Apache-2.0 */
/* y = act(x * scale + shift + residual), one scale and shift a channel. */
#include "kernels/ref/scaled.h"

/* Of 8 bits with scales: each operation rounds to single precision. */
static void launch_scaled(const struct kern_problem *p,
                          const struct kern_args *args, struct ref_walk *w)
{
    const struct kern_tensor *scale = kern_problem_in(p, 1);
    const struct kern_tensor *shift = kern_problem_in(p, 2);

    for (; !w->done; ref_walk_next(w)) {
        const int64_t c = w->index[1];
        const double a = ref_optional(scale, args->in[1],
                                      scale ? c * scale->stride[0] : 0, 1);
        const double b = ref_optional(shift, args->in[2],
                                      shift ? c * shift->stride[0] : 0, 0);
        const double x =
            ref_load_scaled(p->in[0].dtype, args->in[0], w->offset[0],
                            p->quant.x_scale, p->quant.x_zero);
        const float v = fmaf((float)x, (float)a, (float)b);

        ref_store_scaled(p, args->out[0], w->offset[1],
                         ref_unary(&p->epilogue.act, (double)v));
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const struct kern_tensor *scale = kern_problem_in(p, 1);
    const struct kern_tensor *shift = kern_problem_in(p, 2);
    const struct kern_tensor *residual = kern_problem_in(p, 3);
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, x);
    ref_walk_add(&w, y);
    if (residual)
        ref_walk_add(&w, residual);
    if (quant_is_scaled(p)) {
        launch_scaled(p, args, &w);
        return 0;
    }
    for (; !w.done; ref_walk_next(&w)) {
        const int64_t c = w.index[1];
        const double a = ref_optional(scale, args->in[1],
                                      scale ? c * scale->stride[0] : 0, 1);
        const double b = ref_optional(shift, args->in[2],
                                      shift ? c * shift->stride[0] : 0, 0);
        const double r = ref_optional(residual, args->in[3], w.offset[2], 0);
        const double v = ref_load(x->dtype, args->in[0], w.offset[0]) * a + b;
        ref_store(y->dtype, args->out[0], w.offset[1],
                  ref_epilogue(&p->epilogue, v, r));
    }
    return 0;
}

KERN_FUNCTIONS(scale_shift_ref) = {
    .supports = ref_supports_double,
    .launch = launch,
};
