/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of tokens that a space separates, for the tests of readers of texts,
 * and the shapes that such a text gives. */
#ifndef TESTS_UNIT_WEIGHTS_LINES_TOKENS_H
#define TESTS_UNIT_WEIGHTS_LINES_TOKENS_H

#include <stdarg.h>

#include "tests/unit/weights/importer/line.h"
#include "tests/unit/weights/importer/memory_faults.h"
#include "weights/weights.h"

/* Text that grows; ends with NUL. */
struct text {
    char data[16384];
    size_t bytes;
};

__attribute__((format(printf, 2, 3))) static inline void
put(struct text *t, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    t->bytes += (size_t)vsnprintf(t->data + t->bytes, sizeof t->data - t->bytes,
                                  fmt, args);
    va_end(args);
    assert_true(t->bytes < sizeof t->data);
}

/* The next token, or false at the end. */
static inline bool next_token(const char **line, char *token, size_t room)
{
    size_t n;

    *line += strspn(*line, " ");
    n = strcspn(*line, " ");
    if (n == 0)
        return false;
    assert_true(n < room);
    memcpy(token, *line, n);
    token[n] = '\0';
    *line += n;
    return true;
}

/* What a reader of two files makes of them: the shapes of the outputs and the
 * task, where the file has one, or the refusal. */
typedef int read_two(const struct weights_file *net,
                     const struct weights_file *weights,
                     const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out);

static inline int read_texts(read_two *reader, const struct text *net,
                             const void *weights, size_t bytes, char *said,
                             size_t room)
{
    struct weights_file a = {"net", NULL}, b = {"weights", NULL};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};
    unsigned char *copy[2] = {malloc(net->bytes + 1), malloc(bytes + 1)};
    int rc;

    assert_true(copy[0] && copy[1]);
    memcpy(copy[0], net->data, net->bytes);
    if (bytes > 0)
        memcpy(copy[1], weights, bytes);
    a.blob = blob_new(copy[0], net->bytes);
    b.blob = blob_new(copy[1], bytes);
    assert_true(a.blob && b.blob);
    weights_options_init(&options);
    weights_import_init(&import);
    memory_faults_on();
    rc = reader(&a, &b, &options, &err, &import);
    memory_faults_off();
    if (rc == 0)
        rc = graph_sort(import.graph, &err);
    if (rc == 0)
        rc = graph_infer_shapes(import.graph, NULL, &err);
    if (rc == 0) {
        shapes_of(import.graph, said, room);
        if (import.graph->task)
            snprintf(said + strlen(said), room - strlen(said), " %s",
                     import.graph->task);
    } else {
        snprintf(said, room, "%s", err.text);
    }
    weights_import_clear(&import);
    weights_file_close(&a);
    weights_file_close(&b);
    return rc;
}

#endif
