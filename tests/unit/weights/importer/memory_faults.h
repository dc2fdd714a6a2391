/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of a reader that fail, for the tests of tables of lines (table.h
 * here): the helpers that call a reader say when it runs. */
#ifndef TESTS_UNIT_WEIGHTS_IMPORTER_MEMORY_FAULTS_H
#define TESTS_UNIT_WEIGHTS_IMPORTER_MEMORY_FAULTS_H

#include <stdbool.h>

/* Whether allocations count, how many there were, which one fails; 0: none. */
struct memory_faults {
    bool on;
    long count, fails;
};

static struct memory_faults memory_faults;

static inline void memory_faults_on(void)
{
    memory_faults.on = true;
}

static inline void memory_faults_off(void)
{
    memory_faults.on = false;
}

/* Whether the allocation that begins fails. */
static inline bool memory_fault(void)
{
    return memory_faults.on && ++memory_faults.count == memory_faults.fails;
}

#endif
