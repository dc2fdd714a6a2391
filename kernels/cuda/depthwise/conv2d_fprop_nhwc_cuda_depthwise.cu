/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution; depthwise.cuh describes the kernels. */
#include "kernels/cuda/depthwise/depthwise.cuh"

DEPTHWISE_ROW(conv2d_fprop_nhwc_f32_cuda_depthwise, float)
DEPTHWISE_ROW(conv2d_fprop_nhwc_f16_cuda_depthwise, __half)
DEPTHWISE_ROW(conv2d_fprop_nhwc_bf16_cuda_depthwise, __nv_bfloat16)
