/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of layer lists share (Darknet, Caffe, ncnn): a network in
 * one text file, its weights in another.
 *
 * A builder function adds one node and infers the shape of its output, so that
 * a layer can ask for the shapes of its inputs.  It returns the value, or a
 * negative number: then the builder has failed, and every later call does
 * nothing and returns that number too, so that the end alone is checked.
 */
#ifndef WEIGHTS_LAYERS_LAYERS_H
#define WEIGHTS_LAYERS_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libinfer/graph/graph.h"
#include "weights/weights.h"

/* ---- text ---------------------------------------------------------- */

/* Part of a text file; no NUL at its end. */
struct layers_text {
    const char *data;
    size_t bytes;
};

bool layers_text_is(struct layers_text t, const char *word);
/* Without white space at both ends. */
struct layers_text layers_text_trim(struct layers_text t);
/* Cuts off the part before the first `mark`, which goes too; false where t is
 * empty. */
bool layers_text_cut(struct layers_text *t, char mark,
                     struct layers_text *part);
/* Whole numbers from min to max and finite numbers, in decimal; false for any
 * other text. */
bool layers_text_int(struct layers_text t, int64_t min, int64_t max,
                     int64_t *out);
bool layers_text_float(struct layers_text t, float *out);
/* Width and text of at most 64 characters, for "%.*s". */
#define LAYERS_SHOW(t) (int)((t).bytes < 64 ? (t).bytes : 64), (t).data

/* A number for each of many names; zeroed at first.  Names are not copied. */
struct layers_map_entry {
    struct layers_text name; /* data NULL: free */
    int number;
};
struct layers_map {
    struct layers_map_entry *entry;
    size_t slots, count;
};
/* The number of a name, -1 where it is new; NULL when out of memory.  It moves
 * when a name is added. */
int *layers_map_at(struct layers_map *m, struct layers_text name);
/* -1 where the name is not there. */
int layers_map_find(const struct layers_map *m, struct layers_text name);
void layers_map_clear(struct layers_map *m);

/* ---- files --------------------------------------------------------- */

/* A format of two files: the endings of its network and of its weights, and
 * what reads them.  weights is NULL where only the network is there. */
struct layers_pair {
    const char *network, *weights;
    int (*read)(const struct weights_file *network,
                const struct weights_file *weights,
                const struct weights_options *options, struct infer_error *err,
                struct weights_import *out);
};
/* Reads a format from one of its files, is_network saying from which
 * (struct weights_format).  The other is the one that --arch names, for
 * weights, or lies beside it by the same stem; a symbolic link is refused.  The
 * import gets path and size of the other.  Weights without their network are
 * EUNSUPPORTED. */
int layers_read_pair(const struct layers_pair *pair, struct weights_file *file,
                     bool is_network, const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out);

/* ---- layers that are not supported --------------------------------- */

#define LAYERS_MAX_REFUSED 32
struct layers_refused {
    int count, more; /* more: occurrences that found no room in the list */
    struct {
        struct layers_text kind;
        int count;
    } item[LAYERS_MAX_REFUSED];
};
void layers_refuse(struct layers_refused *r, struct layers_text kind);
/* EUNSUPPORTED with one line a kind, or 0 where there are none. */
int layers_refused_report(const struct layers_refused *r,
                          struct infer_error *err);

/* ---- building the graph -------------------------------------------- */

struct layers {
    struct graph *g;
    struct infer_error *err;
    int status; /* negative after a failure */
    const struct weights_options *options;
    /* The layer at hand: "Pooling" and "pool1".  An empty name: none. */
    struct layers_text kind;
    char name[256];
    size_t made; /* bytes of constants that no file holds */
};

/* Fails with "OP kind 'name': text", or with the text alone. */
int layers_fail(struct layers *b, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int layers_no_room(struct layers *b);
/* The layer at hand; long names are cut, and what is not UTF-8 replaced. */
void layers_begin(struct layers *b, struct layers_text kind,
                  struct layers_text name);

/* An F32 input: batch free, --input-shape stands in for the sizes of dimension
 * 2 and above. */
int layers_input(struct layers *b, struct layers_text name, int rank,
                 const int64_t *dim);
/* Makes the value an output called `name` (empty: its own name); an inner value
 * of that name gives it up. */
int layers_output(struct layers *b, int value, struct layers_text name);

/* The defaults of an operation, to be changed and handed to layers_emit(). */
union graph_attr layers_defaults(enum graph_op op);
/* Adds a node with one output.  role "" names it as the layer, else
 * "layer/role".  attr NULL: the defaults. */
int layers_emit(struct layers *b, enum graph_op op, const char *role,
                const union graph_attr *attr, const int *in, int n_in);
/* The same with n_out outputs. */
int layers_emit_all(struct layers *b, enum graph_op op, const char *role,
                    const union graph_attr *attr, const int *in, int n_in,
                    int *out, int n_out);
int layers_unary(struct layers *b, const char *role, int x,
                 enum kern_unary_kind kind, float a, float c);
int layers_binary(struct layers *b, const char *role,
                  enum kern_binary_kind kind, int x, int y);
/* reshape, transpose, tile, ...: operations of struct graph_dims. */
int layers_dims(struct layers *b, enum graph_op op, const char *role, int x,
                int n, const int64_t *dim);
int layers_flatten(struct layers *b, const char *role, int x);
/* Elements from begin to end of one axis, each step. */
int layers_slice(struct layers *b, const char *role, int x, int axis,
                 int64_t begin, int64_t end, int64_t step);

/* ShuffleNet's order of channels: channels as groups x rest, which change
 * places.  Of a picture of free size, too. */
int layers_shuffle(struct layers *b, int x, int64_t groups);

/* x (bias + alpha mean(x^2))^-beta, the mean over size x size pixels of the
 * plane; padding counts in the mean. */
int layers_lrn_within(struct layers *b, int x, int size, float alpha,
                      float beta, float bias);

/* Shape of a value; a free dimension is -1. */
int layers_rank(const struct layers *b, int value);
int64_t layers_dim(const struct layers *b, int value, int i);
/* The size of a dimension, or a failure where it is free. */
int64_t layers_known(struct layers *b, int value, int i);
/* Product of the dimensions from `from` on, or a failure (-1). */
int64_t layers_count(struct layers *b, int value, int from);

/* A constant called "layer.suffix"; takes the reference over.  NULL is a
 * failure for want of memory. */
int layers_constant(struct layers *b, const char *suffix, struct constant *c);
/* A weight without data: the network came without its weights. */
int layers_unbound(struct layers *b, const char *suffix, int rank,
                   const int64_t *dim);
/* n copies of a number. */
int layers_filled(struct layers *b, const char *suffix, int64_t n, float value);
/* Zeroed room for a constant that no file holds; NULL after a failure, also
 * beyond the limit for all of them. */
struct constant *layers_new(struct layers *b, enum infer_dtype dtype, int rank,
                            const int64_t *dim);
#define LAYERS_MAX_MADE ((size_t)48 << 20)

/* Floats of a file, as many as the shape has: a view of the blob where they are
 * aligned, else a copy.  No two views may share bytes.  NULL when out of
 * memory. */
struct constant *layers_floats(struct blob *blob, unsigned char *data, int rank,
                               const int64_t *dim);

#endif
