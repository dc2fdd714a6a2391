/* SPDX-License-Identifier: Apache-2.0 */
/* Dilated convolutions that TensorFlow writes by blocks, and quantisation
 * levels (FakeQuant). */
#include "tests/unit/graph/data.h"

#include <math.h>

#include "tests/unit/weights/keras_run.h"
#include "tests/unit/weights/tensorflow/graphdef_reader.h"
#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "weights/tensorflow/tensorflow.h"

/* Arrays of n floats become input0 and output0; the largest difference. */
static double run(struct graph *g, int rank, const int64_t *dim, const float *x,
                  const float *y)
{
    struct constant *in = constant_new(INFER_F32, rank, dim);
    struct constant *out = constant_new(INFER_F32, rank, dim);
    struct weights_dict io;
    struct infer_error err;
    double difference;

    assert_true(in && out);
    memcpy(in->data, x, in->bytes);
    memcpy(out->data, y, out->bytes);
    weights_dict_init(&io);
    assert_int_equal(weights_dict_add(&io, "input0", in, &err), 0);
    assert_int_equal(weights_dict_add(&io, "output0", out, &err), 0);
    difference = run_graph(g, &io);
    weights_dict_clear(&io);
    return difference;
}

/* ---- dilation ------------------------------------------------------ */

#define SIDE 5

/* A 3x3 window with holes: pads of 2, one more for whole blocks, which is
 * cropped. */
static struct graph *dilated(bool shared)
{
    static const float w[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, bias = 1;
    const int64_t picture[4] = {-1, SIDE, SIDE, 1}, two[1] = {2};
    const int64_t window[4] = {3, 3, 1, 1}, edges[2] = {2, 2}, one[1] = {1};
    struct pb_message m = {0}, n;

    def_placeholder(&m, "x", 4, picture);
    def_int32s(&m, 1, "block", 1, two, (const int[]){2, 2}, 2);
    def_int32s(&m, 1, "pads", 2, edges, (const int[]){2, 3, 2, 3}, 4);
    def_int32s(&m, 1, "crops", 2, edges, (const int[]){0, 1, 0, 1}, 4);
    def_floats(&m, "w", 4, window, w, 9);
    def_floats(&m, "b", 1, one, &bias, 1);
    n = def_node("apart", "SpaceToBatchND", "x", "block");
    pb_text(&n, 3, "pads");
    pb_nested(&m, 1, &n);
    n = def_node("conv", "Conv2D", "apart", "w");
    def_ints(&n, "strides", 4, (const int64_t[]){1, 1, 1, 1});
    def_text(&n, "padding", "VALID");
    pb_nested(&m, 1, &n);
    n = def_node("bias", "BiasAdd", "conv", "b");
    pb_nested(&m, 1, &n);
    n = def_node("y", "BatchToSpaceND", "bias", "block");
    pb_text(&n, 3, "crops");
    pb_nested(&m, 1, &n);
    if (shared) { /* what is inside is a result, too */
        n = def_node("z", "Relu", "bias", NULL);
        pb_nested(&m, 1, &n);
    }
    return def_read_graph(&m);
}

TEST(test_dilation)
{
    const int64_t dim[4] = {1, SIDE, SIDE, 1};
    float x[SIDE * SIDE], y[SIDE * SIDE];
    struct graph *g = dilated(false);
    int convs = 0;

    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = (float)((i * 7 + 3) % 11) - 5;
    for (int i = 0; i < SIDE * SIDE; i++) {
        y[i] = 1;
        for (int k = 0; k < 9; k++) {
            const int h = i / SIDE + 2 * (k / 3 - 1);
            const int v = i % SIDE + 2 * (k % 3 - 1);

            if (h >= 0 && h < SIDE && v >= 0 && v < SIDE)
                y[i] += (float)(k + 1) * x[h * SIDE + v];
        }
    }
    for (int i = 0; i < g->n_nodes; i++) {
        assert_int_not_equal(g->node[i].op, GRAPH_RESHAPE);
        if (g->node[i].op != GRAPH_CONV)
            continue;
        convs++;
        assert_int_equal(g->node[i].attr.conv.conv.dilation[0], 2);
        assert_int_equal(g->node[i].attr.conv.conv.dilation[1], 2);
    }
    assert_int_equal(convs, 1);
    assert_int_equal(g->value[g->input[0]].dim[0], -1);
    assert_true(run(g, 4, dim, x, y) <= 1e-6);
    graph_free(g);
    g = dilated(true);
    convs = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->node[i].op != GRAPH_CONV)
            continue;
        convs++;
        assert_int_equal(g->node[i].attr.conv.conv.dilation[0], 1);
    }
    assert_int_equal(convs, 1);
    graph_free(g);
}

/* ---- quantisation levels ------------------------------------------- */

/* The nearest of 2^bits numbers from low on. */
static float nearest(float x, double low, double scale, int steps)
{
    const double q = floor((x - low) / scale + 0.5);

    return (float)(low + (q < 0 ? 0 : q > steps ? steps : q) * scale);
}

TEST(test_levels)
{
    const int64_t shape[2] = {-1, 6}, dim[2] = {1, 6}, six[1] = {6};
    static const float x[6] = {-9, -0.51f, 0, 0.003f, 0.71f, 9};
    static const float min[6] = {-1, -1, -1, 0, 0, -2};
    static const float max[6] = {2, 2, 2, 1, 1, 0.5f};
    struct pb_message m = {0}, n, value = {0}, other = {0};
    struct graph *g;
    float y[6];

    /* One range for all: -1 to 2, whose zero is step 85. */
    def_placeholder(&m, "x", 2, shape);
    n = def_node("y", "FakeQuantWithMinMaxArgs", "x", NULL);
    pb_float(&value, 4, -1);
    def_attr(&n, "min", &value);
    pb_float(&other, 4, 2);
    def_attr(&n, "max", &other);
    pb_nested(&m, 1, &n);
    for (int i = 0; i < 6; i++)
        y[i] = nearest(x[i], -1, 3.0 / 255, 255);
    g = def_read_graph(&m);
    assert_true(run(g, 2, dim, x, y) <= 1e-6);
    graph_free(g);

    /* One an entry; zero points 85, 0 and 204. */
    m = (struct pb_message){0};
    def_placeholder(&m, "x", 2, shape);
    def_floats(&m, "min", 1, six, min, 6);
    def_floats(&m, "max", 1, six, max, 6);
    n = def_node("y", "FakeQuantWithMinMaxVarsPerChannel", "x", "min");
    pb_text(&n, 3, "max");
    pb_nested(&m, 1, &n);
    for (int i = 0; i < 6; i++) {
        const double scale = (max[i] - min[i]) / 255.0;
        const double zero = i < 3 ? 85 : i < 5 ? 0 : 204;

        y[i] = nearest(x[i], -zero * scale, scale, 255);
    }
    g = def_read_graph(&m);
    assert_true(run(g, 2, dim, x, y) <= 1e-6);
    graph_free(g);
}

/* ---- branches ------------------------------------------------------ */

/* A scalar placeholder of booleans. */
static void add_flag(struct pb_message *m, const char *name)
{
    struct pb_message n = def_node(name, "Placeholder", NULL, NULL);

    def_type(&n, "dtype", 10);
    pb_nested(m, 1, &n);
}

static void add_node(struct pb_message *m, const char *name, const char *op,
                     const char *a, const char *b)
{
    struct pb_message n = def_node(name, op, a, b);

    pb_nested(m, 1, &n);
}

/* cond ? tanh(x) : -x, as TensorFlow 1 writes it, Merge before its branches.
 * Each branch begins with a Switch of its own. */
static struct pb_message branches(const char *flag)
{
    struct pb_message m = {0};

    def_placeholder(&m, "x", 2, (const int64_t[]){-1, 2});
    if (flag)
        add_flag(&m, flag);
    else
        def_int32s(&m, 1, "cond", 0, NULL, (const int[]){1}, 1);
    flag = flag ? flag : "cond";
    add_node(&m, "pred_id", "Identity", flag, NULL);
    add_node(&m, "pivot", "Switch", flag, flag);
    add_node(&m, "merge", "Merge", "no", "yes");
    add_node(&m, "s0", "Switch", "x", "pred_id");
    add_node(&m, "s1", "Switch", "x", "pred_id");
    add_node(&m, "no", "Neg", "s0", NULL);
    add_node(&m, "yes", "Tanh", "s1:1", NULL);
    add_node(&m, "y", "Relu", "merge", NULL);
    return m;
}

TEST(test_branches)
{
    struct pb_message m = branches("net/is_training");
    struct graph *g = def_read_graph(&m);

    assert_int_equal(g->n_inputs, 1);
    assert_int_equal(g->n_outputs, 1);
    assert_int_equal(g->n_nodes, 2);
    assert_true(run(g, 2, (const int64_t[]){1, 2}, (const float[]){-3, 2},
                    (const float[]){3, 0}) <= 1e-6);
    graph_free(g);
    m = branches(NULL); /* the condition is a constant: true */
    g = def_read_graph(&m);
    assert_int_equal(g->n_nodes, 2);
    assert_true(run(g, 2, (const int64_t[]){1, 2}, (const float[]){-3, 0.5F},
                    (const float[]){0, 0.46211716F}) <= 1e-6);
    graph_free(g);
    m = branches("anything");
    def_refused(&m, INFER_EUNSUPPORTED, "control flow");
    m = branches("not_training");
    def_refused(&m, INFER_EUNSUPPORTED, "control flow");
    m = branches("is_training"); /* what else reads it sees what it is fed */
    add_node(&m, "other", "LogicalNot", "is_training", NULL);
    def_refused(&m, INFER_EUNSUPPORTED, "control flow");
    /* What only training reads is an end of the network. */
    m = branches("is_training");
    add_node(&m, "s2", "Switch", "y", "pred_id");
    add_node(&m, "loss", "Square", "s2:1", NULL);
    g = def_read_graph(&m);
    assert_int_equal(g->n_outputs, 1);
    assert_int_equal(g->n_nodes, 2);
    assert_true(run(g, 2, (const int64_t[]){1, 2}, (const float[]){-3, 2},
                    (const float[]){3, 0}) <= 1e-6);
    graph_free(g);
    m = branches("keras_learning_phase");
    def_damage(&m, 3, 41);
    pb_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_dilation),
        cmocka_unit_test(test_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
