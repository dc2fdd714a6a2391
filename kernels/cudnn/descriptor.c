/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of a graph: see descriptor.h. */
#include "kernels/cudnn/descriptor.h"

#include <stdlib.h>
#include <string.h>

void cudnn_graph_init(struct cudnn_graph *g, const struct cudnn_library *lib,
                      bool ieee, struct infer_error *err)
{
    memset(g, 0, sizeof(*g));
    g->lib = lib;
    g->ieee = ieee;
    g->err = err;
    g->next_virtual = CUDNN_VIRTUAL;
}

void cudnn_graph_free(struct cudnn_graph *g)
{
    for (int i = 0; i < g->n_engines; i++)
        g->lib->cudnnBackendDestroyDescriptor(g->engine[i].config);
    for (int i = g->n_own; i-- > 0;)
        g->lib->cudnnBackendDestroyDescriptor(g->own[i]);
    free(g->engine);
    free(g->own);
    memset(g, 0, sizeof(*g));
}

static bool reserve(struct cudnn_graph *g)
{
    const int capacity = g->own_capacity ? 2 * g->own_capacity : 16;
    cudnnBackendDescriptor_t *own;

    if (g->n_own < g->own_capacity)
        return true;
    own = realloc(g->own, (size_t)capacity * sizeof(*own));
    if (!own) {
        g->rc = error_set(g->err, INFER_EMEMORY, "cuDNN: out of memory");
        return false;
    }
    g->own = own;
    g->own_capacity = capacity;
    return true;
}

/* A descriptor that the graph owns; NULL after a failure. */
cudnnBackendDescriptor_t cudnn_make(struct cudnn_graph *g,
                                    cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;

    if (g->rc < 0 || !reserve(g))
        return NULL;
    g->rc = CUDNN_CALL(g->err, g->lib, cudnnBackendCreateDescriptor(type, &d));
    if (g->rc < 0)
        return NULL;
    g->own[g->n_own++] = d;
    return d;
}

void cudnn_set(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
               cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, int64_t count,
               const void *value)
{
    if (g->rc == 0)
        g->rc =
            CUDNN_CALL(g->err, g->lib,
                       cudnnBackendSetAttribute(d, name, type, count, value));
}

void cudnn_set_descriptor(struct cudnn_graph *g, cudnnBackendDescriptor_t d,
                          cudnnBackendAttributeName_t name,
                          cudnnBackendDescriptor_t value)
{
    cudnn_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void cudnn_finalize(struct cudnn_graph *g, cudnnBackendDescriptor_t d)
{
    if (g->rc == 0)
        g->rc = CUDNN_CALL(g->err, g->lib, cudnnBackendFinalize(d));
}
