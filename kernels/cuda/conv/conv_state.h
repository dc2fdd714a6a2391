/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that need nothing but the geometry of their convolution once they are
 * prepared. */
#ifndef KERNELS_CUDA_CONV_CONV_STATE_H
#define KERNELS_CUDA_CONV_CONV_STATE_H

#include "kernels/cuda/conv/conv.h"

/* The geometry of the problem, which e->state holds from now on.
 * EUNSUPPORTED, EMEMORY */
int conv_state_keep(struct kern_exec *e, struct infer_error *err,
                    const struct conv_geometry **out);

#endif
