/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and 1x1 on Hopper's wgmma, BF16: chain_wgmma.cuh. */
#include "kernels/cuda/chain/chain_wgmma_rows.cuh"

CHAIN_WGMMA_ROW(chain_nhwc_bf16_cuda_wgmma_sm90, __nv_bfloat16)
