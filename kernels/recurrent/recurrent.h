/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of KERN_RECURRENT, and what its rows share. */
#ifndef KERNELS_RECURRENT_H
#define KERNELS_RECURRENT_H

#include "kernels/kern.h"

enum {
    RECURRENT_X,
    RECURRENT_W,
    RECURRENT_BIAS, /* of the GRU's gate h, with reset_after */
    RECURRENT_H,
    RECURRENT_C,
    RECURRENT_PEEPHOLE,
    RECURRENT_LENGTH
};

#define RECURRENT_GATES 4 /* at most */

static inline int recurrent_gates(enum kern_cell cell)
{
    return cell == KERN_CELL_RNN   ? 1
           : cell == KERN_CELL_GRU ? 3
                                   : RECURRENT_GATES;
}

/* Step t of S in the order of time is this one of x and y. */
static inline int64_t recurrent_place(const struct kern_recurrent *a, int64_t t,
                                      int64_t steps)
{
    return a->reverse ? steps - 1 - t : t;
}

#endif
