/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of integers times a factor in fixed point, any strides; x and y are F32
 * or I32.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include "kernels/base/error.h"
#include "kernels/problem.h"
#include "kernels/quant/requantize.h"

/* Operands of the walk. */
enum { Y, X, MULTIPLIER, SHIFT, ADDEND };

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (infer_dtype_size(p->in[0].dtype) != 4 ||
        infer_dtype_size(p->out[0].dtype) != 4)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes F32 and I32, and gives them");
    return 0;
}

struct context {
    struct kern_requantize how;
    int form;
};

/* As requantize_integer(), of a float, whose integers above 2^23 are exact. */
CPU_INLINE int32_t integer_of(float v)
{
    const float low = v > -0x1p31f ? v : -0x1p31f;
    const float cut = low < 0x1.fffffep30f ? low : 0x1.fffffep30f;
    const int32_t n = (int32_t)rintf(cut);
    const int32_t number = v == v ? n : 0;

    return v >= 0x1p31f ? INT32_MAX : number;
}

/* The bytes of one row's operands. */
struct operands {
    const float *floats; /* x as floats, or as integers */
    const int32_t *integers;
    const int32_t *multiplier, *shift, *addend;
    float *to_floats; /* y likewise */
    int32_t *to_integers;
};

/* Whether x is floats, y too, an addend is there, one rounding is due, and sums
 * have 64 bits. */
enum { FROM_FLOATS = 1, TO_FLOATS = 2, ADDS = 4, ONCE = 8, WIDE = 16 };

CPU_INLINE void row(const struct kern_requantize *how, int form,
                    const struct operands *o, int64_t sx, int64_t sm,
                    int64_t ss, int64_t sa, int64_t sy, int64_t n)
{
    const struct kern_requantize a = *how;
    const struct operands p = *o;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const int32_t x = form & FROM_FLOATS ? integer_of(p.floats[i * sx])
                                             : p.integers[i * sx];
        const int32_t m = p.multiplier[i * sm], k = p.shift[i * ss];
        const bool fits = requantize_fits(m, k);
        const int32_t v =
            requantize(&a, form & ONCE, form & WIDE, x, fits ? m : 0,
                       fits ? k : 0, form & ADDS ? p.addend[i * sa] : 0);

        if (form & TO_FLOATS)
            p.to_floats[i * sy] = (float)v;
        else
            p.to_integers[i * sy] = v;
    }
}

/* Strides that the compiler knows where they are the usual ones: dense, with a
 * factor a channel or one for all. */
CPU_INLINE void row_of_form(const struct kern_requantize *how, int form,
                            const struct operands *o, const int64_t *s,
                            int64_t n)
{
    const int64_t sa = form & ADDS ? s[ADDEND] : 0, factor = s[MULTIPLIER];
    const bool dense = s[Y] == 1 && s[X] == 1 && s[SHIFT] == factor;

    if (dense && factor == 0 && (!(form & ADDS) || sa == 1))
        row(how, form, o, 1, 0, 0, 1, 1, n);
    else if (dense && factor == 1 && !(form & ADDS))
        row(how, form, o, 1, 1, 1, 0, 1, n);
    else
        row(how, form, o, s[X], factor, s[SHIFT], sa, s[Y], n);
}

/* The forms of layers (1, and of 16 bits: 2), of sums of two tensors (3 to 5),
 * and the rest. */
CPU_CLONES static void row_of(const struct kern_requantize *how, int form,
                              const struct operands *o, const int64_t *s,
                              int64_t n)
{
    switch (form) {
    case FROM_FLOATS | TO_FLOATS:
        row_of_form(how, FROM_FLOATS | TO_FLOATS, o, s, n);
        break;
    case FROM_FLOATS | TO_FLOATS | ADDS | WIDE:
        row_of_form(how, FROM_FLOATS | TO_FLOATS | ADDS | WIDE, o, s, n);
        break;
    case FROM_FLOATS:
        row_of_form(how, FROM_FLOATS, o, s, n);
        break;
    case FROM_FLOATS | ADDS:
        row_of_form(how, FROM_FLOATS | ADDS, o, s, n);
        break;
    case TO_FLOATS:
        row_of_form(how, TO_FLOATS, o, s, n);
        break;
    case FROM_FLOATS | TO_FLOATS | ONCE:
        row_of_form(how, FROM_FLOATS | TO_FLOATS | ONCE, o, s, n);
        break;
    default:
        row(how, form, o, s[X], s[MULTIPLIER], s[SHIFT],
            form & ADDS ? s[ADDEND] : 0, s[Y], n);
    }
}

static void rows_of(const void *context, int64_t rows, int64_t n,
                    float *const *at, const int64_t *row_stride,
                    const int64_t *stride)
{
    const struct context *c = context;

    for (int64_t r = 0; r < rows; r++) {
        struct operands o = {.floats = NULL};
        void *p[CPU_MAX_OPERAND] = {NULL};

        for (int i = 0; i < (c->form & ADDS ? 5 : 4); i++)
            p[i] = at[i] + r * row_stride[i];
        o.floats = p[X];
        o.integers = p[X];
        o.multiplier = p[MULTIPLIER];
        o.shift = p[SHIFT];
        o.addend = p[ADDEND];
        o.to_floats = p[Y];
        o.to_integers = p[Y];
        row_of(&c->how, c->form, &o, stride, n);
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct context c = {
        p->attr.requantize, (p->in[0].dtype == INFER_F32 ? FROM_FLOATS : 0) |
                                (p->out[0].dtype == INFER_F32 ? TO_FLOATS : 0) |
                                (kern_problem_in(p, 3) ? ADDS : 0) |
                                (p->attr.requantize.wide ? WIDE : 0) |
                                (p->attr.requantize.once ? ONCE : 0)};

    (void)err;
    return cpu_walk_problem(e, args, rows_of, &c);
}

KERN_FUNCTIONS(requantize_cpu_walk) = {
    .supports = supports,
    .prepare = cpu_prepare,
    .launch = launch,
    .release = cpu_release,
};
