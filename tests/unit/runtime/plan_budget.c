/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and work that a plan may take: options.max_memory and max_work, and
 * the limits of machine, control group and addresses behind the default. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/memory_size.h"
#include "tests/unit/folder.h"
#include "tests/unit/runtime/budget.h"
#include "tests/unit/runtime/network.h"

/* ---- networks that ask for much ------------------------------------ */

/* One convolution: 64 x 3x3 on 16 channels of 56 x 56. */
static struct infer_model *convolution(void)
{
    struct graph *g = graph_new();
    uint64_t seed = 1;
    int x, y;

    assert_non_null(g);
    x = input(g, "x", DIMS(-1, 16, 56, 56));
    y = add_conv(g, &seed, "y", x, 16, 64, 3, 1, 1, -1);
    assert_int_equal(graph_add_output(g, y), 0);
    return model_of(g);
}

/* A value of one element, joined with itself 29 times: 2 GiB. */
static struct infer_model *doubling(void)
{
    struct graph *g = graph_new();
    int v, i, node;

    assert_non_null(g);
    v = input(g, "x", DIMS(1, 1, 1, 1));
    for (i = 0; i < 29; i++) {
        char name[16];

        snprintf(name, sizeof(name), "v%d", i);
        v = add(g, GRAPH_CONCAT, name, (int[]){v, v}, 2, &node);
        g->node[node].attr.axis.axis = 1;
    }
    assert_int_equal(graph_add_output(g, v), 0);
    return model_of(g);
}

static int create(struct infer_model *m, uint64_t memory, double work,
                  struct infer_error *err)
{
    struct infer_session_options o;
    struct infer_session *s = NULL;
    struct infer_array in = {
        .name = "x", .dtype = INFER_F32, .rank = 4, .dim = {1, 16, 56, 56}};
    int rc;

    infer_session_options_init(&o);
    assert_int_equal(o.max_memory, 0);
    assert_true(o.max_work == 0);
    o.threads = 1;
    o.max_memory = memory;
    o.max_work = work;
    rc = infer_session_create(m, &o, err, &s);
    if (rc == 0)
        rc = infer_session_prepare(s, &in, 1, err);
    infer_session_close(&s);
    return rc;
}

TEST(test_limits)
{
    struct infer_model *m = convolution();
    struct infer_error err = {0};
    /* Output, weights and bias alone. */
    const uint64_t least = 4 * (64 * 56 * 56 + 64 * 16 * 9 + 64);
    const double flops = 2.0 * 64 * 56 * 56 * 16 * 9;

    assert_int_equal(create(m, 0, 0, &err), 0);
    assert_int_equal(create(m, (uint64_t)1 << 30, 1e9, &err), 0);
    assert_int_equal(create(m, least - 1, 0, &err), INFER_EMEMORY);
    assert_non_null(strstr(err.text, "(max_memory)"));
    assert_int_equal(create(m, 0, flops, &err), INFER_EMEMORY);
    assert_non_null(strstr(err.text, "(max_work)"));
    assert_int_equal(create(m, 0, 2 * flops, &err), 0);
    assert_int_equal(create(m, 0, -1, &err), INFER_EARGUMENT);
    infer_model_close(&m);
}

/* A batch that the limit does not allow is refused by the run; one that it
 * allows still runs. */
TEST(test_batches)
{
    struct infer_model *m = convolution();
    struct infer_session_options o;
    struct infer_session *s;
    struct infer_error err = {0};
    struct infer_array in = {
        .name = "x", .dtype = INFER_F32, .rank = 4, .dim = {1, 16, 56, 56}};

    infer_session_options_init(&o);
    o.threads = 1;
    o.max_memory = (uint64_t)16 << 20;
    assert_int_equal(infer_session_create(m, &o, &err, &s), 0);
    in.dim[0] = 1024; /* 784 MiB of outputs */
    assert_int_equal(infer_session_prepare(s, &in, 1, &err), INFER_EMEMORY);
    in.dim[0] = 1;
    assert_int_equal(infer_session_prepare(s, &in, 1, &err), 0);
    infer_session_close(&s);
    infer_model_close(&m);
}

static int refuse_doubling(const char *path, struct infer_error *err)
{
    struct infer_model *m = doubling();
    int rc;

    (void)path;
    rc = create(m, (uint64_t)1 << 30, 0, err);
    infer_model_close(&m);
    return rc;
}

TEST(test_peak)
{
    const struct budget_result r = budget_measure(refuse_doubling, "/");

    assert_int_equal(r.rc, INFER_EMEMORY);
    assert_true(!BUDGET_MEASURED || r.peak < BUDGET_BASE);
}

/* ---- limits of the system ------------------------------------------ */

static void put_file(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", test_folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void put_folder(const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", test_folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static uint64_t limit_of(const char *groups)
{
    char path[256];

    put_file("groups", groups);
    snprintf(path, sizeof(path), "%s/groups", test_folder);
    return memory_group_limit(path, test_folder);
}

TEST(test_control_groups)
{
    put_folder("a");
    put_folder("a/b");
    put_folder("memory");
    put_folder("memory/a");
    put_file("a/b/memory.max", "max\n");
    put_file("a/memory.max", "3000000\n");
    assert_int_equal(limit_of("0::/a/b\n"), 3000000);
    put_file("memory.max", "2000000\n"); /* of all */
    assert_int_equal(limit_of("0::/a/b\n"), 2000000);
    put_file("a/b/memory.max", "1000000\n");
    assert_int_equal(limit_of("0::/a/b\n"), 1000000);
    assert_int_equal(limit_of("0::/not/there\n"), 2000000);
    put_file("memory/a/memory.limit_in_bytes", "700000\n");
    put_file("memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(limit_of("5:cpu:/a\n4:blkio,memory:/a\n"), 700000);
    assert_int_equal(limit_of("5:cpu,cpuacct:/a/b\n"), UINT64_MAX);
    assert_int_equal(limit_of("nonsense\n\n::\n"), 2000000);
    assert_int_equal(memory_group_limit("/not/there", test_folder), UINT64_MAX);
}

TEST(test_addresses)
{
    const uint64_t before = memory_size();
    struct rlimit old, limit;

    assert_true(before > (uint64_t)64 << 20);
    if (!BUDGET_MEASURED)
        skip(); /* the sanitizer takes all addresses */
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    limit = old;
    limit.rlim_cur = before / 2;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(memory_size(), before / 2);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(memory_size(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),    cmocka_unit_test(test_batches),
        cmocka_unit_test(test_peak),      cmocka_unit_test(test_control_groups),
        cmocka_unit_test(test_addresses),
    };

    return cmocka_run_group_tests(tests, folder_set_up, folder_tear_down);
}
