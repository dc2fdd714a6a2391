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
