/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of the reference whatever the numbers: impulse, linearity,
 * shift, adjoint; and what it must refuse. */
#include <string.h>

#include "tests/unit/kernels/ref_case.h"

#define X_DIMS 2, 4, 6, 5
#define W_DIMS 6, 2, 3, 2
#define Y_DIMS 2, 6, 4, 6

/* 2 groups, stride 2 and 1, dilation 1 and 2, pads on four sides. */
static const struct kern_conv conv = {.groups = 2,
                                      .stride = {2, 1},
                                      .dilation = {1, 2},
                                      .pad_begin = {2, 0},
                                      .pad_end = {1, 3}};

/* Conv of x with w, both filled already, into c->out. */
static struct ref_case *new_conv(void)
{
    struct ref_case *c = ref_new(KERN_CONV_FPROP);

    c->p.attr.conv = conv;
    ref_ramp(c, 0, 7, 11, DIMS(X_DIMS));
    ref_ramp(c, 1, 5, 7, DIMS(W_DIMS));
    ref_out(c, INFER_F32, c->out, DIMS(Y_DIMS));
    return c;
}

static void run(struct ref_case *c)
{
    if (ref_launch(c) < 0)
        fail_msg("%s", c->err.text);
}

/* A 1 at one place of x puts the kernel, turned round, around it. */
TEST(test_impulse)
{
    struct ref_case *c = ref_new(KERN_CONV_FPROP);
    const int64_t n = 7, at = 3;

    c->p.attr.conv = (struct kern_conv){.groups = 1,
                                        .stride = {1, 1},
                                        .dilation = {1, 1},
                                        .pad_begin = {1, 1},
                                        .pad_end = {1, 1}};
    ref_ramp(c, 0, 0, 1, DIMS(1, 1, n, n));
    ref_ramp(c, 1, 5, 7, DIMS(1, 1, 3, 3));
    ref_out(c, INFER_F32, c->out, DIMS(1, 1, n, n));
    c->in[0][at * n + at] = 1;
    run(c);
    for (int64_t i = 0; i < n * n; i++) {
        const int64_t r = at + 1 - i / n, s = at + 1 - i % n;
        const bool near = r >= 0 && r < 3 && s >= 0 && s < 3;
        assert_float_equal(c->out[i], near ? c->in[1][r * 3 + s] : 0, 0);
    }
    free(c);
}

/* conv(2 x + x') = 2 conv(x) + conv(x'); all sums are exact here. */
TEST(test_linearity)
{
    struct ref_case *a = new_conv(), *b = new_conv(), *both = new_conv();

    for (int64_t i = 0; i < kern_tensor_count(&a->p.in[0]); i++) {
        b->in[0][i] = (float)(i * 3 % 5) - 2;
        both->in[0][i] = 2 * a->in[0][i] + b->in[0][i];
    }
    run(a);
    run(b);
    run(both);
    for (int64_t i = 0; i < kern_tensor_count(&a->p.out[0]); i++)
        assert_float_equal(both->out[i], 2 * a->out[i] + b->out[i], 0);
    free(a);
    free(b);
    free(both);
}

/* Moving x by one stride moves y by one, away from the borders. */
TEST(test_shift)
{
    struct ref_case *a = ref_new(KERN_CONV_FPROP), *b;
    const int64_t n = 12;

    a->p.attr.conv =
        (struct kern_conv){.groups = 1, .stride = {2}, .dilation = {1}};
    ref_ramp(a, 0, 7, 11, DIMS(1, 1, n));
    ref_ramp(a, 1, 5, 7, DIMS(1, 1, 3));
    ref_out(a, INFER_F32, a->out, DIMS(1, 1, 5));
    b = malloc(sizeof(*b));
    assert_non_null(b);
    *b = *a;
    b->args.in[0] = b->in[0];
    b->args.in[1] = b->in[1];
    b->args.out[0] = b->out;
    memmove(b->in[0] + 2, a->in[0], (size_t)(n - 2) * sizeof(float));
    run(a);
    run(b);
    for (int i = 0; i < 4; i++)
        assert_float_equal(b->out[i + 1], a->out[i], 0);
    free(a);
    free(b);
}

static double inner(const float *a, const float *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* <dy, conv(x)> = <conv_transpose(dy), x>: the weights of the one are those of
 * the other, and the transposed output has x's extent. */
TEST(test_adjoint)
{
    struct ref_case *c = new_conv();
    struct ref_case *t = ref_new(KERN_CONV_TRANSPOSE_FPROP);

    t->p.attr.conv = conv;
    ref_ramp(t, 0, 3, 13, DIMS(Y_DIMS));
    ref_ramp(t, 1, 5, 7, DIMS(W_DIMS));
    ref_out(t, INFER_F32, t->out, DIMS(X_DIMS));
    run(c);
    run(t);
    const double a = inner(t->in[0], c->out, kern_tensor_count(&c->p.out[0]));
    const double b = inner(t->out, c->in[0], kern_tensor_count(&c->p.in[0]));
    assert_true(a != 0);
    assert_float_equal(a, b, 0);
    free(c);
    free(t);
}

/* The same numbers in any layout give the same result. */
TEST(test_layouts_agree)
{
    struct ref_case *a = new_conv(), *b = new_conv();
    const int64_t dim[] = {X_DIMS};

    b->p.in[0] = kern_tensor_dense(INFER_F32, 4, dim, KERN_NHWC);
    for (int64_t i = 0; i < 2 * 4 * 6 * 5; i++) {
        const int64_t w = i % 5, h = i / 5 % 6, ch = i / 30 % 4, n = i / 120;
        b->in[0][((n * 6 + h) * 5 + w) * 4 + ch] = a->in[0][i];
    }
    run(a);
    run(b);
    assert_memory_equal(a->out, b->out, 2 * 6 * 4 * 6 * sizeof(float));
    free(a);
    free(b);
}

/* ---- refusals ------------------------------------------------------ */

/* One change to a good convolution, and what the refusal says. */
static void spoil(struct kern_problem *p, int what)
{
    switch (what) {
    case 0:
        p->in[1].dim[1] = 3;
        break;
    case 1:
        p->out[0] =
            kern_tensor_dense(INFER_F32, 4, (int64_t[]){2, 6, 5, 6}, KERN_NCHW);
        break;
    case 2:
        p->attr.conv.groups = 0;
        break;
    case 3:
        p->attr.conv.groups = 3;
        break;
    case 4:
        p->attr.conv.stride[0] = 0;
        break;
    case 5:
        p->attr.conv.dilation[1] = -1;
        break;
    case 6:
        p->in[0].rank = 2;
        break;
    case 7:
        p->in[0].rank = KERN_MAX_RANK + 1;
        break;
    case 8:
        p->in[0].dim[2] = INT64_MAX;
        break;
    case 9:
        p->in[0].dim[2] = -1;
        break;
    case 10:
        p->out[0].stride[1] = 0;
        break;
    case 11:
        p->in[1].dtype = INFER_NONE;
        break;
    case 12:
        p->n_in = 1;
        break;
    case 13:
        p->n_in = 9;
        break;
    case 14:
        p->in[0].dtype = INFER_I64;
        break;
    case 15:
        p->epilogue.act.kind = KERN_UNARY_COUNT;
        break;
    case 16:
        p->in[0].stride[0] = INT64_MIN;
        break;
    default:
        p->attr.conv.pad_end[0] = INT32_MIN;
        break;
    }
}

TEST(test_conv_refusals)
{
    static const char *const words[] = {
        "weights has shape 6x3x3x2, expected 6x2x3x2",
        "output has shape 2x6x5x6, expected 2x6x4x6",
        "0 groups",
        "3 groups do not divide 4 and 6",
        "stride 0",
        "dilation -1",
        "rank 2",
        "rank 9",
        "impossible size",
        "impossible size",
        "share their place",
        "input 1 has no data type",
        "has 1 inputs",
        "has 9 inputs",
        "input 0 is I64",
        "unknown function",
        "impossible size",
        "pads",
    };

    for (size_t i = 0; i < COUNT(words); i++) {
        struct ref_case *c = new_conv();
        spoil(&c->p, (int)i);
        ref_refused(c, INFER_EUNSUPPORTED, words[i]);
    }
}

/* A problem of nothing but zeros is refused by every row, not crashed on. */
TEST(test_empty_problem)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};

    for (size_t i = 0; i < kern_row_count(); i++) {
        struct kern_problem p = {.op = kern_row_at(i)->op};
        struct infer_error why = {0};
        assert_int_equal(kern_row_supports(kern_row_at(i), &p, &cpu, &why),
                         INFER_EUNSUPPORTED);
        assert_true(why.text[0] != '\0');
        assert_int_equal(kern_row_supports(kern_row_at(i), &p, &cpu, NULL),
                         INFER_EUNSUPPORTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_impulse),
        cmocka_unit_test(test_linearity),
        cmocka_unit_test(test_shift),
        cmocka_unit_test(test_adjoint),
        cmocka_unit_test(test_layouts_agree),
        cmocka_unit_test(test_conv_refusals),
        cmocka_unit_test(test_empty_problem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
