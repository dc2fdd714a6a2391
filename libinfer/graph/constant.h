/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants: named arrays that come from files.
 *
 * A constant is dense, row-major and immutable while shared.  Its bytes lie
 * either in memory (owned, or inside a blob that several constants share) or
 * still in a model file, from where constant_load() reads them once more each
 * time it is called.
 */
#ifndef LIBINFER_GRAPH_CONSTANT_H
#define LIBINFER_GRAPH_CONSTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/infer.h"
#include "kernels/base/host_memory.h"

struct cJSON;

/* A reference-counted block of memory: the contents of a weight file.  Counts
 * are atomic. */
struct blob {
    int refs;
    unsigned char *data;
    size_t bytes;
    struct host_memory memory; /* gave data */
};
/* Takes ownership of malloc()ed data; on failure (NULL) data is freed. */
struct blob *blob_new(void *data, size_t bytes);
struct blob *blob_ref(struct blob *blob);
void blob_unref(struct blob *blob); /* NULL is fine */
/* Gives the whole pages of a part of the blob back to the system; they read as
 * zeros from then on. */
void blob_give_back(struct blob *blob, const unsigned char *data, size_t bytes);

/* A reference-counted open file, or memory of the caller's that holds one. */
struct file_source {
    int refs;
    int fd;                      /* -1: in memory */
    const unsigned char *memory; /* NULL: in a file */
    void (*release)(void *user); /* of the memory; NULL: nothing to do */
    void *user;
    uint64_t bytes;
    char *path; /* for messages */
};
struct file_source *file_source_open(const char *path, struct infer_error *err);
/* label: the path of messages.  release(user) is called when the last reference
 * goes, and on failure (NULL: EMEMORY) at once. */
struct file_source *file_source_memory(const void *data, size_t bytes,
                                       const char *label,
                                       void (*release)(void *user), void *user,
                                       struct infer_error *err);
struct file_source *file_source_ref(struct file_source *source);
void file_source_unref(struct file_source *source);
/* Reads exactly bytes at offset, or fails with EIO naming the file. */
int file_source_read(struct file_source *source, uint64_t offset, void *buffer,
                     size_t bytes, struct infer_error *err);
/* The content of a regular file, followed by a NUL; to be freed.  EIO; EMEMORY,
 * also where it is longer than max. */
int file_read_all(const char *path, uint64_t max, struct infer_error *err,
                  void **data, size_t *bytes);
/* The JSON text that a file of at most max bytes holds; NULL, and an error with
 * the path, if it cannot be read or is none (json_parse()).  cJSON_Delete(). */
int file_read_json(const char *path, uint64_t max, struct infer_error *err,
                   struct cJSON **out);

struct constant {
    int refs;
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK];
    size_t bytes;
    unsigned char *data; /* NULL where the bytes are still in the file */
    bool unfilled;       /* constant_new_fill(): constant_fill() is due */
    _Alignas(double) unsigned char element[8]; /* and with what */
    struct blob *blob; /* owner of data; NULL: data is malloc()ed */
    /* The constant of which constant_reshape() made this view; a reference. */
    struct constant *viewed;
    struct file_source *source;
    uint64_t offset;
    uint32_t crc; /* CRC-32 (zlib) of the bytes; checked on load from a file */
};

/* A constant with fresh zeroed memory, or NULL.  Shapes must be >= 0. */
struct constant *constant_new(enum infer_dtype dtype, int rank,
                              const int64_t *dim);
/* The same with all elements equal to the one at `element`.  The memory is not
 * touched before constant_fill(), so that it takes no pages of the system: what
 * reads data comes after it, as do all functions below but constant_convert()
 * and constant_transpose().
 */
struct constant *constant_new_fill(enum infer_dtype dtype, int rank,
                                   const int64_t *dim, const void *element);
/* Writes the elements; nothing where they are there, and for NULL. */
void constant_fill(struct constant *c);
/* A constant_new() of the caller's allocator, whose functions are needed as
 * long as the constant is. */
struct constant *constant_new_in(const struct host_memory *memory,
                                 enum infer_dtype dtype, int rank,
                                 const int64_t *dim);
/* A view of part of a blob: data must be aligned for dtype (blob readers move
 * or copy what is not). */
struct constant *constant_in_blob(enum infer_dtype dtype, int rank,
                                  const int64_t *dim, struct blob *blob,
                                  unsigned char *data);
/* A constant whose bytes stay in a file. */
struct constant *constant_in_file(enum infer_dtype dtype, int rank,
                                  const int64_t *dim,
                                  struct file_source *source, uint64_t offset,
                                  uint32_t crc);
struct constant *constant_ref(struct constant *c);
void constant_unref(struct constant *c); /* NULL is fine */
/* constant_unref() of a constant that is not needed again.  Where it was the
 * last reference to a view of a blob, the whole pages below the view go back to
 * the system and read as zeros: no other constant may view these bytes, and
 * nobody may read them from the blob again. */
void constant_give_back(struct constant *c);

int64_t constant_count(const struct constant *c);

/* Copies the bytes into buffer (c->bytes).  EIO, or EFORMAT where the CRC does
 * not match. */
int constant_load(const struct constant *c, void *buffer,
                  struct infer_error *err);
/* The same as elements of another type: infer_dtype_size(dtype) each.  A file
 * is read and converted piece by piece. */
int constant_load_as(const struct constant *c, enum infer_dtype dtype,
                     void *buffer, struct infer_error *err);

/* A new reference to c where its bytes are in memory, else to a copy whose are,
 * in memory of the allocator (NULL: of the C library).  EMEMORY, EIO, or
 * EFORMAT where the CRC does not match. */
int constant_in_memory(struct constant *c, const struct host_memory *memory,
                       struct infer_error *err, struct constant **out);

/* Same values in another dtype or shape (equal count); in memory constants
 * only.  A new reference where nothing changes; NULL when out of memory. */
struct constant *constant_convert(struct constant *c, enum infer_dtype dtype);
struct constant *constant_reshape(struct constant *c, int rank,
                                  const int64_t *dim);
/* Dimension i of the result is dimension order[i] of c. */
struct constant *constant_transpose(const struct constant *c, const int *order);
/* The same in place, with about 1 MiB of memory beside it; false, and nothing
 * is changed, where c is small, the order does not begin with the last axis,
 * somebody else holds c, or memory is short.  No other constant may view these
 * bytes, and nobody may read them from c's blob again. */
bool constant_transpose_here(struct constant *c, const int *order);
/* For in-place edits: c itself where nobody else holds it, else a copy (the
 * reference to c is given up).  NULL when out of memory, c is then kept.  Two
 * constants may not be views of the same bytes of a blob: readers that meet
 * shared storage copy. */
struct constant *constant_writable(struct constant *c);

#endif
