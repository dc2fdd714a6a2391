/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up a run: the graph, the network, its first weights, its length. */
#include "tools/train/train.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/file_write.h"
#include "kernels/base/text.h"
#include "tools/multiplier_source.h"
#include "tools/train/network.h"
#include "weights/arch.h"

/* A new graph with that many classes (0: the default). */
static int open_graph(const struct train_request *q, int classes,
                      struct infer_error *err, struct graph **out)
{
    return q->arch || q->init_from
               ? train_open_network(q->arch, classes, q->init_from, err, out)
               : train_resumed_network(q->resume, err, out);
}

/* ---- the network --------------------------------------------------- */

/* The multiplier of a direction as options name it; *way: what it gives. */
static const char *multiplier_of(const struct train_request *q,
                                 enum net_stage s, enum net_gradient *way)
{
    *way = NET_BY_PRODUCTS;
    if (q->multiplier_of[s])
        return q->multiplier_of[s];
    if (s == NET_FPROP || q->gradient == NET_BY_PRODUCTS)
        return q->multiplier;
    if (q->gradient == NET_BY_EXACT_PRODUCTS)
        return NULL;
    *way = (enum net_gradient)q->gradient;
    return multiplier_of(q, NET_FPROP, &(enum net_gradient){NET_BY_PRODUCTS});
}

/* Opens the multiplier of each direction. */
static int open_multipliers(struct train_run *r, struct infer_error *err)
{
    static const enum net_stage stages[] = {NET_FPROP, NET_DGRAD, NET_WGRAD};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof stages / sizeof stages[0]; i++) {
        const enum net_stage s = stages[i];
        const char *text = multiplier_of(r->request, s, &r->gradient[s]);

        if (!text || strcmp(text, "exact") == 0)
            continue;
        rc = tool_open_multiplier(text, err, &r->multiplier[s]);
        if (rc == 0)
            rc = multiplier_check_float(r->multiplier[s], err);
    }
    return rc;
}

static void fill_options(const struct train_run *r, struct net_options *o)
{
    const struct train_request *q = r->request;
    const enum kern_update_kind kind = q->update.kind;
    const bool half = o->dtype == INFER_F16 || o->dtype == INFER_BF16;

    o->device = &r->device;
    o->exchange = r->exchange;
    o->allow_tf32 = q->precision == INFER_PRECISION_TF32;
    o->update = true;
    o->decay_all = q->decay_all;
    o->sync_norm = q->sync_norm;
    o->memory = (uint64_t)q->memory;
    o->offload = !r->device.ops->host_memory;
    o->freeze = q->freeze;
    o->bn_momentum = (float)q->bn_momentum;
    o->smoothing = (float)q->smoothing;
    o->rule = q->update;
    o->momentum = kind == KERN_UPDATE_ADAM || kind == KERN_UPDATE_ADAMW ||
                  q->update.beta1 > 0;
    o->second = kind != KERN_UPDATE_SGD;
    o->average = q->average;
    /* One step of a few pictures must not end what a healthy network learns. */
    o->step.clip = q->overfit && !(q->clip > 0) ? 1 : (float)q->clip;
    o->step.beta1 = q->update.beta1;
    o->step.beta2 = q->update.beta2;
    o->step.growth = q->loss_scale > 0 || !half ? 1 : 2;
    o->step.backoff = q->loss_scale > 0 || !half ? 1 : 0.5f;
    o->step.max_scale = 65536;
    o->step.interval = 2000;
    for (int s = 0; s < NET_STAGES; s++) {
        o->multiplier[s] = r->multiplier[s];
        o->gradient[s] = r->gradient[s];
    }
    o->multiplier_exact = q->multiplier_exact;
}

int train_make_net(struct train_run *r, enum infer_dtype dtype, int64_t batch,
                   bool check, struct infer_error *err, struct net **out)
{
    const struct train_request *q = r->request;
    struct net_options o = {.dtype = dtype, .batch = batch};
    struct graph *g;
    int rc = open_graph(q, r->train.classes, err, &g);

    if (rc < 0)
        return rc;
    fill_options(r, &o);
    o.accumulate = check ? 1 : q->accumulate;
    o.backend = check ? INFER_BACKEND_REF : q->backend;
    o.deterministic = check || q->deterministic;
    o.tuner = check ? NULL : r->tuner;
    o.keep = check;
    if (check) {
        o.exchange = NULL;
        o.update = o.average = false;
        o.momentum = o.second = false;
    }
    rc = check ? 0 : train_describe(r, g, err);
    if (rc < 0) {
        graph_free(g);
        return rc;
    }
    rc = net_new(g, &o, err, out);
    if (rc == INFER_EMEMORY && q->memory > 0 && !check)
        error_prefix(err, "--memory=%lld", (long long)q->memory);
    else if (rc == INFER_EMEMORY)
        error_prefix(err, "--batch=%lld", (long long)q->batch);
    tuner_finish(r->tuner);
    if (rc < 0)
        return rc;
    rc = train_check_classes(r, *out, err);
    if (rc < 0) {
        net_free(*out);
        *out = NULL;
    }
    return rc;
}

/* Reports parameters that start anew: intended for a classifier of other
 * classes, a mistake for a misspelt name. */
static int report_taken(const struct train_run *r,
                        const struct init_report *report,
                        struct infer_error *err)
{
    if (report->left > 0 && r->request->evaluate)
        return error_set(err, INFER_EFORMAT,
                         "%d of the network's parameters are not in it (%s): "
                         "there is nothing to evaluate",
                         report->left, report->first);
    if (report->left > 0 && r->cli->verbosity >= 0)
        cli_error(r->cli, "%s: %d parameters taken, %d start anew (%s)",
                  r->request->init_from, report->taken, report->left,
                  report->first);
    return 0;
}

int train_first_weights(struct train_run *r, struct net *n,
                        struct infer_error *err)
{
    const struct train_request *q = r->request;
    struct init_report report;
    struct graph *g;
    int rc = init_random(n, q->init, r->cli->seed, err);

    if (rc < 0 || !q->init_from || !q->arch)
        return rc;
    rc = train_read_network(q->init_from, q->arch, err, &g);
    if (rc < 0)
        return rc;
    rc = init_from_graph(n, g, err, &report);
    graph_free(g);
    if (rc == 0)
        rc = report_taken(r, &report, err);
    if (rc < 0)
        error_prefix(err, "%s", q->init_from);
    return rc;
}

static int64_t processes_of(const struct train_run *r)
{
    return r->exchange ? r->exchange->size : 1;
}

int64_t train_part(const struct train_run *r)
{
    const int64_t part = r->request->batch / processes_of(r);
    const int64_t most = r->train.count / processes_of(r);

    return most > 0 && most < part ? most : part;
}

int64_t train_batch(const struct train_run *r)
{
    return train_part(r) * processes_of(r);
}

/* Each process needs a picture. */
static int check_count(const struct train_run *r, struct infer_error *err)
{
    if (processes_of(r) == 1 || r->train.count >= processes_of(r))
        return 0;
    return error_set(
        err, INFER_EARGUMENT, "%s: %lld pictures are fewer than the %lld GPUs",
        r->train.path, (long long)r->train.count, (long long)processes_of(r));
}

/* Loader threads: one if the CPU trains; with a GPU half of the cores, shared
 * with the other processes of this host. */
static int loader_threads(const struct train_run *r)
{
    const int others = r->group ? r->group->local_size : 1;

    return r->device.kern.kind == KERN_CPU ? 1
                                           : device_cpu_cores() / 2 / others;
}

static int open_loaders(struct train_run *r, struct infer_error *err)
{
    const struct train_request *q = r->request;
    const struct exchange *x = r->exchange;
    struct loader_options o = {.set = &r->train,
                               .batch = train_part(r),
                               .rank = x ? x->rank : 0,
                               .ranks = x ? x->size : 1,
                               .seed = r->cli->seed,
                               .shuffle = !q->no_shuffle,
                               .augment = q->augment,
                               .preprocess = r->preprocess,
                               .device = &r->device,
                               .threads = loader_threads(r)};
    int rc = loader_new(&o, err, &r->loader);

    if (rc < 0 || r->val.count == 0)
        return rc;
    o.set = &r->val;
    o.whole = true;
    o.shuffle = false;
    memset(&o.augment, 0, sizeof(o.augment));
    return loader_new(&o, err, &r->val_loader);
}

/* ---- positions ----------------------------------------------------- */

int64_t train_steps_of(const struct train_run *r, struct train_span span)
{
    return (int64_t)(span.epochs ? span.value * (double)r->steps_per_epoch + 0.5
                                 : span.value);
}

static void set_policy(struct train_run *r)
{
    const struct train_request *q = r->request;

    r->policy = q->policy;
    if (q->policy_gamma)
        r->policy.gamma = q->gamma;
    if (q->policy_power)
        r->policy.power = q->power;
    r->policy.final = q->final_rate;
    r->policy.total = r->total_steps;
    r->policy.warmup = train_steps_of(r, q->warmup);
    r->policy.marks = q->marks;
    for (int i = 0; i < q->marks; i++)
        r->policy.mark[i] = train_steps_of(r, q->mark[i]);
}

static int set_length(struct train_run *r, struct infer_error *err)
{
    const struct train_request *q = r->request;

    r->steps_per_epoch = loader_batches(r->loader) / q->accumulate;
    if (r->steps_per_epoch < 1)
        r->steps_per_epoch = 1;
    r->total_steps =
        q->steps > 0 ? q->steps
                     : (int64_t)(q->epochs * (double)r->steps_per_epoch + 0.5);
    if (r->total_steps < 1)
        r->total_steps = 1;
    if (r->total_steps > TRAIN_MAX_STEPS)
        return error_set(err, INFER_EARGUMENT,
                         "%g epochs are %lld steps; a run can have %d",
                         q->epochs, (long long)r->total_steps, TRAIN_MAX_STEPS);
    set_policy(r);
    if (r->policy.warmup >= r->total_steps && r->cli->verbosity >= 0 &&
        train_is_run(q))
        cli_error(r->cli,
                  "the warm-up of %lld steps is as long as the run, which "
                  "ends at step %lld",
                  (long long)r->policy.warmup, (long long)r->total_steps);
    return 0;
}

/* ---- resuming ------------------------------------------------------ */

static int differs(struct infer_error *err, const char *what, int64_t was,
                   int64_t is)
{
    if (was == is)
        return 0;
    return error_add(err, INFER_EARGUMENT,
                     "the run was begun with %s %lld, now it is %lld: a "
                     "resumed run must be the same",
                     what, (long long)was, (long long)is);
}

static int check_resumed(const struct checkpoint_info *info, void *user,
                         struct infer_error *err)
{
    const struct train_run *r = user;
    const struct train_request *q = r->request;
    int rc = 0;

    error_clear(err);
    /* A built-in name identifies the network; files may have moved. */
    if (q->arch && arch_find(info->arch) && arch_find(q->arch) &&
        strcmp(info->arch, q->arch) != 0)
        rc = error_add(err, INFER_EARGUMENT, "the run was begun with --arch=%s",
                       info->arch);
    if (strcmp(info->rule, q->rule) != 0)
        rc = error_add(err, INFER_EARGUMENT,
                       "the run was begun with --optimizer=%s", info->rule);
    if (info->seed != r->cli->seed)
        rc = error_add(err, INFER_EARGUMENT,
                       "the run was begun with --seed=%llu",
                       (unsigned long long)info->seed);
    rc |= differs(err, "batch", info->batch, q->batch);
    rc |= differs(err, "accumulation", info->accumulate, q->accumulate);
    rc |= differs(err, "training pictures", info->pictures, r->train.count);
    return rc ? INFER_EARGUMENT : 0;
}

static int resume(struct train_run *r, struct infer_error *err)
{
    struct checkpoint_info info;
    const char *path = r->request->resume;
    int rc = checkpoint_read(path, r->net, check_resumed, r, err, &info);

    if (rc < 0)
        return rc;
    cli_verbose(r->cli, "%s: going on behind step %lld of %lld", path,
                (long long)info.step, (long long)r->total_steps);
    r->step = r->last_saved = info.step;
    r->saved_in = path;
    r->best_accuracy = info.best;
    if (!r->request->arch)
        memcpy(r->arch, info.arch, sizeof(r->arch));
    return log_resume(&r->log, info.step, err);
}

/* Sets the initial loss scale: that of --loss-scale, else one for the type. */
static int set_loss_scale(struct train_run *r, struct infer_error *err)
{
    float state[KERN_STEP_SIZE] = {0};

    if (r->request->loss_scale > 0)
        state[KERN_STEP_LOSS_SCALE] = (float)r->request->loss_scale;
    else /* bf16 has the range of single precision */
        state[KERN_STEP_LOSS_SCALE] =
            r->net->options.dtype == INFER_F16 ? 65536 : 1;
    return net_write_state(r->net, state, err);
}

static enum infer_dtype dtype_of(enum infer_precision precision)
{
    return precision == INFER_PRECISION_FP16   ? INFER_F16
           : precision == INFER_PRECISION_BF16 ? INFER_BF16
                                               : INFER_F32;
}

/* Opens the device of this process and its exchange with the others. */
static int open_place(struct train_run *r, struct infer_error *err)
{
    const struct train_request *q = r->request;
    struct group *g = r->group;
    char name[32];
    int rc;

    if (!g || g->size == 1)
        return device_open(q->device, q->threads, NULL, err, &r->device);
    if (!text_begins(q->device, "cuda"))
        return error_set(err, INFER_EARGUMENT,
                         "%d processes train on GPUs only: --device=cuda",
                         g->size);
    if (q->batch % g->size)
        return error_set(err, INFER_EARGUMENT,
                         "a batch of %lld cannot be shared equally by %d GPUs",
                         (long long)q->batch, g->size);
    rc = exchange_check(g, err);
    if (rc < 0)
        return rc;
    snprintf(name, sizeof(name), "cuda:%d", g->local);
    rc = device_open(name, q->threads, NULL, err, &r->device);
    return rc < 0 ? rc : exchange_open(g, &r->device, err, &r->exchange);
}

static int open_device(struct train_run *r, struct infer_error *err)
{
    const int rc = open_place(r, err);

    return rc < 0 ? rc
                  : device_check_backend(&r->device, r->request->backend, err);
}

/* Checks that the output files can be written, before the run. */
static int try_output(const char *path, struct infer_error *err)
{
    struct file_writer w;
    const int rc = path ? file_writer_open(path, err, &w) : 0;

    if (path && rc == 0)
        file_writer_abort(&w);
    return rc;
}

static int try_outputs(const struct train_run *r, struct infer_error *err)
{
    const struct train_request *q = r->request;
    const char *const file[] = {q->out, q->best, q->labels, q->log, q->plot};
    int rc = 0;

    if (!train_is_run(q) || !train_leads(r))
        return 0;
    for (size_t i = 0; rc == 0 && i < sizeof(file) / sizeof(file[0]); i++)
        rc = try_output(file[i], err);
    return rc;
}

int train_open(struct train_run *r, struct infer_error *err)
{
    const struct train_request *q = r->request;
    struct graph *g;
    int rc = open_device(r, err);

    r->last_saved = -1;
    text_escape(r->arch, sizeof(r->arch), q->arch ? q->arch : "");
    log_init(&r->log, q->log, q->plot);
    r->log.title = q->arch ? r->arch : q->init_from ? q->init_from : q->resume;
    if (rc == 0)
        rc = try_outputs(r, err);
    if (rc == 0)
        rc = open_multipliers(r, err);
    if (rc == 0)
        rc = open_graph(q, 0, err, &g);
    if (rc < 0)
        return rc;
    rc = train_open_pictures(r, g, err);
    graph_free(g);
    if (rc < 0 || q->grad_check)
        return rc;
    rc = check_count(r, err);
    if (rc == 0)
        rc = train_choose(r, dtype_of(q->precision), train_part(r), err);
    if (rc == 0 && train_is_run(q) && (q->out || q->best))
        rc = checkpoint_check(r->net, err);
    if (rc == 0)
        rc = open_loaders(r, err);
    if (rc < 0)
        return rc;
    rc = set_length(r, err);
    if (rc == 0)
        rc = set_loss_scale(r, err);
    if (rc == 0 && train_leads(r))
        rc = q->resume ? resume(r, err) : train_first_weights(r, r->net, err);
    if (rc == 0 && r->exchange)
        rc = net_share(r->net, &r->step, err);
    return rc;
}

void train_close(struct train_run *r)
{
    loader_free(r->loader);
    loader_free(r->val_loader);
    net_free(r->net);
    cJSON_free(r->kernels);
    cJSON_free(r->graph);
    for (int s = 0; s < NET_STAGES; s++)
        multiplier_free(r->multiplier[s]);
    tuner_close(r->tuner);
    exchange_close(r->exchange);
    data_close(&r->train);
    data_close(&r->val);
    log_clear(&r->log);
    device_close(&r->device);
}
