/* SPDX-License-Identifier: Apache-2.0 */
/* What a picture's segments say, read before a decoder allocates anything. */
#ifndef LIBINFER_IMAGE_IMAGE_HEAD_H
#define LIBINFER_IMAGE_IMAGE_HEAD_H

#include <stdbool.h>

#include "include/infer.h"

struct image_head {
    uint32_t width, height;
    int channels;    /* of the decoded picture: 1 or 3 */
    int scans;       /* passes over the picture; PNG: 1 */
    bool buffered;   /* the decoder holds all coefficients: several scans */
    int orientation; /* EXIF 1 .. 8; 1 where the file has none */
};

/* Walk a whole file.  Errors: EFORMAT (a length beyond the file's end, no end
 * marker, a component without its first scan), EMEMORY (too many scans). */
int png_read_head(const unsigned char *data, size_t bytes,
                  struct infer_error *err, struct image_head *out);
int jpeg_read_head(const unsigned char *data, size_t bytes,
                   struct infer_error *err, struct image_head *out);

/* The orientation that an EXIF block (TIFF, n bytes) states, or 1. */
int exif_orientation(const unsigned char *p, size_t n);

/* Bytes of the chunk at `at` with its frame; 0 if it ends beyond the file. */
size_t png_chunk_bytes(const unsigned char *data, size_t bytes, size_t at);
/* True if a decoder may ignore the chunk. */
bool png_chunk_is_ancillary(const unsigned char *chunk);

/* Checks pixels, and pixels times scans, against the budget.  EMEMORY. */
int image_check_budget(const char *format, const struct image_head *head,
                       uint64_t max_pixels, struct infer_error *err);

/* True if the decoded picture is so large against its file that the file is
 * decoded without keeping pixels first: a damaged picture then costs at most
 * twice its file and 64 MiB. */
bool image_needs_trial(const struct image_head *head, size_t file_bytes);

#endif
