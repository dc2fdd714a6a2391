/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of buffers of the forward pass, which are dropped or moved as one. */
#include "tools/train/net/net_again.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool again_has(const struct again *a, const struct view *v)
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
        if (!again_has(a, &s->out[k]))
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
        if (again_has(a, &s->out[k]))
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
            const int r =
                again_has(a, &s->in[k]) ? root(parent, s->in[k].buffer) : -1;

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
    const int g = again_has(a, v) ? a->group_of[v->buffer] : -1;

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
        if (again_has(a, &v[k]) && a->group_of[v[k].buffer] >= 0)
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
