/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded (LD_PRELOAD) into a program, writes down what it does to the files
 * of one folder, for powerloss.c:
 *
 *     RECORD_LOG   the file of records
 *     RECORD_DIR   the folder, an absolute path
 *     RECORD_SKIP  1: leaves out fsync(), as if the program did not call it
 *
 * A record is a line, behind W followed by its bytes and a newline:
 *
 *     C inode path           an empty file got this name
 *     L inode path           a file got this name
 *     R inode old<TAB>new    a file got another name
 *     U path                 a name is gone
 *     W inode offset bytes   written
 *     T inode bytes          cut or extended
 *     S inode                fsync() of a file
 *     D                      fsync() of the folder
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(result, name, ...)                                                \
    static result (*real)(__VA_ARGS__);                                        \
    if (!real)                                                                 \
    *(void **)&real = dlsym(RTLD_NEXT, name)

static int log_fd = -1;
static const char *folder = "";
static bool skip;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("RECORD_LOG"), *under = getenv("RECORD_DIR");

    if (!path || !under)
        return;
    folder = under;
    skip = getenv("RECORD_SKIP") != NULL;
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        _exit(99);
}

/* A line, and the bytes behind it. */
static void put(const char *line, const void *data, size_t bytes)
{
    const int saved = errno;
    struct iovec part[3] = {{(void *)(uintptr_t)line, strlen(line)},
                            {(void *)(uintptr_t)data, bytes},
                            {(void *)(uintptr_t) "\n", data ? 1 : 0}};
    const size_t all = part[0].iov_len + bytes + part[2].iov_len;

    pthread_mutex_lock(&lock);
    if (writev(log_fd, part, 3) != (ssize_t)all)
        _exit(99);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *fmt, ...)
{
    char line[4096];
    va_list rest;

    va_start(rest, fmt);
    vsnprintf(line, sizeof line, fmt, rest);
    va_end(rest);
    put(line, NULL, 0);
}

static bool is_under(const char *path)
{
    const size_t n = strlen(folder);

    return log_fd >= 0 && strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* What a descriptor is: 'd' the folder, 'f' a file in it, 0 neither. */
static char kind_of(int fd, struct stat *st)
{
    char link[40], path[4096];
    ssize_t n;

    if (log_fd < 0 || fd == log_fd || fstat(fd, st) < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return 0;
    path[n] = '\0';
    if (S_ISDIR(st->st_mode))
        return strcmp(path, folder) == 0 ? 'd' : 0;
    return S_ISREG(st->st_mode) && is_under(path) ? 'f' : 0;
}

static void note_write(int fd, const void *data, ssize_t done, off_t at)
{
    char line[96];
    struct stat st;

    if (done <= 0 || kind_of(fd, &st) != 'f')
        return;
    snprintf(line, sizeof line, "W %lu %lld %zd\n", (unsigned long)st.st_ino,
             (long long)at, done);
    put(line, data, (size_t)done);
}

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    const ssize_t done = real(fd, data, n);

    if (log_fd >= 0 && done > 0)
        note_write(fd, data, done, lseek(fd, 0, SEEK_CUR) - done);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    const ssize_t done = real(fd, data, n, at);

    note_write(fd, data, done, at);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return pwrite64(fd, data, n, at);
}

int ftruncate(int fd, off_t bytes)
{
    REAL(int, "ftruncate", int, off_t);
    const int rc = real(fd, bytes);
    struct stat st;

    if (rc == 0 && kind_of(fd, &st) == 'f')
        note("T %lu %lld\n", (unsigned long)st.st_ino, (long long)bytes);
    return rc;
}

int fsync(int fd)
{
    REAL(int, "fsync", int);
    const int rc = real(fd);
    struct stat st;
    const char kind = rc == 0 ? kind_of(fd, &st) : 0;

    if (kind == 'f' && !skip)
        note("S %lu\n", (unsigned long)st.st_ino);
    if (kind == 'd')
        note("D\n");
    return rc;
}

int open(const char *path, int flags, ...)
{
    REAL(int, "open", const char *, int, ...);
    struct stat st;
    va_list rest;
    mode_t mode;
    int fd;

    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    fd = real(path, flags, mode);
    if (fd >= 0 && (flags & (O_WRONLY | O_RDWR)) && is_under(path) &&
        fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if ((flags & O_CREAT) && st.st_size == 0)
            note("C %lu %s\n", (unsigned long)st.st_ino, path);
        else if (flags & O_TRUNC)
            note("T %lu 0\n", (unsigned long)st.st_ino);
    }
    return fd;
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    mode_t mode;

    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    return open(path, flags, mode);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    REAL(int, "linkat", int, const char *, int, const char *, int);
    const int rc = real(from_fd, from, to_fd, to, flags);
    struct stat st;

    if (rc == 0 && is_under(to) && stat(to, &st) == 0)
        note("L %lu %s\n", (unsigned long)st.st_ino, to);
    return rc;
}

int rename(const char *old, const char *new)
{
    REAL(int, "rename", const char *, const char *);
    const int rc = real(old, new);
    struct stat st;

    if (rc == 0 && is_under(new) && stat(new, &st) == 0)
        note("R %lu %s\t%s\n", (unsigned long)st.st_ino, old, new);
    return rc;
}

int unlink(const char *path)
{
    REAL(int, "unlink", const char *);
    const int rc = real(path);

    if (rc == 0 && is_under(path))
        note("U %s\n", path);
    return rc;
}
