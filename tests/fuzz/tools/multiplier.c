/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: tables of multipliers.  The first byte is the number of mantissa
 * bits that the file's name states; the others are the file.  A header's CRC
 * is repaired where the file has one.  What is accepted is measured, put into a
 * graph and taken out again the same. */
#include <stdio.h>
#include <zlib.h>

#include "libinfer/multiplier/multiplier.h"
#include "tests/fuzz/fuzz.h"

/* Ten digits behind the key, as many as the largest CRC has. */
static void repair(unsigned char *data, size_t size)
{
    static const char key[] = "\"crc32\":";
    unsigned char *line = size ? memchr(data, '\n', size) : NULL, *at;
    char text[16];

    at = line ? memmem(data, (size_t)(line - data), key, sizeof key - 1) : NULL;
    if (!at || (size_t)(line - at) < sizeof key + 10)
        return;
    at += sizeof key - 1;
    snprintf(text, sizeof text, "%10lu",
             crc32(0, line + 1, (uInt)(size - (size_t)(line + 1 - data))));
    memcpy(at, text, 10);
}

static void use(const struct multiplier *m)
{
    struct multiplier *again = NULL;
    struct multiplier_errors errors;
    struct graph *g = graph_new();
    struct infer_error err;

    multiplier_measure(m, NULL, NULL, &errors);
    if (!(errors.rate >= 0 && errors.rate <= 1))
        abort();
    if (g && multiplier_store(m, NULL, g, &err) == 0 &&
        (multiplier_stored(g, &err, &again) < 0 || again->bits != m->bits ||
         memcmp(again->table, m->table, 4 * multiplier_entries(m)) != 0))
        abort();
    multiplier_free(again);
    graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *copy = malloc(size ? size : 1);
    struct multiplier *m = NULL;
    struct infer_error err;
    char path[32];

    if (!copy)
        abort();
    if (size > 1)
        memcpy(copy, data + 1, size - 1);
    snprintf(path, sizeof path, "a/fuzz_%d.bin", size ? data[0] : 0);
    if (size > 1)
        repair(copy, size - 1);
    if (fuzz_tell(multiplier_read(path, copy, size ? size - 1 : 0, &err, &m),
                  &err, 0) == 0)
        use(m);
    multiplier_free(m);
    free(copy);
    return 0;
}
