/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisation: Glorot and Bengio, 2010; He et al., 2015; and PyTorch's
 * defaults, which most published recipes start from. */
#include "tools/train/init.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tools/train/data/random.h"

const char *const init_names[] = {"auto", "pytorch", "kaiming", "xavier", NULL};

static bool has_batch_norm(const struct net *n)
{
    for (int i = 0; i < n->g->n_nodes; i++)
        if (n->g->node[i].op == GRAPH_BATCH_NORM)
            return true;
    return false;
}

/* Bound of the uniform or deviation of the normal distribution. */
static double spread(const struct net_param *p, enum init_scheme scheme,
                     bool *normal)
{
    const double in = (double)p->fan_in, out = (double)p->fan_out;

    *normal = scheme == INIT_KAIMING && p->init == NET_INIT_CONV;
    if (*normal)
        return sqrt(2 / out);
    if (scheme == INIT_XAVIER)
        return p->init == NET_INIT_BIAS ? 0 : sqrt(6 / (in + out));
    return 1 / sqrt(in);
}

static void fill(const struct net_param *p, enum init_scheme scheme,
                 struct random *r, enum infer_dtype dtype, void *flat)
{
    bool normal;
    const double size = spread(p, scheme, &normal);

    for (int64_t i = 0; i < p->count; i++) {
        double v = p->init == NET_INIT_ONE     ? 1
                   : p->init == NET_INIT_SLOPE ? 0.25
                                               : 0;

        if (p->init < NET_INIT_ONE)
            v = normal ? size * (double)random_normal(r)
                       : size * (2 * (double)random_unit(r) - 1);
        scalar_store(dtype, flat, p->offset + i, v);
    }
}

/* A stored model has its own values. */
static int take_constant(const struct net_param *p, const struct constant *c,
                         enum infer_dtype dtype, void *flat,
                         struct infer_error *err)
{
    void *bytes = malloc(c->bytes + 1);
    int rc;

    if (!bytes)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = constant_load(c, bytes, err);
    for (int64_t i = 0; rc == 0 && i < p->count; i++)
        scalar_store(dtype, flat, p->offset + i,
                     scalar_load(c->dtype, bytes, i));
    free(bytes);
    return rc;
}

/* Averages start as the weights. */
static int write_all(struct net *n, const void *flat, struct infer_error *err)
{
    int rc = net_write_flat(n, NET_WEIGHTS, flat, err);

    if (rc == 0 && n->flat[NET_AVERAGE] >= 0)
        rc = net_write_flat(n, NET_AVERAGE, flat, err);
    return rc;
}

int init_random(struct net *n, enum init_scheme scheme, uint64_t seed,
                struct infer_error *err)
{
    void *flat = calloc(1, net_flat_bytes(n, NET_WEIGHTS));
    int rc = 0;

    if (!flat)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (scheme == INIT_AUTO)
        scheme = has_batch_norm(n) ? INIT_KAIMING : INIT_PYTORCH;
    for (int i = 0; rc == 0 && i < n->n_params; i++) {
        const struct net_param *p = &n->param[i];
        const struct constant *c = n->g->value[p->value].data;
        struct random r = random_at(seed, RANDOM_WEIGHTS, (uint64_t)i);

        if (c)
            rc = take_constant(p, c, net_wide(n), flat, err);
        else
            fill(p, scheme, &r, net_wide(n), flat);
    }
    if (rc == 0)
        rc = write_all(n, flat, err);
    free(flat);
    return rc;
}

static void note_left(struct init_report *report, const struct net_param *p,
                      const char *why)
{
    if (report->left++ == 0)
        snprintf(report->first, sizeof(report->first), "%s: %s", p->name, why);
}

int init_from_graph(struct net *n, const struct graph *from,
                    struct infer_error *err, struct init_report *report)
{
    void *flat = malloc(net_flat_bytes(n, NET_WEIGHTS));
    int weights = 0, rc; /* weights of convolutions and dense layers taken */

    memset(report, 0, sizeof(*report));
    if (!flat)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = net_read_flat(n, NET_WEIGHTS, flat, err);
    for (int i = 0; rc == 0 && i < n->n_params; i++) {
        const struct net_param *p = &n->param[i];
        const int value = graph_find_value(from, p->name);
        const struct constant *c = value < 0 ? NULL : from->value[value].data;

        if (!c)
            note_left(report, p, "it has no such tensor of that shape");
        else if (c->rank != p->rank ||
                 memcmp(c->dim, p->dim, (size_t)p->rank * sizeof(p->dim[0])) !=
                     0)
            note_left(report, p, "it is of another shape there");
        else {
            rc = take_constant(p, c, net_wide(n), flat, err);
            weights += p->rank > 1;
        }
    }
    report->taken = n->n_params - report->left;
    /* A matching bias alone does not make the networks related. */
    if (rc == 0 && weights == 0)
        rc = error_set(err, INFER_EFORMAT,
                       "none of its weights is one of this network (%s)",
                       report->first);
    if (rc == 0)
        rc = write_all(n, flat, err);
    free(flat);
    return rc;
}
