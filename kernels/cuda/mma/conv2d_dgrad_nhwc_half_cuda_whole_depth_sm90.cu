/* SPDX-License-Identifier: Apache-2.0 */
/* dgrad of few outputs and stride 1, from weights as they lie in training:
 * whole_depth.cuh. */
#include "kernels/cuda/mma/whole_depth_rows.cuh"

CONV_FAMILY(conv2d_dgrad_nhwc_f16_cuda_whole_depth_sm90,
            whole_depth_tiles<__half, false>)
CONV_FAMILY(conv2d_dgrad_nhwc_bf16_cuda_whole_depth_sm90,
            whole_depth_tiles<__nv_bfloat16, false>)
