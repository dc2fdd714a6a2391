/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the checksums of an opened model file's tensors the right ones. */
#ifndef TESTS_FUZZ_TOOLS_TENSORS_H
#define TESTS_FUZZ_TOOLS_TENSORS_H

#include <stdlib.h>
#include <zlib.h>

#include "libinfer/graph/constant.h"
#include "libinfer/graph/graph.h"

static inline void tensor_repair(struct constant *c)
{
    struct infer_error err;
    unsigned char *bytes;

    if (!c || !c->source)
        return;
    bytes = malloc(c->bytes + 1);
    if (bytes &&
        file_source_read(c->source, c->offset, bytes, c->bytes, &err) == 0)
        c->crc = (uint32_t)crc32(0, bytes, (uInt)c->bytes);
    free(bytes);
}

/* CRCs of the tensors, and of the multiplier's table. */
static inline void tensors_repair(struct graph *g)
{
    for (int i = 0; i < g->n_values; i++)
        tensor_repair(g->value[i].data);
    if (g->multiplier)
        tensor_repair(g->multiplier->table);
}

#endif
