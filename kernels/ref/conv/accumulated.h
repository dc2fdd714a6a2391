/* SPDX-License-Identifier: Apache-2.0 */
/* Products of a table in the reference that are added by an accumulator. */
#ifndef KERNELS_REF_CONV_ACCUMULATED_H
#define KERNELS_REF_CONV_ACCUMULATED_H

#include "kernels/table/accumulator.h"

/* Computes the whole output of a problem that has an accumulator. */
void ref_accumulated_run(const struct kern_problem *p,
                         const struct kern_args *args);

#endif
