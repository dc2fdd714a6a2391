/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers of a network multiply exactly all the same. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/multiplier/layers.h"

static bool has_weights(const struct graph_node *n)
{
    return n->op == GRAPH_CONV || n->op == GRAPH_CONV_TRANSPOSE ||
           n->op == GRAPH_DENSE;
}

/* The first layer from node i on, in steps of 1 or -1; -1: there is none. */
static int find_layer(const struct graph *g, int i, int step)
{
    while (i >= 0 && i < g->n_nodes && !has_weights(&g->node[i]))
        i += step;
    return i < g->n_nodes ? i : -1;
}

/* Marks the layers that one word means; how many. */
static int mark(const struct graph *g, const char *word, bool *exact)
{
    const int end = strcmp(word, "first") == 0 ? find_layer(g, 0, 1)
                    : strcmp(word, "last") == 0
                        ? find_layer(g, g->n_nodes - 1, -1)
                        : -1;
    int n = 0;

    if (end >= 0) {
        exact[end] = true;
        n++;
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (has_weights(&g->node[i]) && g->node[i].name &&
            fnmatch(word, g->node[i].name, 0) == 0) {
            exact[i] = true;
            n++;
        }
    return n;
}

int multiplier_exact_layers(const struct graph *g, const char *words,
                            struct infer_error *err, bool **out)
{
    bool *exact = calloc((size_t)g->n_nodes + 1, sizeof *exact);
    char *copy = strdup(words ? words : ""), *rest = copy, *word;
    int rc = 0;

    if (!exact || !copy)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    while (rc == 0 && (word = strtok_r(rest, ",", &rest)) != NULL)
        if (mark(g, word, exact) == 0)
            rc = error_set(err, INFER_EARGUMENT,
                           "exact layers: no convolution and no dense layer is "
                           "named '%s'",
                           word);
    free(copy);
    if (rc < 0) {
        free(exact);
        return rc;
    }
    *out = exact;
    return 0;
}
