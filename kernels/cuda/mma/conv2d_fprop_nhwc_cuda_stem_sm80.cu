/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of images of few channels; stem.cuh describes the kernel. */
#include "kernels/cuda/mma/stem.cuh"

STEM_ROW(conv2d_fprop_nhwc_f16_cuda_stem_sm80, __half)
STEM_ROW(conv2d_fprop_nhwc_bf16_cuda_stem_sm80, __nv_bfloat16)
