/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the weight readers share: reading bytes as a format, and
 * damaging them. */
#ifndef TESTS_UNIT_WEIGHTS_FORMATS_HELP_H
#define TESTS_UNIT_WEIGHTS_FORMATS_HELP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "tests/unit/test.h"
#include "tests/unit/weights/importer/memory_faults.h"
#include "tests/zipmaker.h"
#include "weights/weights.h"

/* A blob of exactly these bytes, so that AddressSanitizer sees every read
 * beyond them. */
static inline struct blob *help_blob(const void *data, size_t bytes)
{
    unsigned char *copy = malloc(bytes ? bytes : 1);
    struct blob *blob;

    assert_non_null(copy);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    blob = blob_new(copy, bytes);
    assert_non_null(blob);
    return blob;
}

/* Reads bytes as one format; out is to be cleared whatever comes back. */
static inline int help_read(const struct weights_format *format,
                            const void *data, size_t bytes,
                            struct infer_error *err, struct weights_import *out)
{
    struct weights_file file = {"memory", help_blob(data, bytes)};
    struct weights_options options;
    int rc;

    weights_options_init(&options);
    weights_import_init(out);
    err->text[0] = 0;
    memory_faults_on();
    rc = format->read(&file, &options, err, out);
    memory_faults_off();
    if (rc < 0)
        assert_true(err->text[0] != 0);
    weights_file_close(&file);
    return rc;
}

static inline int help_status(const struct weights_format *format,
                              const void *data, size_t bytes)
{
    struct weights_import import;
    struct infer_error err;
    int rc = help_read(format, data, bytes, &err, &import);

    weights_import_clear(&import);
    return rc;
}

/* The bytes must be refused, with a text that has `word` in it. */
static inline void help_refused(const struct weights_format *format,
                                const void *data, size_t bytes,
                                const char *word)
{
    struct weights_import import;
    struct infer_error err;
    int rc = help_read(format, data, bytes, &err, &import);

    weights_import_clear(&import);
    if (rc >= 0)
        fail_msg("accepted, but '%s' was expected", word);
    if (!strstr(err.text, word))
        fail_msg("'%s' was expected in: %s", word, err.text);
}

/* Every prefix of the bytes must be refused. */
static inline void help_truncate(const struct weights_format *format,
                                 const void *data, size_t bytes)
{
    size_t n;

    for (n = 0; n < bytes; n++)
        if (help_status(format, data, n) >= 0)
            fail_msg("accepted with %zu of %zu bytes", n, bytes);
}

/* Flips every bit of the first 4 KiB; nothing may go wrong beside an error.
 * Returns how many of the results were accepted. */
static inline size_t help_flip(const struct weights_format *format,
                               const void *data, size_t bytes)
{
    unsigned char *copy = malloc(bytes ? bytes : 1);
    size_t i, bits = (bytes < 4096 ? bytes : 4096) * 8, accepted = 0;

    assert_non_null(copy);
    memcpy(copy, data, bytes);
    for (i = 0; i < bits; i++) {
        copy[i / 8] ^= (unsigned char)(1u << i % 8);
        accepted += help_status(format, copy, bytes) >= 0;
        copy[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    free(copy);
    return accepted;
}

/* Reads a whole file, or fails the test. */
static inline unsigned char *help_file(const char *path, size_t *bytes)
{
    struct weights_file file;
    struct infer_error err;
    unsigned char *copy;

    if (weights_file_read(path, 0, &err, &file) < 0)
        fail_msg("%s", err.text);
    copy = malloc(file.blob->bytes + 1);
    assert_non_null(copy);
    memcpy(copy, file.blob->data, file.blob->bytes);
    *bytes = file.blob->bytes;
    weights_file_close(&file);
    return copy;
}

/* TEST_DATA/name, or skips the test. */
static inline const char *help_data(char *path, size_t bytes, const char *name)
{
    const char *folder = getenv("TEST_DATA");

    if (!folder) {
        print_message("TEST_DATA is not set: skipped\n");
        skip();
    }
    snprintf(path, bytes, "%s/%s", folder, name);
    return path;
}

static inline const struct constant *
help_tensor(const struct weights_import *import, const char *name, int rank,
            const int64_t *dim)
{
    const struct constant *c = weights_dict_find(&import->dict, name);
    int i;

    if (!c)
        fail_msg("tensor '%s' is missing", name);
    assert_int_equal(c->rank, rank);
    for (i = 0; i < rank; i++)
        assert_int_equal(c->dim[i], dim[i]);
    return c;
}

#endif
