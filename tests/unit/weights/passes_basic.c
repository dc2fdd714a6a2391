/* SPDX-License-Identifier: Apache-2.0 */
/* remove-dead, fold-constants, remove-identity, remove-dropout, merge-pad and
 * share-constants: before and after on the reference backend, the graphs in
 * which they must do nothing, and all passes together. */
#include "tests/unit/weights/passes/net.h"

#include <math.h>
#include <string.h>

/* ---- remove-dead --------------------------------------------------- */

TEST(dead_nodes)
{
    struct net net;
    int x;

    x = net_start(&net, 1, DIMS(-1, 3, 4, 4));
    net_output(&net, net_unary(&net, x, KERN_RELU));
    net_conv(&net, x, 2, 3, 1, 0);
    net_check(&net, "remove-dead", 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    assert_int_equal(net.g->n_values, 2);
    net_end(&net);
}

/* ---- fold-constants ------------------------------------------------ */

TEST(computed_weights)
{
    struct net net;
    int x, w, s;

    x = net_start(&net, 2, DIMS(-1, 3, 4, 4));
    w = net_weight(&net, DIMS(4, 27));
    w = net_reshape(&net, w, DIMS(4, 3, 3, 3));
    s = net_unary(&net, net_weight(&net, DIMS(4, 1, 1, 1)), KERN_LINEAR);
    net_attr(&net)->unary.a = 2;
    w = net_binary(&net, KERN_MUL, w, s);
    net_output(&net, net_node(&net, GRAPH_CONV, IN(x, w)));
    net_check(&net, "fold-constants", 2, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* The reshaped constant is read elsewhere in its old shape. */
TEST(shared_constant)
{
    struct net net;
    int x, c, y;

    x = net_start(&net, 3, DIMS(2, 4));
    c = net_weight(&net, DIMS(2, 4));
    y = net_binary(&net, KERN_ADD, x, c);
    c = net_reshape(&net, c, DIMS(1, 2, 4));
    net_output(&net, net_binary(&net, KERN_MUL, y, c));
    net_check(&net, "fold-constants", 1, 1);
    assert_int_equal(net.g->n_nodes, 2);
    net_end(&net);
}

TEST(transposed_weights)
{
    struct net net;
    int x, w;

    x = net_start(&net, 4, DIMS(-1, 6));
    w = net_transpose(&net, net_weight(&net, DIMS(6, 5)), DIMS(1, 0));
    net_output(&net, net_node(&net, GRAPH_DENSE, IN(x, w)));
    net_check(&net, "fold-constants", 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* A copy of the graph shares its constants: editing one must leave the other
 * as it is, through a reshaped view too. */
TEST(shared_with_copy)
{
    struct infer_error err;
    struct graph *copy;
    struct net net;
    float first;
    int x, w, y, v;

    x = net_start(&net, 6, DIMS(-1, 3, 4, 4));
    w = net_weight(&net, DIMS(4, 27));
    v = w;
    w = net_reshape(&net, w, DIMS(4, 3, 3, 3));
    y = net_node(&net, GRAPH_CONV, IN(x, w));
    net_output(&net, net_batch_norm(&net, y, 4));
    memcpy(&first, net.g->value[v].data->data, sizeof(first));
    copy = graph_copy(net.g);
    assert_non_null(copy);
    assert_int_equal(weights_run_passes(net.g, NULL, NULL, &err), 0);
    assert_int_equal(net.g->n_nodes, 1);
    assert_memory_equal(&first, copy->value[v].data->data, sizeof(first));
    graph_free(copy);
    net_end(&net);
}

/* A result of half a gigabyte from one number is not stored. */
TEST(expanding_constant)
{
    struct net net;
    int y;

    net_begin(&net, 5);
    net_input(&net, DIMS(1));
    y = net_node(&net, GRAPH_EXPAND, IN(net_number(&net, 1)));
    net_attr(&net)->dims.n = 1;
    net_attr(&net)->dims.dim[0] = (int64_t)1 << 27;
    y = net_reduce(&net, y, KERN_REDUCE_MAX, DIMS(0), true);
    net_output(&net, net_unary(&net, y, KERN_RELU));
    net_refuses_unrun(&net, "fold-constants");
    net_end(&net);
}

/* ---- remove-identity ----------------------------------------------- */

static int add_identity(struct net *net, int x, int kind)
{
    int y = x;

    switch (kind) {
    case 0:
        return net_unary(net, x, KERN_IDENTITY);
    case 1:
        return net_node(net, GRAPH_DROPOUT, IN(x));
    case 2:
        return net_reshape(net, x, DIMS(-1, 3, 4, 4));
    case 3:
        return net_transpose(net, x, DIMS(0, 1, 2, 3));
    case 4:
        y = net_node(net, GRAPH_CAST, IN(x));
        net_attr(net)->cast.to = INFER_F32;
        return y;
    case 5:
        y = net_node(net, GRAPH_SLICE, IN(x));
        net_attr(net)->slice.n_axes = 2;
        net_attr(net)->slice.axis[0] = 0;
        net_attr(net)->slice.axis[1] = 2;
        for (int i = 0; i < 2; i++) {
            net_attr(net)->slice.begin[i] = 0;
            net_attr(net)->slice.end[i] = INT64_MAX;
            net_attr(net)->slice.step[i] = 1;
        }
        return y;
    case 6:
        return net_node(net, GRAPH_PAD, IN(x));
    case 7:
        y = net_node(net, GRAPH_RESIZE, IN(x));
        for (int i = 0; i < 4; i++)
            net_attr(net)->resize.resize.scale[i] = 1;
        return y;
    case 8:
        return net_binary(net, KERN_MUL, x, net_fill(net, 1, DIMS(3, 1, 1)));
    case 9:
        return net_binary(net, KERN_SUB, x, net_number(net, 0));
    case 10:
        return net_node(
            net, GRAPH_SCALE_SHIFT,
            IN(x, net_fill(net, 1, DIMS(3)), net_fill(net, 0, DIMS(3))));
    case 11:
        return net_node(net, GRAPH_CONCAT, IN(x));
    case 12:
        y = net_unary(net, x, KERN_CLIP);
        net_attr(net)->unary.a = -INFINITY;
        net_attr(net)->unary.b = INFINITY;
        return y;
    case 13:
        y = net_node(net, GRAPH_POOL, IN(x));
        for (int i = 0; i < 2; i++) {
            net_attr(net)->pool.pool.window[i] = 1;
            net_attr(net)->pool.pool.stride[i] = 1;
        }
        return y;
    default:
        return -1;
    }
}

TEST(identities)
{
    struct net net;

    for (int kind = 0;; kind++) {
        int x, y;

        x = net_start(&net, 10 + (uint64_t)kind, DIMS(-1, 3, 4, 4));
        y = add_identity(&net, net_conv(&net, x, 3, 3, 1, 0), kind);
        if (y < 0) {
            net_end(&net);
            break;
        }
        /* Two readers, and a chain of the same. */
        net_output(&net, net_unary(&net, y, KERN_RELU));
        net_output(&net,
                   net_unary(&net, add_identity(&net, y, kind), KERN_TANH));
        net_check(&net, kind == 1 ? "remove-dropout" : "remove-identity", 2, 1);
        assert_int_equal(net.g->n_nodes, 3);
        net_end(&net);
    }
}

/* The name of an output is part of the interface. */
TEST(identity_at_output)
{
    struct net net;
    int x, y;

    x = net_start(&net, 30, DIMS(-1, 3, 4, 4));
    y = net_conv(&net, x, 3, 3, 1, 0);
    net_output(&net, net_unary(&net, y, KERN_RELU));
    y = net_node(&net, GRAPH_DROPOUT, IN(y));
    assert_int_equal(graph_rename_value(net.g, y, "the output"), 0);
    net_output(&net, y);
    net_check(&net, "remove-dropout", 1, 1);
    assert_int_equal(net_count(&net, GRAPH_DROPOUT), 0);
    assert_string_equal(net.g->value[net.g->output[1]].name, "the output");
    net_end(&net);
}

TEST(identity_between_ends)
{
    struct net net;
    int x;

    x = net_start(&net, 31, DIMS(-1, 3));
    net_output(&net, net_unary(&net, x, KERN_IDENTITY));
    net_refuses(&net, "remove-identity");
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

TEST(not_identities)
{
    struct net net;

    for (int kind = 0; kind < 8; kind++) {
        int x, y = -1;

        x = net_start(&net, 40 + (uint64_t)kind,
                      DIMS(kind == 7 ? -1 : 2, 3, 4, 4));
        x = net_unary(&net, x, KERN_TANH);
        switch (kind) {
        case 0: /* reversed */
            y = net_node(&net, GRAPH_SLICE, IN(x));
            net_attr(&net)->slice.n_axes = 1;
            net_attr(&net)->slice.axis[0] = 2;
            net_attr(&net)->slice.begin[0] = -1;
            net_attr(&net)->slice.end[0] = INT64_MIN + 1;
            net_attr(&net)->slice.step[0] = -1;
            break;
        case 1: /* a square plane turned */
            y = net_transpose(&net, x, DIMS(0, 1, 3, 2));
            break;
        case 2: /* nearest with a scale that keeps the size */
            y = net_node(&net, GRAPH_RESIZE, IN(x));
            for (int i = 0; i < 4; i++)
                net_attr(&net)->resize.resize.scale[i] = 1;
            net_attr(&net)->resize.resize.scale[2] = 1.2f;
            net_attr(&net)->resize.resize.coord = KERN_ASYMMETRIC;
            break;
        case 3: /* enlarges */
            y = net_binary(&net, KERN_ADD, x,
                           net_fill(&net, 0, DIMS(2, 1, 1, 1, 1)));
            break;
        case 4: /* shifted by padding and cropping */
            y = net_node(&net, GRAPH_PAD, IN(x));
            net_attr(&net)->pad.begin[2] = 1;
            net_attr(&net)->pad.end[2] = -1;
            break;
        case 5: /* 0 - x */
            y = net_binary(&net, KERN_SUB, net_number(&net, 0), x);
            break;
        case 7: /* twice the batch, which is free before and after */
            y = net_node(&net, GRAPH_TILE, IN(x));
            net_attr(&net)->dims.n = 4;
            for (int i = 0; i < 4; i++)
                net_attr(&net)->dims.dim[i] = i == 0 ? 2 : 1;
            break;
        default: /* an activation of its own */
            y = net_node(&net, GRAPH_SCALE_SHIFT, IN(x));
            net_latest(&net)->epilogue.act = graph_unary(KERN_RELU);
            break;
        }
        net_output(&net, net_unary(&net, y, KERN_SIGMOID));
        net_refuses(&net, "remove-identity");
        net_end(&net);
    }
}

/* ---- merge-pad ----------------------------------------------------- */

static int add_pad(struct net *net, int x, int top, int left, int bottom,
                   int right, float value)
{
    int y = net_node(net, GRAPH_PAD, IN(x));

    net_attr(net)->pad.begin[2] = top;
    net_attr(net)->pad.begin[3] = left;
    net_attr(net)->pad.end[2] = bottom;
    net_attr(net)->pad.end[3] = right;
    net_attr(net)->pad.value = value;
    return y;
}

static int add_pool(struct net *net, int x, enum kern_pool_kind kind, int own)
{
    int y = net_node(net, GRAPH_POOL, IN(x));
    struct graph_pool *pool = &net_attr(net)->pool;

    pool->pool.kind = kind;
    for (int i = 0; i < 2; i++) {
        pool->pool.window[i] = 3;
        pool->pool.stride[i] = 2;
        pool->pool.pad_begin[i] = own;
        pool->pool.pad_end[i] = own;
    }
    return y;
}

TEST(pad_into_conv)
{
    struct net net;
    int x;

    for (int own = 0; own < 2; own++) {
        x = net_start(&net, 50 + (uint64_t)own, DIMS(-1, 3, 6, 5));
        x = add_pad(&net, x, 0, 1, 1, 0, 0);
        net_output(&net, net_conv(&net, x, 4, 3, 3, own));
        net_check(&net, "merge-pad", 1, 1);
        assert_int_equal(net.g->n_nodes, 1);
        net_end(&net);
    }
}

TEST(pad_into_average_pool)
{
    struct net net;
    int x;

    x = net_start(&net, 52, DIMS(-1, 3, 7, 6));
    x = add_pad(&net, x, 1, 1, 1, 2, 0);
    net_output(&net, add_pool(&net, x, KERN_POOL_AVERAGE, 0));
    net_check(&net, "merge-pad", 1, 1);
    assert_int_equal(net.g->n_nodes, 1);
    assert_true(net.g->node[0].attr.pool.pool.count_include_pad);
    net_end(&net);
}

TEST(pad_into_max_pool)
{
    struct net net;
    int x;

    for (int i = 0; i < 2; i++) {
        x = net_start(&net, 53 + (uint64_t)i, DIMS(-1, 3, 7, 6));
        if (i == 0)
            x = net_unary(&net, x, KERN_RELU);
        x = add_pad(&net, x, 1, 1, 1, 1, i ? -INFINITY : 0);
        net_output(&net, add_pool(&net, x, KERN_POOL_MAX, 0));
        /* The magnitude network would be infinite. */
        if (i == 0)
            net_check(&net, "merge-pad", 1, 1);
        net_end(&net);
    }
}

TEST(pads_that_stay)
{
    struct net net;

    for (int kind = 0; kind < 7; kind++) {
        int x, y;

        x = net_start(&net, 60 + (uint64_t)kind, DIMS(-1, 3, 8, 8));
        y = add_pad(&net, x, 1, 1, 1, 1, kind == 0 ? 0.5f : 0);
        if (kind == 1)
            net_attr(&net)->pad.mode = KERN_PAD_REFLECT;
        if (kind == 2) {
            /* A channel of padding. */
            net_attr(&net)->pad.begin[1] = 1;
            y = net_conv(&net, y, 4, 4, 3, 0);
        } else if (kind < 2) {
            y = net_conv(&net, y, 4, 3, 3, 0);
        } else if (kind == 3) {
            /* Its own padding does not count, the other does. */
            y = add_pool(&net, y, KERN_POOL_AVERAGE, 1);
        } else if (kind == 4) {
            /* Zero wins against negative elements. */
            y = add_pool(&net, y, KERN_POOL_MAX, 0);
        } else if (kind == 5) {
            y = add_pool(&net, y, KERN_POOL_AVERAGE, 0);
            net_attr(&net)->pool.ceil_mode = true;
        } else {
            /* Windows of padding alone. */
            net_attr(&net)->pad.begin[2] = 3;
            y = net_conv(&net, y, 4, 3, 3, 0);
        }
        net_output(&net, y);
        net_refuses(&net, "merge-pad");
        net_end(&net);
    }
}

/* ---- the driver ---------------------------------------------------- */

TEST(whole_block)
{
    struct net net;
    int x, y;

    x = net_start(&net, 130, DIMS(-1, 4, 6, 6));
    y = net_conv(&net, x, 4, 4, 3, 1);
    y = net_unary(&net, net_batch_norm(&net, y, 4), KERN_RELU);
    y = net_batch_norm(&net, net_conv(&net, y, 4, 4, 3, 1), 4);
    y = net_unary(&net, net_binary(&net, KERN_ADD, y, x), KERN_RELU);
    net_output(&net, y);
    net_check_all(&net, 2);
    assert_int_equal(net.g->n_nodes, 2);
    net_end(&net);
}

TEST(options)
{
    static const char *const unknown[] = {"fold-everything", NULL};
    struct pass_options options;
    struct infer_error err;
    struct net net;
    int x;

    x = net_start(&net, 131, DIMS(-1, 4, 6, 6));
    x = net_batch_norm(&net, net_conv(&net, x, 4, 4, 3, 1), 4);
    net_output(&net, net_unary(&net, x, KERN_RELU));

    pass_options_init(&options);
    options.disabled = unknown;
    assert_int_equal(weights_run_passes(net.g, &options, NULL, &err),
                     INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "fold-everything"));
    options.disabled = NULL;
    options.level = 0;
    assert_int_equal(weights_run_passes(net.g, &options, NULL, &err), 0);
    assert_int_equal(net.g->n_nodes, 3);
    options.level = 2;
    options.keep_bn = true;
    assert_int_equal(weights_run_passes(net.g, &options, NULL, &err), 0);
    assert_int_equal(net_count(&net, GRAPH_BATCH_NORM), 1);
    options.keep_bn = false;
    assert_int_equal(weights_run_passes(net.g, &options, NULL, &err), 0);
    /* The activation was fused into the norm; it moves on. */
    assert_int_equal(net.g->n_nodes, 1);
    assert_int_equal(net.g->node[0].epilogue.act.kind, KERN_RELU);
    net_end(&net);
}

/* What training goes on with stays where that is asked for. */
TEST(kept_for_training)
{
    struct pass_options options;
    struct infer_error err;
    struct net net;
    int x;

    x = net_start(&net, 132, DIMS(-1, 4, 6, 6));
    x = net_batch_norm(&net, net_conv(&net, x, 4, 4, 3, 1), 4);
    x = net_unary(&net, net_unary(&net, x, KERN_RELU), KERN_IDENTITY);
    net_output(&net, net_node(&net, GRAPH_DROPOUT, IN(x)));
    pass_options_init(&options);
    options.keep_training = true;
    assert_int_equal(weights_run_passes(net.g, &options, NULL, &err), 0);
    assert_int_equal(net_count(&net, GRAPH_BATCH_NORM), 1);
    assert_int_equal(net_count(&net, GRAPH_DROPOUT), 1);
    assert_int_equal(net.g->n_nodes, 3);
    options.keep_training = false;
    assert_int_equal(weights_run_passes(net.g, &options, NULL, &err), 0);
    assert_int_equal(net.g->n_nodes, 1);
    net_end(&net);
}

/* ---- share-constants ----------------------------------------------- */

/* 64 places of 4 entries; the last one is `last`. */
static int net_places(struct net *net, const char *name, int64_t last)
{
    const int64_t dim = 64;
    struct constant *c = constant_new(INFER_I64, 1, &dim);

    assert_non_null(c);
    for (int i = 0; i < 64; i++)
        ((int64_t *)(void *)c->data)[i] = i < 63 ? i % 4 : last;
    return graph_add_constant(net->g, name, c);
}

TEST(equal_integers)
{
    static const char *const names[] = {"a", "b", "c"};
    int at[3], part[3];
    struct net net;
    int x, w;

    x = net_start(&net, 21, DIMS(2, 4));
    for (int i = 0; i < 3; i++) {
        at[i] = net_places(&net, names[i], i == 1 ? 2 : 3);
        part[i] = net_node(&net, GRAPH_GATHER, IN(x, at[i]));
        net_attr(&net)->axis.axis = 1;
    }
    x = net_binary(&net, KERN_ADD, part[0], part[1]);
    x = net_binary(&net, KERN_ADD, x, part[2]);
    /* Equal weights stay two: passes edit them. */
    for (int i = 0; i < 2; i++) {
        w = net_fill(&net, 0.5, DIMS(64));
        x = net_binary(&net, KERN_MUL, x, w);
    }
    net_output(&net, x);
    net_check(&net, "share-constants", 1, 1);
    assert_int_equal(net.g->node[0].in[1], net.g->node[2].in[1]);
    assert_int_not_equal(net.g->node[0].in[1], net.g->node[1].in[1]);
    net_end(&net);
}

/* States c that nothing reads, and initial states of 0. */
TEST(cells)
{
    struct net net;
    int x = net_start(&net, 75, DIMS(2, 5, 12)), y;

    y = net_node(&net, GRAPH_RECURRENT,
                 IN(x, net_weight(&net, DIMS(12, 3)), -1,
                    net_fill(&net, 0, DIMS(2, 3)),
                    net_fill(&net, 0.5, DIMS(2, 3))));
    net_attr(&net)->recurrent.with_cell = true;
    y = net_node(&net, GRAPH_SLICE, IN(y));
    net_attr(&net)->slice.n_axes = 1;
    net_attr(&net)->slice.axis[0] = 2;
    net_attr(&net)->slice.end[0] = 3;
    net_output(&net, y);
    net_check(&net, "drop-cells", 2, 1);
    assert_int_equal(net_count(&net, GRAPH_SLICE), 0);
    net_end(&net);
}

/* They are read, and not 0. */
TEST(cells_that_stay)
{
    struct net net;
    int x = net_start(&net, 76, DIMS(2, 5, 12)), y;

    y = net_node(&net, GRAPH_RECURRENT,
                 IN(x, net_weight(&net, DIMS(12, 3)), -1,
                    net_fill(&net, 0.25, DIMS(2, 3))));
    net_attr(&net)->recurrent.with_cell = true;
    y = net_node(&net, GRAPH_SLICE, IN(y));
    net_attr(&net)->slice.n_axes = 1;
    net_attr(&net)->slice.axis[0] = 2;
    net_attr(&net)->slice.end[0] = 4;
    net_output(&net, y);
    net_refuses(&net, "drop-cells");
    net_end(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_nodes),
        cmocka_unit_test(computed_weights),
        cmocka_unit_test(shared_constant),
        cmocka_unit_test(transposed_weights),
        cmocka_unit_test(shared_with_copy),
        cmocka_unit_test(expanding_constant),
        cmocka_unit_test(identities),
        cmocka_unit_test(identity_at_output),
        cmocka_unit_test(identity_between_ends),
        cmocka_unit_test(not_identities),
        cmocka_unit_test(pad_into_conv),
        cmocka_unit_test(pad_into_average_pool),
        cmocka_unit_test(pad_into_max_pool),
        cmocka_unit_test(pads_that_stay),
        cmocka_unit_test(whole_block),
        cmocka_unit_test(options),
        cmocka_unit_test(kept_for_training),
        cmocka_unit_test(equal_integers),
        cmocka_unit_test(cells),
        cmocka_unit_test(cells_that_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
