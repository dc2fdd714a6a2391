/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a network in training by measurement: what the cache says is taken
 * again, whatever its file holds training goes on. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include "tests/unit/runtime/tuning_file.h"
#include "tests/unit/test.h"
#include "tools/train/train.h"
#include "weights/arch.h"

#define BATCH 4
#define SIDE  28

static struct device cpu;

/* ---- runs ---------------------------------------------------------- */

struct run {
    struct net *n;
    struct infer_tuning_info info;
    char note[512];
    char *text; /* tuner_text() */
};

/* tuner_import() of every run; NULL: nothing. */
static const char *lesson;

static void tuned_net(enum tune_mode mode, bool deterministic, struct run *r)
{
    struct net_options o = {.device = &cpu,
                            .dtype = INFER_F32,
                            .deterministic = deterministic,
                            .batch = BATCH,
                            .accumulate = 1,
                            .update = true,
                            .rule = {.kind = KERN_UPDATE_SGD}};
    const struct arch_row *arch = arch_find("lenet5");
    struct row_tiers tiers;
    struct infer_error err = {0};
    struct graph *g = NULL;

    assert_non_null(arch);
    assert_int_equal(arch->build(arch, 10, NULL, &g), 0);
    row_tiers_choose(&cpu, INFER_BACKEND_AUTO, &tiers);
    if (tuner_open(mode, tuning_path, &cpu, &tiers, &err, &o.tuner) < 0)
        fail_msg("%s", err.text);
    if (lesson && tuner_import(o.tuner, lesson, &err) < 0)
        fail_msg("%s", err.text);
    if (net_new(g, &o, &err, &r->n) < 0)
        fail_msg("%s", err.text);
    r->text = tuner_text(o.tuner);
    tuner_finish(o.tuner);
    tuner_info(o.tuner, &r->info);
    snprintf(r->note, sizeof r->note, "%s", r->info.note);
    tuner_close(o.tuner);
    assert_int_equal(init_random(r->n, INIT_PYTORCH, 1, NULL), 0);
}

static void run_free(struct run *r)
{
    net_free(r->n);
    cJSON_free(r->text);
}

static void same_rows(const struct net *a, const struct net *b)
{
    for (int l = 0; l < NET_LISTS; l++) {
        assert_int_equal(a->list[l].steps.n, b->list[l].steps.n);
        for (int i = 0; i < a->list[l].steps.n; i++) {
            const struct kern_exec *x = &a->list[l].steps.at[i]->exec;
            const struct kern_exec *y = &b->list[l].steps.at[i]->exec;

            assert_ptr_equal(x->row, y->row);
            assert_string_equal(x->variant_name, y->variant_name);
        }
    }
}

/* The weights after two steps. */
static float *trained(struct net *n)
{
    float *x = calloc(BATCH * SIDE * SIDE, sizeof(float));
    float *w = malloc(net_flat_bytes(n, NET_WEIGHTS));
    const int32_t label[BATCH] = {3, 1, 4, 1};

    assert_non_null(x);
    assert_non_null(w);
    for (int i = 0; i < BATCH * SIDE * SIDE; i++)
        x[i] = (float)(i % 17) / 17;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(net_begin(n, NULL), 0);
        assert_int_equal(net_put_batch(n, x, label, NULL), 0);
        assert_int_equal(net_put_control(n, 0.1f, 1, (uint64_t)k, NULL), 0);
        assert_int_equal(net_step(n, NULL), 0);
        assert_int_equal(net_end(n, NULL), 0);
    }
    assert_int_equal(net_read_flat(n, NET_WEIGHTS, w, NULL), 0);
    free(x);
    return w;
}

static void same_weights(struct net *a, struct net *b)
{
    float *x = trained(a), *y = trained(b);

    assert_memory_equal(x, y, net_flat_bytes(a, NET_WEIGHTS));
    free(x);
    free(y);
}

/* ---- tests --------------------------------------------------------- */

/* A second run, a resumed one say, asks the cache and measures nothing: the
 * same rows, and so the same bits. */
TEST(the_cache_keeps_the_rows)
{
    struct run first = {0}, second = {0};

    unlink(tuning_path);
    tuned_net(TUNE_EXHAUSTIVE, false, &first);
    assert_string_equal(first.note, "");
#ifdef HAVE_ONEDNN
    assert_true(first.info.measured > 0);
    assert_int_equal(access(tuning_path, F_OK), 0);
#endif
    tuned_net(TUNE_EXHAUSTIVE, false, &second);
    assert_int_equal(second.info.measured, 0);
    same_rows(first.n, second.n);
    same_weights(first.n, second.n);
    run_free(&first);
    run_free(&second);
}

#ifdef HAVE_ONEDNN
/* A resumed run goes on with the kernels that it was begun with, however they
 * were searched. */
TEST(what_was_imported_is_taken)
{
    struct run first = {0}, second = {0};
    char *at;

    unlink(tuning_path);
    tuned_net(TUNE_EXHAUSTIVE, false, &first);
    assert_non_null(first.text);
    assert_null(strstr(first.text, "\"near\""));
    unlink(tuning_path);
    for (at = first.text; (at = strstr(at, "\"exhaustive\""));)
        memcpy(at, "\"once\"      ", 12);
    lesson = first.text;
    tuned_net(TUNE_EXHAUSTIVE, false, &second);
    lesson = NULL;
    assert_int_equal(second.info.measured, 0);
    assert_true(second.info.cached > 0);
    same_rows(first.n, second.n);
    same_weights(first.n, second.n);
    run_free(&first);
    run_free(&second);
}
#endif

/* A CPU goes by the fixed rule but for an exhaustive search. */
TEST(off_is_the_rule)
{
    struct run off = {0}, on = {0};

    unlink(tuning_path);
    tuned_net(TUNE_OFF, false, &off);
    tuned_net(TUNE_ON, false, &on);
    assert_int_equal(off.info.measured + on.info.measured, 0);
    assert_int_equal(access(tuning_path, F_OK), -1);
    same_rows(off.n, on.n);
    run_free(&off);
    run_free(&on);
}

/* What is measured, and what --deterministic asks for, is computed by rows
 * whose bits do not vary. */
static void all_is_deterministic(struct net *n)
{
    for (int l = 0; l < NET_LISTS; l++)
        for (int i = 0; i < n->list[l].steps.n; i++) {
            const struct kern_exec *e = &n->list[l].steps.at[i]->exec;

            assert_true(e->problem.deterministic);
            assert_false(e->flags & KERN_NONDETERMINISTIC);
        }
}

TEST(choices_are_deterministic)
{
    struct run run = {0};

    unlink(tuning_path);
    tuned_net(TUNE_OFF, true, &run);
    all_is_deterministic(run.n);
    run_free(&run);
    tuned_net(TUNE_EXHAUSTIVE, false, &run);
    all_is_deterministic(run.n);
    run_free(&run);
}

TEST(a_damaged_cache_is_ignored)
{
    struct run damaged = {0}, mended = {0};

    tuning_file_write("{\"libinfer_tuning\": 2, \"devices\": ");
    tuned_net(TUNE_EXHAUSTIVE, false, &damaged);
    assert_non_null(strstr(damaged.note, "ignored"));
    free(trained(damaged.n));
    /* What was measured has replaced it. */
    tuned_net(TUNE_EXHAUSTIVE, false, &mended);
#ifdef HAVE_ONEDNN
    assert_string_equal(mended.note, "");
    assert_int_equal(mended.info.measured, 0);
#endif
    same_rows(damaged.n, mended.n);
    run_free(&damaged);
    run_free(&mended);
}

/* ---- the rest ------------------------------------------------------ */

static int set_up(void **state)
{
    (void)state;
    const int r = tuning_file_set_up(state);

    return r < 0 ? r : device_open("cpu", 1, NULL, NULL, &cpu);
}

static int tear_down(void **state)
{
    (void)state;
    device_close(&cpu);
    return tuning_file_tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_keeps_the_rows),
#ifdef HAVE_ONEDNN
        cmocka_unit_test(what_was_imported_is_taken),
#endif
        cmocka_unit_test(off_is_the_rule),
        cmocka_unit_test(choices_are_deterministic),
        cmocka_unit_test(a_damaged_cache_is_ignored),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
