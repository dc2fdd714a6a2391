/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface of models and sessions, on a small network. */
#include "tests/unit/runtime/network.h"

#include <pthread.h>
#include <unistd.h>

#include "libinfer/graph/model_file.h"

/* ---- runs ---------------------------------------------------------- */

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
    /* 4 convolutions and the dense layer, two for a product and its sum. */
    assert_float_equal(flops,
                       2.0 * (16 * 16 * 8 * 27 + 8 * 8 * 8 * 8 + 8 * 8 * 8 * 9 +
                              8 * 8 * 16 * 16 * 9 + 10 * 16),
                       0);
    assert_true(seconds > 0);
    assert_int_equal(infer_session_layer(s, 99, &layer), INFER_EARGUMENT);
    free(x.data);
    free(y.data);
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
    assert_non_null(strstr(text, "threads: "));
    assert_non_null(strstr(text, "memory: "));
    assert_non_null(strstr(text, "tuning cache: "));
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
        cmocka_unit_test(test_model_closed_first),
        cmocka_unit_test(test_memory_and_profile),
        cmocka_unit_test(test_model_file),
        cmocka_unit_test(test_doctor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
