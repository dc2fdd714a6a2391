/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are there whole or not at all: written without a name, or under a
 * temporary one beside the target, then renamed. */
#ifndef KERNELS_BASE_FILE_WRITE_H
#define KERNELS_BASE_FILE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"

struct file_writer {
    int fd;
    char *path;   /* as it was given, for messages */
    char *target; /* after all symbolic links are followed */
    /* TARGET.PID.N.tmp; NULL while the file has no name (O_TMPFILE), so that
     * nothing stays behind if the process is killed. */
    char *temporary;
    /* While several files are committed: a second name of the file before. */
    char *former;
    bool fresh; /* there was none */
};

/* A target that exists must be a regular file: renaming over a device would
 * replace it.  Behind a symbolic link it is the file that is replaced, not the
 * link.  The new file has the permissions of the one before it.  Temporary
 * files of the same target that a killed process left a minute ago or earlier
 * are removed.  Error texts start with the path. */
int file_writer_open(const char *path, struct infer_error *err,
                     struct file_writer *out);
/* Writes at any place of the file. */
int file_writer_put(struct file_writer *w, uint64_t offset, const void *data,
                    size_t bytes, struct infer_error *err);
/* Makes the target the new file, synced to its disk.  On failure the target is
 * what it was.  The writer is closed either way. */
int file_writer_commit(struct file_writer *w, struct infer_error *err);
/* The same for n files of one result: all of them are new, or, on failure, all
 * are what they were.  A kill between the renames leaves each file whole, but
 * maybe not all of them new.  What is quickly made again need not be synced. */
int file_writers_commit(struct file_writer *w, int n, bool sync,
                        struct infer_error *err);
/* Gives up: removes the temporary file. */
void file_writer_abort(struct file_writer *w);

/* One of the pieces that a file is made of. */
struct file_part {
    const void *data;
    size_t bytes;
};
/* All of the above in one: a file of n parts in order.  What is quickly made
 * again need not be synced. */
int file_replace(const char *path, const struct file_part *part, int n,
                 bool sync, struct infer_error *err);

#endif
