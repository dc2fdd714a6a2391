/* SPDX-License-Identifier: Apache-2.0 */
/* train: pictures in, trained weights out. */
#include "tools/train/options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/error.h"
#include "tools/terminal.h"
#include "tools/train/study/study.h"

static void print_plan(const struct train_run *r)
{
    const struct net *n = r->net;
    char arena[32], flat[32];

    cli_verbose(r->cli,
                "%lld training and %lld test pictures, %d classes; %lld "
                "steps of %lld pictures",
                (long long)r->train.count, (long long)r->val.count,
                r->train.classes, (long long)r->total_steps,
                (long long)(train_batch(r) * r->request->accumulate));
    cli_verbose(
        r->cli,
        "%d launches a step, %s of activations and gradients, %s of "
        "weights",
        n->list[NET_LIST_TRAIN].steps.n + n->list[NET_LIST_UPDATE].steps.n,
        cli_bytes((double)n->arena_bytes, arena, sizeof(arena)),
        cli_bytes((double)net_flat_bytes(n, NET_WEIGHTS), flat, sizeof(flat)));
    if (r->request->memory > 0)
        cli_verbose(r->cli,
                    "%s in all; %d launches of the forward pass run twice, "
                    "%.0f %% of its work",
                    cli_bytes((double)net_bytes(n), arena, sizeof(arena)),
                    n->repeated_steps, 100 * n->repeated_share);
    if (n->host_bytes > 0)
        cli_verbose(r->cli,
                    "%s of activations go to the host's memory and back",
                    cli_bytes((double)n->host_bytes, arena, sizeof(arena)));
}

static void print_result(const struct train_run *r, double seconds)
{
    cJSON *json;

    if (!r->cli->json) {
        if (r->last_saved >= 0 && r->cli->verbosity >= 0)
            cli_print("%s: step %lld\n", r->saved_in, (long long)r->last_saved);
        return;
    }
    json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "steps", (double)r->step);
    cJSON_AddNumberToObject(json, "total_steps", (double)r->total_steps);
    cJSON_AddNumberToObject(json, "seconds", seconds);
    if (r->val.count > 0) {
        cJSON_AddNumberToObject(json, "val_loss", r->val_loss);
        cJSON_AddNumberToObject(json, "val_accuracy", r->val_accuracy);
        cJSON_AddNumberToObject(json, "best_val_accuracy", r->best_accuracy);
    }
    if (r->last_saved >= 0)
        cJSON_AddStringToObject(json, "checkpoint", r->saved_in);
    cli_print_json(json, false);
}

/* Says before the run what happens to the checkpoint. */
static void note_targets(const struct train_run *r)
{
    const struct train_request *q = r->request;
    struct stat st;

    if (r->cli->verbosity < 0)
        return;
    if (!q->out && !q->best)
        cli_error(r->cli, "no -o: the weights will not be kept");
    if (q->out && !q->resume && stat(q->out, &st) == 0)
        cli_error(r->cli,
                  "%s: is there already and will be replaced "
                  "(--resume would go on from it)",
                  q->out);
}

static int work(struct train_run *r, struct infer_error *err)
{
    const struct train_request *q = r->request;
    const double start = cli_now();
    int rc = train_open(r, err);

    if (rc < 0)
        return rc;
    if (q->grad_check)
        return train_grad_check(r, err);
    print_plan(r);
    if (q->time_layers)
        return train_time_layers(r, err);
    if (q->overfit)
        return train_overfit(r, err);
    if (q->evaluate)
        return train_judge(r, err);
    note_targets(r);
    rc = train_run(r, err);
    if (rc == 0)
        print_result(r, cli_now() - start);
    return rc;
}

/* The status of a run that ended well: not 0 where a signal, of this process or
 * of another, cut it short.  Only the process that wrote the checkpoint tells:
 * the first failure of one ends the others. */
static int code_of(const struct train_run *r)
{
    const int code = terminal_interrupt_code();

    if (!r->stop || r->step >= r->total_steps || !train_leads(r))
        return CLI_OK;
    return code ? code : 128 + SIGINT;
}

/* One process of several reports; this one does not. */
static void be_silent(struct train_run *r)
{
    r->cli->verbosity = -1;
    r->cli->json = false;
    if (!freopen("/dev/null", "w", stdout))
        clearerr(stdout);
}

static int one_process(struct group *g, void *user)
{
    struct train_run *r = user;
    struct infer_error err = {0};
    int code = CLI_OK;

    r->group = g;
    if (g->rank > 0)
        be_silent(r);
    if (work(r, &err) < 0) {
        code = (int)cli_exit_of(err.code);
        if (group_may_tell(g)) {
            (void)cli_fail(r->cli, &err);
            group_told(g);
        }
    } else {
        code = code_of(r);
    }
    if (g->size > 1 && fflush(stdout) != 0 &&
        (code == CLI_OK || code == code_of(r))) {
        cli_error(r->cli, "standard output: %s", strerror(errno));
        code = CLI_BAD_MODEL;
    }
    /* Other processes may be exchanging with this one: only its end frees the
     * exchange. */
    if (code == CLI_OK || code == code_of(r) || g->size == 1)
        train_close(r);
    return code;
}

static int cannot_start(const struct infer_error *err, void *user)
{
    const struct train_run *r = user;

    return (int)cli_fail(r->cli, err);
}

static int study_needs(const struct cli *cli)
{
    cli_error(cli, "--study needs -o, the folder of its runs");
    return CLI_USAGE;
}

static int train(int argc, char **argv)
{
    struct cli cli = {
        .tool = "train", .usage = train_usage, .option = train_options};
    struct train_request request;
    struct train_run run = {.cli = &cli, .request = &request};
    int count, rc;

    train_request_init(&request);
    rc = cli_parse(&cli, argc, argv, &request, &count);
    if (rc != 0)
        return rc > 0 ? CLI_OK : CLI_USAGE;
    if (count > 0) {
        cli_error(&cli, "'%s' is not an option (see --help)", argv[0]);
        return CLI_USAGE;
    }
    if (request.study)
        return request.out ? study_main(&cli, request.study, request.out)
                           : study_needs(&cli);
    if (train_request_finish(&cli, &request) < 0)
        return CLI_USAGE;
    return group_run(request.gpus, one_process, &run, cannot_start);
}

int main(int argc, char **argv)
{
    return cli_main("train", argc, argv, train);
}
