/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that are run in parts: which are, and that nothing shows of it. */
#include "tests/unit/runtime/network.h"

#include "kernels/base/scalar.h"
#include "libinfer/session.h"

/* ---- a network whose activations outweigh its weights --------------- */

#define CHANNELS 64
#define SIDE     32

/* Convolutions with a residual, batch norm, pool, concat, a gate by global
 * pool, dense, softmax over the classes.  Batch free; two outputs. */
static struct graph *wide_network(void)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int node, x, a, b, y, w;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 3, SIDE, SIDE));
    a = add_conv(g, &state, "stem", x, 3, CHANNELS, 3, 1, 1, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    b = add_conv(g, &state, "deep", a, CHANNELS, CHANNELS, 3, 1, CHANNELS, a);
    w = weights(g, &state, DIMS(CHANNELS));
    y = add(g, GRAPH_SCALE_SHIFT, "scaled", IN(b, w, w), NULL);
    y = add_concat(g, "joined", IN(a, y), 1);
    a = add(g, GRAPH_POOL, "mean", IN(y), &node);
    g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    a = add_unary(g, "gate", a, KERN_SIGMOID);
    y = add_binary(g, "gated", y, a, KERN_MUL);
    y = add_conv(g, &state, "last", y, 2 * CHANNELS, 4, 1, 1, 1, -1);
    assert_true(graph_add_output(g, y) >= 0);
    y = add(g, GRAPH_FLATTEN, "flat", IN(y), NULL);
    w = weights(g, &state, DIMS(10, 4 * SIDE * SIDE));
    y = add(g, GRAPH_DENSE, "classes", IN(y, w), NULL);
    y = add(g, GRAPH_SOFTMAX, "y", IN(y), &node);
    g->node[node].attr.axis.axis = 1;
    assert_true(graph_add_output(g, y) >= 0);
    return g;
}

static struct infer_session *open_session(struct infer_model *model,
                                          enum infer_backend backend,
                                          int threads, bool keep)
{
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_error err = {0};

    infer_session_options_init(&o);
    o.backend = backend;
    o.threads = threads;
    o.keep_tensors = keep;
    if (infer_session_create(model, &o, &err, &s) < 0)
        fail_msg("%s", err.text);
    return s;
}

static void assert_same(const struct infer_array *a,
                        const struct infer_array *b)
{
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, sizeof a->dim);
    assert_memory_equal(a->data, b->data, a->bytes);
}

/* ---- results ------------------------------------------------------- */

/* With the reference the parts give the bits of the whole.  Batches that parts
 * divide and that they do not; back to one seen before. */
TEST(test_same_as_whole)
{
    static const int64_t batches[] = {4, 5, 7, 9, 4};
    struct infer_model *model = model_of(wide_network());
    struct infer_session *whole =
        open_session(model, INFER_BACKEND_REF, 1, true);
    uint64_t seed = 7;
    size_t i;

    for (int threads = 1; threads < 4; threads++) {
        struct infer_session *parts =
            open_session(model, INFER_BACKEND_REF, threads, false);

        for (i = 0; i < COUNT(batches); i++) {
            struct infer_array x =
                array_of(&seed, DIMS(batches[i], 3, SIDE, SIDE));

            for (int k = 0; k < 2; k++) {
                struct infer_array a = run(whole, &x, 1, k);
                struct infer_array b = run(parts, &x, 1, k);

                assert_null(whole->whole);
                assert_same(&a, &b);
                assert_int_equal(b.dim[0], batches[i]);
                free(a.data);
                free(b.data);
            }
            if (threads == 1)
                assert_non_null(parts->whole);
            free(x.data);
        }
        infer_session_close(&parts);
    }
    infer_session_close(&whole);
    infer_model_close(&model);
}

/* With the fastest backend an image has the same bits in any batch. */
TEST(test_same_as_single)
{
    struct infer_model *model = model_of(wide_network());
    struct infer_session *parts =
        open_session(model, INFER_BACKEND_AUTO, 1, false);
    struct infer_session *single =
        open_session(model, INFER_BACKEND_AUTO, 1, false);
    uint64_t seed = 11;
    const int64_t batch = 11;
    struct infer_array x = array_of(&seed, DIMS(batch, 3, SIDE, SIDE));
    struct infer_array all, one, in = x;

    all = run(parts, &x, 1, 0);
    assert_non_null(parts->whole);
    /* The network was made for it: an image a part. */
    assert_int_equal(parts->whole->images, 1);
    in.dim[0] = 1;
    in.bytes = x.bytes / (size_t)batch;
    for (int64_t i = 0; i < batch; i++) {
        in.data = (unsigned char *)x.data + (size_t)i * in.bytes;
        one = run(single, &in, 1, 0);
        assert_memory_equal((unsigned char *)all.data + (size_t)i * one.bytes,
                            one.data, one.bytes);
        free(one.data);
    }
    free(all.data);
    free(x.data);
    infer_session_close(&parts);
    infer_session_close(&single);
    infer_model_close(&model);
}

/* The image of a batch, alone, in a session of its own. */
static struct infer_array alone(struct infer_model *model,
                                const struct infer_session_options *o,
                                const struct infer_array *x, int64_t i)
{
    struct infer_session *s = NULL;
    struct infer_array in = *x, out;

    in.dim[0] = 1;
    in.bytes = x->bytes / (size_t)x->dim[0];
    in.data = (unsigned char *)x->data + (size_t)i * in.bytes;
    assert_int_equal(infer_session_create(model, o, NULL, &s), 0);
    out = run(s, &in, 1, 0);
    infer_session_close(&s);
    return out;
}

/* With `deterministic` an image has the same bits alone and in any batch, on
 * any number of threads. */
TEST(test_deterministic)
{
    static const int64_t batches[] = {2, 3, 7};
    struct infer_model *model = model_of(wide_network());
    struct infer_session_options o;
    uint64_t seed = 19;

    for (size_t i = 0; i < COUNT(batches); i++) {
        struct infer_array x = array_of(&seed, DIMS(batches[i], 3, SIDE, SIDE));

        for (int threads = 1; threads < 5; threads++) {
            struct infer_session *s = NULL;
            struct infer_array all;

            infer_session_options_init(&o);
            o.deterministic = 1;
            o.threads = threads;
            assert_int_equal(infer_session_create(model, &o, NULL, &s), 0);
            all = run(s, &x, 1, 0);
            o.threads = 1;
            for (int64_t k = 0; k < batches[i]; k++) {
                struct infer_array one = alone(model, &o, &x, k);

                assert_memory_equal((unsigned char *)all.data +
                                        (size_t)k * one.bytes,
                                    one.data, one.bytes);
                free(one.data);
            }
            free(all.data);
            infer_session_close(&s);
        }
        free(x.data);
    }
    infer_model_close(&model);
}

/* Inputs of another type are converted part by part. */
TEST(test_converted_input)
{
    struct infer_model *model = model_of(wide_network());
    struct infer_session *s = open_session(model, INFER_BACKEND_REF, 1, false);
    uint64_t seed = 13;
    struct infer_array x = array_of(&seed, DIMS(5, 3, SIDE, SIDE)), half = x;
    struct infer_array a, b;
    size_t count = x.bytes / sizeof(float);

    half.dtype = INFER_F16;
    half.bytes = x.bytes / 2;
    half.data = malloc(half.bytes);
    assert_non_null(half.data);
    scalar_convert(INFER_F32, x.data, INFER_F16, half.data, count);
    scalar_convert(INFER_F16, half.data, INFER_F32, x.data, count);
    a = run(s, &x, 1, 1);
    b = run(s, &half, 1, 1);
    assert_non_null(s->whole);
    assert_same(&a, &b);
    free(a.data);
    free(b.data);
    free(half.data);
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- what a session tells ------------------------------------------ */

TEST(test_told)
{
    struct infer_model *model = model_of(wide_network());
    struct infer_session *s = open_session(model, INFER_BACKEND_REF, 1, false);
    struct infer_session *kept =
        open_session(model, INFER_BACKEND_REF, 1, true);
    uint64_t seed = 17;
    struct infer_array x = array_of(&seed, DIMS(6, 3, SIDE, SIDE)), y, read;
    struct infer_array inner = {0};
    struct infer_memory_info memory, all;
    struct infer_layer_info layer, same;
    struct infer_error err = {0};

    y = run(s, &x, 1, 1);
    assert_non_null(s->whole);
    /* Outputs can be read, of the whole batch, as without parts. */
    read = y;
    read.data = malloc(y.bytes);
    assert_non_null(read.data);
    assert_int_equal(infer_session_read(s, "y", &read, &err), 0);
    assert_same(&read, &y);
    free(read.data);
    assert_int_equal(infer_session_read(s, "deep", &inner, &err),
                     INFER_EARGUMENT);
    /* Whoever wants inner tensors gets the whole batch of them. */
    free(run(kept, &x, 1, 1).data);
    assert_null(kept->whole);
    assert_int_equal(infer_session_read(kept, "deep", &inner, &err), 0);
    assert_int_equal(inner.dim[0], 6);
    /* Layers tell of the whole run, memory of what is held. */
    assert_int_equal(infer_session_layer_count(s),
                     infer_session_layer_count(kept));
    for (int i = 0; i < infer_session_layer_count(s); i++) {
        assert_int_equal(infer_session_layer(s, i, &layer), 0);
        assert_int_equal(infer_session_layer(kept, i, &same), 0);
        assert_string_equal(layer.name, same.name);
        assert_int_equal(layer.output.dim[0], same.output.dim[0]);
        assert_true(layer.flops <= same.flops && layer.flops >= same.flops);
    }
    assert_int_equal(infer_session_memory(s, &memory), 0);
    assert_int_equal(infer_session_memory(kept, &all), 0);
    assert_true(memory.activations < all.activations / 2);
    free(y.data);
    free(x.data);
    infer_session_close(&s);
    infer_session_close(&kept);
    infer_model_close(&model);
}

/* A batch of few images, or with little to them, is run whole. */
TEST(test_small_runs_whole)
{
    struct graph *g = graph_new();
    struct infer_model *model;
    struct infer_session *s;
    uint64_t seed = 19;
    struct infer_array x;
    int w, y;

    assert_non_null(g);
    y = input(g, "x", DIMS(-1, 100));
    w = weights(g, &seed, DIMS(200, 100));
    y = add(g, GRAPH_DENSE, "y", IN(y, w), NULL);
    assert_true(graph_add_output(g, y) >= 0);
    model = model_of(g);
    s = open_session(model, INFER_BACKEND_REF, 1, false);
    x = array_of(&seed, DIMS(64, 100));
    free(run(s, &x, 1, 0).data);
    assert_null(s->whole);
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- which graphs -------------------------------------------------- */

/* One node under test on x: N,4,4,4, or on a: N,6. */
struct probe {
    struct graph *g;
    uint64_t state;
    int x, a, out;
};

static int node_on(struct probe *p, enum graph_op op, const int *in, int n_in)
{
    int node;

    p->out = add(p->g, op, "y", in, n_in, &node);
    return node;
}

static union graph_attr *attr_on(struct probe *p, enum graph_op op, int in)
{
    const int node = node_on(p, op, IN(in));

    return &p->g->node[node].attr;
}

static int table(struct probe *p, int rank, const int64_t *dim)
{
    return weights(p->g, &p->state, rank, dim);
}

static void dims(union graph_attr *attr, int n, const int64_t *dim)
{
    attr->dims.n = n;
    memcpy(attr->dims.dim, dim, (size_t)n * sizeof *dim);
}

static void fill(struct probe *p, int which)
{
    switch (which) {
    case 0:
        dims(attr_on(p, GRAPH_RESHAPE, p->x), DIMS(0, 16, -1));
        break;
    case 1: /* N x 64 -> 2 N x 32: images are cut in two */
        dims(attr_on(p, GRAPH_RESHAPE, p->x), DIMS(-1, 32));
        break;
    case 2: /* the same sizes in any batch */
        dims(attr_on(p, GRAPH_RESHAPE, p->x), DIMS(1, -1));
        break;
    case 3:
        attr_on(p, GRAPH_FLATTEN, p->x)->axis.axis = 1;
        break;
    case 4:
        attr_on(p, GRAPH_FLATTEN, p->x)->axis.axis = 2;
        break;
    case 5:
        attr_on(p, GRAPH_SOFTMAX, p->a)->axis.axis = -1;
        break;
    case 6:
        attr_on(p, GRAPH_SOFTMAX, p->a)->axis.axis = 0;
        break;
    case 7:
        attr_on(p, GRAPH_SOFTMAX, p->a)->axis.axis = -2;
        break;
    case 8: { /* from values stored, not from the batch */
        int s = table(p, DIMS(4));

        node_on(p, GRAPH_BATCH_NORM, IN(p->x, s, s, s, s));
        break;
    }
    case 9:
        dims(attr_on(p, GRAPH_TRANSPOSE, p->x), DIMS(0, 2, 3, 1));
        break;
    case 10: /* N x 6 -> 6 x N */
        dims(attr_on(p, GRAPH_TRANSPOSE, p->a), DIMS(1, 0));
        break;
    case 11: {
        struct graph_reduce *r = &attr_on(p, GRAPH_REDUCE, p->x)->reduce;

        r->n_axes = 2;
        r->axis[0] = 2;
        r->axis[1] = 3;
        break;
    }
    case 12: {
        struct graph_reduce *r = &attr_on(p, GRAPH_REDUCE, p->x)->reduce;

        r->n_axes = 1;
        r->keep_dims = true;
        break;
    }
    case 13: { /* the images in reverse order */
        struct graph_slice *s = &attr_on(p, GRAPH_SLICE, p->x)->slice;

        s->n_axes = 1;
        s->axis[0] = 0;
        s->begin[0] = -1;
        s->end[0] = -(INT64_C(1) << 40);
        s->step[0] = -1;
        break;
    }
    case 14: {
        struct graph_slice *s = &attr_on(p, GRAPH_SLICE, p->x)->slice;

        s->n_axes = 1;
        s->axis[0] = 1;
        s->begin[0] = 2;
        break;
    }
    case 15: { /* each image moves to its neighbour's place */
        struct kern_pad *pad = &attr_on(p, GRAPH_PAD, p->x)->pad;

        pad->begin[0] = 1;
        pad->end[0] = -1;
        break;
    }
    case 16: {
        struct kern_pad *pad = &attr_on(p, GRAPH_PAD, p->x)->pad;

        pad->begin[2] = pad->end[3] = 1;
        break;
    }
    case 17: { /* a N,6 times a transposed: every row meets every row */
        const int node = node_on(p, GRAPH_MATMUL, IN(p->a, p->a));

        p->g->node[node].attr.matmul.transpose_b = true;
        break;
    }
    case 18:
        node_on(p, GRAPH_MATMUL, IN(p->a, table(p, DIMS(6, 3))));
        break;
    case 19: /* images times images, one by one */
        node_on(p, GRAPH_MATMUL, IN(p->x, p->x));
        break;
    case 20:
        p->out = add_concat(p->g, "y", IN(p->x, p->x), 1);
        break;
    case 21:
        p->out = add_concat(p->g, "y", IN(p->x, p->x), 0);
        break;
    case 22: /* N,6 against N,4,4,6: the batch meets rows */
        dims(attr_on(p, GRAPH_RESHAPE, p->x), DIMS(0, 4, -1, 1));
        p->out = add_binary(p->g, "z", p->out, p->a, KERN_ADD);
        break;
    case 23:
        p->out = add_binary(p->g, "y", p->a, table(p, DIMS(1, 6)), KERN_ADD);
        break;
    case 24: /* an image as the weights of another */
        dims(attr_on(p, GRAPH_RESHAPE, p->x), DIMS(0, 4, 4, 4));
        p->out = add(p->g, GRAPH_CONV, "z", IN(p->x, p->out), NULL);
        break;
    default:
        p->out = add_conv(p->g, &p->state, "y", p->x, 4, 8, 3, 1, 1, -1);
        break;
    }
}

TEST(test_which_graphs)
{
    static const bool apart[] = {
        true, false, false, true,  false, true, false, false, true,
        true, false, true,  false, false, true, false, true,  false,
        true, true,  true,  false, false, true, false, true};
    size_t i;

    for (i = 0; i < COUNT(apart); i++) {
        struct probe p = {.g = graph_new(), .state = 23};
        const struct graph_shape many[2] = {{4, {6, 4, 4, 4}}, {2, {6, 6}}};
        const struct graph_shape few[2] = {{4, {2, 4, 4, 4}}, {2, {2, 6}}};
        struct graph *whole, *part;
        struct infer_error err = {0};
        bool found;

        assert_non_null(p.g);
        p.x = input(p.g, "x", DIMS(-1, 4, 4, 4));
        p.a = input(p.g, "a", DIMS(-1, 6));
        fill(&p, (int)i);
        assert_true(graph_add_output(p.g, p.out) >= 0);
        whole = graph_copy(p.g);
        part = graph_copy(p.g);
        assert_non_null(whole);
        assert_non_null(part);
        /* Shapes that fit one batch only are no parts either. */
        found = graph_infer_shapes(whole, many, &err) == 0 &&
                graph_infer_shapes(part, few, &err) == 0 &&
                graph_separable(whole, part);
        if (found != apart[i])
            fail_msg("case %zu: %s %s", i, found ? "apart" : "not apart",
                     err.text);
        graph_free(whole);
        graph_free(part);
        graph_free(p.g);
    }
}

/* ---- within max_memory --------------------------------------------- */

/* Weights outweigh activations, so that no cache splits the batch. */
static struct infer_model *heavy_model(void)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int x, y, w;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 8, 4, 4));
    y = add_conv(g, &state, "conv", x, 8, 8, 3, 1, 1, -1);
    y = add(g, GRAPH_FLATTEN, "flat", IN(y), NULL);
    w = weights(g, &state, DIMS(512, 128));
    y = add(g, GRAPH_DENSE, "wide", IN(y, w), NULL);
    assert_true(graph_add_output(g, y) >= 0);
    w = weights(g, &state, DIMS(10, 512));
    y = add(g, GRAPH_DENSE, "classes", IN(y, w), NULL);
    assert_true(graph_add_output(g, y) >= 0);
    return model_of(g);
}

static struct infer_session *limited(struct infer_model *model,
                                     enum infer_backend backend,
                                     uint64_t memory, double work)
{
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_error err = {0};

    infer_session_options_init(&o);
    o.backend = backend;
    o.threads = 1;
    o.max_memory = memory;
    o.max_work = work;
    if (infer_session_create(model, &o, &err, &s) < 0)
        fail_msg("%s", err.text);
    return s;
}

/* Both outputs are those of the whole, within the limit; *images: of a
 * micro-batch. */
static void assert_split(struct infer_session *whole, struct infer_session *s,
                         const struct infer_array *x, bool same,
                         int64_t *images)
{
    size_t bytes;

    for (int k = 0; k < 2; k++) {
        struct infer_array a = run(whole, x, 1, k), b = run(s, x, 1, k);
        if (same)
            assert_same(&a, &b);
        else /* a library's kernel may add in another order */
            assert_close(&a, &b, 1e-5);
        free(a.data);
        free(b.data);
    }
    assert_non_null(s->whole);
    assert_true(plan_memory(s->current, &bytes));
    assert_true(bytes + s->whole->bytes <= s->config.max_memory);
    *images = s->whole->images;
}

/* Every limit from the whole down to the least that is stated does, and fewer
 * bytes are refused; with the reference the bits are those of the whole. */
static void check_memory(enum infer_backend backend, int64_t batch)
{
    struct infer_model *model = heavy_model();
    struct infer_session *whole = limited(model, backend, 0, 0), *s;
    struct infer_error err = {0};
    uint64_t seed = 3;
    struct infer_array x = array_of(&seed, DIMS(batch, 8, 4, 4));
    size_t most, least;
    int64_t images, before = batch;

    assert_int_equal(infer_session_prepare(whole, &x, 1, &err), 0);
    assert_null(whole->whole);
    assert_true(plan_memory(whole->current, &most));
    /* More than a plan of one image before its kernels are prepared. */
    s = limited(model, backend, (uint64_t)300 << 10, 0);
    assert_int_equal(infer_session_prepare(s, &x, 1, &err), INFER_EMEMORY);
    if (sscanf(err.text, "a batch of %*d takes %zu bytes", &least) != 1)
        fail_msg("%s", err.text);
    infer_session_close(&s);
    assert_true(least < most);
    for (int i = 0; i <= 4; i++) {
        s = limited(model, backend,
                    i == 0 ? most - 1 : most - (most - least) / 4 * (size_t)i,
                    0);
        if (i == 4)
            s->config.max_memory = least;
        assert_split(whole, s, &x, backend == INFER_BACKEND_REF, &images);
        assert_true(images <= before && images < batch);
        before = images;
        infer_session_close(&s);
    }
    assert_int_equal(images, 1);
    s = limited(model, backend, least - 1, 0);
    assert_int_equal(infer_session_prepare(s, &x, 1, &err), INFER_EMEMORY);
    assert_non_null(strstr(err.text, "image by image"));
    infer_session_close(&s);
    /* The limit on work is that of the whole batch. */
    s = limited(model, backend, most - 1, plan_work(whole->current) / 2);
    assert_int_equal(infer_session_prepare(s, &x, 1, &err), INFER_EMEMORY);
    infer_session_close(&s);
    infer_session_close(&whole);
    infer_model_close(&model);
    free(x.data);
}

TEST(test_within_memory)
{
    check_memory(INFER_BACKEND_REF, 200);
    check_memory(INFER_BACKEND_REF, 37);
    check_memory(INFER_BACKEND_AUTO, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_whole),
        cmocka_unit_test(test_same_as_single),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_converted_input),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_small_runs_whole),
        cmocka_unit_test(test_which_graphs),
        cmocka_unit_test(test_within_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
