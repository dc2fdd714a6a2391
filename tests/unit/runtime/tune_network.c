/* SPDX-License-Identifier: Apache-2.0 */
/* Choices in their network: the search on a network that only pretends to run.
 */
#include "tests/unit/runtime/network.h"
#include "tests/unit/runtime/tuning_file.h"

#include "kernels/base/error.h"
#include "libinfer/plan/plan.h"
#include "libinfer/tune/tune_private.h"

/* ---- a network of three problems, the first of which it has twice ---- */

#define STEPS 4
static const int problem_of[STEPS] = {0, 1, 0, 2};

struct pretended {
    struct device device;
    struct tuner *tuner;
    struct kern_problem problem[3];
    struct tune_step step[STEPS];
    struct tune_network network;
    /* Seconds of a run with these variants. */
    double (*cost)(const int *variant);
    int stands[STEPS];
    double clock, each; /* each: seconds that a trial takes */
    double noise;       /* of a run, this part at most */
    uint64_t state;
    int trials, turns;
    int unready;  /* a variant that cannot be made ready; -1: none */
    bool refuses; /* no step takes any row */
    bool fails;
};

static void variants_of(const struct pretended *f, int *variant)
{
    for (int i = 0; i < STEPS; i++)
        variant[i] = f->step[i].choice.variant;
}

static bool pretend_takes(void *user, int step, const struct kern_row *row)
{
    const struct pretended *f = user;

    return row->op == f->step[step].problem->op && !f->refuses;
}

static double noisy(struct pretended *f, double seconds)
{
    return seconds * (1 + f->noise * (double)random_real(&f->state));
}

static int pretend_ready(void *user, struct infer_error *err)
{
    struct pretended *f = user;
    int variant[STEPS];

    f->trials++;
    f->clock += f->each;
    variants_of(f, variant);
    if (f->fails)
        return error_set(err, INFER_EDEVICE, "the card has left the slot");
    for (int i = 0; i < STEPS; i++)
        if (variant[i] == f->unready)
            return 1;
    return 0;
}

static int pretend_time(void *user, int n, struct infer_error *err,
                        double *stands, double *tried)
{
    struct pretended *f = user;
    int variant[STEPS];

    (void)err;
    f->turns += n;
    variants_of(f, variant);
    for (int i = 0; i < n; i++) {
        stands[i] = noisy(f, f->cost(f->stands));
        tried[i] = noisy(f, f->cost(variant));
    }
    return 0;
}

static void pretend_commit(void *user, bool stands)
{
    struct pretended *f = user;

    if (stands)
        variants_of(f, f->stands);
}

static double pretend_now(void *user)
{
    const struct pretended *f = user;

    return f->clock;
}

static struct tune_choice choice(int variant, double seconds)
{
    struct tune_choice c = {.variant = variant, .seconds = seconds};

    c.row = kern_row_find("unary_ref");
    assert_non_null(c.row);
    snprintf(c.variant_name, sizeof c.variant_name, "v%d", variant);
    return c;
}

/* The problems' own choices are variants 1, 2 and 3 came near, and the rule
 * takes variant 0. */
static void open_pretended(struct pretended *f, enum tune_mode mode,
                           double (*cost)(const int *))
{
    const struct row_tiers tiers = {.n = 1,
                                    .tier = {ROW_TIER(INFER_BACKEND_REF)}};
    struct infer_error err = {0};

    memset(f, 0, sizeof *f);
    assert_int_equal(device_open("cpu", 1, NULL, &err, &f->device), 0);
    f->device.kern.kind = KERN_CUDA; /* nothing is measured on a CPU */
    assert_int_equal(
        tuner_open(mode, tuning_path, &f->device, &tiers, &err, &f->tuner), 0);
    f->cost = cost;
    f->each = 0.01;
    f->noise = 5e-4;
    f->state = 88172645463325252u;
    f->unready = -1;
    f->network = (struct tune_network){.step = f->step,
                                       .n_steps = STEPS,
                                       .user = f,
                                       .takes = pretend_takes,
                                       .ready = pretend_ready,
                                       .time = pretend_time,
                                       .commit = pretend_commit,
                                       .now = pretend_now};
    for (int k = 0; k < 3; k++) {
        struct kern_problem *p = &f->problem[k];
        const int64_t dim[2] = {4, 8 + k};

        p->op = KERN_UNARY;
        p->n_in = p->n_out = 1;
        p->in[0] = kern_tensor_dense(INFER_F32, 2, dim, KERN_NCHW);
        p->out[0] = p->in[0];
    }
    for (int i = 0; i < STEPS; i++) {
        f->step[i].problem = &f->problem[problem_of[i]];
        f->step[i].choice = choice(1, 10e-6);
        f->step[i].rule = choice(0, 0);
        f->stands[i] = 1;
    }
}

/* A first search, of which nothing is known. */
static void open_first(struct pretended *f, double (*cost)(const int *))
{
    unlink(tuning_path);
    open_pretended(f, TUNE_ON, cost);
}

static void know_problems(struct pretended *f)
{
    struct infer_error err = {0};

    for (int k = 0; k < 3; k++) {
        const struct tune_choice c[3] = {choice(1, 10e-6), choice(2, 11e-6),
                                         choice(3, 12e-6)};
        struct tune_entry e = {.best = tune_stored_of(&c[0]), .n_near = 2};
        char key[TUNE_KEY];

        e.near[0] = tune_stored_of(&c[1]);
        e.near[1] = tune_stored_of(&c[2]);
        tune_key(&f->problem[k], key, sizeof key);
        assert_int_equal(tune_cache_add(f->tuner->cache, key, &e, &err), 0);
    }
}

static void close_pretended(struct pretended *f)
{
    tuner_finish(f->tuner);
    tuner_close(f->tuner);
    device_close(&f->device);
}

static void expect(const struct pretended *f, int a, int b, int c)
{
    const int want[3] = {a, b, c};

    for (int i = 0; i < STEPS; i++)
        assert_int_equal(f->step[i].choice.variant, want[problem_of[i]]);
}

static int exchanges(const struct pretended *f)
{
    struct infer_tuning_info info;

    tuner_info(f->tuner, &info);
    return info.exchanged;
}

/* Refines, and finds the search where it left the network. */
static void refine(struct pretended *f)
{
    struct infer_error err = {0};

    know_problems(f);
    assert_true(tuner_may_refine(f->tuner, &f->network));
    if (tuner_refine(f->tuner, &f->network, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(f->step[i].choice.variant, f->stands[i]);
}

/* One start of many, from opening to closing: a search, or what is left of it.
 */
static void search(enum tune_mode mode, double (*cost)(const int *))
{
    struct pretended f;

    open_pretended(&f, mode, cost);
    refine(&f);
    close_pretended(&f);
}

static bool recalls(enum tune_mode mode, double (*cost)(const int *))
{
    struct pretended f;
    bool found;

    open_pretended(&f, mode, cost);
    found = tuner_recall(f.tuner, &f.network);
    close_pretended(&f);
    return found;
}

/* ---- the search ---------------------------------------------------- */

/* Slower alone, but its neighbours overlap with it. */
static double third_overlaps(const int *v)
{
    return (v[1] == 3 ? 95e-6 : 100e-6) + (v[1] == 0 ? 9e-6 : 0) +
           (v[0] == 0 ? 9e-6 : 0);
}

static void test_finds(void **unused)
{
    struct pretended f;

    (void)unused;
    open_first(&f, third_overlaps);
    refine(&f);
    expect(&f, 1, 3, 1);
    assert_int_equal(exchanges(&f), 1);
    /* The rule's set, three others for each of three problems, and all of them
     * again but for two that were far behind. */
    assert_int_equal(f.trials, 1 + 9 + 7);
    close_pretended(&f);

    /* The second start costs nothing. */
    open_pretended(&f, TUNE_ON, third_overlaps);
    assert_true(tuner_recall(f.tuner, &f.network));
    expect(&f, 1, 3, 1);
    assert_string_equal(f.step[1].choice.variant_name, "v3");
    assert_int_equal(exchanges(&f), 1);
    assert_int_equal(f.trials, 0);
    close_pretended(&f);
}

/* No single exchange helps, all that the rule takes together does. */
static double all_or_none(const int *v)
{
    int zeros = 0;

    for (int i = 0; i < STEPS; i++)
        zeros += v[i] == 0;
    return zeros == STEPS ? 92e-6 : 100e-6 + 1e-6 * zeros;
}

static void test_rule(void **unused)
{
    struct pretended f;

    (void)unused;
    open_first(&f, all_or_none);
    refine(&f);
    expect(&f, 0, 0, 0);
    assert_int_equal(exchanges(&f), 3);
    close_pretended(&f);
}

/* An exchange that is worth it only after a later one: a second pass. */
static double second_thought(const int *v)
{
    return 100e-6 - (v[3] == 2 ? 4e-6 : 0) -
           (v[0] == 2 ? v[3] == 2 ? 5e-6 : -0.5e-6 : 0);
}

static void test_passes(void **unused)
{
    struct pretended f;

    (void)unused;
    open_first(&f, second_thought);
    refine(&f);
    expect(&f, 2, 1, 2);
    close_pretended(&f);
}

static double all_alike(const int *v)
{
    (void)v;
    return 100e-6;
}

static double far_behind(const int *v)
{
    for (int i = 0; i < STEPS; i++)
        if (v[i] != 1)
            return 103e-6;
    return 100e-6;
}

/* What is far behind is given up soon, what is alike after a while. */
static void test_gives_up(void **unused)
{
    struct pretended f;

    (void)unused;
    open_first(&f, far_behind);
    refine(&f);
    expect(&f, 1, 1, 1);
    assert_int_equal(f.trials, 10);
    assert_int_equal(f.turns, 4 * f.trials);
    close_pretended(&f);
    open_first(&f, all_alike);
    refine(&f);
    assert_in_range(f.turns, 4 * f.trials + 1, 45 * f.trials - 1);
    close_pretended(&f);
}

/* A little, in most turns but not in nearly all: 45 of them tell. */
static double slightly(const int *v)
{
    return v[3] == 2 ? 99.7e-6 : 100e-6;
}

static void test_small_gain(void **unused)
{
    struct pretended f;

    (void)unused;
    open_first(&f, slightly);
    f.noise = 3e-3;
    refine(&f);
    expect(&f, 1, 1, 2);
    close_pretended(&f);
}

/* Less than what is worth a change. */
static double hardly(const int *v)
{
    return v[0] == 2 ? 99.9e-6 : 100e-6;
}

static void test_noise(void **unused)
{
    double (*const cost[])(const int *) = {all_alike, hardly};
    struct pretended f;

    (void)unused;
    for (int i = 0; i < 2; i++) {
        open_first(&f, cost[i]);
        refine(&f);
        expect(&f, 1, 1, 1);
        assert_int_equal(exchanges(&f), 0);
        /* The rule's set, and three others for each of three problems. */
        assert_int_equal(f.trials, 10);
        close_pretended(&f);
        /* That nothing helps is remembered too. */
        open_pretended(&f, TUNE_ON, cost[i]);
        assert_true(tuner_recall(f.tuner, &f.network));
        expect(&f, 1, 1, 1);
        close_pretended(&f);
    }
}

static void test_bounds(void **unused)
{
    struct pretended f;

    (void)unused;
    open_first(&f, all_alike);
    f.each = 0.3;
    refine(&f);
    assert_in_range(f.trials, 3, 4);
    close_pretended(&f);
    /* Long runs are not worth it, nor are networks without a choice. */
    open_pretended(&f, TUNE_ON, all_alike);
    know_problems(&f);
    f.step[3].choice.seconds = 1;
    assert_false(tuner_may_refine(f.tuner, &f.network));
    f.step[3].choice.seconds = 1e-6;
    assert_true(tuner_may_refine(f.tuner, &f.network));
    for (int i = 0; i < STEPS; i++)
        f.step[i].choice.seconds = 0;
    assert_false(tuner_may_refine(f.tuner, &f.network));
    close_pretended(&f);
}

static void test_unready(void **unused)
{
    struct pretended f;
    struct infer_error err = {0};

    (void)unused;
    open_first(&f, third_overlaps);
    f.unready = 3;
    refine(&f);
    expect(&f, 1, 1, 1);
    close_pretended(&f);
    open_first(&f, third_overlaps);
    know_problems(&f);
    f.fails = true;
    assert_int_equal(tuner_refine(f.tuner, &f.network, &err), INFER_EDEVICE);
    assert_int_equal(f.trials, 1);
    assert_non_null(strstr(err.text, "left the slot"));
    f.fails = false;
    for (int i = 0; i < STEPS; i++)
        f.step[i].choice = choice(1, 10e-6);
    assert_false(tuner_recall(f.tuner, &f.network));
    close_pretended(&f);
}

/* ---- what is remembered -------------------------------------------- */

static void test_stale(void **unused)
{
    struct pretended f;

    (void)unused;
    unlink(tuning_path);
    search(TUNE_ON, third_overlaps);
    assert_true(recalls(TUNE_ON, third_overlaps));
    /* One of the network's own choices is another by now. */
    open_pretended(&f, TUNE_ON, third_overlaps);
    f.step[3].choice.variant = 2;
    assert_false(tuner_recall(f.tuner, &f.network));
    close_pretended(&f);
    /* A row that cannot be taken. */
    open_pretended(&f, TUNE_ON, third_overlaps);
    f.refuses = true;
    assert_false(tuner_recall(f.tuner, &f.network));
    expect(&f, 1, 1, 1);
    assert_int_equal(exchanges(&f), 0);
    close_pretended(&f);
    /* Another network of the same problems. */
    open_pretended(&f, TUNE_ON, third_overlaps);
    f.network.n_steps = STEPS - 1;
    assert_false(tuner_recall(f.tuner, &f.network));
    close_pretended(&f);
}

/* A plain search does for a plain one only, an exhaustive one for both. */
static void test_exhaustive(void **unused)
{
    struct pretended f;

    (void)unused;
    unlink(tuning_path);
    search(TUNE_ON, third_overlaps);
    assert_false(recalls(TUNE_EXHAUSTIVE, third_overlaps));
    search(TUNE_EXHAUSTIVE, third_overlaps);
    assert_true(recalls(TUNE_EXHAUSTIVE, third_overlaps));
    open_pretended(&f, TUNE_ON, third_overlaps);
    assert_true(tuner_recall(f.tuner, &f.network));
    expect(&f, 1, 3, 1);
    close_pretended(&f);
    open_pretended(&f, TUNE_OFF, third_overlaps);
    assert_false(tuner_recall(f.tuner, &f.network));
    assert_false(tuner_may_refine(f.tuner, &f.network));
    close_pretended(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds),      cmocka_unit_test(test_rule),
        cmocka_unit_test(test_passes),     cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_small_gain), cmocka_unit_test(test_noise),
        cmocka_unit_test(test_bounds),     cmocka_unit_test(test_unready),
        cmocka_unit_test(test_stale),      cmocka_unit_test(test_exhaustive),
    };

    return cmocka_run_group_tests(tests, tuning_file_set_up,
                                  tuning_file_tear_down);
}
