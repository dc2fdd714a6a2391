/* SPDX-License-Identifier: Apache-2.0 */
/* Laying out blocks in one piece of memory by their lifetimes. */
#ifndef LIBINFER_MEMORY_ARENA_H
#define LIBINFER_MEMORY_ARENA_H

#include <stddef.h>

#include "include/infer.h"

/* Every block starts at a multiple of this: a cache line, and what kernels
 * ask for. */
#define ARENA_ALIGN 64

struct arena_item {
    size_t bytes;
    int first, last; /* steps at which it is written first and read last */
    size_t offset;   /* result */
};

/* Sets the offsets so that items alive at the same step do not overlap, and
 * *total to the bytes needed.  Where reuse is false nothing overlaps.
 * EMEMORY where the sum does not fit or memory for the work is lacking. */
int arena_place(struct arena_item *item, int n, int reuse,
                struct infer_error *err, size_t *total);

#endif
