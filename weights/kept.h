/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of a file, kept once while it is read.
 *
 * A file that lies in memory and its weights in the graph's order of axes would
 * be twice the weights.  A tensor that is transposed therefore takes the place
 * of the original, whose pages of the file go back to the system.  Who asks for
 * the original later gets it transposed back.
 */
#ifndef WEIGHTS_KEPT_H
#define WEIGHTS_KEPT_H

#include <stdbool.h>

#include "libinfer/graph/constant.h"

struct weights_kept_tensor {
    const void *key;    /* where it lies in the file; NULL: a free slot */
    struct constant *c; /* a reference */
    bool moved;
    int order[INFER_MAX_RANK]; /* of c, from the file's, where moved */
};

/* All zero: empty. */
struct weights_kept {
    struct weights_kept_tensor *at; /* open addressing */
    size_t count, slots;
};

void weights_kept_clear(struct weights_kept *k);
/* Keeps c under the key, which must be new; takes a reference of its own.
 * False where memory is short. */
bool weights_kept_add(struct weights_kept *k, const void *key,
                      struct constant *c);
bool weights_kept_has(const struct weights_kept *k, const void *key);
/* The tensor in the order of the file; a new reference, or NULL where the key
 * is unknown or memory is short. */
struct constant *weights_kept_get(const struct weights_kept *k,
                                  const void *key);
/* The tensor with dimension i from dimension order[i] of the file's, which it
 * replaces; a new reference, or NULL as above.  No other constant may view the
 * bytes of the original. */
struct constant *weights_kept_transpose(struct weights_kept *k, const void *key,
                                        const int *order);

#endif
