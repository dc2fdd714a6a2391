/* SPDX-License-Identifier: Apache-2.0 */
/* Element types as numpy writes them, in .npy headers and in pickles. */
#ifndef WEIGHTS_NUMPY_NUMPY_H
#define WEIGHTS_NUMPY_NUMPY_H

#include <stdbool.h>
#include <stddef.h>

#include "include/infer.h"
#include "libinfer/graph/constant.h"

/* Reads "<f4", ">i8", "|u1", "f8", "?": the kind, the size in bytes and the
 * byte order ('<', '>', '|', '=' or none).  False for every type that is no
 * plain number. */
bool numpy_dtype(const unsigned char *text, size_t bytes,
                 enum infer_dtype *dtype, bool *swapped);

/* Brings dense elements of a file into the form of constants, in place: native
 * byte order, and BOOL as 0 or 1. */
void numpy_settle(enum infer_dtype dtype, bool swapped, unsigned char *data,
                  size_t bytes);

/* Row-major copy of an array in Fortran order; c has that array's elements as
 * they lie, and its shape.  NULL when out of memory. */
struct constant *numpy_from_fortran(const struct constant *c);

#endif
