/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chain: two convolutions as one operation, the second of which has a window
 * of one pixel and reads nothing but the first one's output.  That tensor, the
 * middle one, is then never stored.
 *
 * y = epilogue(conv1x1(act(conv(x, w) + bias), w2) + bias2, residual).
 * x: N,C,spatial; w: M,C/groups,window; w2: K,M,1...; bias: M; bias2: K; y and
 * residual: N,K,spatial.  The first convolution's attributes and activation are
 * attr.chain's, those of the second are fixed: one group, steps of 1, no pads.
 * A row may round middle values to x's type, which is what a convolution of its
 * own would store.
 */
#ifndef KERNELS_CHAIN_CHAIN_H
#define KERNELS_CHAIN_CHAIN_H

#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CHAIN_X,
    CHAIN_W,
    CHAIN_W2,
    CHAIN_BIAS,
    CHAIN_BIAS2,
    CHAIN_RESIDUAL,
    CHAIN_INPUTS
};

/* The two convolutions as problems, the middle tensor dense and of the given
 * type; p has the ranks that problem_check_chain() asks for. */
void chain_first(const struct kern_problem *p, enum infer_dtype middle,
                 enum kern_layout layout, struct kern_problem *out);
void chain_second(const struct kern_problem *p, enum infer_dtype middle,
                  enum kern_layout layout, struct kern_problem *out);

#ifdef __cplusplus
}
#endif

#endif
