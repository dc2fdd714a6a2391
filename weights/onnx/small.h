/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on small tensors, by the reference kernels: what the folding of
 * shape glue is made of.
 *
 * Integers are computed in 64 bits, which wrap as in ONNX, and then wrapped to
 * their type; floating point in double precision, and then rounded.  -0.0
 * stays -0.0.
 *
 * Functions that make a tensor return 1 and set *out; 0 where the result would
 * be larger than the limits in onnx.h or the case is left to the graph; a
 * negative INFER_E* where the node is wrong. */
#ifndef WEIGHTS_ONNX_SMALL_H
#define WEIGHTS_ONNX_SMALL_H

#include "weights/onnx/onnx.h"

int small_unary(struct onnx_import *im, enum kern_unary_kind kind,
                const struct onnx_small *a, struct onnx_small **out);
/* Broadcasts; both of one type. */
int small_binary(struct onnx_import *im, enum kern_binary_kind kind,
                 const struct onnx_small *a, const struct onnx_small *b,
                 struct onnx_small **out);
int small_where(struct onnx_import *im, const struct onnx_small *condition,
                const struct onnx_small *a, const struct onnx_small *b,
                struct onnx_small **out);
int small_cast(struct onnx_import *im, const struct onnx_small *a,
               enum infer_dtype to, struct onnx_small **out);
int small_reshape(struct onnx_import *im, const struct onnx_small *a, int rank,
                  const int64_t *dim, struct onnx_small **out);
/* out[i, j, ...] = a[start + i * step[0] + j * step[1] + ...], in elements. */
int small_view(struct onnx_import *im, const struct onnx_small *a, int rank,
               const int64_t *dim, int64_t start, const int64_t *step,
               struct onnx_small **out);
int small_concat(struct onnx_import *im, const struct onnx_small *const *in,
                 int n, int axis, struct onnx_small **out);
int small_gather(struct onnx_import *im, const struct onnx_small *a,
                 const struct onnx_small *index, int axis,
                 struct onnx_small **out);
int small_reduce(struct onnx_import *im, const struct onnx_small *a,
                 enum kern_reduce_kind kind, uint32_t axes, bool keep,
                 struct onnx_small **out);
/* All elements equal to element 0 of value. */
int small_fill(struct onnx_import *im, const struct onnx_small *value, int rank,
               const int64_t *dim, struct onnx_small **out);
/* How many elements ONNX Range gives, at most 2^62; EFORMAT where start, limit
 * and delta are not scalars of one type, or delta is 0.  Element k, of integers
 * (start->i) and of floats. */
int small_range_count(struct onnx_import *im, const struct onnx_small *start,
                      const struct onnx_small *limit,
                      const struct onnx_small *delta, int64_t *count);
int64_t small_range_integer(const struct onnx_small *start,
                            const struct onnx_small *delta, int64_t k);
double small_range_number(const struct onnx_small *start,
                          const struct onnx_small *delta, int64_t k);
int small_range(struct onnx_import *im, const struct onnx_small *start,
                const struct onnx_small *limit, const struct onnx_small *delta,
                struct onnx_small **out);

#endif
