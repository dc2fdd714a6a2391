/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers on mma.sync: F8E4M3.
 * igemm.cuh describes the kernel, igemm_8bit.cuh the tiles. */
#include "kernels/cuda/mma/igemm_8bit.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f8e4m3_cuda_igemm_sm89,
            igemm_8bit_conv_tiles<igemm_e4m3>)
CONV_FAMILY(dense_fprop_f8e4m3_cuda_igemm_sm89,
            igemm_8bit_dense_tiles<igemm_e4m3>)
