/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that this process may use: the machine's, or less by a limit of
 * its control group (container) or of its addresses (ulimit -v). */
#include "config.h"

#include "kernels/base/memory_size.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* Reads a small file, zero-terminated; false where there is none.  Allocates
 * nothing. */
static bool read_text(const char *path, char *text, size_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = 1;

    if (fd < 0)
        return false;
    while (n + 1 < bytes && got != 0) {
        got = read(fd, text + n, bytes - 1 - n);
        if (got < 0 && errno != EINTR)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    text[n] = '\0';
    return got >= 0;
}

/* A limit in a file; UINT64_MAX for "max", nonsense or no file. */
static uint64_t limit_in(const char *path)
{
    char text[64], *end;
    unsigned long long value;

    if (!read_text(path, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return UINT64_MAX;
    errno = 0;
    value = strtoull(text, &end, 10);
    return errno == 0 && end != text ? value : UINT64_MAX;
}

/* The lowest limit of a group and those above it: mount/group/.../file. */
static uint64_t lowest_limit(const char *mount, const char *group,
                             const char *file)
{
    char path[PATH_BYTES + 64], folder[PATH_BYTES];
    uint64_t lowest = UINT64_MAX, limit;
    const int top = snprintf(folder, sizeof folder, "%s", mount);
    char *slash;

    if (top < 0 || snprintf(folder, sizeof folder, "%s%s", mount, group) >=
                       (int)sizeof folder)
        return UINT64_MAX;
    for (;;) {
        snprintf(path, sizeof path, "%s/%s", folder, file);
        limit = limit_in(path);
        if (limit < lowest)
            lowest = limit;
        slash = strrchr(folder, '/');
        if (slash == NULL || slash - folder < top)
            return lowest;
        *slash = '\0';
    }
}

/* The group in a line "N:CONTROLLERS:GROUP" of /proc/self/cgroup; NULL if the
 * line is of another controller.  Version 2 has one line without any. */
static const char *group_of(char *line, bool *version_2)
{
    char *controllers = strchr(line, ':'), *group, *word, *rest = NULL;

    group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL)
        return NULL;
    *controllers++ = '\0';
    *group++ = '\0';
    *version_2 = controllers[0] == '\0';
    for (word = strtok_r(controllers, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest))
        if (strcmp(word, "memory") == 0)
            return group;
    return *version_2 ? group : NULL;
}

uint64_t memory_group_limit(const char *groups, const char *mount)
{
    char text[PATH_BYTES], folder[PATH_BYTES], *line, *rest = NULL;
    uint64_t lowest = UINT64_MAX;

    if (!read_text(groups, text, sizeof text))
        return UINT64_MAX;
    for (line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        bool version_2 = false;
        const char *group = group_of(line, &version_2);
        uint64_t limit;

        if (group == NULL)
            continue;
        snprintf(folder, sizeof folder, "%s%s", mount,
                 version_2 ? "" : "/memory");
        limit = lowest_limit(
            folder, group, version_2 ? "memory.max" : "memory.limit_in_bytes");
        if (limit < lowest)
            lowest = limit;
    }
    return lowest;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t of_machine;

static void find_size(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t group =
        memory_group_limit("/proc/self/cgroup", "/sys/fs/cgroup");

    of_machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page
                                       : (uint64_t)8 << 30;
    if (group > 0 && group < of_machine)
        of_machine = group;
}

uint64_t memory_size(void)
{
    struct rlimit limit;

    pthread_once(&once, find_size);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < of_machine)
        return limit.rlim_cur;
    return of_machine;
}
