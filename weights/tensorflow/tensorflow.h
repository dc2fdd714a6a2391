/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the TensorFlow reader, for the functions of ops.def.
 *
 * A graph is told in ONNX's operators, node by node, to the importer of ONNX
 * (weights/onnx/onnx.h), which has the arithmetic on shapes, the folding of
 * constants and the shape rules.  Operators that ONNX has in another form
 * become several steps, or nodes of the graph at once.  Pictures are N,H,W,C
 * here; operations on them are computed as N,C,H,W between two transposes,
 * which the pass remove-transposes takes out.
 */
#ifndef WEIGHTS_TENSORFLOW_TENSORFLOW_H
#define WEIGHTS_TENSORFLOW_TENSORFLOW_H

#include "weights/kept.h"
#include "weights/onnx/onnx.h"
#include "weights/tensorflow/bundle.h"
#include "weights/tensorflow/graphdef.h"

/* The version of ONNX's operators in which graphs are told. */
#define TF_OPSET 18

/* Values of DataType. */
enum tf_type {
    TF_FLOAT = 1,
    TF_DOUBLE,
    TF_INT32,
    TF_UINT8,
    TF_INT16,
    TF_INT8,
    TF_STRING,
    TF_COMPLEX64,
    TF_INT64,
    TF_BOOL,
    TF_QINT8,
    TF_QUINT8,
    TF_QINT32,
    TF_BFLOAT16 = 14,
    TF_UINT16 = 17,
    TF_HALF = 19,
    TF_UINT32 = 22,
    TF_UINT64
};
/* INFER_NONE for what has no counterpart. */
enum infer_dtype tf_dtype(uint64_t type);
/* TensorProto.DataType of ONNX for a type; 0 where it has none. */
int64_t tf_onnx_type(uint64_t type);

/* An input or output of the network. */
struct tf_io {
    struct tf_edge edge;
    struct pb_span name; /* as the model calls it */
    /* N,H,W,C in the file and N,C,H,W in the model. */
    bool swapped;
    int reader; /* the first convolution that reads an input, + 1; 0: none */
};

struct tf_op;

struct tf_list;

struct tf_import {
    struct tf_graph graph;
    const char *path;
    struct tf_bundle bundle;  /* variables of a SavedModel */
    struct weights_kept kept; /* large tensors that were loaded */
    bool *dilated;            /* a node of a dilated convolution (dilation.c) */
    struct tf_list **list;    /* a node: the list that it makes, or NULL */
    struct tf_io *input, *output;
    int n_inputs, n_outputs;
    int *order; /* nodes that the outputs need, producers first */
    int n_order;
    /* The node being imported: its index, its row, what it became. */
    int node;
    const struct tf_op *op;
    struct onnx_node current;
};

/* How an operator treats the order of the axes of its first input. */
enum tf_layout {
    TF_OTHER, /* its result has an order of its own */
    TF_EACH,  /* element by element: the input's order */
    TF_IMAGE  /* works on pictures, as its data_format says */
};
struct tf_op {
    const char *name;
    enum tf_layout layout;
    onnx_op_fn *import;
    const char *onnx; /* operator of ONNX, for functions that need one */
    int param;
};
/* NULL where no row has the name. */
const struct tf_op *tf_op_find(struct pb_span name);

/* The row of the node being imported. */
static inline const struct tf_op *tf_row(const struct onnx_import *im)
{
    return ((const struct tf_import *)im->context)->op;
}

/* ---- reading ------------------------------------------------------- */

/* Name, operator, inputs and attributes of a node, in im->scratch. */
int tf_node_parse(struct onnx_import *im, int node, struct onnx_node *out);
/* Gives the pages of a tensor's content back to the system: it was loaded, and
 * is not read again. */
void tf_tensor_give_back(const struct tf_graph *g, struct pb_span tensor);
/* A constant of the file, of a given rank, with its axes in another order; a
 * large one takes the place of the original. */
int tf_load_transposed(struct onnx_import *im, struct pb_span tensor, int rank,
                       const int *order, struct constant **out);
/* A TensorProto as a constant; a new reference.  Counts what the file does not
 * hold (one value for all elements) against the limit of the import. */
int tf_tensor_load(struct onnx_import *im, struct pb_span tensor,
                   struct constant **out);
/* The elements of a TensorProto, -1 where it is malformed. */
int64_t tf_tensor_count(const struct tf_graph *g, struct pb_span tensor);
/* TensorShapeProto.  rank -1: unknown; dimensions -1: free. */
int tf_shape_parse(const struct tf_graph *g, struct pb_span shape, int *rank,
                   int64_t *dim, struct infer_error *err);
/* Numbers in an AttrValue: type, i or b; *found tells whether it is there. */
int tf_attr_int(const struct tf_graph *g, int node, const char *name,
                int64_t *out, bool *found, struct infer_error *err);
/* Text s of an AttrValue, empty where absent. */
int tf_attr_text(const struct tf_graph *g, int node, const char *name,
                 struct pb_span *out, struct infer_error *err);

/* Placeholders of switches become what they are without being fed. */
int tf_take_defaults(struct tf_graph *g, struct infer_error *err);
/* True for a boolean placeholder that is named after training: it is false. */
bool tf_is_training_flag(const struct tf_graph *g, int node);
/* Takes the branches of Switch and Merge whose condition the file tells
 * (branches.c).  EMEMORY. */
int tf_take_branches(struct tf_graph *g, struct infer_error *err);
int tf_add_input(struct tf_import *tf, struct tf_edge e, struct pb_span name,
                 struct infer_error *err);
int tf_add_output(struct tf_import *tf, struct tf_edge e, struct pb_span name,
                  struct infer_error *err);
/* Inputs and outputs of a frozen graph: its placeholders, and what nothing
 * reads. */
int tf_find_ends(struct tf_import *tf, struct infer_error *err);
/* The nodes that the outputs need.  EUNSUPPORTED with a line an operator that
 * is not supported. */
int tf_find_order(struct tf_import *tf, struct infer_error *err);
/* Fills dilated. */
int tf_find_dilations(struct tf_import *tf, struct infer_error *err);
/* The dilation of the convolution being imported, where its blocks give it. */
void tf_take_dilation(struct onnx_import *im, int *dilation);
/* True where a list of integers is absent or all 1. */
bool tf_attr_all_one(const struct tf_graph *g, int node, const char *name);
/* Which inputs and outputs are pictures N,H,W,C. */
int tf_find_layouts(struct tf_import *tf, struct infer_error *err);
/* True where a node makes an input of the network. */
bool tf_is_input(const struct tf_graph *g, int node);
/* Type and shape of an input, as the file states it or, where it does not, as
 * the first operation that reads it wants it. */
int tf_input_info(struct tf_import *tf, int i, struct infer_error *err,
                  struct onnx_value_info *out);

/* Imports the opened graph. */
int tf_import_graph(struct tf_import *tf, const struct weights_options *options,
                    struct infer_error *err, struct graph **out);
void tf_import_close(struct tf_import *tf);

/* A SavedModel: its MetaGraphDef, signature and variables. */
int tf_saved_model_open(struct blob *blob, const char *path,
                        struct infer_error *err, struct tf_import *tf);
bool tf_saved_model_probe(struct blob *blob);

/* ---- steps --------------------------------------------------------- */

/* As in onnx.h, these return im->rc or set it, and do nothing once it is
 * negative. */

/* A name for a tensor on the way: the node's, a colon and a word.  Empty where
 * there is no memory. */
struct pb_span tf_temp(struct onnx_import *im, const char *word);
/* Name of output `port` of a node; empty where there is no memory. */
struct pb_span tf_value_name(struct onnx_import *im, struct tf_edge e);
/* onnx_step() with the node's own output 0. */
int tf_last(struct onnx_import *im, const char *op, const struct pb_span *in,
            int n_in, const struct onnx_attr *attr, int n_attr);
/* A step with one input: its name, for the next one. */
struct pb_span tf_next(struct onnx_import *im, const char *op,
                       struct pb_span in, const char *word);
struct onnx_attr tf_set_int(const char *name, int64_t value);
struct onnx_attr tf_set_word(const char *name, const char *value);
struct onnx_attr tf_set_ints(const char *name, const int64_t *value, int n);
/* A list of integers as a constant tensor: its name. */
struct pb_span tf_ints(struct onnx_import *im, const char *word,
                       const int64_t *value, int n);
/* The one integer that input i holds. */
int tf_axis(struct onnx_import *im, int i, int64_t *out);

/* Attribute data_format: true for NCHW.  Other words are refused. */
bool tf_channels_first(struct onnx_import *im);
/* Input i as a value of the graph in N,C,H,W. */
int tf_picture(struct onnx_import *im, int i, bool channels_first, int *out);
/* Adds an operation whose result is output 0, in the order of the file. */
int tf_emit_picture(struct onnx_import *im, enum graph_op op,
                    const union graph_attr *attr, const int *in, int n_in,
                    bool channels_first);
/* The first axis of space. */
static inline int tf_space(bool channels_first)
{
    return channels_first ? 2 : 1;
}
/* Two numbers for height and width out of an attribute with one for each
 * dimension; those of batch and channels must be 1. */
int tf_window_ints(struct onnx_import *im, const char *name,
                   bool channels_first, int *out);
/* Attributes padding and explicit_paddings. */
int tf_padding(struct onnx_import *im, bool channels_first,
               enum graph_auto_pad *auto_pad, int *begin, int *end);

/* ---- the functions of the table ------------------------------------ */

#define TF_OP(name, layout, function, onnx, param) onnx_op_fn function;
#include "weights/tensorflow/ops.def"
#undef TF_OP

#endif
