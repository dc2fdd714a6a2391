/* SPDX-License-Identifier: Apache-2.0 */
/* COCO's average precision and recall of boxes: the rules of pycocotools'
 * COCOeval with its default parameters. */
#ifndef TOOLS_INFER_AVERAGE_PRECISION_H
#define TOOLS_INFER_AVERAGE_PRECISION_H

#include <stdbool.h>
#include <stddef.h>

#include "include/infer.h"

/* A box: left, top, width and height, in pixels.  Images and categories are
 * indexes from 0 in the order of their ids in the file. */
struct ap_truth {
    int image, category;
    double box[4];
    double area; /* of the object, square pixels: decides its size class */
    bool crowd;  /* a region of many objects: it may be found or not */
};

struct ap_found {
    int image, category;
    double box[4];
    double score;
};

/* Sizes of objects: all, below 32 x 32, up to 96 x 96 pixels, above. */
enum ap_size { AP_ALL, AP_SMALL, AP_MEDIUM, AP_LARGE, AP_SIZES };

/* Means over the categories that have objects, 0 to 1; -1: none has. */
struct ap_result {
    double ap[AP_SIZES]; /* means over the thresholds .5, .55 ... .95 */
    double ap50, ap75;   /* at one threshold of intersection over union */
    double ar[3];        /* recall with the best 1, 10, 100 boxes an image */
    double ar_size[AP_SIZES]; /* with the best 100, by size */
};

/* Computes the result of all boxes and, where by_category is not NULL, each
 * category's mean over the thresholds (-1: no objects).  Of equal scores the
 * earlier image counts first, then the earlier box.  EMEMORY. */
int average_precision(const struct ap_truth *truth, size_t n_truth,
                      const struct ap_found *found, size_t n_found,
                      int categories, struct infer_error *err,
                      struct ap_result *out, double *by_category);

#endif
