/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the data of others (TEST_DATA), reading files and walking folders,
 * for tests. */
#ifndef TESTS_UNIT_GRAPH_DATA_H
#define TESTS_UNIT_GRAPH_DATA_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/test.h"

/* TEST_DATA/path in buf, or NULL where TEST_DATA is unset or has no such
 * file. */
static inline const char *data_path(const char *path, char *buf, size_t bytes)
{
    const char *top = getenv("TEST_DATA");
    struct stat st;

    if (top == NULL || top[0] == '\0')
        return NULL;
    snprintf(buf, bytes, "%s/%s", top, path);
    return stat(buf, &st) == 0 ? buf : NULL;
}

/* For the start of a test that needs it: skips with a word otherwise. */
#define REQUIRE_DATA(path, buf)                                                \
    do {                                                                       \
        if (data_path(path, buf, sizeof(buf)) == NULL) {                       \
            print_message("skipped: TEST_DATA has no %s\n", path);             \
            skip();                                                            \
        }                                                                      \
    } while (0)

/* All of a file, which the test needs, and '\0' behind it. */
struct data_bytes {
    unsigned char *data; /* to be freed */
    size_t bytes;
};

static inline struct data_bytes data_read(const char *path)
{
    struct data_bytes b = {NULL, 0};
    FILE *f = fopen(path, "rb");

    if (f == NULL)
        fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    b.bytes = (size_t)ftell(f);
    rewind(f);
    b.data = malloc(b.bytes + 1);
    assert_non_null(b.data);
    assert_int_equal(fread(b.data, 1, b.bytes, f), b.bytes);
    b.data[b.bytes] = '\0';
    fclose(f);
    return b;
}

/* Calls visit for every regular file below folder, sorted. */
static inline void walk_files(const char *folder,
                              void (*visit)(const char *path, void *user),
                              void *user)
{
    struct dirent **names;
    int i, n = scandir(folder, &names, NULL, alphasort);

    for (i = 0; i < n; i++) {
        char path[4096];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && stat(path, &st) == 0) {
            if (S_ISDIR(st.st_mode))
                walk_files(path, visit, user);
            else
                visit(path, user);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

#endif
