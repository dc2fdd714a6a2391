/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How numpy.matmul reads its tensors: views with batch dimensions first, then
 * rows, then columns, which broadcast as matrices do.
 */
#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "kernels/kern.h"

/* The operand on the left or on the right: a vector is a row on the left and
 * a column on the right, and is never transposed. */
struct kern_tensor matmul_operand(const struct kern_tensor *t, bool transpose,
                                  bool left);
/* The output with the row and the column that vectors took from it, which
 * leaves it within KERN_MAX_RANK: the operands are. */
struct kern_tensor matmul_output(const struct kern_problem *p);

#endif
