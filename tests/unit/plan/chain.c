/* SPDX-License-Identifier: Apache-2.0 */
/* Which convolutions a plan makes one step, and that results stay. */
#include <config.h>

#include <math.h>

#include "libinfer/device/device.h"
#include "libinfer/plan/plan.h"
#include "tests/unit/runtime/network.h"

#define N    2
#define C    8
#define SIDE 6

/* How a network is made, and what stands in the way. */
enum {
    RESIDUAL = 1 << 0,   /* the input is added behind the second */
    PLAIN = 1 << 1,      /* the first is no depthwise convolution */
    TWICE = 1 << 2,      /* two chains, one behind the other */
    JOINED = 1 << 3,     /* the output is a part of a concatenation */
    READ_TWICE = 1 << 4, /* from here on: no chain.  The middle is read twice */
    OUTPUT = 1 << 5,     /* the middle is an output */
    WINDOW = 1 << 6,     /* the second has a window of 3x3 */
    STRIDED = 1 << 7,    /* the second has a stride of 2 */
    GROUPED = 1 << 8,    /* the second has groups */
    SUMMED = 1 << 9,     /* the first has a residual */
    UNKNOWN = 1 << 10,   /* the second's weights are an input */
    NO_CHAIN = ~(READ_TWICE - 1)
};

static int block(struct graph *g, uint64_t *state, int x, int how)
{
    const int groups = how & PLAIN ? 1 : C;
    const int strided = how & STRIDED ? 2 : 1;
    int y =
        add_conv(g, state, NULL, x, C, C, 3, 1, groups, how & SUMMED ? x : -1);
    int z;

    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_CLIP);
    z = add_conv(g, state, NULL, y, C, C, how & WINDOW ? 3 : 1, strided,
                 how & GROUPED ? 2 : 1, how & RESIDUAL ? x : -1);
    if (how & UNKNOWN)
        g->node[g->n_nodes - 1].in[1] = input(g, "w", DIMS(C, C, 1, 1));
    if (how & OUTPUT)
        assert_true(graph_add_output(g, y) >= 0);
    return how & READ_TWICE ? add_binary(g, NULL, z, y, KERN_ADD) : z;
}

static struct infer_model *network(int how)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int x, y;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, C, SIDE, SIDE));
    y = add_conv(g, &state, "before", x, C, C, 3, 1, 1, -1);
    y = block(g, &state, y, how);
    if (how & TWICE)
        y = block(g, &state, y, how);
    if (how & JOINED)
        y = add_concat(g, "joined", IN(y, x), 1);
    y = add_unary(g, "end", y, KERN_SIGMOID);
    assert_true(graph_add_output(g, y) >= 0);
    return model_of(g);
}

/* Runs the plan; *chains: its steps that are one.  The output, to be freed. */
static float *run_plan(const struct plan_config *config, int *chains,
                       int64_t *count)
{
    const struct graph_shape shape[2] = {{.rank = 4, .dim = {N, C, SIDE, SIDE}},
                                         {.rank = 4, .dim = {C, C, 1, 1}}};
    uint64_t state = 3;
    const struct infer_array in[2] = {array_of(&state, DIMS(N, C, SIDE, SIDE)),
                                      array_of(&state, DIMS(C, C, 1, 1))};
    struct infer_error err = {0};
    struct plan *plan;
    void *memory[2];
    float *out;

    if (plan_new(config, shape, &err, &plan) < 0 ||
        plan_prepare(plan, &err) < 0)
        fail_msg("%s", err.text);
    for (int k = 0; k < 2; k++) {
        const size_t bytes =
            (k ? plan->workspace_bytes : plan->arena_bytes) + 64;

        memory[k] = aligned_alloc(64, bytes / 64 * 64 + 64);
        assert_non_null(memory[k]);
        memset(memory[k], 0xff, bytes);
    }
    plan_bind(plan, memory[0], memory[1]);
    for (int k = 0; k < plan->n_patches; k++)
        *plan->patch[k].slot =
            (const unsigned char *)in[plan->patch[k].input].data +
            plan->patch[k].bytes;
    if (plan_launch(plan, &err) < 0)
        fail_msg("%s", err.text);
    *chains = 0;
    for (int i = 0; i < plan->steps.n; i++)
        *chains += plan->steps.at[i]->exec.problem.op == KERN_CHAIN;
    const struct view *y = &plan->output[plan->g->n_outputs - 1];
    *count = kern_tensor_count(&y->t);
    out = malloc((size_t)*count * sizeof *out);
    assert_non_null(out);
    memcpy(out, plan_locate(plan, y), (size_t)*count * sizeof *out);
    free(memory[0]);
    free(memory[1]);
    free(in[0].data);
    free(in[1].data);
    plan_free(plan);
    return out;
}

/* With chains and without; the middle is rounded in the latter alone. */
static void check(int how)
{
    struct plan_config config = {.precision = INFER_PRECISION_FP32,
                                 .chains = true};
    struct infer_error err = {0};
    struct device d;
    int chains, none;
    int64_t count[2];
    float *y[2];

    assert_int_equal(device_open("cpu", 1, NULL, &err, &d), 0);
    config.model = network(how);
    config.device = &d;
    row_tiers_choose(&d, INFER_BACKEND_REF, &config.tiers);
    y[0] = run_plan(&config, &chains, &count[0]);
    config.chains = false;
    y[1] = run_plan(&config, &none, &count[1]);
    assert_int_equal(none, 0);
    assert_int_equal(chains, how & NO_CHAIN ? 0 : how & TWICE ? 2 : 1);
    assert_int_equal(count[0], count[1]);
    for (int64_t i = 0; i < count[0]; i++)
        if (!(fabsf(y[0][i] - y[1][i]) <= 2e-6f))
            fail_msg("how %d: element %d is %g, %g without chains", how, (int)i,
                     (double)y[0][i], (double)y[1][i]);
    free(y[0]);
    free(y[1]);
    config.chains = config.keep_tensors = true;
    y[0] = run_plan(&config, &chains, &count[0]);
    assert_int_equal(chains, 0); /* every value is kept */
    free(y[0]);
    infer_model_close(&config.model);
    device_close(&d);
}

TEST(test_chains)
{
    check(0);
    check(RESIDUAL);
    check(PLAIN | RESIDUAL);
    check(TWICE | RESIDUAL);
    check(JOINED);
}

TEST(test_no_chain)
{
    for (int how = READ_TWICE; how <= UNKNOWN; how *= 2)
        check(how);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_no_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
