/* SPDX-License-Identifier: Apache-2.0 */
/* Constant nodes computed on the reference backend; see evaluate.h. */
#include "weights/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/model/model.h"

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

static int copy_node(const struct graph *g, const struct graph_node *n,
                     struct graph *to)
{
    int *ends = malloc(((size_t)n->n_in + (size_t)n->n_out) * sizeof *ends);
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

/* The small graph of the marked nodes; NULL when out of memory. */
static struct graph *gather(const struct graph *g, const unsigned char *node,
                            const int *value, int n_values)
{
    struct graph *to = graph_new();
    int rc = to ? 0 : INFER_EMEMORY;

    for (int n = 0; n < g->n_nodes && rc >= 0; n++)
        if (node[n])
            rc = copy_node(g, &g->node[n], to);
    for (int i = 0; i < n_values && rc >= 0; i++)
        rc =
            graph_add_output(to, graph_find_value(to, g->value[value[i]].name));
    if (rc < 0) {
        graph_free(to);
        return NULL;
    }
    return to;
}

/* One result as a constant, NULL where it cannot be read. */
static int read_result(struct infer_session *session, const char *name,
                       struct constant **out, struct infer_error *err)
{
    struct infer_array array;
    struct constant *c;

    *out = NULL;
    memset(&array, 0, sizeof array);
    if (infer_session_read(session, name, &array, NULL) < 0)
        return 0;
    c = constant_new(array.dtype, array.rank, array.dim);
    if (!c)
        return error_set(err, INFER_EMEMORY, "out of memory");
    array.data = c->data;
    array.bytes = c->bytes;
    if (infer_session_read(session, name, &array, NULL) < 0)
        constant_unref(c);
    else
        *out = c;
    return 0;
}

uint64_t weights_constant_bytes(const struct graph *g)
{
    uint64_t sum = 0;

    for (int i = 0; i < g->n_values; i++)
        if (g->value[i].data)
            sum += g->value[i].data->bytes;
    return sum;
}

int weights_run_constants(struct graph *g, const struct weights_limits *most,
                          int n, struct constant **out, struct infer_error *err)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct infer_error local;
    int rc;

    if (!err)
        err = &local;
    error_clear(err);

    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    options.threads = 1;
    options.keep_tensors = 1;
    options.max_memory = most->bytes + weights_constant_bytes(g);
    /* 0 would be the default. */
    options.max_work = most->work > 1 ? most->work : 1;
    rc = model_from_graph(g, err, &model);
    if (rc == 0)
        rc = infer_session_create(model, &options, err, &session);
    if (rc == 0)
        rc = infer_session_run(session, NULL, 0, NULL, 0, err);
    /* A limit, not the memory there is. */
    if (rc == INFER_EMEMORY &&
        (strstr(err->text, "(max_memory)") || strstr(err->text, "(max_work)")))
        rc = err->code = INFER_EUNSUPPORTED;
    for (int i = 0; i < n && rc == 0; i++) {
        const struct graph *run = model_graph(model);

        rc =
            read_result(session, run->value[run->output[i]].name, &out[i], err);
        for (int j = 0; j < i && rc < 0; j++) {
            constant_unref(out[j]);
            out[j] = NULL;
        }
    }
    infer_session_close(&session);
    infer_model_close(&model);
    return rc;
}

int weights_evaluate(const struct graph *g, const unsigned char *node,
                     const struct weights_limits *most, const int *value,
                     int n_values, struct constant **out,
                     struct infer_error *err)
{
    struct graph *small = gather(g, node, value, n_values);

    if (!small)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return weights_run_constants(small, most, n_values, out, err);
}
