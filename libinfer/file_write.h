/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are there whole or not at all: written under a temporary name
 * beside the target, synced, then renamed. */
#ifndef LIBINFER_FILE_WRITE_H
#define LIBINFER_FILE_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "libinfer/infer.h"

struct file_writer {
    int fd;
    char *path, *temporary;
};

/* A target that exists must be a regular file: renaming over a device would
 * replace it.  Error texts start with the path. */
int file_writer_open(const char *path, struct infer_error *err,
                     struct file_writer *out);
/* Writes at any place of the file. */
int file_writer_put(struct file_writer *w, uint64_t offset, const void *data,
                    size_t bytes, struct infer_error *err);
/* Makes the target the new file.  On failure the target is what it was.  The
 * writer is closed either way. */
int file_writer_commit(struct file_writer *w, struct infer_error *err);
/* Gives up: removes the temporary file. */
void file_writer_abort(struct file_writer *w);

#endif
