/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic replacement of files. */
#include "config.h"

#include "kernels/base/file_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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
    free(w->former);
    w->fd = -1;
    w->path = w->target = w->temporary = w->former = NULL;
}

/* Folder of a path; NULL when out of memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* ---- what a killed process left ------------------------------------ */

/* Seconds without a write after which a temporary file of a process that this
 * system does not know is nobody's: it might be another host's. */
#define STALE_SECONDS 60

/* The process in "BASE.PID.N.tmp", or 0 for another name. */
static long writer_of(const char *name, const char *base)
{
    const size_t length = strlen(base);
    char end[8] = "";
    long pid;
    int i;

    if (strncmp(name, base, length) != 0 ||
        sscanf(name + length, ".%ld.%d.%4s", &pid, &i, end) != 3 ||
        strcmp(end, "tmp") != 0 || pid <= 0)
        return 0;
    return pid;
}

static bool is_stale(int folder, const char *name, long pid)
{
    struct stat st;

    return (kill((pid_t)pid, 0) < 0 && errno == ESRCH) &&
           fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           time(NULL) - st.st_mtime >= STALE_SECONDS;
}

static void sweep(const char *folder, const char *target)
{
    const char *slash = strrchr(target, '/');
    const char *base = slash == NULL ? target : slash + 1;
    const struct dirent *entry;
    DIR *list = opendir(folder);

    while (list != NULL && (entry = readdir(list)) != NULL) {
        const long pid = writer_of(entry->d_name, base);

        if (pid > 0 && is_stale(dirfd(list), entry->d_name, pid))
            (void)unlinkat(dirfd(list), entry->d_name, 0);
    }
    if (list != NULL)
        closedir(list);
}

/* ---- creation ------------------------------------------------------ */

/* Calls make() with names until one is free; make() returns -1 with errno.
 * EMEMORY, or EIO with errno; neither sets an error. */
static int try_names(struct file_writer *w,
                     int (*make)(struct file_writer *w, const char *name),
                     char **out)
{
    const size_t bytes = strlen(w->target) + 48;
    char *name = malloc(bytes);
    int i, made = -1;

    if (name == NULL)
        return INFER_EMEMORY;
    for (i = 0; i < 100 && made < 0; i++) {
        snprintf(name, bytes, "%s.%ld.%d.tmp", w->target, (long)getpid(), i);
        made = make(w, name);
        if (made < 0 && errno != EEXIST)
            break;
    }
    if (made < 0) {
        free(name);
        return INFER_EIO;
    }
    *out = name;
    return INFER_OK;
}

static int name_temporary(struct file_writer *w,
                          int (*make)(struct file_writer *w, const char *name),
                          struct infer_error *err)
{
    const int rc = try_names(w, make, &w->temporary);

    if (rc == INFER_EMEMORY)
        return error_set(err, rc, "out of memory");
    return rc < 0 ? fail(w, "cannot create a file in its folder", err) : rc;
}

/* EXCL: no other process takes the name. */
static int make_named(struct file_writer *w, const char *name)
{
    w->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return w->fd;
}

#ifdef O_TMPFILE
/* How linkat() names an open file. */
static void descriptor_path(int fd, char text[32])
{
    snprintf(text, 32, "/proc/self/fd/%d", fd);
}

/* A file without a name; -1 where the system or the file system has none. */
static int open_unnamed(const char *folder)
{
    const int fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    char text[32];
    struct stat st;

    if (fd < 0)
        return -1;
    descriptor_path(fd, text);
    if (stat(text, &st) < 0) { /* no /proc */
        close(fd);
        return -1;
    }
    return fd;
}

static int give_name(struct file_writer *w, const char *name)
{
    char text[32];

    descriptor_path(w->fd, text);
    return linkat(AT_FDCWD, text, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}
#endif

static int create(struct file_writer *w, struct infer_error *err)
{
    char *folder = folder_of(w->target);

    if (folder == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    sweep(folder, w->target);
#ifdef O_TMPFILE
    w->fd = open_unnamed(folder);
#endif
    free(folder);
    return w->fd >= 0 ? INFER_OK : name_temporary(w, make_named, err);
}

/* Before the rename, which wants a name. */
static int name_file(struct file_writer *w, struct infer_error *err)
{
#ifdef O_TMPFILE
    if (w->temporary == NULL)
        return name_temporary(w, give_name, err);
#endif
    (void)w, (void)err;
    return INFER_OK;
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
    char *folder = folder_of(path);
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

/* All but the rename. */
static int finish(struct file_writer *w, bool sync, struct infer_error *err)
{
    int rc = INFER_OK, closed;

    if (sync && fsync(w->fd) < 0)
        rc = fail(w, "cannot sync", err);
    if (rc == INFER_OK)
        rc = name_file(w, err);
    closed = close(w->fd);
    w->fd = -1;
    if (rc == INFER_OK && closed < 0)
        rc = fail(w, "cannot close", err);
    return rc;
}

static int put_in_place(struct file_writer *w, struct infer_error *err)
{
    if (rename(w->temporary, w->target) < 0)
        return fail(w, "cannot rename the new file to it", err);
    free(w->temporary);
    w->temporary = NULL;
    return INFER_OK;
}

static int name_former(struct file_writer *w, const char *name)
{
    return link(w->target, name);
}

/* A file system without hard links keeps no former file: then a failure leaves
 * the new one. */
static int keep_former(struct file_writer *w, struct infer_error *err)
{
    const int rc = try_names(w, name_former, &w->former);

    if (rc == INFER_EMEMORY)
        return error_set(err, rc, "out of memory");
    w->fresh = rc < 0 && errno == ENOENT;
    return INFER_OK;
}

/* The target is again what it was. */
static void take_back(struct file_writer *w)
{
    if (w->fresh)
        unlink(w->target);
    if (w->former == NULL || rename(w->former, w->target) < 0)
        return;
    free(w->former);
    w->former = NULL;
}

static int commit(struct file_writer *w, int n, bool sync,
                  struct infer_error *err)
{
    int rc = INFER_OK, done = 0, i;

    for (i = 0; rc == INFER_OK && i < n; i++)
        rc = finish(&w[i], sync, err);
    /* Only what has another file behind it may have to be taken back. */
    for (i = 0; rc == INFER_OK && i < n - 1; i++)
        rc = keep_former(&w[i], err);
    for (; rc == INFER_OK && done < n; done += rc == INFER_OK)
        rc = put_in_place(&w[done], err);
    for (i = 0; rc < 0 && i < done; i++)
        take_back(&w[i]);
    for (i = 0; i < n; i++) {
        if (w[i].former != NULL)
            unlink(w[i].former);
        if (rc == INFER_OK && sync)
            sync_folder(w[i].target);
        file_writer_abort(&w[i]);
    }
    return rc;
}

int file_writer_commit(struct file_writer *w, struct infer_error *err)
{
    return commit(w, 1, true, err);
}

int file_writers_commit(struct file_writer *w, int n, bool sync,
                        struct infer_error *err)
{
    return commit(w, n, sync, err);
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
        return commit(&w, 1, sync, err);
    file_writer_abort(&w);
    return rc;
}
