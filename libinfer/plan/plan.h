/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: how one model runs for one set of input shapes.
 *
 * plan_new() walks the graph once, producers first.  Each node is lowered
 * (lower.c) to views or to steps (plan_emit.c); a step is one row of the
 * kernel table on views of buffers.  Then plan_prepare() makes the steps
 * runnable: it prepares kernels, packs constants, and computes what depends on
 * constants alone.  plan_bind() sets the pointers.
 *
 * Everything here is private to the runtime.
 */
#ifndef LIBINFER_PLAN_PLAN_H
#define LIBINFER_PLAN_PLAN_H

#include "libinfer/graph/graph.h"
#include "libinfer/model/model.h"
#include "libinfer/plan/problem.h"
#include "libinfer/plan/program.h"

/* The table of products of a session's multiplier, in the device's memory: that
 * of first operand a and second operand b is entry[b << bits | a].  Of integers
 * it holds errors, which layers on integers alone read (quant.h). */
struct plan_products {
    int bits;
    bool integers;
    int factors;      /* r of the factors behind the entries
                         (kernels/table/product_factors.h); 0: none */
    bool accumulated; /* an accumulator (kernels/table/accumulator.h) lies there
                       * instead */
    void *entry;
    char *exact; /* layers that do without (multiplier/layers.h); or NULL */
};

/* What a session asks of its plans. */
struct plan_config {
    struct infer_model *model;
    const struct device *device;
    struct row_tiers tiers;
    bool deterministic;
    bool keep_tensors;
    /* Rows that take any strides write images with channels last, whatever the
     * layout of their input. */
    bool channels_last;
    /* Channels of 16-bit types are padded to multiples of 8 (pad/pad.c). */
    bool pad_channels;
    /* Convolutions of three dimensions, and transposed ones whose windows do
     * not overlap, are done by others (conv/). */
    bool apart;
    /* Two convolutions may be one step (lower_chain.c). */
    bool chains;
    /* Squeeze-and-excitation and attention stay the nodes that spell them out:
     * C that is written of a plan has no form of them in one step. */
    bool spelled_out;
    enum infer_precision precision;
    struct tuner *tuner; /* NULL: nothing is measured */
    void (*progress)(void *user, int done,
                     int total); /* of tuning; may be NULL */
    void *progress_user;
    uint64_t max_memory; /* bytes; 0: not checked */
    bool *exceeded;  /* set where a plan takes more than that; may be NULL */
    double max_work; /* operations and bytes of a run; 0: not checked */
    /* Convolutions and dense layers multiply with it; NULL: exactly. */
    const struct plan_products *products;
};

enum plan_memory {
    PLAN_ARENA,    /* in the session's arena, shared by lifetime */
    PLAN_KEPT,     /* computed from constants once, held by the plan */
    PLAN_INPUT,    /* the caller's array, or its copy in the arena */
    PLAN_CONSTANT, /* a constant of the graph */
    PLAN_PRODUCTS  /* the session's table of products */
};

/* A dense copy of a view, kept for the next node that needs the same. */
struct plan_copy {
    struct view from, to;
    int next;
};

struct plan_value {
    bool ready; /* view is set */
    struct view view;
    int uses;
    /* The value is view times input_scale, one number an image and channel: a
     * product that no step computes yet (lower_input_scale.c). */
    bool has_input_scale;
    struct view input_scale;
    /* The view is the input of the convolution that makes the value, which no
     * step computes yet (lower_chain.c). */
    bool chain;
    /* The concatenation's output that the value is built inside (-1: none), the
     * axis, and the value's place along it. */
    int concat, concat_along;
    int64_t concat_offset;
    int concat_depth;
    bool has_dest, in_dest; /* dest is set; the data is or will be there */
    struct view dest;
};

/* An argument that points into the caller's input. */
struct plan_patch {
    const void **slot;
    int input;
    size_t bytes; /* from the start of the array */
};

struct plan_attention; /* lower_attention.c */

struct plan {
    const struct plan_config *config;
    /* The device as rows are asked about it: where `deterministic`, a CPU of
     * one thread, so that no choice depends on the number of threads. */
    struct kern_device asked;
    struct graph *g; /* with the shapes of this plan */
    /* The batch that all inputs have and the model leaves open; 0: none. */
    int64_t batch;
    struct plan_value *value;
    struct plan_buffers buffers; /* memory: enum plan_memory */
    struct plan_copy *copy;
    int n_copies, copies_capacity;
    struct plan_steps steps;
    struct plan_step **run; /* the steps that are not `once` */
    int n_run;
    struct plan_patch *patch;
    int n_patches;
    struct view *output; /* dense row-major, in declared types */
    int *input_buffer;   /* one an input */
    /* One a node: a layer on integers, or a node quantize or dequantize that
     * is part of one (lower_integers.c). */
    bool *integers;
    /* One a node of the model's graph: whether it may compute in 8 bits; NULL:
     * all that can (best/best.h). */
    bool *bytes;
    int n_bytes;
    struct plan_attention *attention;
    int n_attention;
    int products;       /* buffer of the table of products */
    bool *exact_layers; /* of each node: whether it does without the table */
    size_t arena_bytes, unshared_bytes, kept_bytes, workspace_bytes;
    size_t weight_bytes;
    void *kept;
    int failed; /* nodes without a kernel, listed in the error */
    bool prepared;
    bool recalled; /* its choices came from the cache as those of a network */
    /* The memory that the pointers are set for, the runs since then, and the
     * recording of a run on a device that records. */
    const void *bound_arena, *bound_workspace;
    uint64_t bound_runs;
    struct device_graph *graph;
};

/* Chooses kernels and lays out memory; shape: one an input, complete.
 * EUNSUPPORTED lists every node for which there is no kernel. */
int plan_new(const struct plan_config *config, const struct graph_shape *shape,
             struct infer_error *err, struct plan **out);
/* The same; only nodes with bytes[node] compute in 8 bits, if they can. */
int plan_new_as(const struct plan_config *config,
                const struct graph_shape *shape, const bool *bytes,
                struct infer_error *err, struct plan **out);
/* Whether a node may compute in 8 bits. */
static inline bool plan_may_be_bytes(const struct plan *plan, int node)
{
    return !plan->bytes || (node < plan->n_bytes && plan->bytes[node]);
}
void plan_free(struct plan *plan); /* NULL is fine */

/* EMEMORY if the plan takes more memory, or a run more work, than its
 * configuration allows.  Packed bytes and workspace count from prepared kernels
 * on; before that the constants as they are. */
int plan_check_budget(const struct plan *plan, struct infer_error *err);
/* The memory that is checked, in bytes; false if it cannot be counted. */
bool plan_memory(const struct plan *plan, size_t *bytes);
/* The work that is checked: operations, and bytes read and written. */
double plan_work(const struct plan *plan);

/* Prepares kernels and constants and runs the steps on constants.  Sets
 * workspace_bytes and weight_bytes. */
int plan_prepare(struct plan *plan, struct infer_error *err);

/* Sets each step's choice to the fastest that the tuner finds. */
int plan_tune(struct plan *plan, struct infer_error *err);
/* Then applies the substitutions that the cache has for this network. */
void plan_recall(struct plan *plan);
/* Searches for substitutions if the cache has none: runs the prepared plan and
 * prepares some of its steps anew. The plan must be bound afterwards. */
int plan_refine(struct plan *plan, struct infer_error *err);

/* Loads the constant that input i of a prepared problem reads: into *out if it
 * is packed, else into the buffer's plain copy. */
int plan_load_constant(struct plan *plan, const struct kern_exec *exec,
                       const struct view *v, int i, struct infer_error *err,
                       struct packed **out);
/* Sets workspace_bytes to the largest workspace of a step. */
void plan_count_workspace(struct plan *plan);

/* Frees the recorded launches: an argument changed.  The next run launches, the
 * one after it records. */
void plan_forget_recording(struct plan *plan);
/* Sets all pointers for these pieces of memory; allocates nothing. */
void plan_bind(struct plan *plan, void *arena, void *workspace);

/* Launches a step; all steps of a run.  Errors name the node. */
int plan_launch_step(const struct plan *plan, const struct plan_step *step,
                     struct infer_error *err);
int plan_launch(const struct plan *plan, struct infer_error *err);
/* Records a run, on a device that can. */
int plan_record(const struct plan *plan, struct infer_error *err,
                struct device_graph **out);

/* Address of a view's element with indices 0 in the bound memory; NULL for
 * inputs and for constants that no step reads unpacked. */
void *plan_locate(const struct plan *plan, const struct view *v);

/* A step's name for messages: its node's, or that of the node's output. */
const char *plan_step_name(const struct plan *plan,
                           const struct plan_step *step);

/* True on a GPU with `deterministic`: one plan runs the whole batch, by rows
 * and variants whose sums do not depend on it. */
static inline bool plan_is_batch_invariant(const struct plan *plan)
{
    return plan->config->deterministic && plan->asked.kind == KERN_CUDA;
}

/* Elements of a tensor of the batch, for choices by size: of ROW_BATCH images
 * where they may not depend on the batch. */
static inline double plan_count(const struct plan *plan,
                                const struct kern_tensor *t)
{
    const double count = (double)kern_tensor_count(t);

    return plan_is_batch_invariant(plan) && plan->batch > 0
               ? count * ROW_BATCH / (double)plan->batch
               : count;
}

/* A query whose views are aligned. */
struct row_query plan_ask(const struct plan *plan,
                          const struct kern_problem *p);
/* The device that a row is prepared for: where `deterministic`, one of one
 * thread unless the row is invariant. */
const struct kern_device *plan_device(const struct plan *plan,
                                      const struct kern_row *row);
/* A query for the problem on these views, whose tensors are those of the
 * problem. */
struct row_query plan_query(const struct plan *plan,
                            const struct kern_problem *p, const struct view *in,
                            const struct view *out);
/* How many of the session's tiers may compute the operation. */
int plan_tiers(const struct plan *plan, enum kern_op op);

/* ---- for lowering -------------------------------------------------- */

/* The type in which values of a declared type are computed and stored: for real
 * types that of the session's precision, which overrides the file's. */
enum infer_dtype plan_dtype(const struct plan *plan, enum infer_dtype declared);
/* The type in which an input reaches the device: the declared one where the
 * device converts, else that of plan_dtype(). */
enum infer_dtype plan_input_dtype(const struct plan *plan,
                                  enum infer_dtype declared);

/* The table of products as a problem's input, row a, column b. */
struct view plan_products_view(const struct plan *plan);
struct view plan_factors_view(const struct plan *plan);
struct view plan_accumulator_view(const struct plan *plan);
/* Bytes of a table of products and of its factors or accumulator. */
size_t plan_products_bytes(const struct plan_products *products);

/* Sets a value's view. */
void plan_set(struct plan *plan, int value, const struct view *view);

/* Makes a value with data a constant of the plan and sets its view. */
int plan_set_constant(struct plan *plan, int value, struct infer_error *err);

/* A new buffer and its dense view; errors name the node. */
int plan_buffer(struct plan *plan, int node, enum infer_dtype dtype, int rank,
                const int64_t *dim, enum kern_layout layout,
                struct infer_error *err, struct view *out);

/* A view of a constant in another type: the constant is converted when it is
 * packed, not in a run. */
int plan_constant_as(struct plan *plan, const struct view *v,
                     enum infer_dtype dtype, struct infer_error *err,
                     struct view *out);

/* A problem on views: attr, op and epilogue are set in p, tensors in in[] and
 * p.out[0] (dtype, rank, dim; strides are chosen here). */
struct plan_emit {
    enum plan_class class;
    struct kern_problem p;
    struct view in[KERN_MAX_IN];
    int value;    /* the graph value that the output is, or -1 */
    int residual; /* index in in[], or -1 */
    /* Where the output goes if the row takes these strides, or NULL. */
    const struct view *into;
};

/* Sets the problem's only tensors: one input and one output of these dims,
 * which need not be those of the graph. */
void plan_single(enum kern_op op, enum plan_class class, const struct view *in,
                 enum infer_dtype dtype, int rank, const int64_t *dim,
                 struct plan_emit *e);
/* Chooses a row and layouts and adds the steps; *out: the result. */
int plan_emit(struct plan *plan, int node, const struct plan_emit *e,
              struct infer_error *err, struct view *out);
/* Whether the operation is done in parts of the batch, because rows do not
 * number so many elements (plan_parts.c); the images of a part. */
bool plan_in_parts(const struct plan *plan, const struct plan_emit *e,
                   int64_t *images);
/* plan_emit() in parts of so many images. */
int plan_emit_parts(struct plan *plan, int node, const struct plan_emit *e,
                    int64_t images, struct infer_error *err, struct view *out);
/* Copies into a given view, converting type and strides. */
int plan_copy_to(struct plan *plan, int node, const struct view *from,
                 const struct view *to, struct infer_error *err);
/* The same of values with scales (kernels/quant/quant.h), if a row computes
 * that: *taken. */
int plan_copy_scaled(struct plan *plan, int node, const struct view *from,
                     const struct view *to, const struct kern_quant *quant,
                     struct infer_error *err, bool *taken);
/* The row for a copy, or NULL; p may be merged into fewer dimensions.  aligned:
 * whether both views are (row_view_is_aligned()). */
const struct kern_row *plan_find_copy(const struct plan *plan,
                                      struct kern_problem *p, bool aligned);
/* v itself where it is dense in the layout, else a copy that is. */
int plan_dense(struct plan *plan, int node, const struct view *v,
               enum kern_layout layout, struct infer_error *err,
               struct view *out);

/* ---- concatenation in place ---------------------------------------- */

/* Decides which values alias a part of a concatenation's output. */
void plan_find_aliases(struct plan *plan);
/* The view that an aliasing value, or a concatenation's output, is written to;
 * the first call creates the buffer in this layout. */
int plan_concat_dest(struct plan *plan, int value, enum kern_layout layout,
                     struct infer_error *err, struct view *out);

/* ---- lowering ------------------------------------------------------ */

/* Puts one node in place of each chain of nodes that is attention and for which
 * there is a row, in the plan's graph. */
int plan_find_attention(struct plan *plan, struct infer_error *err);

/* Gives values whose channels no multiple of 8 divides more channels, and their
 * weights zeros, in the plan's graph, if the configuration asks for it. */
int plan_pad_channels(struct plan *plan, struct infer_error *err);

/* Decides which layers compute on integers; the sources have their views. */
int plan_find_integers(struct plan *plan, struct infer_error *err);
/* Makes weights of 8 bits that are read as floats constants, before any node is
 * lowered: kernels pack them, and chains ask whether they are constant. */
int plan_dequantize_constants(struct plan *plan, struct infer_error *err);

/* Sets the view of every output of the node. */
int lower_node(struct plan *plan, int node, struct infer_error *err);

#endif
