/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that show inner values of a network. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/model/model.h"
#include "tools/array.h"
#include "tools/probe.h"

void probe_close(struct probe *p)
{
    for (int i = 0; p->out != NULL && i < p->n_out; i++)
        free(p->out[i].data);
    free(p->out);
    free(p->place);
    infer_session_close(&p->session);
    infer_model_close(&p->model);
}

/* Makes value an output of g unless it is one, and returns its place. */
static int place_of(struct graph *g, int value, struct infer_error *err)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->output[i] == value)
            return i;
    return graph_add_output(g, value) < 0 ? graph_no_room(g, err)
                                          : g->n_outputs - 1;
}

int probe_open(const struct graph *g, const int *value, int n,
               struct infer_error *err, struct probe *p)
{
    struct infer_session_options options;
    struct graph *copy = graph_copy(g);
    int rc = INFER_OK;

    memset(p, 0, sizeof *p);
    p->n = n;
    p->place = calloc((size_t)n + 1, sizeof *p->place);
    if (copy == NULL || p->place == NULL) {
        graph_free(copy);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    for (int i = 0; rc >= 0 && i < n; i++)
        rc = p->place[i] = place_of(copy, value[i], err);
    if (rc < 0) {
        graph_free(copy);
        return rc;
    }
    p->n_out = copy->n_outputs;
    infer_session_options_init(&options);
    options.multiplier = "none";
    options.deterministic = 1;
    p->out = calloc((size_t)p->n_out + 1, sizeof *p->out);
    if (p->out == NULL) {
        graph_free(copy);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    rc = model_from_graph(copy, err, &p->model);
    if (rc == INFER_OK)
        rc = infer_session_create(p->model, &options, err, &p->session);
    return rc;
}

/* Room for the outputs of a sample's shapes. */
static int make_room(struct probe *p, struct infer_error *err)
{
    for (int i = 0; i < p->n_out; i++) {
        struct infer_array *a = &p->out[i];
        struct infer_tensor_info info;
        int rc;

        infer_session_output(p->session, i, &info);
        if (a->data != NULL && a->rank == info.rank &&
            memcmp(a->dim, info.dim, sizeof a->dim) == 0)
            continue;
        free(a->data);
        *a = (struct infer_array){.dtype = info.dtype, .rank = info.rank};
        memcpy(a->dim, info.dim, sizeof a->dim);
        rc = array_alloc("output", info.name, a, err);
        if (rc < 0)
            return rc;
    }
    return INFER_OK;
}

int probe_run(struct probe *p, const struct samples *s, int sample,
              struct infer_error *err)
{
    const struct infer_array *in = &s->in[sample * s->n_inputs];
    int rc = infer_session_prepare(p->session, in, s->n_inputs, err);

    if (rc == INFER_OK)
        rc = make_room(p, err);
    if (rc == INFER_OK)
        rc = infer_session_run(p->session, in, s->n_inputs, p->out, p->n_out,
                               err);
    return rc;
}
