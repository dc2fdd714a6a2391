/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFlow Lite: a network of the file that is imported in place of an
 * operator: once (IF, composites, CALL_ONCE, branch.c) or once an iteration
 * (WHILE, loop.c).
 *
 * A network of the file is a list of tensors and a list of operators over them.
 * Each import has values of its own for the tensors; those of constants go from
 * one to the next, so that iterations share weights.
 */
#ifndef WEIGHTS_TFLITE_NETWORK_H
#define WEIGHTS_TFLITE_NETWORK_H

#include "weights/tflite/tflite.h"

/* Inputs or outputs of a network, or variables of a loop. */
#define TFLITE_MAX_STATES 64
/* Networks in networks. */
#define TFLITE_MAX_NESTED 4

/* Values that go into a network or come out of it, each with references of its
 * own. */
struct tflite_states {
    struct tflite_value v[TFLITE_MAX_STATES];
    struct tflite_tensor t[TFLITE_MAX_STATES]; /* type and quantisation */
    int n;
};

/* What an inner network takes the place of. */
struct tflite_outer {
    struct fb_vector tensors, inputs, outputs, operators;
    unsigned char *own;
    struct tflite_value *value;
    int n_values, first_node;
    struct tflite_operator op;
    const struct tflite_op *row;
    bool raw, parts_found;
};

struct tflite_network {
    int graph;
    struct tflite_value *value; /* between iterations: constants alone */
    int n_values;
    bool selected;
};

/* Imports the network once more; tflite_network_end() must follow.  False after
 * an error, which the importer holds. */
bool tflite_network_begin(struct tflite_import *im, struct tflite_network *b,
                          const struct tflite_states *s,
                          struct tflite_outer *o);
void tflite_network_end(struct tflite_import *im, struct tflite_network *b,
                        const struct tflite_outer *o);
/* Output o of the network that has begun. */
bool tflite_network_output(struct tflite_import *im, int o,
                           struct tflite_value *v, struct tflite_tensor *t);

/* The operator's inputs from `first` on, behind those of s. */
void tflite_network_take_inputs(struct tflite_import *im,
                                struct tflite_states *s, int first);
/* The operator's outputs become s. */
void tflite_network_give_outputs(struct tflite_import *im,
                                 struct tflite_states *s);

void tflite_network_drop_states(struct tflite_states *s);
void tflite_network_drop(struct tflite_network *b);

#endif
