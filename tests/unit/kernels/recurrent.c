/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers: values worked out by hand on the reference, the CPU's row
 * beside it, and what is refused. */
#include <math.h>

#include "kernels/recurrent/recurrent.h"
#include "tests/unit/kernels/ref_case.h"
#include "tests/unit/runtime/network.h"

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static struct ref_case *case_of(enum kern_cell cell, const float *x, int steps,
                                const float *w)
{
    struct ref_case *c = ref_new(KERN_RECURRENT);
    const int gates = recurrent_gates(cell);

    c->p.attr.recurrent = (struct kern_recurrent){
        .cell = cell, .act = {KERN_SIGMOID, KERN_TANH, KERN_TANH}};
    ref_in(c, RECURRENT_X, x, DIMS(1, steps, gates));
    ref_in(c, RECURRENT_W, w, DIMS(gates, 1));
    return c;
}

/* h = tanh(x + h / 2); backwards; of one step, after which the state stays. */
TEST(test_rnn)
{
    static const float x[] = {1, 2}, w[] = {0.5f}, h[] = {0.25f};
    static const int32_t one[] = {1};
    struct ref_case *c = case_of(KERN_CELL_RNN, x, 2, w);
    float e[2] = {tanhf(1), 0};

    e[1] = tanhf(2 + e[0] / 2);
    REF_EXPECT(c, e, 1, 2, 1);
    c = case_of(KERN_CELL_RNN, x, 2, w);
    c->p.attr.recurrent.reverse = true;
    ref_in(c, RECURRENT_H, h, DIMS(1, 1));
    e[1] = tanhf(2 + h[0] / 2);
    e[0] = tanhf(1 + e[1] / 2);
    REF_EXPECT(c, e, 1, 2, 1);
    c = case_of(KERN_CELL_RNN, x, 2, w);
    ref_data(c, RECURRENT_LENGTH, INFER_I32, one, DIMS(1));
    e[0] = e[1] = tanhf(1);
    REF_EXPECT(c, e, 1, 2, 1);
    c = case_of(KERN_CELL_RNN, x, 2, w);
    c->p.attr.recurrent.clip = 0.5f;
    e[0] = e[1] = tanhf(0.5f);
    REF_EXPECT(c, e, 1, 2, 1);
}

/* Gates z, r, h; the reset before and after the product. */
TEST(test_gru)
{
    static const float x[] = {0.5f, -1, 2}, w[] = {1, -0.5f, 0.75f};
    static const float h[] = {0.4f}, bias[] = {0.3f};
    const float z = sigmoid(0.5f + 0.4f), r = sigmoid(-1 - 0.2f);

    for (int after = 0; after < 2; after++) {
        struct ref_case *c = case_of(KERN_CELL_GRU, x, 1, w);
        const float g =
            tanhf(2 + (after ? r * (0.75f * 0.4f + 0.3f) : 0.75f * (r * 0.4f)));
        const float e[] = {(1 - z) * g + z * 0.4f};

        c->p.attr.recurrent.reset_after = after == 1;
        if (after)
            ref_in(c, RECURRENT_BIAS, bias, DIMS(1));
        ref_in(c, RECURRENT_H, h, DIMS(1, 1));
        REF_EXPECT(c, e, 1, 1, 1);
    }
}

/* Gates i, o, f, c, with peepholes, and with a forget gate that is 1 - i. */
TEST(test_lstm)
{
    static const float x[] = {0.5f, -1, 2, 0.25f}, w[] = {1, -0.5f, 0.75f, 2};
    static const float h[] = {0.4f}, c0[] = {-0.6f};
    static const float peephole[] = {0.5f, -0.25f, 1};

    for (int forget = 0; forget < 2; forget++) {
        struct ref_case *c = case_of(KERN_CELL_LSTM, x, 1, w);
        const float i = sigmoid(0.5f + 0.4f + 0.5f * -0.6f);
        const float f = forget ? 1 - i : sigmoid(2 + 0.75f * 0.4f - 0.6f);
        const float now = f * -0.6f + i * tanhf(0.25f + 2 * 0.4f);
        const float o = sigmoid(-1 - 0.5f * 0.4f - 0.25f * now);
        const float e[] = {o * tanhf(now), now};

        c->p.attr.recurrent.input_forget = forget == 1;
        c->p.attr.recurrent.with_cell = true;
        ref_in(c, RECURRENT_H, h, DIMS(1, 1));
        ref_in(c, RECURRENT_C, c0, DIMS(1, 1));
        ref_in(c, RECURRENT_PEEPHOLE, peephole, DIMS(3, 1));
        REF_EXPECT(c, e, 1, 1, 2);
    }
}

TEST(test_refused)
{
    static const float x[] = {0, 0, 0, 0}, w[] = {0, 0, 0, 0};
    struct ref_case *c = case_of(KERN_CELL_RNN, x, 1, w);

    c->p.attr.recurrent.with_cell = true;
    ref_out(c, INFER_F32, c->out, DIMS(1, 1, 1));
    ref_refused(c, INFER_EUNSUPPORTED, "of LSTM alone");
    c = case_of(KERN_CELL_LSTM, x, 1, w);
    c->p.attr.recurrent.act[0] = KERN_LEAKY_RELU;
    ref_out(c, INFER_F32, c->out, DIMS(1, 1, 1));
    ref_refused(c, INFER_EUNSUPPORTED, "with parameters");
    c = case_of(KERN_CELL_GRU, x, 1, w);
    ref_in(c, RECURRENT_BIAS, x, DIMS(1));
    ref_out(c, INFER_F32, c->out, DIMS(1, 1, 1));
    ref_refused(c, INFER_EUNSUPPORTED, "bias of another cell");
}

/* ---- in a network -------------------------------------------------- */

/* x: N,S,C through a dense layer and the cell. */
static struct infer_array run_layer(enum kern_cell cell, int variant,
                                    enum infer_backend backend,
                                    const int64_t *dim, int threads)
{
    const int hidden = 19, gates = recurrent_gates(cell);
    uint64_t state = 7, seed = 3;
    struct infer_array x = array_of(&state, 3, dim), y;
    struct graph *g = graph_new();
    struct infer_session_options options;
    struct infer_error err = {0};
    struct infer_model *model;
    struct infer_session *s = NULL;
    int node, v = input(g, "x", 3, dim), w;

    v = add(g, GRAPH_DENSE, "d",
            IN(v, weights(g, &seed, DIMS(gates * hidden, dim[2]))), NULL);
    w = weights(g, &seed, DIMS(gates * hidden, hidden));
    v = add(g, GRAPH_RECURRENT, "r", IN(v, w), &node);
    g->node[node].attr.recurrent.cell = cell;
    g->node[node].attr.recurrent.reverse = variant == 1;
    g->node[node].attr.recurrent.reset_after =
        cell == KERN_CELL_GRU && variant == 1;
    g->node[node].attr.recurrent.with_cell =
        cell == KERN_CELL_LSTM && variant == 1;
    assert_int_equal(graph_add_output(g, v), 0);
    model = model_of(g);
    infer_session_options_init(&options);
    options.backend = backend;
    options.threads = threads;
    assert_int_equal(infer_session_create(model, &options, &err, &s), 0);
    y = run(s, &x, 1, 0);
    infer_session_close(&s);
    infer_model_close(&model);
    free(x.data);
    return y;
}

TEST(test_rows)
{
    static const int64_t dims[][3] = {{1, 9, 5}, {7, 4, 5}};

    for (int cell = 0; cell < KERN_CELL_COUNT; cell++)
        for (int variant = 0; variant < 2; variant++)
            for (size_t i = 0; i < COUNT(dims); i++) {
                struct infer_array y[3];

                y[0] = run_layer((enum kern_cell)cell, variant,
                                 INFER_BACKEND_REF, dims[i], 1);
                for (int t = 1; t < 3; t++)
                    y[t] = run_layer((enum kern_cell)cell, variant,
                                     INFER_BACKEND_AUTO, dims[i], t);
                assert_close(&y[1], &y[0], 1e-5);
                assert_close(&y[2], &y[0], 1e-5);
                for (int t = 0; t < 3; t++)
                    free(y[t].data);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rnn),  cmocka_unit_test(test_gru),
        cmocka_unit_test(test_lstm), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
