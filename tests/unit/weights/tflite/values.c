/* SPDX-License-Identifier: Apache-2.0 */
/* The TensorFlow Lite reader: numbers of operators as TensorFlow Lite's
 * reference kernels give them. */
#include <math.h>

#include "tests/unit/weights/tflite/model.h"

static void must_give(const struct model *m, const float *x, int rank,
                      const int64_t *dim, const float *want, int n)
{
    static struct flat f;
    struct infer_error err = {0};
    struct graph *g = NULL;
    float y[64];

    model_write(m, &f);
    if (read_bytes(f.data, f.bytes, NULL, &err, &g) < 0 ||
        graph_infer_shapes(g, NULL, &err) < 0)
        fail_msg("%s", err.text);
    run_model(g, x, rank, dim, y, (size_t)n);
    for (int i = 0; i < n; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-6f * fabsf(want[i])))
            fail_msg("output %d is %g, %g is due", i, (double)y[i],
                     (double)want[i]);
}

/* QUANTIZE, to the integer: quotients right below a half, at it, and above. */
TEST(test_quantise)
{
    static const float scale = 0.0437f;
    float x[60], want[60];
    struct model m = {.n_ops = 0};
    int in[1], y;

    for (int i = 0; i < 60; i++) {
        const float half = (float)(i / 3) * 5 + 0.5f;
        const float sign = i % 2 ? -1.0f : 1.0f;

        x[i] = half * scale;
        while (i % 3 == 0 && x[i] / scale >= half)
            x[i] = nextafterf(x[i], 0);
        while (i % 3 == 2 && x[i] / scale <= half)
            x[i] = nextafterf(x[i], 1000);
        x[i] *= sign;
        want[i] = fminf(127, fmaxf(-128, roundf(x[i] / scale) + 3));
    }
    in[0] = model_float(&m, "x", DIMS(1, 60), NULL);
    y = model_quantised(&m, "y", TFLITE_INT8, DIMS(1, 60), NULL, scale, 3);
    model_op(&m, 114, in, 1, y);
    model_io(&m, in[0], y);
    must_give(&m, x, DIMS(1, 60), want, 60);
}

/* Rows of updates are added, two of them in one place. */
TEST(test_scatter)
{
    static const int32_t at[] = {1, 0, 0, 1, 1, 0}, shape[] = {2, 2, 2};
    static const float x[] = {1, 2, 3, 4, 5, 6};
    struct model m = {.n_ops = 0};
    int in[3], y;

    in[0] = model_ints(&m, "at", DIMS(3, 2), at);
    in[1] = model_float(&m, "x", DIMS(3, 2), NULL);
    in[2] = model_ints(&m, "shape", DIMS(3), shape);
    y = model_float(&m, "y", DIMS(2, 2, 2), NULL);
    model_op(&m, 122, in, 3, y);
    model_io(&m, in[1], y);
    must_give(&m, x, DIMS(3, 2), (const float[]){0, 0, 3, 4, 6, 8, 0, 0}, 8);
}

/* Of integers the gaps hold 0, which is 5 by this scale and zero point. */
TEST(test_scatter_quantised)
{
    static const int32_t at[] = {2, 0}, shape[] = {4, 2};
    static const float x[] = {1, 2, 3, -4};
    struct model m = {.n_ops = 0};
    int in[3], first, y;

    first = model_float(&m, "x", DIMS(2, 2), NULL);
    in[0] = model_ints(&m, "at", DIMS(2, 1), at);
    in[1] = model_quantised(&m, "q", TFLITE_INT8, DIMS(2, 2), NULL, 0.5f, -10);
    in[2] = model_ints(&m, "shape", DIMS(2), shape);
    y = model_quantised(&m, "y", TFLITE_INT8, DIMS(4, 2), NULL, 0.5f, -10);
    model_op(&m, 114, &first, 1, in[1]);
    model_op(&m, 122, in, 3, y);
    model_io(&m, first, y);
    must_give(&m, x, DIMS(2, 2), (const float[]){-4, -18, 0, 0, -8, -6, 0, 0},
              8);
}

/* ---- DENSIFY ------------------------------------------------------- */

/* Weights of 2 x 4: 0 1 0 2, 3 0 0 0. */
static void sparse_model(struct model *m, struct model_sparse *s)
{
    static const float weight[] = {1, 2, 3};
    int in[2], y;

    *m = (struct model){.n_ops = 0};
    *s = (struct model_sparse){.order = {0, 1},
                               .size = {2, 4},
                               .segments = {0, 2, 3},
                               .indices = {1, 3, 0},
                               .n_segments = 3,
                               .n_indices = 3};
    in[1] = model_float(m, "packed", DIMS(2, 4), weight);
    m->tensor[in[1]].bytes = sizeof weight;
    m->tensor[in[1]].sparse = s;
    y = model_float(m, "w", DIMS(2, 4), NULL);
    model_op(m, 124, &in[1], 1, y);
    in[0] = model_float(m, "x", DIMS(1, 4), NULL);
    in[1] = y;
    y = model_float(m, "y", DIMS(1, 2), NULL);
    model_op(m, 9, in, 2, y);
    model_io(m, in[0], y);
}

TEST(test_densify)
{
    static const float x[] = {10, 20, 30, 40};
    struct model_sparse s;
    struct model m;

    sparse_model(&m, &s);
    must_give(&m, x, DIMS(1, 4), (const float[]){100, 30}, 2);
    /* By columns: 0 2 0 3, 1 0 0 0. */
    s = (struct model_sparse){.order = {1, 0},
                              .size = {4, 2},
                              .segments = {0, 1, 2, 2, 3},
                              .indices = {1, 0, 0},
                              .n_segments = 5,
                              .n_indices = 3};
    must_give(&m, x, DIMS(1, 4), (const float[]){160, 10}, 2);
}

TEST(test_damaged)
{
    struct model_sparse s;
    struct model m;

    sparse_model(&m, &s);
    s.indices[1] = 4;
    must_refuse(&m, INFER_EFORMAT, "an index out of range");
    sparse_model(&m, &s);
    s.segments[1] = 4;
    must_refuse(&m, INFER_EFORMAT, "segments out of order");
    sparse_model(&m, &s);
    s.n_segments = 2;
    must_refuse(&m, INFER_EFORMAT, "segments end early");
    sparse_model(&m, &s);
    s.segments[2] = 2;
    must_refuse(&m, INFER_EFORMAT, "elements are left over");
    sparse_model(&m, &s);
    m.tensor[0].bytes = 8;
    must_refuse(&m, INFER_EFORMAT, "its elements end early");
    sparse_model(&m, &s);
    s.order[1] = 0;
    must_refuse(&m, INFER_EFORMAT, "levels out of order");
    sparse_model(&m, &s);
    s.size[0] = 3;
    must_refuse(&m, INFER_EFORMAT, "a level of another size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantise),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_scatter_quantised),
        cmocka_unit_test(test_densify),
        cmocka_unit_test(test_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
