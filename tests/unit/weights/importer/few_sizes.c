/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX models that leave height and width open and take few sizes: those next
 * to a usual one. */
#include "tests/unit/weights/onnx_model.h"

/* The largest of each whole block of size x size of channel c of x, 2,h,w. */
static float block_of(const float *x, int h, int w, int size, int c, int i,
                      int k)
{
    float most = x[(c * h + i * size) * w + k * size];

    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++)
            most = fmaxf(most, x[(c * h + i * size + a) * w + k * size + b]);
    return most;
}

static void fill(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = (float)(i * 37 % 101) - 50;
}

static void give(struct graph *g, int h, int w, const float *x,
                 const float *want, int n)
{
    struct graph *copy = graph_copy(g);
    float y[256] = {0};

    assert_non_null(copy);
    assert_true((size_t)n <= COUNT(y));
    run_reference(copy, DIMS(1, 2, h, w), x, y, sizeof y);
    for (int i = 0; i < n; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-4f))
            fail_msg("%dx%d: element %d is %g, expected %g", h, w, i,
                     (double)y[i], (double)want[i]);
}

/* Status at a size. */
static int takes(const struct graph *g, int h, int w)
{
    const struct graph_shape shape[1] = {{4, {2, 2, h, w}}};
    struct graph *copy = graph_copy(g);
    struct infer_error err;
    int rc;

    assert_non_null(copy);
    rc = graph_infer_shapes(copy, shape, &err);
    graph_free(copy);
    return rc;
}

static struct pb_message pooled(int64_t h, int64_t w)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(-1, 2, -1, -1));
    graph_output(&m, "y");
    attr_ints(&a, "kernel_shape", 2, INTS(h, w));
    attr_ints(&a, "strides", 2, INTS(h, w));
    graph_node(&m, "MaxPool", "x", "p", &a);
    return m;
}

/* y = sum of p, by a dense layer of a flattened tensor. */
static void dense_sum(struct pb_message *m, int64_t inputs)
{
    float ones[64];

    assert_true((size_t)inputs <= COUNT(ones));
    for (int i = 0; i < inputs; i++)
        ones[i] = 1;
    graph_node(m, "Flatten", "p", "f", NULL);
    graph_floats(m, "w", DIMS(inputs, 1), ones);
    graph_node(m, "MatMul", "f w", "y", NULL);
}

/* A classifier of pictures of 32 to 39 pixels, and of 16x64. */
TEST(test_classifier)
{
    static const int size[][2] = {{32, 32}, {39, 33}, {35, 38}, {16, 64}};
    struct pb_message m = pooled(8, 8);
    static float x[2 * 40 * 64];
    struct graph *g;

    dense_sum(&m, 32);
    g = must_read(model_of(&m, 13));
    fill(x, COUNT(x));
    for (size_t k = 0; k < COUNT(size); k++) {
        const int h = size[k][0], w = size[k][1];
        float want = 0;

        for (int i = 0; i < 32; i++)
            want += block_of(x, h, w, 8, i / 16, i % 16 / (w / 8),
                             i % 16 % (w / 8));
        give(g, h, w, x, &want, 1);
    }
    assert_int_not_equal(takes(g, 40, 40), 0);
    assert_int_not_equal(takes(g, 64, 64), 0);
    graph_free(g);
}

/* Positions of 4x4 patches are added: nothing but the window is taken. */
TEST(test_positions)
{
    struct pb_message m = pooled(8, 8);
    static float x[2 * 39 * 36];
    float positions[16], want[32];
    struct graph *g;

    fill(positions, 16);
    fill(x, COUNT(x));
    graph_floats(&m, "positions", DIMS(1, 1, 4, 4), positions);
    graph_node(&m, "Add", "p positions", "y", NULL);
    g = must_read(model_of(&m, 13));
    for (int i = 0; i < 32; i++)
        want[i] = block_of(x, 39, 36, 8, i / 16, i / 4 % 4, i % 4) +
                  positions[i % 16];
    give(g, 39, 36, x, want, 32);
    assert_int_not_equal(takes(g, 64, 64), 0);
    graph_free(g);
}

/* What is said of the file. */
static void says(const struct pb_message *m, const char *words)
{
    struct weights_file file = {.path = "said.onnx"};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};
    unsigned char *copy = malloc(m->size);

    assert_non_null(copy);
    memcpy(copy, m->data, m->size);
    file.blob = blob_new(copy, m->size);
    assert_non_null(file.blob);
    weights_options_init(&options);
    weights_import_init(&import);
    if (weights_format_onnx.read(&file, &options, &err, &import) < 0)
        fail_msg("%s", err.text);
    if (!strstr(import.detail, words))
        fail_msg("'%s' does not say '%s'", import.detail, words);
    weights_import_clear(&import);
    blob_unref(file.blob);
}

/* As many places as 4x4, of which the result has the rows and columns, or a
 * factor: 8x128 pixels have as many and are no picture of the graph's. */
TEST(test_numbers)
{
    static const char *const nodes[] = {"rows", "factor"};

    for (size_t k = 0; k < COUNT(nodes); k++) {
        struct pb_message m = pooled(8, 8), a = EMPTY;
        static float x[2 * 32 * 32];
        float positions[16], want[32];
        struct graph *g;

        fill(positions, 16);
        fill(x, COUNT(x));
        graph_floats(&m, "positions", DIMS(1, 1, 16), positions);
        graph_ints(&m, "tokens", DIMS(3), INTS(0, 2, -1));
        graph_ints(&m, "three", DIMS(1), INTS(3));
        graph_ints(&m, "zero", DIMS(1), INTS(0));
        graph_ints(&m, "channels", DIMS(1), INTS(2));
        graph_ints(&m, "rest", DIMS(1), INTS(-1));
        graph_node(&m, "Shape", "p", "s", NULL);
        graph_node(&m, "Gather", "s three", "columns", NULL);
        graph_node(&m, "Reshape", "p tokens", "t", NULL);
        graph_node(&m, "Add", "t positions", "u", NULL);
        if (k == 0) {
            attr_int(&a, "axis", 0);
            graph_node(&m, "Concat", "zero channels rest columns", "r", &a);
            graph_node(&m, "Reshape", "u r", "y", NULL);
        } else {
            attr_int(&a, "to", 1);
            graph_node(&m, "Cast", "columns", "f", &a);
            graph_node(&m, "Mul", "u f", "y", NULL);
        }
        m = model_of(&m, 13);
        says(&m, "x takes 32x32 alone");
        g = must_read(m);
        for (int i = 0; i < 32; i++)
            want[i] = (block_of(x, 32, 32, 8, i / 16, i / 4 % 4, i % 4) +
                       positions[i % 16]) *
                      (k == 0 ? 1.0f : 4.0f);
        give(g, 32, 32, x, want, 32);
        if (takes(g, 8, 128) == 0 || takes(g, 128, 8) == 0)
            fail_msg("%s: 16 places in a row are taken", nodes[k]);
        graph_free(g);
    }
}

/* Height is squeezed and has to be 32 to 63; any width is taken. */
TEST(test_one_axis)
{
    struct pb_message m = pooled(32, 4);
    static float x[2 * 41 * 300];
    struct graph *g;
    float want[150];

    graph_ints(&m, "two", DIMS(1), INTS(2));
    graph_node(&m, "Squeeze", "p two", "y", NULL);
    g = must_read(model_of(&m, 13));
    fill(x, COUNT(x));
    for (int i = 0; i < 150; i++) {
        const int c = i / 75, k = i % 75;

        want[i] = x[c * 41 * 300 + k * 4];
        for (int a = 0; a < 32; a++)
            for (int b = 0; b < 4; b++)
                want[i] = fmaxf(want[i], x[(c * 41 + a) * 300 + k * 4 + b]);
    }
    give(g, 41, 300, x, want, 150);
    assert_int_not_equal(takes(g, 64, 300), 0);
    graph_free(g);
}

/* What fits no usual size keeps the first refusal. */
TEST(test_none)
{
    struct pb_message m = pooled(8, 8);

    dense_sum(&m, 7);
    must_refuse(model_of(&m, 13), INFER_EFORMAT, "weight is 1x7");
}

/* A matrix whose transpose is the weight of a layer is read afterwards as it
 * is, and by a second layer. */
TEST(test_matrix_again)
{
    enum { N = 128 };
    struct pb_message m = EMPTY;
    static float x[N * N], w[N * N], want[N * N], y[N * N];
    struct graph *g;

    fill(w, N * N);
    for (int i = 0; i < N; i++)
        x[i * N + (i + 1) % N] = 1;
    for (int i = 0; i < N * N; i++) /* x w + w + x w */
        want[i] = w[i] + 2 * w[(i / N + 1) % N * N + i % N];
    graph_input(&m, "x", DIMS(N, N));
    graph_output(&m, "y");
    graph_floats(&m, "w", DIMS(N, N), w);
    graph_node(&m, "MatMul", "x w", "a", NULL);
    graph_node(&m, "Add", "a w", "b", NULL);
    graph_node(&m, "MatMul", "x w", "c", NULL);
    graph_node(&m, "Add", "b c", "y", NULL);
    g = must_read(model_of(&m, 13));
    run_reference(g, DIMS(N, N), x, y, sizeof y);
    for (int i = 0; i < N * N; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-4f))
            fail_msg("element %d is %g, expected %g", i, (double)y[i],
                     (double)want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classifier), cmocka_unit_test(test_positions),
        cmocka_unit_test(test_one_axis),   cmocka_unit_test(test_none),
        cmocka_unit_test(test_numbers),    cmocka_unit_test(test_matrix_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
