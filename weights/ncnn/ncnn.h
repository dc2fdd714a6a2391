/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ncnn reader share.
 *
 *   ncnn.c         the format row, and the walk over the layers
 *   param.c        NAME.param, the network: text
 *   bin.c          NAME.bin, the weights
 *   *_layers.c     one function a layer type, listed in layers.def
 *
 * ncnn has no batch: its tensors of 1, 2 and 3 dimensions (w, h x w, c x h x w)
 * are N,W, N,H,W and N,C,H,W in the graph, and an axis is one more there.
 */
#ifndef WEIGHTS_NCNN_NCNN_H
#define WEIGHTS_NCNN_NCNN_H

#include "weights/bytes.h"
#include "weights/layers/layers.h"

/* Most elements of a pad, stride, window, ...: sums of some fit in an int. */
#define NCNN_MAX_STEP 65536
/* What parameters have in the place of "absent", "the rest", "same padding". */
#define NCNN_NONE (-233)

/* ---- text ---------------------------------------------------------- */

struct ncnn_layer_text {
    struct layers_text type, name;
    struct layers_text in, out; /* names, parted by blanks */
    int n_in, n_out;
    struct layers_text params; /* "0=24 1=3 ..." */
};

struct ncnn_param {
    struct ncnn_layer_text *layer;
    int count, capacity;
};

int ncnn_param_parse(const void *text, size_t bytes, struct infer_error *err,
                     struct ncnn_param *out);
void ncnn_param_clear(struct ncnn_param *param);
bool ncnn_param_probe(const void *text, size_t bytes);
/* The next word of a list; false at its end. */
bool ncnn_word(struct layers_text *list, struct layers_text *word);

/* ---- the network --------------------------------------------------- */

struct ncnn {
    struct layers b;
    struct ncnn_param param;
    const struct ncnn_layer_text *layer; /* at hand */
    struct layers_map blobs;             /* name -> index of top */
    struct ncnn_top {
        struct layers_text name;
        int value;
        bool used;
    } * top;
    int n_tops, tops_capacity;
    struct blob *weights; /* NULL: the network came alone */
    struct bytes cursor;
    struct weights_import *import;
};

/* The inputs and outputs of one layer, as values of the graph. */
struct ncnn_ends {
    int in[GRAPH_MAX_PARTS], n_in;
    int out[GRAPH_MAX_PARTS], n_out;
};

typedef void ncnn_layer_fn(struct ncnn *n, struct ncnn_ends *ends, int arg);

/* ---- parameters of the layer at hand, by number -------------------- */

/* Where the parameter is absent, otherwise is the result; a value of another
 * kind or out of range is a failure. */
int ncnn_int(struct ncnn *n, int id, int64_t min, int64_t max, int otherwise);
float ncnn_float(struct ncnn *n, int id, float otherwise);
/* An array, written under -23300 - id; how many there are. */
int ncnn_ints(struct ncnn *n, int id, int max_count, int64_t *out);
int ncnn_floats(struct ncnn *n, int id, int max_count, float *out);
/* An axis of the graph's tensor from one of ncnn's. */
int ncnn_axis(struct ncnn *n, int64_t axis, int rank);

/* ---- weights ------------------------------------------------------- */

/* The next weights: `tagged` ones state how they are stored. */
struct constant *ncnn_data(struct ncnn *n, const char *suffix, bool tagged,
                           int rank, const int64_t *dim);
int ncnn_weight(struct ncnn *n, const char *suffix, bool tagged, int rank,
                const int64_t *dim);

/* ---- building ------------------------------------------------------ */

/* The activation that a layer with weights ends in (parameters 9, 10). */
int ncnn_activation(struct ncnn *n, int x);
/* Brings x to the rank of the other input of an operation that broadcasts. */
int ncnn_spread(struct ncnn *n, int x, int other);

#define NCNN_LAYER(type, min_in, max_in, function, arg) ncnn_layer_fn function;
#include "weights/ncnn/layers.def"
#undef NCNN_LAYER

/* Reads a network; weights may be NULL. */
int ncnn_read(const struct weights_file *net,
              const struct weights_file *weights,
              const struct weights_options *options, struct infer_error *err,
              struct weights_import *out);

#endif
