/* SPDX-License-Identifier: Apache-2.0 */
/* The state of rows that keep only the geometry of a convolution from prepare()
 * to launch(). */
#ifndef KERNELS_CUDA_CONV_CONV_STATE_H
#define KERNELS_CUDA_CONV_CONV_STATE_H

#include "kernels/cuda/conv/conv.h"

/* Stores the geometry of the problem in e->state.  EUNSUPPORTED, EMEMORY */
int conv_state_keep(struct kern_exec *e, struct infer_error *err,
                    const struct conv_geometry **out);

#endif
