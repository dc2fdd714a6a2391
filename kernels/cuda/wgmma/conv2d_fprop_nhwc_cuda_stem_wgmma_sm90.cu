/* SPDX-License-Identifier: Apache-2.0 */
/* The first convolution of networks on Hopper's wgmma: windows of 7 rows of up
 * to 24 elements (7x7 of 3 channels) and of 3 rows of up to 16 (3x3 of 3). */
#include "kernels/cuda/wgmma/wgmma_stem_rows.cuh"

WGMMA_STEM_ROW(conv2d_fprop_nhwc_f16_cuda_stem_wgmma_sm90_7x24, __half, 7, 3)
WGMMA_STEM_ROW(conv2d_fprop_nhwc_f16_cuda_stem_wgmma_sm90_3x16, __half, 3, 2)
WGMMA_STEM_ROW(conv2d_fprop_nhwc_bf16_cuda_stem_wgmma_sm90_7x24, __nv_bfloat16,
               7, 3)
WGMMA_STEM_ROW(conv2d_fprop_nhwc_bf16_cuda_stem_wgmma_sm90_3x16, __nv_bfloat16,
               3, 2)
