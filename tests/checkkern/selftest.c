/* SPDX-License-Identifier: Apache-2.0 */
/* checkkern must be able to fail: rows that are wrong in one way each.  The
 * reports that it prints on the way are expected. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/base/error.h"
#include "tests/checkkern/checkkern.h"

#define N 24

enum fault {
    FAULT_NONE,
    FAULT_UNWRITTEN,
    FAULT_NAN,
    FAULT_ROUGH,      /* 1e-5 off */
    FAULT_OFF_BY_ONE, /* neighbours exchanged */
    FAULT_BEFORE,     /* writes before the output */
    FAULT_BEHIND,     /* and behind it */
    FAULT_WORKSPACE,  /* uses a byte more than it said */
    FAULT_INPUT,      /* writes to its input */
    FAULT_UNSTABLE,   /* a second run differs in the last bit */
    FAULT_LAUNCH,     /* fails after supports() */
    FAULT_PREPARE,
    FAULT_REASON,      /* refuses without saying why */
    FAULT_CODE,        /* refuses with another code */
    FAULT_READS_AHEAD, /* takes the element behind the last input */
    FAULT_PACK_BEHIND, /* packs a byte more than it said */
    FAULT_PACK_GAP,    /* leaves a byte that no run reads */
    FAULT_PACKED,      /* writes to its packed input */
    FAULT_IN_PLACE,    /* reads what it has written already */
    FAULT_COUNT
};

static enum fault fault;

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)p;
    (void)d;
    if (fault == FAULT_REASON)
        return INFER_EUNSUPPORTED;
    return fault == FAULT_CODE ? error_set(why, INFER_EARGUMENT, "no") : 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    (void)d;
    e->workspace = 64;
    if (fault == FAULT_PACK_BEHIND || fault == FAULT_PACKED)
        e->packed[0] = N * sizeof(float);
    if (fault == FAULT_PACK_GAP)
        e->packed[0] = N * sizeof(float) + 1;
    return fault == FAULT_PREPARE ? error_set(err, INFER_EMEMORY, "no") : 0;
}

static int pack(const struct kern_exec *e, int i, const void *src, void *dst,
                struct infer_error *err)
{
    (void)err;
    memcpy(dst, src, N * sizeof(float));
    if (fault == FAULT_PACK_BEHIND)
        ((char *)dst)[e->packed[i]] = 0;
    return 0;
}

/* The identity, and then something else. */
static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    static int runs;
    const float *x = args->in[0];
    float *y = args->out[0];

    (void)e;
    runs++;
    if (fault == FAULT_IN_PLACE)
        y[7] = 9;
    memmove(y, x, (fault == FAULT_UNWRITTEN ? N - 1 : N) * sizeof(*y));
    switch (fault) {
    case FAULT_NAN:
        y[7] = NAN;
        break;
    case FAULT_ROUGH:
        y[7] += 1e-5f;
        break;
    case FAULT_OFF_BY_ONE:
        memmove(y, x + 1, (N - 1) * sizeof(*y));
        break;
    case FAULT_BEFORE:
        y[-1] = 0;
        break;
    case FAULT_BEHIND:
        y[N] = 0;
        break;
    case FAULT_WORKSPACE:
        ((char *)args->workspace)[64] = 0;
        break;
    case FAULT_INPUT:
    case FAULT_PACKED:
        ((float *)(uintptr_t)x)[3] = 9;
        break;
    case FAULT_UNSTABLE:
        y[7] = runs % 2 ? x[7] : nextafterf(x[7], 99);
        break;
    case FAULT_LAUNCH:
        return error_set(err, INFER_EDEVICE, "no");
    case FAULT_READS_AHEAD:
        y[N - 1] = x[N - 1] + 0 * x[N];
        break;
    default:
        break;
    }
    return 0;
}

static const struct kern_functions functions = {
    .supports = supports, .prepare = prepare, .pack = pack, .launch = launch};

static const struct kern_row row = {.name = "selftest",
                                    .op = KERN_UNARY,
                                    .backend = INFER_BACKEND_CPU,
                                    .dtype = INFER_F32,
                                    .acc = INFER_F32,
                                    .fn = &functions};

static enum verdict check(const struct kern_row *r, enum kern_unary_kind kind)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};
    struct check c = {.row = r, .device = &cpu, .id.seed = 1};
    struct kern_problem p = {.op = KERN_UNARY, .n_in = 1, .n_out = 1};

    p.in[0] = kern_tensor_dense(INFER_F32, 1, (int64_t[]){N}, KERN_NCHW);
    p.out[0] = p.in[0];
    p.attr.unary = (struct kern_unary){.kind = kind, .a = 1};
    return check_problem(&c, &p);
}

static void test_right(void **state)
{
    (void)state;
    fault = FAULT_NONE;
    assert_int_equal(check(&row, KERN_IDENTITY), VERDICT_OK);
}

static void test_faults(void **state)
{
    (void)state;
    for (int f = FAULT_NONE + 1; f < FAULT_COUNT; f++) {
        fault = (enum fault)f;
        if (check(&row, KERN_IDENTITY) != VERDICT_FAILED)
            fail_msg("fault %d went unnoticed", f);
    }
}

/* A flagged row may differ between runs, within the tolerance: that of 1 x + 0
 * has room for the last bit, a copy has none. */
static void test_unstable_flagged(void **state)
{
    struct kern_row flagged = row;

    (void)state;
    flagged.flags = KERN_NONDETERMINISTIC | KERN_INEXACT;
    fault = FAULT_UNSTABLE;
    assert_int_equal(check(&flagged, KERN_LINEAR), VERDICT_OK);
}

/* The same row, seed and number are the same problem. */
static void test_replay(void **state)
{
    struct kern_problem a, b;

    (void)state;
    for (size_t i = 0; i < kern_row_count(); i++)
        for (int k = 0; k < 60; k++) {
            const struct problem_id id = {.seed = 5, .number = k};
            problem_make(kern_row_at(i), &id, &a);
            problem_make(kern_row_at(i), &id, &b);
            assert_memory_equal(&a, &b, sizeof(a));
        }
}

/* The device that the kernels are measured on, as far as supports() asks; a row
 * of the CPU asks nothing. */
static struct kern_device device_of(const struct kern_row *r)
{
    if (r->backend != INFER_BACKEND_CUDA)
        return (struct kern_device){.kind = KERN_CPU, .threads = 2};
    return (struct kern_device){.kind = KERN_CUDA,
                                .sm = 90,
                                .threads = 1,
                                .multiprocessors = 132,
                                .shared_per_block_optin = 227 << 10,
                                .l2_bytes = 50 << 20};
}

/* Whether one of the draws of a random problem is for the row. */
static bool is_met(const struct kern_row *r, struct problem_id id)
{
    const struct kern_device d = device_of(r);
    struct kern_problem p;

    for (id.draw = 0; id.draw < PROBLEM_DRAWS; id.draw++) {
        problem_make(r, &id, &p);
        if (problem_is_small(&id, &p) &&
            kern_row_supports(r, &p, &d, NULL) == 0)
            return true;
    }
    return false;
}

/* Every row of this build meets problems enough in its type, or in one of all
 * where it takes several: a quarter of the numbers give one (each has a kind of
 * function, say, and not every row knows all).  Rows of cuDNN need cuDNN to say
 * so. */
static void test_met(void **state)
{
    (void)state;
    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *r = kern_row_at(i);
        struct problem_id id = {.seed = 3};
        int most = 0;
        if (r->backend == INFER_BACKEND_CUDNN)
            continue;
        for (int t = INFER_F64; t < INFER_DTYPE_COUNT && most < 5; t++) {
            int met = 0;
            id.dtype = r->dtype != INFER_NONE ? r->dtype : (enum infer_dtype)t;
            for (int k = 0; k < 20; k++) {
                id.number = problem_fixed_count(r->op) + k;
                met += is_met(r, id);
            }
            most = met > most ? met : most;
        }
        if (most < 5)
            fail_msg("%s met a problem in %d of 20 numbers", r->name, most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_unstable_flagged),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_met),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
