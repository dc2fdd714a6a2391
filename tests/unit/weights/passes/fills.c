/* SPDX-License-Identifier: Apache-2.0 */
/* store-fills: before and after on the reference backend, what is left of the
 * constants, and those that stay. */
#include "tests/unit/weights/passes/net.h"

#include <stdlib.h>

#define PASS "store-fills"

static size_t constant_bytes(const struct net *net)
{
    size_t sum = 0;

    for (int i = 0; i < net->g->n_values; i++)
        if (net->g->value[i].data)
            sum += net->g->value[i].data->bytes;
    return sum;
}

/* 0, 1, 2, ..., but `last` in the end. */
static int counting(struct net *net, int rank, const int64_t *dim, int64_t last)
{
    struct constant *c = constant_new(INFER_I64, rank, dim);
    const int64_t n = constant_count(c);

    for (int64_t k = 0; k < n; k++)
        ((int64_t *)(void *)c->data)[k] = k < n - 1 ? k : last;
    return graph_add_constant(net->g, NULL, c);
}

/* Zeros into which a few numbers are scattered, as detectors do. */
TEST(scattered)
{
    struct net net;
    int x = net_start(&net, 70, DIMS(4, 2)), y;

    y = net_node(
        &net, GRAPH_SCATTER_ELEMENTS,
        IN(net_fill(&net, 0, DIMS(4, 8192)), counting(&net, DIMS(4, 2), 5), x));
    net_attr(&net)->scatter.axis = 1;
    net_output(&net, y);
    net_check(&net, PASS, 1, 1);
    assert_int_equal(net_count(&net, GRAPH_EXPAND), 1);
    assert_true(constant_bytes(&net) < 128);
    net_end(&net);
}

/* Elements other than 0, two readers, and places that count. */
TEST(combined)
{
    struct net net;
    int x = net_start(&net, 71, DIMS(2, 16384)), half, places, y;

    half = net_fill(&net, 0.5, DIMS(2, 16384));
    places = counting(&net, DIMS(16384), 16383);
    y = net_binary(&net, KERN_ADD, x, half);
    y = net_binary(&net, KERN_MUL, y, half);
    y = net_node(&net, GRAPH_GATHER, IN(y, places));
    net_attr(&net)->axis.axis = 1;
    net_output(&net, y);
    net_check(&net, PASS, 2, 1);
    assert_int_equal(net_count(&net, GRAPH_EXPAND), 2);
    assert_int_equal(net_count(&net, GRAPH_CUMULATE), 1);
    assert_true(constant_bytes(&net) < 64);
    net_end(&net);
}

/* Small constants, weights of layers, and what is neither equal nor counts. */
TEST(those_that_stay)
{
    struct net net;
    int x = net_start(&net, 72, DIMS(-1, 32, 4, 4)), y;

    y = net_node(&net, GRAPH_CONV,
                 IN(x, net_fill(&net, 0.25, DIMS(64, 32, 3, 3))));
    y = net_binary(&net, KERN_ADD, y, net_fill(&net, 1, DIMS(1, 64, 2, 2)));
    net_output(&net, y);
    net_refuses(&net, PASS);
    net_end(&net);
    x = net_start(&net, 73, DIMS(2, 16384));
    y = net_node(&net, GRAPH_GATHER, IN(x, counting(&net, DIMS(16384), 16382)));
    net_attr(&net)->axis.axis = 1;
    net_output(&net, y);
    net_refuses(&net, PASS);
    net_end(&net);
}

/* What an expansion of constants makes is stored as one again. */
TEST(with_the_others)
{
    struct net net;
    int x = net_start(&net, 74, DIMS(3, 65536)), y;

    y = net_node(&net, GRAPH_EXPAND, IN(net_fill(&net, 2, DIMS(1, 1))));
    net_attr(&net)->dims.n = 2;
    net_attr(&net)->dims.dim[0] = 3;
    net_attr(&net)->dims.dim[1] = 65536;
    y = net_unary(&net, y, KERN_SQRT);
    net_output(&net, net_binary(&net, KERN_MUL, x, y));
    net_check_all(&net, 1);
    assert_true(constant_bytes(&net) < 64);
    net_end(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scattered),
        cmocka_unit_test(combined),
        cmocka_unit_test(those_that_stay),
        cmocka_unit_test(with_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
