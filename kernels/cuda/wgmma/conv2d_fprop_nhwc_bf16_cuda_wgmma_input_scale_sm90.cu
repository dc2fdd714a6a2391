/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution on Hopper's wgmma and TMA of an input times its scale, bf16.
 * wgmma_input_scale.cuh describes the product, wgmma_rows.cuh the tiles. */
#include "kernels/cuda/wgmma/wgmma_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_bf16_cuda_wgmma_input_scale_sm90,
            wgmma_input_scale_tiles<wgmma_input_scale<__nv_bfloat16>>)
