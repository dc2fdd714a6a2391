/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution and 1x1, BF16: chain_depthwise.cuh. */
#include "kernels/cuda/chain/chain_rows.cuh"

CHAIN_ROW(chain_nhwc_bf16_cuda_depthwise_sm80, __nv_bfloat16)
