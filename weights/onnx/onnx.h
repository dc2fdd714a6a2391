/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the ONNX importer, for the functions of ops.def.
 *
 * Free dimensions (the batch, and spatial extents that the file leaves open)
 * are handled by probes: every shape, and every small integer tensor that is
 * computed from shapes, is known for ONNX_PROBES assignments of sizes to the
 * free dimensions at once.  Arithmetic on shapes is then plain arithmetic, and
 * a number depends on the batch exactly where its probes differ.  Models with
 * no free dimension have one probe.
 */
#ifndef WEIGHTS_ONNX_ONNX_H
#define WEIGHTS_ONNX_ONNX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph.h"
#include "libinfer/graph/ops/op.h"
#include "weights/onnx/proto.h"
#include "weights/weights.h"

#define ONNX_PROBES 5
/* Tensors up to this many elements are computed on while importing, until all
 * of them together take ONNX_SMALL_BYTES. */
#define ONNX_MAX_SMALL   8192
#define ONNX_SMALL_BYTES ((size_t)16 << 20)

/* Versions that this reader knows. */
#define ONNX_MAX_OPSET 28
#define ONNX_MAX_IR    14

/* A small tensor with its elements: i for integers and booleans, else d. */
struct onnx_small {
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK];
    int64_t count;
    int64_t *i;
    double *d;
};

enum onnx_state {
    ONNX_UNKNOWN,  /* nothing has produced it yet */
    ONNX_LAZY,     /* an initializer that was not needed so far */
    ONNX_CONSTANT, /* a constant */
    ONNX_SMALL,    /* known at each probe */
    ONNX_GRAPH,    /* computed by the graph */
    ONNX_DROPPED,  /* an extra output that this reader does not make */
    ONNX_FAILED    /* its node was refused */
};

/* What one element that is computed from a counted axis tells of it. */
enum onnx_none {
    ONNX_NONE_UNKNOWN,
    ONNX_NONE_ZERO, /* 0 where no entry counts, and only there */
    ONNX_NONE_TRUE  /* true there, and only there */
};

/* A number, or numbers, computed from the size of an axis of which only the
 * first entries count (counted.c); of the import's arena. */
struct onnx_size {
    int count; /* value of the graph that says how many */
    /* The element that is the size or, where that is less, a fixed number; -1
     * where it is not known what the elements are. */
    int axis;
    /* Where it is not 0, that element is a fixed number less so many times the
     * size. */
    int64_t less;
    enum onnx_none none;
    int64_t room[ONNX_PROBES]; /* entries of the axis at each probe */
};

/* `count` is so many times another value of the graph. */
struct onnx_times {
    int64_t times;
    int base;
};

/* A tensor by its ONNX name.  A file may have very many. */
struct onnx_value {
    struct pb_span name;
    enum onnx_state state;
    int graph;                       /* value of the graph, or -1 */
    struct constant *constant;       /* a reference; NULL until needed */
    const struct onnx_small **small; /* one a probe; NULL until needed */
    struct pb_span tensor;           /* ONNX_LAZY */
    bool is_sparse;                  /* and that is a SparseTensorProto */
    signed char large;               /* source->large() once asked: 1, or -1 */
    short narrow;                    /* its type in narrow.h, or 0 */
    int transposed; /* 1 + the value that holds its transpose; 0: none does */
    /* Entries along an axis of which only the first count (counted/): 1 + the
     * value of the graph that says how many; 0: all do. */
    int count, axis;
    const struct onnx_times *multiple; /* of that value; NULL: not known */
    const struct onnx_size *sized;     /* NULL: not computed from such a size */
    /* ONNX_SMALL: the node that it was folded from, or NULL (unfold.c). */
    const struct onnx_node *maker;
};

struct onnx_import;
struct onnx_scope;

/* Where the graph of an import comes from: an ONNX file, or the file of another
 * format whose reader tells its graph in ONNX's operators. */
struct onnx_source {
    /* Adds the constants as values: ONNX_LAZY with their tensor. */
    int (*constants)(struct onnx_import *im);
    /* Input i of the graph, in order.  1: *out is set; 0: there are no more. */
    int (*input)(struct onnx_import *im, size_t i, struct onnx_value_info *out);
    /* Imports every node, producers first. */
    int (*nodes)(struct onnx_import *im);
    /* The name of the value that is output i.  1 and 0 as above. */
    int (*output)(struct onnx_import *im, size_t i, struct pb_span *out);
    /* The constant of a value that was ONNX_LAZY; a new reference. */
    int (*load)(struct onnx_import *im, struct pb_span tensor,
                struct constant **out);
    /* Whether it would have more than ONNX_MAX_SMALL elements; NULL where only
     * load() can tell. */
    bool (*large)(struct onnx_import *im, struct pb_span tensor);
};

/* Why nodes were refused, in im->keep. */
struct onnx_refusals {
    struct onnx_refusal *first;
    int kinds;
    size_t others; /* nodes of kinds beyond the limit */
};

struct onnx_numbers;

struct onnx_import {
    const struct onnx_source *source;
    void *context;            /* the source's own */
    struct onnx_model *model; /* of an ONNX file; else NULL */
    const struct weights_options *options;
    int64_t opset;
    struct graph *g;
    struct onnx_value *value;
    int n_values, values_capacity;
    uint32_t *slot; /* hash of names: index + 1 */
    size_t slots;
    int probes;
    /* The file states batch 1 and it is read as free. */
    bool freed_batch;
    bool free_extent;    /* a dimension other than the batch is open */
    bool drops_batch;    /* an open batch is left out where it is 1 */
    bool fixed_sizes;    /* setting: open dimensions take a size */
    bool odd_sizes;      /* and has odd sizes behind the first probe */
    bool small_sizes;    /* and smaller sizes at all probes */
    bool alike;          /* and those of one axis are one in all inputs */
    bool several;        /* not so else: more sizes are open than axes */
    unsigned free_slots; /* bit d: slot d < INFER_MAX_RANK is open */
    const struct onnx_few_sizes *window; /* setting: sizes, or NULL */
    /* 0, or the sizes that fixed_sizes gives (import/sizes.c) */
    int check;
    struct onnx_numbers *numbers; /* setting: where they are kept, or NULL */
    bool refused_numbers;         /* and of a network that is refused */
    /* By value of the graph, of `probes` types each; of rank 0 where a value
     * has no type yet. */
    struct graph_type **type;
    unsigned char *fixed; /* the same: computed from constants alone */
    int types_capacity;
    /* Bytes of constants: that the file holds and were read; that were computed
     * or whose fills were written; of fills (constant_new_fill()). */
    uint64_t held, generated, filled;
    double work;        /* of constants that were computed */
    double worked;      /* the same, in the last attempt of a setting */
    size_t small_bytes; /* of all small tensors */
    struct onnx_arena keep, scratch;
    /* The node being imported. */
    const struct onnx_node *node;
    int param;     /* from the row of its operator */
    int emitted;   /* nodes made for it so far */
    int unfolding; /* nodes within nodes (unfold.c) */
    /* 0, or the node's first error, whose text is in *err. */
    int rc;
    struct infer_error *err;
    struct onnx_refusals refused;
    /* Graphs within the graph (import/scope.c). */
    struct onnx_scope *scope; /* the innermost; NULL in the model's graph */
    size_t body_nodes;        /* imported so far */
    unsigned fresh;           /* names made so far */
    bool skip; /* a node in the current node's body was refused */
};

/* Each function for attributes, inputs and graph nodes returns im->rc.  Once
 * that is negative they do nothing more than set their outputs to "absent".
 * So a caller checks im->rc once, before it computes with the values read. */

/* Records an error of the node unless it has one. */
#define onnx_fail(im, code, ...)                                               \
    ((im)->rc < 0 ? (im)->rc                                                   \
                  : ((im)->rc = error_set((im)->err, code, __VA_ARGS__)))
int onnx_no_memory(struct onnx_import *im);

/* Imports the node im->node. */
typedef int onnx_op_fn(struct onnx_import *im);

struct onnx_op {
    const char *name;
    int since; /* first opset that has it */
    int until; /* last one; 0: still there */
    onnx_op_fn *import;
    int param;
};
/* NULL where no row has the name. */
const struct onnx_op *onnx_op_find(const char *name);

/* ---- imports of graphs --------------------------------------------- */

/* The graph of a source.  Where every input states a batch of 1, it is read as
 * any batch if the graph allows that. */
int onnx_import_graph(const struct onnx_source *source, void *context,
                      int64_t opset, struct pb_span name,
                      const struct weights_options *options,
                      struct infer_error *err, struct graph **out);
/* Imports im->node: folds it where its inputs are known, else adds nodes to
 * the graph.  1: an input comes from a node that was refused before. */
int onnx_import_node(struct onnx_import *im);
/* 1: an input of im->node comes from a node that was refused; 0: all inputs are
 * there, and no output is produced twice. */
int onnx_check_node(struct onnx_import *im);
/* EUNSUPPORTED where the node has an attribute that nothing asked for: it may
 * change what the node computes. */
int onnx_check_attributes(struct onnx_import *im);
/* Adds what a node's import gave (rc, and fault unless that is 0 or 1) to the
 * refusals and to *result, and marks the outputs of a refused node: its readers
 * are skipped.  So the report lists each cause once, with the label of the
 * first node of an operator that has it, and their count.  Only EMEMORY ends
 * the import at once. */
int onnx_end_node(struct onnx_import *im, int rc,
                  const struct infer_error *fault, const char *label,
                  int *result);

/* Imports nodes one after the other.  Refused ones are added to the refusals,
 * and *result is the first one's code. */
int onnx_import_list(struct onnx_import *im, const struct onnx_list *list,
                     int *result);

/* Puts producers first in a list of nodes of the file that is not so. */
int onnx_order_nodes(struct onnx_import *im, struct onnx_list *list);

/* ---- operators as steps -------------------------------------------- */

/* Imports an operator of ONNX on behalf of the current node, which is told in
 * several. */
int onnx_step(struct onnx_import *im, const char *op, const struct pb_span *in,
              int n_in, struct pb_span out, const struct onnx_attr *attr,
              int n_attr);
/* The same with several outputs; empty ones are not made. */
int onnx_steps(struct onnx_import *im, const char *op, const struct pb_span *in,
               int n_in, struct pb_span *out, int n_out,
               const struct onnx_attr *attr, int n_attr);
/* A name like this one that no tensor has. */
struct pb_span onnx_fresh_name(struct onnx_import *im, struct pb_span name);
/* The name of a constant; takes over the reference, NULL is EMEMORY. */
struct pb_span onnx_step_constant(struct onnx_import *im, struct constant *c);
/* n integers as a list (rank 1), or one of them as a scalar (rank 0). */
struct pb_span onnx_step_ints(struct onnx_import *im, int rank, int64_t n,
                              const int64_t *value);
/* As onnx_input_type() and onnx_input_small(), of a tensor by name; as
 * onnx_type_of_input() and onnx_small_input(). */
int onnx_named_type(struct onnx_import *im, struct pb_span name, int probe,
                    struct graph_type *out);
struct graph_type onnx_type_named(struct onnx_import *im, struct pb_span name,
                                  int probe);
const struct onnx_small *const *onnx_small_named(struct onnx_import *im,
                                                 struct pb_span name);
int onnx_named_small(struct onnx_import *im, struct pb_span name,
                     const struct onnx_small *const **out);

/* ---- graphs within the graph --------------------------------------- */

/* Gives the names of a node of a body their meaning in the scope, and an
 * attribute that refers to a function's call its value. */
int onnx_scope_node(struct onnx_import *im, struct onnx_node *node);
/* The current node's attribute that is a graph. */
int onnx_body_attr(struct onnx_import *im, const char *name,
                   const struct onnx_graph **out);
/* Imports the nodes of a body with these tensors as its inputs; result: names
 * of its first outputs.  Where a node in it is refused im->skip is set, and the
 * current node is left out without an error of its own. */
int onnx_import_body(struct onnx_import *im, const struct onnx_graph *body,
                     const struct pb_span *arg, int n_args,
                     struct pb_span *result, int n_results);
/* The model's function that the current node calls, or NULL. */
const struct onnx_function *onnx_function_find(const struct onnx_import *im);
int onnx_import_function(struct onnx_import *im, const struct onnx_function *f);

/* ---- tensors of a computed number of entries (counted/) ------------ */

/* True where an input of the current node is such a tensor. */
bool onnx_reads_counted(const struct onnx_import *im);
/* Records what the outputs of the current node, which was imported, owe to the
 * sizes of such tensors. */
int onnx_note_sizes(struct onnx_import *im, bool folded);
/* EUNSUPPORTED where the current node, which reads no such tensor, takes the
 * size of one for a number. */
int onnx_check_sized(struct onnx_import *im);
/* Imports the current node, which reads such tensors. */
int onnx_import_counted(struct onnx_import *im, const struct onnx_op *op);
/* Output i of the current node is such a tensor; count: a value of the graph,
 * I64 of one element. */
int onnx_set_counted(struct onnx_import *im, int i, int axis, int count);
/* NonZero of what is computed at run time. */
int onnx_counted_non_zero(struct onnx_import *im);
/* The value of the graph for an output of the whole graph: entries that do not
 * count are 0, or -1 in integers. */
int onnx_settle_output(struct onnx_import *im, int v, int *value);
/* Makes the count an output of the graph, once. */
int onnx_count_output(struct onnx_import *im, int v);

/* ---- cuts and pads by free sizes (fitted.c) ------------------------ */

/* Entries begin .. begin + size - 1 of an axis; begin and size: one number a
 * probe.  EUNSUPPORTED unless the size is that of a tensor of the graph, and
 * begin a constant, a size and at most 16 more or less, a difference of sizes
 * or half of one. */
int onnx_cut_to(struct onnx_import *im, int x, int axis, const int64_t *begin,
                const int64_t *size);
/* x with `before` entries more before it, and as many after it as make `size`;
 * negative numbers cut. */
int onnx_pad_to(struct onnx_import *im, int x, int axis, const int64_t *before,
                const int64_t *size, enum kern_pad_mode mode, float value);

/* A value of the graph whose last dimension has a size that no tensor has: a
 * size of a tensor divided by a number, rounded down or up, or the multiple of
 * the number next to it, or one that is larger or smaller by a small number. -1
 * where the size, which is one at each probe, is none of these. */
int onnx_make_size(struct onnx_import *im, const int64_t *size);
/* A tensor of a few numbers, of which each is a size of a tensor of the graph,
 * its inverse, or either with a small number added, times a factor: *value, or
 * -1 where they are not. */
int onnx_numbers_of_sizes(struct onnx_import *im,
                          const struct onnx_small *const *small, int *value);

/* ---- attributes of the current node -------------------------------- */

/* Each marks the attribute as used; one that nothing asked for is refused in
 * the end.  Absent attributes leave *out alone and return 0; present ones of
 * another type or outside [min, max] are EFORMAT. */
bool onnx_has_attr(const struct onnx_import *im, const char *name);
void onnx_ignore(struct onnx_import *im, const char *name);
int onnx_int(struct onnx_import *im, const char *name, int64_t min, int64_t max,
             int64_t *out);
/* Attribute 'axis'; `otherwise` where it is absent. */
int onnx_axis(struct onnx_import *im, int otherwise);
int onnx_flag(struct onnx_import *im, const char *name, bool *out);
int onnx_float(struct onnx_import *im, const char *name, float *out);
/* *n is left alone where the attribute is absent. */
int onnx_ints(struct onnx_import *im, const char *name, int max, int64_t *out,
              int *n);
/* Index of the attribute's text in words[] (NULL-terminated). */
int onnx_word(struct onnx_import *im, const char *name,
              const char *const *words, int *out);
/* The attribute itself, or NULL. */
struct onnx_attr *onnx_attr(const struct onnx_import *im, const char *name);

/* ---- inputs of the current node ------------------------------------ */

bool onnx_has_input(const struct onnx_import *im, int i);
bool onnx_has_output(const struct onnx_import *im, int i);
/* EFORMAT unless the node has min .. max inputs (max < 0: any number). */
int onnx_arity(struct onnx_import *im, int min, int max);
/* Outputs from `first` on are not made: whoever reads one is refused. */
int onnx_drop_outputs(struct onnx_import *im, int first);
/* The type in narrow.h of input i; 0: it has none of these. */
int onnx_input_narrow(const struct onnx_import *im, int i);
/* Outputs of an operator that moves elements have the narrow type of its
 * input. */
void onnx_pass_narrow(struct onnx_import *im);
/* Output 0 of the current node has this type in narrow.h. */
int onnx_set_narrow(struct onnx_import *im, int type);
/* Input i as a value of the graph; -1 where it is absent. */
int onnx_input(struct onnx_import *im, int i, int *out);
/* Input i where it is the same constant at every probe, else NULL in *out. */
int onnx_input_constant(struct onnx_import *im, int i, struct constant **out);
/* The same for who does not read its elements, or calls onnx_fill() before. */
int onnx_input_weight(struct onnx_import *im, int i, struct constant **out);
/* Input i at each probe where it is small and known, else NULL in *out. */
int onnx_input_small(struct onnx_import *im, int i,
                     const struct onnx_small *const **out);
/* The same; NULL after an error, too. */
const struct onnx_small *const *onnx_small_input(struct onnx_import *im, int i);
/* False where input i, which is there, is computed at run time or is too large
 * to be small. */
bool onnx_input_is_known(const struct onnx_import *im, int i);
/* The integers of input i at a probe, at most INFER_MAX_RANK, and *n of them
 * unless that is -1; EUNSUPPORTED where they are computed at run time. */
int onnx_input_list(struct onnx_import *im, int i, int probe, const char *what,
                    int64_t *out, int *n);
/* The same at every probe, as many at each. */
int onnx_input_lists(struct onnx_import *im, int i, const char *what,
                     int64_t (*out)[INFER_MAX_RANK], int *n);
/* A constant list of integers; EUNSUPPORTED where it is computed at run time
 * or depends on the batch.  Absent: *n is left alone. */
int onnx_input_ints(struct onnx_import *im, int i, const char *what, int max,
                    int64_t *out, int *n);
/* A constant number; absent leaves *out alone. */
int onnx_input_float(struct onnx_import *im, int i, const char *what,
                     float *out);
/* Shape and type of input i at a probe, known for every state. */
int onnx_input_type(struct onnx_import *im, int i, int probe,
                    struct graph_type *out);
/* The same; of rank 0 and no type after an error. */
struct graph_type onnx_type_of_input(struct onnx_import *im, int i, int probe);
/* Axes from an attribute in old opsets and from input `input` from opset
 * `since` on.  *n is left alone where neither is given. */
int onnx_axes(struct onnx_import *im, const char *name, int input, int since,
              int64_t *out, int *n);

/* ---- making graph nodes -------------------------------------------- */

void onnx_defaults(enum graph_op op, union graph_attr *attr);
/* Adds a node and infers its output's shape at each probe.  out: the output of
 * the ONNX node that it makes, or -1 for a step on the way.  attr NULL:
 * defaults.  *value may be NULL. */
int onnx_emit(struct onnx_import *im, enum graph_op op,
              const union graph_attr *attr, const int *in, int n_in, int out,
              int *value);
/* The same with the first n <= 5 inputs of the ONNX node, less absent ones at
 * the end, for its output 0. */
int onnx_emit_node(struct onnx_import *im, enum graph_op op,
                   const union graph_attr *attr, int n);
/* The same for a graph node that has as many outputs as the ONNX node. */
int onnx_emit_all(struct onnx_import *im, enum graph_op op,
                  const union graph_attr *attr, const int *in, int n_in);
int onnx_emit_unary(struct onnx_import *im, enum kern_unary_kind kind, float a,
                    float b, int in, int out, int *value);
int onnx_emit_binary(struct onnx_import *im, enum kern_binary_kind kind, int a,
                     int b, int out, int *value);
int onnx_emit_cast(struct onnx_import *im, enum infer_dtype to, int in, int out,
                   int *value);
/* squeeze, unsqueeze, transpose, tile, ...: operations of struct graph_dims. */
int onnx_emit_dims(struct onnx_import *im, enum graph_op op, int in, int n,
                   const int64_t *dim, int out, int *value);
/* An expansion of a value to n sizes, which may be free. */
int onnx_emit_expand(struct onnx_import *im, int in,
                     int64_t (*want)[INFER_MAX_RANK], int n, int out,
                     int *value);
/* A value of the graph that has the sizes want[probe][i] of every marked i at
 * every probe, and in dim[i] which dimension that is (GRAPH_EXPAND_LIKE); -1
 * where there is none. */
int onnx_size_like(const struct onnx_import *im,
                   int64_t (*want)[INFER_MAX_RANK], const bool *marked, int n,
                   int64_t *dim);
/* The same of one size, number i of n, which is made where no tensor has it and
 * onnx_make_size() can. */
int onnx_size_like_one(struct onnx_import *im, int64_t (*want)[INFER_MAX_RANK],
                       int i, int n, int64_t *dim);
/* A value of one element, repeated as often as dimension d of `like` has
 * entries: a value of rank 1. */
int onnx_repeat_like(struct onnx_import *im, int one, int like, int d,
                     int *value);
/* A small tensor of free sizes whose elements repeat along them, or count along
 * them by equal steps, as a value of the graph: a constant, expanded, and what
 * is counted.  *value is -1 where it is none. */
int onnx_expand_small(struct onnx_import *im,
                      const struct onnx_small *const *small, int *value);
/* Whether it is one. */
int onnx_small_expands(struct onnx_import *im,
                       const struct onnx_small *const *small, bool *out);
/* True where the shape of a small tensor differs between the probes. */
bool onnx_small_is_free(const struct onnx_import *im,
                        const struct onnx_small *const *small);
/* A constant of the graph; takes over the reference (released on failure).
 * NULL here and in onnx_set_constant() is EMEMORY. */
int onnx_add_constant(struct onnx_import *im, struct constant *c, int *value);
/* Output i of the ONNX node is this constant; takes over the reference. */
int onnx_set_constant(struct onnx_import *im, int i, struct constant *c);
/* Output i of the ONNX node is known at each probe (array in im->keep). */
int onnx_set_small(struct onnx_import *im, int i,
                   const struct onnx_small **small);

/* Room for a constant that no file holds, within the limit for all of them,
 * which grows with what was read of the file: a graph that is refused later has
 * not taken more. */
int onnx_new_constant(struct onnx_import *im, enum infer_dtype dtype, int rank,
                      const int64_t *dim, struct constant **out);
/* A constant of equal elements, NULL: 0.  A large one takes no memory before
 * the whole graph is imported, or before somebody reads it, which
 * onnx_input_constant() sees to. */
int onnx_new_fill(struct onnx_import *im, enum infer_dtype dtype, int rank,
                  const int64_t *dim, const void *element,
                  struct constant **out);
/* For who reads the elements of a constant of the graph: they are written. */
int onnx_fill(struct onnx_import *im, struct constant *c);
/* Bytes that may be computed still, and some of them less: EUNSUPPORTED where
 * there is no room. */
uint64_t onnx_room(const struct onnx_import *im);
int onnx_charge(struct onnx_import *im, uint64_t bytes);

/* EUNSUPPORTED where a literal batch is read as free and the graph's node
 * would combine what belongs to different pictures. */
int onnx_keep_batch(struct onnx_import *im, int node);

/* ---- values -------------------------------------------------------- */

/* A name as a C string in im->scratch. */
int onnx_name(struct onnx_import *im, struct pb_span name, char **out);
/* -1 where no tensor has this name. */
int onnx_value_find(const struct onnx_import *im, struct pb_span name);
/* Adds an unknown value, or finds the one of that name. */
int onnx_value_get(struct onnx_import *im, struct pb_span name, int *out);
/* The dense constant of a SparseTensorProto of the file; a new reference
 * (import/sparse.c). */
int onnx_sparse_load(struct onnx_import *im, struct pb_span span,
                     struct constant **out);
/* Makes the value one of the graph. */
int onnx_value_graph(struct onnx_import *im, int value, int *out);
/* Records the type of a value of the graph at every probe. */
int onnx_value_type(struct onnx_import *im, int graph_value,
                    const struct graph_type *type);
/* Reads the constant of a value that is ONNX_LAZY; others stay as they are. */
int onnx_load_lazy(struct onnx_import *im, struct onnx_value *v);
/* Sets the constant of a value that is ONNX_SMALL and the same at every
 * probe; others stay as they are. */
int onnx_load_small(struct onnx_import *im, struct onnx_value *v);
void onnx_constant_type(const struct constant *c, struct graph_type *out);
void onnx_values_clear(struct onnx_import *im);
/* True for a constant of the graph, and for what it computes from constants. */
bool onnx_computes_constant(const struct onnx_import *im, int graph_value);
/* Computes a value of the second kind: v->constant is set, or stays NULL where
 * the value is of another kind or the reference cannot compute it. */
int onnx_value_evaluate(struct onnx_import *im, struct onnx_value *v);

/* ---- folding ------------------------------------------------------- */

/* Computes the current node where all it needs is known.  1: done; 0: it must
 * go into the graph; negative: error. */
int onnx_fold_node(struct onnx_import *im);
/* Where the current node, which moves elements and was folded, puts an element
 * of input `from`: -1 nowhere, -2 not known. */
int onnx_fold_place(struct onnx_import *im, int from, int64_t element);
/* Keeps the current node, which was folded, where its result depends on free
 * sizes. */
int onnx_keep_maker(struct onnx_import *im);
/* Imports the nodes that a small value was folded from into the graph: *value,
 * or -1 where that cannot be. */
int onnx_unfold(struct onnx_import *im, int v, int *value);
/* True where a small value was folded from the larger or smaller of two numbers
 * or the like: a formula that holds at the probes may not at other sizes. */
bool onnx_is_chosen(const struct onnx_import *im, int v);
/* True where the small tensors are equal at all probes. */
bool onnx_small_is_fixed(const struct onnx_import *im,
                         const struct onnx_small *const *small);
/* Small tensor <-> constant. */
int onnx_small_from_constant(struct onnx_import *im, const struct constant *c,
                             struct onnx_small **out);
struct constant *onnx_small_to_constant(const struct onnx_small *s);
int onnx_small_new(struct onnx_import *im, enum infer_dtype dtype, int rank,
                   const int64_t *dim, struct onnx_small **out);

/* ---- indices that are constant ------------------------------------- */

/* The operators of these names where the indices are constant and the shapes
 * fixed: a gather from the flattened tensor.  ScatterND and ScatterElements
 * without a reduction. */
onnx_op_fn onnx_constant_gather_nd, onnx_constant_gather_elements;
onnx_op_fn onnx_constant_scatter_nd, onnx_constant_scatter_elements;

/* Cast and CastLike to a type of narrow.h. */
int onnx_cast_narrow(struct onnx_import *im, int type);

/* ---- the functions of the table ------------------------------------ */

#define ONNX_OP(name, since, until, function, param) onnx_op_fn function;
#include "weights/onnx/ops.def"
#undef ONNX_OP

/* Resize with tf_crop_and_resize (region), or tf_half_pixel_for_nn
 * (composed/crop_resize.c). */
int onnx_import_crop_resize(struct onnx_import *im, bool region);
/* In a file of PyTorch, Resize with align_corners by scales that may leave a
 * part of an entry: *attr and *like become those of the result's size, which is
 * whole (composed/crop_resize.c). */
int onnx_whole_lengths(struct onnx_import *im, int x, union graph_attr *attr,
                       int *like);
/* The product of two tensors of integers as MatMul has it: an output of the
 * current node (composed/integers.c). */
int onnx_import_integer_matmul(struct onnx_import *im);
/* x, NaN where x / scale is beyond what F8E4M3 holds: for a cast that is not to
 * saturate.  scale: -1 for 1.
 * (composed/quantize.c) */
int onnx_f8_not_saturated(struct onnx_import *im, int x, int scale);

#endif
