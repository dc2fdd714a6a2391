/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a row and of layouts for one problem: plan_emit.c makes steps
 * of it. */
#ifndef LIBINFER_PLAN_PLAN_CHOICE_H
#define LIBINFER_PLAN_PLAN_CHOICE_H

#include "libinfer/plan/plan.h"

/* One way to lay out a problem's tensors. */
struct plan_attempt {
    bool as_is; /* inputs where they are, else dense in `layout` */
    enum kern_layout layout;
    enum kern_layout out; /* of the output */
    /* The output's elements lie in the order of the leading input's, which is
     * neither layout: it is a view of a tensor of other dimensions. */
    bool follows;
};

struct plan_choice {
    const struct kern_row *row;
    uint32_t tier; /* of the row */
    struct plan_attempt attempt;
    struct kern_problem problem;
};

/* Of the tier's rows in the order of the table, baseline rows or the others,
 * and of the ways to lay the tensors out for each, the first that is taken;
 * false, and why, where there is none. */
bool plan_find(const struct plan *plan, const struct plan_emit *e,
               uint32_t tier, bool baselines, struct infer_error *why,
               struct plan_choice *out);
/* Whether this way copies input i into another layout first. */
bool plan_moves(const struct plan_emit *e, int i, const struct plan_attempt *a);

#endif
