/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What emitters are written with.
 *
 * An emitter writes the body of a C function that computes one step of a plan:
 * it declares the pointers that the function takes (emit_input() and the
 * others), then adds lines.  All sizes and strides are literals of that body.
 * Steps whose parameters and bodies are equal share one function.
 *
 * Emitted code computes as the reference does (kernels/ref): sums in the type
 * `real`, which is double unless the user of the file says otherwise, in the
 * reference's order, so that the results are the reference's bit for bit.
 */
#ifndef TOOLS_EMIT_EMITTER_H
#define TOOLS_EMIT_EMITTER_H

#include "kernels/base/error.h"
#include "kernels/problem.h"
#include "libinfer/plan/plan.h"
#include "tools/emit/text.h"

/* Room for a name of the file. */
#define EMIT_NAME 64

/* Room for an expression. */
#define EMIT_EXPRESSION 800

/* A finished function. */
struct emit_function {
    char name[48];
    char *text;  /* parameters and body, without the name */
    char *words; /* the problem, for people */
    bool cold;   /* its work is done in others, or is little */
    int like;    /* the function that does its work (merge.c), or -1 */
    char *more;  /* arguments of that function besides the call's, or NULL */
};

/* A call of a run. */
struct emit_call {
    int function;
    char *args, *node; /* the node's name, for people */
};

/* A constant array of the file. */
struct emit_array {
    char name[24];
    enum infer_dtype dtype;
    size_t bytes;
    void *data;
    bool used;     /* by its name: others are not written */
    int64_t spare; /* vectors of so many lanes read beyond its end, or 0 */
};

/* What layer.c knows of a layer. */
struct emit_table {
    int array;
    char finish[2 * EMIT_NAME];
    int64_t lanes, x_row, w_row, z;
    bool depthwise;
};

struct emit {
    const struct plan *plan;
    const char *name; /* prefix of the file's public names */
    /* For each buffer, the name of the input or output of the network that it
     * is, else "". */
    char (*pointer)[EMIT_NAME];
    bool *used;           /* for each buffer: a function takes its address */
    uint32_t arena_types; /* enum infer_dtype, one bit each */
    /* The function that is being written. */
    struct emit_text body, params, args;
    int depth;
    bool cold;      /* that of the function */
    int last_array; /* that of the input declared last, or -1 */
    /* Between emit_lanes_open() and emit_lanes_close(): the number of a block's
     * lanes as C, and the index of a lane among all. */
    char lanes[24];
    const char *lane;
    bool lanes_looped; /* there are several blocks */
    /* The file. */
    struct emit_text helpers, run;
    bool layers[2];   /* of layer.c: there are dense, depthwise ones */
    bool arena_spare; /* a vector may read beyond the arena's end */
    struct emit_function *function;
    int n_functions, function_capacity;
    struct emit_table *table;
    int n_tables, table_capacity;
    bool residuals; /* some layer of these has one */
    struct emit_call *call;
    int n_calls, call_capacity;
    struct emit_array *array;
    int n_arrays, array_capacity;
    int counter[KERN_OP_COUNT]; /* functions of an operation so far */
    bool failed;                /* out of memory */
};

/* Writes the body for a step; EUNSUPPORTED says what the emitter lacks. */
typedef int emit_fn(struct emit *e, const struct plan_step *s,
                    struct infer_error *err);

#define EMITTER(op, function) emit_fn function;
#include "tools/emit/emitters.def"

/* ---- lines --------------------------------------------------------- */

/* One line, indented. */
void emit_line(struct emit *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A line that begins a block: "{" is added; and the end of the block. */
void emit_open(struct emit *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void emit_close(struct emit *e);
/* "for (long i = 0; i < n; i++)" as the beginning of a block; nothing but a
 * constant i where n is 1. */
void emit_for(struct emit *e, const char *index, int64_t n);

/* ---- pointers ------------------------------------------------------ */

/* "float" and so on; NULL for 16-bit reals, which C99 lacks. */
const char *emit_type(enum infer_dtype dtype);

/* Input i with the problem's tensor, whose dimensions need not be the view's:
 * those of a copy are merged. */
struct view emit_view(const struct plan_step *s, int i);
/* Declares a pointer to input i; *t: the tensor as it lies there.  A constant
 * is stored anew: dense in the order of `like`'s strides (NULL: row-major),
 * without dimensions that are broadcast. */
int emit_input(struct emit *e, const struct plan_step *s, int i,
               const char *name, const struct kern_tensor *like,
               struct infer_error *err, struct kern_tensor *t);
/* A constant view as an array, row-major, without a pointer; returns its
 * number.
 */
int emit_constant(struct emit *e, const struct view *v, struct infer_error *err,
                  struct kern_tensor *t);
/* The same of a view; a constant is stored row-major. */
int emit_input_view(struct emit *e, const struct view *v, const char *name,
                    struct infer_error *err, struct kern_tensor *t);
/* Output 0 with the problem's tensor. */
struct view emit_output_view(const struct plan_step *s);
/* Declares output 0 as y. */
int emit_output(struct emit *e, const struct plan_step *s,
                struct infer_error *err);
/* Declares a pointer to an array of the emitter's own, which is copied. */
int emit_table(struct emit *e, const char *name, enum infer_dtype dtype,
               const void *data, int64_t count, struct infer_error *err);
/* True of a view of a constant, or of what depends on constants alone; its
 * address is that of plan_locate(). */
bool emit_is_constant(const struct emit *e, const struct view *v);

/* The address of a view that is no constant, as C. */
void emit_address(struct emit *e, const struct view *v, char text[128]);
/* The element of the arena at which a view begins; not of a caller's. */
int64_t emit_arena_offset(const struct emit *e, const struct view *v);
/* The number of the array with these bytes, which it copies; equal arrays are
 * one.  EMEMORY. */
int emit_array(struct emit *e, enum infer_dtype dtype, const void *data,
               size_t bytes, struct infer_error *err);

/* ---- functions ----------------------------------------------------- */

/* Writes the function and the call of a step. */
int emit_step(struct emit *e, const struct plan_step *s,
              struct infer_error *err);
/* Adds the arrays to the text of the file. */
void emit_arrays(const struct emit *e, struct emit_text *out);
/* Adds functions and calls. */
void emit_functions(const struct emit *e, struct emit_text *out);
void emit_calls(const struct emit *e, struct emit_text *out);
/* Makes functions that differ in numbers alone one, which takes these numbers
 * as arguments, where that is smaller.  EMEMORY. */
int emit_merge(struct emit *e, struct infer_error *err);
void emit_clear(struct emit *e);

/* ---- selftest.c ---------------------------------------------------- */

/* The network's inputs and outputs as C names them. */
struct emit_port {
    char name[EMIT_NAME];
    enum infer_dtype dtype;
    int64_t count;
    const struct graph_value *value;
};
struct emit_ports {
    struct emit_port *in, *out;
    int n_in, n_out;
};

/* Runs the plan on the self-test's inputs and writes main(). */
int emit_selftest(const struct emit *e, const struct emit_ports *ports,
                  struct plan *plan, struct infer_error *err,
                  struct emit_text *out);

/* ---- values -------------------------------------------------------- */

/* A name of a static function real -> real of the file, or "" for the
 * identity. */
int emit_unary_name(struct emit *e, const struct kern_unary *f,
                    struct infer_error *err, char name[48]);
/* A name of a static function real, real -> real of the file. */
int emit_binary_name(struct emit *e, enum kern_binary_kind kind,
                     struct infer_error *err, char name[48]);
/* Adds a helper of the file by its name (tools/emit/helpers.c) once. */
void emit_helper(struct emit *e, const char *name);
/* Adds a function of the file once; clears the text. */
void emit_function_text(struct emit *e, struct emit_text *text);
/* The expression that turns a real into an element: "(float)(v)". */
const char *emit_stored(struct emit *e, enum infer_dtype dtype,
                        const char *value);

/* The same of an integer of 64 bits. */
const char *emit_stored_i64(struct emit *e, enum infer_dtype dtype,
                            const char *value);
/* The same without saturation: the low bits, as a type of integers. */
const char *emit_wrapped_i64(enum infer_dtype dtype, const char *value);
/* Names of static functions of 64-bit integers. */
int emit_unary_i64_name(struct emit *e, const struct kern_unary *f,
                        struct infer_error *err, char name[48]);
int emit_binary_i64_name(struct emit *e, enum kern_binary_kind kind,
                         struct infer_error *err, char name[48]);

/* y = act(v + r) or act(v) + r for a real variable v, stored at y[at]; residual
 * is "" or the expression of its element. */
int emit_epilogue(struct emit *e, const struct kern_problem *p,
                  const char *residual, const char *at,
                  struct infer_error *err);

/* ---- scaled.c: integers of 8 bits ---------------------------------- */

/* " - 3": what takes a zero point off an element; "" for 0. */
const char *emit_less_zero(int zero);
/* The value of an element of 8 bits, or of a real, as an expression. */
void emit_scaled_load(enum infer_dtype dtype, const char *element, float scale,
                      int zero, char text[EMIT_EXPRESSION]);
/* Applies the problem's activation to the float variable v. */
int emit_scaled_act(struct emit *e, const struct kern_problem *p,
                    struct infer_error *err);
/* Stores the float variable v at y[at], with the output's scale. */
void emit_scaled_store(struct emit *e, const struct kern_problem *p,
                       const char *at);
/* Declares m, the factors of a layer's integer sums. */
int emit_multipliers(struct emit *e, const struct plan_step *s,
                     struct infer_error *err);
/* Finishes the integer sum[k] of an output channel and stores it at y[at]. */
int emit_quantised(struct emit *e, const struct kern_problem *p,
                   const char *channel, const char *residual, const char *at,
                   struct infer_error *err);

/* ---- loops --------------------------------------------------------- */

#define EMIT_MAX_NEST 8

/* Loops over a shape, with the offset of up to EMIT_MAX_NEST tensors. */
struct emit_nest {
    int rank, n, opened;
    int64_t dim[KERN_MAX_RANK];
    int64_t stride[EMIT_MAX_NEST][KERN_MAX_RANK];
    char at[EMIT_MAX_NEST][160]; /* once open: offsets as C */
};

void emit_nest_start(struct emit_nest *nest, int rank, const int64_t *dim);
/* Adds a tensor, aligned at the last dimension; missing dimensions and those of
 * size 1 are broadcast.  Returns its number. */
int emit_nest_add(struct emit_nest *nest, const struct kern_tensor *t);
/* Adds a vector along one dimension. */
int emit_nest_add_vector(struct emit_nest *nest, int axis, int64_t stride);
/* Orders the loops so that tensor `lead` is walked in the order of its memory;
 * for element-wise work, where any order will do. */
void emit_nest_sort(struct emit_nest *nest, int lead);
/* Merges loops and writes them; `prefix` is the first letter of the indices. */
void emit_nest_open(struct emit *e, struct emit_nest *nest, char prefix);
void emit_nest_close(struct emit *e, struct emit_nest *nest);

/* "i * 64 + " for an index and its stride, "" for stride 0; the result lies in
 * one of a few buffers in turn. */
const char *emit_offset(const char *index, int64_t stride);

/* "p * 2 + r + -1": the input that tap `tap` of output `o` falls on; indices of
 * which there is but one are left out. */
const char *emit_position(const char *o, int64_t outputs, int64_t step,
                          const char *tap, int64_t taps, int64_t dilation,
                          int64_t pad);

/* Most accumulators of a block: a few vectors of any processor, and 512 bytes
 * of stack in double. */
#define EMIT_LANES 64
/* Accumulators of neighbouring outputs: how many a block has, of n. */
int64_t emit_block(int64_t n);
/* Opens the loop over blocks of n lanes ("k0", and "lanes" in each) and
 * declares `type sum[block]` with every element `start`. */
void emit_lanes_open(struct emit *e, int64_t n, const char *type,
                     const char *start);
/* Opens "for (long k = 0; k < lanes; k++)", which compilers shall vectorise and
 * not unroll. */
void emit_lane_loop(struct emit *e);
/* "k0 + " where an index counts from a block's first lane, else "". */
const char *emit_lane_block(const struct emit *e);
/* The same for what is done once for many products: the number of lanes may
 * become an argument (merge.c), and compilers do as they like. */
void emit_each_lane(struct emit *e);
void emit_lanes_close(struct emit *e);

/* sum[k] += i[c * x_step] * f[c * f_step + k * k_step] for c in 0 .. n-1, in
 * this order; or, unless count is NULL, for as many as that expression of C
 * says, a multiple of n. */
struct emit_products {
    int64_t n;
    const char *count;
    int64_t x_step, f_step, k_step;
    bool integers; /* int32_t in place of real; zero is taken off i[...] */
    int zero;
    enum infer_dtype x, w; /* types of i and f */
    int array;             /* that of f, or -1 */
};
void emit_products(struct emit *e, const struct emit_products *p);
/* sum[k] = 0 of all lanes, up to a whole vector; type: real or int32_t. */
void emit_clear_sums(struct emit *e, const char *type);
/* Stores act(sum[k] + b[k] + z[k]) of all lanes, side by side from the offsets
 * y, b and z of C; z may be NULL.  emit_stores_lanes(): whether the types and
 * inputs are such; residuals are added as the problem says. */
bool emit_stores_lanes(const struct kern_problem *p);
int emit_store_lanes(struct emit *e, const struct kern_problem *p,
                     const char *y, const char *b, const char *z,
                     struct infer_error *err);
/* sum[k] += i[k] * f[k]; of p the types and the zero point alone. */
void emit_lane_products(struct emit *e, const struct emit_products *p);

/* ---- layer.c: layers of floats by a table -------------------------- */

/* What is the same for all pixels of a layer. */
struct emit_layer {
    int w, b;             /* arrays: weights, of which a pixel's outputs are the
                             last dimension, and bias */
    int64_t lanes;        /* outputs of a pixel */
    int64_t x_row, w_row; /* elements between rows of x and of the window */
    bool depthwise;       /* each output has its own channel */
};

/* Whether types, constants and residual of a step are such. */
bool emit_layer_fits(const struct emit *e, const struct plan_step *s);
/* Whether elements behind a view may be read, as those of depthwise layers are.
 */
bool emit_layer_may_overread(const struct emit *e, const struct view *x);
/* Declares the table as l. */
int emit_layer_declare(struct emit *e, const struct plan_step *s,
                       const struct emit_layer *l, struct infer_error *err);
/* Computes the pixel at offset y: rows (at least one) of n inputs, or of n
 * pixels of a depthwise layer (at least one), from offset x of x_name, with
 * weights from offset w; all expressions of C. */
void emit_layer_pixel(struct emit *e, const char *y, const char *x_name,
                      const char *x, const char *w, const char *rows,
                      const char *n);
/* Adds the function that computes pixels, if there are any, and the tables. */
void emit_layer_function(const struct emit *e, struct emit_text *out);
void emit_layer_tables(const struct emit *e, struct emit_text *out);

#endif
