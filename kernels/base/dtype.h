/* SPDX-License-Identifier: Apache-2.0 */
/* Data types by name; their names and sizes are public, in infer.h. */
#ifndef KERNELS_BASE_DTYPE_H
#define KERNELS_BASE_DTYPE_H

#include "include/infer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "F32" to INFER_F32; INFER_NONE where no type has the name. */
enum infer_dtype dtype_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
