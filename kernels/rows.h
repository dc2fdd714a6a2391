/* SPDX-License-Identifier: Apache-2.0 */
/* The names that kernels.def gives: the functions that kernels define, and the
 * number of each row, for kernels that run other rows. */
#ifndef KERNELS_ROWS_H
#define KERNELS_ROWS_H

#include "kernels/kern.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERN_ROW(row, op, backend, layout, dtype, acc, min_sm, flags, fn)      \
    extern const struct kern_functions fn;
#include "kernels/kernels.def"
#undef KERN_ROW

/* The bits of an output do not depend on what else is computed; a further flag
 * of struct kern_row.  On a CPU: of a deterministic problem, not on the number
 * of threads: prepare() chooses by kern_device.threads nothing that changes a
 * sum.  On a GPU: not on the other images of the batch, nor on how many there
 * are (dimension 0 of what is no constant), as long as the variant is not one
 * of KERN_OTHER_SUMS, and whichever of the others it is. */
#define KERN_INVARIANT (1u << 16)

/* A further flag of struct kern_exec: this variant adds the terms of an output
 * in another order than those of the row that are not flagged, or in one that
 * depends on the batch, as split-K's parts do. */
#define KERN_OTHER_SUMS (1u << 17)

/* True for rows that are flagged KERN_INVARIANT, and for the reference. */
bool kern_row_is_invariant(const struct kern_row *row);

/* A line of the table as an element of an array of struct kern_row. */
#define KERN_ROW_ENTRY(row, op_, backend_, layout_, dtype_, acc_, sm, flags_,  \
                       fn_)                                                    \
    {.name = #row,                                                             \
     .op = KERN_##op_,                                                         \
     .backend = INFER_BACKEND_##backend_,                                      \
     .layout = KERN_##layout_,                                                 \
     .dtype = INFER_##dtype_,                                                  \
     .acc = INFER_##acc_,                                                      \
     .min_sm = sm,                                                             \
     .flags = flags_,                                                          \
     .fn = &(fn_)},

/* For kern_row_at(). */
enum kern_row_number {
#define KERN_ROW(row, ...) KERN_ROW_##row,
#include "kernels/kernels.def"
#undef KERN_ROW
};

#ifdef __cplusplus
}
#endif

#endif
