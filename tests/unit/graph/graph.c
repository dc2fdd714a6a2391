/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: building, names, editing, order, copies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libinfer/graph/graph.h"
#include "tests/unit/test.h"

static int add_value(struct graph *g, const char *name)
{
    int i = graph_add_value(g, name);

    assert_true(i >= 0);
    return i;
}

/* An identity node from value to value. */
static int link(struct graph *g, const char *name, int from, int to)
{
    return graph_add_node(g, GRAPH_UNARY, name, &from, 1, &to, 1);
}

static int add_weight(struct graph *g, const char *name, int rank,
                      const int64_t *dim)
{
    int i = graph_add_constant(g, name, constant_new(INFER_F32, rank, dim));

    assert_true(i >= 0);
    return i;
}

/* ---- names --------------------------------------------------------- */

TEST(test_names)
{
    const int64_t dim[2] = {-1, 3};
    struct graph *g = graph_new();
    int x = graph_add_input(g, "x", INFER_F32, 2, dim);
    int y = add_value(g, "y"), fresh = add_value(g, NULL);

    assert_int_equal(graph_find_value(g, "x"), x);
    assert_int_equal(graph_find_value(g, "y"), y);
    assert_int_equal(graph_find_value(g, "z"), -1);
    assert_int_equal(graph_find_value(g, g->value[fresh].name), fresh);
    assert_int_equal(graph_add_value(g, "x"), INFER_EARGUMENT);
    assert_int_equal(graph_add_input(g, "y", INFER_F32, 2, dim),
                     INFER_EARGUMENT);
    assert_int_equal(graph_add_constant(
                         g, "y", constant_new(INFER_F32, 2, (int64_t[]){1, 1})),
                     INFER_EARGUMENT);
    assert_int_equal(g->n_inputs, 1);
    assert_int_equal(graph_rename_value(g, y, "x"), INFER_EARGUMENT);
    assert_int_equal(graph_rename_value(g, y, "z"), 0);
    assert_int_equal(graph_find_value(g, "y"), -1);
    assert_int_equal(graph_find_value(g, "z"), y);
    assert_int_equal(graph_rename_value(g, y, "y"), 0);
    assert_int_equal(graph_find_value(g, "y"), y);
    assert_int_equal(link(g, "n", x, y), 0);
    assert_int_equal(graph_find_node(g, "n"), 0);
    assert_int_equal(link(g, "n", x, fresh), INFER_EARGUMENT);
    assert_int_equal(link(g, NULL, x, fresh), 1);
    assert_string_not_equal(g->node[1].name, "n");
    graph_free(g);
}

/* A made-up name must not be one that is taken. */
TEST(test_fresh_names)
{
    struct graph *g = graph_new();
    char name[32];
    int i;

    for (i = 0; i < 50; i += 2) {
        snprintf(name, sizeof(name), "value_%d", i);
        add_value(g, name);
    }
    for (i = 0; i < 50; i++)
        add_value(g, NULL);
    assert_int_equal(g->n_values, 75);
    for (i = 0; i < g->n_values; i++)
        assert_int_equal(graph_find_value(g, g->value[i].name), i);
    graph_free(g);
}

TEST(test_bad_ends)
{
    struct graph *g = graph_new();
    int64_t one = 1;
    int x = graph_add_input(g, "x", INFER_F32, 1, &one);
    int y = add_value(g, "y"), w = add_weight(g, "w", 1, &one);
    int bad;

    assert_int_equal(link(g, "a", x, w), INFER_EARGUMENT);
    bad = 99;
    assert_int_equal(link(g, "a", bad, y), INFER_EARGUMENT);
    assert_int_equal(link(g, "a", -2, y), INFER_EARGUMENT);
    assert_int_equal(link(g, "a", x, -1), INFER_EARGUMENT);
    assert_int_equal(graph_add_node(g, GRAPH_NONE, "a", &x, 1, &y, 1),
                     INFER_EARGUMENT);
    assert_int_equal(graph_add_node(g, GRAPH_OP_COUNT, "a", &x, 1, &y, 1),
                     INFER_EARGUMENT);
    assert_int_equal(graph_add_node(g, GRAPH_UNARY, "a", &x, 1, NULL, 0),
                     INFER_EARGUMENT);
    assert_int_equal(link(g, "a", x, y), 0);
    assert_int_equal(link(g, "b", x, y), INFER_EARGUMENT);
    assert_int_equal(graph_add_output(g, 99), INFER_EARGUMENT);
    assert_int_equal(graph_add_output(g, y), 0);
    assert_int_equal(graph_add_output(g, y), INFER_EARGUMENT);
    assert_int_equal(
        graph_set_constant(g, y, constant_new(INFER_F32, 1, &one), NULL),
        INFER_EARGUMENT);
    assert_int_equal(g->n_nodes, 1);
    graph_free(g);
}

/* ---- editing ------------------------------------------------------- */

/* x -> a -> b -> c, with c the output. */
static struct graph *chain(void)
{
    struct graph *g = graph_new();
    int64_t one = 1;
    int x = graph_add_input(g, "x", INFER_F32, 1, &one);
    int a = add_value(g, "a"), b = add_value(g, "b"), c = add_value(g, "c");

    link(g, "na", x, a);
    link(g, "nb", a, b);
    link(g, "nc", b, c);
    graph_add_output(g, c);
    return g;
}

TEST(test_uses)
{
    struct graph *g = chain();
    int *uses;

    assert_int_equal(graph_count_uses(g, 1), 1);
    assert_int_equal(graph_count_uses(g, 3), 1);
    assert_int_equal(graph_single_user(g, 1), 1);
    assert_int_equal(graph_single_user(g, 3), -1);
    assert_true(graph_is_output(g, 3));
    assert_false(graph_is_output(g, 2));
    g->node[2].in[0] = 1;
    assert_int_equal(graph_single_user(g, 1), -1);
    assert_int_equal(graph_count_uses(g, 1), 2);
    assert_int_equal(graph_count_uses(g, 2), 0);
    uses = graph_count_all_uses(g);
    assert_int_equal(uses[0], 1);
    assert_int_equal(uses[1], 2);
    assert_int_equal(uses[2], 0);
    assert_int_equal(uses[3], 1);
    free(uses);
    graph_free(g);
}

TEST(test_replace)
{
    struct graph *g = chain();
    struct infer_error err;

    /* The last node goes: its input takes over the output and its name. */
    graph_replace_value(g, 3, 2);
    graph_remove_node(g, 2);
    assert_int_equal(g->output[0], 2);
    assert_string_equal(g->value[2].name, "c");
    assert_int_equal(graph_find_value(g, "c"), 2);
    assert_int_equal(graph_find_value(g, "b"), 3);
    assert_int_equal(g->value[3].producer, -1);
    /* In the middle, names stay. */
    graph_replace_value(g, 1, 0);
    graph_remove_node(g, 0);
    assert_int_equal(g->node[1].in[0], 0);
    assert_string_equal(g->value[0].name, "x");
    assert_int_equal(graph_remove_dead(g), 0);
    assert_int_equal(graph_compact(g, &err), 0);
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(g->n_values, 2);
    assert_int_equal(graph_find_value(g, "c"), 1);
    assert_int_equal(graph_find_value(g, "a"), -1);
    assert_int_equal(graph_find_node(g, "nb"), 0);
    assert_int_equal(g->value[1].producer, 0);
    assert_int_equal(graph_validate(g, &err), 0);
    graph_free(g);
}

/* An input keeps its name even where it becomes the output. */
TEST(test_replace_by_input)
{
    struct graph *g = chain();

    graph_replace_value(g, 3, 0);
    assert_int_equal(g->output[0], 0);
    assert_string_equal(g->value[0].name, "x");
    assert_string_equal(g->value[3].name, "c");
    graph_free(g);
}

TEST(test_remove_dead)
{
    struct graph *g = chain();
    int64_t one = 1;
    struct infer_error err;
    int d = add_value(g, "d"), e = add_value(g, "e");
    int w = add_weight(g, "w", 1, &one), in[2] = {d, w};

    graph_add_input(g, "unused", INFER_F32, 1, &one);
    link(g, "nd", 1, d);
    graph_add_node(g, GRAPH_BINARY, "ne", in, 2, &e, 1);
    assert_int_equal(graph_remove_dead(g), 2);
    assert_null(g->value[w].name);
    assert_null(g->value[w].data);
    assert_int_equal(graph_find_value(g, "w"), -1);
    assert_true(graph_find_value(g, "unused") >= 0);
    assert_int_equal(graph_find_node(g, "nd"), -1);
    /* The names are free again. */
    assert_true(graph_add_value(g, "w") >= 0);
    assert_int_equal(graph_remove_dead(g), 0);
    assert_int_equal(graph_compact(g, &err), 0);
    assert_int_equal(g->n_nodes, 3);
    assert_int_equal(g->n_values, 5);
    assert_int_equal(graph_validate(g, &err), 0);
    graph_free(g);
}

/* ---- order --------------------------------------------------------- */

TEST(test_sort)
{
    struct graph *g = graph_new();
    int64_t one = 1;
    struct infer_error err;
    int x = graph_add_input(g, "x", INFER_F32, 1, &one);
    int a = add_value(g, "a"), b = add_value(g, "b"), c = add_value(g, "c");

    link(g, "nc", b, c);
    link(g, "nb", a, b);
    link(g, "na", x, a);
    graph_add_output(g, c);
    assert_int_equal(graph_sort(g, &err), 0);
    assert_string_equal(g->node[0].name, "na");
    assert_string_equal(g->node[1].name, "nb");
    assert_string_equal(g->node[2].name, "nc");
    assert_int_equal(g->value[c].producer, 2);
    assert_int_equal(g->value[a].producer, 0);
    assert_int_equal(graph_find_node(g, "nc"), 2);
    /* Sorted already: nothing moves, not even around a hole. */
    graph_replace_value(g, b, a);
    graph_remove_node(g, 1);
    assert_int_equal(graph_compact(g, &err), 0);
    assert_string_equal(g->node[1].name, "nc");
    graph_free(g);
}

TEST(test_cycle)
{
    struct graph *g = chain();
    struct infer_error err;

    g->node[1].in[0] = 3;
    assert_int_equal(graph_sort(g, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "'nb'"));
    assert_non_null(strstr(err.text, "'nc'"));
    assert_null(strstr(err.text, "'na'"));
    assert_int_equal(graph_validate(g, &err), INFER_EFORMAT);
    g->node[1].in[0] = 2;
    assert_int_equal(graph_sort(g, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "themselves: 'nb'"));
    graph_free(g);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The longest chain, last node first: deep for a recursion, and long for
 * anything quadratic.  One node more is too many. */
TEST(test_large)
{
    enum { N = GRAPH_MAX_NODES };
    struct graph *g = graph_new(), *copy;
    int64_t one = 1;
    struct infer_error err;
    double start = now();
    char name[16];
    int i;

    graph_add_input(g, "v0", INFER_F32, 1, &one);
    for (i = 1; i <= N; i++) {
        snprintf(name, sizeof(name), "v%d", i);
        assert_int_equal(add_value(g, name), i);
    }
    for (i = N; i >= 1; i--)
        assert_true(link(g, NULL, i - 1, i) >= 0);
    i = add_value(g, "one more");
    assert_int_equal(link(g, NULL, 0, i), INFER_EMEMORY);
    assert_int_equal(graph_no_room(g, &err), INFER_EMEMORY);
    assert_non_null(strstr(err.text, "more nodes than the limit of 32768"));
    graph_add_output(g, N);
    assert_int_equal(graph_sort(g, &err), 0);
    assert_int_equal(g->node[0].in[0], 0);
    assert_int_equal(graph_infer_shapes(g, NULL, &err), 0);
    assert_int_equal(g->value[N].rank, 1);
    copy = graph_copy(g);
    assert_int_equal(graph_find_value(copy, "v777"), 777);
    assert_int_equal(graph_validate(copy, &err), 0);
    copy->output[0] = 10;
    assert_int_equal(graph_remove_dead(copy), N - 10);
    assert_int_equal(graph_compact(copy, &err), 0);
    assert_int_equal(copy->n_values, 11);
    graph_free(copy);
    graph_free(g);
    /* It takes a fraction of a second; the square would take hours. */
    assert_true(now() - start < 60);
}

/* ---- copies -------------------------------------------------------- */

TEST(test_copy)
{
    struct graph *g = chain(), *copy;
    int64_t one = 1;
    struct infer_error err;
    int w = add_weight(g, "w", 1, &one);

    free(g->name);
    g->name = strdup("net");
    g->label = calloc(2, sizeof(*g->label));
    g->label[0] = strdup("cat");
    g->label[1] = strdup("dog");
    g->n_labels = 2;
    g->preprocess[0].present = true;
    graph_remove_node(g, 2);
    copy = graph_copy(g);
    assert_ptr_equal(copy->value[w].data, g->value[w].data);
    assert_int_equal(copy->value[w].data->refs, 2);
    assert_string_equal(copy->name, "net");
    assert_string_equal(copy->label[1], "dog");
    assert_true(copy->preprocess[0].present);
    assert_int_equal(copy->node[2].op, GRAPH_NONE);
    assert_int_equal(graph_find_node(copy, "nb"), 1);
    assert_true(graph_add_value(copy, "only here") >= 0);
    assert_int_equal(graph_find_value(g, "only here"), -1);
    assert_int_equal(graph_compact(copy, &err), 0);
    assert_int_equal(g->n_nodes, 3);
    graph_free(g);
    assert_int_equal(copy->value[graph_find_value(copy, "w")].data->refs, 1);
    graph_free(copy);
}

/* "x weight [bias]" names as many inputs as the operation takes; "..." stands
 * for any number. */
static void check_inputs(const struct graph_op_info *info)
{
    int needed = 0, all = 0;
    const char *at;

    assert_non_null(info->inputs);
    for (at = info->inputs; *at != '\0'; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");

        if (strncmp(at, "...", length) == 0) {
            all = -1;
        } else {
            needed += *at != '[';
            all++;
            assert_int_equal(*at == '[', at[length - 1] == ']');
        }
        at += length;
    }
    assert_int_equal(needed, info->min_in);
    assert_int_equal(all, info->max_in);
}

TEST(test_table)
{
    int i;

    assert_null(graph_op_info(GRAPH_NONE));
    assert_null(graph_op_info(GRAPH_OP_COUNT));
    assert_int_equal(graph_op_find("no such"), GRAPH_NONE);
    for (i = GRAPH_NONE + 1; i < GRAPH_OP_COUNT; i++) {
        const struct graph_op_info *info = graph_op_info((enum graph_op)i);

        assert_non_null(info);
        assert_int_equal(graph_op_find(info->name), i);
        assert_non_null(info->infer_shape);
        assert_true(info->min_in >= 1 && info->min_out >= 1);
        check_inputs(info);
    }
    for (i = 0; i < KERN_UNARY_COUNT; i++)
        assert_non_null(kern_unary_names[i]);
    for (i = 0; i < KERN_BINARY_COUNT; i++)
        assert_non_null(kern_binary_names[i]);
    for (i = 0; i < KERN_REDUCE_KIND_COUNT; i++)
        assert_non_null(kern_reduce_names[i]);
    for (i = 1; i < INFER_DTYPE_COUNT; i++) {
        assert_int_equal(dtype_find(infer_dtype_name((enum infer_dtype)i)), i);
        assert_true(infer_dtype_size((enum infer_dtype)i) > 0);
    }
    assert_int_equal(dtype_find("f32"), INFER_NONE);
    assert_int_equal(dtype_find("none"), INFER_NONE);
    assert_string_equal(infer_dtype_name((enum infer_dtype)77), "none");
    assert_int_equal(infer_dtype_size((enum infer_dtype) - 1), 0);
    for (i = -9; i < 2; i++)
        assert_non_null(infer_status_name(i));
}

/* The axes of each operation: a single one, a list, none. */
TEST(test_axes)
{
    union graph_attr attr = {0};
    int n;

    attr.axis.axis = -2;
    assert_int_equal(*graph_axes(GRAPH_SOFTMAX, &attr, &n), -2);
    assert_int_equal(n, 1);
    memset(&attr, 0, sizeof attr);
    attr.slice.n_axes = 2;
    attr.slice.axis[1] = 3;
    assert_int_equal(graph_axes(GRAPH_SLICE, &attr, &n)[1], 3);
    assert_int_equal(n, 2);
    memset(&attr, 0, sizeof attr);
    assert_non_null(graph_axes(GRAPH_REDUCE, &attr, &n));
    assert_int_equal(n, 0);
    /* That of flatten is a place between two dimensions. */
    assert_null(graph_axes(GRAPH_FLATTEN, &attr, &n));
    assert_null(graph_axes(GRAPH_DENSE, &attr, &n));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_fresh_names),
        cmocka_unit_test(test_bad_ends),
        cmocka_unit_test(test_uses),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_replace_by_input),
        cmocka_unit_test(test_remove_dead),
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_axes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
