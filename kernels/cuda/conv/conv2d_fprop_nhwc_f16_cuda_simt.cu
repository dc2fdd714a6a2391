/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers with plain multiply-adds, f16 activations.
 * simt.cuh describes the kernel and lists the tiles. */
#include "kernels/cuda/conv/simt.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f16_cuda_simt, simt_conv_tiles<__half>)
CONV_FAMILY(dense_fprop_f16_cuda_simt_packed, simt_dense_tiles<__half>)
