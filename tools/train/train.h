/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the command line `train`. */
#ifndef TOOLS_TRAIN_TRAIN_H
#define TOOLS_TRAIN_TRAIN_H

#include "tools/cli.h"
#include "tools/train/checkpoint.h"
#include "tools/train/data/augment.h"
#include "tools/train/data/loader.h"
#include "tools/train/init.h"
#include "tools/train/log.h"
#include "tools/train/net/net.h"
#include "tools/train/policy.h"

/* A number of steps, or of epochs. */
struct train_span {
    double value;
    bool epochs;
};

/* Steps are counted in single precision on the device. */
#define TRAIN_MAX_STEPS 16000000

/* The request of the command line. */
struct train_request {
    const char *arch, *data, *val, *init_from, *freeze;
    int64_t max_pixels; /* of a picture file; 0: the library's default */
    const char *out, *best, *labels, *log, *plot; /* files to write */
    const char *study;  /* file of a study; NULL: one run */
    const char *resume; /* file; NULL: a fresh run */
    bool resume_given;  /* --resume; without a file: from -o */
    const char *device;
    bool device_set;
    int gpus; /* of this host, one process each; 0: not given */
    int threads;
    enum infer_backend backend;
    enum infer_precision precision;
    bool deterministic;
    int tune; /* enum tune_mode; -1: not given */
    const char *tune_cache;
    int64_t memory; /* of the network on its device; 0: no limit */
    int64_t batch;  /* over all GPUs */
    int accumulate;
    double epochs;    /* 0: not given */
    int64_t steps;    /* 0: by epochs */
    const char *rule; /* word of --optimizer */
    struct kern_update update;
    bool beta1_set, epsilon_set;
    bool average, decay_all, sync_norm;
    struct policy policy;
    bool policy_gamma, policy_power, policy_final;
    double gamma, power, final_rate;
    struct train_span warmup, mark[POLICY_MAX_MARKS], snapshot;
    int marks;
    double clip, smoothing, bn_momentum;
    /* Files or names: of all directions, and of each. */
    const char *multiplier, *multiplier_of[NET_STAGES];
    const char *multiplier_exact; /* layers; NULL: none */
    int gradient;                 /* enum net_gradient */
    double loss_scale;            /* 0: automatic */
    struct augment augment;
    bool no_shuffle;
    enum init_scheme init;
    bool grad_check, overfit, time_layers, evaluate;
};

/* False for checks and measurements, which write nothing. */
static inline bool train_is_run(const struct train_request *q)
{
    return !q->grad_check && !q->overfit && !q->time_layers && !q->evaluate;
}

struct train_run {
    struct cli *cli;
    const struct train_request *request;
    struct group *group;       /* NULL: one process */
    struct exchange *exchange; /* NULL: one process */
    struct device device;
    struct multiplier *multiplier[NET_STAGES]; /* NULL: exact products */
    enum net_gradient gradient[NET_STAGES];
    struct tuner *tuner;
    char *kernels;  /* its choices as JSON, for checkpoints; NULL: none */
    char *graph;    /* the network as JSON, for checkpoints */
    char arch[256]; /* name of the network, for checkpoints */
    struct data_set train, val; /* val.count 0: none */
    struct graph_preprocess preprocess;
    struct net *net;
    struct loader *loader, *val_loader;
    struct log log;
    struct policy policy;
    int64_t steps_per_epoch, total_steps, step;
    int64_t last_saved;   /* step of the newest checkpoint; -1: none */
    const char *saved_in; /* its file */
    bool stop;            /* a signal asked all processes to end */
    double best_accuracy, val_loss, val_accuracy;
};

/* pictures.c: opens training and validation pictures of the input's size. */
int train_open_pictures(struct train_run *r, const struct graph *g,
                        struct infer_error *err);
/* Checks that the network has as many scores as the pictures have classes. */
int train_check_classes(const struct train_run *r, const struct net *n,
                        struct infer_error *err);

/* setup.c: data, graph, network, first weights. */
int train_open(struct train_run *r, struct infer_error *err);
void train_close(struct train_run *r);
/* Pictures of a batch for this process: no more than there are, since blank
 * ones would count in the mean of the loss and in the statistics of batch
 * norms. */
int64_t train_part(const struct train_run *r);
/* Pictures of a batch of all processes. */
int64_t train_batch(const struct train_run *r);
/* In steps, rounded. */
int64_t train_steps_of(const struct train_run *r, struct train_span span);
/* A network on the run's data; dtype F64 for gradient checks. */
int train_make_net(struct train_run *r, enum infer_dtype dtype, int64_t batch,
                   bool check, struct infer_error *err, struct net **out);
/* First weights: random ones, then those of a file. */
int train_first_weights(struct train_run *r, struct net *n,
                        struct infer_error *err);

/* describe.c: sets r->graph from the graph of the run, as it is before
 * net_new() takes it, with the names of the classes where the pictures have
 * names. */
int train_describe(struct train_run *r, const struct graph *g,
                   struct infer_error *err);

/* choice.c: the run's network with the kernels that --tune chooses. */
int train_choose(struct train_run *r, enum infer_dtype dtype, int64_t batch,
                 struct infer_error *err);

/* run.c */
int train_run(struct train_run *r, struct infer_error *err);
int train_evaluate(struct train_run *r, struct infer_error *err);
/* True for the process that writes files and reports: the only one or the
 * first. */
bool train_leads(const struct train_run *r);
/* One step on the loader's next batches, or on `again`. */
int train_step(struct train_run *r, const struct loader_batch *again,
               struct infer_error *err, struct net_metrics *out,
               int64_t *pictures);

/* check.c: --grad-check, --overfit-batch, --evaluate. */
int train_grad_check(struct train_run *r, struct infer_error *err);
int train_overfit(struct train_run *r, struct infer_error *err);
int train_judge(struct train_run *r, struct infer_error *err);

/* times.c: --time-layers */
int train_time_layers(struct train_run *r, struct infer_error *err);

/* gradient.c: compares gradients with finite differences in double precision;
 * `each` elements of every parameter. */
struct gradient_check {
    int checked;
    double worst; /* relative error */
    char where[160];
};
int gradient_check(struct net *n, const void *x, const int32_t *label, int each,
                   uint64_t seed, struct infer_error *err,
                   struct gradient_check *out);

#endif
