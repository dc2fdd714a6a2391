/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a .npy file. */
#ifndef WEIGHTS_NUMPY_NPY_H
#define WEIGHTS_NUMPY_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"

struct npy_header {
    enum infer_dtype dtype;
    bool swapped; /* elements are big-endian */
    bool fortran; /* first dimension runs fastest */
    int rank;
    int64_t dim[INFER_MAX_RANK];
    int64_t count; /* product of dim, checked */
};

/* Parses {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: exactly
 * these keys, each once, in any order, literals only.  utf8: version 3, else
 * the text must be latin-1.  EFORMAT; EUNSUPPORTED for element types and ranks
 * that are not read. */
int npy_header_read(const unsigned char *text, size_t bytes, bool utf8,
                    struct infer_error *err, struct npy_header *out);

#endif
