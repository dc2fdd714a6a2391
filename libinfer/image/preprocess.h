/* SPDX-License-Identifier: Apache-2.0 */
/* A model's description of pictures, used by preprocess.c on the CPU, by
 * pixels.c as layers of the network, and by train. */
#ifndef LIBINFER_IMAGE_PREPROCESS_H
#define LIBINFER_IMAGE_PREPROCESS_H

#include "include/infer.h"
#include "libinfer/graph/graph.h"

/* The sizes of an input that takes pictures as N,C,H,W: N, 1 or 3, H, W; or 3,
 * H, W, which is one picture (torchvision's detectors).  False where it takes
 * none. */
bool preprocess_dims(int rank, const int64_t *dim, int64_t out[4]);
/* EARGUMENT where the graph has no such input or it takes no picture. */
int preprocess_check(const struct graph *g, int index, struct infer_error *err);
/* The description of the input; the default is its size, values in 0 .. 1. */
const struct graph_preprocess *preprocess_of(const struct graph *g, int index);

/* Colour and size of a picture as p says: dense height, width, channels.
 * EARGUMENT (no picture, or not of the one size that is taken), EMEMORY. */
int preprocess_fit(const struct graph_preprocess *p,
                   const struct infer_image *image, int channels, int width,
                   int height, uint8_t *out, struct infer_error *err);

/* The size that a picture takes where the input leaves its own open: that after
 * resizing by the shorter side, else the picture's. */
void preprocess_open_size(const struct graph_preprocess *p,
                          const struct infer_image *image, int64_t *height,
                          int64_t *width);

/* Where the picture lies in an input: pixel (x, y) of the input shows the
 * point ((x + left) * per_x, (y + top) * per_y) of the picture. */
struct preprocess_window {
    double left, top, per_x, per_y;
};
struct preprocess_window preprocess_window_of(const struct graph_preprocess *p,
                                              const struct infer_image *image,
                                              int width, int height);

/* Channel c of the input is pixel[source] * scale + shift. */
int preprocess_source(const struct graph_preprocess *p, int c, int channels);
float preprocess_scale(const struct graph_preprocess *p, int c);
float preprocess_shift(const struct graph_preprocess *p, int c);

#endif
