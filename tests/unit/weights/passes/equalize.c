/* SPDX-License-Identifier: Apache-2.0 */
/* Equalisation of channels: the network computes the same function, channels
 * come closer, an upper limit is not passed, and what is left alone. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/model/model.h"
#include "tests/unit/weights/passes/net.h"
#include "weights/quantize/equalize.h"

#define SIDE     6
#define CHANNELS 4
#define PIXELS   (SIDE * SIDE)

struct image {
    float at[CHANNELS * PIXELS];
};

/* Runs g on an image of 2 channels; value: of rank 4, or an output. */
static void run(const struct graph *g, int value, const float *x,
                struct image *y, int channels)
{
    struct infer_session_options options;
    struct infer_session *session;
    struct infer_model *model;
    struct infer_error err = {0};
    struct graph *copy = graph_copy(g);
    struct infer_array in = {.dtype = INFER_F32,
                             .rank = 4,
                             .dim = {1, 2, SIDE, SIDE},
                             .data = (float *)x,
                             .bytes = sizeof(float) * 2 * PIXELS};
    struct infer_array out = {.dtype = INFER_F32,
                              .rank = 4,
                              .dim = {1, channels, SIDE, SIDE},
                              .data = y,
                              .bytes =
                                  sizeof(float) * (size_t)channels * PIXELS};

    copy->n_outputs = 0;
    assert_true(graph_add_output(copy, value) >= 0);
    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    assert_int_equal(model_from_graph(copy, &err, &model), 0);
    assert_int_equal(infer_session_create(model, &options, &err, &session), 0);
    assert_int_equal(infer_session_run(session, &in, 1, &out, 1, &err), 0);
    infer_session_close(&session);
    infer_model_close(&model);
}

static double peak(const struct image *y, int channel)
{
    double top = 0;

    for (int i = 0; i < PIXELS; i++)
        top = fmax(top, fabs((double)y->at[channel * PIXELS + i]));
    return top;
}

/* Multiplies row k of a weight and element k of a vector. */
static void shrink(struct net *net, int node_value, int k, float by)
{
    const struct graph_node *n =
        &net->g->node[net->g->value[node_value].producer];
    struct constant *w = net->g->value[n->in[1]].data;
    float *v = (float *)(void *)w->data;
    const int64_t each = constant_count(w) / w->dim[0];

    for (int64_t i = 0; i < each; i++)
        v[k * each + i] *= by;
    if (n->n_in > 2)
        ((float *)(void *)net->g->value[n->in[2]].data->data)[k] *= by;
}

struct three {
    struct net net;
    int first, middle, last; /* outputs of the layers */
    float x[2 * PIXELS];
    struct image y; /* the output before anything is equalised */
};

/* 1x1 to CHANNELS, depthwise 3x3, 1x1 to 3; channels of the first 1, 1/5, 1/10
 * and 1/2 as large. */
static void start(struct three *t, enum kern_unary_kind kind, float limit)
{
    static const float size[CHANNELS] = {1, 0.2f, 0.1f, 0.5f};
    struct kern_unary act = graph_unary(kind);
    int x = net_start(&t->net, 7, DIMS(-1, 2, SIDE, SIDE));

    if (kind == KERN_CLIP) {
        act.a = 0;
        act.b = limit;
    }
    if (kind == KERN_LEAKY_RELU)
        act.a = 0.5f;
    t->first = net_conv(&t->net, x, CHANNELS, 2, 1, 0);
    net_latest(&t->net)->epilogue.act = act;
    t->middle = net_conv(&t->net, t->first, CHANNELS, 1, 3, 1);
    net_attr(&t->net)->conv.conv.groups = CHANNELS;
    net_latest(&t->net)->epilogue.act = act;
    t->last = net_conv(&t->net, t->middle, 3, CHANNELS, 1, 0);
    net_output(&t->net, t->last);
    for (int k = 0; k < CHANNELS; k++)
        shrink(&t->net, t->first, k, size[k]);
    for (int i = 0; i < 2 * PIXELS; i++)
        t->x[i] = (float)net_random(&t->net);
}

static struct equalizer *equalize(struct three *t, struct graph *g)
{
    struct infer_error err = {0};
    struct equalizer *e;
    const int *value;
    struct image y;
    int n;

    assert_int_equal(graph_infer_shapes(t->net.g, NULL, &err), 0);
    run(t->net.g, t->last, t->x, &t->y, 3);
    assert_int_equal(equalizer_open(t->net.g, &err, &e), 0);
    n = equalizer_watched(e, &value);
    for (int i = 0; i < n; i++) {
        run(t->net.g, value[i], t->x, &y, CHANNELS);
        assert_int_equal(
            equalizer_observe(e, i, y.at, DIMS(1, CHANNELS, SIDE, SIDE), &err),
            0);
    }
    assert_int_equal(equalizer_apply(e, g, &err), 0);
    return e;
}

/* The copy gives what the network gave before, and the network still does. */
static void assert_same_output(const struct three *t, const struct graph *g)
{
    struct image network, copy;

    run(t->net.g, t->last, t->x, &network, 3);
    run(g, t->last, t->x, &copy, 3);
    for (int i = 0; i < 3 * PIXELS; i++) {
        assert_true(network.at[i] == t->y.at[i]);
        assert_float_equal(t->y.at[i], copy.at[i], 2e-6);
    }
}

/* Before a depthwise layer all channels reach 1/EQUALIZE_ROOM of the largest or
 * more, and weights that are shared between graphs are not changed. */
TEST(depthwise_channels_reach_the_range)
{
    static const enum kern_unary_kind kinds[] = {KERN_RELU, KERN_IDENTITY,
                                                 KERN_LEAKY_RELU};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const struct equalize_pair *pair;
        struct equalizer *e;
        struct graph *g;
        struct image y;
        struct three t;
        double top;

        start(&t, kinds[k], 0);
        assert_int_equal(graph_compact(t.net.g, NULL), 0);
        g = graph_copy(t.net.g);
        e = equalize(&t, g);
        assert_same_output(&t, g);
        run(g, t.first, t.x, &y, CHANNELS);
        top = peak(&y, 0);
        for (int c = 1; c < CHANNELS; c++)
            top = fmax(top, peak(&y, c));
        for (int c = 0; c < CHANNELS; c++)
            if (peak(&y, c) > 0)
                assert_true(peak(&y, c) >= top / EQUALIZE_ROOM * 0.999);
        assert_int_equal(equalizer_pairs(e, &pair), 2);
        assert_true(pair[0].spread_before > 3);
        assert_true(pair[0].spread_after < EQUALIZE_ROOM * 1.001);
        assert_true(pair[1].spread_after <= pair[1].spread_before);
        assert_false(pair[0].clipped);
        equalizer_close(e);
        graph_free(g);
        net_end(&t.net);
    }
}

/* With an upper limit channels grow only, and stay EQUALIZE_ROOM below it. */
TEST(upper_limit)
{
    const struct equalize_pair *pair;
    struct image before, after;
    struct equalizer *e;
    struct graph *g;
    struct three t;
    int grown = 0;

    start(&t, KERN_CLIP, 0.8f);
    assert_int_equal(graph_compact(t.net.g, NULL), 0);
    g = graph_copy(t.net.g);
    e = equalize(&t, g);
    assert_same_output(&t, g);
    run(t.net.g, t.first, t.x, &before, CHANNELS);
    run(g, t.first, t.x, &after, CHANNELS);
    for (int c = 0; c < CHANNELS; c++) {
        assert_true(peak(&after, c) >= peak(&before, c) * 0.999);
        if (peak(&after, c) > peak(&before, c) * 1.001) {
            assert_true(peak(&after, c) <= 0.8 / EQUALIZE_ROOM * 1.001);
            grown++;
        }
    }
    assert_true(grown > 0);
    assert_int_equal(equalizer_pairs(e, &pair), 2);
    assert_true(pair[0].clipped);
    equalizer_close(e);
    graph_free(g);
    net_end(&t.net);
}

/* No pair: an activation that is not homogeneous, a tensor that is read twice
 * or is an output, weights that two layers share. */
TEST(left_alone)
{
    struct infer_error err = {0};
    const int *value;

    for (int what = 0; what < 4; what++) {
        struct equalizer *e;
        struct three t;

        start(&t, what == 0 ? KERN_SILU : KERN_RELU, 0);
        if (what == 1)
            net_output(&t.net, net_unary(&t.net, t.first, KERN_ABS));
        if (what == 2)
            assert_true(graph_add_output(t.net.g, t.first) >= 0);
        if (what == 3) {
            const struct graph_node *n =
                &t.net.g->node[t.net.g->value[t.first].producer];
            const int in[2] = {n->in[0], n->in[1]};

            net_output(&t.net, net_node(&t.net, GRAPH_CONV, in, 2));
        }
        assert_int_equal(graph_compact(t.net.g, &err), 0);
        assert_int_equal(graph_infer_shapes(t.net.g, NULL, &err), 0);
        assert_int_equal(equalizer_open(t.net.g, &err, &e), 0);
        assert_int_equal(equalizer_watched(e, &value), what == 0 ? 0 : 1);
        if (what > 0)
            assert_int_equal(value[0], t.middle);
        equalizer_close(e);
        net_end(&t.net);
    }
}

TEST(refuses_nan)
{
    float bad[CHANNELS * PIXELS] = {[5] = NAN};
    struct infer_error err = {0};
    struct equalizer *e;
    struct three t;

    start(&t, KERN_RELU, 0);
    assert_int_equal(graph_infer_shapes(t.net.g, NULL, &err), 0);
    assert_int_equal(equalizer_open(t.net.g, &err, &e), 0);
    assert_int_equal(
        equalizer_observe(e, 0, bad, DIMS(1, CHANNELS, SIDE, SIDE), &err),
        INFER_EFORMAT);
    assert_non_null(strstr(err.text, "element 5 is nan"));
    equalizer_close(e);
    net_end(&t.net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depthwise_channels_reach_the_range),
        cmocka_unit_test(upper_limit),
        cmocka_unit_test(left_alone),
        cmocka_unit_test(refuses_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
