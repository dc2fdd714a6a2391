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

#endif
