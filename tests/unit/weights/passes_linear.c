/* SPDX-License-Identifier: Apache-2.0 */
/* fold-batch-norm and fold-scale: before and after on the reference backend,
 * and the graphs in which they must not fold. */
#include "tests/unit/weights/passes/net.h"

#define BN    "fold-batch-norm"
#define SCALE "fold-scale"

/* ---- into the layer before ----------------------------------------- */

TEST(conv_then_bn)
{
    struct net net;

    for (int groups = 1; groups <= 4; groups *= 2) {
        int x, w, y;

        x = net_start(&net, 1 + (uint64_t)groups, DIMS(-1, 4, 6, 5));
        w = net_weight(&net, DIMS(8, 4 / groups, 3, 3));
        y = net_node(&net, GRAPH_CONV, IN(x, w));
        net_attr(&net)->conv.conv.groups = groups;
        net_attr(&net)->conv.conv.pad_begin[0] = 1;
        net_output(&net, net_batch_norm(&net, y, 8));
        net_check(&net, BN, 1, 1);
        assert_int_equal(net_count(&net, GRAPH_BATCH_NORM), 0);
        assert_int_equal(net_count(&net, GRAPH_SCALE_SHIFT), 0);
        assert_int_equal(net.g->n_nodes, 1);
        net_end(&net);
    }
}

TEST(conv_transpose_then_bn)
{
    struct net net;
    int x, w, b, y;

    x = net_start(&net, 11, DIMS(-1, 4, 5, 4));
    w = net_weight(&net, DIMS(4, 3, 2, 2));
    b = net_weight(&net, DIMS(6));
    y = net_node(&net, GRAPH_CONV_TRANSPOSE, IN(x, w, b));
    net_attr(&net)->conv.conv.groups = 2;
    net_attr(&net)->conv.conv.stride[0] = 2;
    net_attr(&net)->conv.conv.stride[1] = 2;
    net_output(&net, net_batch_norm(&net, y, 6));
    net_check(&net, BN, 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

TEST(dense_then_bn)
{
    struct net net;
    int x, y;

    x = net_start(&net, 12, DIMS(-1, 7));
    y = net_dense(&net, x, 5, 7);
    net_output(&net, net_batch_norm(&net, y, 5));
    net_check(&net, BN, 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* The weights of two layers are one tensor: each gets its own. */
TEST(shared_weights)
{
    struct net net;
    int x, w, y[2];

    x = net_start(&net, 13, DIMS(-1, 3, 5, 5));
    w = net_weight(&net, DIMS(3, 3, 3, 3));
    for (int i = 0; i < 2; i++) {
        y[i] = net_node(&net, GRAPH_CONV, IN(x, w));
        y[i] = net_batch_norm(&net, y[i], 3);
        net_output(&net, y[i]);
    }
    net_check(&net, BN, 2, 1);
    assert_int_equal(net.g->n_nodes, 2);
    assert_int_not_equal(net.g->node[0].in[1], net.g->node[1].in[1]);
    net_end(&net);
}

/* An activation behind the batch norm moves with it. */
TEST(activation_moves)
{
    struct net net;
    int x;

    x = net_start(&net, 14, DIMS(-1, 3, 5, 5));
    net_output(&net, net_batch_norm(&net, net_conv(&net, x, 4, 3, 3, 1), 4));
    net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
    net_check(&net, BN, 1, 1);
    assert_int_equal(net.g->node[0].epilogue.act.kind, KERN_RELU);
    net_end(&net);
}

/* ---- into the layer after ------------------------------------------ */

TEST(bn_then_conv)
{
    struct net net;
    int x, w, y;

    for (int groups = 1; groups <= 3; groups += 2) {
        x = net_start(&net, 20 + (uint64_t)groups, DIMS(-1, 6, 6, 6));
        y = net_batch_norm(&net, x, 6);
        w = net_weight(&net, DIMS(9, 6 / groups, 3, 3));
        y = net_node(&net, GRAPH_CONV, IN(y, w));
        net_attr(&net)->conv.conv.groups = groups;
        net_output(&net, y);
        net_check(&net, BN, 1, 1);
        assert_int_equal(net.g->n_nodes, 1);
        net_end(&net);
    }
}

TEST(bn_then_dense)
{
    struct net net;
    int x;

    x = net_start(&net, 24, DIMS(-1, 6));
    net_output(&net, net_dense(&net, net_batch_norm(&net, x, 6), 3, 6));
    net_check(&net, BN, 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* ---- where it must not fold ---------------------------------------- */

/* With padding the zeros come after the shift: scale_shift instead. */
TEST(padded_conv_after)
{
    struct net net;
    int x;

    x = net_start(&net, 30, DIMS(-1, 3, 6, 6));
    net_output(&net, net_conv(&net, net_batch_norm(&net, x, 3), 4, 3, 3, 1));
    net_check(&net, BN, 1, 1);
    assert_int_equal(net_count(&net, GRAPH_SCALE_SHIFT), 1);
    assert_int_equal(net_count(&net, GRAPH_CONV), 1);
    net_refuses(&net, SCALE);
    net_end(&net);
}

/* Somebody else reads the convolution. */
TEST(shared_output)
{
    struct net net;
    int x, y;

    x = net_start(&net, 31, DIMS(-1, 3, 6, 6));
    y = net_conv(&net, x, 4, 3, 3, 1);
    net_output(&net, net_batch_norm(&net, y, 4));
    net_output(&net, net_unary(&net, y, KERN_RELU));
    net_check(&net, BN, 1, 1);
    assert_int_equal(net_count(&net, GRAPH_SCALE_SHIFT), 1);
    net_refuses(&net, SCALE);
    net_end(&net);
}

TEST(graph_output_between)
{
    struct net net;
    int x, y;

    x = net_start(&net, 32, DIMS(-1, 3, 6, 6));
    y = net_conv(&net, x, 4, 3, 3, 1);
    net_output(&net, y);
    net_output(&net, net_batch_norm(&net, y, 4));
    net_check(&net, BN, 1, 1);
    assert_int_equal(net_count(&net, GRAPH_SCALE_SHIFT), 1);
    net_end(&net);
}

/* Statistics that are computed, not stored. */
TEST(computed_statistics)
{
    struct net net;
    int x, mean, in[5];

    x = net_start(&net, 33, DIMS(2, 3, 6, 6));
    mean = net_input(&net, DIMS(4));
    in[0] = net_conv(&net, x, 4, 3, 3, 1);
    in[1] = net_weight(&net, DIMS(4));
    in[2] = net_weight(&net, DIMS(4));
    in[3] = net_binary(&net, KERN_MUL, mean, mean);
    in[4] = net_positive(&net, DIMS(4));
    net_output(&net, net_node(&net, GRAPH_BATCH_NORM, in, 5));
    net_refuses_unrun(&net, BN);
    net_end(&net);
}

/* An activation lies between. */
TEST(activation_between)
{
    struct net net;
    int x, y;

    x = net_start(&net, 34, DIMS(-1, 3, 6, 6));
    y = net_conv(&net, x, 4, 3, 3, 1);
    net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
    net_output(&net, net_batch_norm(&net, y, 4));
    net_check(&net, BN, 1, 1);
    assert_int_equal(net_count(&net, GRAPH_SCALE_SHIFT), 1);
    net_end(&net);
}

/* The channels of a dense layer on rank 3 are not those of the norm. */
TEST(dense_of_rank_3)
{
    struct net net;
    int x;

    x = net_start(&net, 35, DIMS(-1, 5, 5));
    net_output(&net, net_batch_norm(&net, net_dense(&net, x, 5, 5), 5));
    net_check(&net, BN, 1, 1);
    assert_int_equal(net_count(&net, GRAPH_SCALE_SHIFT), 1);
    net_refuses(&net, SCALE);
    net_end(&net);
}

/* ---- scales -------------------------------------------------------- */

TEST(arithmetic_after_conv)
{
    static const enum kern_binary_kind kind[4] = {KERN_ADD, KERN_SUB, KERN_MUL,
                                                  KERN_DIV};
    struct net net;

    for (int i = 0; i < 4; i++) {
        int x, y, c;

        x = net_start(&net, 40 + (uint64_t)i, DIMS(-1, 3, 6, 6));
        y = net_conv(&net, x, 4, 3, 3, 1);
        c = net_positive(&net, DIMS(4, 1, 1));
        net_output(&net, net_binary(&net, kind[i], y, c));
        net_check(&net, SCALE, 1, 1);
        assert_int_equal(net.g->n_nodes, 1);
        net_end(&net);
    }
}

TEST(number_minus_conv)
{
    struct net net;
    int x, y;

    x = net_start(&net, 45, DIMS(-1, 3, 6, 6));
    y = net_conv(&net, x, 4, 3, 3, 1);
    net_output(&net, net_binary(&net, KERN_SUB, net_number(&net, 2.5), y));
    net_check(&net, SCALE, 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* A matrix product's bias on N,H,W,C: the last dimension. */
TEST(bias_of_dense)
{
    struct net net;
    int x, y;

    x = net_start(&net, 46, DIMS(-1, 4, 4, 6));
    y = net_node(&net, GRAPH_DENSE, IN(x, net_weight(&net, DIMS(5, 6))));
    y = net_binary(&net, KERN_ADD, y, net_weight(&net, DIMS(5)));
    net_output(&net, y);
    net_check(&net, SCALE, 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* A factor for each channel behind the transpose that follows the layer. */
TEST(factor_behind_transpose)
{
    struct net net;
    int x, y;

    x = net_start(&net, 52, DIMS(-1, 4, 3, 6));
    y = net_transpose(&net, net_dense(&net, x, 5, 6), DIMS(0, 3, 1, 2));
    y = net_binary(&net, KERN_MUL, y, net_weight(&net, DIMS(5, 1, 1)));
    net_output(&net, y);
    net_check(&net, SCALE, 1, 1);
    assert_int_equal(net.g->n_nodes, 2);
    net_end(&net);

    /* The factor belongs to another dimension. */
    x = net_start(&net, 53, DIMS(-1, 5, 3, 6));
    y = net_transpose(&net, net_dense(&net, x, 5, 6), DIMS(0, 3, 1, 2));
    y = net_binary(&net, KERN_MUL, y, net_weight(&net, DIMS(5, 1)));
    net_output(&net, y);
    net_refuses(&net, SCALE);
    net_end(&net);
}

/* (x - mean) / std in front of a convolution without padding. */
TEST(normalised_input)
{
    struct net net;
    int x, y;

    x = net_start(&net, 47, DIMS(-1, 3, 6, 6));
    y = net_binary(&net, KERN_SUB, x, net_weight(&net, DIMS(1, 3, 1, 1)));
    y = net_binary(&net, KERN_DIV, y, net_positive(&net, DIMS(3, 1, 1)));
    net_output(&net, net_conv(&net, y, 4, 3, 3, 0));
    net_check(&net, SCALE, 2, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* The same before padding: the factor folds, the offset stays. */
TEST(normalised_input_with_padding)
{
    struct net net;
    int x, y;

    x = net_start(&net, 48, DIMS(-1, 3, 6, 6));
    y = net_binary(&net, KERN_SUB, x, net_weight(&net, DIMS(1, 3, 1, 1)));
    y = net_binary(&net, KERN_MUL, y, net_positive(&net, DIMS(3, 1, 1)));
    net_output(&net, net_conv(&net, y, 4, 3, 3, 1));
    net_check(&net, SCALE, 1, 1);
    assert_int_equal(net_count(&net, GRAPH_BINARY), 1);
    assert_int_equal(net.g->n_nodes, 2);
    net_end(&net);
}

/* A factor alone passes through zero padding. */
TEST(factor_before_padded_conv)
{
    struct net net;
    int x, y;

    x = net_start(&net, 49, DIMS(-1, 3, 6, 6));
    y = net_binary(&net, KERN_DIV, x, net_number(&net, 255));
    net_output(&net, net_conv(&net, y, 4, 3, 3, 1));
    net_check(&net, SCALE, 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

TEST(numbers_become_linear)
{
    struct net net;
    int x, y;

    x = net_start(&net, 50, DIMS(-1, 3, 6, 6));
    y = net_binary(&net, KERN_MUL, x, net_number(&net, 0.25));
    y = net_binary(&net, KERN_ADD, y, net_number(&net, -3));
    net_output(&net, net_unary(&net, y, KERN_SIGMOID));
    net_check(&net, SCALE, 1, 1);
    assert_int_equal(net.g->node[0].attr.unary.kind, KERN_LINEAR);
    net_end(&net);
}

/* 2.1 / 0.3 is 7 before it is rounded down, in two steps alone. */
TEST(numbers_before_floor)
{
    struct net net;
    int x, y;

    x = net_start(&net, 50, DIMS(-1, 3, 6, 6));
    y = net_binary(&net, KERN_ADD, x, net_number(&net, 0.1));
    y = net_binary(&net, KERN_DIV, y, net_number(&net, 0.3));
    net_output(&net, net_unary(&net, y, KERN_FLOOR));
    net_check(&net, SCALE, 0, 1);
    assert_int_equal(net.g->n_nodes, 3);
    net_end(&net);
}

/* The same behind nodes that move elements, more steps, and a clip; Mul and Add
 * alike; levels of 8 bits jump too. */
TEST(numbers_before_jumps)
{
    struct net net;
    int x, y;

    for (int kind = 0; kind < 4; kind++) {
        x = net_start(&net, 55 + (uint64_t)kind, DIMS(-1, 3, 6, 6));
        y = net_binary(&net, KERN_MUL, x, net_number(&net, 3));
        y = net_binary(&net, KERN_ADD, y, net_number(&net, 0.1));
        if (kind == 1)
            y = net_transpose(&net, y, DIMS(0, 2, 3, 1));
        if (kind == 2)
            y = net_binary(&net, KERN_MUL, y, net_number(&net, 0.1));
        if (kind == 2)
            y = net_unary(&net, y, KERN_RELU);
        y = kind == 3
                ? net_node(&net, GRAPH_QUANTIZE, IN(y, net_number(&net, 0.5)))
                : net_unary(&net, y, KERN_ROUND);
        net_output(&net, y);
        net_check(&net, SCALE, 0, 1);
        net_end(&net);
    }
}

/* TensorFlow's batch normalisation: x * g + (b - m * g). */
TEST(channels_become_scale_shift)
{
    struct net net;
    int x, y;

    x = net_start(&net, 51, DIMS(-1, 3, 6, 6));
    y = net_binary(&net, KERN_MUL, x, net_weight(&net, DIMS(3, 1, 1)));
    y = net_binary(&net, KERN_ADD, y, net_weight(&net, DIMS(1, 3, 1, 1)));
    net_output(&net, net_unary(&net, y, KERN_SIGMOID));
    net_check(&net, SCALE, 1, 1);
    assert_int_equal(net.g->node[0].op, GRAPH_SCALE_SHIFT);
    assert_int_equal(net.g->n_nodes, 2);
    net_end(&net);
}

/* Constants that vary over space, over the wrong axis, or that enlarge. */
TEST(other_constants)
{
    struct net net;
    int x, y;

    for (int i = 0; i < 4; i++) {
        x = net_start(&net, 60 + (uint64_t)i, DIMS(-1, 3, 4, 4));
        y = net_conv(&net, x, 4, 3, 3, 1);
        if (i == 0)
            y = net_binary(&net, KERN_MUL, y, net_weight(&net, DIMS(4, 4, 4)));
        else if (i == 1)
            y = net_binary(&net, KERN_ADD, y, net_weight(&net, DIMS(4)));
        else if (i == 2)
            y = net_binary(&net, KERN_ADD, y,
                           net_weight(&net, DIMS(1, 1, 4, 1, 1)));
        else
            y = net_binary(&net, KERN_DIV, net_number(&net, 1.5), y);
        net_output(&net, y);
        if (i < 3)
            net_refuses(&net, SCALE);
        else
            net_refuses_unrun(&net, SCALE);
        net_end(&net);
    }
}

/* Factors that together leave the range of a float. */
TEST(extreme_chain)
{
    struct net net;
    int x, y;

    x = net_start(&net, 71, DIMS(-1, 3, 4, 4));
    y = net_binary(&net, KERN_MUL, x, net_number(&net, 1e-25));
    y = net_binary(&net, KERN_MUL, y, net_number(&net, 1e-15));
    net_output(&net, y);
    net_refuses_unrun(&net, SCALE);
    net_end(&net);
}

TEST(division_by_zero)
{
    struct net net;
    int x, y;

    x = net_start(&net, 70, DIMS(-1, 3, 4, 4));
    y = net_conv(&net, x, 4, 3, 3, 1);
    net_output(&net, net_binary(&net, KERN_DIV, y, net_number(&net, 0)));
    net_refuses_unrun(&net, SCALE);
    net_end(&net);
}

/* ---- behind concatenations ----------------------------------------- */

/* Two convolutions of 4 and 6 channels, joined along the axis. */
static int branches(struct net *net, int x, int64_t axis)
{
    const int second = axis == 1 ? 6 : 4;
    const int a = net_conv(net, x, 4, 3, 3, 1);
    const int b = net_conv(net, x, second, 3, 1, 0);
    const int y = net_node(net, GRAPH_CONCAT, IN(a, b));

    net_attr(net)->axis.axis = (int)axis;
    return y;
}

/* Batch norm and an activation of two branches end up in both. */
TEST(branches_then_bn)
{
    struct net net;
    int x, y;

    x = net_start(&net, 80, DIMS(-1, 3, 5, 5));
    y = net_batch_norm(&net, branches(&net, x, 1), 10);
    net_output(&net, net_unary(&net, y, KERN_SILU));
    net_check(&net, "fold-batch-norm", 1, 1);
    net_check(&net, "split-concat", 1, 1);
    assert_int_equal(net_count(&net, GRAPH_SCALE_SHIFT), 2);
    net_check(&net, "fold-scale", 2, 2);
    net_check(&net, "split-concat", 1, 2);
    net_check(&net, "fuse-activation", 2, 2);
    assert_int_equal(net.g->n_nodes, 3);
    net_end(&net);
}

/* A negative axis; the activation alone. */
TEST(branches_then_activation)
{
    struct net net;
    int x;

    x = net_start(&net, 81, DIMS(-1, 3, 5, 5));
    net_output(&net, net_unary(&net, branches(&net, x, -3), KERN_RELU));
    net_check_all(&net, 2);
    assert_int_equal(net.g->n_nodes, 3);
    net_end(&net);
}

/* A part that is no layer's, one with two readers, a joined value with two, and
 * parts that lie along the height. */
TEST(branches_that_stay)
{
    for (int i = 0; i < 4; i++) {
        struct net net;
        int x, y, part;

        x = net_start(&net, 82 + (uint64_t)i, DIMS(-1, 3, 5, 5));
        part = net_conv(&net, x, 4, 3, 3, 1);
        if (i < 2) {
            y = net_node(&net, GRAPH_CONCAT, IN(i == 0 ? x : part, part));
            net_attr(&net)->axis.axis = 1;
        } else {
            y = branches(&net, x, i == 2 ? 1 : 2);
            net_output(&net, part);
        }
        net_output(&net, net_unary(&net, y, KERN_RELU));
        if (i == 2)
            net_output(&net, net_unary(&net, y, KERN_TANH));
        net_refuses(&net, "split-concat");
        net_end(&net);
    }
}

/* ---- factors that broadcast ---------------------------------------- */

#define REASSOCIATE "reassociate"

/* One number an image and channel, and one a channel. */
static int small_factor(struct net *net, int x)
{
    return net_reduce(net, x, KERN_REDUCE_MEAN, DIMS(2, 3), true);
}

/* Response normalisation as ConvNeXt-v2 has it: x + (b + w (x s)), its factors
 * in either order. */
TEST(response_norm)
{
    for (int i = 0; i < 8; i++) {
        struct net net;
        int x, y, w, b;

        x = net_start(&net, 90 + (uint64_t)i, DIMS(-1, 3, 5, 4));
        w = net_weight(&net, DIMS(1, 3, 1, 1));
        b = net_weight(&net, DIMS(3, 1, 1));
        y = small_factor(&net, x);
        y = i & 1 ? net_binary(&net, KERN_MUL, x, y)
                  : net_binary(&net, KERN_MUL, y, x);
        y = i & 2 ? net_binary(&net, KERN_MUL, w, y)
                  : net_binary(&net, KERN_MUL, y, w);
        y = net_binary(&net, KERN_ADD, b, y);
        y = i & 4 ? net_binary(&net, KERN_ADD, x, y)
                  : net_binary(&net, KERN_ADD, y, x);
        net_output(&net, y);
        net_check(&net, REASSOCIATE, 2, 4);
        /* s w, x t, + b, and the function s + 1. */
        assert_int_equal(net_count(&net, GRAPH_BINARY), 3);
        assert_int_equal(net_count(&net, GRAPH_UNARY), 1);
        net_end(&net);
    }
}

/* A gate that is added to what it gates. */
TEST(gate_and_sum)
{
    struct net net;
    int x, y;

    x = net_start(&net, 99, DIMS(-1, 3, 5, 4));
    y = net_binary(&net, KERN_MUL, x, small_factor(&net, x));
    net_output(&net, net_binary(&net, KERN_ADD, x, y));
    net_check(&net, REASSOCIATE, 1, 4);
    assert_int_equal(net_count(&net, GRAPH_BINARY), 1);
    net_end(&net);
}

/* A product that others read, a factor of the tensor's size, factors that
 * together have it, another tensor, an activation between; levels of 8 bits
 * behind. */
TEST(factors_that_stay)
{
    for (int i = 0; i < 6; i++) {
        struct net net;
        int x, y, z;

        x = net_start(&net, 100 + (uint64_t)i, DIMS(-1, 3, 5, 4));
        z = net_unary(&net, x, KERN_TANH);
        y = net_binary(
            &net, KERN_MUL, x,
            i == 1   ? z
            : i == 2 ? net_reduce(&net, x, KERN_REDUCE_MEAN, DIMS(1), true)
                     : small_factor(&net, x));
        if (i == 0)
            net_output(&net, net_unary(&net, y, KERN_TANH));
        if (i == 4)
            net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
        y = i == 2 ? net_binary(&net, KERN_MUL, y, small_factor(&net, x))
                   : net_binary(&net, KERN_ADD, y, i == 3 ? z : x);
        if (i == 5)
            y = net_node(&net, GRAPH_QUANTIZE, IN(y, net_number(&net, 0.5)));
        net_output(&net, y);
        net_refuses(&net, REASSOCIATE);
        net_end(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_then_bn),
        cmocka_unit_test(branches_then_activation),
        cmocka_unit_test(branches_that_stay),
        cmocka_unit_test(response_norm),
        cmocka_unit_test(gate_and_sum),
        cmocka_unit_test(factors_that_stay),
        cmocka_unit_test(conv_then_bn),
        cmocka_unit_test(conv_transpose_then_bn),
        cmocka_unit_test(dense_then_bn),
        cmocka_unit_test(shared_weights),
        cmocka_unit_test(activation_moves),
        cmocka_unit_test(bn_then_conv),
        cmocka_unit_test(bn_then_dense),
        cmocka_unit_test(padded_conv_after),
        cmocka_unit_test(shared_output),
        cmocka_unit_test(graph_output_between),
        cmocka_unit_test(computed_statistics),
        cmocka_unit_test(activation_between),
        cmocka_unit_test(dense_of_rank_3),
        cmocka_unit_test(arithmetic_after_conv),
        cmocka_unit_test(number_minus_conv),
        cmocka_unit_test(bias_of_dense),
        cmocka_unit_test(factor_behind_transpose),
        cmocka_unit_test(normalised_input),
        cmocka_unit_test(normalised_input_with_padding),
        cmocka_unit_test(factor_before_padded_conv),
        cmocka_unit_test(numbers_become_linear),
        cmocka_unit_test(numbers_before_floor),
        cmocka_unit_test(numbers_before_jumps),
        cmocka_unit_test(channels_become_scale_shift),
        cmocka_unit_test(other_constants),
        cmocka_unit_test(extreme_chain),
        cmocka_unit_test(division_by_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
