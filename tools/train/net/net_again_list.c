/* SPDX-License-Identifier: Apache-2.0 */
/* The training list that a schedule makes: repeated steps and copies among the
 * steps, which read second copies of what was dropped or moved. */
#include "tools/train/net/net_again.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "libinfer/memory/arena.h"

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
        if (again_gone(a, &s->in[k]) >= 0)
            s->in[k].buffer = second[a->n_buffers + s->in[k].buffer];
    for (int k = 0; is_repeated(s) && k < KERN_MAX_OUT; k++) {
        if (s->out[k].t.dtype == INFER_NONE)
            continue;
        if (again_has(a, &s->out[k])) {
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
