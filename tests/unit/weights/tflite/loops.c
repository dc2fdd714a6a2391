/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: loops over time steps, branches, variables. */
#include <math.h>

#include "tests/unit/weights/tflite/model.h"

enum {
    GATHER = 36,
    ADD = 0,
    LESS = 58,
    WHILE = 119,
    CONCATENATION = 2,
    IF = 118
};

#define STEPS 3

struct loop {
    struct model outer, condition, body;
};

/* y = sum of x[t] over `bound` steps; x is STEPS,2.  The condition asks for the
 * counter, or for the sum. */
static void make_loop(struct loop *l, const int32_t *bound,
                      const int32_t *increment, bool of_data)
{
    static const int32_t zero = 0;
    static const float none[2] = {0, 0}, limit = 5;
    struct model_op *o;
    int i, s, x, b, n, t;

    memset(l, 0, sizeof *l);
    x = model_float(&l->outer, "x", DIMS(STEPS, 2), NULL);
    i = model_ints(&l->outer, "first", DIMS(1), &zero);
    s = model_float(&l->outer, "none", DIMS(1, 2), none);
    n = model_ints(&l->outer, "count", DIMS(1), NULL);
    t = model_float(&l->outer, "y", DIMS(1, 2), NULL);
    b = model_float(&l->outer, "same", DIMS(STEPS, 2), NULL);
    o = model_op(&l->outer, WHILE, IN(i, s, x), n);
    o->out[1] = t;
    o->out[2] = b;
    o->n_out = 3;
    model_option(o, 0, 4, 1);
    model_option(o, 1, 4, 2);
    model_io(&l->outer, x, t);
    l->outer.inner[0] = &l->condition;
    l->outer.inner[1] = &l->body;

    i = model_ints(&l->condition, "i", DIMS(1), NULL);
    s = model_float(&l->condition, "s", DIMS(1, 2), NULL);
    x = model_float(&l->condition, "x", DIMS(STEPS, 2), NULL);
    b = of_data ? model_float(&l->condition, "limit", DIMS(1), &limit)
                : model_ints(&l->condition, "bound", DIMS(1), bound);
    n = model_add(&l->condition, "more", TFLITE_BOOL, DIMS(1), NULL);
    model_op(&l->condition, LESS, IN(of_data ? s : i, b), n);
    memcpy(l->condition.input, (int[]){i, s, x}, 3 * sizeof(int));
    l->condition.n_inputs = 3;
    l->condition.output[l->condition.n_outputs++] = n;

    i = model_ints(&l->body, "i", DIMS(1), NULL);
    s = model_float(&l->body, "s", DIMS(1, 2), NULL);
    x = model_float(&l->body, "x", DIMS(STEPS, 2), NULL);
    b = model_ints(&l->body, "one", DIMS(1), increment);
    n = model_ints(&l->body, "next", DIMS(1), NULL);
    t = model_float(&l->body, "item", DIMS(1, 2), NULL);
    model_option(model_op(&l->body, GATHER, IN(x, i), t), 0, 4, 0);
    model_op(&l->body, ADD, IN(i, b), n);
    memcpy(l->body.input, (int[]){i, s, x}, 3 * sizeof(int));
    l->body.n_inputs = 3;
    memcpy(l->body.output,
           (int[]){n, model_float(&l->body, "sum", DIMS(1, 2), NULL), x},
           3 * sizeof(int));
    l->body.n_outputs = 3;
    model_op(&l->body, ADD, IN(s, t), l->body.output[1]);
}

TEST(test_loop)
{
    static const float x[2 * STEPS] = {1, 2, 30, 40, 500, 600};
    static const int32_t bound = STEPS, one = 1;
    static struct loop l;
    float y[2] = {0};
    struct graph *g;

    make_loop(&l, &bound, &one, false);
    g = must_read(&l.outer);
    assert_string_equal(g->value[g->output[0]].name, "y");
    run_model(g, x, DIMS(STEPS, 2), y, 2);
    assert_true(y[0] == 531 && y[1] == 642);
}

TEST(test_loops_refused)
{
    static const int32_t bound = STEPS, one = 1, none = 0;
    static struct loop l;

    make_loop(&l, &bound, &one, true);
    must_refuse(&l.outer, INFER_EUNSUPPORTED, "depends on data");
    make_loop(&l, &bound, &none, false);
    must_refuse(&l.outer, INFER_EUNSUPPORTED, "WHILE");
    make_loop(&l, &bound, &one, false);
    l.outer.op[0].option[1].value = 7; /* a body that is not there */
    must_refuse(&l.outer, INFER_EFORMAT, "network 7 of 3");
    l.outer.op[0].option[1].value = 0; /* the whole as its own body */
    must_refuse(&l.outer, INFER_EFORMAT, "inputs for a loop");
    make_loop(&l, &bound, &one, false);
    l.body.n_outputs = 2;
    must_refuse(&l.outer, INFER_EFORMAT, "2 outputs of a loop of 3");
    make_loop(&l, &bound, &one, false);
    l.body.output[0] = l.body.output[1]; /* the counter becomes a float */
    must_refuse(&l.outer, INFER_EUNSUPPORTED, "changes its type");
}

/* Row `at` of x is replaced; places beyond the ends are moved inside. */
static void check_update(int32_t at, int row)
{
    static const float x[2 * STEPS] = {1, 2, 3, 4, 5, 6}, u[2] = {70, 80};
    const int32_t start[2] = {at, 0};
    struct model m = {.n_ops = 0};
    float y[2 * STEPS];
    int v[4];

    v[0] = model_float(&m, "x", DIMS(STEPS, 2), NULL);
    v[1] = model_float(&m, "u", DIMS(1, 2), u);
    v[2] = model_ints(&m, "start", DIMS(2), start);
    v[3] = model_float(&m, "y", DIMS(STEPS, 2), NULL);
    model_op(&m, 151, IN(v[0], v[1], v[2]), v[3]);
    model_io(&m, v[0], v[3]);
    run_model(must_read(&m), x, DIMS(STEPS, 2), y, 2 * STEPS);
    for (int i = 0; i < 2 * STEPS; i++)
        assert_true(y[i] == (i / 2 == row ? u[i % 2] : x[i]));
}

TEST(test_update_slice)
{
    check_update(0, 0);
    check_update(1, 1);
    check_update(2, 2);
    check_update(9, 2);
    check_update(-4, 0);
}

/* Any outcome is fine but a crash, a leak, or an error without words. */
TEST(test_damaged_loop)
{
    static const int32_t bound = STEPS, one = 1;
    static struct loop l;
    static struct flat f;

    make_loop(&l, &bound, &one, false);
    model_write(&l.outer, &f);
    for (size_t i = 0; i < 8 * f.bytes; i += 13) {
        struct infer_error err = {0};
        struct graph *g = NULL;

        f.data[i / 8] ^= (unsigned char)(1u << i % 8);
        if (read_bytes(f.data, f.bytes, NULL, &err, &g) < 0)
            assert_true(err.text[0] != 0);
        else if (graph_infer_shapes(g, NULL, &err) < 0 ||
                 graph_validate(g, &err) < 0)
            fail_msg("a graph that does not hold together: %s", err.text);
        graph_free(g);
        f.data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
}

/* ---- variables ----------------------------------------------------- */

enum { CALL_ONCE = 129, VAR_HANDLE = 142, READ = 143, ASSIGN = 144 };
#define RESOURCE 13

/* A variable without a name, and its handle. */
static int handle_of(struct model *m)
{
    const int h = model_add(m, "handle", RESOURCE, DIMS(1), NULL);

    model_op(m, VAR_HANDLE, IN(h), h)->n_in = 0;
    return h;
}

static void assign(struct model *m, int handle, int value)
{
    model_op(m, ASSIGN, IN(handle, value), 0)->n_out = 0;
}

enum form {
    FILLED,
    EMPTY,
    WRITTEN,
    KEPT,
    GROWS,
    COUNTED, /* CALL_ONCE reads it and writes it again */
    OTHER_TYPE
};

/* y = x + variable, which CALL_ONCE fills with 10 and -inf, or the run with
 * x. */
static void make_variable(struct model *m, struct model *fill, enum form form)
{
    static const float values[2] = {10, -INFINITY};
    static const int32_t integers[2] = {10, 20};
    struct model_op *o;
    int x, h, w, y;

    memset(m, 0, sizeof *m);
    memset(fill, 0, sizeof *fill);
    h = handle_of(fill);
    if (form != EMPTY)
        assign(fill, h,
               form == OTHER_TYPE
                   ? model_ints(fill, "values", DIMS(2), integers)
                   : model_float(fill, "values", DIMS(1, 2), values));
    if (form == COUNTED) {
        w = model_float(fill, "w", DIMS(1, 2), NULL);
        model_op(fill, READ, IN(h), w);
        y = model_float(fill, "twice", DIMS(1, 2), NULL);
        model_op(fill, ADD, IN(w, w), y);
        assign(fill, h, y);
    }
    x = model_float(m, "x", DIMS(1, 2), NULL);
    m->inner[0] = fill;
    o = model_op(m, CALL_ONCE, IN(x), x);
    o->n_in = o->n_out = 0;
    model_option(o, 0, 4, 1);
    h = handle_of(m);
    if (form == WRITTEN)
        assign(m, h, x);
    w = model_float(m, "w", DIMS(1, 2), NULL);
    model_op(m, READ, IN(h), w);
    y = model_float(m, "y", DIMS(1, 2), NULL);
    model_op(m, ADD, IN(x, w), y);
    if (form == KEPT)
        assign(m, h, y);
    if (form == GROWS) {
        w = model_float(m, "more", DIMS(1, 4), NULL);
        model_option(model_op(m, CONCATENATION, IN(x, y), w), 0, 4, 1);
        assign(m, h, w);
    }
    model_io(m, x, y);
}

/* 0 stands for the first value, the first value for 0, others for themselves.
 */
static void check_state(const float *state, const float *want,
                        const float *want_next)
{
    static const float x[2] = {1, 2};
    const float *const in[2] = {x, state};
    static struct model m, fill;
    float y[2], next[2], *const out[2] = {y, next};

    make_variable(&m, &fill, KEPT);
    run_inputs(must_read(&m), in, 2, DIMS(1, 2), out, 2, 2);
    for (int i = 0; i < 2; i++)
        if (!(y[i] <= want[i] && y[i] >= want[i] && next[i] <= want_next[i] &&
              next[i] >= want_next[i]))
            fail_msg("%d: %g and %g, %g and %g are due", i, (double)y[i],
                     (double)next[i], (double)want[i], (double)want_next[i]);
}

TEST(test_states)
{
    check_state((float[]){0, 0}, (float[]){11, -INFINITY}, (float[]){11, 0});
    check_state((float[]){10, -INFINITY}, (float[]){1, 2}, (float[]){1, 2});
    check_state((float[]){0.1f, -2}, (float[]){1.1f, 0},
                (float[]){1.1f, -INFINITY});
    check_state((float[]){-1, 9}, (float[]){0, 11}, (float[]){10, 11});
}

TEST(test_variables)
{
    static const float x[2] = {1, 2};
    static struct model m, fill;
    struct graph *g;
    float y[2];

    make_variable(&m, &fill, FILLED);
    run_model(must_read(&m), x, DIMS(1, 2), y, 2);
    assert_true(y[0] == 11 && y[1] == -INFINITY);
    make_variable(&m, &fill, COUNTED);
    g = must_read(&m);
    assert_int_equal(g->n_inputs, 1);
    run_model(g, x, DIMS(1, 2), y, 2);
    assert_true(y[0] == 21 && y[1] == -INFINITY);
    make_variable(&m, &fill, WRITTEN);
    run_model(must_read(&m), x, DIMS(1, 2), y, 2);
    assert_true(y[0] == 2 && y[1] == 4);
    make_variable(&m, &fill, EMPTY);
    must_refuse(&m, INFER_EUNSUPPORTED, "a variable that nothing fills");
    make_variable(&m, &fill, KEPT);
    g = must_read(&m);
    assert_int_equal(g->n_inputs, 2);
    assert_string_equal(g->value[g->input[1]].name, "state");
    assert_int_equal(g->n_outputs, 2);
    assert_string_equal(g->value[g->output[1]].name, "state/next");
    graph_free(g);
    make_variable(&m, &fill, GROWS);
    must_refuse(&m, INFER_EUNSUPPORTED, "a state that changes its shape");
    make_variable(&m, &fill, OTHER_TYPE);
    must_refuse(&m, INFER_EUNSUPPORTED, "of another type");
    make_variable(&m, &fill, FILLED);
    m.op[0].option[0].value = 9;
    must_refuse(&m, INFER_EFORMAT, "network 9 of 2");
}

/* ---- branches ------------------------------------------------------ */

enum branch { ADDS, WIDENS, SETS };

/* y = x + 1 where x is below 5; else x, twice as wide, or x that a variable
 * takes. */
static void make_branches(struct model *m, struct model *then,
                          struct model *other, enum branch form, int elements)
{
    static const float one = 1, limit = 5;
    const int64_t dim[2] = {elements, 1};
    int x, y, c, n;

    memset(m, 0, sizeof *m);
    memset(then, 0, sizeof *then);
    memset(other, 0, sizeof *other);
    x = model_float(m, "x", 2, dim, NULL);
    c = model_add(m, "below", TFLITE_BOOL, 2, dim, NULL);
    y = model_float(m, "y", 2, dim, NULL);
    n = model_float(m, "limit", DIMS(1), &limit);
    model_op(m, LESS, IN(x, n), c);
    model_option(model_op(m, IF, IN(c, x), y), 0, 4, 1);
    model_option(&m->op[1], 1, 4, 2);
    model_io(m, x, y);
    m->inner[0] = then;
    m->inner[1] = other;
    x = model_float(then, "x", 2, dim, NULL);
    n = model_float(then, "one", DIMS(1), &one);
    y = model_float(then, "sum", 2, dim, NULL);
    model_op(then, ADD, IN(x, n), y);
    model_io(then, x, y);
    x = model_float(other, "x", 2, dim, NULL);
    y = x;
    if (form == WIDENS) {
        y = model_float(other, "wide", DIMS(1, 2), NULL);
        model_option(model_op(other, CONCATENATION, IN(x, x), y), 0, 4, 1);
    }
    if (form == SETS)
        assign(other, handle_of(other), x);
    model_io(other, x, y);
}

TEST(test_branches)
{
    static const float small = 3, large = 7;
    static struct model m, then, other;
    float y;

    make_branches(&m, &then, &other, ADDS, 1);
    run_model(must_read(&m), &small, DIMS(1, 1), &y, 1);
    assert_true(y == 4);
    run_model(must_read(&m), &large, DIMS(1, 1), &y, 1);
    assert_true(y == 7);
    make_branches(&m, &then, &other, ADDS, 2);
    must_refuse(&m, INFER_EUNSUPPORTED, "of more than one element");
    make_branches(&m, &then, &other, WIDENS, 1);
    must_refuse(&m, INFER_EUNSUPPORTED, "networks of other shapes");
    make_branches(&m, &then, &other, SETS, 1);
    must_refuse(&m, INFER_EUNSUPPORTED, "set where a condition holds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_loops_refused),
        cmocka_unit_test(test_update_slice),
        cmocka_unit_test(test_damaged_loop),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_branches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
