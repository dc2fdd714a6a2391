/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions. */
#include "libinfer/plan/lower.h"

/* Emits a reduction whose output keeps size 1 in the dimensions of `axes`, then
 * removes those that the graph's output lacks. */
static int reduce_over(const struct lower *l, struct plan_emit *e,
                       uint32_t axes)
{
    const int rank = e->p.out[0].rank;
    struct view out;
    int rc;

    if (lower_out(l, 0)->rank == rank)
        return lower_end(l, e);
    e->value = -1;
    rc = plan_emit(l->plan, l->index, e, l->err, &out);
    if (rc < 0)
        return rc;
    for (int i = rank - 1; i >= 0; i--)
        if (axes >> i & 1)
            out = view_drop(&out, i);
    return lower_set(l, 0, &out);
}

int lower_reduce(const struct lower *l)
{
    const struct kern_reduce *a;
    struct plan_emit e;
    bool done = false;
    int rank, rc;

    if (lower_is_integer(l))
        return lower_scaled(l);
    rc = lower_begin(l, &e);
    if (rc < 0)
        return rc;
    a = &e.p.attr.reduce;
    rank = e.in[0].t.rank;
    if (a->kind == KERN_REDUCE_MEAN && rank > 2 && a->axes == (1u << rank) - 4)
        rc = lower_squeeze(l, &done);
    return rc < 0 || done ? rc : reduce_over(l, &e, a->axes);
}

int lower_arg_reduce(const struct lower *l)
{
    struct plan_emit e;
    const int rc = lower_begin(l, &e);

    return rc < 0 ? rc : reduce_over(l, &e, 1u << e.p.attr.arg_reduce.axis);
}
