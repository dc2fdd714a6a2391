/* SPDX-License-Identifier: Apache-2.0 */
/* 8 bits with scales (kernels/quant/quant.h) in plain C: runs of
 * elements, and the lines of tensors that they lie in. */
#ifndef KERNELS_CPU_BYTES_H
#define KERNELS_CPU_BYTES_H

#include "kernels/base/scalar.h"
#include "kernels/cpu/cpu.h"
#include "kernels/quant/quant.h"

/* Elements that are handled at a time: their values stay in the L1 cache. */
#define BYTES_RUN 1024

/* The scale and zero point of a tensor; ignored where it is F32. */
struct bytes_scale {
    enum infer_dtype dtype;
    float scale;
    int zero;
};

static inline bool bytes_known(const struct kern_tensor *t)
{
    return quant_is_byte(t->dtype) || t->dtype == INFER_F32;
}

/* n values of elements that are `step` apart from x on. */
void bytes_load(const struct bytes_scale *s, const void *x, int64_t step,
                float *v, int64_t n);
/* The elements of n values. */
void bytes_store(const struct bytes_scale *s, const float *v, void *y,
                 int64_t step, int64_t n);

/* Integers of n values by products with 1 / scale, limited to low .. high, plus
 * zero.  Returns the largest distance of a product from its integer. */
float bytes_multiplied_avx512(const float *v, float inverse, float low,
                              float high, int zero, uint8_t *y, int64_t n);

/* All elements of several tensors of one shape as lines along one dimension,
 * the innermost of tensor 0, whose others are merged where all allow; long
 * lines are cut. */
struct bytes_lines {
    struct cpu_walk walk;
    int64_t pieces, count; /* of a line; of all pieces */
};

void bytes_lines_init(struct bytes_lines *l, int operands,
                      const struct kern_tensor *const *t);
/* Elements of piece i, and where it begins in each tensor, in elements. */
int64_t bytes_lines_at(const struct bytes_lines *l, int64_t i,
                       int64_t offset[CPU_MAX_OPERAND]);
/* Elements from one of the line to the next in tensor k. */
static inline int64_t bytes_lines_step(const struct bytes_lines *l, int k)
{
    return l->walk.stride[k][l->walk.rank - 1];
}

/* Element `at` of a tensor. */
static inline void *bytes_at(const void *base, enum infer_dtype dtype,
                             int64_t at)
{
    return (char *)base + at * (int64_t)infer_dtype_size(dtype);
}

#endif
