/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that describe their network: what weights_read() makes of them,
 * with constants that are not trained. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/test.h"
#include "tools/train/train.h"
#include "weights/arch/build.h"
#include "weights/weights.h"

static struct device cpu;

/* A dense layer whose outputs are multiplied by a constant. */
static struct graph *network(void)
{
    static const float factor[3] = {1, 2, 3};
    struct arch_build b;
    struct graph *g = NULL;
    int x;

    arch_build_begin(&b, "scaled", NULL);
    x = arch_flatten(&b, arch_image_input(&b, 1, 2, 2, NULL));
    x = arch_dense(&b, "scores", x, 4, 3);
    x = arch_binary(&b, KERN_MUL, x, arch_constant(&b, "factor", 3, factor));
    assert_int_equal(arch_build_end(&b, x, &g), 0);
    return g;
}

static struct net *make(struct train_run *r, struct infer_error *err)
{
    struct net_options o = {.device = &cpu,
                            .backend = INFER_BACKEND_REF,
                            .dtype = INFER_F32,
                            .batch = 2,
                            .accumulate = 1};
    struct graph *g = network();
    struct net *n = NULL;

    assert_int_equal(train_describe(r, g, err), 0);
    if (net_new(g, &o, err, &n) < 0)
        fail_msg("%s", err->text);
    assert_int_equal(init_random(n, INIT_PYTORCH, 1, NULL), 0);
    return n;
}

static int accept(const struct checkpoint_info *info, void *user,
                  struct infer_error *err)
{
    (void)info, (void)user, (void)err;
    return 0;
}

TEST(test_constants)
{
    char cat[] = "cat", odd[] = "d\xff", hen[] = "hen";
    char *names[] = {cat, odd, hen};
    struct train_run r = {.train = {.classes = 3, .class_name = names}};
    struct checkpoint_info info = {.step = 3, .rule = "sgd"}, found;
    char path[] = "/tmp/checkpoint-XXXXXX";
    struct weights_import import;
    struct infer_error err = {0};
    struct net *n = make(&r, &err);
    struct graph *described = NULL;
    const struct constant *c;
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    info.graph = r.graph;
    if (checkpoint_write(path, n, &info, &err) < 0 ||
        checkpoint_read(path, n, accept, NULL, &err, &found) < 0 ||
        checkpoint_graph(path, &err, &described) < 0 ||
        weights_read(path, NULL, &err, &import) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(found.step, 3);
    assert_non_null(described);
    assert_int_equal(described->n_nodes, 3);
    assert_non_null(import.graph);
    assert_string_equal(import.graph->label[0], "cat");
    assert_string_equal(import.graph->label[1], "d\\xFF");
    c = import.graph->value[graph_find_value(import.graph, "factor")].data;
    assert_non_null(c);
    assert_true(((const float *)(const void *)c->data)[2] == 3);
    weights_import_clear(&import);
    graph_free(described);
    /* A file from before graphs were stored. */
    info.graph = NULL;
    assert_int_equal(checkpoint_write(path, n, &info, &err), 0);
    assert_int_equal(checkpoint_read(path, n, accept, NULL, &err, &found), 0);
    assert_int_equal(checkpoint_graph(path, &err, &described), 0);
    assert_null(described);
    assert_int_equal(weights_read(path, NULL, &err, &import), 0);
    assert_null(import.graph);
    weights_import_clear(&import);
    unlink(path);
    net_free(n);
    cJSON_free(r.graph);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constants)};

    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
