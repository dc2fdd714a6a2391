/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers with plain multiply-adds, f32 activations.
 * simt.cuh describes the kernel and lists the tiles. */
#include "kernels/cuda/conv/simt.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f32_cuda_simt, simt_conv_tiles<float>)
CONV_FAMILY(dense_fprop_f32_cuda_simt_packed, simt_dense_tiles<float>)
