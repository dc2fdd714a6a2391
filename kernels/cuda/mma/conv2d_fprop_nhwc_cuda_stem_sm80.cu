/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of images of few channels; stem.cuh describes the kernel. */
#include "kernels/cuda/mma/stem.cuh"

STATE_ROW(conv2d_fprop_nhwc_f16_cuda_stem_sm80, stem, __half, NULL)
STATE_ROW(conv2d_fprop_nhwc_bf16_cuda_stem_sm80, stem, __nv_bfloat16, NULL)
