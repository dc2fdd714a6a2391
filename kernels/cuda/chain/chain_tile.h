/* SPDX-License-Identifier: Apache-2.0 */
/* How a chain of a depthwise convolution and a 1x1 is divided among blocks, and
 * what a division costs (chain_tile.c). */
#ifndef KERNELS_CUDA_CHAIN_CHAIN_TILE_H
#define KERNELS_CUDA_CHAIN_CHAIN_TILE_H

#include "kernels/cuda/conv/conv.h"

/* Warps of a block. */
#define CHAIN_WARPS 8

/* Most buffers of a block: while one is read, others are filled. */
#define CHAIN_STAGES 4

/* Words of 2 weights that a pair of channels takes in shared memory: all taps,
 * rounded up to 16 bytes. */
static inline int chain_tap_words(int window)
{
    return conv_round_up(window * window, 4);
}

struct chain_tile {
    int mt, nt;                /* tiles of m16n8 of a warp */
    int warps;                 /* of a block */
    int images, rows, columns; /* of outputs that a block computes; mt
                                  divides the rows */
    int high, wide;            /* of the image that it reads */
    int pixels;                /* of all images: images * high * wide */
    int odd;                   /* pixels before the odd columns; stride 2 */
    int pixel, line, plane;    /* bytes from pixel to pixel, row, image */
    int channels;              /* of a chunk */
    int chunks, stages;
    int pairs;                 /* of n8 tiles that are multiplied */
    int taps, bias, w2, stage; /* bytes from a buffer's beginning; its size */
    int across, down, deep;    /* blocks by columns, rows, images */
    int bytes;                 /* of shared memory: a table, then buffers */
    double us;                 /* estimate */
};

/* Most outputs of the second convolution. */
#define CHAIN_OUTPUTS 64

/* Division `variant` of the problem, the one with the lowest estimate first: g
 * and k are the first convolution's geometry and the second one's outputs,
 * bytes what the problem reads and writes.  False where there is none. */
bool chain_tile_of(const struct conv_geometry *g, int k, double bytes,
                   const struct kern_device *d, int variant,
                   struct chain_tile *out);

/* Variants that chain_tile_of() knows at most. */
#define CHAIN_VARIANTS 12

#endif
