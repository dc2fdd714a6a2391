/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of two arguments, broadcast to each other.  Of integers division
 * and remainder by zero give 0, and results that do not fit saturate. */
#include <math.h>

#include "kernels/ref/ref.h"

/* Python's %: the sign of the divisor. */
static double modulo(double a, double b)
{
    const double r = fmod(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double compute(enum kern_binary_kind kind, double a, double b)
{
    switch (kind) {
    case KERN_ADD:
        return a + b;
    case KERN_SUB:
        return a - b;
    case KERN_MUL:
        return a * b;
    case KERN_DIV:
        return a / b;
    case KERN_POW:
        return pow(a, b);
    case KERN_MIN: /* NaN wins */
        return a < b || isnan(a) ? a : b;
    case KERN_MAX:
        return a > b || isnan(a) ? a : b;
    case KERN_MOD:
        return modulo(a, b);
    case KERN_EQUAL:
        return a == b;
    case KERN_LESS:
        return a < b;
    case KERN_LESS_EQUAL:
        return a <= b;
    case KERN_GREATER:
        return a > b;
    case KERN_GREATER_EQUAL:
        return a >= b;
    case KERN_AND:
        return a != 0 && b != 0;
    case KERN_OR:
        return a != 0 || b != 0;
    case KERN_BINARY_COUNT:
        break;
    }
    return 0;
}

static int64_t subtract_i64(int64_t a, int64_t b)
{
    int64_t r;

    if (__builtin_sub_overflow(a, b, &r))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

static int64_t divide_i64(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    return b == -1 ? ref_mul_i64(a, -1) : a / b;
}

static int64_t modulo_i64(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* By squaring; a negative power is 1 / a^|b|, truncated. */
static int64_t power_i64(int64_t a, int64_t b)
{
    int64_t r = 1;

    if (b < 0)
        return a == 1 || a == -1 ? (b & 1 ? a : 1) : 0;
    while (b > 0) {
        if (b & 1)
            r = ref_mul_i64(r, a);
        b >>= 1;
        if (b > 0)
            a = ref_mul_i64(a, a);
    }
    return r;
}

static int64_t compute_i64(enum kern_binary_kind kind, int64_t a, int64_t b)
{
    switch (kind) {
    case KERN_ADD:
        return ref_add_i64(a, b);
    case KERN_SUB:
        return subtract_i64(a, b);
    case KERN_MUL:
        return ref_mul_i64(a, b);
    case KERN_DIV:
        return divide_i64(a, b);
    case KERN_POW:
        return power_i64(a, b);
    case KERN_MIN:
        return a < b ? a : b;
    case KERN_MAX:
        return a > b ? a : b;
    case KERN_MOD:
        return modulo_i64(a, b);
    case KERN_EQUAL:
        return a == b;
    case KERN_LESS:
        return a < b;
    case KERN_LESS_EQUAL:
        return a <= b;
    case KERN_GREATER:
        return a > b;
    case KERN_GREATER_EQUAL:
        return a >= b;
    case KERN_AND:
        return a != 0 && b != 0;
    case KERN_OR:
        return a != 0 || b != 0;
    case KERN_BINARY_COUNT:
        break;
    }
    return 0;
}

/* Integers throughout, and nothing behind them. */
static bool is_exact(const struct kern_problem *p)
{
    return scalar_is_integer(p->in[0].dtype) &&
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
        scalar_store_i64(
            p->out[0].dtype, args->out[0], w->offset[2],
            compute_i64(
                p->attr.binary.kind,
                scalar_load_i64(p->in[0].dtype, args->in[0], w->offset[0]),
                scalar_load_i64(p->in[1].dtype, args->in[1], w->offset[1])));
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

const struct kern_functions binary_ref = {
    .supports = supports,
    .launch = launch,
};
