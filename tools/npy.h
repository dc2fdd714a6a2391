/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy .npy files for the tools: arrays in and out. */
#ifndef TOOLS_NPY_H
#define TOOLS_NPY_H

#include "include/infer.h"

/* Writes one array, format version 1.0, C order. */
int npy_write(const char *path, const struct infer_array *array,
              struct infer_error *err);

/* Reads a .npy file, or of an .npz the only array or the one named `member`.
 * array->data is to be freed; array->name is NULL. */
int npy_read(const char *path, const char *member, struct infer_array *array,
             struct infer_error *err);

#endif
