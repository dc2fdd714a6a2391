/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resizing of one axis as a product with a constant matrix, by the filters that
 * TensorFlow computes in a way of its own.
 */
#ifndef WEIGHTS_FILTERS_FILTER_H
#define WEIGHTS_FILTERS_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* Most elements of a matrix. */
#define FILTER_MAX_MATRIX (1 << 24)

enum filter_kind {
    /* Keys' cubic from a table of 1,024 positions a pixel, centres of pixels.
     */
    FILTER_CUBIC_TABLE,
    FILTER_LANCZOS3,
    FILTER_LANCZOS5,
    FILTER_GAUSSIAN,
    FILTER_BOX,
    FILTER_TRIANGLE,
    FILTER_CUBIC, /* Keys' */
    FILTER_MITCHELL
};

struct filter {
    enum filter_kind kind;
    bool antialias; /* wider where the result is smaller */
    /* Not of FILTER_CUBIC_TABLE: pixel i of the result lies at
     * (i + 1/2 - translate) / scale of the input. */
    double scale, translate;
};

/* Fills in x out weights (out x in where transposed): each result is the sum of
 * inputs by these, which add up to 1.  False without memory. */
bool filter_fill(const struct filter *f, int64_t in, int64_t out,
                 bool transposed, float *data);

#endif
