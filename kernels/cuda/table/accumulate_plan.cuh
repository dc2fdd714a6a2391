/* SPDX-License-Identifier: Apache-2.0 */
/* Layers whose sums go through an accumulator (kernels/table/accumulator.h):
 * the part of conv_f32_cuda_table that computes them. */
#ifndef KERNELS_CUDA_TABLE_ACCUMULATE_PLAN_CUH
#define KERNELS_CUDA_TABLE_ACCUMULATE_PLAN_CUH

#include "kernels/cuda/table/tile.cuh"

/* How such a problem is cut into tasks. */
struct accumulate_plan {
    int shape;   /* of those in accumulate.cu */
    size_t room; /* bytes of shared memory for the table; 0: it is not there */
    int column_blocks, scalar_blocks, splits, split_terms, blocks;
    /* Sums in the workspace: of runs, or of chunks; 0: none. */
    int parts;
    bool chunks;
};

void accumulate_plan_for(const struct table_geometry *g, int m,
                         const struct kern_device *d,
                         struct accumulate_plan *s);

/* Bytes of the sums in the workspace. */
size_t accumulate_bytes(const struct table_geometry *g,
                        const struct accumulate_plan *s);

/* tile: of the problem, but for how it is cut; accumulator: in the device's
 * memory. */
int accumulate_launch(const struct accumulate_plan *s,
                      const struct tile_args *tile, const void *accumulator,
                      void *stream, struct infer_error *err);

#endif
