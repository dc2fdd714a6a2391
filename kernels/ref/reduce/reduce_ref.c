/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over any set of dimensions.  Integers are reduced as integers;
 * their mean and L2 norm truncate toward zero. */
#include <math.h>

#include "kernels/ref/ref.h"

static bool is_sum(enum kern_reduce_kind kind)
{
    return kind != KERN_REDUCE_MAX && kind != KERN_REDUCE_MIN &&
           kind != KERN_REDUCE_PROD;
}

/* The term of an element in a sum. */
static double term(enum kern_reduce_kind kind, double x)
{
    if (kind == KERN_REDUCE_L1)
        return fabs(x);
    return kind == KERN_REDUCE_L2 ? x * x : x;
}

static double reduce(enum kern_reduce_kind kind, enum infer_dtype dtype,
                     const void *base, int64_t from, struct ref_walk *w)
{
    double acc = kind == KERN_REDUCE_PROD ? 1 : 0, count = 0;

    for (; !w->done; ref_walk_next(w), count++) {
        const double x = ref_load(dtype, base, from + w->offset[0]);
        if (is_sum(kind))
            acc += term(kind, x);
        else if (kind == KERN_REDUCE_PROD)
            acc *= x;
        else if (count == 0 || isnan(x) ||
                 (kind == KERN_REDUCE_MAX ? x > acc : x < acc))
            acc = x;
    }
    if (kind == KERN_REDUCE_MEAN)
        return acc / count;
    return kind == KERN_REDUCE_L2 ? sqrt(acc) : acc;
}

static int64_t term_i64(enum kern_reduce_kind kind, int64_t x)
{
    if (kind == KERN_REDUCE_L1)
        return x < 0 ? ref_mul_i64(x, -1) : x;
    return kind == KERN_REDUCE_L2 ? ref_mul_i64(x, x) : x;
}

static int64_t reduce_i64(enum kern_reduce_kind kind, enum infer_dtype dtype,
                          const void *base, int64_t from, struct ref_walk *w)
{
    int64_t acc = kind == KERN_REDUCE_PROD ? 1 : 0, count = 0;

    for (; !w->done; ref_walk_next(w), count++) {
        const int64_t x = scalar_load_i64(dtype, base, from + w->offset[0]);
        if (is_sum(kind))
            acc = ref_add_i64(acc, term_i64(kind, x));
        else if (kind == KERN_REDUCE_PROD)
            acc = ref_mul_i64(acc, x);
        else if (count == 0 || (kind == KERN_REDUCE_MAX ? x > acc : x < acc))
            acc = x;
    }
    if (kind == KERN_REDUCE_MEAN)
        return count ? acc / count : 0;
    /* A sum of squares that wraps is read without a sign. */
    return kind == KERN_REDUCE_L2 ? (int64_t)sqrt((double)(uint64_t)acc) : acc;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    /* The dimensions that stay and those that go, as two tensors. */
    struct kern_tensor kept = *x, gone = *x;
    const struct kern_tensor *residual = kern_problem_in(p, 1);
    struct ref_walk outer, inner;

    (void)err;
    for (int i = 0; i < x->rank; i++) {
        struct kern_tensor *other =
            p->attr.reduce.axes >> i & 1 ? &kept : &gone;
        other->dim[i] = 1;
        other->stride[i] = 0;
    }
    ref_walk_start(&outer, y->rank, y->dim);
    ref_walk_add(&outer, &kept);
    ref_walk_add(&outer, y);
    if (residual)
        ref_walk_add(&outer, residual);
    for (; !outer.done; ref_walk_next(&outer)) {
        ref_walk_start(&inner, gone.rank, gone.dim);
        ref_walk_add(&inner, &gone);
        if (scalar_is_integer(x->dtype)) {
            const int64_t r =
                residual ? scalar_load_i64(residual->dtype, args->in[1],
                                           outer.offset[2])
                         : 0;
            ref_wrap_i64(y->dtype, args->out[0], outer.offset[1],
                         ref_add_i64(reduce_i64(kind, x->dtype, args->in[0],
                                                outer.offset[0], &inner),
                                     r));
            continue;
        }
        ref_store(y->dtype, args->out[0], outer.offset[1],
                  reduce(kind, x->dtype, args->in[0], outer.offset[0], &inner) +
                      ref_optional(residual, args->in[1], outer.offset[2], 0));
    }
    return 0;
}

KERN_FUNCTIONS(reduce_ref) = {
    .supports = ref_supports_all,
    .launch = launch,
};
