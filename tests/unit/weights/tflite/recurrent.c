/* SPDX-License-Identifier: Apache-2.0 */
/* The TensorFlow Lite reader: sequences, against cells written out here, and
 * spectra. */
#include <math.h>

#include "tests/unit/weights/tflite/model.h"

#define STEPS 3

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static void must_give(struct model *m, int rank, const int64_t *dim,
                      const float *x, const float *want)
{
    float y[STEPS];

    run_model(must_read(m), x, rank, dim, y, STEPS);
    for (int t = 0; t < STEPS; t++)
        if (!(fabsf(y[t] - want[t]) <= 1e-6f))
            fail_msg("step %d gives %g, %g is due", t, (double)y[t],
                     (double)want[t]);
}

/* One unit: gates i, f, g, o.  joined: without an input gate, which is 1 - f
 * then; peephole: the state enters the gates; major: steps come first. */
static void check_lstm(bool joined, bool peephole, bool major)
{
    static const float w[4] = {0.5f, -1, 2, 0.75f}, u[4] = {1, 0.5f, -1, 2};
    static const float b[4] = {0.1f, 0.2f, -0.3f, 0.4f}, p[3] = {1, -2, 0.5f};
    static const float x[STEPS] = {1, -2, 0.5f};
    const int64_t dim[3] = {major ? STEPS : 1, major ? 1 : STEPS, 1};
    struct model m = {.n_ops = 0};
    float h = 0, c = 0, want[STEPS];
    struct model_op *o;
    int in[20], y;

    for (int t = 0; t < STEPS; t++) {
        float g[4];

        for (int k = 0; k < 4; k++)
            g[k] = w[k] * x[t] + u[k] * h + b[k];
        g[1] = sigmoid(g[1] + (peephole ? p[1] * c : 0));
        g[0] = joined ? 1 - g[1] : sigmoid(g[0] + (peephole ? p[0] * c : 0));
        c = g[1] * c + g[0] * tanhf(g[2]);
        g[3] = sigmoid(g[3] + (peephole ? p[2] * c : 0));
        want[t] = h = g[3] * tanhf(c);
    }
    for (int i = 0; i < 20; i++)
        in[i] = -1;
    in[0] = model_float(&m, "x", 3, dim, NULL);
    for (int k = joined ? 1 : 0; k < 4; k++) {
        in[1 + k] = model_float(&m, "w", DIMS(1, 1), &w[k]);
        in[5 + k] = model_float(&m, "u", DIMS(1, 1), &u[k]);
        in[12 + k] = model_float(&m, "b", DIMS(1), &b[k]);
        if (peephole && k < 3)
            in[9 + k] = model_float(&m, "p", DIMS(1), &p[k]);
    }
    in[18] = model_float(&m, "h", DIMS(1, 1), NULL);
    in[19] = model_float(&m, "c", DIMS(1, 1), NULL);
    y = model_float(&m, "y", 3, dim, NULL);
    o = model_op(&m, 44, in, 20, y);
    model_option(o, 0, 1, TFLITE_TANH);
    model_option(o, 3, 1, major);
    model_io(&m, in[0], y);
    must_give(&m, 3, dim, x, want);
}

TEST(test_lstm)
{
    for (int i = 0; i < 8; i++)
        check_lstm(i & 1, i & 2, i & 4);
}

TEST(test_rnn)
{
    static const float w = 2, u = -0.5f, b = 0.25f;
    static const float x[STEPS] = {1, -2, 3};
    struct model m = {.n_ops = 0};
    float h = 0, want[STEPS];
    struct model_op *o;
    int in[5], y;

    for (int t = 0; t < STEPS; t++)
        want[t] = h = fmaxf(w * x[t] + u * h + b, 0);
    in[0] = model_float(&m, "x", DIMS(1, STEPS, 1), NULL);
    in[1] = model_float(&m, "w", DIMS(1, 1), &w);
    in[2] = model_float(&m, "u", DIMS(1, 1), &u);
    in[3] = model_float(&m, "b", DIMS(1), &b);
    in[4] = model_float(&m, "h", DIMS(1, 1), NULL);
    y = model_float(&m, "y", DIMS(1, STEPS, 1), NULL);
    o = model_op(&m, 35, in, 5, y);
    model_option(o, 1, 1, TFLITE_RELU);
    model_io(&m, in[0], y);
    must_give(&m, DIMS(1, STEPS, 1), x, want);
}

/* The absolute values of a transform; nothing else of complex numbers. */
TEST(test_spectrum)
{
    static const int32_t length[2] = {1, 4}, other[2] = {1, 8};
    static const float x[4] = {1, 2, 3, 4};
    float y[3];

    for (int wrong = 0; wrong < 4; wrong++) {
        static const char *const words[] = {
            "", "a transform of 1x8", "complex numbers", "complex numbers"};
        struct model m = {.n_ops = 0};
        int v[4];

        v[0] = model_float(&m, "x", DIMS(1, 1, 4), NULL);
        v[1] = model_ints(&m, "n", DIMS(2), wrong == 1 ? other : length);
        v[2] = model_float(&m, "c", DIMS(1, 1, 3), NULL);
        m.tensor[v[2]].type = TFLITE_COMPLEX64;
        v[3] = model_float(&m, "y", DIMS(1, 1, 3), NULL);
        model_op(&m, 131, IN(v[0], v[1]), v[2]);
        /* COMPLEX_ABS, or FLOOR. */
        model_op(&m, wrong == 2 ? 8 : 135, IN(v[2]), v[3]);
        model_io(&m, v[0], wrong == 3 ? v[2] : v[3]);
        if (wrong) {
            must_refuse(&m, INFER_EUNSUPPORTED, words[wrong]);
            continue;
        }
        run_model(must_read(&m), x, DIMS(1, 1, 4), y, 3);
        assert_true(fabsf(y[0] - 10) <= 1e-5f);
        assert_true(fabsf(y[1] - sqrtf(8)) <= 1e-5f);
        assert_true(fabsf(y[2] - 2) <= 1e-5f);
    }
}

/* Of 1 + 2 w^k + 3 w^2k + 4 w^3k: behind a move of elements, one part that is
 * read, or two, which are refused. */
TEST(test_parts_of_spectrum)
{
    static const int32_t length[2] = {1, 4}, shape[3] = {1, 3, 1};
    static const float x[4] = {1, 2, 3, 4};
    static const float want[][3] = {{10, -2, -2}, {10, -2, -2}, {0, 2, 0}};
    static const int codes[] = {53, 134, 133}; /* CAST, REAL, IMAG */
    float y[3];

    for (int k = 0; k < 3; k++)
        for (int two = 0; two < 2; two++) {
            struct model m = {.n_ops = 0};
            int v[6];

            v[0] = model_float(&m, "x", DIMS(1, 1, 4), NULL);
            v[1] = model_ints(&m, "n", DIMS(2), length);
            v[2] = model_float(&m, "c", DIMS(1, 1, 3), NULL);
            v[3] = model_ints(&m, "s", DIMS(3), shape);
            v[4] = model_float(&m, "d", DIMS(1, 3, 1), NULL);
            m.tensor[v[2]].type = m.tensor[v[4]].type = TFLITE_COMPLEX64;
            v[5] = model_float(&m, "y", DIMS(1, 3, 1), NULL);
            model_op(&m, 131, IN(v[0], v[1]), v[2]);
            model_op(&m, 22, IN(v[2], v[3]), v[4]); /* RESHAPE */
            model_op(&m, codes[k], IN(v[4]), v[5]);
            if (two) {
                const int a = model_float(&m, "a", DIMS(1, 1, 3), NULL);

                model_op(&m, 135, IN(v[2]), a); /* COMPLEX_ABS */
                model_io(&m, v[0], v[5]);
                must_refuse(&m, INFER_EUNSUPPORTED,
                            "complex numbers of which several parts are read");
                continue;
            }
            model_io(&m, v[0], v[5]);
            run_model(must_read(&m), x, DIMS(1, 1, 4), y, 3);
            for (int i = 0; i < 3; i++)
                assert_true(fabsf(y[i] - want[k][i]) <= 1e-5f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lstm),
        cmocka_unit_test(test_rnn),
        cmocka_unit_test(test_spectrum),
        cmocka_unit_test(test_parts_of_spectrum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
