/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps of grouped convolutions: a dimension of their own for the groups,
 * so that a box never reaches into the channels of the next group.  Boxes are
 * as those of tensor_map.h. */
#ifndef KERNELS_CUDA_WGMMA_TENSOR_MAP_GROUPS_H
#define KERNELS_CUDA_WGMMA_TENSOR_MAP_GROUPS_H

#include "kernels/cuda/wgmma/tensor_map.h"

/* The im2col map of the input of a grouped convolution: dimensions are channels
 * of a group, W, H, N, groups.  cg is a multiple of 8.  Pixels past the last
 * image are those of the next group. */
int tensor_map_im2col_groups(CUtensorMap *out, enum tensor_map_type type,
                             const void *base, const struct conv_geometry *g,
                             int pixels, struct infer_error *err);

/* Its output or residual: channels of a group, groups, pixels, with `pitch`
 * elements from pixel to pixel; boxes of one group by `pixels`. */
int tensor_map_output_groups(CUtensorMap *out, enum tensor_map_type type,
                             const void *base, const struct conv_geometry *g,
                             int64_t pitch, int pixels,
                             struct infer_error *err);

/* The limits of tensor_map_im2col_groups(): 0, or INFER_EUNSUPPORTED. */
int tensor_map_check_groups(const struct conv_geometry *g,
                            struct infer_error *why);

#endif
