/* SPDX-License-Identifier: Apache-2.0 */
/* What a shape rule sees of one node, and the helpers that rules share. */
#ifndef LIBINFER_OPS_OP_H
#define LIBINFER_OPS_OP_H

#include "kernels/checked.h"
#include "kernels/error.h"
#include "libinfer/graph.h"

struct graph_type {
    enum infer_dtype dtype; /* INFER_NONE: absent input */
    int rank;               /* -1: unknown */
    int64_t dim[INFER_MAX_RANK];
};

struct graph_shape_args {
    const struct graph_node *node;
    const union graph_attr *attr;
    int n_in, n_out;
    const struct graph_type *in;
    /* Constant inputs in memory, else NULL: gather indices and the like. */
    struct constant *const *data;
    struct graph_type *out;
};

/* Explicit pads of a window operation, auto_pad resolved.  The extents of x
 * must be known for SAME.  Shared by shape rules and lowering. */
int op_conv_resolve(const struct graph_conv *conv, int spatial,
                    const int64_t *in_extent, const int64_t *window,
                    struct kern_conv *out, int64_t *out_extent,
                    struct infer_error *err);
int op_conv_transpose_resolve(const struct graph_conv *conv, int spatial,
                              const int64_t *in_extent, const int64_t *window,
                              struct kern_conv *out, int64_t *out_extent,
                              struct infer_error *err);
int op_pool_resolve(const struct graph_pool *pool, int spatial,
                    const int64_t *in_extent, struct kern_pool *out,
                    int64_t *out_extent, struct infer_error *err);
/* Target of reshape for an input shape; -1 dims (free) propagate. */
int op_reshape_resolve(const struct graph_dims *dims,
                       const struct graph_type *in, struct graph_type *out,
                       struct infer_error *err);
/* numpy broadcasting of two shapes. */
int op_broadcast(const struct graph_type *a, const struct graph_type *b,
                 struct graph_type *out, struct infer_error *err);
/* Axis in 0 .. rank-1 from one that may be negative, or EFORMAT. */
int op_axis(int axis, int rank, int *out, struct infer_error *err);

#endif
