/* SPDX-License-Identifier: Apache-2.0 */
/* Weight gradients of 16-bit activations on tensor cores; see wgrad.cuh. */
#include "kernels/cuda/mma/wgrad_rows.cuh"

WGRAD_ROW(conv2d_wgrad_nhwc_f16_cuda_mma_sm80, struct igemm_f16)
WGRAD_ROW(conv2d_wgrad_nhwc_bf16_cuda_mma_sm80, struct igemm_bf16)
