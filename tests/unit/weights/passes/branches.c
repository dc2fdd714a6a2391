/* SPDX-License-Identifier: Apache-2.0 */
/* merge-branches: before and after on the reference backend, and the sums that
 * must stay. */
#include "tests/unit/weights/passes/net.h"

#define PASS "merge-branches"

/* A convolution of 6 channels by 6; pads as SAME's for stride 1. */
static int conv(struct net *net, int x, int groups, int kernel, int dilation)
{
    const int w = net_weight(net, DIMS(6, 6 / groups, kernel, kernel));
    const int y = net_node(net, GRAPH_CONV, IN(x, w, net_weight(net, DIMS(6))));
    struct kern_conv *a = &net_attr(net)->conv.conv;

    a->groups = groups;
    for (int d = 0; d < 2; d++) {
        a->dilation[d] = dilation;
        a->pad_begin[d] = a->pad_end[d] = kernel / 2 * dilation;
    }
    return y;
}

static int scale_shift(struct net *net, int x)
{
    const int scale = net_weight(net, DIMS(6));

    return net_node(net, GRAPH_SCALE_SHIFT,
                    IN(x, scale, net_weight(net, DIMS(6))));
}

static void stride(struct net *net, int by)
{
    net_attr(net)->conv.conv.stride[0] = by;
    net_attr(net)->conv.conv.stride[1] = by;
}

/* 7x7 + 3x3 and 3x3 + 1x1, in either order, dense, grouped and depthwise. */
TEST(two_windows)
{
    struct net net;

    for (int i = 0; i < 24; i++) {
        static const int groups[] = {1, 3, 6};
        const int large = i & 1 ? 7 : 3, small = i & 1 ? 3 : 1;
        const int by = i & 4 ? 2 : 1, n = groups[i / 8];
        int x = net_start(&net, 300 + (uint64_t)i, DIMS(-1, 6, 9, 8)), y, z;

        y = conv(&net, x, n, i & 2 ? large : small, 1);
        stride(&net, by);
        z = conv(&net, x, n, i & 2 ? small : large, 1);
        stride(&net, by);
        net_output(&net, net_binary(&net, KERN_ADD, y, z));
        net_check(&net, PASS, 1, 1);
        assert_int_equal(net.g->n_nodes, 1);
        net_end(&net);
    }
}

/* The block of RepVGG: 3x3 + 1x1 + batch normalisation of the input. */
TEST(three_branches)
{
    struct net net;

    for (int groups = 1; groups <= 6; groups += 5) {
        int x = net_start(&net, 330 + (uint64_t)groups, DIMS(-1, 6, 5, 7)), y;

        y = net_binary(&net, KERN_ADD, conv(&net, x, groups, 3, 1),
                       conv(&net, x, groups, 1, 1));
        net_output(&net,
                   net_binary(&net, KERN_ADD, net_batch_norm(&net, x, 6), y));
        net_check_all(&net, 1);
        assert_int_equal(net.g->n_nodes, 1);
        net_end(&net);
    }
}

/* A scale goes into the centre of a dilated window, too. */
TEST(scale_of_input)
{
    struct net net;

    for (int dilation = 1; dilation <= 2; dilation++) {
        int x = net_start(&net, 340 + (uint64_t)dilation, DIMS(-1, 6, 9, 9));
        int y = conv(&net, x, 2, 3, dilation);

        net_output(&net, net_binary(&net, KERN_ADD, y, scale_shift(&net, x)));
        net_check(&net, PASS, 1, 1);
        assert_int_equal(net.g->n_nodes, 1);
        net_end(&net);
    }
}

/* A window off the centre holds the other one at a corner, as long as both
 * give outputs of one size. */
TEST(pads_of_one_side)
{
    struct net net;
    int x = net_start(&net, 350, DIMS(-1, 6, 6, 6)), y, z;

    y = conv(&net, x, 1, 3, 1);
    for (int d = 0; d < 2; d++) {
        net_attr(&net)->conv.conv.pad_begin[d] = 2;
        net_attr(&net)->conv.conv.pad_end[d] = 0;
    }
    z = conv(&net, x, 1, 1, 1);
    net_output(&net, net_binary(&net, KERN_ADD, y, z));
    net_check(&net, PASS, 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* One node that the pass must not touch. */
enum stays {
    OTHER_INPUT,
    OTHER_GROUPS,
    SECOND_READER,
    ACTIVATION,
    TAPS_BETWEEN,
    OTHER_PADS,
    CASES
};

TEST(sums_that_stay)
{
    struct net net;

    for (int which = 0; which < CASES; which++) {
        int x = net_start(&net, 360 + (uint64_t)which, DIMS(-1, 6, 8, 8)), y, z;
        const int other = net_input(&net, DIMS(-1, 6, 8, 8));

        y = conv(&net, x, which == OTHER_GROUPS ? 3 : 1, 3,
                 which == TAPS_BETWEEN ? 2 : 1);
        if (which == ACTIVATION)
            net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
        z = conv(&net, which == OTHER_INPUT ? other : x, 1,
                 which == TAPS_BETWEEN || which == OTHER_PADS ? 3 : 1, 1);
        if (which == OTHER_PADS)
            for (int d = 0; d < 2; d++) {
                net_attr(&net)->conv.conv.pad_begin[d] = 2;
                net_attr(&net)->conv.conv.pad_end[d] = 0;
            }
        if (which == SECOND_READER)
            net_output(&net, y);
        net_output(&net, net_binary(&net, KERN_ADD, y, z));
        if (which != OTHER_INPUT)
            net_output(&net, net_unary(&net, other, KERN_RELU));
        net_refuses(&net, PASS);
        net_end(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_windows),    cmocka_unit_test(three_branches),
        cmocka_unit_test(scale_of_input), cmocka_unit_test(pads_of_one_side),
        cmocka_unit_test(sums_that_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
