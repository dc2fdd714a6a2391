/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow's graphs (GraphDef) as light structs that point into the file.
 *
 * Opening a graph records the name, the operator and the inputs of each node.
 * Functions of the graph's library are expanded in place of their calls, so
 * that one list of nodes is left.  Attributes are parsed when a node is
 * imported.
 */
#ifndef WEIGHTS_TENSORFLOW_GRAPHDEF_H
#define WEIGHTS_TENSORFLOW_GRAPHDEF_H

#include "weights/onnx/proto.h"
#include "weights/protobuf/protobuf.h"

/* What a graph may hold after its functions are expanded. */
#define TF_MAX_NODES      (1 << 17)
#define TF_MAX_EDGES      (1 << 20)
#define TF_MAX_DEPTH      32   /* of calls of functions */
#define TF_MAX_ITERATIONS 4096 /* of a loop */
/* Of a function.  What saves the variables has an argument for each. */
#define TF_MAX_ARGS    16384
#define TF_MAX_RESULTS 1024
/* Bytes of names that are made here, all together. */
#define TF_MAX_NAMES ((size_t)32 << 20)

/* Output `port` of a node. */
struct tf_edge {
    int node, port;
};

struct tf_node {
    struct pb_span name, op;
    struct pb_span message; /* NodeDef; empty: an argument of a function */
    int first, n_in;        /* data inputs: tf_graph.edge[first ...] */
    /* Output k is input k: identities, calls that were expanded, arguments. */
    bool alias;
    bool dead;     /* of a branch that is not taken: no output */
    bool renamed;  /* an output of the network has its name */
    bool restored; /* a variable: message is its BundleEntryProto */
};

/* A function of the library. */
struct tf_function {
    struct pb_span name, message;
};

/* Open-addressing hash of names: index of a node + 1. */
struct tf_names {
    uint32_t *slot;
    size_t slots;
};

struct tf_graph {
    struct blob *blob; /* a reference */
    struct tf_node *node;
    int n_nodes, nodes_capacity;
    int n_outer; /* nodes of the outermost graph; they come first */
    struct tf_edge *edge;
    int n_edges, edges_capacity;
    struct tf_function *function; /* sorted by name */
    int n_functions;
    struct tf_names names; /* of the outermost graph */
    struct onnx_arena arena;
    size_t made;        /* bytes of names made */
    uint64_t scanned;   /* bytes of functions read so far */
    int64_t producer;   /* version of GraphDef */
    int n_expanded;     /* calls */
    uint64_t looked_at; /* bytes of nodes, for the conditions of loops */
};

bool tf_same(struct pb_span a, struct pb_span b);
/* A reader of part of the file; errors give offsets in the file. */
struct pb_reader tf_reader(const struct tf_graph *g, struct pb_span span);

/* Reads the GraphDef message `span` of blob. */
int tf_graph_open(struct blob *blob, struct pb_span span,
                  struct infer_error *err, struct tf_graph *g);
void tf_graph_close(struct tf_graph *g);

/* Node of the outermost graph by name, or -1. */
int tf_find(const struct tf_graph *g, struct pb_span name);
/* "name" or "name:port", as signatures write tensors; EFORMAT where there is
 * no such node. */
int tf_tensor(const struct tf_graph *g, struct pb_span text,
              struct infer_error *err, struct tf_edge *out);
/* The edge that really produces e: behind identities and calls, which are then
 * shortened to it.  EFORMAT for a cycle or a port that does not exist. */
int tf_resolve(struct tf_graph *g, struct tf_edge e, struct infer_error *err,
               struct tf_edge *out);
/* Input i of a node, resolved. */
int tf_input(struct tf_graph *g, int node, int i, struct infer_error *err,
             struct tf_edge *out);
/* The AttrValue message of a node's attribute; empty where it is absent. */
int tf_attr_span(const struct tf_graph *g, int node, const char *name,
                 struct infer_error *err, struct pb_span *out);

/* ---- parts of the graph that open it (functions.c) ----------------- */

/* The nodes of one message, their names and what their arguments are. */
struct tf_scope {
    struct pb_span message;
    uint32_t field;        /* of the nodes: GraphDef 1, FunctionDef 3 */
    struct pb_span prefix; /* name of the call; empty: the outermost graph */
    int depth;
    int first, n_args; /* nodes of this scope from `first` on */
    int end;
    struct tf_names names;
};

int tf_add_node(struct tf_graph *g, const struct tf_node *node,
                struct infer_error *err);
int tf_add_edge(struct tf_graph *g, struct tf_edge e, struct infer_error *err);
int tf_add_scope(struct tf_graph *g, struct tf_scope *s,
                 struct infer_error *err);
/* "node:port" of the outermost graph, "node:output:port" of a function. */
int tf_scope_tensor(const struct tf_graph *g, const struct tf_scope *s,
                    struct pb_span text, struct infer_error *err,
                    struct tf_edge *out);
int tf_read_library(struct tf_graph *g, struct pb_span library,
                    struct infer_error *err);
/* Replaces a node that calls a function by the function's body. */
int tf_expand_call(struct tf_graph *g, int node, int depth,
                   struct infer_error *err);
/* The same, of a named function. */
int tf_expand_function(struct tf_graph *g, int node, struct pb_span name,
                       int depth, struct infer_error *err);
/* Name of the function that an attribute of a node holds. */
int tf_function_of(const struct tf_graph *g, int node, const char *attr,
                   struct infer_error *err, struct pb_span *out);
/* True where op is a loop (While). */
bool tf_is_loop(struct pb_span op);
/* Replaces a loop by as many copies of its body as it has iterations; leaves it
 * where their number is not known, or too large (loops.c). */
int tf_expand_loop(struct tf_graph *g, int node, int depth,
                   struct infer_error *err);
/* Input i of a node, a small constant, as at most TF_MAX_LIST integers. */
#define TF_MAX_LIST 8
bool tf_input_ints(struct tf_graph *g, int node, int i, int64_t *out, int *n);
/* True where a node calls a function; its name in *out. */
int tf_called(const struct tf_graph *g, int node, struct infer_error *err,
              struct pb_span *out);

#endif
