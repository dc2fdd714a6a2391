/* SPDX-License-Identifier: Apache-2.0 */
/* Channels that a plan pads: the result's bits stay, which values are padded,
 * and which must not be. */
#include <config.h>

#include "libinfer/device/device.h"
#include "libinfer/plan/plan.h"
#include "tests/unit/runtime/network.h"

#define N    2
#define SIDE 6
#define ODD  27

/* A plan in half precision on the reference, with and without padding; the
 * output's bits must be the same.  Returns the padded one, which is to be freed
 * before the model. */
static struct plan *check(struct infer_model *model, struct device *d,
                          struct plan_config *config)
{
    const struct graph_shape shape = {.rank = 4, .dim = {N, 3, SIDE, SIDE}};
    uint64_t state = 3;
    struct infer_array x = array_of(&state, DIMS(N, 3, SIDE, SIDE));
    struct infer_error err = {0};
    struct plan *plan[2];
    void *memory[2][2];

    assert_int_equal(device_open("cpu", 1, NULL, &err, d), 0);
    *config = (struct plan_config){
        .model = model, .device = d, .precision = INFER_PRECISION_FP16};
    row_tiers_choose(d, INFER_BACKEND_REF, &config->tiers);
    for (int i = 0; i < 2; i++) {
        config->pad_channels = i == 1;
        if (plan_new(config, &shape, &err, &plan[i]) < 0 ||
            plan_prepare(plan[i], &err) < 0)
            fail_msg("%s", err.text);
        for (int k = 0; k < 2; k++) {
            const size_t bytes =
                k ? plan[i]->workspace_bytes : plan[i]->arena_bytes;

            /* What is never written is NaN. */
            memory[i][k] = aligned_alloc(64, (bytes + 64) / 64 * 64);
            assert_non_null(memory[i][k]);
            memset(memory[i][k], 0xff, (bytes + 64) / 64 * 64);
        }
        plan_bind(plan[i], memory[i][0], memory[i][1]);
        for (int k = 0; k < plan[i]->n_patches; k++)
            *plan[i]->patch[k].slot =
                (const unsigned char *)x.data + plan[i]->patch[k].bytes;
        if (plan_launch(plan[i], &err) < 0)
            fail_msg("%s", err.text);
    }
    for (int k = 0; k < plan[0]->g->n_outputs; k++) {
        const struct kern_tensor *t = &plan[0]->output[k].t;
        const size_t bytes = (size_t)kern_tensor_count(t) * sizeof(float);

        assert_memory_equal(t->dim, plan[1]->output[k].t.dim, sizeof t->dim);
        assert_memory_equal(plan_locate(plan[0], &plan[0]->output[k]),
                            plan_locate(plan[1], &plan[1]->output[k]), bytes);
    }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            free(memory[i][k]);
    free(x.data);
    plan_free(plan[0]);
    return plan[1];
}

/* The channels of a value in the padded plan. */
static int64_t channels(const struct plan *plan, const char *name)
{
    const int v = graph_find_value(plan->g, name);

    assert_true(v >= 0);
    return plan->g->value[v].dim[1];
}

static int count_nodes(const struct plan *plan, enum graph_op op)
{
    int n = 0;

    for (int i = 0; i < plan->g->n_nodes; i++)
        n += plan->g->node[i].op == op;
    return n;
}

/* A network, what follows checks of it, and its end. */
struct made {
    struct graph *g;
    uint64_t state;
    struct infer_model *model;
    struct device d;
    struct plan_config config;
    struct plan *plan;
};

static int begin(struct made *m)
{
    memset(m, 0, sizeof *m);
    m->g = graph_new();
    m->state = 88172645463325252u;
    assert_non_null(m->g);
    return input(m->g, "x", DIMS(-1, 3, SIDE, SIDE));
}

static int conv(struct made *m, const char *name, int x, int c, int k,
                int window, int groups, int residual, enum kern_unary_kind act)
{
    const int v =
        add_conv(m->g, &m->state, name, x, c, k, window, 1, groups, residual);

    m->g->node[m->g->n_nodes - 1].epilogue.act = graph_unary(act);
    return v;
}

static void run_made(struct made *m, int output)
{
    assert_true(graph_add_output(m->g, output) >= 0);
    m->model = model_of(m->g);
    m->plan = check(m->model, &m->d, &m->config);
}

static void end(struct made *m)
{
    plan_free(m->plan);
    infer_model_close(&m->model);
    device_close(&m->d);
}

static int global_mean(struct made *m, const char *name, int x)
{
    int node, v = add(m->g, GRAPH_POOL, name, IN(x), &node);

    m->g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    return v;
}

/* A mobile block with squeeze-and-excitation, vectors of every kind, and a
 * classifier: all that lies between is padded. */
TEST(test_block)
{
    struct made m;
    int x = begin(&m), y, z, gate, node;

    x = conv(&m, "stem", x, 3, ODD, 3, 1, -1, KERN_SILU);
    y = conv(&m, "expanded", x, ODD, 54, 1, 1, -1, KERN_HARD_SWISH);
    y = conv(&m, "depthwise", y, 54, 54, 3, 54, -1, KERN_CLIP);
    gate = global_mean(&m, "mean", y);
    gate = conv(&m, "less", gate, 54, 14, 1, 1, -1, KERN_RELU);
    gate = conv(&m, "gate", gate, 14, 54, 1, 1, -1, KERN_SIGMOID);
    y = add_binary(m.g, "gated", y, gate, KERN_MUL);
    y = conv(&m, "sum", y, 54, ODD, 1, 1, x, KERN_IDENTITY);
    z = weights(m.g, &m.state, DIMS(ODD, 1, 1));
    y = add_binary(m.g, "scaled", y, z, KERN_MUL);
    y = add(m.g, GRAPH_SCALE_SHIFT, "shifted",
            IN(y, weights(m.g, &m.state, DIMS(ODD)),
               weights(m.g, &m.state, DIMS(ODD))),
            NULL);
    y = add_unary(m.g, "smooth", y, KERN_GELU);
    y = add(m.g, GRAPH_POOL, "pooled", IN(y), &node);
    for (int i = 0; i < 2; i++) {
        m.g->node[node].attr.pool.pool.window[i] = 2;
        m.g->node[node].attr.pool.pool.stride[i] = 2;
    }
    y = add(m.g, GRAPH_FLATTEN, "flat", IN(global_mean(&m, "means", y)), NULL);
    y = add(m.g, GRAPH_DENSE, "hidden",
            IN(y, weights(m.g, &m.state, DIMS(29, ODD)),
               weights(m.g, &m.state, DIMS(29))),
            NULL);
    y = add(m.g, GRAPH_DENSE, "logits",
            IN(y, weights(m.g, &m.state, DIMS(10, 29))), NULL);
    run_made(&m, y);
    assert_int_equal(channels(m.plan, "stem"), 32);
    assert_int_equal(channels(m.plan, "sum"), 32);
    assert_int_equal(channels(m.plan, "flat"), 32);
    assert_int_equal(channels(m.plan, "depthwise"), 56);
    assert_int_equal(channels(m.plan, "gate"), 56);
    assert_int_equal(channels(m.plan, "less"), 16);
    assert_int_equal(channels(m.plan, "hidden"), 32);
    assert_int_equal(channels(m.plan, "logits"), 10);
    end(&m);
}

/* What stays: the network's outputs and parts of them, a value of a node that
 * makes other numbers of zeros than finite ones, a grouped layer, few channels.
 */
TEST(test_left)
{
    struct made m;
    int x = begin(&m), parts, y, z, node;

    parts = conv(&m, "parts", x, 3, ODD, 1, 1, -1, KERN_IDENTITY);
    y = add(m.g, GRAPH_SLICE, "part", IN(parts), &node);
    m.g->node[node].attr.slice.n_axes = 1;
    m.g->node[node].attr.slice.axis[0] = 1;
    m.g->node[node].attr.slice.begin[0] = 13;
    y = conv(&m, "of_part", y, 14, 31, 1, 1, -1, KERN_SIGMOID);
    z = conv(&m, "joined", parts, ODD, 31, 1, 1, -1, KERN_RELU);
    z = add_concat(m.g, "both", IN(y, z), 1);
    z = conv(&m, "inverted", z, 62, 30, 1, 1, -1, KERN_EXP);
    z = add_unary(m.g, "inverse", z, KERN_RECIPROCAL);
    z = conv(&m, "grouped", z, 30, 30, 1, 2, -1, KERN_IDENTITY);
    z = conv(&m, "few", z, 30, 11, 1, 1, -1, KERN_IDENTITY);
    z = conv(&m, "output", z, 11, 31, 1, 1, -1, KERN_IDENTITY);
    assert_int_equal(graph_add_output(m.g, parts), 0);
    run_made(&m, z);
    assert_int_equal(channels(m.plan, "parts"), ODD);
    assert_int_equal(channels(m.plan, "of_part"), 31);
    assert_int_equal(channels(m.plan, "joined"), 31);
    assert_int_equal(channels(m.plan, "inverted"), 30);
    assert_int_equal(channels(m.plan, "few"), 11);
    assert_int_equal(channels(m.plan, "output"), 31);
    end(&m);
}

/* A layer's channels in four parts, of which each but the last goes through a
 * layer of its own and is added to the next, joined again: each part is padded
 * by itself.  by_slice: how the parts are taken. */
static void check_parts(bool by_slice, int part, int64_t wide)
{
    struct made m;
    int x = begin(&m), y, z, piece[4], out[4], node;

    x = conv(&m, "whole", x, 3, 4 * part, 1, 1, -1, KERN_RELU);
    if (by_slice) {
        for (int i = 0; i < 4; i++) {
            piece[i] = add(m.g, GRAPH_SLICE, NULL, IN(x), &node);
            m.g->node[node].attr.slice.n_axes = 1;
            m.g->node[node].attr.slice.axis[0] = i % 2 ? 1 : -3;
            m.g->node[node].attr.slice.begin[0] = i == 3 ? -part : i * part;
            m.g->node[node].attr.slice.end[0] =
                i == 3 ? INT32_MAX : (i + 1) * part;
        }
    } else {
        for (int i = 0; i < 4; i++)
            piece[i] = graph_add_value(m.g, NULL);
        node = graph_add_node(m.g, GRAPH_SPLIT, NULL, &x, 1, piece, 4);
        assert_true(node >= 0);
        m.g->node[node].attr.split.axis = 1;
    }
    y = piece[0];
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            y = add_binary(m.g, NULL, y, piece[i], KERN_ADD);
        y = out[i] = conv(&m, i == 1 ? "middle" : NULL, y, part, part, 1, 1, -1,
                          KERN_SIGMOID);
    }
    out[3] = piece[3];
    z = add_concat(m.g, "joined", out, 4, 1);
    z = conv(&m, "depthwise", z, 4 * part, 4 * part, 3, 4 * part, -1,
             KERN_SILU);
    z = conv(&m, "last", z, 4 * part, 8, 1, 1, -1, KERN_IDENTITY);
    run_made(&m, z);
    assert_int_equal(channels(m.plan, "middle"), wide);
    assert_int_equal(channels(m.plan, "whole"), 4 * wide);
    assert_int_equal(channels(m.plan, "depthwise"), 4 * wide);
    end(&m);
}

TEST(test_parts)
{
    check_parts(false, 26, 32);
    check_parts(true, 26, 32);
    check_parts(false, 10, 10); /* too much */
    check_parts(true, 52, 56);
}

/* Parts of other sizes, and a set of them of which one stays. */
TEST(test_unequal_parts)
{
    for (int stays = 0; stays < 2; stays++) {
        struct made m;
        int x = begin(&m), a, b, y;

        a = conv(&m, "narrow", x, 3, 20, 1, 1, -1, KERN_IDENTITY);
        b = conv(&m, "wide", x, 3, 58, 1, 1, -1, KERN_RELU);
        y = add_concat(m.g, "joined", IN(b, a), 1);
        y = add(m.g, GRAPH_SCALE_SHIFT, "scaled",
                IN(y, weights(m.g, &m.state, DIMS(78))), NULL);
        y = conv(&m, "last", y, 78, 8, 3, 1, -1, KERN_IDENTITY);
        if (stays)
            assert_int_equal(graph_add_output(m.g, a), 0);
        run_made(&m, y);
        assert_int_equal(channels(m.plan, "narrow"), stays ? 20 : 24);
        assert_int_equal(channels(m.plan, "wide"), stays ? 58 : 64);
        assert_int_equal(channels(m.plan, "scaled"), stays ? 78 : 88);
        end(&m);
    }
}

/* A residual of fewer channels.  act: of the layer that makes it; another value
 * than 0 of its further channels must not reach the sum. */
static void check_residual(enum kern_unary_kind act, int less, int more,
                           int pads, int64_t wide)
{
    struct made m;
    int x = begin(&m), y, node;

    x = conv(&m, "less", x, 3, less, 1, 1, -1, act);
    y = conv(&m, "middle", x, less, 40, 3, 1, -1, KERN_RELU);
    x = add(m.g, GRAPH_PAD, "appended", IN(x), &node);
    m.g->node[node].attr.pad.end[1] = more - less;
    y = conv(&m, "more", y, 40, more, 1, 1, x, KERN_IDENTITY);
    y = conv(&m, "last", y, more, 8, 1, 1, -1, KERN_IDENTITY);
    run_made(&m, y);
    assert_int_equal(count_nodes(m.plan, GRAPH_PAD), pads);
    assert_int_equal(channels(m.plan, "less"), wide);
    end(&m);
}

TEST(test_residual)
{
    check_residual(KERN_IDENTITY, ODD, 38, 0, 40);
    check_residual(KERN_RELU, 16, 32, 0, 32);
    check_residual(KERN_SIGMOID, ODD, 38, 1, ODD);
    check_residual(KERN_SILU, ODD, 62, 1, 32);
}

/* Batch normalisation, an activation that is 1 at 0, and a sum with one number
 * an image, all before a layer: only finite numbers matter there. */
TEST(test_other_numbers)
{
    struct made m;
    int x = begin(&m), y, in[5];

    y = x = conv(&m, "first", x, 3, ODD, 3, 1, -1, KERN_HARD_SIGMOID);
    in[0] = y;
    for (int i = 1; i < 5; i++)
        in[i] = weights(m.g, &m.state, DIMS(ODD));
    for (int i = 0; i < ODD; i++)
        ((float *)(void *)m.g->value[in[4]].data->data)[i] = 1.5f;
    y = add(m.g, GRAPH_BATCH_NORM, "normal", in, 5, NULL);
    y = add_binary(m.g, "moved", y, weights(m.g, &m.state, DIMS(1)), KERN_ADD);
    y = conv(&m, "last", y, ODD, 8, 3, 1, -1, KERN_IDENTITY);
    run_made(&m, y);
    assert_int_equal(channels(m.plan, "moved"), 32);
    end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block),    cmocka_unit_test(test_left),
        cmocka_unit_test(test_parts),    cmocka_unit_test(test_unequal_parts),
        cmocka_unit_test(test_residual), cmocka_unit_test(test_other_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
