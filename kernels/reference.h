/* SPDX-License-Identifier: Apache-2.0 */
/* A problem computed by its reference row: for verification, for tests and
 * where constants are folded. */
#ifndef KERNELS_REFERENCE_H
#define KERNELS_REFERENCE_H

#include "kernels/kern.h"

/* The reference row of an operation, NULL where it has none. */
const struct kern_row *kern_reference_row(enum kern_op op);

/* Runs the problem on the CPU.  The inputs and outputs of args lie as the
 * problem says; its workspace is allocated here.  0, or EUNSUPPORTED (no row,
 * or the row refuses the problem), EMEMORY, or the row's error. */
int kern_reference_run(const struct kern_problem *p,
                       const struct kern_args *args, struct infer_error *err);

#endif
