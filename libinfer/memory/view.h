/* SPDX-License-Identifier: Apache-2.0 */
/* Views: a logical tensor somewhere inside a buffer.  Reshape, slice,
 * transpose and expand are arithmetic on views wherever strides can express
 * them, so that most operations that only move data run no kernel. */
#ifndef LIBINFER_MEMORY_VIEW_H
#define LIBINFER_MEMORY_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kern.h"

/* An absent view has tensor.dtype INFER_NONE. */
struct view {
    int buffer;     /* index in the program's buffers */
    int64_t offset; /* elements from its start to the element with indices 0 */
    struct kern_tensor t;
};

/* A dense tensor at the start of a buffer.  EUNSUPPORTED where the byte count
 * does not fit. */
int view_dense(int buffer, enum infer_dtype dtype, int rank, const int64_t *dim,
               enum kern_layout layout, size_t *bytes, struct view *out);

/* The layout in which t is dense, else the closest one by its strides. A tensor
 * that is dense in both counts as NHWC. */
enum kern_layout view_layout(const struct kern_tensor *t);

/* Same memory, same dims, same strides where a dimension is above 1. */
bool view_same(const struct view *a, const struct view *b);

/* Other dims for the same elements in the same logical order; false where
 * strides cannot express it. */
bool view_reshape(const struct view *v, int rank, const int64_t *dim,
                  struct view *out);

/* Makes t dense with its dimensions in the order of the strides of another
 * tensor of its rank. */
void view_order_as(const struct kern_tensor *order, struct kern_tensor *t);

/* Dimension i of the result is dimension order[i] of v. */
struct view view_permute(const struct view *v, const int64_t *order);

/* Elements begin, begin + step, ... of one dimension; count of them. */
struct view view_slice(const struct view *v, int axis, int64_t begin,
                       int64_t step, int64_t count);

/* Prepends dimensions of size 1 up to the rank. */
struct view view_raise(const struct view *v, int rank);

/* Removes dimension axis by taking its element 0. */
struct view view_drop(const struct view *v, int axis);

/* Splits dimension axis into outer x (size / outer). */
struct view view_split(const struct view *v, int axis, int64_t outer);

/* Repeats dimensions of size 1 (stride 0) up to dim; the rank must be equal.
 */
struct view view_expand(const struct view *v, const int64_t *dim);

/* Reduces a copy to the fewest dimensions: drops size 1 and merges neighbours
 * that are contiguous on both sides. */
void view_coalesce(struct kern_tensor *a, struct kern_tensor *b);

/* Copies the elements, in logical order, to a dense array of type dtype.
 * base: the element with indices 0. */
void view_gather(const struct kern_tensor *t, const void *base,
                 enum infer_dtype dtype, void *dst);

/* Number of elements that negative strides reach below the element with indices
 * 0. */
int64_t view_reach_below(const struct kern_tensor *t);

#endif
