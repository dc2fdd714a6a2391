/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of buffers, and the schedule under one choice of dropped groups. */
#include "tools/train/net/net_again.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "libinfer/memory/arena.h"

/* ---- groups -------------------------------------------------------- */

static bool is_activation(const struct again *a, const struct view *v)
{
    return v->t.dtype != INFER_NONE &&
           a->n->buffers.at[v->buffer].memory == NET_TRAIN;
}

static int root(int *parent, int i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* Joins the buffers that a step writes. */
static void join_outputs(const struct again *a, int step, int *parent)
{
    const struct plan_step *s = a->steps->at[step];
    int first = -1;

    for (int k = 0; k < KERN_MAX_OUT; k++) {
        if (!is_activation(a, &s->out[k]))
            continue;
        if (first < 0)
            first = s->out[k].buffer;
        parent[root(parent, s->out[k].buffer)] = root(parent, first);
    }
}

static int written(const struct again *a, int step)
{
    const struct plan_step *s = a->steps->at[step];

    for (int k = 0; k < KERN_MAX_OUT; k++)
        if (is_activation(a, &s->out[k]))
            return s->out[k].buffer;
    return -1;
}

/* The steps that write each root's buffers first and last. */
struct span {
    int first, last;
};

static void find_spans(const struct again *a, int *parent, struct span *span)
{
    for (int b = 0; b < a->n_buffers; b++)
        span[b] = (struct span){INT_MAX, -1};
    for (int i = 0; i < a->loss; i++) {
        const int b = written(a, i);
        struct span *s = b < 0 ? NULL : &span[root(parent, b)];

        if (!s)
            continue;
        s->first = i < s->first ? i : s->first;
        s->last = i;
    }
}

/* What is computed from a group before it is whole belongs to it: its steps run
 * between those of the group.  True if something was joined. */
static bool join_halves(const struct again *a, int *parent,
                        const struct span *span)
{
    bool joined = false;

    for (int i = 0; i < a->loss; i++) {
        const struct plan_step *s = a->steps->at[i];
        const int out = written(a, i);

        for (int k = 0; out >= 0 && k < KERN_MAX_IN; k++) {
            const int r = is_activation(a, &s->in[k])
                              ? root(parent, s->in[k].buffer)
                              : -1;

            if (r < 0 || i <= span[r].first || i >= span[r].last ||
                r == root(parent, out))
                continue;
            parent[root(parent, out)] = r;
            joined = true;
        }
    }
    return joined;
}

/* Numbers the roots of what the forward pass writes. */
static int number_groups(struct again *a, int *parent)
{
    for (int b = 0; b < a->n_buffers; b++)
        a->group_of[b] = -1;
    for (int i = 0; i < a->loss; i++) {
        const int b = written(a, i), r = b < 0 ? -1 : root(parent, b);

        if (r >= 0 && a->group_of[r] < 0)
            a->group_of[r] = a->n_groups++;
    }
    for (int b = 0; b < a->n_buffers; b++)
        a->group_of[b] = a->group_of[root(parent, b)];
    a->group = calloc((size_t)a->n_groups + 1, sizeof *a->group);
    return a->group ? 0 : INFER_EMEMORY;
}

/* Operations that take as long as a byte of memory, in magnitude: of a GPU's
 * tensor cores, and of a CPU's vector units. */
#define OPERATIONS_CUDA 100
#define OPERATIONS_CPU  10

static double step_cost(const struct again *a, const struct plan_step *s)
{
    const bool cuda = a->n->options.device->kern.kind == KERN_CUDA;

    return kern_problem_bytes(&s->exec.problem) +
           kern_problem_flops(&s->exec.problem) /
               (cuda ? OPERATIONS_CUDA : OPERATIONS_CPU);
}

static int add_writer(struct again *a, struct again_group *g, int step)
{
    int *more = realloc(g->writer, ((size_t)g->writers + 1) * sizeof *more);

    if (!more)
        return INFER_EMEMORY;
    g->writer = more;
    g->writer[g->writers++] = step;
    g->cost += step_cost(a, a->steps->at[step]);
    return 0;
}

static void use_group(struct again *a, const struct view *v, int step)
{
    const int g = is_activation(a, v) ? a->group_of[v->buffer] : -1;

    if (g >= 0 && step <= a->loss && step < a->group[g].first)
        a->group[g].first = step;
    if (g >= 0 && step <= a->loss && step > a->group[g].last)
        a->group[g].last = step;
}

/* Keeps what the loss or the backward pass writes, and what processes
 * exchange. */
static void fix(struct again *a, int step)
{
    const struct plan_step *s = a->steps->at[step];
    const struct view *v = s->transfer ? s->in : s->out;
    const int count = s->transfer ? 1 : step >= a->loss ? KERN_MAX_OUT : 0;

    for (int k = 0; k < count; k++)
        if (is_activation(a, &v[k]) && a->group_of[v[k].buffer] >= 0)
            a->group[a->group_of[v[k].buffer]].fixed = true;
}

static int fill_groups(struct again *a)
{
    int rc = 0;

    for (int g = 0; g < a->n_groups; g++)
        a->group[g].first = INT_MAX;
    for (int b = 0; b < a->n_buffers; b++)
        if (a->group_of[b] >= 0)
            a->group[a->group_of[b]].bytes += a->n->buffers.at[b].bytes;
    for (int i = 0; rc == 0 && i < a->steps->n; i++) {
        const int b = i < a->loss ? written(a, i) : -1;

        fix(a, i);
        for (int k = 0; k < KERN_MAX_IN; k++)
            use_group(a, &a->steps->at[i]->in[k], i);
        for (int k = 0; k < KERN_MAX_OUT; k++)
            use_group(a, &a->steps->at[i]->out[k], i);
        if (b >= 0)
            rc = add_writer(a, &a->group[a->group_of[b]], i);
    }
    return rc;
}

static void count_crossing(struct again *a)
{
    for (int g = 0; g < a->n_groups; g++)
        for (int i = a->group[g].first; i < a->group[g].last && i < a->loss;
             i++)
            a->crossing[i] += a->group[g].bytes;
}

/* Lists the buffers of each group, and the groups that end at each step. */
static void link_groups(struct again *a)
{
    for (int g = 0; g < a->n_groups; g++)
        a->group[g].buffer = -1;
    for (int b = a->n_buffers - 1; b >= 0; b--) {
        struct again_group *g =
            a->group_of[b] < 0 ? NULL : &a->group[a->group_of[b]];
        a->next_buffer[b] = g ? g->buffer : -1;
        if (g)
            g->buffer = b;
    }
    for (int i = 0; i <= a->loss; i++)
        a->end[i] = -1;
    for (int g = a->n_groups - 1; g >= 0; g--) {
        const int last = a->group[g].last;
        a->group[g].next_end = a->end[last];
        a->end[last] = g;
    }
}

static int make_groups(struct again *a)
{
    const size_t count = (size_t)a->n_buffers + 1;
    int *parent = malloc(count * sizeof *parent), rc = INFER_EMEMORY;
    struct span *span = malloc(count * sizeof *span);

    if (parent && span) {
        for (int b = 0; b < a->n_buffers; b++)
            parent[b] = b;
        for (int i = 0; i < a->loss; i++)
            join_outputs(a, i, parent);
        do
            find_spans(a, parent, span);
        while (join_halves(a, parent, span));
        rc = number_groups(a, parent);
    }
    free(parent);
    free(span);
    if (rc == 0)
        rc = fill_groups(a);
    a->moved = malloc(3 * ((size_t)a->n_groups + 1) * sizeof *a->moved);
    if (rc == 0 && !a->moved)
        rc = INFER_EMEMORY;
    if (rc == 0) {
        a->need = a->moved + a->n_groups + 1;
        a->flying = a->need + a->n_groups + 1;
    }
    if (rc == 0) {
        count_crossing(a);
        link_groups(a);
    }
    return rc;
}

int again_new(struct net *n, struct infer_error *err, struct again *out)
{
    struct again *a = out;

    memset(a, 0, sizeof *a);
    a->n = n;
    a->steps = &n->list[NET_LIST_TRAIN].steps;
    a->n_buffers = n->buffers.n;
    while (a->loss < a->steps->n && a->steps->at[a->loss]->stage != NET_LOSS)
        a->loss++;
    a->group_of = malloc(((size_t)a->n_buffers + 1) * sizeof *a->group_of);
    a->crossing = calloc((size_t)a->loss + 1, sizeof *a->crossing);
    a->next_buffer =
        malloc(((size_t)a->n_buffers + 1) * sizeof *a->next_buffer);
    a->end = malloc(((size_t)a->loss + 1) * sizeof *a->end);
    if (a->group_of && a->crossing && a->next_buffer && a->end &&
        make_groups(a) == 0)
        return 0;
    again_free(a);
    return error_set(err, INFER_EMEMORY, "out of memory");
}

void again_free(struct again *a)
{
    for (int g = 0; a->group && g < a->n_groups; g++)
        free(a->group[g].writer);
    free(a->group);
    free(a->group_of);
    free(a->crossing);
    free(a->item);
    free(a->life);
    free(a->moved);
    free(a->next_buffer);
    free(a->end);
    memset(a, 0, sizeof *a);
}

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

/* The group that a view is part of, if it is dropped or moved; -1: none. */
static int gone(const struct again *a, const struct view *v)
{
    const int g = is_activation(a, v) ? a->group_of[v->buffer] : -1;

    return g >= 0 && (a->group[g].drop || a->group[g].move) ? g : -1;
}

/* Uses the buffers of the next item; later: they are second copies where their
 * group is gone. */
static int use_views(struct again *a, const struct plan_step *s, bool later,
                     bool repeated)
{
    for (int k = 0; k < KERN_MAX_IN; k++)
        if (is_activation(a, &s->in[k]))
            live(a, s->in[k].buffer +
                        (later && gone(a, &s->in[k]) >= 0 ? a->n_buffers : 0));
    for (int k = 0; k < KERN_MAX_OUT; k++) {
        const struct view *v = &s->out[k];
        int life = v->buffer;

        if (v->t.dtype == INFER_NONE || (!repeated && !is_activation(a, v)))
            continue;
        if (repeated)
            life = is_activation(a, v) ? v->buffer + a->n_buffers
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
            const int needed = gone(a, &s->in[k]);

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
        const int needed = gone(a, &s->in[k]);

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

/* ---- the new list -------------------------------------------------- */

/* Buffers for the lives beyond those that are there, in the same order. */
static int add_buffers(struct again *a, int *second, struct infer_error *err)
{
    int rc = 0;

    for (int i = a->n_buffers; rc >= 0 && i < a->n_lives; i++) {
        const struct again_life *l = &a->life[i];

        if (i >= 2 * a->n_buffers || l->last >= l->first)
            rc = second[i] =
                plan_add_buffer(&a->n->buffers, NET_TRAIN, l->bytes, err);
    }
    return rc < 0 ? rc : 0;
}

static bool is_repeated(const struct plan_step *s)
{
    return s->stage == NET_RECOMPUTE;
}

/* A step that runs the kernel of another. */
static struct plan_step *repeat(const struct plan_step *of,
                                struct infer_error *err)
{
    struct plan_step *s = malloc(sizeof *s);

    if (!s) {
        error_set(err, INFER_EMEMORY, "out of memory");
        return NULL;
    }
    *s = *of;
    s->prepared = false;
    s->stage = NET_RECOMPUTE;
    return s;
}

/* Replaces views of dropped groups by those of their second copies; *extra: the
 * next life of what is written to no purpose. */
static void redirect(const struct again *a, struct plan_step *s,
                     const int *second, int *extra)
{
    for (int k = 0; k < KERN_MAX_IN; k++)
        if (gone(a, &s->in[k]) >= 0)
            s->in[k].buffer = second[a->n_buffers + s->in[k].buffer];
    for (int k = 0; is_repeated(s) && k < KERN_MAX_OUT; k++) {
        if (s->out[k].t.dtype == INFER_NONE)
            continue;
        if (is_activation(a, &s->out[k])) {
            s->out[k].buffer = second[a->n_buffers + s->out[k].buffer];
        } else {
            s->out[k].buffer = second[(*extra)++];
            s->out[k].offset = 0;
        }
    }
}

/* Appends a step of a copy for each buffer of a group. */
static int append_copies(const struct again *a, const struct again_item *item,
                         const int *second, struct plan_steps *to,
                         struct infer_error *err)
{
    static const enum net_transfer kinds[] = {[AGAIN_OUT] = NET_OUT,
                                              [AGAIN_OUT_END] = NET_AWAIT,
                                              [AGAIN_IN] = NET_IN,
                                              [AGAIN_IN_END] = NET_AWAIT};
    struct net *n = a->n;
    int rc = 0;

    for (int b = a->group[item->index].buffer; rc == 0 && b >= 0;
         b = a->next_buffer[b]) {
        const int64_t bytes = (int64_t)n->buffers.at[b].bytes;
        struct view v = {
            .buffer = item->kind < AGAIN_IN ? b : second[a->n_buffers + b]};
        struct plan_step *s;

        v.t = kern_tensor_dense(INFER_U8, 1, &bytes, KERN_NCHW);
        s = net_transfer_step(n, kinds[item->kind], -1, &v);
        if (!s)
            return INFER_EMEMORY;
        if (item->kind == AGAIN_OUT) {
            n->buffers.at[b].offset = n->host_bytes; /* until it is placed */
            n->host_bytes +=
                ((size_t)bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
        }
        s->host_at = n->buffers.at[b].offset;
        rc = plan_append(to, &n->buffers, s, err);
        if (rc < 0)
            free(s);
    }
    return rc;
}

/* Appends a step of the list or one that repeats it; *extra: see redirect().  A
 * step on the side stream goes back to the others, since its buffers live to
 * the end of the list there. */
static int append_step(const struct again *a, const struct again_item *item,
                       const int *second, int *extra, struct plan_steps *to,
                       struct infer_error *err)
{
    const bool again = item->kind == AGAIN_REPEAT;
    struct plan_step *s = a->steps->at[item->index];
    int rc;

    if (again)
        s = repeat(s, err);
    if (!s)
        return INFER_EMEMORY;
    s->side = false;
    if (again || item->index > a->loss)
        redirect(a, s, second, extra);
    rc = plan_append(to, &a->n->buffers, s, err);
    if (rc < 0 && again)
        free(s);
    return rc;
}

static int append_items(struct again *a, const int *second,
                        struct plan_steps *to, struct infer_error *err)
{
    int extra = 2 * a->n_buffers, rc = 0;

    for (int i = 0; rc == 0 && i < a->n_items; i++)
        rc = a->item[i].kind <= AGAIN_REPEAT
                 ? append_step(a, &a->item[i], second, &extra, to, err)
                 : append_copies(a, &a->item[i], second, to, err);
    return rc;
}

/* Whether a schedule has added the step. */
static bool is_own(const struct plan_step *s)
{
    return is_repeated(s) || s->transfer == NET_OUT || s->transfer == NET_IN ||
           s->transfer == NET_AWAIT;
}

static void forget_lives(struct plan_buffers *b)
{
    for (int i = 0; i < b->n; i++)
        if (b->at[i].memory == NET_TRAIN) {
            b->at[i].first = INT_MAX;
            b->at[i].last = -1;
        }
}

int again_apply(struct again *a, struct infer_error *err)
{
    struct plan_steps *old = &a->n->list[NET_LIST_TRAIN].steps, fresh = {0};
    int *second = malloc(((size_t)a->n_lives + 1) * sizeof *second);
    int rc = second ? add_buffers(a, second, err)
                    : error_set(err, INFER_EMEMORY, "out of memory");

    if (rc == 0) {
        forget_lives(&a->n->buffers);
        rc = append_items(a, second, &fresh, err);
    }
    free(second);
    if (rc < 0) { /* the old list keeps its steps */
        for (int i = 0; i < fresh.n; i++)
            if (is_own(fresh.at[i]))
                free(fresh.at[i]);
        free(fresh.at);
        return rc;
    }
    free(old->at);
    *old = fresh;
    return 0;
}
