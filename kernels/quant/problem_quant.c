/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of problems on integers of 8 bits (kernels/quant/quant.h). */
#include "kernels/check/problem_check.h"

#include <math.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "kernels/bn_stats.h"
#include "kernels/input_scale.h"
#include "kernels/quant/quant.h"

/* The scale and zero point of a tensor, if it is I8 or U8. */
static int check_scale(const struct kern_problem *p, const char *what,
                       const struct kern_tensor *t, float scale, int zero,
                       struct infer_error *why)
{
    float low, high;

    if (!t || !quant_is_byte(t->dtype))
        return 0;
    quant_limits(t->dtype, 0, &low, &high);
    if (!isfinite(scale) || !(scale > 0) || !isfinite(1 / scale))
        return REFUSE(p, why, "the scale %g of %s is no positive number",
                      (double)scale, what);
    if (zero < (int)low || zero > (int)high)
        return REFUSE(p, why, "the zero point %d of %s is no %s", zero, what,
                      infer_dtype_name(t->dtype));
    return 0;
}

static int check_types(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, 3), *y = &p->out[0];
    const struct kern_tensor *bias = kern_problem_in(p, 2);

    if (!quant_is_byte(p->in[0].dtype) || p->in[1].dtype != INFER_I8)
        return REFUSE(p, why,
                      "scales of weights stand for inputs of I8 or U8 and "
                      "weights of I8, found %s and %s",
                      infer_dtype_name(p->in[0].dtype),
                      infer_dtype_name(p->in[1].dtype));
    if (quant_of(p)->dtype != INFER_F32 || (bias && bias->dtype != INFER_F32))
        return REFUSE(p, why, "scales and bias of integers are F32");
    if ((!quant_is_byte(y->dtype) && !scalar_is_float(y->dtype)) ||
        (r && !quant_is_byte(r->dtype) && !scalar_is_float(r->dtype)))
        return REFUSE(p, why,
                      "output or residual is of no type that a layer "
                      "on integers gives");
    return 0;
}

static int check_scaled_type(const struct kern_problem *p,
                             const struct kern_tensor *t,
                             struct infer_error *why)
{
    return quant_is_byte(t->dtype) || scalar_is_float(t->dtype)
               ? 0
               : REFUSE(p, why, "scales stand for I8, U8 and floats, found %s",
                        infer_dtype_name(t->dtype));
}

/* The errors of an approximate multiplier, if there is one. */
static int check_errors(const struct kern_problem *p,
                        const struct kern_tensor *t, struct infer_error *why)
{
    if (!t || (t->dtype == INFER_I32 && t->rank == 2 && t->dim[0] == 256 &&
               t->dim[1] == 256))
        return 0;
    return REFUSE(p, why, "the errors of a multiplier are no I32 of 256x256");
}

/* A copy, pool or function of two arguments with scales. */
static int check_scaled(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_quant *q = &p->quant;
    int r = check_scaled_type(p, &p->out[0], why);

    for (int i = 0; i < p->n_in && r == 0; i++)
        r = check_scaled_type(p, &p->in[i], why);
    if (r == 0 && p->op == KERN_POOL_FPROP && !quant_is_byte(p->in[0].dtype))
        return REFUSE(p, why, "pooling with scales takes I8 and U8");
    if (r == 0 && p->op == KERN_BINARY && kern_problem_in(p, 2))
        return REFUSE(p, why, "a function of scaled integers adds no residual");
    if (r == 0)
        r = check_scale(p, "the input", &p->in[0], q->x_scale, q->x_zero, why);
    if (r == 0 && p->op == KERN_BINARY)
        r = check_scale(p, "the second input", &p->in[1], q->residual_scale,
                        q->residual_zero, why);
    return r < 0 ? r
                 : check_scale(p, "the output", &p->out[0], q->y_scale,
                               q->y_zero, why);
}

int problem_check_quant(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_quant *q = &p->quant;
    const struct kern_tensor *w = &p->in[1];
    int64_t terms = 1;
    int r;

    if (quant_is_scaled(p))
        return check_scaled(p, why);
    if (!quant_of(p))
        return 0;
    r = problem_expect_shape(p, "scales of weights", quant_of(p), 1, w->dim,
                             why);
    if (r == 0)
        r = check_types(p, why);
    if (r < 0)
        return r;
    if (input_scale_of(p) || bn_stats_of(p))
        return REFUSE(p, why,
                      "a layer on integers has no scale of its input and no "
                      "statistics");
    r = check_errors(p, product_table_of(p), why);
    if (r < 0)
        return r;
    for (int i = 1; i < w->rank; i++)
        if (!checked_mul_i64(terms, w->dim[i], &terms) ||
            terms > QUANT_MAX_TERMS)
            return REFUSE(p, why, "sums of integers have at most %d terms",
                          QUANT_MAX_TERMS);
    r = check_scale(p, "the input", &p->in[0], q->x_scale, q->x_zero, why);
    if (r == 0)
        r = check_scale(p, "the output", &p->out[0], q->y_scale, q->y_zero,
                        why);
    return r < 0 ? r
                 : check_scale(p, "the residual", kern_problem_in(p, 3),
                               q->residual_scale, q->residual_zero, why);
}
