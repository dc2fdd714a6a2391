/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs: steps over buffers.  A step is one launch of a row of the kernel
 * table on views of buffers; a buffer is a piece of memory with the range of
 * steps that use it.  A session's plan and each list of a network in training
 * are programs.
 */
#ifndef LIBINFER_PLAN_PROGRAM_H
#define LIBINFER_PLAN_PROGRAM_H

#include "kernels/kern.h"
#include "libinfer/device/device.h"
#include "libinfer/memory/view.h"
#include "libinfer/model/packed.h"
#include "libinfer/tune/tune.h"

/* ---- buffers ------------------------------------------------------- */

struct plan_buffer {
    int memory; /* which memory it is part of: the program's own enum */
    size_t bytes;
    size_t offset; /* in that memory */
    /* Steps that use it first and last; INT_MAX and -1 while none does. */
    int first, last;
    /* ---- of sessions alone ---- */
    int value; /* PLAN_CONSTANT: graph value; PLAN_INPUT: its index */
    enum infer_dtype dtype; /* PLAN_CONSTANT: the type in which it is read */
    int copies;             /* head of the chain in plan->copy, or -1 */
    /* Reads of values in this buffer by nodes that are not lowered yet and by
     * graph outputs.  While it is 1 the node that is being lowered is the last
     * reader and may overwrite the buffer. */
    int64_t pending;
    struct packed *plain; /* PLAN_CONSTANT: where some step reads it unpacked */
};

struct plan_buffers {
    struct plan_buffer *at;
    int n, capacity;
};

/* Adds an unused buffer; returns its index, or EMEMORY. */
int plan_add_buffer(struct plan_buffers *b, int memory, size_t bytes,
                    struct infer_error *err);
/* Extends the lifetime of the view's buffer, if the view is there, to a step.
 */
void plan_touch(struct plan_buffers *b, const struct view *v, int step);
/* Gives every used buffer of a memory an offset so that buffers alive at the
 * same step do not overlap; without reuse none overlap.  *total: bytes of the
 * memory; *unshared: sum of the buffers; may be NULL.  group: the memories that
 * share one piece, one bit each. */
int plan_place(struct plan_buffers *b, uint32_t group, bool reuse,
               struct infer_error *err, size_t *total, size_t *unshared);
/* Places the buffers of a memory one after another, used or not. */
int plan_place_in_row(struct plan_buffers *b, int memory,
                      struct infer_error *err, size_t *total);

/* ---- steps --------------------------------------------------------- */

struct plan_step {
    struct kern_exec exec;
    struct kern_args args;
    struct view in[KERN_MAX_IN], out[KERN_MAX_OUT];
    struct tune_choice choice; /* of the row and its variant */
    int node;                  /* of the graph; -1: none */
    bool prepared;             /* exec is to be released */
    double seconds;            /* sum of all profiled runs */
    uint64_t runs;             /* how many they are */
    /* ---- of sessions alone ---- */
    struct packed *packed[KERN_MAX_IN]; /* constants as the row wants them */
    const struct kern_row *rule;        /* the choice without measuring */
    bool once; /* depends on constants only: run while preparing */
    bool main; /* the node's own operation, not a copy for it */
    /* ---- of training alone ---- */
    void *repacked[KERN_MAX_IN]; /* weights, packed anew before every launch */
    int stage, transfer;         /* enum net_stage, enum net_transfer */
    bool side;      /* on the device's side stream, with its own workspace */
    size_t host_at; /* of a copy to the host's memory or back: where there */
};

struct plan_steps {
    struct plan_step **at;
    int n, capacity;
};

/* Appends a step, which belongs to the list from then on, and extends the
 * lifetimes of the buffers that it uses. */
int plan_append(struct plan_steps *l, struct plan_buffers *b,
                struct plan_step *step, struct infer_error *err);
/* Where a view's element with indices 0 lies; NULL: not known yet. */
typedef void *plan_locate_fn(const void *user, const struct view *v);
/* Sets a step's pointers: packed inputs to their bytes, other views to what
 * `locate` says.  An input that it does not know keeps its pointer. */
void plan_bind_step(struct plan_step *step, plan_locate_fn *locate,
                    const void *user, void *workspace, const struct device *d);
/* Releases the steps' kernels and frees the list; what else a step owns is the
 * caller's to release first. */
void plan_free_steps(struct plan_steps *l);

typedef int plan_launch_fn(void *user, struct plan_step *step,
                           struct infer_error *err);
/* Launches n steps one by one and adds up the seconds of each: between marks of
 * the device where it has them, after which the run has ended. */
int plan_time(const struct device *d, struct plan_step *const *step, int n,
              plan_launch_fn *launch, void *user, struct infer_error *err);

#endif
