/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations, in the order of ops.def. */
#include <string.h>

#include "libinfer/graph/ops/op.h"

static const struct graph_op_info *const table[GRAPH_OP_COUNT] = {
#define GRAPH_OP(symbol, name, file) [symbol] = &graph_op_##name,
#include "libinfer/graph/ops.def"
#undef GRAPH_OP
};

const struct graph_op_info *graph_op_info(enum graph_op op)
{
    if ((int)op <= GRAPH_NONE || (int)op >= GRAPH_OP_COUNT)
        return NULL;
    return table[op];
}

enum graph_op graph_op_find(const char *name)
{
    int i;

    for (i = GRAPH_NONE + 1; i < GRAPH_OP_COUNT; i++)
        if (strcmp(table[i]->name, name) == 0)
            return (enum graph_op)i;
    return GRAPH_NONE;
}
