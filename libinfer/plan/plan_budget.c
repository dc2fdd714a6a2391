/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan takes, against what it may take.  A model file of 3 KB can ask
 * for any memory and any work. */
#include <stdlib.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/plan/plan.h"

#define MIB 1048576.0

/* Bytes of constants: packed ones once a step, the others once a buffer. */
static bool constant_bytes(const struct plan *plan, size_t *out)
{
    bool *packed = calloc((size_t)plan->buffers.n + 1, sizeof *packed);
    bool fits = packed != NULL;
    size_t sum = 0;

    for (int i = 0; fits && i < plan->steps.n; i++) {
        const struct plan_step *s = plan->steps.at[i];

        for (int k = 0; fits && s->prepared && k < s->exec.problem.n_in; k++) {
            if (s->in[k].t.dtype == INFER_NONE || s->exec.packed[k] == 0)
                continue;
            packed[s->in[k].buffer] = true;
            fits = checked_add(sum, s->exec.packed[k], &sum);
        }
    }
    for (int i = 0; fits && i < plan->buffers.n; i++)
        if (plan->buffers.at[i].memory == PLAN_CONSTANT && !packed[i])
            fits = checked_add(sum, plan->buffers.at[i].bytes, &sum);
    free(packed);
    *out = sum;
    return fits;
}

/* Bytes of a plan by their use. */
struct need {
    size_t constants, workspace, total;
};

static bool count_need(const struct plan *plan, struct need *out)
{
    out->workspace = 0;
    for (int i = 0; i < plan->steps.n; i++)
        if (plan->steps.at[i]->prepared &&
            plan->steps.at[i]->exec.workspace > out->workspace)
            out->workspace = plan->steps.at[i]->exec.workspace;
    return constant_bytes(plan, &out->constants) &&
           checked_add(plan->arena_bytes, plan->kept_bytes, &out->total) &&
           checked_add(out->total, out->constants, &out->total) &&
           checked_add(out->total, out->workspace, &out->total);
}

bool plan_memory(const struct plan *plan, size_t *bytes)
{
    struct need n;

    if (!count_need(plan, &n))
        return false;
    *bytes = n.total;
    return true;
}

static int check_memory(const struct plan *plan, struct infer_error *err)
{
    const uint64_t most = plan->config->max_memory;
    struct need n;

    if (!count_need(plan, &n))
        return error_set(err, INFER_EMEMORY,
                         "plan: its bytes exceed what can be counted");
    if (n.total <= most)
        return 0;
    if (plan->config->exceeded)
        *plan->config->exceeded = true;
    return error_set(err, INFER_EMEMORY,
                     "plan: %.1f MiB are needed (activations %.1f, weights "
                     "%.1f, workspace %.1f), %.1f are allowed (max_memory)",
                     (double)n.total / MIB, (double)plan->arena_bytes / MIB,
                     ((double)n.constants + (double)plan->kept_bytes) / MIB,
                     (double)n.workspace / MIB, (double)most / MIB);
}

double plan_work(const struct plan *plan)
{
    double sum = 0;

    for (int i = 0; i < plan->steps.n; i++) {
        const struct kern_problem *p = &plan->steps.at[i]->exec.problem;

        sum += kern_problem_flops(p) + kern_problem_bytes(p);
    }
    return sum;
}

static int check_work(const struct plan *plan, struct infer_error *err)
{
    const double sum = plan_work(plan);

    if (sum <= plan->config->max_work)
        return 0;
    return error_set(err, INFER_EMEMORY,
                     "plan: a run is %.3g operations and bytes of work, %.3g "
                     "are allowed (max_work)",
                     sum, plan->config->max_work);
}

int plan_check_budget(const struct plan *plan, struct infer_error *err)
{
    int rc = 0;

    if (plan->config->max_memory > 0)
        rc = check_memory(plan, err);
    if (rc == 0 && plan->config->max_work > 0)
        rc = check_work(plan, err);
    return rc;
}
