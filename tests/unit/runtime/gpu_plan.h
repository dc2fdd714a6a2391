/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for a GPU that is only described: none is needed to plan.  Behind
 * tests/unit/runtime/network.h. */
#ifndef TESTS_UNIT_RUNTIME_GPU_PLAN_H
#define TESTS_UNIT_RUNTIME_GPU_PLAN_H

#include "libinfer/device/device.h"
#include "libinfer/plan/plan.h"

/* How an H200 would run a model through a backend that was named; one plan at a
 * time. */
static inline struct plan *plan_for_gpu(struct infer_model *model,
                                        const struct graph_shape *shape,
                                        enum infer_backend backend,
                                        enum infer_precision precision)
{
    static const struct device_ops ops = {.name = "planned"};
    static const struct device gpu = {.ops = &ops,
                                      .kern = {.kind = KERN_CUDA,
                                               .sm = 90,
                                               .threads = 1,
                                               .multiprocessors = 132,
                                               .shared_per_block_optin = 232448,
                                               .l2_bytes = 50 << 20}};
    static struct plan_config config;
    struct infer_error err = {0};
    struct plan *plan;

    config = (struct plan_config){
        .model = model, .device = &gpu, .precision = precision};
    row_tiers_choose(&gpu, backend, &config.tiers);
    if (plan_new(&config, shape, &err, &plan) < 0)
        fail_msg("%s", err.text);
    return plan;
}

#endif
