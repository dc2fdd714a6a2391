/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers on mma.sync: f16.
 * igemm.cuh describes the kernel, igemm_rows.cuh the tiles. */
#include "kernels/cuda/mma/igemm_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f16_cuda_igemm_sm80, igemm_conv_tiles<igemm_f16>)
CONV_FAMILY(dense_fprop_f16_cuda_igemm_sm80, igemm_dense_tiles<igemm_f16>)
