/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Darknet reader share.
 *
 *   darknet.c       the format row, and the walk over the sections
 *   config.c        network.cfg -> sections with their options
 *   conv_layers.c   layers with weights, and their activations
 *   plain_layers.c  all other layers
 *
 * A section is one layer and one value.  A value of a layer without space
 * (connected, softmax) is N,C in the graph; Darknet sees it as C planes of 1x1.
 */
#ifndef WEIGHTS_DARKNET_DARKNET_H
#define WEIGHTS_DARKNET_DARKNET_H

#include "weights/bytes.h"
#include "weights/layers/layers.h"

/* Most pixels of a pad, stride, window, ...: sums of some fit in an int. */
#define DARKNET_MAX_STEP 65536

struct darknet_option {
    struct layers_text key, value;
};

struct darknet_section {
    struct layers_text type; /* "convolutional" */
    int first, n_options;    /* of the list of all options */
};

struct darknet_config {
    struct darknet_section *section;
    int n_sections, sections_capacity;
    struct darknet_option *option;
    int n_options, options_capacity;
};

/* Views into the text. */
int darknet_config_parse(const void *text, size_t bytes,
                         struct infer_error *err, struct darknet_config *out);
void darknet_config_clear(struct darknet_config *config);
/* True for text whose first section is [net] or [network]. */
bool darknet_config_probe(const void *text, size_t bytes);

struct darknet {
    struct layers b;
    struct darknet_config config;
    const struct darknet_section *section; /* being built */
    int at;                                /* number of its layer, from 0 */
    int *value; /* of each layer so far; -1: none (the loss and the heads) */
    struct blob *weights; /* NULL: the network came alone */
    struct bytes cursor;  /* in the weights */
    bool transposed;      /* weights of connected layers */
    int *head;            /* values that are outputs */
    int n_heads;
    /* "detect:darknet:" and the anchors of each head; "": a head is of another
     * kind, or there are too many. */
    char task[1024];
    bool other_heads;
    struct weights_import *import;
};

/* ---- options of the section at hand -------------------------------- */

/* An option's text; false where it is absent. */
bool darknet_option(const struct darknet *d, const char *key,
                    struct layers_text *out);
/* Where the option is absent, otherwise is the result.  A value of another kind
 * or out of range is a failure. */
int darknet_int(struct darknet *d, const char *key, int min, int max,
                int otherwise);
float darknet_float(struct darknet *d, const char *key, float otherwise);
/* Fails where one of the options (a NULL-terminated list) is there and not 0:
 * it would change the result. */
void darknet_refuse_options(struct darknet *d, const char *const *keys);
/* A layer's value by its number, or from the layer at hand backwards where it
 * is negative. */
int darknet_layer_value(struct darknet *d, struct layers_text number);

/* ---- building ------------------------------------------------------ */

/* The next floats of the weights, or a weight without data. */
int darknet_weight(struct darknet *d, const char *suffix, int rank,
                   const int64_t *dim);
/* N,C becomes N,C,1,1. */
int darknet_picture(struct darknet *d, int x);
/* Applies the section's activation. */
int darknet_activation(struct darknet *d, int x, const char *otherwise);

/* One layer: takes the value of the layer before and gives its own, or -1 for a
 * head, or a failure in d->b.status. */
typedef int darknet_layer_fn(struct darknet *d, int x);
#define DARKNET_LAYER(type, function) darknet_layer_fn function;
#include "weights/darknet/layers.def"
#undef DARKNET_LAYER

/* Reads a network; weights may be NULL. */
int darknet_read(const struct weights_file *config,
                 const struct weights_file *weights,
                 const struct weights_options *options, struct infer_error *err,
                 struct weights_import *out);

#endif
