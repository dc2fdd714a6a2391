/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures inside the library: decoders and resampling. */
#ifndef LIBINFER_IMAGE_IMAGE_H
#define LIBINFER_IMAGE_IMAGE_H

#include "include/infer.h"
#include "libinfer/graph/graph.h"

/* Of the libraries that decode: "1.6.39", "libjpeg-turbo 2.1.5". */
const char *image_png_version(void);
const char *image_jpeg_version(void);

/* Decoders: data is a whole file; max_pixels is at least 1.  On success the
 * pixels belong to the caller.  *orientation: EXIF 1 .. 8, 1 where the file has
 * none; the pixels are as the file has them. */
int image_decode_png(const unsigned char *data, size_t bytes,
                     uint64_t max_pixels, struct infer_error *err,
                     struct infer_image *out, int *orientation);
/* A mask: the indices into the palette, or the gray samples, as they are; one
 * channel, orientation not applied.  EUNSUPPORTED: the file has colours or 16
 * bits. */
int image_decode_png_indices(const unsigned char *data, size_t bytes,
                             uint64_t max_pixels, struct infer_error *err,
                             struct infer_image *out);
int image_decode_jpeg(const unsigned char *data, size_t bytes,
                      uint64_t max_pixels, struct infer_error *err,
                      struct infer_image *out, int *orientation);

/* The same of a file, which must be PNG.  max_pixels: as infer_image_load()
 * takes it; the error names the file. */
int image_load_indices(const char *path, uint64_t max_pixels,
                       struct infer_error *err, struct infer_image *out);

/* Writes a PNG file, 8-bit gray or RGB: the whole file, or none of it.  EIO,
 * EMEMORY. */
int image_write_png(const struct infer_image *image, const char *path,
                    struct infer_error *err);

/* Pixels of a new picture, zeroed.  EMEMORY, or EARGUMENT for sizes < 1. */
int image_new(int width, int height, int channels, struct infer_error *err,
              struct infer_image *out);

/* Resamples to width x height.  Bilinear and bicubic (a = -0.5) widen their
 * filter when shrinking; arithmetic and rounding are Pillow's: weights in
 * 22-bit fixed point, rows first, 8-bit between the two steps. */
int image_resize(const struct infer_image *in, int width, int height,
                 enum graph_filter filter, struct infer_error *err,
                 struct infer_image *out);

/* 1 or 3 channels; gray is ITU-R BT.601 luma as Pillow rounds it. */
int image_convert(const struct infer_image *in, int channels,
                  struct infer_error *err, struct infer_image *out);

#endif
