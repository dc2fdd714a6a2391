/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of PyTorch's operators (ATen), as torch.export writes them.
 *
 * A reader fills a struct aten_program; the graph is then told in ONNX's
 * operators, node by node, to the importer of ONNX (weights/onnx/onnx.h), which
 * has the arithmetic on shapes, the folding of constants and the shape rules.
 * Tensors of any type and integers that are computed from sizes ("symbolic"
 * ones) are both values of that importer, by name.
 *
 * Operators that write into their input are those of the same name without an
 * underscore; who reads the input later reads the result (alias.c).
 */
#ifndef WEIGHTS_ATEN_ATEN_H
#define WEIGHTS_ATEN_ATEN_H

#include "weights/onnx/onnx.h"

/* The version of ONNX's operators in which graphs are told. */
#define ATEN_OPSET 26
/* Arguments, outputs and list items of one node. */
#define ATEN_MAX_ARGS  4096
#define ATEN_MAX_DEPTH 4

/* ---- programs ------------------------------------------------------ */

enum aten_kind {
    ATEN_NONE,  /* also: devices, layouts, memory formats */
    ATEN_VALUE, /* a tensor, or a number that the graph computes: text */
    ATEN_INT,
    ATEN_FLOAT,
    ATEN_BOOL,
    ATEN_TEXT,
    ATEN_TYPE, /* i: enum infer_dtype, or INFER_NONE for others */
    ATEN_LIST,
    ATEN_OTHER /* graphs, objects: refused where an operator needs it */
};

struct aten_arg {
    struct pb_span name; /* of the parameter; empty: by position */
    enum aten_kind kind;
    int64_t i; /* INT, BOOL, TYPE */
    double f;  /* FLOAT */
    struct pb_span text;
    struct aten_arg *item; /* LIST */
    int n;
};

struct aten_node {
    struct pb_span op; /* "conv2d", without overload and namespace */
    struct aten_arg *arg;
    int n_args;
    struct pb_span *out; /* empty: nobody reads it */
    int n_out;
};

struct aten_input {
    struct pb_span name;
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK]; /* -1: free */
    /* What the file calls a free one; equal names are equal sizes. */
    struct pb_span symbol[INFER_MAX_RANK];
    bool assumed; /* the file does not state the type */
    /* Sizes of an example that the file holds; rank -1: none. */
    int example_rank;
    int64_t example[INFER_MAX_RANK];
};

/* A parameter or buffer, which the reader loads. */
struct aten_constant {
    struct pb_span name;
    size_t index; /* the reader's own */
};

struct aten_program {
    struct onnx_arena arena; /* of all below */
    struct aten_node *node;
    int n_nodes;
    struct aten_input *input;
    int n_inputs;
    struct pb_span *output;
    int n_outputs;
    struct aten_constant *constant;
    int n_constants;
    /* A new reference. */
    int (*load)(struct onnx_import *im, void *user, size_t index,
                struct constant **out);
    /* Of a program that is run instead of listed, else NULL: tells its
     * operators by aten_tell() and sets the outputs, in every attempt anew. */
    int (*run)(struct onnx_import *im, void *user);
    bool examples;   /* inputs have the sizes of examples */
    bool unfinished; /* run() stopped before it knew the outputs */
    void *user;
};

/* Imports a program, which stays the caller's. */
int aten_import(struct aten_program *program,
                const struct weights_options *options, struct infer_error *err,
                struct graph **out);
/* For run(): imports a node, which stays as long as im->keep.  Its refusal is
 * counted under the label and in *result; only EMEMORY is returned. */
int aten_tell(struct onnx_import *im, const struct aten_node *node,
              const char *label, int *result);
/* The same: adds a tensor that load() loads, once. */
int aten_add_constant(struct onnx_import *im, const struct aten_constant *c);

/* ---- the import ---------------------------------------------------- */

struct aten_op {
    const char *name;
    const char *parameters; /* names in order, separated by blanks */
    bool view;              /* the result may share memory with the input */
    onnx_op_fn *import;
    const char *onnx; /* operator of ONNX, for functions that need one */
    int param;
};

struct aten_alias;

struct aten_context {
    struct aten_program *program;
    struct aten_alias *alias; /* by value of the importer */
    int aliases;
    unsigned *version; /* writes into each storage */
    int storages, storages_capacity;
    bool assumes; /* the type of an input is not stated */
    /* The node being imported. */
    const struct aten_node *node;
    const struct aten_op *op;
    struct onnx_node current;
};

/* NULL where no row has the name. */
const struct aten_op *aten_op_find(struct pb_span name);
/* The row of relu_ is that of relu; *written tells. */
const struct aten_op *aten_op_of(struct pb_span name, bool *written);

static inline struct aten_context *aten_of(struct onnx_import *im)
{
    return im->context;
}
/* The row of the node being imported. */
static inline const struct aten_op *aten_row(struct onnx_import *im)
{
    return aten_of(im)->op;
}

/* ---- memory that tensors share (alias.c) --------------------------- */

void aten_alias_clear(struct aten_context *c);
/* The value that a name stands for now: what was last written into it.
 * EUNSUPPORTED where its memory was written under another name. */
int aten_alias_read(struct onnx_import *im, struct pb_span name,
                    struct pb_span *out);
/* A node or the program's output reads a value of this name; whether one does.
 */
int aten_alias_mark(struct onnx_import *im, struct pb_span name);
bool aten_is_read(struct onnx_import *im, struct pb_span name);
/* The current node gave `out`, a view of `in`. */
int aten_alias_view(struct onnx_import *im, struct pb_span out,
                    struct pb_span in);
/* It wrote `out` into `in`, and so into what `in` is a view of. */
int aten_alias_write(struct onnx_import *im, struct pb_span out,
                     struct pb_span in);
/* A node that was refused would have written into `in`: who reads that, or what
 * it is a view of, is refused as well. */
int aten_alias_fail(struct onnx_import *im, struct pb_span in);
/* base with `part` in the place of the view that a node made of it; empty where
 * that cannot be told (write.c). */
struct pb_span aten_around(struct onnx_import *im,
                           const struct aten_node *maker, struct pb_span base,
                           struct pb_span part);

/* ---- types that a file does not state (assumed.c) ------------------ */

/* Where a value keeps the name of the input that its type follows from; empty
 * where the type is known.  NULL where there is no memory. */
struct pb_span *aten_assumed(struct onnx_import *im, struct pb_span name);
/* That input for the results of a node, before it is imported; and to them. */
struct pb_span aten_assumed_of(struct onnx_import *im,
                               const struct aten_node *n);
int aten_spread_assumed(struct onnx_import *im, const struct aten_node *n,
                        struct pb_span input);
/* EUNSUPPORTED where the type of x, on which `what` depends, is not known. */
int aten_need_type(struct onnx_import *im, struct pb_span x, const char *what);

/* ---- arguments of the current node --------------------------------- */

/* As in onnx.h, these return im->rc or set it, and do nothing once it is
 * negative; their results are then empty or zero. */

/* NULL where it is absent or None. */
const struct aten_arg *aten_find(struct onnx_import *im, const char *name);
static inline bool aten_has(struct onnx_import *im, const char *name)
{
    return aten_find(im, name) != NULL;
}
/* The name of a tensor; a number becomes a scalar. */
struct pb_span aten_tensor(struct onnx_import *im, const char *name);
/* The same, but empty where it is absent. */
struct pb_span aten_optional(struct onnx_import *im, const char *name);
/* The tensors of a list. */
int aten_tensors(struct onnx_import *im, const char *name, int max,
                 struct pb_span *out);
int64_t aten_int(struct onnx_import *im, const char *name, int64_t otherwise);
bool aten_flag(struct onnx_import *im, const char *name, bool otherwise);
double aten_number(struct onnx_import *im, const char *name, double otherwise);
/* INFER_NONE where absent; unsupported types are refused. */
enum infer_dtype aten_dtype(struct onnx_import *im, const char *name);
/* Text, or empty. */
struct pb_span aten_text(struct onnx_import *im, const char *name);
/* A list of integers, or one: how many, -1 where it is absent. */
int aten_ints(struct onnx_import *im, const char *name, int max, int64_t *out);
/* The same of n of them, from a list of 1 or n; `otherwise` where absent. */
int aten_each(struct onnx_import *im, const char *name, int n,
              int64_t otherwise, int64_t *out);
int aten_floats(struct onnx_import *im, const char *name, int max, double *out);
/* A list of integers, which may be computed from sizes, as a tensor: its name.
 * Entries `from` become `to`. */
struct pb_span aten_sizes(struct onnx_import *im, const char *name,
                          int64_t from, int64_t to);
/* An item of such a list, as a list of one. */
struct pb_span aten_entry(struct onnx_import *im, const char *name,
                          const struct aten_arg *a);
/* One integer, which may be computed, as a list of one. */
struct pb_span aten_size(struct onnx_import *im, const char *name,
                         int64_t otherwise);

/* ---- steps --------------------------------------------------------- */

struct aten_attrs {
    struct onnx_attr item[10];
    int n;
};
void aten_set_int(struct aten_attrs *a, const char *name, int64_t value);
void aten_set_float(struct aten_attrs *a, const char *name, double value);
void aten_set_word(struct aten_attrs *a, const char *name, const char *value);
/* value stays the caller's until the step is made. */
void aten_set_ints(struct aten_attrs *a, const char *name, const int64_t *value,
                   int n);

/* One of ONNX's operators; the name of its result. */
struct pb_span aten_step(struct onnx_import *im, const char *op,
                         const struct aten_attrs *attrs, int n_in,
                         const struct pb_span *in);
/* The same, with the node's own output i. */
int aten_give(struct onnx_import *im, int i, const char *op,
              const struct aten_attrs *attrs, int n_in,
              const struct pb_span *in);
#define ATEN_N(...)                                                            \
    (int)(sizeof((struct pb_span[]){__VA_ARGS__}) / sizeof(struct pb_span)),   \
        (struct pb_span[])                                                     \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
#define ATEN_STEP(im, op, attrs, ...)                                          \
    aten_step(im, op, attrs, ATEN_N(__VA_ARGS__))
#define ATEN_LAST(im, op, attrs, ...)                                          \
    aten_give(im, 0, op, attrs, ATEN_N(__VA_ARGS__))
/* Output i is this tensor. */
int aten_same(struct onnx_import *im, int i, struct pb_span x);

struct pb_span aten_no_input(void);
struct pb_span aten_list(struct onnx_import *im, int n, const int64_t *value);
struct pb_span aten_list1(struct onnx_import *im, int64_t value);
/* A scalar of a type. */
struct pb_span aten_scalar(struct onnx_import *im, enum infer_dtype dtype,
                           double value);
struct pb_span aten_cast(struct onnx_import *im, struct pb_span x,
                         enum infer_dtype to);
int64_t aten_onnx_type(enum infer_dtype dtype);

enum infer_dtype aten_type_of(struct onnx_import *im, struct pb_span x);
int aten_rank(struct onnx_import *im, struct pb_span x);
/* Dimension d, negative from the end; -1 where it is free. */
int64_t aten_dim(struct onnx_import *im, struct pb_span x, int d);
/* Argument `name` as a dimension of a tensor of this rank. */
int aten_axis(struct onnx_import *im, const char *name, int rank,
              int64_t otherwise);
bool aten_is_float(enum infer_dtype dtype);

/* x with the entries begin .. end - 1 of an axis replaced. */
struct pb_span aten_replaced(struct onnx_import *im, struct pb_span x, int axis,
                             int64_t begin, int64_t end, struct pb_span by);
/* Slice along one axis between constants. */
struct pb_span aten_cut(struct onnx_import *im, struct pb_span x, int axis,
                        int64_t begin, int64_t end);
struct pb_span aten_permute(struct onnx_import *im, struct pb_span x, int n,
                            const int64_t *order);
struct pb_span aten_mul(struct onnx_import *im, struct pb_span x, double by);

/* Two operands in their common type, from parameters of these names. */
int aten_operands(struct onnx_import *im, const char *a, const char *b,
                  struct pb_span *out);

/* Brings tensors to the type that PyTorch gives to a list of them. */
void aten_promote(struct onnx_import *im, int n, struct pb_span *x);

/* ---- the functions of the table ------------------------------------ */

#define ATEN_OP(name, parameters, view, function, onnx, param)                 \
    onnx_op_fn function;
#include "weights/aten/ops.def"
#undef ATEN_OP

#endif
