/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match-group-norm: group normalisation as PyTorch's exporter writes it.
 *
 *   x in G rows of a picture, each normalised as one channel, in x's shape
 *   again [* g] [+ b]
 *
 * A group_norm without scale or shift takes up the multiplication and the
 * addition by a number a channel that follow it.
 */
#include "weights/passes/pass.h"

#include <stdlib.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"

/* Elements of an image; false where a size is not known. */
static bool image_elements(const struct graph_value *v, int64_t *count)
{
    if (v->rank < 2)
        return false;
    for (int d = 1; d < v->rank; d++)
        if (v->dim[d] < 1)
            return false;
    return checked_count(v->rank - 1, v->dim + 1, count);
}

/* Whether input i of the norm is absent, or `want` in all elements. */
static bool is_all(const struct pass *p, const struct graph_node *n, int i,
                   double want)
{
    const struct constant *c;

    if (pass_input(n, i) < 0)
        return true;
    c = pass_constant(p, n, i);
    if (!c)
        return false;
    for (int64_t k = 0; k < constant_count(c); k++)
        if (scalar_load(c->dtype, c->data, k) != want)
            return false;
    return true;
}

static int match_rows(struct pass *p, int node)
{
    const struct graph *g = p->g;
    const struct graph_value *x, *rows, *y;
    const struct graph_node *n = &g->node[node];
    int64_t in_x, in_rows, in_y;
    struct kern_norm norm;
    int inner, before, rc;

    if (!pass_is_reshape(n) || n->in[0] < 0 ||
        (inner = pass_producer(p, n->in[0], GRAPH_GROUP_NORM)) < 0 ||
        !pass_plain(&g->node[inner]) ||
        (before = g->value[g->node[inner].in[0]].producer) < 0 ||
        !pass_is_reshape(&g->node[before]) || g->node[before].in[0] < 0)
        return 0;
    norm = g->node[inner].attr.norm;
    x = &g->value[g->node[before].in[0]];
    rows = &g->value[g->node[before].out[0]];
    y = &g->value[n->out[0]];
    /* As many elements an image means as many images. */
    if (!image_elements(x, &in_x) || !image_elements(rows, &in_rows) ||
        !image_elements(y, &in_y) || in_x != in_rows || in_x != in_y ||
        x->rank < 3 || !pass_same_shape(x, y) || rows->dim[1] != norm.groups ||
        x->dim[1] % norm.groups != 0 || !is_all(p, &g->node[inner], 1, 1) ||
        !is_all(p, &g->node[inner], 2, 0))
        return 0;
    rc = pass_become(p, node, GRAPH_GROUP_NORM, &g->node[before].in[0], 1);
    if (rc < 0)
        return rc;
    p->g->node[node].attr.norm = norm;
    pass_note(p, 0, "%s is group normalisation", p->g->node[inner].name);
    return 1;
}

/* group_norm * scale, then + shift. */
static int take_operand(struct pass *p, int node)
{
    struct graph *g = p->g;
    int constant, which, variable, value;
    const int norm =
        pass_norm_before(p, node, GRAPH_GROUP_NORM, &constant, &which);
    int64_t channels;
    double *number;
    bool takes;

    if (norm < 0)
        return 0;
    variable = g->node[norm].out[0];
    if (!pass_same_shape(&g->value[variable], &g->value[g->node[node].out[0]]))
        return 0;
    channels = g->value[variable].dim[1];
    if (channels < 1 || channels > INT32_MAX)
        return 0;
    number = malloc((size_t)channels * sizeof *number);
    if (!number)
        return pass_no_memory(p);
    takes = pass_channel_operand(&g->value[variable], 1,
                                 pass_value_constant(p, constant), channels,
                                 number);
    value = takes ? pass_add_vector(p, g->value[constant].name, ".flat",
                                    g->value[variable].dtype, channels, number)
                  : 0;
    free(number);
    if (!takes || value < 0)
        return value;
    value = pass_set_input(p, norm, which, value);
    if (value < 0)
        return value;
    pass_note(p, 0, "%s into %s", g->node[node].name, g->node[norm].name);
    pass_absorb(p, norm, node);
    return 1;
}

int pass_match_group_norm(struct pass *p, int node)
{
    const int rc = match_rows(p, node);

    return rc == 0 ? take_operand(p, node) : rc;
}
