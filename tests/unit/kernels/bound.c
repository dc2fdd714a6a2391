/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of convolutions by Winograd's transform, against F(4x4, 3x3) as it
 * is in single precision: it holds, it is not far, and a tile that is kept in
 * half precision breaks it. */
#include <math.h>
#include <stdlib.h>

#include "tests/unit/test.h"
#include "tools/verify/verify.h"

#define TILE  6
#define OUT   4
#define MAX_C 64

/* Points 0, 1, -1, 1/2, -1/2 and infinity. */
static const float b[TILE][TILE] = {{1, 0, -5, 0, 4, 0},  {0, 1, 1, -4, -4, 0},
                                    {0, 1, -1, -4, 4, 0}, {0, 1, 2, -1, -2, 0},
                                    {0, 1, -2, -1, 2, 0}, {0, 1, 0, -5, 0, 4}};
static const float g[TILE][3] = {{1, 0, 0},
                                 {-1.f / 6, -1.f / 6, -1.f / 6},
                                 {-1.f / 6, 1.f / 6, -1.f / 6},
                                 {1.f / 6, 1.f / 12, 1.f / 24},
                                 {1.f / 6, -1.f / 12, 1.f / 24},
                                 {0, 0, 1.f / 4}};
static const float a[OUT][TILE] = {{1, 1, -1, 8, -8, 0},
                                   {0, 1, 1, 4, 4, 0},
                                   {0, 1, -1, 2, -2, 0},
                                   {0, 1, 1, 1, 1, 1}};

/* to = m x m', x of n by n, to of rows by rows. */
static void transform(const float *m, int rows, int n, const float *x,
                      float *to)
{
    float half[TILE * TILE];

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += m[i * n + k] * x[k * n + j];
            half[i * n + j] = sum;
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < rows; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += half[i * n + k] * m[j * n + k];
            to[i * rows + j] = sum;
        }
}

static float to_half(float v)
{
    uint16_t h;

    scalar_store(INFER_F16, &h, 0, (double)v);
    return (float)scalar_load(INFER_F16, &h, 0);
}

/* One tile of one filter over c channels. */
static void winograd(int c, const float *x, const float *w, bool half,
                     float y[OUT * OUT])
{
    float sum[TILE * TILE] = {0}, u[TILE * TILE], v[TILE * TILE];

    for (int i = 0; i < c; i++) {
        transform(&g[0][0], TILE, 3, w + i * 9, u);
        transform(&b[0][0], TILE, TILE, x + i * TILE * TILE, v);
        for (int j = 0; j < TILE * TILE; j++)
            sum[j] += u[j] * (half ? to_half(v[j]) : v[j]);
    }
    transform(&a[0][0], OUT, TILE, sum, y);
}

static struct kern_problem problem_of(int c)
{
    const int64_t x[4] = {1, c, TILE, TILE}, w[4] = {1, c, 3, 3},
                  y[4] = {1, 1, OUT, OUT};
    struct kern_problem p = {
        .op = KERN_CONV_FPROP,
        .n_in = 2,
        .n_out = 1,
        .in = {kern_tensor_dense(INFER_F32, 4, x, KERN_NCHW),
               kern_tensor_dense(INFER_F32, 4, w, KERN_NCHW)},
        .out = {kern_tensor_dense(INFER_F32, 4, y, KERN_NCHW)},
        .attr.conv = {.groups = 1, .stride = {1, 1}, .dilation = {1, 1}}};

    return p;
}

/* The largest share of the bound that a tile with random data takes. */
static double share_of_bound(int c, bool half, struct rng *rng)
{
    const struct kern_problem p = problem_of(c);
    float x[MAX_C * TILE * TILE], w[MAX_C * 9], y[OUT * OUT];
    double tol[OUT * OUT], worst = 0;
    struct infer_error err = {0};
    struct reference t;

    assert_true(reference_new(&t, &p));
    data_fill(&p, 0, PASS_REAL, rng, c * TILE * TILE, x);
    data_fill(&p, 1, PASS_REAL, rng, c * 9, w);
    reference_set(&t, 0, INFER_F32, x);
    reference_set(&t, 1, INFER_F32, w);
    assert_true(reference_run(&t, &err));
    bound_transform(&t, BOUND_WINOGRAD, bound_unit(INFER_F32), tol);
    winograd(c, x, w, half, y);
    for (int i = 0; i < OUT * OUT; i++)
        worst =
            fmax(worst, fabs((double)y[i] - ((double *)t.out[0])[i]) / tol[i]);
    reference_free(&t);
    return worst;
}

TEST(test_winograd)
{
    struct rng rng = {11};

    for (int c = 1; c <= MAX_C; c *= 4) {
        double worst = 0, least = INFINITY;
        for (int i = 0; i < 300; i++) {
            worst = fmax(worst, share_of_bound(c, false, &rng));
            least = fmin(least, share_of_bound(c, true, &rng));
        }
        assert_true(worst < 0.6);
        assert_true(worst > 0.1);
        assert_true(least > 1);
    }
}

/* Fourier's has no gain; either grows with the filter and the activations. */
TEST(test_scale)
{
    const struct kern_problem p = problem_of(1);
    float x[TILE * TILE], w[9] = {0};
    double one[OUT * OUT], other[OUT * OUT];
    struct reference t;

    for (int i = 0; i < TILE * TILE; i++)
        x[i] = i % 3 == 0 ? 0.f : i % 2 ? 1.f : -1.f; /* pads count for none */
    w[0] = 1;
    assert_true(reference_new(&t, &p));
    reference_set(&t, 0, INFER_F32, x);
    reference_set(&t, 1, INFER_F32, w);
    bound_transform(&t, BOUND_WINOGRAD, 1, one);
    bound_transform(&t, BOUND_FOURIER, 1, other);
    assert_true(fabs(one[0] - 8 * sqrt(26. / 3) * (79 + 4. / 9)) < 1e-6);
    assert_true(fabs(other[15] - 8 * sqrt(196. / 3)) < 1e-9);
    w[0] = 3;
    reference_set(&t, 1, INFER_F32, w);
    bound_transform(&t, BOUND_FOURIER, 1, one);
    assert_true(fabs(one[7] - 3 * other[7]) < 1e-9);
    reference_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_winograd),
        cmocka_unit_test(test_scale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
