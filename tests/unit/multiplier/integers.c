/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on integers of 8 bits whose products come from a table: sums against
 * the products of codes written out, exact tables against exact networks, what
 * is refused. */
#include <stdlib.h>
#include <string.h>

#include "libinfer/model/model.h"
#include "libinfer/multiplier/multiplier.h"
#include "tests/unit/graph/data.h"
#include "tests/unit/test.h"

#define ROWS    3
#define TERMS   70
#define OUTPUTS 37

struct layer {
    enum infer_dtype dtype; /* of x */
    int zero;
    int x[ROWS][TERMS];
    int8_t w[OUTPUTS][TERMS];
};

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static int add_number(struct graph *g, enum infer_dtype dtype, double v)
{
    struct constant *c = constant_new(dtype, 0, NULL);

    if (dtype == INFER_F32)
        *(float *)(void *)c->data = (float)v;
    else
        *c->data = (unsigned char)(int)v;
    return graph_add_constant(g, NULL, c);
}

static int add_node(struct graph *g, enum graph_op op, const char *name,
                    const int *in, int n_in)
{
    int out = graph_add_value(g, NULL);

    assert_true(graph_add_node(g, op, name, in, n_in, &out, 1) >= 0);
    return out;
}

/* One dense layer, between nodes quantize and dequantize of scale 1, or, for
 * floats, without them. */
static struct graph *network(const struct layer *l, bool floats)
{
    const int64_t x_dim[2] = {ROWS, TERMS}, w_dim[2] = {OUTPUTS, TERMS};
    struct graph *g = graph_new();
    struct constant *w = constant_new(floats ? INFER_F32 : INFER_I8, 2, w_dim);
    int x = graph_add_input(g, "x", INFER_F32, 2, x_dim);

    for (int i = 0; i < OUTPUTS * TERMS; i++)
        if (floats)
            ((float *)(void *)w->data)[i] = l->w[i / TERMS][i % TERMS];
        else
            w->data[i] = (unsigned char)l->w[i / TERMS][i % TERMS];
    int weights = graph_add_constant(g, "w", w);
    if (!floats) {
        int in[3] = {x, add_number(g, INFER_F32, 1),
                     add_number(g, l->dtype, l->zero)};
        x = add_node(g, GRAPH_QUANTIZE, "q", in, 3);
        g->node[g->n_nodes - 1].attr.quantize.to = l->dtype;
        in[0] = x;
        x = add_node(g, GRAPH_DEQUANTIZE, "d", in, 3);
        in[0] = weights;
        weights = add_node(g, GRAPH_DEQUANTIZE, "dw", in, 2);
    }
    const int in[2] = {x, weights};
    graph_add_output(g, add_node(g, GRAPH_DENSE, "fc", in, 2));
    return g;
}

static void random_layer(struct layer *l, enum infer_dtype dtype,
                         uint64_t *state)
{
    const int least = dtype == INFER_I8 ? -128 : 0;

    l->dtype = dtype;
    l->zero = least + (int)(next_random(state) % 256);
    for (int i = 0; i < ROWS * TERMS; i++)
        l->x[i / TERMS][i % TERMS] = least + (int)(next_random(state) % 256);
    for (int i = 0; i < OUTPUTS * TERMS; i++)
        l->w[i / TERMS][i % TERMS] = (int8_t)(next_random(state) % 255 - 127);
}

/* Runs the layer with a multiplier (NULL: none). */
static int run(const struct layer *l, const struct multiplier *m,
               const char *exact, bool floats, enum infer_backend backend,
               float *y, struct infer_error *err)
{
    struct graph *g = network(l, floats);
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_model *model = NULL;
    float x[ROWS * TERMS];
    struct infer_array in = {.dtype = INFER_F32,
                             .rank = 2,
                             .dim = {ROWS, TERMS},
                             .data = x,
                             .bytes = sizeof x};
    struct infer_array out = {
        .dtype = INFER_F32, .data = y, .bytes = ROWS * OUTPUTS * sizeof *y};

    for (int i = 0; i < ROWS * TERMS; i++)
        x[i] = (float)(l->x[i / TERMS][i % TERMS] - l->zero);
    in.name = g->value[g->input[0]].name;
    out.name = g->value[g->output[0]].name;
    if (m)
        assert_int_equal(multiplier_store(m, NULL, g, err), 0);
    infer_session_options_init(&o);
    o.backend = backend;
    o.multiplier_exact = exact;
    assert_int_equal(model_from_graph(g, err, &model), 0);
    int rc = infer_session_create(model, &o, err, &s);
    if (rc == 0)
        rc = infer_session_run(s, &in, 1, &out, 1, err);
    infer_session_close(&s);
    infer_model_close(&model);
    return rc;
}

/* ---- sums of products of codes -------------------------------------- */

/* The layer's sum as a multiplier of codes gives it: both operands moved to
 * what the table takes, products looked up, and the shares of the zero points
 * taken off exactly. */
static int64_t expected(const struct layer *l, const struct multiplier *m,
                        int row, int k)
{
    /* A signed table takes -128 to 127, an unsigned one 0 to 255. */
    const int x_shift = m->is_signed ? (l->dtype == INFER_U8 ? -128 : 0)
                                     : (l->dtype == INFER_I8 ? 128 : 0);
    const int w_shift = m->is_signed ? 0 : 128;
    const int x_zero = l->zero + x_shift;
    int64_t products = 0, xs = 0, ws = 0;

    for (int t = 0; t < TERMS; t++) {
        const int a = l->x[row][t] + x_shift, b = l->w[k][t] + w_shift;
        products += m->table[(a & 255) << 8 | (b & 255)];
        xs += a;
        ws += b;
    }
    return products - w_shift * xs - x_zero * ws + TERMS * x_zero * w_shift;
}

/* A table of any products, not commutative. */
static struct multiplier *random_table(bool is_signed, uint64_t *state)
{
    struct multiplier *m = multiplier_new(MULTIPLIER_INTEGER, 8);

    assert_non_null(m);
    m->is_signed = is_signed;
    multiplier_set_name(m, "random", 6);
    for (int i = 0; i < 65536; i++)
        m->table[i] = (int32_t)(next_random(state) % 40000) - 20000;
    multiplier_seal(m);
    return m;
}

TEST(test_sums)
{
    struct layer *l = malloc(sizeof *l);
    uint64_t state = 11;

    for (int i = 0; i < 4; i++) {
        struct multiplier *m = random_table(i & 1, &state);
        random_layer(l, i & 2 ? INFER_I8 : INFER_U8, &state);
        for (int backend = 0; backend < 2; backend++) {
            struct infer_error err = {0};
            float y[ROWS * OUTPUTS];
            if (run(l, m, NULL, false,
                    backend ? INFER_BACKEND_REF : INFER_BACKEND_AUTO, y,
                    &err) < 0)
                fail_msg("%s", err.text);
            for (int k = 0; k < ROWS * OUTPUTS; k++)
                assert_true(y[k] ==
                            (float)expected(l, m, k / OUTPUTS, k % OUTPUTS));
        }
        multiplier_free(m);
    }
    free(l);
}

/* A table of exact products gives the exact network's bits. */
TEST(test_exact_tables)
{
    struct layer *l = malloc(sizeof *l);
    uint64_t state = 5;

    for (int i = 0; i < 4; i++) {
        struct multiplier *m = random_table(i & 1, &state);
        struct infer_error err = {0};
        float y[ROWS * OUTPUTS], exact[ROWS * OUTPUTS];
        for (int a = 0; a < 256; a++)
            for (int b = 0; b < 256; b++)
                m->table[a << 8 | b] = (int)multiplier_operand(m, a) *
                                       (int)multiplier_operand(m, b);
        random_layer(l, i & 2 ? INFER_I8 : INFER_U8, &state);
        assert_int_equal(
            run(l, NULL, NULL, false, INFER_BACKEND_AUTO, exact, &err), 0);
        assert_int_equal(run(l, m, NULL, false, INFER_BACKEND_AUTO, y, &err),
                         0);
        assert_memory_equal(y, exact, sizeof y);
        multiplier_free(m);
        /* The same bits by leaving the layer exact. */
        m = random_table(i & 1, &state);
        assert_int_equal(run(l, m, "fc", false, INFER_BACKEND_AUTO, y, &err),
                         0);
        assert_memory_equal(y, exact, sizeof y);
        assert_int_equal(run(l, m, NULL, false, INFER_BACKEND_AUTO, y, &err),
                         0);
        assert_memory_not_equal(y, exact, sizeof y);
        multiplier_free(m);
    }
    free(l);
}

TEST(test_refused)
{
    struct layer *l = malloc(sizeof *l);
    struct infer_error err = {0};
    float y[ROWS * OUTPUTS];
    uint64_t state = 5;
    struct multiplier *m = random_table(true, &state);

    random_layer(l, INFER_U8, &state);
    /* Layers in floats, unless they are to be exact. */
    assert_int_equal(run(l, m, NULL, true, INFER_BACKEND_AUTO, y, &err),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "'fc'"));
    assert_non_null(strstr(err.text, "not quantised"));
    assert_int_equal(run(l, m, "fc", true, INFER_BACKEND_AUTO, y, &err), 0);
    multiplier_free(m);
    /* Codes of 8 bits do not fit a table of fewer. */
    m = multiplier_new(MULTIPLIER_INTEGER, 4);
    multiplier_set_name(m, "four", 4);
    multiplier_seal(m);
    assert_int_equal(run(l, m, NULL, false, INFER_BACKEND_AUTO, y, &err),
                     INFER_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "4 bits"));
    multiplier_free(m);
    free(l);
}

/* Integers as significands: an exact table gives the exact product, products
 * outside [1, 4) the nearest in it. */
TEST(test_significands)
{
    struct infer_error err = {0};
    struct multiplier *exact = NULL, *m = NULL;

    for (int is_signed = 0; is_signed < 2; is_signed++) {
        struct multiplier *from = multiplier_new(MULTIPLIER_INTEGER, 8);
        from->is_signed = is_signed;
        for (int a = 0; a < 256; a++)
            for (int b = 0; b < 256; b++)
                from->table[a << 8 | b] = (int)multiplier_operand(from, a) *
                                          (int)multiplier_operand(from, b);
        assert_int_equal(multiplier_of_significands(from, &err, &m), 0);
        assert_int_equal(
            multiplier_named(is_signed ? "exact-6" : "exact-7", &err, &exact),
            0);
        assert_int_equal(m->bits, exact->bits);
        assert_memory_equal(m->table, exact->table,
                            4 * multiplier_entries(exact));
        multiplier_free(m);
        multiplier_free(exact);
        /* The first operand is the row. */
        const int one = is_signed ? 64 : 128;
        from->table[one << 8 | (one + 3)] = 3 * one * one;
        from->table[(one + 3) << 8 | one] = 0;
        from->table[one << 8 | one] = 65535;
        assert_int_equal(multiplier_of_significands(from, &err, &m), 0);
        assert_float_equal(multiplier_product(m, 0, 3), 3, 0);
        assert_float_equal(multiplier_product(m, 3, 0), 1, 0);
        assert_true(multiplier_product(m, 0, 0) < 4);
        assert_true(multiplier_product(m, 0, 0) > 3.99);
        assert_int_equal(multiplier_of_significands(m, &err, &exact),
                         INFER_EUNSUPPORTED);
        multiplier_free(m);
        multiplier_free(from);
    }
    assert_int_equal(multiplier_open("significands:/nowhere", &err, &m),
                     INFER_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_exact_tables),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_significands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
