/* SPDX-License-Identifier: Apache-2.0 */
/* infer_train.h: what a program can do with a trainer, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/infer_train.h"
#include "tests/unit/folder.h"
#include "tests/unit/test.h"

/* Scores are a dense layer of the means of the three channels: a batch whose
 * channels are mixed up has classes that cannot be told apart. */
static const char arch[] =
    "{\"infer\": 1, \"name\": \"means\", \"inputs\": [{\"name\": \"image\","
    " \"dtype\": \"F32\", \"shape\": [-1, 3, 4, 5]}], \"nodes\": ["
    "{\"name\": \"mean\", \"op\": \"reduce\", \"in\": [\"image\"],"
    " \"out\": [\"m\"], \"attr\": {\"kind\": \"mean\", \"axes\": [2, 3]}},"
    "{\"name\": \"flatten\", \"op\": \"flatten\", \"in\": [\"m\"],"
    " \"out\": [\"f\"]},"
    "{\"name\": \"fc\", \"op\": \"dense\", \"in\": [\"f\", \"fc.weight\","
    " \"fc.bias\"], \"out\": [\"scores\"]}], \"outputs\": [\"scores\"],"
    " \"weights\": {\"fc.weight\": {\"dtype\": \"F32\", \"shape\": [3, 3]},"
    " \"fc.bias\": {\"dtype\": \"F32\", \"shape\": [3]}}}";

#define PICTURE (3 * 4 * 5)
#define BATCH   6

static const char *arch_file(void)
{
    static char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s", in_folder("means.json"));
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(arch, 1, sizeof arch - 1, f), sizeof arch - 1);
    assert_int_equal(fclose(f), 0);
    return path;
}

static struct infer_train_options options_of(enum infer_optimizer optimizer)
{
    struct infer_train_options o;

    infer_train_options_init(&o);
    o.batch = BATCH;
    o.optimizer = optimizer;
    o.deterministic = 1;
    o.threads = 1;
    o.rate = 0.2;
    o.seed = 5;
    return o;
}

static struct infer_trainer *make(const char *path,
                                  const struct infer_train_options *o)
{
    struct infer_trainer *t = NULL;
    struct infer_error err = {0};

    if (infer_trainer_create(path, o, &err, &t) < 0)
        fail_msg("%s", err.text);
    return t;
}

/* Class k is the picture whose channel k is bright. */
struct source {
    int next, end, code;
};

static int64_t fill(void *user, float *pictures, int32_t *label, int64_t room)
{
    struct source *s = user;
    int64_t count = 0;

    for (; count < room && s->next < s->end; count++, s->next++) {
        label[count] = s->next % 3;
        for (int i = 0; i < PICTURE; i++)
            *pictures++ = (float)(i / 20 == s->next % 3) +
                          0.01f * (float)((s->next + i) % 7);
    }
    return count == 0 ? s->code : count;
}

TEST(channels_are_told_apart)
{
    const char *const names[] = {"red", "green", "blue"};
    const struct infer_train_options o = options_of(INFER_OPTIMIZER_NESTEROV);
    struct infer_trainer *t = make(arch_file(), &o), *again = NULL;
    struct infer_train_options from = o;
    struct infer_train_result first, last, eval, other;
    struct infer_error err = {0};
    struct source s = {.end = 600};
    int64_t dim[4];
    int classes;

    infer_trainer_shape(t, dim, &classes);
    assert_true(dim[0] == BATCH && dim[1] == 3 && dim[2] == 4 && dim[3] == 5);
    assert_int_equal(classes, 3);
    assert_int_equal(infer_trainer_run(t, 1, fill, &s, &err, &first), 0);
    assert_true(first.steps == 1 && first.pictures == BATCH);
    /* The data end before the steps do. */
    assert_int_equal(infer_trainer_run(t, 1000, fill, &s, &err, &last), 0);
    assert_true(last.steps == 99 && last.pictures == 594);
    assert_int_equal(infer_trainer_steps(t), 100);
    s = (struct source){.end = 10}; /* the last batch is not full */
    assert_int_equal(infer_trainer_evaluate(t, fill, &s, &err, &eval), 0);
    assert_true(eval.steps == 2 && eval.pictures == 10 && eval.right == 10);
    assert_true(eval.loss > 0 && eval.loss < first.loss / 4);
    assert_int_equal(infer_trainer_steps(t), 100);
    assert_int_equal(infer_trainer_set_labels(t, names, 3, &err), 0);
    assert_int_equal(infer_trainer_save(t, in_folder("a"), &err), 0);
    /* The checkpoint states its network. */
    from.weights = in_folder("a");
    if (infer_trainer_create(NULL, &from, &err, &again) < 0)
        fail_msg("%s", err.text);
    s = (struct source){.end = 10};
    assert_int_equal(infer_trainer_evaluate(again, fill, &s, &err, &other), 0);
    assert_memory_equal(&other, &eval, sizeof eval);
    infer_trainer_close(&again);
    assert_null(again);
    infer_trainer_close(&t);
    infer_trainer_close(&t);
}

TEST(loaded_runs_go_on)
{
    for (int k = 0; k < INFER_OPTIMIZER_COUNT; k++) {
        const struct infer_train_options o =
            options_of((enum infer_optimizer)k);
        struct infer_train_options other = o;
        struct infer_trainer *whole = make(arch_file(), &o);
        struct infer_trainer *half = make(arch_file(), &o);
        struct source a = {.end = 60}, b = {.end = 24};
        struct infer_train_result x, y;
        struct infer_error err = {0};

        assert_int_equal(infer_trainer_run(whole, 0, fill, &a, &err, NULL), 0);
        assert_int_equal(infer_trainer_run(half, 0, fill, &b, &err, NULL), 0);
        assert_int_equal(infer_trainer_save(half, in_folder("b"), &err), 0);
        infer_trainer_close(&half);
        other.optimizer =
            (enum infer_optimizer)((k + 1) % INFER_OPTIMIZER_COUNT);
        half = make(arch_file(), &other);
        assert_int_equal(infer_trainer_load(half, in_folder("b"), &err),
                         INFER_EARGUMENT);
        assert_non_null(strstr(err.text, "optimizer"));
        infer_trainer_close(&half);
        half = make(arch_file(), &o);
        assert_int_equal(infer_trainer_load(half, in_folder("b"), &err), 0);
        assert_int_equal(infer_trainer_steps(half), 4);
        b.end = 60;
        assert_int_equal(infer_trainer_run(half, 0, fill, &b, &err, NULL), 0);
        a = b = (struct source){.end = 12};
        assert_int_equal(infer_trainer_evaluate(whole, fill, &a, &err, &x), 0);
        assert_int_equal(infer_trainer_evaluate(half, fill, &b, &err, &y), 0);
        assert_memory_equal(&x, &y, sizeof x);
        infer_trainer_close(&half);
        infer_trainer_close(&whole);
    }
}

TEST(a_rate_of_0_changes_nothing)
{
    const struct infer_train_options o = options_of(INFER_OPTIMIZER_SGD);
    struct infer_trainer *t = make(arch_file(), &o);
    struct infer_train_result x, y;
    struct infer_error err = {0};
    struct source s = {.end = BATCH};

    assert_int_equal(infer_trainer_evaluate(t, fill, &s, &err, &x), 0);
    assert_int_equal(infer_trainer_set_rate(t, NAN, &err), INFER_EARGUMENT);
    assert_int_equal(infer_trainer_set_rate(t, -1, &err), INFER_EARGUMENT);
    assert_int_equal(infer_trainer_set_rate(t, 0, &err), 0);
    s = (struct source){.end = BATCH};
    assert_int_equal(infer_trainer_run(t, 0, fill, &s, &err, NULL), 0);
    s = (struct source){.end = BATCH};
    assert_int_equal(infer_trainer_evaluate(t, fill, &s, &err, &y), 0);
    assert_memory_equal(&x, &y, sizeof x);
    infer_trainer_close(&t);
}

TEST(bad_batches)
{
    const struct infer_train_options o = options_of(INFER_OPTIMIZER_SGD);
    struct infer_trainer *t = make(arch_file(), &o);
    float pictures[BATCH * PICTURE] = {0};
    int32_t label[BATCH] = {0, 1, 2, 0, 1, 3};
    const char *const names[] = {"a", "b"}, *const odd[] = {"a", "b", "\xff"};
    struct source s = {.code = INFER_EIO};
    struct infer_error err = {0};

    assert_int_equal(infer_trainer_step(t, pictures, label, 0, &err, NULL),
                     INFER_EARGUMENT);
    assert_int_equal(
        infer_trainer_step(t, pictures, label, BATCH + 1, &err, NULL),
        INFER_EARGUMENT);
    assert_int_equal(infer_trainer_step(t, pictures, label, BATCH, &err, NULL),
                     INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "label 3 of picture 5"));
    assert_int_equal(infer_trainer_step(t, pictures, label, 5, &err, NULL), 0);
    pictures[3] = INFINITY;
    assert_int_equal(infer_trainer_step(t, pictures, label, 5, &err, NULL),
                     INFER_EMISMATCH);
    assert_int_equal(infer_trainer_run(t, 1, fill, &s, &err, NULL), INFER_EIO);
    s.code = -99;
    assert_int_equal(infer_trainer_run(t, 1, fill, &s, &err, NULL),
                     INFER_EARGUMENT);
    assert_int_equal(infer_trainer_run(t, -1, fill, &s, &err, NULL),
                     INFER_EARGUMENT);
    assert_int_equal(infer_trainer_set_labels(t, names, 2, &err),
                     INFER_EARGUMENT);
    assert_int_equal(infer_trainer_set_labels(t, odd, 3, &err),
                     INFER_EARGUMENT);
    assert_int_equal(infer_trainer_load(t, in_folder("none"), &err), INFER_EIO);
    assert_int_equal(infer_trainer_load(t, in_folder("means.json"), &err),
                     INFER_EFORMAT);
    assert_int_equal(infer_trainer_save(t, in_folder("no/folder"), &err),
                     INFER_EIO);
    infer_trainer_close(&t);
}

static void refused(const char *path, const struct infer_train_options *o,
                    int code, const char *text)
{
    struct infer_trainer *t = NULL;
    struct infer_error err = {0};

    assert_int_equal(infer_trainer_create(path, o, &err, &t), code);
    assert_null(t);
    if (!strstr(err.text, text))
        fail_msg("'%s' is not in: %s", text, err.text);
}

TEST(bad_options)
{
    const struct infer_train_options good = options_of(INFER_OPTIMIZER_ADAM);
    struct infer_train_options o = good;
    struct {
        struct infer_train_options options;
        int64_t field; /* of a later version */
    } newer;
    struct infer_trainer *t;

    refused(NULL, &good, INFER_EARGUMENT, "no network");
    refused("lenet55", &good, INFER_EARGUMENT, "lenet5");
    o.size = 4;
    refused("lenet5", &o, INFER_EARGUMENT, "size 4");
    newer.options = good;
    newer.options.size = sizeof newer;
    newer.field = 1;
    refused("lenet5", &newer.options, INFER_EUNSUPPORTED, "is set");
    newer.field = 0;
    t = make("lenet5", &newer.options);
    infer_trainer_close(&t);
    o = good;
    o.momentum = NAN;
    refused("lenet5", &o, INFER_EARGUMENT, "momentum");
    o = good;
    o.batch = 0;
    refused("lenet5", &o, INFER_EARGUMENT, "batch");
    o = good;
    o.optimizer = INFER_OPTIMIZER_COUNT;
    refused("lenet5", &o, INFER_EARGUMENT, "optimizer");
    o = good;
    o.device = "tpu";
    refused("lenet5", &o, INFER_EARGUMENT, "tpu");
    o = good;
    o.weights = in_folder("absent");
    refused("lenet5", &o, INFER_EIO, "absent");
}

/* Two steps of LeNet-5; the sums of the losses. */
static double two_steps(const struct infer_train_options *o)
{
    static float pictures[BATCH * 28 * 28];
    const int32_t label[BATCH] = {0, 1, 2, 3, 4, 5};
    struct infer_trainer *t = make("lenet5", o);
    struct infer_train_result r;
    struct infer_error err = {0};
    double loss = 0;

    for (int i = 0; i < BATCH * 28 * 28; i++)
        pictures[i] = (float)(i * 7 % 23) / 23;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            infer_trainer_step(t, pictures, label, BATCH, &err, &r), 0);
        loss += r.loss;
    }
    infer_trainer_close(&t);
    return loss;
}

/* Within the least memory, which the refusal names, results are the same. */
TEST(memory_is_kept_to)
{
    const struct infer_train_options whole = options_of(INFER_OPTIMIZER_SGD);
    struct infer_train_options o = whole;
    struct infer_trainer *t = NULL;
    struct infer_error err = {0};

    o.memory = 1;
    assert_int_equal(infer_trainer_create("lenet5", &o, &err, &t),
                     INFER_EMEMORY);
    const char *text = strstr(err.text, "takes ");
    assert_non_null(text);
    o.memory = strtoull(text + strlen("takes "), NULL, 10);
    const double loss = two_steps(&whole);
    assert_true(loss > 0 && two_steps(&o) == loss);
    o.memory--;
    refused("lenet5", &o, INFER_EMEMORY, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channels_are_told_apart),
        cmocka_unit_test(loaded_runs_go_on),
        cmocka_unit_test(a_rate_of_0_changes_nothing),
        cmocka_unit_test(bad_batches),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(memory_is_kept_to),
    };

    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
