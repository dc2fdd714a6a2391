/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `train`: one table. */
#include "tools/train/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/arch.h"

const char train_usage[] =
    "usage: train --arch=FILE|NAME --data=DIR -o OUT.safetensors [options]\n"
    "       train --resume --data=DIR -o OUT.safetensors [options]\n"
    "\n"
    "Trains a classifier through the kernels that infer runs.  The checkpoint\n"
    "goes straight into wconv.\n";

/* ---- values -------------------------------------------------------- */

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

static int set_span(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user)
{
    struct train_span *out = (void *)((char *)user + o->offset);

    (void)cli;
    return span(value, strlen(value), out) ? 0 : CLI_BAD;
}

static int set_marks(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user)
{
    struct train_request *q = user;

    (void)cli, (void)o;
    for (q->marks = 0;; value++) {
        const size_t length = strcspn(value, ",");

        if (q->marks == POLICY_MAX_MARKS ||
            !span(value, length, &q->mark[q->marks]) ||
            !(q->mark[q->marks].value > 0))
            return CLI_BAD;
        q->marks++;
        value += length;
        if (*value == '\0')
            return 0;
    }
}

static int set_rule(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user)
{
    static const char *const words[] = {
        "sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw", NULL};
    static const enum kern_update_kind kinds[] = {
        KERN_UPDATE_SGD,     KERN_UPDATE_SGD,  KERN_UPDATE_SGD,
        KERN_UPDATE_RMSPROP, KERN_UPDATE_ADAM, KERN_UPDATE_ADAMW};
    struct train_request *q = user;
    const int which = cli_word(value, words);

    (void)cli, (void)o;
    if (which < 0)
        return CLI_BAD;
    q->rule = words[which];
    q->update.kind = kinds[which];
    q->update.nesterov = which == 2;
    return 0;
}

static int set_augment(struct cli *cli, const struct cli_option *o,
                       const char *value, void *user)
{
    struct train_request *q = user;
    const char *bad;

    if (augment_parse(value, &q->augment, &bad))
        return 0;
    return cli_bad_value(
        cli, o->name, bad,
        "flip, crop[:pad], cutout[:side], "
        "affine[:degrees:scale:shift] or none, sides up to 999, "
        "degrees to 360, scale and shift to 1");
}

static int set_loss_scale(struct cli *cli, const struct cli_option *o,
                          const char *value, void *user)
{
    struct train_request *q = user;
    double scale = 0; /* "auto" */

    (void)cli, (void)o;
    if (strcmp(value, "auto") != 0 &&
        (!cli_double(value, &scale) || !(scale >= 1 && scale <= 16777216)))
        return CLI_BAD;
    q->loss_scale = scale;
    return 0;
}

static int list_archs(struct cli *cli, const struct cli_option *o,
                      const char *value, void *user)
{
    (void)cli, (void)o, (void)value, (void)user;
    for (size_t i = 0; i < arch_count(); i++)
        printf("%-22s %s\n", arch_at(i)->name, arch_at(i)->description);
    return 1;
}

/* ---- the options --------------------------------------------------- */

#define TO(member)    CLI_FIELD(struct train_request, member)
#define GIVEN(member) .given = offsetof(struct train_request, member)
#define TEXT_OF(max)  #max
#define WHOLE(max)    "a whole number from 1 to " TEXT_OF(max)

static const char *const precision_names[] = {"fp32", "tf32", "fp16", "bf16",
                                              NULL};
/* In the order of enum net_gradient. */
static const char *const gradient_modes[] = {"product", "exact", "slope",
                                             "derivative", NULL};

const struct cli_option train_options[] = {
    {"arch", 0, CLI_TEXT, "FILE|NAME",
     "the network: an architecture file or a built-in name", TO(arch)},
    {"data", 0, CLI_TEXT, "DIR",
     "pictures: idx files, CIFAR-10 batches, or folders by class", TO(data)},
    {"val", 0, CLI_TEXT, "DIR",
     "pictures to validate on (those for tests in --data)", TO(val)},
    {"max-pixels", 0, CLI_INT, "N", "largest picture file (67108864)",
     TO(max_pixels), .min = 1, .max = 1e15},
    {"output", 'o', CLI_TEXT, "FILE", "the checkpoint to write", TO(out)},
    {"best", 0, CLI_TEXT, "FILE",
     "a checkpoint of the best validation so far as well", TO(best)},
    {"write-labels", 0, CLI_TEXT, "FILE",
     "names of folders by class, one per line, for wconv --labels", TO(labels)},
    {"resume", 0, CLI_TEXT, "FILE", "go on from a checkpoint (that of -o)",
     TO(resume), GIVEN(resume_given), .optional = true},
    {"init-from", 0, CLI_TEXT, "FILE",
     "start from weights in any format that wconv reads", TO(init_from)},
    {"init", 0, CLI_WORD, "SCHEME", "auto, pytorch, kaiming or xavier",
     TO(init), .words = init_names},
    {"freeze", 0, CLI_TEXT, "RE", "parameters to leave as they are",
     TO(freeze)},
    {"optimizer", 0, CLI_SET, "RULE",
     "sgd, momentum, nesterov, rmsprop, adam or adamw (momentum)",
     .set = set_rule,
     .wanted = "sgd, momentum, nesterov, rmsprop, adam or adamw"},
    {"lr", 0, CLI_REAL, "X", "learning rate (0.05; 0.001 for adaptive rules)",
     TO(policy.rate), .max = 1e6},
    {"momentum", 0, CLI_REAL, "X", "momentum, or Adam's beta 1 (0.9)",
     TO(update.beta1), GIVEN(beta1_set), .max = 0.99999},
    {"beta2", 0, CLI_REAL, "X", "Adam's beta 2 (0.999), RMSprop's alpha (0.99)",
     TO(update.beta2), .max = 0.9999999},
    {"epsilon", 0, CLI_REAL, "X", "of adaptive rules (1e-8)",
     TO(update.epsilon), GIVEN(epsilon_set), .max = 1},
    {"weight-decay", 0, CLI_REAL, "X", "of weights (0)", TO(update.decay),
     .max = 1},
    {"decay-all", 0, CLI_FLAG, NULL, "of biases and batch norm as well",
     TO(decay_all)},
    {"lr-policy", 0, CLI_WORD, "POLICY",
     "fixed, step, exp, inv, poly, cosine or onecycle (fixed)", TO(policy.kind),
     .words = policy_names},
    {"lr-step", 0, CLI_SET, "N[e],...",
     "step: period, or where the rate falls (e: epochs)", .set = set_marks,
     .wanted = "up to 16 steps or epochs, e.g. 30e,60e"},
    {"gamma", 0, CLI_REAL, "X", "of step (0.1), exp (0.9999) and inv (0.0001)",
     TO(gamma), GIVEN(policy_gamma), .max = 1e6},
    {"power", 0, CLI_REAL, "X", "of inv (0.75) and poly (1)", TO(power),
     GIVEN(policy_power), .max = 100},
    {"lr-final", 0, CLI_REAL, "X", "cosine: the last rate (0)", TO(final_rate),
     GIVEN(policy_final), .max = 1e6},
    {"warmup", 0, CLI_SET, "N[e]", "steps of linear warm-up (0)", TO(warmup),
     .set = set_span, .wanted = "steps (500) or epochs (2e)"},
    {"epochs", 0, CLI_REAL, "X", "times through the data (10)", TO(epochs),
     .min = 1e-6, .max = 1e6},
    {"steps", 0, CLI_INT, "N", "updates, instead of epochs", TO(steps),
     .min = 1, .max = TRAIN_MAX_STEPS, .wanted = WHOLE(TRAIN_MAX_STEPS)},
    {"batch", 'b', CLI_INT, "N", "pictures per batch, over all GPUs (64)",
     TO(batch), .min = 1, .max = 1048576, .wanted = WHOLE(1048576)},
    {"accum", 0, CLI_INT, "N", "batches a step (1)", TO(accumulate), .min = 1,
     .max = 1048576, .wanted = WHOLE(1048576)},
    {"memory", 0, CLI_BYTES, "BYTES",
     "most memory of the network: activations are computed twice (500M, 2G)",
     TO(memory), .min = 1},
    {"clip-grad", 0, CLI_REAL, "X", "largest norm of all gradients", TO(clip),
     .max = 1e9},
    {"label-smoothing", 0, CLI_REAL, "X", "0 to 1 (0)", TO(smoothing),
     .max = 1},
    {"study", 0, CLI_TEXT, "FILE",
     "networks x multipliers x directions x seeds, into folder -o", TO(study)},
    {"multiplier", 0, CLI_TEXT, "FILE|NAME",
     "approximate multiplier of convolutions and dense layers", TO(multiplier)},
    {"multiplier-exact", 0, CLI_TEXT, "LAYER,...",
     "layers that multiply exactly; * and ? match, also first, last",
     TO(multiplier_exact)},
    {"multiplier-gradient", 0, CLI_WORD, "MODE",
     "gradients by the multiplier's products (product), straight through "
     "(exact), by their regression's slope or by their derivatives",
     TO(gradient), .words = gradient_modes},
    {"multiplier-forward", 0, CLI_TEXT, "FILE|NAME|exact",
     "that of the forward pass", TO(multiplier_of[NET_FPROP])},
    {"multiplier-dgrad", 0, CLI_TEXT, "FILE|NAME|exact",
     "that of the gradients of inputs", TO(multiplier_of[NET_DGRAD])},
    {"multiplier-wgrad", 0, CLI_TEXT, "FILE|NAME|exact",
     "that of the gradients of weights", TO(multiplier_of[NET_WGRAD])},
    {"ema", 0, CLI_REAL, "X",
     "keep averages of the weights with this decay, e.g. 0.999",
     TO(update.average_decay), GIVEN(average), .max = 0.9999999},
    {"bn-momentum", 0, CLI_REAL, "X", "of running statistics (0.1)",
     TO(bn_momentum), .max = 1},
    {"sync-bn", 0, CLI_FLAG, NULL,
     "batch norms see the batch of all GPUs, not their own GPU's part",
     TO(sync_norm)},
    {"loss-scale", 0, CLI_SET, "auto|X", "for 16-bit gradients (auto)",
     .set = set_loss_scale, .wanted = "a number from 1 to 1.67772e+07"},
    {"augment", 0, CLI_SET, "WORD,...",
     "flip, crop[:pad], cutout[:side], affine[:degrees:scale:shift], none",
     .set = set_augment},
    {"no-shuffle", 0, CLI_FLAG, NULL, "pictures in the order of the files",
     TO(no_shuffle)},
    {"snapshot", 0, CLI_SET, "N[e]",
     "write the checkpoint every so many steps (1e: every epoch)", TO(snapshot),
     .set = set_span, .wanted = "steps (500) or epochs (2e)"},
    {"log", 0, CLI_TEXT, "FILE.csv", "write the course of the run", TO(log)},
    {"plot", 0, CLI_TEXT, "FILE.svg", "draw loss and accuracy", TO(plot)},
    {"device", 'd', CLI_TEXT, "DEVICE", "cpu, cuda or cuda:N (cpu)", TO(device),
     GIVEN(device_set)},
    {"gpus", 0, CLI_INT, "N", "GPUs of this host that share every batch (1)",
     TO(gpus), .min = 1, .max = GROUP_MAX, .wanted = WHOLE(GROUP_MAX)},
    {"backend", 0, CLI_WORD, "NAME", "auto, ref, cpu, onednn, cuda or cudnn",
     TO(backend), .words = device_backend_names},
    {"precision", 0, CLI_WORD, "TYPE",
     "fp32, tf32, fp16 or bf16 (masters stay fp32)", TO(precision),
     .words = precision_names, .wanted = "fp32, tf32, fp16 or bf16"},
    {"deterministic", 0, CLI_FLAG, NULL, "the same bits on every run",
     TO(deterministic)},
    {"tune", 0, CLI_WORD, "on|off|exhaustive",
     "measured kernel choice on a GPU (on)", TO(tune), .words = cli_tune_words,
     .wanted = "on, off or exhaustive"},
    {"tune-cache", 0, CLI_TEXT, "FILE", "where measured choices are kept",
     TO(tune_cache), .empty = true},
    {"threads", 0, CLI_INT, "N", "threads on a CPU (all cores, 7 of 8 of many)",
     TO(threads), .min = 1, .max = 1024, .wanted = WHOLE(1024)},
    {"grad-check", 0, CLI_FLAG, NULL,
     "compare gradients with finite differences", TO(grad_check)},
    {"overfit-batch", 0, CLI_FLAG, NULL, "overfit one batch", TO(overfit)},
    {"time-layers", 0, CLI_FLAG, NULL, "time every layer and stage",
     TO(time_layers)},
    {"evaluate", 0, CLI_FLAG, NULL,
     "only say how well the weights of --init-from do", TO(evaluate)},
    {"list-archs", 0, CLI_SET, NULL, "list built-in architectures",
     .set = list_archs},
    {NULL}};
