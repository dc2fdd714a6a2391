/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which values of a plan's graph get more channels, and how many.
 *
 * Values whose channels are the same, as those before and after an activation,
 * are a set; a convolution's input and output are of different sets.  A
 * concatenation or a split along the channels cuts the channels of its whole
 * into those of its parts; each piece between two cuts is padded by itself, so
 * that parts stay parts.  Sets that cuts connect are padded all or none: none
 * if one holds an input or an output of the network, or a value of a node that
 * is not listed in visit(), or if that took too many more bytes.
 */
#ifndef LIBINFER_PLAN_PAD_SETS_H
#define LIBINFER_PLAN_PAD_SETS_H

#include "libinfer/plan/plan.h"

/* Where the channels of a set are cut, in order: 0 and their number included.
 */
#define PAD_MOST_CUTS 66
struct pad_cuts {
    int n;
    int64_t at[PAD_MOST_CUTS];
};

/* A part of a value's channels is those of another value. */
struct pad_link {
    int whole, part;
    int64_t first;
};

struct pad_sets {
    struct plan *plan;
    struct graph *g;
    int *uses;   /* one a value */
    int *parent; /* one a value: of a tree for each set */
    /* Of the root of a set: */
    bool *fixed;
    bool *nonzero; /* further channels may hold other numbers than 0 */
    int *members;
    int64_t *width; /* channels that were asked for; 0: the next multiple */
    int *group;     /* a value: of a tree for the sets that links connect */
    double *grown;  /* elements that padding adds less those that it may add */
    struct pad_cuts **cuts; /* NULL: none */
    struct pad_link *link;
    int n_links, links_capacity;
};

/* Finds the sets; pad_sets_clear() frees them.  EMEMORY. */
int pad_sets_find(struct plan *plan, struct infer_error *err,
                  struct pad_sets *out);
void pad_sets_clear(struct pad_sets *s);

/* Channels of a value before padding; 0 where it has none.  Until
 * g->value[v].dim changes. */
int64_t pad_channels_before(const struct pad_sets *s, int v);
/* The place of a channel after padding; that of the number of channels is their
 * number after padding. */
int64_t pad_place(struct pad_sets *s, int v, int64_t channel);
/* The channels up to which that of `channel` and those after it stay
 * neighbours. */
int64_t pad_piece_end(struct pad_sets *s, int v, int64_t channel);

/* One input and one output channel a group. */
bool pad_is_depthwise(const struct pad_sets *s, const struct graph_node *n);
/* The dimension of an operand that is the channels of y; -1 where there is
 * none, so that it broadcasts. */
int pad_channel_dim(const struct pad_sets *s, int v, int y);
/* Channels of zeros are appended, nothing else. */
bool pad_appends_zeros(const struct graph_node *n);
/* Input i of a node, -1 where absent. */
int pad_input(const struct graph_node *n, int i);

#endif
