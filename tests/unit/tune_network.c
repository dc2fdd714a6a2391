/* SPDX-License-Identifier: Apache-2.0 */
/* Choices in their network: the search on a network that only pretends to run,
 * and a plan on a CPU whose clock is made up. */
#include "config.h"

#include "tests/unit/network.h"

#include <unistd.h>

#include "kernels/error.h"
#include "libinfer/plan.h"
#include "libinfer/tune.h"

static char folder[] = "tune-network-XXXXXX";
static char path[64];

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
    int refused; /* a variant that no step takes; -1: none */
    int unready; /* likewise, which cannot be made ready */
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

    return row->op == f->step[step].problem->op && f->refused < 0;
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

static int pretend_race(void *user, int n, struct infer_error *err,
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

static void pretend_settle(void *user, bool stands)
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
    const enum infer_backend backend = INFER_BACKEND_REF;
    struct infer_error err = {0};

    memset(f, 0, sizeof *f);
    assert_int_equal(device_open("cpu", 1, NULL, &err, &f->device), 0);
    f->device.kern.kind = KERN_CUDA; /* nothing is measured on a CPU */
    assert_int_equal(
        tuner_open(mode, path, &f->device, &backend, 1, &err, &f->tuner), 0);
    f->cost = cost;
    f->each = 0.01;
    f->noise = 5e-4;
    f->state = 88172645463325252u;
    f->refused = f->unready = -1;
    f->network = (struct tune_network){.step = f->step,
                                       .n_steps = STEPS,
                                       .user = f,
                                       .takes = pretend_takes,
                                       .ready = pretend_ready,
                                       .race = pretend_race,
                                       .settle = pretend_settle,
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

static void know_problems(struct pretended *f)
{
    struct infer_error err = {0};

    for (int k = 0; k < 3; k++) {
        const struct tune_choice c[3] = {choice(1, 10e-6), choice(2, 11e-6),
                                         choice(3, 12e-6)};
        struct tune_entry e = {.best = tune_way_of(&c[0]), .n_near = 2};
        char key[TUNE_KEY];

        e.near[0] = tune_way_of(&c[1]);
        e.near[1] = tune_way_of(&c[2]);
        tune_key(&f->problem[k], key, sizeof key);
        assert_int_equal(tune_cache_add(tuner_cache(f->tuner), key, &e, &err),
                         0);
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
    unlink(path);
    open_pretended(&f, TUNE_ON, third_overlaps);
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
    unlink(path);
    open_pretended(&f, TUNE_ON, all_or_none);
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
    unlink(path);
    open_pretended(&f, TUNE_ON, second_thought);
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
    unlink(path);
    open_pretended(&f, TUNE_ON, far_behind);
    refine(&f);
    expect(&f, 1, 1, 1);
    assert_int_equal(f.trials, 10);
    assert_int_equal(f.turns, 4 * f.trials);
    close_pretended(&f);
    unlink(path);
    open_pretended(&f, TUNE_ON, all_alike);
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
    unlink(path);
    open_pretended(&f, TUNE_ON, slightly);
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
        unlink(path);
        open_pretended(&f, TUNE_ON, cost[i]);
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
    unlink(path);
    open_pretended(&f, TUNE_ON, all_alike);
    f.each = 1;
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
    unlink(path);
    open_pretended(&f, TUNE_ON, third_overlaps);
    f.unready = 3;
    refine(&f);
    expect(&f, 1, 1, 1);
    close_pretended(&f);
    unlink(path);
    open_pretended(&f, TUNE_ON, third_overlaps);
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
    unlink(path);
    open_pretended(&f, TUNE_ON, third_overlaps);
    refine(&f);
    close_pretended(&f);

    /* One of the network's own choices is another by now. */
    open_pretended(&f, TUNE_ON, third_overlaps);
    f.step[3].choice.variant = 2;
    assert_false(tuner_recall(f.tuner, &f.network));
    close_pretended(&f);
    /* A row that cannot be taken. */
    open_pretended(&f, TUNE_ON, third_overlaps);
    f.refused = 0;
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
    unlink(path);
    open_pretended(&f, TUNE_ON, third_overlaps);
    refine(&f);
    close_pretended(&f);
    open_pretended(&f, TUNE_EXHAUSTIVE, third_overlaps);
    assert_false(tuner_recall(f.tuner, &f.network));
    refine(&f);
    close_pretended(&f);
    open_pretended(&f, TUNE_EXHAUSTIVE, third_overlaps);
    assert_true(tuner_recall(f.tuner, &f.network));
    close_pretended(&f);
    open_pretended(&f, TUNE_ON, third_overlaps);
    assert_true(tuner_recall(f.tuner, &f.network));
    expect(&f, 1, 3, 1);
    close_pretended(&f);
    open_pretended(&f, TUNE_OFF, third_overlaps);
    assert_false(tuner_recall(f.tuner, &f.network));
    assert_false(tuner_may_refine(f.tuner, &f.network));
    close_pretended(&f);
}

/* ---- a plan -------------------------------------------------------- */

#ifdef HAVE_ONEDNN
/* A CPU that records what it has launched already, by its seconds, and whose
 * time passes with replays only. */
struct device_graph {
    double seconds;
};

static struct {
    const struct plan *plan;
    double (*cost)(const struct plan *);
    double clock, mark[4096];
    int recorded;
} fake;

static int fake_record_begin(const struct device *d, struct infer_error *err)
{
    (void)d;
    (void)err;
    return 0;
}

static int fake_record_end(const struct device *d, struct infer_error *err,
                           struct device_graph **out)
{
    (void)d;
    (void)err;
    if (!out)
        return 0;
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    /* While rows are measured by themselves all are as fast. */
    (*out)->seconds = fake.plan->n_run > 0 ? fake.cost(fake.plan) : 20e-6;
    fake.recorded++;
    return 0;
}

static int fake_replay(const struct device *d, struct device_graph *graph,
                       struct infer_error *err)
{
    (void)d;
    (void)err;
    fake.clock += graph->seconds;
    return 0;
}

static void fake_graph_free(const struct device *d, struct device_graph *graph)
{
    (void)d;
    free(graph);
}

static int fake_mark(const struct device *d, int index, struct infer_error *err)
{
    (void)d;
    (void)err;
    assert_in_range(index, 0, 4095);
    fake.mark[index] = fake.clock;
    return 0;
}

static int fake_elapsed(const struct device *d, int index,
                        struct infer_error *err, double *seconds)
{
    (void)d;
    (void)err;
    *seconds = fake.mark[index] - fake.mark[index - 1];
    return 0;
}

/* The second convolution is quicker in any other way than its own, which is
 * the first that was measured, and the first is slower. */
static double odd_cost(const struct plan *plan)
{
    double seconds = 0;
    int convolutions = 0;

    for (int i = 0; i < plan->n_run; i++) {
        const struct plan_step *s = plan->run[i];
        const bool first = s->exec.problem.op == KERN_CONV_FPROP;

        seconds += 10e-6;
        convolutions += first;
        if (first && (s->exec.row != s->rule || s->exec.variant > 0))
            seconds += convolutions == 2 ? -5e-6 : 5e-6;
    }
    return seconds;
}

static struct graph *two_convolutions(void)
{
    struct graph *g = graph_new();
    uint64_t state = 88172645463325252u;
    int x, y;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 3, 12, 12));
    y = add_conv(g, &state, "first", x, 3, 8, 3, 1, 1, -1);
    y = add_conv(g, &state, "second", y, 8, 16, 3, 1, 1, -1);
    assert_int_equal(graph_add_output(g, y), 0);
    return g;
}

/* One run of a prepared plan on memory of its own. */
static void run_plan(struct plan *plan, const struct infer_array *x,
                     struct infer_array *y)
{
    void *arena = calloc(1, plan->arena_bytes + 64);
    void *workspace = calloc(1, plan->workspace_bytes + 64);
    void *aligned[2] = {(void *)(((uintptr_t)arena + 63) / 64 * 64),
                        (void *)(((uintptr_t)workspace + 63) / 64 * 64)};
    struct infer_error err = {0};

    assert_non_null(arena);
    assert_non_null(workspace);
    plan_bind(plan, aligned[0], aligned[1]);
    for (int i = 0; i < plan->n_patches; i++)
        *plan->patch[i].slot =
            (const unsigned char *)x->data + plan->patch[i].bytes;
    if (plan_launch(plan, &err) < 0)
        fail_msg("%s", err.text);
    memcpy(y->data, plan_locate(plan, &plan->output[0]), y->bytes);
    free(arena);
    free(workspace);
}

static void planned(struct infer_model *model, const struct device *d,
                    const struct infer_array *x, struct infer_array *y,
                    int *measured, int *exchanged, char *rows)
{
    struct plan_config config = {
        .model = model,
        .device = d,
        .backend = {INFER_BACKEND_ONEDNN, INFER_BACKEND_REF},
        .n_backends = 2};
    const struct graph_shape shape = {.rank = 4, .dim = {2, 3, 12, 12}};
    struct infer_error err = {0};
    struct infer_tuning_info info;
    struct plan *plan = NULL;

    assert_int_equal(tuner_open(TUNE_EXHAUSTIVE, path, d, config.backend, 2,
                                &err, &config.tuner),
                     0);
    assert_int_equal(plan_new(&config, &shape, &err, &plan), 0);
    fake.plan = plan;
    fake.cost = odd_cost;
    if (plan_prepare(plan, &err) < 0)
        fail_msg("%s", err.text);
    tuner_info(config.tuner, &info);
    *measured = info.measured;
    *exchanged = info.exchanged;
    rows[0] = '\0';
    for (int i = 0; i < plan->n_run; i++) {
        const struct kern_exec *e = &plan->run[i]->exec;

        snprintf(rows + strlen(rows), 1024 - strlen(rows), "%s %s %d\n",
                 e->row->name, e->variant_name, e->variant);
        assert_true(e->workspace <= plan->workspace_bytes);
    }
    run_plan(plan, x, y);
    plan_free(plan);
    tuner_close(config.tuner);
}

static void test_plan(void **unused)
{
    struct infer_model *model = model_of(two_convolutions());
    struct device_ops ops = device_cpu;
    struct infer_error err = {0};
    int measured, exchanged;
    uint64_t state = 42;
    struct infer_array x = array_of(&state, DIMS(2, 3, 12, 12)), want, got;
    struct infer_session *session = session_of(model, INFER_BACKEND_REF, false);
    char rows[1024], again[1024];
    struct device d;

    (void)unused;
    unlink(path);
    want = run(session, &x, 1, 0);
    got = want;
    got.data = calloc(1, want.bytes);
    assert_non_null(got.data);
    assert_int_equal(device_open("cpu", 1, NULL, &err, &d), 0);
    ops.record_begin = fake_record_begin;
    ops.record_end = fake_record_end;
    ops.replay = fake_replay;
    ops.graph_free = fake_graph_free;
    ops.mark = fake_mark;
    ops.elapsed = fake_elapsed;
    d.ops = &ops;
    planned(model, &d, &x, &got, &measured, &exchanged, rows);
    assert_true(measured > 0);
    assert_int_equal(exchanged, 1);
    assert_true(fake.recorded > 0);
    assert_close(&got, &want, 1e-5);

    fake.recorded = 0;
    memset(got.data, 0, got.bytes);
    planned(model, &d, &x, &got, &measured, &exchanged, again);
    assert_int_equal(measured, 0);
    assert_int_equal(exchanged, 1);
    assert_int_equal(fake.recorded, 0);
    assert_string_equal(again, rows);
    assert_close(&got, &want, 1e-5);
    device_close(&d);
    infer_session_close(&session);
    infer_model_close(&model);
    free(x.data);
    free(want.data);
    free(got.data);
}
#endif

/* ---- the rest ------------------------------------------------------ */

static int make_folder(void **unused)
{
    (void)unused;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/tuning.json", folder);
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds),      cmocka_unit_test(test_rule),
        cmocka_unit_test(test_passes),     cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_small_gain), cmocka_unit_test(test_noise),
        cmocka_unit_test(test_bounds),     cmocka_unit_test(test_unready),
        cmocka_unit_test(test_stale),      cmocka_unit_test(test_exhaustive),
#ifdef HAVE_ONEDNN
        cmocka_unit_test(test_plan),
#endif
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
