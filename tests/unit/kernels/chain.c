/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of two convolutions: the reference is its parts bit for bit; what is
 * refused; the line for people. */
#include <config.h>

#include "kernels/chain/chain.h"
#include "tests/unit/kernels/ref_case.h"

struct shape {
    int n, c, h, w, m, k, groups, window, stride, pad;
    bool residual;
};

static struct ref_case *new_chain(const struct shape *s)
{
    const int high = (s->h + 2 * s->pad - s->window) / s->stride + 1;
    const int wide = (s->w + 2 * s->pad - s->window) / s->stride + 1;
    struct ref_case *c = ref_new(KERN_CHAIN);
    struct kern_conv *a = &c->p.attr.chain.conv;

    ref_ramp(c, CHAIN_X, 7, 11, DIMS(s->n, s->c, s->h, s->w));
    ref_ramp(c, CHAIN_W, 5, 7,
             DIMS(s->m, s->c / s->groups, s->window, s->window));
    ref_ramp(c, CHAIN_W2, 3, 5, DIMS(s->k, s->m, 1, 1));
    ref_ramp(c, CHAIN_BIAS, 2, 5, DIMS(s->m));
    ref_ramp(c, CHAIN_BIAS2, 4, 7, DIMS(s->k));
    if (s->residual)
        ref_ramp(c, CHAIN_RESIDUAL, 3, 13, DIMS(s->n, s->k, high, wide));
    ref_out(c, INFER_F32, c->out, DIMS(s->n, s->k, high, wide));
    a->groups = s->groups;
    for (int i = 0; i < 2; i++) {
        a->stride[i] = s->stride;
        a->dilation[i] = 1;
        a->pad_begin[i] = a->pad_end[i] = s->pad;
    }
    c->p.attr.chain.act = (struct kern_unary){KERN_SILU, 1, 0};
    c->p.epilogue.act.kind = KERN_RELU;
    return c;
}

/* The same by two convolutions, with a middle tensor in double. */
static void run_parts(const struct ref_case *c, double *middle, float *y)
{
    const struct kern_args first = {.in = {c->args.in[CHAIN_X],
                                           c->args.in[CHAIN_W],
                                           c->args.in[CHAIN_BIAS]},
                                    .out = {middle}};
    const struct kern_args second = {.in = {middle, c->args.in[CHAIN_W2],
                                            c->args.in[CHAIN_BIAS2],
                                            c->args.in[CHAIN_RESIDUAL]},
                                     .out = {y}};
    struct kern_problem p;
    struct infer_error err = {0};

    chain_first(&c->p, INFER_F64, KERN_NCHW, &p);
    assert_true(kern_tensor_count(&p.out[0]) <= REF_CASE_MAX);
    if (kern_reference_run(&p, &first, &err) < 0)
        fail_msg("%s", err.text);
    chain_second(&c->p, INFER_F64, KERN_NCHW, &p);
    if (kern_reference_run(&p, &second, &err) < 0)
        fail_msg("%s", err.text);
}

TEST(test_parts)
{
    static const struct shape shapes[] = {
        {1, 4, 5, 6, 4, 3, 4, 3, 1, 1, false},  /* depthwise, 1x1 */
        {2, 4, 5, 5, 4, 6, 4, 5, 2, 2, true},   /* strided, residual */
        {1, 3, 5, 4, 8, 5, 1, 3, 1, 1, true},   /* 3x3, 1x1 */
        {2, 6, 3, 3, 4, 5, 2, 1, 1, 0, false}}; /* groups; 1x1, 1x1 */

    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct ref_case *c = new_chain(&shapes[i]);
        double middle[REF_CASE_MAX];
        float y[REF_CASE_MAX];

        if (ref_launch(c) < 0)
            fail_msg("%s", c->err.text);
        run_parts(c, middle, y);
        assert_memory_equal(
            y, c->out, (size_t)kern_tensor_count(&c->p.out[0]) * sizeof *y);
        free(c);
    }
}

TEST(test_figures)
{
    const struct shape s = {2, 4, 5, 6, 4, 3, 4, 3, 1, 1, true};
    struct ref_case *c = new_chain(&s);
    char text[256];

    /* 60 pixels; 4 x 9 and 3 x 4 products for each. */
    assert_true(kern_problem_flops(&c->p) == 2 * 60 * (36 + 12));
    assert_string_equal(
        kern_problem_format(&c->p, text, sizeof text),
        "chain 2x4x5x6,4x1x3x3,3x4x1x1,4,3,2x3x5x6:2x3x5x6 +bias +silu +bias2 "
        "+residual +relu nchw F32");
    free(c);
}

TEST(test_refused)
{
    const struct shape s = {1, 4, 5, 6, 4, 3, 4, 3, 1, 1, false};
    struct ref_case *c = new_chain(&s);

    ref_ramp(c, CHAIN_W2, 3, 5, DIMS(3, 4, 3, 1));
    ref_refused(c, INFER_EUNSUPPORTED, "second window is 3 pixels");
    c = new_chain(&s);
    ref_ramp(c, CHAIN_W2, 3, 5, DIMS(3, 5, 1, 1));
    ref_refused(c, INFER_EUNSUPPORTED, "weights has shape 3x5x1x1");
    c = new_chain(&s);
    ref_ramp(c, CHAIN_BIAS2, 3, 5, DIMS(4));
    ref_refused(c, INFER_EUNSUPPORTED, "bias has shape 4");
    c = new_chain(&s);
    ref_ramp(c, CHAIN_W2, 3, 5, DIMS(3, 4));
    ref_refused(c, INFER_EUNSUPPORTED, "ranks 4, 4, 2 and 4");
    c = new_chain(&s);
    ref_out(c, INFER_F32, c->out, DIMS(1, 3, 5, 5));
    ref_refused(c, INFER_EUNSUPPORTED, "output has shape");
    c = new_chain(&s);
    c->p.attr.chain.act.kind = KERN_UNARY_COUNT;
    ref_refused(c, INFER_EUNSUPPORTED, "unknown function");
    c = new_chain(&s);
    c->p.attr.chain.conv.groups = 3;
    ref_refused(c, INFER_EUNSUPPORTED, "3 groups do not divide");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
