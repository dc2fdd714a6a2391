/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of the operations (kernels/ops.def). */
#ifndef KERNELS_OP_H
#define KERNELS_OP_H

#include "kernels/kern.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kern_op_count {
    int min, max;
};

struct kern_op_info {
    const char *name;
    struct kern_op_count in, out; /* the first min must be there */
    bool act;                     /* its epilogue may hold an activation */
    /* Inputs are stated as IN(i), which is i + 1; 0 is none. */
    int residual;
    int in_place[KERN_MAX_OUT]; /* by output: the input whose memory it may be
                                 */
    uint32_t vectors;    /* bit i: in[i] is a vector along the channels, which
                          * rows take in single precision */
    bool product;        /* multiplies matrices */
    bool follows_layout; /* along rows: the output may lie as the input does */
    bool selects;        /* moves or compares: rounds nothing */
    bool inexact;        /* rounds even on small integers */
    /* Multiply-adds times two; NULL: the notion does not fit. */
    double (*flops)(const struct kern_problem *p);
    /* Shapes and attributes, when the counts of inputs and outputs are right
     * and each tensor is sound. */
    int (*check)(const struct kern_problem *p, struct infer_error *why);
};

/* Of an operation that does not exist, no fact is true. */
const struct kern_op_info *kern_op_info(enum kern_op op);

/* Index of the residual input, -1 for none. */
int kern_op_residual(enum kern_op op);
/* Index of the input whose memory output o may be, -1 for none. */
int kern_op_in_place(enum kern_op op, int o);
/* True if in[i] is a vector along the channels. */
bool kern_op_is_vector(enum kern_op op, int i);

#ifdef __cplusplus
}
#endif

#endif
