/* SPDX-License-Identifier: Apache-2.0 */
/* Constants, the blobs they share, and the files they still lie in. */
#include "config.h"

#include "libinfer/graph/constant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/scalar.h"

static void count_up(int *refs)
{
    __atomic_add_fetch(refs, 1, __ATOMIC_RELAXED);
}

/* True where the last reference went. */
static bool count_down(int *refs)
{
    return __atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL) == 0;
}

/* ---- blobs --------------------------------------------------------- */

struct blob *blob_new(void *data, size_t bytes)
{
    struct blob *blob = malloc(sizeof(*blob));

    if (blob == NULL) {
        free(data);
        return NULL;
    }
    blob->refs = 1;
    blob->data = data;
    blob->bytes = bytes;
    memset(&blob->memory, 0, sizeof(blob->memory));
    return blob;
}

struct blob *blob_ref(struct blob *blob)
{
    count_up(&blob->refs);
    return blob;
}

void blob_unref(struct blob *blob)
{
    if (blob != NULL && count_down(&blob->refs)) {
        host_memory_free(&blob->memory, blob->data);
        free(blob);
    }
}

void blob_give_back(struct blob *blob, const unsigned char *data, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t from = (size_t)(data - blob->data);
    /* Offsets of whole pages, which are counted from address 0. */
    const size_t skew = (size_t)((uintptr_t)blob->data % page);
    const size_t begin = (skew + from + page - 1) / page * page;
    const size_t end = (skew + from + bytes) / page * page;

    /* Little is left, so that how a small file ends never depends on where its
     * pages begin.  Memory of a caller's allocator need not be pages. */
    if (bytes >= 65536 && blob->memory.alloc == NULL && begin < end)
        madvise(blob->data - skew + begin, end - begin, MADV_DONTNEED);
}

/* ---- files --------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISCHR(mode) || S_ISBLK(mode))
        return "a device";
    if (S_ISFIFO(mode))
        return "a FIFO";
    return S_ISSOCK(mode) ? "a socket" : "something else";
}

struct file_source *file_source_open(const char *path, struct infer_error *err)
{
    struct file_source *source = calloc(1, sizeof(*source));
    struct stat st;

    if (source == NULL || (source->path = strdup(path)) == NULL) {
        free(source);
        error_set(err, INFER_EMEMORY, "out of memory");
        return NULL;
    }
    source->refs = 1;
    /* O_NONBLOCK keeps a FIFO from hanging the open; the check below then
     * refuses it. */
    do {
        source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (source->fd < 0 && errno == EINTR);
    if (source->fd < 0) {
        error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
        goto fail;
    }
    if (fstat(source->fd, &st) < 0) {
        error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(err, INFER_EIO, "%s: is %s, not a regular file", path,
                  kind_of(st.st_mode));
        goto fail;
    }
    source->bytes = (uint64_t)st.st_size;
    return source;
fail:
    file_source_unref(source);
    return NULL;
}

struct file_source *file_source_memory(const void *data, size_t bytes,
                                       const char *label,
                                       void (*release)(void *user), void *user,
                                       struct infer_error *err)
{
    struct file_source *source = calloc(1, sizeof(*source));

    if (source == NULL || (source->path = strdup(label)) == NULL) {
        free(source);
        if (release != NULL)
            release(user);
        error_set(err, INFER_EMEMORY, "%s: out of memory", label);
        return NULL;
    }
    source->refs = 1;
    source->fd = -1;
    source->memory = data;
    source->bytes = bytes;
    source->release = release;
    source->user = user;
    return source;
}

struct file_source *file_source_ref(struct file_source *source)
{
    count_up(&source->refs);
    return source;
}

void file_source_unref(struct file_source *source)
{
    if (source == NULL || !count_down(&source->refs))
        return;
    if (source->fd >= 0)
        close(source->fd);
    if (source->release != NULL)
        source->release(source->user);
    free(source->path);
    free(source);
}

int file_source_read(struct file_source *source, uint64_t offset, void *buffer,
                     size_t bytes, struct infer_error *err)
{
    unsigned char *to = buffer;

    if (!checked_range(offset, bytes, INT64_MAX))
        return error_set(err, INFER_EIO, "%s: offset %llu is out of range",
                         source->path, (unsigned long long)offset);
    if (source->memory != NULL) {
        if (!checked_range(offset, bytes, source->bytes))
            return error_set(err, INFER_EIO,
                             "%s: ends at byte %llu, %zu at %llu are needed",
                             source->path, (unsigned long long)source->bytes,
                             bytes, (unsigned long long)offset);
        memcpy(to, source->memory + offset, bytes);
        return INFER_OK;
    }
    while (bytes > 0) {
        ssize_t got = pread(source->fd, to, bytes, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, INFER_EIO, "%s: %s", source->path,
                             strerror(errno));
        if (got == 0)
            return error_set(err, INFER_EIO,
                             "%s: ends at byte %llu, %zu more are needed",
                             source->path, (unsigned long long)offset, bytes);
        to += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return INFER_OK;
}

/* A file that still grows would be taken for one that is cut short. */
static int check_end(const struct file_source *source, struct infer_error *err)
{
    unsigned char beyond;

    if (pread(source->fd, &beyond, 1, (off_t)source->bytes) <= 0)
        return INFER_OK;
    return error_set(err, INFER_EIO, "%s: the file changed while it was read",
                     source->path);
}

int file_read_all(const char *path, uint64_t max, struct infer_error *err,
                  void **data, size_t *bytes)
{
    struct file_source *source = file_source_open(path, err);
    unsigned char *all = NULL;
    int rc = INFER_OK;

    if (source == NULL)
        return err != NULL ? err->code : INFER_EIO;
    if (source->bytes > max || source->bytes > SIZE_MAX / 2)
        rc = error_set(err, INFER_EMEMORY,
                       "%s: its %llu bytes are more than the limit of %llu",
                       path, (unsigned long long)source->bytes,
                       (unsigned long long)max);
    else if ((all = malloc((size_t)source->bytes + 1)) == NULL)
        rc = error_set(err, INFER_EMEMORY, "%s: no memory for %llu bytes", path,
                       (unsigned long long)source->bytes);
    else
        rc = file_source_read(source, 0, all, (size_t)source->bytes, err);
    if (rc == INFER_OK)
        rc = check_end(source, err);
    if (rc == INFER_OK) {
        all[source->bytes] = '\0';
        *data = all;
        *bytes = (size_t)source->bytes;
    } else {
        free(all);
    }
    file_source_unref(source);
    return rc;
}

int file_read_json(const char *path, uint64_t max, struct infer_error *err,
                   cJSON **out)
{
    size_t bytes;
    void *text;
    int rc = file_read_all(path, max, err, &text, &bytes);

    *out = NULL;
    if (rc < 0)
        return rc;
    rc = json_parse(text, bytes, false, err, out);
    if (rc < 0)
        error_prefix(err, "%s", path);
    free(text);
    return rc;
}

/* ---- constants ----------------------------------------------------- */

/* A constant without bytes; NULL on overflow or lack of memory. */
static struct constant *shape_only(enum infer_dtype dtype, int rank,
                                   const int64_t *dim)
{
    struct constant *c;
    size_t bytes;

    if (rank < 0 || rank > INFER_MAX_RANK || infer_dtype_size(dtype) == 0)
        return NULL;
    bytes = array_bytes(dtype, rank, dim);
    if (bytes > PTRDIFF_MAX)
        return NULL;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->refs = 1;
    c->dtype = dtype;
    c->rank = rank;
    if (rank > 0)
        memcpy(c->dim, dim, (size_t)rank * sizeof(*dim));
    c->bytes = bytes;
    return c;
}

struct constant *constant_new(enum infer_dtype dtype, int rank,
                              const int64_t *dim)
{
    struct constant *c = shape_only(dtype, rank, dim);

    if (c == NULL)
        return NULL;
    c->data = calloc(c->bytes > 0 ? c->bytes : 1, 1);
    if (c->data == NULL) {
        free(c);
        return NULL;
    }
    return c;
}

/* calloc() maps so much anew, which reads as zeros without a page; it writes to
 * smaller blocks, which malloc() does not. */
#define MAPPED_BYTES ((size_t)1 << 20)

struct constant *constant_new_fill(enum infer_dtype dtype, int rank,
                                   const int64_t *dim, const void *element)
{
    static const unsigned char zero[sizeof(((struct constant *)0)->element)];
    const size_t size = infer_dtype_size(dtype);
    struct constant *c = shape_only(dtype, rank, dim);

    if (c == NULL)
        return NULL;
    if (c->bytes >= MAPPED_BYTES && memcmp(element, zero, size) == 0) {
        c->data = calloc(c->bytes, 1);
    } else {
        c->data = malloc(c->bytes > 0 ? c->bytes : 1);
        c->unfilled = true;
        memcpy(c->element, element, size);
    }
    if (c->data == NULL) {
        free(c);
        return NULL;
    }
    return c;
}

/* Repeats the element in runs that double. */
void constant_fill(struct constant *c)
{
    size_t done, run;

    if (c == NULL || !c->unfilled)
        return;
    c->unfilled = false;
    done = infer_dtype_size(c->dtype);
    if (c->bytes > 0)
        memcpy(c->data, c->element, done);
    for (; done < c->bytes; done += run) {
        run = done < c->bytes - done ? done : c->bytes - done;
        memcpy(c->data + done, c->data, run);
    }
}

struct constant *constant_new_in(const struct host_memory *memory,
                                 enum infer_dtype dtype, int rank,
                                 const int64_t *dim)
{
    struct constant *c = shape_only(dtype, rank, dim);
    void *data;

    if (c == NULL)
        return NULL;
    c->blob = blob_new(NULL, c->bytes);
    if (c->blob == NULL ||
        host_memory_alloc(memory, c->bytes, NULL, &data) < 0) {
        constant_unref(c);
        return NULL;
    }
    memset(data, 0, c->bytes);
    c->blob->memory = *memory;
    c->blob->data = data;
    c->data = data;
    return c;
}

struct constant *constant_in_blob(enum infer_dtype dtype, int rank,
                                  const int64_t *dim, struct blob *blob,
                                  unsigned char *data)
{
    struct constant *c = shape_only(dtype, rank, dim);

    if (c == NULL)
        return NULL;
    c->data = data;
    c->blob = blob_ref(blob);
    return c;
}

struct constant *constant_in_file(enum infer_dtype dtype, int rank,
                                  const int64_t *dim,
                                  struct file_source *source, uint64_t offset,
                                  uint32_t crc)
{
    struct constant *c = shape_only(dtype, rank, dim);

    if (c == NULL)
        return NULL;
    c->source = file_source_ref(source);
    c->offset = offset;
    c->crc = crc;
    return c;
}

struct constant *constant_ref(struct constant *c)
{
    count_up(&c->refs);
    return c;
}

void constant_unref(struct constant *c)
{
    if (c == NULL || !count_down(&c->refs))
        return;
    constant_unref(c->viewed); /* never a view itself */
    if (c->blob != NULL)
        blob_unref(c->blob);
    else
        free(c->data);
    file_source_unref(c->source);
    free(c);
}

void constant_give_back(struct constant *c)
{
    if (c != NULL && c->blob != NULL && c->viewed == NULL &&
        __atomic_load_n(&c->refs, __ATOMIC_ACQUIRE) == 1)
        blob_give_back(c->blob, c->data, c->bytes);
    constant_unref(c);
}

int64_t constant_count(const struct constant *c)
{
    int64_t count = 0;

    checked_count(c->rank, c->dim, &count);
    return count;
}

/* CRC-32 of a block of any size; zlib's takes 32-bit lengths. */
static uint32_t crc_of(const unsigned char *data, size_t bytes)
{
    uLong crc = crc32(0, NULL, 0);

    while (bytes > 0) {
        uInt part = bytes > (1u << 30) ? 1u << 30 : (uInt)bytes;

        crc = crc32(crc, data, part);
        data += part;
        bytes -= part;
    }
    return (uint32_t)crc;
}

static int check_crc(const struct constant *c, uint32_t crc,
                     struct infer_error *err)
{
    if (crc == c->crc)
        return INFER_OK;
    return error_set(err, INFER_EFORMAT,
                     "%s: the bytes at offset %llu do not match their "
                     "CRC-32: the file is damaged",
                     c->source->path, (unsigned long long)c->offset);
}

int constant_load(const struct constant *c, void *buffer,
                  struct infer_error *err)
{
    int rc;

    if (c->data != NULL) {
        memcpy(buffer, c->data, c->bytes);
        return INFER_OK;
    }
    rc = file_source_read(c->source, c->offset, buffer, c->bytes, err);
    return rc < 0 ? rc : check_crc(c, crc_of(buffer, c->bytes), err);
}

/* Bytes that are converted at a time: they stay in a cache. */
#define PIECE 32768

int constant_load_as(const struct constant *c, enum infer_dtype dtype,
                     void *buffer, struct infer_error *err)
{
    const size_t from = infer_dtype_size(c->dtype),
                 to = infer_dtype_size(dtype);
    _Alignas(64) unsigned char piece[PIECE];
    unsigned char *out = buffer;
    uLong crc = crc32(0, NULL, 0);
    size_t at, bytes;

    if (c->dtype == dtype)
        return constant_load(c, buffer, err);
    if (c->data != NULL) {
        scalar_convert(c->dtype, c->data, dtype, buffer,
                       (size_t)constant_count(c));
        return INFER_OK;
    }
    for (at = 0; at < c->bytes; at += bytes) {
        int rc;

        bytes = c->bytes - at < PIECE ? c->bytes - at : PIECE;
        rc = file_source_read(c->source, c->offset + at, piece, bytes, err);
        if (rc < 0)
            return rc;
        crc = crc32(crc, piece, (uInt)bytes);
        scalar_convert(c->dtype, piece, dtype, out + at / from * to,
                       bytes / from);
    }
    return check_crc(c, (uint32_t)crc, err);
}

int constant_in_memory(struct constant *c, const struct host_memory *memory,
                       struct infer_error *err, struct constant **out)
{
    struct constant *copy;
    int rc;

    if (c->data != NULL) {
        *out = constant_ref(c);
        return INFER_OK;
    }
    copy = memory != NULL ? constant_new_in(memory, c->dtype, c->rank, c->dim)
                          : constant_new(c->dtype, c->rank, c->dim);
    if (copy == NULL)
        return error_set(err, INFER_EMEMORY, "%s: out of memory",
                         c->source->path);
    rc = constant_load(c, copy->data, err);
    if (rc < 0)
        constant_unref(copy);
    else
        *out = copy;
    return rc;
}

struct constant *constant_convert(struct constant *c, enum infer_dtype dtype)
{
    struct constant *to;

    if (c->dtype == dtype)
        return constant_ref(c);
    if (c->unfilled) {
        _Alignas(double) unsigned char element[sizeof(c->element)];

        scalar_convert(c->dtype, c->element, dtype, element, 1);
        return constant_new_fill(dtype, c->rank, c->dim, element);
    }
    to = constant_new(dtype, c->rank, c->dim);
    if (to != NULL)
        scalar_convert(c->dtype, c->data, dtype, to->data,
                       (size_t)constant_count(c));
    return to;
}

/* A private copy with another shape of equal count. */
static struct constant *copy_as(const struct constant *c, int rank,
                                const int64_t *dim)
{
    struct constant *to = constant_new(c->dtype, rank, dim);

    if (to != NULL && c->bytes > 0)
        memcpy(to->data, c->data, c->bytes);
    return to;
}

struct constant *constant_reshape(struct constant *c, int rank,
                                  const int64_t *dim)
{
    int64_t count;

    if (rank < 0 || rank > INFER_MAX_RANK ||
        !checked_count(rank, dim, &count) || count != constant_count(c))
        return NULL;
    if (rank == c->rank &&
        memcmp(dim, c->dim, (size_t)rank * sizeof(*dim)) == 0)
        return constant_ref(c);
    if (c->blob == NULL)
        return copy_as(c, rank, dim);
    struct constant *view =
        constant_in_blob(c->dtype, rank, dim, c->blob, c->data);
    if (view != NULL)
        view->viewed = constant_ref(c->viewed ? c->viewed : c);
    return view;
}

struct constant *constant_transpose(const struct constant *c, const int *order)
{
    int64_t dim[INFER_MAX_RANK], stride[INFER_MAX_RANK] = {0};
    int64_t index[INFER_MAX_RANK] = {0};
    int64_t step[INFER_MAX_RANK];
    int64_t i, from = 0, count = constant_count(c);
    size_t size = infer_dtype_size(c->dtype);
    struct constant *to;
    int d;

    for (d = c->rank - 1; d >= 0; d--)
        stride[d] = d == c->rank - 1 ? 1 : stride[d + 1] * c->dim[d + 1];
    for (d = 0; d < c->rank; d++) {
        dim[d] = c->dim[order[d]];
        step[d] = stride[order[d]];
    }
    if (c->unfilled)
        return constant_new_fill(c->dtype, c->rank, dim, c->element);
    to = constant_new(c->dtype, c->rank, dim);
    if (to == NULL)
        return NULL;
    for (i = 0; i < count; i++) {
        memcpy(to->data + (size_t)i * size, c->data + (size_t)from * size,
               size);
        for (d = c->rank - 1; d >= 0; d--) {
            from += step[d];
            if (++index[d] < dim[d])
                break;
            from -= step[d] * dim[d];
            index[d] = 0;
        }
    }
    return to;
}

struct constant *constant_writable(struct constant *c)
{
    struct constant *copy;

    /* A constant inside a blob covers bytes that no other constant covers
     * unless the blob is shared with a view of the same bytes, which readers
     * do not make: one reference to the constant is enough. */
    if (__atomic_load_n(&c->refs, __ATOMIC_ACQUIRE) == 1)
        return c;
    copy = copy_as(c, c->rank, c->dim);
    if (copy != NULL)
        constant_unref(c);
    return copy;
}
