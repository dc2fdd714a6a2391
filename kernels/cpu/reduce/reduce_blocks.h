/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reductions over any axes of strided tensors share.  A block is the
 * elements that one output is reduced from.  Their offsets from the block's
 * first element are the same for all outputs, so that one list serves all;
 * contiguous outputs are handled together.
 */
#ifndef KERNELS_CPU_REDUCE_REDUCE_BLOCKS_H
#define KERNELS_CPU_REDUCE_REDUCE_BLOCKS_H

#include "kernels/cpu/cpu.h"

/* Elements of a block at most: its list stays in the second-level cache. */
#define REDUCE_MAX_BLOCK 16384
/* Outputs that are handled together. */
#define REDUCE_TILE 64

/* The state of a row; first cpu_state, which cpu_threads_of() reads. */
struct reduce_blocks {
    struct cpu_state base;
    int64_t count; /* elements of a block */
    int64_t *at;   /* their offsets in each tensor in turn, row-major order */
};

/* Elements of a block of t under the axes. */
int64_t reduce_block_count(const struct kern_tensor *t, uint32_t axes);
/* Makes e->state for n tensors of one shape. */
int reduce_blocks_make(struct kern_exec *e, const struct kern_device *d,
                       const struct kern_tensor *const *t, int n, uint32_t axes,
                       struct infer_error *err);
void reduce_blocks_release(struct kern_exec *e);
/* t with its reduced dimensions set to size 1. */
struct kern_tensor reduce_kept(const struct kern_tensor *t, uint32_t axes);

#endif
