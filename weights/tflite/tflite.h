/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the TensorFlow Lite reader share.
 *
 *   file/          the container, every offset checked (flatbuffer.c); tensors
 *                  and operators, one at a time (model.c); normalisation of
 *                  pictures and labels (metadata.c); tensors that share no
 *                  bytes with another one (own.c); constants whose zeros are
 *                  left out (sparse.c)
 *   tflite.c       the format row; inputs, the walk over operators, outputs
 *   value.c        tensors on the way: constants, shapes, orders of axes
 *   operand.c      what an operator takes and gives
 *   emit.c         nodes of the graph and their shapes
 *   fold.c         operators of constants, computed while importing
 *   loop.c         WHILE, iteration by iteration; CALL_ONCE
 *   variables.c    what CALL_ONCE fills and operators read and write
 *   integers/      numbers of eight and sixteen bits
 *   the rest       one function an operator, listed in ops.def
 *
 * Order of axes.  A graph is N,C,spatial; the file is N,spatial,C.  A tensor
 * has a value of the graph in the file's order (`plain`), in N,C,spatial
 * (`swapped`), or both: each is made from the other when it is asked for.
 * Operators over space ask for the swapped one and give one, element-wise
 * operators take what is there, so that a transpose appears only where the
 * file's order shows.
 *
 * Free dimensions.  As in the ONNX reader every shape, and every small tensor
 * that is computed from shapes, is known for TFLITE_PROBES assignments of
 * sizes to the free dimensions at once.
 *
 * Quantised tensors.  The graph's value of a tensor of integers with scale s
 * and zero point z holds q - z: whole numbers, as floats.  tflite_in() gives
 * s (q - z), tflite_out() rounds back; operators with exact arithmetic of
 * their own, and those that only move elements, take q - z as it is.
 */
#ifndef WEIGHTS_TFLITE_TFLITE_H
#define WEIGHTS_TFLITE_TFLITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libinfer/graph/graph.h"
#include "libinfer/graph/ops/op.h"
#include "weights/kept.h"
#include "weights/tflite/file/flatbuffer.h"
#include "weights/weights.h"

#define TFLITE_PROBES 2
/* What a tensor of the file costs while it is imported fits into 64 MiB for
 * all of them. */
#define TFLITE_MAX_TENSORS 98304
/* Causes of refusal that are told apart. */
#define TFLITE_MAX_CAUSES 32

/* ---- the file ------------------------------------------------------ */

enum tflite_type {
    TFLITE_FLOAT32 = 0,
    TFLITE_FLOAT16 = 1,
    TFLITE_INT32 = 2,
    TFLITE_UINT8 = 3,
    TFLITE_INT64 = 4,
    TFLITE_BOOL = 6,
    TFLITE_INT16 = 7,
    TFLITE_COMPLEX64 = 8, /* kept as absolute values (spectrum.c) */
    TFLITE_INT8 = 9,
    TFLITE_FLOAT64 = 10
};

enum tflite_activation {
    TFLITE_NONE,
    TFLITE_RELU,
    TFLITE_RELU_N1_TO_1,
    TFLITE_RELU6,
    TFLITE_TANH
};

/* Variables whose value goes from run to run. */
#define TFLITE_MAX_KEPT 256
struct tflite_kept {
    struct fb_vector container, name;
};

struct tflite_model {
    struct fb file;
    struct blob *blob;
    uint32_t version;
    struct fb_vector codes, buffers, tensors, inputs, outputs, operators;
    struct fb_vector description, graphs;
    unsigned char *own; /* for each tensor: no other one has bytes of its */
    struct weights_kept kept;  /* transposed ones, by their bytes */
    struct tflite_kept *state; /* found by an import that has failed for it */
    int n_states;
};

struct tflite_tensor {
    int type; /* enum tflite_type, or another number */
    int rank;
    int64_t dim[INFER_MAX_RANK];  /* as stated */
    int64_t open[INFER_MAX_RANK]; /* the same with -1 for free ones */
    uint32_t buffer;
    struct fb_vector name;
    struct fb_vector scale, zero_point; /* empty: not quantised */
    int quantised_axis;
    bool variable, sparse;
    struct fb_table sparsity;
};

struct tflite_operator {
    int code; /* BuiltinOperator of the schema */
    struct fb_vector custom;
    int n_in, n_out;
    struct fb_vector in, out;
    struct fb_table options, options_2;
    struct fb_vector custom_options; /* bytes */
};

/* Checks all that is outside of tensors and operators. */
int tflite_model_open(struct blob *blob, struct infer_error *err,
                      struct tflite_model *out);
/* Preprocessing and labels that the file's metadata states; EMEMORY. */
int tflite_metadata_apply(struct tflite_model *m, struct graph *g,
                          struct infer_error *err);
/* Tensors, inputs, outputs and operators become those of another network. */
int tflite_model_select(struct tflite_model *m, int graph,
                        struct infer_error *err);
void tflite_model_close(struct tflite_model *m);
/* Fills own; EMEMORY. */
int tflite_model_find_own(struct tflite_model *m, struct infer_error *err);
int tflite_model_tensor(struct tflite_model *m, int index,
                        struct infer_error *err, struct tflite_tensor *out);
int tflite_model_operator(struct tflite_model *m, int index,
                          struct infer_error *err, struct tflite_operator *out);
/* The bytes of a buffer; *bytes 0 where it has none. */
int tflite_model_buffer(struct tflite_model *m, uint32_t index,
                        struct infer_error *err, const unsigned char **data,
                        size_t *bytes);
/* INFER_NONE where the graph has no such type. */
enum infer_dtype tflite_dtype(int type);
const char *tflite_type_name(int type);

/* ---- the import ---------------------------------------------------- */

enum tflite_state {
    TFLITE_UNKNOWN, /* nothing has produced it yet, or it is a constant that was
                     * not needed so far */
    TFLITE_KNOWN,   /* known at each probe */
    TFLITE_GRAPH,   /* computed by the graph */
    TFLITE_FAILED   /* its operator was refused */
};

/* What operators take of complex numbers. */
enum tflite_part { TFLITE_ABSOLUTE = 1, TFLITE_REAL = 2, TFLITE_IMAGINARY = 4 };

struct tflite_value {
    unsigned char state;
    bool loaded;        /* known from the file */
    int plain, swapped; /* of the graph, or -1 */
    int weight; /* the constant that the last tflite_weight() made, or -1 */
    const int *weight_order;
    bool weight_raw;
    unsigned char parts; /* of complex numbers, that are read (spectrum.c) */
    struct constant *known[TFLITE_PROBES]; /* a reference each */
};

struct tflite_import;
struct tflite_variable;
typedef void tflite_op_fn(struct tflite_import *im, int param);

struct tflite_op {
    int code;
    const char *name;
    tflite_op_fn *import; /* NULL: not supported */
    int param;
    bool moves; /* only moves elements, so that integers may stay as they are */
};
/* NULL for a number that no version of the schema has had. */
const struct tflite_op *tflite_op_find(int code);

struct tflite_cause {
    char op[96], name[96], text[384];
    int rc, count;
};

struct tflite_import {
    struct tflite_model *m;
    const struct weights_options *options;
    struct graph *g;
    struct infer_error *err;
    struct tflite_value *value; /* by tensor */
    int n_values, probes;
    bool freed_batch; /* the file states batch 1 and it is read as free */
    bool free_extent; /* a dimension other than the batch is open */
    struct graph_type (*type)[TFLITE_PROBES]; /* by value of the graph */
    int types_capacity;
    size_t constant_bytes, max_constant_bytes; /* made so far; limit */
    int folds;                      /* operators that were computed */
    int iterations, nested, looped; /* of loops; operators in them */
    int64_t looped_values;          /* tensors of loops, in each iteration */
    bool folding;     /* one is being computed, in a graph of its own */
    bool parts_found; /* of the values that are complex (spectrum.c) */
    struct tflite_variable *variable; /* those that have been named */
    int n_variables;
    bool initialising; /* within CALL_ONCE */
    int branches;    /* networks that run where a condition holds, around it */
    bool new_states; /* a variable is kept that m->state does not name */

    /* The operator being imported. */
    struct tflite_operator op;
    const struct tflite_op *row;
    int status;          /* negative once it is refused; nothing is done then */
    bool raw;            /* integers stay as they are */
    bool signed_weights; /* of UINT8 are bytes with a sign (hybrid.c) */
    int first_node;      /* of those made for it */
    char text[384];      /* why it is refused */
    struct tflite_cause cause[TFLITE_MAX_CAUSES];
    int n_causes, more_causes;
};

/* Imports im->op, whose row it finds. */
void tflite_import_operator(struct tflite_import *im);
/* Refuses the operator; returns -1. */
int tflite_fail(struct tflite_import *im, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- inputs of the operator ---------------------------------------- */

/* All of these fail, and give 0, NULL or -1, where input i is absent. */
bool tflite_has(const struct tflite_import *im, int i);
/* EFORMAT unless the operator has min .. max inputs and one output or more. */
bool tflite_arity(struct tflite_import *im, int min, int max);
/* Tensor number of input i, or of output o. */
int tflite_input_index(struct tflite_import *im, int i);
int tflite_output_index(struct tflite_import *im, int o);
struct tflite_tensor tflite_input_tensor(struct tflite_import *im, int i);
struct tflite_tensor tflite_output_tensor(struct tflite_import *im, int o);
/* In the file's order. */
struct graph_type tflite_type(struct tflite_import *im, int i, int probe);
int tflite_rank(struct tflite_import *im, int i);
/* Whether the graph has the input in N,C,spatial order alone. */
bool tflite_is_swapped(struct tflite_import *im, int i);
/* The elements where they are known at a probe, in the file's type. */
const struct constant *tflite_known(struct tflite_import *im, int i, int probe);
/* The same where all probes agree. */
const struct constant *tflite_fixed(struct tflite_import *im, int i);
/* Integers that are known and the same at all probes; how many, or -1. */
int tflite_ints(struct tflite_import *im, int i, const char *what, int max,
                int64_t *out);
/* The same at one probe. */
int tflite_ints_at(struct tflite_import *im, int i, int probe, const char *what,
                   int max, int64_t *out);
/* One axis or several as an input, from 0 on, each once. */
int tflite_axes(struct tflite_import *im, int i, int rank, int *out);
/* An axis that may count from the end. */
int tflite_axis(struct tflite_import *im, int64_t axis, int rank);

/* Renames a value unless the name is taken; out of memory fails the import. */
void tflite_rename(struct tflite_import *im, int value, const char *name);

/* Input i as a value of the graph in the order asked for. */
int tflite_in(struct tflite_import *im, int i, bool swapped);
/* Whether the operator may read this tensor of complex numbers; else it is
 * refused (spectrum.c). */
bool tflite_may_read_complex(struct tflite_import *im, int tensor);
/* Input 0 in the order that it has. */
int tflite_in_any_order(struct tflite_import *im, bool *swapped);
/* For element-wise operators: broadcast against `rank` dimensions. */
int tflite_operand(struct tflite_import *im, int i, int rank, bool swapped);
/* Weights as floats, transposed by order (a static array; NULL: as they are);
 * raw: q - z.  Operators that share weights share the constant. */
int tflite_weight(struct tflite_import *im, int i, const int *order, bool raw);
/* Output o is this value; drops what is left of an earlier failure. */
void tflite_out(struct tflite_import *im, int o, int value, bool swapped);
/* Output o is known at each probe; takes the references over. */
void tflite_out_known(struct tflite_import *im, int o,
                      struct constant *const *known);
/* Where the file's axis lies in the graph's value. */
int tflite_map_axis(int axis, int rank, bool swapped);

/* ---- values of the graph ------------------------------------------- */

struct constant *tflite_constant_new(struct tflite_import *im,
                                     enum infer_dtype dtype, int rank,
                                     const int64_t *dim);
/* The same elements in memory of their own, transposed by order. */
struct constant *tflite_constant_copy(struct tflite_import *im,
                                      const struct constant *c,
                                      const int *order);
/* Adds it under the tensor's name; takes the reference over. */
int tflite_add_constant(struct tflite_import *im, int tensor,
                        struct constant *c);
/* n equal numbers, or one a channel. */
int tflite_vector(struct tflite_import *im, const float *v, int64_t n);
int tflite_scalar(struct tflite_import *im, float v);
const struct graph_type *tflite_value_type(const struct tflite_import *im,
                                           int value, int probe);
/* Whether two values have the same type and shape at each probe. */
bool tflite_same_type(const struct tflite_import *im, int a, int b);
/* Room for the value's type at each probe. */
bool tflite_set_type(struct tflite_import *im, int value,
                     const struct graph_type *type);
/* Whether a known value is the same at all probes. */
bool tflite_is_fixed(const struct tflite_import *im,
                     const struct tflite_value *v);
/* A known tensor as floats, or as integers where it is not quantised.  order
 * may be NULL; *moved: the result is transposed by it. */
struct constant *tflite_as_computed(struct tflite_import *im, int index,
                                    bool raw, const int *order, bool *moved);
/* A known tensor with `rank` dimensions, ones in front of its own. */
int tflite_known_value(struct tflite_import *im, int index, bool raw, int rank,
                       bool swapped);
/* From one order of axes to the other. */
int tflite_reorder(struct tflite_import *im, int x, int rank, bool to_swapped);
/* Tensor t in one order, or -1. */
int tflite_tensor_value(struct tflite_import *im, int t, bool swapped);
/* Loads a constant tensor; false where it is none. */
bool tflite_load(struct tflite_import *im, int t);
/* A sparse constant of the file, made dense; NULL after a failure. */
struct constant *tflite_sparse(struct tflite_import *im,
                               const struct tflite_tensor *tensor,
                               enum infer_dtype dtype,
                               const unsigned char *data, size_t bytes);
void tflite_variables_clear(struct tflite_import *im);
/* Input i, a variable tensor, as it was before the run: an input of the graph,
 * in the file's order; what it is for the next one. */
int tflite_state(struct tflite_import *im, int i);
void tflite_set_state(struct tflite_import *im, int i, int value);
/* States become outputs of the graph. */
int tflite_add_states(struct tflite_import *im);
/* A value that stands for the same, with references of its own. */
struct tflite_value tflite_value_share(const struct tflite_value *v);
/* Gives up the numbers of a value. */
void tflite_value_forget(struct tflite_value *v);
void tflite_values_clear(struct tflite_import *im);
/* The tensor's name, cleaned; "" where it has none. */
void tflite_name(const struct tflite_tensor *t, char *out, size_t bytes);
/* +1, rank, N,C,spatial from N,spatial,C; or back. */
void tflite_order(int rank, bool to_swapped, int *order);

/* ---- nodes --------------------------------------------------------- */

void tflite_defaults(enum graph_op op, union graph_attr *attr);
/* A node with one output; attr NULL: defaults.  Returns its value. */
int tflite_emit(struct tflite_import *im, enum graph_op op,
                const union graph_attr *attr, const int *in, int n_in);
/* A node with n outputs. */
bool tflite_emit_all(struct tflite_import *im, enum graph_op op,
                     const union graph_attr *attr, const int *in, int n_in,
                     int *out, int n_out);
int tflite_unary(struct tflite_import *im, int x, enum kern_unary_kind kind,
                 float a, float b);
int tflite_plain_unary(struct tflite_import *im, int x,
                       enum kern_unary_kind kind);
int tflite_binary(struct tflite_import *im, enum kern_binary_kind kind, int a,
                  int b);
int tflite_cast(struct tflite_import *im, int x, enum infer_dtype to);
int tflite_dims(struct tflite_import *im, enum graph_op op, int x, int n,
                const int64_t *dim);
int tflite_reshape_to(struct tflite_import *im, int x,
                      const struct graph_type *target);
/* Elements [begin, end) along an axis. */
int tflite_slice(struct tflite_import *im, int x, int axis, int64_t begin,
                 int64_t end);
int tflite_concat(struct tflite_import *im, const int *x, int n, int axis);
/* Tuples of n indices of input i, as one index each into the joined dimensions
 * of these sizes; *rows: their product. */
int tflite_flat_index(struct tflite_import *im, int i, int n,
                      const int64_t *size, int64_t *rows);
int tflite_activated(struct tflite_import *im, enum tflite_activation act,
                     int x);
/* The fused activation of field `id` of the options. */
int tflite_fused(struct tflite_import *im, int x, int id);
enum tflite_activation tflite_activation(struct tflite_import *im, int id);

/* 1: the operator was computed; 0: it must go into the graph; -1: failed. */
int tflite_fold(struct tflite_import *im);

/* ---- quantised tensors --------------------------------------------- */

struct tflite_quant {
    float scale;
    int64_t zero;
    int64_t low, high; /* of q - zero */
};
bool tflite_is_quantised(const struct tflite_tensor *t);
/* Of a tensor with one scale. */
struct tflite_quant tflite_quant(struct tflite_import *im,
                                 const struct tflite_tensor *t);
bool tflite_same_quant(const struct tflite_tensor *a,
                       const struct tflite_tensor *b);
/* Whether they have the same type too. */
bool tflite_same_kind(const struct tflite_tensor *a,
                      const struct tflite_tensor *b);
/* Bounds of q - zero with an activation. */
void tflite_quant_clip(struct tflite_import *im, enum tflite_activation act,
                       struct tflite_quant *q);
/* s (q - z) to q - z, rounded halves away from zero and clipped. */
int tflite_quantise(struct tflite_import *im, int x,
                    const struct tflite_quant *q);
/* The same as the kernel QUANTIZE computes it from floats: to the integer. */
int tflite_quantise_floats(struct tflite_import *im, int x,
                           const struct tflite_quant *q);
/* round(x), halves away from zero; |x| below 2^22. */
int tflite_round_away(struct tflite_import *im, int x);
/* Constant of integers to floats: s (q - z), or q - z where raw. */
struct constant *tflite_dequantised(struct tflite_import *im,
                                    const struct tflite_tensor *t,
                                    const struct constant *c, bool raw);
/* The factor multiplier 2^(shift - 31), rounded to 31 bits as the kernels do.
 */
struct tflite_factor {
    int32_t multiplier;
    int shift;
};
struct tflite_factor tflite_factor(double v);
/* A node requantize: x times n factors, one an entry of the axis, or 1; addend:
 * a value of I32, or -1. */
int tflite_multiply(struct tflite_import *im, int x, int addend,
                    const struct tflite_factor *factor, int64_t n, int axis,
                    const struct graph_requantize *how);
/* What the integer kernels do to a sum of products: they multiply it by a
 * factor, which rounds once or twice, and clip.  n factors, one an entry of the
 * axis, or 1. */
int tflite_requantise(struct tflite_import *im, int x, const double *factor,
                      int64_t n, int axis, int roundings,
                      const struct tflite_quant *q);
/* The same to a sum of n <= 65,536 integers that is to be a mean; factor: the
 * input's scale over the output's. */
int tflite_requantise_mean(struct tflite_import *im, int x, double factor,
                           int64_t n, const struct tflite_quant *q);
/* A mean of n integers q - z (or one by weights in n-ths) rounded as the
 * integer q, halves away from zero. */
int tflite_round_integers(struct tflite_import *im, int x, int64_t n,
                          const struct tflite_quant *q);

/* ---- sums of more than 24 bits (wide.c) ---------------------------- */

/* x = 2^bits high + low. */
struct tflite_halves {
    int high, low;
    int bits;
};
/* Of integers of 16 bits, as floats: 8 bits, where low is -128 .. 127. */
struct tflite_halves tflite_halves(struct tflite_import *im, int x);
/* Of a constant bias, input i: high as I32. */
struct tflite_halves tflite_bias_halves(struct tflite_import *im, int i);
int tflite_integer(struct tflite_import *im, int32_t v);
/* 256 high + low of halves of 8 bits as I32, which wraps. */
int tflite_joined(struct tflite_import *im, const struct tflite_halves *h);
/* As tflite_requantise(), of sums of 64 bits, by 15 bits of the factors; by all
 * of them for a dense layer (`matrix`). */
int tflite_requantise_wide(struct tflite_import *im,
                           const struct tflite_halves *h, const double *factor,
                           int64_t n, int axis, bool matrix,
                           const struct tflite_quant *q);

/* ---- functions by tables (tables.c) -------------------------------- */

/* Entries of the constant `table` at the integers x - low. */
int tflite_look_up(struct tflite_import *im, int x, int64_t low, int table);
/* LOGISTIC and TANH, and SOFTMAX, of 16 bits; false where it is none. */
bool tflite_wide_sigmoid(struct tflite_import *im, int kind);
bool tflite_wide_softmax(struct tflite_import *im, float beta);

/* ---- integers as weights of floats (hybrid.c) ---------------------- */

/* Whether UINT8 weights of the operator hold integers with a sign. */
bool tflite_signed_weights(struct tflite_import *im);
/* Whether the kernel of input x and weights w rounds x at run time, and the
 * graph is to do so. */
bool tflite_is_hybrid(struct tflite_import *im, int x, int w);
/* x as whole numbers of 8 bits and what a unit of them is, by the range of its
 * elements of the dimensions from `axis` on; offset: by smallest and largest,
 * else by magnitude. */
int tflite_rounded_to_8(struct tflite_import *im, int x, int axis, bool offset,
                        int *scale);
/* The sums y of such numbers with those of input w as floats, bias added (-1:
 * none); picture: channels are dimension 1, else the last. */
int tflite_scaled_from_8(struct tflite_import *im, int y, int scale, int w,
                         int bias, bool picture);

/* ---- the functions of the table ------------------------------------ */

/* Of an operator that its name tells (detect.c). */
tflite_op_fn tflite_import_transposed_bias;

#define TFLITE_OP(code, name, function, param)   tflite_op_fn function;
#define TFLITE_MOVE(code, name, function, param) tflite_op_fn function;
#define TFLITE_NO(code, name)
#include "weights/tflite/ops.def"
#undef TFLITE_OP
#undef TFLITE_MOVE
#undef TFLITE_NO

#endif
