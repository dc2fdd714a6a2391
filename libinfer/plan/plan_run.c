/* SPDX-License-Identifier: Apache-2.0 */
/* Launches or records the steps of a plan in order. */
#include "kernels/base/error.h"
#include "libinfer/plan/plan.h"

int plan_launch_step(const struct plan *plan, const struct plan_step *step,
                     struct infer_error *err)
{
    const int rc =
        device_launch(plan->config->device, &step->exec, &step->args, err);

    if (rc < 0)
        error_prefix(err, "node '%s' (%s)", plan_step_name(plan, step),
                     step->exec.row->name);
    return rc;
}

int plan_launch(const struct plan *plan, struct infer_error *err)
{
    int i, rc = 0;

    for (i = 0; rc == 0 && i < plan->n_run; i++)
        rc = plan_launch_step(plan, plan->run[i], err);
    return rc;
}

int plan_record(const struct plan *plan, struct infer_error *err,
                struct device_graph **out)
{
    const struct device *d = plan->config->device;
    const int rc = d->ops->record_begin(d, err);

    return rc < 0 ? rc : device_record_end(d, plan_launch(plan, err), err, out);
}
