/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's kernels: what the runtime and the tools may ask of this backend
 * beyond its rows.  Part of builds with HAVE_CUDNN. */
#ifndef KERNELS_CUDNN_CUDNN_API_H
#define KERNELS_CUDNN_CUDNN_API_H

#include "kernels/kern.h"

/* Loads cuDNN where that was not done yet.  0, or EDEVICE with the reason: the
 * library is not found or too old. */
int kern_cudnn_open(struct infer_error *why);

/* "cuDNN 9.19.0" and "cuBLAS 13.1.0"; NULL, with the reason, where they are
 * not there.  The texts are static. */
const char *kern_cudnn_version(struct infer_error *why);
const char *kern_cublas_version(struct infer_error *why);

/* For tests: the variants of problems that this thread asks about for the first
 * time from now on stand in an order that begins with number n, counted round.
 * Another than the first is tried so without preparing the first, which may
 * take half a second to compile.  0, the usual order, is what threads begin
 * with. */
void kern_cudnn_rotate(int n);

#endif
