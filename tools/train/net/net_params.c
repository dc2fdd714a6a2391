/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the parameters among the graph's values and places them in the flat
 * arrays. */
#include "tools/train/net/net.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"

/* Elements: parameters start at a cache line. */
#define ALIGN 16

struct operand {
    enum net_role role;
    enum net_init init;
};

/* The parameters among a node's operands: those from 1 on. */
#define BIAS                                                                   \
    {                                                                          \
        NET_PLAIN, NET_INIT_BIAS                                               \
    }
#define ONE                                                                    \
    {                                                                          \
        NET_PLAIN, NET_INIT_ONE                                                \
    }
#define ZERO                                                                   \
    {                                                                          \
        NET_PLAIN, NET_INIT_ZERO                                               \
    }
static const struct {
    int count;
    struct operand at[4];
} operands[GRAPH_OP_COUNT] = {
    [GRAPH_CONV] = {2, {{NET_DECAY, NET_INIT_CONV}, BIAS}},
    [GRAPH_CONV_TRANSPOSE] = {2, {{NET_DECAY, NET_INIT_CONV}, BIAS}},
    [GRAPH_DENSE] = {2, {{NET_DECAY, NET_INIT_DENSE}, BIAS}},
    [GRAPH_BATCH_NORM] = {4,
                          {ONE,
                           ZERO,
                           {NET_RUNNING, NET_INIT_ZERO},
                           {NET_RUNNING, NET_INIT_ONE}}},
    [GRAPH_LAYER_NORM] = {2, {ONE, ZERO}},
    [GRAPH_GROUP_NORM] = {2, {ONE, ZERO}},
    [GRAPH_SCALE_SHIFT] = {2, {ONE, ZERO}},
    [GRAPH_PRELU] = {1, {{NET_PLAIN, NET_INIT_SLOPE}}},
};

/* As PyTorch's init._calculate_fan_in_and_fan_out(); a bias has its layer's. */
static void set_fans(const struct graph_value *w, struct net_param *p)
{
    int64_t window = 1;

    for (int i = 2; i < w->rank; i++)
        window *= w->dim[i];
    p->fan_in = w->rank > 1 ? w->dim[1] * window : 1;
    p->fan_out = w->rank > 1 ? w->dim[0] * window : 1;
}

static int add_param(struct net *n, const struct graph_node *node, int i,
                     struct operand operand, struct infer_error *err)
{
    const int value = node->in[i];
    const struct graph_value *v = &n->g->value[value];
    struct net_param *p;

    if (v->producer >= 0)
        return error_add(err, INFER_EUNSUPPORTED,
                         "node '%s': its operand '%s' is computed by the "
                         "network; only stored weights can be trained",
                         node->name, v->name);
    if (n->value[value].param >= 0)
        return 0; /* shared by several nodes */
    p = realloc(n->param, ((size_t)n->n_params + 1) * sizeof(*p));
    if (!p)
        return error_set(err, INFER_EMEMORY, "out of memory");
    n->param = p;
    p += n->n_params;
    memset(p, 0, sizeof(*p));
    p->value = value;
    p->rank = v->rank;
    memcpy(p->dim, v->dim, sizeof(v->dim));
    if (v->rank < 0 || !checked_count(v->rank, v->dim, &p->count) ||
        p->count < 1)
        return error_add(err, INFER_EFORMAT,
                         "node '%s': the shape of weight '%s' is not known",
                         node->name, v->name);
    p->init = operand.init;
    p->role = operand.role;
    set_fans(&n->g->value[node->in[1]], p);
    p->name = strdup(v->name);
    if (!p->name)
        return error_set(err, INFER_EMEMORY, "out of memory");
    n->value[value].param = n->n_params++;
    return 0;
}

static int collect(struct net *n, struct infer_error *err)
{
    int worst = 0;

    error_clear(err);
    for (int i = 0; i < n->g->n_nodes; i++) {
        const struct graph_node *node = &n->g->node[i];

        for (int k = 1; k < node->n_in && k <= operands[node->op].count; k++) {
            const int rc =
                node->in[k] < 0
                    ? 0
                    : add_param(n, node, k, operands[node->op].at[k - 1], err);

            if (rc == INFER_EMEMORY)
                return rc;
            worst = rc < 0 ? rc : worst;
        }
    }
    return worst;
}

static int freeze(struct net *n, struct infer_error *err)
{
    regex_t re;
    int hits = 0, rc;
    char text[256];

    if (!n->options.freeze)
        return 0;
    rc = regcomp(&re, n->options.freeze, REG_EXTENDED | REG_NOSUB);
    if (rc != 0) {
        regerror(rc, &re, text, sizeof(text));
        return error_set(err, INFER_EARGUMENT, "--freeze='%s': %s",
                         n->options.freeze, text);
    }
    for (int i = 0; i < n->n_params; i++) {
        struct net_param *p = &n->param[i];

        if (regexec(&re, p->name, 0, NULL, 0) != 0)
            continue;
        hits++;
        if (p->role != NET_RUNNING)
            p->role = NET_FROZEN;
    }
    regfree(&re);
    if (hits == 0)
        return error_set(err, INFER_EARGUMENT,
                         "--freeze='%s' matches none of the %d parameters "
                         "(the first is '%s')",
                         n->options.freeze, n->n_params,
                         n->n_params ? n->param[0].name : "");
    return 0;
}

/* Places every parameter, role by role. */
static void place(struct net *n)
{
    int64_t at = 0;

    for (int role = 0; role < NET_ROLES; role++) {
        n->role_begin[role] = at;
        for (int i = 0; i < n->n_params; i++) {
            if (n->param[i].role != (enum net_role)role)
                continue;
            n->param[i].offset = at;
            at += (n->param[i].count + ALIGN - 1) / ALIGN * ALIGN;
        }
    }
    n->role_begin[NET_ROLES] = at;
}

static void flat(struct net *n, enum net_memory memory, enum infer_dtype dtype,
                 int64_t count)
{
    n->flat[memory] =
        net_buffer(n, memory, (size_t)count * infer_dtype_size(dtype));
}

void net_find_params(struct net *n)
{
    const struct net_options *o = &n->options;
    int64_t all, trained;

    net_check(n, collect(n, net_err(n)));
    net_check(n, n->rc < 0 ? n->rc : freeze(n, net_err(n)));
    if (n->rc < 0)
        return;
    if (o->decay_all)
        for (int i = 0; i < n->n_params; i++)
            if (n->param[i].role == NET_PLAIN)
                n->param[i].role = NET_DECAY;
    place(n);
    all = n->role_begin[NET_ROLES];
    trained = n->role_begin[NET_FROZEN];
    if (trained == 0)
        net_fail(n, INFER_EUNSUPPORTED, "the network has nothing to train%s",
                 o->freeze ? ": --freeze names every parameter" : "");
    flat(n, NET_WEIGHTS, net_wide(n), all);
    flat(n, NET_GRADS, net_wide(n), trained);
    if (o->momentum)
        flat(n, NET_M, INFER_F32, trained);
    if (o->second)
        flat(n, NET_V, INFER_F32, trained);
    if (o->average)
        flat(n, NET_AVERAGE, INFER_F32, trained);
    if (net_is_half(n))
        flat(n, NET_HALF, o->dtype, all);
}

enum kern_layout net_param_layout(const struct net *n)
{
    return n->options.device->ops->host_memory ? KERN_NCHW : KERN_NHWC;
}

struct view net_param_view(const struct net *n, int param,
                           enum net_memory memory)
{
    const struct net_param *p = &n->param[param];
    struct view v = {.buffer = n->flat[memory], .offset = p->offset};

    v.t = kern_tensor_dense(memory == NET_HALF ? n->options.dtype : net_wide(n),
                            p->rank, p->dim, net_param_layout(n));
    return v;
}

bool net_is_trained(const struct net *n, int param)
{
    return param >= 0 && n->param[param].role < NET_FROZEN;
}
