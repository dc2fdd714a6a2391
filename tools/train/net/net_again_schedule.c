/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule under one choice of dropped and moved groups, and its memory. */
#include "tools/train/net/net_again.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "libinfer/memory/arena.h"

/* ---- the schedule -------------------------------------------------- */

/* Space for a life; -1 without memory. */
static int add_life(struct again *a, size_t bytes)
{
    void *at =
        array_reserve(a->life, a->n_lives, &a->life_capacity, sizeof *a->life);

    if (!at)
        return -1;
    a->life = at;
    a->life[a->n_lives] = (struct again_life){bytes, INT_MAX, -1};
    return a->n_lives++;
}

static void live(struct again *a, int life)
{
    if (a->n_items < a->life[life].first)
        a->life[life].first = a->n_items;
    a->life[life].last = a->n_items;
}

int again_gone(const struct again *a, const struct view *v)
{
    const int g = again_has(a, v) ? a->group_of[v->buffer] : -1;

    return g >= 0 && (a->group[g].drop || a->group[g].move) ? g : -1;
}

/* Uses the buffers of the next item; later: they are second copies where their
 * group is gone. */
static int use_views(struct again *a, const struct plan_step *s, bool later,
                     bool repeated)
{
    for (int k = 0; k < KERN_MAX_IN; k++)
        if (again_has(a, &s->in[k]))
            live(a, s->in[k].buffer + (later && again_gone(a, &s->in[k]) >= 0
                                           ? a->n_buffers
                                           : 0));
    for (int k = 0; k < KERN_MAX_OUT; k++) {
        const struct view *v = &s->out[k];
        int life = v->buffer;

        if (v->t.dtype == INFER_NONE || (!repeated && !again_has(a, v)))
            continue;
        if (repeated)
            life = again_has(a, v) ? v->buffer + a->n_buffers
                                   : add_life(a, kern_tensor_span(&v->t));
        if (life < 0)
            return INFER_EMEMORY;
        live(a, life);
    }
    return 0;
}

static int add_item(struct again *a, enum again_kind kind, int index)
{
    const bool step = kind == AGAIN_STEP || kind == AGAIN_REPEAT;
    const bool again = kind == AGAIN_REPEAT;
    void *at =
        array_reserve(a->item, a->n_items, &a->item_capacity, sizeof *a->item);

    if (!at || (step && use_views(a, a->steps->at[index],
                                  again || index > a->loss, again) < 0))
        return INFER_EMEMORY;
    a->item = at;
    for (int b = step ? -1 : a->group[index].buffer; b >= 0;
         b = a->next_buffer[b])
        live(a, b + (kind >= AGAIN_IN ? a->n_buffers : 0));
    a->item[a->n_items++] = (struct again_item){kind, index};
    a->repeated += again;
    return 0;
}

/* ---- moved groups --------------------------------------------------- */

/* Waits for the copies that are under way. */
static int await(struct again *a)
{
    const bool out = a->way == AGAIN_OUT;
    int rc = 0;

    for (int i = 0; rc == 0 && i < a->n_flying; i++) {
        const int group = a->flying[i];
        if (!out)
            a->group[group].came = a->schedules;
        rc = add_item(a, out ? AGAIN_OUT_END : AGAIN_IN_END, group);
    }
    a->n_flying = 0;
    return rc;
}

static int start_copy(struct again *a, enum again_kind way, int group)
{
    a->way = way;
    a->flying[a->n_flying++] = group;
    return add_item(a, way, group);
}

/* Moves the groups that the step of the forward pass has used last, if they
 * come back. */
static int move_out(struct again *a, int step, const bool *comes_back)
{
    size_t bytes = 0;
    int rc = 0;

    for (int i = 0; i < a->n_flying; i++)
        bytes += a->group[a->flying[i]].bytes;
    for (int g = a->end[step]; g >= 0; g = a->group[g].next_end)
        bytes += comes_back[g] ? a->group[g].bytes : 0;
    if (bytes > a->window)
        rc = await(a);
    for (int g = a->end[step]; rc == 0 && g >= 0; g = a->group[g].next_end)
        if (comes_back[g])
            rc = start_copy(a, AGAIN_OUT, g);
    return rc;
}

/* Starts the next batch on its way back. */
static int start_next(struct again *a)
{
    int rc = 0;

    if (!a->ahead || a->back == a->n_moved)
        return 0;
    rc = await(a);
    for (const int need = a->need[a->back];
         rc == 0 && a->back < a->n_moved && a->need[a->back] == need; a->back++)
        rc = start_copy(a, AGAIN_IN, a->moved[a->back]);
    return rc;
}

/* Brings a moved group back for the next step, unless it has come. */
static int bring(struct again *a, int group)
{
    int rc = 0;

    if (a->group[group].came == a->schedules)
        return 0;
    if (!a->ahead) {
        rc = await(a);
        if (rc == 0)
            rc = start_copy(a, AGAIN_IN, group);
    }
    if (rc == 0)
        rc = await(a);
    return rc < 0 ? rc : start_next(a);
}

/* ---- dropped groups ------------------------------------------------- */

/* Appends what makes a group be there again, unless it is there.  plan: notes
 * the groups that come back and adds nothing.  Recursion ends: what a group
 * reads was written before it. */
static int make_again(struct again *a, int group, bool plan)
{
    struct again_group *g = &a->group[group];
    int rc = 0;

    if (g->made == a->schedules)
        return 0;
    g->made = a->schedules;
    if (g->move && plan) {
        a->moved[a->n_moved] = group;
        a->need[a->n_moved++] = a->step;
    }
    if (g->move)
        return plan ? 0 : bring(a, group);
    for (int i = 0; rc == 0 && i < g->writers; i++) {
        const struct plan_step *s = a->steps->at[g->writer[i]];

        for (int k = 0; rc == 0 && k < KERN_MAX_IN; k++) {
            const int needed = again_gone(a, &s->in[k]);

            if (needed >= 0)
                rc = make_again(a, needed, plan);
        }
        if (rc == 0 && !plan)
            rc = add_item(a, AGAIN_REPEAT, g->writer[i]);
    }
    if (!plan)
        a->repeated_cost += g->cost;
    return rc;
}

static int make_inputs(struct again *a, const struct plan_step *s, bool plan)
{
    int rc = 0;

    for (int k = 0; rc == 0 && k < KERN_MAX_IN; k++) {
        const int needed = again_gone(a, &s->in[k]);

        if (needed >= 0)
            rc = make_again(a, needed, plan);
    }
    return rc;
}

/* Bytes of the device's memory that are moved in the time in which one byte
 * goes to the host, about; copies run beside other work. */
#define MOVE_COST 30

/* Finds the groups that come back, in order. */
static int plan_moves(struct again *a, bool *comes_back)
{
    int rc = 0;

    a->schedules++;
    a->n_moved = a->back = 0;
    for (a->step = a->loss + 1; rc == 0 && a->step < a->steps->n; a->step++)
        rc = make_inputs(a, a->steps->at[a->step], true);
    for (int i = 0; i < a->n_moved; i++) {
        comes_back[a->moved[i]] = true;
        a->cost += 2.0 * MOVE_COST * (double)a->group[a->moved[i]].bytes;
    }
    return rc;
}

static int add_items(struct again *a, const bool *comes_back)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < a->steps->n; i++) {
        if (i > a->loss)
            rc = make_inputs(a, a->steps->at[i], false);
        if (rc == 0)
            rc = add_item(a, AGAIN_STEP, i);
        if (rc == 0 && i <= a->loss)
            rc = move_out(a, i, comes_back);
        if (rc == 0 && i == a->loss)
            rc = start_next(a);
    }
    return rc < 0 ? rc : await(a);
}

int again_schedule(struct again *a, struct infer_error *err)
{
    bool *comes_back = calloc((size_t)a->n_groups + 1, sizeof *comes_back);
    int rc = comes_back ? 0 : INFER_EMEMORY;

    a->n_items = a->n_lives = a->repeated = 0;
    a->cost = a->repeated_cost = 0;
    a->n_flying = 0;
    for (int i = 0; rc == 0 && i < 2 * a->n_buffers; i++)
        rc = add_life(a, a->n->buffers.at[i % a->n_buffers].bytes) < 0
                 ? INFER_EMEMORY
                 : 0;
    if (rc == 0)
        rc = plan_moves(a, comes_back);
    a->schedules++;
    if (rc == 0)
        rc = add_items(a, comes_back);
    a->cost += a->repeated_cost;
    free(comes_back);
    return rc < 0 ? error_set(err, INFER_EMEMORY, "out of memory") : 0;
}

/* ---- its memory ---------------------------------------------------- */

int again_peak(const struct again *a, struct infer_error *err, size_t *out)
{
    size_t *begin = calloc(2 * ((size_t)a->n_items + 1), sizeof *begin);
    size_t *end = begin ? begin + a->n_items + 1 : NULL, now = 0;

    *out = 0;
    if (!begin)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < a->n_lives; i++) {
        const struct again_life *l = &a->life[i];
        const size_t bytes =
            (l->bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;

        if (l->last < l->first)
            continue;
        begin[l->first] += bytes;
        end[l->last] += bytes;
    }
    for (int i = 0; i < a->n_items; i++) {
        now += begin[i];
        *out = now > *out ? now : *out;
        now -= end[i];
    }
    free(begin);
    return 0;
}

int again_place(const struct again *a, struct infer_error *err, size_t *out)
{
    struct arena_item *item = calloc((size_t)a->n_lives + 1, sizeof *item);
    int count = 0, rc;

    if (!item)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < a->n_lives; i++)
        if (a->life[i].last >= a->life[i].first && a->life[i].bytes > 0)
            item[count++] = (struct arena_item){.bytes = a->life[i].bytes,
                                                .first = a->life[i].first,
                                                .last = a->life[i].last};
    rc = arena_place(item, count, true, err, out);
    free(item);
    return rc;
}
