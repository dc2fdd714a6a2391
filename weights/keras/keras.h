/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Keras reader share.
 *
 *   keras.c           the format row: .keras and .h5, what is stripped
 *   config.c          model configuration -> struct keras_model
 *   variables.c       finds each layer's tensors in the HDF5 file
 *   dictionary.c      weights without a configuration -> a dictionary
 *   emit.c            walks the model: inputs, calls, outputs
 *   build.c           what the layers build with
 *   *_layers.c        one function a layer class, listed in layers.def
 *
 * Order of axes.  A graph is N,C,spatial; Keras is usually N,spatial,C.  Each
 * tensor on the way carries a flag: `swapped` means that the graph's value is
 * N,C,spatial where Keras has N,spatial,C.  A layer asks for its inputs in the
 * order that it needs and states the order of its output, so that transposes
 * appear only where Keras' order shows (Flatten, Reshape, Permute, dense over
 * the last axis of a tensor that never was a picture), and results are exact
 * everywhere.
 */
#ifndef WEIGHTS_KERAS_KERAS_H
#define WEIGHTS_KERAS_KERAS_H

#include <cjson/cJSON.h>

#include "libinfer/graph/graph.h"
#include "weights/hdf5/hdf5_reader.h"
#include "weights/weights.h"

#define KERAS_MAX_VARIABLES 8
#define KERAS_MAX_INNER     2  /* layers that a layer holds */
#define KERAS_MAX_OUTPUTS   8  /* of one call */
#define KERAS_MAX_DEPTH     16 /* of models in models */
#define KERAS_MAX_LAYERS    100000

struct keras_model;
struct keras_layer;
struct keras_emit;

/* ---- tensors on the way -------------------------------------------- */

struct keras_value {
    int value; /* of the graph; negative after a failure */
    int rank;
    bool swapped;
};

/* ---- layer classes ------------------------------------------------- */

/* Names the layer's variables in the order in which Keras saves them. */
typedef int keras_variables_fn(struct keras_emit *k, struct keras_layer *l);
typedef struct keras_value keras_emit_fn(struct keras_emit *k,
                                         struct keras_layer *l,
                                         const struct keras_value *in, int n);

struct keras_class {
    const char *name;
    int max_in; /* 1, or -1 for any number */
    int arg;    /* spatial rank, kind of merge, ...: as the emitter reads it */
    bool function;                 /* of keras.ops: no layer */
    keras_variables_fn *variables; /* NULL: none */
    keras_emit_fn *emit;           /* NULL: InputLayer */
};
/* NULL where the class is not supported. */
const struct keras_class *keras_class_find(const char *name);

/* ---- models -------------------------------------------------------- */

struct keras_variable {
    const char *name;  /* "kernel": Keras' word, static */
    const char *group; /* .keras: below the layer's group; NULL: in it */
    bool trainable;
    struct constant *data;
};

/* Output `tensor` of call `node` of a layer; or a constant (layer is -1). */
struct keras_reference {
    int layer, node, tensor;
    const char *word;   /* where it is given by name: "mask"; else NULL */
    const cJSON *array; /* {"value": ..., "dtype": ...}; else NULL */
};

/* One use of a layer. */
struct keras_call {
    int layer;
    struct keras_reference *in;
    int n_in;
    /* Keras 3 writes arithmetic like x + 3.0 as a layer, one of whose two
     * arguments is a number: its place, or -1. */
    int number_at;
    double number;
    /* Keras 3: the arguments as they stand in the configuration; else NULL. */
    const cJSON *args, *kwargs;
};

struct keras_layer {
    const char *name, *class_name; /* in the configuration */
    const cJSON *config;
    const struct keras_class *class; /* NULL for a model */
    struct keras_model *model;       /* NULL but for a model in the model */
    /* Layers that it applies: of TimeDistributed, Bidirectional. */
    struct keras_layer *inner;
    int n_inner;
    const char *group; /* .keras: of an inner layer, below its owner's */
    char *path;        /* "outer/inner": names in the graph */
    bool trainable;
    int first_call, n_calls; /* in the model's list of calls */
    int node_offset;         /* number that references give the first call */
    struct keras_variable variable[KERAS_MAX_VARIABLES];
    int n_variables;
    int weight[KERAS_MAX_VARIABLES]; /* graph values once made, else -1 */
};

struct keras_model {
    const char *name, *class_name;
    bool sequential;
    const cJSON *config;
    struct keras_layer *layer;
    int n_layers, layers_capacity;
    int *by_name; /* layer indices sorted by name */
    struct keras_call *call;
    int n_calls, calls_capacity;
    struct keras_reference *input, *output;
    int n_inputs, n_outputs;
};

/* Parses {"class_name": ..., "config": ...}.  Classes that are not supported
 * are all listed in one report. */
int keras_model_parse(const cJSON *json, struct infer_error *err,
                      struct keras_model **out);
void keras_model_free(struct keras_model *model); /* NULL is fine */
/* A model's own class names. */
bool keras_is_model(const char *class_name);
/* True for what Keras' own classes state: module null or keras..., registered
 * name null or the class itself. */
bool keras_is_own(const cJSON *layer, const char *class_name);
/* The class of a layer by its name, where needed by its configuration. */
const struct keras_class *keras_class_of(const cJSON *config,
                                         const char *class_name);
/* One line of the report, or false where the layer is fine. */
bool keras_report_class(const cJSON *layer, const char *class_name,
                        const char *name, struct infer_error *err);

/* EMEMORY. */
int keras_no_memory(struct infer_error *err);

/* ---- what connects layers (calls.c) -------------------------------- */

/* A new call of a layer; NULL where there is no memory. */
struct keras_call *keras_new_call(struct keras_model *m, int layer);
int keras_add_reference(struct keras_reference **list, int *n,
                        struct keras_reference r, struct infer_error *err);
/* One reference, a list, a dictionary, or any nesting of those. */
int keras_parse_references(const struct keras_model *m, const cJSON *json,
                           struct infer_error *err,
                           struct keras_reference **list, int *n);
/* The calls of a layer, in either of Keras' forms. */
int keras_parse_calls(struct keras_model *m, int layer, const cJSON *inbound,
                      struct infer_error *err);
/* That references are of calls that there are. */
int keras_check_references(struct keras_model *m, struct infer_error *err);

/* ---- variables ----------------------------------------------------- */

/* Fills the variables of every layer.  group is the HDF5 group with one group
 * a layer (h5) or with "layers" (v3). */
int keras_variables_from_h5(struct keras_model *model, struct hdf5_file *f,
                            uint64_t group, struct infer_error *err);
int keras_variables_from_v3(struct keras_model *model, struct hdf5_file *f,
                            uint64_t group, struct infer_error *err);
/* Strings of an attribute that Keras splits into name0, name1, ... where it is
 * too large for a header.  1 found, 0 absent, or negative. */
int keras_read_names(struct hdf5_file *f, uint64_t address, const char *name,
                     struct infer_error *err, struct hdf5_strings *parts,
                     int max_parts, int *n_parts);
#define KERAS_MAX_PARTS 64

/* The group of a layer, as hdf5_find() would; links are those of the group, so
 * that a model of many layers is not searched anew for each. */
int keras_find_layer(struct hdf5_file *f, uint64_t group,
                     const struct hdf5_links *links, const char *name,
                     struct infer_error *err, uint64_t *address);
/* A tensor as it is stored; it may view the file. */
int keras_read_tensor(struct hdf5_file *f, uint64_t address,
                      struct infer_error *err, struct constant **out);

/* Weights without a configuration; see dictionary.c for the names. */
int keras_dictionary_from_h5(struct hdf5_file *f, uint64_t group,
                             struct infer_error *err,
                             struct weights_dict *dict);
int keras_dictionary_from_v3(struct hdf5_file *f, uint64_t group,
                             struct infer_error *err,
                             struct weights_dict *dict);

/* ---- building the graph -------------------------------------------- */

/* Like the builder of architectures: after a failure (status < 0, err is set)
 * every helper does nothing and returns negative values. */
struct keras_emit {
    struct graph *g;
    struct infer_error *err;
    int status;
    const struct weights_options *options;
    int major;           /* Keras 1, 2 or 3 */
    bool old_resize;     /* bilinear as before TensorFlow 2 */
    bool theano;         /* kernels are stored flipped */
    bool channels_first; /* some layer says so */
    bool has_1d;         /* some layer works on N,length,C */
    bool apart;          /* no two variables share bytes of the file */
    int n_calls;         /* of layers, so far */
    int n_asked;         /* layers that asked for the size of their input */
    /* Outputs of the call but the first, where it has several. */
    struct keras_value more[KERAS_MAX_OUTPUTS - 1];
    int n_more;
    const struct keras_layer *layer; /* being emitted */
    int node;                        /* which call of it */
    const struct keras_call *call;
};

/* Names every layer's variables (keras_class.variables). */
int keras_name_variables(struct keras_emit *k, struct keras_model *model);
/* Adds the whole model to k->g. */
int keras_emit_model(struct keras_emit *k, struct keras_model *model);

/* A layer that the layer being emitted holds, or a model. */
struct keras_value keras_emit_inner(struct keras_emit *k, struct keras_layer *l,
                                    const struct keras_value *in, int n);

/* Fails with "layer 'x' (Conv2D): text"; returns a failed value. */
struct keras_value keras_fail(struct keras_emit *k, int code, const char *fmt,
                              ...) __attribute__((format(printf, 3, 4)));
struct keras_value keras_failed(const struct keras_emit *k);

/* The same tensor in Keras' own order, in N,C,spatial from channels last, or
 * in the order that a data_format asks for. */
struct keras_value keras_plain(struct keras_emit *k, struct keras_value x);
struct keras_value keras_swapped(struct keras_emit *k, struct keras_value x);
struct keras_value keras_in_format(struct keras_emit *k, struct keras_value x,
                                   bool channels_last);
/* The input of a layer over as many spatial dimensions as its class says, in
 * the layer's own format. */
struct keras_value keras_spatial_input(struct keras_emit *k,
                                       const struct keras_layer *l,
                                       struct keras_value x);

/* Adds a node with one output; *node (may be NULL) for its attributes.  role
 * names it: "" the layer itself, else "layer/role". */
int keras_node(struct keras_emit *k, enum graph_op op, const char *role,
               const int *in, int n_in, int *node);
int keras_unary(struct keras_emit *k, const char *role, int x,
                enum kern_unary_kind kind, float a, float b);
int keras_transpose(struct keras_emit *k, int x, int rank, const int *order);
int keras_cast_to(struct keras_emit *k, const char *role, int x,
                  enum infer_dtype to);
/* x and the value y in x's order, element by element. */
struct keras_value keras_binary(struct keras_emit *k, const char *role,
                                struct keras_value x, int y,
                                enum kern_binary_kind kind);
/* Two arguments of a call, of which one may be a number; and a node of them. */
bool keras_pair(struct keras_emit *k, const struct keras_value *in, int n,
                struct keras_value *out);
struct keras_value keras_pair_node(struct keras_emit *k, const char *role,
                                   const struct keras_value *pair,
                                   enum kern_binary_kind kind);
/* Nested lists of numbers as a constant, in F32, or in I64 where `integers`;
 * NULL where they are none, or where there is no memory (then k has failed). */
struct constant *keras_array(struct keras_emit *k, const cJSON *value,
                             bool integers);
/* Bits of Keras' axes of config "axis": a number, a list, or all. */
uint32_t keras_reduced_axes(struct keras_emit *k, const cJSON *config,
                            int rank);
/* Reduces the axes (bits, in Keras' order); without `keep` they are left out.
 */
struct keras_value keras_reduce(struct keras_emit *k, struct keras_value x,
                                const char *role, enum kern_reduce_kind kind,
                                uint32_t axes, bool keep);
/* The dimension of x.value that is Keras' axis (0 .. rank - 1). */
int keras_dimension(struct keras_value x, int axis);
/* An axis of config, a number or a list of one; 0 .. rank - 1. */
int keras_axis(struct keras_emit *k, const cJSON *config, const char *key,
               int rank, int otherwise);
/* Makes the sizes of all values known (value[].dim, -1: free).  Each time every
 * node is looked at: fails where too many layers of a model ask. */
bool keras_infer_sizes(struct keras_emit *k);
/* The sizes of x.value; fails where one of `from` and later is free. */
bool keras_sizes(struct keras_emit *k, struct keras_value x, int from,
                 int64_t *dim);
int keras_slice(struct keras_emit *k, const char *role, int x, int axis,
                int64_t begin, int64_t end);
/* RESHAPE, SQUEEZE and the like. */
int keras_dims(struct keras_emit *k, enum graph_op op, const char *role, int x,
               int n, const int64_t *dim);
int keras_concat(struct keras_emit *k, const char *role, const int *x, int n,
                 int axis);
/* keras.ops.reshape to sizes that include the batch. */
struct keras_value keras_reshape_whole(struct keras_emit *k,
                                       const struct keras_value *in,
                                       const cJSON *shape);
/* A constant called "layer.suffix"; takes over c (NULL: no memory). */
int keras_constant(struct keras_emit *k, const char *suffix,
                   struct constant *c);
/* Variable i of the layer through convert (NULL: as it is), once a layer. */
typedef struct constant *keras_convert_fn(struct keras_emit *k,
                                          const struct keras_layer *l,
                                          struct constant *c);
int keras_weight(struct keras_emit *k, struct keras_layer *l, int i,
                 const char *suffix, keras_convert_fn *convert);
/* n copies of a number, as F32. */
struct constant *keras_filled(int64_t n, float value);
/* Index of a variable by its word, or -1. */
int keras_variable(const struct keras_layer *l, const char *name);
/* Adds one variable in a keras_variables_fn. */
void keras_add_variable(struct keras_layer *l, const char *name,
                        bool trainable);
/* The same, in a group below the layer's. */
void keras_add_variable_in(struct keras_layer *l, const char *group,
                           const char *name, bool trainable);
/* (C,K) as (K,C), and the kernel of a convolution: for keras_weight(). */
keras_convert_fn keras_dense_kernel, keras_conv_kernel;
/* A kernel whose first n axes are the inputs of a dense layer, as (K,C). */
struct constant *keras_flat_kernel(const struct constant *c, int n);
/* A truth value among the keyword arguments of the call. */
bool keras_keyword(struct keras_emit *k, const char *name);

/* Resizing by bicubic and Lanczos filters as TensorFlow computes them: whether
 * the layer asks for one, and x (N,C,H,W) resized. */
bool keras_is_filter(const struct keras_layer *l);
struct keras_value keras_filter(struct keras_emit *k,
                                const struct keras_layer *l,
                                struct keras_value x, const int *size,
                                bool times);
/* Applies an activation, given by name or as an object; NULL and null mean
 * none. */
struct keras_value keras_activation(struct keras_emit *k, struct keras_value x,
                                    const cJSON *activation);
/* An activation by its word, such as "relu". */
struct keras_value keras_activation_word(struct keras_emit *k,
                                         struct keras_value x,
                                         const char *word);
/* The JSON item of config "activation", or NULL where it does nothing. */
const cJSON *keras_activation_of(const struct keras_layer *l);

/* ---- reading configurations ---------------------------------------- */

/* Each fails (k->status) where the item is there but not of the right type or
 * out of range; where it is absent or null, otherwise is the result. */
int keras_int(struct keras_emit *k, const cJSON *config, const char *key,
              int min, int max, int otherwise);
double keras_double(struct keras_emit *k, const cJSON *config, const char *key,
                    double otherwise);
bool keras_bool(struct keras_emit *k, const cJSON *config, const char *key,
                bool otherwise);
/* n integers from an array of n or one number for all. */
void keras_ints(struct keras_emit *k, const cJSON *config, const char *key,
                int n, int min, int max, int otherwise, int *out);
/* The first key that is there, else the last. */
const char *keras_key(const cJSON *config, const char *a, const char *b);
bool keras_channels_last(struct keras_emit *k, const cJSON *config);
enum keras_padding { KERAS_VALID, KERAS_SAME, KERAS_CAUSAL };
enum keras_padding keras_padding(struct keras_emit *k, const cJSON *config);

/* ---- layer functions named in layers.def --------------------- */

#define KERAS_LAYER(name, max_in, arg, variables, emit) keras_emit_fn emit;
#define KERAS_FUNCTION(name, max_in, arg, emit)         keras_emit_fn emit;
#define KERAS_INPUT(name)
#define NONE
#include "weights/keras/layers.def"
#undef KERAS_LAYER
#undef KERAS_FUNCTION
#undef KERAS_INPUT
#undef NONE
keras_variables_fn keras_conv_variables;
keras_variables_fn keras_depthwise_variables;
keras_variables_fn keras_separable_variables;
keras_variables_fn keras_dense_variables;
keras_variables_fn keras_batch_norm_variables;
keras_variables_fn keras_einsum_variables;
keras_variables_fn keras_embedding_variables;
keras_variables_fn keras_layer_scale_variables;
keras_variables_fn keras_norm_variables;
keras_variables_fn keras_normalization_variables;
keras_variables_fn keras_prelu_variables;
keras_variables_fn keras_rms_variables;
keras_variables_fn keras_recurrent_variables;
keras_variables_fn keras_spectral_variables;
keras_variables_fn keras_multi_head_variables;
keras_variables_fn keras_attention_variables;

#endif
