/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that cuDNN's rows are to compute, for a GPU that is only described.
 * Skipped where the library is not found. */
#include "tests/unit/runtime/network.h"

#include "tests/unit/kernels/cudnn_pretend.h"
#include "tests/unit/runtime/gpu_plan.h"

static struct plan *plan_of_conv(struct infer_model **model, int groups,
                                 enum kern_unary_kind kind)
{
    const struct graph_shape shape = {4, {1, 16, 28, 28}};
    struct graph *g = graph_new();
    uint64_t state = 3;
    int x = input(g, "x", 4, shape.dim), y;

    y = add_conv(g, &state, "y", x, 16, 16, 3, 1, groups, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(kind);
    graph_add_output(g, y);
    *model = model_of(g);
    return plan_for_gpu(*model, &shape, INFER_BACKEND_CUDNN,
                        INFER_PRECISION_BF16);
}

/* The plan's only step of an operation, or NULL. */
static const struct plan_step *only_step(const struct plan *plan,
                                         enum kern_op op)
{
    const struct plan_step *found = NULL;

    for (int i = 0; i < plan->steps.n; i++)
        if (plan->steps.at[i]->exec.problem.op == op) {
            assert_null(found);
            found = plan->steps.at[i];
        }
    return found;
}

static bool is_taken(const char *name, const struct plan *plan,
                     const struct plan_step *step)
{
    return kern_row_supports(kern_row_find(name), &step->exec.problem,
                             &plan->config->device->kern, NULL) == 0;
}

/* cuDNN 9.19 adds a bias behind a depthwise convolution in bfloat16 only where
 * it may round it.  For a GPU that is only described it makes no kernels, so
 * that it refuses to add one in single precision everywhere: the row for
 * comparison is taken, and an activation that it does not know either is a step
 * of its own.  (No problem is known here that both kinds of rows take, so that
 * which is asked first is left to runs on a GPU.) */
static void test_only_baselines(void **unused)
{
    const enum kern_unary_kind kind[] = {KERN_IDENTITY, KERN_RELU, KERN_ERF};
    struct infer_model *model;

    (void)unused;
    SKIP_WITHOUT_CUDNN();
    for (int k = 0; k < 6; k++) {
        struct plan *plan = plan_of_conv(&model, k < 3 ? 1 : 16, kind[k % 3]);
        const struct plan_step *conv = only_step(plan, KERN_CONV_FPROP);

        const char *expected =
            is_taken("conv_fprop_nhwc_bf16_cudnn", plan, conv)
                ? "conv_fprop_nhwc_bf16_cudnn"
                : "conv_fprop_nhwc_bf16_cudnn_bias16";

        assert_string_equal(conv->exec.row->name, expected);
        assert_int_equal(only_step(plan, KERN_UNARY) != NULL,
                         kind[k % 3] == KERN_ERF);
        plan_free(plan);
        infer_model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_baselines),
    };

    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
