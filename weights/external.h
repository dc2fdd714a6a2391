/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a model names: external data of tensors, shards, variables. */
#ifndef WEIGHTS_EXTERNAL_H
#define WEIGHTS_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libinfer/graph/constant.h"

/* A name from a model, not zero-terminated: it must name a regular file of one
 * link below the folder of the model file, through real folders alone. */
struct weights_location {
    const char *text;
    size_t bytes;
};

/* The ranges of files that the tensors of one model named so far.  All zero at
 * first.  Equal ranges are read once and shared; what is read of a file in all
 * is at most its size. */
struct weights_external {
    struct known *known;
    size_t count, slots;
};
void weights_external_clear(struct weights_external *x);

/* A new constant of this type and shape (`bytes` bytes) from offset of a file
 * beside the model file `path`.  Constants may share their bytes.
 * EFORMAT (location or range), EIO, EMEMORY. */
int weights_external_load(const char *path, struct weights_location location,
                          uint64_t offset,
                          const struct infer_tensor_info *shape, size_t bytes,
                          struct weights_external *x, struct infer_error *err,
                          struct constant **out);
/* constant_unref() of a constant that is not needed again, if it is of such a
 * range: the range is read again where another tensor names it.  False where it
 * is not, and nothing is done. */
bool weights_external_give_back(struct weights_external *x, struct constant *c);
/* The whole of such a file, of at most max bytes. */
int weights_external_read(const char *path, struct weights_location location,
                          uint64_t max, struct infer_error *err,
                          struct blob **out);

#endif
