/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that tools choose for the states of recurrent layers. */
#include <string.h>

#include "tests/unit/runtime/network.h"
#include "tools/array.h"

/* The sequences x, N,S,4 or with `steps_first` S,N,4, and a state 1,N,1. */
static struct graph *network(bool steps_first)
{
    struct graph *g = graph_new();
    uint64_t seed = 1;
    int node, x = input(g, "x", DIMS(-1, -1, 4));
    int h = input(g, "h", DIMS(1, -1, 1));

    if (steps_first) {
        x = add(g, GRAPH_TRANSPOSE, "t", IN(x), &node);
        g->node[node].attr.dims.n = 3;
        g->node[node].attr.dims.dim[0] = 1;
        g->node[node].attr.dims.dim[1] = 0;
        g->node[node].attr.dims.dim[2] = 2;
    }
    h = add(g, GRAPH_SQUEEZE, "s", IN(h), &node);
    g->node[node].attr.dims.n = 1;
    g->node[node].attr.dims.dim[0] = 0;
    x = add(g, GRAPH_RECURRENT, "y",
            IN(x, weights(g, &seed, DIMS(4, 1)), -1, h), NULL);
    assert_int_equal(graph_add_output(g, x), 0);
    return g;
}

struct row {
    bool steps_first, made;
    int64_t x[2], h[2]; /* the first sizes, as chosen by their places */
    int64_t to[2];      /* of h */
};

static const struct row rows[] = {
    {false, true, {2, 3}, {1, 3}, {1, 2}},
    {false, true, {4, 3}, {4, 3}, {1, 4}},
    /* They agree as they are. */
    {false, true, {3, 3}, {1, 3}, {1, 3}},
    {true, true, {2, 3}, {1, 3}, {1, 3}},
    /* Neither agrees; h is from a file. */
    {true, true, {5, 2}, {1, 3}, {1, 3}},
    {false, false, {2, 3}, {1, 3}, {1, 3}},
};

TEST(test_rows)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *r = &rows[i];
        struct graph *g = network(r->steps_first);
        const bool made[2] = {true, r->made};
        struct infer_array in[2] = {
            {.rank = 3, .dim = {r->x[0], r->x[1], 4}},
            {.rank = 3, .dim = {r->h[0], r->h[1], 1}},
        };

        state_sizes(g, made, in);
        assert_int_equal(in[0].dim[0], r->x[0]);
        assert_int_equal(in[0].dim[1], r->x[1]);
        assert_int_equal(in[1].dim[0], r->to[0]);
        assert_int_equal(in[1].dim[1], r->to[1]);
        assert_int_equal(in[1].dim[2], 1);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
