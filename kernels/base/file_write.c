/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic replacement of files. */
#include "config.h"

#include "kernels/base/file_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/error.h"

static int fail(const struct file_writer *w, const char *what,
                struct infer_error *err)
{
    return error_set(err, INFER_EIO, "%s: %s: %s", w->path, what,
                     strerror(errno));
}

static void release(struct file_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    free(w->path);
    free(w->target);
    free(w->temporary);
    w->fd = -1;
    w->path = w->target = w->temporary = NULL;
}

/* A name that no other process takes: EXCL makes sure of it, the number only
 * avoids what an earlier crash left behind. */
static int create(struct file_writer *w, struct infer_error *err)
{
    size_t bytes = strlen(w->target) + 48;
    int i;

    w->temporary = malloc(bytes);
    if (w->temporary == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < 100; i++) {
        snprintf(w->temporary, bytes, "%s.%ld.%d.tmp", w->target,
                 (long)getpid(), i);
        w->fd =
            open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0)
            return INFER_OK;
        if (errno != EEXIST)
            break;
    }
    return fail(w, "cannot create a file beside it", err);
}

/* Where the file lies: a rename would replace a link, not what it names. */
static int resolve(struct file_writer *w, struct infer_error *err)
{
    struct stat st;

    if (lstat(w->path, &st) < 0 || !S_ISLNK(st.st_mode)) {
        w->target = strdup(w->path);
        return w->target != NULL
                   ? INFER_OK
                   : error_set(err, INFER_EMEMORY, "out of memory");
    }
    w->target = realpath(w->path, NULL);
    return w->target != NULL ? INFER_OK
                             : fail(w, "cannot follow this link", err);
}

int file_writer_open(const char *path, struct infer_error *err,
                     struct file_writer *out)
{
    struct file_writer w = {.fd = -1};
    struct stat st;
    bool there;
    int rc;

    if (path[0] == '\0')
        return error_set(err, INFER_EARGUMENT,
                         "the file to write has an empty name");
    w.path = strdup(path);
    if (w.path == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    there = stat(path, &st) == 0;
    if (there && !S_ISREG(st.st_mode))
        rc = error_set(err, INFER_EIO, "%s: not a regular file", path);
    else
        rc = resolve(&w, err);
    if (rc == INFER_OK)
        rc = create(&w, err);
    /* Some file systems know no permissions; the file is written all the
     * same. */
    if (rc == INFER_OK && there)
        (void)fchmod(w.fd, st.st_mode & 0777);
    if (rc < 0)
        release(&w);
    else
        *out = w;
    return rc;
}

int file_writer_put(struct file_writer *w, uint64_t offset, const void *data,
                    size_t bytes, struct infer_error *err)
{
    const unsigned char *from = data;

    while (bytes > 0) {
        ssize_t done = pwrite(w->fd, from, bytes, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return fail(w, "cannot write", err);
        from += done;
        offset += (uint64_t)done;
        bytes -= (size_t)done;
    }
    return INFER_OK;
}

/* The rename itself must reach the disk.  Some file systems refuse to sync a
 * folder; the file is complete all the same. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL   ? strdup(".")
                   : slash == path ? strdup("/")
                                   : strndup(path, (size_t)(slash - path));
    int fd;

    if (folder == NULL)
        return;
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

static int commit(struct file_writer *w, bool sync, struct infer_error *err)
{
    int rc = INFER_OK, closed;

    if (sync && fsync(w->fd) < 0)
        rc = fail(w, "cannot sync", err);
    closed = close(w->fd);
    w->fd = -1;
    if (rc == INFER_OK && closed < 0)
        rc = fail(w, "cannot close", err);
    if (rc == INFER_OK && rename(w->temporary, w->target) < 0)
        rc = fail(w, "cannot rename the new file to it", err);
    if (rc < 0)
        unlink(w->temporary);
    else if (sync)
        sync_folder(w->target);
    release(w);
    return rc;
}

int file_writer_commit(struct file_writer *w, struct infer_error *err)
{
    return commit(w, true, err);
}

void file_writer_abort(struct file_writer *w)
{
    if (w->temporary != NULL)
        unlink(w->temporary);
    release(w);
}

/* ---- whole files --------------------------------------------------- */

int file_replace(const char *path, const struct file_part *part, int n,
                 bool sync, struct infer_error *err)
{
    struct file_writer w;
    uint64_t at = 0;
    int i, rc = file_writer_open(path, err, &w);

    if (rc < 0)
        return rc;
    for (i = 0; rc == INFER_OK && i < n; i++) {
        rc = file_writer_put(&w, at, part[i].data, part[i].bytes, err);
        at += part[i].bytes;
    }
    if (rc == INFER_OK)
        return commit(&w, sync, err);
    file_writer_abort(&w);
    return rc;
}
