/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the rows of baseline.def to the table. */
#include "config.h"

#include "kernels/backend.h"
#include "kernels/rows.h"

#ifdef HAVE_CUDNN

#define KERN_ROW(row, op, backend, layout, dtype, acc, min_sm, flags, fn)      \
    extern const struct kern_functions fn;
#include "kernels/cudnn/baseline/baseline.def"
#undef KERN_ROW

static const struct kern_row rows[] = {
#define KERN_ROW KERN_ROW_ENTRY
#include "kernels/cudnn/baseline/baseline.def"
#undef KERN_ROW
};

void kern_baseline_add(void)
{
    kern_rows_add(rows, sizeof rows / sizeof rows[0]);
}

#else

void kern_baseline_add(void)
{
}

#endif
