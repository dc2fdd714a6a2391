/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions that a plan for a GPU does by others give what they give
 * themselves, on the reference, and are done by others. */
#include <config.h>

#include "libinfer/device/device.h"
#include "libinfer/plan/plan.h"
#include "tests/unit/runtime/network.h"

#define BATCH 2

/* What a plan computes of x, and how many of its steps are of the operation on
 * that many dimensions. */
static struct infer_array compute(struct infer_model *model, bool apart,
                                  const struct infer_array *x, enum kern_op op,
                                  int rank, int *steps)
{
    struct device d;
    struct plan_config config = {.model = model,
                                 .device = &d,
                                 .precision = INFER_PRECISION_FP32,
                                 .apart = apart};
    struct graph_shape shape = {.rank = x->rank};
    struct infer_error err = {0};
    struct infer_array y = {.rank = 0};
    struct plan *plan;
    void *memory[2];

    memcpy(shape.dim, x->dim, sizeof shape.dim);
    assert_int_equal(device_open("cpu", 1, NULL, &err, &d), 0);
    row_tiers_choose(&d, INFER_BACKEND_REF, &config.tiers);
    if (plan_new(&config, &shape, &err, &plan) < 0 ||
        plan_prepare(plan, &err) < 0)
        fail_msg("%s", err.text);
    for (int k = 0; k < 2; k++) {
        const size_t bytes = k ? plan->workspace_bytes : plan->arena_bytes;

        /* What is never written is NaN. */
        memory[k] = aligned_alloc(64, (bytes + 64) / 64 * 64);
        assert_non_null(memory[k]);
        memset(memory[k], 0xff, (bytes + 64) / 64 * 64);
    }
    plan_bind(plan, memory[0], memory[1]);
    for (int k = 0; k < plan->n_patches; k++)
        *plan->patch[k].slot =
            (const unsigned char *)x->data + plan->patch[k].bytes;
    if (plan_launch(plan, &err) < 0)
        fail_msg("%s", err.text);
    *steps = 0;
    for (int i = 0; i < plan->steps.n; i++) {
        const struct kern_problem *p = &plan->steps.at[i]->exec.problem;

        *steps += p->op == op && p->in[0].rank == rank;
    }
    y.rank = plan->output[0].t.rank;
    memcpy(y.dim, plan->output[0].t.dim, sizeof y.dim);
    y.bytes = (size_t)kern_tensor_count(&plan->output[0].t) * sizeof(float);
    y.data = malloc(y.bytes);
    assert_non_null(y.data);
    view_gather(&plan->output[0].t, plan_locate(plan, &plan->output[0]),
                INFER_F32, y.data);
    plan_free(plan);
    free(memory[0]);
    free(memory[1]);
    device_close(&d);
    return y;
}

/* The network from its input to y, both ways; left: the steps of that kind that
 * stay. */
static void check(struct graph *g, int y, struct infer_array x, enum kern_op op,
                  int rank, int left)
{
    struct infer_model *model;
    struct infer_array as_it_is, apart;
    int steps[2];

    assert_true(graph_add_output(g, y) >= 0);
    model = model_of(g);
    as_it_is = compute(model, false, &x, op, rank, &steps[0]);
    apart = compute(model, true, &x, op, rank, &steps[1]);
    assert_true(steps[0] > left);
    assert_int_equal(steps[1], left);
    assert_close(&apart, &as_it_is, 1e-6);
    free(as_it_is.data);
    free(apart.data);
    free(x.data);
    infer_model_close(&model);
}

struct window {
    int64_t size[3];
    int stride[3], dilation[3], begin[3], end[3];
};

static int volume(struct graph *g, uint64_t *state, int x, int64_t c, int64_t k,
                  const struct window *w, int residual)
{
    const int in[4] = {
        x, weights(g, state, DIMS(k, c, w->size[0], w->size[1], w->size[2])),
        weights(g, state, DIMS(k)), residual};
    int node;
    const int v = add(g, GRAPH_CONV, NULL, in, residual >= 0 ? 4 : 3, &node);
    struct kern_conv *conv = &g->node[node].attr.conv.conv;

    for (int i = 0; i < 3; i++) {
        conv->stride[i] = w->stride[i];
        conv->dilation[i] = w->dilation[i];
        conv->pad_begin[i] = w->begin[i];
        conv->pad_end[i] = w->end[i];
    }
    g->node[node].epilogue.act.kind = KERN_RELU;
    return v;
}

TEST(test_volumes)
{
    static const struct window windows[] = {
        {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        {{3, 5, 3}, {2, 2, 1}, {1, 1, 1}, {1, 2, 0}, {1, 2, 1}},
        {{1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
        {{1, 1, 1}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
        {{3, 1, 1}, {1, 1, 1}, {2, 1, 1}, {3, 0, 0}, {0, 0, 0}},
        {{2, 3, 2}, {3, 1, 1}, {1, 1, 1}, {4, 1, 0}, {5, 1, 1}},
        {{4, 1, 2}, {1, 1, 2}, {1, 2, 1}, {0, 0, 0}, {0, 0, 0}},
    };

    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        struct graph *g = graph_new();
        uint64_t state = 88172645463325252u + i;
        int x = input(g, "x", DIMS(-1, 3, 6, 7, 8));
        int y = volume(g, &state, x, 3, 5, &windows[i], -1);

        y = volume(g, &state, y, 5, 5, &windows[2], y);
        check(g, y, array_of(&state, DIMS(BATCH, 3, 6, 7, 8)), KERN_CONV_FPROP,
              5, 0);
    }
}

static int transposed(struct graph *g, uint64_t *state, int x, int64_t c,
                      int64_t k, int64_t r, int64_t s, int stride, bool bias)
{
    const int in[3] = {x, weights(g, state, DIMS(c, k, r, s)),
                       bias ? weights(g, state, DIMS(k)) : -1};
    int node;
    const int v = add(g, GRAPH_CONV_TRANSPOSE, NULL, in, bias ? 3 : 2, &node);
    struct kern_conv *conv = &g->node[node].attr.conv.conv;

    conv->stride[0] = stride > 0 ? stride : (int)r;
    conv->stride[1] = stride > 0 ? stride : (int)s;
    g->node[node].epilogue.act.kind = KERN_RELU;
    return v;
}

TEST(test_transposed)
{
    struct graph *g = graph_new();
    uint64_t state = 3;
    int x = input(g, "x", DIMS(-1, 6, 4, 5)), y, in[2];

    y = transposed(g, &state, x, 6, 8, 2, 3, 0, true);
    y = transposed(g, &state, y, 8, 4, 3, 1, 0, false);
    /* In a concatenation, beside what was there before. */
    in[0] = add_conv(g, &state, NULL, y, 4, 8, 3, 1, 1, -1);
    in[1] = transposed(g, &state, x, 6, 12, 6, 3, 0, true);
    y = add_concat(g, NULL, in, 2, 1);
    /* Windows that overlap, and few outputs, stay. */
    y = transposed(g, &state, y, 20, 4, 3, 3, 2, true);
    y = transposed(g, &state, y, 4, 3, 2, 2, 0, true);
    check(g, y, array_of(&state, DIMS(BATCH, 6, 4, 5)),
          KERN_CONV_TRANSPOSE_FPROP, 4, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volumes),
        cmocka_unit_test(test_transposed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
