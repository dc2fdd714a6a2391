/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers of backends, and the choice of a row by estimate. */
#include "libinfer/tune/rows.h"

#include "kernels/base/error.h"
#include "kernels/rows.h"

/* oneDNN's rows and our own for CPUs compete, also if oneDNN is named. */
#define FAST_CPU (ROW_TIER(INFER_BACKEND_ONEDNN) | ROW_TIER(INFER_BACKEND_CPU))

static void add_tier(struct row_tiers *t, uint32_t backends)
{
    t->tier[t->n++] = backends;
}

void row_tiers_choose(const struct device *d, enum infer_backend wanted,
                      struct row_tiers *out)
{
    const bool gpu = d->kern.kind == KERN_CUDA;
    const enum infer_backend whole =
        gpu ? INFER_BACKEND_CUDA : INFER_BACKEND_REF;

    *out = (struct row_tiers){.strict = wanted != INFER_BACKEND_AUTO};
    if (out->strict) {
        add_tier(out,
                 wanted == INFER_BACKEND_ONEDNN ? FAST_CPU : ROW_TIER(wanted));
        if (wanted != whole)
            add_tier(out, ROW_TIER(whole));
        return;
    }
    if (!gpu)
        add_tier(out, FAST_CPU);
    add_tier(out, ROW_TIER(whole));
    if (gpu && device_has_rows(INFER_BACKEND_CUDNN))
        add_tier(out, ROW_TIER(INFER_BACKEND_CUDNN));
}

bool row_view_is_aligned(const struct device *d, enum infer_dtype dtype,
                         int64_t offset)
{
    return d->ops->host_memory ||
           offset * (int64_t)infer_dtype_size(dtype) % ROW_GPU_ALIGN == 0;
}

bool row_takes(const struct row_query *q, const struct kern_row *row,
               struct infer_error *why)
{
    if (!q->aligned && !(row->flags & KERN_STRIDED)) {
        error_set(why, INFER_EUNSUPPORTED,
                  "%s takes inputs aligned to %d bytes", row->name,
                  ROW_GPU_ALIGN);
        return false;
    }
    return kern_row_supports(row, q->problem, q->device, why) == 0;
}

/* The best row of those that are invariant, or of those that are not. */
static const struct kern_row *best_of(const struct row_query *q, uint32_t tier,
                                      bool invariant, struct infer_error *why,
                                      double *us)
{
    const struct kern_row *best = NULL;
    double lowest = 0;

    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);
        double estimate;

        if (!row_is_of(row, tier, q->problem->op) ||
            (row->flags & KERN_BASELINE) ||
            (q->invariant && kern_row_is_invariant(row) != invariant) ||
            (best && (!best->fn->estimate || !row->fn->estimate)) ||
            !row_takes(q, row, why))
            continue;
        estimate =
            row->fn->estimate ? row->fn->estimate(q->problem, q->device) : 0;
        if (!best || estimate < lowest) {
            best = row;
            lowest = estimate;
        }
    }
    if (us)
        *us = lowest;
    return best;
}

const struct kern_row *row_best(const struct row_query *q, uint32_t tier,
                                struct infer_error *why, double *us)
{
    const struct kern_row *best = best_of(q, tier, true, why, us);

    return best || !q->invariant ? best : best_of(q, tier, false, why, us);
}
