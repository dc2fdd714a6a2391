/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers with plain multiply-adds, f16 activations.
 * simt.cuh describes the kernel.  128x16 is for groups of few channels. */
#include "kernels/cuda/conv/simt.cuh"

SIMT_ROW(conv2d_fprop_nhwc_f16_cuda_simt_128x128, __half, 128, 128, 8, 8)
SIMT_ROW(conv2d_fprop_nhwc_f16_cuda_simt_64x64, __half, 64, 64, 4, 4)
SIMT_ROW(conv2d_fprop_nhwc_f16_cuda_simt_128x16, __half, 128, 16, 4, 2)
SIMT_ROW(dense_fprop_f16_cuda_simt_64x64, __half, 64, 64, 4, 4)
