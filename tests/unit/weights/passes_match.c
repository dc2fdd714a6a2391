/* SPDX-License-Identifier: Apache-2.0 */
/* match-layers, match-layer-norm, match-group-norm and match-activations:
 * spelled-out functions before and after on the reference backend, and near
 * misses. */
#include "tests/unit/weights/passes/net.h"

#include <math.h>

#define LAYERS "match-layers"
#define NORM   "match-layer-norm"
#define GROUPS "match-group-norm"
#define ACT    "match-activations"

static int number(struct net *net, enum kern_binary_kind kind, int x, double k)
{
    return net_binary(net, kind, x, net_number(net, k));
}

static int clip(struct net *net, int x, double low, double high)
{
    int y = net_unary(net, x, KERN_CLIP);

    net_attr(net)->unary.a = (float)low;
    net_attr(net)->unary.b = (float)high;
    return y;
}

/* What the one node left computes. */
static void becomes(struct net *net, enum kern_unary_kind kind, double factor)
{
    net_check(net, ACT, -1, factor);
    assert_int_equal(net->g->n_nodes, 1);
    assert_int_equal(net->g->node[0].op, GRAPH_UNARY);
    assert_int_equal(net->g->node[0].attr.unary.kind, kind);
    net_end(net);
}

static int begin(struct net *net, uint64_t seed)
{
    net_begin(net, seed);
    return net_input(net, DIMS(-1, 3, 4, 5));
}

/* ---- activations --------------------------------------------------- */

TEST(silu)
{
    struct net net;
    int x;

    for (int side = 0; side < 2; side++) {
        int s;

        x = begin(&net, 1 + (uint64_t)side);
        s = net_unary(&net, x, KERN_SIGMOID);
        net_output(&net,
                   net_binary(&net, KERN_MUL, side ? s : x, side ? x : s));
        becomes(&net, KERN_SILU, 1);
    }
}

/* The gate of another tensor is no silu. */
TEST(other_gate)
{
    struct net net;
    int x, s;

    x = begin(&net, 3);
    s = net_unary(&net, net_unary(&net, x, KERN_TANH), KERN_SIGMOID);
    net_output(&net, net_binary(&net, KERN_MUL, x, s));
    net_refuses(&net, ACT);
    net_end(&net);
}

TEST(hard_sigmoid)
{
    struct net net;
    int x, y;

    /* clip(x + 3, 0, 6) / 6 */
    x = begin(&net, 10);
    y = clip(&net, number(&net, KERN_ADD, x, 3), 0, 6);
    net_output(&net, number(&net, KERN_DIV, y, 6));
    becomes(&net, KERN_HARD_SIGMOID, 1);
    /* clip(0.2 x + 0.5, 0, 1) */
    x = begin(&net, 11);
    y = number(&net, KERN_ADD, number(&net, KERN_MUL, x, 0.2), 0.5);
    net_output(&net, clip(&net, y, 0, 1));
    becomes(&net, KERN_HARD_SIGMOID, 1);
    /* The same with min and max. */
    x = begin(&net, 12);
    y = number(&net, KERN_ADD, number(&net, KERN_MUL, x, 0.2), 0.5);
    y = number(&net, KERN_MAX, number(&net, KERN_MIN, y, 1), 0);
    net_output(&net, y);
    becomes(&net, KERN_HARD_SIGMOID, 1);
}

TEST(hard_swish)
{
    struct net net;

    for (int spelling = 0; spelling < 4; spelling++) {
        int x = begin(&net, 20 + (uint64_t)spelling);
        int y = clip(&net, number(&net, KERN_ADD, x, 3), 0, 6);

        if (spelling == 0) { /* x * (clip / 6) */
            y = net_binary(&net, KERN_MUL, x, number(&net, KERN_DIV, y, 6));
        } else if (spelling == 1) { /* x * clip / 6 */
            y = number(&net, KERN_DIV, net_binary(&net, KERN_MUL, x, y), 6);
        } else if (spelling == 2) { /* x * clip * (1 / 6) */
            y = net_binary(&net, KERN_MUL, y, x);
            y = number(&net, KERN_MUL, y, 1.0 / 6);
        } else { /* x * hard_sigmoid(x) */
            y = net_unary(&net, x, KERN_HARD_SIGMOID);
            net_attr(&net)->unary.a = 1.0f / 6;
            net_attr(&net)->unary.b = 0.5f;
            y = net_binary(&net, KERN_MUL, y, x);
        }
        net_output(&net, y);
        /* The magnitude of a clipped factor is not bounded by 1 there. */
        becomes(&net, KERN_HARD_SWISH, 1);
    }
}

TEST(near_misses)
{
    struct net net;

    for (int kind = 0; kind < 6; kind++) {
        int x = begin(&net, 30 + (uint64_t)kind);
        int y = number(&net, KERN_ADD, x, 3);

        if (kind == 0) /* the range is 0 .. 5/6 */
            y = number(&net, KERN_DIV, clip(&net, y, 0, 5), 6);
        else if (kind == 1) /* falls */
            y = number(&net, KERN_DIV, clip(&net, y, 0, 6), -6);
        else if (kind == 2) /* a number for each row */
            y = net_binary(&net, KERN_DIV, clip(&net, y, 0, 6),
                           net_positive(&net, DIMS(4, 1)));
        else if (kind == 3) /* 0.4 x (1 + erf) */
            y = number(&net, KERN_MUL,
                       net_binary(&net, KERN_MUL, x,
                                  number(&net, KERN_ADD,
                                         net_unary(&net, x, KERN_ERF), 1)),
                       0.5);
        else if (kind == 5) /* a sixth to three digits is another number */
            y = number(&net, KERN_MUL,
                       net_binary(&net, KERN_MUL, x, clip(&net, y, 0, 6)),
                       0.167);
        else /* one bound for each channel */
            y = net_binary(&net, KERN_MIN, y,
                           net_positive(&net, DIMS(3, 1, 1)));
        net_output(&net, y);
        net_refuses(&net, ACT);
        net_end(&net);
    }
}

TEST(clips)
{
    struct net net;
    int x, y;

    x = begin(&net, 40); /* relu, then a minimum: relu6 */
    y = number(&net, KERN_MIN, net_unary(&net, x, KERN_RELU), 6);
    net_output(&net, y);
    net_check(&net, ACT, -1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    assert_int_equal(net.g->node[0].attr.unary.kind, KERN_CLIP);
    assert_true(net.g->node[0].attr.unary.a == 0.0f);
    assert_true(net.g->node[0].attr.unary.b == 6.0f);
    net_end(&net);

    x = begin(&net, 41); /* a maximum alone */
    net_output(&net, net_binary(&net, KERN_MAX, net_number(&net, 0), x));
    becomes(&net, KERN_RELU, 1);

    x = begin(&net, 42); /* ranges that do not meet: a constant */
    net_output(&net, clip(&net, clip(&net, x, -2, -1), 1, 2));
    becomes(&net, KERN_CLIP, 1);
}

TEST(gelu)
{
    struct net net;

    for (int spelling = 0; spelling < 4; spelling++) {
        int x = begin(&net, 50 + (uint64_t)spelling);
        int e, y;

        e = spelling & 1 ? number(&net, KERN_MUL, x, sqrt(0.5))
                         : number(&net, KERN_DIV, x, sqrt(2.0));
        e = number(&net, KERN_ADD, net_unary(&net, e, KERN_ERF), 1);
        if (spelling == 0) /* x (1 + erf) / 2 */
            y = number(&net, KERN_MUL, net_binary(&net, KERN_MUL, x, e), 0.5);
        else if (spelling == 1) /* (x / 2) (1 + erf) */
            y = net_binary(&net, KERN_MUL, number(&net, KERN_DIV, x, 2), e);
        else if (spelling == 2) /* x ((1 + erf) / 2) */
            y = net_binary(&net, KERN_MUL, number(&net, KERN_MUL, e, 0.5), x);
        else
            y = number(&net, KERN_DIV, net_binary(&net, KERN_MUL, e, x), 2);
        net_output(&net, y);
        becomes(&net, KERN_GELU, 1);
    }
}

TEST(gelu_tanh)
{
    struct net net;

    for (int spelling = 0; spelling < 2; spelling++) {
        int x = begin(&net, 60 + (uint64_t)spelling);
        int cube, t;

        cube = spelling ? net_binary(&net, KERN_MUL, x,
                                     net_binary(&net, KERN_MUL, x, x))
                        : number(&net, KERN_POW, x, 3);
        t = net_binary(&net, KERN_ADD, x,
                       number(&net, KERN_MUL, cube, 0.044715));
        t = number(&net, KERN_MUL, t, sqrt(2 / 3.14159265358979323846));
        t = number(&net, KERN_ADD, net_unary(&net, t, KERN_TANH), 1);
        t = net_binary(&net, KERN_MUL, number(&net, KERN_MUL, x, 0.5), t);
        net_output(&net, t);
        becomes(&net, KERN_GELU_TANH, 1);
    }
}

/* Powers of 2 and of -1; one of 3 stays. */
TEST(powers)
{
    static const double power[] = {2, -1, 3};
    struct net net;

    for (int i = 0; i < 3; i++) {
        const int x = begin(&net, 65 + (uint64_t)i);

        net_output(&net, number(&net, KERN_POW, x, power[i]));
        if (i == 2) {
            net_refuses(&net, ACT);
            net_end(&net);
            continue;
        }
        net_check(&net, ACT, 1, 1);
        assert_int_equal(net.g->n_nodes, 1);
        const struct graph_node *n = &net.g->node[0];
        if (i == 1) {
            assert_int_equal(n->op, GRAPH_UNARY);
            assert_int_equal(n->attr.unary.kind, KERN_RECIPROCAL);
        } else {
            assert_int_equal(n->op, GRAPH_BINARY);
            assert_int_equal(n->attr.binary.kind, KERN_MUL);
        }
        net_end(&net);
    }
}

TEST(prelu)
{
    struct net net;
    int x;

    x = begin(&net, 70);
    net_output(&net, net_node(&net, GRAPH_PRELU,
                              IN(x, net_fill(&net, 0.25, DIMS(3, 1, 1)))));
    becomes(&net, KERN_LEAKY_RELU, 1);
    x = begin(&net, 71);
    net_output(&net, net_node(&net, GRAPH_PRELU,
                              IN(x, net_weight(&net, DIMS(3, 1, 1)))));
    net_refuses(&net, ACT);
    net_end(&net);
}

/* ---- layers -------------------------------------------------------- */

TEST(global_pooling)
{
    struct net net;

    for (int kind = 0; kind < 4; kind++) {
        int x = begin(&net, 80 + (uint64_t)kind);

        net_output(&net,
                   net_reduce(&net, x,
                              kind & 1 ? KERN_REDUCE_MAX : KERN_REDUCE_MEAN,
                              DIMS(-1, 2), kind & 2));
        net_check(&net, LAYERS, 1, 1);
        assert_int_equal(net_count(&net, GRAPH_POOL), 1);
        assert_int_equal(net_count(&net, GRAPH_REDUCE), 0);
        net_end(&net);
    }
}

TEST(other_reductions)
{
    struct net net;
    int x;

    x = begin(&net, 90);
    net_output(&net, net_reduce(&net, x, KERN_REDUCE_MEAN, DIMS(1, 2), true));
    net_output(&net, net_reduce(&net, x, KERN_REDUCE_MEAN, DIMS(3), true));
    net_output(&net, net_reduce(&net, x, KERN_REDUCE_SUM, DIMS(2, 3), true));
    net_refuses(&net, LAYERS);
    net_end(&net);
}

TEST(matrix_products)
{
    struct net net;

    for (int kind = 0; kind < 3; kind++) {
        int x = begin(&net, 100 + (uint64_t)kind);
        int w = kind == 1 ? net_weight(&net, DIMS(6, 5))
                          : net_weight(&net, DIMS(5, 6));

        net_output(&net, net_node(&net, GRAPH_MATMUL, IN(x, w)));
        net_attr(&net)->matmul.transpose_b = kind == 1;
        if (kind == 2) /* somebody else reads the matrix as it is */
            net_output(&net,
                       net_binary(&net, KERN_MUL, w, net_number(&net, 2)));
        net_check(&net, LAYERS, 1, 1);
        assert_int_equal(net_count(&net, GRAPH_DENSE), 1);
        net_end(&net);
    }
}

TEST(other_products)
{
    struct net net;
    int x;

    x = begin(&net, 110);
    net_output(&net, net_node(&net, GRAPH_MATMUL,
                              IN(x, net_weight(&net, DIMS(3, 5, 6)))));
    net_output(&net, net_node(&net, GRAPH_MATMUL, IN(x, x)));
    net_attr(&net)->matmul.transpose_b = true;
    net_output(&net, net_node(&net, GRAPH_MATMUL,
                              IN(net_weight(&net, DIMS(2, 4)), x)));
    net_refuses(&net, LAYERS);
    net_end(&net);
}

TEST(pixel_shuffle)
{
    struct net net;

    for (int crd = 0; crd < 2; crd++) {
        int x, y;

        x = net_start(&net, 120 + (uint64_t)crd, DIMS(-1, 8, 3, 4));
        if (crd) {
            y = net_reshape(&net, x, DIMS(-1, 2, 2, 2, 3, 4));
            y = net_transpose(&net, y, DIMS(0, 1, 4, 2, 5, 3));
        } else {
            y = net_reshape(&net, x, DIMS(-1, 2, 2, 2, 3, 4));
            y = net_transpose(&net, y, DIMS(0, 3, 4, 1, 5, 2));
        }
        net_output(&net, net_reshape(&net, y, DIMS(-1, 2, 6, 8)));
        net_check(&net, LAYERS, 1, 1);
        assert_int_equal(net.g->n_nodes, 1);
        assert_int_equal(net.g->node[0].attr.depth_space.crd, crd);
        net_end(&net);
    }
}

/* A channel shuffle has two of the three nodes. */
TEST(channel_shuffle)
{
    struct net net;
    int x, y;

    x = net_start(&net, 122, DIMS(-1, 8, 3, 4));
    y = net_reshape(&net, x, DIMS(-1, 2, 4, 3, 4));
    y = net_transpose(&net, y, DIMS(0, 2, 1, 3, 4));
    net_output(&net, net_reshape(&net, y, DIMS(-1, 8, 3, 4)));
    net_refuses(&net, LAYERS);
    net_end(&net);
}

/* ---- layer normalisation ------------------------------------------- */

/* Centring cancels: with inputs of size 3 and a deviation near 1.7, the
 * magnitude network (x + mean) / deviation of (x + mean) is off by less than
 * this from |x - mean| / deviation. */
#define NORM_FACTOR 16

TEST(torch_layer_norm)
{
    struct net net;

    for (int kind = 0; kind < 3; kind++) {
        int x, d, v, y;

        x = net_start(&net, 130 + (uint64_t)kind, DIMS(-1, 4, 5, 6));
        d = net_binary(&net, KERN_SUB, x,
                       net_reduce(&net, x, KERN_REDUCE_MEAN, DIMS(-1), true));
        v = kind ? net_binary(&net, KERN_MUL, d, d)
                 : number(&net, KERN_POW, d, 2);
        v = net_reduce(&net, v, KERN_REDUCE_MEAN, DIMS(3), true);
        v = net_unary(&net, number(&net, KERN_ADD, v, 1e-6), KERN_SQRT);
        y = net_binary(&net, KERN_DIV, d, v);
        if (kind) {
            y = net_binary(&net, KERN_MUL, y, net_weight(&net, DIMS(6)));
            y = net_binary(&net, KERN_ADD, y,
                           net_weight(&net, DIMS(1, 1, 1, 6)));
        }
        net_output(&net, y);
        net_check(&net, NORM, kind ? 3 : 1, NORM_FACTOR);
        assert_int_equal(net.g->n_nodes, 1);
        assert_int_equal(net.g->node[0].op, GRAPH_LAYER_NORM);
        net_end(&net);
    }
}

static int keras_layer_norm(struct net *net, int other_mean)
{
    int x = net_input(net, DIMS(-1, 5, 6));
    int m = net_reduce(net, x, KERN_REDUCE_MEAN, DIMS(2), true);
    int d = net_binary(net, KERN_SUB, x, m);
    int v = net_reduce(net, net_binary(net, KERN_MUL, d, d), KERN_REDUCE_MEAN,
                       DIMS(2), true);
    int r, b;

    r = net_unary(net, number(net, KERN_ADD, v, 1e-3), KERN_SQRT);
    r = net_unary(net, r, KERN_RECIPROCAL);
    r = net_binary(net, KERN_MUL, r, net_weight(net, DIMS(6)));
    if (other_mean)
        m = net_unary(net, m, KERN_RELU);
    b = net_binary(net, KERN_SUB, net_weight(net, DIMS(6)),
                   net_binary(net, KERN_MUL, m, r));
    return net_binary(net, KERN_ADD, net_binary(net, KERN_MUL, x, r), b);
}

TEST(tensorflow_layer_norm)
{
    struct net net;

    net_begin(&net, 140);
    net_output(&net, keras_layer_norm(&net, 0));
    net_check(&net, NORM, 1, NORM_FACTOR);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);

    net_begin(&net, 141);
    net_output(&net, keras_layer_norm(&net, 1));
    net_refuses(&net, NORM);
    net_end(&net);
}

/* The mean runs over a dimension in the middle. */
TEST(norm_over_channels)
{
    struct net net;
    int x, d, v;

    x = net_start(&net, 142, DIMS(-1, 4, 5, 6));
    d = net_binary(&net, KERN_SUB, x,
                   net_reduce(&net, x, KERN_REDUCE_MEAN, DIMS(1), true));
    v = net_reduce(&net, net_binary(&net, KERN_MUL, d, d), KERN_REDUCE_MEAN,
                   DIMS(1), true);
    v = net_unary(&net, number(&net, KERN_ADD, v, 1e-6), KERN_SQRT);
    net_output(&net, net_binary(&net, KERN_DIV, d, v));
    net_refuses(&net, NORM);
    net_end(&net);
}

/* x as rows, normalised, in a shape again, times and plus numbers a channel. */
static int group_norm(struct net *net, int rows, int groups,
                      const int64_t *back, double scale)
{
    int x = net_input(net, DIMS(-1, 6, 4, 5)), in[3];

    in[0] = net_reshape(net, x, DIMS(0, rows, -1));
    in[1] = net_fill(net, scale, DIMS(rows));
    in[2] = net_fill(net, 0, DIMS(rows));
    x = net_node(net, GRAPH_GROUP_NORM, in, 3);
    net_attr(net)->norm.groups = groups;
    x = net_reshape(net, x, 4, back);
    x = net_binary(net, KERN_MUL, x, net_weight(net, DIMS(back[1], 1, 1)));
    return net_binary(net, KERN_ADD, x,
                      net_weight(net, DIMS(1, back[1], 1, 1)));
}

TEST(torch_group_norm)
{
    static const int64_t same[4] = {-1, 6, 4, 5};
    struct net net;

    for (int groups = 1; groups < 7; groups += groups) {
        if (groups == 4)
            groups = 3;
        net_begin(&net, 150 + (uint64_t)groups);
        net_output(&net, group_norm(&net, groups, groups, same, 1));
        net_check(&net, GROUPS, 3, NORM_FACTOR);
        assert_int_equal(net.g->n_nodes, 1);
        assert_int_equal(net.g->node[0].op, GRAPH_GROUP_NORM);
        assert_int_equal(net.g->node[0].attr.norm.groups, groups);
        net_end(&net);
    }
}

/* Another shape, groups of several rows, rows with a scale. */
TEST(other_group_norms)
{
    static const int64_t same[4] = {-1, 6, 4, 5}, other[4] = {-1, 6, 5, 4};
    struct net net;

    for (int wrong = 0; wrong < 3; wrong++) {
        net_begin(&net, 160 + (uint64_t)wrong);
        net_output(&net,
                   group_norm(&net, 2, wrong == 1 ? 1 : 2,
                              wrong == 0 ? other : same, wrong == 2 ? 2 : 1));
        net_refuses(&net, GROUPS);
        net_end(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silu),
        cmocka_unit_test(other_gate),
        cmocka_unit_test(hard_sigmoid),
        cmocka_unit_test(hard_swish),
        cmocka_unit_test(near_misses),
        cmocka_unit_test(clips),
        cmocka_unit_test(gelu),
        cmocka_unit_test(gelu_tanh),
        cmocka_unit_test(powers),
        cmocka_unit_test(prelu),
        cmocka_unit_test(global_pooling),
        cmocka_unit_test(other_reductions),
        cmocka_unit_test(matrix_products),
        cmocka_unit_test(other_products),
        cmocka_unit_test(pixel_shuffle),
        cmocka_unit_test(channel_shuffle),
        cmocka_unit_test(torch_layer_norm),
        cmocka_unit_test(tensorflow_layer_norm),
        cmocka_unit_test(norm_over_channels),
        cmocka_unit_test(torch_group_norm),
        cmocka_unit_test(other_group_norms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
