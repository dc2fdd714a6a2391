/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs and measurements: --grad-check, --overfit-batch, --time-layers,
 * --evaluate. */
#include "tools/train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"

/* Pictures of a gradient check, the most elements of a parameter (fewer where
 * there are many parameters, but never one alone), elements in all that this
 * aims at, and the largest relative error that passes. */
#define CHECK_BATCH    2
#define CHECK_ELEMENTS 8
#define CHECK_TOTAL    128
#define CHECK_LIMIT    1e-4

/* How many elements of each parameter are checked. */
static int elements_of(const struct net *n)
{
    int trained = 0, each;

    for (int i = 0; i < n->n_params; i++)
        trained += net_is_trained(n, i);
    each = trained > 0 ? CHECK_TOTAL / trained : CHECK_ELEMENTS;
    return each < 2 ? 2 : each < CHECK_ELEMENTS ? each : CHECK_ELEMENTS;
}

int train_grad_check(struct train_run *r, struct infer_error *err)
{
    struct loader_options o = {.set = &r->train,
                               .batch = CHECK_BATCH,
                               .seed = r->cli->seed,
                               .shuffle = true,
                               .preprocess = r->preprocess,
                               .doubles = true};
    struct gradient_check found;
    const struct loader_batch *b;
    struct loader *loader = NULL;
    struct net *n = NULL;
    int rc = train_make_net(r, INFER_F64, CHECK_BATCH, true, err, &n);

    if (rc == 0)
        rc = train_first_weights(r, n, err);
    if (rc == 0)
        rc = loader_new(&o, err, &loader);
    if (rc == 0)
        rc = loader_start(loader, 0, 0, err);
    if (rc == 0)
        rc = loader_next(loader, err, &b);
    if (rc == 0)
        rc = gradient_check(n, b->x, b->label, elements_of(n), r->cli->seed,
                            err, &found);
    loader_free(loader);
    net_free(n);
    if (rc < 0)
        return rc;
    printf("%d gradients checked, largest relative error %.2g (%s)\n",
           found.checked, found.worst, found.where);
    if (found.checked == 0 || !(found.worst <= CHECK_LIMIT))
        return error_set(err, INFER_EMISMATCH,
                         "gradient check failed: %g is above %g (%s)",
                         found.worst, CHECK_LIMIT, found.where);
    return 0;
}

/* A network that cannot learn one batch by heart is broken. */
#define OVERFIT_STEPS 500
#define OVERFIT_LOSS  0.01

int train_overfit(struct train_run *r, struct infer_error *err)
{
    const struct loader_batch *b;
    struct net_metrics m = {0};
    int64_t pictures = 0, steps = 0;
    double loss = INFINITY;
    int rc = loader_start(r->loader, 0, 0, err);

    if (rc == 0)
        rc = loader_next(r->loader, err, &b);
    while (rc == 0 && steps < OVERFIT_STEPS && !(loss < OVERFIT_LOSS)) {
        rc = train_step(r, b, err, &m, &pictures);
        loss = m.loss / (double)pictures;
        steps++;
        r->step++;
        if (rc == 0 && steps % 50 == 0)
            cli_verbose(r->cli, "step %lld: loss %.5f", (long long)steps, loss);
        if (!isfinite(loss))
            break;
    }
    if (rc < 0)
        return rc;
    printf("one batch of %lld pictures: loss %.5f, %lld right after %lld "
           "steps\n",
           (long long)pictures, loss, (long long)m.hit, (long long)steps);
    if (!(loss < OVERFIT_LOSS))
        return error_set(err, INFER_EMISMATCH,
                         "the network did not learn one batch by heart in %d "
                         "steps: try another --lr or --init, or see "
                         "--grad-check",
                         OVERFIT_STEPS);
    return 0;
}

/* ---- times --------------------------------------------------------- */

#define TIME_WARMUP 3
#define TIME_RUNS   10
#define TIME_STEPS  30

static int time_steps(struct train_run *r, struct infer_error *err)
{
    const struct loader_batch *b;
    int rc = loader_start(r->loader, 0, 0, err);

    if (rc == 0)
        rc = loader_next(r->loader, err, &b);
    for (int i = 0; rc == 0 && i < TIME_WARMUP + TIME_RUNS; i++) {
        rc = net_put_batch(r->net, b->x, b->label, err);
        if (rc == 0)
            rc = net_put_control(r->net, 0, 0, 0, err);
        if (rc == 0)
            rc = net_time(r->net, NET_LIST_TRAIN, err);
        if (rc == 0)
            rc = net_time(r->net, NET_LIST_UPDATE, err);
        if (i != TIME_WARMUP - 1)
            continue;
        for (int l = 0; l < NET_LISTS; l++)
            for (int k = 0; k < r->net->list[l].n; k++) {
                r->net->list[l].op[k]->seconds = 0;
                r->net->list[l].op[k]->runs = 0;
            }
    }
    return rc;
}

static double milliseconds(const struct net_op *op)
{
    return op->runs > 0 ? 1e3 * op->seconds / (double)op->runs : 0;
}

/* By enum net_transfer.  What runs beside the launches shows where they wait
 * for it. */
static const char *const transfer_names[] = {"", "sum", "mean", "wait"};

static void print_list(const struct net *n, enum net_list_name list,
                       double *total)
{
    for (int i = 0; i < n->list[list].n; i++) {
        const struct net_op *op = n->list[list].op[i];
        const double ms = milliseconds(op);
        const double flops =
            op->transfer ? 0 : kern_problem_flops(&op->exec.problem);

        total[op->stage] += ms;
        printf("%-24.24s %-6s %9.4f ms %8.1f GFLOP/s  %s %s\n",
               op->node >= 0 && n->g->node[op->node].name
                   ? n->g->node[op->node].name
                   : "",
               net_stage_names[op->stage], ms, ms > 0 ? flops / ms * 1e-6 : 0,
               op->transfer ? transfer_names[op->transfer] : op->exec.row->name,
               op->exec.variant_name);
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Whole steps as a run makes them, without its copies. */
static int time_recorded(struct train_run *r, struct infer_error *err)
{
    double seconds[TIME_STEPS];
    int rc = net_time_steps(r->net, TIME_STEPS, seconds, err);

    if (rc < 0)
        return rc;
    qsort(seconds, TIME_STEPS, sizeof(seconds[0]), compare);
    const double median = seconds[TIME_STEPS / 2];
    printf("whole step, median of %d: %.4f ms (%.4f to %.4f), %.0f images/s\n",
           TIME_STEPS, 1e3 * median, 1e3 * seconds[0],
           1e3 * seconds[TIME_STEPS - 1], (double)r->request->batch / median);
    return 0;
}

int train_time_layers(struct train_run *r, struct infer_error *err)
{
    double total[NET_STAGES] = {0}, sum = 0;
    int rc = time_steps(r, err);

    if (rc < 0)
        return rc;
    print_list(r->net, NET_LIST_TRAIN, total);
    print_list(r->net, NET_LIST_UPDATE, total);
    for (int i = 0; i < NET_STAGES; i++) {
        printf("%s %.4f ms, ", net_stage_names[i], total[i]);
        sum += total[i];
    }
    printf("step %.4f ms, %.0f images/s\n", sum,
           1e3 * (double)r->request->batch / sum);
    return time_recorded(r, err);
}

/* ---- accuracy ------------------------------------------------------ */

static void print_judgement(const struct train_run *r)
{
    cJSON *json;

    if (!r->cli->json) {
        printf("%lld test pictures: loss %.4f, accuracy %.2f%%\n",
               (long long)r->val.count, r->val_loss, 100 * r->val_accuracy);
        return;
    }
    json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "pictures", (double)r->val.count);
    cJSON_AddNumberToObject(json, "val_loss", r->val_loss);
    cJSON_AddNumberToObject(json, "val_accuracy", r->val_accuracy);
    cli_print_json(json, false);
}

int train_judge(struct train_run *r, struct infer_error *err)
{
    int rc;

    if (r->val.count == 0)
        return error_set(err, INFER_EFORMAT,
                         "%s: there are no test pictures to evaluate on: name "
                         "some with --val",
                         r->request->data);
    rc = train_evaluate(r, err);
    if (rc == 0 && train_leads(r))
        print_judgement(r);
    return rc;
}
