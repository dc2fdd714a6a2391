/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a graph as the planner lowers them: the fast backend gives what
 * the reference gives, and what only moves elements moves the right ones. */
#include <math.h>

#include "tests/unit/runtime/network.h"

#include "libinfer/device/device.h"
#include "tests/unit/runtime/gpu_plan.h"

/* ---- single operations against plain loops ------------------------- */

/* Runs a graph of one input (2,12,4,6 unless said otherwise) and one output
 * behind a convolution, so that the operand lies in the fast layout. */
static struct infer_array run_graph(struct graph *g, int out,
                                    enum infer_backend backend,
                                    const struct infer_array *x)
{
    struct infer_model *model;
    struct infer_session *s;
    struct infer_array y;

    assert_int_equal(graph_add_output(g, out), 0);
    model = model_of(g);
    s = session_of(model, backend, false);
    y = run(s, x, 1, 0);
    infer_session_close(&s);
    infer_model_close(&model);
    return y;
}

typedef int build_fn(struct graph *g, uint64_t *state, int x);

/* The operation behind a convolution on both backends, and on its own. */
static void check_build(build_fn *build, const int64_t *dim)
{
    uint64_t state = 5, seed;
    struct infer_array x = array_of(&state, 4, dim), y[2];

    for (int conv = 0; conv < 2; conv++) {
        for (int k = 0; k < 2; k++) {
            struct graph *g = graph_new();
            int v = input(g, "x", 4, dim);

            seed = 77;
            if (conv)
                v = add_conv(g, &seed, "before", v, dim[1], dim[1], 3, 1, 1,
                             -1);
            v = build(g, &seed, v);
            y[k] =
                run_graph(g, v, k ? INFER_BACKEND_AUTO : INFER_BACKEND_REF, &x);
        }
        assert_close(&y[1], &y[0], 1e-5);
        free(y[0].data);
        free(y[1].data);
    }
    free(x.data);
}

static int build_slice(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_SLICE, "s", IN(x), &node);
    struct graph_slice *s = &g->node[node].attr.slice;

    s->n_axes = 3;
    s->axis[0] = 1;
    s->begin[0] = 10;
    s->end[0] = 1;
    s->step[0] = -3;
    s->axis[1] = -1;
    s->begin[1] = 1;
    s->end[1] = 1000;
    s->step[1] = 2;
    s->axis[2] = 2;
    s->begin[2] = -2;
    s->end[2] = 1000;
    s->step[2] = 1;
    return add_conv(g, state, "after", v, 3, 4, 1, 1, 1, -1);
}

/* Channels of three groups by turns (ShuffleNet). */
static int build_turns(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_RESHAPE, NULL, IN(x), &node);

    (void)state;
    g->node[node].attr.dims =
        (struct graph_dims){.n = 5, .dim = {0, 3, 4, 4, 6}};
    v = add(g, GRAPH_TRANSPOSE, NULL, IN(v), &node);
    g->node[node].attr.dims =
        (struct graph_dims){.n = 5, .dim = {0, 2, 1, 3, 4}};
    v = add(g, GRAPH_RESHAPE, NULL, IN(v), &node);
    g->node[node].attr.dims = (struct graph_dims){.n = 4, .dim = {0, 12, 4, 6}};
    return v;
}

static int build_shuffle(struct graph *g, uint64_t *state, int x)
{
    return add_conv(g, state, "after", build_turns(g, state, x), 12, 12, 3, 1,
                    12, -1);
}

/* The same written to its place in a concatenation, from a convolution and from
 * the input. */
static int build_turns_beside(struct graph *g, uint64_t *state, int x)
{
    const int y = add_conv(g, state, "ahead", x, 12, 12, 3, 1, 1, -1);
    const int part[3] = {build_turns(g, state, y), y, build_turns(g, state, x)};

    return add_concat(g, "beside", part, 3, 1);
}

static int build_flatten(struct graph *g, uint64_t *state, int x)
{
    int v = add(g, GRAPH_FLATTEN, "f", IN(x), NULL);
    int w = weights(g, state, DIMS(5, 288));

    return add(g, GRAPH_DENSE, "d", IN(v, w), NULL);
}

static int build_split(struct graph *g, uint64_t *state, int x)
{
    int out[3], node, v;

    (void)state;
    for (int i = 0; i < 3; i++)
        out[i] = graph_add_value(g, NULL);
    node = graph_add_node(g, GRAPH_SPLIT, "split", IN(x), out, 3);
    g->node[node].attr.split.axis = 1;
    g->node[node].attr.split.n_sizes = 3;
    g->node[node].attr.split.size[0] = 2;
    g->node[node].attr.split.size[1] = 6;
    g->node[node].attr.split.size[2] = 4;
    v = add_unary(g, "m", out[1], KERN_TANH);
    return add_concat(g, "c", (int[]){out[2], v, out[0], out[2]}, 4, 1);
}

static int build_tile(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_TILE, "t", IN(x), &node);

    (void)state;
    g->node[node].attr.dims = (struct graph_dims){.n = 4, .dim = {1, 2, 3, 2}};
    return v;
}

static int build_expand(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_POOL, "p", IN(x), &node);

    (void)state;
    g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    v = add(g, GRAPH_EXPAND, "e", IN(v), &node);
    g->node[node].attr.dims =
        (struct graph_dims){.n = 5, .dim = {1, 1, 1, 4, 6}};
    v = add(g, GRAPH_SQUEEZE, "s", IN(v), &node);
    g->node[node].attr.dims = (struct graph_dims){.n = 1, .dim = {0}};
    return v;
}

static int build_depth(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_DEPTH_TO_SPACE, "d", IN(x), &node);

    (void)state;
    g->node[node].attr.depth_space.block = 2;
    v = add_unary(g, "u", v, KERN_RELU);
    v = add(g, GRAPH_SPACE_TO_DEPTH, "s", IN(v), &node);
    g->node[node].attr.depth_space.block = 2;
    v = add(g, GRAPH_DEPTH_TO_SPACE, "d2", IN(v), &node);
    g->node[node].attr.depth_space.block = 2;
    g->node[node].attr.depth_space.crd = true;
    return v;
}

/* Squeeze and excite: x times one number an image and channel. */
static int add_excited(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_REDUCE, "r", IN(x), &node);

    g->node[node].attr.reduce.kind = KERN_REDUCE_MEAN;
    g->node[node].attr.reduce.keep_dims = true;
    g->node[node].attr.reduce.n_axes = 2;
    g->node[node].attr.reduce.axis[0] = 2;
    g->node[node].attr.reduce.axis[1] = -1;
    v = add_conv(g, state, "a", v, 12, 4, 1, 1, 1, -1);
    v = add_unary(g, "b", v, KERN_SILU);
    v = add_conv(g, state, "c2", v, 4, 12, 1, 1, 1, -1);
    v = add_unary(g, "d", v, KERN_SIGMOID);
    return add_binary(g, "e", x, v, KERN_MUL);
}

static int build_excite(struct graph *g, uint64_t *state, int x)
{
    int node, v = add_excited(g, state, x);

    v = add(g, GRAPH_REDUCE, "f", IN(v), &node);
    g->node[node].attr.reduce.kind = KERN_REDUCE_MAX;
    g->node[node].attr.reduce.n_axes = 2;
    g->node[node].attr.reduce.axis[0] = 1;
    g->node[node].attr.reduce.axis[1] = 3;
    return v;
}

/* Convolutions behind it; one has the image as it was for its residual, the
 * other a window. */
static int build_input_scale(struct graph *g, uint64_t *state, int x)
{
    int v =
        add_conv(g, state, "f1", add_excited(g, state, x), 12, 12, 1, 1, 1, x);

    v = add_binary(g, "f2", weights(g, state, DIMS(2, 12, 1, 1)), v, KERN_MUL);
    return add_conv(g, state, "f3", v, 12, 8, 3, 1, 2, -1);
}

/* Read twice, or not by a convolution, the product has to be there. */
static int build_products(struct graph *g, uint64_t *state, int x)
{
    int v = add_excited(g, state, x);

    v = add_binary(g, "p1", v, add_conv(g, state, "p2", v, 12, 12, 1, 1, 1, -1),
                   KERN_ADD);
    return v;
}

static int build_pointwise(struct graph *g, uint64_t *state, int x)
{
    int c = weights(g, state, DIMS(12, 1, 1));
    int s = weights(g, state, DIMS(12)), t = weights(g, state, DIMS(12)), node;
    int full = weights(g, state, DIMS(12, 4, 6)), v;

    v = add(g, GRAPH_SCALE_SHIFT, "ss", IN(x, s, t), &node);
    g->node[node].epilogue.act = graph_unary(KERN_RELU);
    v = add(g, GRAPH_PRELU, "pr", IN(v, c), NULL);
    v = add_binary(g, "bin", full, v, KERN_ADD);
    v = add_binary(g, "less", v, c, KERN_LESS);
    v = add(g, GRAPH_WHERE, "where", IN(v, x, c), NULL);
    v = add(g, GRAPH_TRANSPOSE, "nhwc", IN(v), &node);
    g->node[node].attr.dims = (struct graph_dims){.n = 4, .dim = {0, 2, 3, 1}};
    v = add(g, GRAPH_LAYER_NORM, "ln", IN(v, s, t), &node);
    g->node[node].attr.norm.axis = -1;
    g->node[node].attr.norm.epsilon = 1e-6f;
    v = add(g, GRAPH_SOFTMAX, "sm", IN(v), &node);
    g->node[node].attr.axis.axis = 2;
    g->node[node].attr.axis.flatten = true;
    return v;
}

static int build_resample(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_RESIZE, "rs", IN(x), &node), p;

    g->node[node].attr.resize.n_sizes = 4;
    g->node[node].attr.resize.size[2] = 9;
    g->node[node].attr.resize.size[3] = 13;
    g->node[node].attr.resize.resize.mode = KERN_BILINEAR;
    p = add(g, GRAPH_PAD, "pd", IN(v), &node);
    g->node[node].attr.pad.begin[2] = 2;
    g->node[node].attr.pad.end[3] = 3;
    g->node[node].attr.pad.begin[1] = -2;
    g->node[node].attr.pad.mode = KERN_PAD_EDGE;
    v = add(g, GRAPH_CONV_TRANSPOSE, "ct",
            IN(p, weights(g, state, DIMS(10, 4, 2, 2))), &node);
    g->node[node].attr.conv.conv.stride[0] = 2;
    g->node[node].attr.conv.conv.stride[1] = 2;
    g->node[node].epilogue.act = graph_unary(KERN_LEAKY_RELU);
    v = add(g, GRAPH_LRN, "lrn", IN(v), &node);
    g->node[node].attr.lrn =
        (struct kern_lrn){.size = 3, .alpha = 0.1f, .beta = 0.75f, .bias = 1};
    return v;
}

/* A dense block: every convolution reads all that came before. */
static int build_dense_block(struct graph *g, uint64_t *state, int x)
{
    int part[5] = {x}, v = x;

    for (int i = 1; i < 5; i++) {
        v = add_conv(g, state, NULL, v, 12 + 4 * (i - 1), 4, 3, 1, 1, -1);
        part[i] = v;
        v = add_concat(g, NULL, part, i + 1, 1);
    }
    return add_unary(g, "u", v, KERN_RELU);
}

/* The same block, each concatenation inside the next. */
static int build_nested_block(struct graph *g, uint64_t *state, int x)
{
    int v = x;

    for (int i = 1; i < 5; i++) {
        int y = add_conv(g, state, NULL, v, 12 + 4 * (i - 1), 4, 3, 1, 1, -1);

        v = add_concat(g, NULL, (int[]){v, y}, 2, 1);
    }
    return add_unary(g, "u", v, KERN_RELU);
}

/* Every activation behind every operation that knows one, with and without a
 * residual: fused where the backend can, steps of their own where not. */
static int build_epilogues(struct graph *g, uint64_t *state, int x)
{
    int y = x, node, c = weights(g, state, DIMS(12));

    for (int kind = 0; kind <= KERN_GELU_TANH; kind++) {
        struct kern_unary act = graph_unary((enum kern_unary_kind)kind);

        y = add_conv(g, state, NULL, y, 12, 12, 1, 1, 1, kind % 3 ? x : -1);
        node = g->n_nodes - 1;
        g->node[node].epilogue.act = act;
        g->node[node].epilogue.residual_last = kind % 3 == 2;
        y = kind % 2 ? add(g, GRAPH_SCALE_SHIFT, NULL, IN(y, c, c, x), &node)
                     : add(g, GRAPH_BINARY, NULL, IN(y, x, x), &node);
        g->node[node].epilogue.act = act;
        /* Keeps values small, so that errors do not grow. */
        y = add_unary(g, NULL, y, KERN_SOFTSIGN);
        y = add(g, GRAPH_POOL, NULL, IN(y), &node);
        for (int i = 0; i < 2; i++)
            g->node[node].attr.pool.pool.window[i] = 1;
        g->node[node].epilogue.act = act;
        y = add_unary(g, NULL, y, KERN_SOFTSIGN);
    }
    return y;
}

static int build_matmul(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_RESHAPE, "r", IN(x), &node), q;

    (void)state;
    g->node[node].attr.dims = (struct graph_dims){.n = 3, .dim = {0, 12, 24}};
    q = add(g, GRAPH_MATMUL, "m", IN(v, v), &node);
    g->node[node].attr.matmul.transpose_b = true;
    g->node[node].attr.matmul.alpha = 0.5f;
    v = add(g, GRAPH_SOFTMAX, "s", IN(q), NULL);
    return add(g, GRAPH_MATMUL, "n", IN(v, q), NULL);
}

/* Elements by computed indices, running sums, and an update in place of what
 * was chosen; the indices come from the values themselves. */
static int build_select(struct graph *g, uint64_t *state, int x)
{
    int node, at, v = add(g, GRAPH_CUMULATE, "c", IN(x), &node);

    (void)state;
    g->node[node].attr.cumulate.axis = 3;
    g->node[node].attr.cumulate.reverse = true;
    at = add(g, GRAPH_TOP_K, "t", IN(x), &node);
    g->node[node].attr.top_k.k = 3;
    v = add(g, GRAPH_GATHER_ELEMENTS, "g", IN(v, at), &node);
    g->node[node].attr.axis.axis = -1;
    v = add(g, GRAPH_SCATTER_ELEMENTS, "s", IN(x, at, v), &node);
    g->node[node].attr.scatter.axis = 3;
    g->node[node].attr.scatter.kind = KERN_SCATTER_ADD;
    return v;
}

/* Halves go to even, sums with the zero point are cut to the type, and the
 * scale runs along the channels; on both backends, and back. */
static void test_quantize(void **unused)
{
    static const float values[8] = {-1.5f, 0.5f, 2.5f, 300,
                                    -1.5f, 0.5f, 2.5f, -300};
    static const float numbers[8] = {-2,    0,    2,    255 - 3,
                                     -1.5f, 0.5f, 2.5f, -1.5f};
    const int64_t dim[4] = {1, 2, 2, 2}, two = 2;

    (void)unused;
    for (int k = 0; k < 2; k++) {
        struct constant *c = constant_new(INFER_F32, 1, &two);
        struct constant *z = constant_new(INFER_U8, 1, &two);
        struct graph *g = graph_new();
        uint64_t state = 1;
        struct infer_array x = array_of(&state, 4, dim), y;
        int node, v = input(g, "x", 4, dim), scale, zero;

        ((float *)(void *)c->data)[0] = 1;
        ((float *)(void *)c->data)[1] = 0.5f;
        z->data[0] = z->data[1] = 3;
        scale = graph_add_constant(g, "scale", c);
        zero = graph_add_constant(g, "zero", z);
        v = add(g, GRAPH_QUANTIZE, "q", IN(v, scale, zero), &node);
        g->node[node].attr.quantize.to = INFER_U8;
        v = add(g, GRAPH_DEQUANTIZE, "d", IN(v, scale, zero), NULL);
        memcpy(x.data, values, sizeof values);
        y = run_graph(g, v, k ? INFER_BACKEND_AUTO : INFER_BACKEND_REF, &x);
        assert_int_equal(y.dtype, INFER_F32);
        assert_memory_equal(y.data, numbers, sizeof numbers);
        free(x.data);
        free(y.data);
    }
}

static void test_operations(void **unused)
{
    static build_fn *const build[] = {
        build_slice,        build_shuffle,   build_flatten,
        build_split,        build_tile,      build_expand,
        build_depth,        build_excite,    build_pointwise,
        build_resample,     build_matmul,    build_dense_block,
        build_nested_block, build_epilogues, build_input_scale,
        build_products,     build_select,    build_turns_beside,
    };
    const int64_t dim[4] = {2, 12, 4, 6};

    (void)unused;
    for (size_t i = 0; i < COUNT(build); i++)
        check_build(build[i], dim);
}

/* ---- views move the right elements --------------------------------- */

/* x is its own index, so every result shows where it came from. */
static struct infer_array run_counted(build_fn *build, const int64_t *dim)
{
    struct graph *g = graph_new();
    uint64_t state = 1;
    struct infer_array x = array_of(&state, 4, dim), y;
    int v = input(g, "x", 4, dim);

    for (size_t i = 0; i < x.bytes / 4; i++)
        ((float *)x.data)[i] = (float)i;
    y = run_graph(g, build(g, &state, v), INFER_BACKEND_REF, &x);
    free(x.data);
    return y;
}

static void test_moves(void **unused)
{
    const int64_t dim[4] = {2, 12, 4, 6};
    struct infer_array y = run_counted(build_tile, dim);
    const float *f = y.data;

    (void)unused;
    assert_int_equal(y.bytes, 4 * 2 * 24 * 12 * 12);
    for (int i = 0; i < 2 * 24 * 12 * 12; i++) {
        int w = i % 12 % 6, h = i / 12 % 12 % 4, c = i / 144 % 24 % 12;

        assert_true(f[i] == (float)(((i / 3456 * 12 + c) * 4 + h) * 6 + w));
    }
    free(y.data);
    y = run_counted(build_depth, dim);
    f = y.data;
    assert_int_equal(y.bytes, 4 * 2 * 3 * 8 * 12);
    /* Blocks to space and back (depth-column-row), then out again in the
     * other order: N,C',H,b,W,b <- N,C',b,b,H,W. */
    for (int i = 0; i < 2 * 3 * 8 * 12; i++) {
        int w = i % 12, h = i / 12 % 8, c = i / 96 % 3, n = i / 288;
        int channel = (c * 2 + h % 2) * 2 + w % 2;

        assert_true(f[i] ==
                    (float)(((n * 12 + channel) * 4 + h / 2) * 6 + w / 2));
    }
    free(y.data);
    y = run_counted(build_turns, dim);
    f = y.data;
    assert_int_equal(y.bytes, 4 * 2 * 12 * 4 * 6);
    for (int i = 0; i < 2 * 12 * 4 * 6; i++) {
        int pixel = i % 24, c = i / 24 % 12, n = i / 288;

        assert_true(f[i] == (float)((n * 12 + c % 3 * 4 + c / 3) * 24 + pixel));
    }
    free(y.data);
}

/* Constant indices: 10, 7 and 4 go backwards and are gathered; -10, -7 and 8,
 * of twelve, are evenly spaced and a view. */
static int build_gather(struct graph *g, uint64_t *state, int x)
{
    static const int64_t back[3] = {10, 7, 4}, even[3] = {-10, -7, 8};
    const int64_t three[1] = {3};
    int node, both[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct constant *c = constant_new(INFER_I64, 1, three);

        assert_non_null(c);
        memcpy(c->data, i ? even : back, sizeof even);
        const int index = graph_add_constant(g, NULL, c);
        both[i] =
            add(g, GRAPH_GATHER, i ? "even" : "back", IN(x, index), &node);
        g->node[node].attr.axis.axis = 1;
    }
    return add_concat(g, "both", both, 2, 1);
}

static void test_gather(void **unused)
{
    static const int from[6] = {10, 7, 4, 2, 5, 8};
    static const int64_t dim[4] = {2, 12, 4, 6};
    struct infer_array y = run_counted(build_gather, dim);
    struct graph *g = graph_new();
    uint64_t state = 1;
    const float *f = y.data;

    (void)unused;
    assert_int_equal(y.bytes, 4 * 2 * 6 * 24);
    for (int i = 0; i < 2 * 6 * 24; i++)
        assert_true(f[i] ==
                    (float)((i / 144 * 12 + from[i / 24 % 6]) * 24 + i % 24));
    free(y.data);
    graph_add_output(g, build_gather(g, &state, input(g, "x", 4, dim)));
    struct infer_model *model = model_of(g);
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    assert_int_equal(count_layers(s, "gather"), 1);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- concatenation ------------------------------------------------- */

static int copies_of(build_fn *build)
{
    struct graph *g = graph_new();
    uint64_t state = 1;
    struct infer_model *model;
    struct infer_session *s;
    int x = input(g, "x", DIMS(2, 12, 4, 6)), v, n;

    v = add_unary(g, "first", x, KERN_RELU);
    v = build(g, &state, v);
    graph_add_output(g, v);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_REF, false);
    n = count_layers(s, "copy");
    infer_session_close(&s);
    infer_model_close(&model);
    return n;
}

static void test_blocks_in_place(void **unused)
{
    (void)unused;
    assert_int_equal(copies_of(build_dense_block), 0);
    assert_int_equal(copies_of(build_nested_block), 0);
    /* Parts that are views, or stand twice in it, are copied. */
    assert_int_equal(copies_of(build_split), 3);
}

/* The mean of many pixels far from zero: its error must not grow with their
 * number.  Added one after the other it is 1e-5 here. */
static void test_large_mean(void **unused)
{
    const int64_t dim[4] = {1, 83, 96, 97};
    uint64_t state = 9;
    struct infer_array x = array_of(&state, 4, dim), y[2];

    (void)unused;
    for (size_t i = 0; i < x.bytes / sizeof(float); i++)
        ((float *)x.data)[i] = 1 + 0.01f * ((float *)x.data)[i];
    for (int k = 0; k < 2; k++) {
        struct graph *g = graph_new();
        int node, v = add(g, GRAPH_POOL, "p", IN(input(g, "x", 4, dim)), &node);

        g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
        y[k] = run_graph(g, v, k ? INFER_BACKEND_AUTO : INFER_BACKEND_REF, &x);
    }
    assert_close(&y[1], &y[0], 4e-7);
    free(y[0].data);
    free(y[1].data);
    free(x.data);
}

/* ---- views of five dimensions -------------------------------------- */

/* Groups of channels, each with a factor of its own, summed (ResNeSt). */
static int build_groups(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_RESHAPE, "r", IN(x), &node);

    g->node[node].attr.dims =
        (struct graph_dims){.n = 5, .dim = {0, 3, 4, 4, 6}};
    v = add_binary(g, "scaled", v, weights(g, state, DIMS(1, 3, 4, 1, 1)),
                   KERN_MUL);
    v = add(g, GRAPH_REDUCE, "sum", IN(v), &node);
    g->node[node].attr.reduce = (struct graph_reduce){
        .kind = KERN_REDUCE_SUM, .n_axes = 1, .axis = {1}};
    return add_conv(g, state, "after", v, 4, 8, 3, 1, 1, -1);
}

/* The same on a GPU that is only described. */
static int copies_on_gpu(struct infer_model *model)
{
    const struct graph_shape shape = {4, {2, 12, 4, 6}};
    struct plan *plan =
        plan_for_gpu(model, &shape, INFER_BACKEND_CUDA, INFER_PRECISION_FP16);
    int copies = 0;

    for (int i = 0; i < plan->steps.n; i++)
        copies += plan->steps.at[i]->exec.problem.op == KERN_COPY;
    plan_free(plan);
    return copies;
}

/* What is computed of such a view lies as its elements do: between the
 * convolutions nothing is copied. */
static void test_groups(void **unused)
{
    struct graph *g = graph_new();
    uint64_t state = 3;
    int v = input(g, "x", 4, (int64_t[]){2, 12, 4, 6});

    (void)unused;
    check_build(build_groups, (int64_t[]){2, 12, 4, 6});
    if (!device_has_rows(INFER_BACKEND_ONEDNN)) {
        graph_free(g);
        skip();
    }
    v = add_conv(g, &state, "before", v, 12, 12, 3, 1, 1, -1);
    graph_add_output(g, build_groups(g, &state, v));
    struct infer_model *model = model_of(g);
    struct infer_session *s = session_of(model, INFER_BACKEND_AUTO, false);
    /* To channels last at the start, and back at the end. */
    assert_true(count_layers(s, "copy") <= 2);
    infer_session_close(&s);
    if (device_has_rows(INFER_BACKEND_CUDA))
        assert_true(copies_on_gpu(model) <= 2);
    infer_model_close(&model);
}

/* A reduction of a view, of which one entry an axis is left: its output lies in
 * the order of the view. */
TEST(test_reduced_view)
{
    const int64_t dim[] = {2, 3, 4};
    const enum infer_backend backend[] = {INFER_BACKEND_REF,
                                          INFER_BACKEND_AUTO};
    uint64_t state = 3;
    struct infer_array x = array_of(&state, 3, dim);

    for (int k = 0; k < 2; k++) {
        struct graph *g = graph_new();
        int node, v = input(g, "x", 3, dim);
        struct infer_array y;

        v = add(g, GRAPH_TRANSPOSE, "view", IN(v), &node);
        g->node[node].attr.dims = (struct graph_dims){3, {2, 0, 1}};
        v = add(g, GRAPH_REDUCE, "most", IN(v), &node);
        g->node[node].attr.reduce = (struct graph_reduce){
            .kind = KERN_REDUCE_MAX, .n_axes = 1, .axis = {1}};
        y = run_graph(g, v, backend[k], &x);
        assert_int_equal(y.rank, 2);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 3; j++) {
                const float *a = (const float *)x.data + j * 4 + i;

                assert_float_equal(((const float *)y.data)[i * 3 + j],
                                   fmaxf(a[0], a[12]), 0);
            }
        free(y.data);
    }
    free(x.data);
}

/* Integers by gemmlowp's definition: the first two are the sum and the factor
 * of a convolution of PoseNet, whose product in single precision is rounded up.
 * Negative halves tell two roundings from one. */
TEST(test_requantize)
{
    static const float values[] = {14942, -14942, 1, -1, 3, -3, 6, -6, 5, -5};
    static const struct {
        int32_t multiplier, shift;
        bool once;
        float want[10];
    } cases[] = {
        {1526823164, -8, false, {41, -41, 0, 0, 0, 0, 0, 0, 0, 0}},
        {1 << 30, 0, false, {7471, -7471, 1, 0, 2, -1, 3, -3, 3, -2}},
        {1 << 30, -1, false, {3736, -3736, 1, 0, 1, -1, 2, -2, 2, -1}},
        {1 << 30, 2, false, {29884, -29884, 2, -2, 6, -6, 12, -12, 10, -10}},
        {1 << 30, -1, true, {3736, -3735, 0, 0, 1, -1, 2, -1, 1, -1}},
        {1 << 30, 2, true, {29884, -29884, 2, -2, 6, -6, 12, -12, 10, -10}},
        {INT32_MAX, -3, true, {1868, -1868, 0, 0, 0, 0, 1, -1, 1, -1}},
    };
    const enum infer_backend backend[] = {INFER_BACKEND_REF,
                                          INFER_BACKEND_AUTO};
    const int64_t dim[] = {1, 10}, one = 1;
    struct infer_array x = {
        .dtype = INFER_F32, .rank = 2, .dim = {1, 10}, .bytes = sizeof values};

    x.data = (void *)values;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct graph *g = graph_new();
        int node, v = input(g, "x", 2, dim), factor[2], added;
        struct infer_array y;

        for (int k = 0; k < 2; k++) {
            struct constant *c = constant_new(INFER_I32, 1, &one);
            int32_t *to = (int32_t *)(void *)c->data;

            to[0] = k == 0 ? cases[i / 2].multiplier : cases[i / 2].shift;
            factor[k] = graph_add_constant(g, k == 0 ? "m" : "s", c);
        }
        /* The result as I32, to which the same is added. */
        added =
            add(g, GRAPH_REQUANTIZE, "a", IN(v, factor[0], factor[1]), &node);
        g->node[node].attr.requantize.requantize.once = cases[i / 2].once;
        g->node[node].attr.requantize.to = INFER_I32;
        v = add(g, GRAPH_REQUANTIZE, "y", IN(v, factor[0], factor[1], added),
                &node);
        g->node[node].attr.requantize.requantize.once = cases[i / 2].once;
        g->node[node].attr.requantize.requantize.low = -5000;
        y = run_graph(g, v, backend[i % 2], &x);
        for (int k = 0; k < 10; k++)
            assert_float_equal(((const float *)y.data)[k],
                               fmaxf(-5000, 2 * cases[i / 2].want[k]), 0);
        free(y.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_requantize),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_blocks_in_place),
        cmocka_unit_test(test_large_mean),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_reduced_view),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
