/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and dense layers on Hopper's wgmma and TMA, F32 as three products
 * of TF32.  wgmma.cuh describes the product, wgmma_rows.cuh the tiles. */
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f32_cuda_wgmma_tf32x3_sm90,
            wgmma_split_conv_tiles<wgmma_tf32x3>)
CONV_FAMILY(dense_fprop_f32_cuda_wgmma_tf32x3_sm90,
            wgmma_split_dense_tiles<wgmma_tf32x3>)
