/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes that train one network: their parts of the data, what they
 * exchange, how they start and end.  Threads with host memory stand for
 * processes with GPUs. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/test.h"
#include "tools/train/data/random.h"
#include "tools/train/train.h"
#include "weights/arch/build.h"

#define SIDE    6
#define CLASSES 3
#define WHOLE   6 /* pictures a batch, of all ranks */
#define RANKS   3

static struct device cpu;

static int open_cpu(void **state)
{
    (void)state;
    return device_open("cpu", 1, NULL, NULL, &cpu);
}

static int close_cpu(void **state)
{
    (void)state;
    device_close(&cpu);
    return 0;
}

/* ---- an exchange between threads ----------------------------------- */

struct meeting {
    pthread_barrier_t barrier;
    float *data[RANKS];
    void *from; /* of rank 0 */
    int reduced, joined;
};

struct member {
    struct exchange base;
    struct meeting *meeting;
};

static int meet_reduce(struct exchange *x, void *data, int64_t count,
                       enum infer_dtype dtype, bool mean,
                       struct infer_error *err)
{
    struct meeting *m = ((struct member *)x)->meeting;

    (void)err;
    if (dtype != INFER_F32)
        return INFER_EUNSUPPORTED;
    m->data[x->rank] = data;
    pthread_barrier_wait(&m->barrier);
    if (x->rank == 0) {
        m->reduced++;
        for (int64_t i = 0; i < count; i++) {
            float sum = 0;

            for (int r = 0; r < x->size; r++)
                sum += m->data[r][i];
            if (mean)
                sum /= (float)x->size;
            for (int r = 0; r < x->size; r++)
                m->data[r][i] = sum;
        }
    }
    pthread_barrier_wait(&m->barrier);
    return 0;
}

static int meet_join(struct exchange *x, struct infer_error *err)
{
    (void)err;
    if (x->rank == 0)
        ((struct member *)x)->meeting->joined++;
    return 0;
}

static int meet_share(struct exchange *x, void *data, size_t bytes,
                      struct infer_error *err)
{
    struct meeting *m = ((struct member *)x)->meeting;

    (void)err;
    if (x->rank == 0)
        m->from = data;
    pthread_barrier_wait(&m->barrier);
    if (x->rank > 0)
        memcpy(data, m->from, bytes);
    pthread_barrier_wait(&m->barrier);
    return 0;
}

static void meet_close(struct exchange *x)
{
    (void)x;
}

static const struct exchange_ops meet = {meet_reduce, meet_join, meet_share,
                                         meet_close};

/* ---- a network ----------------------------------------------------- */

/* Without batch normalisation, with it behind the first layer, and with it in
 * a residual block as well, where it takes in the addition. */
enum norms { NO_NORM, NORM, NORMS };

static struct graph *network(enum norms norms)
{
    const struct arch_conv again = {.in = 4, .out = 4, .kernel = 3, .pad = 1};
    struct arch_build b;
    struct graph *g = NULL;
    int x, y;

    arch_build_begin(&b, "small", NULL);
    x = arch_image_input(&b, 1, SIDE, SIDE, NULL);
    x = arch_conv(&b, "conv", x,
                  (struct arch_conv){
                      .in = 1, .out = 4, .kernel = 3, .pad = 1, .bias = true});
    if (norms != NO_NORM)
        x = arch_batch_norm(&b, "norm", x, 4);
    x = arch_relu(&b, x);
    if (norms == NORMS) {
        y = arch_batch_norm(&b, "norm1", arch_conv(&b, "conv1", x, again), 4);
        y = arch_conv(&b, "conv2", arch_relu(&b, y), again);
        y = arch_batch_norm(&b, "norm2", y, 4);
        x = arch_relu(&b, arch_add(&b, y, x));
    }
    x = arch_dense(&b, "fc", arch_flatten(&b, x), 4 * SIDE * SIDE, CLASSES);
    assert_int_equal(arch_build_end(&b, x, &g), 0);
    return g;
}

static void picture(float *x, int32_t *label, uint64_t number)
{
    struct random r = random_at(5, RANDOM_SHUFFLE, number);

    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = random_normal(&r);
    *label = (int32_t)random_below(&r, CLASSES);
}

/* What one rank does, and what came of it. */
struct task {
    struct member member;
    int ranks, accumulate, steps;
    enum norms norms;
    bool sync;
    bool stop_at_2; /* asks for the end at the second step */
    struct net *net;
    double loss[8];
    int64_t hit[8];
    bool stop[8];
    float *weights, *grads;
    int64_t step;
    int rc;
    struct infer_error err;
};

static int make(struct task *t)
{
    struct net_options o = {.device = &cpu,
                            .backend = INFER_BACKEND_REF,
                            .dtype = INFER_F32,
                            .batch = WHOLE / t->ranks / t->accumulate,
                            .accumulate = t->accumulate,
                            .update = true,
                            .sync_norm = t->sync,
                            .momentum = true,
                            .bn_momentum = 0.1f,
                            .rule = {.kind = KERN_UPDATE_SGD, .beta1 = 0.9f},
                            .step = {.clip = 1,
                                     .growth = 1,
                                     .backoff = 1,
                                     .max_scale = 65536,
                                     .interval = 2000}};
    int rc;

    if (t->ranks > 1)
        o.exchange = &t->member.base;
    rc = net_new(network(t->norms), &o, &t->err, &t->net);
    /* Other first weights everywhere: rank 0's must win. */
    if (rc == 0)
        rc = init_random(t->net, INIT_PYTORCH,
                         1 + (uint64_t)t->member.base.rank, &t->err);
    t->step = 100 * (t->member.base.rank + 1);
    return rc < 0 || t->ranks == 1 ? rc : net_share(t->net, &t->step, &t->err);
}

/* Step s takes pictures s * WHOLE and so on, of which every rank takes its
 * part of every smaller batch. */
static int one_step(struct task *t, int s)
{
    const int rank = t->member.base.rank;
    const int part = WHOLE / t->accumulate, mine = part / t->ranks;
    float x[WHOLE * SIDE * SIDE];
    int32_t label[WHOLE];
    int rc = net_begin(t->net, &t->err);

    for (int a = 0; rc == 0 && a < t->accumulate; a++) {
        struct net_metrics m;

        for (int i = 0; i < mine; i++)
            picture(x + i * SIDE * SIDE, label + i,
                    (uint64_t)(s * WHOLE + a * part + rank * mine + i));
        rc = net_put_batch(t->net, x, label, &t->err);
        if (rc == 0)
            rc = net_put_control(t->net, 0.1f, 1, 0, &t->err);
        if (rc == 0)
            rc = net_put_stop(t->net, t->stop_at_2 && s == 1, &t->err);
        if (rc == 0)
            rc = net_train(t->net, a == 0, &t->err);
        if (rc == 0)
            rc = net_read_metrics(t->net, &t->err, &m);
        if (rc < 0)
            break;
        t->loss[s] += m.loss;
        t->hit[s] += m.hit;
        t->stop[s] = t->stop[s] || m.stop;
    }
    if (rc == 0)
        rc = net_update(t->net, &t->err);
    return rc < 0 ? rc : net_end(t->net, &t->err);
}

static void *work(void *user)
{
    struct task *t = user;

    t->rc = make(t);
    for (int s = 0; t->rc == 0 && s < t->steps; s++)
        t->rc = one_step(t, s);
    if (t->rc == 0) {
        t->weights = malloc(net_flat_bytes(t->net, NET_WEIGHTS));
        t->grads = malloc(net_flat_bytes(t->net, NET_GRADS));
        t->rc = net_read_flat(t->net, NET_WEIGHTS, t->weights, &t->err);
    }
    if (t->rc == 0)
        t->rc = net_read_flat(t->net, NET_GRADS, t->grads, &t->err);
    return NULL;
}

static void run_all(struct task *t, int ranks, struct meeting *m)
{
    pthread_t thread[RANKS];

    memset(m, 0, sizeof(*m));
    pthread_barrier_init(&m->barrier, NULL, (unsigned)ranks);
    for (int r = 0; r < ranks; r++) {
        t[r].member.base = (struct exchange){&meet, r, ranks};
        t[r].member.meeting = m;
        t[r].ranks = ranks;
        assert_int_equal(pthread_create(&thread[r], NULL, work, &t[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&m->barrier);
    for (int r = 0; r < ranks; r++)
        if (t[r].rc < 0)
            fail_msg("rank %d: %s", r, t[r].err.text);
}

static void clear(struct task *t)
{
    net_free(t->net);
    free(t->weights);
    free(t->grads);
    memset(t, 0, sizeof(*t));
}

static void near(const float *a, const float *b, size_t bytes, double limit)
{
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= limit))
            fail_msg("element %zu: %g and %g", i, (double)a[i], (double)b[i]);
}

/* ---- training together --------------------------------------------- */

/* Without batch normalisation three ranks do what one does with the whole
 * batch, and all of them end with the same bits. */
TEST(ranks_train_as_one)
{
    struct meeting m;

    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        struct task one = {.accumulate = accumulate, .steps = 4};
        struct task t[RANKS];

        run_all(&one, 1, &m);
        assert_int_equal(m.reduced, 0);
        for (int r = 0; r < RANKS; r++)
            t[r] = (struct task){
                .accumulate = accumulate, .steps = 4, .stop_at_2 = r == 1};
        /* Six pictures in two batches are three a batch, one a rank. */
        run_all(t, RANKS, &m);
        assert_true(m.reduced >= 8);
        assert_true(m.joined >= 4);
        for (int r = 0; r < RANKS; r++) {
            const size_t bytes = net_flat_bytes(one.net, NET_WEIGHTS);

            assert_memory_equal(t[r].weights, t[0].weights, bytes);
            near(t[r].weights, one.weights, bytes, 2e-6);
            near(t[r].grads, one.grads, net_flat_bytes(one.net, NET_GRADS),
                 2e-6);
            assert_int_equal(t[r].step, 100);
            for (int s = 0; s < 4; s++) {
                assert_true(fabs(t[r].loss[s] - one.loss[s]) < 1e-5);
                assert_int_equal(t[r].hit[s], one.hit[s]);
                assert_int_equal(t[r].stop[s], s == 1);
            }
        }
        clear(&one);
        for (int r = 0; r < RANKS; r++)
            clear(&t[r]);
    }
}

/* With it every rank normalises by its own part; running statistics become
 * their mean. */
TEST(norms_keep_common_statistics)
{
    struct task one = {.accumulate = 1, .steps = 3, .norms = NORM};
    struct task t[RANKS];
    struct meeting m;
    const struct net *n;
    bool moved = false;

    run_all(&one, 1, &m);
    for (int r = 0; r < RANKS; r++)
        t[r] = (struct task){.accumulate = 1, .steps = 3, .norms = NORM};
    run_all(t, RANKS, &m);
    n = one.net;
    for (int r = 0; r < RANKS; r++) {
        const int64_t from = n->role_begin[NET_RUNNING];

        assert_memory_equal(t[r].weights, t[0].weights,
                            net_flat_bytes(n, NET_WEIGHTS));
        /* Means of the first layer's outputs hardly depend on the part. */
        for (int i = 0; i < 4; i++) {
            moved = moved || t[r].weights[from + i] != 0;
            assert_true(fabs((double)(t[r].weights[from + i] -
                                      one.weights[from + i])) < 0.05);
        }
    }
    assert_true(moved);
    clear(&one);
    for (int r = 0; r < RANKS; r++)
        clear(&t[r]);
}

/* With the statistics of all ranks' batch three ranks do what one does with the
 * whole of it, in batch norms' gradients and running statistics too; with
 * statistics of their own parts they do something else. */
TEST(norms_see_the_whole_batch)
{
    struct meeting m;

    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        const struct task plan = {
            .accumulate = accumulate, .steps = 4, .norms = NORMS};
        struct task one = plan, t[RANKS], apart[RANKS];

        run_all(&one, 1, &m);
        for (int r = 0; r < RANKS; r++) {
            t[r] = apart[r] = plan;
            t[r].sync = true;
        }
        run_all(t, RANKS, &m);
        run_all(apart, RANKS, &m);
        for (int r = 0; r < RANKS; r++) {
            const size_t bytes = net_flat_bytes(one.net, NET_WEIGHTS);

            assert_memory_equal(t[r].weights, t[0].weights, bytes);
            near(t[r].weights, one.weights, bytes, 1e-5);
            near(t[r].grads, one.grads, net_flat_bytes(one.net, NET_GRADS),
                 1e-5);
            for (int s = 0; s < 4; s++) {
                assert_true(fabs(t[r].loss[s] - one.loss[s]) < 2e-5);
                assert_int_equal(t[r].hit[s], one.hit[s]);
            }
            assert_true(fabs(apart[r].loss[3] - one.loss[3]) > 1e-3);
        }
        clear(&one);
        for (int r = 0; r < RANKS; r++) {
            clear(&t[r]);
            clear(&apart[r]);
        }
    }
}

/* ---- parts of the data --------------------------------------------- */

#define PICTURES 11

static void fill_set(struct data_set *set, uint8_t *pixels, int32_t *label)
{
    memset(set, 0, sizeof(*set));
    set->count = PICTURES;
    set->channels = set->height = set->width = 1;
    set->classes = PICTURES;
    set->pixels = pixels;
    set->label = label;
    for (int i = 0; i < PICTURES; i++) {
        pixels[i] = (uint8_t)i;
        label[i] = i;
    }
}

static struct loader *open_loader(struct data_set *set, int rank, int ranks,
                                  bool whole)
{
    const struct loader_options o = {
        .set = set,
        .batch = 6 / ranks,
        .rank = rank,
        .ranks = ranks,
        .threads = ranks == 1 ? 1 : 3,
        .seed = 3,
        .shuffle = true,
        .whole = whole,
        .preprocess = {.scale = 1, .std = {1, 1, 1, 1}}};
    struct loader *l = NULL;

    assert_int_equal(loader_new(&o, NULL, &l), 0);
    assert_int_equal(loader_start(l, 0, 0, NULL), 0);
    return l;
}

TEST(ranks_share_batches)
{
    uint8_t pixels[PICTURES];
    int32_t label[PICTURES];
    struct data_set set;

    fill_set(&set, pixels, label);
    for (int whole = 0; whole < 2; whole++) {
        struct loader *one = open_loader(&set, 0, 1, whole);
        struct loader *part[RANKS];
        const int64_t batches = loader_batches(one);

        assert_int_equal(batches, 1 + whole);
        for (int r = 0; r < RANKS; r++) {
            part[r] = open_loader(&set, r, RANKS, whole);
            assert_int_equal(loader_batches(part[r]), batches);
        }
        for (int64_t i = 0; i < batches; i++) {
            const struct loader_batch *all, *b;
            int64_t sum = 0;

            assert_int_equal(loader_next(one, NULL, &all), 0);
            assert_int_equal(all->all, all->count);
            for (int r = 0; r < RANKS; r++) {
                assert_int_equal(loader_next(part[r], NULL, &b), 0);
                assert_int_equal(b->all, all->count);
                assert_memory_equal(b->label, all->label + 2 * r,
                                    2 * sizeof(*b->label));
                sum += b->count;
            }
            assert_int_equal(sum, all->count);
        }
        loader_free(one);
        for (int r = 0; r < RANKS; r++)
            loader_free(part[r]);
    }
}

/* ---- processes ----------------------------------------------------- */

static int told;

static int tell(const struct infer_error *err, void *user)
{
    (void)user;
    told++;
    assert_int_not_equal(err->code, 0);
    return 77;
}

/* Every process gets what rank 0 has, twice, and all are different. */
static int share_work(struct group *g, void *user)
{
    (void)user;
    for (int round = 0; round < 2; round++) {
        int value = g->rank == 0 ? 41 + round : 0;

        if (group_share(g, &value, sizeof(value), NULL) < 0 ||
            value != 41 + round)
            return 1;
    }
    return g->size == 4 && g->local == g->rank && g->local_size == 4 ? 0 : 2;
}

/* Rank 2 fails while the others wait for ever. */
static int fail_work(struct group *g, void *user)
{
    (void)user;
    if (g->rank != 2)
        for (;;)
            pause();
    if (!group_may_tell(g))
        return 6;
    group_told(g);
    return group_may_tell(g) ? 6 : 5;
}

/* Both fail; the one that tells why is slow, and the other must not end before,
 * as the first end is that of all. */
static int slow_work(struct group *g, void *user)
{
    const struct timespec slow = {.tv_nsec = 50000000};
    const int *end = user;

    if (group_may_tell(g)) {
        nanosleep(&slow, NULL);
        if (write(end[1], "x", 1) != 1)
            return 6;
        group_told(g);
    }
    return 5;
}

static int crash_work(struct group *g, void *user)
{
    (void)user;
    if (g->rank == 1)
        raise(SIGKILL);
    while (g->rank >= 0)
        pause();
    return 0;
}

static int alone_work(struct group *g, void *user)
{
    *(int *)user = (int)getpid();
    return g->size == 1 && g->rank == 0 && group_may_tell(g) ? 0 : 1;
}

TEST(processes_start_and_end)
{
    int pid = 0, end[2];
    char said[2];

    told = 0;
    assert_int_equal(group_run(1, alone_work, &pid, tell), 0);
    assert_int_equal(pid, (int)getpid());
    assert_int_equal(group_run(4, share_work, NULL, tell), 0);
    assert_int_equal(group_run(3, fail_work, NULL, tell), 5);
    assert_int_equal(told, 0);
    assert_int_equal(group_run(2, crash_work, NULL, tell), 77);
    assert_int_equal(told, 1);
    assert_int_equal(pipe(end), 0);
    assert_int_equal(group_run(2, slow_work, end, tell), 5);
    close(end[1]);
    assert_int_equal(read(end[0], said, sizeof said), 1);
    close(end[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_train_as_one),
        cmocka_unit_test(norms_keep_common_statistics),
        cmocka_unit_test(norms_see_the_whole_batch),
        cmocka_unit_test(ranks_share_batches),
        cmocka_unit_test(processes_start_and_end),
    };

    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
