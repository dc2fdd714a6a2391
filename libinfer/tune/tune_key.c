/* SPDX-License-Identifier: Apache-2.0 */
/* What a problem is called in the tuning cache. */
#include <stdio.h>

#include "libinfer/tune/tune.h"

uint64_t tune_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;

    while (bytes-- > 0)
        hash = (hash ^ *p++) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

static uint64_t add_tensor(uint64_t hash, const struct kern_tensor *t)
{
    int i;

    hash = tune_hash(hash, &t->dtype, sizeof t->dtype);
    if (t->dtype == INFER_NONE)
        return hash;
    hash = tune_hash(hash, &t->rank, sizeof t->rank);
    for (i = 0; i < t->rank; i++) {
        const int64_t stride = t->dim[i] > 1 ? t->stride[i] : 0;

        hash = tune_hash(hash, &t->dim[i], sizeof t->dim[i]);
        hash = tune_hash(hash, &stride, sizeof stride);
    }
    return hash;
}

/* Which scales and zero points there are: a kernel's time does not depend on
 * their values. */
static unsigned quant_flags(const struct kern_quant *q)
{
    return (q->x_scale != 0 ? 1u : 0) | (q->y_scale != 0 ? 2u : 0) |
           (q->residual_scale != 0 ? 4u : 0) | (q->x_zero != 0 ? 8u : 0) |
           (q->y_zero != 0 ? 16u : 0) | (q->residual_zero != 0 ? 32u : 0);
}

/* The line for people and a hash of all that it leaves out. */
void tune_key(const struct kern_problem *p, char *key, size_t bytes)
{
    const unsigned flags = (p->deterministic ? 1u : 0) |
                           (p->allow_tf32 ? 2u : 0) |
                           (p->epilogue.residual_last ? 4u : 0);
    const unsigned quant = quant_flags(&p->quant);
    const struct kern_unary *act = &p->epilogue.act;
    uint64_t hash = TUNE_HASH;
    char line[512];
    int i;

    for (i = 0; i < p->n_in; i++)
        hash = add_tensor(hash, &p->in[i]);
    for (i = 0; i < p->n_out; i++)
        hash = add_tensor(hash, &p->out[i]);
    hash = tune_hash(hash, &p->constant_in, sizeof p->constant_in);
    hash = tune_hash(hash, &p->attr, sizeof p->attr);
    hash = tune_hash(hash, &quant, sizeof quant);
    hash = tune_hash(hash, &act->kind, sizeof act->kind);
    hash = tune_hash(hash, &act->a, sizeof act->a);
    hash = tune_hash(hash, &act->b, sizeof act->b);
    hash = tune_hash(hash, &flags, sizeof flags);
    snprintf(key, bytes, "%s #%016llx",
             kern_problem_format(p, line, sizeof line),
             (unsigned long long)hash);
}
