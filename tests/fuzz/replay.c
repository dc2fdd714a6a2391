/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target on files, where it is not built for a fuzzer: to replay
 * what a fuzzer found, and to run a corpus under another tool. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    long bytes = -1;
    int rc = 1;

    if (file && fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0) {
        rewind(file);
        data = malloc((size_t)bytes + 1);
        if (data && fread(data, 1, (size_t)bytes, file) == (size_t)bytes) {
            LLVMFuzzerTestOneInput(data, (size_t)bytes);
            rc = 0;
        }
    }
    if (rc)
        fprintf(stderr, "%s: cannot be read\n", path);
    free(data);
    if (file)
        fclose(file);
    return rc;
}

int main(int argc, char **argv)
{
    int i, rc = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE...\n", argv[0]);
        return 1;
    }
    for (i = 1; i < argc; i++)
        rc |= replay(argv[i]);
    return rc;
}
