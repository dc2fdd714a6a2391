/* SPDX-License-Identifier: Apache-2.0 */
/* Making a plan: shapes, values, buffers, the walk over the nodes, outputs, the
 * arena. plan_prepare.c makes it runnable. */
#include "libinfer/multiplier/layers.h"
#include "libinfer/plan/best/best.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

enum infer_dtype plan_dtype(const struct plan *plan, enum infer_dtype declared)
{
    static const enum infer_dtype real[] = {[INFER_PRECISION_FP32] = INFER_F32,
                                            [INFER_PRECISION_TF32] = INFER_F32,
                                            [INFER_PRECISION_FP16] = INFER_F16,
                                            [INFER_PRECISION_BF16] =
                                                INFER_BF16};

    return tune_is_real(declared) ? real[plan->config->precision] : declared;
}

enum infer_dtype plan_input_dtype(const struct plan *plan,
                                  enum infer_dtype declared)
{
    return plan->config->device->ops->host_memory ? plan_dtype(plan, declared)
                                                  : declared;
}

static const char *node_name(const struct plan *plan, int node)
{
    const char *name = node >= 0 ? plan->g->node[node].name : NULL;

    return name ? name : "";
}

int plan_buffer(struct plan *plan, int node, enum infer_dtype dtype, int rank,
                const int64_t *dim, enum kern_layout layout,
                struct infer_error *err, struct view *out)
{
    struct view v;
    size_t bytes;
    int index;

    if (view_dense(plan->buffers.n, dtype, rank, dim, layout, &bytes, &v) < 0)
        return error_set(err, INFER_EMEMORY,
                         "node '%s': its output does not fit in memory",
                         node_name(plan, node));
    index = plan_add_buffer(&plan->buffers, PLAN_ARENA, bytes, err);
    if (index < 0)
        return index;
    *out = v;
    return 0;
}

void plan_set(struct plan *plan, int value, const struct view *view)
{
    struct plan_value *v = &plan->value[value];

    v->ready = true;
    v->view = *view;
    plan->buffers.at[view->buffer].pending += v->uses;
}

/* An input or a constant as a dense row-major value. */
static int make_source(struct plan *plan, int value, enum plan_memory memory,
                       int index, enum infer_dtype dtype,
                       struct infer_error *err, struct view *out)
{
    const struct graph_value *v = &plan->g->value[value];
    size_t bytes;
    int buffer;

    if (v->rank < 0 || view_dense(plan->buffers.n, dtype, v->rank, v->dim,
                                  KERN_NCHW, &bytes, out) < 0)
        return error_set(err, INFER_EMEMORY,
                         "tensor '%s' does not fit in memory", v->name);
    buffer = plan_add_buffer(&plan->buffers, memory, bytes, err);
    if (buffer >= 0)
        plan->buffers.at[buffer].value = index;
    return buffer;
}

/* Adds an input as the device gets it. If its type differs from the plan's, one
 * copy converts the type and puts channels of images last. */
static int set_input(struct plan *plan, int i, struct infer_error *err)
{
    const int value = plan->g->input[i];
    const struct graph_value *v = &plan->g->value[value];
    const enum infer_dtype to = plan_dtype(plan, v->dtype);
    struct view given, kept;
    int rc = make_source(plan, value, PLAN_INPUT, i,
                         plan_input_dtype(plan, v->dtype), err, &given);

    if (rc < 0)
        return rc;
    plan->input_buffer[i] = rc;
    plan->buffers.at[rc].first = -1;
    /* A device with its own memory may repeat a run on its inputs. */
    if (!plan->config->device->ops->host_memory)
        plan->buffers.at[rc].last = INT_MAX;
    kept = given;
    if (given.t.dtype != to) {
        rc = plan_buffer(plan, -1, to, v->rank, v->dim, KERN_NHWC, err, &kept);
        if (rc == 0)
            rc = plan_copy_to(plan, -1, &given, &kept, err);
        if (rc < 0)
            return rc;
    }
    plan_set(plan, value, &kept);
    return 0;
}

int plan_constant_as(struct plan *plan, const struct view *v,
                     enum infer_dtype dtype, struct infer_error *err,
                     struct view *out)
{
    const int value = plan->buffers.at[v->buffer].value;
    struct view whole;
    int i, rc;

    *out = *v;
    out->t.dtype = dtype;
    for (i = 0; i < plan->buffers.n; i++)
        if (plan->buffers.at[i].memory == PLAN_CONSTANT &&
            plan->buffers.at[i].value == value &&
            plan->buffers.at[i].dtype == dtype) {
            out->buffer = i;
            return 0;
        }
    rc = make_source(plan, value, PLAN_CONSTANT, value, dtype, err, &whole);
    if (rc < 0)
        return rc;
    plan->buffers.at[rc].dtype = dtype;
    out->buffer = rc;
    return 0;
}

int plan_set_constant(struct plan *plan, int value, struct infer_error *err)
{
    const enum infer_dtype dtype =
        plan_dtype(plan, plan->g->value[value].dtype);
    struct view view;
    const int rc =
        make_source(plan, value, PLAN_CONSTANT, value, dtype, err, &view);

    if (rc < 0)
        return rc;
    plan->buffers.at[rc].dtype = dtype;
    plan_set(plan, value, &view);
    return 0;
}

static int set_sources(struct plan *plan, struct infer_error *err)
{
    const struct graph *g = plan->g;
    int i, rc;

    for (i = 0; i < g->n_inputs; i++) {
        rc = set_input(plan, i, err);
        if (rc < 0)
            return rc;
    }
    for (i = 0; i < g->n_values; i++)
        if (g->value[i].data && plan->value[i].uses > 0) {
            rc = plan_set_constant(plan, i, err);
            if (rc < 0)
                return rc;
        }
    return 0;
}

size_t plan_products_bytes(const struct plan_products *products)
{
    return (sizeof(uint32_t) << 2 * products->bits) +
           ((2 * sizeof(uint16_t) * (size_t)products->factors)
            << products->bits) +
           (products->accumulated ? 2 * sizeof(int32_t) : 0);
}

/* Adds the buffer of the table of products, if the session has one. */
static int set_products(struct plan *plan, struct infer_error *err)
{
    const struct plan_products *products = plan->config->products;

    if (!products)
        return 0;
    plan->products = plan_add_buffer(&plan->buffers, PLAN_PRODUCTS,
                                     plan_products_bytes(products), err);
    if (plan->products < 0)
        return plan->products;
    return multiplier_exact_layers(plan->g, products->exact, err,
                                   &plan->exact_layers);
}

struct view plan_products_view(const struct plan *plan)
{
    const int64_t side = INT64_C(1) << plan->config->products->bits;
    const int64_t dim[2] = {side, side};
    struct view v = {.buffer = plan->products};

    v.t = kern_tensor_dense(plan->config->products->integers ? INFER_I32
                                                             : INFER_U32,
                            2, dim, KERN_NCHW);
    v.t.stride[0] = 1;
    v.t.stride[1] = side;
    return v;
}

struct view plan_factors_view(const struct plan *plan)
{
    const struct plan_products *products = plan->config->products;
    const int64_t dim[3] = {2, INT64_C(1) << products->bits, products->factors};
    /* In elements of 2 bytes. */
    struct view v = {.buffer = plan->products,
                     .offset = INT64_C(2) << 2 * products->bits};

    v.t = kern_tensor_dense(INFER_BF16, 3, dim, KERN_NCHW);
    return v;
}

struct view plan_accumulator_view(const struct plan *plan)
{
    const int64_t dim[1] = {2};
    struct view v = {.buffer = plan->products,
                     .offset = INT64_C(1) << 2 * plan->config->products->bits};

    v.t = kern_tensor_dense(INFER_I32, 1, dim, KERN_NCHW);
    return v;
}

static void count_uses(struct plan *plan)
{
    const struct graph *g = plan->g;
    int i, k;

    for (i = 0; i < g->n_nodes; i++)
        for (k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].op != GRAPH_NONE && g->node[i].in[k] >= 0)
                plan->value[g->node[i].in[k]].uses++;
    for (i = 0; i < g->n_outputs; i++)
        plan->value[g->output[i]].uses++;
}

/* Every shape must be known by now; sizes are checked when buffers are added.
 */
static int check_shapes(const struct plan *plan, struct infer_error *err)
{
    const struct graph *g = plan->g;
    int i, k;

    for (i = 0; i < g->n_values; i++) {
        const struct graph_value *v = &g->value[i];

        if (!v->name || plan->value[i].uses == 0)
            continue;
        for (k = 0; k < v->rank && v->dim[k] >= 0; k++)
            ;
        if (v->rank < 0 || k < v->rank)
            return error_set(err, INFER_EUNSUPPORTED,
                             "tensor '%s': its shape depends on data", v->name);
    }
    return 0;
}

static int lower_all(struct plan *plan, struct infer_error *err)
{
    const struct graph *g = plan->g;
    int i, k, rc;

    for (i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->node[i];

        if (n->op == GRAPH_NONE)
            continue;
        for (k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0 && !plan->value[n->in[k]].ready)
                return error_set(err, INFER_EFORMAT,
                                 "node '%s': input '%s' has no value",
                                 node_name(plan, i), g->value[n->in[k]].name);
        rc = lower_node(plan, i, err);
        if (rc < 0)
            return rc;
        for (k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0)
                plan->buffers.at[plan->value[n->in[k]].view.buffer].pending--;
    }
    return 0;
}

/* Outputs as callers see them: dense, row-major, of the declared type, and
 * still there after the run. */
static int lay_outputs(struct plan *plan, struct infer_error *err)
{
    const struct graph *g = plan->g;
    int i, rc;

    for (i = 0; i < g->n_outputs; i++) {
        const struct graph_value *v = &g->value[g->output[i]];
        const struct plan_value *pv = &plan->value[g->output[i]];
        struct view *out = &plan->output[i];

        if (!pv->ready)
            return error_set(err, INFER_EFORMAT, "output '%s' has no value",
                             v->name);
        *out = pv->view;
        if (out->t.dtype != v->dtype ||
            !kern_tensor_is_dense(&out->t, KERN_NCHW) ||
            (plan->buffers.at[out->buffer].memory != PLAN_ARENA &&
             plan->buffers.at[out->buffer].memory != PLAN_KEPT)) {
            rc = plan_buffer(plan, v->producer, v->dtype, v->rank, v->dim,
                             KERN_NCHW, err, out);
            if (rc == 0)
                rc = plan_copy_to(plan, v->producer, &pv->view, out, err);
            if (rc < 0)
                return rc;
        }
        plan->buffers.at[out->buffer].last = INT_MAX;
    }
    return 0;
}

static int lay_memory(struct plan *plan, struct infer_error *err)
{
    const int rc =
        plan_place_in_row(&plan->buffers, PLAN_KEPT, err, &plan->kept_bytes);

    return rc < 0
               ? rc
               : plan_place(&plan->buffers, 1u << PLAN_ARENA | 1u << PLAN_INPUT,
                            !plan->config->keep_tensors, err,
                            &plan->arena_bytes, &plan->unshared_bytes);
}

static int allocate(struct plan *plan, struct infer_error *err)
{
    const struct graph *g = plan->g;

    plan->value = calloc((size_t)g->n_values + 1, sizeof *plan->value);
    plan->output = calloc((size_t)g->n_outputs + 1, sizeof *plan->output);
    plan->input_buffer =
        calloc((size_t)g->n_inputs + 1, sizeof *plan->input_buffer);
    if (!plan->value || !plan->output || !plan->input_buffer)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    return 0;
}

/* plan->batch. */
static int64_t batch_of(const struct plan *plan)
{
    const struct graph *free = model_graph(plan->config->model);
    int64_t batch = 0;

    for (int i = 0; i < free->n_inputs; i++) {
        const struct graph_value *v = &free->value[free->input[i]];
        const int64_t images = plan->g->value[plan->g->input[i]].dim[0];

        if (v->rank < 1 || v->dim[0] >= 0 || (batch > 0 && images != batch))
            return 0;
        batch = images;
    }
    return batch;
}

static int take_bytes(struct plan *plan, const bool *bytes,
                      struct infer_error *err)
{
    const size_t n = (size_t)plan->g->n_nodes;

    plan->bytes = calloc(n + 1, sizeof *plan->bytes);
    if (!plan->bytes)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    memcpy(plan->bytes, bytes, n * sizeof *bytes);
    plan->n_bytes = plan->g->n_nodes;
    return best_rewire(plan->g, plan->bytes, err);
}

static int make(struct plan *plan, const struct graph_shape *shape,
                const bool *bytes, struct infer_error *err)
{
    int rc;

    plan->g = graph_copy(model_graph(plan->config->model));
    if (!plan->g)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    rc = graph_infer_shapes(plan->g, shape, err);
    if (rc == 0 && bytes)
        rc = take_bytes(plan, bytes, err);
    if (rc == 0)
        rc = allocate(plan, err);
    if (rc == 0)
        plan->batch = batch_of(plan);
    if (rc == 0)
        rc = plan_find_attention(plan, err);
    if (rc == 0)
        rc = plan_pad_channels(plan, err);
    if (rc < 0)
        return rc;
    count_uses(plan);
    rc = check_shapes(plan, err);
    if (rc == 0)
        rc = set_sources(plan, err);
    if (rc == 0)
        rc = set_products(plan, err);
    if (rc < 0)
        return rc;
    plan_find_aliases(plan);
    rc = plan_find_integers(plan, err);
    if (rc == 0)
        rc = plan_dequantize_constants(plan, err);
    if (rc < 0)
        return rc;
    error_clear(err);
    rc = lower_all(plan, err);
    if (rc == 0)
        rc = lay_outputs(plan, err);
    if (rc == 0 && plan->failed > 0)
        rc = INFER_EUNSUPPORTED; /* the error lists the nodes */
    if (rc == 0)
        rc = lay_memory(plan, err);
    if (rc == 0)
        rc = plan_check_budget(plan, err);
    return rc;
}

int plan_new_as(const struct plan_config *config,
                const struct graph_shape *shape, const bool *bytes,
                struct infer_error *err, struct plan **out)
{
    struct plan *plan = calloc(1, sizeof *plan);
    int rc;

    if (!plan)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    plan->config = config;
    plan->asked = config->device->kern;
    if (config->deterministic && plan->asked.kind == KERN_CPU)
        plan->asked.threads = 1;
    rc = make(plan, shape, bytes, err);
    if (rc < 0) {
        plan_free(plan);
        return rc;
    }
    *out = plan;
    return 0;
}

int plan_new(const struct plan_config *config, const struct graph_shape *shape,
             struct infer_error *err, struct plan **out)
{
    return plan_new_as(config, shape, NULL, err, out);
}

void plan_free(struct plan *plan)
{
    struct packed_cache *cache;
    int i, k;

    if (!plan)
        return;
    cache = model_packed(plan->config->model);
    for (i = 0; i < plan->steps.n; i++)
        for (k = 0; k < KERN_MAX_IN; k++)
            packed_unref(cache, plan->steps.at[i]->packed[k]);
    plan_free_steps(&plan->steps);
    free(plan->exact_layers);
    for (i = 0; i < plan->buffers.n; i++)
        packed_unref(cache, plan->buffers.at[i].plain);
    if (plan->graph)
        plan->config->device->ops->graph_free(plan->config->device,
                                              plan->graph);
    if (plan->kept)
        plan->config->device->ops->free(plan->config->device, plan->kept);
    free(plan->run);
    free(plan->patch);
    free(plan->buffers.at);
    free(plan->copy);
    free(plan->value);
    free(plan->output);
    free(plan->input_buffer);
    free(plan->attention);
    free(plan->integers);
    free(plan->bytes);
    graph_free(plan->g);
    free(plan);
}
