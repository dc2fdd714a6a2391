/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that opens a file named by a model.
 *
 * The name is untrusted.  It is split into its parts here, and each part is
 * opened relative to the folder before it without following links, so that
 * nothing outside the model's folder can be reached, whatever is renamed
 * meanwhile.
 */
#include "weights/external.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"

/* A location as it may stand in an error. */
#define SHOWN(s) (int)((s).bytes < 256 ? (s).bytes : 256), (s).text

static int bad_location(struct weights_location s, const char *why,
                        struct infer_error *err)
{
    return error_set(err, INFER_EFORMAT, "external data location '%.*s' %s",
                     SHOWN(s), why);
}

static int check_location(struct weights_location s, struct infer_error *err)
{
    size_t i;

    if (s.bytes == 0)
        return bad_location(s, "is empty", err);
    if (s.bytes >= PATH_MAX)
        return bad_location(s, "is too long", err);
    if (s.text[0] == '/')
        return bad_location(s, "is absolute", err);
    for (i = 0; i < s.bytes; i++) {
        if ((unsigned char)s.text[i] < 0x20 || s.text[i] == 0x7f)
            return bad_location(s, "holds a control character", err);
        if (s.text[i] == '\\')
            return bad_location(s, "holds a backslash", err);
        if (s.text[i] == ':')
            return bad_location(s, "looks like a URL or a drive", err);
    }
    return 0;
}

/* Folder of the model file, opened. */
static int open_folder(const char *path, struct infer_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    char *folder;
    int fd;

    if (!slash)
        folder = strdup(".");
    else if (n == 0)
        folder = strdup("/");
    else
        folder = strndup(path, n);
    if (!folder)
        return error_set(err, INFER_EMEMORY, "out of memory");
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        error_set(err, INFER_EIO, "%s: %s", folder, strerror(errno));
    free(folder);
    return fd < 0 ? INFER_EIO : fd;
}

/* Opens one component below folder, and closes folder. */
static int open_component(int folder, const char *name, bool last,
                          struct weights_location s, struct infer_error *err)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd, saved;

    if (strcmp(name, "..") == 0) {
        close(folder);
        return bad_location(s, "leaves the model's folder", err);
    }
    fd = openat(folder, name, last ? flags : flags | O_DIRECTORY);
    saved = errno;
    close(folder);
    if (fd >= 0)
        return fd;
    if (saved == ELOOP || saved == ENOTDIR)
        return bad_location(s, "leads through a link or a file", err);
    return error_set(err, INFER_EIO, "external data file '%.*s': %s", SHOWN(s),
                     strerror(saved));
}

static int open_location(const char *path, struct weights_location s,
                         struct infer_error *err)
{
    char *text, *name, *rest = NULL;
    int fd = check_location(s, err);

    if (fd < 0)
        return fd;
    text = strndup(s.text, s.bytes);
    if (!text)
        return error_set(err, INFER_EMEMORY, "out of memory");
    fd = open_folder(path, err);
    name = strtok_r(text, "/", &rest);
    while (fd >= 0 && name) {
        char *next = strtok_r(NULL, "/", &rest);

        if (strcmp(name, ".") != 0 || !next)
            fd = open_component(fd, name, next == NULL, s, err);
        name = next;
    }
    free(text);
    return fd;
}

static int read_all(int fd, uint64_t offset, uint64_t bytes, unsigned char *out,
                    struct infer_error *err)
{
    while (bytes > 0) {
        size_t chunk =
            bytes > ((uint64_t)1 << 30) ? (size_t)1 << 30 : (size_t)bytes;
        ssize_t n = pread(fd, out, chunk, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set(err, INFER_EIO, "reading external data: %s",
                             n < 0 ? strerror(errno) : "the file shrank");
        out += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

/* A regular file of one name: another one may lie outside the folder. */
static int check_file(int fd, struct weights_location location, struct stat *st,
                      struct infer_error *err)
{
    if (fstat(fd, st) < 0)
        return error_set(err, INFER_EIO, "external data: %s", strerror(errno));
    if (!S_ISREG(st->st_mode))
        return bad_location(location, "is not a regular file", err);
    if (st->st_nlink > 1)
        return bad_location(location, "is a hard link", err);
    return 0;
}

/* ---- what was read before ------------------------------------------ */

/* A file, with the bytes of it that may still be read; or a range of one that
 * was read as this type, which a second tensor shares. */
struct known {
    uint64_t device, inode, offset, bytes;
    enum infer_dtype dtype; /* INFER_NONE: the whole file */
    bool used;
    uint64_t left;
    struct blob *blob;
};

static struct known *find_slot(struct known *at, size_t slots,
                               const struct known *key)
{
    const uint64_t words[5] = {key->device, key->inode, key->offset, key->bytes,
                               (uint64_t)key->dtype};
    size_t i = (size_t)hash_bytes(words, sizeof words) % slots;

    while (at[i].used &&
           !(at[i].device == key->device && at[i].inode == key->inode &&
             at[i].offset == key->offset && at[i].bytes == key->bytes &&
             at[i].dtype == key->dtype))
        i = (i + 1) % slots;
    return &at[i];
}

/* Keeps at least half of the slots and two more free. */
static bool reserve(struct weights_external *x)
{
    const size_t slots = x->slots ? 2 * x->slots : 64;
    struct known *at;

    if (x->count + 2 < x->slots / 2)
        return true;
    at = calloc(slots, sizeof *at);
    if (at == NULL)
        return false;
    for (size_t i = 0; i < x->slots; i++)
        if (x->known[i].used)
            *find_slot(at, slots, &x->known[i]) = x->known[i];
    free(x->known);
    x->known = at;
    x->slots = slots;
    return true;
}

static struct known *entry(struct weights_external *x, const struct known *key)
{
    struct known *slot = find_slot(x->known, x->slots, key);

    if (!slot->used) {
        *slot = *key;
        slot->used = true;
        x->count++;
    }
    return slot;
}

void weights_external_clear(struct weights_external *x)
{
    for (size_t i = 0; i < x->slots; i++)
        blob_unref(x->known[i].blob);
    free(x->known);
    memset(x, 0, sizeof *x);
}

/* ---- tensors ------------------------------------------------------- */

/* The bytes are allocated only once the file is known to hold that much. */
static int read_range(int fd, struct known *range, size_t bytes,
                      struct known *file, struct infer_error *err)
{
    unsigned char *data;
    int rc;

    if (bytes > file->left)
        return error_set(err, INFER_EFORMAT,
                         "external data: the tensors name more bytes of a file "
                         "than it has");
    data = malloc(bytes ? bytes : 1);
    if (!data)
        return error_set(err, INFER_EMEMORY, "no memory for %zu bytes", bytes);
    rc = read_all(fd, range->offset, bytes, data, err);
    if (rc < 0) {
        free(data);
        return rc;
    }
    range->blob = blob_new(data, bytes);
    if (!range->blob)
        return error_set(err, INFER_EMEMORY, "out of memory");
    file->left -= bytes;
    return 0;
}

static int load_checked(int fd, struct weights_location location,
                        uint64_t offset, const struct infer_tensor_info *shape,
                        size_t bytes, struct weights_external *x,
                        struct infer_error *err, struct constant **out)
{
    struct known whole = {.dtype = INFER_NONE}, key, *file, *range;
    struct stat st;
    int rc = check_file(fd, location, &st, err);

    if (rc < 0)
        return rc;
    if (!checked_range(offset, bytes, (uint64_t)st.st_size))
        return error_set(err, INFER_EFORMAT,
                         "external data at %llu + %zu bytes, the file has %llu",
                         (unsigned long long)offset, bytes,
                         (unsigned long long)st.st_size);
    if (!reserve(x))
        return error_set(err, INFER_EMEMORY, "out of memory");
    whole.device = (uint64_t)st.st_dev;
    whole.inode = (uint64_t)st.st_ino;
    whole.left = (uint64_t)st.st_size;
    key = whole;
    key.offset = offset;
    key.bytes = bytes;
    key.dtype = shape->dtype;
    file = entry(x, &whole);
    range = entry(x, &key);
    if (!range->blob && (rc = read_range(fd, range, bytes, file, err)) < 0)
        return rc;
    *out = constant_in_blob(shape->dtype, shape->rank, shape->dim, range->blob,
                            range->blob->data);
    return *out ? 0 : error_set(err, INFER_EMEMORY, "out of memory");
}

bool weights_external_give_back(struct weights_external *x, struct constant *c)
{
    for (size_t i = 0; i < x->slots; i++) {
        struct known *range = &x->known[i];
        const struct known whole = {.device = range->device,
                                    .inode = range->inode,
                                    .dtype = INFER_NONE};

        if (range->blob == NULL || range->blob != c->blob)
            continue;
        constant_unref(c);
        /* No other tensor has it. */
        if (__atomic_load_n(&range->blob->refs, __ATOMIC_ACQUIRE) == 1) {
            find_slot(x->known, x->slots, &whole)->left += range->bytes;
            blob_unref(range->blob);
            range->blob = NULL;
        }
        return true;
    }
    return false;
}

int weights_external_load(const char *path, struct weights_location location,
                          uint64_t offset,
                          const struct infer_tensor_info *shape, size_t bytes,
                          struct weights_external *x, struct infer_error *err,
                          struct constant **out)
{
    int fd = open_location(path, location, err);
    int rc;

    if (fd < 0)
        return fd;
    rc = load_checked(fd, location, offset, shape, bytes, x, err, out);
    close(fd);
    return rc;
}

/* ---- whole files --------------------------------------------------- */

static int read_blob(int fd, struct weights_location location, uint64_t max,
                     struct infer_error *err, struct blob **out)
{
    struct stat st;
    void *data;
    int rc = check_file(fd, location, &st, err);

    if (rc < 0)
        return rc;
    if ((uint64_t)st.st_size > max)
        return bad_location(location, "is too large", err);
    data = malloc((size_t)st.st_size + 1);
    if (!data)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = read_all(fd, 0, (uint64_t)st.st_size, data, err);
    if (rc < 0) {
        free(data);
        return rc;
    }
    *out = blob_new(data, (size_t)st.st_size);
    return *out ? 0 : error_set(err, INFER_EMEMORY, "out of memory");
}

int weights_external_read(const char *path, struct weights_location location,
                          uint64_t max, struct infer_error *err,
                          struct blob **out)
{
    int fd = open_location(path, location, err);
    int rc;

    if (fd < 0)
        return fd;
    rc = read_blob(fd, location, max, err, out);
    close(fd);
    return rc;
}
