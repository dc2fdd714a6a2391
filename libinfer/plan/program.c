/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and their places, lists of steps, and the time of each. */
#include "libinfer/plan/program.h"

#include <limits.h>
#include <stdlib.h>

#include "kernels/base/array.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/memory/arena.h"

/* ---- buffers ------------------------------------------------------- */

int plan_add_buffer(struct plan_buffers *b, int memory, size_t bytes,
                    struct infer_error *err)
{
    void *at = array_reserve(b->at, b->n, &b->capacity, sizeof *b->at);

    if (!at)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    b->at = at;
    b->at[b->n] = (struct plan_buffer){.memory = memory,
                                       .bytes = bytes,
                                       .first = INT_MAX,
                                       .last = -1,
                                       .value = -1,
                                       .copies = -1};
    return b->n++;
}

void plan_touch(struct plan_buffers *b, const struct view *v, int step)
{
    struct plan_buffer *used = &b->at[v->buffer];

    if (v->t.dtype == INFER_NONE)
        return;
    if (step < used->first)
        used->first = step;
    if (step > used->last)
        used->last = step;
}

static bool is_placed(const struct plan_buffer *b, uint32_t group)
{
    return (group >> b->memory & 1) != 0 && b->bytes > 0 && b->first != INT_MAX;
}

int plan_place(struct plan_buffers *b, uint32_t group, bool reuse,
               struct infer_error *err, size_t *total, size_t *unshared)
{
    struct arena_item *item = calloc((size_t)b->n + 1, sizeof *item);
    size_t sum = 0;
    int n = 0, rc = 0;

    if (!item)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    for (int i = 0; rc == 0 && i < b->n; i++) {
        const struct plan_buffer *p = &b->at[i];

        if (!is_placed(p, group))
            continue;
        item[n++] = (struct arena_item){.bytes = p->bytes,
                                        .first = p->first,
                                        .last = p->last < p->first ? p->first
                                                                   : p->last};
        if (!checked_add(sum, p->bytes, &sum))
            rc = error_set(err, INFER_EMEMORY,
                           "activations do not fit in memory");
    }
    if (rc == 0)
        rc = arena_place(item, n, reuse, err, total);
    n = 0;
    for (int i = 0; rc == 0 && i < b->n; i++)
        if (is_placed(&b->at[i], group))
            b->at[i].offset = item[n++].offset;
    if (unshared)
        *unshared = sum;
    free(item);
    return rc;
}

int plan_place_in_row(struct plan_buffers *b, int memory,
                      struct infer_error *err, size_t *total)
{
    size_t end = 0;

    for (int i = 0; i < b->n; i++) {
        if (b->at[i].memory != memory)
            continue;
        b->at[i].offset = end;
        if (!checked_add(end, b->at[i].bytes, &end) ||
            !checked_add(end, ARENA_ALIGN - 1, &end))
            return error_set(err, INFER_EMEMORY,
                             "constants do not fit in memory");
        end = end / ARENA_ALIGN * ARENA_ALIGN;
    }
    *total = end;
    return 0;
}

/* ---- steps --------------------------------------------------------- */

int plan_append(struct plan_steps *l, struct plan_buffers *b,
                struct plan_step *step, struct infer_error *err)
{
    void *at = array_reserve(l->at, l->n, &l->capacity, sizeof(*l->at));

    if (!at)
        return error_set(err, INFER_EMEMORY, "plan: out of memory");
    l->at = at;
    for (int i = 0; i < KERN_MAX_IN; i++)
        plan_touch(b, &step->in[i], l->n);
    for (int i = 0; i < KERN_MAX_OUT; i++)
        plan_touch(b, &step->out[i], l->n);
    l->at[l->n++] = step;
    return 0;
}

void plan_bind_step(struct plan_step *step, plan_locate_fn *locate,
                    const void *user, void *workspace, const struct device *d)
{
    for (int i = 0; i < KERN_MAX_IN; i++) {
        const void *at =
            step->packed[i] ? packed_data(step->packed[i]) : step->repacked[i];

        if (!at && step->in[i].t.dtype != INFER_NONE)
            at = locate(user, &step->in[i]);
        if (at)
            step->args.in[i] = at;
    }
    for (int i = 0; i < KERN_MAX_OUT; i++)
        if (step->out[i].t.dtype != INFER_NONE)
            step->args.out[i] = locate(user, &step->out[i]);
    step->args.workspace = workspace;
    step->args.stream = d->stream;
}

void plan_free_steps(struct plan_steps *l)
{
    for (int i = 0; i < l->n; i++) {
        if (l->at[i]->prepared)
            kern_release(&l->at[i]->exec);
        free(l->at[i]);
    }
    free(l->at);
}

/* ---- time ---------------------------------------------------------- */

static void add_time(struct plan_step *step, double seconds)
{
    step->seconds += seconds;
    step->runs++;
}

static int time_marked(const struct device *d, struct plan_step *const *step,
                       int n, plan_launch_fn *launch, void *user,
                       struct infer_error *err)
{
    int rc = d->ops->mark(d, 0, err);

    for (int i = 0; rc == 0 && i < n; i++) {
        rc = launch(user, step[i], err);
        if (rc == 0)
            rc = d->ops->mark(d, i + 1, err);
    }
    if (rc == 0)
        rc = d->ops->end(d, err);
    for (int i = 0; rc == 0 && i < n; i++) {
        double seconds;

        rc = d->ops->elapsed(d, i + 1, err, &seconds);
        if (rc == 0)
            add_time(step[i], seconds);
    }
    return rc;
}

int plan_time(const struct device *d, struct plan_step *const *step, int n,
              plan_launch_fn *launch, void *user, struct infer_error *err)
{
    double start = tune_now();
    int rc = 0;

    if (d->ops->mark)
        return time_marked(d, step, n, launch, user, err);
    for (int i = 0; rc == 0 && i < n; i++) {
        const double begin = start;

        rc = launch(user, step[i], err);
        start = tune_now();
        if (rc == 0)
            add_time(step[i], start - begin);
    }
    return rc;
}
