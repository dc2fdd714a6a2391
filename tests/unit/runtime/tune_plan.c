/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's search for the best choices in their network, on a CPU whose clock
 * is made up. */
#include "tests/unit/runtime/network.h"
#include "tests/unit/runtime/tuning_file.h"

#include "libinfer/plan/plan.h"
#include "libinfer/tune/tune.h"

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
        .tiers = {.n = 2,
                  .tier = {ROW_TIER(INFER_BACKEND_ONEDNN) |
                               ROW_TIER(INFER_BACKEND_CPU),
                           ROW_TIER(INFER_BACKEND_REF)}}};
    const struct graph_shape shape = {.rank = 4, .dim = {2, 3, 12, 12}};
    struct infer_error err = {0};
    struct infer_tuning_info info;
    struct plan *plan = NULL;

    assert_int_equal(tuner_open(TUNE_EXHAUSTIVE, tuning_path, d, &config.tiers,
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
    struct infer_model *model = model_of(two_convolutions(16));
    struct device_ops ops = device_cpu;
    struct infer_error err = {0};
    int measured, exchanged;
    uint64_t state = 42;
    struct infer_array x = array_of(&state, DIMS(2, 3, 12, 12)), want, got;
    struct infer_session *session = session_of(model, INFER_BACKEND_REF, false);
    char rows[1024], again[1024];
    struct device d;

    (void)unused;
    unlink(tuning_path);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),
    };

    return cmocka_run_group_tests(tests, tuning_file_set_up,
                                  tuning_file_tear_down);
}
