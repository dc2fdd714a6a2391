/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers on mma.sync: single precision, each product as
 * three of TF32.
 * igemm.cuh describes the kernel, igemm_rows.cuh the tiles. */
#include "kernels/cuda/mma/igemm_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f32_cuda_igemm_tf32x3_sm80,
            igemm_conv_tiles<igemm_tf32x3>)
CONV_FAMILY(dense_fprop_f32_cuda_igemm_tf32x3_sm80,
            igemm_dense_tiles<igemm_tf32x3>)
