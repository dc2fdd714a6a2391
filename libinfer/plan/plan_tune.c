/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan by measurement: which rows may stand in for the one that
 * the plan was made with. */
#include <string.h>

#include "libinfer/plan/plan.h"

struct place {
    const struct plan *plan;
    const struct plan_step *step;
};

static bool takes(const struct tune_question *q, const struct kern_row *row)
{
    const struct place *at = q->user;

    return plan_takes(at->plan, row, q->problem, at->step->in, &at->step->out);
}

static int tune_step(struct plan *plan, struct plan_step *s,
                     struct infer_error *err)
{
    const struct place at = {plan, s};
    const struct tune_question q = {.problem = &s->exec.problem,
                                    .backend = plan->config->backend,
                                    .n_backends =
                                        plan_backends(plan, s->exec.problem.op),
                                    .takes = takes,
                                    .user = &at};

    if (s->once)
        return 0;
    s->choice.row = s->rule = s->exec.row;
    const int rc = tuner_pick(plan->config->tuner, &q, err, &s->choice);
    s->exec.row = s->choice.row;
    return rc;
}

int plan_tune(struct plan *plan, struct infer_error *err)
{
    const struct plan_config *c = plan->config;
    const bool tells = c->progress && tuner_mode(c->tuner) != TUNE_OFF;
    int i, rc = 0;

    for (i = 0; rc == 0 && i < plan->n_steps; i++) {
        rc = tune_step(plan, plan->step[i], err);
        if (rc == 0 && tells)
            c->progress(c->progress_user, i + 1, plan->n_steps);
    }
    if (rc == 0)
        plan_recall(plan);
    tuner_finish(plan->config->tuner);
    return rc;
}
