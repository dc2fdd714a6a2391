/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of problems in 8 bits (kernels/quant/quant.h). */
#include "kernels/check/problem_check.h"

#include <math.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "kernels/bn_stats.h"
#include "kernels/input_scale.h"
#include "kernels/quant/quant.h"

/* The scale and zero point of a tensor, if it is of 8 bits. */
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
    if (t->dtype == INFER_F8E4M3 && zero != 0)
        return REFUSE(p, why,
                      "the zero point %d of %s is not 0, F8_E4M3 has none",
                      zero, what);
    if (zero < (int)low || zero > (int)high)
        return REFUSE(p, why, "the zero point %d of %s is no %s", zero, what,
                      infer_dtype_name(t->dtype));
    return 0;
}

/* Beside a tensor of integers none of F8E4M3, and the other way round. */
static int check_kind(const struct kern_problem *p, const struct kern_tensor *a,
                      const struct kern_tensor *b, struct infer_error *why)
{
    if (!b || !quant_is_byte(a->dtype) || !quant_is_byte(b->dtype) ||
        quant_is_integer(a->dtype) == quant_is_integer(b->dtype))
        return 0;
    return REFUSE(p, why, "%s and %s in one step", infer_dtype_name(a->dtype),
                  infer_dtype_name(b->dtype));
}

static int check_types(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, 3), *y = &p->out[0];
    const struct kern_tensor *bias = kern_problem_in(p, 2);
    int rc;

    if (!quant_is_byte(p->in[0].dtype) ||
        p->in[1].dtype != quant_weights_of(p->in[0].dtype))
        return REFUSE(p, why,
                      "scales of weights stand for inputs of I8 or U8 and "
                      "weights of I8, or both of F8_E4M3, found %s and %s",
                      infer_dtype_name(p->in[0].dtype),
                      infer_dtype_name(p->in[1].dtype));
    rc = check_kind(p, &p->in[0], y, why);
    if (rc == 0)
        rc = check_kind(p, &p->in[0], r, why);
    if (rc < 0)
        return rc;
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
               : REFUSE(p, why,
                        "scales stand for I8, U8, F8_E4M3 and floats, found "
                        "%s",
                        infer_dtype_name(t->dtype));
}

/* The errors of an approximate multiplier, if there is one. */
static int check_errors(const struct kern_problem *p,
                        const struct kern_tensor *t, struct infer_error *why)
{
    if (t && p->in[0].dtype == INFER_F8E4M3)
        return REFUSE(p, why, "products of F8_E4M3 have no table of errors");
    if (!t || (t->dtype == INFER_I32 && t->rank == 2 && t->dim[0] == 256 &&
               t->dim[1] == 256))
        return 0;
    return REFUSE(p, why, "the errors of a multiplier are no I32 of 256x256");
}

/* The scale of an output: of 8 bits, or of F64 for tests. */
static int check_output(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_tensor *y = &p->out[0];

    if (!quant_is_byte(y->dtype) && y->dtype != INFER_F64 &&
        p->quant.y_scale != 0)
        return REFUSE(p, why, "a scale of an output of %s",
                      infer_dtype_name(y->dtype));
    return check_scale(p, "the output", y, p->quant.y_scale, p->quant.y_zero,
                       why);
}

/* A scale and shift: vectors of F32, no residual. */
static int check_scaled_shift(const struct kern_problem *p,
                              struct infer_error *why)
{
    const struct kern_quant *q = &p->quant;
    int r = check_scaled_type(p, &p->in[0], why);

    if (r == 0)
        r = check_kind(p, &p->in[0], &p->out[0], why);
    for (int i = 1; i <= 2 && r == 0; i++)
        if (kern_problem_in(p, i) && p->in[i].dtype != INFER_F32)
            r = REFUSE(p, why, "scale and shift of scaled integers are F32");
    if (r == 0 && kern_problem_in(p, 3))
        r = REFUSE(p, why, "a scale of scaled integers adds no residual");
    if (r == 0)
        r = check_scale(p, "the input", &p->in[0], q->x_scale, q->x_zero, why);
    return r < 0 ? r : check_output(p, why);
}

/* A copy, pool, function of two arguments, or scale and shift with scales. */
static int check_scaled(const struct kern_problem *p, struct infer_error *why)
{
    const struct kern_quant *q = &p->quant;
    int r = check_scaled_type(p, &p->out[0], why);

    if (r == 0 && p->op == KERN_SCALE_SHIFT)
        return check_scaled_shift(p, why);
    for (int i = 0; i < p->n_in && r == 0; i++) {
        r = check_scaled_type(p, &p->in[i], why);
        if (r == 0)
            r = check_kind(p, &p->in[i], &p->out[0], why);
        if (r == 0)
            r = check_kind(p, &p->in[0], &p->in[i], why);
    }
    if (r == 0 && p->op == KERN_POOL_FPROP && !quant_is_byte(p->in[0].dtype))
        return REFUSE(p, why, "pooling with scales takes I8, U8 and F8_E4M3");
    if (r == 0 && p->op == KERN_BINARY && kern_problem_in(p, 2))
        return REFUSE(p, why, "a function of scaled integers adds no residual");
    if (r == 0)
        r = check_scale(p, "the input", &p->in[0], q->x_scale, q->x_zero, why);
    if (r == 0 && p->op == KERN_BINARY)
        r = check_scale(p, "the second input", &p->in[1], q->residual_scale,
                        q->residual_zero, why);
    return r < 0 ? r : check_output(p, why);
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
        r = check_output(p, why);
    return r < 0 ? r
                 : check_scale(p, "the residual", kern_problem_in(p, 3),
                               q->residual_scale, q->residual_zero, why);
}
