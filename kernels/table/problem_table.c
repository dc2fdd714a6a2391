/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a table of products or of their derivatives. */
#include "kernels/check/problem_check.h"
#include "kernels/quant/quant.h"
#include "kernels/table/accumulator.h"
#include "kernels/table/product_slope.h"

static int check_factors(const struct kern_problem *p,
                         const struct kern_tensor *t, struct infer_error *why)
{
    const int64_t side = product_table_of(p)->dim[0];

    if (t->rank != 3 || t->dim[0] != 2 || t->dim[1] != side || t->dim[2] < 1 ||
        t->dim[2] > PRODUCT_FACTORS_MOST || !kern_tensor_is_dense(t, KERN_NCHW))
        return REFUSE(p, why,
                      "factors of products are not dense, 2x%dxr, r from "
                      "1 to %d",
                      (int)side, PRODUCT_FACTORS_MOST);
    return 0;
}

static int check_accumulator(const struct kern_problem *p,
                             const struct kern_tensor *t,
                             struct infer_error *why)
{
    if (t->rank != 1 || t->dim[0] != 2 || t->stride[0] != 1)
        return REFUSE(p, why, "an accumulator is not dense, of 2 numbers");
    return 0;
}

/* Whether in[i] is of a table of products: factors, or an accumulator. */
static bool is_beside_table(const struct kern_problem *p, int i)
{
    return &p->in[i] == product_factors_of(p) || &p->in[i] == accumulator_of(p);
}

/* Derivatives have one point; products may have factors or
 * an accumulator in its place. */
static int check_point(const struct kern_problem *p, struct infer_error *why)
{
    const bool slopes = product_slope_of(p) != NULL;
    const int at = product_point_in(p);
    const struct kern_tensor *t = kern_problem_in(p, at);

    for (int i = 0; i < p->n_in; i++)
        if ((i == PRODUCT_POINT_IN ||
             (p->op == KERN_CONV_WGRAD && i == PRODUCT_POINT_FIRST_IN)) &&
            kern_problem_in(p, i) && !is_beside_table(p, i) &&
            (!slopes || i != at))
            return REFUSE(p, why, "input %d needs a table of derivatives", i);
    if (product_factors_of(p))
        return check_factors(p, product_factors_of(p), why);
    if (accumulator_of(p))
        return check_accumulator(p, accumulator_of(p), why);
    if (!slopes)
        return 0;
    if (p->op == KERN_DENSE_FPROP)
        return REFUSE(p, why, "takes no table of derivatives");
    if (!t || t->dtype != INFER_F32)
        return REFUSE(p, why,
                      "a table of derivatives needs the operand that they are "
                      "taken at, F32, as input %d",
                      at);
    return problem_expect_like(p, "the operand of the derivatives", t,
                               &p->out[0], why);
}

/* A square of 2^m entries, which a product's factors must suit. */
int problem_check_product_table(const struct kern_problem *p,
                                struct infer_error *why)
{
    const struct kern_tensor *t = product_table_of(p);
    const int64_t most = INT64_C(1) << PRODUCT_TABLE_MAX_BITS;

    if (kern_op_takes_table(p->op)) {
        const int r = check_point(p, why);
        if (r < 0)
            return r;
    }
    if (t && (t->rank < 2 || t->stride[0] < 0 || t->stride[1] < 0))
        return REFUSE(p, why,
                      "the table has fewer than 2 dimensions or "
                      "negative strides");
    if (!t || quant_of(p)) /* quant.h states that of integers */
        return 0;
    if ((t->dtype != INFER_U32 && t->dtype != INFER_F32) || t->rank != 2 ||
        t->dim[0] != t->dim[1] || t->dim[0] < 2 || t->dim[0] > most ||
        (t->dim[0] & (t->dim[0] - 1)))
        return REFUSE(
            p, why,
            "the table is no U32 (products) or F32 (derivatives) square "
            "of 2^m entries, m from 1 to %d",
            PRODUCT_TABLE_MAX_BITS);
    for (int i = 0; i < 2; i++)
        if (p->in[i].dtype != INFER_F32 && p->in[i].dtype != INFER_F16 &&
            p->in[i].dtype != INFER_BF16)
            return REFUSE(p, why,
                          "a table of products takes F32, F16 or BF16, input "
                          "%d is %s",
                          i, infer_dtype_name(p->in[i].dtype));
    if (p->op == KERN_CONV_FPROP && kern_problem_in(p, 4))
        return REFUSE(p, why,
                      "a scale of the input and a table of products exclude "
                      "each other");
    return 0;
}
