/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers on Hopper's wgmma and TMA, F8E4M3.
 * wgmma.cuh describes the product, wgmma_8bit.cuh the end. */
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f8e4m3_cuda_wgmma_sm90,
            wgmma_float8_conv_tiles<wgmma_e4m3>)
CONV_FAMILY(dense_fprop_f8e4m3_cuda_wgmma_sm90,
            wgmma_8bit_dense_tiles<wgmma_e4m3>)
