/* SPDX-License-Identifier: Apache-2.0 */
/* The ncnn reader: each layer against values worked out by hand, the ways in
 * which weights are stored, files that must be refused, damaged files, and the
 * files of TEST_DATA. */
#include "tests/unit/weights/layers/run.h"
#include "weights/ncnn/ncnn.h"

extern const struct weights_format weights_format_ncnn;

#define HALF   UINT32_C(0x01306B47)
#define SINGLE UINT32_C(0x0002C056)

/* Two layers: an input of w x h x c, and one from "x" to "y". */
#define NET(w, h, c, layer)                                                    \
    "7767517\n2 2\nInput x 0 1 x 0=" #w " 1=" #h " 2=" #c "\n" layer "\n"

static const float ramp[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
    48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

#define F(...)                                                                 \
    (const float[]){__VA_ARGS__},                                              \
        sizeof((const float[]){__VA_ARGS__}) / sizeof(float)

/* weights NULL: the network has none. */
static void check(const char *net, const struct run_bytes *weights,
                  const float *x, struct run_shape shape, const float *y,
                  size_t n)
{
    static unsigned char nothing[1];
    const struct run_bytes none = {nothing, 0};
    struct graph *g = run_must_read(ncnn_read, net, weights ? weights : &none);

    run_expect(g, x, shape, y, n);
    graph_free(g);
}

/* ---- weights ------------------------------------------------------- */

/* The same two weights in every way of storing them. */
TEST(test_storage)
{
    static const char net[] =
        NET(1, 2, 1, "InnerProduct y 1 1 x y 0=1 1=1 2=2 9=2 -23310=1,0.5");
    static const unsigned char halves[] = {0x00, 0x40, 0x00, 0xc2}; /* 2, -3 */
    static const unsigned char indices[] = {7, 9, 0, 0};
    float table[256] = {0};
    struct run_bytes w[4] = {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}};

    run_put_u32(&w[0], 0);
    RUN_FLOATS(&w[0], 2, -3, 1);
    run_put_u32(&w[1], SINGLE);
    RUN_FLOATS(&w[1], 2, -3, 1);
    run_put_u32(&w[2], HALF);
    run_put(&w[2], halves, 4);
    RUN_FLOATS(&w[2], 1);
    table[7] = 2;
    table[9] = -3;
    run_put_u32(&w[3], 1);
    run_put_floats(&w[3], table, 256);
    run_put(&w[3], indices, 4);
    RUN_FLOATS(&w[3], 1);
    for (int i = 0; i < 4; i++) {
        check(net, &w[i], ramp + 1, SHAPE(1, 1, 2, 1), F(-1.5f));
        run_truncate(ncnn_read, net, &w[i]);
        run_put_u32(&w[i], 0);
        run_refused(ncnn_read, net, &w[i], INFER_EFORMAT, "4 bytes more");
        free(w[i].data);
    }
    w[0] = (struct run_bytes){NULL, 0};
    run_put_u32(&w[0], UINT32_C(0x000D4B38));
    RUN_FLOATS(&w[0], 2, -3, 1);
    run_refused(ncnn_read, net, &w[0], INFER_EUNSUPPORTED, "8-bit integers");
    free(w[0].data);
}

TEST(test_convolutions)
{
    struct run_bytes w = {NULL, 0};

    run_put_u32(&w, 0);
    RUN_FLOATS(&w, 2, 3, 10, 20);
    check(NET(2, 1, 2,
              "ConvolutionDepthWise y 1 1 x y 0=2 1=1 5=1 6=2 7=2 9=3 "
              "-23310=2,15.0,30.0"),
          &w, ramp + 1, SHAPE(1, 2, 1, 2), F(15, 15, 29, 30));
    free(w.data);
    /* Outputs before inputs; the graph has them the other way round. */
    w = (struct run_bytes){NULL, 0};
    run_put_u32(&w, 0);
    RUN_FLOATS(&w, 1, 2, 3, 4);
    check(NET(1, 1, 2, "Deconvolution y 1 1 x y 0=2 1=1 6=4"), &w, ramp + 1,
          SHAPE(1, 2, 1, 1), F(5, 11));
    /* On a vector a convolution is a dense layer. */
    check(NET(2, 0, 0, "Convolution y 1 1 x y 0=2 1=1 6=4"), &w, ramp + 1,
          SHAPE(1, 2), F(5, 11));
    free(w.data);
}

TEST(test_channels)
{
    static const float below[] = {-1, -1};
    struct run_bytes w = {NULL, 0};

    RUN_FLOATS(&w, 2, 3, 4, 5); /* slope, mean, variance, bias */
    check(NET(2, 1, 1, "BatchNorm y 1 1 x y 0=1"), &w, ramp + 3,
          SHAPE(1, 1, 1, 2), F(5, 6));
    free(w.data);
    w = (struct run_bytes){NULL, 0};
    RUN_FLOATS(&w, 2, 3);
    check(NET(1, 1, 1, "Scale y 1 1 x y 0=1 1=1"), &w, ramp + 3,
          SHAPE(1, 1, 1, 1), F(9));
    check(NET(1, 1, 2, "PReLU y 1 1 x y 0=2"), &w, below, SHAPE(1, 2, 1, 1),
          F(-2, -3));
    free(w.data);
}

TEST(test_norms)
{
    struct run_bytes w = {NULL, 0};

    RUN_FLOATS(&w, 1, 2, 0, 1); /* scale, shift */
    check(NET(2, 1, 1, "LayerNorm y 1 1 x y 0=2 1=0"), &w, ramp,
          SHAPE(1, 1, 1, 2), F(-1, 3));
    check(NET(1, 1, 2, "GroupNorm y 1 1 x y 0=1 1=2 2=0"), &w, ramp,
          SHAPE(1, 2, 1, 1), F(-1, 3));
    check(NET(2, 1, 2, "InstanceNorm y 1 1 x y 0=2 1=0"), &w, ramp,
          SHAPE(1, 2, 1, 2), F(-1, 1, -1, 3));
    free(w.data);
    check(NET(2, 1, 1, "RMSNorm y 1 1 x y 0=2 1=0 2=0"), NULL, ramp,
          SHAPE(1, 1, 1, 2), F(0, 1.4142135f));
}

TEST(test_products)
{
    struct run_bytes w = {NULL, 0};

    for (int transposed = 0; transposed < 2; transposed++) {
        w = (struct run_bytes){NULL, 0};
        run_put_u32(&w, 0);
        if (transposed)
            RUN_FLOATS(&w, 2, 3, 4, 5);
        else
            RUN_FLOATS(&w, 2, 4, 3, 5);
        run_put_u32(&w, 0);
        RUN_FLOATS(&w, 10, 20);
        check(transposed
                  ? NET(2, 2, 0, "Gemm y 1 1 x y 0=2 3=1 5=1 6=1 8=2 9=2 10=4")
                  : NET(2, 2, 0, "Gemm y 1 1 x y 0=2 5=1 6=1 8=2 9=2 10=4"),
              &w, ramp, SHAPE(1, 2, 2), F(16, 30, 36, 66));
        free(w.data);
    }
    check(NET(2, 2, 0, "MatMul y 2 1 x x y 0=1"), NULL, ramp, SHAPE(1, 2, 2),
          F(1, 3, 3, 13));
    w = (struct run_bytes){NULL, 0};
    for (int i = 0; i < 4; i++) { /* query, key, value, result */
        static const float weight[] = {1, 1, 2, 3}, bias[] = {0, 0, 0, 1};

        run_put_u32(&w, 0);
        run_put_floats(&w, &weight[i], 1);
        run_put_floats(&w, &bias[i], 1);
    }
    check(NET(1, 2, 0, "MultiHeadAttention y 1 1 x y 0=1 1=1 2=1"), &w, ramp,
          SHAPE(1, 2, 1), F(4, 5.3863516f));
    free(w.data);
}

/* Numbers of ncnn 1.0.20261020 on the same files: three steps of 0, 1, 2. */
TEST(test_recurrent)
{
    static const struct {
        const char *net;
        int parts[4]; /* numbers of each part of the weights */
        float y[6];
        int n;
    } cases[] = {
        {NET(1, 3, 0, "LSTM y 1 1 x y 0=1 1=8 2=2"),
         {8, 8, 8, 0},
         {-0.096747495f, 0.083052024f, -0.049406528f, 0.082440712f,
          0.00019074473f, 0.064541496f},
         6},
        {NET(1, 3, 0, "LSTM y 1 1 x y 0=1 1=8 2=1 3=2"),
         {8, 8, 8, 2},
         {-0.013357966f, -0.010068878f, -0.0064713033f},
         3},
        {NET(1, 3, 0, "GRU y 1 1 x y 0=1 1=6 2=2"),
         {6, 8, 6, 0},
         {-0.13021877f, 0.041085012f, -0.29708439f, -0.23683688f, -0.4518722f,
          -0.35391963f},
         6},
        {NET(1, 3, 0, "RNN y 1 1 x y 0=1 1=2 2=2"),
         {2, 2, 2, 0},
         {-0.24491866f, 0.40642735f, -0.7190209f, 0.51646894f, -0.92013055f,
          0.80930108f},
         6},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_bytes w = {NULL, 0};
        int k = 0;

        for (int p = 0; p < 4 && cases[i].parts[p] > 0; p++) {
            run_put_u32(&w, 0);
            for (int j = 0; j < cases[i].parts[p]; j++, k++) {
                const float v = (float)(k * 7 % 11 - 5) / 8;

                run_put_floats(&w, &v, 1);
            }
        }
        check(cases[i].net, &w, ramp, SHAPE(1, 3, 1), cases[i].y,
              (size_t)cases[i].n);
        free(w.data);
    }
}

/* ---- layers without weights ---------------------------------------- */

TEST(test_pooling)
{
    check(NET(3, 3, 1, "Pooling y 1 1 x y 0=0 1=2 2=2"), NULL, ramp,
          SHAPE(1, 1, 3, 3), F(4, 5, 7, 8));
    check(NET(3, 3, 1, "Pooling y 1 1 x y 0=0 1=2 2=2 5=1"), NULL, ramp,
          SHAPE(1, 1, 3, 3), F(4));
    check(NET(3, 3, 1, "Pooling y 1 1 x y 0=1 1=2 2=2"), NULL, ramp,
          SHAPE(1, 1, 3, 3), F(2, 3.5f, 6.5f, 8));
    check(NET(3, 1, 1, "Pooling y 1 1 x y 0=1 1=2 11=1 2=2 12=1 6=1"), NULL,
          ramp + 2, SHAPE(1, 1, 1, 3), F(2.5f, 2));
    check(NET(2, 1, 2, "Pooling y 1 1 x y 0=1 4=1"), NULL, ramp,
          SHAPE(1, 2, 1, 2), F(0.5f, 2.5f));
    /* What "same" adds counts in an average, whatever parameter 6 says. */
    check(NET(2, 1, 1, "Pooling y 1 1 x y 0=1 1=2 11=1 2=1 12=1 5=2"), NULL,
          ramp + 1, SHAPE(1, 1, 1, 2), F(1.5f, 1));
    check(NET(4, 1, 1, "Pooling y 1 1 x y 0=1 7=1 8=2 18=1"), NULL, ramp,
          SHAPE(1, 1, 1, 4), F(0.5f, 2.5f));
    check(NET(3, 1, 1, "Pooling y 1 1 x y 0=0 7=1 8=2 18=-233"), NULL, ramp,
          SHAPE(1, 1, 1, 3), F(1, 2));
    check(NET(3, 1, 1, "Pooling y 1 1 x y 0=1 7=1 8=2 18=1"), NULL, ramp,
          SHAPE(1, 1, 1, 3), F(0.5f, 1.5f));
}

TEST(test_functions)
{
    static const float x[] = {-1, 2};
    static const struct {
        const char *net;
        float y[2];
    } cases[] = {
        {NET(2, 1, 1, "ReLU y 1 1 x y 0=0.5"), {-0.5f, 2}},
        {NET(2, 1, 1, "Clip y 1 1 x y 0=-0.5 1=1.0"), {-0.5f, 1}},
        {NET(2, 1, 1, "HardSwish y 1 1 x y 0=0.25 1=0.5"), {-0.25f, 2}},
        {NET(2, 1, 1, "HardSigmoid y 1 1 x y 0=0.25 1=0.5"), {0.25f, 1}},
        {NET(2, 1, 1, "ELU y 1 1 x y 0=2"), {-1.2642411f, 2}},
        {NET(2, 1, 1, "Power y 1 1 x y 0=2 1=3 2=4"), {1, 100}},
        {NET(2, 1, 1, "UnaryOp y 1 1 x y 0=4"), {1, 4}},
        {NET(2, 1, 1, "UnaryOp y 1 1 x y 0=15"), {-1, 0.5f}},
        {NET(2, 1, 1, "UnaryOp y 1 1 x y 0=10"), {0.5403023f, -0.4161468f}},
        {NET(2, 1, 1,
             "BinaryOp y 1 1 x y 0=3 1=1 2=0.75\n"
             "UnaryOp z 1 1 y z 0=19"),
         {-1, 2}},
        {NET(2, 1, 1, "Clip y 1 1 x y 0=100 1=200\nUnaryOp z 1 1 y z 0=17"),
         {2, 2}},
        {NET(2, 1, 1, "BinaryOp y 1 1 x y 0=7 1=1 2=3"), {4, 1}},
        {NET(2, 1, 1, "BinaryOp y 1 1 x y 0=3 1=1 2=4"), {-0.25f, 0.5f}},
        {NET(2, 1, 1, "Eltwise y 2 1 x x y 0=1 -23301=2,1.0,-3.0"), {2, -4}},
        {NET(2, 1, 1,
             "Reduction y 1 1 x y 0=3 1=0 -23303=1,2 4=1\n"
             "BinaryOp z 2 1 x y z 0=1"),
         {-1.5f, 1.5f}},
        {NET(2, 1, 1,
             "Reduction y 1 1 x y 0=2 1=0 -23303=1,2 4=1\n"
             "BinaryOp z 2 1 x y z 0=0"),
         {4, 7}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        /* One of the networks has a third layer. */
        char *net = strdup(cases[i].net);

        assert_non_null(net);
        if (strstr(net, " z "))
            memcpy(strchr(net, '\n') + 1, "3", 1);
        check(net, NULL, x, SHAPE(1, 1, 1, 2), cases[i].y, 2);
        free(net);
    }
}

/* A vector stands for channels, where there are as many. */
TEST(test_broadcast)
{
    check("7767517\n4 5\nInput x 0 1 x 0=2 1=1 2=2\nSplit s 1 2 x a b\n"
          "Pooling p 1 1 a p 0=0 4=1\nBinaryOp y 2 1 b p y 0=1\n",
          NULL, ramp, SHAPE(1, 2, 1, 2), F(-1, 0, -1, 0));
}

TEST(test_shapes)
{
    check(NET(2, 1, 2, "Permute y 1 1 x y 0=3"), NULL, ramp, SHAPE(1, 2, 1, 2),
          F(0, 2, 1, 3));
    check(NET(2, 2, 0, "Permute y 1 1 x y 0=1"), NULL, ramp, SHAPE(1, 2, 2),
          F(0, 2, 1, 3));
    check(NET(1, 1, 4, "ShuffleChannel y 1 1 x y 0=2"), NULL, ramp,
          SHAPE(1, 4, 1, 1), F(0, 2, 1, 3));
    check(NET(2, 1, 1, "Padding y 1 1 x y 0=0 1=1 2=1 3=0 4=0 5=9"), NULL, ramp,
          SHAPE(1, 1, 1, 2), F(9, 0, 1, 9, 9, 9));
    check(NET(2, 1, 1, "Interp y 1 1 x y 0=2 1=1 2=2"), NULL, ramp,
          SHAPE(1, 1, 1, 2), F(0, 0.25f, 0.75f, 1));
    check(NET(1, 1, 1, "LRN y 1 1 x y 0=1 1=3 2=9 3=1"), NULL, ramp + 2,
          SHAPE(1, 1, 1, 1), F(0.4f));
    /* 3 pixels become 4, the corners on one another. */
    check(NET(3, 1, 1, "Interp y 1 1 x y 0=2 1=1 2=1.5 6=1"), NULL, ramp,
          SHAPE(1, 1, 1, 3), F(0, 2 / 3.f, 4 / 3.f, 2));
    check(NET(1, 1, 4, "PixelShuffle y 1 1 x y 0=2"), NULL, ramp,
          SHAPE(1, 4, 1, 1), F(0, 1, 2, 3));
    check(NET(2, 1, 2, "Reshape y 1 1 x y 0=-1 1=1"), NULL, ramp,
          SHAPE(1, 2, 1, 2), F(0, 1, 2, 3));
    check(NET(4, 1, 1, "Crop y 1 1 x y -23309=1,1 -23310=1,-1 -23311=1,2"),
          NULL, ramp, SHAPE(1, 1, 1, 4), F(1, 2));
    check(NET(4, 1, 1, "Crop y 1 1 x y 0=1 3=2"), NULL, ramp, SHAPE(1, 1, 1, 4),
          F(1, 2));
    check(NET(4, 1, 1, "Crop y 1 1 x y 0=1 6=1"), NULL, ramp, SHAPE(1, 1, 1, 4),
          F(1, 2));
    check("7767517\n3 3\nInput x 0 1 x 0=4 1=1 2=1\n"
          "Crop c 1 1 x c 3=2\nCrop y 2 1 x c y 0=1\n",
          NULL, ramp, SHAPE(1, 1, 1, 4), F(1, 2));
    check(NET(2, 2, 0, "ExpandDims y 1 1 x y -23303=1,0"), NULL, ramp,
          SHAPE(1, 2, 2), F(0, 1, 2, 3));
    check(NET(2, 1, 2, "Squeeze y 1 1 x y -23303=1,1"), NULL, ramp,
          SHAPE(1, 2, 1, 2), F(0, 1, 2, 3));
    check("7767517\n3 4\nInput x 0 1 x 0=1 1=1 2=3\n"
          "Slice s 1 2 x a b -23300=2,1,-233\nConcat y 2 1 b a y\n",
          NULL, ramp, SHAPE(1, 3, 1, 1), F(1, 2, 0));
    check(NET(2, 1, 1, "Softmax y 1 1 x y 0=2 1=1"), NULL, ramp,
          SHAPE(1, 1, 1, 2), F(0.26894142f, 0.73105858f));
}

/* The channels of the input are those of the convolution that reads it; its
 * size stays free. */
TEST(test_free_size)
{
    static const char net[] = "7767517\n3 3\nInput x 0 1 x\n"
                              "Convolution c 1 1 x c 0=4 1=1 6=4\n"
                              "ShuffleChannel y 1 1 c y 0=2\n";
    struct run_bytes w = {NULL, 0};

    run_put_u32(&w, 0);
    RUN_FLOATS(&w, 1, 2, 3, 4);
    check(net, &w, ramp + 1, SHAPE(1, 1, 1, 2), F(1, 2, 3, 6, 2, 4, 4, 8));
    check(net, &w, ramp + 1, SHAPE(1, 1, 1, 1), F(1, 3, 2, 4));
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
        {"", INFER_EFORMAT, "the first line is not 7767517"},
        {"7767516\n", INFER_EFORMAT, "the first line is not 7767517"},
        {"7767517\n", INFER_EFORMAT, "line 2"},
        {"7767517\n2 2\nInput x 0 1 x 0=1\n", INFER_EFORMAT,
         "1 layers, line 2 says 2"},
        {"7767517\n1 1\nInput x 0 2 x\n", INFER_EFORMAT,
         "line 3: 'Input x 0 2 x' is no layer"},
        {NET(1, 1, 1, "Proposal y 1 1 x y"), INFER_EUNSUPPORTED,
         "OP Proposal: not supported (1 layer)"},
        {NET(1, 3, 0, "LSTM y 1 1 x y 0=1 1=9"), INFER_EFORMAT,
         "9 weights for an input of 2 dimensions"},
        {NET(1, 3, 0, "GRU y 1 1 x y 0=1 1=3 8=2"), INFER_EUNSUPPORTED,
         "weights of 8-bit integers"},
        {NET(1, 1, 1, "ReLU y 1 1 z y"), INFER_EFORMAT,
         "OP ReLU 'y': takes 'z', which no layer before it makes"},
        {NET(1, 1, 1, "ReLU y 1 1 x x"), INFER_EFORMAT,
         "a second blob is named 'x'"},
        {NET(1, 1, 1, "ReLU y 1 1 x y 0=z"), INFER_EFORMAT,
         "parameter 0: 'z' is no number"},
        {NET(1, 1, 1, "ReLU y 0 1 y"), INFER_EFORMAT, "it has 0 inputs"},
        {NET(1, 1, 1, "Convolution y 1 1 x y 0=2 1=1 6=3"), INFER_EFORMAT,
         "3 weights do not fit 1 channels"},
        {NET(1, 1, 1, "Convolution y 1 1 x y 0=2147483647 1=65536 6=3"),
         INFER_EFORMAT, "3 weights do not fit"},
        {NET(1, 1, 1, "Convolution y 1 1 x y 0=1 1=1 6=1 8=1"),
         INFER_EUNSUPPORTED, "8-bit integers"},
        {NET(1, 1, 1, "Convolution y 1 1 x y 0=1 1=1 6=1"), INFER_EFORMAT,
         "end before its weight"},
        {NET(1, 1, 1, "Pooling y 1 1 x y 7=1 8=99 18=1"), INFER_EUNSUPPORTED,
         "adaptive pooling to 99 pixels"},
        {NET(2, 2, 1, "Pooling y 1 1 x y 0=1 1=2 3=1 5=2"), INFER_EUNSUPPORTED,
         "padding beside pad_mode 2"},
        {NET(1, 1, 1, "Softmax y 1 1 x y 0=3"), INFER_EFORMAT, "axis 3 of 3"},
        {NET(1, 1, 1, "Reshape y 1 1 x y"), INFER_EUNSUPPORTED, "computed"},
        {NET(1, 1, 1, "UnaryOp y 1 1 x y 0=20"), INFER_EUNSUPPORTED,
         "op_type 20 is not supported"},
        {NET(1, 1, 1, "Reduction y 1 1 x y 0=3"), INFER_EUNSUPPORTED,
         "a single number"},
        {NET(1, 1, 3, "Slice y 1 1 x y -23300=1,4"), INFER_EFORMAT,
         "a part of 4 from 0 of 3"},
        {NET(1, 1, 3, "Slice y 1 1 x y -23300=99,4"), INFER_EFORMAT,
         "parameter 0"},
        {"7767517\n2 2\nInput x 0 1 x\n"
         "Convolution y 1 1 x y 0=2147483647 1=65536 6=1\n",
         INFER_EUNSUPPORTED, "needs the size of dimension 1"},
        {"7767517\n2 2\nInput x 0 1 x\nPooling y 1 1 x y 1=2 2=2\n",
         INFER_EUNSUPPORTED, "state it with --input-shape"},
    };
    static unsigned char nothing[1];
    const struct run_bytes none = {nothing, 0};

    for (size_t i = 0; i < COUNT(cases); i++)
        run_refused(ncnn_read, cases[i].net, &none, cases[i].code,
                    cases[i].words);
}

TEST(test_damaged)
{
    static const char net[] =
        "7767517\n7 8\nInput x 0 1 x 0=4 1=4 2=2\n"
        "Convolution c 1 1 x c 0=2 1=3 3=2 4=1 5=1 6=36 9=1\n"
        "Split s 1 2 c a b\nPooling p 1 1 a p 0=1 1=2 2=2\n"
        "Interp i 1 1 p i 0=1 1=2.0 2=2.0\nBinaryOp y 2 1 b i y 0=2\n"
        "Reshape r 1 1 y r 0=-1 1=2\n";
    struct run_bytes w = {NULL, 0};

    run_put_u32(&w, 0);
    for (int i = 0; i < 38; i++)
        RUN_FLOATS(&w, 0.5f);
    graph_free(run_must_read(ncnn_read, net, &w));
    run_damage(ncnn_read, net, &w);
    free(w.data);
}

/* ---- files --------------------------------------------------------- */

TEST(test_probe)
{
    static const char net[] = NET(1, 1, 1, "ReLU y 1 1 x y");
    struct weights_file file = run_file(net, sizeof(net) - 1);
    struct run_bytes w = {NULL, 0};

    assert_int_equal(weights_format_ncnn.probe(&file), 95);
    weights_file_close(&file);
    run_put_u32(&w, HALF);
    file = run_file(w.data, w.bytes);
    assert_int_equal(weights_format_ncnn.probe(&file), 30);
    weights_file_close(&file);
    free(w.data);
}

TEST(test_real_networks)
{
    static const char *const fastest[] = {"758", "758", NULL};
    static const char *const nanodet[] = {"792", "792", "814", "814", "836",
                                          "836", "795", "795", "817", "817",
                                          "839", "839", NULL};
    static const char *const yolo[] = {"120_854", "120_854", "129_922",
                                       "129_922", NULL};

    assert_true(run_recorded("fastestdet/FastestDet.bin|ncnn",
                             "fastestdet/FastestDet.param", fastest,
                             -1) <= 2e-5);
    assert_true(run_recorded("nanodet-m/nanodet_m.bin|ncnn",
                             "nanodet-m/nanodet_m.bin", nanodet, -1) <= 2e-5);
    assert_true(run_recorded("yolo-fastest-darknet/yolo-fastest-1.1.bin|ncnn",
                             "yolo-fastest-darknet/yolo-fastest-1.1.param",
                             yolo, -1) <= 2e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storage),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_free_size),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_real_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
