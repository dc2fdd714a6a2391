/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX If, Loop, Scan and functions of a model: values, names, what is
 * refused. */
#include <math.h>
#include <string.h>

#include "tests/unit/weights/onnx_model.h"

/* ---- helpers ------------------------------------------------------- */

/* Takes the graph over. */
static void attr_graph(struct pb_message *n, const char *name,
                       struct pb_message graph)
{
    struct pb_message a = EMPTY;

    pb_text(&a, 1, name);
    pb_nested(&a, 6, &graph);
    pb_int(&a, 20, ONNX_ATTR_GRAPH);
    pb_nested(n, 5, &a);
}

static void graph_number(struct pb_message *g, const char *name, int type,
                         const void *v, size_t bytes)
{
    struct pb_message t = tensor_raw(name, type, 0, NULL, v, bytes);

    pb_nested(g, 5, &t);
}

static void graph_truth(struct pb_message *g, const char *name, bool v)
{
    const unsigned char byte = v;

    graph_number(g, name, ONNX_BOOL, &byte, 1);
}

static void graph_integer(struct pb_message *g, const char *name, int64_t v)
{
    graph_number(g, name, ONNX_INT64, &v, sizeof v);
}

static void graph_float(struct pb_message *g, const char *name, float v)
{
    graph_number(g, name, ONNX_FLOAT, &v, sizeof v);
}

/* x of N,2 and y. */
static struct pb_message outer(int64_t batch)
{
    struct pb_message m = EMPTY;

    graph_input(&m, "x", DIMS(batch, 2));
    graph_output(&m, "y");
    return m;
}

/* For x = 1, 2. */
static void must_give_two(struct graph *g, float a, float b)
{
    float y[64] = {0};

    run_reference(g, DIMS(1, 2), FLOATS(1, 2), y, sizeof y);
    assert_true(fabsf(y[0] - a) < 1e-5f);
    assert_true(fabsf(y[1] - b) < 1e-5f);
}

/* ---- If ------------------------------------------------------------ */

/* t = x + own; y of it where `inner` holds is t * t, else -t.  Both branches of
 * the inner If use the same names, and see what is outside. */
static struct pb_message branch(float own)
{
    struct pb_message b = EMPTY, yes = EMPTY, no = EMPTY, a = EMPTY;

    graph_float(&b, "own", own);
    graph_node(&b, "Add", "x own", "t", NULL);
    graph_node(&yes, "Mul", "t t", "q", NULL);
    graph_output(&yes, "q");
    graph_node(&no, "Neg", "t", "q", NULL);
    graph_output(&no, "q");
    attr_graph(&a, "then_branch", yes);
    attr_graph(&a, "else_branch", no);
    graph_node(&b, "If", "inner", "r", &a);
    graph_output(&b, "r");
    return b;
}

static struct pb_message two_ifs(int64_t batch, bool inner)
{
    struct pb_message m = outer(batch), a = EMPTY;

    graph_truth(&m, "inner", inner);
    attr_graph(&a, "then_branch", branch(1));
    attr_graph(&a, "else_branch", branch(10));
    graph_node(&m, "If", "c", "y", &a);
    return m;
}

/* A literal batch is read twice: initializers of branches, too. */
TEST(test_if_known)
{
    for (int i = 0; i < 8; i++) {
        const bool outer_one = i & 1, inner = i & 2;
        struct pb_message m = two_ifs(i & 4 ? 1 : -1, inner);
        const float a = outer_one ? 2 : 11, b = outer_one ? 3 : 12;
        struct graph *g;

        graph_truth(&m, "c", outer_one);
        g = must_read(model_of(&m, 13));
        must_give_two(g, inner ? a * a : -a, inner ? b * b : -b);
    }
}

TEST(test_if_computed)
{
    static const float limits[2] = {1.5f, 2.5f};

    for (int i = 0; i < 2; i++) {
        struct pb_message m = outer(1), a = EMPTY;

        /* the largest element, 2, is above the limit or not */
        graph_truth(&m, "inner", true);
        graph_float(&m, "limit", limits[i]);
        graph_node(&m, "ReduceMax", "x", "top", NULL);
        graph_node(&m, "Greater", "top limit", "c", NULL);
        attr_graph(&a, "then_branch", branch(1));
        attr_graph(&a, "else_branch", branch(10));
        graph_node(&m, "If", "c", "y", &a);
        must_give_two(must_read(model_of(&m, 13)), i == 0 ? 4 : 121,
                      i == 0 ? 9 : 144);
    }
}

TEST(test_if_refused)
{
    struct pb_message m = outer(1), a = EMPTY, yes = EMPTY, no = EMPTY;

    /* branches of two shapes, and the condition is computed */
    graph_float(&m, "limit", 1);
    graph_node(&m, "ReduceMax", "x", "top", NULL);
    graph_node(&m, "Greater", "top limit", "c", NULL);
    graph_node(&yes, "Neg", "x", "q", NULL);
    graph_output(&yes, "q");
    graph_node(&no, "Neg", "top", "q", NULL);
    graph_output(&no, "q");
    attr_graph(&a, "then_branch", yes);
    attr_graph(&a, "else_branch", no);
    graph_node(&m, "If", "c", "y", &a);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "one shape");

    m = two_ifs(1, true); /* no tensor is named c */
    must_refuse(model_of(&m, 13), INFER_EFORMAT, "'c'");

    m = outer(1);
    a = (struct pb_message)EMPTY;
    graph_truth(&m, "c", true);
    attr_graph(&a, "then_branch", (struct pb_message)EMPTY);
    graph_node(&m, "If", "c", "y", &a);
    must_refuse(model_of(&m, 13), INFER_EFORMAT, "'else_branch' is missing");

    /* the reason is that of the node in the branch */
    m = outer(1);
    a = yes = no = (struct pb_message)EMPTY;
    graph_truth(&m, "c", true);
    graph_node(&yes, "Nonsense", "x", "q", NULL);
    graph_output(&yes, "q");
    graph_node(&no, "Neg", "x", "q", NULL);
    graph_output(&no, "q");
    attr_graph(&a, "then_branch", yes);
    attr_graph(&a, "else_branch", no);
    graph_node(&m, "If", "c", "y", &a);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED,
                "operator Nonsense is not supported");
}

/* ---- Loop ---------------------------------------------------------- */

static void body_input(struct pb_message *b, const char *name)
{
    graph_info(b, 11, name, ONNX_FLOAT, 0, NULL);
}

/* s becomes 2 s + i; goes on while `go` says so. */
static struct pb_message loop_body(void)
{
    struct pb_message b = EMPTY, a = EMPTY;

    body_input(&b, "i");
    body_input(&b, "c");
    body_input(&b, "s");
    attr_int(&a, "to", ONNX_FLOAT);
    graph_node(&b, "Cast", "i", "real", &a);
    graph_node(&b, "Add", "s s", "twice", NULL);
    graph_node(&b, "Add", "twice real", "next", NULL);
    return b;
}

TEST(test_loop)
{
    struct pb_message m = outer(-1), b = loop_body(), a = EMPTY;

    graph_integer(&m, "n", 3);
    graph_node(&b, "Identity", "c", "go", NULL);
    graph_output(&b, "go");
    graph_output(&b, "next");
    graph_output(&b, "real");
    attr_graph(&a, "body", b);
    graph_node(&m, "Loop", "n - x", "s times", &a);
    a = (struct pb_message)EMPTY;
    attr_int(&a, "keepdims", 0);
    graph_node(&m, "ReduceSum", "times", "sum", &a);
    graph_node(&m, "Sub", "s sum", "y", NULL);
    /* 8 x + 0 * 4 + 1 * 2 + 2, less 0 + 1 + 2 */
    must_give_two(must_read(model_of(&m, 13)), 9, 17);
}

/* The loop ends where the sum of s exceeds 20, which is computed. */
TEST(test_loop_masked)
{
    struct pb_message m = outer(1), b = loop_body(), a = EMPTY;

    graph_integer(&m, "n", 9);
    graph_truth(&m, "yes", true);
    graph_float(&b, "limit", 20);
    attr_int(&a, "keepdims", 0);
    graph_node(&b, "ReduceSum", "next", "sum", &a);
    graph_node(&b, "Less", "sum limit", "go", NULL);
    graph_output(&b, "go");
    graph_output(&b, "next");
    a = (struct pb_message)EMPTY;
    attr_graph(&a, "body", b);
    graph_node(&m, "Loop", "n yes x", "y", &a);
    /* 1, 2 -> 2, 4 -> 5, 9 -> 12, 20: the sum is 32 */
    must_give_two(must_read(model_of(&m, 13)), 12, 20);
}

static struct pb_message bad_loop(const char *in, bool collects)
{
    struct pb_message m = outer(1), b = loop_body(), a = EMPTY;

    graph_integer(&m, "n", 9);
    graph_truth(&m, "yes", true);
    graph_float(&b, "limit", 20);
    graph_node(&m, "ReduceMax", "x", "top", NULL);
    attr_int(&a, "to", ONNX_INT64);
    graph_node(&m, "Cast", "top", "computed", &a);
    a = (struct pb_message)EMPTY;
    attr_int(&a, "keepdims", 0);
    graph_node(&b, "ReduceSum", "next", "sum", &a);
    graph_node(&b, "Less", "sum limit", "go", NULL);
    graph_output(&b, "go");
    graph_output(&b, "next");
    if (collects)
        graph_output(&b, "real");
    a = (struct pb_message)EMPTY;
    attr_graph(&a, "body", b);
    graph_node(&m, "Loop", in, "y", &a);
    return m;
}

TEST(test_loop_refused)
{
    struct pb_message m = bad_loop("computed yes x", false);

    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED,
                "number of iterations is computed at run time");
    m = bad_loop("- yes x", false);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "has no limit");
    m = bad_loop("n yes x", true);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "collects an output");
    m = bad_loop("n yes x x", false);
    must_refuse(model_of(&m, 13), INFER_EFORMAT, "2 outputs for 2 states");
}

/* A loop that never ends stops at the limit on nodes. */
TEST(test_loop_endless)
{
    struct pb_message m = outer(1), b = EMPTY, a = EMPTY;

    body_input(&b, "i");
    body_input(&b, "c");
    body_input(&b, "s");
    graph_node(&b, "Identity", "c", "go", NULL);
    graph_node(&b, "Mul", "i i", "square", NULL);
    graph_output(&b, "go");
    graph_output(&b, "s");
    attr_graph(&a, "body", b);
    graph_node(&m, "Loop", "- - x", "y", &a);
    must_refuse(model_of(&m, 13), INFER_EUNSUPPORTED, "more than 49152 nodes");
}

/* ---- Scan ---------------------------------------------------------- */

/* Running sums of w, 3x2, backwards, and their sum with x. */
TEST(test_scan)
{
    struct pb_message m = outer(-1), b = EMPTY, a = EMPTY;

    graph_floats(&m, "w", DIMS(2, 3), FLOATS(1, 2, 3, 10, 20, 30));
    body_input(&b, "s");
    body_input(&b, "w"); /* hides the w outside */
    graph_node(&b, "Add", "s w", "next", NULL);
    graph_node(&b, "Identity", "next", "part", NULL);
    graph_output(&b, "next");
    graph_output(&b, "part");
    attr_int(&a, "num_scan_inputs", 1);
    attr_ints(&a, "scan_input_axes", 1, INTS(1));
    attr_ints(&a, "scan_input_directions", 1, INTS(1));
    attr_ints(&a, "scan_output_axes", 1, INTS(-1));
    attr_graph(&a, "body", b);
    graph_node(&m, "Scan", "x w", "last parts", &a);
    a = (struct pb_message)EMPTY;
    attr_int(&a, "axis", 2);
    graph_integer(&m, "first", 0);
    graph_node(&m, "Gather", "parts first", "y", &a);
    must_give_two(must_read(model_of(&m, 13)), 4, 32);
}

/* Without num_scan_inputs, which ONNX requires. */
TEST(test_scan_refused)
{
    struct pb_message m = outer(-1), b = EMPTY, a = EMPTY;

    body_input(&b, "s");
    body_input(&b, "t");
    graph_node(&b, "Add", "s t", "next", NULL);
    graph_node(&b, "Identity", "t", "part", NULL);
    graph_output(&b, "next");
    graph_output(&b, "part");
    attr_graph(&a, "body", b);
    graph_node(&m, "Scan", "x x", "y z", &a);
    must_refuse(model_of(&m, 13), INFER_EFORMAT, "0 scanned inputs");
}

/* ---- bodies that look like those of regions/match.c ----------------- */

/* A chain of casts that ends in itself; a body of masks, or of keypoints. */
static void refuse_cycle(const char *cast, const char *gather, bool keypoints)
{
    struct pb_message m = outer(-1), b = EMPTY, a = EMPTY, to = EMPTY;

    graph_integer(&m, "n", 2);
    body_input(&b, "i");
    body_input(&b, "c");
    body_input(&b, "s");
    if (keypoints)
        body_input(&b, "t");
    attr_int(&to, "to", ONNX_FLOAT);
    graph_node(&b, "Cast", cast, "k", &to);
    graph_node(&b, "Gather", gather, "e", NULL);
    graph_node(&b, "Concat", "k k", "sizes", NULL);
    graph_node(&b, "Resize", "e - - sizes", "next", NULL);
    if (keypoints)
        graph_node(&b, "ArgMax", "e", "most", NULL);
    graph_output(&b, "c");
    graph_output(&b, "next");
    if (keypoints)
        graph_output(&b, "most");
    attr_graph(&a, "body", b);
    graph_node(&m, "Loop", keypoints ? "n - x x" : "n - x",
               keypoints ? "y z" : "y", &a);
    must_refuse(model_of(&m, 13), INFER_EFORMAT, "that makes 'k@");
}

TEST(test_cycles)
{
    refuse_cycle("k", "x k", false);
    refuse_cycle("", "x k", false);
    refuse_cycle("k", "x i", true);
}

/* ---- functions ----------------------------------------------------- */

static void function_node(struct pb_message *f, const char *op, const char *in,
                          const char *out, const char *attr, const char *ref)
{
    struct pb_message n = EMPTY, a = EMPTY;

    node_names(&n, 1, in);
    node_names(&n, 2, out);
    pb_text(&n, 4, op);
    if (attr) {
        pb_text(&a, 1, attr);
        pb_text(&a, 21, ref);
        pb_int(&a, 20, ONNX_ATTR_FLOAT);
        pb_nested(&n, 5, &a);
    }
    pb_nested(f, 7, &n);
}

/* my.Act(p, q) = leaky_relu(p; slope) - q.  slope: 0.5 unless given. */
static void add_function(struct pb_message *model, const char *reads)
{
    struct pb_message f = EMPTY, slope = EMPTY;

    pb_text(&f, 1, "Act");
    pb_text(&f, 4, "p");
    pb_text(&f, 4, "q");
    pb_text(&f, 5, "r");
    pb_text(&f, 10, "my");
    function_node(&f, "LeakyRelu", "p", "t", "alpha", "slope");
    function_node(&f, "Sub", reads, "r", NULL, NULL);
    pb_text(&slope, 1, "slope");
    pb_float(&slope, 2, 0.5f);
    pb_int(&slope, 20, ONNX_ATTR_FLOAT);
    pb_nested(&f, 11, &slope);
    pb_nested(model, 25, &f);
}

static struct pb_message call(float slope)
{
    struct pb_message m = outer(-1), n = EMPTY;

    graph_node(&m, "Neg", "x", "t", NULL); /* a name of the function's, too */
    node_names(&n, 1, "t x");
    node_names(&n, 2, "y");
    pb_text(&n, 4, "Act");
    pb_text(&n, 7, "my");
    if (slope != 0)
        attr_float(&n, "slope", slope);
    pb_nested(&m, 1, &n);
    return m;
}

TEST(test_function)
{
    for (int i = 0; i < 2; i++) {
        const float slope = i == 0 ? 0.5f : 0.25f;
        struct pb_message g = call(i == 0 ? 0 : slope), m = model_of(&g, 13);

        add_function(&m, "t q");
        must_give_two(must_read(m), -slope - 1, -2 * slope - 2);
    }
}

/* A function sees nothing outside, and needs a call for its attributes. */
TEST(test_function_refused)
{
    struct pb_message g = call(0), m = model_of(&g, 13), n = EMPTY, a = EMPTY;

    add_function(&m, "t x");
    must_refuse(m, INFER_EFORMAT, "no node before it produces input 'x");

    g = outer(-1);
    node_names(&n, 1, "x");
    node_names(&n, 2, "y");
    pb_text(&n, 4, "LeakyRelu");
    pb_text(&a, 1, "alpha");
    pb_text(&a, 21, "slope");
    pb_nested(&n, 5, &a);
    pb_nested(&g, 1, &n);
    must_refuse(model_of(&g, 13), INFER_EFORMAT, "outside a function");
}

/* A function that calls itself ends at the limit of depth. */
TEST(test_function_recursive)
{
    struct pb_message g = call(0), m = model_of(&g, 13), f = EMPTY, n = EMPTY;

    pb_text(&f, 1, "Act");
    pb_text(&f, 4, "p");
    pb_text(&f, 4, "q");
    pb_text(&f, 5, "r");
    pb_text(&f, 10, "my");
    node_names(&n, 1, "p q");
    node_names(&n, 2, "r");
    pb_text(&n, 4, "Act");
    pb_text(&n, 7, "my");
    pb_nested(&f, 7, &n);
    pb_nested(&m, 25, &f);
    must_refuse(m, INFER_EUNSUPPORTED, "graphs in one another");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_if_known),
        cmocka_unit_test(test_if_computed),
        cmocka_unit_test(test_if_refused),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_loop_masked),
        cmocka_unit_test(test_loop_refused),
        cmocka_unit_test(test_loop_endless),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_scan_refused),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_function),
        cmocka_unit_test(test_function_refused),
        cmocka_unit_test(test_function_recursive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
