/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as JSON, there and back, and what validation finds in them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/json.h"
#include "libinfer/graph/graph.h"
#include "tests/unit/test.h"

static int add_value(struct graph *g, const char *name)
{
    int i = graph_add_value(g, name);

    assert_true(i >= 0);
    return i;
}

static int add_weight(struct graph *g, const char *name, int rank,
                      const int64_t *dim)
{
    int i = graph_add_constant(g, name, constant_new(INFER_F32, rank, dim));

    assert_true(i >= 0);
    return i;
}

/* ---- JSON ---------------------------------------------------------- */

static char *to_text(const struct graph *g)
{
    cJSON *json = graph_to_json(g);
    char *text = cJSON_PrintUnformatted(json);

    assert_non_null(text);
    cJSON_Delete(json);
    return text;
}

static int from_text(const char *text, struct infer_error *err,
                     struct graph **out)
{
    cJSON *json;
    int status;

    *out = NULL;
    assert_int_equal(json_parse(text, strlen(text), false, err, &json), 0);
    status = graph_from_json(json, err, out);
    cJSON_Delete(json);
    return status;
}

static struct graph_node *add_node(struct graph *g, enum graph_op op,
                                   const char *name, const int *in, int n_in,
                                   const int *out, int n_out)
{
    int node = graph_add_node(g, op, name, in, n_in, out, n_out);

    assert_true(node >= 0);
    return &g->node[node];
}

/* A graph with something of every kind of field. */
static struct graph *rich_graph(void)
{
    const int64_t x_dim[4] = {-1, 3, 32, 32}, w_dim[4] = {8, 3, 3, 3};
    const int64_t r_dim[4] = {-1, 8, 16, 16};
    struct graph *g = graph_new();
    struct graph_preprocess *p;
    int in[4], v[8], i;
    struct graph_node *n;

    in[0] = graph_add_input(g, "x", INFER_F32, 4, x_dim);
    in[1] = add_weight(g, "conv1.weight", 4, w_dim);
    in[2] = -1;
    in[3] = graph_add_input(g, "r", INFER_F32, 4, r_dim);
    for (i = 0; i < 8; i++)
        v[i] = add_value(g, NULL);
    n = add_node(g, GRAPH_CONV, "conv1", in, 4, &v[0], 1);
    for (i = 0; i < 2; i++) {
        n->attr.conv.conv.stride[i] = 2;
        n->attr.conv.conv.pad_end[i] = 1;
    }
    n->epilogue.act = graph_unary(KERN_LEAKY_RELU);
    n->epilogue.act.a = 0.1f;
    n->epilogue.residual_last = true;
    n = add_node(g, GRAPH_UNARY, "clip", &v[0], 1, &v[1], 1);
    n->attr.unary = graph_unary(KERN_CLIP);
    n->attr.unary.a = 0;
    n = add_node(g, GRAPH_SLICE, "cut", &v[1], 1, &v[2], 1);
    n->attr.slice.n_axes = 2;
    n->attr.slice.axis[0] = 0;
    n->attr.slice.axis[1] = 1;
    n->attr.slice.begin[1] = 1;
    n->attr.slice.end[1] = INT64_MAX;
    n->attr.slice.step[1] = 2;
    n = add_node(g, GRAPH_PAD, "pad", &v[2], 1, &v[3], 1);
    n->attr.pad.begin[2] = 1;
    n->attr.pad.end[3] = 2;
    n->attr.pad.value = -INFINITY;
    n = add_node(g, GRAPH_RESIZE, "up", &v[3], 1, &v[4], 1);
    n->attr.resize.resize.scale[2] = 1.3f;
    n->attr.resize.resize.scale[3] = 2;
    n = add_node(g, GRAPH_REDUCE, "mean", &v[4], 1, &v[5], 1);
    n->attr.reduce.n_axes = 2;
    n->attr.reduce.axis[0] = -1;
    n->attr.reduce.axis[1] = 2;
    n = add_node(g, GRAPH_SPLIT, "split", &v[5], 1, &v[6], 2);
    n->attr.split.axis = 1;
    n->attr.split.n_sizes = 2;
    n->attr.split.size[0] = 1;
    n->attr.split.size[1] = 3;
    graph_add_output(g, v[7]);
    graph_add_output(g, v[6]);
    p = &g->preprocess[0];
    p->present = true;
    p->policy = GRAPH_RESIZE_SHORTER;
    p->resize = 36;
    p->filter = GRAPH_BICUBIC;
    p->color = GRAPH_BGR;
    p->scale = 1 / 255.0f;
    p->mean[0] = 0.485f;
    p->mean[2] = 0.406f;
    p->std[0] = 0.229f;
    p->fill = 114;
    g->label = calloc(1, sizeof(*g->label));
    g->label[0] = strdup("a \"cat\" \xc3\xa9");
    g->n_labels = 1;
    return g;
}

/* By fields: bytes between them have any value. */
static void assert_same_preprocess(const struct graph_preprocess *a,
                                   const struct graph_preprocess *b)
{
    assert_int_equal(a->present, b->present);
    assert_int_equal(a->policy, b->policy);
    assert_int_equal(a->resize, b->resize);
    assert_int_equal(a->filter, b->filter);
    assert_int_equal(a->color, b->color);
    assert_true(a->scale == b->scale);
    assert_memory_equal(a->mean, b->mean, sizeof a->mean);
    assert_memory_equal(a->std, b->std, sizeof a->std);
    assert_int_equal(a->fill, b->fill);
}

TEST(test_json_round_trip)
{
    struct graph *g = rich_graph(), *back, *again;
    struct infer_error err;
    char *text = to_text(g), *text_back, *text_again;
    const struct graph_node *n;

    assert_int_equal(graph_validate(g, &err), 0);
    assert_int_equal(from_text(text, &err, &back), 0);
    n = &back->node[0];
    assert_int_equal(n->n_in, 4);
    assert_int_equal(n->in[2], -1);
    assert_int_equal(n->attr.conv.conv.stride[1], 2);
    assert_int_equal(n->attr.conv.conv.pad_begin[1], 0);
    assert_int_equal(n->attr.conv.conv.pad_end[1], 1);
    assert_true(n->epilogue.act.a == 0.1f);
    assert_true(n->epilogue.residual_last);
    assert_true(back->node[1].attr.unary.a == 0);
    assert_true(isinf(back->node[1].attr.unary.b));
    assert_int_equal(back->node[2].attr.slice.n_axes, 2);
    assert_int_equal(back->node[2].attr.slice.step[0], 1);
    assert_int_equal(back->node[2].attr.slice.step[1], 2);
    assert_true(back->node[3].attr.pad.value == -INFINITY);
    assert_int_equal(back->node[3].attr.pad.begin[2], 1);
    assert_int_equal(back->node[3].attr.pad.end[3], 2);
    assert_true(back->node[4].attr.resize.resize.scale[2] == 1.3f);
    assert_int_equal(back->node[5].attr.reduce.axis[0], -1);
    assert_same_preprocess(&back->preprocess[0], &g->preprocess[0]);
    assert_string_equal(back->label[0], g->label[0]);
    assert_null(back->value[graph_find_value(back, "conv1.weight")].data);
    /* Ranks that only shapes tell may add entries; then nothing changes. */
    text_back = to_text(back);
    assert_int_equal(from_text(text_back, &err, &again), 0);
    text_again = to_text(again);
    assert_string_equal(text_back, text_again);
    free(text);
    free(text_back);
    free(text_again);
    graph_free(g);
    graph_free(back);
    graph_free(again);
}

/* People read it: short words, no defaults, no digits without meaning. */
TEST(test_json_text)
{
    struct graph *g = rich_graph();
    struct infer_error err;
    char *text;

    assert_int_equal(graph_infer_shapes(g, NULL, &err), 0);
    text = to_text(g);
    assert_non_null(strstr(
        text,
        "{\"name\":\"conv1\",\"op\":\"conv\",\"in\":[\"x\",\"conv1.weight\","
        "null,\"r\"],\"out\":[\"value_0\"],\"attr\":{\"stride\":[2,2],"
        "\"pad\":[0,0,1,1]},\"act\":{\"kind\":\"leaky_relu\",\"a\":0.1},"
        "\"residual_last\":true}"));
    assert_non_null(strstr(text, "\"attr\":{\"kind\":\"clip\",\"a\":0}"));
    assert_non_null(strstr(
        text, "\"attr\":{\"axes\":[0,1],\"begin\":[0,1],\"step\":[1,2]}"));
    assert_non_null(strstr(
        text, "\"attr\":{\"pad\":[0,0,1,0,0,0,0,2],\"value\":\"-inf\"}"));
    assert_non_null(strstr(text, "\"attr\":{\"scale\":[1,1,1.3,2]}"));
    assert_non_null(strstr(text, "\"mean\":[0.485,0,0.406]"));
    free(text);
    graph_free(g);
}

/* Each text and a part of what must be said of it. */
static const struct {
    const char *text, *says;
} bad_graphs[] = {
    {"[]", "not a JSON object"},
    {"{}", "'infer'"},
    {"{\"infer\":0}", "'infer'"},
    {"{\"infer\":2}", "newer"},
    {"{\"infer\":1}", "'inputs' is missing"},
    {"{\"infer\":1,\"inputs\":{},\"nodes\":[],\"outputs\":[]}",
     "'inputs' is not a list"},
    {"{\"infer\":1,\"inputs\":[],\"nodes\":[],\"outputs\":[],\"foo\":1}",
     "'foo' is not known"},
    {"{\"infer\":1,\"inputs\":[{}],\"nodes\":[],\"outputs\":[]}",
     "input 0: 'name' is missing"},
    {"{\"infer\":1,\"inputs\":[7],\"nodes\":[],\"outputs\":[]}",
     "input 0: not an object"},
    {"{\"infer\":1,\"inputs\":[{\"name\":\"x\",\"dtype\":\"F31\"}],"
     "\"nodes\":[],\"outputs\":[]}",
     "dtype 'F31' is not known"},
    {"{\"infer\":1,\"inputs\":[{\"name\":\"x\",\"dtype\":\"F32\","
     "\"shape\":[1.5]}],\"nodes\":[],\"outputs\":[]}",
     "size 0 of the shape"},
    {"{\"infer\":1,\"inputs\":[{\"name\":\"x\",\"dtype\":\"F32\","
     "\"shape\":[1,1,1,1,1,1,1,1,1]}],\"nodes\":[],\"outputs\":[]}",
     "at most 8 sizes"},
    {"{\"infer\":1,\"inputs\":[{\"name\":\"x\",\"dtype\":\"F32\"},"
     "{\"name\":\"x\",\"dtype\":\"F32\"}],\"nodes\":[],\"outputs\":[]}",
     "input 'x': stands twice"},
    {"{\"infer\":1,\"inputs\":[{\"name\":\"x\",\"dtype\":\"F32\","
     "\"preprocess\":{\"policy\":\"stretch\"}}],\"nodes\":[],\"outputs\":[]}",
     "policy 'stretch' is not known (supported: exact, shorter"},
    {"{\"infer\":1,\"inputs\":[],\"nodes\":[],\"outputs\":[null]}", "output 0"},
    {"{\"infer\":1,\"inputs\":[],\"nodes\":[],\"outputs\":[3]}",
     "entry 0 of a list is not a name"},
    {"{\"infer\":1,\"inputs\":[],\"nodes\":[],\"outputs\":[],"
     "\"labels\":[1]}",
     "label 0 is not a string"},
    {"{\"infer\":1,\"inputs\":[],\"nodes\":[],\"outputs\":[],"
     "\"weights\":{\"w\":{\"shape\":\"3\"}}}",
     "weight 'w': shape is not a list"},
};

/* Nodes in a graph with an input x; all faults of one text are said. */
static const struct {
    const char *nodes, *says;
} bad_nodes[] = {
    {"{}", "node 0: 'out' is missing"},
    {"{}", "node 0: 'name' is missing"},
    {"{}", "node 0: 'op' is missing"},
    {"{}", "node 0: 'in' is missing"},
    {"3", "node 0: not an object"},
    {"{\"name\":\"n\",\"op\":\"convolve\",\"in\":[],\"out\":[\"y\"]}",
     "node 'n': operation 'convolve' is not known"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[],\"out\":[\"x\"]}",
     "'x' is produced twice, or is an input"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[5],\"out\":[\"y\"]}",
     "entry 0 of a list is not a name"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[\"\"]}",
     "an output is not a name"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[null]}",
     "an output is not a name"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[]}",
     "there is no output"},
    {"{\"name\":\"n\",\"op\":\"unary\",\"in\":[\"x\"],\"out\":[\"y\"]},"
     "{\"name\":\"n\",\"op\":\"unary\",\"in\":[\"x\"],\"out\":[\"z\"]}",
     "node 'n': the name stands twice"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attr\":{\"strides\":[1]}}",
     "node 'n': field 'strides' is not known"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attrs\":{}}",
     "node 'n': field 'attrs' is not known"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attr\":{\"stride\":[1,\"2\"]}}",
     "entry 1 of stride is not an integer in range"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attr\":{\"stride\":[1,1,1,1]}}",
     "stride has 4 entries, at most 3"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attr\":{\"groups\":4294967296}}",
     "groups is not an integer in range"},
    {"{\"name\":\"n\",\"op\":\"pool\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attr\":{\"ceil_mode\":1}}",
     "ceil_mode is not true or false"},
    {"{\"name\":\"n\",\"op\":\"lrn\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attr\":{\"alpha\":1e39}}",
     "alpha is not a number in range"},
    {"{\"name\":\"n\",\"op\":\"lrn\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attr\":[]}",
     "node 'n': not an object"},
    {"{\"name\":\"n\",\"op\":\"split\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"attr\":{\"sizes\":3}}",
     "sizes is not a list"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"act\":{\"kind\":\"ramp\"}}",
     "kind 'ramp' is not known (supported: identity, relu"},
    {"{\"name\":\"n\",\"op\":\"conv\",\"in\":[\"x\"],\"out\":[\"y\"],"
     "\"residual_last\":0}",
     "residual_last is not true or false"},
    /* The second of two bad nodes is looked at too. */
    {"{\"name\":\"n\",\"op\":\"foo\",\"in\":[\"x\"],\"out\":[\"y\"]},"
     "{\"name\":\"m\",\"op\":\"lrn\",\"in\":[\"x\"],\"out\":[\"z\"],"
     "\"attr\":{\"beta\":null}}",
     "node 'm': beta is not a number"},
};

static void expect_bad(const char *text, const char *says)
{
    struct infer_error err;
    struct graph *g;
    int status = from_text(text, &err, &g);

    if (status == 0)
        graph_free(g);
    if (status == 0 || strstr(err.text, says) == NULL)
        fail_msg("%s: expected \"%s\", got: %s", text, says,
                 status == 0 ? "a graph" : err.text);
    assert_null(g);
}

TEST(test_json_refused)
{
    char text[1024];
    size_t i;

    for (i = 0; i < COUNT(bad_graphs); i++)
        expect_bad(bad_graphs[i].text, bad_graphs[i].says);
    for (i = 0; i < COUNT(bad_nodes); i++) {
        snprintf(text, sizeof(text),
                 "{\"infer\":1,\"inputs\":[{\"name\":\"x\",\"dtype\":\"F32\"}],"
                 "\"nodes\":[%s],\"outputs\":[\"y\"]}",
                 bad_nodes[i].nodes);
        expect_bad(text, bad_nodes[i].says);
    }
}

/* What the JSON does not say is usual. */
TEST(test_json_defaults)
{
    static const char text[] =
        "{\"infer\":1,\"inputs\":[{\"name\":\"x\",\"dtype\":\"F32\"}],"
        "\"nodes\":[{\"name\":\"n\",\"op\":\"unary\",\"in\":[\"x\"],"
        "\"out\":[\"y\"],\"attr\":{\"kind\":\"silu\"}},"
        "{\"name\":\"c\",\"op\":\"conv\",\"in\":[\"y\",\"w\"],"
        "\"out\":[\"z\"],\"attr\":{\"pad\":1},\"act\":{\"kind\":\"elu\"}}],"
        "\"outputs\":[\"z\"],"
        "\"weights\":{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3,1,1]}}}";
    struct infer_error err;
    struct graph *g;
    char *back;
    int i;

    assert_int_equal(from_text(text, &err, &g), 0);
    assert_int_equal(g->value[graph_find_value(g, "x")].rank, -1);
    assert_true(g->node[0].attr.unary.a == 1);
    assert_true(g->node[1].epilogue.act.a == 1);
    for (i = 0; i < 3; i++) {
        assert_int_equal(g->node[1].attr.conv.conv.stride[i], 1);
        assert_int_equal(g->node[1].attr.conv.conv.pad_begin[i], 1);
        assert_int_equal(g->node[1].attr.conv.conv.pad_end[i], 1);
    }
    assert_int_equal(g->value[graph_find_value(g, "w")].dim[1], 3);
    assert_int_equal(graph_validate(g, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "weight 'w' has no data"));
    back = to_text(g);
    assert_non_null(strstr(
        back, "\"weights\":{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3,1,1]}}"));
    free(back);
    graph_free(g);
}

/* ---- validation ---------------------------------------------------- */

static void expect_fault(struct graph *g, const char *says)
{
    struct infer_error err;

    if (graph_validate(g, &err) == 0 || strstr(err.text, says) == NULL)
        fail_msg("expected \"%s\", got: %s", says,
                 err.code == 0 ? "nothing" : err.text);
    graph_free(g);
}

TEST(test_validate)
{
    struct graph *g = rich_graph();
    struct infer_error err;
    int64_t dim[2] = {1, 2};

    assert_int_equal(graph_validate(g, &err), 0);
    g->node[0].attr.conv.conv.groups = 0;
    expect_fault(g, "node 'conv1' (conv): groups 0");

    g = rich_graph();
    g->node[0].attr.conv.auto_pad = (enum graph_auto_pad)9;
    expect_fault(g, "node 'conv1' (conv): auto_pad 9 is outside");

    g = rich_graph();
    g->node[1].attr.unary.a = NAN;
    expect_fault(g, "node 'clip' (unary): a is NaN");

    g = rich_graph();
    g->node[6].attr.split.n_sizes = 65;
    expect_fault(g, "sizes has 65 entries, at most 64");

    g = rich_graph();
    g->node[5].attr.reduce.n_axes = -1;
    expect_fault(g, "axes has -1 entries");

    g = rich_graph();
    g->node[2].epilogue.act.kind = KERN_RELU;
    expect_fault(g, "node 'cut' (slice): the operation takes no activation");

    g = rich_graph();
    g->node[0].in[3] = -1;
    expect_fault(g, "residual_last without a residual");

    g = rich_graph();
    g->node[0].in[1] = -1;
    expect_fault(g, "node 'conv1' (conv): no input 1");

    g = rich_graph();
    g->node[0].in[1] = 1000;
    expect_fault(g, "node 'conv1': input 1 is not there");

    g = rich_graph();
    g->node[0].in[1] = graph_add_value(g, "lost");
    expect_fault(g, "node 'conv1': weight 'lost' has no data");

    g = rich_graph();
    g->node[1].out[0] = g->node[0].out[0];
    expect_fault(g, "produced by another node");

    g = rich_graph();
    g->node[1].out[0] = g->input[0];
    expect_fault(g, "an input or a weight");

    g = rich_graph();
    g->n_outputs = 0;
    expect_fault(g, "no outputs");

    g = rich_graph();
    graph_add_output(g, graph_add_value(g, "nothing"));
    expect_fault(g, "output 'nothing' is produced by nothing");

    g = rich_graph();
    g->value[g->input[0]].dim[0] = -2;
    expect_fault(g, "tensor 'x': rank or size out of range");

    g = rich_graph();
    g->value[1].dim[0] = 9;
    expect_fault(g, "its data has another shape");

    g = rich_graph();
    graph_add_value(g, "bad \xff name");
    expect_fault(g, "no valid UTF-8");

    g = rich_graph();
    graph_add_value(g, "");
    expect_fault(g, "empty name");

    g = rich_graph();
    g->preprocess[0].std[1] = 0;
    expect_fault(g, "std is 0");

    g = rich_graph();
    g->preprocess[0].color = GRAPH_GRAY;
    expect_fault(g, "no picture of 1 channels");

    g = rich_graph();
    graph_add_input(g, "typeless", INFER_NONE, 2, dim);
    expect_fault(g, "input 'typeless' has no type");

    g = rich_graph();
    g->node[3].op = (enum graph_op)999;
    expect_fault(g, "no operation has number 999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_json_text),
        cmocka_unit_test(test_json_refused),
        cmocka_unit_test(test_json_defaults),
        cmocka_unit_test(test_validate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
