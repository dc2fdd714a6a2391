/* SPDX-License-Identifier: Apache-2.0 */
/* fuse-activation, fuse-residual and widen-residual: before and after on the
 * reference backend, and the graphs in which they must do nothing. */
#include "tests/unit/weights/passes/net.h"

#include <math.h>
#include <string.h>

TEST(activations)
{
    struct net net;

    for (int kind = KERN_RELU; kind <= KERN_LINEAR; kind++) {
        int x, y;

        x = net_start(&net, 70 + (uint64_t)kind, DIMS(-1, 3, 5, 5));
        y = net_conv(&net, x, 4, 3, 3, 1);
        y = net_unary(&net, y, (enum kern_unary_kind)kind);
        net_output(&net, y);
        /* No activation has a slope above 2 where these inputs lie. */
        net_check(&net, "fuse-activation", 1, 2);
        assert_int_equal(net.g->n_nodes, 1);
        net_end(&net);
    }
}

TEST(activation_of_shared)
{
    struct net net;
    int x, y;

    x = net_start(&net, 100, DIMS(-1, 3, 5, 5));
    y = net_conv(&net, x, 4, 3, 3, 1);
    net_output(&net, net_unary(&net, y, KERN_RELU));
    net_output(&net, net_unary(&net, y, KERN_TANH));
    net_refuses(&net, "fuse-activation");
    net_end(&net);
}

TEST(second_activation)
{
    struct net net;
    int x, y;

    x = net_start(&net, 101, DIMS(-1, 3, 5, 5));
    y = net_unary(&net, net_conv(&net, x, 4, 3, 3, 1), KERN_TANH);
    net_output(&net, net_unary(&net, y, KERN_RELU));
    net_check(&net, "fuse-activation", 1, 1);
    assert_int_equal(net.g->n_nodes, 2);
    net_end(&net);
}

/* conv + x, [relu]; x is ready before the convolution. */
TEST(residual)
{
    struct net net;
    int x, y;

    for (int act = 0; act < 2; act++) {
        x = net_start(&net, 110 + (uint64_t)act, DIMS(-1, 3, 5, 5));
        y = net_conv(&net, x, 3, 3, 3, 1);
        net_output(&net, net_binary(&net, KERN_ADD, x, y));
        if (act)
            net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
        net_check(&net, "fuse-residual", 1, 1);
        assert_int_equal(net.g->n_nodes, 1);
        assert_false(net.g->node[0].epilogue.residual_last);
        assert_int_equal(net.g->node[0].epilogue.act.kind,
                         act ? KERN_RELU : KERN_IDENTITY);
        net_end(&net);
    }
}

TEST(residual_behind_activation)
{
    struct net net;
    int x, y;

    x = net_start(&net, 112, DIMS(-1, 3, 5, 5));
    y = net_conv(&net, x, 3, 3, 3, 1);
    net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
    net_output(&net, net_binary(&net, KERN_ADD, y, x));
    net_check(&net, "fuse-residual", 1, 1);
    assert_true(net.g->node[0].epilogue.residual_last);
    net_end(&net);
}

/* Both sides are convolutions: the later one takes the earlier one's. */
TEST(two_convolutions)
{
    struct net net;
    int x, y, z;

    x = net_start(&net, 113, DIMS(-1, 3, 5, 5));
    y = net_conv(&net, x, 4, 3, 3, 1);
    z = net_conv(&net, x, 4, 3, 1, 0);
    net_output(&net, net_binary(&net, KERN_ADD, y, z));
    net_check(&net, "fuse-residual", 1, 1);
    assert_int_equal(net.g->n_nodes, 2);
    net_end(&net);
}

TEST(dense_residual)
{
    struct net net;
    int x, y;

    x = net_start(&net, 114, DIMS(-1, 4));
    y = net_dense(&net, x, 4, 4);
    net_output(&net, net_binary(&net, KERN_ADD, y, x));
    net_check(&net, "fuse-residual", 1, 1);
    net_end(&net);
}

/* Channels last in between: the residual is transposed there instead. */
TEST(residual_behind_transpose)
{
    for (int kind = 0; kind < 4; kind++) {
        struct net net;
        int x, y;

        x = net_start(&net, 130 + (uint64_t)kind, DIMS(-1, 3, 5, 4));
        y = net_transpose(&net, x, DIMS(0, 2, 3, 1));
        y = net_dense(&net, y, 3, 3);
        if (kind >= 2)
            net_latest(&net)->epilogue.act = graph_unary(KERN_TANH);
        if (kind == 1) /* also read elsewhere */
            net_output(&net, net_unary(&net, y, KERN_TANH));
        y = net_transpose(&net, y, DIMS(0, 3, 1, 2));
        net_output(&net, net_binary(&net, KERN_ADD, x, y));
        if (kind == 3) /* two activations */
            net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
        if (kind % 2) {
            net_refuses(&net, "fuse-residual");
        } else {
            net_check(&net, "fuse-residual", 1, kind ? 2 : 1);
            assert_int_equal(net_count(&net, GRAPH_BINARY), 0);
            assert_int_equal(net_count(&net, GRAPH_TRANSPOSE), 3);
        }
        net_end(&net);
    }
}

TEST(residuals_that_stay)
{
    struct net net;

    for (int kind = 0; kind < 5; kind++) {
        int x, y;

        x = net_start(&net, 120 + (uint64_t)kind, DIMS(-1, 3, 5, 5));
        y = net_conv(&net, x, 3, 3, 3, 1);
        if (kind == 0) /* broadcast */
            x = net_reduce(&net, x, KERN_REDUCE_MEAN, DIMS(2, 3), true);
        if (kind == 1) /* also read elsewhere */
            net_output(&net, net_unary(&net, y, KERN_TANH));
        if (kind == 2) /* two activations */
            net_latest(&net)->epilogue.act = graph_unary(KERN_TANH);
        if (kind == 3) /* twice itself */
            x = y;
        net_output(&net,
                   net_binary(&net, kind == 4 ? KERN_MUL : KERN_ADD, y, x));
        if (kind == 2)
            net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
        net_refuses(&net, "fuse-residual");
        net_end(&net);
    }
}

/* Channels first up to end of a value. */
static int channels_of(struct net *net, int x, int first, int end)
{
    const int y = net_node(net, GRAPH_SLICE, IN(x));
    struct graph_slice *a = &net_attr(net)->slice;

    a->n_axes = 1;
    a->axis[0] = 1;
    a->begin[0] = first;
    a->end[0] = end;
    return y;
}

/* concat(y[:, :first] + x, y[:, second:]) of a y with 5 channels. */
static int add_to_part(struct net *net, int x, int y, int first, int second,
                       enum kern_binary_kind kind, bool swapped)
{
    const int part = channels_of(net, y, 0, first);
    const int sum = swapped ? net_binary(net, kind, x, part)
                            : net_binary(net, kind, part, x);
    const int joined = net_node(
        net, GRAPH_CONCAT, IN(sum, channels_of(net, y, second, INT32_MAX)));

    net_attr(net)->axis.axis = 1;
    return joined;
}

TEST(residual_of_fewer_channels)
{
    struct net net;

    for (int swapped = 0; swapped < 2; swapped++) {
        int x = net_start(&net, 150 + (uint64_t)swapped, DIMS(-1, 3, 5, 5));

        net_output(&net, add_to_part(&net, x, net_conv(&net, x, 5, 3, 3, 1), 3,
                                     3, KERN_ADD, swapped == 1));
        net_check(&net, "widen-residual", 1, 1);
        assert_int_equal(net_count(&net, GRAPH_CONCAT), 0);
        net_check(&net, "fuse-residual", 1, 1);
        assert_int_equal(net_count(&net, GRAPH_BINARY), 0);
        assert_int_equal(net_count(&net, GRAPH_PAD), 1);
        net_end(&net);
    }
}

/* A part that is missing, another function, a part that is read once more, and
 * parts of two tensors. */
TEST(parts_that_stay)
{
    struct net net;

    for (int kind = 0; kind < 4; kind++) {
        int x = net_start(&net, 160 + (uint64_t)kind, DIMS(-1, 3, 5, 5));
        int y = net_conv(&net, x, 5, 3, 3, 1), part, z;

        if (kind == 3) {
            part = net_binary(&net, KERN_ADD, channels_of(&net, y, 0, 3), x);
            z = net_conv(&net, x, 5, 3, 3, 1);
            z = net_node(&net, GRAPH_CONCAT,
                         IN(part, channels_of(&net, z, 3, 5)));
            net_attr(&net)->axis.axis = 1;
        } else {
            z = add_to_part(&net, x, y, 3, kind == 0 ? 4 : 3,
                            kind == 1 ? KERN_MUL : KERN_ADD, false);
        }
        net_output(&net, z);
        if (kind == 2) {
            const struct graph_node *sum =
                &net.g->node[net.g->value[net.g->node[net.g->n_nodes - 1].in[0]]
                                 .producer];
            net_output(&net, sum->in[0]);
        }
        net_refuses(&net, "widen-residual");
        net_end(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),
        cmocka_unit_test(activation_of_shared),
        cmocka_unit_test(second_activation),
        cmocka_unit_test(residual),
        cmocka_unit_test(residual_behind_activation),
        cmocka_unit_test(two_convolutions),
        cmocka_unit_test(dense_residual),
        cmocka_unit_test(residual_behind_transpose),
        cmocka_unit_test(residuals_that_stay),
        cmocka_unit_test(residual_of_fewer_channels),
        cmocka_unit_test(parts_that_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
