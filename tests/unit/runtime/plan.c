/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: random networks whose results must not depend on how memory is shared,
 * and what a plan for a GPU folds together. */
#include "tests/unit/runtime/network.h"

#include "kernels/base/error.h"
#include "kernels/input_scale.h"
#include "kernels/kern.h"
#include "libinfer/device/device.h"
#include "tests/unit/runtime/gpu_plan.h"

/* ---- factors of a convolution's input ------------------------------ */

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
    plan = plan_for_gpu(model, shape, INFER_BACKEND_CUDA, INFER_PRECISION_FP16);
    for (int i = 0; i < plan->steps.n; i++) {
        products += plan->steps.at[i]->exec.problem.op == KERN_BINARY;
        folded += input_scale_of(&plan->steps.at[i]->exec.problem) != NULL;
    }
    assert_int_equal(folded + products, 1);
    plan_free(plan);
    infer_model_close(&model);
    return folded;
}

static void test_input_scale_gpu(void **unused)
{
    (void)unused;
    if (!device_has_rows(INFER_BACKEND_CUDA))
        skip();
    assert_int_equal(count_folded(128), 1);
    assert_int_equal(count_folded(2), 0);
}

/* ---- parts of a batch ---------------------------------------------- */

/* 120 images whose elements, counted with the padding, are beyond 2^31: a
 * convolution, a pooling and a resize. */
static struct infer_model *model_of_many(struct graph_shape *shape)
{
    struct graph *g = graph_new();
    uint64_t state = 5;
    int node, x;

    *shape = (struct graph_shape){4, {120, 16, 1056, 1056}};
    x = input(g, "x", 4, shape->dim);
    x = add_conv(g, &state, "conv", x, 16, 8, 3, 1, 1, -1);
    for (int i = 0; i < 2; i++) {
        struct kern_conv *c = &g->node[g->n_nodes - 1].attr.conv.conv;

        c->dilation[i] = c->pad_begin[i] = c->pad_end[i] = 36;
    }
    x = add(g, GRAPH_POOL, "pool", IN(x), &node);
    g->node[node].attr.pool.pool = (struct kern_pool){.kind = KERN_POOL_MAX,
                                                      .window = {2, 2},
                                                      .stride = {4, 4},
                                                      .dilation = {1, 1}};
    x = add(g, GRAPH_RESIZE, "resize", IN(x), &node);
    g->node[node].attr.resize.resize =
        (struct kern_resize){.mode = KERN_BILINEAR, .scale = {1, 1, 6, 6}};
    graph_add_output(g, x);
    return model_of(g);
}

/* Rows number elements with 32 bits: parts of the batch are done one after
 * another, each by a row that would do a smaller batch, and make up the whole.
 */
static void test_parts_gpu(void **unused)
{
    struct graph_shape shape;
    struct infer_model *model;
    struct plan *plan;
    int64_t images[KERN_OP_COUNT] = {0};
    int steps[KERN_OP_COUNT] = {0};

    (void)unused;
    if (!device_has_rows(INFER_BACKEND_CUDA))
        skip();
    model = model_of_many(&shape);
    plan =
        plan_for_gpu(model, &shape, INFER_BACKEND_CUDA, INFER_PRECISION_FP16);
    for (int i = 0; i < plan->steps.n; i++) {
        const struct kern_exec *e = &plan->steps.at[i]->exec;

        if (e->problem.op == KERN_CONV_FPROP)
            assert_null(strstr(e->row->name, "direct"));
        images[e->problem.op] += e->problem.out[0].dim[0];
        steps[e->problem.op]++;
    }
    assert_int_equal(steps[KERN_CONV_FPROP], 2);
    assert_int_equal(images[KERN_CONV_FPROP], 120);
    assert_int_equal(images[KERN_POOL_FPROP], 120);
    assert_int_equal(steps[KERN_RESIZE], 2);
    assert_int_equal(images[KERN_RESIZE], 120);
    plan_free(plan);
    infer_model_close(&model);
}

/* ---- alignment ------------------------------------------------------ */

/* Each input of a concatenation is a number that is repeated: 3 times as an
 * input of the model, 24 times as a constant. */
static struct infer_model *model_of_repeats(struct graph_shape *shape)
{
    static const int64_t one[2] = {1, 1}, wide[2] = {3, 24};
    struct graph *g = graph_new();
    uint64_t state = 9;
    int node, v[2];

    *shape = (struct graph_shape){2, {1, 1}};
    v[0] = input(g, "x", 2, one);
    v[1] = weights(g, &state, 2, one);
    for (int i = 0; i < 2; i++) {
        v[i] = add(g, GRAPH_EXPAND, i ? "b" : "a", IN(v[i]), &node);
        g->node[node].attr.dims.n = 2;
        g->node[node].attr.dims.dim[0] = 1;
        g->node[node].attr.dims.dim[1] = wide[i];
    }
    graph_add_output(g, add_concat(g, "y", v, 2, 1));
    return model_of(g);
}

/* Rows that are not flagged strided are given aligned views only: the second
 * number is repeated behind 6 bytes. */
static void test_aligned_gpu(void **unused)
{
    struct graph_shape shape;
    struct infer_model *model = model_of_repeats(&shape);
    struct plan *plan;
    int filled = 0;

    (void)unused;
    if (!device_has_rows(INFER_BACKEND_CUDA)) {
        infer_model_close(&model);
        skip();
    }
    plan =
        plan_for_gpu(model, &shape, INFER_BACKEND_CUDA, INFER_PRECISION_FP16);
    for (int i = 0; i < plan->steps.n; i++) {
        const struct plan_step *s = plan->steps.at[i];
        const int64_t at = s->out[0].offset * (int64_t)infer_dtype_size(
                                                  s->exec.problem.out[0].dtype);

        filled += kern_tensor_count(&s->exec.problem.out[0]) == 24;
        if (at % ROW_GPU_ALIGN != 0 && !(s->exec.row->flags & KERN_STRIDED))
            fail_msg("%s writes %lld bytes behind its buffer's begin",
                     s->exec.row->name, (long long)at);
    }
    assert_true(filled > 0);
    plan_free(plan);
    infer_model_close(&model);
}

/* ---- order of launches --------------------------------------------- */

static enum infer_backend ordered;

static int refuse_order(const struct device *d, enum infer_backend backend,
                        void *stream, struct infer_error *err)
{
    (void)d;
    (void)stream;
    ordered = backend;
    return error_set(err, INFER_EDEVICE, "no order");
}

static int never_launched(const struct kern_exec *exec,
                          const struct kern_args *args, struct infer_error *err)
{
    (void)exec;
    (void)args;
    (void)err;
    fail_msg("launched");
    return 0;
}

/* Where kernels of ours and of a library meet in a stream, and only there; what
 * is known of one stream says nothing of another. */
static void test_fences(void **unused)
{
    const enum infer_backend ours = INFER_BACKEND_CUDA;
    const enum infer_backend library = INFER_BACKEND_CUDNN;
    const void *foreign = NULL;
    const char stream[2] = {0};

    (void)unused;
    assert_false(device_needs_fence(&foreign, ours, &stream[0]));
    assert_true(device_needs_fence(&foreign, library, &stream[0]));
    assert_false(device_needs_fence(&foreign, library, &stream[0]));
    assert_false(device_needs_fence(&foreign, ours, &stream[1]));
    assert_false(device_needs_fence(&foreign, library, &stream[0]));
    assert_false(device_needs_fence(&foreign, ours, &stream[0]));
    assert_true(device_needs_fence(&foreign, library, &stream[0]));
    assert_true(device_needs_fence(&foreign, library, &stream[1]));
    assert_true(device_needs_fence(&foreign, library, &stream[0]));
}

/* The device is told whose kernel comes next before it is launched. */
static void test_ordered(void **unused)
{
    const struct device_ops ops = {.order = refuse_order};
    const struct device gpu = {.ops = &ops};
    const struct kern_functions fn = {.launch = never_launched};
    const struct kern_row row = {.backend = INFER_BACKEND_CUDNN, .fn = &fn};
    const struct kern_exec exec = {.row = &row};
    const struct kern_args args = {0};
    struct infer_error err;

    (void)unused;
    assert_int_equal(device_launch(&gpu, &exec, &args, &err), INFER_EDEVICE);
    assert_int_equal(ordered, INFER_BACKEND_CUDNN);
}

/* ---- precision ----------------------------------------------------- */

/* Biases, scales and statistics stay in single precision beside halves;
 * activations and what is added to them do not. */
static void test_vectors(void **unused)
{
    (void)unused;
    assert_true(kern_op_is_vector(KERN_CONV_FPROP, 2));
    assert_false(kern_op_is_vector(KERN_CONV_FPROP, 1));
    assert_false(kern_op_is_vector(KERN_CONV_FPROP, 3));
    assert_true(kern_op_is_vector(KERN_SCALE_SHIFT, 2));
    assert_false(kern_op_is_vector(KERN_SCALE_SHIFT, 3));
    assert_true(kern_op_is_vector(KERN_BATCH_NORM, 4));
    assert_false(kern_op_is_vector(KERN_BATCH_NORM, 5));
    assert_false(kern_op_is_vector(KERN_BINARY, 1));
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
        cmocka_unit_test(test_input_scale_gpu),
        cmocka_unit_test(test_parts_gpu),
        cmocka_unit_test(test_aligned_gpu),
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_ordered),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_random_networks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
