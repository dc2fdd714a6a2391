/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store-fills: a large constant of equal elements becomes one element and an
 * expand node, one that counts 0, 1, 2, ... along an axis a sum of ones.
 *
 * Detectors hold such constants, the tensors into which they scatter and the
 * places of what they choose; in the file they would be as large as the
 * weights.  Weights of layers stay what they are, kernels pack them.  The plan
 * computes the rest once, so that a run costs the same.
 *
 * It runs once, after the others: fold-constants would compute the nodes.
 */
#include "weights/passes/pass.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"

/* Smaller ones are no matter. */
#define LEAST_BYTES 65536
/* Integers that a float counts to. */
#define MAX_COUNT (1 << 24)

bool pass_takes_nodes(const struct graph_node *n, int value)
{
    return value != pass_residual(n) &&
           (n->op == GRAPH_BINARY || n->op == GRAPH_WHERE ||
            n->op == GRAPH_CONCAT || n->op == GRAPH_GATHER ||
            n->op == GRAPH_GATHER_ELEMENTS || n->op == GRAPH_SCATTER_ELEMENTS);
}

/* Marks the values that another kind of node reads, or reads as a residual. */
static void mark_weights(const struct pass *p, unsigned char *weight)
{
    for (int n = 0; n < p->g->n_nodes; n++) {
        const struct graph_node *node = &p->g->node[n];

        for (int i = 0; i < node->n_in && node->op != GRAPH_NONE; i++)
            if (node->in[i] >= 0 && !pass_takes_nodes(node, node->in[i]))
                weight[node->in[i]] = 1;
    }
}

static bool is_fill(const struct constant *c)
{
    const size_t size = infer_dtype_size(c->dtype);

    return memcmp(c->data, c->data + size, c->bytes - size) == 0;
}

/* The axis along which integers count from 0, all others being 1; -1: none. */
static int counting_axis(const struct constant *c)
{
    const int64_t n = constant_count(c);
    int axis = -1;

    if (c->dtype != INFER_I64 || n > MAX_COUNT)
        return -1;
    for (int d = 0; d < c->rank; d++)
        if (c->dim[d] == n)
            axis = d;
    for (int64_t k = 0; axis >= 0 && k < n; k++)
        if (scalar_load_i64(c->dtype, c->data, k) != k)
            return -1;
    return axis;
}

/* One element, expanded to the shape of c; the value or an error. */
static int expand(struct pass *p, const char *name, enum infer_dtype dtype,
                  const void *element, const struct constant *c)
{
    int64_t dim[INFER_MAX_RANK];
    struct graph_dims *shape;
    struct constant *one;
    int value;

    for (int d = 0; d < c->rank; d++)
        dim[d] = 1;
    one = constant_new(dtype, c->rank, dim);
    if (!one)
        return pass_no_memory(p);
    memcpy(one->data, element, one->bytes);
    value = pass_add_constant(p, name, ".element", one);
    if (value >= 0)
        value = pass_add_node(p, GRAPH_EXPAND, &value, 1);
    if (value < 0)
        return value;
    shape = &p->g->node[p->g->value[value].producer].attr.dims;
    shape->n = c->rank;
    memcpy(shape->dim, c->dim, sizeof shape->dim);
    return value;
}

static int count_up(struct pass *p, const char *name, const struct constant *c,
                    int axis)
{
    static const float step = 1;
    int value = expand(p, name, INFER_F32, &step, c);
    union graph_attr *attr;

    if (value >= 0)
        value = pass_add_node(p, GRAPH_CUMULATE, &value, 1);
    if (value < 0)
        return value;
    attr = &p->g->node[p->g->value[value].producer].attr;
    attr->cumulate.axis = axis;
    attr->cumulate.exclusive = true;
    value = pass_add_node(p, GRAPH_CAST, &value, 1);
    if (value >= 0)
        p->g->node[p->g->value[value].producer].attr.cast.to = c->dtype;
    return value;
}

/* The value that computes constant v; -1 where v stays; or an error. */
static int store(struct pass *p, int v, int *out)
{
    const struct constant *c = p->g->value[v].data;
    const char *name = p->g->value[v].name;
    const int axis = is_fill(c) ? -1 : counting_axis(c);

    *out = -1;
    if (!is_fill(c) && axis < 0)
        return 0;
    *out = axis < 0 ? expand(p, name, c->dtype, c->data, c)
                    : count_up(p, name, c, axis);
    if (*out < 0)
        return *out;
    /* The array of values may have moved. */
    pass_note(p, (int64_t)p->g->value[v].data->bytes, "%s",
              p->g->value[v].name);
    return 1;
}

int pass_store_fills(struct pass *p)
{
    const int n_values = p->g->n_values, n_nodes = p->g->n_nodes;
    unsigned char *weight = calloc((size_t)n_values + 1, 1);
    int *stored = malloc(((size_t)n_values + 1) * sizeof *stored);
    int changes = 0, rc = 0;

    if (!weight || !stored) {
        free(weight);
        free(stored);
        return pass_no_memory(p);
    }
    mark_weights(p, weight);
    for (int v = 0; v < n_values && rc >= 0; v++) {
        const struct constant *c = pass_value_constant(p, v);

        stored[v] = -1;
        if (!c || c->bytes < LEAST_BYTES || weight[v] || p->is_output[v] ||
            p->readers[v] == 0)
            continue;
        rc = store(p, v, &stored[v]);
        changes += rc > 0;
    }
    for (int n = 0; n < n_nodes && changes && rc >= 0; n++)
        for (int i = 0; i < p->g->node[n].n_in && rc >= 0; i++) {
            const int v = p->g->node[n].in[i];

            if (v >= 0 && v < n_values && stored[v] >= 0)
                rc = pass_set_input(p, n, i, stored[v]);
        }
    free(weight);
    free(stored);
    return rc < 0 ? rc : changes;
}
