/* SPDX-License-Identifier: Apache-2.0 */
/* Links libgraph without the libraries above it. */
#include "libinfer/graph/graph.h"

int main(void)
{
    const int64_t dim[2] = {1, 4};
    struct infer_error err;
    struct graph *g = graph_new();

    graph_add_output(g, graph_add_input(g, "x", INFER_F32, 2, dim));
    const int rc = graph_validate(g, &err);
    graph_free(g);
    return rc == 0 ? 0 : 1;
}
