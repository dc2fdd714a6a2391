/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph: what a network computes, not how.
 *
 * Values are tensors in logical N,C,spatial order; nodes are operations of
 * ops.def.  The same graph is built by the readers of weights/, changed by the
 * passes, written to and read from JSON, and planned by plan.c.
 *
 * Values and nodes are named by index; -1 is an absent optional input.  Nodes
 * may stand in any order until graph_sort() puts producers first.  Deleted
 * nodes and values stay as holes (op GRAPH_NONE, name NULL) until
 * graph_compact().
 */
#ifndef LIBINFER_GRAPH_GRAPH_H
#define LIBINFER_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"
#include "kernels/base/dtype.h"
#include "kernels/kern.h"
#include "kernels/unary.h"
#include "kernels/names.h"
#include "libinfer/graph/constant.h"

struct cJSON;
struct graph_index;

/* Limits that keep a hostile file from costing more than it weighs: a node of
 * ten bytes of file takes half a KiB, and all of them are to fit into 64 MiB.
 * The largest classifiers have some thousands. */
#define GRAPH_MAX_NODES  32768
#define GRAPH_MAX_VALUES 98304
#define GRAPH_MAX_NAME   65535 /* bytes */
#define GRAPH_MAX_INPUTS 4096  /* of one node, and of the graph; outputs too */

/* GRAPH_CONV and so on, from ops.def; GRAPH_NONE is 0 and marks a hole. */
enum graph_op {
    GRAPH_NONE = 0,
#define GRAPH_OP(symbol, ...) symbol,
#include "libinfer/graph/ops.def"
#undef GRAPH_OP
    GRAPH_OP_COUNT
};

/* ---- attributes of nodes ------------------------------------------- */

enum graph_auto_pad {
    GRAPH_PAD_EXPLICIT,
    GRAPH_PAD_SAME_UPPER, /* TensorFlow's SAME: the odd one at the end */
    GRAPH_PAD_SAME_LOWER,
    GRAPH_PAD_VALID
};

/* conv: groups 0 is not allowed.  Entries past the spatial rank are ignored.
 * conv_transpose: output_pad adds to the end of the output; output_size (where
 * not 0) fixes the extent and overrules the pads as ONNX defines it. */
struct graph_conv {
    struct kern_conv conv;
    enum graph_auto_pad auto_pad;
    int output_pad[KERN_MAX_SPATIAL];
    int64_t output_size[KERN_MAX_SPATIAL];
};

/* window 0 in every dimension: global pooling (stride, pads ignored). */
struct graph_pool {
    struct kern_pool pool;
    enum graph_auto_pad auto_pad;
    bool ceil_mode;
};

struct graph_axis { /* concat, softmax, gather, flatten, arg_reduce */
    int axis;       /* may be negative: from the end */
    bool log;       /* softmax: logarithm of it */
    bool flatten;   /* softmax: over all dimensions from axis on (opset < 13) */
    bool min, select_last, keep_dims; /* arg_reduce */
};

struct graph_scatter { /* scatter_elements */
    int axis;
    enum kern_scatter_kind kind;
};

struct graph_cumulate {
    int axis;
    bool exclusive, reverse, product;
};

struct graph_top_k {
    int axis;
    int k; /* how many along the axis */
    bool smallest;
};

struct graph_nms {
    int most; /* boxes of one class of one image; at most all are chosen */
    bool center;
    float iou, score;
};

#define GRAPH_MAX_PARTS 64
struct graph_split {
    int axis;
    int n_sizes;               /* 0: equal parts, the last smaller */
    int size[GRAPH_MAX_PARTS]; /* narrow: the largest of union graph_attr */
};

/* Python's slice semantics; end is clamped; step not 0. */
struct graph_slice {
    int n_axes;
    int axis[INFER_MAX_RANK];
    int64_t begin[INFER_MAX_RANK], end[INFER_MAX_RANK], step[INFER_MAX_RANK];
};

/* reshape: entries > 0 are sizes, 0 copies the input's size at that place, -1
 * (once) takes the rest.  expand and tile: target sizes (1 and -1: as input)
 * and repeats.  In reshape and expand GRAPH_EXPAND_LIKE(k) is the size of
 * dimension k of input 1, of which nothing but the shape is read.  squeeze and
 * unsqueeze: the axes.  transpose: the order. */
#define GRAPH_EXPAND_LIKE(k) (-2 - (k))
struct graph_dims {
    int n;
    int64_t dim[INFER_MAX_RANK];
};

struct graph_reduce {
    enum kern_reduce_kind kind;
    bool keep_dims;
    int n_axes; /* 0: all */
    int axis[INFER_MAX_RANK];
};

/* Where n_sizes is not 0 the output's sizes are given, else the scales; both
 * one a dimension.  size 0 or scale 1: as the input.  GRAPH_SIZE_LIKE: as input
 * 1, of which nothing but the shape is read. */
#define GRAPH_SIZE_LIKE (-1)
struct graph_resize {
    struct kern_resize resize; /* its scale[] is the attribute */
    int n_sizes;
    int64_t size[INFER_MAX_RANK];
};

struct graph_cast {
    enum infer_dtype to;
};

/* quantize: q = round(x / scale), halves to even, plus zero, cut to what type
 * `to` holds.  dequantize: (q - zero) scale.  Scale and zero point are one
 * number, or a vector along the axis (its default is that of ONNX, 1). */
struct graph_quantize {
    int axis;
    enum infer_dtype to; /* I8, U8, I16 or U16; of quantize alone */
};

/* As struct kern_requantize; to: F32 or I32. */
struct graph_requantize {
    struct kern_requantize requantize;
    enum infer_dtype to;
};

struct graph_dropout {
    float ratio; /* of the elements that training drops; 0 .. 1, below 1 */
};

struct graph_depth_space { /* depth_to_space and space_to_depth */
    int block;
    bool crd; /* depth order column-row-depth instead of depth-column-row */
};

union graph_attr {
    struct graph_conv conv;
    struct graph_pool pool;
    struct kern_norm norm;
    struct kern_lrn lrn;
    struct kern_unary unary;
    struct kern_binary binary;
    struct graph_axis axis;
    struct graph_scatter scatter;
    struct graph_cumulate cumulate;
    struct graph_top_k top_k;
    struct graph_nms nms;
    struct kern_recurrent recurrent;
    struct graph_split split;
    struct graph_slice slice;
    struct graph_dims dims;
    struct graph_reduce reduce;
    struct kern_pad pad;
    struct graph_resize resize;
    struct graph_cast cast;
    struct graph_quantize quantize;
    struct graph_requantize requantize;
    struct graph_dropout dropout;
    struct graph_depth_space depth_space;
    struct kern_matmul matmul;
};

/* ---- values, nodes, graphs ----------------------------------------- */

struct graph_value {
    char *name;
    enum infer_dtype dtype;
    int rank;                    /* -1: not known yet */
    int64_t dim[INFER_MAX_RANK]; /* -1: free (batch, or spatial of an input) */
    struct constant *data;       /* constants only */
    int producer;                /* node, or -1: input or constant */
};

struct graph_node {
    char *name;
    enum graph_op op;
    union graph_attr attr;
    struct kern_epilogue epilogue;
    int n_in, n_out;
    int *in; /* values; -1 absent.  A residual is the input after the last
              * one of ops.def (conv: x, w, bias, residual) */
    int *out;
};

/* How a picture becomes an input tensor.  Order of work: resize, crop or
 * letterbox, colour order, then (pixel * scale - mean) / std per channel,
 * pixel in 0 .. 255. */
enum graph_resize_policy {
    GRAPH_RESIZE_EXACT,     /* to the input's size, aspect ignored */
    GRAPH_RESIZE_SHORTER,   /* shorter side to resize, then centre crop */
    GRAPH_RESIZE_LETTERBOX, /* longer side fits, the rest filled */
    GRAPH_RESIZE_NONE       /* the picture must have the input's size */
};
enum graph_color { GRAPH_RGB, GRAPH_BGR, GRAPH_GRAY };
enum graph_filter { GRAPH_BILINEAR, GRAPH_NEAREST, GRAPH_BICUBIC };
struct graph_preprocess {
    bool present;
    enum graph_resize_policy policy;
    int resize; /* SHORTER: pixels of the shorter side; 0: as the crop */
    enum graph_filter filter; /* all with antialias, as Pillow */
    enum graph_color color;
    float scale; /* e.g. 1/255; default 1 */
    float mean[4];
    float std[4]; /* default 1 */
    uint8_t fill; /* letterbox colour */
};

/* The multiplier that a network is meant to run with (libinfer/multiplier).
 * An entry of the table is a product as .axm files hold it; that of the
 * operands a and b is at [a][b]. */
struct graph_multiplier {
    char *name;
    bool real; /* operands are of floating point, else integers */
    bool is_signed;
    int bits;               /* of an operand, or of its mantissa */
    char *exact;            /* layers that do without, as words; or NULL */
    char *accumulator;      /* how products are added, as a word; or NULL */
    struct constant *table; /* I32, 2^bits x 2^bits */
};

/* Bits of the widest tables. */
#define GRAPH_MULTIPLIER_REAL_BITS    11
#define GRAPH_MULTIPLIER_INTEGER_BITS 8

struct graph {
    char *name;
    struct graph_value *value;
    int n_values, values_capacity;
    struct graph_node *node;
    int n_nodes, nodes_capacity;
    int *input, n_inputs;
    int *output, n_outputs;
    struct graph_preprocess *preprocess; /* one an input */
    char **label;
    int n_labels;
    char *task; /* what the outputs are, as libinfer/task reads it; or NULL */
    struct graph_multiplier *multiplier; /* NULL: products are exact */
    struct graph_index *index;           /* of names; graph.c's own */
};

struct graph *graph_new(void);
void graph_free(struct graph *g);                /* NULL is fine */
struct graph *graph_copy(const struct graph *g); /* constants are shared */

/* All graph_add_* return the new index, or a negative INFER_E*: EMEMORY, also
 * for more nodes or values than the limits, or EARGUMENT where the name is
 * taken.  Names are copied; name NULL makes a fresh unique one. */
int graph_add_input(struct graph *g, const char *name, enum infer_dtype dtype,
                    int rank, const int64_t *dim);
/* Takes over the reference to c (released on failure).  NULL, from a
 * constant_new() that found no memory, is EMEMORY. */
int graph_add_constant(struct graph *g, const char *name, struct constant *c);
/* A value that some node will produce. */
int graph_add_value(struct graph *g, const char *name);
/* attr and epilogue are set to the defaults of the operation: fill them
 * through g->node[index] afterwards.  Output values get this producer. */
int graph_add_node(struct graph *g, enum graph_op op, const char *name,
                   const int *in, int n_in, const int *out, int n_out);
int graph_add_output(struct graph *g, int value);
/* Sets the error of such an EMEMORY, which it returns: names the limit that
 * the graph has reached, if any. */
int graph_no_room(const struct graph *g, struct infer_error *err);

/* -1 where absent.  Constant time: graph_add_* and graph_rename_value() keep an
 * index, so names must not be changed in any other way. */
int graph_find_value(const struct graph *g, const char *name);
int graph_find_node(const struct graph *g, const char *name);
/* EARGUMENT where the name is taken. */
int graph_rename_value(struct graph *g, int value, const char *name);

/* Number of node inputs and graph outputs that read the value. */
int graph_count_uses(const struct graph *g, int value);
bool graph_is_output(const struct graph *g, int value);
/* The only node that reads the value, or -1 (none, several, or an output). */
int graph_single_user(const struct graph *g, int value);
/* All of them at once, in one walk over the graph: malloc()ed, one an entry
 * of g->value; NULL when out of memory. */
int *graph_count_all_uses(const struct graph *g);
/* Gives the graph a multiplier, or NULL, in place of its own; what it had is
 * freed. */
void graph_set_multiplier(struct graph *g, struct graph_multiplier *m);
void graph_multiplier_free(struct graph_multiplier *m); /* NULL is fine */
/* Shares the table; NULL when out of memory. */
struct graph_multiplier *
graph_multiplier_copy(const struct graph_multiplier *m);
/* A multiplier as the model file states it, but for its table.  Reading:
 * EFORMAT for a member that is missing, unknown or out of range. */
struct cJSON *graph_multiplier_to_json(const struct graph_multiplier *m);
int graph_multiplier_from_json(const struct cJSON *json,
                               struct infer_error *err,
                               struct graph_multiplier **out);
/* Takes over the reference to c.  EFORMAT: it is not I32 of 2^bits x 2^bits. */
int graph_multiplier_set_table(struct graph_multiplier *m, struct constant *c,
                               struct infer_error *err);

/* Every reader of `from` reads `to` afterwards, graph outputs included.  A
 * graph output keeps its name where that is possible: the two values swap
 * names unless `to` is itself a graph input or output. */
void graph_replace_value(struct graph *g, int from, int to);
void graph_remove_node(struct graph *g, int node);
/* Removes nodes and values that no output needs; graph inputs stay.  Returns
 * how many nodes, or EMEMORY. */
int graph_remove_dead(struct graph *g);
/* Producers first; EFORMAT names the nodes of a cycle. */
int graph_sort(struct graph *g, struct infer_error *err);
/* Sorts, removes holes, renumbers. */
int graph_compact(struct graph *g, struct infer_error *err);

/* Checks everything that does not depend on shapes, and every shape that is
 * known: counts and types of inputs, attributes in range, one producer a
 * value, no cycle, weights that fit.  All faults are listed in one report. */
int graph_validate(const struct graph *g, struct infer_error *err);

/* Fills dtype, rank and dim of every value from the inputs.  dim[i] has the
 * full shape of input i where shapes is not NULL; else free dimensions stay
 * free where that is decidable (-1 propagates).  All faults are listed.
 * The graph must be sorted. */
struct graph_shape {
    int rank;
    int64_t dim[INFER_MAX_RANK];
};
int graph_infer_shapes(struct graph *g, const struct graph_shape *shapes,
                       struct infer_error *err);

/* 1 if the images of a batch are independent, 0 if not, or EMEMORY: dimension 0
 * of every value that depends on an input is the batch, and no node mixes its
 * entries.  whole and part are copies of one graph with their shapes inferred
 * for two batches; 1 says that part, run over slices of whole's inputs, gives
 * slices of whole's outputs. */
int graph_separable(const struct graph *whole, const struct graph *part);

/* ---- operations ---------------------------------------------------- */

enum graph_field_type {
    GRAPH_FIELD_BOOL,
    GRAPH_FIELD_INT,    /* int */
    GRAPH_FIELD_INTS,   /* int[count], written up to the needed length */
    GRAPH_FIELD_INT64S, /* int64_t[], length in the int at count_offset */
    GRAPH_FIELD_INTN,   /* int[], length in the int at count_offset */
    GRAPH_FIELD_FLOAT,
    GRAPH_FIELD_FLOATS, /* float[count] */
    GRAPH_FIELD_SIZES,  /* int64_t[count], written up to the needed length */
    GRAPH_FIELD_PADS,   /* int[count] begins, then int[count] ends right after
                           them; one list: the begins, then the ends */
    GRAPH_FIELD_ENUM    /* int-sized enum, written as one of names[] */
};

/* One attribute of an operation, for JSON, inspect and diff.  A field equal to
 * its default is not written. */
struct graph_field {
    const char *name;
    enum graph_field_type type;
    size_t offset;            /* in union graph_attr */
    size_t count_offset;      /* INT64S, INTN */
    int count;                /* lists: capacity */
    const char *const *names; /* ENUM: NULL-terminated */
    bool axis; /* INT, INTN: dimensions of input 0, negative from the end */
};

struct graph_shape_args; /* see ops/op.h */
struct graph_separable_args;

struct graph_op_info {
    const char *name;     /* "conv", as in JSON */
    const char *inputs;   /* for people, in their order: "x weight [bias]" */
    int min_in, max_in;   /* residual not counted; max_in -1: any number */
    int min_out, max_out; /* max_out -1: any number */
    bool residual;        /* knows an epilogue with a residual */
    bool activation;      /* knows an epilogue with an activation */
    /* Each element of an output is an element of an input: only the place is
     * another.  (Max pooling is not among them.) */
    bool moves;
    /* Inputs with their dimensions in another order give the outputs in that
     * order, once the axes that the node states are renamed. */
    bool any_order;
    const struct graph_field *field; /* ends with a NULL name; may be NULL */
    union graph_attr defaults;
    /* Sets dtype, rank and dim of the outputs from those of the inputs, or
     * reports the fault. */
    int (*infer_shape)(struct graph_shape_args *args, struct infer_error *err);
    /* True if entry n along dimension 0 of the output depends on entry n of the
     * inputs alone; asked only if the sizes allow it.  NULL: false. */
    bool (*separable)(const struct graph_separable_args *args);
};

/* Never NULL for a valid op. */
const struct graph_op_info *graph_op_info(enum graph_op op);
/* The axes that a node of the operation states, *n of them; NULL and 0 where it
 * has no such attribute.  They lie in attr. */
int *graph_axes(enum graph_op op, union graph_attr *attr, int *n);
/* GRAPH_NONE where no operation has the name. */
enum graph_op graph_op_find(const char *name);
/* A function with its default parameters (kernels/unary.def). */
static inline struct kern_unary graph_unary(enum kern_unary_kind kind)
{
    return kern_unary_default(kind);
}

/* ---- JSON ---------------------------------------------------------- */

/* The graph as JSON (format in model_file.h), constants by name only.
 * The result belongs to the caller; NULL when out of memory. */
struct cJSON *graph_to_json(const struct graph *g);
/* Writes the repeats of an architecture file's nodes out, in place
 * (doc/model-format.md).  EFORMAT, EMEMORY: the tree is valid, but may hold
 * weights of copies already. */
int graph_expand_repeats(struct cJSON *json, struct infer_error *err);
/* The inverse of graph_to_json().  Weights become values without data but with
 * the shapes and types the JSON states (rank -1 where it states none); bind
 * data with graph_set_constant().  EFORMAT lists every fault. */
int graph_from_json(const struct cJSON *json, struct infer_error *err,
                    struct graph **out);
/* Takes over the reference to c. */
int graph_set_constant(struct graph *g, int value, struct constant *c,
                       struct infer_error *err);

#endif
