/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface of models and sessions, on small networks. */
#include "tests/unit/network.h"

#include <pthread.h>
#include <unistd.h>

#include "kernels/scalar.h"
#include "libinfer/model_file.h"

/* ---- counting allocations ------------------------------------------ */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&                    \
    !defined(__SANITIZE_THREAD__)
#define COUNT_ALLOCATIONS 1

static int allocations;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *p, size_t bytes);
int posix_memalign(void **out, size_t align, size_t bytes);
void *aligned_alloc(size_t align, size_t bytes);

static void count(void)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count();
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    count();
    return __libc_realloc(p, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    count();
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : 12; /* ENOMEM */
}

void *aligned_alloc(size_t align, size_t bytes)
{
    count();
    return __libc_memalign(align, bytes);
}
#endif

/* ---- a network with a bit of everything ---------------------------- */

/* conv+relu, max pool, two branches concatenated, a residual convolution,
 * global pool, flatten, dense, softmax.  Batch free. */
static struct graph *small_network(void)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int node, x, a, b, c, y, w, bias;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 3, 16, 16));
    y = add_conv(g, &state, "stem", x, 3, 8, 3, 1, 1, -1);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    y = add(g, GRAPH_POOL, "pool", IN(y), &node);
    for (int i = 0; i < 2; i++) {
        g->node[node].attr.pool.pool.window[i] = 3;
        g->node[node].attr.pool.pool.stride[i] = 2;
        g->node[node].attr.pool.pool.pad_begin[i] = 1;
    }
    a = add_conv(g, &state, "branch1", y, 8, 8, 1, 1, 1, -1);
    b = add_conv(g, &state, "branch3", y, 8, 8, 3, 1, 8, -1);
    c = add_concat(g, "joined", IN(a, b), 1);
    y = add_conv(g, &state, "block", c, 16, 16, 3, 1, 1, c);
    g->node[g->n_nodes - 1].epilogue.act = graph_unary(KERN_RELU);
    y = add(g, GRAPH_POOL, "global", IN(y), &node);
    g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    y = add(g, GRAPH_FLATTEN, "flat", IN(y), NULL);
    w = weights(g, &state, DIMS(10, 16));
    bias = weights(g, &state, DIMS(10));
    y = add(g, GRAPH_DENSE, "logits", IN(y, w, bias), NULL);
    y = add(g, GRAPH_SOFTMAX, "probability", IN(y), NULL);
    assert_int_equal(graph_add_output(g, y), 0);
    return g;
}

static void test_backends_agree(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session *ref = session_of(model, INFER_BACKEND_REF, false);
    struct infer_session *fast = session_of(model, INFER_BACKEND_AUTO, false);
    uint64_t state = 42;

    (void)unused;
    for (int64_t batch = 1; batch <= 3; batch++) {
        struct infer_array x = array_of(&state, DIMS(batch, 3, 16, 16));
        struct infer_array a = run(ref, &x, 1, 0), b = run(fast, &x, 1, 0);
        float sum = 0;

        assert_close(&b, &a, 1e-5);
        for (int i = 0; i < 10; i++)
            sum += ((float *)a.data)[i];
        assert_true(sum > 0.9999f && sum < 1.0001f);
        free(x.data);
        free(a.data);
        free(b.data);
    }
    infer_session_close(&ref);
    infer_session_close(&fast);
    assert_null(ref);
    infer_model_close(&model);
}

/* On the reference, which writes anywhere, both branches are built inside
 * the concatenation. */
static void test_concat_in_place(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);

    (void)unused;
    assert_int_equal(count_layers(s, "copy"), 0);
    assert_int_equal(count_layers(s, "conv"), 4);
    assert_int_equal(infer_session_layer_count(s), 8);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* Each sample of a batch gets what it gets alone, bit for bit on ref; plans
 * are found again. */
static void test_dynamic_batch(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    struct infer_tensor_info info;
    uint64_t state = 7;
    struct infer_array x = array_of(&state, DIMS(3, 3, 16, 16)), all, one;

    (void)unused;
    assert_int_equal(infer_model_input(model, 0, &info), 0);
    assert_int_equal(info.dim[0], -1);
    assert_int_equal(infer_model_output(model, 0, &info), 0);
    assert_int_equal(info.dim[0], -1);
    assert_int_equal(info.dim[1], 10);
    assert_int_equal(infer_model_output(model, 1, &info), INFER_EARGUMENT);
    for (int round = 0; round < 2; round++) {
        x.dim[0] = 3;
        all = run(s, &x, 1, 0);
        assert_int_equal(all.dim[0], 3);
        x.dim[0] = 1;
        for (int i = 0; i < 3; i++) {
            struct infer_array sample = x;

            sample.data = (float *)x.data + i * 3 * 16 * 16;
            one = run(s, &sample, 1, 0);
            assert_memory_equal(one.data, (float *)all.data + i * 10,
                                10 * sizeof(float));
            free(one.data);
        }
        free(all.data);
    }
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- threads ------------------------------------------------------- */

struct worker {
    struct infer_model *model;
    struct infer_array x, result;
    int failed;
};

static void *work(void *argument)
{
    struct worker *w = argument;
    struct infer_session *s = NULL;
    struct infer_array out = {.data = w->result.data, .bytes = w->result.bytes};

    w->failed = infer_session_create(w->model, NULL, NULL, &s) < 0;
    for (int i = 0; i < 5 && !w->failed; i++)
        w->failed = infer_session_run(s, &w->x, 1, &out, 1, NULL) < 0;
    infer_session_close(&s);
    return NULL;
}

static void test_threads(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_AUTO, false);
    struct worker w[2];
    pthread_t thread[2];
    uint64_t state = 9;

    (void)unused;
    for (int i = 0; i < 2; i++) {
        w[i].model = model;
        w[i].x = array_of(&state, DIMS(2, 3, 16, 16));
        w[i].result = array_of(&state, DIMS(2, 10));
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        struct infer_array expected;

        pthread_join(thread[i], NULL);
        assert_false(w[i].failed);
        expected = run(s, &w[i].x, 1, 0);
        assert_close(&w[i].result, &expected, 1e-6);
        free(expected.data);
        free(w[i].x.data);
        free(w[i].result.data);
    }
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- reading tensors ----------------------------------------------- */

static struct infer_array read_tensor(struct infer_session *s, const char *name)
{
    struct infer_array a = {0};
    struct infer_error err = {0};

    if (infer_session_read(s, name, &a, &err) < 0)
        fail_msg("%s", err.text);
    a.data = malloc(a.bytes);
    assert_non_null(a.data);
    assert_int_equal(infer_session_read(s, name, &a, &err), 0);
    return a;
}

static void test_keep_tensors(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session *ref = session_of(model, INFER_BACKEND_REF, true);
    struct infer_session *fast = session_of(model, INFER_BACKEND_AUTO, true);
    const char *name;
    uint64_t state = 11;
    struct infer_array x = array_of(&state, DIMS(2, 3, 16, 16));
    struct infer_array a = run(ref, &x, 1, 0), b = run(fast, &x, 1, 0), t;
    int n = 0;

    (void)unused;
    t = read_tensor(fast, "x");
    assert_memory_equal(t.data, x.data, x.bytes);
    free(t.data);
    t = read_tensor(ref, "probability");
    assert_memory_equal(t.data, a.data, a.bytes);
    free(t.data);
    /* Every tensor, in whatever layout it lay, agrees. */
    for (int i = 0; (name = infer_session_tensor_name(fast, i)); i++) {
        struct infer_array p = read_tensor(fast, name);
        struct infer_array q = read_tensor(ref, name);

        assert_close(&p, &q, 1e-5);
        free(p.data);
        free(q.data);
        n++;
    }
    assert_int_equal(n, 1 + 10 + 10); /* input, weights, results */
    free(x.data);
    free(a.data);
    free(b.data);
    infer_session_close(&ref);
    infer_session_close(&fast);
    infer_model_close(&model);
}

static void test_read_refused(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    uint64_t state = 12;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16)), y, t = {0};
    struct infer_error err;

    (void)unused;
    assert_int_equal(infer_session_read(s, "probability", &t, &err),
                     INFER_EARGUMENT);
    y = run(s, &x, 1, 0);
    assert_int_equal(infer_session_read(s, "pool", &t, &err), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "'pool'"));
    assert_int_equal(infer_session_read(s, "nothing", &t, &err),
                     INFER_EARGUMENT);
    assert_int_equal(infer_session_read(s, "probability", &t, &err), 0);
    t.data = y.data;
    t.bytes = 39;
    assert_int_equal(infer_session_read(s, "probability", &t, &err),
                     INFER_EARGUMENT);
    free(x.data);
    free(y.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- refusals ------------------------------------------------------ */

#define REFUSED(call, code, part)                                              \
    do {                                                                       \
        err.text[0] = '\0';                                                    \
        assert_int_equal(call, code);                                          \
        if (!strstr(err.text, part))                                           \
            fail_msg("no \"%s\" in \"%s\"", part, err.text);                   \
    } while (0)

static void test_wrong_arrays(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    uint64_t state = 13;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16)), bad[2];
    float small[9];
    struct infer_array out = {.data = small, .bytes = sizeof small};
    struct infer_error err;

    (void)unused;
    bad[0] = bad[1] = x;
    REFUSED(infer_session_run(s, bad, 2, NULL, 0, &err), INFER_EARGUMENT,
            "2 inputs given, the model has 1");
    REFUSED(infer_session_run(s, NULL, 0, NULL, 0, &err), INFER_EARGUMENT,
            "0 inputs");
    REFUSED(infer_session_run(s, NULL, 1, NULL, 0, &err), INFER_EARGUMENT,
            "inputs: NULL given");
    REFUSED(infer_session_run(s, &x, 1, NULL, 1, &err), INFER_EARGUMENT,
            "outputs: NULL given");
    bad[0].name = "y";
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "'y'");
    bad[0] = x;
    bad[0].dim[2] = 17;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "'x': shape 1x3x17x16, expected ?x3x16x16");
    bad[0] = x;
    bad[0].dim[0] = 0;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "shape 0x3x16x16, expected ?x3x16x16");
    bad[0].dim[0] = -1;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "shape -1x3x16x16, expected ?x3x16x16");
    bad[0] = x;
    bad[0].rank = 3;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "1x3x16, expected");
    bad[0].rank = 99;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "rank");
    bad[0] = x;
    bad[0].data = NULL;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "no data");
    bad[0] = x;
    bad[0].bytes--;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "3071 bytes of data, expected 3072");
    bad[0] = x;
    bad[0].dtype = INFER_NONE;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "0 is no type of elements");
    bad[0] = x;
    bad[0].dim[0] = INT64_C(1) << 60;
    REFUSED(infer_session_run(s, bad, 1, NULL, 0, &err), INFER_EARGUMENT,
            "shape 1152921504606846976x3x16x16 is impossible");
    REFUSED(infer_session_run(s, &x, 1, &out, 1, &err), INFER_EARGUMENT,
            "'probability': room for 36 bytes, 40 needed");
    out.name = "logits";
    REFUSED(infer_session_run(s, &x, 1, &out, 1, &err), INFER_EARGUMENT,
            "'logits'");
    out.name = NULL;
    out.data = NULL;
    out.bytes = 0;
    assert_int_equal(infer_session_run(s, &x, 1, &out, 1, &err), 0);
    assert_int_equal(out.bytes, 40);
    assert_int_equal(out.rank, 2);
    free(x.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

static void test_wrong_options(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_error err;

    (void)unused;
    infer_session_options_init(&o);
    o.device = "cuda:1";
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EDEVICE, "cuda:1");
    o.device = "tpu";
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EARGUMENT,
            "'tpu'");
    infer_session_options_init(&o);
    o.backend = INFER_BACKEND_CUDNN;
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EDEVICE, "cudnn");
    infer_session_options_init(&o);
    o.precision = INFER_PRECISION_BF16;
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EUNSUPPORTED,
            "bf16");
    infer_session_options_init(&o);
    o.threads = -1;
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EARGUMENT,
            "threads");
    REFUSED(infer_session_create(NULL, NULL, &err, &s), INFER_EARGUMENT,
            "no model given");
    assert_null(s);
    REFUSED(infer_session_create(model, NULL, &err, NULL), INFER_EARGUMENT,
            "no place for it given");
    REFUSED(infer_model_open("net.infer", &err, NULL), INFER_EARGUMENT,
            "no place for it given");
    REFUSED(infer_model_open(NULL, &err, &model), INFER_EARGUMENT,
            "no file name given");
    infer_model_close(&model);
}

/* ---- lifetimes ----------------------------------------------------- */

static void test_model_closed_first(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_AUTO, false);
    uint64_t state = 14;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16)), y;

    (void)unused;
    infer_model_close(&model);
    assert_null(model);
    y = run(s, &x, 1, 0);
    free(x.data);
    free(y.data);
    infer_session_close(&s);
    infer_session_close(&s);
    infer_session_close(NULL);
    infer_model_close(NULL);
}

/* On the reference: what oneDNN allocates inside a call is its own. */
static void test_no_allocation(void **unused)
{
#ifdef COUNT_ALLOCATIONS
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = session_of(model, INFER_BACKEND_REF, false);
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(2, 3, 16, 16));
    struct infer_array half = array_of(&state, DIMS(2, 3, 16, 16)), y;
    int before;

    y = run(s, &x, 1, 0);
    before = allocations;
    for (int i = 0; i < 3; i++)
        assert_int_equal(infer_session_run(s, &x, 1, &y, 1, NULL), 0);
    assert_int_equal(allocations, before);
    half.dtype = INFER_F16;
    memset(half.data, 0, half.bytes);
    assert_int_equal(infer_session_run(s, &half, 1, &y, 1, NULL), 0);
    assert_int_equal(allocations, before);
    free(half.data);
    free(x.data);
    free(y.data);
    infer_session_close(&s);
    infer_model_close(&model);
    (void)unused;
#else
    (void)unused;
    skip();
#endif
}

static void test_memory_and_profile(void **unused)
{
    struct infer_model *model = model_of(small_network());
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_memory_info memory;
    struct infer_layer_info layer;
    uint64_t state = 16;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16)), y;
    double flops = 0, seconds = 0;

    (void)unused;
    infer_session_options_init(&o);
    o.profile = 1;
    o.backend = INFER_BACKEND_REF;
    assert_int_equal(infer_session_create(model, &o, NULL, &s), 0);
    y = run(s, &x, 1, 0);
    assert_int_equal(infer_session_memory(s, &memory), 0);
    assert_true(memory.activations > 0);
    assert_true(memory.activations <= memory.activations_unshared);
    /* 4 convolutions and a dense layer, weights and biases. */
    assert_int_equal(memory.weights, 4 * (8 * 27 + 8 + 8 * 8 + 8 + 8 * 9 + 8 +
                                          16 * 16 * 9 + 16 + 10 * 16 + 10));
    for (int i = 0; i < infer_session_layer_count(s); i++) {
        assert_int_equal(infer_session_layer(s, i, &layer), 0);
        assert_non_null(layer.name);
        assert_non_null(strstr(layer.kernel, "_ref"));
        flops += layer.flops;
        seconds += layer.seconds;
    }
    assert_true(flops >= 2.0 * 16 * 16 * 8 * 27);
    assert_true(seconds > 0);
    assert_int_equal(infer_session_layer(s, 99, &layer), INFER_EARGUMENT);
    free(x.data);
    free(y.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- half precision and other types -------------------------------- */

/* y = x * w in F16: computed in F32, declared and returned as F16. */
static void test_half(void **unused)
{
    struct graph *g = graph_new();
    const int64_t dim[2] = {1, 4};
    struct constant *c = constant_new(INFER_F16, 2, dim);
    float data[4] = {1.5f, -2, 0.25f, 3};
    uint16_t half[4], result[4];
    struct infer_model *model;
    struct infer_session *s;
    struct infer_array in = {.dtype = INFER_F32, .rank = 2, .dim = {1, 4}};
    struct infer_array out = {.data = result, .bytes = sizeof result};
    int x, w, y;

    (void)unused;
    for (int i = 0; i < 4; i++) {
        ((uint16_t *)(void *)c->data)[i] = scalar_to_f16((float)(i + 1));
        half[i] = scalar_to_f16(data[i]);
    }
    x = graph_add_input(g, "x", INFER_F16, 2, dim);
    w = graph_add_constant(g, "w", c);
    y = add_binary(g, "y", x, w, KERN_MUL);
    graph_add_output(g, y);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    for (int as_half = 0; as_half < 2; as_half++) {
        memset(result, 0, sizeof result);
        in.dtype = as_half ? INFER_F16 : INFER_F32;
        in.data = as_half ? (void *)half : (void *)data;
        in.bytes = as_half ? sizeof half : sizeof data;
        assert_int_equal(infer_session_run(s, &in, 1, &out, 1, NULL), 0);
        assert_int_equal(out.dtype, INFER_F16);
        for (int i = 0; i < 4; i++)
            assert_int_equal(result[i],
                             scalar_to_f16(data[i] * (float)(i + 1)));
    }
    infer_session_close(&s);
    infer_model_close(&model);
}

/* The graph's own rounding to half precision is kept. */
static void test_cast_through_half(void **unused)
{
    struct graph *g = graph_new();
    struct infer_model *model;
    struct infer_session *s;
    uint64_t state = 17;
    struct infer_array x = array_of(&state, DIMS(1, 100)), y;
    int v, node;

    (void)unused;
    v = input(g, "x", DIMS(1, 100));
    v = add(g, GRAPH_CAST, "half", IN(v), &node);
    g->node[node].attr.cast.to = INFER_F16;
    v = add(g, GRAPH_CAST, "wide", IN(v), &node);
    g->node[node].attr.cast.to = INFER_F32;
    graph_add_output(g, v);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    y = run(s, &x, 1, 0);
    for (int i = 0; i < 100; i++) {
        float expected = scalar_from_f16(scalar_to_f16(((float *)x.data)[i]));

        assert_memory_equal(&((float *)y.data)[i], &expected, sizeof expected);
    }
    free(x.data);
    free(y.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* ---- names, several inputs and outputs ----------------------------- */

/* Outputs that are an input, a constant and a view, and inputs by name. */
static void test_plain_outputs(void **unused)
{
    struct graph *g = graph_new();
    struct infer_model *model;
    struct infer_session *s;
    uint64_t state = 18;
    struct infer_array a = array_of(&state, DIMS(2, 3));
    struct infer_array b = array_of(&state, DIMS(2, 3)), in[2], out[4] = {0};
    float o[4][6];
    int x, y, w, t, d;

    (void)unused;
    x = input(g, "x", DIMS(2, 3));
    y = input(g, "y", DIMS(2, 3));
    w = weights(g, &state, DIMS(2, 3));
    t = add(g, GRAPH_TRANSPOSE, "t", IN(x), NULL);
    d = add_binary(g, "d", x, y, KERN_SUB);
    graph_add_output(g, x);
    graph_add_output(g, w);
    graph_add_output(g, t);
    graph_add_output(g, d);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    a.name = "x";
    b.name = "y";
    in[0] = b;
    in[1] = a;
    for (int i = 0; i < 4; i++) {
        out[i].data = o[i];
        out[i].bytes = sizeof o[i];
    }
    for (int round = 0; round < 2; round++) {
        memset(o, 0, sizeof o);
        assert_int_equal(infer_session_run(s, in, 2, out, 4, NULL), 0);
        assert_memory_equal(o[0], a.data, sizeof o[0]);
        assert_int_equal(out[2].dim[0], 3);
        for (int i = 0; i < 6; i++) {
            const float *p = a.data, *q = b.data;
            float difference = p[i] - q[i];

            assert_memory_equal(&o[2][i], &p[i % 2 * 3 + i / 2], 4);
            assert_memory_equal(&o[3][i], &difference, 4);
        }
    }
    /* Constants are not computed again and again: only what depends on the
     * inputs is a layer. */
    assert_int_equal(infer_session_layer_count(s), 3);
    in[0] = a;
    assert_int_equal(infer_session_run(s, in, 2, NULL, 0, NULL),
                     INFER_EARGUMENT);
    free(a.data);
    free(b.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* Integers are taken for reals, but reals not for integers. */
static void test_integer_input(void **unused)
{
    struct graph *g = graph_new();
    const int64_t dim[1] = {3};
    const float real[3] = {1, 2, 3};
    const uint8_t byte[3] = {1, 0, 255};
    int64_t result[3];
    struct infer_array in = {.dtype = INFER_F32,
                             .rank = 1,
                             .dim = {3},
                             .data = (void *)real,
                             .bytes = sizeof real};
    struct infer_array out = {.data = result, .bytes = sizeof result};
    struct infer_model *model;
    struct infer_session *s;
    struct infer_error err;
    int x, y;

    (void)unused;
    x = graph_add_input(g, "index", INFER_I64, 1, dim);
    y = add_binary(g, "twice", x, x, KERN_ADD);
    graph_add_output(g, y);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    REFUSED(infer_session_run(s, &in, 1, &out, 1, &err), INFER_EARGUMENT,
            "'index': type F32, expected I64");
    in.dtype = INFER_U8;
    in.data = (void *)byte;
    in.bytes = sizeof byte;
    assert_int_equal(infer_session_run(s, &in, 1, &out, 1, &err), 0);
    assert_int_equal(result[0], 2);
    assert_int_equal(result[2], 510);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* From a file, whose weights are read when they are packed: the same bits, and
 * the file may be deleted once it is open. */
static void test_model_file(void **unused)
{
    char path[] = "session-test-XXXXXX";
    struct graph *g = small_network();
    struct infer_model *memory, *file = NULL;
    struct infer_session *a, *b;
    struct infer_error err = {0};
    uint64_t state = 20;
    struct infer_array x = array_of(&state, DIMS(2, 3, 16, 16)), y, z, w;
    const char *weight = g->value[1].name;
    int fd = mkstemp(path);

    (void)unused;
    assert_true(fd >= 0);
    close(fd);
    if (model_file_write(g, path, NULL, &err) < 0 ||
        infer_model_open(path, &err, &file) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(unlink(path), 0);
    assert_non_null(g->value[1].data);
    a = session_of(file, INFER_BACKEND_AUTO, false);
    y = run(a, &x, 1, 0);
    w = read_tensor(a, weight);
    assert_memory_equal(w.data, g->value[1].data->data, w.bytes);
    memory = model_of(g);
    b = session_of(memory, INFER_BACKEND_AUTO, false);
    z = run(b, &x, 1, 0);
    assert_memory_equal(y.data, z.data, z.bytes);
    assert_true(infer_model_open(path, &err, &file) < 0);
    assert_non_null(strstr(err.text, path));
    free(x.data);
    free(y.data);
    free(z.data);
    free(w.data);
    infer_session_close(&a);
    infer_session_close(&b);
    infer_model_close(&file);
    infer_model_close(&memory);
}

/* A reshape to a fixed size works for one batch only. */
static void test_fixed_inside(void **unused)
{
    struct graph *g = graph_new();
    struct infer_model *model;
    struct infer_session *s;
    uint64_t state = 19;
    struct infer_array x = array_of(&state, DIMS(3, 4)), y;
    struct infer_error err;
    int v, node;

    (void)unused;
    v = input(g, "x", DIMS(-1, 4));
    v = add(g, GRAPH_RESHAPE, "fixed", IN(v), &node);
    g->node[node].attr.dims = (struct graph_dims){.n = 2, .dim = {2, 6}};
    graph_add_output(g, v);
    model = model_of(g);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    x.dim[0] = 1;
    REFUSED(infer_session_run(s, &x, 1, NULL, 0, &err), INFER_EARGUMENT,
            "reshape");
    assert_int_equal(err.code, INFER_EARGUMENT);
    x.dim[0] = 3;
    y = run(s, &x, 1, 0);
    assert_memory_equal(x.data, y.data, x.bytes);
    free(x.data);
    free(y.data);
    infer_session_close(&s);
    infer_model_close(&model);
}

/* A backend that was named computes the products or says which it cannot;
 * all of them at once. */
static void test_unsupported_listed(void **unused)
{
    const int64_t dim[4] = {1, 2, 4, 4}, wide[4] = {2, 2, 1, 1};
    struct graph *g = graph_new();
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_model *model;
    struct infer_error err;
    int v, rc;

    (void)unused;
    v = graph_add_input(g, "x", INFER_F64, 4, dim);
    for (int i = 0; i < 2; i++) {
        struct constant *c = constant_new(INFER_F64, 4, wide);
        int w = graph_add_constant(g, NULL, c), out, node;

        out = graph_add_value(g, i ? "second" : "first");
        node = graph_add_node(g, GRAPH_CONV, i ? "second" : "first", IN(v, w),
                              &out, 1);
        assert_true(node >= 0);
        v = out;
    }
    graph_add_output(g, v);
    model = model_of(g);
    infer_session_options_init(&o);
    o.backend = INFER_BACKEND_ONEDNN;
    rc = infer_session_create(model, &o, &err, &s);
    if (rc != INFER_EDEVICE) { /* a build without oneDNN says so */
        assert_int_equal(rc, INFER_EUNSUPPORTED);
        assert_int_equal(err.code, INFER_EUNSUPPORTED);
        assert_non_null(strstr(err.text, "'first'"));
        assert_non_null(strstr(err.text, "'second'"));
        assert_non_null(strchr(err.text, '\n'));
    }
    assert_null(s);
    s = session_of(model, INFER_BACKEND_AUTO, false);
    infer_session_close(&s);
    infer_model_close(&model);
}

static void test_doctor(void **unused)
{
    char text[4096], tiny[8];
    size_t need = infer_doctor(text, sizeof text);

    (void)unused;
    assert_true(need > 0 && need < sizeof text);
    assert_int_equal(need, strlen(text));
    assert_non_null(strstr(text, "libinfer: "));
    assert_non_null(strstr(text, "backend ref: "));
    assert_non_null(strstr(text, "CUDA: "));
    assert_int_equal(infer_doctor(tiny, sizeof tiny), need);
    assert_int_equal(strlen(tiny), sizeof tiny - 1);
    assert_int_equal(infer_doctor(NULL, 0), need);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backends_agree),
        cmocka_unit_test(test_concat_in_place),
        cmocka_unit_test(test_dynamic_batch),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_keep_tensors),
        cmocka_unit_test(test_read_refused),
        cmocka_unit_test(test_wrong_arrays),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_model_closed_first),
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_memory_and_profile),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_cast_through_half),
        cmocka_unit_test(test_plain_outputs),
        cmocka_unit_test(test_integer_input),
        cmocka_unit_test(test_model_file),
        cmocka_unit_test(test_fixed_inside),
        cmocka_unit_test(test_unsupported_listed),
        cmocka_unit_test(test_doctor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
