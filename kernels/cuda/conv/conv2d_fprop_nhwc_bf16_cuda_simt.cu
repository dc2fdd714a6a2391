/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers with plain multiply-adds, bf16 activations.
 * simt.cuh describes the kernel.  128x16 is for groups of few channels. */
#include "kernels/cuda/conv/simt.cuh"

SIMT_ROW(conv2d_fprop_nhwc_bf16_cuda_simt_128x128, __nv_bfloat16, 128, 128, 8,
         8)
SIMT_ROW(conv2d_fprop_nhwc_bf16_cuda_simt_64x64, __nv_bfloat16, 64, 64, 4, 4)
SIMT_ROW(conv2d_fprop_nhwc_bf16_cuda_simt_128x16, __nv_bfloat16, 128, 16, 4, 2)
SIMT_ROW(dense_fprop_bf16_cuda_simt_64x64, __nv_bfloat16, 64, 64, 4, 4)
