/* SPDX-License-Identifier: Apache-2.0 */
/* Places all memory of a network once: the arena of both lists by the lifetimes
 * of their buffers, flat arrays, workspaces. Then sets the pointers of every
 * step. */
#include "tools/train/net/net.h"

#include <stdlib.h>

#include "libinfer/memory/arena.h"

static int allocate(struct net *n, size_t bytes, struct infer_error *err,
                    void **out)
{
    const struct device *d = n->options.device;

    *out = NULL;
    if (bytes == 0)
        return 0;
    return d->ops->alloc(d, bytes, err, out);
}

/* Memory that is read before it is written (padding between parameters,
 * moments, state) must start with zeros. */
static int allocate_zeroed(struct net *n, size_t bytes, struct infer_error *err,
                           void **out)
{
    const struct device *d = n->options.device;
    unsigned char *zeros;
    int rc = allocate(n, bytes, err, out);

    if (rc < 0 || bytes == 0)
        return rc;
    zeros = calloc(1, bytes);
    if (!zeros)
        return error_set(err, INFER_EMEMORY, "out of memory: %zu bytes", bytes);
    rc = d->ops->copy_in(d, *out, zeros, bytes, err);
    free(zeros);
    return rc;
}

/* That of moved activations. */
static int allocate_host(struct net *n, struct infer_error *err)
{
    const struct device *d = n->options.device;
    void *memory = NULL;
    int rc = 0;

    if (n->host_bytes == 0)
        return 0;
    if (d->ops->alloc_host)
        rc = d->ops->alloc_host(d, n->host_bytes, err, &memory);
    else if (!(memory = malloc(n->host_bytes)))
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc < 0)
        error_prefix(err, "%zu bytes of host memory for activations",
                     n->host_bytes);
    n->host = memory;
    return rc;
}

static int allocate_all(struct net *n, struct infer_error *err)
{
    size_t train = 0, eval = 0;
    void *memory;
    const bool reuse = !n->options.keep;
    int rc = plan_place(&n->buffers, 1u << NET_TRAIN, reuse, err, &train, NULL);

    if (rc == 0)
        rc = plan_place(&n->buffers, 1u << NET_EVAL, reuse, err, &eval, NULL);
    if (rc == 0)
        rc = plan_place_in_row(&n->buffers, NET_FIXED, err, &n->fixed_bytes);
    n->arena_bytes = train > eval ? train : eval;
    if (rc == 0)
        rc = allocate(n, n->arena_bytes, err, &n->arena);
    n->base[NET_TRAIN] = n->base[NET_EVAL] = n->arena;
    if (rc == 0)
        rc = allocate(n, n->workspace_bytes, err, &n->workspace);
    if (rc == 0)
        rc = allocate(n, n->side_bytes, err, &n->side_workspace);
    if (rc == 0) {
        rc = allocate(n, n->packed_bytes, err, &memory);
        n->packed = memory;
    }
    if (rc == 0)
        rc = allocate_host(n, err);
    for (int m = NET_FIXED; rc == 0 && m < NET_MEMORIES; m++) {
        const size_t bytes = m == NET_FIXED   ? n->fixed_bytes
                             : n->flat[m] < 0 ? 0
                                              : n->buffers.at[n->flat[m]].bytes;

        rc = allocate_zeroed(n, bytes, err, &memory);
        n->base[m] = memory;
    }
    return rc;
}

void *net_at(const struct net *n, const struct view *v)
{
    const struct plan_buffer *b = &n->buffers.at[v->buffer];

    return n->base[b->memory] + b->offset +
           v->offset * (int64_t)infer_dtype_size(v->t.dtype);
}

static void *locate(const void *user, const struct view *v)
{
    return net_at(user, v);
}

size_t net_bytes(const struct net *n)
{
    size_t bytes = n->arena_bytes + n->fixed_bytes + n->workspace_bytes +
                   n->side_bytes + n->packed_bytes;

    for (int m = NET_FIXED + 1; m < NET_MEMORIES; m++)
        bytes += net_flat_bytes(n, m);
    return bytes;
}

size_t net_packed_at(const struct plan_step *step, int i)
{
    size_t at = 0;

    for (int k = 0; k < i; k++)
        at += (step->exec.packed[k] + ARENA_ALIGN - 1) / ARENA_ALIGN *
              ARENA_ALIGN;
    return at;
}

/* Sets a step's pointers. */
static void bind(struct net *n, struct plan_step *op)
{
    for (int i = 0; i < op->exec.problem.n_in; i++)
        if (op->exec.packed[i] > 0)
            op->repacked[i] = n->packed + net_packed_at(op, i);
    plan_bind_step(op, locate, n, n->workspace, n->options.device);
}

static int upload_constants(struct net *n, struct infer_error *err)
{
    const struct device *d = n->options.device;
    int rc = 0;

    for (int i = 0; rc == 0 && i < n->g->n_values; i++) {
        const struct constant *c = n->g->value[i].data;
        void *bytes;

        if (!c || n->value[i].param >= 0 || c->bytes == 0)
            continue;
        bytes = malloc(c->bytes);
        if (!bytes)
            return error_set(err, INFER_EMEMORY, "out of memory");
        rc = constant_load(c, bytes, err);
        if (rc == 0)
            rc = d->ops->copy_in(d, net_at(n, &n->value[i].view[0]), bytes,
                                 c->bytes, err);
        free(bytes);
    }
    return rc;
}

/* Factors, or the accumulator. */
static int upload_factors(struct net *n, int stage, struct infer_error *err)
{
    const struct device *d = n->options.device;
    const struct view *v = &n->factors[stage];
    const struct multiplier *m = n->options.multiplier[stage];
    uint16_t *factors = NULL;

    if (m->accumulated)
        return d->ops->copy_in(d, net_at(n, v), m->accumulator,
                               sizeof m->accumulator, err);
    int rc = multiplier_factors(m, err, &factors);
    if (rc > 0)
        rc = d->ops->copy_in(d, net_at(n, v), factors,
                             2 * (size_t)kern_tensor_count(&v->t), err);
    free(factors);
    return rc < 0 ? rc : 0;
}

static int upload_products(struct net *n, struct infer_error *err)
{
    const struct device *d = n->options.device;
    int rc = 0;

    for (int s = 0; rc == 0 && s < NET_STAGES; s++) {
        const struct multiplier *m = n->options.multiplier[s];
        const enum net_gradient way = n->options.gradient[s];
        uint32_t *entry = NULL;
        float *slope = NULL;

        if (!m)
            continue;
        if (way == NET_BY_PRODUCTS)
            rc = multiplier_by_columns(m, err, &entry);
        else
            rc = multiplier_slopes(m, way == NET_BY_DERIVATIVES, s == NET_WGRAD,
                                   err, &slope);
        if (rc == 0)
            rc = d->ops->copy_in(d, net_at(n, &n->products[s]),
                                 slope ? (void *)slope : entry,
                                 4 * multiplier_entries(m), err);
        free(entry);
        free(slope);
        if (rc == 0 && n->factors[s].t.dtype != INFER_NONE)
            rc = upload_factors(n, s, err);
    }
    return rc;
}

void net_place(struct net *n)
{
    int rc = n->rc < 0 ? n->rc : allocate_all(n, n->err);

    for (int l = 0; l < NET_LISTS; l++)
        for (int i = 0; rc == 0 && i < n->list[l].steps.n; i++)
            bind(n, n->list[l].steps.at[i]);
    if (rc == 0)
        rc = upload_constants(n, n->err);
    net_check(n, rc < 0 ? rc : upload_products(n, n->err));
}
