/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation of a block of elements by their own mean and variance. */
#ifndef KERNELS_REF_NORM_NORM_H
#define KERNELS_REF_NORM_NORM_H

#include "kernels/ref/ref.h"

/* Shared by layer and group norm.  The block is all indices of dim[] from an
 * offset into x and another into y. */
struct ref_block {
    int rank;
    int64_t dim[KERN_MAX_RANK];
    int64_t x_stride[KERN_MAX_RANK], y_stride[KERN_MAX_RANK];
};

/* What is taken off and multiplied by: 0 and 1 / root mean square for RMS
 * norm. */
struct ref_moments {
    double mean, inverse;
};
struct ref_moments ref_block_stats(const struct ref_block *b,
                                   enum infer_dtype dtype, const void *x,
                                   int64_t offset,
                                   const struct kern_norm *attr);

/* The walk over a block, x at offset 0 and y at offset 1. */
void ref_block_walk(const struct ref_block *b, struct ref_walk *w);

#endif
