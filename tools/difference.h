/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between two arrays of numbers, for wconv and infer. */
#ifndef TOOLS_DIFFERENCE_H
#define TOOLS_DIFFERENCE_H

#include "include/infer.h"

struct difference {
    /* Largest |found - expected|; INFINITY where only one of the two is NaN, or
     * they are different infinities. */
    double max_abs;
    double max_rel;         /* max_abs over scale */
    double scale;           /* largest finite |expected| */
    double found, expected; /* index and values of the largest difference */
    int64_t at;
    int64_t count;  /* unequal elements; NaN equals NaN */
    int64_t finite; /* elements whose expected value is finite */
};

/* Compares n elements; never fails. */
void difference_of(enum infer_dtype found_type, const void *found,
                   enum infer_dtype expected_type, const void *expected,
                   int64_t n, struct difference *out);

#endif
