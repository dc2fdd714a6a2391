/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a resize: for each dimension and output, which inputs it takes
 * and with what weights.  The result is the sum over the product of the tables.
 */
#ifndef KERNELS_RESIZE_H
#define KERNELS_RESIZE_H

#include "kernels/kern.h"

/* Output i takes inputs index[i * taps ..] with weights weight[i * taps ..];
 * inputs are named by their offset in elements. */
struct resize_table {
    int64_t taps;
    int64_t *index;
    double *weight;
};

/* The table of dimension d; to be freed also after a failure. */
int resize_table_make(const struct kern_problem *p, int d,
                      struct infer_error *err, struct resize_table *out);
void resize_table_free(struct resize_table *t); /* zeroed ones too */

/* EUNSUPPORTED where an antialias filter would span too many inputs. */
int resize_check(const struct kern_problem *p, struct infer_error *why);

#endif
