/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded (LD_PRELOAD) into a program, makes a call fail:
 *
 *     FAULT_CALL   memory (malloc, calloc, realloc, posix_memalign,
 *                  aligned_alloc), open, read, write, fsync, rename or close
 *     FAULT_N      which of these calls fails, from 1; 0: none
 *     FAULT_FROM   1: all later ones fail too
 *     FAULT_ERRNO  of calls other than memory (default EIO)
 *     FAULT_COUNT  file that gets the number of these calls at the end
 *     FAULT_LEAKS  file that gets the number of blocks that main() and what it
 *                  called allocated and nobody freed, and the file and offset
 *                  of who allocated each (for addr2line); those that libgomp,
 *                  libdnnl, libstdc++ and the loader asked for do not count
 *
 * Counting begins with main(): what runs before it is not the program's own,
 * and the CUDA runtime, which is linked statically, does not survive there.
 * Calls on descriptors 0 to 2 are not counted.  Given, as SECURITY.md says, is
 * the memory that libgomp asks for, the aligned memory that libdnnl asks for,
 * and with FAULT_FROM all memory of libdnnl and of C++.
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
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static const char *call = "";
static long nth, count;
static int from, error = EIO;
static bool ready, leaks;

/* ---- live blocks --------------------------------------------------- */

#define BLOCKS ((size_t)1 << 20)

static void *block[BLOCKS]; /* open addressing; NULL: free, &gone: was taken */
static const void *taker[BLOCKS]; /* who called for it */
static char gone;
static long live_blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t place_of(const void *p)
{
    return (size_t)(((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 44);
}

static void *keep(void *p, const void *caller)
{
    size_t i = place_of(p);

    if (!p)
        return p;
    pthread_mutex_lock(&blocks_lock);
    while (block[i] && block[i] != &gone)
        i = (i + 1) % BLOCKS;
    block[i] = p;
    taker[i] = caller;
    if (++live_blocks > (long)(BLOCKS / 2))
        _exit(99);
    pthread_mutex_unlock(&blocks_lock);
    return p;
}

static void forget(const void *p)
{
    size_t i = place_of(p);

    pthread_mutex_lock(&blocks_lock);
    while (block[i] && block[i] != p)
        i = (i + 1) % BLOCKS;
    if (block[i]) {
        block[i] = &gone;
        live_blocks--;
    }
    pthread_mutex_unlock(&blocks_lock);
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("FAULT_CALL");

    call = name ? name : "";
    nth = number("FAULT_N", 0);
    from = (int)number("FAULT_FROM", 0);
    error = (int)number("FAULT_ERRNO", EIO);
    leaks = getenv("FAULT_LEAKS") != NULL;
}

typedef int main_fn(int, char **, char **);
static main_fn *program;

static int counted_main(int argc, char **argv, char **environment)
{
    ready = true;
    return program(argc, argv, environment);
}

typedef int start_fn(main_fn *main, int argc, char **argv, void (*init)(void),
                     void (*fini)(void), void (*rtld_fini)(void),
                     void *stack_end);
extern start_fn __libc_start_main;

/* Starts the program, with counted_main() in the place of its main(). */
int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void),
                      void *stack_end)
{
    start_fn *real;

    *(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
    program = main;
    return real(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

static void write_number(const char *path, long value)
{
    char text[512];
    Dl_info info;
    int fd, n;

    if (!path)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    n = snprintf(text, sizeof text, "%ld\n", value);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        _exit(99);
    for (size_t i = 0; leaks && i < BLOCKS; i++) {
        if (!block[i] || block[i] == &gone || !dladdr(taker[i], &info))
            continue;
        n = snprintf(
            text, sizeof text, "%.400s +0x%lx\n", info.dli_fname,
            (unsigned long)((uintptr_t)taker[i] - (uintptr_t)info.dli_fbase));
        if (write(fd, text, (size_t)n) != n)
            _exit(99);
    }
    close(fd);
}

__attribute__((destructor)) static void end(void)
{
    ready = false;
    /* The loader keeps the text of its last error until it is asked twice. */
    (void)dlerror();
    (void)dlerror();
    write_number(getenv("FAULT_COUNT"), count);
    write_number(getenv("FAULT_LEAKS"), live_blocks);
}

/* Whether this call, one of the kind, is to fail. */
static bool fails(const char *kind)
{
    long k;

    if (!ready || strcmp(kind, call) != 0)
        return false;
    k = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return nth > 0 && (k == nth || (from && k > nth));
}

/* Whether the address lies in a library whose name holds this word. */
static bool is_in(const void *address, const char *word)
{
    Dl_info info;

    return dladdr(address, &info) != 0 && info.dli_fname &&
           strstr(info.dli_fname, word) != NULL;
}

static bool memory_fails(const void *caller, bool aligned)
{
    if (!ready || strcmp(call, "memory") != 0)
        return false;
    if (is_in(caller, "libgomp") ||
        ((aligned || from) && is_in(caller, "libdnnl")) ||
        (from && is_in(caller, "libstdc++")))
        return false;
    if (!fails("memory"))
        return false;
    errno = ENOMEM;
    return true;
}

#define CALLER __builtin_return_address(0)

/* Remembers a block that counts. */
static void *taken(const void *caller, void *p)
{
    if (ready && leaks && !is_in(caller, "libgomp") &&
        !is_in(caller, "libdnnl") && !is_in(caller, "libstdc++") &&
        !is_in(caller, "ld-linux"))
        return keep(p, caller);
    return p;
}

void *malloc(size_t n)
{
    return memory_fails(CALLER, false) ? NULL : taken(CALLER, __libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
    return memory_fails(CALLER, false) ? NULL
                                       : taken(CALLER, __libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
    void *q;

    if (memory_fails(CALLER, false))
        return NULL;
    if (leaks && p)
        forget(p);
    q = __libc_realloc(p, n);
    if (!q && p && n > 0)
        return keep(p, CALLER), NULL;
    return taken(CALLER, q);
}

void free(void *p)
{
    if (leaks && p)
        forget(p);
    __libc_free(p);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return memory_fails(CALLER, true)
               ? NULL
               : taken(CALLER, __libc_memalign(alignment, n));
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    void *p;

    if (memory_fails(CALLER, true))
        return ENOMEM;
    p = __libc_memalign(alignment, n);
    if (!p)
        return ENOMEM;
    *out = taken(CALLER, p);
    return 0;
}

/* ---- files --------------------------------------------------------- */

#define REAL(result, name, ...)                                                \
    static result (*real)(__VA_ARGS__);                                        \
    if (!real)                                                                 \
    *(void **)&real = dlsym(RTLD_NEXT, name)

static bool file_fails(const char *kind, int fd)
{
    if (fd <= STDERR_FILENO || !fails(kind))
        return false;
    errno = error;
    return true;
}

ssize_t read(int fd, void *to, size_t n)
{
    REAL(ssize_t, "read", int, void *, size_t);
    return file_fails("read", fd) ? -1 : real(fd, to, n);
}

ssize_t pread64(int fd, void *to, size_t n, off64_t at)
{
    REAL(ssize_t, "pread64", int, void *, size_t, off64_t);
    return file_fails("read", fd) ? -1 : real(fd, to, n, at);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    return pread64(fd, to, n, at);
}

ssize_t write(int fd, const void *from_data, size_t n)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    return file_fails("write", fd) ? -1 : real(fd, from_data, n);
}

ssize_t pwrite64(int fd, const void *from_data, size_t n, off64_t at)
{
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    return file_fails("write", fd) ? -1 : real(fd, from_data, n, at);
}

ssize_t pwrite(int fd, const void *from_data, size_t n, off_t at)
{
    return pwrite64(fd, from_data, n, at);
}

int fsync(int fd)
{
    REAL(int, "fsync", int);
    return file_fails("fsync", fd) ? -1 : real(fd);
}

int rename(const char *old, const char *new)
{
    REAL(int, "rename", const char *, const char *);
    return file_fails("rename", 3) ? -1 : real(old, new);
}

/* The descriptor is closed all the same, as Linux does. */
int close(int fd)
{
    REAL(int, "close", int);
    const bool failing = file_fails("close", fd);
    const int rc = real(fd);

    if (failing)
        errno = error;
    return failing ? -1 : rc;
}

int open(const char *path, int flags, ...)
{
    REAL(int, "open", const char *, int, ...);
    va_list rest;
    mode_t mode;

    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    return file_fails("open", 3) ? -1 : real(path, flags, mode);
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
