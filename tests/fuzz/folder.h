/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the process's own, in memory where the system has such, for
 * readers that open files by name. */
#ifndef TESTS_FUZZ_FOLDER_H
#define TESTS_FUZZ_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Its path; the same in every call. */
static inline const char *folder_path(void)
{
    static char path[64];

    if (path[0] == '\0')
        snprintf(path, sizeof path, "%s/fuzz-%ld",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
                 (long)getpid());
    return path;
}

static inline void folder_open(void)
{
    if (mkdir(folder_path(), 0700) < 0)
        abort();
}

/* The path of a file in it. */
static inline const char *folder_file(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", folder_path(), name);
    return path;
}

static inline void folder_put(const char *name, const void *data, size_t size)
{
    char path[128];
    FILE *f = fopen(folder_file(name, path), "wb");

    if (!f || (size > 0 && fwrite(data, 1, size, f) != size) || fclose(f) != 0)
        abort();
}

static inline void folder_remove(const char *name)
{
    char path[128];

    if (unlink(folder_file(name, path)) < 0)
        abort();
}

/* Nothing may be left in it. */
static inline void folder_close(void)
{
    if (rmdir(folder_path()) < 0)
        abort();
}

#endif
