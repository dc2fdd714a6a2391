/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of numbers in lines that describe one operator (operators.c here and of
 * TensorFlow). */
#ifndef TESTS_UNIT_WEIGHTS_IMPORTER_LINE_H
#define TESTS_UNIT_WEIGHTS_IMPORTER_LINE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

#define MOST 16

struct list {
    int64_t integer[MOST];
    float real[MOST];
    int n;
    bool is_real;
};

/* Numbers up to the closing bracket; the text behind it. */
static inline const char *read_list(const char *p, struct list *out)
{
    memset(out, 0, sizeof *out);
    while (*p && !strchr("])}", *p)) {
        char *end;

        assert_true(out->n < MOST);
        out->real[out->n] = strtof(p, &end);
        out->integer[out->n++] = strtoll(p, NULL, 10);
        assert_true(end > p);
        out->is_real |= memchr(p, '.', (size_t)(end - p)) != NULL;
        p = end + (*end == ',');
    }
    assert_true(*p != '\0');
    return p + 1;
}

#endif
