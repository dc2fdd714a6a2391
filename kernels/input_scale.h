/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input scale of a convolution: one factor an image and channel, as in
 * squeeze-and-excite blocks.  The input is multiplied as it is loaded, so that
 * the product need not be stored.
 *
 * in[4] of KERN_CONV_FPROP, optional: N, C and 1 for each spatial dimension, of
 * the input's type.  y is that of x[n, c, i] * factors[n, c] in place of x[n,
 * c, i]; a row may round this product to the input's type, which is what a
 * product of its own would store.
 */
#ifndef KERNELS_INPUT_SCALE_H
#define KERNELS_INPUT_SCALE_H

#include "kernels/problem.h"

/* in[] of a convolution. */
#define INPUT_SCALE_IN 4

/* The factors that a problem has, or NULL. */
static inline const struct kern_tensor *
input_scale_of(const struct kern_problem *p)
{
    return p->op == KERN_CONV_FPROP ? kern_problem_in(p, INPUT_SCALE_IN) : NULL;
}

#endif
