/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of two arguments, broadcast to each other: kernels/binary.def in
 * double precision and of integers. */
#include <math.h>

#include "kernels/ref/scaled.h"

typedef double real;

static int64_t subtract_i64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

#define REAL_FMOD    fmod
#define REAL_POW     pow
#define INT_ADD      ref_add_i64
#define INT_SUBTRACT subtract_i64
#define INT_MULTIPLY ref_mul_i64
#define FORM         static
#include "kernels/binary_forms.h"

static double compute(enum kern_binary_kind kind, double a, double b)
{
    switch (kind) {
#define BINARY(kind, name, value, integer)                                     \
    case kind:                                                                 \
        return value;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
    return NAN;
}

static int64_t compute_i64(enum kern_binary_kind kind, int64_t a, int64_t b)
{
    switch (kind) {
#define BINARY(kind, name, value, integer)                                     \
    case kind:                                                                 \
        return integer;
#include "kernels/binary.def"
    case KERN_BINARY_COUNT:
        break;
    }
    return 0;
}

/* Integers throughout, and nothing behind them. */
static bool is_exact(const struct kern_problem *p)
{
    return !quant_is_scaled(p) && scalar_is_integer(p->in[0].dtype) &&
           scalar_is_integer(p->in[1].dtype) && !kern_problem_in(p, 2) &&
           p->epilogue.act.kind == KERN_IDENTITY;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    return is_exact(p) ? ref_supports_all(p, d, why)
                       : ref_supports_double(p, d, why);
}

static void launch_exact(const struct kern_problem *p,
                         const struct kern_args *args, struct ref_walk *w)
{
    for (; !w->done; ref_walk_next(w))
        ref_wrap_i64(
            p->out[0].dtype, args->out[0], w->offset[2],
            compute_i64(
                p->attr.binary.kind,
                scalar_load_i64(p->in[0].dtype, args->in[0], w->offset[0]),
                scalar_load_i64(p->in[1].dtype, args->in[1], w->offset[1])));
}

static void launch_scaled(const struct kern_problem *p,
                          const struct kern_args *args, struct ref_walk *w)
{
    const struct kern_quant *q = &p->quant;

    for (; !w->done; ref_walk_next(w)) {
        const double v =
            compute(p->attr.binary.kind,
                    ref_load_scaled(p->in[0].dtype, args->in[0], w->offset[0],
                                    q->x_scale, q->x_zero),
                    ref_load_scaled(p->in[1].dtype, args->in[1], w->offset[1],
                                    q->residual_scale, q->residual_zero));

        ref_store_scaled(p, args->out[0], w->offset[2],
                         ref_unary(&p->epilogue.act, (double)(float)v));
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *residual = kern_problem_in(p, 2);
    const struct kern_tensor *y = &p->out[0];
    struct ref_walk w;

    (void)err;
    ref_walk_start(&w, y->rank, y->dim);
    ref_walk_add(&w, &p->in[0]);
    ref_walk_add(&w, &p->in[1]);
    ref_walk_add(&w, y);
    if (residual)
        ref_walk_add(&w, residual);
    if (is_exact(p)) {
        launch_exact(p, args, &w);
        return 0;
    }
    if (quant_is_scaled(p)) {
        launch_scaled(p, args, &w);
        return 0;
    }
    for (; !w.done; ref_walk_next(&w)) {
        const double v =
            compute(p->attr.binary.kind,
                    ref_load(p->in[0].dtype, args->in[0], w.offset[0]),
                    ref_load(p->in[1].dtype, args->in[1], w.offset[1]));
        const double r = ref_optional(residual, args->in[2], w.offset[3], 0);
        ref_store(y->dtype, args->out[0], w.offset[2],
                  ref_epilogue(&p->epilogue, v, r));
    }
    return 0;
}

KERN_FUNCTIONS(binary_ref) = {
    .supports = supports,
    .launch = launch,
};
