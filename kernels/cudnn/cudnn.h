/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's kernels: what the runtime and the tools may ask of this backend
 * beyond its rows.  Part of builds with HAVE_CUDNN. */
#ifndef KERNELS_CUDNN_CUDNN_H
#define KERNELS_CUDNN_CUDNN_H

#include "kernels/kern.h"

/* Loads cuDNN where that was not done yet.  0, or EDEVICE with the reason: the
 * library is not found or too old. */
int kern_cudnn_open(struct infer_error *why);

/* "cuDNN 9.19.0" and "cuBLAS 13.1.0"; NULL, with the reason, where they are
 * not there.  The texts are static. */
const char *kern_cudnn_version(struct infer_error *why);
const char *kern_cublas_version(struct infer_error *why);

#endif
