/* SPDX-License-Identifier: Apache-2.0 */
/* remove-transposes, merge-reshapes and reorder-dense: before and after on the
 * reference backend, and the graphs in which they must do nothing. */
#include "tests/unit/weights/passes/net.h"

#define TRANSPOSES "remove-transposes"

static int to_nhwc(struct net *net, int x)
{
    return net_transpose(net, x, DIMS(0, 2, 3, 1));
}

static int to_nchw(struct net *net, int x)
{
    return net_transpose(net, x, DIMS(0, 3, 1, 2));
}

/* conv as TensorFlow's exporter writes it: N,H,W,C in and out. */
static int nhwc_conv(struct net *net, int x, int out, int in)
{
    return to_nhwc(net, net_conv(net, to_nchw(net, x), out, in, 3, 1));
}

/* After all passes the transposes of a graph are those at its ends. */
static void leaves_transposes(struct net *net, int n)
{
    net_check_all(net, 2);
    assert_int_equal(net_count(net, GRAPH_TRANSPOSE), n);
    net_end(net);
}

TEST(elementwise)
{
    struct net net;
    int x, y;

    x = net_start(&net, 1, DIMS(-1, 6, 5, 3));
    y = nhwc_conv(&net, x, 4, 3);
    y = net_binary(&net, KERN_ADD, y, net_weight(&net, DIMS(4)));
    y = net_unary(&net, y, KERN_RELU);
    y = net_binary(&net, KERN_MUL, y, net_weight(&net, DIMS(5, 1)));
    y = nhwc_conv(&net, y, 4, 4);
    net_output(&net, y);
    /* One at the input, one at the output. */
    leaves_transposes(&net, 2);
}

TEST(residual_block)
{
    struct net net;
    int x, y, z;

    x = net_start(&net, 2, DIMS(-1, 6, 5, 3));
    y = net_unary(&net, nhwc_conv(&net, x, 4, 3), KERN_RELU);
    z = nhwc_conv(&net, net_unary(&net, nhwc_conv(&net, y, 4, 4), KERN_RELU), 4,
                  4);
    y = net_unary(&net, net_binary(&net, KERN_ADD, y, z), KERN_RELU);
    y = net_reduce(&net, nhwc_conv(&net, y, 2, 4), KERN_REDUCE_MEAN, DIMS(1, 2),
                   false);
    net_output(&net, y);
    leaves_transposes(&net, 1);
}

/* Operations with axes. */
TEST(axes)
{
    struct net net;

    for (int kind = 0; kind < 6; kind++) {
        int x, y, z;

        x = net_start(&net, 10 + (uint64_t)kind, DIMS(-1, 3, 6, 4));
        y = to_nhwc(&net, x);
        if (kind == 0) {
            z = to_nhwc(&net, net_conv(&net, x, 2, 3, 1, 0));
            y = net_node(&net, GRAPH_CONCAT, IN(y, z));
            net_attr(&net)->axis.axis = -1;
        } else if (kind == 1) {
            y = net_node(&net, GRAPH_PAD, IN(y));
            net_attr(&net)->pad.begin[1] = 1;
            net_attr(&net)->pad.end[2] = 2;
        } else if (kind == 2) {
            y = net_node(&net, GRAPH_SOFTMAX, IN(y));
            net_attr(&net)->axis.axis = 3;
        } else if (kind == 3) {
            y = net_node(&net, GRAPH_SLICE, IN(y));
            net_attr(&net)->slice.n_axes = 2;
            net_attr(&net)->slice.axis[0] = 1;
            net_attr(&net)->slice.axis[1] = -1;
            net_attr(&net)->slice.begin[0] = 1;
            net_attr(&net)->slice.end[0] = 5;
            net_attr(&net)->slice.step[0] = 2;
            net_attr(&net)->slice.begin[1] = 1;
            net_attr(&net)->slice.end[1] = 3;
            net_attr(&net)->slice.step[1] = 1;
        } else if (kind == 4) {
            y = net_reduce(&net, y, KERN_REDUCE_MAX, DIMS(3), true);
        } else {
            y = net_node(&net, GRAPH_RESIZE, IN(y));
            for (int i = 0; i < 4; i++)
                net_attr(&net)->resize.resize.scale[i] = i == 2 ? 2 : 1;
        }
        net_output(&net, net_unary(&net, to_nchw(&net, y), KERN_TANH));
        net_check(&net, TRANSPOSES, -1, 2);
        assert_int_equal(net_count(&net, GRAPH_TRANSPOSE), 1);
        net_end(&net);
        /* The last one is the identity, which another pass takes off. */
    }
}

/* A reduction that drops dimensions: N,H,W,C over W gives N,H,C. */
TEST(dropped_dimensions)
{
    struct net net;
    int x, y;

    x = net_start(&net, 20, DIMS(-1, 3, 6, 4));
    y = net_reduce(&net, to_nhwc(&net, x), KERN_REDUCE_SUM, DIMS(2), false);
    net_output(&net, y);
    net_check(&net, TRANSPOSES, -1, 1);
    net_end(&net);
}

TEST(split_into_parts)
{
    struct net net;
    int x, y, out[2];

    x = net_start(&net, 21, DIMS(-1, 4, 6, 5));
    y = to_nhwc(&net, x);
    for (int i = 0; i < 2; i++)
        out[i] = graph_add_value(net.g, NULL);
    assert_true(graph_add_node(net.g, GRAPH_SPLIT, NULL, &y, 1, out, 2) >= 0);
    net_attr(&net)->split.axis = 3;
    y = net_binary(&net, KERN_SUB, to_nchw(&net, out[1]),
                   to_nchw(&net, out[0]));
    net_output(&net, y);
    leaves_transposes(&net, 0);
}

/* Squeeze and excitation on N,H,W,C: the gate is N,1,1,C. */
TEST(gate)
{
    struct net net;
    int x, y, z;

    x = net_start(&net, 22, DIMS(-1, 6, 5, 4));
    y = nhwc_conv(&net, x, 4, 4);
    z = net_reduce(&net, y, KERN_REDUCE_MEAN, DIMS(1, 2), false);
    z = net_unary(&net, net_dense(&net, z, 4, 4), KERN_SIGMOID);
    z = net_reshape(&net, z, DIMS(-1, 1, 1, 4));
    y = nhwc_conv(&net, net_binary(&net, KERN_MUL, y, z), 3, 4);
    net_output(&net, net_reduce(&net, y, KERN_REDUCE_MAX, DIMS(1, 2), false));
    leaves_transposes(&net, 1);
}

/* Preprocessing on the N,H,W,C input: the transpose rises above it. */
TEST(input_arithmetic)
{
    struct net net;
    int x, y;

    x = net_start(&net, 23, DIMS(-1, 6, 5, 3));
    y = net_binary(&net, KERN_SUB, x, net_weight(&net, DIMS(3)));
    y = net_binary(&net, KERN_MUL, y, net_weight(&net, DIMS(1, 1, 1, 3)));
    y = net_unary(&net, y, KERN_TANH);
    net_output(&net, net_conv(&net, to_nchw(&net, y), 4, 3, 3, 1));
    net_check(&net, TRANSPOSES, 3, 2);
    assert_int_equal(net.g->node[0].op, GRAPH_TRANSPOSE);
    net_end(&net);
}

TEST(two_in_a_row)
{
    struct net net;
    int x, y;

    x = net_start(&net, 24, DIMS(-1, 2, 3, 4));
    y = net_transpose(&net, x, DIMS(0, 2, 1, 3));
    net_output(&net, net_transpose(&net, y, DIMS(0, 3, 1, 2)));
    net_check(&net, TRANSPOSES, 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

TEST(one_element_planes)
{
    struct net net;
    int x;

    x = net_start(&net, 25, DIMS(-1, 5, 1, 1));
    net_output(&net, to_nhwc(&net, x));
    net_check(&net, TRANSPOSES, 1, 1);
    assert_int_equal(net.g->node[0].op, GRAPH_RESHAPE);
    net_end(&net);
}

TEST(transposes_that_stay)
{
    struct net net;

    for (int kind = 0; kind < 4; kind++) {
        int x, y;

        x = net_start(&net, 30 + (uint64_t)kind, DIMS(-1, 4, 6, 5));
        if (kind == 0) { /* no channels-last order */
            y = net_transpose(&net, x, DIMS(0, 1, 3, 2));
            y = net_unary(&net, y, KERN_RELU);
        } else if (kind == 1) { /* the other operand is in N,H,W,C */
            int z = net_input(&net, DIMS(-1, 6, 5, 4));

            y = net_binary(&net, KERN_ADD, to_nhwc(&net, x), z);
        } else if (kind == 2) { /* rows of pixels, as detectors want them */
            y = net_reshape(&net, to_nhwc(&net, x), DIMS(-1, 60, 2));
        } else { /* at the output */
            y = to_nhwc(&net, x);
        }
        net_output(&net, y);
        net_refuses(&net, TRANSPOSES);
        net_end(&net);
    }
}

/* ---- reshapes ------------------------------------------------------ */

TEST(reshapes)
{
    struct net net;
    int x, y;

    x = net_start(&net, 40, DIMS(-1, 4, 6, 5));
    y = net_reshape(&net, x, DIMS(-1, 2, 2, 30));
    y = net_node(&net, GRAPH_FLATTEN, IN(y));
    net_attr(&net)->axis.axis = 1;
    net_output(&net, net_reshape(&net, y, DIMS(-1, 12, 10)));
    net_check(&net, "merge-reshapes", -1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* ---- dense --------------------------------------------------------- */

static int flattened(struct net *net, int x, int kind)
{
    int y =
        kind == 2 ? net_transpose(net, x, DIMS(0, 3, 2, 1)) : to_nhwc(net, x);

    if (kind == 1) {
        y = net_node(net, GRAPH_FLATTEN, IN(y));
        net_attr(net)->axis.axis = 1;
        return y;
    }
    return net_reshape(net, y, DIMS(-1, 120));
}

TEST(dense_columns)
{
    struct net net;

    for (int kind = 0; kind < 3; kind++) {
        int x;

        x = net_start(&net, 50 + (uint64_t)kind, DIMS(-1, 4, 6, 5));
        net_output(&net, net_dense(&net, flattened(&net, x, kind), 7, 120));
        net_check(&net, "reorder-dense", 1, 1);
        assert_int_equal(net_count(&net, GRAPH_TRANSPOSE), 0);
        net_end(&net);
    }
}

TEST(dense_that_stays)
{
    struct net net;

    for (int kind = 0; kind < 3; kind++) {
        int x, y;

        x = net_start(&net, 60 + (uint64_t)kind, DIMS(2, 4, 6, 5));
        if (kind == 0) { /* the batch moves */
            y = net_transpose(&net, x, DIMS(1, 0, 2, 3));
            y = net_dense(&net, net_reshape(&net, y, DIMS(4, 60)), 7, 60);
        } else if (kind == 1) { /* rows of the picture */
            y = net_reshape(&net, to_nhwc(&net, x), DIMS(2, 6, 20));
            y = net_dense(&net, y, 7, 20);
        } else { /* somebody else reads the row */
            y = flattened(&net, x, 0);
            net_output(&net, net_unary(&net, y, KERN_RELU));
            y = net_dense(&net, y, 7, 120);
        }
        net_output(&net, y);
        net_refuses(&net, "reorder-dense");
        net_end(&net);
    }
}

/* All of it: a small network as Keras and tf2onnx write it. */
TEST(keras_network)
{
    struct net net;
    int x, y;

    x = net_start(&net, 70, DIMS(-1, 6, 5, 3));
    y = net_unary(&net, nhwc_conv(&net, x, 4, 3), KERN_RELU);
    y = net_binary(&net, KERN_MUL, y, net_weight(&net, DIMS(4)));
    y = net_binary(&net, KERN_ADD, y, net_weight(&net, DIMS(4)));
    y = net_reshape(&net, y, DIMS(-1, 120));
    y = net_node(&net, GRAPH_MATMUL, IN(y, net_weight(&net, DIMS(120, 7))));
    y = net_binary(&net, KERN_ADD, y, net_weight(&net, DIMS(7)));
    net_output(&net, net_unary(&net, y, KERN_SIGMOID));
    net_check_all(&net, 2);
    assert_int_equal(net_count(&net, GRAPH_TRANSPOSE), 1);
    assert_int_equal(net_count(&net, GRAPH_DENSE), 1);
    assert_int_equal(net_count(&net, GRAPH_BINARY), 0);
    net_end(&net);
}

/* ---- shuffles of channels ------------------------------------------ */

#define SPLIT_SHUFFLE "split-shuffle"
#define REORDER       "reorder-channels"

/* Channels 0, c / g, 2 c / g ... of N,C,3,4 come first. */
static int shuffle(struct net *net, int x, int channels, int groups)
{
    int y = net_reshape(net, x, DIMS(-1, groups, channels / groups, 3, 4));

    y = net_transpose(net, y, DIMS(0, 2, 1, 3, 4));
    return net_reshape(net, y, DIMS(-1, channels, 3, 4));
}

/* Both parts of x, of `first` channels and the rest, as outputs. */
static void split_in_two(struct net *net, int x, int axis, int first, int rest)
{
    int out[2];

    for (int i = 0; i < 2; i++)
        out[i] = graph_add_value(net->g, NULL);
    assert_true(graph_add_node(net->g, GRAPH_SPLIT, NULL, &x, 1, out, 2) >= 0);
    net_attr(net)->split.axis = axis;
    net_attr(net)->split.n_sizes = 2;
    net_attr(net)->split.size[0] = first;
    net_attr(net)->split.size[1] = rest;
    for (int i = 0; i < 2; i++)
        net_output(net, out[i]);
}

static int channels_of(struct net *net, int x, int begin, int64_t end)
{
    const int y = net_node(net, GRAPH_SLICE, IN(x));
    struct graph_slice *a = &net_attr(net)->slice;

    a->n_axes = 1;
    a->axis[0] = -3;
    a->begin[0] = begin;
    a->end[0] = end;
    return y;
}

TEST(parts_of_a_shuffle)
{
    static const int first[] = {6, 2, 9, 3};
    struct net net;

    for (int kind = 0; kind < 4; kind++) {
        const int groups = kind < 2 ? 2 : 3;
        int x = net_start(&net, 80 + (uint64_t)kind, DIMS(-1, 12, 3, 4));

        x = shuffle(&net, net_unary(&net, x, KERN_TANH), 12, groups);
        split_in_two(&net, x, kind == 1 ? -3 : 1, first[kind],
                     12 - first[kind]);
        net_check(&net, SPLIT_SHUFFLE, 1, 1);
        assert_int_equal(net_count(&net, GRAPH_SPLIT), 1);
        assert_int_equal(net_count(&net, GRAPH_TRANSPOSE), 2);
        assert_int_equal(net_count(&net, GRAPH_RESHAPE), 3);
        net_end(&net);
    }
}

TEST(slices_of_a_shuffle)
{
    struct net net;
    int x;

    x = net_start(&net, 84, DIMS(-1, 12, 3, 4));
    x = shuffle(&net, net_unary(&net, x, KERN_TANH), 12, 2);
    net_output(&net, channels_of(&net, x, 0, 4));
    net_output(&net, channels_of(&net, x, -6, INT64_MAX));
    net_check(&net, SPLIT_SHUFFLE, 2, 1);
    assert_int_equal(net_count(&net, GRAPH_TRANSPOSE), 2);
    net_end(&net);
}

/* Parts that are no whole groups, another dimension, another reader, another
 * order. */
TEST(parts_that_stay)
{
    struct net net;

    for (int kind = 0; kind < 5; kind++) {
        int x = net_start(&net, 85 + (uint64_t)kind, DIMS(-1, 12, 3, 4));

        x = net_unary(&net, x, KERN_TANH);
        if (kind == 4) {
            x = net_reshape(&net, x, DIMS(-1, 2, 6, 3, 4));
            x = net_transpose(&net, x, DIMS(0, 2, 1, 4, 3));
            x = net_reshape(&net, x, DIMS(-1, 12, 4, 3));
        } else {
            x = shuffle(&net, x, 12, 2);
        }
        if (kind == 1)
            split_in_two(&net, x, 3, 2, 2);
        else
            split_in_two(&net, x, 1, kind == 0 ? 5 : 6, kind == 0 ? 7 : 6);
        if (kind == 2)
            net_output(&net, net_unary(&net, x, KERN_ABS));
        if (kind == 3)
            net_output(&net, x);
        net_refuses(&net, SPLIT_SHUFFLE);
        net_end(&net);
    }
}

/* A depthwise convolution of 12 channels. */
static int depthwise(struct net *net, int x)
{
    const int y = net_conv(net, x, 12, 1, 3, 1);

    net_attr(net)->conv.conv.groups = 12;
    return y;
}

TEST(channels_in_another_order)
{
    struct net net;

    for (int kind = 0; kind < 4; kind++) {
        int x = net_start(&net, 90 + (uint64_t)kind, DIMS(-1, 12, 3, 4)), y;

        x = shuffle(&net, net_unary(&net, x, KERN_TANH), 12, kind ? 3 : 2);
        y = kind >= 2 ? net_unary(&net, depthwise(&net, x), KERN_RELU) : x;
        y = net_conv(&net, y, 5, 12, kind == 1 ? 3 : 1, kind == 1);
        net_output(&net, y);
        if (kind == 3) /* a second one */
            net_output(&net, net_conv(&net, x, 7, 12, 1, 0));
        net_check(&net, REORDER, kind == 3 ? 2 : 1, 1);
        assert_int_equal(net_count(&net, GRAPH_TRANSPOSE), 0);
        net_end(&net);
    }
}

/* Convolutions of groups need the order, and so do other readers on the way. */
TEST(order_that_stays)
{
    struct net net;

    for (int kind = 0; kind < 4; kind++) {
        int x = net_start(&net, 95 + (uint64_t)kind, DIMS(-1, 12, 3, 4)), y;

        x = shuffle(&net, net_unary(&net, x, KERN_TANH), 12, 2);
        if (kind == 0) {
            net_output(&net, net_conv(&net, x, 4, 6, 1, 0));
            net_attr(&net)->conv.conv.groups = 2;
        } else if (kind == 1) { /* weights that are computed */
            y = net_unary(&net, net_weight(&net, DIMS(4, 12, 1, 1)), KERN_TANH);
            net_output(&net, net_node(&net, GRAPH_CONV, IN(x, y)));
        } else {
            y = depthwise(&net, x);
            if (kind == 2)
                net_output(&net, y);
            else /* along pixels */
                y = net_node(&net, GRAPH_SOFTMAX, IN(y));
            net_output(&net, net_conv(&net, y, 5, 12, 1, 0));
        }
        net_refuses(&net, REORDER);
        net_end(&net);
    }
}

/* A part of x beside a convolution of it, both of `half` channels, shuffled. */
static int shuffled_halves(struct net *net, int half, bool swapped)
{
    const int x = net_start(net, 100 + (uint64_t)half, DIMS(-1, 12, 3, 4));
    const int part = channels_of(net, net_unary(net, x, KERN_TANH), 0, half);
    const int layer = net_conv(net, x, half, 12, 1, 0);
    int y = net_node(net, GRAPH_CONCAT,
                     IN(swapped ? layer : part, swapped ? part : layer));

    net_attr(net)->axis.axis = 1;
    y = shuffle(net, y, 2 * half, 2);
    net_output(net, y);
    return y;
}

/* The same, with a reshape that takes entries of two batches for one. */
static void halves_across(struct net *net, int64_t batch, int rank,
                          const int64_t *to)
{
    const int x = net_start(net, 110, DIMS(batch, 6, 3, 2));
    const int part = channels_of(net, net_unary(net, x, KERN_TANH), 0, 3);
    int y = net_node(net, GRAPH_CONCAT, IN(part, net_conv(net, x, 3, 6, 1, 0)));

    net_attr(net)->axis.axis = 1;
    y = net_reshape(net, y, rank, to);
    net_output(net, y);
}

TEST(halves_swapped)
{
    struct net net;

    shuffled_halves(&net, 6, false);
    net_check(&net, "swap-halves", 1, 1);
    assert_int_equal(net_count(&net, GRAPH_SLICE), 2);
    net_end(&net);
    shuffled_halves(&net, 8, false);
    net_refuses(&net, "swap-halves");
    net_end(&net);
    shuffled_halves(&net, 6, true);
    net_refuses(&net, "swap-halves");
    net_end(&net);
    halves_across(&net, 2, DIMS(1, 2, 3, 4, 3));
    net_refuses(&net, "swap-halves");
    net_end(&net);
    halves_across(&net, -1, DIMS(-1, 2, 3, 3, 1));
    net_refuses(&net, "swap-halves");
    net_end(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(residual_block),
        cmocka_unit_test(axes),
        cmocka_unit_test(dropped_dimensions),
        cmocka_unit_test(split_into_parts),
        cmocka_unit_test(gate),
        cmocka_unit_test(input_arithmetic),
        cmocka_unit_test(two_in_a_row),
        cmocka_unit_test(one_element_planes),
        cmocka_unit_test(transposes_that_stay),
        cmocka_unit_test(reshapes),
        cmocka_unit_test(dense_columns),
        cmocka_unit_test(dense_that_stays),
        cmocka_unit_test(keras_network),
        cmocka_unit_test(parts_of_a_shuffle),
        cmocka_unit_test(slices_of_a_shuffle),
        cmocka_unit_test(parts_that_stay),
        cmocka_unit_test(channels_in_another_order),
        cmocka_unit_test(order_that_stays),
        cmocka_unit_test(halves_swapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
