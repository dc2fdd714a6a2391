/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the rows' supports() and the problem check. */
#ifndef KERNELS_PROBLEM_H
#define KERNELS_PROBLEM_H

#include "kernels/kern.h"
#include "kernels/op.h"

/* Enough for KERN_MAX_RANK numbers of 64 bits and the signs between. */
#define KERN_SHAPE_TEXT 192

/* "1x64x56x56", or "scalar" for rank 0.  Returns buf. */
const char *kern_shape_text(int rank, const int64_t *dim,
                            char buf[KERN_SHAPE_TEXT]);

/* Input i, or NULL where it is absent. */
static inline const struct kern_tensor *
kern_problem_in(const struct kern_problem *p, int i)
{
    return i < p->n_in && p->in[i].dtype != INFER_NONE ? &p->in[i] : NULL;
}

/* Output i, or NULL where it is absent. */
static inline const struct kern_tensor *
kern_problem_out(const struct kern_problem *p, int i)
{
    return i < p->n_out && p->out[i].dtype != INFER_NONE ? &p->out[i] : NULL;
}

/* in[] of the table of products that convolutions, their gradients and dense
 * layers may multiply with: U32, 2^m x 2^m for m from 1 to 11, its entries and
 * edges as kernels/base/product_table.h has them.  The entry of in[0]'s element
 * a and in[1]'s element b is that of row a and column b, in both gradients too.
 * Products are of single precision; what is added to their sum is exact. */
#define PRODUCT_TABLE_IN 6

/* True of the operations that may have one. */
static inline bool kern_op_takes_table(enum kern_op op)
{
    return op == KERN_CONV_FPROP || op == KERN_CONV_TRANSPOSE_FPROP ||
           op == KERN_CONV_WGRAD || op == KERN_DENSE_FPROP;
}

/* The table that a problem multiplies with, or NULL. */
static inline const struct kern_tensor *
product_table_of(const struct kern_problem *p)
{
    return kern_op_takes_table(p->op) ? kern_problem_in(p, PRODUCT_TABLE_IN)
                                      : NULL;
}

/* m of a table that kern_problem_check() accepts. */
static inline int product_table_bits_of(const struct kern_tensor *table)
{
    int m = 1;

    while (table->dim[0] >> m > 1)
        m++;
    return m;
}

#endif
