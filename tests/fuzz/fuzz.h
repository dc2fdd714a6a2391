/* SPDX-License-Identifier: Apache-2.0 */
/* What every fuzz target defines, and what those of readers share. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weights/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of replay.c: how a reader ended, and a sum over what it read.  A target may
 * tell several. */
#pragma weak fuzz_verdict
void fuzz_verdict(int rc, const struct infer_error *err, unsigned sum);

static inline int fuzz_tell(int rc, const struct infer_error *err, unsigned sum)
{
    if (fuzz_verdict)
        fuzz_verdict(rc, err, sum);
    return rc;
}

/* A blob of its own allocation, so that a read beyond its end is seen. */
static inline struct blob *fuzz_blob(const void *data, size_t size)
{
    unsigned char *copy = malloc(size ? size : 1);

    if (copy && size > 0)
        memcpy(copy, data, size);
    return copy ? blob_new(copy, size) : NULL;
}

/* Probes and reads the bytes as one format, and reads every element of what
 * came out. */
static inline void fuzz_read(const struct weights_format *format,
                             const void *data, size_t size)
{
    struct weights_file file = {"fuzz", fuzz_blob(data, size)};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;
    volatile unsigned sum = 0;
    size_t i, j;
    int rc = 0;

    if (!file.blob)
        return;
    weights_options_init(&options);
    weights_import_init(&import);
    format->probe(&file);
    if (size > 0)
        rc = format->read(&file, &options, &err, &import);
    for (i = 0; rc == 0 && i < import.dict.count; i++)
        for (j = 0; j < import.dict.entry[i].value->bytes; j++)
            sum = sum * 3 + import.dict.entry[i].value->data[j];
    fuzz_tell(rc, &err, sum);
    weights_import_clear(&import);
    weights_file_close(&file);
}

/* The same of a format that gives a graph, which must hold together: what a
 * reader accepts has known shapes throughout. */
static inline void fuzz_graph_with(const struct weights_format *format,
                                   const struct weights_options *options,
                                   const void *data, size_t size)
{
    struct weights_file file = {"fuzz/none", fuzz_blob(data, size)};
    struct weights_import import;
    struct infer_error err;

    if (!file.blob)
        return;
    weights_import_init(&import);
    format->probe(&file);
    if (fuzz_tell(format->read(&file, options, &err, &import), &err, 0) == 0 &&
        (graph_infer_shapes(import.graph, NULL, &err) < 0 ||
         graph_validate(import.graph, &err) < 0))
        abort();
    weights_import_clear(&import);
    weights_file_close(&file);
}

static inline void fuzz_graph(const struct weights_format *format,
                              const void *data, size_t size)
{
    struct weights_options options;

    weights_options_init(&options);
    fuzz_graph_with(format, &options, data, size);
}

#endif
