/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor maps, TMA's descriptors of tensors, made on the host. The driver's
 * functions are looked up when first needed; nothing links libcuda. */
#ifndef KERNELS_CUDA_WGMMA_TENSOR_MAP_H
#define KERNELS_CUDA_WGMMA_TENSOR_MAP_H

#include <cuda.h>

#include "kernels/cuda/conv/conv.h"

enum tensor_map_type {
    TENSOR_MAP_F16,
    TENSOR_MAP_BF16,
    TENSOR_MAP_F32,
    TENSOR_MAP_BYTES,
    TENSOR_MAP_TF32 /* F32 in memory, rounded to TF32 as it is copied */
};

/* The type of maps of F16, BF16, F32, I8, U8 or F8E4M3 tensors. */
static inline enum tensor_map_type tensor_map_type_of(enum infer_dtype dtype)
{
    return dtype == INFER_F16    ? TENSOR_MAP_F16
           : dtype == INFER_BF16 ? TENSOR_MAP_BF16
           : dtype == INFER_I8 || dtype == INFER_U8 || dtype == INFER_F8E4M3
               ? TENSOR_MAP_BYTES
               : TENSOR_MAP_F32;
}

/* All maps but tensor_map_patches() have boxes of 128 bytes by some rows in the
 * 128-byte swizzle; outside the tensor they load zeros. base and the pitch in
 * bytes are multiples of 16. Return 0, or INFER_EDEVICE. */

/* Row-major rows x columns with `pitch` elements from row to row; boxes of
 * box_rows rows, up to 256. */
int tensor_map_matrix(CUtensorMap *out, enum tensor_map_type type,
                      const void *base, int rows, int columns, int64_t pitch,
                      int box_rows, struct infer_error *err);

/* The im2col map of a convolution: boxes of the input pixels of `pixels`
 * consecutive outputs at one filter position. */
int tensor_map_im2col(CUtensorMap *out, enum tensor_map_type type,
                      const void *base, const struct conv_geometry *g,
                      int pixels, struct infer_error *err);

/* The image in pairs of 16-bit elements: W * C / 2, H, N.  Boxes of `words` by
 * `rows` of one image, without swizzle. */
int tensor_map_patches(CUtensorMap *out, const void *base,
                       const struct conv_geometry *g, int words, int rows,
                       struct infer_error *err);

/* An output by rows of pixels: K, Q, N P with `pitch` elements from pixel to
 * pixel; boxes of 128 bytes by `pixels` of one row. */
int tensor_map_output_rows(CUtensorMap *out, enum tensor_map_type type,
                           const void *base, const struct conv_geometry *g,
                           int pitch, int pixels, struct infer_error *err);

/* Weights w[k][filter position][c], dense: boxes of 128 bytes of channels by
 * one filter position by 64 k; coordinates c, position, k. */
int tensor_map_taps(CUtensorMap *out, enum tensor_map_type type,
                    const void *base, int k, int taps, int c,
                    struct infer_error *err);

/* True unless the convolution's windows are the rows of a matrix: 1x1 windows
 * without strides and pads. */
bool tensor_map_needs_im2col(const struct conv_geometry *g);

/* The limits of an im2col tensor map: 0, or INFER_EUNSUPPORTED. */
int tensor_map_check_im2col(const struct conv_geometry *g,
                            struct infer_error *why);

#endif
