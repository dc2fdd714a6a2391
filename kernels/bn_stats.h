/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial statistics of a convolution's output.  The convolution writes them
 * for the batch normalisation that follows, which then need not read the output
 * for them.
 *
 * out[1] of KERN_CONV_FPROP, in[6] of KERN_BATCH_NORM_TRAIN, both optional:
 * dense F32 [P][2][K].  Part p holds the pixels p R to p R + R - 1, counted
 * over N and space in row-major order, the last part the remainder; R is the
 * smallest power of 2 with which P parts cover all pixels, and P follows
 * from R. [p][0][k] is the mean of y[k] over the part, as y is stored, and
 * [p][1][k] the sum of the squared deviations from that mean: two parts join as
 * Chan, Golub and LeVeque do it ("Updating formulae and a pairwise algorithm
 * for computing sample variances", 1979), without the cancellation that sums of
 * squares have.
 */
#ifndef KERNELS_BN_STATS_H
#define KERNELS_BN_STATS_H

#include "kernels/problem.h"

/* R as rows of convolution give it. */
#define BN_STATS_PART 64

/* R of P parts. */
static inline int64_t bn_stats_part(int64_t parts, int64_t pixels)
{
    const int64_t least = (pixels + parts - 1) / parts;
    int64_t part = 1;

    while (part < least)
        part *= 2;
    return part;
}

/* P of parts of R pixels. */
static inline int64_t bn_stats_parts(int64_t part, int64_t pixels)
{
    return (pixels + part - 1) / part;
}

/* The partial statistics of a problem, or NULL. */
static inline const struct kern_tensor *
bn_stats_of(const struct kern_problem *p)
{
    if (p->op == KERN_CONV_FPROP)
        return kern_problem_out(p, 1);
    return p->op == KERN_BATCH_NORM_TRAIN ? kern_problem_in(p, 6) : NULL;
}

#endif
