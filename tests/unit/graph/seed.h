/* SPDX-License-Identifier: Apache-2.0 */
/* Where rand() starts in tests that disturb their cases: the same place every
 * time, or where the variable SEED says. */
#ifndef TESTS_UNIT_GRAPH_SEED_H
#define TESTS_UNIT_GRAPH_SEED_H

#include <stdlib.h>

static inline void seed_start(void)
{
    const char *text = getenv("SEED");

    srand(text != NULL ? (unsigned)strtoul(text, NULL, 10) : 1);
}

#endif
