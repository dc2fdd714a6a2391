/* SPDX-License-Identifier: Apache-2.0 */
/* What a session tells about itself: outputs, tensors, layers, memory. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/session.h"

static void describe(const struct graph_value *v, struct infer_tensor_info *out)
{
    memset(out, 0, sizeof *out);
    out->name = v->name;
    out->dtype = v->dtype;
    out->rank = v->rank;
    if (v->rank > 0)
        memcpy(out->dim, v->dim, (size_t)v->rank * sizeof v->dim[0]);
}

size_t infer_tensor_info_bytes(const struct infer_tensor_info *info)
{
    size_t bytes = info ? infer_dtype_size(info->dtype) : 0;

    if (!info || info->rank < 0 || info->rank > INFER_MAX_RANK)
        return 0;
    for (int i = 0; i < info->rank; i++)
        if (info->dim[i] < 0 ||
            !checked_mul(bytes, (size_t)info->dim[i], &bytes))
            return 0;
    return bytes;
}

int infer_session_output(const struct infer_session *session, int index,
                         struct infer_tensor_info *out)
{
    const struct graph *g;

    if (!session || !out || !session->current)
        return INFER_EARGUMENT;
    g = session_graph(session);
    if (index < 0 || index >= g->n_outputs)
        return INFER_EARGUMENT;
    describe(&g->value[g->output[index]], out);
    /* The name outlives the plan. */
    g = model_graph(session->model);
    out->name = g->value[g->output[index]].name;
    return 0;
}

const char *infer_session_tensor_name(const struct infer_session *session,
                                      int index)
{
    const struct graph *g;

    if (!session || index < 0)
        return NULL;
    g = model_graph(session->model);
    return index < g->n_values ? g->value[index].name : NULL;
}

/* ---- reading tensors ----------------------------------------------- */

/* Fills all of *out but data; checks its capacity. */
static int offer(const char *name, enum infer_dtype dtype, int rank,
                 const int64_t *dim, size_t bytes, struct infer_array *out,
                 struct infer_error *err)
{
    if (out->data && out->bytes < bytes)
        return error_set(err, INFER_EARGUMENT,
                         "tensor '%s': room for %zu bytes, %zu needed", name,
                         out->bytes, bytes);
    out->dtype = dtype;
    out->rank = rank;
    memset(out->dim, 0, sizeof out->dim);
    if (rank > 0)
        memcpy(out->dim, dim, (size_t)rank * sizeof dim[0]);
    out->bytes = bytes;
    return 0;
}

/* A copy in host memory of bytes on the device. */
static int fetch(struct infer_session *s, const void *from, size_t bytes,
                 struct infer_error *err, void **out)
{
    void *host;
    int rc = host_memory_alloc(&s->device.host, bytes, err, &host);

    if (rc < 0)
        return rc;
    rc = s->device.ops->copy_out(&s->device, host, from, bytes, err);
    if (rc < 0)
        host_memory_free(&s->device.host, host);
    else
        *out = host;
    return rc;
}

/* Fetches the memory under a view and writes it dense. */
static int read_view(struct infer_session *s, const struct view *v,
                     enum infer_dtype dtype, void *dst, struct infer_error *err)
{
    const size_t span = kern_tensor_span(&v->t);
    const size_t below =
        (size_t)view_reach_below(&v->t) * infer_dtype_size(v->t.dtype);
    const unsigned char *from;
    void *host = NULL;
    int rc;

    if (span == 0 || kern_tensor_count(&v->t) == 0)
        return 0;
    if (s->ran->buffers.at[v->buffer].memory == PLAN_INPUT)
        from = (const unsigned char *)s->arena +
               s->ran->buffers.at[v->buffer].offset +
               (size_t)v->offset * infer_dtype_size(v->t.dtype);
    else
        from = plan_locate(s->ran, v);
    rc = fetch(s, from - below, span, err, &host);
    if (rc == 0)
        view_gather(&v->t, (unsigned char *)host + below, dtype, dst);
    host_memory_free(&s->device.host, host);
    return rc;
}

static int read_constant(const struct graph_value *v, struct infer_array *out,
                         struct infer_error *err)
{
    int rc = offer(v->name, v->data->dtype, v->data->rank, v->data->dim,
                   v->data->bytes, out, err);

    if (rc < 0 || !out->data)
        return rc;
    return constant_load(v->data, out->data, err);
}

/* The constant itself where a value is a view of one. */
static bool is_view_of_constant(const struct plan *plan, const struct view *v)
{
    return plan->buffers.at[v->buffer].memory == PLAN_CONSTANT &&
           !plan->buffers.at[v->buffer].plain;
}

static int read_packed_away(struct infer_session *s, const struct view *v,
                            enum infer_dtype dtype, void *dst,
                            struct infer_error *err)
{
    const struct plan *plan = s->ran;
    struct packed_cache *cache = model_packed(s->model);
    const int value = plan->buffers.at[v->buffer].value;
    struct packed *p;
    void *host = NULL;
    int rc = packed_plain(cache, value, plan->g->value[value].data, v->t.dtype,
                          &s->device, err, &p);

    packed_cache_trim(cache, &s->device.host);
    if (rc < 0)
        return rc;
    rc = fetch(s, packed_data(p), packed_bytes(p), err, &host);
    if (rc == 0)
        view_gather(&v->t,
                    (const char *)host +
                        v->offset * (int64_t)infer_dtype_size(v->t.dtype),
                    dtype, dst);
    host_memory_free(&s->device.host, host);
    packed_unref(cache, p);
    return rc;
}

/* An output of a batch that was run in micro-batches. */
static int read_gathered(const struct infer_session *s, int output,
                         struct infer_array *out, struct infer_error *err)
{
    const struct micro_batches *whole = s->whole_ran;
    const struct graph_value *v =
        &whole->whole->value[whole->whole->output[output]];
    const size_t bytes = session_output_bytes(s->ran, whole, output);
    int rc = offer(v->name, v->dtype, v->rank, v->dim, bytes, out, err);

    if (rc == 0 && out->data && bytes > 0)
        memcpy(out->data, session_output_data(s, s->ran, whole, output), bytes);
    return rc;
}

int infer_session_read(struct infer_session *session, const char *name,
                       struct infer_array *out, struct infer_error *err)
{
    struct infer_session *s = session;
    const struct graph_value *v;
    const struct plan_value *pv;
    const struct view *view;
    size_t bytes;
    int value, i, rc;

    if (!s || !name || !out)
        return error_set(err, INFER_EARGUMENT, "tensor: no name given");
    value = graph_find_value(model_graph(s->model), name);
    if (value < 0)
        return error_set(err, INFER_EARGUMENT,
                         "tensor '%s': the model has no such tensor", name);
    v = &model_graph(s->model)->value[value];
    if (v->data)
        return read_constant(v, out, err);
    if (!s->ran)
        return error_set(err, INFER_EARGUMENT,
                         "tensor '%s': there was no run yet", name);
    pv = &s->ran->value[value];
    view = &pv->view;
    for (i = 0; i < s->ran->g->n_outputs; i++)
        if (s->ran->g->output[i] == value) {
            if (s->whole_ran)
                return read_gathered(s, i, out, err);
            view = &s->ran->output[i];
        }
    if (view == &pv->view && (!s->config.keep_tensors || !pv->ready))
        return error_set(err, INFER_EARGUMENT,
                         "tensor '%s': not kept (option keep_tensors)", name);
    v = &s->ran->g->value[value];
    bytes = (size_t)kern_tensor_count(&view->t) * infer_dtype_size(v->dtype);
    rc = offer(name, v->dtype, v->rank, v->dim, bytes, out, err);
    if (rc < 0 || !out->data || bytes == 0)
        return rc;
    if (is_view_of_constant(s->ran, view))
        return read_packed_away(s, view, v->dtype, out->data, err);
    return read_view(s, view, v->dtype, out->data, err);
}

/* ---- layers and memory --------------------------------------------- */

int infer_session_layer_count(const struct infer_session *session)
{
    const struct plan *plan = session ? session->current : NULL;

    if (!plan)
        return 0;
    return plan->prepared ? plan->n_run : plan->steps.n;
}

int infer_session_layer(const struct infer_session *session, int index,
                        struct infer_layer_info *out)
{
    const struct graph *model;
    const struct plan_step *s;
    const struct plan *plan;
    double runs = 1;

    if (!out || index < 0 || index >= infer_session_layer_count(session))
        return INFER_EARGUMENT;
    plan = session->current;
    if (session->whole)
        runs = (double)session->whole->batch / (double)session->whole->images;
    model = model_graph(session->model);
    s = plan->prepared ? plan->run[index] : plan->steps.at[index];
    memset(out, 0, sizeof *out);
    out->name = plan_step_name(plan, s);
    out->op = s->main && s->exec.problem.op != KERN_SQUEEZE_EXCITE &&
                      s->exec.problem.op != KERN_CHAIN
                  ? graph_op_info(plan->g->node[s->node].op)->name
                  : kern_op_name(s->exec.problem.op);
    out->kernel = s->exec.row->name;
    out->variant = s->exec.variant_name;
    out->flops = runs * kern_problem_flops(&s->exec.problem);
    out->bytes = runs * kern_problem_bytes(&s->exec.problem);
    out->seconds = s->runs > 0 ? runs * s->seconds / (double)s->runs : 0;
    if (s->node >= 0) {
        const struct graph_node *n = &plan->g->node[s->node];

        describe(&session_graph(session)->value[n->out[0]], &out->output);
        out->name = model->node[s->node].name ? model->node[s->node].name
                                              : model->value[n->out[0]].name;
        out->output.name = model->value[n->out[0]].name;
    }
    return 0;
}

int infer_session_memory(const struct infer_session *session,
                         struct infer_memory_info *out)
{
    const struct plan *plan = session ? session->current : NULL;

    if (!plan || !out)
        return INFER_EARGUMENT;
    memset(out, 0, sizeof *out);
    out->activations = plan->arena_bytes;
    out->weights = plan->weight_bytes;
    out->workspace = plan->workspace_bytes;
    out->activations_unshared = plan->unshared_bytes;
    if (session->whole) {
        out->activations += session->whole->bytes;
        out->activations_unshared = (size_t)((double)plan->unshared_bytes *
                                             (double)session->whole->batch /
                                             (double)session->whole->images);
    }
    return 0;
}

int infer_session_tuning(const struct infer_session *session,
                         struct infer_tuning_info *out)
{
    if (!session || !out)
        return INFER_EARGUMENT;
    tuner_info(session->tuner, out);
    return 0;
}
