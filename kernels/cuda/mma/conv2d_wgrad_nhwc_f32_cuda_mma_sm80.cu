/* SPDX-License-Identifier: Apache-2.0 */
/* Weight gradients of single precision on tensor cores, rounded to TF32 or with
 * three products for one; see wgrad.cuh. */
#include "kernels/cuda/mma/wgrad_rows.cuh"

CONV_FAMILY_OF_FEW(conv2d_wgrad_nhwc_tf32_cuda_mma_sm80,
                   wgrad_float_tiles<igemm_tf32>)
CONV_FAMILY_OF_FEW(conv2d_wgrad_nhwc_f32_cuda_mma_tf32x3_sm80,
                   wgrad_float_tiles<igemm_tf32x3>)
