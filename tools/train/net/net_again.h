/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recomputation: activations that the backward pass reads are dropped after the
 * forward pass and computed a second time when the backward pass needs them
 * (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
 *
 * Buffers that one step writes together form a group, and a group is dropped or
 * kept as a whole.  A schedule is the training list under one choice of dropped
 * groups: before the step of the backward pass that reads a dropped group come
 * the steps that write it, and before those the steps that write what they
 * read.  Each group is computed again at most once.
 *
 * A group may instead be moved to the host's memory after its last use in the
 * forward pass, and back before its first use in the backward pass (Rhu et al.,
 * "vDNN: Virtualized Deep Neural Networks", 2016).  Copies run beside the steps
 * that follow.  Those to the host are awaited, all at once, before the next one
 * if more than a window of bytes were under way then.  Ahead: the groups that
 * one step needs start on their way back together, when those of the step
 * before have come; else each when it is needed.
 */
#ifndef TOOLS_TRAIN_NET_NET_AGAIN_H
#define TOOLS_TRAIN_NET_NET_AGAIN_H

#include "tools/train/net/net.h"

struct again_group {
    int *writer; /* steps that write it, in order */
    int writers;
    int first, last; /* steps of the forward pass that use it */
    size_t bytes;
    double cost;     /* of the writers, see again_new() */
    bool fixed;      /* must be kept */
    bool drop, move; /* not both */
    int made;        /* the pass of a schedule that has it again */
    int came;        /* the pass in which it has come back */
    int buffer;   /* the first of its buffers; next_buffer[] has the others */
    int next_end; /* the next group that has the same `last`; -1: none */
};

/* One step of a schedule: a step of the list, a repeated one, or a copy of a
 * group that begins or is awaited. */
enum again_kind {
    AGAIN_STEP,
    AGAIN_REPEAT,
    AGAIN_OUT,
    AGAIN_OUT_END,
    AGAIN_IN,
    AGAIN_IN_END
};
struct again_item {
    enum again_kind kind;
    int index; /* of the step or of the group */
};

/* The steps at which a buffer is used first and last; first > last: none. */
struct again_life {
    size_t bytes;
    int first, last;
};

struct again {
    struct net *n;
    const struct plan_steps *steps; /* of the training list */
    int loss;                       /* its step; the backward pass follows */
    int n_buffers;
    int *group_of; /* of each buffer; -1: not of the forward pass */
    struct again_group *group;
    int n_groups;
    size_t *crossing; /* bytes that are used before and after each step of the
                       * forward pass */
    /* ---- the last schedule ---- */
    bool ahead;    /* moved groups come back ahead: the caller's choice */
    size_t window; /* of copies to the host: the caller's too */
    int schedules; /* how many passes there were */
    struct again_item *item;
    int n_items, item_capacity, repeated; /* of them, AGAIN_REPEAT */
    int *moved, *need; /* groups that come back in their order, and the steps
                        * that need them */
    int n_moved, back; /* back: of them, those that are on their way or there */
    int *flying, n_flying; /* groups whose copies are not awaited */
    enum again_kind way;   /* of those */
    int step;              /* for which moved groups are planned */
    /* Of each buffer, of its second copy (from n_buffers on), and of what
     * repeated steps write to no purpose (from 2 n_buffers on). */
    struct again_life *life;
    int n_lives, life_capacity;
    double cost; /* of the repeated steps and of the copies */
    double repeated_cost;
    int *next_buffer; /* of the same group; -1: none */
    int *end;         /* of each step of the forward pass: the first group that
                       * it uses last; -1: none */
};

/* Groups of the training list.  A cost is in bytes: those that a step moves,
 * and its operations at the rate of the device's kind.  EMEMORY. */
int again_new(struct net *n, struct infer_error *err, struct again *out);
void again_free(struct again *a);
/* True of a view of an activation, which may belong to a group. */
bool again_has(const struct again *a, const struct view *v);
/* The group that a view is part of, if it is dropped or moved; -1: none. */
int again_gone(const struct again *a, const struct view *v);
/* net_again_schedule.c: makes the schedule of the groups' `drop` and `move`.
 * EMEMORY. */
int again_schedule(struct again *a, struct infer_error *err);
/* Most bytes of the schedule alive at once, without gaps between buffers. */
int again_peak(const struct again *a, struct infer_error *err, size_t *out);
/* Bytes of the arena that the schedule takes. */
int again_place(const struct again *a, struct infer_error *err, size_t *out);
/* net_again_list.c: makes the schedule the network's training list. */
int again_apply(struct again *a, struct infer_error *err);

#endif
