/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the offsets of a block's elements. */
#include "config.h"

#include "kernels/cpu/reduce/reduce_blocks.h"

#include <stdlib.h>

#include "kernels/base/error.h"

int64_t reduce_block_count(const struct kern_tensor *t, uint32_t axes)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        if (axes >> i & 1)
            n *= t->dim[i];
    return n;
}

struct kern_tensor reduce_kept(const struct kern_tensor *t, uint32_t axes)
{
    struct kern_tensor kept = *t;

    for (int i = 0; i < t->rank; i++)
        if (axes >> i & 1)
            kept.dim[i] = 1;
    return kept;
}

static void fill(const struct kern_tensor *t, uint32_t axes, int64_t count,
                 int64_t *at)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;

        at[i] = 0;
        for (int d = t->rank - 1; d >= 0; d--)
            if (axes >> d & 1) {
                at[i] += rest % t->dim[d] * t->stride[d];
                rest /= t->dim[d];
            }
    }
}

int reduce_blocks_make(struct kern_exec *e, const struct kern_device *d,
                       const struct kern_tensor *const *t, int n, uint32_t axes,
                       struct infer_error *err)
{
    struct reduce_blocks *s = malloc(sizeof *s);

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    s->base.threads = d->threads;
    s->count = reduce_block_count(t[0], axes);
    s->at = malloc((size_t)(n * s->count) * sizeof *s->at + 1);
    if (!s->at) {
        free(s);
        return error_set(err, INFER_EMEMORY, "%s: out of memory", e->row->name);
    }
    for (int i = 0; i < n; i++)
        fill(t[i], axes, s->count, s->at + i * s->count);
    e->state = s;
    return 0;
}

void reduce_blocks_release(struct kern_exec *e)
{
    struct reduce_blocks *s = e->state;

    if (!s)
        return;
    free(s->at);
    free(s);
    e->state = NULL;
}
