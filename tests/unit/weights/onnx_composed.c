/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators that become several nodes: values where the project's own node
 * tests have none (free batches, infinities, lengths), and what is refused. */
#include <string.h>

#include "tests/unit/weights/onnx_model.h"

static void must_not(struct pb_message m, int opset, int code, const char *text)
{
    must_refuse(model_of(&m, opset), code, text);
}

/* ---- Einsum -------------------------------------------------------- */

static struct pb_message einsum(const char *equation, int rank,
                                const int64_t *dim)
{
    struct pb_message a = EMPTY, m;

    attr_text(&a, "equation", equation);
    m = one_node("Einsum", "x w", rank, dim, &a);
    graph_floats(&m, "w", DIMS(2, 2), FLOATS(1, 2, 3, 4));
    return m;
}

TEST(test_einsum)
{
    static const struct {
        const char *equation;
        float y[8];
        size_t n;
    } cases[] = {
        {"nij,jk->nik", {7, 10, 15, 22, 23, 34, 31, 46}, 8},
        {"nij,kj->nki", {5, 11, 11, 25, 17, 23, 39, 53}, 8},
        {"...ij,jk->...ki", {7, 15, 10, 22, 23, 31, 34, 46}, 8},
        {"nij,ij->n", {30, 70}, 2},
        {"nii,jk->nj", {15, 35, 39, 91}, 4},
        {"nij,jk", {7, 10, 15, 22, 23, 34, 31, 46}, 8},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pb_message m = einsum(cases[i].equation, DIMS(-1, 2, 2));

        if (i == 5) /* without "->" the result is i, k, n */
            m = (pb_free(&m), einsum("ijn,jk", DIMS(2, 2, 1)));
        must_compute(&m, 13, 3, i == 5 ? INTS(2, 2, 1) : INTS(2, 2, 2),
                     FLOATS(1, 2, 3, 4, 5, 6, 7, 8),
                     i == 5 ? FLOATS(7, 10, 15, 22) : cases[i].y,
                     i == 5 ? 4 : cases[i].n);
    }
}

TEST(test_einsum_refused)
{
    static const struct {
        const char *equation, *why;
    } cases[] = {
        {"nij->n", "fewer terms"},     {"nij,jk,kl->n", "more terms"},
        {"nij,j->n", "term 1 has"},    {"nij,jk->nz", "label 1"},
        {"nij,jk->nn", "label 1"},     {"nij,j1->n", "'1'"},
        {".ij,jk->k", "single dot"},   {"nij,jk-", "more terms"},
        {"nij...k,jk->n", "too many"},
    };

    for (size_t i = 0; i < COUNT(cases); i++)
        must_not(einsum(cases[i].equation, DIMS(2, 2, 2)), 13, INFER_EFORMAT,
                 cases[i].why);
    must_not(one_node("Einsum", "x x", DIMS(2, 2), NULL), 13, INFER_EFORMAT,
             "no equation");
}

/* ---- along an axis ------------------------------------------------- */

TEST(test_cumulate)
{
    struct pb_message m = one_node("CumSum", "x a", DIMS(-1, 3), NULL);

    graph_ints(&m, "a", 0, NULL, INTS(-1));
    must_compute(&m, 14, DIMS(2, 3), FLOATS(1, 2, 3, 4, 5, 6),
                 FLOATS(1, 3, 6, 4, 9, 15), 6);
    m = one_node("CumSum", "x a", DIMS(-1, 3), NULL);
    graph_ints(&m, "a", 0, NULL, INTS(INT64_MAX));
    must_not(m, 14, INFER_EFORMAT, "axis");
}

/* Nothing becomes NaN where a line is infinite. */
TEST(test_log_sum_exp)
{
    struct pb_message a = EMPTY, m;

    attr_ints(&a, "axes", 1, INTS(1));
    attr_int(&a, "keepdims", 0);
    m = one_node("ReduceLogSumExp", "x", DIMS(-1, 2), &a);
    must_compute(&m, 13, DIMS(3, 2),
                 FLOATS(1000, 1000, -INFINITY, -INFINITY, INFINITY, 1),
                 FLOATS(1000.6931f, -INFINITY, INFINITY), 3);
}

TEST(test_top_k)
{
    struct pb_message m = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 4));
    graph_output(&m, "y");
    graph_ints(&m, "k", DIMS(1), INTS(2));
    graph_node(&m, "TopK", "x k", "y at", NULL);
    g = must_read(model_of(&m, 11));
    assert_output(g, 0, DIMS(-1, 2));
    assert_int_equal(the_node(g, GRAPH_TOP_K)->attr.top_k.k, 2);
    graph_free(g);
    m = one_node("TopK", "x k", DIMS(-1, 4), NULL);
    graph_ints(&m, "k", DIMS(1), INTS(5));
    must_not(m, 11, INFER_EFORMAT, "5 are to be chosen among 4");
    m = one_node("TopK", "x k", DIMS(-1, 4), NULL);
    graph_ints(&m, "k", DIMS(1), INTS(-1));
    must_not(m, 11, INFER_EFORMAT, "k is -1");
}

TEST(test_one_hot_refused)
{
    struct pb_message m = one_node("OneHot", "x d v", DIMS(2), NULL);

    graph_floats(&m, "d", 0, NULL, FLOATS(1e30f));
    graph_floats(&m, "v", DIMS(2), FLOATS(0, 1));
    must_not(m, 11, INFER_EFORMAT, "a depth of -1");
    m = one_node("OneHot", "x d v", DIMS(2), NULL);
    graph_ints(&m, "d", 0, NULL, INTS((int64_t)1 << 31));
    graph_floats(&m, "v", DIMS(2), FLOATS(0, 1));
    must_not(m, 11, INFER_EFORMAT, "a depth of");
}

/* ---- bits ---------------------------------------------------------- */

TEST(test_bits_refused)
{
    struct pb_message a = EMPTY;

    must_not(one_node("BitShift", "x x", DIMS(2), NULL), 13, INFER_EFORMAT,
             "direction");
    attr_text(&a, "direction", "LEFT");
    must_not(one_node("BitShift", "x x", DIMS(2), &a), 13, INFER_EFORMAT,
             "bits of F32");
    must_not(one_node("BitwiseNot", "x", DIMS(2), NULL), 18, INFER_EFORMAT,
             "bits of F32");
    must_not(one_node("BitwiseAnd", "x x", DIMS(2), NULL), 18, INFER_EFORMAT,
             "not integers");
}

/* A cast to half precision rounds, although the values stay in single. */
TEST(test_cast_rounds)
{
    struct pb_message a = EMPTY, m;

    attr_int(&a, "to", ONNX_FLOAT16);
    m = one_node("Cast", "x", DIMS(2), &a);
    must_compute(&m, 13, DIMS(2), FLOATS(1.0f / 3, 1e6f),
                 FLOATS(0.333251953f, INFINITY), 2);
}

/* ---- recurrent ----------------------------------------------------- */

/* Two steps of one unit by hand: h = tanh(x + h / 2); lengths end a sequence,
 * whose later outputs are 0. */
TEST(test_rnn)
{
    struct pb_message a = EMPTY, m;
    const float h1 = tanhf(1), h2 = tanhf(2 + h1 / 2);

    attr_int(&a, "hidden_size", 1);
    m = one_node("RNN", "x w r", DIMS(2, -1, 1), &a);
    graph_floats(&m, "w", DIMS(1, 1, 1), FLOATS(1));
    graph_floats(&m, "r", DIMS(1, 1, 1), FLOATS(0.5f));
    must_compute(&m, 14, DIMS(2, 1, 1), FLOATS(1, 2), FLOATS(h1, h2), 2);
    attr_int(&a, "hidden_size", 1);
    m = one_node("RNN", "x w r - n", DIMS(2, 2, 1), &a);
    graph_floats(&m, "w", DIMS(1, 1, 1), FLOATS(1));
    graph_floats(&m, "r", DIMS(1, 1, 1), FLOATS(0.5f));
    graph_ints(&m, "n", DIMS(2), INTS(2, 1));
    must_compute(&m, 14, DIMS(2, 2, 1), FLOATS(1, 1, 2, 2),
                 FLOATS(h1, h1, h2, 0), 4);
}

/* Of a free number of steps, or of many, a direction is one node. */
TEST(test_rnn_steps)
{
    static const float x[] = {1, -1, 2, 0.5f, 1, -2};
    struct pb_message a = EMPTY, m, lstm = EMPTY;
    float e[6], h = 0;
    struct graph *g;
    int nodes = 0;

    for (int i = 0; i < 6; i++)
        e[i] = h = tanhf(x[i] + h / 2);
    attr_int(&a, "hidden_size", 1);
    m = one_node("RNN", "x w r", DIMS(6, 1, 1), &a);
    graph_floats(&m, "w", DIMS(1, 1, 1), FLOATS(1));
    graph_floats(&m, "r", DIMS(1, 1, 1), FLOATS(0.5f));
    must_compute(&m, 14, DIMS(6, 1, 1), x, e, 6);
    attr_int(&a, "hidden_size", 1);
    attr_text(&a, "direction", "bidirectional");
    graph_input(&lstm, "x", DIMS(-1, 2, 1));
    graph_output(&lstm, "y");
    graph_floats(&lstm, "w", DIMS(2, 4, 1), FLOATS(1, 1, 1, 1, 1, 1, 1, 1));
    graph_floats(&lstm, "r", DIMS(2, 4, 1), FLOATS(1, 1, 1, 1, 1, 1, 1, 1));
    graph_floats(&lstm, "h", DIMS(2, 2, 1), FLOATS(0, 0, 0, 0));
    graph_node(&lstm, "LSTM", "x w r - - h h", "y yh yc", &a);
    g = must_read(model_of(&lstm, 14));
    assert_output(g, 0, DIMS(-1, 2, 2, 1));
    for (int i = 0; i < g->n_nodes; i++)
        nodes += g->node[i].op == GRAPH_RECURRENT;
    assert_int_equal(nodes, 2);
    graph_free(g);
}

TEST(test_rnn_refused)
{
    struct pb_message a = EMPTY, m;

    attr_int(&a, "hidden_size", 2);
    m = one_node("LSTM", "x w r", DIMS(2, 1, 1), &a);
    graph_floats(&m, "w", DIMS(1, 4, 1), FLOATS(1, 1, 1, 1));
    graph_floats(&m, "r", DIMS(1, 4, 1), FLOATS(1, 1, 1, 1));
    must_not(m, 14, INFER_EFORMAT, "hidden_size 2");
    attr_text(&a, "direction", "bidirectional");
    m = one_node("GRU", "x w r", DIMS(2, 1, 1), &a);
    graph_floats(&m, "w", DIMS(1, 3, 1), FLOATS(1, 1, 1));
    graph_floats(&m, "r", DIMS(1, 3, 1), FLOATS(1, 1, 1));
    must_not(m, 14, INFER_EFORMAT, "the weights do not fit");
}

/* ---- sampling ------------------------------------------------------ */

/* The middle of four pixels, and a point outside; the batch is free. */
TEST(test_grid_sample)
{
    struct pb_message m = EMPTY;
    struct graph *g;

    graph_input(&m, "x", DIMS(-1, 1, 2, 2));
    graph_output(&m, "y");
    graph_floats(&m, "g", DIMS(1, 1, 2, 2), FLOATS(0, 0, 5, 5));
    graph_node(&m, "GridSample", "x g", "y", NULL);
    g = must_read(model_of(&m, 16));
    assert_output(g, 0, DIMS(1, 1, 1, 2));
    graph_free(g);
    m = one_node("GridSample", "x g", DIMS(1, 1, 2, 2), NULL);
    graph_floats(&m, "g", DIMS(1, 1, 2, 2), FLOATS(0, 0, 5, 5));
    must_compute(&m, 16, DIMS(1, 1, 2, 2), FLOATS(1, 2, 3, 8), FLOATS(3.5f, 0),
                 2);
    m = one_node("GridSample", "x g", DIMS(1, 1, 2, 2), NULL);
    graph_floats(&m, "g", DIMS(1, 1, 1, 3), FLOATS(0, 0, 0));
    must_not(m, 16, INFER_EFORMAT, "points of 3");
}

TEST(test_attention_refused)
{
    struct pb_message a = EMPTY;

    must_not(one_node("Attention", "x x x", DIMS(1, 2, 6), NULL), 23,
             INFER_EFORMAT, "0 heads");
    attr_int(&a, "q_num_heads", 4);
    attr_int(&a, "kv_num_heads", 3);
    must_not(one_node("Attention", "x x x", DIMS(1, 2, 6), &a), 23,
             INFER_EFORMAT, "4 heads of 6");
    attr_int(&a, "q_num_heads", 2);
    attr_int(&a, "kv_num_heads", 3);
    must_not(one_node("Attention", "x x x", DIMS(1, 2, 6), &a), 23,
             INFER_EFORMAT, "2 heads of queries for 3");
}

/* ---- indices, boxes, windows --------------------------------------- */

/* Indices that are the input itself, as integers; the batch is free. */
TEST(test_computed_indices)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(-1, 3));
    graph_output(&m, "y");
    attr_int(&a, "to", ONNX_INT64);
    graph_node(&m, "Cast", "x", "i", &a);
    attr_int(&a, "axis", 1);
    graph_node(&m, "GatherElements", "x i", "g", &a);
    attr_int(&a, "axis", 1);
    attr_text(&a, "reduction", "add");
    graph_node(&m, "ScatterElements", "x i g", "y", &a);
    must_compute(&m, 18, DIMS(2, 3), FLOATS(2, 0, 1, 0, 0, 0),
                 FLOATS(4, 0, 2, 0, 0, 0), 6);
}

/* Tuples (row, column), of which one is negative. */
TEST(test_computed_tuples)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(2, 2));
    graph_output(&m, "y");
    graph_floats(&m, "data", DIMS(2, 2), FLOATS(1, 2, 3, 4));
    attr_int(&a, "to", ONNX_INT64);
    graph_node(&m, "Cast", "x", "i", &a);
    graph_node(&m, "GatherND", "data i", "g", NULL);
    attr_text(&a, "reduction", "mul");
    graph_node(&m, "ScatterND", "data i g", "y", &a);
    must_compute(&m, 18, DIMS(2, 2), FLOATS(0, 1, -1, 0), FLOATS(1, 4, 9, 4),
                 4);
}

/* Of boxes that are computed the result has room for the most; -1 fills it. */
TEST(test_nms_room)
{
    struct pb_message m = EMPTY;
    struct graph *g;

    graph_input(&m, "boxes", DIMS(1, 6, 4));
    graph_input(&m, "scores", DIMS(1, 2, 6));
    graph_info(&m, 12, "y", ONNX_INT64, 0, NULL);
    graph_ints(&m, "most", 0, NULL, INTS(4));
    graph_node(&m, "NonMaxSuppression", "boxes scores most", "y", NULL);
    g = must_read(model_of(&m, 11));
    assert_output(g, 0, DIMS(8, 3));
    graph_free(g);
}

/* The last window has one entry. */
TEST(test_lp_pool_ceil)
{
    struct pb_message a = EMPTY, m;

    attr_int(&a, "ceil_mode", 1);
    attr_int(&a, "p", 1);
    attr_ints(&a, "kernel_shape", 2, INTS(1, 2));
    attr_ints(&a, "strides", 2, INTS(1, 2));
    m = one_node("LpPool", "x", DIMS(1, 1, 1, 5), &a);
    must_compute(&m, 18, DIMS(1, 1, 1, 5), FLOATS(0, 1, -2, 3, 4),
                 FLOATS(1, 5, 4), 3);
}

TEST(test_windows_refused)
{
    struct pb_message m;

    m = one_node("Col2Im", "x i w", DIMS(1, 5, 5), NULL);
    graph_ints(&m, "i", DIMS(2), INTS(5, 5));
    graph_ints(&m, "w", DIMS(2), INTS(1, 3));
    must_not(m, 18, INFER_EFORMAT, "columns of 3");
    m = one_node("Col2Im", "x i w", DIMS(1, 5, 5), NULL);
    graph_ints(&m, "i", DIMS(2), INTS(5, 5));
    graph_ints(&m, "w", DIMS(2), INTS(1, 9));
    must_not(m, 18, INFER_EFORMAT, "windows of 9 in 5");
    m = one_node("RoiAlign", "x r b", DIMS(1, 1, 4, 4), NULL);
    graph_floats(&m, "r", DIMS(1, 4), FLOATS(0, 0, 1, 1));
    graph_ints(&m, "b", DIMS(1), INTS(0));
    must_not(m, 16, INFER_EUNSUPPORTED, "sampling_ratio 0");
}

/* ---- free sizes ---------------------------------------------------- */

/* A token for each picture of a free batch, large enough not to be folded or
 * folded at every probe; beside it a mask of ones, summed. */
static struct pb_message token_model(int64_t width)
{
    struct pb_message m = EMPTY, a = EMPTY;
    float *token = calloc((size_t)width, sizeof(*token));

    assert_non_null(token);
    for (int64_t i = 0; i < width; i++)
        token[i] = (float)i;
    graph_input(&m, "x", DIMS(-1, 1));
    graph_output(&m, "y");
    graph_floats(&m, "token", DIMS(1, width), token);
    graph_ints(&m, "first", DIMS(1), INTS(0));
    graph_ints(&m, "width", DIMS(1), INTS(width));
    graph_node(&m, "Shape", "x", "s", NULL);
    graph_node(&m, "Gather", "s first", "n", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "n width", "shape", &a);
    graph_node(&m, "Expand", "token shape", "e", NULL);
    attr_int(&a, "axis", 1);
    graph_node(&m, "Concat", "x e", "y", &a);
    free(token);
    return m;
}

TEST(test_expand_to_batch)
{
    struct pb_message m = token_model(2);
    struct graph *g;

    must_compute(&m, 13, DIMS(3, 1), FLOATS(7, 8, 9),
                 FLOATS(7, 0, 1, 8, 0, 1, 9, 0, 1), 9);
    m = token_model(10000);
    g = must_read(model_of(&m, 13));
    assert_output(g, 0, DIMS(-1, 10001));
    graph_free(g);
}

/* Repeats by the batch are an expansion where there is one element. */
TEST(test_tile_by_batch)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(-1, 1));
    graph_output(&m, "y");
    graph_floats(&m, "t", DIMS(1, 2), FLOATS(3, 4));
    graph_ints(&m, "first", DIMS(1), INTS(0));
    graph_ints(&m, "one", DIMS(1), INTS(1));
    graph_node(&m, "Shape", "x", "s", NULL);
    graph_node(&m, "Gather", "s first", "n", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "n one", "r", &a);
    graph_node(&m, "Tile", "t r", "e", NULL);
    graph_node(&m, "Add", "x e", "y", NULL);
    must_compute(&m, 13, DIMS(2, 1), FLOATS(1, 10), FLOATS(4, 5, 13, 14), 4);
}

/* ---- types of narrow.h --------------------------------------------- */

static struct pb_message cast_to(int type, bool saturate)
{
    struct pb_message a = EMPTY, m = EMPTY;

    attr_int(&a, "to", type);
    if (!saturate)
        attr_int(&a, "saturate", 0);
    if (type != 17)
        return one_node("Cast", "x", DIMS(-1, 8), &a);
    /* E4M3FN is a type of its own: its values are read by another cast. */
    graph_input(&m, "x", DIMS(-1, 8));
    graph_output(&m, "y");
    graph_node(&m, "Cast", "x", "q", &a);
    a = (struct pb_message)EMPTY;
    attr_int(&a, "to", 1);
    graph_node(&m, "Cast", "q", "y", &a);
    return m;
}

/* Halves go to the even neighbour; the largest values, their neighbours and
 * what is below the least step. */
TEST(test_cast_narrow)
{
    static const struct {
        int type;
        bool saturate;
        float x[8], y[8];
    } cases[] = {
        {17,
         true, /* E4M3FN */
         {1.0625f, 1.1875f, 464, 465, -1e6f, 0.0009765625f, 0.001f, INFINITY},
         {1, 1.25f, 448, 448, -448, 0, 0.001953125f, 448}},
        {17,
         false,
         {447, 449, 464, -448, 0.015625f, 0.0146484375f, 3, 7.5f},
         {448, 448, 448, -448, 0.015625f, 0.015625f, 3, 7.5f}},
        {19,
         false, /* E5M2 */
         {61440, 61439, -61440, 1.125f, 1.375f, 1e-7f, 6e-5f, 2},
         {INFINITY, 57344, -INFINITY, 1, 1.5f, 0, 6.103515625e-5f, 2}},
        {23,
         true, /* FLOAT4E2M1 */
         {0.25f, 0.75f, 1.25f, 2.5f, 5, -7, 3.5f, 1.75f},
         {0, 1, 1, 2, 4, -6, 4, 2}},
    };

    for (size_t i = 0; i < COUNT(cases); i++)
        must_compute(
            (struct pb_message[]){cast_to(cases[i].type, cases[i].saturate)},
            19, DIMS(1, 8), cases[i].x, cases[i].y, 8);
}

/* Integers of few bits wrap in a cast, and saturate where they are quantised.
 */
TEST(test_narrow_integers)
{
    struct pb_message a = EMPTY, m = EMPTY;

    graph_input(&m, "x", DIMS(-1, 4));
    graph_output(&m, "y");
    attr_int(&a, "to", 22); /* INT4 */
    graph_node(&m, "Cast", "x", "n", &a);
    a = (struct pb_message)EMPTY;
    attr_int(&a, "to", 1);
    graph_node(&m, "Cast", "n", "y", &a);
    must_compute(&m, 21, DIMS(1, 4), FLOATS(7.9f, 8, -9, 16),
                 FLOATS(7, -8, 7, 0), 4);
    m = (struct pb_message)EMPTY;
    graph_input(&m, "x", DIMS(-1, 4));
    graph_output(&m, "y");
    graph_floats(&m, "s", 0, NULL, FLOATS(0.5f));
    a = (struct pb_message)EMPTY;
    attr_int(&a, "output_dtype", 22);
    graph_node(&m, "QuantizeLinear", "x s", "q", &a);
    graph_node(&m, "DequantizeLinear", "q s", "y", NULL);
    must_compute(&m, 21, DIMS(1, 4), FLOATS(9, -9, 0.26f, 0.25f),
                 FLOATS(3.5f, -4, 0.5f, 0), 4);
}

/* A scale that is no positive number is named; 0 is one only where it divides.
 */
TEST(test_bad_scales)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0};

    for (int quantizes = 0; quantizes < 2; quantizes++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            struct pb_message m = EMPTY;

            graph_input(&m, "x", DIMS(-1, 4));
            graph_output(&m, "y");
            graph_floats(&m, "s", 0, NULL, quantizes ? &bad[i] : FLOATS(1));
            graph_floats(&m, "t", 0, NULL, quantizes ? FLOATS(1) : &bad[i]);
            graph_node(&m, "QuantizeLinear", "x s", "q", NULL);
            graph_node(&m, "DequantizeLinear", "q t", "y", NULL);
            if (quantizes || bad[i] != 0)
                must_not(m, 13, INFER_EFORMAT, "element 0 of the scale is");
            else
                must_compute(&m, 13, DIMS(1, 4), FLOATS(1, 2, 3, 4),
                             FLOATS(0, 0, 0, 0), 4);
        }
}

/* F8E4M3: x / 0.5 to the nearest, halves to even; 448, or NaN, of what is
 * beyond 464. */
TEST(test_float8)
{
    for (int saturate = 0; saturate < 2; saturate++) {
        const float most = saturate ? 448 : NAN;
        struct pb_message a = EMPTY, m = EMPTY;

        graph_input(&m, "x", DIMS(-1, 6));
        graph_output(&m, "y");
        graph_floats(&m, "s", 0, NULL, FLOATS(0.5f));
        attr_int(&a, "output_dtype", 17);
        attr_int(&a, "saturate", saturate);
        graph_node(&m, "QuantizeLinear", "x s", "q", &a);
        graph_node(&m, "DequantizeLinear", "q s", "y", NULL);
        must_compute(&m, 21, DIMS(1, 6),
                     FLOATS(9, 8.5f, -9000, 0.26f, 300, 232),
                     FLOATS(9, 8, -most / 2, 0.25f, most / 2, 224), 6);
        m = (struct pb_message)EMPTY;
        graph_input(&m, "x", DIMS(-1, 6));
        graph_output(&m, "y");
        a = (struct pb_message)EMPTY;
        attr_int(&a, "to", 17);
        attr_int(&a, "saturate", saturate);
        graph_node(&m, "Cast", "x", "q", &a);
        a = (struct pb_message)EMPTY;
        attr_int(&a, "to", 1);
        graph_node(&m, "Cast", "q", "y", &a);
        must_compute(&m, 21, DIMS(1, 6), FLOATS(18, 17, -9000, 0.52f, 600, 464),
                     FLOATS(18, 16, -most, 0.5f, most, 448), 6);
    }
}

/* ---- signals and states -------------------------------------------- */

TEST(test_dft)
{
    struct pb_message a = EMPTY, m;

    attr_int(&a, "onesided", 1);
    attr_int(&a, "axis", 1);
    m = one_node("DFT", "x", DIMS(-1, 4, 1), &a);
    must_compute(&m, 17, DIMS(1, 4, 1), FLOATS(1, 2, 3, 5),
                 FLOATS(11, 0, -2, 3, -3, 0), 6);
    a = (struct pb_message)EMPTY;
    attr_int(&a, "onesided", 1);
    attr_int(&a, "inverse", 1);
    m = one_node("DFT", "x", DIMS(-1, 3, 2), &a); /* its opposite */
    must_compute(&m, 20, DIMS(1, 3, 2), FLOATS(11, 0, -2, 3, -3, 0),
                 FLOATS(1, 2, 3, 5), 4);
    a = (struct pb_message)EMPTY;
    attr_int(&a, "onesided", 1);
    must_not(one_node("DFT", "x", DIMS(1, 4, 2), &a), 17, INFER_EFORMAT,
             "complex values");
    must_not(one_node("DFT", "x", DIMS(1, 9000, 1), NULL), 17,
             INFER_EUNSUPPORTED, "length 9000");
}

/* Frames of 4 every 2 entries. */
TEST(test_stft)
{
    struct pb_message m =
        one_node("STFT", "x step window", DIMS(-1, 6, 1), NULL);

    graph_ints(&m, "step", 0, NULL, INTS(2));
    graph_floats(&m, "window", DIMS(4), FLOATS(1, 1, 1, 0));
    must_compute(&m, 17, DIMS(1, 6, 1), FLOATS(1, 2, 3, 4, 5, 6),
                 FLOATS(6, 0, -2, -2, 2, 0, 12, 0, -2, -4, 4, 0), 12);
}

static struct pb_message linear_attention(const char *inputs, const char *rule)
{
    struct pb_message a = EMPTY, m;

    attr_int(&a, "q_num_heads", 1);
    attr_int(&a, "kv_num_heads", 1);
    attr_text(&a, "update_rule", rule);
    m = one_node("LinearAttention", inputs, DIMS(-1, 2, 1), &a);
    graph_floats(&m, "g", DIMS(1, 2, 1), FLOATS(0, 0.69314718f));
    graph_floats(&m, "b", DIMS(1, 2, 1), FLOATS(0.5f, 0.5f));
    return m;
}

/* One head of one entry: the state is a number. */
TEST(test_linear_attention)
{
    struct pb_message m = linear_attention("x x x", "linear");

    must_compute(&m, 27, DIMS(1, 2, 1), FLOATS(1, 2), FLOATS(1, 10), 2);
    m = linear_attention("x x x", "gated");
    must_not(m, 27, INFER_EFORMAT, "do not fit");
    m = linear_attention("x x x s g b", "gated_delta");
    graph_floats(&m, "s", DIMS(1, 1, 1, 1), FLOATS(4));
    /* 4 + 0.5 (1 - 4); then twice that, + 0.5 2 (2 - 2 5) */
    must_compute(&m, 27, DIMS(1, 2, 1), FLOATS(1, 2), FLOATS(2.5f, -6), 2);
}

TEST(test_causal_conv)
{
    struct pb_message m =
        one_node("CausalConvWithState", "x w b", DIMS(-1, 1, 4), NULL);

    graph_floats(&m, "w", DIMS(1, 1, 2), FLOATS(10, 1));
    graph_floats(&m, "b", DIMS(1), FLOATS(0.5f));
    must_compute(&m, 27, DIMS(1, 1, 4), FLOATS(1, 2, 3, 4),
                 FLOATS(1.5f, 12.5f, 23.5f, 34.5f), 4);
}

/* Entries of the cache from index 1 on, around its end. */
TEST(test_tensor_scatter)
{
    struct pb_message a = EMPTY, m;

    attr_text(&a, "mode", "circular");
    attr_int(&a, "axis", 1);
    m = one_node("TensorScatter", "x u at", DIMS(-1, 3), &a);
    graph_floats(&m, "u", DIMS(1, 2), FLOATS(8, 9));
    graph_ints(&m, "at", DIMS(1), INTS(2));
    must_compute(&m, 24, DIMS(1, 3), FLOATS(1, 2, 3), FLOATS(9, 2, 8), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_einsum),
        cmocka_unit_test(test_einsum_refused),
        cmocka_unit_test(test_cumulate),
        cmocka_unit_test(test_log_sum_exp),
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_one_hot_refused),
        cmocka_unit_test(test_bits_refused),
        cmocka_unit_test(test_cast_rounds),
        cmocka_unit_test(test_rnn),
        cmocka_unit_test(test_rnn_steps),
        cmocka_unit_test(test_rnn_refused),
        cmocka_unit_test(test_grid_sample),
        cmocka_unit_test(test_attention_refused),
        cmocka_unit_test(test_computed_indices),
        cmocka_unit_test(test_computed_tuples),
        cmocka_unit_test(test_nms_room),
        cmocka_unit_test(test_lp_pool_ceil),
        cmocka_unit_test(test_windows_refused),
        cmocka_unit_test(test_expand_to_batch),
        cmocka_unit_test(test_tile_by_batch),
        cmocka_unit_test(test_cast_narrow),
        cmocka_unit_test(test_narrow_integers),
        cmocka_unit_test(test_bad_scales),
        cmocka_unit_test(test_float8),
        cmocka_unit_test(test_dft),
        cmocka_unit_test(test_stft),
        cmocka_unit_test(test_linear_attention),
        cmocka_unit_test(test_causal_conv),
        cmocka_unit_test(test_tensor_scatter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
