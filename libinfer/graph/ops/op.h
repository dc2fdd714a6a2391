/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a shape rule, and the helpers that rules share.
 *
 * A rule first checks the attributes, then as much of the shapes as is known: a
 * rank of -1 and a dimension of -1 fit everything, and make what depends on
 * them -1 in the output.  The caller puts the node's name before error
 * texts. */
#ifndef LIBINFER_GRAPH_OPS_OP_H
#define LIBINFER_GRAPH_OPS_OP_H

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/graph/graph.h"

/* Highest stride, dilation, pad and window: sums of a few fit in an int. */
#define OP_MAX_STEP (1 << 24)
/* Highest extent and element count of a tensor: exact as a double in JSON. */
#define OP_MAX_COUNT (INT64_C(1) << 53)

struct graph_type {
    enum infer_dtype dtype; /* INFER_NONE: absent, or not known yet */
    int rank;               /* -1: unknown */
    int64_t dim[INFER_MAX_RANK];
};

struct graph_shape_args {
    const struct graph_node *node;
    const union graph_attr *attr;
    int n_in, n_out;
    const struct graph_type *in;
    /* Constant inputs, else NULL; their bytes may still be in a file. */
    struct constant *const *data;
    struct graph_type *out; /* preset to unknown */
};

/* The arguments of a batch rule, for one node.  Dimension 0 of every input that
 * varies and of every output is the batch; the other sizes do not depend on
 * it. */
struct graph_separable_args {
    const union graph_attr *attr;
    int n_in, residual; /* index that a residual would have */
    const bool *varies; /* by input: depends on an input of the graph */
    const struct graph_value *const *in; /* NULL: absent */
    const struct graph_value *out;
};

/* Rules that several operations share. */
/* One input, and none of its entries is moved along dimension 0: the sizes
 * decide. */
bool op_separable_sizes(const struct graph_separable_args *args);
/* Only input 0, of rank 2 and more, and the residual vary. */
bool op_separable_first(const struct graph_separable_args *args);
/* Element by element: inputs that vary are not broadcast to a higher rank. */
bool op_separable_broadcast(const struct graph_separable_args *args);
/* The axis, which may be negative, is not dimension 0 of input 0. */
bool op_separable_axis(const struct graph_separable_args *args, int axis);
/* None of the axes is. */
bool op_separable_axes(const struct graph_separable_args *args, const int *axis,
                       int n);

/* Rules of operations; the first is that of all with attribute `axis` alone. */
bool op_axis_separable(const struct graph_separable_args *args);
bool op_cumulate_separable(const struct graph_separable_args *args);
bool op_elements_separable(const struct graph_separable_args *args);
bool op_expand_separable(const struct graph_separable_args *args);
bool op_gather_separable(const struct graph_separable_args *args);
bool op_layer_norm_separable(const struct graph_separable_args *args);
bool op_matmul_separable(const struct graph_separable_args *args);
bool op_pad_separable(const struct graph_separable_args *args);
bool op_quantize_separable(const struct graph_separable_args *args);
bool op_recurrent_separable(const struct graph_separable_args *args);
bool op_reduce_separable(const struct graph_separable_args *args);
bool op_resize_separable(const struct graph_separable_args *args);
bool op_slice_separable(const struct graph_separable_args *args);
bool op_split_separable(const struct graph_separable_args *args);
bool op_top_k_separable(const struct graph_separable_args *args);
bool op_transpose_separable(const struct graph_separable_args *args);

/* ---- resolving attributes against extents -------------------------- */

/* Explicit pads of a window operation, auto_pad resolved.  The extents of x
 * must be known for SAME: else its pads are left 0.  Extents that are not
 * known (-1) give -1.  Shared by shape rules and lowering.
 * Transposed: pad_end is such that (in - 1) * stride + effective window -
 * pad_begin - pad_end is the output extent, so it is negative where
 * output_pad or output_size asks for more than the pads take away. */
int op_conv_resolve(const struct graph_conv *conv, int spatial,
                    const int64_t *in_extent, const int64_t *window,
                    struct kern_conv *out, int64_t *out_extent,
                    struct infer_error *err);
int op_conv_transpose_resolve(const struct graph_conv *conv, int spatial,
                              const int64_t *in_extent, const int64_t *window,
                              struct kern_conv *out, int64_t *out_extent,
                              struct infer_error *err);
/* Global pooling becomes a window of the input's extent.  The overhang that
 * ceil_mode adds shows in out_extent only, not in the pads. */
int op_pool_resolve(const struct graph_pool *pool, int spatial,
                    const int64_t *in_extent, struct kern_pool *out,
                    int64_t *out_extent, struct infer_error *err);
/* Target of reshape for an input shape; -1 dims (free) propagate. */
int op_reshape_resolve(const struct graph_dims *dims,
                       const struct graph_type *in, struct graph_type *out,
                       struct infer_error *err);
/* One axis of a slice over an extent: the first element, and how many. */
int op_slice_resolve(int64_t begin, int64_t end, int64_t step, int64_t extent,
                     int64_t *first, int64_t *count, struct infer_error *err);
/* numpy broadcasting of two shapes; out->dtype is left alone. */
int op_broadcast(const struct graph_type *a, const struct graph_type *b,
                 struct graph_type *out, struct infer_error *err);
/* Axis in 0 .. rank-1 from one that may be negative, or EFORMAT. */
int op_axis(int axis, int rank, int *out, struct infer_error *err);

/* The same for one of several axes.  Its bit is set in *seen; EFORMAT where it
 * was set before. */
int op_axis_once(int axis, int rank, unsigned *seen, int *out,
                 struct infer_error *err);

/* ---- small things that rules share --------------------------------- */

/* One dimension of a convolution's or a pool's window. */
struct op_window {
    int64_t in, window; /* -1: unknown */
    int stride, dilation;
    int pad_begin, pad_end; /* replaced where auto_pad says so */
};
/* 0 if its numbers are in range and the window is not empty, else EFORMAT. */
int op_window_check(const struct op_window *w, struct infer_error *err);
/* The output extent of a window that slides over the input. */
int op_window_extent(enum graph_auto_pad auto_pad, bool ceil_mode,
                     struct op_window *w, int64_t *extent,
                     struct infer_error *err);
/* The window with its dilation: (window - 1) * dilation + 1. */
int op_window_effective(const struct op_window *w, int64_t *out,
                        struct infer_error *err);
/* Splits a total padding into pads. */
int op_window_split(int64_t total, bool more_at_begin, struct op_window *w,
                    struct infer_error *err);

/* True if input i is given. */
static inline bool op_has(const struct graph_shape_args *args, int i)
{
    return i < args->n_in && args->node->in[i] >= 0;
}

/* True if two dimensions may be equal. */
static inline bool op_fits(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || a == b;
}

/* Constant integers, NULL where they are computed, lie in a dimension of
 * `extent` (-1: unknown) elements; negative ones count from its end. */
int op_need_indices(const struct constant *c, int64_t extent,
                    struct infer_error *err);
/* Input 1 of a type that can name elements, or of one not known yet. */
int op_need_index_type(const struct graph_shape_args *args,
                       struct infer_error *err);
/* Inputs of a floating type, or of one not known yet; else EFORMAT. */
int op_need_float(const struct graph_shape_args *args, struct infer_error *err);
/* Input i, if given, must be a vector of n (-1: any) elements. */
int op_need_vector(const struct graph_shape_args *args, int i, const char *what,
                   int64_t n, struct infer_error *err);
/* Rank 3, 4 or 5, or one not known yet; else EFORMAT. */
int op_need_spatial(const struct graph_type *x, struct infer_error *err);
/* min <= value <= max, or EFORMAT naming the attribute. */
int op_need_range(const char *what, int64_t value, int64_t min, int64_t max,
                  struct infer_error *err);
/* Output 0 is as input 0. */
void op_same(const struct graph_shape_args *args);
/* Product of dimensions [from, to): -1 where one is unknown. */
int op_product(const struct graph_type *t, int from, int to, int64_t *out,
               struct infer_error *err);
/* A known rank whose dimensions and whose product are at most OP_MAX_COUNT;
 * each dimension beside one of 0 or a free one as well. */
bool op_is_possible(const struct graph_type *t);
/* "64x3x?x7", "scalar" or "unknown".  Returns buf. */
#define OP_TEXT 192
const char *op_text(const struct graph_type *t, char buf[OP_TEXT]);

/* ---- rows of ops.def ----------------------------------------------- */

#define GRAPH_OP(symbol, name, ...)                                            \
    int op_##name##_shape(struct graph_shape_args *args,                       \
                          struct infer_error *err);
#include "libinfer/graph/ops.def"
#undef GRAPH_OP

#endif
