/* SPDX-License-Identifier: Apache-2.0 */
/* What lies under a session: the arena, views, and random networks whose
 * results must not depend on how memory is shared. */
#include "tests/unit/network.h"

#include "kernels/factors.h"
#include "kernels/kern.h"
#include "libinfer/arena.h"
#include "libinfer/device.h"
#include "libinfer/packed.h"
#include "libinfer/plan.h"
#include "libinfer/view.h"

/* ---- arena --------------------------------------------------------- */

static void check_arena(const struct arena_item *item, int n, size_t total)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(item[i].offset % ARENA_ALIGN, 0);
        assert_true(item[i].offset + item[i].bytes <= total);
        for (int k = 0; k < i; k++) {
            bool together =
                item[i].first <= item[k].last && item[k].first <= item[i].last;
            bool apart = item[i].offset + item[i].bytes <= item[k].offset ||
                         item[k].offset + item[k].bytes <= item[i].offset;

            if (together && !apart)
                fail_msg("items %d and %d overlap", i, k);
        }
    }
}

static void test_arena_random(void **unused)
{
    struct arena_item item[60];
    uint64_t state = 3;

    (void)unused;
    for (int round = 0; round < 200; round++) {
        int n = 1 + random_below(&state, 60);
        size_t total, alone, live, most = 0;

        for (int i = 0; i < n; i++) {
            item[i].bytes = (size_t)random_below(&state, 5000);
            item[i].first = random_below(&state, 40) - 1;
            item[i].last = item[i].first + random_below(&state, 10);
        }
        assert_int_equal(arena_place(item, n, 0, NULL, &alone), 0);
        check_arena(item, n, alone);
        assert_int_equal(arena_place(item, n, 1, NULL, &total), 0);
        check_arena(item, n, total);
        assert_true(total <= alone);
        for (int step = -1; step < 50; step++) {
            live = 0;
            for (int i = 0; i < n; i++)
                if (item[i].first <= step && step <= item[i].last)
                    live += (item[i].bytes + 63) / 64 * 64;
            most = live > most ? live : most;
        }
        assert_true(total >= most);
        assert_true(total <= 2 * most + 64);
    }
}

/* A chain needs two buffers, whatever its length. */
static void test_arena_chain(void **unused)
{
    struct arena_item item[100];
    size_t total;

    (void)unused;
    for (int i = 0; i < 100; i++)
        item[i] = (struct arena_item){.bytes = 1000, .first = i, .last = i + 1};
    assert_int_equal(arena_place(item, 100, 1, NULL, &total), 0);
    assert_int_equal(total, 2 * 1024);
    check_arena(item, 100, total);
}

static void test_arena_overflow(void **unused)
{
    struct arena_item item[2] = {{.bytes = SIZE_MAX - 100, .last = 1},
                                 {.bytes = SIZE_MAX / 2, .last = 1}};
    struct infer_error err;
    size_t total;

    (void)unused;
    assert_int_equal(arena_place(item, 2, 1, &err, &total), INFER_EMEMORY);
    item[0].bytes = SIZE_MAX;
    assert_int_equal(arena_place(item, 1, 1, &err, &total), INFER_EMEMORY);
}

/* ---- views --------------------------------------------------------- */

static struct view dense(int rank, const int64_t *dim, enum kern_layout layout)
{
    struct view v;
    size_t bytes;

    assert_int_equal(view_dense(0, INFER_F32, rank, dim, layout, &bytes, &v),
                     0);
    return v;
}

/* Element number i in logical order lies there. */
static int64_t place_of(const struct view *v, int64_t i)
{
    int64_t at = v->offset;

    for (int k = v->t.rank - 1; k >= 0; k--) {
        at += i % v->t.dim[k] * v->t.stride[k];
        i /= v->t.dim[k];
    }
    return at;
}

/* A reshape that succeeds keeps every element where it is. */
static void check_reshape(const struct view *v, bool possible, int rank,
                          const int64_t *dim)
{
    struct view w;

    assert_int_equal(view_reshape(v, rank, dim, &w), possible);
    if (!possible)
        return;
    assert_int_equal(w.t.rank, rank);
    assert_int_equal(kern_tensor_count(&w.t), kern_tensor_count(&v->t));
    for (int64_t i = 0; i < kern_tensor_count(&v->t); i++)
        assert_int_equal(place_of(v, i), place_of(&w, i));
}

static void test_reshape(void **unused)
{
    struct view nchw = dense(DIMS(2, 6, 4, 5), KERN_NCHW);
    struct view nhwc = dense(DIMS(2, 6, 4, 5), KERN_NHWC);
    struct view pooled = dense(DIMS(2, 6, 1, 1), KERN_NHWC);
    struct view flat = dense(DIMS(240), KERN_NCHW);
    struct view part = view_slice(&nchw, 1, 2, 1, 3);
    struct view every = view_slice(&nchw, 3, 4, -2, 3);
    struct view scalar = dense(0, NULL, KERN_NCHW);
    struct view none = dense(DIMS(2, 0, 3), KERN_NCHW);

    (void)unused;
    check_reshape(&nchw, true, DIMS(2, 120));
    check_reshape(&nchw, true, DIMS(240));
    check_reshape(&nchw, true, DIMS(1, 2, 1, 2, 3, 20, 1));
    check_reshape(&nchw, true, DIMS(12, 20));
    check_reshape(&flat, true, DIMS(2, 3, 4, 5, 2));
    check_reshape(&nhwc, true, DIMS(2, 6, 20));
    check_reshape(&nhwc, true, DIMS(2, 2, 3, 4, 5));
    check_reshape(&nhwc, false, DIMS(2, 120));
    check_reshape(&nhwc, false, DIMS(12, 20));
    check_reshape(&pooled, true, DIMS(2, 6));
    check_reshape(&pooled, true, DIMS(12));
    check_reshape(&part, true, DIMS(2, 60));
    check_reshape(&part, false, DIMS(120));
    check_reshape(&every, true, DIMS(48, 3));
    check_reshape(&every, false, DIMS(144));
    check_reshape(&scalar, true, DIMS(1, 1, 1));
    check_reshape(&none, false, DIMS(0));
}

static void test_layout(void **unused)
{
    struct view nchw = dense(DIMS(2, 6, 4, 5), KERN_NCHW);
    struct view nhwc = dense(DIMS(2, 6, 4, 5), KERN_NHWC);
    struct view part = view_slice(&nhwc, 1, 1, 1, 3);
    int64_t huge[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 0};
    size_t bytes;
    struct view v;

    (void)unused;
    assert_int_equal(view_layout(&nchw.t), KERN_NCHW);
    assert_int_equal(view_layout(&nhwc.t), KERN_NHWC);
    assert_int_equal(view_layout(&part.t), KERN_NHWC);
    part = view_slice(&nchw, 1, 1, 1, 3);
    assert_int_equal(view_layout(&part.t), KERN_NCHW);
    assert_true(view_dense(0, INFER_F32, 3, huge, KERN_NCHW, &bytes, &v) < 0);
    assert_int_equal(
        view_dense(0, INFER_F32, DIMS(3, 0), KERN_NCHW, &bytes, &v), 0);
    assert_int_equal(bytes, 0);
}

/* Merging dimensions keeps the pairs of places of a copy. */
static void test_coalesce(void **unused)
{
    struct view a = dense(DIMS(2, 6, 4, 5), KERN_NCHW);
    struct view b = dense(DIMS(2, 6, 4, 5), KERN_NHWC), c = a, d = b;

    (void)unused;
    view_coalesce(&c.t, &d.t);
    assert_int_equal(c.t.rank, 3);
    for (int64_t i = 0; i < 240; i++) {
        assert_int_equal(place_of(&a, i), place_of(&c, i));
        assert_int_equal(place_of(&b, i), place_of(&d, i));
    }
    c = d = a;
    view_coalesce(&c.t, &d.t);
    assert_int_equal(c.t.rank, 1);
    c = d = dense(DIMS(1, 1), KERN_NCHW);
    view_coalesce(&c.t, &d.t);
    assert_int_equal(c.t.rank, 1);
    assert_int_equal(c.t.dim[0], 1);
}

static void test_gather_view(void **unused)
{
    float from[24], to[24];
    struct view v = dense(DIMS(2, 3, 4), KERN_NCHW);
    const int64_t order[3] = {2, 0, 1};

    (void)unused;
    for (int i = 0; i < 24; i++)
        from[i] = (float)i;
    v = view_permute(&v, order);
    v = view_slice(&v, 0, 3, -3, 2);
    assert_int_equal(view_reach_below(&v.t), 3);
    view_gather(&v.t, from + v.offset, INFER_F32, to);
    for (int i = 0; i < 12; i++) {
        int w = i / 6 == 0 ? 3 : 0, n = i / 3 % 2, c = i % 3;

        assert_true(to[i] == (float)(n * 12 + c * 4 + w));
    }
}

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

static int build_shuffle(struct graph *g, uint64_t *state, int x)
{
    int node, v = add(g, GRAPH_RESHAPE, "r", IN(x), &node);

    g->node[node].attr.dims =
        (struct graph_dims){.n = 5, .dim = {0, 3, 4, 4, 6}};
    v = add(g, GRAPH_TRANSPOSE, "t", IN(v), &node);
    g->node[node].attr.dims =
        (struct graph_dims){.n = 5, .dim = {0, 2, 1, 3, 4}};
    v = add(g, GRAPH_RESHAPE, "q", IN(v), &node);
    g->node[node].attr.dims = (struct graph_dims){.n = 4, .dim = {0, 12, 4, 6}};
    return add_conv(g, state, "after", v, 12, 12, 3, 1, 12, -1);
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

/* Squeeze and excite: the scale broadcasts over space. */
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
static int build_factors(struct graph *g, uint64_t *state, int x)
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

static void test_operations(void **unused)
{
    static build_fn *const build[] = {
        build_slice,        build_shuffle,   build_flatten, build_split,
        build_tile,         build_expand,    build_depth,   build_excite,
        build_pointwise,    build_resample,  build_matmul,  build_dense_block,
        build_nested_block, build_epilogues, build_factors, build_products,
    };
    const int64_t dim[4] = {2, 12, 4, 6};

    (void)unused;
    for (size_t i = 0; i < sizeof build / sizeof build[0]; i++)
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
    /* Blocks to space and back (depth-column-row), then out again in the
     * other order: N,C',H,b,W,b <- N,C',b,b,H,W. */
    for (int i = 0; i < 2 * 3 * 8 * 12; i++) {
        int w = i % 12, h = i / 12 % 8, c = i / 96 % 3, n = i / 288;
        int channel = (c * 2 + h % 2) * 2 + w % 2;

        assert_true(f[i] ==
                    (float)(((n * 12 + channel) * 4 + h / 2) * 6 + w / 2));
    }
    free(y.data);
    y = run_counted(build_shuffle, dim);
    free(y.data);
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

/* ---- factors of a convolution's input ------------------------------ */

/* How a GPU would run a model in half precision; no GPU is needed to plan. */
static struct plan *plan_for_gpu(struct infer_model *model,
                                 const struct graph_shape *shape)
{
    static const struct device_ops ops = {.name = "planned"};
    static const struct device gpu = {.ops = &ops,
                                      .kern = {.kind = KERN_CUDA,
                                               .sm = 90,
                                               .threads = 1,
                                               .multiprocessors = 132,
                                               .shared_per_block_optin = 232448,
                                               .l2_bytes = 50 << 20}};
    static struct plan_config config = {.device = &gpu,
                                        .backend = {INFER_BACKEND_CUDA},
                                        .n_backends = 1,
                                        .strict = true,
                                        .precision = INFER_PRECISION_FP16};
    struct infer_error err = {0};
    struct plan *plan;

    config.model = model;
    if (plan_new(&config, shape, &err, &plan) < 0)
        fail_msg("%s", err.text);
    return plan;
}

/* Convolutions with factors in a plan for so many images of 16x56x56, whose
 * products they replace. */
static int count_folded(int64_t images)
{
    const struct graph_shape shape[] = {{4, {images, 16, 56, 56}},
                                        {4, {images, 16, 1, 1}}};
    struct infer_model *model;
    struct graph *g = graph_new();
    struct plan *plan;
    uint64_t state = 3;
    int x, v, folded = 0, products = 0;

    x = input(g, "x", 4, shape[0].dim);
    v = input(g, "s", 4, shape[1].dim);
    x = add_conv(g, &state, "before", x, 16, 16, 3, 1, 1, -1);
    v = add_binary(g, "product", x, v, KERN_MUL);
    graph_add_output(g, add_conv(g, &state, "y", v, 16, 16, 1, 1, 1, x));
    model = model_of(g);
    plan = plan_for_gpu(model, shape);
    for (int i = 0; i < plan->n_steps; i++) {
        products += plan->step[i]->exec.problem.op == KERN_BINARY;
        folded += factors_of(&plan->step[i]->exec.problem) != NULL;
    }
    assert_int_equal(folded + products, 1);
    plan_free(plan);
    infer_model_close(&model);
    return folded;
}

static void test_factors_gpu(void **unused)
{
    (void)unused;
    if (!device_has_rows(INFER_BACKEND_CUDA))
        skip();
    assert_int_equal(count_folded(128), 1);
    assert_int_equal(count_folded(2), 0);
}

/* ---- packed constants ---------------------------------------------- */

/* Packs by adding the problem's flag `deterministic` to every byte, so that
 * two problems may or may not come to the same bytes. */
static int pack_bytes(const struct kern_exec *e, int i, const void *src,
                      void *dst, struct infer_error *err)
{
    (void)err;
    for (size_t k = 0; k < e->packed[i]; k++)
        ((unsigned char *)dst)[k] =
            (unsigned char)(((const unsigned char *)src)[k] +
                            e->problem.deterministic);
    return 0;
}

static void test_packed_shared(void **unused)
{
    const struct kern_row row = {.name = "packer", .pack = pack_bytes};
    const int64_t dim[1] = {16};
    struct packed_cache *cache = packed_cache_new(2);
    struct constant *c = constant_new(INFER_F32, 1, dim);
    struct packed *plain, *wide, *a, *b, *again, *other;
    struct kern_exec e;
    struct device d;

    (void)unused;
    assert_int_equal(device_open(NULL, 1, NULL, NULL, &d), 0);
    memset(&e, 0, sizeof e);
    e.row = &row;
    e.problem.in[1] = kern_tensor_dense(INFER_F32, 1, dim, KERN_NCHW);
    e.problem.in[0] = kern_tensor_dense(INFER_F32, 1, dim, KERN_NCHW);
    e.packed[1] = 64;
    /* Another batch, the same bytes: one entry. */
    assert_int_equal(packed_for(cache, 1, c, &e, 1, 0, &d, NULL, &a), 0);
    assert_int_equal(packed_for(cache, 1, c, &e, 1, 0, &d, NULL, &again), 0);
    assert_ptr_equal(a, again);
    e.problem.in[0].dim[0] = 2;
    assert_int_equal(packed_for(cache, 1, c, &e, 1, 0, &d, NULL, &b), 0);
    assert_ptr_equal(a, b);
    /* Other bytes: another. */
    e.problem.deterministic = true;
    assert_int_equal(packed_for(cache, 1, c, &e, 1, 0, &d, NULL, &other), 0);
    assert_ptr_not_equal(a, other);
    assert_int_equal(((const char *)packed_data(other))[63], 1);
    assert_int_equal(packed_bytes(a), 64);
    /* Memory that is there is used where it is; another type is not. */
    assert_int_equal(packed_plain(cache, 1, c, INFER_F32, &d, NULL, &plain), 0);
    assert_ptr_equal(packed_data(plain), c->data);
    assert_int_equal(packed_plain(cache, 1, c, INFER_F64, &d, NULL, &wide), 0);
    assert_int_equal(packed_bytes(wide), 128);
    packed_unref(cache, a);
    packed_unref(cache, again);
    packed_unref(cache, b);
    packed_unref(cache, other);
    packed_unref(cache, plain);
    packed_unref(cache, wide);
    packed_unref(cache, NULL);
    packed_cache_free(cache);
    constant_unref(c);
}

/* ---- random networks ----------------------------------------------- */

struct random_net {
    struct graph *g;
    uint64_t *state;
    int value[64];
    int channels[64];
    int n;
};

static int pick(struct random_net *r)
{
    return random_below(r->state, r->n);
}

static void push(struct random_net *r, int value, int channels)
{
    r->value[r->n] = value;
    r->channels[r->n++] = channels;
}

/* One more node on values of N,C,6,6. */
static void grow_network(struct random_net *r)
{
    int i = pick(r), k = pick(r), c = r->channels[i], v, node;
    int in[3] = {r->value[i], r->value[k], r->value[pick(r)]};

    switch (random_below(r->state, 9)) {
    case 0:
        push(r, add_conv(r->g, r->state, NULL, in[0], c, 4, 3, 1, 1, -1), 4);
        break;
    case 1: /* a residual of the right width, where there is one */
        if (r->channels[k] != c)
            break;
        v = add_conv(r->g, r->state, NULL, in[0], c, c, 1, 1, 1, in[1]);
        node = r->g->n_nodes - 1;
        r->g->node[node].epilogue.act = graph_unary(KERN_RELU);
        r->g->node[node].epilogue.residual_last = random_below(r->state, 2);
        push(r, v, c);
        break;
    case 2:
        push(r, add_unary(r->g, NULL, in[0], KERN_TANH), c);
        break;
    case 3:
        if (r->channels[k] == c)
            push(r, add_binary(r->g, NULL, in[0], in[1], KERN_SUB), c);
        break;
    case 4:
        if (c + r->channels[k] <= 24)
            push(r, add_concat(r->g, NULL, in, 2, 1), c + r->channels[k]);
        break;
    case 5:
        v = add(r->g, GRAPH_SLICE, NULL, IN(in[0]), &node);
        r->g->node[node].attr.slice.n_axes = 1;
        r->g->node[node].attr.slice.axis[0] = 1;
        r->g->node[node].attr.slice.begin[0] = c / 2;
        push(r, v, c - c / 2);
        break;
    case 6:
        v = add(r->g, GRAPH_POOL, NULL, IN(in[0]), &node);
        for (int d = 0; d < 2; d++) {
            r->g->node[node].attr.pool.pool.window[d] = 3;
            r->g->node[node].attr.pool.pool.pad_begin[d] = 1;
            r->g->node[node].attr.pool.pool.pad_end[d] = 1;
        }
        push(r, v, c);
        break;
    case 7: /* space transposed: square, so the shape stays */
        v = add(r->g, GRAPH_TRANSPOSE, NULL, IN(in[0]), &node);
        r->g->node[node].attr.dims =
            (struct graph_dims){.n = 4, .dim = {0, 1, 3, 2}};
        push(r, v, c);
        break;
    case 8:
        v = add(r->g, GRAPH_SCALE_SHIFT, NULL,
                IN(in[0], weights(r->g, r->state, DIMS(c)),
                   weights(r->g, r->state, DIMS(c))),
                NULL);
        push(r, v, c);
        break;
    }
}

static struct graph *random_network(uint64_t *state, int *n_outputs)
{
    struct random_net r = {.g = graph_new(), .state = state};

    push(&r, input(r.g, "x", DIMS(-1, 4, 6, 6)), 4);
    for (int tries = 0; tries < 60 && r.n < 40; tries++)
        grow_network(&r);
    *n_outputs = 1 + random_below(state, 3);
    for (int i = 0; i < *n_outputs; i++)
        graph_add_output(r.g, r.value[r.n - 1 - i]);
    return r.g;
}

/* Biases, scales and statistics stay in single precision beside halves;
 * activations and what is added to them do not. */
static void test_vectors(void **unused)
{
    (void)unused;
    assert_true(plan_is_vector(KERN_CONV_FPROP, 2));
    assert_false(plan_is_vector(KERN_CONV_FPROP, 1));
    assert_false(plan_is_vector(KERN_CONV_FPROP, 3));
    assert_true(plan_is_vector(KERN_SCALE_SHIFT, 2));
    assert_false(plan_is_vector(KERN_SCALE_SHIFT, 3));
    assert_true(plan_is_vector(KERN_BATCH_NORM, 4));
    assert_false(plan_is_vector(KERN_BATCH_NORM, 5));
    assert_false(plan_is_vector(KERN_BINARY, 1));
}

/* Sharing memory, overwriting inputs and building concatenations in place
 * change no bit; the fast backend agrees within rounding. */
static void test_random_networks(void **unused)
{
    uint64_t state = 20240611;

    (void)unused;
    for (int round = 0; round < 60; round++) {
        int n_outputs;
        struct infer_model *model =
            model_of(random_network(&state, &n_outputs));
        struct infer_session *kept = session_of(model, INFER_BACKEND_REF, true);
        struct infer_session *ref = session_of(model, INFER_BACKEND_REF, false);
        struct infer_session *fast =
            session_of(model, INFER_BACKEND_AUTO, false);
        struct infer_array x = array_of(&state, DIMS(1 + round % 2, 4, 6, 6));

        for (int i = 0; i < n_outputs; i++) {
            struct infer_array a = run(kept, &x, 1, i), b = run(ref, &x, 1, i),
                               c = run(fast, &x, 1, i);

            if (memcmp(a.data, b.data, a.bytes) != 0)
                fail_msg("round %d: output %d differs without reuse", round, i);
            assert_close(&c, &a, 1e-4);
            free(a.data);
            free(b.data);
            free(c.data);
        }
        free(x.data);
        infer_session_close(&kept);
        infer_session_close(&ref);
        infer_session_close(&fast);
        infer_model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_random),
        cmocka_unit_test(test_arena_chain),
        cmocka_unit_test(test_arena_overflow),
        cmocka_unit_test(test_reshape),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_coalesce),
        cmocka_unit_test(test_gather_view),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_blocks_in_place),
        cmocka_unit_test(test_factors_gpu),
        cmocka_unit_test(test_packed_shared),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_random_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
