/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the kernel table that may compute one problem, and the choice
 * among them by estimate.
 *
 * Backends are asked tier by tier.  Rows of one tier compete by estimate or by
 * measurement; a later tier serves what no row of an earlier one computes.
 */
#ifndef LIBINFER_TUNE_ROWS_H
#define LIBINFER_TUNE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kern.h"
#include "libinfer/device/device.h"

#define ROW_MAX_TIERS 2

/* A set of backends, one bit each. */
#define ROW_TIER(backend) (UINT32_C(1) << (backend))

struct row_tiers {
    int n;
    uint32_t tier[ROW_MAX_TIERS]; /* in order of preference */
    /* The backend was asked for by name: products (convolution, dense, matmul)
     * come from the first tier only. */
    bool strict;
};

/* The tiers of a device; wanted: INFER_BACKEND_AUTO for the fastest, or a
 * backend of the device.  The last tier of a named backend is the one that has
 * every operation of the device. */
void row_tiers_choose(const struct device *d, enum infer_backend wanted,
                      struct row_tiers *out);

/* One problem that rows are asked about. */
struct row_query {
    const struct kern_problem *problem;
    const struct kern_device *device;
    bool aligned; /* every view is (row_view_is_aligned()) */
    /* Rows whose sums do not depend on the number of threads or, on a GPU, on
     * the batch come before the others (kern_row_is_invariant()). */
    bool invariant;
    /* On a GPU with `invariant`: images in dimension 0 of what is no constant;
     * rows are chosen as for ROW_BATCH of them, so that the choice does not
     * depend on the batch.  0: as for the problem. */
    int64_t batch;
};

/* With fewer images the device is not full, with more the best row is mostly
 * the same. */
#define ROW_BATCH 8

/* The problem as it is with ROW_BATCH images instead of `batch`; the problem
 * itself if the batch cannot be told from other sizes. */
void row_at_batch(const struct kern_problem *p, int64_t batch,
                  struct kern_problem *out);

/* Bytes that rows of a GPU read and write at once, at most (kern.h). */
#define ROW_GPU_ALIGN 16

/* True if a view that starts this many elements inside its buffer is aligned
 * for the device's rows.  Buffers are. */
bool row_view_is_aligned(const struct device *d, enum infer_dtype dtype,
                         int64_t offset);

/* True if the row belongs to the tier and computes the operation. */
static inline bool row_is_of(const struct kern_row *row, uint32_t tier,
                             enum kern_op op)
{
    return row->op == op && (tier >> row->backend & 1) != 0;
}

/* True if the row supports the problem, with q->batch also at ROW_BATCH images,
 * and, unless it is a KERN_STRIDED row, every view is aligned. */
bool row_takes(const struct row_query *q, const struct kern_row *row,
               struct infer_error *why);

/* Prepares the first variant that has the sums of an invariant row
 * (KERN_OTHER_SUMS), or variant 0 if there is none. */
int row_prepare_invariant(const struct kern_row *row,
                          const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *err,
                          struct kern_exec *out);

/* The row of the tier that takes the problem with the lowest estimate; baseline
 * rows are not asked.  Two rows of which one has no estimate keep the order of
 * the table.  *us: the estimate in microseconds, 0 without one; may be NULL. */
const struct kern_row *row_best(const struct row_query *q, uint32_t tier,
                                struct infer_error *why, double *us);

#endif
