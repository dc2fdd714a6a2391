/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX models with tensors whose number of entries is computed at run time:
 * what counts, what the rest is, and what operators that mix entries give. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/weights/onnx_model.h"

#define N 6

/* x of 6 elements; "at", 1 x 6, tells where they are positive, "picked" are
 * these. */
static struct pb_message picked(void)
{
    struct pb_message m = EMPTY, a = EMPTY;

    graph_input(&m, "x", DIMS(N));
    graph_floats(&m, "zero", 0, NULL, FLOATS(0));
    graph_node(&m, "Greater", "x zero", "positive", NULL);
    graph_node(&m, "NonZero", "positive", "rows", NULL);
    attr_ints(&a, "perm", 2, INTS(1, 0));
    graph_node(&m, "Transpose", "rows", "at", &a);
    graph_node(&m, "GatherND", "x at", "picked", NULL);
    return m;
}

struct result {
    float y[64];
    int64_t integers[64], count;
    struct infer_array out;
};

/* Runs a model of output y, whose count is an output, too, where `counted`. */
static struct result run(struct pb_message *m, int opset, const float *x,
                         bool counted)
{
    struct graph *g = must_read(model_of(m, opset));
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct result r = {.count = -1};
    struct infer_array in = {.dtype = INFER_F32, .rank = 1, .dim = {N}};
    struct infer_array out[2] = {{.data = r.y, .bytes = sizeof r.y},
                                 {.data = &r.count, .bytes = 8}};
    struct infer_error err;

    assert_int_equal(g->n_outputs, counted ? 2 : 1);
    if (counted)
        assert_string_equal(g->value[g->output[1]].name, "y.count");
    assert_string_equal(g->value[g->output[0]].name, "y");
    if (g->value[g->output[0]].dtype == INFER_I64) {
        out[0].data = r.integers;
        out[0].bytes = sizeof r.integers;
    }
    in.data = (void *)(uintptr_t)x;
    in.bytes = N * sizeof *x;
    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    if (model_from_graph(g, &err, &model) < 0 ||
        infer_session_create(model, &options, &err, &session) < 0 ||
        infer_session_run(session, &in, 1, out, counted ? 2 : 1, &err) < 0)
        fail_msg("%s", err.text);
    r.out = out[0];
    infer_session_close(&session);
    infer_model_close(&model);
    return r;
}

static void assert_floats(const struct result *r, const float *want, size_t n)
{
    size_t all = 1;

    for (int d = 0; d < r->out.rank; d++)
        all *= (size_t)r->out.dim[d];
    assert_int_equal(all, n);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(r->y[i] - want[i]) <= 1e-6f))
            fail_msg("element %zu is %g, expected %g", i, (double)r->y[i],
                     (double)want[i]);
}

static const float some[N] = {-1, 5, 0, 2, 7, -3};
static const float none[N] = {-1, -1, -1, -1, -1, -1};
static const float every[N] = {6, 5, 4, 3, 2, 1};

/* ---- what counts --------------------------------------------------- */

/* Coordinates in 2 x 3; -1 behind the count. */
TEST(test_non_zero)
{
    static const int64_t want[2 * N] = {0, 1, 1, -1, -1, -1,
                                        1, 0, 1, -1, -1, -1};
    struct pb_message m = EMPTY;
    struct result r;

    graph_input(&m, "x", DIMS(N));
    graph_output(&m, "y");
    graph_floats(&m, "zero", 0, NULL, FLOATS(0));
    graph_ints(&m, "shape", DIMS(2), INTS(2, 3));
    graph_node(&m, "Max", "x zero", "up", NULL);
    graph_node(&m, "Reshape", "up shape", "table", NULL);
    graph_node(&m, "NonZero", "table", "y", NULL);
    r = run(&m, 13, some, true);
    assert_int_equal(r.count, 3);
    assert_memory_equal(r.integers, want, sizeof want);
}

/* The distinct elements, ascending and as they come; where each is first, the
 * place of every element among them, how often each is there. */
TEST(test_unique)
{
    static const float x[N] = {3, -1, 3, 2, -1, 3};
    static const struct {
        int64_t sorted;
        const char *outputs;
        int64_t want[N];
        bool counted;
    } cases[] = {
        {1, "v y", {1, 3, 0, -1, -1, -1}, true},
        {1, "v - y", {2, 0, 2, 1, 0, 2}, false},
        {1, "v - - y", {2, 1, 3, -1, -1, -1}, true},
        {0, "v y", {0, 1, 3, -1, -1, -1}, true},
        {0, "v - y", {0, 1, 0, 2, 1, 0}, false},
        {0, "v - - y", {3, 2, 1, -1, -1, -1}, true},
    };
    struct pb_message m = EMPTY;
    struct result r;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pb_message a = EMPTY;

        m = (struct pb_message)EMPTY;
        graph_input(&m, "x", DIMS(N));
        graph_output(&m, "y");
        attr_int(&a, "sorted", cases[i].sorted);
        graph_node(&m, "Unique", "x", cases[i].outputs, &a);
        r = run(&m, 13, x, cases[i].counted);
        if (cases[i].counted)
            assert_int_equal(r.count, 3);
        assert_memory_equal(r.integers, cases[i].want, sizeof cases[i].want);
    }
    m = (struct pb_message)EMPTY;
    graph_input(&m, "x", DIMS(N));
    graph_output(&m, "y");
    graph_node(&m, "Unique", "x", "y", NULL);
    r = run(&m, 13, x, true);
    assert_int_equal(r.count, 3);
    assert_floats(&r, FLOATS(-1, 2, 3, 0, 0, 0), N);
}

/* Rows of 2 in lexicographic order. */
TEST(test_unique_rows)
{
    static const float x[N] = {2, 1, 1, 9, 2, 1};
    struct pb_message m = EMPTY, a = EMPTY;
    struct result r;

    graph_input(&m, "x", DIMS(N));
    graph_output(&m, "y");
    graph_ints(&m, "shape", DIMS(2), INTS(3, 2));
    graph_node(&m, "Reshape", "x shape", "rows", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Unique", "rows", "y", &a);
    r = run(&m, 13, x, true);
    assert_int_equal(r.count, 2);
    assert_floats(&r, FLOATS(1, 9, 2, 1, 0, 0), N);
}

TEST(test_picked)
{
    static const struct {
        const float *x;
        float y[N];
        int64_t count;
    } cases[] = {{some, {5, 2, 7, 0, 0, 0}, 3},
                 {none, {0, 0, 0, 0, 0, 0}, 0},
                 {every, {6, 5, 4, 3, 2, 1}, 6}};

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pb_message m = picked();
        struct result r;

        graph_output(&m, "y");
        graph_node(&m, "Identity", "picked", "y", NULL);
        r = run(&m, 13, cases[i].x, true);
        assert_int_equal(r.count, cases[i].count);
        assert_floats(&r, cases[i].y, N);
    }
}

/* ---- what mixes entries -------------------------------------------- */

/* Sum, largest and smallest element, and their sum of all. */
TEST(test_reductions)
{
    static const struct {
        const char *op;
        float y;
    } cases[] = {{"ReduceSum", 14},
                 {"ReduceMax", 7},
                 {"ReduceMin", 2},
                 {"ReduceProd", 70}};

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pb_message m = picked(), a = EMPTY;
        struct result r;

        graph_output(&m, "y");
        attr_int(&a, "keepdims", 0);
        graph_node(&m, cases[i].op, "picked", "y", &a);
        r = run(&m, 13, some, false);
        assert_floats(&r, &cases[i].y, 1);
    }
}

/* The two largest; of one element, one. */
TEST(test_top_k)
{
    static const float one[N] = {-1, -2, 3, -4, -5, -6};
    static const int64_t k = 2;

    for (int i = 0; i < 2; i++) {
        struct pb_message m = picked();
        struct result r;

        graph_output(&m, "y");
        graph_ints(&m, "k", DIMS(1), &k);
        graph_node(&m, "TopK", "picked k", "y where", NULL);
        r = run(&m, 13, i ? one : some, true);
        assert_int_equal(r.count, i ? 1 : 2);
        assert_floats(&r, i ? FLOATS(3, 0) : FLOATS(7, 5), 2);
    }
}

/* Only where they are: 7 is entry 2 of 5, 2, 7. */
TEST(test_top_k_indices)
{
    static const int64_t k = 2;
    struct pb_message m = picked();
    struct result r;

    graph_output(&m, "y");
    graph_ints(&m, "k", DIMS(1), &k);
    graph_node(&m, "TopK", "picked k", "- y", NULL);
    r = run(&m, 13, some, true);
    assert_int_equal(r.count, 2);
    assert_int_equal(r.integers[0], 2);
    assert_int_equal(r.integers[1], 0);
}

/* A constant of as many entries is an output. */
TEST(test_filled)
{
    struct pb_message m = picked();
    struct result r;

    graph_output(&m, "y");
    graph_node(&m, "Shape", "picked", "shape", NULL);
    graph_floats(&m, "nine", 0, NULL, FLOATS(9));
    graph_node(&m, "Expand", "nine shape", "y", NULL);
    r = run(&m, 13, some, true);
    assert_int_equal(r.count, 3);
    assert_floats(&r, FLOATS(9, 9, 9, 0, 0, 0), N);
}

/* The first two, at most. */
TEST(test_slice)
{
    for (int i = 0; i < 2; i++) {
        struct pb_message m = picked();
        struct result r;

        graph_output(&m, "y");
        graph_ints(&m, "from", DIMS(1), INTS(0));
        graph_ints(&m, "to", DIMS(1), INTS(2));
        graph_node(&m, "Slice", "picked from to", "y", NULL);
        r = run(&m, 13, i ? none : some, true);
        assert_int_equal(r.count, i ? 0 : 2);
        assert_floats(&r, i ? FLOATS(0, 0) : FLOATS(5, 2), 2);
    }
}

/* Joined parts close up; a constant of the size of one has as many entries,
 * as labels of detectors have. */
TEST(test_joined)
{
    static const float want[2 * N] = {5, 2, 7, 9, 9, 9};
    struct pb_message m = picked(), a = EMPTY;
    const float nine = 9;
    struct result r;

    graph_output(&m, "y");
    graph_node(&m, "Shape", "picked", "shape", NULL);
    attr_tensor(&a, "value",
                tensor_raw("", ONNX_FLOAT, DIMS(1), &nine, sizeof nine));
    graph_node(&m, "ConstantOfShape", "shape", "labels", &a);
    a = (struct pb_message)EMPTY;
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "picked labels", "y", &a);
    r = run(&m, 13, some, true);
    assert_int_equal(r.count, 6);
    assert_floats(&r, want, 2 * N);
}

/* What is written to x where it is positive; the rest stays. */
TEST(test_scatter)
{
    static const char *const ops[2] = {"ScatterND", "ScatterElements"};

    for (int i = 0; i < 4; i++) {
        struct pb_message m = picked();
        struct result r;

        graph_output(&m, "y");
        graph_ints(&m, "axis", DIMS(1), INTS(1));
        graph_node(&m, "Squeeze", "at axis", "line", NULL);
        graph_node(&m, "Neg", "picked", "minus", NULL);
        graph_node(&m, ops[i % 2], i % 2 ? "x line minus" : "x at minus", "y",
                   NULL);
        r = run(&m, 13, i < 2 ? some : none, false);
        assert_floats(&r, i < 2 ? FLOATS(-1, -5, 0, -2, -7, -3) : none, N);
    }
}

/* Padding by what is missing from 6: all entries count then. */
TEST(test_padded)
{
    struct pb_message m = picked(), a = EMPTY;
    struct result r;

    graph_output(&m, "y");
    graph_ints(&m, "six", DIMS(1), INTS(6));
    graph_ints(&m, "start", DIMS(1), INTS(0));
    graph_floats(&m, "fill", 0, NULL, FLOATS(-4));
    graph_node(&m, "Shape", "picked", "shape", NULL);
    graph_node(&m, "Sub", "six shape", "missing", NULL);
    attr_int(&a, "axis", 0);
    graph_node(&m, "Concat", "start missing", "pads", &a);
    graph_node(&m, "Pad", "picked pads fill", "y", NULL);
    r = run(&m, 13, some, false);
    assert_floats(&r, FLOATS(5, 2, 7, -4, -4, -4), N);
}

/* ---- what is refused ----------------------------------------------- */

TEST(test_refused)
{
    struct pb_message m = picked(), a = EMPTY;

    graph_output(&m, "y");
    graph_node(&m, "ReduceMean", "picked", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "keep them apart");

    /* the number of entries as data */
    m = picked();
    graph_output(&m, "y");
    graph_node(&m, "Shape", "picked", "shape", NULL);
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&m, "Cast", "shape", "n", &a);
    graph_node(&m, "Div", "x n", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "used as data");

    /* as the end of a slice of another tensor, or less than all of its own */
    for (int own = 0; own < 2; own++) {
        m = picked();
        graph_output(&m, "y");
        graph_ints(&m, "from", DIMS(1), INTS(0));
        graph_ints(&m, "one", DIMS(1), INTS(1));
        graph_node(&m, "Shape", "picked", "all", NULL);
        graph_node(&m, "Sub", "all one", "less", NULL);
        graph_node(&m, "Slice", own ? "picked from less" : "x from all", "y",
                   NULL);
        must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED,
                    own ? "keep them apart" : "used as data");
    }

    /* from the end */
    m = picked();
    graph_output(&m, "y");
    graph_ints(&m, "from", DIMS(1), INTS(0));
    graph_ints(&m, "to", DIMS(1), INTS(-1));
    graph_node(&m, "Slice", "picked from to", "y", NULL);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "keep them apart");
}

/* Numbers that are computed from how many there are, of which only the size
 * itself, the room less it and the lesser of it and a number are known: a node
 * that folds is refused, too.  "all": 1 number of the size; "n": the same
 * without dimensions; "table": 6 x 6, the first rows of which count. */
TEST(test_computed_sizes_refused)
{
    static const struct {
        const char *op, *in, *words;
    } cases[] = {
        {"Range", "one n one", "keep them apart"},
        {"Range", "zero_n twice_n one", "keep them apart"},
        {"ConstantOfShape", "twice", "keep them apart"},
        {"ConstantOfShape", "both", "keep them apart"},
        {"Expand", "n six", "used as data"},
        {"Expand", "table both", "keep them apart"},
        {"TopK", "picked half", "keep them apart"},
        {"TopK", "table all", "keep them apart"},
        {"Gather", "picked last", "used as data"},
        {"GatherElements", "picked last", "used as data"},
        {"Slice", "table start all one1", "keep them apart"},
        {"Slice", "picked last all", "used as data"},
        {"Pad", "picked in_front", "keep them apart"},
        {"Pad", "picked by_count", "keep them apart"},
        {"Pad", "table other_axis", "keep them apart"},
        {"Reshape", "table six_all", "keep them apart"},
        {"Tile", "picked all", "used as data"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pb_message m = picked(), a = EMPTY;

        graph_output(&m, "y");
        graph_ints(&m, "start", DIMS(1), INTS(0));
        graph_ints(&m, "one1", DIMS(1), INTS(1));
        graph_ints(&m, "two", DIMS(1), INTS(2));
        graph_ints(&m, "six", DIMS(1), INTS(6));
        graph_ints(&m, "one", 0, NULL, INTS(1));
        graph_ints(&m, "zero_n", 0, NULL, INTS(0));
        graph_node(&m, "Shape", "picked", "all", NULL);
        graph_node(&m, "Squeeze", "all start", "n", NULL);
        graph_node(&m, "Mul", "all two", "twice", NULL);
        graph_node(&m, "Squeeze", "twice start", "twice_n", NULL);
        graph_node(&m, "Div", "all two", "half", NULL);
        graph_node(&m, "Sub", "all one1", "last", NULL);
        graph_node(&m, "Sub", "six all", "missing", NULL);
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "all all", "both", &a);
        a = (struct pb_message)EMPTY;
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "six all", "six_all", &a);
        a = (struct pb_message)EMPTY;
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "missing start", "in_front", &a);
        a = (struct pb_message)EMPTY;
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "start all", "by_count", &a);
        a = (struct pb_message)EMPTY;
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "start start start missing", "other_axis", &a);
        graph_node(&m, "Unsqueeze", "picked one1", "column", NULL);
        graph_node(&m, "Unsqueeze", "x start", "row", NULL);
        graph_node(&m, "Mul", "column row", "table", NULL);
        graph_node(&m, cases[i].op, cases[i].in,
                   strcmp(cases[i].op, "TopK") == 0 ? "y where" : "y", NULL);
        must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, cases[i].words);
    }
}

static void attr_branch(struct pb_message *n, const char *name,
                        struct pb_message graph)
{
    struct pb_message a = EMPTY;

    pb_text(&a, 1, name);
    pb_nested(&a, 6, &graph);
    pb_int(&a, 20, ONNX_ATTR_GRAPH);
    pb_nested(n, 5, &a);
}

/* A decision by how many there are. */
TEST(test_decision_refused)
{
    static const char *const ops[] = {"Greater", "Equal"};

    for (size_t k = 0; k < COUNT(ops); k++) {
        struct pb_message m = picked(), a = EMPTY;

        graph_output(&m, "y");
        graph_ints(&m, "number", 0, NULL, INTS(k ? 0 : 4));
        graph_node(&m, "Size", "picked", "n", NULL);
        graph_node(&m, ops[k], "n number", "many", NULL);
        for (int i = 0; i < 2; i++) {
            struct pb_message body = EMPTY;

            graph_output(&body, "z");
            graph_node(&body, i ? "Neg" : "Identity", "x", "z", NULL);
            attr_branch(&a, i ? "then_branch" : "else_branch", body);
        }
        graph_node(&m, "If", "many", "y", &a);
        must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "used as data");
    }
}

/* Nothing of nothing, as detectors write it: the joined entries are none where
 * none was picked, though the other branch has one more. */
TEST(test_decision_of_none)
{
    for (int i = 0; i < 2; i++) {
        struct pb_message m = picked(), a = EMPTY, then = EMPTY, other = EMPTY;
        struct result r;

        graph_output(&m, "y");
        graph_ints(&m, "zero_n", 0, NULL, INTS(0));
        graph_node(&m, "Shape", "picked", "shape", NULL);
        attr_int(&a, "keepdims", 0);
        graph_node(&m, "ReduceProd", "shape", "n", &a);
        graph_node(&m, "Equal", "n zero_n", "equal", NULL);
        a = (struct pb_message)EMPTY;
        attr_int(&a, "to", ONNX_BOOL);
        graph_node(&m, "Cast", "equal", "empty", &a);
        graph_floats(&then, "nothing", DIMS(0), NULL);
        graph_output(&then, "nothing");
        graph_floats(&other, "nine", DIMS(1), FLOATS(9));
        a = (struct pb_message)EMPTY;
        attr_int(&a, "axis", 0);
        graph_node(&other, "Concat", "picked nine", "more", &a);
        graph_output(&other, "more");
        a = (struct pb_message)EMPTY;
        attr_branch(&a, "then_branch", then);
        attr_branch(&a, "else_branch", other);
        graph_node(&m, "If", "empty", "y", &a);
        r = run(&m, 13, i ? none : some, true);
        assert_int_equal(r.count, i ? 0 : 4);
        assert_floats(
            &r, i ? FLOATS(0, 0, 0, 0, 0, 0, 0) : FLOATS(5, 2, 7, 9, 0, 0, 0),
            N + 1);
    }
}

/* Padding of a flat table, of 2 elements a row, by whole rows. */
TEST(test_padded_rows)
{
    for (int i = 0; i < 2; i++) {
        struct pb_message m = picked(), a = EMPTY;
        struct result r;

        graph_output(&m, "y");
        graph_ints(&m, "seven", DIMS(1), INTS(7));
        graph_ints(&m, "times", DIMS(1), INTS(i ? 3 : 2));
        graph_ints(&m, "start", DIMS(1), INTS(0));
        graph_ints(&m, "one1", DIMS(1), INTS(1));
        graph_ints(&m, "line", DIMS(1), INTS(-1));
        graph_floats(&m, "pair", DIMS(1, 2), FLOATS(1, 10));
        graph_node(&m, "Shape", "picked", "shape", NULL);
        graph_node(&m, "Sub", "seven shape", "absent", NULL);
        graph_node(&m, "Mul", "absent times", "missing", NULL);
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", "start missing", "pads", &a);
        graph_node(&m, "Unsqueeze", "picked one1", "column", NULL);
        graph_node(&m, "Mul", "column pair", "table", NULL);
        graph_node(&m, "Reshape", "table line", "flat", NULL);
        graph_node(&m, "Pad", "flat pads", "y", NULL);
        if (i) {
            must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED,
                        "keep them apart");
            continue;
        }
        r = run(&m, 13, some, false);
        assert_floats(&r, FLOATS(5, 50, 2, 20, 7, 70, 0, 0, 0, 0, 0, 0, 0, 0),
                      14);
    }
}

/* Which axis of a square has the entries is known by the shape's element: the
 * sum of each column of ones is how many there are. */
TEST(test_filled_square)
{
    for (int i = 0; i < 2; i++) {
        struct pb_message m = picked(), a = EMPTY;
        struct result r;

        graph_output(&m, "y");
        graph_ints(&m, "six", DIMS(1), INTS(6));
        graph_ints(&m, "axis", DIMS(1), INTS(i));
        graph_floats(&m, "one", 0, NULL, FLOATS(1));
        graph_node(&m, "Shape", "picked", "shape", NULL);
        attr_int(&a, "axis", 0);
        graph_node(&m, "Concat", i ? "six shape" : "shape six", "square", &a);
        a = (struct pb_message)EMPTY;
        attr_int(&a, "keepdims", 0);
        graph_node(&m, "Expand", "one square", "ones", NULL);
        graph_node(&m, "ReduceSum", "ones axis", "y", &a);
        r = run(&m, 13, some, false);
        assert_floats(&r, FLOATS(3, 3, 3, 3, 3, 3), N);
    }
}

/* The largest two, or all where there are less. */
TEST(test_top_of_less)
{
    static const float one[N] = {-1, -2, 3, -4, -5, -6};

    for (int i = 0; i < 2; i++) {
        struct pb_message m = picked();
        struct result r;

        graph_output(&m, "y");
        graph_ints(&m, "two", DIMS(1), INTS(2));
        graph_node(&m, "Shape", "picked", "all", NULL);
        graph_node(&m, "Min", "all two", "k", NULL);
        graph_node(&m, "TopK", "picked k", "y where", NULL);
        r = run(&m, 13, i ? one : some, true);
        assert_int_equal(r.count, i ? 1 : 2);
        assert_floats(&r, i ? FLOATS(3, 0) : FLOATS(7, 5), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_non_zero),
        cmocka_unit_test(test_picked),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_top_k_indices),
        cmocka_unit_test(test_filled),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_padded),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unique),
        cmocka_unit_test(test_unique_rows),
        cmocka_unit_test(test_computed_sizes_refused),
        cmocka_unit_test(test_decision_refused),
        cmocka_unit_test(test_decision_of_none),
        cmocka_unit_test(test_padded_rows),
        cmocka_unit_test(test_filled_square),
        cmocka_unit_test(test_top_of_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
