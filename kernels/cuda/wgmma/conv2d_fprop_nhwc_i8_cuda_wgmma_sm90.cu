/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers on Hopper's wgmma and TMA, i8.
 * wgmma.cuh describes the product, wgmma_8bit.cuh the integers. */
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_i8_cuda_wgmma_sm90,
            wgmma_8bit_conv_tiles<wgmma_i8>)
CONV_FAMILY(dense_fprop_i8_cuda_wgmma_sm90, wgmma_8bit_dense_tiles<wgmma_i8>)
