/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow graphs in memory given to the reader, for its tests. */
#ifndef TESTS_UNIT_WEIGHTS_TENSORFLOW_GRAPHDEF_READER_H
#define TESTS_UNIT_WEIGHTS_TENSORFLOW_GRAPHDEF_READER_H

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tests/unit/graph/data.h"
#include "tests/unit/weights/importer/memory_faults.h"
#include "tests/unit/weights/protobuf_writer.h"
#include "weights/weights.h"

extern const struct weights_format weights_format_tensorflow;

/* Reads bytes as a frozen graph.  What is accepted has known shapes; *out is
 * the graph, or NULL after a failure, which err describes. */
static inline int def_read(const void *data, size_t bytes, struct graph **out,
                           struct infer_error *err)
{
    struct weights_file file = {.path = "memory/graph.pb"};
    struct weights_options options;
    struct weights_import import;
    unsigned char *copy = malloc(bytes ? bytes : 1);
    int rc;

    assert_non_null(copy);
    if (bytes)
        memcpy(copy, data, bytes);
    file.blob = blob_new(copy, bytes);
    assert_non_null(file.blob);
    weights_options_init(&options);
    weights_import_init(&import);
    *err = (struct infer_error){0};
    *out = NULL;
    memory_faults_on();
    rc = weights_format_tensorflow.probe(&file) > 0
             ? weights_format_tensorflow.read(&file, &options, err, &import)
             : error_set(err, INFER_EFORMAT, "another format");
    memory_faults_off();
    if (rc == 0)
        rc = graph_infer_shapes(import.graph, NULL, err);
    if (rc == 0) {
        assert_int_equal(graph_validate(import.graph, err), 0);
        *out = graph_copy(import.graph);
        assert_non_null(*out);
    }
    weights_import_clear(&import);
    weights_file_close(&file);
    return rc;
}

/* The graph of a message, which is released. */
static inline struct graph *def_read_graph(struct pb_message *m)
{
    struct graph *g;
    struct infer_error err;

    if (def_read(m->data, m->size, &g, &err) < 0)
        fail_msg("%s", err.text);
    pb_free(m);
    return g;
}

/* A message, which is released, must be refused by this status with these
 * words. */
static inline void def_refused(struct pb_message *m, int code,
                               const char *words)
{
    struct graph *g;
    struct infer_error err;
    const int rc = def_read(m->data, m->size, &g, &err);

    if (rc != code || !strstr(err.text, words))
        fail_msg("%d: %s; expected %d: %s", rc, err.text, code, words);
    pb_free(m);
}

/* Flips every step-th bit from `first` on, one after the other: a crash, a leak
 * and an error without words are failures. */
static inline void def_damage(struct pb_message *m, size_t first, size_t step)
{
    for (size_t i = first; i < 8 * m->size; i += step) {
        const unsigned char bit = (unsigned char)(1u << i % 8);
        struct infer_error err;
        struct graph *g;

        m->data[i / 8] ^= bit;
        if (def_read(m->data, m->size, &g, &err) < 0)
            assert_true(err.text[0] != 0);
        graph_free(g);
        m->data[i / 8] ^= bit;
    }
}

#endif
