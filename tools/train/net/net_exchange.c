/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchanges of a step between the processes of a run, inserted into the
 * lists.
 *
 * Gradients lie in one array in the order of the layers, and the backward pass
 * computes them from its end to its beginning.  The array is cut into buckets
 * that are summed over the processes while the backward pass goes on.  Each
 * process divides the gradients of its part of the batch by the whole batch, so
 * that their sum is the gradient of the whole.
 *
 * Batch norms use the statistics of their own process's part, as with PyTorch's
 * DistributedDataParallel.  Running statistics become the mean over all
 * processes after every step, so that all evaluate and save the same network.
 * With net_sync_norm.c batch norms use the whole batch, and the statistics are
 * equal everywhere.
 */
#include "tools/train/net/net.h"

#include <stdlib.h>

/* Large enough that a bucket travels at the link's speed, small enough that
 * ResNet-50's 100 MB make a dozen. */
#define BUCKET_BYTES ((int64_t)8 << 20)

int net_ranks(const struct net *n)
{
    return n->options.exchange ? n->options.exchange->size : 1;
}

/* ---- when a part of an array is complete --------------------------- */

static bool writes(const struct view *v, int buffer, int64_t from, int64_t to)
{
    return v->t.dtype != INFER_NONE && v->buffer == buffer && v->offset < to &&
           v->offset + kern_tensor_count(&v->t) > from;
}

/* The last launch of a list that writes elements from .. to-1 of a buffer;
 * -1: none does. */
static int last_writer(const struct net *n, int list, int buffer, int64_t from,
                       int64_t to)
{
    int last = -1;

    for (int i = 0; i < n->list[list].steps.n; i++)
        for (int k = 0; k < KERN_MAX_OUT; k++)
            if (writes(&n->list[list].steps.at[i]->out[k], buffer, from, to))
                last = i;
    return last;
}

/* ---- insertions ---------------------------------------------------- */

/* Steps to be inserted into a list, each after one of its steps. */
struct insertions {
    struct {
        struct plan_step *op;
        int after;
    } * item;
    int n;
};

static void insert(struct net *n, struct insertions *ins, int after,
                   enum net_transfer kind, const struct view *array)
{
    struct plan_step *op = net_transfer_step(n, kind, -1, array);
    void *more = realloc(ins->item, ((size_t)ins->n + 1) * sizeof(*ins->item));

    if (more)
        ins->item = more;
    if (!op || !more) {
        free(op);
        net_fail(n, INFER_EMEMORY, "out of memory");
        return;
    }
    ins->item[ins->n].op = op;
    ins->item[ins->n++].after = after;
}

static void insert_join(struct net *n, struct insertions *ins, int after)
{
    const struct view none = {.buffer = 0};

    insert(n, ins, after, NET_JOIN, &none);
}

/* Elements from .. to-1 of a flat array. */
static void insert_range(struct net *n, struct insertions *ins, int after,
                         enum net_transfer kind, enum net_memory memory,
                         int64_t from, int64_t to)
{
    const struct view v = net_range(n, memory, INFER_F32, from, to);

    insert(n, ins, after, kind, &v);
}

/* Insertions after the same step keep their order. Steps of the list keep
 * theirs, so that buffers' lifetimes stay valid. */
static void merge(struct net *n, int which, struct insertions *ins)
{
    struct net_list *list = &n->list[which];
    const int total = list->steps.n + ins->n;
    struct plan_step **op =
        n->rc < 0 ? NULL : malloc(((size_t)total + 1) * sizeof(*op));
    int at = 0;

    if (!op) {
        net_fail(n, INFER_EMEMORY, "out of memory");
        return;
    }
    for (int i = -1; i < list->steps.n; i++) {
        if (i >= 0)
            op[at++] = list->steps.at[i];
        for (int k = 0; k < ins->n; k++)
            if (ins->item[k].after == i)
                op[at++] = ins->item[k].op;
    }
    free(list->steps.at);
    list->steps = (struct plan_steps){.at = op, .n = total, .capacity = total};
    ins->n = 0; /* they belong to the list now */
}

/* ---- what is exchanged --------------------------------------------- */

static void bucket(struct net *n, struct insertions *ins, int64_t from,
                   int64_t to)
{
    const int after =
        last_writer(n, NET_LIST_TRAIN, n->flat[NET_GRADS], from, to);

    insert_range(n, ins, after, NET_SUM, NET_GRADS, from, to);
}

/* From the end of the array to its beginning.  Biases and factors, a small part
 * of any network, go in one piece. */
static void gradients(struct net *n, struct insertions *ins)
{
    const int64_t least = BUCKET_BYTES / (int64_t)sizeof(float);
    const int64_t plain = n->role_begin[NET_PLAIN];
    const int64_t trained = n->role_begin[NET_FROZEN];
    int64_t end = plain;

    if (trained <= least) {
        bucket(n, ins, 0, trained);
        return;
    }
    for (int i = n->n_params - 1; i >= 0; i--) {
        const struct net_param *p = &n->param[i];

        if (p->role != NET_DECAY || end - p->offset < least)
            continue;
        bucket(n, ins, p->offset, end);
        end = p->offset;
    }
    if (end > 0)
        bucket(n, ins, 0, end);
    if (trained > plain)
        bucket(n, ins, plain, trained);
}

/* Ranges of running statistics that the list changes; those of frozen norms are
 * equal in all processes. */
static void statistics(struct net *n, struct insertions *ins)
{
    const int buffer = n->flat[NET_WEIGHTS];
    int64_t from = 0, to = 0;
    int last = -1;

    for (int i = 0; i <= n->n_params; i++) {
        const struct net_param *p = i < n->n_params ? &n->param[i] : NULL;
        const bool runs = p && p->role == NET_RUNNING;
        const int writer = runs ? last_writer(n, NET_LIST_TRAIN, buffer,
                                              p->offset, p->offset + p->count)
                                : -1;

        if (p && !runs)
            continue;
        if (writer >= 0) {
            from = to == from ? p->offset : from;
            to = p->offset + p->count;
            last = writer > last ? writer : last;
        } else if (to > from) {
            insert_range(n, ins, last, NET_MEAN, NET_WEIGHTS, from, to);
            from = to = 0;
            last = -1;
        }
    }
}

/* Losses and hits row by row, and how many wish to stop. */
static void metrics(struct net *n, int list, struct insertions *ins)
{
    const int64_t count = 2 * n->options.batch + 1;
    struct view v = n->loss;

    v.offset = 0;
    v.t = kern_tensor_dense(n->loss.t.dtype, 1, &count, KERN_NCHW);
    insert(n, ins, last_writer(n, list, n->metrics, 0, count), NET_SUM, &v);
}

/* ---- lists --------------------------------------------------------- */

static void into_train(struct net *n, struct insertions *ins)
{
    metrics(n, NET_LIST_TRAIN, ins);
    if (!net_syncs_norms(n))
        statistics(n, ins);
    if (n->options.accumulate == 1)
        gradients(n, ins);
    insert_join(n, ins, n->list[NET_LIST_TRAIN].steps.n - 1);
    merge(n, NET_LIST_TRAIN, ins);
}

static void into_eval(struct net *n, struct insertions *ins)
{
    metrics(n, NET_LIST_EVAL, ins);
    insert_join(n, ins, n->list[NET_LIST_EVAL].steps.n - 1);
    merge(n, NET_LIST_EVAL, ins);
}

/* Gradients that gather over several batches travel once, before the update. */
static void into_update(struct net *n, struct insertions *ins)
{
    insert_range(n, ins, -1, NET_SUM, NET_GRADS, 0, n->role_begin[NET_FROZEN]);
    insert_join(n, ins, -1);
    merge(n, NET_LIST_UPDATE, ins);
}

void net_add_exchange(struct net *n)
{
    struct insertions ins = {NULL, 0};

    if (!n->options.exchange || n->rc < 0)
        return;
    into_train(n, &ins);
    into_eval(n, &ins);
    if (n->options.update && n->options.accumulate > 1)
        into_update(n, &ins);
    for (int i = 0; i < ins.n; i++)
        free(ins.item[i].op);
    free(ins.item);
}

int net_transfer(struct net *n, const struct plan_step *op,
                 struct infer_error *err)
{
    struct exchange *x = n->options.exchange;
    const struct kern_tensor *t = &op->in[0].t;

    if (op->transfer == NET_JOIN)
        return x->ops->join(x, err);
    return x->ops->reduce(x, net_at(n, &op->in[0]), kern_tensor_count(t),
                          t->dtype, op->transfer == NET_MEAN, err);
}

/* ---- the start of a run -------------------------------------------- */

/* Process 0's step to all, by way of the metrics' memory. */
static int share_step(struct net *n, int64_t *step, struct infer_error *err)
{
    const struct device *d = n->options.device;
    struct exchange *x = n->options.exchange;
    void *at = net_at(n, &n->loss);
    int rc = d->ops->copy_in(d, at, step, sizeof(*step), err);

    if (rc == 0)
        rc = x->ops->share(x, at, sizeof(*step), err);
    return rc < 0 ? rc : d->ops->copy_out(d, step, at, sizeof(*step), err);
}

int net_share(struct net *n, int64_t *step, struct infer_error *err)
{
    static const enum net_memory shared[] = {NET_WEIGHTS, NET_M, NET_V,
                                             NET_AVERAGE};
    struct exchange *x = n->options.exchange;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof shared / sizeof shared[0]; i++)
        if (n->flat[shared[i]] >= 0)
            rc = x->ops->share(x, n->base[shared[i]],
                               net_flat_bytes(n, shared[i]), err);
    if (rc == 0)
        rc = x->ops->share(x, net_at(n, &n->state),
                           KERN_STEP_SIZE * sizeof(float), err);
    if (rc == 0)
        rc = share_step(n, step, err);
    return rc < 0 ? rc : net_refresh_half(n, err);
}
