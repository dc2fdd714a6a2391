/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: --grad-check, --overfit-batch, --evaluate. */
#include "tools/train/train.h"

#include <math.h>
#include <stdio.h>

#include "kernels/base/error.h"

/* Pictures of a gradient check, the most elements of a parameter (fewer where
 * there are many parameters, but never one alone), elements in all that this
 * aims at, and the largest relative error that passes. */
#define CHECK_BATCH    2
#define CHECK_ELEMENTS 8
#define CHECK_TOTAL    128
#define CHECK_LIMIT    1e-4

/* Elements checked of each parameter. */
static int elements_of(const struct net *n)
{
    int trained = 0, each;

    for (int i = 0; i < n->n_params; i++)
        trained += net_is_trained(n, i);
    each = trained > 0 ? CHECK_TOTAL / trained : CHECK_ELEMENTS;
    return each < 2 ? 2 : each < CHECK_ELEMENTS ? each : CHECK_ELEMENTS;
}

static void print_gradients(const struct train_run *r,
                            const struct gradient_check *found)
{
    cJSON *json;

    if (!r->cli->json) {
        printf("%d gradients checked, largest relative error %.2g (%s)\n",
               found->checked, found->worst, found->where);
        return;
    }
    json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "gradients", found->checked);
    cJSON_AddNumberToObject(json, "largest_relative_error", found->worst);
    cJSON_AddStringToObject(json, "where", found->where);
    cli_print_json(json, false);
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
    print_gradients(r, &found);
    if (found.checked == 0 || !(found.worst <= CHECK_LIMIT))
        return error_set(err, INFER_EMISMATCH,
                         "gradient check failed: %g is above %g (%s)",
                         found.worst, CHECK_LIMIT, found.where);
    return 0;
}

/* A network that cannot overfit one batch is broken. */
#define OVERFIT_STEPS 500
#define OVERFIT_LOSS  0.01

static void print_overfit(const struct train_run *r, int64_t pictures,
                          double loss, int64_t right, int64_t steps)
{
    cJSON *json;

    if (!r->cli->json) {
        printf("one batch of %lld pictures: loss %.5f, %lld right after %lld "
               "steps\n",
               (long long)pictures, loss, (long long)right, (long long)steps);
        return;
    }
    json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "pictures", (double)pictures);
    cJSON_AddNumberToObject(json, "loss", loss);
    cJSON_AddNumberToObject(json, "right", (double)right);
    cJSON_AddNumberToObject(json, "steps", (double)steps);
    cli_print_json(json, false);
}

int train_overfit(struct train_run *r, struct infer_error *err)
{
    const struct loader_batch *b;
    struct net_metrics m = {0};
    int64_t pictures = 0, steps = 0;
    double loss = INFINITY;
    int rc = loader_start(r->loader, 0, 0, err);

    /* The learning rate follows the policy over the whole run; this is a short
     * one. */
    policy_init(&r->policy, POLICY_FIXED, r->request->policy.rate);
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
    print_overfit(r, pictures, loss, m.hit, steps);
    if (!(loss < OVERFIT_LOSS))
        return error_set(err, INFER_EMISMATCH,
                         "the network did not overfit one batch in %d "
                         "steps: try another --lr or --init, or see "
                         "--grad-check",
                         OVERFIT_STEPS);
    return 0;
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
