/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX messages (onnx.proto) as light structs that point into the file.
 *
 * Opening a model records where each node, initializer, input and output lies
 * and nothing more; each is parsed when the importer comes to it, so that the
 * memory needed is a small multiple of the file whatever it holds.
 */
#ifndef WEIGHTS_ONNX_PROTO_H
#define WEIGHTS_ONNX_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"
#include "libinfer/graph/constant.h"
#include "libinfer/graph/graph.h"
#include "weights/external.h"
#include "weights/protobuf/protobuf.h"

/* What a file may hold: far above any network, and low enough that lists made
 * of two-byte messages cost little. */
#define ONNX_MAX_NODES     GRAPH_MAX_NODES
#define ONNX_MAX_TENSORS   (1 << 18)
#define ONNX_MAX_OUTPUTS   4096
#define ONNX_MAX_NAME      65535
#define ONNX_MAX_ATTRS     64
#define ONNX_MAX_FUNCTIONS 4096
#define ONNX_MAX_ITEMS     (1 << 20) /* numbers in the attributes of one node */

/* ---- memory -------------------------------------------------------- */

/* Bump allocator: everything is released at once. */
struct onnx_arena {
    struct onnx_block *block;
    size_t bytes; /* of all blocks */
    size_t limit; /* of bytes; 0: none */
    bool full;    /* an allocation was refused for the limit */
};
/* Zeroed memory aligned for any type, or NULL. */
void *onnx_alloc(struct onnx_arena *arena, size_t bytes);
void onnx_arena_clear(struct onnx_arena *arena);
/* The same, but keeps one block for what comes next. */
void onnx_arena_reset(struct onnx_arena *arena);

/* ---- model --------------------------------------------------------- */

struct onnx_list {
    struct pb_span *item;
    size_t count, capacity;
};

/* A GraphProto: where its parts lie. */
struct onnx_graph {
    struct pb_span name;
    struct onnx_list node, initializer, input, output;
    /* Of each initializer: read once, before any payload is moved. */
    struct onnx_list initializer_name;
    struct onnx_list sparse, sparse_name; /* the same of sparse ones */
};

/* A FunctionProto.  The inputs and outputs of its graph are plain names. */
struct onnx_function {
    struct pb_span domain, overload;
    struct onnx_graph graph; /* the function's name */
    struct onnx_list attr;   /* attributes with a default */
    int64_t opset;           /* 0: as the model */
};

/* EFORMAT beyond the limit of `what`. */
int onnx_list_add(struct onnx_list *list, struct pb_span span, size_t limit,
                  const char *what, struct infer_error *err);

/* Values of TensorProto.DataType that are read. */
enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_UINT8,
    ONNX_INT8,
    ONNX_UINT16,
    ONNX_INT16,
    ONNX_INT32,
    ONNX_INT64,
    ONNX_STRING,
    ONNX_BOOL,
    ONNX_FLOAT16,
    ONNX_DOUBLE,
    ONNX_UINT32,
    ONNX_UINT64,
    ONNX_COMPLEX64,
    ONNX_COMPLEX128,
    ONNX_BFLOAT16
};
/* INFER_NONE for what has no counterpart. */
enum infer_dtype onnx_dtype(int64_t data_type);
/* "FLOAT", "INT4", ...; "unknown" otherwise. */
const char *onnx_type_name(int64_t data_type);

/* The entries of the metadata that are read. */
enum onnx_metadata {
    ONNX_PIXEL_FORMAT, /* Image.BitmapPixelFormat */
    ONNX_PIXEL_RANGE,  /* Image.NominalPixelRange */
    ONNX_STRIDE,       /* Ultralytics: largest stride of a head */
    ONNX_NAMES,        /* of classes, as Python prints them */
    ONNX_TASK,         /* detect, segment, pose, obb, classify */
    ONNX_HEAD,         /* class of the last layer */
    ONNX_POINTS,       /* of a pose: how many, and 2 or 3 numbers each */
    ONNX_METADATA      /* how many */
};

struct onnx_model {
    const char *path; /* of the file, for external data; may be NULL */
    struct blob *blob;
    int64_t ir_version;
    int64_t opset; /* of the default domain; 0 where none is imported */
    struct pb_span producer, producer_version;
    struct pb_span metadata[ONNX_METADATA]; /* no bytes: not there */
    struct onnx_graph graph;
    bool has_graph;
    struct onnx_function *function;
    size_t functions;
    /* The graphs in attributes that were asked for, by where they lie. */
    struct onnx_body *body;
    size_t body_count, body_slots;
    /* Tensors that were loaded, by where they lie.  Their payloads may have
     * been moved over their own tags, so they are never parsed again. */
    struct onnx_loaded *loaded;
    size_t loaded_count, loaded_slots;
    uint64_t external_bytes;
    struct weights_external external;
};

/* Reads the outer messages.  Refuses, by name, what is outside the importer
 * as a whole: training graphs. */
int onnx_model_open(struct blob *blob, const char *path,
                    struct infer_error *err, struct onnx_model *out);
void onnx_model_close(struct onnx_model *m);

/* The graph of an attribute, which the model keeps. */
int onnx_model_body(struct onnx_model *m, struct pb_span span,
                    struct infer_error *err, const struct onnx_graph **out);

/* Keeps an entry of the metadata that enum onnx_metadata names. */
int onnx_metadata_read(struct onnx_model *m, const struct pb_reader *outer,
                       const struct pb_field *field, struct infer_error *err);
/* Sets what the metadata say: the preprocessing of the first input if that is a
 * picture, the task, the names of classes.  EMEMORY. */
int onnx_metadata_apply(const struct onnx_model *m, struct graph *g,
                        struct infer_error *err);

/* A reader of one message of the file, for which errors name byte offsets. */
struct pb_reader onnx_reader(const struct onnx_model *m, struct pb_span span);

/* A C string of a name: no NUL inside, valid UTF-8, at most ONNX_MAX_NAME. */
int onnx_string(struct onnx_arena *arena, struct pb_span span, const char *what,
                struct infer_error *err, char **out);

/* ---- nodes --------------------------------------------------------- */

/* Values of AttributeProto.AttributeType. */
enum onnx_attr_type {
    ONNX_ATTR_NONE = 0,
    ONNX_ATTR_FLOAT,
    ONNX_ATTR_INT,
    ONNX_ATTR_STRING,
    ONNX_ATTR_TENSOR,
    ONNX_ATTR_GRAPH,
    ONNX_ATTR_FLOATS,
    ONNX_ATTR_INTS,
    ONNX_ATTR_STRINGS,
    ONNX_ATTR_OTHER, /* and everything above but this: */
    ONNX_ATTR_SPARSE = 11
};

struct onnx_attr {
    char *name;
    int type; /* as stated, or as its contents say in old files */
    float f;
    int64_t i;
    struct pb_span s;   /* string, or the message of a tensor or a graph */
    struct pb_span ref; /* in a function: the call's attribute to take */
    float *floats;
    int64_t *ints;
    struct pb_span *strings;
    size_t count; /* of floats, ints or strings */
    bool used;
};

struct onnx_node {
    char *name, *op, *domain; /* "" where absent */
    struct pb_span overload;  /* of functions of one name */
    struct pb_span *in, *out; /* empty: absent optional */
    int n_in, n_out;
    struct onnx_attr *attr;
    int n_attr;
};

int onnx_node_parse(const struct onnx_model *m, struct pb_span span,
                    struct onnx_arena *arena, struct infer_error *err,
                    struct onnx_node *out);

/* An AttributeProto outside of a node. */
int onnx_attr_parse(const struct onnx_model *m, struct pb_span span,
                    struct onnx_arena *arena, struct infer_error *err,
                    struct onnx_attr *out);

/* ---- inputs and outputs -------------------------------------------- */

struct onnx_value_info {
    struct pb_span name;
    bool is_tensor;
    int64_t elem_type;
    int rank;                              /* -1: no shape given */
    int64_t dim[INFER_MAX_RANK];           /* -1: named or unknown */
    struct pb_span symbol[INFER_MAX_RANK]; /* its name, or empty */
};
int onnx_value_info_parse(const struct onnx_model *m, struct pb_span span,
                          struct infer_error *err, struct onnx_value_info *out);

/* ---- tensors ------------------------------------------------------- */

/* Name of a SparseTensorProto: that of its values (import/sparse.c). */
int onnx_sparse_name(const struct onnx_model *m, struct pb_span span,
                     struct infer_error *err, struct pb_span *out);
/* Name of a TensorProto without reading the rest. */
int onnx_tensor_name(const struct onnx_model *m, struct pb_span span,
                     struct infer_error *err, struct pb_span *out);
/* The tensor as a constant, which the model keeps: a borrowed reference.
 * Payloads that lie in the file are referenced there and not copied; for that
 * they may be moved by a few bytes into alignment. */
int onnx_tensor_load(struct onnx_model *m, struct pb_span span,
                     struct infer_error *err, struct constant **out);
/* The transpose of a matrix that onnx_tensor_turn() has made, or NULL; a
 * borrowed reference. */
struct constant *onnx_tensor_turned(const struct onnx_model *m,
                                    struct pb_span span);
/* Transposes a matrix that was loaded and that the model alone refers to.  The
 * transpose takes its place; the matrix is made again if it is loaded later.  A
 * borrowed reference, or NULL where memory is short. */
struct constant *onnx_tensor_turn(struct onnx_model *m, struct pb_span span);
/* The type in narrow.h of a tensor that was loaded, or 0. */
int onnx_tensor_narrow(const struct onnx_model *m, struct pb_span span);
/* Drops those that the model keeps. */
void onnx_tensors_clear(struct onnx_model *m);
/* A serialised TensorProto of its own (test data); a new reference. */
int onnx_tensor_read(struct blob *blob, struct infer_error *err,
                     struct constant **out);

#endif
