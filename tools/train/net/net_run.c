/* SPDX-License-Identifier: Apache-2.0 */
/* Running the lists, and what goes in and out of a network. */
#include "tools/train/net/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

static const char *node_name(const struct net *n, const struct plan_step *op)
{
    if (op->node < 0 || !n->g->node[op->node].name)
        return net_stage_names[op->stage];
    return n->g->node[op->node].name;
}

/* Copies an activation to the host's memory or back, beside the steps that
 * follow; without a second stream at once. */
static int move(struct net *n, const struct plan_step *op,
                struct infer_error *err)
{
    const struct device *d = n->options.device;
    const size_t bytes = kern_tensor_span(&op->in[0].t);
    const bool out = op->transfer == NET_OUT;
    void *here = net_at(n, &op->in[0]), *there = n->host + op->host_at;
    void *stream;

    if (!d->ops->copy_beside)
        return out ? d->ops->copy_out(d, there, here, bytes, err)
                   : d->ops->copy_in(d, here, there, bytes, err);
    const int rc = d->ops->branch(d, err, &stream);
    return rc < 0 ? rc
                  : d->ops->copy_beside(d, out ? there : here,
                                        out ? here : there, bytes, stream, err);
}

/* A step that launches no kernel. */
static int transfer(struct net *n, const struct plan_step *op,
                    struct infer_error *err)
{
    const struct device *d = n->options.device;

    switch ((enum net_transfer)op->transfer) {
    case NET_OUT:
    case NET_IN:
        return move(n, op, err);
    case NET_AWAIT:
        return d->ops->rejoin ? d->ops->rejoin(d, err) : 0;
    case NET_NO_TRANSFER:
    case NET_SUM:
    case NET_MEAN:
    case NET_JOIN:
        break;
    }
    return net_transfer(n, op, err);
}

/* Whether the next step waits for the same copies too, one step for each
 * buffer. */
static bool waits_twice(const struct net_list *l, int i)
{
    return l->steps.at[i]->transfer == NET_AWAIT && i + 1 < l->steps.n &&
           l->steps.at[i + 1]->transfer == NET_AWAIT;
}

static int launch(struct net *n, const struct plan_step *op,
                  struct infer_error *err)
{
    const struct kern_exec *e = &op->exec;
    int rc = 0;

    if (op->transfer != NET_NO_TRANSFER)
        return transfer(n, op, err);
    for (int i = 0; rc == 0 && i < e->problem.n_in; i++)
        if (op->repacked[i])
            rc = e->row->fn->pack(e, i, net_at(n, &op->in[i]), op->repacked[i],
                                  err);
    if (rc == 0)
        rc = device_launch(n->options.device, e, &op->args, err);
    if (rc < 0)
        error_prefix(err, "node '%s' (%s)", node_name(n, op), e->row->name);
    return rc;
}

/* Launches a step on the side stream. */
static int launch_side(struct net *n, const struct plan_step *op,
                       struct infer_error *err)
{
    const struct device *d = n->options.device;
    struct plan_step copy = *op;
    int rc = d->ops->branch(d, err, &copy.args.stream);

    copy.args.workspace = n->side_workspace;
    return rc < 0 ? rc : launch(n, &copy, err);
}

/* The side stream is joined before gradients go to other processes (what a node
 * exchanges for itself is not computed there) and at the end: a recording
 * cannot end with an open branch. */
static int launch_all(struct net *n, const struct net_list *l,
                      struct infer_error *err)
{
    const struct device *d = n->options.device;
    bool forked = false;
    int rc = 0;

    for (int i = 0; rc == 0 && i < l->steps.n; i++) {
        const struct plan_step *op = l->steps.at[i];

        if (waits_twice(l, i))
            continue;
        if (forked && op->transfer != NET_NO_TRANSFER && op->node < 0) {
            rc = d->ops->rejoin(d, err);
            forked = false;
        }
        if (rc == 0)
            rc = op->side ? launch_side(n, op, err) : launch(n, op, err);
        forked = forked || op->side;
    }
    if (forked) {
        const int joined = d->ops->rejoin(d, rc == 0 ? err : NULL);

        rc = rc == 0 ? joined : rc;
    }
    return rc;
}

/* ---- recording ----------------------------------------------------- */

/* Libraries may still allocate in the first launches. */
#define RUNS_BEFORE_RECORDING 2

/* Launches lists one after another. */
static int launch_lists(struct net *n, const enum net_list_name *which,
                        int count, struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < count; i++)
        rc = launch_all(n, &n->list[which[i]], err);
    return rc;
}

static int record(struct net *n, const enum net_list_name *which, int count,
                  struct infer_error *err, struct device_graph **out)
{
    const struct device *d = n->options.device;
    const int rc = d->ops->record_begin(d, err);

    return rc < 0 ? rc
                  : device_record_end(d, launch_lists(n, which, count, err),
                                      err, out);
}

/* Runs the lists; from the third time on as one recorded graph on a device that
 * records. */
static int run_recorded(struct net *n, const enum net_list_name *which,
                        int count, uint64_t *runs,
                        struct device_graph **recorded, struct infer_error *err)
{
    const struct device *d = n->options.device;
    int rc = 0;

    if (d->ops->record_begin && !*recorded &&
        (*runs)++ >= RUNS_BEFORE_RECORDING)
        rc = record(n, which, count, err, recorded);
    if (rc < 0)
        return rc;
    return *recorded ? d->ops->replay(d, *recorded, err)
                     : launch_lists(n, which, count, err);
}

static int run(struct net *n, enum net_list_name which, struct infer_error *err)
{
    struct net_list *l = &n->list[which];

    return l->steps.n == 0
               ? 0
               : run_recorded(n, &which, 1, &l->runs, &l->recorded, err);
}

/* ---- steps --------------------------------------------------------- */

int net_begin(struct net *n, struct infer_error *err)
{
    return n->options.device->ops->begin(n->options.device, err);
}

int net_end(struct net *n, struct infer_error *err)
{
    return n->options.device->ops->end(n->options.device, err);
}

static int put(struct net *n, const struct view *to, const void *from,
               struct infer_error *err)
{
    const struct device *d = n->options.device;

    return d->ops->copy_in(
        d, net_at(n, to), from,
        (size_t)kern_tensor_count(&to->t) * infer_dtype_size(to->t.dtype), err);
}

int net_put_batch(struct net *n, const void *x, const int32_t *label,
                  struct infer_error *err)
{
    const int rc = put(n, &n->input, x, err);

    return rc < 0 ? rc : put(n, &n->label, label, err);
}

int net_put_readable(struct net *n, const void *x, const int32_t *label,
                     struct infer_error *err)
{
    const struct device *d = n->options.device;
    const struct kern_tensor *t = &n->input.t;
    const int rc = d->ops->copy_in_later(
        d, net_at(n, &n->input), x,
        (size_t)kern_tensor_count(t) * infer_dtype_size(t->dtype), err);

    return rc < 0 ? rc : put(n, &n->label, label, err);
}

int net_put_control(struct net *n, float rate, uint64_t seed, uint64_t place,
                    struct infer_error *err)
{
    const struct device *d = n->options.device;
    unsigned char bytes[2 * sizeof(uint64_t) + sizeof(float)];

    memcpy(bytes, &seed, sizeof(seed));
    memcpy(bytes + 8, &place, sizeof(place));
    memcpy(bytes + 16, &rate, sizeof(rate));
    return d->ops->copy_in(d, net_at(n, &n->random), bytes, sizeof(bytes), err);
}

int net_put_stop(struct net *n, bool stop, struct infer_error *err)
{
    const float value = stop;

    return n->options.exchange ? put(n, &n->stop, &value, err) : 0;
}

int net_train(struct net *n, bool first, struct infer_error *err)
{
    int rc = first ? run(n, NET_LIST_CLEAR, err) : 0;

    return rc < 0 ? rc : run(n, NET_LIST_TRAIN, err);
}

int net_first_use(const struct net *n, int param)
{
    const struct view w = net_param_view(n, param, NET_WEIGHTS);
    const struct net_list *l = &n->list[NET_LIST_TRAIN];

    for (int i = 0; i < l->steps.n; i++)
        for (int k = 0; k < l->steps.at[i]->exec.problem.n_in; k++) {
            const struct view *v = &l->steps.at[i]->in[k];

            if (v->t.dtype != INFER_NONE && v->buffer == w.buffer &&
                v->offset == w.offset)
                return i;
        }
    return 0;
}

int net_train_loss(struct net *n, int from, struct infer_error *err)
{
    const struct net_list *l = &n->list[NET_LIST_TRAIN];
    int rc = 0;

    for (int i = from;
         rc == 0 && i < l->steps.n && l->steps.at[i]->stage <= NET_LOSS; i++)
        rc = launch(n, l->steps.at[i], err);
    return rc;
}

int net_update(struct net *n, struct infer_error *err)
{
    return run(n, NET_LIST_UPDATE, err);
}

int net_step(struct net *n, struct infer_error *err)
{
    static const enum net_list_name whole[] = {NET_LIST_CLEAR, NET_LIST_TRAIN,
                                               NET_LIST_UPDATE};

    return run_recorded(n, whole, 3, &n->step_runs, &n->step, err);
}

int net_eval(struct net *n, struct infer_error *err)
{
    return run(n, NET_LIST_EVAL, err);
}

/* ---- results ------------------------------------------------------- */

int net_read_metrics(struct net *n, struct infer_error *err,
                     struct net_metrics *out)
{
    const struct device *d = n->options.device;
    const int64_t batch = n->options.batch;
    const size_t bytes =
        (2 * (size_t)batch + 1) * infer_dtype_size(n->loss.t.dtype);
    int rc =
        d->ops->copy_out(d, n->host_metrics, net_at(n, &n->loss), bytes, err);

    /* The copy is there when the run ends. */
    if (rc == 0)
        rc = net_end(n, err);
    if (rc == 0)
        rc = net_begin(n, err);
    if (rc < 0)
        return rc;
    out->loss = 0;
    out->hit = 0;
    for (int64_t i = 0; i < batch; i++) {
        out->loss += scalar_load(n->loss.t.dtype, n->host_metrics, i);
        /* A row counts the processes that have it right. */
        out->hit +=
            (int64_t)scalar_load(n->loss.t.dtype, n->host_metrics, batch + i);
    }
    out->stop = scalar_load(n->loss.t.dtype, n->host_metrics, 2 * batch) != 0;
    return 0;
}

int net_read_state(struct net *n, float *out, struct infer_error *err)
{
    return net_read_view(n, &n->state, out, err);
}

int net_write_state(struct net *n, const float *in, struct infer_error *err)
{
    return put(n, &n->state, in, err);
}

size_t net_flat_bytes(const struct net *n, enum net_memory memory)
{
    return n->flat[memory] < 0 ? 0 : n->buffers.at[n->flat[memory]].bytes;
}

/* Transposes a parameter between the host's order k, c, window and the device's
 * k, window, c. */
static void turn(const struct net_param *p, bool to_host, size_t size,
                 const unsigned char *from, unsigned char *to)
{
    const size_t inputs = (size_t)p->dim[1];
    const size_t window =
        (size_t)p->count / ((size_t)p->dim[0] * (size_t)p->dim[1]);

    for (size_t i = 0; i < (size_t)p->count; i++) {
        const size_t w = i % window, c = i / window % inputs;
        const size_t k = i / (window * inputs);
        const size_t there = (k * window + w) * inputs + c;

        if (to_host)
            memcpy(to + i * size, from + there * size, size);
        else
            memcpy(to + there * size, from + i * size, size);
    }
}

/* Copies a flat array in the other side's order. */
static void turn_all(const struct net *n, enum net_memory memory, bool to_host,
                     const unsigned char *from, unsigned char *to)
{
    const size_t bytes = net_flat_bytes(n, memory);

    memcpy(to, from, bytes);
    for (int i = 0; i < n->n_params; i++) {
        const struct net_param *p = &n->param[i];
        const size_t size =
            infer_dtype_size(net_param_view(n, i, memory).t.dtype);
        const size_t at = (size_t)p->offset * size;

        /* The arrays of gradients and moments end after the trained parameters.
         */
        if (p->rank > 2 && at < bytes)
            turn(p, to_host, size, from + at, to + at);
    }
}

/* A copy of a flat array in the other side's order; NULL without memory. */
static unsigned char *turned(const struct net *n, enum net_memory memory,
                             bool to_host, const void *from,
                             struct infer_error *err)
{
    unsigned char *copy = malloc(net_flat_bytes(n, memory));

    if (copy)
        turn_all(n, memory, to_host, from, copy);
    else
        error_set(err, INFER_EMEMORY, "out of memory");
    return copy;
}

int net_read_flat(struct net *n, enum net_memory memory, void *out,
                  struct infer_error *err)
{
    const struct device *d = n->options.device;
    const size_t bytes = net_flat_bytes(n, memory);
    unsigned char *copy;
    int rc = d->ops->copy_out(d, out, n->base[memory], bytes, err);

    if (rc < 0 || net_param_layout(n) == KERN_NCHW)
        return rc;
    copy = turned(n, memory, true, out, err);
    if (!copy)
        return INFER_EMEMORY;
    memcpy(out, copy, bytes);
    free(copy);
    return 0;
}

int net_write_flat(struct net *n, enum net_memory memory, const void *in,
                   struct infer_error *err)
{
    const struct device *d = n->options.device;
    unsigned char *copy = NULL;
    int rc;

    if (net_param_layout(n) != KERN_NCHW) {
        copy = turned(n, memory, false, in, err);
        if (!copy)
            return INFER_EMEMORY;
    }
    rc = d->ops->copy_in(d, n->base[memory], copy ? copy : in,
                         net_flat_bytes(n, memory), err);
    free(copy);
    if (rc == 0 && memory == NET_WEIGHTS)
        rc = net_refresh_half(n, err);
    return rc;
}

int net_refresh_half(struct net *n, struct infer_error *err)
{
    int rc = 0;

    if (n->list[NET_LIST_HALF].steps.n == 0)
        return 0;
    rc = net_begin(n, err);
    if (rc == 0)
        rc = launch_all(n, &n->list[NET_LIST_HALF], err);
    return rc < 0 ? rc : net_end(n, err);
}

int net_read_view(struct net *n, const struct view *v, void *out,
                  struct infer_error *err)
{
    const struct device *d = n->options.device;
    const size_t bytes = kern_tensor_span(&v->t);
    void *copy = malloc(bytes + 1);
    int rc;

    if (!copy)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = d->ops->copy_out(d, copy, net_at(n, v), bytes, err);
    if (rc == 0)
        view_gather(&v->t, copy, v->t.dtype, out);
    free(copy);
    return rc;
}

/* ---- time ---------------------------------------------------------- */

static int launch_step(void *user, struct plan_step *step,
                       struct infer_error *err)
{
    return launch(user, step, err);
}

int net_time(struct net *n, enum net_list_name list, struct infer_error *err)
{
    const struct device *d = n->options.device;
    const struct plan_steps *s = &n->list[list].steps;
    const int rc = d->ops->mark ? net_begin(n, err) : 0;

    return rc < 0 ? rc : plan_time(d, s->at, s->n, launch_step, n, err);
}

int net_time_steps(struct net *n, int count, double *seconds,
                   struct infer_error *err)
{
    const struct device *d = n->options.device;
    int rc = net_begin(n, err);

    /* The recording, and once more. */
    for (int i = 0; rc == 0 && i < RUNS_BEFORE_RECORDING + 2; i++)
        rc = net_step(n, err);
    if (rc == 0 && d->ops->mark)
        rc = d->ops->mark(d, 0, err);
    for (int i = 0; rc == 0 && i < count; i++) {
        const double start = tune_now();

        rc = net_step(n, err);
        seconds[i] = tune_now() - start;
        if (rc == 0 && d->ops->mark)
            rc = d->ops->mark(d, i + 1, err);
    }
    if (rc == 0)
        rc = net_end(n, err);
    for (int i = 0; rc == 0 && d->ops->mark && i < count; i++)
        rc = d->ops->elapsed(d, i + 1, err, &seconds[i]);
    return rc;
}
