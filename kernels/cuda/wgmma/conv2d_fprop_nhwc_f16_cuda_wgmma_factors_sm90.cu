/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution on Hopper's wgmma and TMA of an input times its factors, f16.
 * wgmma_factors.cuh describes the product, wgmma_rows.cuh the tiles. */
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

typedef wgmma_factors<__half> factors_mode;

WGMMA_ROWS_FACTORS(conv2d_fprop_nhwc_f16_cuda_wgmma_factors_sm90, factors_mode,
                   INFER_F16)
