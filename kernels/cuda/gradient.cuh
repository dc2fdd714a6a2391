/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of backward passes that compute dx and the gradient of a parameter,
 * one element for each element of x. */
#ifndef KERNELS_CUDA_GRADIENT_CUH
#define KERNELS_CUDA_GRADIENT_CUH

#include "kernels/cuda/types.cuh"

/* check_types(), where input 2 is the parameter, and the same of output 1. */
static inline int supports_gradients(const struct kern_problem *p,
                                     const struct kern_device *d,
                                     struct infer_error *why)
{
    const struct kern_tensor *more = kern_problem_out(p, 1);

    (void)d;
    if (more && more->dtype != p->in[0].dtype)
        return error_set(why, INFER_EUNSUPPORTED,
                         "%s: output 1 is %s beside %s", kern_op_name(p->op),
                         infer_dtype_name(more->dtype),
                         infer_dtype_name(p->in[0].dtype));
    return check_types(p, 2, 2, why);
}

#endif
