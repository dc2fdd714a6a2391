/* SPDX-License-Identifier: Apache-2.0 */
/* Input and output arrays of runs, for wconv and infer. */
#ifndef TOOLS_ARRAY_H
#define TOOLS_ARRAY_H

#include <stdbool.h>

#include "include/infer.h"

struct graph;

/* Largest number of inputs or outputs of a network. */
#define ARRAYS_MAX 64

/* Inputs or outputs of one run; the struct owns their data. */
struct arrays {
    struct infer_array item[ARRAYS_MAX];
    int count;
};
void arrays_clear(struct arrays *a);

/* Number of elements; the shape has been checked. */
int64_t array_count(const struct infer_array *a);
/* Allocates the data of an array whose dtype, rank and dim are set; `what`
 * ("input") and name are for the error.  The limit is half of the machine's
 * memory: the network needs as much again, and Linux overcommits. */
int array_alloc(const char *what, const char *name, struct infer_array *a,
                struct infer_error *err);
/* Fills an F32 array with numbers in [-1, 1), an integer array with 0 to 7;
 * advances *seed. */
void array_fill(struct infer_array *a, uint64_t *seed);

/* The tools choose a free size by its place: the first is the batch, the second
 * counts channels.  Of a state D,N,H, whose first size is fixed, the second is
 * the batch.  Where the shapes in[i] of g's inputs do not agree, but do so with
 * the batch at the first free size of each such input, it goes there; made:
 * whether in[i] is the tool's to choose.  g is sorted. */
void state_sizes(const struct graph *g, const bool *made,
                 struct infer_array *in);

#endif
