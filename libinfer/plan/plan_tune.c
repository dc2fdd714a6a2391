/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the choices of a plan's steps by measurement. */
#include "libinfer/plan/plan.h"

static int tune_step(struct plan *plan, struct plan_step *s,
                     struct infer_error *err)
{
    const struct row_query q =
        plan_query(plan, &s->exec.problem, s->in, s->out);

    if (s->once)
        return 0;
    s->choice.row = s->rule = s->exec.row;
    const int rc = tuner_pick(plan->config->tuner, &q, plan->config->tiers.tier,
                              plan_tiers(plan, q.problem->op), err, &s->choice);
    s->exec.row = s->choice.row;
    return rc;
}

int plan_tune(struct plan *plan, struct infer_error *err)
{
    const struct plan_config *c = plan->config;
    const bool tells = c->progress && tuner_mode(c->tuner) != TUNE_OFF;
    int i, rc = 0;

    for (i = 0; rc == 0 && i < plan->steps.n; i++) {
        rc = tune_step(plan, plan->steps.at[i], err);
        if (rc == 0 && tells)
            c->progress(c->progress_user, i + 1, plan->steps.n);
    }
    if (rc == 0)
        plan_recall(plan);
    tuner_finish(plan->config->tuner);
    return rc;
}
