/* SPDX-License-Identifier: Apache-2.0 */
/* What the public interface of models and sessions refuses. */
#include "tests/unit/runtime/network.h"

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
            "shape 0x3x16x16 (empty), expected ?x3x16x16");
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
    o.backend = INFER_BACKEND_REF; /* which has no products of TF32 */
    o.precision = INFER_PRECISION_TF32;
    REFUSED(infer_session_create(model, &o, &err, &s), INFER_EUNSUPPORTED,
            "tf32");
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

/* Options of a caller that was compiled with another release's header. */
static void test_sized_options(void **unused)
{
    struct {
        struct infer_session_options o;
        unsigned char later[8];
    } caller;
    struct infer_session_options *o = &caller.o;
    const size_t older = offsetof(struct infer_session_options, tune);
    struct infer_model *model = model_of(small_network());
    struct infer_session *s = NULL;
    struct infer_error err;

    (void)unused;
    memset(&caller, 0xff, sizeof caller);
    infer_session_options_init(o);
    assert_int_equal(o->size, sizeof *o);
    assert_int_equal(caller.later[0], 0xff);
    assert_int_equal(o->tune, 1);

    /* An older caller: nothing is written or read after its last field. */
    memset(&caller, 0xff, sizeof caller);
    infer_session_options_init_sized(o, older);
    assert_int_equal(o->size, older);
    assert_int_equal(o->threads, 0);
    assert_int_equal(o->tune, -1);
    assert_int_equal(infer_session_create(model, o, &err, &s), 0);
    infer_session_close(&s);
    infer_session_options_init(o);
    o->tune = -1;
    REFUSED(infer_session_create(model, o, &err, &s), INFER_EARGUMENT, "tune");

    /* A newer caller, which may not set what this release lacks. */
    infer_session_options_init_sized(o, sizeof caller);
    assert_int_equal(o->size, sizeof caller);
    assert_int_equal(o->tune, 1);
    assert_int_equal(infer_session_create(model, o, &err, &s), 0);
    infer_session_close(&s);
    caller.later[7] = 1;
    REFUSED(infer_session_create(model, o, &err, &s), INFER_EUNSUPPORTED,
            "options: byte");

    memset(&caller, 0, sizeof caller); /* without _init() */
    REFUSED(infer_session_create(model, o, &err, &s), INFER_EARGUMENT,
            "options: size 0");
    infer_model_close(&model);
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
    for (int i = 0; i < 2; i++) {
        o.backend = i ? INFER_BACKEND_CPU : INFER_BACKEND_ONEDNN;
        rc = infer_session_create(model, &o, &err, &s);
        assert_null(s);
        if (rc == INFER_EDEVICE) { /* a build without oneDNN says so */
            assert_int_equal(o.backend, INFER_BACKEND_ONEDNN);
            continue;
        }
        assert_int_equal(rc, INFER_EUNSUPPORTED);
        assert_int_equal(err.code, INFER_EUNSUPPORTED);
        assert_non_null(strstr(err.text, "'first'"));
        assert_non_null(strstr(err.text, "'second'"));
        assert_non_null(strchr(err.text, '\n'));
    }
    s = session_of(model, INFER_BACKEND_AUTO, false);
    infer_session_close(&s);
    infer_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_refused),
        cmocka_unit_test(test_wrong_arrays),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_sized_options),
        cmocka_unit_test(test_fixed_inside),
        cmocka_unit_test(test_unsupported_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
