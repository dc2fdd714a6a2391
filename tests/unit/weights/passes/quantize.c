/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation after training: integers, scales and ranges by hand, what shares
 * a scale, and what is refused. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "tests/unit/weights/passes/net.h"
#include "weights/quantize/quantize.h"

/* Opens a quantiser and shows it one sample: the same row for each value. */
static int open_with(struct net *net, const struct quantize_options *options,
                     const float *row, int rank, const int64_t *dim,
                     struct infer_error *err, struct quantizer **q)
{
    const int *value;
    int rc, n;

    assert_int_equal(graph_compact(net->g, err), 0);
    assert_int_equal(graph_infer_shapes(net->g, NULL, err), 0);
    rc = quantizer_open(net->g, options, err, q);
    if (rc < 0)
        return rc;
    do {
        n = quantizer_watched(*q, &value);
        for (int i = 0; i < n && rc == 0; i++)
            rc = quantizer_observe(*q, i, row, rank, dim, err);
    } while (rc == 0 && quantizer_next(*q));
    return rc;
}

/* The node that makes a value has this operation; its constant input i. */
static const struct constant *constant_of(const struct graph *g, int value,
                                          enum graph_op op, int i)
{
    const int node = g->value[value].producer;

    assert_true(node >= 0);
    assert_int_equal(g->node[node].op, op);
    assert_non_null(g->value[g->node[node].in[i]].data);
    return g->value[g->node[node].in[i]].data;
}

static const struct graph_node *find_node(const struct graph *g,
                                          enum graph_op op)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == op)
            return &g->node[i];
    return NULL;
}

/* Weights 0.5 (127, -64, 1) and 0.25 (2, 127, 0), bias 3 and -1; an input from
 * -2 to 1, so that its scale is 2/127. */
static int start_dense(struct net *net)
{
    static const float weight[6] = {63.5f, -32, 0.5f, 0.5f, 31.75f, 0};
    static const float bias[2] = {3, -1};
    int x = net_start(net, 1, DIMS(-1, 3)), w, b;

    w = net_weight(net, DIMS(2, 3));
    memcpy(net->g->value[w].data->data, weight, sizeof weight);
    b = net_weight(net, DIMS(2));
    memcpy(net->g->value[b].data->data, bias, sizeof bias);
    return net_node(net, GRAPH_DENSE, IN(x, w, b));
}

TEST(dense_integers)
{
    static const float row[3] = {-2, 1, 0};
    static const int8_t expected[6] = {127, -64, 1, 2, 127, 0};
    const struct quantize_layer *layer;
    struct quantize_options options;
    const struct constant *q, *s, *b;
    const struct graph_node *n;
    struct infer_error err;
    struct quantizer *quantizer;
    struct net net;

    net_output(&net, start_dense(&net));
    quantize_options_init(&options);
    options.method = QUANTIZE_MAX;
    assert_int_equal(
        open_with(&net, &options, row, DIMS(1, 3), &err, &quantizer), 0);
    assert_int_equal(quantizer_apply(quantizer, net.g, &err), 0);
    assert_int_equal(quantizer_layers(quantizer, &layer), 1);
    assert_null(layer->why);
    assert_int_equal(layer->dtype, INFER_I8);
    assert_float_equal(layer->low, -2, 0);
    assert_float_equal(layer->limit, 2, 1e-6);
    n = find_node(net.g, GRAPH_DENSE);
    q = constant_of(net.g, n->in[1], GRAPH_DEQUANTIZE, 0);
    assert_int_equal(q->dtype, INFER_I8);
    assert_memory_equal(q->data, expected, sizeof expected);
    s = constant_of(net.g, n->in[1], GRAPH_DEQUANTIZE, 1);
    assert_float_equal(((const float *)(const void *)s->data)[0], 0.5, 1e-7);
    assert_float_equal(((const float *)(const void *)s->data)[1], 0.25, 1e-7);
    b = constant_of(net.g, n->in[2], GRAPH_DEQUANTIZE, 0);
    assert_int_equal(b->dtype, INFER_I32);
    assert_int_equal(((const int32_t *)(const void *)b->data)[0], 381);
    assert_int_equal(((const int32_t *)(const void *)b->data)[1], -254);
    quantizer_close(quantizer);
    net_end(&net);
}

/* The largest weight of a channel becomes 448, the largest input too; biases
 * stay floats.  Weights of channel 0: 448, -225.8 (to -224), 3.5 (3.5); of
 * channel 1: 7.06 (7), 448, 0. */
TEST(dense_float8)
{
    static const float row[3] = {-2, 1, 0};
    static const uint8_t expected[6] = {0x7e, 0xf6, 0x46, 0x4e, 0x7e, 0};
    const struct quantize_layer *layer;
    struct quantize_options options;
    const struct constant *q, *s, *b;
    const struct graph_node *n;
    struct infer_error err;
    struct quantizer *quantizer;
    struct net net;

    net_output(&net, start_dense(&net));
    quantize_options_init(&options);
    options.dtype = INFER_F8E4M3;
    options.method = QUANTIZE_MAX;
    options.bias_correction = false;
    assert_int_equal(
        open_with(&net, &options, row, DIMS(1, 3), &err, &quantizer), 0);
    assert_int_equal(quantizer_apply(quantizer, net.g, &err), 0);
    assert_int_equal(quantizer_layers(quantizer, &layer), 1);
    assert_null(layer->why);
    assert_int_equal(layer->dtype, INFER_F8E4M3);
    assert_float_equal(layer->limit, 2, 1e-6);
    n = find_node(net.g, GRAPH_QUANTIZE);
    assert_int_equal(n->attr.quantize.to, INFER_F8E4M3);
    n = find_node(net.g, GRAPH_DENSE);
    s = constant_of(net.g, n->in[0], GRAPH_DEQUANTIZE, 1);
    assert_float_equal(((const float *)(const void *)s->data)[0], 2.0 / 448,
                       1e-9);
    q = constant_of(net.g, n->in[1], GRAPH_DEQUANTIZE, 0);
    assert_int_equal(q->dtype, INFER_F8E4M3);
    assert_memory_equal(q->data, expected, sizeof expected);
    s = constant_of(net.g, n->in[1], GRAPH_DEQUANTIZE, 1);
    assert_float_equal(((const float *)(const void *)s->data)[0], 63.5 / 448,
                       1e-7);
    b = net.g->value[n->in[2]].data;
    assert_non_null(b);
    assert_int_equal(b->dtype, INFER_F32);
    assert_float_equal(((const float *)(const void *)b->data)[0], 3, 0);
    quantizer_close(quantizer);
    net_end(&net);
}

/* A mean error of the weights goes into the bias, here one that was absent. */
TEST(bias_correction)
{
    static const float row[2] = {1, 0};
    /* 0.6 of a step is rounded to 1, times a mean input of 1. */
    static const float weight[2] = {0.6f, 127};
    struct quantize_options options;
    const struct constant *b;
    struct infer_error err;
    struct quantizer *q;

    for (int correct = 0; correct < 2; correct++) {
        const struct graph_node *n;
        struct net net;
        int x = net_start(&net, 1, DIMS(-1, 2)), w;

        x = net_unary(&net, x, KERN_RELU);
        w = net_weight(&net, DIMS(1, 2));
        memcpy(net.g->value[w].data->data, weight, sizeof weight);
        net_output(&net, net_node(&net, GRAPH_DENSE, IN(x, w)));
        quantize_options_init(&options);
        options.bias_correction = correct;
        assert_int_equal(open_with(&net, &options, row, DIMS(1, 2), &err, &q),
                         0);
        assert_int_equal(quantizer_apply(q, net.g, &err), 0);
        n = find_node(net.g, GRAPH_DENSE);
        assert_int_equal(n->n_in, correct ? 3 : 2);
        if (correct) {
            /* -0.4 in units of 1/255. */
            b = constant_of(net.g, n->in[2], GRAPH_DEQUANTIZE, 0);
            assert_int_equal(((const int32_t *)(const void *)b->data)[0], -102);
        }
        quantizer_close(q);
        net_end(&net);
    }
}

/* The input and the output of a maximum have one scale, so that it can run on
 * integers. */
TEST(pool_shares_scale)
{
    static const float row[32] = {0.5f, 3, [31] = 1};
    struct quantize_options options;
    const struct graph_node *pool;
    const struct constant *before, *after;
    struct infer_error err;
    struct quantizer *q;
    struct net net;
    int x = net_start(&net, 3, DIMS(-1, 2, 4, 4)), y, i;

    x = net_unary(&net, x, KERN_RELU);
    y = net_node(&net, GRAPH_POOL, IN(x));
    for (i = 0; i < 2; i++)
        net_attr(&net)->pool.pool.window[i] = 1;
    net_output(&net, net_conv(&net, y, 3, 2, 1, 0));
    quantize_options_init(&options);
    assert_int_equal(open_with(&net, &options, row, DIMS(1, 2, 4, 4), &err, &q),
                     0);
    assert_int_equal(quantizer_apply(q, net.g, &err), 0);
    pool = find_node(net.g, GRAPH_POOL);
    before = constant_of(net.g, pool->in[0], GRAPH_DEQUANTIZE, 1);
    y = find_node(net.g, GRAPH_CONV)->in[0];
    after = constant_of(net.g, y, GRAPH_DEQUANTIZE, 1);
    assert_memory_equal(before->data, after->data, sizeof(float));
    i = net.g->node[net.g->value[y].producer].in[0];
    assert_int_equal(net.g->value[i].dtype, INFER_U8);
    quantizer_close(q);
    net_end(&net);
}

/* U8 from 0 on cuts off what is negative, so that a tensor whose samples merely
 * were not negative is I8: here an input and a mean of it, and the same behind
 * a ReLU. */
TEST(u8_where_not_negative)
{
    static const float row[48] = {0.5f, 3, [47] = 1};
    const int64_t image[2] = {2, 3};

    for (int i = 0; i < 4; i++) {
        const enum infer_dtype expected = i / 2 == 0 ? INFER_I8 : INFER_U8;
        const struct quantize_layer *layer;
        struct quantize_options options;
        struct infer_error err;
        struct quantizer *q;
        struct net net;
        int x = net_start(&net, 3, DIMS(-1, 3, 4, 4));

        if (i / 2 == 1)
            x = net_unary(&net, x, KERN_RELU);
        if (i % 2 == 1)
            x = net_reduce(&net, x, KERN_REDUCE_MEAN, 2, image, true);
        net_output(&net, net_conv(&net, x, 3, 3, 1, 0));
        quantize_options_init(&options);
        assert_int_equal(
            open_with(&net, &options, row, DIMS(1, 3, 4, 4), &err, &q), 0);
        assert_int_equal(quantizer_apply(q, net.g, &err), 0);
        assert_int_equal(quantizer_layers(q, &layer), 1);
        assert_int_equal(layer->dtype, expected);
        quantizer_close(q);
        net_end(&net);
    }
}

/* What a product, a scale with a shift and a resize make a layer's input of is
 * in 8 bits too; a gate of one number a channel stays float. */
TEST(gate_stays_float)
{
    static const float row[32] = {0.5f, -3, [31] = 1};
    const int64_t image[2] = {2, 3};
    struct quantize_options options;
    const struct graph_node *product;
    struct infer_error err;
    struct quantizer *q;
    struct net net;
    int x = net_start(&net, 3, DIMS(-1, 2, 4, 4)), a, y;

    a = net_conv(&net, x, 2, 2, 1, 0);
    y = net_reduce(&net, a, KERN_REDUCE_MEAN, 2, image, true);
    y = net_binary(&net, KERN_MUL, a, net_unary(&net, y, KERN_SIGMOID));
    y = net_node(&net, GRAPH_SCALE_SHIFT, IN(y, net_weight(&net, DIMS(2))));
    y = net_node(&net, GRAPH_RESIZE, IN(y));
    net_attr(&net)->resize.resize.mode = KERN_NEAREST;
    net_attr(&net)->resize.resize.scale[2] = 2;
    net_output(&net, net_conv(&net, y, 3, 2, 1, 0));
    quantize_options_init(&options);
    assert_int_equal(open_with(&net, &options, row, DIMS(1, 2, 4, 4), &err, &q),
                     0);
    assert_int_equal(quantizer_apply(q, net.g, &err), 0);
    product = find_node(net.g, GRAPH_BINARY);
    (void)constant_of(net.g, product->in[0], GRAPH_DEQUANTIZE, 1);
    y = net.g->value[product->in[1]].producer;
    assert_int_equal(net.g->node[y].op, GRAPH_UNARY);
    assert_int_equal(net_count(&net, GRAPH_QUANTIZE), 5);
    (void)constant_of(net.g, find_node(net.g, GRAPH_REDUCE)->in[0],
                      GRAPH_DEQUANTIZE, 1);
    (void)constant_of(net.g, find_node(net.g, GRAPH_SCALE_SHIFT)->in[0],
                      GRAPH_DEQUANTIZE, 1);
    (void)constant_of(net.g, find_node(net.g, GRAPH_RESIZE)->in[0],
                      GRAPH_DEQUANTIZE, 1);
    quantizer_close(q);
    net_end(&net);
}

/* The limit that a method chooses for a row of 2,000 numbers, exponentially
 * distributed with mean 0.1 (up to 0.76), and one of `far`. */
static double limit_of(enum quantize_method method, enum infer_dtype dtype,
                       float far)
{
    enum { N = 2001 };
    const struct quantize_layer *layer;
    struct quantize_options options;
    struct infer_error err;
    struct quantizer *q;
    struct net net;
    float row[N];
    double limit;
    int x = net_start(&net, 3, DIMS(-1, N));

    x = net_unary(&net, x, KERN_RELU);
    for (int i = 0; i + 1 < N; i++)
        row[i] = (float)(-0.1 * log(1 - i / (double)N));
    row[N - 1] = far;
    net_output(&net, net_dense(&net, x, 1, N));
    quantize_options_init(&options);
    options.method = method;
    options.dtype = dtype;
    assert_int_equal(open_with(&net, &options, row, DIMS(1, N), &err, &q), 0);
    assert_int_equal(quantizer_apply(q, net.g, &err), 0);
    assert_int_equal(quantizer_layers(q, &layer), 1);
    limit = layer->limit;
    quantizer_close(q);
    net_end(&net);
    return limit;
}

/* One element far from all others costs less than steps that are coarse for
 * these (2.5: the same sum computed in Python); floats have fine steps there
 * anyway. */
TEST(entropy_cuts_outliers)
{
    static const enum infer_dtype dtypes[] = {INFER_I8, INFER_F8E4M3};

    for (int i = 0; i < 2; i++) {
        const double limit = limit_of(QUANTIZE_ENTROPY, dtypes[i], 20);

        assert_float_equal(limit_of(QUANTIZE_MAX, dtypes[i], 20), 20, 1e-4);
        assert_float_equal(limit, dtypes[i] == INFER_I8 ? 2.5 : 20, 1e-4);
    }
}

/* Layers are chosen again after an application, on copies of the graph; a
 * tensor that only layers in floats read is not quantised. */
TEST(keep_and_apply_again)
{
    static const float row[4] = {1, -2, 3, 0.5f};
    const struct quantize_layer *layer;
    struct quantize_options options;
    struct infer_error err;
    struct quantizer *q;
    struct net net;
    int x = net_start(&net, 5, DIMS(-1, 4)), expected;

    x = net_dense(&net, x, 4, 4);
    net_output(&net, net_dense(&net, x, 4, 4));
    quantize_options_init(&options);
    assert_int_equal(open_with(&net, &options, row, DIMS(1, 4), &err, &q), 0);
    assert_int_equal(quantizer_layers(q, &layer), 2);
    for (int kept = 0; kept < 4; kept++) {
        struct graph *copy = graph_copy(net.g);
        int found = 0;

        for (int i = 0; i < 2; i++)
            quantizer_keep(q, i, kept >> i & 1 ? "test" : NULL);
        expected = kept == 3 ? INFER_EUNSUPPORTED : 0;
        assert_int_equal(quantizer_apply(q, copy, &err), expected);
        for (int i = 0; i < copy->n_nodes; i++)
            found += copy->node[i].op == GRAPH_QUANTIZE;
        assert_int_equal(found, kept == 3 ? 0 : 2 - (kept > 0));
        graph_free(copy);
    }
    quantizer_close(q);
    net_end(&net);
}

TEST(refused)
{
    static const float zeros[3] = {0, 0, 0};
    const float bad[3] = {1, NAN, 0};
    const struct quantize_layer *layer;
    struct quantize_options options;
    struct infer_error err;
    struct quantizer *q = NULL;
    struct net net;

    net_output(&net, start_dense(&net));
    quantize_options_init(&options);
    assert_int_equal(open_with(&net, &options, bad, DIMS(1, 3), &err, &q),
                     INFER_EFORMAT);
    assert_non_null(strstr(err.text, "element 1 is nan"));
    quantizer_close(q);
    assert_int_equal(open_with(&net, &options, zeros, DIMS(1, 3), &err, &q), 0);
    assert_int_equal(quantizer_apply(q, net.g, &err), INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "0 in every sample"));
    quantizer_close(q);
    options.keep_float = "nothing*";
    assert_int_equal(open_with(&net, &options, zeros, DIMS(1, 3), &err, &q),
                     INFER_EARGUMENT);
    options.keep_float = "x*,*";
    assert_int_equal(open_with(&net, &options, zeros, DIMS(1, 3), &err, &q),
                     INFER_EARGUMENT);
    options.keep_float = "*";
    assert_int_equal(open_with(&net, &options, zeros, DIMS(1, 3), &err, &q), 0);
    assert_int_equal(quantizer_layers(q, &layer), 1);
    assert_string_equal(layer->why, "asked for");
    quantizer_close(q);
    net_end(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_integers),
        cmocka_unit_test(dense_float8),
        cmocka_unit_test(bias_correction),
        cmocka_unit_test(pool_shares_scale),
        cmocka_unit_test(u8_where_not_negative),
        cmocka_unit_test(gate_stays_float),
        cmocka_unit_test(entropy_cuts_outliers),
        cmocka_unit_test(keep_and_apply_again),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
