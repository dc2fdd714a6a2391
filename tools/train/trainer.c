/* SPDX-License-Identifier: Apache-2.0 */
/* infer_train.h: the network in training behind a stable interface. */
#include "include/infer_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "libinfer/options.h"
#include "tools/train/checkpoint.h"
#include "tools/train/init.h"
#include "tools/train/network.h"

/* Words of checkpoints, as --optimizer has them. */
static const char *const rules[] = {"momentum", "nesterov", "rmsprop", "adam",
                                    "adamw"};

struct infer_trainer {
    struct device device;
    struct net *net;
    struct graph *graph; /* as it is described in checkpoints */
    struct checkpoint_info info;
    double rate;
    int64_t dim[4];
    size_t picture;  /* floats of one */
    float *given;    /* a batch of the callback's: N,C,H,W */
    float *batch;    /* the same with channels last */
    int32_t *label;  /* of the callback's */
    int32_t *filled; /* the labels of a batch; -1 where there is no picture */
};

/* ---- options ------------------------------------------------------- */

static const struct infer_train_options defaults = {
    .size = sizeof defaults,
    .batch = 64,
    .momentum = -1,
    .beta2 = -1,
    .epsilon = 1e-8,
};

void infer_train_options_init_sized(struct infer_train_options *options,
                                    size_t size)
{
    options_init(options, size, &defaults, sizeof defaults);
}

/* A number that an optimiser can use; NaN is none. */
static int in_range(const char *name, double value, double least, double most,
                    struct infer_error *err)
{
    return value >= least && value <= most
               ? 0
               : error_set(err, INFER_EARGUMENT,
                           "options: %s is %g; it must be %g to %g", name,
                           value, least, most);
}

static int check_numbers(const struct infer_train_options *o,
                         struct infer_error *err)
{
    int rc = in_range("rate", o->rate, 0, 1e6, err);

    if (rc == 0)
        rc = in_range("momentum", o->momentum, 0, 1, err);
    if (rc == 0)
        rc = in_range("beta2", o->beta2, 0, 1, err);
    if (rc == 0)
        rc = in_range("epsilon", o->epsilon, 0, 1, err);
    if (rc == 0)
        rc = in_range("weight_decay", o->weight_decay, 0, 1e6, err);
    if (rc == 0)
        rc = in_range("clip", o->clip, 0, 1e30, err);
    if (rc == 0)
        rc = in_range("smoothing", o->smoothing, 0, 1, err);
    if (rc == 0)
        rc = in_range("batch", (double)o->batch, 1, 1 << 24, err);
    if (rc == 0)
        rc = in_range("precision", (double)o->precision, INFER_PRECISION_FP32,
                      INFER_PRECISION_BF16, err);
    return rc < 0 ? rc : in_range("classes", o->classes, 0, 1 << 24, err);
}

/* The options with every default in place. */
static int read_options(const struct infer_train_options *given,
                        struct infer_error *err,
                        struct infer_train_options *out)
{
    int rc;

    *out = defaults;
    rc = given ? options_copy(given, "infer_train_options_init", sizeof *out,
                              err, out)
               : 0;
    if (rc < 0)
        return rc;
    if ((unsigned)out->optimizer >= INFER_OPTIMIZER_COUNT)
        return error_set(err, INFER_EARGUMENT, "options: optimizer %d is none",
                         (int)out->optimizer);
    const bool sgd = out->optimizer <= INFER_OPTIMIZER_NESTEROV;
    const bool rms = out->optimizer == INFER_OPTIMIZER_RMSPROP;
    if (out->momentum == -1)
        out->momentum = rms ? 0 : 0.9;
    if (out->beta2 == -1)
        out->beta2 = rms ? 0.99 : 0.999;
    if (out->rate == 0)
        out->rate = sgd ? 0.05 : 0.001;
    return check_numbers(out, err);
}

static enum infer_dtype dtype_of(enum infer_precision precision)
{
    return precision == INFER_PRECISION_FP16   ? INFER_F16
           : precision == INFER_PRECISION_BF16 ? INFER_BF16
                                               : INFER_F32;
}

static struct kern_update rule_of(const struct infer_train_options *o)
{
    static const enum kern_update_kind kind[] = {
        KERN_UPDATE_SGD, KERN_UPDATE_SGD, KERN_UPDATE_RMSPROP, KERN_UPDATE_ADAM,
        KERN_UPDATE_ADAMW};

    return (struct kern_update){
        .kind = kind[o->optimizer],
        .nesterov = o->optimizer == INFER_OPTIMIZER_NESTEROV,
        .beta1 = (float)o->momentum,
        .beta2 = (float)o->beta2,
        .epsilon = (float)o->epsilon,
        .decay = (float)o->weight_decay,
    };
}

static struct net_options net_options_of(const struct infer_trainer *t,
                                         const struct infer_train_options *o)
{
    const struct kern_update rule = rule_of(o);
    const bool half = dtype_of(o->precision) != INFER_F32;
    struct net_options n = {
        .device = &t->device,
        .dtype = dtype_of(o->precision),
        .deterministic = o->deterministic != 0,
        .allow_tf32 = o->precision == INFER_PRECISION_TF32,
        .batch = o->batch,
        .accumulate = 1,
        .update = true,
        .bn_momentum = 0.1f,
        .smoothing = (float)o->smoothing,
        .rule = rule,
        .momentum = o->optimizer >= INFER_OPTIMIZER_ADAM || rule.beta1 > 0,
        .second = o->optimizer >= INFER_OPTIMIZER_RMSPROP,
        .memory = o->memory,
        .offload = !t->device.ops->host_memory,
    };

    n.step = (struct kern_step){.clip = (float)o->clip,
                                .beta1 = rule.beta1,
                                .beta2 = rule.beta2,
                                .growth = half ? 2 : 1,
                                .backoff = half ? 0.5f : 1,
                                .max_scale = 65536,
                                .interval = 2000};
    return n;
}

/* ---- making -------------------------------------------------------- */

/* Random weights, then those of the file. */
static int first_weights(struct infer_trainer *t, const char *arch,
                         const struct infer_train_options *o,
                         struct infer_error *err)
{
    struct init_report report;
    struct graph *from = NULL;
    int rc = init_random(t->net, INIT_AUTO, o->seed, err);

    if (rc < 0 || !o->weights || !arch)
        return rc;
    rc = train_read_network(o->weights, arch, err, &from);
    if (rc == 0 && (rc = init_from_graph(t->net, from, err, &report)) < 0)
        error_prefix(err, "%s", o->weights);
    graph_free(from);
    return rc;
}

static int make_batch(struct infer_trainer *t, struct infer_error *err)
{
    const struct kern_tensor *in = &t->net->input.t;
    const size_t batch = (size_t)in->dim[0];

    memcpy(t->dim, in->dim, sizeof t->dim);
    t->picture = (size_t)(kern_tensor_count(in) / in->dim[0]);
    t->given = calloc(batch * t->picture, sizeof *t->given);
    t->batch = calloc(batch * t->picture, sizeof *t->batch);
    t->label = calloc(batch, sizeof *t->label);
    t->filled = calloc(batch, sizeof *t->filled);
    return t->given && t->batch && t->label && t->filled
               ? 0
               : error_set(err, INFER_EMEMORY, "out of memory");
}

static int make(struct infer_trainer *t, const char *arch,
                const struct infer_train_options *o, struct infer_error *err)
{
    float state[KERN_STEP_SIZE] = {0};
    struct net_options options;
    struct graph *g = NULL;
    int rc = device_open(o->device, o->threads, NULL, err, &t->device);

    if (rc == 0)
        rc = train_open_network(arch, o->classes, o->weights, err, &g);
    if (rc == 0 && !(t->graph = graph_copy(g))) {
        graph_free(g);
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    if (rc < 0)
        return rc;
    options = net_options_of(t, o);
    rc = net_new(g, &options, err, &t->net);
    if (rc == 0)
        rc = make_batch(t, err);
    if (rc < 0)
        return rc;
    /* bf16 has the range of single precision. */
    state[KERN_STEP_LOSS_SCALE] = options.dtype == INFER_F16 ? 65536 : 1;
    rc = net_write_state(t->net, state, err);
    return rc < 0 ? rc : first_weights(t, arch, o, err);
}

int infer_trainer_create(const char *arch,
                         const struct infer_train_options *options,
                         struct infer_error *err, struct infer_trainer **out)
{
    struct infer_train_options o;
    struct infer_trainer *t;
    int rc = out ? read_options(options, err, &o)
                 : error_set(err, INFER_EARGUMENT, "out is NULL");

    if (rc == 0 && !arch && !o.weights)
        rc = error_set(err, INFER_EARGUMENT,
                       "neither an architecture nor options.weights: there is "
                       "no network");
    if (rc < 0)
        return rc;
    t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, INFER_EMEMORY, "out of memory");
    t->rate = o.rate;
    t->info = (struct checkpoint_info){
        .seed = o.seed, .batch = o.batch, .accumulate = 1};
    text_escape(t->info.arch, sizeof t->info.arch, arch ? arch : "");
    memcpy(t->info.rule, rules[o.optimizer], strlen(rules[o.optimizer]) + 1);
    rc = make(t, arch, &o, err);
    if (rc < 0)
        infer_trainer_close(&t);
    else
        *out = t;
    return rc;
}

void infer_trainer_close(struct infer_trainer **trainer)
{
    struct infer_trainer *t = trainer ? *trainer : NULL;

    if (!t)
        return;
    net_free(t->net);
    graph_free(t->graph);
    device_close(&t->device);
    free(t->given);
    free(t->batch);
    free(t->label);
    free(t->filled);
    free(t);
    *trainer = NULL;
}

/* ---- facts --------------------------------------------------------- */

void infer_trainer_shape(const struct infer_trainer *trainer, int64_t dim[4],
                         int *classes)
{
    memcpy(dim, trainer->dim, sizeof trainer->dim);
    *classes = (int)trainer->net->classes;
}

int64_t infer_trainer_steps(const struct infer_trainer *trainer)
{
    return trainer->info.step;
}

int infer_trainer_set_rate(struct infer_trainer *trainer, double rate,
                           struct infer_error *err)
{
    const int rc = in_range("rate", rate, 0, 1e6, err);

    if (rc == 0)
        trainer->rate = rate;
    return rc;
}

int infer_trainer_set_labels(struct infer_trainer *trainer,
                             const char *const *label, int count,
                             struct infer_error *err)
{
    if (count != trainer->net->classes)
        return error_set(err, INFER_EARGUMENT,
                         "%d names of classes; the network has %lld classes",
                         count, (long long)trainer->net->classes);
    for (int i = 0; i < count; i++)
        if (!text_is_utf8(label[i], strlen(label[i])))
            return error_set(err, INFER_EARGUMENT,
                             "the name of class %d is not UTF-8", i);
    return train_set_labels(trainer->graph, label, count, err);
}

/* ---- steps --------------------------------------------------------- */

/* Copies a batch to channels last and fills it up. */
static int take(struct infer_trainer *t, const float *pictures,
                const int32_t *label, int64_t count, struct infer_error *err)
{
    const int64_t batch = t->dim[0], c = t->dim[1];
    const int64_t hw = (int64_t)t->picture / c;

    if (count < 1 || count > batch)
        return error_set(err, INFER_EARGUMENT,
                         "%lld pictures; a batch takes 1 to %lld",
                         (long long)count, (long long)batch);
    for (int64_t i = 0; i < count; i++)
        if (label[i] < 0 || label[i] >= t->net->classes)
            return error_set(err, INFER_EARGUMENT,
                             "label %d of picture %lld; the network has "
                             "classes 0 to %lld",
                             (int)label[i], (long long)i,
                             (long long)t->net->classes - 1);
    for (int64_t i = 0; i < batch; i++)
        t->filled[i] = i < count ? label[i] : -1;
    memset(t->batch, 0, (size_t)batch * t->picture * sizeof *t->batch);
    for (int64_t i = 0; i < count; i++) {
        const float *from = pictures + (size_t)i * t->picture;
        float *to = t->batch + (size_t)i * t->picture;

        for (int64_t k = 0; k < c; k++)
            for (int64_t p = 0; p < hw; p++)
                to[p * c + k] = from[k * hw + p];
    }
    return 0;
}

static int launch(struct infer_trainer *t, bool train, struct infer_error *err,
                  struct net_metrics *m)
{
    int rc = net_put_batch(t->net, t->batch, t->filled, err);

    if (rc == 0 && train)
        rc = net_put_control(t->net, (float)t->rate, t->info.seed,
                             (uint64_t)t->info.step, err);
    if (rc == 0)
        rc = train ? net_step(t->net, err) : net_eval(t->net, err);
    return rc < 0 ? rc : net_read_metrics(t->net, err, m);
}

/* One batch, added to *sum, whose loss is a sum too. */
static int run_batch(struct infer_trainer *t, const float *pictures,
                     const int32_t *label, int64_t count, bool train,
                     struct infer_error *err, struct infer_train_result *sum)
{
    struct net_metrics m = {0};
    int rc = take(t, pictures, label, count, err);

    if (rc == 0)
        rc = net_begin(t->net, err);
    if (rc == 0)
        rc = launch(t, train, err, &m);
    if (rc == 0)
        rc = net_end(t->net, err);
    if (rc < 0)
        return rc;
    t->info.step += train;
    sum->steps++;
    sum->pictures += count;
    sum->right += m.hit;
    sum->loss += m.loss;
    return isfinite(m.loss)
               ? 0
               : error_set(err, INFER_EMISMATCH,
                           "step %lld: the loss is not finite (learning rate "
                           "%g); a lower rate or options.clip may help",
                           (long long)t->info.step, t->rate);
}

static void deliver(const struct infer_train_result *sum,
                    struct infer_train_result *out)
{
    if (!out)
        return;
    *out = *sum;
    if (sum->pictures > 0)
        out->loss /= (double)sum->pictures;
}

int infer_trainer_step(struct infer_trainer *trainer, const float *pictures,
                       const int32_t *label, int64_t count,
                       struct infer_error *err, struct infer_train_result *out)
{
    struct infer_train_result sum = {0};
    const int rc = run_batch(trainer, pictures, label, count, true, err, &sum);

    if (rc == 0)
        deliver(&sum, out);
    return rc;
}

static int run(struct infer_trainer *t, int64_t steps, infer_train_data *data,
               void *user, bool train, struct infer_error *err,
               struct infer_train_result *out)
{
    struct infer_train_result sum = {0};
    int rc = steps < 0 ? error_set(err, INFER_EARGUMENT, "%lld steps",
                                   (long long)steps)
                       : 0;

    while (rc == 0 && (steps == 0 || sum.steps < steps)) {
        const int64_t count = data(user, t->given, t->label, t->dim[0]);

        if (count == 0)
            break;
        if (count < 0)
            rc = error_set(
                err, count < INFER_EMISMATCH ? INFER_EARGUMENT : (int)count,
                "the caller's data ended with %lld", (long long)count);
        else
            rc = run_batch(t, t->given, t->label, count, train, err, &sum);
    }
    if (rc == 0)
        deliver(&sum, out);
    return rc;
}

int infer_trainer_run(struct infer_trainer *trainer, int64_t steps,
                      infer_train_data *data, void *user,
                      struct infer_error *err, struct infer_train_result *out)
{
    return run(trainer, steps, data, user, true, err, out);
}

int infer_trainer_evaluate(struct infer_trainer *trainer,
                           infer_train_data *data, void *user,
                           struct infer_error *err,
                           struct infer_train_result *out)
{
    return run(trainer, 0, data, user, false, err, out);
}

/* ---- checkpoints --------------------------------------------------- */

int infer_trainer_save(struct infer_trainer *trainer, const char *path,
                       struct infer_error *err)
{
    struct checkpoint_info info = trainer->info;
    char *text = NULL;
    int rc = train_graph_text(trainer->graph, err, &text);

    info.graph = text;
    if (rc == 0)
        rc = checkpoint_write(path, trainer->net, &info, err);
    train_text_free(text);
    return rc;
}

static int judge(const struct checkpoint_info *found, void *user,
                 struct infer_error *err)
{
    const struct checkpoint_info *info = user;

    if (strcmp(found->rule, info->rule) != 0)
        return error_set(err, INFER_EARGUMENT,
                         "the run was begun with the optimizer %s, not %s",
                         found->rule, info->rule);
    if (found->batch != info->batch || found->accumulate != 1)
        return error_set(err, INFER_EARGUMENT,
                         "the run was begun with batches of %lld x %lld, not "
                         "%lld",
                         (long long)found->batch, (long long)found->accumulate,
                         (long long)info->batch);
    if (found->seed != info->seed)
        return error_set(err, INFER_EARGUMENT,
                         "the run was begun with the seed %llu, not %llu",
                         (unsigned long long)found->seed,
                         (unsigned long long)info->seed);
    return 0;
}

int infer_trainer_load(struct infer_trainer *trainer, const char *path,
                       struct infer_error *err)
{
    struct checkpoint_info found;
    const int rc =
        checkpoint_read(path, trainer->net, judge, &trainer->info, err, &found);

    if (rc == 0)
        trainer->info.step = found.step;
    return rc;
}
