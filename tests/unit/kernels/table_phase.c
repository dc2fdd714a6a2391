/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and dense layers as the GPU's tables of products see them
 * (kernels/cuda/table/phase.h): the pixels of all phases are those of y, each
 * once, and what they read of x is inside it. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/table/phase.h"
#include "tests/unit/test.h"

/* A tensor whose elements lie two apart, the last dimension outermost. */
static struct kern_tensor sparse(int rank, const int64_t *dim)
{
    struct kern_tensor t = kern_tensor_dense(INFER_F32, rank, dim, KERN_NCHW);
    int64_t stride = 2;

    for (int i = 0; i < rank; i++) {
        t.stride[i] = stride;
        stride *= dim[i];
    }
    return t;
}

/* Counts the elements of y that the phases write. */
static void expect_each_output_once(const struct kern_problem *p)
{
    const struct kern_tensor *y = &p->out[0];
    const int64_t count = kern_tensor_count(y);
    struct table_phase phase[TABLE_MAX_PHASES];
    unsigned char *written = calloc((size_t)count, 2);
    int64_t stride[4], dim[3];

    assert_non_null(written);
    assert_int_equal(table_check_attributes(p, NULL), 0);
    const int phases = table_read_phases(p, phase);
    table_read_strides(p, y, stride, dim);
    for (int i = 0; i < phases; i++) {
        const struct table_phase *f = &phase[i];
        assert_int_equal(f->g.m, f->g.n * f->g.p * f->g.q);
        for (int m = 0; m < f->g.m; m++) {
            const int q = m % f->g.q, row = m / f->g.q;
            const int64_t at =
                row / f->g.p * stride[0] +
                (f->first[0] + row % f->g.p * f->step[0]) * stride[1] +
                (f->first[1] + q * f->step[1]) * stride[2];
            for (int k = 0; k < f->g.k; k++) {
                assert_in_range(at + k * stride[3], 0, 2 * count - 1);
                written[at + k * stride[3]]++;
            }
        }
    }
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(written[2 * i], 1);
        assert_int_equal(written[2 * i + 1], 0);
    }
    free(written);
}

/* Whose channels are x's last dimension: rows and channels are all of x. */
static void expect_dense_input(const struct kern_problem *p)
{
    const struct kern_tensor *x = &p->in[0];
    struct table_phase phase[TABLE_MAX_PHASES];
    int64_t stride[4], dim[3], last = 0;

    assert_int_equal(table_read_phases(p, phase), 1);
    table_read_strides(p, x, stride, dim);
    assert_int_equal(dim[0] * dim[1] * dim[2] * x->dim[x->rank - 1],
                     kern_tensor_count(x));
    for (int i = 0; i < 3; i++)
        last += (dim[i] - 1) * stride[i];
    last += (x->dim[x->rank - 1] - 1) * stride[3];
    assert_int_equal(last, 2 * (kern_tensor_count(x) - 1));
    assert_int_equal(phase[0].g.n, dim[0]);
    assert_int_equal(phase[0].g.h, dim[1]);
    assert_int_equal(phase[0].g.w, dim[2]);
}

TEST(test_dense_of_any_rank)
{
    const int64_t x[][4] = {{23}, {3, 23}, {2, 3, 23}, {2, 3, 4, 23}};

    for (int rank = 1; rank <= 4; rank++) {
        struct kern_problem p = {.op = KERN_DENSE_FPROP, .n_in = 2, .n_out = 1};
        int64_t y[4];
        memcpy(y, x[rank - 1], sizeof y);
        y[rank - 1] = 5;
        p.in[0] = sparse(rank, x[rank - 1]);
        p.in[1] = sparse(2, (const int64_t[]){5, 23});
        p.out[0] = sparse(rank, y);
        expect_each_output_once(&p);
        expect_dense_input(&p);
    }
}

TEST(test_convolutions_of_one_and_two_dimensions)
{
    struct kern_problem p = {.op = KERN_CONV_FPROP, .n_in = 2, .n_out = 1};
    struct kern_conv *c = &p.attr.conv;

    c->groups = 1;
    c->stride[0] = c->stride[1] = 2;
    c->dilation[0] = c->dilation[1] = 1;
    c->pad_begin[0] = c->pad_begin[1] = c->pad_end[0] = c->pad_end[1] = 1;
    p.in[0] = sparse(3, (const int64_t[]){2, 6, 9});
    p.in[1] = sparse(3, (const int64_t[]){5, 6, 3});
    p.out[0] = sparse(3, (const int64_t[]){2, 5, 5});
    expect_each_output_once(&p);
    p.in[0] = sparse(4, (const int64_t[]){2, 6, 9, 7});
    p.in[1] = sparse(4, (const int64_t[]){5, 6, 3, 3});
    p.out[0] = sparse(4, (const int64_t[]){2, 5, 5, 4});
    expect_each_output_once(&p);
}

TEST(test_transposed_convolutions)
{
    struct kern_problem p = {
        .op = KERN_CONV_TRANSPOSE_FPROP, .n_in = 2, .n_out = 1};
    struct kern_conv *c = &p.attr.conv;

    for (int stride = 1; stride <= 2; stride++)
        for (int odd = 0; odd < 2; odd++) {
            c->groups = 1;
            c->stride[0] = c->stride[1] = stride;
            c->dilation[0] = c->dilation[1] = 1;
            p.in[0] = sparse(4, (const int64_t[]){2, 6, 4, 5});
            p.in[1] = sparse(4, (const int64_t[]){6, 7, 3, 2});
            p.out[0] = sparse(4, (const int64_t[]){2, 7, 3 * stride + 3 + odd,
                                                   4 * stride + 2 + odd});
            expect_each_output_once(&p);
            c->groups = 2; /* 3 outputs each */
            p.in[1] = sparse(4, (const int64_t[]){6, 3, 3, 2});
            p.out[0] = sparse(
                4, (const int64_t[]){2, 6, p.out[0].dim[2], p.out[0].dim[3]});
            expect_each_output_once(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_of_any_rank),
        cmocka_unit_test(test_convolutions_of_one_and_two_dimensions),
        cmocka_unit_test(test_transposed_convolutions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
