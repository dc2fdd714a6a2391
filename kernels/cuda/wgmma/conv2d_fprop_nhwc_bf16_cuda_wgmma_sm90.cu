/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers on Hopper's wgmma and TMA, bf16.
 * wgmma.cuh describes the product, wgmma_rows.cuh the tiles. */
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_bf16_cuda_wgmma_sm90,
            wgmma_conv_tiles<wgmma_bf16>)
CONV_FAMILY(dense_fprop_bf16_cuda_wgmma_sm90, wgmma_dense_tiles<wgmma_bf16>)
