/* SPDX-License-Identifier: Apache-2.0 */
/* --time-layers: times each launch of a step, and whole steps. */
#include "tools/train/train.h"
#include "kernels/base/json.h"

#include <stdio.h>
#include <stdlib.h>

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
            for (int k = 0; k < r->net->list[l].steps.n; k++) {
                r->net->list[l].steps.at[k]->seconds = 0;
                r->net->list[l].steps.at[k]->runs = 0;
            }
    }
    return rc;
}

static double milliseconds(const struct plan_step *op)
{
    return op->runs > 0 ? 1e3 * op->seconds / (double)op->runs : 0;
}

/* By enum net_transfer.  Concurrent transfers show where the launches wait for
 * them. */
static const char *const transfer_names[] = {
    "", "sum", "mean", "wait", "to host", "from host", "wait"};

/* Adds one launch to the reports. */
struct launch {
    const char *layer, *stage, *kernel, *variant;
    double ms, gflops;
};

static struct launch launch_of(const struct net *n, const struct plan_step *op)
{
    const char *layer = op->node >= 0 ? n->g->node[op->node].name : NULL;
    const double ms = milliseconds(op);
    const double flops =
        op->transfer ? 0 : kern_problem_flops(&op->exec.problem);

    return (struct launch){
        .layer = layer ? layer : "",
        .stage = net_stage_names[op->stage],
        .kernel =
            op->transfer ? transfer_names[op->transfer] : op->exec.row->name,
        .variant = op->exec.variant_name,
        .ms = ms,
        .gflops = ms > 0 ? flops / ms * 1e-6 : 0,
    };
}

static void add_launch(cJSON *list, const struct launch *l)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "layer", l->layer);
    cJSON_AddStringToObject(json, "stage", l->stage);
    cJSON_AddNumberToObject(json, "ms", l->ms);
    cJSON_AddNumberToObject(json, "gflops", l->gflops);
    cJSON_AddStringToObject(json, "kernel", l->kernel);
    cJSON_AddStringToObject(json, "variant", l->variant);
    json_append(list, json);
}

/* Prints every launch of a list, or adds it to `json`. */
static void tell_list(const struct net *n, enum net_list_name list, cJSON *json,
                      double *total)
{
    for (int i = 0; i < n->list[list].steps.n; i++) {
        const struct plan_step *op = n->list[list].steps.at[i];
        const struct launch l = launch_of(n, op);

        total[op->stage] += l.ms;
        if (json)
            add_launch(json, &l);
        else
            cli_print("%-24.24s %-6s %9.4f ms %8.1f GFLOP/s  %s %s\n", l.layer,
                      l.stage, l.ms, l.gflops, l.kernel, l.variant);
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Times of single launches and of whole steps. */
struct times {
    double total[NET_STAGES], sum; /* ms */
    double step[TIME_STEPS];       /* s, ascending */
    double pictures;
};

static void print_times(const struct times *t)
{
    const double median = t->step[TIME_STEPS / 2];

    for (int i = 0; i < NET_STAGES; i++)
        printf("%s %.4f ms, ", net_stage_names[i], t->total[i]);
    printf("step %.4f ms, %.0f images/s\n", t->sum, 1e3 * t->pictures / t->sum);
    printf("whole step, median of %d: %.4f ms (%.4f to %.4f), %.0f images/s\n",
           TIME_STEPS, 1e3 * median, 1e3 * t->step[0],
           1e3 * t->step[TIME_STEPS - 1], t->pictures / median);
}

static void print_json(cJSON *json, const struct times *t)
{
    cJSON *stages = cJSON_AddObjectToObject(json, "stages_ms");
    const double median = t->step[TIME_STEPS / 2];

    for (int i = 0; i < NET_STAGES; i++)
        cJSON_AddNumberToObject(stages, net_stage_names[i], t->total[i]);
    cJSON_AddNumberToObject(json, "sum_ms", t->sum);
    cJSON_AddNumberToObject(json, "step_ms", 1e3 * median);
    cJSON_AddNumberToObject(json, "step_min_ms", 1e3 * t->step[0]);
    cJSON_AddNumberToObject(json, "step_max_ms", 1e3 * t->step[TIME_STEPS - 1]);
    cJSON_AddNumberToObject(json, "images_per_second", t->pictures / median);
    cli_print_json(json, false);
}

int train_time_layers(struct train_run *r, struct infer_error *err)
{
    struct times t = {.pictures = (double)train_batch(r)};
    cJSON *json, *layers;
    int rc = time_steps(r, err);

    /* Whole steps as in a run, without its copies. */
    if (rc == 0)
        rc = net_time_steps(r->net, TIME_STEPS, t.step, err);
    if (rc < 0)
        return rc;
    qsort(t.step, TIME_STEPS, sizeof(t.step[0]), compare);
    json = r->cli->json ? cJSON_CreateObject() : NULL;
    layers = json ? cJSON_AddArrayToObject(json, "layers") : NULL;
    tell_list(r->net, NET_LIST_TRAIN, layers, t.total);
    tell_list(r->net, NET_LIST_UPDATE, layers, t.total);
    for (int i = 0; i < NET_STAGES; i++)
        t.sum += t.total[i];
    if (json)
        print_json(json, &t);
    else
        print_times(&t);
    return 0;
}
