/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that cuDNN's rows are to compute, for a GPU that is only described.
 * Skipped where the library is not found. */
#include "tests/unit/network.h"

#include "tests/unit/cudnn_pretend.h"
#include "tests/unit/gpu_plan.h"

/* Whether the row that the planner takes first computes what a step does. */
static bool is_refused(const struct plan *plan, const struct plan_step *step)
{
    const struct kern_row *row = kern_row_find("conv_fprop_nhwc_bf16_cudnn");

    return kern_row_supports(row, &step->exec.problem,
                             &plan->config->device->kern, NULL) < 0;
}

/* One convolution in bfloat16 with this activation: a row for comparison, which
 * rounds the bias, where and only where the other refuses, and the activation a
 * step of its own where neither knows it. */
static void expect_rows(int groups, enum kern_unary_kind kind, bool fused)
{
    const struct graph_shape shape = {4, {1, 16, 28, 28}};
    struct graph *g = graph_new();
    struct infer_model *model;
    struct plan *plan;
    uint64_t state = 3;
    int x = input(g, "x", 4, shape.dim), y, convs = 0, unary = 0;

    y = add_conv(g, &state, "y", x, 16, 16, 3, 1, groups, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(kind);
    graph_add_output(g, y);
    model = model_of(g);
    plan =
        plan_for_gpu(model, &shape, INFER_BACKEND_CUDNN, INFER_PRECISION_BF16);
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = plan->step[i];
        const struct kern_row *row = step->exec.row;

        unary += row->op == KERN_UNARY;
        if (row->op != KERN_CONV_FPROP)
            continue;
        convs++;
        assert_int_equal(row->backend, INFER_BACKEND_CUDNN);
        assert_int_equal((row->flags & KERN_BASELINE) != 0,
                         is_refused(plan, step));
    }
    assert_int_equal(convs, 1);
    assert_int_equal(unary, !fused);
    plan_free(plan);
    infer_model_close(&model);
}

/* cuDNN 9.19 adds a bias behind a depthwise convolution in bfloat16 only where
 * it may round it; for a GPU that is only described it makes no kernels, so
 * that it refuses others as well. */
static void test_only_baselines(void **unused)
{
    (void)unused;
    SKIP_WITHOUT_CUDNN();
    for (int groups = 1; groups <= 16; groups += 15) {
        expect_rows(groups, KERN_IDENTITY, true);
        expect_rows(groups, KERN_RELU, true);
        expect_rows(groups, KERN_ERF, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_baselines),
    };

    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
