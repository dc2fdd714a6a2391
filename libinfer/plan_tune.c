/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan by measurement: which rows may stand in for the one that
 * the plan was made with, and what the tuner says. */
#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"
#include "libinfer/plan.h"

/* Rows of one backend whose estimate is this many times the lowest are not
 * worth measuring, but for an exhaustive search. */
#define HOPELESS 5.0

struct candidates {
    const struct kern_row **row;
    double *estimate; /* microseconds; 0 where the row has none */
    int n;
};

/* Random numbers are no indices, and would be out of range. */
static bool is_measurable(const struct kern_problem *p)
{
    int i;

    for (i = 0; i < p->n_in; i++)
        switch (p->in[i].dtype) {
        case INFER_NONE:
        case INFER_F32:
        case INFER_F16:
        case INFER_BF16:
            break;
        default:
            return false;
        }
    return p->n_in > 0;
}

static void collect(const struct plan *plan, const struct plan_step *s,
                    enum infer_backend backend, struct candidates *c)
{
    const struct kern_problem *p = &s->exec.problem;
    const struct kern_device *d = &plan->config->device->kern;
    size_t i;

    for (i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);

        if (row->op != p->op || row->backend != backend ||
            (row->flags & KERN_BASELINE) ||
            !plan_takes(plan, row, p, s->in, &s->out))
            continue;
        c->row[c->n] = row;
        c->estimate[c->n++] = row->estimate ? row->estimate(p, d) : 0;
    }
}

/* Drops candidates from `from` on that the estimates rule out; rows that make
 * none are measured. */
static void prune(struct candidates *c, int from)
{
    double lowest = 0;
    int i, n = from;

    for (i = from; i < c->n; i++)
        if (c->estimate[i] > 0 && (lowest == 0 || c->estimate[i] < lowest))
            lowest = c->estimate[i];
    if (lowest == 0)
        return;
    for (i = from; i < c->n; i++)
        if (c->estimate[i] <= HOPELESS * lowest) {
            c->row[n] = c->row[i];
            c->estimate[n++] = c->estimate[i];
        }
    c->n = n;
}

/* The choice of the cache, where the session allows it.  Only its row is asked:
 * the others need not even be loaded. */
static bool take_known(const struct plan *plan, const struct plan_step *s,
                       int backends, struct tune_choice *choice)
{
    const struct plan_config *config = plan->config;
    int i;

    if (!tuner_known(config->tuner, &s->exec.problem, choice))
        return false;
    for (i = 0; i < backends; i++)
        if (choice->row->backend == config->backend[i] &&
            choice->row->op == s->exec.problem.op &&
            plan_takes(plan, choice->row, &s->exec.problem, s->in, &s->out)) {
            tuner_take(config->tuner);
            return true;
        }
    return false;
}

static int choose(struct plan *plan, struct plan_step *s, int backends,
                  struct candidates *c, struct infer_error *err,
                  struct tune_choice *choice)
{
    struct tuner *tuner = plan->config->tuner;
    int i;

    c->n = 0;
    for (i = 0; i < backends; i++) {
        const int from = c->n;

        collect(plan, s, plan->config->backend[i], c);
        if (tuner_mode(tuner) != TUNE_EXHAUSTIVE)
            prune(c, from);
    }
    memset(choice, 0, sizeof *choice);
    choice->row = s->exec.row;
    /* One row may still have variants to choose from. */
    if (c->n == 0 || (c->n == 1 && !c->row[0]->variants))
        return 0;
    return tuner_choose(tuner, &s->exec.problem, c->row, c->n, err, choice);
}

static int tune_step(struct plan *plan, struct plan_step *s,
                     struct candidates *c, struct infer_error *err)
{
    const int backends = plan_backends(plan, s->exec.problem.op);
    struct tune_choice choice;
    int rc;

    if (s->once || !is_measurable(&s->exec.problem))
        return 0;
    if (!take_known(plan, s, backends, &choice)) {
        rc = choose(plan, s, backends, c, err, &choice);
        if (rc < 0)
            return rc;
    }
    s->exec.row = choice.row;
    s->variant = choice.variant;
    memcpy(s->variant_name, choice.variant_name, sizeof s->variant_name);
    return 0;
}

int plan_tune(struct plan *plan, struct infer_error *err)
{
    struct tuner *tuner = plan->config->tuner;
    struct candidates c;
    int i, rc = 0;

    if (tuner_mode(tuner) == TUNE_OFF)
        return 0;
    c.row = calloc(kern_row_count(), sizeof(const struct kern_row *));
    c.estimate = calloc(kern_row_count(), sizeof *c.estimate);
    if (!c.row || !c.estimate)
        rc = error_set(err, INFER_EMEMORY, "plan: out of memory");
    for (i = 0; rc == 0 && i < plan->n_steps; i++)
        rc = tune_step(plan, plan->step[i], &c, err);
    tuner_finish(tuner);
    free(c.row);
    free(c.estimate);
    return rc;
}
