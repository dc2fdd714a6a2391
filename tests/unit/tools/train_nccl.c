/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange through NCCL among the launches of a recorded step.  One GPU
 * alone in its group adds nothing up, so that every bit must be as without an
 * exchange, and no part of the step may be missed or moved.  Batch norms that
 * see the batch of all GPUs take other launches for the same.  Skipped where
 * there is no GPU or no NCCL. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"
#include "tools/train/data/random.h"
#include "tools/train/train.h"
#include "weights/arch.h"

#define BATCH 16
#define SIDE  32
/* The first two run launch by launch. */
#define STEPS 6

static struct device gpu;
static struct exchange *alone;

static struct net *make(struct exchange *x, bool sync, enum infer_dtype dtype,
                        int accumulate)
{
    const struct net_options o = {
        .device = &gpu,
        .exchange = x,
        .sync_norm = sync,
        .dtype = dtype,
        .deterministic = true,
        .batch = BATCH,
        .accumulate = accumulate,
        .update = true,
        .momentum = true,
        .average = true,
        .bn_momentum = 0.1f,
        .rule = {.kind = KERN_UPDATE_SGD, .beta1 = 0.9f, .average_decay = 0.9f},
        .step = {.clip = 1,
                 .growth = 1,
                 .backoff = 1,
                 .max_scale = 65536,
                 .interval = 2000}};
    const struct arch_row *row = arch_find("resnet20-cifar");
    struct infer_error err = {0};
    struct graph *g = NULL;
    struct net *n = NULL;
    int64_t step = 7;

    if (row->build(row, 10, &err, &g) < 0 || net_new(g, &o, &err, &n) < 0 ||
        init_random(n, INIT_KAIMING, 1, &err) < 0 ||
        (x && net_share(n, &step, &err) < 0))
        fail_msg("%s", err.text);
    assert_int_equal(step, 7);
    return n;
}

static void one_step(struct net *n, int s, struct net_metrics *m)
{
    static float x[BATCH * 3 * SIDE * SIDE];
    int32_t label[BATCH];
    struct infer_error err = {0};
    int rc = net_begin(n, &err);

    for (int a = 0; rc == 0 && a < n->options.accumulate; a++) {
        struct random r = random_at(3, RANDOM_SHUFFLE, (uint64_t)(2 * s + a));

        for (int i = 0; i < BATCH * 3 * SIDE * SIDE; i++)
            x[i] = random_normal(&r);
        for (int i = 0; i < BATCH; i++)
            label[i] = (int32_t)random_below(&r, 10);
        rc = net_put_batch(n, x, label, &err);
        if (rc == 0)
            rc = net_put_control(n, 0.05f, 1, (uint64_t)s, &err);
        if (rc == 0)
            rc = net_put_stop(n, s == 4, &err);
        if (rc == 0)
            rc = net_train(n, a == 0, &err);
        if (rc == 0)
            rc = net_read_metrics(n, &err, m);
    }
    if (rc == 0)
        rc = net_update(n, &err);
    if (rc == 0)
        rc = net_end(n, &err);
    if (rc < 0)
        fail_msg("step %d: %s", s, err.text);
}

static void same(struct net *a, struct net *b, enum net_memory home)
{
    const size_t bytes = net_flat_bytes(a, home);
    float *x = malloc(bytes), *y = malloc(bytes);

    assert_int_equal(net_flat_bytes(b, home), bytes);
    assert_int_equal(net_read_flat(a, home, x, NULL), 0);
    assert_int_equal(net_read_flat(b, home, y, NULL), 0);
    for (size_t i = 0; i < bytes / sizeof(*x); i++)
        if (memcmp(x + i, y + i, sizeof(*x)) != 0)
            fail_msg("array %d, element %zu: %g and %g", (int)home, i,
                     (double)x[i], (double)y[i]);
    free(x);
    free(y);
}

static void compare(enum infer_dtype dtype, int accumulate)
{
    struct net *with = make(alone, false, dtype, accumulate);
    struct net *without = make(NULL, false, dtype, accumulate);

    for (int s = 0; s < STEPS; s++) {
        struct net_metrics a, b;

        one_step(with, s, &a);
        one_step(without, s, &b);
        assert_true(a.loss == b.loss && a.hit == b.hit);
        assert_int_equal(a.stop, s == 4);
    }
    same(with, without, NET_WEIGHTS);
    same(with, without, NET_M);
    same(with, without, NET_AVERAGE);
    net_free(with);
    net_free(without);
}

TEST(an_exchange_alone_changes_nothing)
{
    compare(INFER_F32, 1);
    compare(INFER_BF16, 1);
    compare(INFER_F32, 2);
}

/* ||a - b|| / ||b|| over a range of a flat array. */
static double apart(struct net *a, struct net *b, enum net_memory home,
                    int64_t from, int64_t to)
{
    const size_t bytes = net_flat_bytes(a, home);
    float *x = malloc(bytes), *y = malloc(bytes);
    double off = 0, all = 0;

    assert_int_equal(net_read_flat(a, home, x, NULL), 0);
    assert_int_equal(net_read_flat(b, home, y, NULL), 0);
    for (int64_t i = from; i < to; i++) {
        off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)y[i] * (double)y[i];
    }
    free(x);
    free(y);
    return sqrt(off / all);
}

/* The first step, where only rounding differs, closely; the others, which are
 * recorded, by their loss. */
static void compare_sync(enum infer_dtype dtype, int accumulate, double limit,
                         double loss_limit)
{
    struct net *with = make(alone, true, dtype, accumulate);
    struct net *without = make(NULL, false, dtype, accumulate);
    const int64_t trained = with->role_begin[NET_FROZEN];
    const int64_t running = with->role_begin[NET_RUNNING];
    const int64_t end = with->role_begin[NET_ROLES];

    for (int s = 0; s < STEPS; s++) {
        struct net_metrics a, b;
        double grads, averages;

        one_step(with, s, &a);
        one_step(without, s, &b);
        grads = apart(with, without, NET_GRADS, 0, trained);
        averages = apart(with, without, NET_WEIGHTS, running, end);
        printf("step %d: losses %g and %g, gradients apart by %.1e, running "
               "statistics by %.1e\n",
               s, a.loss / BATCH, b.loss / BATCH, grads, averages);
        assert_true(fabs(a.loss - b.loss) / BATCH <= loss_limit);
        if (s == 0)
            assert_true(grads <= limit && averages <= limit / 10);
    }
    net_free(with);
    net_free(without);
}

TEST(norms_of_all_equal_norms)
{
    compare_sync(INFER_F32, 1, 5e-3, 0.01);
    compare_sync(INFER_F32, 2, 5e-3, 0.01);
    compare_sync(INFER_BF16, 1, 0.3, 0.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exchange_alone_changes_nothing),
        cmocka_unit_test(norms_of_all_equal_norms),
    };
    struct group g = {.size = 1, .local_size = 1};
    struct infer_error err = {0};
    int failed;

    if (exchange_check(&g, &err) < 0 ||
        device_open("cuda", 1, NULL, &err, &gpu) < 0) {
        printf("skipped: %s\n", err.text);
        return getenv("INFER_REQUIRE_GPU") ? 1 : 77;
    }
    if (exchange_open(&g, &gpu, &err, &alone) < 0) {
        printf("FAILED: %s\n", err.text);
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    exchange_close(alone);
    device_close(&gpu);
    return failed;
}
