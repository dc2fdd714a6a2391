/* SPDX-License-Identifier: Apache-2.0 */
/* What convolution and its transpose share: rows of outputs are summed in
 * double, one at a time, then finished and stored. */
#ifndef KERNELS_REF_CONV_CONV_H
#define KERNELS_REF_CONV_CONV_H

#include "kernels/ref/conv/product.h"
#include "kernels/ref/window.h"

struct ref_conv {
    const struct kern_problem *p;
    const struct kern_args *args;
    struct ref_window w;
    struct ref_table table;
    double *sum;               /* one a column of y: the workspace */
    int64_t point, point_step; /* of the row, where table.slope is there */
};

/* Adds to the sums, which are zero, all that makes the row (od, oh) of channel
 * k of image n. */
typedef void ref_conv_fn(const struct ref_conv *v, int64_t n, int64_t k,
                         int64_t od, int64_t oh);

/* A row's prepare(). */
int ref_conv_prepare(struct kern_exec *e, const struct kern_device *d,
                     struct infer_error *err);
/* Computes the whole output with its epilogue. */
void ref_conv_run(const struct kern_exec *e, const struct kern_args *args,
                  ref_conv_fn *add_row);

#endif
