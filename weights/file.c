/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a whole file of a stranger into private memory.  One descriptor, no
 * mapping: a file that changes meanwhile can give an error but not a fault. */
#include "config.h"

#include "weights/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/error.h"
#include "libinfer/device.h"

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISCHR(mode) || S_ISBLK(mode))
        return "a device";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISSOCK(mode))
        return "a socket";
    return "no regular file";
}

/* Reads up to bytes; fewer only where the file ends.  -1 sets errno. */
static ssize_t read_all(int fd, unsigned char *data, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        size_t want = bytes - done;
        ssize_t n;

        if (want > (size_t)1 << 30)
            want = (size_t)1 << 30;
        n = read(fd, data + done, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int read_open(int fd, const char *path, uint64_t max_bytes,
                     struct infer_error *err, struct blob **out)
{
    unsigned char *data, extra;
    struct stat st;
    size_t bytes;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, INFER_EIO, "%s: is %s, not a regular file", path,
                         kind_of(st.st_mode));
    if (max_bytes == 0)
        max_bytes = device_cpu_memory() / 2;
    if ((uint64_t)st.st_size > max_bytes || (uint64_t)st.st_size > SIZE_MAX / 2)
        return error_set(err, INFER_EMEMORY,
                         "%s: its %lld bytes are more than the limit of %llu",
                         path, (long long)st.st_size,
                         (unsigned long long)max_bytes);
    bytes = (size_t)st.st_size;
    data = malloc(bytes ? bytes : 1);
    if (!data)
        return error_set(err, INFER_EMEMORY, "%s: no memory for %zu bytes",
                         path, bytes);
    n = read_all(fd, data, bytes);
    if (n == (ssize_t)bytes && read_all(fd, &extra, 1) == 1)
        n = -2;
    if (n != (ssize_t)bytes) {
        int code = n == -1 ? errno : 0;

        free(data);
        return error_set(err, INFER_EIO, "%s: %s", path,
                         code ? strerror(code)
                              : "the file changed while it was read");
    }
    *out = blob_new(data, bytes);
    if (!*out)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    return 0;
}

int weights_file_read(const char *path, uint64_t max_bytes,
                      struct infer_error *err, struct weights_file *out)
{
    struct blob *blob = NULL;
    int fd, rc;

    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    rc = read_open(fd, path, max_bytes, err, &blob);
    close(fd);
    if (rc < 0)
        return rc;
    out->path = path;
    out->blob = blob;
    return 0;
}

void weights_file_close(struct weights_file *file)
{
    blob_unref(file->blob);
    *file = (struct weights_file){0};
}
