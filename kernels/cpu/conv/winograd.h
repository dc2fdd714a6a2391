/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Winograd convolution F(m x m, 3 x 3) on channels-last tensors.
 *
 * An output tile of m x m pixels needs an input tile of a x a, a = m + 2.  Both
 * are transformed so that the convolution becomes a x a independent products
 * over channels:
 *
 *     V = B^T d B      input tile d, for each channel
 *     U = G g G^T      filter g, for each pair of channels, once
 *     M = sum_c U V    a a matrix products: tiles x C times C x K
 *     y = A^T M A      output tile, for each output channel
 *
 * which takes a^2 instead of 9 m^2 multiplications a tile and channel pair:
 * 2.25 times fewer for m = 2, 4 times fewer for m = 4.  The points are 0, 1,
 * -1, infinity for m = 2 and 0, p, -p, q, -q, infinity for m = 4.  p = 5/8 and
 * q = 3/2, exact in binary, lose half as much accuracy as the textbook's 1 and
 * 2, at the same number of operations.
 *
 * Layout of the parts, in floats:
 *   V  [a a][tiles][C]       rows v_row apart, planes v_plane apart
 *   U  [a a][panels][C][NB]  panels of NB output channels, zeros at the end
 *   M  [a a][tiles][K]       rows m_row apart, planes m_plane apart
 * Rows and planes are padded by a cache line or two, as distances that are
 * multiples of 4 KiB would put the lines that a transform touches into one
 * cache set.
 */
#ifndef KERNELS_CPU_CONV_WINOGRAD_H
#define KERNELS_CPU_CONV_WINOGRAD_H

#include "kernels/kern.h"

#define WINOGRAD_MAX_A 6
#define WINOGRAD_P     0.625f
#define WINOGRAD_Q     1.5f

/* One convolution; see the layout above.  Tiles are counted through all
 * images: row by row of tiles, tiles_h x tiles_w an image. */
struct winograd {
    int m, a;
    int64_t images, channels, outputs; /* N, C, K */
    int64_t in_h, in_w, out_h, out_w, pad_top, pad_left;
    int64_t tiles_h, tiles_w, tiles;
    int64_t x_stride[3], y_stride[3], r_stride[3]; /* image, row, pixel */
    int64_t block; /* tiles that are in V and M at once */
    int64_t v_row, v_plane, m_row, m_plane, panels, u_plane;
};

struct vector_epilogue;

/* Data of one launch. */
struct winograd_data {
    const float *x, *u, *residual; /* the last may be NULL */
    float *y;
    const struct vector_epilogue *epilogue;
};

#endif
