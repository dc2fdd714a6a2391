/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's allocator: everything large comes from it and goes back to it,
 * whichever allocation fails.  A program of its own, since every allocation of
 * the process counts. */
#include <unistd.h>

#include "libinfer/graph/model_file.h"
#include "libinfer/session.h"
#include "tests/unit/memory/allocations.h"
#include "tests/unit/runtime/network.h"

/* Most bytes that a list of a small network's layers takes. */
#define LIST_BYTES (24 << 10)

#define CHANNELS 96
#define SIDE     32

/* ---- the allocator ------------------------------------------------- */

/* Each block is preceded by its size, in HEAD bytes. */
#define HEAD 64

struct pool {
    int calls, live, fails; /* fails: the call that gives NULL, from 1 on */
    size_t bytes, peak, largest;
    size_t shift; /* added to every address */
};

static void *pool_alloc(void *user, size_t bytes, size_t align)
{
    struct pool *p = user;
    void *memory;

    assert_true(bytes > 0);
    assert_int_equal(align, 64);
    if (++p->calls == p->fails)
        return NULL;
#ifdef COUNT_ALLOCATIONS
    const size_t largest = largest_allocation;
#endif
    assert_int_equal(posix_memalign(&memory, align, bytes + HEAD + 64), 0);
#ifdef COUNT_ALLOCATIONS
    largest_allocation = largest; /* this one does not count */
#endif
    *(size_t *)memory = bytes;
    memset((char *)memory + HEAD, 0xff, bytes);
    p->live++;
    p->bytes += bytes;
    p->peak = p->bytes > p->peak ? p->bytes : p->peak;
    p->largest = bytes > p->largest ? bytes : p->largest;
    return (char *)memory + HEAD + p->shift;
}

static void pool_dealloc(void *user, void *memory)
{
    struct pool *p = user;
    char *block = (char *)memory - p->shift - HEAD;

    assert_non_null(memory);
    p->live--;
    p->bytes -= *(size_t *)(void *)block;
    free(block);
}

static void assert_empty(const struct pool *p)
{
    assert_int_equal(p->live, 0);
    assert_int_equal(p->bytes, 0);
}

static struct infer_session_options options_of(struct pool *p,
                                               enum infer_backend backend)
{
    struct infer_session_options o;

    infer_session_options_init(&o);
    o.backend = backend;
    o.threads = 1;
    o.tune_cache = "";
    o.alloc = pool_alloc;
    o.dealloc = pool_dealloc;
    o.alloc_user = p;
    return o;
}

/* ---- networks ------------------------------------------------------ */

/* A convolution, one whose weights are stored as I8, a dense layer.  Batch
 * free.  The C library's share has no block of the size of a tensor. */
static struct graph *heavy_network(void)
{
    struct graph *g = graph_new();
    const int64_t dim[] = {CHANNELS, CHANNELS, 3, 3};
    const float scale = 1 / 64.0f;
    uint64_t state = 88172645463325252u;
    int in[3], x, w, q, s;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 3, SIDE, SIDE));
    x = add_conv(g, &state, "first", x, 3, CHANNELS, 3, 1, 1, -1);
    struct constant *bytes = constant_new(INFER_I8, 4, dim);
    struct constant *number = constant_new(INFER_F32, 0, NULL);
    assert_true(bytes && number);
    for (int64_t i = 0; i < constant_count(bytes); i++)
        bytes->data[i] = (unsigned char)random_bits(&state);
    *(float *)(void *)number->data = scale;
    q = graph_add_constant(g, NULL, bytes);
    s = graph_add_constant(g, NULL, number);
    w = add(g, GRAPH_DEQUANTIZE, "w", IN(q, s), NULL);
    in[0] = x;
    in[1] = w;
    in[2] = weights(g, &state, DIMS(CHANNELS));
    x = add(g, GRAPH_CONV, "second", in, 3, NULL);
    x = add(g, GRAPH_FLATTEN, "flat", IN(x), NULL);
    w = weights(g, &state, DIMS(16, CHANNELS * (SIDE - 2) * (SIDE - 2)));
    x = add(g, GRAPH_DENSE, "y", IN(x, w), NULL);
    assert_int_equal(graph_add_output(g, x), 0);
    return g;
}

/* Convolutions whose activations outweigh their weights, and a global pool:
 * large batches run as micro-batches. */
static struct graph *wide_network(void)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int node, x;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 3, SIDE, SIDE));
    x = add_conv(g, &state, "first", x, 3, CHANNELS, 3, 1, 1, -1);
    x = add_conv(g, &state, "second", x, CHANNELS, CHANNELS, 1, 1, 1, -1);
    x = add(g, GRAPH_POOL, "mean", IN(x), &node);
    g->node[node].attr.pool.pool.kind = KERN_POOL_AVERAGE;
    assert_int_equal(graph_add_output(g, x), 0);
    return g;
}

/* The model of a file, so that every weight has to be loaded. */
static struct infer_model *model_in_file(struct graph *g)
{
    char path[] = "allocator-XXXXXX.infer";
    const int fd = mkstemps(path, 6);
    struct infer_model *model = NULL;
    struct infer_error err = {0};

    assert_true(fd >= 0);
    if (model_file_write(g, path, NULL, &err) < 0 ||
        infer_model_open(path, &err, &model) < 0)
        fail_msg("%s", err.text);
    close(fd);
    unlink(path);
    graph_free(g);
    return model;
}

/* ---- one session --------------------------------------------------- */

/* Creates a session, runs it twice and reads every tensor: 0, or the first
 * failure.  want NULL: the output is not compared. */
static int use(struct infer_model *model, const struct infer_session_options *o,
               const struct infer_array *x, const struct infer_array *want,
               struct infer_error *err)
{
    struct infer_session *s = NULL;
    float room[16 * 16];
    struct infer_array y = {.data = room, .bytes = sizeof room};
    int rc = infer_session_create(model, o, err, &s);

    for (int i = 0; rc == 0 && i < 2; i++)
        rc = infer_session_run(s, x, 1, &y, 1, err);
    if (rc == 0 && want)
        assert_memory_equal(room, want->data, want->bytes);
    for (int i = 0; rc == 0 && o->keep_tensors; i++) {
        const char *name = infer_session_tensor_name(s, i);
        struct infer_array t = {0};

        if (!name)
            break;
        rc = infer_session_read(s, name, &t, err);
        if (rc == 0 && !(t.data = malloc(t.bytes + 1)))
            fail();
        if (rc == 0)
            rc = infer_session_read(s, name, &t, err);
        free(t.data);
    }
    infer_session_close(&s);
    return rc;
}

static struct infer_array expected(struct infer_model *model,
                                   enum infer_backend backend,
                                   const struct infer_array *x)
{
    struct infer_session_options o = options_of(NULL, backend);
    struct infer_session *s = NULL;
    struct infer_error err = {0};

    o.alloc = NULL;
    o.dealloc = NULL;
    if (infer_session_create(model, &o, &err, &s) < 0)
        fail_msg("%s", err.text);
    const struct infer_array y = run(s, x, 1, 0);
    infer_session_close(&s);
    return y;
}

/* The same bits as with malloc(), from which no tensor comes; balanced while
 * the model is still open. */
static void check_balanced(enum infer_backend backend, int64_t batch, bool keep,
                           const char *multiplier)
{
    struct infer_model *model = model_in_file(heavy_network());
    struct pool p = {0};
    struct infer_session_options o = options_of(&p, backend);
    struct infer_error err = {0};
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(batch, 3, SIDE, SIDE));
    struct infer_array want = expected(model, backend, &x);
    const bool same = !multiplier;

    o.keep_tensors = keep;
    o.multiplier = multiplier;
#ifdef COUNT_ALLOCATIONS
    largest_allocation = 0;
#endif
    if (use(model, &o, &x, same ? &want : NULL, &err) < 0)
        fail_msg("%s", err.text);
#ifdef COUNT_ALLOCATIONS
    /* oneDNN has its own, and `keep` reads tensors into memory of malloc(). */
    if (backend == INFER_BACKEND_REF && !keep &&
        largest_allocation > LIST_BYTES)
        fail_msg("malloc() of %zu bytes", largest_allocation);
#endif
    assert_true(p.calls > 3);
    /* The dense layer's weights. */
    assert_true(p.largest >= 4 * 16 * CHANNELS * (SIDE - 2) * (SIDE - 2));
    assert_empty(&p);
    free(x.data);
    free(want.data);
    infer_model_close(&model);
}

TEST(test_balanced)
{
    check_balanced(INFER_BACKEND_REF, 1, false, NULL);
    check_balanced(INFER_BACKEND_AUTO, 2, false, NULL);
}

/* The outputs of micro-batches are gathered in memory of the allocator. */
TEST(test_balanced_micro_batches)
{
    struct infer_model *model = model_in_file(wide_network());
    struct pool p = {0};
    const struct infer_session_options o = options_of(&p, INFER_BACKEND_AUTO);
    struct infer_session *s = NULL;
    struct infer_error err = {0};
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(16, 3, SIDE, SIDE));
    struct infer_array want = expected(model, INFER_BACKEND_AUTO, &x);

    if (infer_session_create(model, &o, &err, &s) < 0)
        fail_msg("%s", err.text);
    struct infer_array y = run(s, &x, 1, 0);
    assert_true(s->n_micro > 0);
    assert_close(&y, &want, 1e-5);
    infer_session_close(&s);
    assert_empty(&p);
    free(x.data);
    free(y.data);
    free(want.data);
    infer_model_close(&model);
}

TEST(test_balanced_kept_tensors)
{
    check_balanced(INFER_BACKEND_AUTO, 2, true, NULL);
}

TEST(test_balanced_multiplier)
{
    check_balanced(INFER_BACKEND_AUTO, 1, false, "mitchell-7");
}

/* ---- failures ------------------------------------------------------ */

/* Every allocation fails once: the call says so or does without, nothing is
 * left, and the model is as good as before. */
static void check_failures(enum infer_backend backend, bool keep)
{
    struct infer_model *model = model_in_file(small_network());
    struct infer_error err = {0};
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(2, 3, 16, 16));
    struct infer_array want = expected(model, backend, &x);
    int n, failed = 0;

    for (n = 1;; n++) {
        struct pool p = {.fails = n};
        struct infer_session_options o = options_of(&p, backend);

        o.keep_tensors = keep;
        err.text[0] = '\0';
        const int rc = use(model, &o, &x, &want, &err);
        assert_empty(&p);
        if (rc == 0 && p.calls < n)
            break;
        if (rc < 0) {
            assert_int_equal(rc, INFER_EMEMORY);
            assert_non_null(strstr(err.text, "no memory for"));
            failed++;
        }
    }
    assert_true(failed > 3);
    free(x.data);
    free(want.data);
    infer_model_close(&model);
}

TEST(test_failures)
{
    check_failures(INFER_BACKEND_REF, false);
    check_failures(INFER_BACKEND_AUTO, false);
    check_failures(INFER_BACKEND_AUTO, true);
}

/* A session whose run failed runs when there is memory again. */
TEST(test_again)
{
    struct infer_model *model = model_in_file(small_network());
    struct pool p = {0};
    const struct infer_session_options o = options_of(&p, INFER_BACKEND_AUTO);
    struct infer_error err = {0};
    struct infer_session *s = NULL;
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(2, 3, 16, 16));
    struct infer_array want = expected(model, INFER_BACKEND_AUTO, &x), y;
    int n;

    assert_int_equal(infer_session_create(model, &o, &err, &s), 0);
    for (n = 1; n < 1000; n++) {
        p.calls = 0;
        p.fails = n;
        if (infer_session_prepare(s, &x, 1, &err) == 0)
            break;
    }
    assert_in_range(n, 3, 999);
    y = run(s, &x, 1, 0);
    assert_memory_equal(y.data, want.data, want.bytes);
    infer_session_close(&s);
    assert_empty(&p);
    free(x.data);
    free(y.data);
    free(want.data);
    infer_model_close(&model);
}

/* The first batch, for which kernels are chosen when the session is created;
 * and a batch that ran before one that found no memory, whichever allocation it
 * was. */
static void check_again_first(enum infer_backend backend)
{
    struct infer_model *model = model_in_file(small_network());
    struct pool p = {0};
    const struct infer_session_options o = options_of(&p, backend);
    struct infer_error err = {0};
    struct infer_session *s = NULL;
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16)), y;
    struct infer_array many = array_of(&state, DIMS(64, 3, 16, 16));
    struct infer_array want = expected(model, backend, &x);
    int n, failed = 0;

    for (n = 1; n < 1000; n++) {
        assert_int_equal(infer_session_create(model, &o, &err, &s), 0);
        p.calls = 0;
        p.fails = n;
        const int rc = infer_session_prepare(s, &x, 1, &err);
        p.fails = 0;
        y = run(s, &x, 1, 0);
        assert_memory_equal(y.data, want.data, want.bytes);
        free(y.data);
        infer_session_close(&s);
        if (rc == 0)
            break;
        failed++;
    }
    assert_true(failed >= 2);
    failed = 0;
    assert_int_equal(infer_session_create(model, &o, &err, &s), 0);
    for (n = 1; n < 1000; n++) {
        p.fails = 0;
        y = run(s, &x, 1, 0);
        assert_memory_equal(y.data, want.data, want.bytes);
        free(y.data);
        p.calls = 0;
        p.fails = n;
        if (infer_session_prepare(s, &many, 1, &err) == 0)
            break;
        failed++;
    }
    assert_true(failed >= 1);
    infer_session_close(&s);
    assert_empty(&p);
    free(x.data);
    free(many.data);
    free(want.data);
    infer_model_close(&model);
}

TEST(test_again_first)
{
    check_again_first(INFER_BACKEND_REF);
    check_again_first(INFER_BACKEND_AUTO);
}

TEST(test_wrong)
{
    struct infer_model *model = model_in_file(small_network());
    struct pool p = {.shift = 8};
    struct infer_session_options o = options_of(&p, INFER_BACKEND_REF);
    struct infer_session *s = NULL;
    struct infer_error err = {0};
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(1, 3, 16, 16));

    assert_int_equal(use(model, &o, &x, NULL, &err), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "multiple of 64"));
    assert_empty(&p);
    o.dealloc = NULL;
    assert_int_equal(infer_session_create(model, &o, &err, &s),
                     INFER_EARGUMENT);
    o.dealloc = pool_dealloc;
    o.alloc = NULL;
    assert_int_equal(infer_session_create(model, &o, &err, &s),
                     INFER_EARGUMENT);
    assert_null(s);
    free(x.data);
    infer_model_close(&model);
}

/* ---- several sessions ---------------------------------------------- */

/* Weights are shared within an allocator and not beyond; each gets back what it
 * gave, in any order of closing. */
TEST(test_shared)
{
    struct infer_model *model = model_in_file(heavy_network());
    struct pool p[2] = {0};
    struct infer_session *s[3] = {0};
    struct infer_array y[3];
    uint64_t state = 15;
    struct infer_array x = array_of(&state, DIMS(1, 3, SIDE, SIDE));
    struct infer_memory_info m;
    size_t first = 0;

    for (int i = 0; i < 3; i++) {
        const struct infer_session_options o =
            options_of(&p[i == 2], INFER_BACKEND_AUTO);
        struct infer_error err = {0};

        if (infer_session_create(model, &o, &err, &s[i]) < 0)
            fail_msg("%s", err.text);
        y[i] = run(s[i], &x, 1, 0);
        assert_int_equal(infer_session_memory(s[i], &m), 0);
        assert_memory_equal(y[i].data, y[0].data, y[0].bytes);
        if (i == 0)
            first = p[0].bytes;
    }
    assert_true(first >= m.weights + m.activations);
    assert_true(p[0].bytes >= first && p[0].bytes - first < m.weights);
    assert_true(p[1].bytes >= m.weights);
    infer_model_close(&model);
    infer_session_close(&s[0]);
    assert_true(p[0].bytes >= m.weights);
    infer_session_close(&s[2]);
    assert_empty(&p[1]);
    free(y[1].data);
    y[1] = run(s[1], &x, 1, 0);
    assert_memory_equal(y[1].data, y[0].data, y[0].bytes);
    infer_session_close(&s[1]);
    assert_empty(&p[0]);
    for (int i = 0; i < 3; i++)
        free(y[i].data);
    free(x.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balanced),
        cmocka_unit_test(test_balanced_micro_batches),
        cmocka_unit_test(test_balanced_kept_tensors),
        cmocka_unit_test(test_balanced_multiplier),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_again_first),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
