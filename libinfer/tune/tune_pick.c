/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows are worth measuring for a problem, and what becomes of it. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/tune/tune.h"

/* Rows of one tier whose estimate is this many times the lowest are not
 * worth measuring, but for an exhaustive search. */
#define HOPELESS 5.0

struct candidates {
    const struct kern_row **row;
    double *estimate; /* microseconds; 0 where the row has none */
    int n;
};

/* Random numbers are no indices, and would be out of range; bits they may be.
 */
static bool is_measurable(const struct kern_problem *p)
{
    int i;

    for (i = 0; i < p->n_in; i++)
        switch (p->in[i].dtype) {
        case INFER_U8:
            if (p->op != KERN_BATCH_NORM_DGRAD)
                return false;
            break;
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

static bool may_take(const struct row_query *q, const struct kern_row *row,
                     const struct tune_choice *given)
{
    return row == given->row || row_takes(q, row, NULL);
}

static void collect(const struct row_query *q, uint32_t tier,
                    const struct tune_choice *given, struct candidates *c)
{
    size_t i;

    for (i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);

        if (!row_is_of(row, tier, q->problem->op) ||
            (row->flags & KERN_BASELINE) || !may_take(q, row, given))
            continue;
        c->row[c->n] = row;
        c->estimate[c->n++] =
            row->estimate ? row->estimate(q->problem, q->device) : 0;
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

/* What the cache has for the problem, found by no lesser search than this
 * tuner's. */
static bool read_known(const struct tuner *t, const struct kern_problem *p,
                       struct tune_choice *out)
{
    struct tune_entry entry;
    char key[TUNE_KEY];

    tune_key(p, key, sizeof key);
    return tune_cache_find(tuner_cache(t), key, &entry) &&
           (tuner_mode(t) != TUNE_EXHAUSTIVE || entry.exhaustive ||
            entry.learned) &&
           tune_choice_of(&entry.best, out);
}

/* The choice of the cache, where it may be taken.  Only its row is asked: the
 * others need not even be loaded. */
static bool find_known(const struct tuner *t, const struct row_query *q,
                       const uint32_t *tier, int n, struct tune_choice *choice)
{
    struct tune_choice known;
    uint32_t all = 0;

    for (int i = 0; i < n; i++)
        all |= tier[i];
    if (!read_known(t, q->problem, &known) ||
        !row_is_of(known.row, all, q->problem->op) ||
        !may_take(q, known.row, choice))
        return false;
    memcpy(choice, &known, sizeof known);
    return true;
}

static int choose(struct tuner *t, const struct row_query *q,
                  const uint32_t *tier, int n, struct candidates *c,
                  struct infer_error *err, struct tune_choice *choice)
{
    for (int i = 0; i < n; i++) {
        const int from = c->n;

        collect(q, tier[i], choice, c);
        if (tuner_mode(t) != TUNE_EXHAUSTIVE)
            prune(c, from);
    }
    /* One row may still have variants to choose from. */
    if (c->n == 0 || (c->n == 1 && !c->row[0]->variants))
        return 0;
    return tuner_choose(t, q->problem, c->row, c->n, err, choice);
}

int tuner_pick(struct tuner *t, const struct row_query *q, const uint32_t *tier,
               int n, struct infer_error *err, struct tune_choice *choice)
{
    struct candidates c = {0};
    int rc;

    if (tuner_mode(t) == TUNE_OFF || !is_measurable(q->problem))
        return 0;
    if (find_known(t, q, tier, n, choice))
        return tuner_take(t, q->problem, err);
    c.row = calloc(kern_row_count(), sizeof(const struct kern_row *));
    c.estimate = calloc(kern_row_count(), sizeof *c.estimate);
    if (!c.row || !c.estimate)
        rc = error_set(err, INFER_EMEMORY, "tuning: out of memory");
    else
        rc = choose(t, q, tier, n, &c, err, choice);
    free(c.row);
    free(c.estimate);
    return rc;
}

int tuner_prepare(const struct tune_choice *choice,
                  const struct kern_problem *p, const struct kern_device *d,
                  struct infer_error *err, struct kern_exec *out)
{
    if (choice->variant > 0 &&
        kern_prepare_variant(choice->row, p, d, choice->variant, NULL, out) ==
            0) {
        if (strcmp(out->variant_name, choice->variant_name) == 0)
            return 0;
        kern_release(out);
    }
    return kern_prepare(choice->row, p, d, err, out);
}
