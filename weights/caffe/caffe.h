/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Caffe reader share.
 *
 *   caffe.c       the format row
 *   prototxt.c    protobuf's text format -> a tree of fields
 *   fields.c      reading fields of the layer at hand
 *   blobs.c       the binary network: the weights of each layer
 *   net.c         inputs, the walk over the layers, outputs
 *   *_layers.c    one function a layer type, listed in layers.def
 *
 * The network comes from the text, the weights from the binary, by the names of
 * layers.  Both messages are NetParameter, with layers in the new form
 * (`layer`) or in the one before (`layers`, types as enumerators).
 */
#ifndef WEIGHTS_CAFFE_CAFFE_H
#define WEIGHTS_CAFFE_CAFFE_H

#include "weights/layers/layers.h"

/* Most elements of a pad, stride, window, ...: sums of some fit in an int. */
#define CAFFE_MAX_STEP 65536

/* ---- text ---------------------------------------------------------- */

#define CAFFE_MAX_DEPTH 32

/* A field: a number, word or string, or a message. */
struct caffe_field {
    struct layers_text name, value;
    int child; /* first field of the message, or -1 */
    int next;  /* next field of the same message, or -1 */
    bool message;
};

struct caffe_text {
    struct caffe_field *field; /* field 0 is the whole text */
    int count, capacity;
};

int caffe_text_parse(const void *text, size_t bytes, struct infer_error *err,
                     struct caffe_text *out);
void caffe_text_clear(struct caffe_text *text);
/* True for text that has a layer in it. */
bool caffe_text_probe(const void *text, size_t bytes);
/* First field of a message with this name after `after` (-1: from the start),
 * or -1.  Any message index may be -1: then it has no fields. */
int caffe_find(const struct caffe_text *t, int message, const char *name,
               int after);

/* ---- binary -------------------------------------------------------- */

/* The elements of one blob. */
struct caffe_blob {
    unsigned char *data; /* packed floats in the file; NULL: none */
    size_t bytes;
    unsigned char *head; /* bytes before data that nothing reads again */
    int rank;
    int64_t dim[INFER_MAX_RANK];
};

struct caffe_weights {
    struct blob *file;
    struct caffe_blob *blob;
    int n_blobs, blobs_capacity;
    /* Of each layer with blobs. */
    struct caffe_layer_blobs {
        struct layers_text name;
        int first, count;
    } * layer;
    int n_layers, layers_capacity;
    struct layers_map by_name;
};

int caffe_weights_read(struct blob *file, struct infer_error *err,
                       struct caffe_weights *out);
void caffe_weights_clear(struct caffe_weights *w);
/* 0 no .. 100 certain. */
int caffe_weights_probe(const struct blob *file);

/* ---- the network --------------------------------------------------- */

struct caffe_layer;

struct caffe {
    struct layers b;
    struct caffe_text text;
    struct caffe_weights *weights; /* NULL: the network came alone */
    struct layers_map blobs;       /* name -> index of top */
    struct caffe_top {
        struct layers_text name;
        int value;
        bool used;
    } * top;
    int n_tops, tops_capacity;
    struct weights_import *import;
    /* The layer at hand. */
    int layer;                     /* its message */
    const struct caffe_layer *row; /* of layers.def */
    int param;                     /* its own message, or -1 */
    int stored;                    /* index of weights->layer, or -1 */
};

/* The inputs and outputs of one layer, as values of the graph. */
struct caffe_ends {
    int in[GRAPH_MAX_PARTS], n_in;
    int out[GRAPH_MAX_PARTS], n_out;
};

/* Builds the layer: fills ends->out. */
typedef void caffe_layer_fn(struct caffe *c, struct caffe_ends *ends, int arg);

struct caffe_layer {
    const char *type;   /* "Convolution" */
    const char *old;    /* "CONVOLUTION", or "" */
    const char *param;  /* "convolution_param", or "" */
    int min_in, max_in; /* bottoms; max_in -1: any number */
    caffe_layer_fn *build;
    int arg;
};

/* ---- fields of the layer's own message ----------------------------- */

/* Where the field is absent, otherwise is the result; a value of another kind
 * or out of range is a failure. */
int64_t caffe_int(struct caffe *c, int message, const char *name, int64_t min,
                  int64_t max, int64_t otherwise);
float caffe_float(struct caffe *c, int message, const char *name,
                  float otherwise);
bool caffe_bool(struct caffe *c, int message, const char *name, bool otherwise);
/* Index in words[] (NULL-terminated) of an enumerator, given by word or by
 * number. */
int caffe_word(struct caffe *c, int message, const char *name,
               const char *const *words, int otherwise);
/* Every value of a repeated field; how many there are. */
int caffe_ints(struct caffe *c, int message, const char *name, int64_t min,
               int64_t max, int max_count, int64_t *out);
int caffe_floats(struct caffe *c, int message, const char *name, int max_count,
                 float *out);
/* Two sizes, of rows and columns: `name` once or twice, or name_h and name_w
 * (spelt out in h and w). */
void caffe_pair(struct caffe *c, const char *name, const char *h, const char *w,
                int min, int otherwise, int out[2]);
/* An axis of a tensor of this rank, which may be negative. */
int caffe_axis(struct caffe *c, int message, const char *name, int rank,
               int otherwise);

/* ---- weights of the layer ------------------------------------------ */

/* Blob i in the shape given, or a weight without data.  Each blob once. */
int caffe_weight(struct caffe *c, int i, const char *suffix, int rank,
                 const int64_t *dim);
/* The same, to be worked on; NULL after a failure and without weights. */
struct constant *caffe_weight_data(struct caffe *c, int i, const char *suffix,
                                   int rank, const int64_t *dim);

/* ---- the functions of the table ------------------------------------ */

#define CAFFE_LAYER(type, old, param, min_in, max_in, function, arg)           \
    caffe_layer_fn function;
#include "weights/caffe/layers.def"
#undef CAFFE_LAYER
/* NULL where the type is not supported. */
const struct caffe_layer *caffe_layer_find(struct layers_text type);

/* Reads a network; weights may be NULL. */
int caffe_read(const struct weights_file *net,
               const struct weights_file *weights,
               const struct weights_options *options, struct infer_error *err,
               struct weights_import *out);

#endif
