/* SPDX-License-Identifier: Apache-2.0 */
/* The first convolution of networks on Hopper's wgmma: windows of 7 rows of up
 * to 24 elements (7x7 of 3 channels) and of 3 rows of up to 16 (3x3 of 3). */
#include "kernels/cuda/wgmma/wgmma_stem_rows.cuh"

CONV_FAMILY(conv2d_fprop_nhwc_f16_cuda_stem_wgmma_sm90,
            wgmma_stem_tiles<__half>)
CONV_FAMILY(conv2d_fprop_nhwc_bf16_cuda_stem_wgmma_sm90,
            wgmma_stem_tiles<__nv_bfloat16>)
