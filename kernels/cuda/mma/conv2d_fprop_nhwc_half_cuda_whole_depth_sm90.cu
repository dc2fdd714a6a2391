/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of few outputs with constant weights: whole_depth.cuh. */
#include "kernels/cuda/mma/whole_depth_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f16_cuda_whole_depth_sm90,
            whole_depth_tiles<__half, true>)
CONV_FAMILY(conv2d_fprop_nhwc_bf16_cuda_whole_depth_sm90,
            whole_depth_tiles<__nv_bfloat16, true>)
