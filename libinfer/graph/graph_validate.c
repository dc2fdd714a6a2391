/* SPDX-License-Identifier: Apache-2.0 */
/* Validation: every fault of a graph in one report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/json.h"
#include "libinfer/graph/graph_check.h"
#include "libinfer/graph/graph_fields.h"
#include "libinfer/graph/graph_order.h"

/* Keeps the first code of several. */
static void keep(int *rc, int code)
{
    if (*rc == INFER_OK)
        *rc = code;
}

/* ---- nodes --------------------------------------------------------- */

static int check_counts(const struct graph_node *n, const char *where,
                        struct infer_error *err)
{
    const struct graph_op_info *info = graph_op_info(n->op);
    int most = info->max_in, rc = INFER_OK, i;

    if (most >= 0 && info->residual)
        most++;
    if (n->n_in < info->min_in || (most >= 0 && n->n_in > most) ||
        n->n_in > GRAPH_MAX_INPUTS)
        keep(&rc,
             error_add(err, INFER_EFORMAT,
                       "%s: %d inputs, %d to %d are expected", where, n->n_in,
                       info->min_in, most < 0 ? GRAPH_MAX_INPUTS : most));
    if (n->n_out < info->min_out ||
        (info->max_out >= 0 && n->n_out > info->max_out) ||
        n->n_out > GRAPH_MAX_INPUTS)
        keep(&rc,
             error_add(err, INFER_EFORMAT,
                       "%s: %d outputs, %d to %d are expected", where, n->n_out,
                       info->min_out,
                       info->max_out < 0 ? GRAPH_MAX_INPUTS : info->max_out));
    for (i = 0; i < n->n_in; i++) {
        /* Of any number of inputs (concat), none may be absent. */
        bool needed = i < info->min_in || info->max_in < 0;

        if (n->in[i] < 0 && needed)
            keep(&rc,
                 error_add(err, INFER_EFORMAT, "%s: no input %d", where, i));
    }
    return rc;
}

static int check_epilogue(const struct graph_node *n, const char *where,
                          struct infer_error *err)
{
    const struct graph_op_info *info = graph_op_info(n->op);
    const struct kern_epilogue *e = &n->epilogue;
    bool residual =
        info->max_in >= 0 && n->n_in > info->max_in && n->in[info->max_in] >= 0;
    int rc = graph_fields_check(graph_act_fields, &e->act, where, err);

    if (e->act.kind != KERN_IDENTITY && !info->activation)
        keep(&rc, error_add(err, INFER_EFORMAT,
                            "%s: the operation takes no activation", where));
    if (e->residual_last && !residual)
        keep(&rc, error_add(err, INFER_EFORMAT,
                            "%s: residual_last without a residual", where));
    return rc;
}

/* "node 'conv1' (conv)" */
static const char *node_text(const struct graph_node *n, char *text,
                             size_t bytes)
{
    snprintf(text, bytes, "node '%.*s' (%s)", GRAPH_SHOWN,
             n->name != NULL ? n->name : "", graph_op_info(n->op)->name);
    return text;
}

int graph_check_node(const struct graph *g, int node, struct infer_error *err)
{
    const struct graph_node *n = &g->node[node];
    char where[GRAPH_SHOWN + 64];
    int rc;

    if (graph_op_info(n->op) == NULL)
        return error_add(err, INFER_EFORMAT,
                         "node %d: no operation has number "
                         "%d",
                         node, (int)n->op);
    node_text(n, where, sizeof(where));
    rc = check_counts(n, where, err);
    if (rc == INFER_OK)
        rc = check_epilogue(n, where, err);
    keep(&rc,
         graph_fields_check(graph_op_info(n->op)->field, &n->attr, where, err));
    return rc;
}

/* ---- values -------------------------------------------------------- */

enum role { ROLE_NONE, ROLE_INPUT, ROLE_PRODUCED };

static int check_name(const char *what, const char *name,
                      struct infer_error *err)
{
    size_t length = strlen(name);

    if (length == 0)
        return error_add(err, INFER_EFORMAT, "a %s has an empty name", what);
    if (length > GRAPH_MAX_NAME)
        return error_add(err, INFER_EFORMAT,
                         "a %s's name has %zu bytes, at most %d are supported",
                         what, length, GRAPH_MAX_NAME);
    if (!json_is_utf8(name, length))
        return error_add(err, INFER_EFORMAT, "%s '%.*s': no valid UTF-8", what,
                         GRAPH_SHOWN, name);
    return INFER_OK;
}

static int check_names(const struct graph *g, struct infer_error *err)
{
    int rc = INFER_OK, i;

    for (i = 0; i < g->n_values; i++) {
        const char *name = g->value[i].name;

        if (name == NULL)
            continue;
        keep(&rc, check_name("tensor", name, err));
        if (graph_find_value(g, name) != i)
            keep(&rc,
                 error_add(err, INFER_EFORMAT, "two tensors are named '%.*s'",
                           GRAPH_SHOWN, name));
    }
    for (i = 0; i < g->n_nodes; i++) {
        const char *name = g->node[i].name;

        if (g->node[i].op == GRAPH_NONE || name == NULL)
            continue;
        keep(&rc, check_name("node", name, err));
        if (graph_find_node(g, name) != i)
            keep(&rc,
                 error_add(err, INFER_EFORMAT, "two nodes are named '%.*s'",
                           GRAPH_SHOWN, name));
    }
    for (i = 0; i < g->n_labels; i++)
        if (!json_is_utf8(g->label[i], strlen(g->label[i])))
            keep(&rc, error_add(err, INFER_EFORMAT,
                                "label %d is no valid UTF-8", i));
    if (g->task != NULL && !json_is_utf8(g->task, strlen(g->task)))
        keep(&rc, error_add(err, INFER_EFORMAT,
                            "the graph's task is no valid UTF-8"));
    if (!json_is_utf8(g->name, strlen(g->name)))
        keep(&rc, error_add(err, INFER_EFORMAT,
                            "the graph's name is no valid UTF-8"));
    return rc;
}

/* Dimensions within bounds, and data of that shape. */
static int check_value(const struct graph_value *v, struct infer_error *err)
{
    bool fits = v->rank >= -1 && v->rank <= INFER_MAX_RANK;
    int i;

    for (i = 0; fits && i < v->rank; i++)
        fits = v->dim[i] >= -1 && v->dim[i] <= OP_MAX_COUNT;
    if (!fits)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%.*s': rank or size out of range",
                         GRAPH_SHOWN, v->name);
    if (v->data == NULL)
        return INFER_OK;
    fits = v->data->rank == v->rank && v->data->dtype == v->dtype;
    for (i = 0; fits && i < v->rank; i++)
        fits = v->data->dim[i] == v->dim[i];
    if (!fits)
        return error_add(err, INFER_EFORMAT,
                         "weight '%.*s': its data has another shape or type",
                         GRAPH_SHOWN, v->name);
    return INFER_OK;
}

/* Fills role[] and finds values that are produced twice, or are inputs or
 * constants as well. */
static int check_roles(const struct graph *g, unsigned char *role,
                       struct infer_error *err)
{
    int rc = INFER_OK, i, k;

    for (i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        if (v->name == NULL || v->data != NULL ||
            role[g->input[i]] != ROLE_NONE)
            keep(&rc, error_add(err, INFER_EFORMAT,
                                "input %d is a weight, removed or given "
                                "twice",
                                i));
        else if (v->dtype == INFER_NONE)
            keep(&rc, error_add(err, INFER_EFORMAT, "input '%.*s' has no type",
                                GRAPH_SHOWN, v->name));
        role[g->input[i]] = ROLE_INPUT;
    }
    for (i = 0; i < g->n_nodes; i++) {
        for (k = 0; k < g->node[i].n_out; k++) {
            int at = g->node[i].out[k];
            const struct graph_value *v =
                at >= 0 && at < g->n_values ? &g->value[at] : NULL;

            if (v == NULL || v->name == NULL)
                keep(&rc, error_add(err, INFER_EFORMAT,
                                    "node '%.*s': output %d is not there",
                                    GRAPH_SHOWN, g->node[i].name, k));
            else if (role[at] != ROLE_NONE || v->data != NULL)
                keep(&rc, error_add(err, INFER_EFORMAT,
                                    "node '%.*s' produces '%.*s', which is %s",
                                    GRAPH_SHOWN, g->node[i].name, GRAPH_SHOWN,
                                    v->name,
                                    role[at] == ROLE_PRODUCED
                                        ? "produced by another node"
                                        : "an input or a weight"));
            else
                role[at] = ROLE_PRODUCED;
        }
    }
    return rc;
}

/* True if a value can be read. */
static bool is_given(const struct graph *g, const unsigned char *role,
                     int value, bool unbound)
{
    return role[value] != ROLE_NONE || g->value[value].data != NULL || unbound;
}

static int check_uses(const struct graph *g, const unsigned char *role,
                      bool unbound, struct infer_error *err)
{
    int rc = INFER_OK, i, k;

    for (i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];

        for (k = 0; k < n->n_in; k++) {
            if (n->in[k] == -1)
                continue;
            if (n->in[k] < 0 || n->in[k] >= g->n_values ||
                g->value[n->in[k]].name == NULL)
                keep(&rc, error_add(err, INFER_EFORMAT,
                                    "node '%.*s': input %d is not there",
                                    GRAPH_SHOWN, n->name, k));
            else if (!is_given(g, role, n->in[k], unbound))
                keep(&rc, error_add(err, INFER_EFORMAT,
                                    "node '%.*s': weight '%.*s' has no data",
                                    GRAPH_SHOWN, n->name, GRAPH_SHOWN,
                                    g->value[n->in[k]].name));
        }
    }
    if (g->n_outputs == 0)
        keep(&rc, error_add(err, INFER_EFORMAT, "the graph has no outputs"));
    for (i = 0; i < g->n_outputs; i++) {
        const struct graph_value *v = &g->value[g->output[i]];

        if (v->name == NULL || !is_given(g, role, g->output[i], false))
            keep(&rc, error_add(err, INFER_EFORMAT,
                                "output '%.*s' is produced by nothing",
                                GRAPH_SHOWN, v->name != NULL ? v->name : ""));
    }
    return rc;
}

static int check_values(const struct graph *g, bool unbound,
                        struct infer_error *err)
{
    unsigned char *role = calloc(g->n_values > 0 ? (size_t)g->n_values : 1, 1);
    int rc = INFER_OK, i;

    if (role == NULL)
        return error_add(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < g->n_values; i++)
        if (g->value[i].name != NULL)
            keep(&rc, check_value(&g->value[i], err));
    keep(&rc, check_roles(g, role, err));
    keep(&rc, check_uses(g, role, unbound, err));
    free(role);
    return rc;
}

/* ---- preprocessing ------------------------------------------------- */

static int check_preprocess(const struct graph *g, int input,
                            struct infer_error *err)
{
    const struct graph_preprocess *p = &g->preprocess[input];
    const struct graph_value *v = &g->value[g->input[input]];
    int64_t channels = p->color == GRAPH_GRAY ? 1 : 3;
    bool finite = isfinite(p->scale);
    int i;

    if (!p->present || v->name == NULL)
        return INFER_OK;
    for (i = 0; i < 4; i++)
        finite = finite && isfinite(p->mean[i]) && isfinite(p->std[i]) &&
                 p->std[i] != 0;
    if (!finite)
        return error_add(
            err, INFER_EFORMAT,
            "input '%.*s': scale, mean or std of the preprocessing "
            "is not finite, or std is 0",
            GRAPH_SHOWN, v->name);
    if ((int)p->policy < 0 || p->policy > GRAPH_RESIZE_NONE ||
        (int)p->color < 0 || p->color > GRAPH_GRAY || (int)p->filter < 0 ||
        p->filter > GRAPH_BICUBIC || p->resize < 0 || p->resize > OP_MAX_STEP)
        return error_add(err, INFER_EFORMAT,
                         "input '%.*s': preprocessing out of range",
                         GRAPH_SHOWN, v->name);
    /* N,C,H,W, or one picture of 3,H,W. */
    if (v->rank >= 0 && !(v->rank == 4 && op_fits(v->dim[1], channels)) &&
        !(v->rank == 3 && v->dim[0] == 3 && channels == 3))
        return error_add(err, INFER_EFORMAT,
                         "input '%.*s' is no picture of %d channels, but has "
                         "preprocessing",
                         GRAPH_SHOWN, v->name, (int)channels);
    return INFER_OK;
}

/* ---- all of it ----------------------------------------------------- */

/* Order and shapes; only if the parts are valid, so that consequences of a
 * fault are not reported. */
static int check_shapes(const struct graph *g, struct infer_error *err)
{
    size_t nodes = g->n_nodes > 0 ? (size_t)g->n_nodes : 1;
    size_t values = g->n_values > 0 ? (size_t)g->n_values : 1;
    int *order = malloc(nodes * sizeof(*order));
    struct graph_type *type = malloc(values * sizeof(*type));
    struct infer_error local;
    int count, rc;

    error_clear(&local);
    if (order == NULL || type == NULL) {
        rc = error_add(err, INFER_EMEMORY, "out of memory");
    } else {
        rc = graph_order(g, order, &count, &local);
        if (rc < 0)
            error_add(err, rc, "%s", local.text);
        else
            rc = graph_run_shapes(g, order, count, NULL, type, err);
    }
    free(order);
    free(type);
    return rc;
}

int graph_check(const struct graph *g, bool unbound, struct infer_error *err)
{
    int rc = INFER_OK, i;
    bool parts;

    error_clear(err);
    keep(&rc, check_names(g, err));
    keep(&rc, check_values(g, unbound, err));
    parts = rc == INFER_OK;
    for (i = 0; i < g->n_nodes; i++)
        if (g->node[i].op != GRAPH_NONE)
            keep(&rc, graph_check_node(g, i, err));
    for (i = 0; i < g->n_inputs; i++)
        keep(&rc, check_preprocess(g, i, err));
    if (parts)
        keep(&rc, check_shapes(g, err));
    return rc;
}

int graph_validate(const struct graph *g, struct infer_error *err)
{
    return graph_check(g, false, err);
}
