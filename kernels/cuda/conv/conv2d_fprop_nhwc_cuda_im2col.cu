/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution through an unfolded matrix; im2col.cuh describes the kernels. */
#include "kernels/cuda/conv/im2col.cuh"

IM2COL_ROW(conv2d_fprop_nhwc_f32_cuda_im2col_window, float, 0)
IM2COL_ROW(conv2d_fprop_nhwc_f32_cuda_im2col_element, float, 1)
IM2COL_ROW(conv2d_fprop_nhwc_f16_cuda_im2col_window, __half, 0)
IM2COL_ROW(conv2d_fprop_nhwc_f16_cuda_im2col_element, __half, 1)
IM2COL_ROW(conv2d_fprop_nhwc_bf16_cuda_im2col_window, __nv_bfloat16, 0)
IM2COL_ROW(conv2d_fprop_nhwc_bf16_cuda_im2col_element, __nv_bfloat16, 1)
