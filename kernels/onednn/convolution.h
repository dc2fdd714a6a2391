/* SPDX-License-Identifier: Apache-2.0 */
/* How convolutions are told to oneDNN: what its rows of every direction
 * share. */
#ifndef KERNELS_ONEDNN_CONVOLUTION_H
#define KERNELS_ONEDNN_CONVOLUTION_H

#include "kernels/onednn/primitive.h"

/* Dense K,C/g,window weights with an explicit dimension of groups,
 * [g],K/g,C/g,window: as they lie, and with the layout left open. */
bool onednn_describe_weights(const struct kern_tensor *weights, int64_t groups,
                             dnnl_memory_desc_t *given,
                             dnnl_memory_desc_t *any);

/* Attributes as oneDNN counts them: dilations from 0. */
struct onednn_window {
    dnnl_dims_t stride, dilation, begin, end;
};
void onednn_describe_window(const struct kern_conv *a, int spatial,
                            struct onednn_window *out);

#endif
