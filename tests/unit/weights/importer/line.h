/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that describe one operator (operators.c here, of TensorFlow, TFLite and
 * PyTorch): the operator, then names of inputs and attributes with lists of
 * numbers, numbers or words behind them. */
#ifndef TESTS_UNIT_WEIGHTS_IMPORTER_LINE_H
#define TESTS_UNIT_WEIGHTS_IMPORTER_LINE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libinfer/graph/graph.h"
#include "tests/unit/test.h"

#define MOST  16
#define CHARS 48 /* of names and words */

struct list {
    int64_t integer[MOST];
    float real[MOST];
    int n;
    bool is_real;
};

/* A line, the status of reading it, and what is said: the whole of it where the
 * status is 0, else a part of the message. */
struct line_row {
    const char *line;
    int code;
    const char *word;
};

static inline void check_lines(const struct line_row *row, size_t n,
                               int (*read)(const char *line, char *said,
                                           size_t room))
{
    for (size_t i = 0; i < n; i++) {
        char said[1024];
        const int rc = read(row[i].line, said, sizeof said);

        if (rc != row[i].code || (rc == 0 ? strcmp(said, row[i].word) != 0
                                          : !strstr(said, row[i].word)))
            fail_msg("%s: %d, '%s'", row[i].line, rc, said);
    }
}

/* The shapes of a graph's outputs: "2,3 4". */
static inline void shapes_of(const struct graph *g, char *out, size_t room)
{
    size_t n = 0;

    out[0] = 0;
    for (int i = 0; i < g->n_outputs; i++) {
        const struct graph_value *v = &g->value[g->output[i]];

        if (i > 0 && n < room)
            n += (size_t)snprintf(out + n, room - n, " ");
        for (int d = 0; d < v->rank && n < room; d++)
            n += (size_t)snprintf(out + n, room - n, "%s%lld", d ? "," : "",
                                  (long long)v->dim[d]);
    }
}

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

/* What stands up to one of the ends; the text behind it. */
static inline const char *read_up_to(const char *p, const char *ends,
                                     char out[CHARS])
{
    const size_t n = strcspn(p, ends);

    assert_true(n < CHARS);
    snprintf(out, CHARS, "%.*s", (int)n, p);
    return p + n;
}

/* The text behind a word up to its quote. */
static inline const char *read_word(const char *p, char out[CHARS])
{
    return read_up_to(p, "'", out) + 1;
}

/* The name of the next input or attribute; what is behind it. */
static inline const char *read_name(const char *p, char out[CHARS])
{
    return read_up_to(p + (*p == ' '), " =([{", out);
}

#endif
