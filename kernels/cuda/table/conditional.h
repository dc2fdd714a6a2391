/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products by factors on tensor cores are those of the table as long as no
 * operand, factor or product comes near the ends of the exponents.  The facts
 * say so; they are known when operands have been expanded (expand.cuh).  Then
 * either the kernels of factors run or those of the table: the others end at
 * once.
 */
#ifndef KERNELS_CUDA_TABLE_CONDITIONAL_H
#define KERNELS_CUDA_TABLE_CONDITIONAL_H

#include "kernels/kern.h"

/* Biased exponents of all that is not zero: the largest, and 255 less the
 * least.  Those of infinities and NaN are 255; subnormal numbers are zero. */
struct factor_range {
    uint32_t top, below_255;
};

struct factor_facts {
    struct factor_range operand[2]; /* x, w */
    struct factor_range factor[2];  /* u, v; with 1 */
};

#ifdef __CUDACC__
/* Blocks of a loop over the grid that begins and ends with work for each warp:
 * enough to fill an H200 once, 8 blocks of 256 threads a multiprocessor. */
static inline unsigned launch_few(int64_t n, int threads)
{
    const int64_t blocks = (n + threads - 1) / threads;

    return (unsigned)(blocks < 1056 ? blocks : 1056);
}

/* Largest biased exponent of a sum of two for which sums of products are far
 * from overflow. */
#define FACTOR_TOP_SUM (254 + 127 - 40)

static __device__ __forceinline__ bool
factor_facts_are_plain(const struct factor_facts &f)
{
    int top[2], least[2];

    for (int i = 0; i < 2; i++) {
        const struct factor_range &o = f.operand[i], &u = f.factor[i];
        if (o.top == 0) /* zeros alone */
            return true;
        /* of an operand times its factors */
        top[i] = (int)(o.top + u.top) - 127;
        least[i] = 510 - (int)(o.below_255 + u.below_255) - 127;
        if (top[i] > 254 || least[i] < 1)
            return false;
    }
    /* Products are from 2^-126 on. */
    return top[0] + top[1] <= FACTOR_TOP_SUM && least[0] + least[1] >= 128;
}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that a prepared conv_f32_cuda_table has at the start of its workspace
 * for facts of its own. */
#define CONV_TABLE_FACTS 256

/* Launches a prepared conv_f32_cuda_table that does nothing if the facts, in
 * the device's memory, are plain.  Its own have been set to zero. */
int conv_table_launch_unless_plain(const struct kern_exec *e,
                                   const struct kern_args *args,
                                   const struct factor_facts *facts,
                                   struct infer_error *err);

#ifdef __cplusplus
}
#endif

#endif
