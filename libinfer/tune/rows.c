/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers of backends, and the choice of a row by estimate. */
#include "libinfer/tune/rows.h"

#include <string.h>

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

/* ---- any batch ----------------------------------------------------- */

/* A tensor of `batch` images or several lines each becomes one of ROW_BATCH. */
static void resize_batch(int64_t batch, struct kern_tensor *t)
{
    int64_t image = 1;

    if (t->dtype == INFER_NONE || t->rank == 0 || t->dim[0] % batch != 0)
        return;
    /* The stride of one image is any number. */
    for (int i = 1; i < t->rank && t->dim[0] == 1; i++)
        if (t->dim[i] * t->stride[i] > image)
            image = t->dim[i] * t->stride[i];
    if (t->dim[0] == 1)
        t->stride[0] = image;
    t->dim[0] = t->dim[0] / batch * ROW_BATCH;
}

void row_at_batch(const struct kern_problem *p, int64_t batch,
                  struct kern_problem *out)
{
    memcpy(out, p, sizeof *out);
    for (int i = 0; i < out->n_in; i++)
        if (!(out->constant_in >> i & 1))
            resize_batch(batch, &out->in[i]);
    for (int i = 0; i < out->n_out; i++)
        resize_batch(batch, &out->out[i]);
    if (kern_problem_check(out, NULL) < 0)
        memcpy(out, p, sizeof *out);
}

/* The first variant without KERN_OTHER_SUMS, or -1. */
static int invariant_variant(const struct kern_row *row,
                             const struct kern_problem *p,
                             const struct kern_device *d, struct kern_exec *out)
{
    const int n = kern_variants(row, p, d, NULL);

    for (int i = 0; i < n; i++) {
        if (kern_prepare_variant(row, p, d, i, NULL, out) < 0)
            continue;
        if (!(out->flags & KERN_OTHER_SUMS))
            return i;
        kern_release(out);
    }
    return -1;
}

int row_prepare_invariant(const struct kern_row *row,
                          const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *err,
                          struct kern_exec *out)
{
    return kern_row_is_invariant(row) && invariant_variant(row, p, d, out) >= 0
               ? 0
               : kern_prepare(row, p, d, err, out);
}

/* The estimate of the row with the sums of an invariant one, in *us; false if
 * it has no such variant. */
static bool estimate_invariant(const struct kern_row *row,
                               const struct kern_problem *p,
                               const struct kern_device *d, double *us)
{
    struct kern_exec e;
    const int variant = invariant_variant(row, p, d, &e);

    if (variant < 0)
        return false;
    kern_release(&e);
    *us = row->fn->estimate_variant ? row->fn->estimate_variant(p, d, variant)
          : row->fn->estimate       ? row->fn->estimate(p, d)
                                    : 0;
    return true;
}

/* ---- rows ---------------------------------------------------------- */

bool row_takes(const struct row_query *q, const struct kern_row *row,
               struct infer_error *why)
{
    if (!q->aligned && !(row->flags & KERN_STRIDED)) {
        error_set(why, INFER_EUNSUPPORTED,
                  "%s takes inputs aligned to %d bytes", row->name,
                  ROW_GPU_ALIGN);
        return false;
    }
    if (kern_row_supports(row, q->problem, q->device, why) < 0)
        return false;
    if (q->batch > 0) {
        struct kern_problem p;

        row_at_batch(q->problem, q->batch, &p);
        return kern_row_supports(row, &p, q->device, why) == 0;
    }
    return true;
}

/* Microseconds of a row that takes the problem, 0 if it has no estimate; false
 * if it is not one of those that are asked for. */
static bool estimate_of(const struct row_query *q, const struct kern_row *row,
                        const struct kern_problem *p, bool invariant,
                        double *us)
{
    const bool gpu = q->device->kind == KERN_CUDA;

    *us = 0;
    if (q->invariant && gpu && invariant)
        return kern_row_is_invariant(row) &&
               estimate_invariant(row, p, q->device, us);
    if (q->invariant && !gpu && kern_row_is_invariant(row) != invariant)
        return false;
    if (row->fn->estimate)
        *us = row->fn->estimate(p, q->device);
    return true;
}

/* The best row of those that are invariant, or of the others. */
static const struct kern_row *best_of(const struct row_query *q, uint32_t tier,
                                      bool invariant, struct infer_error *why,
                                      double *us)
{
    const struct kern_row *best = NULL;
    struct kern_problem p;
    double lowest = 0;

    if (q->batch > 0)
        row_at_batch(q->problem, q->batch, &p);
    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);
        double estimate;

        if (!row_is_of(row, tier, q->problem->op) ||
            (row->flags & KERN_BASELINE) ||
            (best && (!best->fn->estimate || !row->fn->estimate)) ||
            !row_takes(q, row, why) ||
            !estimate_of(q, row, q->batch > 0 ? &p : q->problem, invariant,
                         &estimate))
            continue;
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
