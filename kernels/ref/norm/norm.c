/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation of a block of elements by their own mean and variance. */
#include "kernels/ref/norm/norm.h"

#include <math.h>
#include <string.h>

void ref_block_walk(const struct ref_block *b, struct ref_walk *w)
{
    const size_t bytes = (size_t)b->rank * sizeof(int64_t);

    ref_walk_start(w, b->rank, b->dim);
    w->n = 2;
    memcpy(w->stride[0], b->x_stride, bytes);
    memcpy(w->stride[1], b->y_stride, bytes);
}

struct ref_moments ref_block_stats(const struct ref_block *b,
                                   enum infer_dtype dtype, const void *x,
                                   int64_t offset, const struct kern_norm *attr)
{
    struct ref_moments m = {0, 0};
    struct ref_walk w;
    double sum = 0, squares = 0, count = 0;

    for (ref_block_walk(b, &w); !w.done; ref_walk_next(&w)) {
        sum += ref_load(dtype, x, offset + w.offset[0]);
        count++;
    }
    if (!attr->rms)
        m.mean = sum / count;
    for (ref_block_walk(b, &w); !w.done; ref_walk_next(&w)) {
        const double d = ref_load(dtype, x, offset + w.offset[0]) - m.mean;
        squares += d * d;
    }
    m.inverse = 1 / sqrt(squares / count + (double)attr->epsilon);
    return m;
}
