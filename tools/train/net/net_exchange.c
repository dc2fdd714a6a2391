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
#include <string.h>

#include "kernels/base/error.h"

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

static int insert(struct insertions *ins, int after, enum net_transfer kind,
                  struct view array, struct infer_error *err)
{
    struct plan_step *op = calloc(1, sizeof(*op));
    void *more = realloc(ins->item, ((size_t)ins->n + 1) * sizeof(*ins->item));

    if (more)
        ins->item = more;
    if (!op || !more) {
        free(op);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    op->node = -1;
    op->stage = NET_EXCHANGE;
    op->transfer = kind;
    op->in[0] = array;
    ins->item[ins->n].op = op;
    ins->item[ins->n++].after = after;
    return 0;
}

/* Elements from .. to-1 of a flat array. */
static int insert_range(struct net *n, struct insertions *ins, int after,
                        enum net_transfer kind, enum net_memory memory,
                        int64_t from, int64_t to, struct infer_error *err)
{
    const int64_t count = to - from;
    struct view v;

    memset(&v, 0, sizeof(v));
    v.buffer = n->flat[memory];
    v.offset = from;
    v.t = kern_tensor_dense(INFER_F32, 1, &count, KERN_NCHW);
    return insert(ins, after, kind, v, err);
}

/* Insertions after the same step keep their order. Steps of the list keep
 * theirs, so that buffers' lifetimes stay valid. */
static int merge(struct net_list *list, struct insertions *ins,
                 struct infer_error *err)
{
    const int total = list->steps.n + ins->n;
    struct plan_step **op = malloc(((size_t)total + 1) * sizeof(*op));
    int at = 0;

    if (!op)
        return error_set(err, INFER_EMEMORY, "out of memory");
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
    return 0;
}

static void insertions_clear(struct insertions *ins)
{
    for (int i = 0; i < ins->n; i++)
        free(ins->item[i].op);
    free(ins->item);
}

/* ---- what is exchanged --------------------------------------------- */

static int bucket(struct net *n, struct insertions *ins, int64_t from,
                  int64_t to, struct infer_error *err)
{
    const int after =
        last_writer(n, NET_LIST_TRAIN, n->flat[NET_GRADS], from, to);

    return insert_range(n, ins, after, NET_SUM, NET_GRADS, from, to, err);
}

/* From the end of the array to its beginning.  Biases and factors, a small part
 * of any network, go in one piece. */
static int gradients(struct net *n, struct insertions *ins,
                     struct infer_error *err)
{
    const int64_t least = BUCKET_BYTES / (int64_t)sizeof(float);
    const int64_t plain = n->role_begin[NET_PLAIN];
    const int64_t trained = n->role_begin[NET_FROZEN];
    int64_t end = plain;
    int rc = 0;

    if (trained <= least)
        return bucket(n, ins, 0, trained, err);
    for (int i = n->n_params - 1; rc == 0 && i >= 0; i--) {
        const struct net_param *p = &n->param[i];

        if (p->role != NET_DECAY || end - p->offset < least)
            continue;
        rc = bucket(n, ins, p->offset, end, err);
        end = p->offset;
    }
    if (rc == 0 && end > 0)
        rc = bucket(n, ins, 0, end, err);
    if (rc == 0 && trained > plain)
        rc = bucket(n, ins, plain, trained, err);
    return rc;
}

/* Ranges of running statistics that the list changes; those of frozen norms are
 * equal in all processes. */
static int statistics(struct net *n, struct insertions *ins,
                      struct infer_error *err)
{
    const int buffer = n->flat[NET_WEIGHTS];
    int64_t from = 0, to = 0;
    int last = -1, rc = 0;

    for (int i = 0; rc == 0 && i <= n->n_params; i++) {
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
            rc = insert_range(n, ins, last, NET_MEAN, NET_WEIGHTS, from, to,
                              err);
            from = to = 0;
            last = -1;
        }
    }
    return rc;
}

/* Losses and hits row by row, and how many wish to stop. */
static int metrics(struct net *n, int list, struct insertions *ins,
                   struct infer_error *err)
{
    const int64_t count = 2 * n->options.batch + 1;
    struct view v = n->loss;

    v.offset = 0;
    v.t = kern_tensor_dense(n->loss.t.dtype, 1, &count, KERN_NCHW);
    return insert(ins, last_writer(n, list, n->metrics, 0, count), NET_SUM, v,
                  err);
}

static int join(struct net *n, int list, struct insertions *ins,
                struct infer_error *err)
{
    const struct view none = {.buffer = 0};

    return insert(ins, n->list[list].steps.n - 1, NET_JOIN, none, err);
}

/* ---- lists --------------------------------------------------------- */

static int into_train(struct net *n, struct insertions *ins,
                      struct infer_error *err)
{
    int rc = metrics(n, NET_LIST_TRAIN, ins, err);

    if (rc == 0 && !net_syncs_norms(n))
        rc = statistics(n, ins, err);
    if (rc == 0 && n->options.accumulate == 1)
        rc = gradients(n, ins, err);
    if (rc == 0)
        rc = join(n, NET_LIST_TRAIN, ins, err);
    return rc < 0 ? rc : merge(&n->list[NET_LIST_TRAIN], ins, err);
}

static int into_eval(struct net *n, struct insertions *ins,
                     struct infer_error *err)
{
    int rc = metrics(n, NET_LIST_EVAL, ins, err);

    if (rc == 0)
        rc = join(n, NET_LIST_EVAL, ins, err);
    return rc < 0 ? rc : merge(&n->list[NET_LIST_EVAL], ins, err);
}

/* Gradients that gather over several batches travel once, before the update. */
static int into_update(struct net *n, struct insertions *ins,
                       struct infer_error *err)
{
    const struct view none = {.buffer = 0};
    int rc = insert_range(n, ins, -1, NET_SUM, NET_GRADS, 0,
                          n->role_begin[NET_FROZEN], err);

    if (rc == 0)
        rc = insert(ins, -1, NET_JOIN, none, err);
    return rc < 0 ? rc : merge(&n->list[NET_LIST_UPDATE], ins, err);
}

int net_add_exchange(struct net *n, struct infer_error *err)
{
    struct insertions ins = {NULL, 0};
    int rc;

    if (!n->options.exchange)
        return 0;
    rc = into_train(n, &ins, err);
    if (rc == 0)
        rc = into_eval(n, &ins, err);
    if (rc == 0 && n->options.update && n->options.accumulate > 1)
        rc = into_update(n, &ins, err);
    insertions_clear(&ins);
    return rc;
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
