/* SPDX-License-Identifier: Apache-2.0 */
/* The sample network, which train made: as train sees it, with batch
 * normalisation, and as wconv folds it and a session runs it, it has the same
 * pictures of MNIST right. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libinfer/graph/model_file.h"
#include "tests/unit/graph/data.h"
#include "tests/unit/test.h"
#include "tools/train/train.h"
#include "weights/arch.h"
#include "weights/passes.h"
#include "weights/weights.h"

#define ARCH       SOURCE_DIR "/samples/digits/digits.json"
#define CHECKPOINT SOURCE_DIR "/samples/digits/digits.safetensors"
#define PICTURES   1000
#define BATCH      100
#define CLASSES    10
#define PIXELS     (28 * 28)

static struct graph *read_sample(void)
{
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};
    struct graph *g = NULL;

    weights_options_init(&options);
    if (weights_read(CHECKPOINT, &options, &err, &import) < 0 ||
        arch_open(ARCH, &import.dict, &err, &g) < 0 ||
        weights_bind(g, &import.dict, NULL, &err) < 0)
        fail_msg("%s", err.text);
    weights_import_clear(&import);
    return g;
}

/* ---- before: train's own evaluation -------------------------------- */

static struct net *make_net(const struct device *cpu)
{
    const struct net_options o = {.device = cpu,
                                  .dtype = INFER_F32,
                                  .batch = BATCH,
                                  .accumulate = 1,
                                  .bn_momentum = 0.1f};
    struct graph *weights = read_sample();
    struct init_report report;
    struct infer_error err = {0};
    struct net *n = NULL;
    struct graph *g = NULL;

    if (arch_open(ARCH, NULL, &err, &g) < 0 || net_new(g, &o, &err, &n) < 0 ||
        init_from_graph(n, weights, &err, &report) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(report.left, 0);
    graph_free(weights);
    return n;
}

static int64_t evaluate(struct net *n, const struct loader_batch *b,
                        float *scores)
{
    struct net_metrics m;
    struct infer_error err = {0};

    if (net_begin(n, &err) < 0 || net_put_batch(n, b->x, b->label, &err) < 0 ||
        net_eval(n, &err) < 0 || net_read_metrics(n, &err, &m) < 0 ||
        net_end(n, &err) < 0 ||
        net_read_view(n, &n->value[n->logits].view[1], scores, &err) < 0)
        fail_msg("%s", err.text);
    return m.hit;
}

/* ---- after: wconv's passes, a model file, a session ----------------- */

static struct infer_session *open_folded(void)
{
    char path[] = "/tmp/sample-XXXXXX";
    const int fd = mkstemp(path);
    struct graph *g = read_sample();
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct infer_error err = {0};
    struct pass_options options;
    struct pass_report report;

    assert_true(fd >= 0);
    pass_options_init(&options);
    pass_report_init(&report);
    if (graph_validate(g, &err) < 0 || graph_infer_shapes(g, NULL, &err) < 0 ||
        weights_run_passes(g, &options, &report, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < g->n_nodes; i++)
        assert_int_not_equal(g->node[i].op, GRAPH_BATCH_NORM);
    if (model_file_write(g, path, NULL, &err) < 0 ||
        infer_model_open(path, &err, &model) < 0 ||
        infer_session_create(model, NULL, &err, &session) < 0)
        fail_msg("%s", err.text);
    infer_model_close(&model);
    pass_report_clear(&report);
    graph_free(g);
    close(fd);
    unlink(path);
    return session;
}

/* One channel: the loader's N,H,W,C is the session's N,C,H,W. */
static void run(struct infer_session *s, const struct loader_batch *b,
                float *scores)
{
    const struct infer_array in = {.dtype = INFER_F32,
                                   .rank = 4,
                                   .dim = {BATCH, 1, 28, 28},
                                   .data = b->x,
                                   .bytes = BATCH * PIXELS * sizeof(float)};
    struct infer_array out = {.data = scores,
                              .bytes = BATCH * CLASSES * sizeof(float)};
    struct infer_error err = {0};

    if (infer_session_run(s, &in, 1, &out, 1, &err) < 0)
        fail_msg("%s", err.text);
}

static int best(const float *scores)
{
    int at = 0;

    for (int i = 1; i < CLASSES; i++)
        at = scores[i] > scores[at] ? i : at;
    return at;
}

/* ---- both ---------------------------------------------------------- */

static struct loader *open_pictures(struct data_set *set)
{
    const struct graph_preprocess unit = {
        .present = true, .scale = 1.0f / 255, .std = {1, 1, 1, 1}};
    const struct data_wish wish = {
        .channels = 1, .height = 28, .width = 28, .preprocess = unit};
    const struct loader_options o = {
        .set = set, .batch = BATCH, .whole = true, .preprocess = unit};
    struct infer_error err = {0};
    struct loader *l = NULL;
    char path[4096];

    REQUIRE_DATA("mnist", path);
    if (data_open(path, DATA_TEST, &wish, &err, set) != 0 ||
        loader_new(&o, &err, &l) < 0 || loader_start(l, 0, 0, &err) < 0)
        fail_msg("%s", err.text);
    return l;
}

TEST(folding_loses_nothing)
{
    float before[BATCH * CLASSES], after[BATCH * CLASSES];
    struct data_set set;
    struct loader *loader = open_pictures(&set);
    struct infer_session *session = open_folded();
    struct device cpu;
    struct net *n;
    int64_t right = 0, folded = 0;
    double largest = 0;

    assert_int_equal(device_open("cpu", 1, NULL, NULL, &cpu), 0);
    n = make_net(&cpu);
    for (int i = 0; i < PICTURES / BATCH; i++) {
        const struct loader_batch *b;

        assert_int_equal(loader_next(loader, NULL, &b), 0);
        right += evaluate(n, b, before);
        run(session, b, after);
        for (int k = 0; k < BATCH; k++) {
            folded += best(after + k * CLASSES) == b->label[k];
            assert_int_equal(best(after + k * CLASSES),
                             best(before + k * CLASSES));
        }
        for (int k = 0; k < BATCH * CLASSES; k++)
            largest = fmax(largest, fabs((double)(after[k] - before[k])));
    }
    print_message("%d of %d right before folding, %d after; scores differ by "
                  "at most %.2g\n",
                  (int)right, PICTURES, (int)folded, largest);
    assert_int_equal(right, folded);
    assert_true(right >= 975);
    assert_true(largest < 1e-3);
    infer_session_close(&session);
    net_free(n);
    loader_free(loader);
    data_close(&set);
    device_close(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folding_loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
