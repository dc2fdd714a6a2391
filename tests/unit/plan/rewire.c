/* SPDX-License-Identifier: Apache-2.0 */
/* best_rewire(): what layers in floats read, and that nodes quantize which cut
 * negative values off stay. */
#include "kernels/base/error.h"
#include "libinfer/plan/best/best.h"
#include "tests/unit/plan/quantised.h"

/* What lies in front of the nodes quantize and dequantize. */
enum front {
    LAYER,        /* negative values too */
    LAYER_RELU,   /* none */
    LAYER_CLIP_0, /* to 0 .. 6 */
    LAYER_CLIP_1, /* to -1 .. 6 */
    RELU_THEN_SUM,
    POOLED_RELU,
    JOINED, /* a ReLU and a layer */
    BOTH,   /* a ReLU and a sigmoid */
    SHAPED, /* of a pair that gives nothing negative */
    FRONTS
};

static int layer(struct graph *g, uint64_t *state, int x,
                 enum kern_unary_kind act)
{
    return conv(g, state, x, 4, 4, 1, -1, act);
}

static int front_of(struct graph *g, uint64_t *state, int x, enum front front)
{
    int y, node;

    switch (front) {
    case LAYER_RELU:
        return layer(g, state, x, KERN_RELU);
    case LAYER_CLIP_0:
    case LAYER_CLIP_1:
        y = layer(g, state, x, KERN_CLIP);
        g->node[g->n_nodes - 1].epilogue.act.a =
            front == LAYER_CLIP_0 ? 0.0f : -1.0f;
        g->node[g->n_nodes - 1].epilogue.act.b = 6;
        return y;
    case RELU_THEN_SUM:
        y = layer(g, state, x, KERN_RELU);
        y = conv(g, state, x, 4, 4, 1, y, KERN_RELU);
        g->node[g->n_nodes - 1].epilogue.residual_last = true;
        return y;
    case POOLED_RELU:
        y = layer(g, state, x, KERN_RELU);
        y = add(g, GRAPH_POOL, NULL, IN(y), &node);
        g->node[node].attr.pool.pool.kind = KERN_POOL_MAX;
        for (int i = 0; i < 2; i++)
            g->node[node].attr.pool.pool.window[i] = 2;
        return y;
    case JOINED:
    case BOTH:
        y = layer(g, state, x, KERN_IDENTITY);
        if (front == BOTH)
            y = add_unary(g, NULL, y, KERN_SIGMOID);
        return add_concat(g, NULL, IN(add_unary(g, NULL, x, KERN_RELU), y), 2);
    case SHAPED:
        y = layer(g, state, x, KERN_RELU);
        y = through(g, y, INFER_U8, 1 / 60.0f, 0);
        y = add(g, GRAPH_TRANSPOSE, NULL, IN(y), &node);
        g->node[node].attr.dims = (struct graph_dims){4, {0, 1, 3, 2}};
        return y;
    default:
        return layer(g, state, x, KERN_IDENTITY);
    }
}

struct pair {
    enum front front;
    enum infer_dtype to;
    int zero;
    float scale; /* of dequantize, where it is another; 0: the same value */
};

#define SCALE (1 / 20.0f)

static struct graph *network(const struct pair *p)
{
    struct graph *g = graph_new();
    struct infer_error err = {0};
    uint64_t state = 7;
    int x = input(g, "x", DIMS(1, 4, 6, 6));

    x = front_of(g, &state, x, p->front);
    x = through(g, x, p->to, SCALE, p->zero);
    if (p->scale != 0)
        g->node[g->value[x].producer].in[1] = number(g, p->scale);
    x = layer(g, &state, x, KERN_IDENTITY);
    assert_int_equal(graph_add_output(g, x), 0);
    assert_int_equal(graph_sort(g, &err), 0);
    if (graph_infer_shapes(g, NULL, &err) < 0)
        fail_msg("%s", err.text);
    return g;
}

static int count_quantize(const struct graph *g)
{
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        n += g->node[i].op == GRAPH_QUANTIZE;
    return n;
}

/* Runs in floats, each node by itself. */
static struct infer_array run_floats(struct graph *g)
{
    struct infer_model *model = model_of(g);
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, true);
    uint64_t state = 9;
    struct infer_array x = array_of(&state, DIMS(1, 4, 6, 6)), y;

    y = run(s, &x, 1, 0);
    infer_session_close(&s);
    infer_model_close(&model);
    free(x.data);
    return y;
}

/* All layers in floats: the function stays, but for rounding where pairs go. */
static void check(const struct pair *p, int left)
{
    struct graph *file = network(p), *g = graph_copy(file);
    struct infer_error err = {0};
    struct infer_array expected, y;
    bool *bytes = calloc((size_t)g->n_nodes, sizeof *bytes);

    assert_non_null(bytes);
    if (best_rewire(g, bytes, &err) < 0)
        fail_msg("%s", err.text);
    free(bytes);
    if (count_quantize(g) != left)
        fail_msg("front %d, zero point %d, %g: %d nodes quantize, expected %d",
                 p->front, p->zero, (double)p->scale, count_quantize(g), left);
    expected = run_floats(file);
    y = run_floats(g);
    if (left > 0)
        assert_memory_equal(y.data, expected.data, expected.bytes);
    assert_close(&y, &expected, 0.03);
    free(expected.data);
    free(y.data);
}

TEST(test_lowest_zero)
{
    static const bool goes[FRONTS] = {[LAYER_RELU] = true,
                                      [LAYER_CLIP_0] = true,
                                      [POOLED_RELU] = true,
                                      [BOTH] = true,
                                      [SHAPED] = true};

    for (int f = 0; f < FRONTS; f++) {
        check(&(struct pair){f, INFER_U8, 0, 0}, !goes[f]);
        check(&(struct pair){f, INFER_I8, INT8_MIN, 0}, !goes[f]);
        check(&(struct pair){f, INFER_U8, 128, 0}, 0);
        check(&(struct pair){f, INFER_I8, 0, 0}, 0);
    }
}

/* Nodes with unequal scales change values; constants may be equal. */
TEST(test_scales)
{
    check(&(struct pair){LAYER_RELU, INFER_U8, 0, SCALE}, 0);
    check(&(struct pair){LAYER_RELU, INFER_U8, 0, 2 * SCALE}, 1);
    check(&(struct pair){LAYER, INFER_I8, 0, SCALE / 2}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_zero),
        cmocka_unit_test(test_scales),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
