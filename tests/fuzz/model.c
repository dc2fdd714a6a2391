/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a model file, whose checksums are repaired, is opened and run on
 * the reference within a budget.  What opens and runs within it must not fail
 * for want of memory, and nothing may be read out of bounds. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libinfer/graph/model_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate/header.h"
#include "tests/fuzz/network.h"
#include "tests/fuzz/tools/tensors.h"

static void open_model(const char *path, bool keep)
{
    struct network_result result;
    struct infer_error err;
    struct graph *g;

    if (fuzz_tell(model_file_read(path, &err, &g), &err, 0) < 0)
        return;
    tensors_repair(g);
    (void)network_run(g, keep, &result, &err);
    network_clear(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *copy = malloc(size + 1);
    const int fd = memfd_create("model", MFD_CLOEXEC);
    char path[64];

    if (!copy || fd < 0)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    header_repair(copy, size);
    if (write(fd, copy, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    open_model(path, size & 1);
    close(fd);
    free(copy);
    return 0;
}
