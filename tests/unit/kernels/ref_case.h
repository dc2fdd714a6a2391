/* SPDX-License-Identifier: Apache-2.0 */
/* Problems in a few lines, run on the reference. */
#ifndef TESTS_UNIT_KERNELS_REF_CASE_H
#define TESTS_UNIT_KERNELS_REF_CASE_H

#include <stdlib.h>
#include <string.h>

#include "kernels/reference.h"
#include "tests/unit/test.h"

#define REF_CASE_MAX 512 /* elements of any tensor here */

struct ref_case {
    struct kern_problem p;
    struct kern_args args;
    float in[KERN_MAX_IN][REF_CASE_MAX]; /* for ref_ramp() */
    float out[REF_CASE_MAX];
    struct infer_error err;
};

static inline struct ref_case *ref_new(enum kern_op op)
{
    struct ref_case *c = calloc(1, sizeof(*c));

    assert_non_null(c);
    c->p.op = op;
    c->p.n_out = 1;
    return c;
}

/* A dense row-major input; inputs between that are left out are absent. */
static inline void ref_data(struct ref_case *c, int i, enum infer_dtype dtype,
                            const void *data, int rank, const int64_t *dim)
{
    c->p.in[i] = kern_tensor_dense(dtype, rank, dim, KERN_NCHW);
    c->args.in[i] = data;
    if (c->p.n_in <= i)
        c->p.n_in = i + 1;
}

static inline void ref_in(struct ref_case *c, int i, const float *data,
                          int rank, const int64_t *dim)
{
    ref_data(c, i, INFER_F32, data, rank, dim);
}

/* Multiples of 1/4 around 0: element j is (j step mod n - n / 2) / 4. */
static inline void ref_ramp(struct ref_case *c, int i, int step, int n,
                            int rank, const int64_t *dim)
{
    ref_in(c, i, c->in[i], rank, dim);
    for (int64_t j = 0; j < kern_tensor_count(&c->p.in[i]); j++)
        c->in[i][j] = (float)(j * step % n - n / 2) * 0.25f;
}

static inline void ref_out(struct ref_case *c, enum infer_dtype dtype,
                           void *data, int rank, const int64_t *dim)
{
    c->p.out[0] = kern_tensor_dense(dtype, rank, dim, KERN_NCHW);
    c->args.out[0] = data;
}

/* The status of the first thing that fails. */
static inline int ref_launch(struct ref_case *c)
{
    return kern_reference_run(&c->p, &c->args, &c->err);
}

/* Runs into c->out, of the given shape, and compares with n values that are
 * right to single precision; frees the case. */
static inline void ref_expect(struct ref_case *c, const float *expected,
                              size_t n, int rank, const int64_t *dim)
{
    ref_out(c, INFER_F32, c->out, rank, dim);
    if (ref_launch(c) < 0)
        fail_msg("%s", c->err.text);
    assert_int_equal(kern_tensor_count(&c->p.out[0]), n);
    for (size_t i = 0; i < n; i++) {
        const double e = (double)expected[i], d = (double)c->out[i] - e;
        const double size = e < -1 ? -e : e > 1 ? e : 1;
        if (!(d <= 1e-6 * size && -d <= 1e-6 * size))
            fail_msg("%s: element %d is %.9g, expected %.9g",
                     kern_op_name(c->p.op), (int)i, (double)c->out[i], e);
    }
    free(c);
}
#define REF_EXPECT(c, expected, ...)                                           \
    ref_expect(c, expected, COUNT(expected), DIMS(__VA_ARGS__))

/* Expects a refusal whose text holds the words; frees the case. */
static inline void ref_refused(struct ref_case *c, int code, const char *words)
{
    const int r = ref_launch(c);

    assert_int_equal(r, code);
    if (!strstr(c->err.text, words))
        fail_msg("'%s' does not say '%s'", c->err.text, words);
    free(c);
}

#endif
