/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a network in training within net_options.memory: finds the choice of
 * dropped activations that fits and repeats the least work.
 *
 * The forward pass is cut into segments of about equal bytes, each cut where
 * the fewest bytes cross it; what crosses a cut is kept, all else is dropped.
 * Of many segment sizes the cheapest that fits is taken.  Then groups are kept
 * after all, those that cost the most for their bytes first, while the rest
 * still fits.
 *
 * Where no size fits and the network may use the host's memory, what crosses
 * the cuts is moved there instead of kept, ahead of its use if that fits, else
 * not.
 */
#include "tools/train/net/net_again.h"

#include <stdlib.h>
#include <string.h>

/* Segment sizes that are tried: the bytes of all activations, divided by the
 * square root of two each time. */
#define SIZES 40
/* Groups that are tried one by one. */
#define MAX_KEPT_LATER 2000
/* Searches with a lower aim where gaps between buffers break the limit. */
#define SEARCHES 6

/* Groups of a smaller share of all activations, 1 in so many, are not moved. */
#define LEAST_MOVE 1000

/* Bytes under way to the host, at first: the arena's, divided by this. */
#define WINDOW 4

struct choice {
    bool *drop, *move; /* of each group */
    double cost;
};

struct search {
    struct again again;
    struct choice cheapest; /* of those that fit */
    bool found;             /* there is one */
    size_t bytes, least;    /* of the arena: the last choice, the smallest */
    int *order;             /* groups by cost for their bytes */
    bool moves;             /* what crosses the cuts */
};

/* ---- choices ------------------------------------------------------- */

static void remember(struct choice *c, const struct again *a)
{
    for (int g = 0; g < a->n_groups; g++) {
        c->drop[g] = a->group[g].drop;
        c->move[g] = a->group[g].move;
    }
    c->cost = a->cost;
}

static void recall(struct again *a, const struct choice *c)
{
    for (int g = 0; g < a->n_groups; g++) {
        a->group[g].drop = c->drop[g];
        a->group[g].move = c->move[g];
    }
}

/* Keeps the groups that are used before and after a step. */
static void cut(struct again *a, int step)
{
    for (int g = 0; g < a->n_groups; g++)
        if (a->group[g].first <= step && a->group[g].last > step)
            a->group[g].drop = false;
}

/* Drops all but what crosses the ends of segments of that many bytes. */
static void cut_by(struct again *a, size_t *begun, size_t bytes)
{
    size_t sum = 0;
    int best = -1;

    for (int g = 0; g < a->n_groups; g++)
        a->group[g].drop = !a->group[g].fixed;
    for (int i = 0; i < a->loss; i++) {
        sum += begun[i];
        if (sum >= bytes / 2 &&
            (best < 0 || a->crossing[i] <= a->crossing[best]))
            best = i;
        if (sum <= bytes || best < 0)
            continue;
        cut(a, best);
        i = best;
        sum = 0;
        best = -1;
    }
}

/* Measures the groups' `drop`, which is remembered if it is the cheapest so
 * far.  limit: of the arena. */
static int judge(struct search *s, size_t limit, struct infer_error *err)
{
    int rc = again_schedule(&s->again, err);

    if (rc == 0)
        rc = again_place(&s->again, err, &s->bytes);
    if (rc < 0)
        return rc;
    s->least = s->bytes < s->least ? s->bytes : s->least;
    if (s->bytes <= limit && (!s->found || s->again.cost < s->cheapest.cost)) {
        remember(&s->cheapest, &s->again);
        s->found = true;
    }
    return 0;
}

static int try_sizes(struct search *s, size_t limit, struct infer_error *err)
{
    struct again *a = &s->again;
    size_t *begun = calloc((size_t)a->loss + 1, sizeof *begun);
    double bytes = 1, all;
    int rc = begun ? 0 : error_set(err, INFER_EMEMORY, "out of memory");

    for (int g = 0; begun && g < a->n_groups; g++) {
        begun[a->group[g].first] += a->group[g].bytes;
        bytes += (double)a->group[g].bytes;
    }
    all = bytes;
    for (int i = 0; rc == 0 && i < SIZES; i++, bytes /= 1.4142135623730951) {
        cut_by(a, begun, (size_t)bytes);
        for (int g = 0; g < a->n_groups; g++)
            a->group[g].move = s->moves && !a->group[g].fixed &&
                               !a->group[g].drop &&
                               LEAST_MOVE * (double)a->group[g].bytes >= all;
        rc = judge(s, limit, err);
    }
    free(begun);
    return rc;
}

/* ---- groups that are kept after all -------------------------------- */

/* For qsort(), which hands nothing on. */
struct rank {
    double worth;
    int group;
};

static int by_worth(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    if (x->worth != y->worth)
        return x->worth < y->worth ? 1 : -1;
    return (x->group > y->group) - (x->group < y->group);
}

static int rank_groups(struct search *s, struct infer_error *err)
{
    const struct again *a = &s->again;
    struct rank *rank = malloc(((size_t)a->n_groups + 1) * sizeof *rank);

    if (!rank)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int g = 0; g < a->n_groups; g++)
        rank[g] = (struct rank){
            a->group[g].cost / ((double)a->group[g].bytes + 1), g};
    qsort(rank, (size_t)a->n_groups, sizeof *rank, by_worth);
    for (int g = 0; g < a->n_groups; g++)
        s->order[g] = rank[g].group;
    free(rank);
    return 0;
}

/* Keeps groups of the cheapest choice while its peak stays within `aim`. */
static int keep_more(struct search *s, size_t aim, struct infer_error *err)
{
    struct again *a = &s->again;
    int rc = 0;

    recall(a, &s->cheapest);
    for (int i = 0; rc == 0 && i < a->n_groups && i < MAX_KEPT_LATER; i++) {
        struct again_group *g = &a->group[s->order[i]];
        const bool drop = g->drop, move = g->move;
        size_t peak;

        if (!drop && !move)
            continue;
        g->drop = g->move = false;
        rc = again_schedule(a, err);
        if (rc == 0)
            rc = again_peak(a, err, &peak);
        if (rc == 0 && peak > aim) {
            g->drop = drop;
            g->move = move;
        }
    }
    return rc;
}

/* Keeps more groups of the cheapest choice.  A peak is less than what the arena
 * takes: where gaps between buffers break the limit, the aim is lowered. */
static int refine(struct search *s, size_t limit, struct infer_error *err)
{
    size_t aim = limit;
    int rc = rank_groups(s, err);

    for (int i = 0; rc == 0 && i < SEARCHES; i++) {
        rc = keep_more(s, aim, err);
        if (rc == 0)
            rc = judge(s, limit, err);
        if (s->bytes <= limit || s->bytes - limit >= aim)
            break;
        aim -= s->bytes - limit;
    }
    return rc;
}

/* ---- the limit ----------------------------------------------------- */

/* Bytes of the network beside its activations. */
static int other_bytes(struct net *n, struct infer_error *err, size_t *out)
{
    int rc = plan_place_in_row(&n->buffers, NET_FIXED, err, out);

    *out += n->workspace_bytes + n->packed_bytes;
    for (int m = NET_FIXED + 1; m < NET_MEMORIES; m++)
        *out += net_flat_bytes(n, m);
    return rc;
}

/* arena: its fewest bytes; others: as above. */
static int refuse(const struct net *n, size_t arena, size_t others,
                  struct infer_error *err)
{
    return error_set(
        err, INFER_EMEMORY,
        "with %lld pictures per batch the network takes %llu bytes "
        "at least: %llu of activations, %llu of workspace, %llu "
        "of weights and what goes with them",
        (long long)n->options.batch, (unsigned long long)(arena + others),
        (unsigned long long)arena, (unsigned long long)n->workspace_bytes,
        (unsigned long long)(others - n->workspace_bytes));
}

static double cost_of_all(const struct again *a)
{
    double cost = 0;

    for (int g = 0; g < a->n_groups; g++)
        cost += a->group[g].cost;
    return cost;
}

/* With the host's memory too: many copies under way and ahead, fewer, none
 * ahead. */
static int move_some(struct search *s, size_t limit, struct infer_error *err)
{
    int rc;

    s->moves = true;
    for (int way = 0; way < 3; way++) {
        s->again.window = way == 0 ? limit / WINDOW : 0;
        s->again.ahead = way < 2;
        rc = try_sizes(s, limit, err);
        if (rc < 0 || s->found)
            return rc;
    }
    return 0;
}

/* others: bytes beside the arena; eval: those of the evaluation's. */
static int drop_some(struct net *n, struct search *s, size_t others,
                     size_t eval, struct infer_error *err)
{
    struct again *a = &s->again;
    const size_t limit =
        n->options.memory > others ? n->options.memory - others : 0;
    int rc = judge(s, limit, err);

    if (rc == 0 && !s->found)
        rc = try_sizes(s, limit, err);
    if (rc == 0 && !s->found && n->options.offload)
        rc = move_some(s, limit, err);
    if (rc < 0)
        return rc;
    if (!s->found || eval > limit)
        return refuse(n, s->least > eval ? s->least : eval, others, err);
    rc = refine(s, limit, err);
    recall(a, &s->cheapest);
    if (rc == 0)
        rc = again_schedule(a, err);
    if (rc == 0) {
        n->repeated_steps = a->repeated;
        n->repeated_share = a->repeated_cost / cost_of_all(a);
        rc = again_apply(a, err);
    }
    n->side_bytes = 0;
    return rc;
}

static int search(struct net *n, size_t others, size_t eval,
                  struct infer_error *err)
{
    struct search s = {.least = SIZE_MAX};
    size_t groups;
    int rc = again_new(n, err, &s.again);

    if (rc < 0)
        return rc;
    groups = (size_t)s.again.n_groups + 1;
    s.cheapest.drop = calloc(groups, sizeof *s.cheapest.drop);
    s.cheapest.move = calloc(groups, sizeof *s.cheapest.move);
    s.order = calloc(groups, sizeof *s.order);
    rc = s.cheapest.drop && s.cheapest.move && s.order
             ? drop_some(n, &s, others, eval, err)
             : error_set(err, INFER_EMEMORY, "out of memory");
    again_free(&s.again);
    free(s.cheapest.drop);
    free(s.cheapest.move);
    free(s.order);
    return rc;
}

static int fit(struct net *n, struct infer_error *err)
{
    size_t others = 0, train = 0, eval = 0;
    int rc = other_bytes(n, err, &others);

    if (rc == 0)
        rc = plan_place(&n->buffers, 1u << NET_TRAIN, true, err, &train, NULL);
    if (rc == 0)
        rc = plan_place(&n->buffers, 1u << NET_EVAL, true, err, &eval, NULL);
    if (rc < 0 || others + n->side_bytes + (train > eval ? train : eval) <=
                      n->options.memory)
        return rc;
    return search(n, others, eval, err);
}

void net_fit(struct net *n)
{
    if (n->rc == 0 && n->options.memory > 0 && !n->options.keep)
        net_check(n, fit(n, n->err));
}
