/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a data set, plain or gzip.  Reads are repeated when a signal
 * interrupts them, which gzread() does not do. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "kernels/base/error.h"
#include "tools/train/data/data.h"

#define BUFFER_BYTES 65536

/* Most bytes of a gzip file that are decompressed beyond twice the file, before
 * all of it was decompressed once to count them. */
#define UNCOUNTED_BYTES ((size_t)32 << 20)

struct source {
    const char *path;
    struct infer_error *err;
    int fd;
    size_t file_bytes;
    bool gzip, ended; /* ended: of a member, with none behind it */
    bool at_end;      /* of the file */
    z_stream z;
    unsigned char buffer[BUFFER_BYTES];
    size_t at, held; /* plain: what of the buffer is left */
};

static int damaged(const struct source *s, const char *what)
{
    return error_set(s->err, INFER_EFORMAT,
                     "%s: the file is %s; fetch it again", s->path, what);
}

/* Fills the buffer; *got 0: the end of the file. */
static int fill(struct source *s, size_t *got)
{
    ssize_t n;

    do {
        n = read(s->fd, s->buffer, BUFFER_BYTES);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_set(s->err, INFER_EIO, "%s: %s", s->path, strerror(errno));
    *got = (size_t)n;
    s->at_end = n == 0;
    return 0;
}

static void source_close(struct source *s)
{
    if (s->gzip)
        inflateEnd(&s->z);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

static int start(struct source *s)
{
    struct stat st;
    size_t got;
    int rc;

    do {
        s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (s->fd < 0 && errno == EINTR);
    if (s->fd < 0 || fstat(s->fd, &st) < 0)
        return error_set(s->err, INFER_EIO, "%s: %s", s->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(s->err, INFER_EIO, "%s: not a regular file", s->path);
    s->file_bytes = (size_t)st.st_size;
    rc = fill(s, &got);
    if (rc < 0)
        return rc;
    s->held = got;
    if (got < 2 || s->buffer[0] != 0x1f || s->buffer[1] != 0x8b)
        return 0;
    s->z.next_in = s->buffer;
    s->z.avail_in = (uInt)got;
    s->gzip = inflateInit2(&s->z, 16 + MAX_WBITS) == Z_OK;
    return s->gzip
               ? 0
               : error_set(s->err, INFER_EMEMORY, "%s: out of memory", s->path);
}

static int source_open(const char *path, struct infer_error *err,
                       struct source **out)
{
    struct source *s = calloc(1, sizeof(*s));
    int rc;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    s->path = path;
    s->err = err;
    s->fd = -1;
    rc = start(s);
    if (rc < 0)
        source_close(s);
    else
        *out = s;
    return rc;
}

static int read_plain(struct source *s, unsigned char *to, size_t bytes,
                      size_t *got)
{
    int rc = 0;

    if (s->held == 0 && !s->at_end) {
        s->at = 0;
        rc = fill(s, &s->held);
    }
    *got = s->held < bytes ? s->held : bytes;
    memcpy(to, s->buffer + s->at, *got);
    s->at += *got;
    s->held -= *got;
    return rc;
}

/* A member has ended: another one may follow, anything else is left out, as
 * gzip(1) does. */
static int next_member(struct source *s)
{
    size_t got;
    int rc = 0;

    if (s->z.avail_in == 0 && !s->at_end) {
        rc = fill(s, &got);
        s->z.next_in = s->buffer;
        s->z.avail_in = (uInt)got;
    }
    s->ended = s->z.avail_in == 0 || s->z.next_in[0] != 0x1f ||
               inflateReset(&s->z) != Z_OK;
    return rc;
}

static int read_gzip(struct source *s, unsigned char *to, size_t bytes,
                     size_t *got)
{
    s->z.next_out = to;
    s->z.avail_out = (uInt)(bytes < 1 << 30 ? bytes : 1 << 30);
    bytes = s->z.avail_out;
    while (s->z.avail_out == bytes && !s->ended) {
        size_t more;
        int status, rc = 0;

        if (s->z.avail_in == 0 && !s->at_end) {
            rc = fill(s, &more);
            s->z.next_in = s->buffer;
            s->z.avail_in = (uInt)more;
        }
        if (rc < 0)
            return rc;
        status = inflate(&s->z, Z_NO_FLUSH);
        if (status == Z_STREAM_END)
            rc = next_member(s);
        else if (status == Z_MEM_ERROR)
            rc = error_set(s->err, INFER_EMEMORY, "%s: out of memory", s->path);
        else if (status == Z_BUF_ERROR && s->at_end)
            rc = damaged(s, "cut off");
        else if (status != Z_OK && status != Z_BUF_ERROR)
            rc = damaged(s, "damaged");
        if (rc < 0)
            return rc;
    }
    *got = bytes - s->z.avail_out;
    return 0;
}

/* Up to so many bytes, > 0; *got 0: the end. */
static int read_some(struct source *s, unsigned char *to, size_t bytes,
                     size_t *got)
{
    return s->gzip ? read_gzip(s, to, bytes, got)
                   : read_plain(s, to, bytes, got);
}

static int too_long(const char *path, size_t max, struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT,
                     "%s: holds more than the %zu bytes that it should: it is "
                     "damaged, or of another set; fetch it again",
                     path, max);
}

static int grow(unsigned char **data, size_t *capacity, size_t max,
                const char *path, struct infer_error *err)
{
    size_t more = *capacity ? *capacity * 2 : (size_t)1 << 20;
    unsigned char *fresh;

    if (*capacity >= max)
        return too_long(path, max - 1, err);
    if (more > max)
        more = max;
    fresh = realloc(*data, more);
    if (!fresh)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    *data = fresh;
    *capacity = more;
    return 0;
}

/* Up to max bytes; more are an error. */
static int read_all(struct source *s, size_t max, unsigned char **data,
                    size_t *bytes)
{
    size_t capacity = 0, got = 1;
    int rc = 0;

    while (rc == 0 && got > 0) {
        if (*bytes == capacity)
            rc = grow(data, &capacity, max + 1, s->path, s->err);
        if (rc == 0)
            rc = read_some(s, *data + *bytes, capacity - *bytes, &got);
        if (rc == 0)
            *bytes += got;
    }
    return rc;
}

/* Reads everything and keeps nothing. */
static int count_all(const char *path, size_t max, struct infer_error *err,
                     size_t *bytes)
{
    unsigned char *buffer = malloc(BUFFER_BYTES);
    struct source *s = NULL;
    size_t got = 1;
    int rc = buffer ? source_open(path, err, &s)
                    : error_set(err, INFER_EMEMORY, "%s: out of memory", path);

    *bytes = 0;
    while (rc == 0 && got > 0 && *bytes <= max) {
        rc = read_some(s, buffer, BUFFER_BYTES, &got);
        *bytes += rc == 0 ? got : 0;
    }
    if (s)
        source_close(s);
    free(buffer);
    return rc;
}

int data_read_head(const char *path, size_t most, struct infer_error *err,
                   unsigned char *out, size_t *bytes)
{
    struct source *s;
    size_t got = 1;
    int rc = source_open(path, err, &s);

    *bytes = 0;
    if (rc < 0)
        return rc;
    while (rc == 0 && got > 0 && *bytes < most) {
        rc = read_some(s, out + *bytes, most - *bytes, &got);
        *bytes += rc == 0 ? got : 0;
    }
    source_close(s);
    return rc;
}

int data_read_file(const char *path, size_t max, size_t unit,
                   struct infer_error *err, unsigned char **out, size_t *bytes)
{
    struct source *s = NULL;
    size_t count = 0;
    int rc = source_open(path, err, &s);

    *out = NULL;
    *bytes = 0;
    if (rc < 0)
        return rc;
    if (s->gzip && max > 2 * s->file_bytes + UNCOUNTED_BYTES) {
        rc = count_all(path, max, err, &count);
        if (rc == 0 && count > max)
            rc = too_long(path, max, err);
    }
    if (rc == 0 && count % unit != 0)
        *bytes = count; /* the caller says what is wrong */
    else if (rc == 0)
        rc = read_all(s, max, out, bytes);
    source_close(s);
    if (rc < 0) {
        free(*out);
        *out = NULL;
    }
    return rc;
}
