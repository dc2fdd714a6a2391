/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader and constants: indices that are constant, results of any
 * operator on constants, sizes that are those of another tensor. */
#include <math.h>
#include <string.h>

#include "tests/unit/weights/onnx_model.h"

/* Reads the model, runs it on x = 0, 1, 2, ... of the shape and compares its
 * output; takes the graph over. */
static void expect(struct pb_message *m, int rank, const int64_t *dim,
                   int count, const float *want)
{
    float x[256], y[256];
    int i;

    assert_true(count_of(rank, dim) <= 256 && count <= 256);
    for (i = 0; i < 256; i++) {
        x[i] = (float)i;
        y[i] = NAN;
    }
    run_reference(must_read(model_of(m, 18)), rank, dim, x, y, sizeof y);
    for (i = 0; i < count; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-5f * fmaxf(1, fabsf(want[i]))))
            fail_msg("%g at %d, not %g", (double)y[i], i, (double)want[i]);
    if (count < 256)
        assert_true(isnan(y[count]));
}

/* ---- indices ------------------------------------------------------- */

TEST(test_gather_nd)
{
    struct pb_message m = one_node("GatherND", "x i", DIMS(2, 3, 2), NULL);

    graph_ints(&m, "i", DIMS(2, 2), INTS(0, 1, -1, 2));
    expect(&m, DIMS(2, 3, 2), 4, FLOATS(2, 3, 10, 11));
}

/* One tuple a batch: row 2 of the first, row 0 of the second. */
TEST(test_gather_nd_batch)
{
    struct pb_message a = EMPTY, m;

    attr_int(&a, "batch_dims", 1);
    m = one_node("GatherND", "x i", DIMS(2, 3, 2), &a);
    graph_ints(&m, "i", DIMS(2, 1), INTS(2, 0));
    expect(&m, DIMS(2, 3, 2), 4, FLOATS(4, 5, 6, 7));
}

/* Any dimension may be free. */
TEST(test_gather_nd_open)
{
    struct pb_message m = one_node("GatherND", "x i", DIMS(3, 2, -1), NULL);

    graph_ints(&m, "i", DIMS(1, 1), INTS(1));
    expect(&m, DIMS(3, 2, 2), 4, FLOATS(4, 5, 6, 7));
    m = one_node("GatherND", "x i", DIMS(-1, 2), NULL);
    graph_ints(&m, "i", DIMS(1, 1), INTS(1));
    expect(&m, DIMS(3, 2), 2, FLOATS(2, 3));
}

TEST(test_gather_elements)
{
    struct pb_message a = EMPTY, m;

    attr_int(&a, "axis", 1);
    m = one_node("GatherElements", "x i", DIMS(2, 3), &a);
    graph_ints(&m, "i", DIMS(2, 2), INTS(2, 0, -3, 1));
    expect(&m, DIMS(2, 3), 4, FLOATS(2, 0, 3, 4));
}

TEST(test_scatter_nd)
{
    struct pb_message m = one_node("ScatterND", "x i u", DIMS(3, 2), NULL);

    graph_ints(&m, "i", DIMS(2, 1), INTS(2, 0));
    graph_floats(&m, "u", DIMS(2, 2), FLOATS(-1, -2, -3, -4));
    expect(&m, DIMS(3, 2), 6, FLOATS(-3, -4, 2, 3, -1, -2));
}

TEST(test_scatter_elements)
{
    struct pb_message a = EMPTY, m;

    attr_int(&a, "axis", 1);
    m = one_node("ScatterElements", "x i u", DIMS(2, 3), &a);
    graph_ints(&m, "i", DIMS(2, 1), INTS(1, -1));
    graph_floats(&m, "u", DIMS(2, 1), FLOATS(-1, -2));
    expect(&m, DIMS(2, 3), 6, FLOATS(0, -1, 2, 3, 4, -2));
}

TEST(test_bad_indices)
{
    struct pb_message m = one_node("GatherND", "x i", DIMS(2, 3), NULL);

    graph_ints(&m, "i", DIMS(1, 2), INTS(1, 3));
    must_refuse(model_of(&m, 18), INFER_EFORMAT,
                "index 3 in a dimension of 3 elements");
    m = one_node("ScatterND", "x i u", DIMS(3, 2), NULL);
    graph_ints(&m, "i", DIMS(2, 1), INTS(1, -2));
    graph_floats(&m, "u", DIMS(2, 2), FLOATS(1, 2, 3, 4));
    must_refuse(model_of(&m, 18), INFER_EUNSUPPORTED,
                "two updates of the same element");
    m = one_node("ScatterND", "x i u", DIMS(3, 2), NULL);
    graph_ints(&m, "i", DIMS(2, 1), INTS(0, 1));
    graph_floats(&m, "u", DIMS(3), FLOATS(1, 2, 3));
    must_refuse(model_of(&m, 18), INFER_EFORMAT, "3 updates do not fit 2");
    m = one_node("GatherND", "x i", DIMS(2, 3), NULL);
    graph_ints(&m, "i", DIMS(1, 3), INTS(0, 0, 0));
    must_refuse(model_of(&m, 18), INFER_EFORMAT, "tuples of 3 indices");
    m = one_node("GatherElements", "x i", DIMS(2, 3), NULL);
    graph_ints(&m, "i", DIMS(2, 4), INTS(0, 0, 0, 0, 0, 0, 0, 0));
    must_refuse(model_of(&m, 18), INFER_EFORMAT,
                "dimension 1 has 4 indices and 3 elements");
}

TEST(test_trilu)
{
    struct pb_message a = EMPTY, m = one_node("Trilu", "x", DIMS(2, 3), NULL);

    expect(&m, DIMS(2, 3), 6, FLOATS(0, 1, 2, 0, 4, 5));
    attr_int(&a, "upper", 0);
    m = one_node("Trilu", "x k", DIMS(2, 3), &a);
    graph_ints(&m, "k", 0, NULL, INTS(1));
    expect(&m, DIMS(2, 3), 6, FLOATS(0, 1, 0, 3, 4, 5));
}

/* x + the ones of the diagonal above the main one */
TEST(test_eye_like)
{
    struct pb_message a = EMPTY, m = EMPTY;

    graph_input(&m, "x", DIMS(2, 3));
    graph_output(&m, "y");
    attr_int(&a, "k", 1);
    graph_node(&m, "EyeLike", "x", "e", &a);
    graph_node(&m, "Add", "x e", "y", NULL);
    expect(&m, DIMS(2, 3), 6, FLOATS(0, 2, 2, 3, 4, 6));
}

/* ---- arithmetic ---------------------------------------------------- */

/* Pads that an operator without a rule of its own in fold/rules.c computes. */
TEST(test_constant_of_any_operator)
{
    struct pb_message m = EMPTY, a = EMPTY, b = EMPTY;

    graph_input(&m, "x", DIMS(2, 2));
    graph_output(&m, "y");
    graph_ints(&m, "p", DIMS(1, 4), INTS(5, -9, 0, 1));
    graph_ints(&m, "low", 0, NULL, INTS(0));
    graph_ints(&m, "high", 0, NULL, INTS(1));
    attr_int(&a, "axis", 0);
    graph_node(&m, "Flatten", "p", "f", &a);
    graph_ints(&m, "s", DIMS(1), INTS(4));
    graph_node(&m, "Reshape", "f s", "g", NULL);
    graph_node(&m, "Clip", "g low high", "c", NULL);
    attr_text(&b, "mode", "constant");
    graph_node(&m, "Pad", "x c", "y", &b);
    /* one row above, one column behind */
    expect(&m, DIMS(2, 2), 9, FLOATS(0, 0, 0, 0, 1, 0, 2, 3, 0));
}

/* More elements than are kept as a small tensor. */
TEST(test_large_range)
{
    struct pb_message m = EMPTY, to = EMPTY;

    graph_input(&m, "x", DIMS(2));
    graph_output(&m, "y");
    graph_ints(&m, "a", 0, NULL, INTS(5));
    graph_ints(&m, "b", 0, NULL, INTS(-59996));
    graph_ints(&m, "c", 0, NULL, INTS(-3));
    graph_ints(&m, "i", DIMS(2), INTS(0, 20000));
    graph_node(&m, "Range", "a b c", "r", NULL);
    graph_node(&m, "Gather", "r i", "g", NULL);
    attr_int(&to, "to", 1);
    graph_node(&m, "Cast", "g", "f", &to);
    graph_node(&m, "Add", "x f", "y", NULL);
    expect(&m, DIMS(2), 2, FLOATS(5, -59994));
}

TEST(test_large_range_of_floats)
{
    struct pb_message m = EMPTY;

    graph_input(&m, "x", DIMS(2));
    graph_output(&m, "y");
    graph_floats(&m, "a", 0, NULL, FLOATS(0.5f));
    graph_floats(&m, "b", 0, NULL, FLOATS(2500.4f));
    graph_floats(&m, "c", 0, NULL, FLOATS(0.25f));
    graph_ints(&m, "i", DIMS(2), INTS(1, 9999));
    graph_node(&m, "Range", "a b c", "r", NULL);
    graph_node(&m, "Gather", "r i", "g", NULL);
    graph_node(&m, "Add", "x g", "y", NULL);
    expect(&m, DIMS(2), 2, FLOATS(0.75f, 1 + 2500.25f));
}

/* training_mode 1 on a constant: weights that are standardised. */
TEST(test_standardised_weights)
{
    struct pb_message m = EMPTY, a = EMPTY;
    const float e = 1.0f / sqrtf(1.0f + 1e-5f), f = 4.0f / sqrtf(16 + 1e-5f);

    graph_input(&m, "x", DIMS(1, 2, 2));
    graph_output(&m, "y");
    graph_floats(&m, "w", DIMS(1, 2, 2), FLOATS(1, 3, -2, 6));
    graph_floats(&m, "one", DIMS(2), FLOATS(1, 2));
    graph_floats(&m, "nil", DIMS(2), FLOATS(0, 1));
    attr_int(&a, "training_mode", 1);
    graph_node(&m, "BatchNormalization", "w one nil nil one", "n", &a);
    graph_node(&m, "Add", "x n", "y", NULL);
    expect(&m, DIMS(1, 2, 2), 4,
           FLOATS(0 - e, 1 + e, 2 + 1 - 2 * f, 3 + 1 + 2 * f));
}

/* The running statistics after a batch. */
TEST(test_running_statistics)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(2, 1, 2));
    graph_output(&m, "v");
    graph_floats(&m, "one", DIMS(1), FLOATS(1));
    graph_floats(&m, "nil", DIMS(1), FLOATS(0));
    attr_int(&a, "training_mode", 1);
    attr_float(&a, "momentum", 0.75f);
    graph_node(&m, "BatchNormalization", "x one nil nil one", "y m v", &a);
    /* 0.75 * 1 + 0.25 * variance of 0, 1, 2, 3 */
    expect(&m, DIMS(2, 1, 2), 1, FLOATS(0.75f + 0.25f * 1.25f));
}

TEST(test_lp_norm_of_zeros)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(2, 2));
    graph_output(&m, "y");
    graph_floats(&m, "z", DIMS(2, 1), FLOATS(0, 1));
    graph_node(&m, "Mul", "x z", "r", NULL);
    attr_int(&a, "axis", 1);
    graph_node(&m, "LpNormalization", "r", "y", &a);
    expect(&m, DIMS(2, 2), 4, FLOATS(0, 0, 2 / sqrtf(13), 3 / sqrtf(13)));
}

/* The remainder has the sign of its first operand. */
TEST(test_fmod)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(4));
    graph_output(&m, "y");
    graph_floats(&m, "o", DIMS(4), FLOATS(-7, 6, -5, 2.5f));
    graph_floats(&m, "d", DIMS(4), FLOATS(3, -4, -3, 2));
    graph_node(&m, "Add", "x o", "s", NULL);
    attr_int(&a, "fmod", 1);
    graph_node(&m, "Mod", "s d", "y", &a);
    expect(&m, DIMS(4), 4, FLOATS(-1, 3, 0, 1.5f));
}

/* ---- sizes --------------------------------------------------------- */

/* A pool halves the picture, rounding down; Resize makes it as large as it
 * was, which is twice that only for even sizes. */
TEST(test_resize_like)
{
    struct pb_message m = EMPTY, pool = EMPTY, a = EMPTY, mode = EMPTY;
    const struct graph_resize *r;
    struct graph *g;
    float x[35], y[35];

    graph_input(&m, "x", DIMS(-1, 1, -1, -1));
    graph_output(&m, "y");
    attr_ints(&pool, "kernel_shape", 2, INTS(2, 2));
    attr_ints(&pool, "strides", 2, INTS(2, 2));
    graph_node(&m, "MaxPool", "x", "p", &pool);
    attr_int(&a, "start", 2);
    graph_node(&m, "Shape", "x", "s", &a);
    attr_text(&mode, "mode", "nearest");
    attr_ints(&mode, "axes", 2, INTS(2, 3));
    graph_node(&m, "Resize", "p - - s", "y", &mode);
    g = must_read(model_of(&m, 18));
    r = &the_node(g, GRAPH_RESIZE)->attr.resize;
    assert_int_equal(r->n_sizes, 4);
    assert_int_equal(r->size[2], GRAPH_SIZE_LIKE);
    assert_int_equal(r->size[3], GRAPH_SIZE_LIKE);
    for (int i = 0; i < 35; i++)
        x[i] = (float)i;
    memset(y, 0, sizeof y);
    assert_int_equal(run_reference(g, DIMS(1, 1, 5, 7), x, y, sizeof y), 4);
    /* the largest of each block, at the corners of the picture */
    assert_true(y[0] == 8 && y[6] == 12 && y[28] == 22 && y[34] == 26);
}

/* ---- reading twice ------------------------------------------------- */

/* A batch of 1 that turns out to be no batch: the file is read a second time,
 * after payloads were moved in the first. */
TEST(test_second_reading)
{
    float w[4 * 4 * 9] = {1};

    for (int extra = 0; extra < 8; extra++) {
        struct pb_message m = EMPTY, pads = EMPTY;
        char name[16] = "wwwwwwww", in[32];
        struct graph *g;

        name[1 + extra] = 0;
        snprintf(in, sizeof in, "x %s", name);
        graph_input(&m, "x", DIMS(1, 4, 4, 4));
        graph_output(&m, "y");
        graph_floats(&m, name, DIMS(4, 4, 3, 3), w);
        graph_ints(&m, "s", DIMS(3), INTS(2, 2, 16));
        attr_ints(&pads, "pads", 4, INTS(1, 1, 1, 1));
        graph_node(&m, "Conv", in, "c", &pads);
        graph_node(&m, "Reshape", "c s", "y", NULL);
        g = must_read(model_of(&m, 13));
        assert_output(g, 0, DIMS(2, 2, 16));
        graph_free(g);
    }
}

/* ---- sparse tensors ------------------------------------------------ */

/* A 2 x 3 tensor "s" whose two elements are 5 and 7. */
static struct pb_message sparse(int rank, const int64_t *dim,
                                const int64_t *index)
{
    struct pb_message m = EMPTY;
    struct pb_message value =
        tensor_raw("s", ONNX_FLOAT, DIMS(2), FLOATS(5, 7), 2 * sizeof(float));
    struct pb_message at = tensor_raw("", ONNX_INT64, rank, dim, index,
                                      count_of(rank, dim) * sizeof *index);

    pb_nested(&m, 1, &value);
    pb_nested(&m, 2, &at);
    pb_int(&m, 3, 2);
    pb_int(&m, 3, 3);
    return m;
}

static struct pb_message sum_with_sparse(struct pb_message s)
{
    struct pb_message m = one_node("Add", "x s", DIMS(2, 3), NULL);

    pb_nested(&m, 15, &s);
    return m;
}

/* As an initializer, by positions and by coordinates, and as a Constant. */
TEST(test_sparse)
{
    static const float want[6] = {0, 1, 7, 3, 11, 5};
    struct pb_message m, a = EMPTY, one = EMPTY, s;

    m = sum_with_sparse(sparse(DIMS(2), INTS(2, 4)));
    expect(&m, DIMS(2, 3), 6, want);
    m = sum_with_sparse(sparse(DIMS(2, 2), INTS(0, 2, 1, 1)));
    expect(&m, DIMS(2, 3), 6, want);
    m = (struct pb_message)EMPTY;
    s = sparse(DIMS(2), INTS(2, 4));
    graph_input(&m, "x", DIMS(2, 3));
    graph_output(&m, "y");
    pb_text(&one, 1, "sparse_value");
    pb_nested(&one, 22, &s);
    pb_int(&one, 20, ONNX_ATTR_SPARSE);
    pb_nested(&a, 5, &one);
    graph_node(&m, "Constant", "", "c", &a);
    graph_node(&m, "Add", "x c", "y", NULL);
    expect(&m, DIMS(2, 3), 6, want);
}

TEST(test_sparse_refused)
{
    struct pb_message m, s;

    m = sum_with_sparse(sparse(DIMS(2), INTS(2, 6)));
    must_refuse(model_of(&m, 18), INFER_EFORMAT,
                "index 1 of a sparse tensor is outside it");
    m = sum_with_sparse(sparse(DIMS(2, 2), INTS(0, 3, 1, 1)));
    must_refuse(model_of(&m, 18), INFER_EFORMAT,
                "index 0 of a sparse tensor is outside it");
    m = sum_with_sparse(sparse(DIMS(3), INTS(0, 1, 2)));
    must_refuse(model_of(&m, 18), INFER_EFORMAT, "do not fit its 2 values");
    s = sparse(DIMS(2), INTS(0, 1));
    pb_int(&s, 3, INT64_C(1) << 40);
    m = sum_with_sparse(s);
    must_refuse(model_of(&m, 18), INFER_EUNSUPPORTED, "too large to compute");
    m = sum_with_sparse((struct pb_message)EMPTY);
    must_refuse(model_of(&m, 18), INFER_EFORMAT,
                "a sparse tensor without values");
}

/* Nodes that are refused for one reason are one line. */
TEST(test_one_refusal_a_cause)
{
    struct pb_message m = EMPTY;

    graph_input(&m, "x", DIMS(-1, 4));
    graph_output(&m, "y");
    graph_node(&m, "Foo", "x", "a", NULL);
    graph_node(&m, "Foo", "x", "b", NULL);
    graph_node(&m, "Foo", "x", "c", NULL);
    graph_node(&m, "Sum", "a b c", "y", NULL);
    must_refuse(model_of(&m, 18), INFER_EUNSUPPORTED,
                "operator Foo is not supported (3 such nodes)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather_nd),
        cmocka_unit_test(test_gather_nd_batch),
        cmocka_unit_test(test_gather_nd_open),
        cmocka_unit_test(test_gather_elements),
        cmocka_unit_test(test_scatter_nd),
        cmocka_unit_test(test_scatter_elements),
        cmocka_unit_test(test_bad_indices),
        cmocka_unit_test(test_trilu),
        cmocka_unit_test(test_eye_like),
        cmocka_unit_test(test_constant_of_any_operator),
        cmocka_unit_test(test_large_range),
        cmocka_unit_test(test_large_range_of_floats),
        cmocka_unit_test(test_standardised_weights),
        cmocka_unit_test(test_running_statistics),
        cmocka_unit_test(test_lp_norm_of_zeros),
        cmocka_unit_test(test_fmod),
        cmocka_unit_test(test_resize_like),
        cmocka_unit_test(test_second_reading),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_sparse_refused),
        cmocka_unit_test(test_one_refusal_a_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
