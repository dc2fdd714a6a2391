/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers on mma.sync: i8.
 * igemm.cuh describes the kernel, igemm_8bit.cuh the tiles. */
#include "kernels/cuda/mma/igemm_8bit.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_i8_cuda_igemm_sm80,
            igemm_8bit_conv_tiles<igemm_i8>)
CONV_FAMILY(dense_fprop_i8_cuda_igemm_sm80, igemm_8bit_dense_tiles<igemm_i8>)
