/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers with plain multiply-adds, f32 activations.
 * simt.cuh describes the kernel.  128x16 is for groups of few channels. */
#include "kernels/cuda/conv/simt.cuh"

SIMT_ROW(conv2d_fprop_nhwc_f32_cuda_simt_128x128, float, 128, 128, 8, 8)
SIMT_ROW(conv2d_fprop_nhwc_f32_cuda_simt_64x64, float, 64, 64, 4, 4)
SIMT_ROW(conv2d_fprop_nhwc_f32_cuda_simt_128x16, float, 128, 16, 4, 2)
SIMT_ROW(dense_fprop_f32_cuda_simt_64x64, float, 64, 64, 4, 4)
