/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution; depthwise.cuh describes the kernels. */
#include "kernels/cuda/depthwise/depthwise.cuh"

DEPTHWISE_ROW(conv2d_fprop_nhwc_f32_cuda_depthwise, float, INFER_F32)
DEPTHWISE_ROW(conv2d_fprop_nhwc_f16_cuda_depthwise, __half, INFER_F16)
DEPTHWISE_ROW(conv2d_fprop_nhwc_bf16_cuda_depthwise, __nv_bfloat16, INFER_BF16)
