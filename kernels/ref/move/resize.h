/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by resizing and its gradient: the tables of all dimensions. */
#ifndef KERNELS_REF_MOVE_RESIZE_H
#define KERNELS_REF_MOVE_RESIZE_H

#include "kernels/ref/ref.h"
#include "kernels/resize.h"

/* The state of an exec. */
struct ref_resize {
    int rank; /* 0 if a tensor is empty */
    struct resize_table table[KERN_MAX_RANK];
};

/* Fills e->state with the tables of the forward problem p. */
int ref_resize_prepare(struct kern_exec *e, const struct kern_problem *p,
                       struct infer_error *err);
/* Starts a walk over the taps of an output. */
void ref_resize_start(struct ref_walk *w, const struct ref_resize *s);
/* The weight of a tap of the output at index, and its offset in the input. */
double ref_resize_tap(const struct ref_resize *s, const int64_t *index,
                      const struct ref_walk *w, int64_t *offset);
void ref_resize_release(struct kern_exec *e);

#endif
