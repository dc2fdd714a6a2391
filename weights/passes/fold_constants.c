/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold-constants: nodes whose inputs are all constant are computed now, on
 * the reference backend, and become constants.
 *
 * Nodes that only give elements another shape or order are done in place of
 * that; the rest is gathered into one small graph and run once.  A node that
 * the reference does not compute stays in the graph.
 */
#include "weights/passes/pass.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "libinfer/model/model.h"

/* Folding must not make a small file large: results beyond the size of what
 * they were computed from are limited to this, all together. */
#define MAX_GROWTH ((int64_t)64 << 20)

/* When the nodes cannot be run together, this many are tried alone. */
#define MAX_SINGLE 64

struct folding {
    struct pass *p;
    unsigned char *folded; /* of each node: will be computed */
    int64_t growth;        /* bytes so far */
};

/* ---- reshaping ----------------------------------------------------- */

/* The node's output becomes constant c (taken over), the node goes. */
static void replace(struct pass *p, int node, struct constant *c)
{
    int value = p->g->node[node].out[0];

    pass_note(p, 0, "%s (%s)", p->g->node[node].name,
              graph_op_info(p->g->node[node].op)->name);
    pass_kill(p, node);
    p->g->value[value].producer = -1;
    pass_put_constant(p, value, c);
}

static struct constant *copy_with_shape(const struct constant *c,
                                        const struct graph_value *v)
{
    struct constant *to = constant_new(c->dtype, v->rank, v->dim);

    if (to && to->bytes == c->bytes)
        memcpy(to->data, c->data, c->bytes);
    return to;
}

static struct constant *transpose(const struct constant *c,
                                  const struct graph_dims *dims)
{
    int order[INFER_MAX_RANK];

    for (int i = 0; i < c->rank; i++)
        order[i] = dims->n == c->rank ? (int)dims->dim[i] : c->rank - 1 - i;
    return constant_transpose(c, order);
}

/* Nodes that only rename the places of elements.  1, 0 or an error. */
static int fold_movement(struct pass *p, int node)
{
    const struct graph_node *n = &p->g->node[node];
    const struct graph_value *out = &p->g->value[n->out[0]];
    struct constant *c = pass_constant(p, n, 0);
    struct constant *to;

    if (!c || n->n_in < 1 || p->is_output[n->out[0]] || !pass_known_shape(out))
        return 0;
    if (n->op == GRAPH_TRANSPOSE)
        to = transpose(c, &n->attr.dims);
    else if (!pass_is_reshape(n))
        return 0;
    /* Weights are edited in place later: bytes that another node, or a copy of
     * the graph, still reads may not be shared. */
    else if (p->readers[n->in[0]] == 1 && c->refs == 1)
        to = constant_reshape(c, out->rank, out->dim);
    else
        to = copy_with_shape(c, out);
    if (!to)
        return pass_no_memory(p);
    replace(p, node, to);
    return 1;
}

/* ---- computing ----------------------------------------------------- */

static int64_t value_bytes(const struct graph_value *v)
{
    int64_t n;

    if (!checked_count(v->rank, v->dim, &n) ||
        !checked_mul_i64(n, (int64_t)infer_dtype_size(v->dtype), &n))
        return INT64_MAX;
    return n;
}

static bool is_folded(const struct folding *f, int value)
{
    int producer = f->p->g->value[value].producer;

    if (producer < 0)
        return pass_value_constant(f->p, value) != NULL;
    return f->folded[producer];
}

static bool can_fold(struct folding *f, int node)
{
    const struct graph *g = f->p->g;
    const struct graph_node *n = &g->node[node];
    int64_t in = 0, out = 0;

    if (n->n_in < 1)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0)
            continue;
        if (!is_folded(f, n->in[i]))
            return false;
        if (!checked_add_i64(in, value_bytes(&g->value[n->in[i]]), &in))
            return false;
    }
    for (int i = 0; i < n->n_out; i++) {
        const struct graph_value *v = &g->value[n->out[i]];

        if (f->p->is_output[n->out[i]] || !pass_known_shape(v) ||
            v->dtype == INFER_NONE ||
            !checked_add_i64(out, value_bytes(v), &out))
            return false;
    }
    if (out > in) {
        if (out - in > MAX_GROWTH - f->growth)
            return false;
        f->growth += out - in;
    }
    return true;
}

/* Values of the small graph are named after those of the large one. */
static int copy_value(struct graph *to, const struct graph_value *from)
{
    int value = graph_find_value(to, from->name);

    if (value >= 0)
        return value;
    if (from->producer < 0)
        return graph_add_constant(to, from->name, constant_ref(from->data));
    return graph_add_value(to, from->name);
}

static int copy_node(const struct folding *f, struct graph *to, int node)
{
    const struct graph *g = f->p->g;
    const struct graph_node *n = &g->node[node];
    int *ends = malloc(((size_t)n->n_in + (size_t)n->n_out) * sizeof(*ends));
    int added = 0;

    if (!ends)
        return INFER_EMEMORY;
    for (int i = 0; i < n->n_in && added >= 0; i++) {
        ends[i] = -1;
        if (n->in[i] >= 0)
            added = ends[i] = copy_value(to, &g->value[n->in[i]]);
    }
    for (int i = 0; i < n->n_out && added >= 0; i++)
        added = ends[n->n_in + i] = copy_value(to, &g->value[n->out[i]]);
    if (added >= 0)
        added = graph_add_node(to, n->op, n->name, ends, n->n_in,
                               ends + n->n_in, n->n_out);
    if (added >= 0) {
        to->node[added].attr = n->attr;
        to->node[added].epilogue = n->epilogue;
    }
    free(ends);
    return added < 0 ? added : 0;
}

/* Whether something outside the small graph reads a value. */
static bool wanted(const struct folding *f, int value)
{
    const struct graph *g = f->p->g;
    int reader = pass_reader(f->p, value);

    return f->p->readers[value] > 0 &&
           (reader < 0 || g->node[reader].op == GRAPH_NONE ||
            !f->folded[reader]);
}

/* The small graph of nodes [first, last), with every wanted value as output;
 * NULL when out of memory or nothing is wanted. */
static struct graph *gather(const struct folding *f, int first, int last)
{
    const struct graph *g = f->p->g;
    struct graph *to = graph_new();
    int rc = to ? 0 : INFER_EMEMORY;

    for (int n = first; n < last && rc >= 0; n++) {
        if (!f->folded[n])
            continue;
        rc = copy_node(f, to, n);
        for (int i = 0; i < g->node[n].n_out && rc >= 0; i++)
            if (wanted(f, g->node[n].out[i]))
                rc = graph_add_output(
                    to, graph_find_value(to, g->value[g->node[n].out[i]].name));
    }
    if (rc < 0 || to->n_outputs == 0) {
        graph_free(to);
        return NULL;
    }
    return to;
}

/* Reads one result as a constant. */
static struct constant *read_result(struct infer_session *session,
                                    const char *name)
{
    struct infer_array array;
    struct constant *c;

    memset(&array, 0, sizeof(array));
    if (infer_session_read(session, name, &array, NULL) < 0)
        return NULL;
    c = constant_new(array.dtype, array.rank, array.dim);
    if (!c)
        return NULL;
    array.data = c->data;
    array.bytes = c->bytes;
    if (infer_session_read(session, name, &array, NULL) < 0) {
        constant_unref(c);
        return NULL;
    }
    return c;
}

/* Takes the results over.  A node goes once all its wanted values are there,
 * which is why a failed read leaves the graph as it was. */
static int take_results(struct folding *f, struct infer_session *session,
                        int first, int last)
{
    struct graph *g = f->p->g;
    int changes = 0;

    for (int n = first; n < last; n++) {
        int value;
        struct constant *c;

        if (!f->folded[n] || g->node[n].n_out != 1 ||
            !wanted(f, g->node[n].out[0]))
            continue;
        value = g->node[n].out[0];
        c = read_result(session, g->value[value].name);
        if (!c)
            continue;
        replace(f->p, n, c);
        changes++;
    }
    return changes;
}

/* Runs the marked nodes of a range.  Returns how many results were taken, or
 * a negative status where the run failed. */
static int run_range(struct folding *f, int first, int last)
{
    struct graph *small = gather(f, first, last);
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    int rc;

    if (!small)
        return 0;
    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    options.threads = 1;
    options.keep_tensors = 1;
    rc = model_from_graph(small, NULL, &model);
    if (rc == 0)
        rc = infer_session_create(model, &options, NULL, &session);
    if (rc == 0)
        rc = infer_session_run(session, NULL, 0, NULL, 0, NULL);
    if (rc == 0)
        rc = take_results(f, session, first, last);
    infer_session_close(&session);
    infer_model_close(&model);
    return rc;
}

/* One node after the other, each with constant inputs of its own. */
static int run_singly(struct folding *f, int n_nodes)
{
    int changes = 0, tries = 0;
    unsigned char *all = f->folded;
    unsigned char *one = calloc((size_t)n_nodes + 1, 1);

    if (!one)
        return pass_no_memory(f->p);
    f->folded = one;
    for (int n = 0; n < n_nodes && tries < MAX_SINGLE; n++) {
        if (!all[n] || f->p->g->node[n].op == GRAPH_NONE || !can_fold(f, n))
            continue;
        one[n] = 1;
        tries++;
        if (run_range(f, n, n + 1) > 0)
            changes++;
        one[n] = 0;
    }
    f->folded = all;
    free(one);
    return changes;
}

static int fold(struct folding *f)
{
    struct graph *g = f->p->g;
    int n_nodes = g->n_nodes;
    int moved = 0, marked = 0, rc = 0;

    for (int n = 0; n < n_nodes && rc >= 0; n++) {
        if (g->node[n].op == GRAPH_NONE)
            continue;
        rc = fold_movement(f->p, n);
        if (rc > 0)
            moved++;
        else if (rc == 0 && can_fold(f, n))
            marked += f->folded[n] = 1;
    }
    if (rc < 0 || marked == 0)
        return rc < 0 ? rc : moved;
    f->growth = 0;
    rc = run_range(f, 0, n_nodes);
    if (rc < 0)
        rc = run_singly(f, n_nodes);
    return rc < 0 ? rc : moved + rc;
}

int pass_fold_constants(struct pass *p)
{
    struct folding f = {p, NULL, 0};
    int rc;

    f.folded = calloc((size_t)p->g->n_nodes + 1, 1);
    rc = f.folded ? fold(&f) : pass_no_memory(p);
    free(f.folded);
    return rc;
}
