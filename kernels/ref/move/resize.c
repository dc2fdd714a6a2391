/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by resizing and its gradient: the tables of all dimensions. */
#include "kernels/ref/move/resize.h"

#include <stdlib.h>

void ref_resize_release(struct kern_exec *e)
{
    struct ref_resize *s = e->state;

    if (!s)
        return;
    for (int d = 0; d < s->rank; d++)
        resize_table_free(&s->table[d]);
    free(s);
    e->state = NULL;
}

int ref_resize_prepare(struct kern_exec *e, const struct kern_problem *p,
                       struct infer_error *err)
{
    struct ref_resize *s = calloc(1, sizeof(*s));

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    e->state = s;
    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    s->rank = p->in[0].rank;
    for (int d = 0; d < s->rank; d++) {
        const int r = resize_table_make(p, d, err, &s->table[d]);
        if (r < 0) {
            ref_resize_release(e);
            return r;
        }
    }
    return 0;
}

void ref_resize_start(struct ref_walk *w, const struct ref_resize *s)
{
    int64_t taps[KERN_MAX_RANK];

    for (int d = 0; d < s->rank; d++)
        taps[d] = s->table[d].taps;
    ref_walk_start(w, s->rank, taps);
}

double ref_resize_tap(const struct ref_resize *s, const int64_t *index,
                      const struct ref_walk *w, int64_t *offset)
{
    double weight = 1;

    *offset = 0;
    for (int d = 0; d < s->rank; d++) {
        const int64_t i = index[d] * s->table[d].taps + w->index[d];
        weight *= s->table[d].weight[i];
        *offset += s->table[d].index[i];
    }
    return weight;
}
