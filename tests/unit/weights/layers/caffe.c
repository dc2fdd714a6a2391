/* SPDX-License-Identifier: Apache-2.0 */
/* The Caffe reader: each layer against values worked out by hand, both forms of
 * the network, texts and weights that must be refused, damaged files, and the
 * files of TEST_DATA. */
#include "tests/unit/weights/layers/run.h"
#include "tests/unit/weights/protobuf_writer.h"
#include "weights/caffe/caffe.h"

extern const struct weights_format weights_format_caffe;

#define INPUT(n, c, h, w)                                                      \
    "input: \"x\" input_shape { dim: " #n " dim: " #c " dim: " #h " dim: " #w  \
    " }\n"
/* A layer from "x" to "y". */
#define LAYER(type, more)                                                      \
    "layer { name: \"y\" type: \"" type "\" bottom: \"x\" top: \"y\" " more    \
    " }\n"

static const float ramp[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
    48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* ---- binaries ------------------------------------------------------ */

/* A blob into a layer; `shaped`: with the shape message of version 1. */
static void put_blob(struct pb_message *layer, unsigned field, bool shaped,
                     const float *data, size_t n)
{
    struct pb_message blob = {0}, shape = {0};

    if (shaped) {
        pb_int(&shape, 1, (int64_t)n);
        pb_nested(&blob, 7, &shape);
    } else {
        pb_int(&blob, 1, 1);
        pb_int(&blob, 2, 1);
        pb_int(&blob, 3, 1);
        pb_int(&blob, 4, (int64_t)n);
    }
    pb_bytes(&blob, 5, data, n * sizeof(*data));
    pb_nested(layer, field, &blob);
}

/* A network with one layer of weights, named "y". */
static struct run_bytes weights_of(bool old, const float *a, size_t na,
                                   const float *b, size_t nb, const float *c,
                                   size_t nc)
{
    struct pb_message layer = {0}, net = {0};
    struct run_bytes out = {NULL, 0};
    const unsigned field = old ? 6 : 7;

    pb_text(&layer, old ? 4 : 1, "y");
    if (old)
        pb_int(&layer, 5, 4); /* CONVOLUTION */
    else
        pb_text(&layer, 2, "Convolution");
    if (na > 0)
        put_blob(&layer, field, !old, a, na);
    if (nb > 0)
        put_blob(&layer, field, !old, b, nb);
    if (nc > 0)
        put_blob(&layer, field, !old, c, nc);
    pb_text(&net, 1, "net");
    pb_nested(&net, old ? 2 : 100, &layer);
    run_put(&out, net.data, net.size);
    pb_free(&net);
    return out;
}
#define F(...)                                                                 \
    (const float[]){__VA_ARGS__},                                              \
        sizeof((const float[]){__VA_ARGS__}) / sizeof(float)
#define NONE NULL, 0

/* Runs a network with these weights (NULL: of layers that want none). */
static void check(const char *net, const struct run_bytes *weights,
                  const float *x, struct run_shape shape, const float *y,
                  size_t n)
{
    struct run_bytes none = weights_of(false, F(1), NONE, NONE);
    struct graph *g = run_must_read(caffe_read, net, weights ? weights : &none);

    run_expect(g, x, shape, y, n);
    graph_free(g);
    free(none.data);
}

/* ---- layers -------------------------------------------------------- */

TEST(test_convolution)
{
    static const char net[] = INPUT(1, 2, 1, 2)
        LAYER("Convolution",
              "convolution_param { num_output: 2 kernel_size: 1 group: 2 }");
    struct run_bytes w = weights_of(false, F(2, 3), F(10, 20), NONE);

    check(net, &w, ramp + 1, SHAPE(1, 2, 1, 2), F(12, 14, 29, 32));
    run_truncate(caffe_read, net, &w);
    free(w.data);
    w = weights_of(false, F(2, 3, 4), F(10, 20), NONE);
    run_refused(caffe_read, net, &w, INFER_EFORMAT,
                "OP Convolution 'y': its weight has 3 elements, 2 are due");
    free(w.data);
    w = weights_of(false, F(2, 3), NONE, NONE);
    run_refused(caffe_read, net, &w, INFER_EFORMAT,
                "its bias is not among the weights (1 blobs)");
    free(w.data);
}

/* The form before version 1, in both files. */
TEST(test_old_form)
{
    static const char net[] =
        "name: 'old'\ninput: 'x' input_dim: 1 input_dim: 1 input_dim: 2 "
        "input_dim: 2\n"
        "layers { name: 'y' type: CONVOLUTION bottom: 'x' top: 'y' "
        "blobs_lr: 1. blobs_lr: 2.\n convolution_param { num_output: 1 "
        "kernel_h: 1 kernel_w: 2 bias_term: false } }\n"
        "layers { name: 'r' type: RELU bottom: 'y' top: 'y' }";
    struct run_bytes w = weights_of(true, F(1, -1), NONE, NONE);
    static const float x[] = {5, 2, 1, 4};

    check(net, &w, x, SHAPE(1, 1, 2, 2), F(3, 0));
    free(w.data);
}

TEST(test_deconvolution)
{
    struct run_bytes w = weights_of(false, F(1, 2), NONE, NONE);

    check(INPUT(1, 1, 1, 2) LAYER(
              "Deconvolution", "convolution_param { num_output: 1 kernel_h: 1 "
                               "kernel_w: 2 stride: 2 bias_term: 0 }"),
          &w, ramp + 3, SHAPE(1, 1, 1, 2), F(3, 6, 4, 8));
    free(w.data);
}

TEST(test_inner_product)
{
    struct run_bytes w = weights_of(false, F(1, 2, 3, 4), F(0, 10), NONE);

    check(INPUT(1, 1, 1, 2)
              LAYER("InnerProduct", "inner_product_param { num_output: 2 }"),
          &w, ramp + 1, SHAPE(1, 1, 1, 2), F(5, 21));
    check(INPUT(1, 1, 1, 2)
              LAYER("InnerProduct",
                    "inner_product_param { num_output: 2 transpose: true }"),
          &w, ramp + 1, SHAPE(1, 1, 1, 2), F(7, 20));
    free(w.data);
}

/* Mean and variance are sums, to be divided by the third blob. */
TEST(test_batch_norm_and_scale)
{
    static const float x[] = {3, 5};
    struct run_bytes w = weights_of(false, F(2), F(8), F(2));

    check(INPUT(1, 1, 1, 2) LAYER("BatchNorm", "batch_norm_param { eps: 0 }"),
          &w, x, SHAPE(1, 1, 1, 2), F(1, 2));
    free(w.data);
    w = weights_of(false, F(2), F(8), F(0));
    check(INPUT(1, 1, 1, 2) LAYER("BatchNorm", "batch_norm_param { eps: 4 }"),
          &w, x, SHAPE(1, 1, 1, 2), F(1.5f, 2.5f));
    free(w.data);
    w = weights_of(false, F(2), F(1), NONE);
    check(INPUT(1, 1, 1, 2) LAYER("Scale", "scale_param { bias_term: true }"),
          &w, x, SHAPE(1, 1, 1, 2), F(7, 11));
    check(INPUT(1, 1, 1, 2) LAYER("Bias", ""), &w, x, SHAPE(1, 1, 1, 2),
          F(5, 7));
    free(w.data);
}

/* Scale of two inputs: one number a channel of each picture. */
TEST(test_scale_by_input)
{
    static const char net[] = INPUT(1, 2, 1, 2)
        LAYER("Pooling", "pooling_param { pool: AVE global_pooling: "
                         "true }") "layer { name: 'f' type: 'Flatten' "
                                   "bottom: 'y' top: 'f' }\n"
                                   "layer { name: 's' type: 'Scale' "
                                   "bottom: 'x' bottom: 'f' top: 's' "
                                   "scale_param { axis: 0 } }\n"
                                   "layer { name: 'a' type: 'Axpy' "
                                   "bottom: 'y' bottom: 'x' bottom: 's' "
                                   "top: 'a' }";

    check(net, NULL, ramp, SHAPE(1, 2, 1, 2), F(0, 1, 10, 15));
}

/* Sizes are rounded up; a window that starts in the padding is left out; an
 * average counts padding, but not what rounding up adds. */
TEST(test_pooling)
{
    check(INPUT(1, 1, 3, 3)
              LAYER("Pooling", "pooling_param { kernel_size: 2 stride: 2 }"),
          NULL, ramp, SHAPE(1, 1, 3, 3), F(4, 5, 7, 8));
    check(INPUT(1, 1, 3, 3) LAYER(
              "Pooling",
              "pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }"),
          NULL, ramp, SHAPE(1, 1, 3, 3), F(4));
    check(INPUT(1, 1, 3, 3)
              LAYER("Pooling",
                    "pooling_param { pool: AVE kernel_size: 2 stride: 2 }"),
          NULL, ramp, SHAPE(1, 1, 3, 3), F(2, 3.5f, 6.5f, 8));
    check(INPUT(1, 1, 1, 2) LAYER(
              "Pooling", "pooling_param { pool: AVE kernel_h: 1 kernel_w: 2 "
                         "stride: 2 pad_w: 1 pad_h: 0 }"),
          NULL, ramp + 2, SHAPE(1, 1, 1, 2), F(1, 1.5f));
    check(INPUT(1, 1, 1, 2) LAYER(
              "Pooling",
              "pooling_param { kernel_h: 1 kernel_w: 3 stride: 2 pool: 1 }"),
          NULL, ramp + 2, SHAPE(1, 1, 1, 2), F(2.5f));
}

TEST(test_functions)
{
    static const float x[] = {-1, 2};
    static const struct {
        const char *net;
        float y[2];
    } cases[] = {
        {INPUT(1, 1, 1, 2) LAYER("ReLU", "relu_param { negative_slope: 0.5 }"),
         {-0.5f, 2}},
        {INPUT(1, 1, 1, 2) LAYER("AbsVal", ""), {1, 2}},
        {INPUT(1, 1, 1, 2)
             LAYER("Power", "power_param { power: 2 scale: 3 shift: 4 }"),
         {1, 100}},
        {INPUT(1, 1, 1, 2) LAYER("Exp", "exp_param { base: 2 shift: 1 }"),
         {1, 8}},
        {INPUT(1, 1, 1, 2)
             LAYER("Log", "log_param { base: 2 scale: 2 shift: 4 }"),
         {1, 3}},
        {INPUT(1, 1, 1, 2) LAYER("ELU", "elu_param { alpha: 2 }"),
         {-1.2642411f, 2}},
        {INPUT(1, 1, 1, 2) LAYER("BNLL", ""), {0.31326169f, 2.1269280f}},
        {INPUT(1, 1, 1, 2) LAYER("Clip", "clip_param { min: -0.5 max: 1 }"),
         {-0.5f, 1}},
        {INPUT(1, 1, 1, 2)
             LAYER("LRN", "lrn_param { local_size: 1 alpha: 1 beta: 1 k: 2 }"),
         {-1 / 3.0f, 1 / 3.0f}},
        {INPUT(1, 1, 1, 2)
             LAYER("LRN", "lrn_param { local_size: 1 alpha: 1 beta: 1 "
                          "norm_region: WITHIN_CHANNEL }"),
         {-0.5f, 0.4f}},
    };
    struct run_bytes w = weights_of(false, F(0.25f), NONE, NONE);

    for (size_t i = 0; i < COUNT(cases); i++)
        check(cases[i].net, NULL, x, SHAPE(1, 1, 1, 2), cases[i].y, 2);
    check(INPUT(1, 1, 1, 2) LAYER("PReLU", ""), &w, x, SHAPE(1, 1, 1, 2),
          F(-0.25f, 2));
    free(w.data);
    w = weights_of(false, F(10, 20), NONE, NONE);
    check(INPUT(1, 2, 1, 1)
              LAYER("Normalize", "norm_param { across_spatial: false "
                                 "channel_shared: false }"),
          &w, ramp + 3, SHAPE(1, 2, 1, 1), F(6, 16));
    free(w.data);
}

TEST(test_joins)
{
    check(
        INPUT(
            1, 3, 1,
            1) "layer { name: 's' type: 'Slice' bottom: 'x' top: 'a' top: 'b' "
               "slice_param { slice_point: 1 } }\n"
               "layer { name: 't' type: 'Silence' bottom: 'a' }\n"
               "layer { name: 'c' type: 'Concat' bottom: 'b' bottom: 'x' top: "
               "'c' }",
        NULL, ramp, SHAPE(1, 3, 1, 1), F(1, 2, 0, 1, 2));
    check(INPUT(1, 2, 1,
                1) "layer { name: 'p' type: 'Split' bottom: 'x' top: 'a' top: "
                   "'b' }\n"
                   "layer { name: 'e' type: 'Eltwise' bottom: 'a' bottom: 'b' "
                   "top: 'e' "
                   "eltwise_param { operation: SUM coeff: 1 coeff: -3 } }",
          NULL, ramp + 1, SHAPE(1, 2, 1, 1), F(-2, -4));
    check(INPUT(1, 2, 1, 1) "layer { name: 'e' type: 'Eltwise' bottom: 'x' "
                            "bottom: 'x' top: 'e' "
                            "eltwise_param { operation: PROD } }",
          NULL, ramp + 2, SHAPE(1, 2, 1, 1), F(4, 9));
    check(INPUT(1, 1, 3,
                3) "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' "
                   "pooling_param { kernel_size: 2 } }\n"
                   "layer { name: 'c' type: 'Crop' bottom: 'x' bottom: 'p' "
                   "top: 'c' "
                   "crop_param { axis: 2 offset: 1 offset: 0 } }\n"
                   "layer { name: 't' type: 'Silence' bottom: 'p' }",
          NULL, ramp, SHAPE(1, 1, 3, 3), F(3, 4, 6, 7));
}

TEST(test_shapes)
{
    check(INPUT(1, 2, 1, 2)
              LAYER("Permute", "permute_param { order: 0 order: 2 order: 3 }"),
          NULL, ramp, SHAPE(1, 2, 1, 2), F(0, 2, 1, 3));
    check(INPUT(1, 2, 1, 2)
              LAYER("Softmax", "") "layer { name: 'r' type: 'Reshape' "
                                   "bottom: 'y' top: 'r' reshape_param { "
                                   "shape { dim: 1 dim: -1 } } }",
          NULL, ramp, SHAPE(2, 2, 1, 2),
          F(0.11920292f, 0.11920292f, 0.88079708f, 0.88079708f, 0.11920292f,
            0.11920292f, 0.88079708f, 0.88079708f));
    check(INPUT(1, 4, 1, 1)
              LAYER("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
          NULL, ramp, SHAPE(1, 4, 1, 1), F(0, 2, 1, 3));
    check(INPUT(1, 2, 1, 2)
              LAYER("Reduction",
                    "reduction_param { operation: MEAN axis: 1 coeff: 2 }"),
          NULL, ramp, SHAPE(1, 2, 1, 2), F(3));
    check(INPUT(1, 1, 1, 2) LAYER("Interp", "interp_param { zoom_factor: 2 }"),
          NULL, ramp, SHAPE(1, 1, 1, 2), F(0, 0.5f, 1));
    check(INPUT(1, 1, 1, 2) LAYER("Upsample", "upsample_param { scale: 2 }"),
          NULL, ramp, SHAPE(1, 1, 1, 2), F(0, 0, 1, 1, 0, 0, 1, 1));
    check(INPUT(1, 1, 1, 2) LAYER("Tile", "tile_param { axis: 1 tiles: 2 }"),
          NULL, ramp, SHAPE(1, 1, 1, 2), F(0, 1, 0, 1));
}

/* Caffe-SSD's prior_box_layer.cpp, for one pixel. */
TEST(test_prior_box)
{
    static const char net[] = INPUT(1, 1, 10, 20) LAYER(
        "Pooling",
        "pooling_param { global_pooling: true }") "layer { name: 'b' type: "
                                                  "'PriorBox' bottom: 'y' "
                                                  "bottom: 'x' top: 'b' "
                                                  "prior_box_param { min_size: "
                                                  "4 max_size: 9 aspect_ratio: "
                                                  "4 flip: false "
                                                  "variance: 0.1 variance: 0.1 "
                                                  "variance: 0.2 variance: 0.2 "
                                                  "} }";
    float x[200] = {0};

    check(net, NULL, x, SHAPE(1, 1, 10, 20),
          F(0.4f, 0.3f, 0.6f, 0.7f, 0.35f, 0.2f, 0.65f, 0.8f, 0.3f, 0.4f, 0.7f,
            0.6f, 0.1f, 0.1f, 0.2f, 0.2f, 0.1f, 0.1f, 0.2f, 0.2f, 0.1f, 0.1f,
            0.2f, 0.2f));
}

/* ---- the network --------------------------------------------------- */

/* Layers for training are left out; an output has its blob's name, though a
 * layer writes it in place. */
TEST(test_phases_and_names)
{
    static const char net[] =
        "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { "
        "dim: [1, 1, 1, 2] } } }\n"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' "
        "include { phase: TRAIN } }\n"
        "layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'y' }\n"
        "layer { name: 'act' type: 'ReLU' bottom: 'y' top: 'y'; } # end";
    struct run_bytes w = weights_of(false, F(1), NONE, NONE);
    struct graph *g = run_must_read(caffe_read, net, &w);

    assert_int_equal(g->n_outputs, 1);
    assert_string_equal(g->value[g->output[0]].name, "y");
    graph_free(g);
    free(w.data);
}

/* Names that are no UTF-8. */
TEST(test_odd_names)
{
    static const char net[] = "input: '\xff' input_dim: 1 input_dim: 1 "
                              "input_dim: 1 input_dim: 2\n"
                              "layer { name: '\xc3' type: 'ReLU' "
                              "bottom: '\xff' top: '\xc3\xa9\x80' }";
    struct run_bytes w = weights_of(false, F(1), NONE, NONE);
    struct graph *g = run_must_read(caffe_read, net, &w);

    assert_string_equal(g->value[g->input[0]].name, "?");
    assert_string_equal(g->value[g->output[0]].name, "\xc3\xa9?");
    graph_free(g);
    free(w.data);
}

/* The inputs of DetectionOutput are outputs. */
TEST(test_detection)
{
    static const char net[] = INPUT(1, 1, 1, 4) LAYER(
        "Flatten",
        "") "layer { name: 'b' type: 'PriorBox' bottom: 'x' bottom: 'x' top: "
            "'b' "
            "prior_box_param { min_size: 2 } }\n"
            "layer { name: 'd' type: 'DetectionOutput' bottom: 'y' bottom: 'y' "
            "bottom: 'b' top: 'd' }";
    struct run_bytes w = weights_of(false, F(1), NONE, NONE);
    struct graph *g = run_must_read(caffe_read, net, &w);

    assert_int_equal(g->n_outputs, 2);
    assert_string_equal(g->value[g->output[0]].name, "y");
    assert_string_equal(g->value[g->output[1]].name, "b");
    graph_free(g);
    free(w.data);
}

TEST(test_refused)
{
    static const struct {
        const char *net;
        int code;
        const char *words;
    } cases[] = {
        {"", INFER_EFORMAT, "no layers"},
        {"name", INFER_EFORMAT, "line 1: ':' or '{' is due"},
        {"a: 'x", INFER_EFORMAT, "line 1: a string does not end"},
        {"\na: {\n", INFER_EFORMAT, "the text ends inside a message"},
        {"a: 1 }", INFER_EFORMAT, "a brace that nothing opened"},
        {"a: []", INFER_EFORMAT, "an empty list"},
        {"a: ?", INFER_EFORMAT, "a value is due"},
        {": 1", INFER_EFORMAT, "the name of a field is due"},
        {"a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{a{",
         INFER_EFORMAT, "messages nest too deeply"},
        {INPUT(1, 1, 1, 1) LAYER("LSTM", "") LAYER("Proposal", "")
             LAYER("LSTM", ""),
         INFER_EUNSUPPORTED,
         "OP LSTM: not supported (2 layers)\nOP Proposal: not supported (1 "
         "layer)"},
        {"input: 'x'\n" LAYER("ReLU", ""), INFER_EFORMAT,
         "input 'x' has no shape"},
        {LAYER("ReLU", ""), INFER_EFORMAT,
         "OP ReLU 'y': takes 'x', which no layer before it makes"},
        {INPUT(1, 1, 1, 1)
             LAYER("Eltwise", "eltwise_param { coeff: 1 coeff: 2 }"),
         INFER_EFORMAT, "2 coefficients for 1 bottoms"},
        {INPUT(1, 1, 1, 1) LAYER("Axpy", ""), INFER_EFORMAT, "1 bottoms"},
        {INPUT(1, 1, 1, 1)
             LAYER("Pooling", "pooling_param { pool: STOCHASTIC }"),
         INFER_EUNSUPPORTED, "pool: STOCHASTIC is not supported"},
        {INPUT(1, 1, 4, 4)
             LAYER("Pooling", "pooling_param { kernel_size: 1 stride: 5 }"),
         INFER_EUNSUPPORTED, "leaves the last one empty"},
        {INPUT(1, 1, 4, 4) LAYER("Pooling", ""), INFER_EFORMAT,
         "no kernel_size"},
        {INPUT(1, 1, 4, 4) LAYER("Convolution", ""), INFER_EFORMAT, ""},
        {INPUT(1, 3, 4, 4) LAYER(
             "Convolution",
             "convolution_param { num_output: 4 kernel_size: 1 group: 2 }"),
         INFER_EFORMAT, "4 outputs, 3 channels, 2 groups"},
        {INPUT(1, 3, 4, 4)
             LAYER("Convolution", "convolution_param { num_output: 4 "
                                  "kernel_size: 1 kernel_size: 1 "
                                  "kernel_size: 1 }"),
         INFER_EUNSUPPORTED, "kernel_size has more than 2 values"},
        {INPUT(1, 3, 4, 4) LAYER("Softmax", "softmax_param { axis: 4 }"),
         INFER_EFORMAT, "axis"},
        {INPUT(1, 3, 4, 4)
             LAYER("Reshape", "reshape_param { shape { dim: 3 dim: 16 } }"),
         INFER_EUNSUPPORTED, "joins or parts the pictures"},
        {INPUT(1, 3, 4, 4)
             LAYER("Slice", "slice_param { slice_point: 1 slice_point: 2 }"),
         INFER_EFORMAT, "2 slice_points of 3"},
        {INPUT(1, 3, 4, 4) "layer { name: 's' type: 'Slice' bottom: 'x' }",
         INFER_EFORMAT, "OP Slice 's': it has no top"},
        {INPUT(1, 1, 1, 2147483647)
             LAYER("Upsample",
                   "upsample_param { scale: 65536 }") "layer { name: 'z' type: "
                                                      "'Upsample' bottom: 'y' "
                                                      "top: 'z' "
                                                      "upsample_param { scale: "
                                                      "65536 } }",
         INFER_EUNSUPPORTED, "OP Upsample 'z': a size of"},
        {INPUT(1, 1, 60000, 60000) "layer { name: 'b' type: 'PriorBox' bottom: "
                                   "'x' bottom: 'x' top: 'b' "
                                   "prior_box_param { min_size: 2 } }",
         INFER_EUNSUPPORTED, "constants that no file holds"},
        {INPUT(1, 1, 1, 1)
             LAYER("BatchNorm", "batch_norm_param { use_global_stats: 0 }"),
         INFER_EFORMAT, "factor"},
        {INPUT(1, 1, 1, 1) LAYER("ReLU", "relu_param { negative_slope: 1e99 }"),
         INFER_EFORMAT, "negative_slope: '1e99' is no finite number"},
    };
    struct run_bytes w = weights_of(false, F(1), NONE, NONE);

    for (size_t i = 0; i < COUNT(cases); i++)
        run_refused(caffe_read, cases[i].net, &w, cases[i].code,
                    cases[i].words);
    free(w.data);
}

/* Binaries that are wrong. */
TEST(test_refused_weights)
{
    static const char net[] = INPUT(1, 1, 1, 1) LAYER("PReLU", "");
    struct pb_message message = {0}, layer = {0}, blob = {0}, shape = {0};
    struct run_bytes w = {NULL, 0};
    const float x = 1;

    run_put(&w, "\x0a\x01x", 3);
    run_refused(caffe_read, net, &w, INFER_EFORMAT,
                "the weights hold no layers");
    free(w.data);
    /* A shape that says more than there is. */
    pb_int(&shape, 1, 1 << 30);
    pb_int(&shape, 1, 1 << 30);
    pb_int(&shape, 1, 1 << 30);
    pb_nested(&blob, 7, &shape);
    pb_bytes(&blob, 5, &x, 4);
    pb_text(&layer, 1, "y");
    pb_nested(&layer, 7, &blob);
    pb_nested(&message, 100, &layer);
    w = (struct run_bytes){NULL, 0};
    run_put(&w, message.data, message.size);
    pb_free(&message);
    run_refused(caffe_read, net, &w, INFER_EFORMAT, "weights of layer 'y'");
    free(w.data);
    /* Two layers of one name. */
    w = weights_of(false, F(1), NONE, NONE);
    struct run_bytes twice = weights_of(false, F(1), NONE, NONE);
    run_put(&twice, w.data, w.bytes);
    run_refused(caffe_read, net, &twice, INFER_EFORMAT,
                "two layers with weights");
    free(twice.data);
    free(w.data);
}

/* Blobs that are wrong, and more of them than there may be. */
TEST(test_refused_blobs)
{
    static const char net[] = INPUT(1, 1, 1, 1) LAYER("PReLU", "");
    static const struct {
        const char *bytes;
        size_t n;
        int code;
        const char *words;
    } cases[] = {
        {"\x2a\0\x2a\0", 4, INFER_EUNSUPPORTED, "not one packed array"},
        {"\x2d\0\0\0\0", 5, INFER_EUNSUPPORTED, "not one packed array"},
        {"\x2a\3abc", 5, INFER_EFORMAT, "ends inside a number"},
        {"\x42\0", 2, INFER_EUNSUPPORTED, "not single precision"},
        {"\x62\0", 2, INFER_EUNSUPPORTED, "not single precision"},
        {"", 0, INFER_EFORMAT, "a blob has 0 elements"},
        {"\x3a\x14\x0a\x12\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", 22,
         INFER_EFORMAT, "a blob of impossible shape"},
        {"\x3a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 13,
         INFER_EFORMAT, "a blob of impossible shape"},
        {"\x08\x80\x80\x80\x80\x10\x10\1", 8, INFER_EFORMAT,
         "a blob has 0 elements"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pb_message message = {0}, layer = {0};
        struct run_bytes w = {NULL, 0};

        pb_text(&layer, 1, "y");
        pb_bytes(&layer, 7, cases[i].bytes, cases[i].n);
        pb_nested(&message, 100, &layer);
        run_put(&w, message.data, message.size);
        pb_free(&message);
        run_refused(caffe_read, net, &w, cases[i].code, cases[i].words);
        free(w.data);
    }
    for (int n = 262144; n <= 262145; n++) {
        struct pb_message message = {0}, layer = {0};
        struct run_bytes w = {NULL, 0};

        pb_text(&layer, 1, "z");
        for (int i = 0; i < n; i++)
            pb_raw(&layer, "\x3a\4\x3a\2\x08\0", 6);
        pb_nested(&message, 100, &layer);
        run_put(&w, message.data, message.size);
        pb_free(&message);
        run_refused(caffe_read, net, &w,
                    n > 262144 ? INFER_EUNSUPPORTED : INFER_EFORMAT,
                    n > 262144 ? "more than 262144 blobs"
                               : "not among the weights");
        free(w.data);
    }
}

TEST(test_damaged)
{
    static const char net[] = INPUT(1, 2, 4, 4)
        LAYER("Convolution",
              "convolution_param { num_output: 2 kernel_size: 3 "
              "pad: 1 stride: 2 }") "layer { name: 'p' type: 'Pooling' bottom: "
                                    "'y' top: 'p' pooling_param "
                                    "{ pool: AVE kernel_size: 2 } }\n"
                                    "layer { name: 'f' type: 'Reshape' bottom: "
                                    "'y' top: 'f' "
                                    "reshape_param { shape { dim: 0 dim: 2 "
                                    "dim: -1 } } }\n"
                                    "layer { name: 'b' type: 'PriorBox' "
                                    "bottom: 'p' bottom: 'x' top: 'b' "
                                    "prior_box_param { min_size: 2 } }";
    static const float some[36] = {1};
    struct run_bytes w = weights_of(false, some, 36, F(1, 2), NONE);

    graph_free(run_must_read(caffe_read, net, &w));
    run_damage(caffe_read, net, &w);
    free(w.data);
}

/* ---- files --------------------------------------------------------- */

TEST(test_probe)
{
    static const char net[] = INPUT(1, 1, 1, 1) LAYER("ReLU", "");
    struct run_bytes w = weights_of(false, F(1), NONE, NONE);
    struct weights_file file = run_file(net, sizeof(net) - 1);

    assert_int_equal(weights_format_caffe.probe(&file), 80);
    weights_file_close(&file);
    file = run_file(w.data, w.bytes);
    assert_int_equal(weights_format_caffe.probe(&file), 85);
    weights_file_close(&file);
    free(w.data);
    w = weights_of(true, F(1), NONE, NONE);
    file = run_file(w.data, w.bytes);
    assert_int_equal(weights_format_caffe.probe(&file), 85);
    weights_file_close(&file);
    free(w.data);
}

TEST(test_real_networks)
{
    static const char *const det1[] = {"conv4-2", "conv4-2", "prob1", "prob1",
                                       NULL};
    static const char *const det2[] = {"conv5-2", "conv5-2", "prob1", "prob1",
                                       NULL};
    static const char *const det3[] = {
        "conv6-2", "conv6-2", "conv6-3", "conv6-3", "prob1", "prob1", NULL};
    static const char *const sr[] = {"fc", "fc", NULL};
    static const char *const detect[] = {"mbox_loc",
                                         "mbox_loc",
                                         "mbox_conf_flatten",
                                         "mbox_conf_flatten",
                                         "mbox_priorbox",
                                         "mbox_priorbox",
                                         NULL};
    static const struct {
        const char *id, *file;
        const char *const *names;
    } cases[] = {
        {"mtcnn-caffe/det1.caffemodel|opencv-caffe",
         "mtcnn-caffe/det1.prototxt", det1},
        {"mtcnn-caffe/det2.caffemodel|opencv-caffe",
         "mtcnn-caffe/det2.caffemodel", det2},
        {"mtcnn-caffe/det3.caffemodel|opencv-caffe",
         "mtcnn-caffe/det3.prototxt", det3},
        {"wechat-qrcode-caffe/sr.caffemodel|opencv-caffe",
         "wechat-qrcode-caffe/sr.caffemodel", sr},
        {"wechat-qrcode-caffe/detect.caffemodel|opencv-caffe",
         "wechat-qrcode-caffe/detect.prototxt", detect},
    };

    for (size_t i = 0; i < COUNT(cases); i++)
        assert_true(run_recorded(cases[i].id, cases[i].file, cases[i].names,
                                 -1) <= 2e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_old_form),
        cmocka_unit_test(test_deconvolution),
        cmocka_unit_test(test_inner_product),
        cmocka_unit_test(test_batch_norm_and_scale),
        cmocka_unit_test(test_scale_by_input),
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_prior_box),
        cmocka_unit_test(test_phases_and_names),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_detection),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_weights),
        cmocka_unit_test(test_refused_blobs),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_real_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
