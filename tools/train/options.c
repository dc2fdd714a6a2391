/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `train`: one table, one handler. */
#include "tools/train/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/arch.h"

enum {
    OPT_ARCH,
    OPT_DATA,
    OPT_VAL,
    OPT_OUTPUT,
    OPT_BEST,
    OPT_WRITE_LABELS,
    OPT_RESUME,
    OPT_INIT_FROM,
    OPT_INIT,
    OPT_FREEZE,
    OPT_OPTIMIZER,
    OPT_LR,
    OPT_MOMENTUM,
    OPT_BETA2,
    OPT_EPSILON,
    OPT_WEIGHT_DECAY,
    OPT_DECAY_ALL,
    OPT_POLICY,
    OPT_GAMMA,
    OPT_POWER,
    OPT_LR_STEP,
    OPT_LR_FINAL,
    OPT_WARMUP,
    OPT_EPOCHS,
    OPT_STEPS,
    OPT_BATCH,
    OPT_ACCUM,
    OPT_CLIP,
    OPT_SMOOTHING,
    OPT_EMA,
    OPT_BN_MOMENTUM,
    OPT_SYNC_BN,
    OPT_LOSS_SCALE,
    OPT_AUGMENT,
    OPT_NO_SHUFFLE,
    OPT_SNAPSHOT,
    OPT_LOG,
    OPT_PLOT,
    OPT_DEVICE,
    OPT_GPUS,
    OPT_BACKEND,
    OPT_PRECISION,
    OPT_DETERMINISTIC,
    OPT_TUNE,
    OPT_TUNE_CACHE,
    OPT_THREADS,
    OPT_GRAD_CHECK,
    OPT_OVERFIT,
    OPT_TIME_LAYERS,
    OPT_EVALUATE,
    OPT_LIST_ARCHS
};

const struct cli_option train_options[] = {
    {"arch", 0, CLI_VALUE, "FILE|NAME",
     "the network: an architecture file or a built-in name", OPT_ARCH},
    {"data", 0, CLI_VALUE, "DIR",
     "pictures: idx files, CIFAR-10 batches, or folders by class", OPT_DATA},
    {"val", 0, CLI_VALUE, "DIR",
     "pictures to validate on (those for tests in --data)", OPT_VAL},
    {"output", 'o', CLI_VALUE, "FILE", "the checkpoint to write", OPT_OUTPUT},
    {"best", 0, CLI_VALUE, "FILE",
     "a checkpoint of the best validation so far as well", OPT_BEST},
    {"write-labels", 0, CLI_VALUE, "FILE",
     "names of folders by class, one a line, for wconv --labels",
     OPT_WRITE_LABELS},
    {"resume", 0, CLI_OPTIONAL, "FILE", "go on from a checkpoint (that of -o)",
     OPT_RESUME},
    {"init-from", 0, CLI_VALUE, "FILE",
     "start from weights in any format that wconv reads", OPT_INIT_FROM},
    {"init", 0, CLI_VALUE, "SCHEME", "auto, pytorch, kaiming or xavier",
     OPT_INIT},
    {"freeze", 0, CLI_VALUE, "RE", "parameters to leave as they are",
     OPT_FREEZE},
    {"optimizer", 0, CLI_VALUE, "RULE",
     "sgd, momentum, nesterov, rmsprop, adam or adamw (momentum)",
     OPT_OPTIMIZER},
    {"lr", 0, CLI_VALUE, "X", "learning rate (0.05; 0.001 for adaptive rules)",
     OPT_LR},
    {"momentum", 0, CLI_VALUE, "X", "momentum, or Adam's beta 1 (0.9)",
     OPT_MOMENTUM},
    {"beta2", 0, CLI_VALUE, "X",
     "Adam's beta 2 (0.999), RMSprop's alpha (0.99)", OPT_BETA2},
    {"epsilon", 0, CLI_VALUE, "X", "of adaptive rules (1e-8)", OPT_EPSILON},
    {"weight-decay", 0, CLI_VALUE, "X", "of weights (0)", OPT_WEIGHT_DECAY},
    {"decay-all", 0, CLI_FLAG, NULL, "of biases and batch norm as well",
     OPT_DECAY_ALL},
    {"lr-policy", 0, CLI_VALUE, "POLICY",
     "fixed, step, exp, inv, poly, cosine or onecycle (fixed)", OPT_POLICY},
    {"lr-step", 0, CLI_VALUE, "N[e],...",
     "step: period, or where the rate falls (e: epochs)", OPT_LR_STEP},
    {"gamma", 0, CLI_VALUE, "X", "of step (0.1), exp (0.9999) and inv (0.0001)",
     OPT_GAMMA},
    {"power", 0, CLI_VALUE, "X", "of inv (0.75) and poly (1)", OPT_POWER},
    {"lr-final", 0, CLI_VALUE, "X", "cosine: the last rate (0)", OPT_LR_FINAL},
    {"warmup", 0, CLI_VALUE, "N[e]", "steps of linear warm-up (0)", OPT_WARMUP},
    {"epochs", 0, CLI_VALUE, "X", "times through the data (10)", OPT_EPOCHS},
    {"steps", 0, CLI_VALUE, "N", "updates, instead of epochs", OPT_STEPS},
    {"batch", 'b', CLI_VALUE, "N", "pictures a batch, over all GPUs (64)",
     OPT_BATCH},
    {"accum", 0, CLI_VALUE, "N", "batches a step (1)", OPT_ACCUM},
    {"clip-grad", 0, CLI_VALUE, "X", "largest norm of all gradients", OPT_CLIP},
    {"label-smoothing", 0, CLI_VALUE, "X", "0 to 1 (0)", OPT_SMOOTHING},
    {"ema", 0, CLI_VALUE, "X",
     "keep averages of the weights with this decay, e.g. 0.999", OPT_EMA},
    {"bn-momentum", 0, CLI_VALUE, "X", "of running statistics (0.1)",
     OPT_BN_MOMENTUM},
    {"sync-bn", 0, CLI_FLAG, NULL,
     "batch norms see the batch of all GPUs, not their own GPU's part",
     OPT_SYNC_BN},
    {"loss-scale", 0, CLI_VALUE, "auto|X", "for 16-bit gradients (auto)",
     OPT_LOSS_SCALE},
    {"augment", 0, CLI_VALUE, "WORD,...",
     "flip, crop[:pad], cutout[:side], affine[:degrees:scale:shift], none",
     OPT_AUGMENT},
    {"no-shuffle", 0, CLI_FLAG, NULL, "pictures in the order of the files",
     OPT_NO_SHUFFLE},
    {"snapshot", 0, CLI_VALUE, "N[e]",
     "write the checkpoint every so many steps (1e: every epoch)",
     OPT_SNAPSHOT},
    {"log", 0, CLI_VALUE, "FILE.csv", "write the course of the run", OPT_LOG},
    {"plot", 0, CLI_VALUE, "FILE.svg", "draw loss and accuracy", OPT_PLOT},
    {"device", 'd', CLI_VALUE, "DEVICE", "cpu, cuda or cuda:N (cpu)",
     OPT_DEVICE},
    {"gpus", 0, CLI_VALUE, "N", "GPUs of this host that share every batch (1)",
     OPT_GPUS},
    {"backend", 0, CLI_VALUE, "NAME", "auto, ref, onednn, cuda or cudnn",
     OPT_BACKEND},
    {"precision", 0, CLI_VALUE, "TYPE",
     "fp32, tf32, fp16 or bf16 (masters stay fp32)", OPT_PRECISION},
    {"deterministic", 0, CLI_FLAG, NULL, "the same bits on every run",
     OPT_DETERMINISTIC},
    {"tune", 0, CLI_VALUE, "on|off|exhaustive",
     "measured kernel choice on a GPU (on)", OPT_TUNE},
    {"tune-cache", 0, CLI_VALUE, "FILE", "where measured choices are kept",
     OPT_TUNE_CACHE},
    {"threads", 0, CLI_VALUE, "N",
     "threads on a CPU (all cores, 7 of 8 of many)", OPT_THREADS},
    {"grad-check", 0, CLI_FLAG, NULL,
     "compare gradients with finite differences", OPT_GRAD_CHECK},
    {"overfit-batch", 0, CLI_FLAG, NULL, "learn one batch by heart",
     OPT_OVERFIT},
    {"time-layers", 0, CLI_FLAG, NULL, "time every layer and stage",
     OPT_TIME_LAYERS},
    {"evaluate", 0, CLI_FLAG, NULL,
     "only say how well the weights of --init-from do", OPT_EVALUATE},
    {"list-archs", 0, CLI_FLAG, NULL, "list built-in architectures",
     OPT_LIST_ARCHS},
    {NULL, 0, CLI_FLAG, NULL, NULL, 0}};

const char train_usage[] =
    "usage: train --arch=FILE|NAME --data=DIR -o OUT.safetensors [options]\n"
    "       train --resume --arch=... --data=... -o OUT.safetensors [options]\n"
    "\n"
    "Trains a classifier through the kernels that infer runs.  The checkpoint\n"
    "goes straight into wconv, with the same --arch.\n";

/* ---- values -------------------------------------------------------- */

static int number(const struct cli *cli, const char *name, const char *value,
                  double min, double max, double *out)
{
    double v;

    /* Written so that NaN fails. */
    if (!cli_double(value, &v) || !(v >= min && v <= max)) {
        cli_error(cli, "--%s takes a number from %g to %g, not '%s'", name, min,
                  max, value);
        return -1;
    }
    *out = v;
    return 0;
}

static int real(const struct cli *cli, const char *name, const char *value,
                double min, double max, float *out)
{
    double v = 0;
    const int rc = number(cli, name, value, min, max, &v);

    if (rc == 0)
        *out = (float)v;
    return rc;
}

static int whole(const struct cli *cli, const char *name, const char *value,
                 int64_t min, int64_t max, int64_t *out)
{
    if (cli_int(value, min, max, out))
        return 0;
    cli_error(cli, "--%s takes a whole number from %lld to %lld, not '%s'",
              name, (long long)min, (long long)max, value);
    return -1;
}

/* "500" steps or "2.5e" epochs, up to a comma or the end. */
static bool span(const char *text, size_t length, struct train_span *out)
{
    char number_text[32];

    if (length == 0 || length >= sizeof(number_text))
        return false;
    memcpy(number_text, text, length);
    number_text[length] = '\0';
    out->epochs = number_text[length - 1] == 'e';
    if (out->epochs)
        number_text[length - 1] = '\0';
    return cli_double(number_text, &out->value) && out->value >= 0 &&
           out->value < 1e9 && (out->epochs || out->value == floor(out->value));
}

static int one_span(const struct cli *cli, const char *name, const char *value,
                    struct train_span *out)
{
    if (span(value, strlen(value), out))
        return 0;
    return cli_bad_value(cli, name, value, "steps (500) or epochs (2e)");
}

static int set_marks(const struct cli *cli, struct train_request *q,
                     const char *value)
{
    const char *at = value;

    q->marks = 0;
    for (;;) {
        const size_t length = strcspn(at, ",");

        if (q->marks == POLICY_MAX_MARKS ||
            !span(at, length, &q->mark[q->marks]) ||
            !(q->mark[q->marks].value > 0))
            return cli_bad_value(cli, "lr-step", value,
                                 "up to 16 steps or epochs, e.g. 30e,60e");
        q->marks++;
        if (at[length] == '\0')
            return 0;
        at += length + 1;
    }
}

static int set_rule(const struct cli *cli, struct train_request *q,
                    const char *value)
{
    static const char *const words[] = {
        "sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw", NULL};
    static const enum kern_update_kind kinds[] = {
        KERN_UPDATE_SGD,     KERN_UPDATE_SGD,  KERN_UPDATE_SGD,
        KERN_UPDATE_RMSPROP, KERN_UPDATE_ADAM, KERN_UPDATE_ADAMW};
    const int which = cli_word(value, words);

    if (which < 0)
        return cli_bad_value(cli, "optimizer", value,
                             "sgd, momentum, nesterov, rmsprop, adam or adamw");
    q->rule = words[which];
    q->update.kind = kinds[which];
    q->update.nesterov = which == 2;
    return 0;
}

static int set_augment(const struct cli *cli, struct train_request *q,
                       const char *value)
{
    const char *bad;

    if (augment_parse(value, &q->augment, &bad))
        return 0;
    return cli_bad_value(
        cli, "augment", bad,
        "flip, crop[:pad], cutout[:side], "
        "affine[:degrees:scale:shift] or none, sides up to 999, "
        "degrees to 360, scale and shift to 1");
}

static int set_loss_scale(const struct cli *cli, struct train_request *q,
                          const char *value)
{
    if (strcmp(value, "auto") == 0) {
        q->loss_scale = 0;
        return 0;
    }
    return number(cli, "loss-scale", value, 1, 16777216, &q->loss_scale);
}

static void list_archs(void)
{
    for (size_t i = 0; i < arch_count(); i++)
        printf("%-22s %s\n", arch_at(i)->name, arch_at(i)->description);
}

/* ---- groups of options --------------------------------------------- */

/* Each returns 1 where the option is none of its group. */

static int file_option(struct train_request *q, int id, const char *value)
{
    switch (id) {
    case OPT_ARCH:
        q->arch = value;
        return 0;
    case OPT_DATA:
        q->data = value;
        return 0;
    case OPT_VAL:
        q->val = value;
        return 0;
    case OPT_OUTPUT:
        q->out = value;
        return 0;
    case OPT_BEST:
        q->best = value;
        return 0;
    case OPT_WRITE_LABELS:
        q->labels = value;
        return 0;
    case OPT_RESUME:
        q->resume = value;
        q->resume_out = value == NULL;
        return 0;
    case OPT_INIT_FROM:
        q->init_from = value;
        return 0;
    case OPT_FREEZE:
        q->freeze = value;
        return 0;
    case OPT_LOG:
        q->log = value;
        return 0;
    case OPT_PLOT:
        q->plot = value;
        return 0;
    case OPT_DEVICE:
        q->device = value;
        q->device_set = true;
        return 0;
    case OPT_TUNE_CACHE:
        q->tune_cache = value;
        return 0;
    default:
        return 1;
    }
}

static int flag_option(struct train_request *q, int id)
{
    switch (id) {
    case OPT_SYNC_BN:
        q->sync_norm = true;
        return 0;
    case OPT_DECAY_ALL:
        q->decay_all = true;
        return 0;
    case OPT_NO_SHUFFLE:
        q->no_shuffle = true;
        return 0;
    case OPT_DETERMINISTIC:
        q->deterministic = true;
        return 0;
    case OPT_GRAD_CHECK:
        q->grad_check = true;
        return 0;
    case OPT_OVERFIT:
        q->overfit = true;
        return 0;
    case OPT_TIME_LAYERS:
        q->time_layers = true;
        return 0;
    case OPT_EVALUATE:
        q->evaluate = true;
        return 0;
    default:
        return 1;
    }
}

static int rate_option(const struct cli *cli, struct train_request *q, int id,
                       const char *value)
{
    int which = 0, rc;

    switch (id) {
    case OPT_LR:
        return number(cli, "lr", value, 0, 1e6, &q->policy.rate);
    case OPT_POLICY:
        rc = cli_option_word(cli, "lr-policy", value, policy_names,
                             "fixed, step, exp, inv, poly, cosine or onecycle",
                             &which);
        q->policy.kind = (enum policy_kind)which;
        return rc;
    case OPT_GAMMA:
        q->policy_gamma = true;
        return number(cli, "gamma", value, 0, 1e6, &q->gamma);
    case OPT_POWER:
        q->policy_power = true;
        return number(cli, "power", value, 0, 100, &q->power);
    case OPT_LR_FINAL:
        q->policy_final = true;
        return number(cli, "lr-final", value, 0, 1e6, &q->final_rate);
    case OPT_LR_STEP:
        return set_marks(cli, q, value);
    case OPT_WARMUP:
        return one_span(cli, "warmup", value, &q->warmup);
    case OPT_SNAPSHOT:
        return one_span(cli, "snapshot", value, &q->snapshot);
    default:
        return 1;
    }
}

static int rule_option(const struct cli *cli, struct train_request *q, int id,
                       const char *value)
{
    switch (id) {
    case OPT_OPTIMIZER:
        return set_rule(cli, q, value);
    case OPT_MOMENTUM:
        q->beta1_set = true;
        return real(cli, "momentum", value, 0, 0.99999, &q->update.beta1);
    case OPT_BETA2:
        return real(cli, "beta2", value, 0, 0.9999999, &q->update.beta2);
    case OPT_EPSILON:
        q->epsilon_set = true;
        return real(cli, "epsilon", value, 0, 1, &q->update.epsilon);
    case OPT_WEIGHT_DECAY:
        return real(cli, "weight-decay", value, 0, 1, &q->update.decay);
    case OPT_EMA:
        q->average = true;
        return real(cli, "ema", value, 0, 0.9999999, &q->update.average_decay);
    case OPT_CLIP:
        return number(cli, "clip-grad", value, 0, 1e9, &q->clip);
    case OPT_SMOOTHING:
        return number(cli, "label-smoothing", value, 0, 1, &q->smoothing);
    case OPT_BN_MOMENTUM:
        return number(cli, "bn-momentum", value, 0, 1, &q->bn_momentum);
    case OPT_LOSS_SCALE:
        return set_loss_scale(cli, q, value);
    default:
        return 1;
    }
}

static int size_option(const struct cli *cli, struct train_request *q, int id,
                       const char *value)
{
    int64_t n = 0;
    int rc;

    switch (id) {
    case OPT_EPOCHS:
        return number(cli, "epochs", value, 1e-6, 1e6, &q->epochs);
    case OPT_STEPS:
        return whole(cli, "steps", value, 1, TRAIN_MAX_STEPS, &q->steps);
    case OPT_BATCH:
        return whole(cli, "batch", value, 1, 1 << 20, &q->batch);
    case OPT_ACCUM:
        rc = whole(cli, "accum", value, 1, 1 << 20, &n);
        q->accumulate = (int)n;
        return rc;
    case OPT_GPUS:
        rc = whole(cli, "gpus", value, 1, GROUP_MAX, &n);
        q->gpus = (int)n;
        return rc;
    case OPT_THREADS:
        rc = whole(cli, "threads", value, 1, 1024, &n);
        q->threads = (int)n;
        return rc;
    default:
        return 1;
    }
}

static int word_option(const struct cli *cli, struct train_request *q, int id,
                       const char *value)
{
    static const char *const tunes[] = {"off", "on", "exhaustive", NULL};
    int which = 0, rc;

    switch (id) {
    case OPT_INIT:
        rc = cli_option_word(cli, "init", value, init_names,
                             "auto, pytorch, kaiming or xavier", &which);
        q->init = (enum init_scheme)which;
        return rc;
    case OPT_BACKEND:
        rc = cli_option_word(cli, "backend", value, device_backend_names,
                             "auto, ref, onednn, cuda or cudnn", &which);
        q->backend = (enum infer_backend)which;
        return rc;
    case OPT_PRECISION:
        rc = cli_option_word(cli, "precision", value, device_precision_names,
                             "fp32, tf32, fp16 or bf16", &which);
        q->precision = (enum infer_precision)which;
        return rc;
    case OPT_TUNE:
        return cli_option_word(cli, "tune", value, tunes,
                               "on, off or exhaustive", &q->tune);
    case OPT_AUGMENT:
        return set_augment(cli, q, value);
    default:
        return 1;
    }
}

int train_option(struct cli *cli, int id, const char *value, void *user)
{
    struct train_request *q = user;
    int rc;

    if (id == OPT_LIST_ARCHS) {
        list_archs();
        return 1;
    }
    rc = file_option(q, id, value);
    if (rc > 0)
        rc = flag_option(q, id);
    if (rc > 0)
        rc = rate_option(cli, q, id, value);
    if (rc > 0)
        rc = rule_option(cli, q, id, value);
    if (rc > 0)
        rc = size_option(cli, q, id, value);
    if (rc > 0)
        rc = word_option(cli, q, id, value);
    return rc;
}
