/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution on Hopper's wgmma and TMA of an input times its factors, bf16.
 * wgmma_factors.cuh describes the product, wgmma_rows.cuh the tiles. */
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

typedef wgmma_factors<__nv_bfloat16> factors_mode;

WGMMA_ROWS_FACTORS(conv2d_fprop_nhwc_bf16_cuda_wgmma_factors_sm90, factors_mode,
                   INFER_BF16)
