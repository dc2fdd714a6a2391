/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of weights on tensor cores: F16 and BF16. */
#include "kernels/cuda/mma/wgrad_rows.cuh"

CONV_FAMILY_OF_FEW(conv2d_wgrad_nhwc_f16_cuda_mma_sm80,
                   wgrad_half_tiles<igemm_f16>)
CONV_FAMILY_OF_FEW(conv2d_wgrad_nhwc_bf16_cuda_mma_sm80,
                   wgrad_half_tiles<igemm_bf16>)
