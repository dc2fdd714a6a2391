/* SPDX-License-Identifier: Apache-2.0 */
/* The Darknet reader: each layer against values worked out by hand, networks
 * that must be refused, damaged files, and the files of TEST_DATA. */
#include "tests/unit/weights/layers/run.h"
#include "weights/darknet/darknet.h"

extern const struct weights_format weights_format_darknet;

#define NET(c, h, w)                                                           \
    "[net]\nchannels=" #c "\nheight=" #h "\nwidth=" #w "\nmomentum=0.9\n"

/* Weights of version 0.2.5 with 64-bit count. */
static struct run_bytes header(void)
{
    struct run_bytes b = {NULL, 0};

    run_put_u32(&b, 0);
    run_put_u32(&b, 2);
    run_put_u32(&b, 5);
    run_put_u32(&b, 77);
    run_put_u32(&b, 0);
    return b;
}

/* Reads a network without weights of its own layers and runs it. */
#define PLAIN(net, x, shape, ...)                                              \
    do {                                                                       \
        struct run_bytes none_ = header();                                     \
        struct graph *g_ = run_must_read(darknet_read, net, &none_);           \
        RUN_EXPECT(g_, x, shape, __VA_ARGS__);                                 \
        graph_free(g_);                                                        \
        free(none_.data);                                                      \
    } while (0)

static const float ramp[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
    48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* ---- layers -------------------------------------------------------- */

TEST(test_convolution)
{
    static const char net[] = NET(2, 1, 2) "# 1x1, two groups\n"
                                           "[convolutional]\nfilters = 2\n"
                                           "groups=2\nsize=1\nstride=1\npad=1\n"
                                           "activation=linear\n";
    static const float x[] = {1, 2, 3, 4};
    struct run_bytes w = header();

    RUN_FLOATS(&w, 10, 20, 2, 3);
    struct graph *g = run_must_read(darknet_read, net, &w);
    RUN_EXPECT(g, x, SHAPE(1, 2, 1, 2), 12, 14, 29, 32);
    run_truncate(darknet_read, net, &w);
    RUN_FLOATS(&w, 1);
    run_refused(darknet_read, net, &w, INFER_EFORMAT, "4 bytes more");
    graph_free(g);
    free(w.data);
}

/* Bias, scale, mean, variance, weights; epsilon 1e-5; leaky of 0.1. */
TEST(test_batch_norm)
{
    static const char net[] = NET(1, 1, 2) "[convolutional]\nfilters=1\n"
                                           "size=1\nbatch_normalize=1\n"
                                           "activation=leaky\n";
    static const float x[] = {1, -3};
    struct run_bytes w = header();
    const float root = sqrtf(4e-5f + 1e-5f);

    RUN_FLOATS(&w, 0.5f, 3, 1, 4e-5f, 2);
    struct graph *g = run_must_read(darknet_read, net, &w);
    RUN_EXPECT(g, x, SHAPE(1, 1, 1, 2), 3 / root + 0.5f,
               0.1f * (3 * -7 / root + 0.5f));
    graph_free(g);
    free(w.data);
}

TEST(test_connected)
{
    static const char net[] = NET(1, 1, 2) "[connected]\noutput=2\n"
                                           "activation=linear\n[softmax]\n";
    static const float x[] = {1, 2};
    struct run_bytes w = header(), old = {NULL, 0};
    const float e = expf(1);

    RUN_FLOATS(&w, 0, 1, 1, 2, 3, 1);
    struct graph *g = run_must_read(darknet_read, net, &w);
    RUN_EXPECT(g, x, SHAPE(1, 1, 1, 2), 1 / (1 + e), e / (1 + e));
    graph_free(g);
    /* Version above 1000: the weights are transposed, the count is narrow. */
    run_put_u32(&old, 1001);
    run_put_u32(&old, 0);
    run_put_u32(&old, 0);
    run_put_u32(&old, 1);
    RUN_FLOATS(&old, 0, 1, 1, 3, 2, 1);
    g = run_must_read(darknet_read, net, &old);
    RUN_EXPECT(g, x, SHAPE(1, 1, 1, 2), 1 / (1 + e), e / (1 + e));
    graph_free(g);
    free(w.data);
    free(old.data);
}

/* The whole pad is size - 1, of which the begin has the smaller part. */
TEST(test_pools)
{
    static const float x[] = {1, -2, -3, -4, -5, -6, -7, -8, -9};

    PLAIN(NET(1, 3, 3) "[maxpool]\nsize=2\nstride=2\n", x, SHAPE(1, 1, 3, 3), 1,
          -3, -7, -9);
    PLAIN(NET(1, 3, 3) "[maxpool]\nsize=2\nstride=1\n", x, SHAPE(1, 1, 3, 3), 1,
          -2, -3, -4, -5, -6, -7, -8, -9);
    PLAIN(NET(1, 3, 3) "[maxpool]\nsize=2\nstride=2\npadding=0\n", x,
          SHAPE(1, 1, 3, 3), 1);
    PLAIN(NET(1, 3, 3) "[local_avgpool]\nsize=2\nstride=2\n", ramp,
          SHAPE(1, 1, 3, 3), 2, 3.5f, 6.5f, 8);
    PLAIN(NET(2, 1, 2) "[avgpool]\n", ramp, SHAPE(1, 2, 1, 2), 0.5f, 2.5f);
}

TEST(test_joins)
{
    PLAIN(NET(4, 1, 1) "[dropout]\n[route]\nlayers=-1\ngroups=2\ngroup_id=1\n",
          ramp, SHAPE(1, 4, 1, 1), 2, 3);
    PLAIN(NET(1, 1, 2) "[activation]\nactivation=linear\n"
                       "[maxpool]\nsize=1\nstride=1\n[route]\nlayers=0, 1\n",
          ramp, SHAPE(1, 1, 1, 2), 0, 1, 0, 1);
    PLAIN(NET(1, 1, 2) "[dropout]\n[maxpool]\nsize=1\nstride=1\n"
                       "[shortcut]\nfrom=-2\nactivation=linear\n",
          ramp, SHAPE(1, 1, 1, 2), 0, 2);
}

/* From a picture of twice the size and half the channels. */
TEST(test_shortcut_of_other_shape)
{
    static const char net[] =
        NET(1, 2, 2) "[dropout]\n[convolutional]\nfilters=2\nsize=1\nstride=2\n"
                     "activation=linear\n[shortcut]\nfrom=-2\n"
                     "activation=linear\n";
    static const float x[] = {5, 6, 7, 8};
    struct run_bytes w = header();

    RUN_FLOATS(&w, 100, 200, 1, 1);
    struct graph *g = run_must_read(darknet_read, net, &w);
    RUN_EXPECT(g, x, SHAPE(1, 1, 2, 2), 110, 205);
    graph_free(g);
    free(w.data);
}

TEST(test_products)
{
    PLAIN(NET(2, 1, 2) "[dropout]\n[avgpool]\n[scale_channels]\nfrom=0\n", ramp,
          SHAPE(1, 2, 1, 2), 0, 0.5f, 5, 7.5f);
    PLAIN(NET(1, 1, 2) "[dropout]\n[dropout]\n[sam]\nfrom=0\n", ramp + 2,
          SHAPE(1, 1, 1, 2), 4, 9);
}

TEST(test_shapes)
{
    PLAIN(NET(1, 1, 2) "[upsample]\nstride=2\nscale=3\n", ramp,
          SHAPE(1, 1, 1, 2), 0, 0, 3, 3, 0, 0, 3, 3);
    PLAIN(NET(1, 4, 4) "[crop]\ncrop_height=2\ncrop_width=2\n", ramp,
          SHAPE(1, 1, 4, 4), 9, 11, 17, 19);
    PLAIN(NET(1, 4, 4) "[crop]\ncrop_height=1\ncrop_width=2\nnoadjust=1\n",
          ramp, SHAPE(1, 1, 4, 4), 5, 6);
    PLAIN(NET(2, 1, 2) "[softmax]\ngroups=2\ntemperature=2\n", ramp,
          SHAPE(1, 2, 1, 2), 1 / (1 + expf(0.5f)), 1 / (1 + expf(-0.5f)),
          1 / (1 + expf(0.5f)), 1 / (1 + expf(-0.5f)));
}

/* Darknet's reorg_cpu(), written out: out[in_index] = x[out_index]. */
TEST(test_reorg)
{
    enum { C = 8, H = 2, W = 4, S = 2, OUT = C / (S * S) };
    float expected[C * H * W];
    struct run_bytes w = header();
    struct graph *g;
    float x[C * H * W];
    int reverse, i, j, k;

    for (i = 0; i < C * H * W; i++)
        x[i] = (float)i;
    for (reverse = 0; reverse < 2; reverse++) {
        for (k = 0; k < C; k++)
            for (j = 0; j < H; j++)
                for (i = 0; i < W; i++) {
                    const int in = i + W * (j + H * k), off = k / OUT;
                    const int w2 = i * S + off % S, h2 = j * S + off / S;
                    const int out = w2 + W * S * (h2 + H * S * (k % OUT));

                    if (reverse)
                        expected[out] = x[in];
                    else
                        expected[in] = x[out];
                }
        g = run_must_read(darknet_read,
                          reverse
                              ? NET(8, 2, 4) "[reorg]\nstride=2\nreverse=1\n"
                              : NET(8, 2, 4) "[reorg]\nstride=2\n",
                          &w);
        run_expect(g, x, SHAPE(1, C, H, W), expected, C * H * W);
        graph_free(g);
    }
    free(w.data);
}

TEST(test_activations)
{
    static const struct {
        const char *net;
        float y[2]; /* of -1 and 2 */
    } cases[] = {
        {NET(1, 1, 2) "[activation]\nactivation=relu6\n", {0, 2}},
        {NET(1, 1, 2) "[activation]\nactivation=loggy\n",
         {-0.46211716f, 0.76159416f}},
        {NET(1, 1, 2) "[activation]\nactivation=ramp\n", {-0.1f, 2.2f}},
        {NET(1, 1, 2) "[activation]\nactivation=hard_mish\n", {-0.5f, 2}},
        {NET(1, 1, 2) "[activation]\nactivation=swish\n",
         {-0.26894142f, 1.7615942f}},
        {NET(1, 1, 2) "[activation]\nactivation=mish\n",
         {-0.30340146f, 1.9439590f}},
    };
    static const float x[] = {-1, 2};
    struct run_bytes w = header();

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct graph *g = run_must_read(darknet_read, cases[i].net, &w);

        run_expect(g, x, SHAPE(1, 1, 1, 2), cases[i].y, 2);
        graph_free(g);
    }
    free(w.data);
}

/* The inputs of the heads are the outputs. */
TEST(test_heads)
{
    static const char net[] =
        NET(1, 1, 2) "[dropout]\n[yolo]\nclasses=1\n[route]\nlayers=-2\n"
                     "[maxpool]\nsize=1\nstride=1\n[region]\n";
    struct run_bytes w = header();
    struct graph *g = run_must_read(darknet_read, net, &w);

    assert_int_equal(g->n_outputs, 2);
    assert_string_equal(g->value[g->output[0]].name, "dropout_0");
    assert_string_equal(g->value[g->output[1]].name, "maxpool_3");
    graph_free(g);
    free(w.data);
}

/* ---- refusals ------------------------------------------------------ */

TEST(test_refused)
{
    static const struct {
        const char *net;
        int code;
        const char *words;
    } cases[] = {
        {"", INFER_EFORMAT, "no layers"},
        {"[net]\n", INFER_EFORMAT, "no layers"},
        {"[net\n[avgpool]\n", INFER_EFORMAT, "line 1: '[net' is no [section]"},
        {"width=1\n[net]\n", INFER_EFORMAT, "line 1: 'width=1'"},
        {"[net]\n[net]\n", INFER_EUNSUPPORTED, "OP net"},
        {"[avgpool]\n[avgpool]\n", INFER_EFORMAT, "not [net]"},
        {"[net]\n[avgpool]\n", INFER_EFORMAT, "neither height"},
        {NET(1, 2, 2) "[lstm]\n[gru]\n[lstm]\n", INFER_EUNSUPPORTED,
         "OP lstm: not supported (2 layers)\nOP gru: not supported (1 layer)"},
        {NET(1, 2, 2) "[local]\n", INFER_EUNSUPPORTED, "OP local"},
        {NET(0, 2, 2) "[avgpool]\n", INFER_EFORMAT, "neither height"},
        {NET(1, 2, x) "[avgpool]\n", INFER_EFORMAT, "width=x"},
        {NET(1, 2, 2) "[route]\nlayers=0\n", INFER_EFORMAT,
         "OP route 'route_0': '0' names no layer"},
        {NET(1, 2, 2) "[dropout]\n[route]\nlayers=-2\n", INFER_EFORMAT,
         "'-2' names no layer"},
        {NET(1, 2, 2) "[dropout]\n[route]\n", INFER_EFORMAT, "names no layers"},
        {NET(1, 2, 2) "[yolo]\n[avgpool]\n", INFER_EUNSUPPORTED,
         "detection head"},
        {NET(1, 2, 2) "[yolo]\n[route]\nlayers=0\n", INFER_EUNSUPPORTED,
         "detection head"},
        {NET(3, 2, 2) "[convolutional]\nfilters=2\ngroups=2\n", INFER_EFORMAT,
         "OP convolutional 'conv_0': 3 channels and 2 filters"},
        {NET(1, 2, 2) "[convolutional]\nsize=0\n", INFER_EFORMAT, "size=0"},
        {NET(1, 2, 2) "[convolutional]\nsize=99999999999999999999\n",
         INFER_EFORMAT, "size=999"},
        {NET(1, 2, 2) "[convolutional]\nsize=7\n", INFER_EFORMAT, "7"},
        {NET(1, 2, 2) "[convolutional]\nxnor=1\n", INFER_EUNSUPPORTED,
         "xnor=1 is not supported"},
        {NET(1, 2, 2) "[convolutional]\nactivation=stair\n", INFER_EUNSUPPORTED,
         "activation=stair is not supported"},
        {NET(1, 9, 9) "[convolutional]\nsize=3\ndilation=2\n",
         INFER_EUNSUPPORTED, "dilation=2"},
        {NET(3, 2, 2) "[reorg]\nstride=2\n", INFER_EUNSUPPORTED,
         "stride of 2 does not divide"},
        {NET(1, 2, 2) "[crop]\ncrop_height=3\n", INFER_EFORMAT,
         "crop_height=3"},
        {NET(1, 2, 2) "[dropout]\n[dropout]\n[shortcut]\nfrom=-1\n"
                      "weights_type=per_feature\n",
         INFER_EUNSUPPORTED, "weights_type"},
        {NET(1, 2, 2) "[maxpool]\nsize=2\n[dropout]\n[upsample]\nstride=3\n"
                      "[shortcut]\nfrom=0\n",
         INFER_EUNSUPPORTED, "a shortcut from"},
        {NET(65536, 65536, 65536) "[connected]\noutput=2000000000\n",
         INFER_EFORMAT, ""},
    };
    struct run_bytes w = header();

    for (int i = 0; i < 64; i++)
        RUN_FLOATS(&w, 0);
    for (size_t i = 0; i < COUNT(cases); i++)
        run_refused(darknet_read, cases[i].net, &w, cases[i].code,
                    cases[i].words);
    free(w.data);
}

/* More sections and keys than there may be. */
TEST(test_limits)
{
    static const struct {
        const char *line, *words;
        size_t n;
    } cases[] = {{"[x]\n", "more than 16384 sections", 16384},
                 {"a=1\n", "more than 1048576 options", 1048577}};
    struct run_bytes w = header();

    for (size_t i = 0; i < COUNT(cases); i++) {
        const size_t line = strlen(cases[i].line);
        char *net = malloc(6 + cases[i].n * line + 1);

        assert_non_null(net);
        memcpy(net, "[net]\n", 6);
        for (size_t k = 0; k < cases[i].n; k++)
            memcpy(net + 6 + k * line, cases[i].line, line + 1);
        run_refused(darknet_read, net, &w, INFER_EUNSUPPORTED, cases[i].words);
        free(net);
    }
    free(w.data);
}

TEST(test_damaged)
{
    static const char net[] =
        NET(2, 4, 4) "[convolutional]\nbatch_normalize=1\nfilters=4\nsize=3\n"
                     "stride=2\npad=1\nactivation=mish\n"
                     "[reorg]\nstride=2\n[route]\nlayers=-1,-1\ngroups=2\n"
                     "[shortcut]\nfrom=-2\n[maxpool]\nsize=2\n[yolo]\n"
                     "[route]\nlayers=-2\n[softmax]\ngroups=4\n";
    struct run_bytes w = header();

    for (int i = 0; i < 4 * 4 + 2 * 4 * 9; i++)
        RUN_FLOATS(&w, 0.5f);
    graph_free(run_must_read(darknet_read, net, &w));
    run_damage(darknet_read, net, &w);
    free(w.data);
}

/* ---- files --------------------------------------------------------- */

TEST(test_probe)
{
    struct run_bytes w = header();
    struct weights_file file = run_file("# x\n\n [net]\n", 12);

    assert_int_equal(weights_format_darknet.probe(&file), 90);
    weights_file_close(&file);
    RUN_FLOATS(&w, 1);
    file = run_file(w.data, w.bytes);
    assert_int_equal(weights_format_darknet.probe(&file), 15);
    weights_file_close(&file);
    file = run_file(w.data, w.bytes - 1);
    assert_int_equal(weights_format_darknet.probe(&file), 0);
    weights_file_close(&file);
    free(w.data);
}

/* Both epsilons, and both files as the one that is named. */
TEST(test_real_weights)
{
    static const char *const darknet[] = {"layer_120", "conv_120", "layer_129",
                                          "conv_129", NULL};
    static const char *const opencv[] = {"conv_120", "conv_120", "conv_129",
                                         "conv_129", NULL};

    assert_true(
        run_recorded(
            "yolo-fastest-darknet/yolo-fastest-1.1.weights|darknet-torch",
            "yolo-fastest-darknet/yolo-fastest-1.1.cfg", darknet, -1) <= 2e-5);
    assert_true(
        run_recorded(
            "yolo-fastest-darknet/yolo-fastest-1.1.weights|opencv-darknet",
            "yolo-fastest-darknet/yolo-fastest-1.1.weights", opencv,
            1e-6) <= 2e-5);
}

/* The network named as the architecture of its weights. */
TEST(test_architecture)
{
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};
    char net[4096], weights[4096];

    run_data(net, sizeof(net), "yolo-fastest-darknet/yolo-fastest-1.1.cfg");
    run_data(weights, sizeof(weights),
             "yolo-fastest-darknet/yolo-fastest-1.1.weights");
    weights_options_init(&options);
    options.arch = net;
    if (weights_read(weights, &options, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_true(import.arch_read);
    assert_null(import.second);
    assert_int_equal(import.bytes, 1384268 + 9685);
    weights_import_clear(&import);
    options.arch = NULL;
    if (weights_read(weights, &options, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_false(import.arch_read);
    assert_string_equal(import.second, net);
    weights_import_clear(&import);
    /* A network of other layers. */
    run_data(net, sizeof(net), "darknet-cfg/tiny.cfg");
    options.arch = net;
    assert_int_equal(weights_read(weights, &options, &err, &import),
                     INFER_EFORMAT);
    assert_non_null(strstr(err.text, "the weights have"));
}

TEST(test_real_networks)
{
    static const struct {
        const char *name;
        int outputs, rank;
        int64_t dim[4]; /* of the last */
    } nets[] = {
        {"cifar", 1, 2, {-1, 10}},
        {"darknet19", 1, 2, {-1, 1000}},
        {"darknet53", 1, 2, {-1, 1000}},
        {"efficientnet_b0", 1, 2, {-1, 1000}},
        {"resnet18", 1, 2, {-1, 1000}},
        {"resnet34", 1, 2, {-1, 1000}},
        {"resnet50", 1, 2, {-1, 1000}},
        {"tiny", 1, 2, {-1, 1000}},
        {"yolov3-tiny", 2, 4, {-1, 255, 26, 26}},
        {"yolov4-tiny", 2, 4, {-1, 255, 26, 26}},
        {"yolov7-tiny", 3, 4, {-1, 255, 13, 13}},
    };

    for (size_t i = 0; i < COUNT(nets); i++) {
        struct weights_import import;
        struct infer_error err = {0};
        char path[4096], name[64];

        snprintf(name, sizeof(name), "darknet-cfg/%s.cfg", nets[i].name);
        run_data(path, sizeof(path), name);
        if (weights_read(path, NULL, &err, &import) < 0)
            fail_msg("%s", err.text);
        const struct graph *g = import.graph;
        assert_int_equal(g->n_outputs, nets[i].outputs);
        const struct graph_value *v = &g->value[g->output[g->n_outputs - 1]];
        assert_int_equal(v->rank, nets[i].rank);
        for (int d = 0; d < v->rank; d++)
            assert_int_equal(v->dim[d], nets[i].dim[d]);
        weights_import_clear(&import);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_connected),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_shortcut_of_other_shape),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_reorg),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_real_weights),
        cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_real_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
