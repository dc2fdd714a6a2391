/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of a test program's own, for a group's set_up and tear_down. */
#ifndef TESTS_UNIT_FOLDER_H
#define TESTS_UNIT_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

static char test_folder[] = "/tmp/infer-test-XXXXXX";

static int folder_set_up(void **state)
{
    (void)state;
    return mkdtemp(test_folder) == NULL ? -1 : 0;
}

static int folder_tear_down(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", test_folder);
    return system(command);
}

/* The path of a file there, until the next call. */
static inline const char *in_folder(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", test_folder, name);
    return path;
}

#endif
