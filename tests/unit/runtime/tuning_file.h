/* SPDX-License-Identifier: Apache-2.0 */
/* A tuning cache of a test program's own, whose folders go with it. */
#ifndef TESTS_UNIT_RUNTIME_TUNING_FILE_H
#define TESTS_UNIT_RUNTIME_TUNING_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/test.h"

static char tuning_folder[] = "tuning-XXXXXX";
static char tuning_inner[64]; /* not there at first: the cache makes it */
static char tuning_path[128];

/* Set-up and tear-down of a group of cmocka's tests. */
static inline int tuning_file_set_up(void **unused)
{
    (void)unused;
    if (!mkdtemp(tuning_folder))
        return -1;
    snprintf(tuning_inner, sizeof tuning_inner, "%s/cache", tuning_folder);
    snprintf(tuning_path, sizeof tuning_path, "%s/tuning.json", tuning_inner);
    return 0;
}

static inline int tuning_file_tear_down(void **unused)
{
    (void)unused;
    unlink(tuning_path);
    rmdir(tuning_inner);
    return rmdir(tuning_folder);
}

/* What a stranger, or an earlier run, might have left there. */
static inline void tuning_file_write(const char *text)
{
    FILE *f;

    mkdir(tuning_inner, 0700);
    f = fopen(tuning_path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#endif
