/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults that depend on other options, and combinations that are refused. */
#include "tools/train/options.h"

#include <string.h>

#include "kernels/base/text.h"

void train_request_init(struct train_request *q)
{
    memset(q, 0, sizeof(*q));
    q->rule = "momentum";
    q->update.kind = KERN_UPDATE_SGD;
    q->update.beta1 = 0.9f;
    q->update.beta2 = -1;
    q->update.epsilon = 1e-8f;
    q->policy.rate = -1;
    q->batch = 64;
    q->accumulate = 1;
    q->bn_momentum = 0.1;
    q->device = "cpu";
    q->tune = -1;
}

/* Default numbers. */
static void defaults(struct train_request *q)
{
    const enum kern_update_kind kind = q->update.kind;
    const bool plain = strcmp(q->rule, "sgd") == 0;

    if ((plain || kind == KERN_UPDATE_RMSPROP) && !q->beta1_set)
        q->update.beta1 = 0;
    if (q->update.beta2 < 0)
        q->update.beta2 = kind == KERN_UPDATE_RMSPROP ? 0.99f : 0.999f;
    if (q->epochs == 0)
        q->epochs = 10;
    if (q->policy.rate < 0)
        q->policy.rate = kind == KERN_UPDATE_SGD ? 0.05 : 0.001;
}

/* --gpus=N alone means the first N. */
static int check_gpus(const struct cli *cli, struct train_request *q)
{
    if (q->gpus == 0) {
        q->gpus = 1;
        return 0;
    }
    if (!q->device_set)
        q->device = "cuda";
    if (!text_begins(q->device, "cuda") ||
        (q->gpus > 1 && strcmp(q->device, "cuda") != 0)) {
        cli_error(cli, "--gpus=%d goes with --device=cuda, not with %s",
                  q->gpus, q->device);
        return -1;
    }
    if (q->gpus > 1 && q->grad_check) {
        cli_error(cli, "--grad-check takes one GPU");
        return -1;
    }
    return 0;
}

/* Required options. */
static int check_needed(const struct cli *cli, const struct train_request *q)
{
    int rc = 0;

    if (!q->arch && !q->init_from && !q->resume_given) {
        cli_error(cli, "no network: name one with --arch (see --list-archs)");
        rc = -1;
    }
    if (!q->data) {
        cli_error(cli, "no pictures: name their folder with --data");
        rc = -1;
    }
    if (q->resume_given && !q->resume) {
        cli_error(cli, "--resume without a file goes on from -o, which is "
                       "not given");
        rc = -1;
    }
    if (q->evaluate && !q->init_from) {
        cli_error(cli, "--evaluate of no weights: name some with --init-from");
        rc = -1;
    }
    return rc;
}

/* Refuses an option that has no effect with the others. */
static int misplaced(const struct cli *cli, bool given, bool fits,
                     const char *option, const char *with)
{
    if (!given || fits)
        return 0;
    cli_error(cli, "--%s goes with %s", option, with);
    return -1;
}

/* Refuses options that the policy or the rule would not use. */
static int check_unread(const struct cli *cli, const struct train_request *q)
{
    const enum policy_kind kind = q->policy.kind;
    const bool adaptive = q->update.kind != KERN_UPDATE_SGD;
    const bool step = kind == POLICY_STEP, inv = kind == POLICY_INV;
    int rc = misplaced(cli, q->marks > 0, step, "lr-step", "--lr-policy=step");

    if (step && q->marks == 0) {
        cli_error(cli, "--lr-policy=step needs --lr-step, where the rate "
                       "falls");
        rc = -1;
    }
    rc |= misplaced(cli, q->policy_gamma, step || inv || kind == POLICY_EXP,
                    "gamma", "--lr-policy=step, exp or inv");
    rc |= misplaced(cli, q->policy_power, inv || kind == POLICY_POLY, "power",
                    "--lr-policy=inv or poly");
    rc |= misplaced(cli, q->policy_final, kind == POLICY_COSINE, "lr-final",
                    "--lr-policy=cosine");
    rc |= misplaced(cli, q->update.beta2 >= 0, adaptive, "beta2",
                    "--optimizer=rmsprop, adam or adamw");
    rc |= misplaced(cli, q->epsilon_set, adaptive, "epsilon",
                    "--optimizer=rmsprop, adam or adamw");
    if (strcmp(q->rule, "sgd") == 0 && q->beta1_set && q->update.beta1 > 0) {
        cli_error(cli, "--optimizer=sgd has no momentum: use "
                       "--optimizer=momentum");
        rc = -1;
    }
    if (q->update.nesterov && q->beta1_set && !(q->update.beta1 > 0)) {
        cli_error(cli, "--optimizer=nesterov needs --momentum above 0");
        rc = -1;
    }
    return rc;
}

static int exclude(const struct cli *cli, bool a, bool b, const char *which)
{
    if (!a || !b)
        return 0;
    cli_error(cli, "%s exclude each other", which);
    return -1;
}

/* Refuses equal output files, and output files that the run reads.  Only the
 * checkpoint may replace the weights that the run starts from. */
static int check_files(const struct cli *cli, const struct train_request *q)
{
    const char *const file[] = {q->out, q->best, q->labels, q->log, q->plot};
    const size_t n = sizeof(file) / sizeof(file[0]);
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n && rc == 0; k++)
            if (cli_same_target(file[i], file[k])) {
                cli_error(cli, "-o, --best, --write-labels, --log and --plot "
                               "need a file each");
                rc = -1;
            }
        if (cli_same_file(file[i], q->arch) ||
            cli_same_file(file[i], q->data) || cli_same_file(file[i], q->val) ||
            (i > 1 && (cli_same_file(file[i], q->init_from) ||
                       cli_same_file(file[i], q->resume)))) {
            cli_error(cli, "%s: the run reads this file: name another to write",
                      file[i]);
            rc = -1;
        }
    }
    return rc;
}

static int check_contradictions(const struct cli *cli,
                                const struct train_request *q)
{
    const int jobs = q->grad_check + q->overfit + q->time_layers + q->evaluate;
    int rc = exclude(cli, jobs > 1, true,
                     "--grad-check, --overfit-batch, --time-layers and "
                     "--evaluate");

    rc |= exclude(cli, q->resume, q->init_from && q->arch,
                  "--resume and --init-from");
    rc |= exclude(cli, q->resume, q->grad_check, "--resume and --grad-check");
    rc |=
        exclude(cli, q->memory > 0, q->grad_check, "--memory and --grad-check");
    rc |= exclude(cli, q->resume, q->evaluate, "--resume and --evaluate");
    rc |=
        exclude(cli, q->grad_check,
                q->multiplier || q->multiplier_of[NET_FPROP] ||
                    q->multiplier_of[NET_DGRAD] || q->multiplier_of[NET_WGRAD],
                "--grad-check and --multiplier");
    if (q->gradient != NET_BY_PRODUCTS && !q->multiplier &&
        !q->multiplier_of[NET_FPROP]) {
        cli_error(cli, "--multiplier-gradient needs --multiplier or "
                       "--multiplier-forward");
        rc = -1;
    }
    if (q->multiplier_exact && !q->multiplier && !q->multiplier_of[NET_FPROP] &&
        !q->multiplier_of[NET_DGRAD] && !q->multiplier_of[NET_WGRAD]) {
        cli_error(cli, "--multiplier-exact needs a --multiplier");
        rc = -1;
    }
    rc |= exclude(cli, q->steps > 0, q->epochs > 0, "--steps and --epochs");
    return rc;
}

int train_request_finish(const struct cli *cli, struct train_request *q)
{
    struct policy policy;
    int rc;

    if (q->resume_given && !q->resume)
        q->resume = q->out;
    rc = check_needed(cli, q);
    rc |= check_unread(cli, q);
    rc |= check_contradictions(cli, q);
    rc |= check_files(cli, q);
    rc |= check_gpus(cli, q);
    defaults(q);
    policy_init(&policy, q->policy.kind, q->policy.rate);
    q->policy = policy;
    return rc;
}
