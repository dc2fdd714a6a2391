/* SPDX-License-Identifier: Apache-2.0 */
/* What shape rules give beside the shapes: pads and windows, and the shapes and
 * faults of whole graphs. */
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph.h"
#include "libinfer/graph/ops/op.h"
#include "tests/unit/test.h"

/* ---- pads, which shapes do not show -------------------------------- */

TEST(test_same_pads)
{
    struct graph_conv conv = {.auto_pad = GRAPH_PAD_SAME_UPPER};
    const int64_t in[2] = {7, 8}, window[2] = {2, 3};
    struct kern_conv out;
    int64_t extent[2];

    conv.conv = (struct kern_conv){
        .groups = 1, .stride = {2, 2, 1}, .dilation = {1, 1, 1}};
    assert_int_equal(op_conv_resolve(&conv, 2, in, window, &out, extent, NULL),
                     0);
    /* 4 outputs: (4-1)*2 + 2 - 7 = 1 and (4-1)*2 + 3 - 8 = 1 to be padded,
     * TensorFlow's way at the end. */
    assert_int_equal(out.pad_begin[0], 0);
    assert_int_equal(out.pad_end[0], 1);
    assert_int_equal(out.pad_begin[1], 0);
    assert_int_equal(out.pad_end[1], 1);
    conv.auto_pad = GRAPH_PAD_SAME_LOWER;
    assert_int_equal(op_conv_resolve(&conv, 2, in, window, &out, extent, NULL),
                     0);
    assert_int_equal(out.pad_begin[0], 1);
    assert_int_equal(out.pad_end[0], 0);
}

TEST(test_transposed_pads)
{
    struct graph_conv conv = {.output_size = {10, 8}};
    const int64_t in[2] = {3, 3}, window[2] = {3, 3};
    struct kern_conv out;
    int64_t extent[2];
    int i;

    conv.conv = (struct kern_conv){
        .groups = 1, .stride = {3, 2, 1}, .dilation = {1, 1, 1}};
    assert_int_equal(
        op_conv_transpose_resolve(&conv, 2, in, window, &out, extent, NULL), 0);
    /* The full results are 9 and 7, one short of what is asked. */
    for (i = 0; i < 2; i++) {
        assert_int_equal(out.pad_begin[i], 0);
        assert_int_equal(out.pad_end[i], -1);
    }
    conv.output_size[0] = conv.output_size[1] = 6;
    assert_int_equal(
        op_conv_transpose_resolve(&conv, 2, in, window, &out, extent, NULL), 0);
    /* 3 too many: without SAME_UPPER the odd one goes to the begin. */
    assert_int_equal(out.pad_begin[0], 2);
    assert_int_equal(out.pad_end[0], 1);
    conv.auto_pad = GRAPH_PAD_SAME_UPPER;
    assert_int_equal(
        op_conv_transpose_resolve(&conv, 2, in, window, &out, extent, NULL), 0);
    assert_int_equal(out.pad_begin[0], 1);
    assert_int_equal(out.pad_end[0], 2);
}

TEST(test_global_window)
{
    struct graph_pool pool = {.ceil_mode = true};
    const int64_t in[2] = {5, 7};
    struct kern_pool out;
    int64_t extent[2];

    assert_int_equal(op_pool_resolve(&pool, 2, in, &out, extent, NULL), 0);
    assert_int_equal(out.window[0], 5);
    assert_int_equal(out.window[1], 7);
    assert_int_equal(out.stride[1], 1);
    assert_int_equal(extent[0], 1);
}

/* ---- whole graphs -------------------------------------------------- */

/* x (free batch and space) -> pool -> residual sum. */
static struct graph *small_graph(void)
{
    const int64_t dim[4] = {-1, 3, -1, -1};
    struct graph *g = graph_new();
    int x = graph_add_input(g, "x", INFER_F32, 4, dim);
    int p = graph_add_value(g, "p"), y = graph_add_value(g, "y");
    int ends[2] = {x, p}, node;

    node = graph_add_node(g, GRAPH_POOL, "pool", &x, 1, &p, 1);
    g->node[node].attr.pool.pool.window[0] = 3;
    g->node[node].attr.pool.pool.window[1] = 3;
    g->node[node].attr.pool.pool.pad_begin[0] = 1;
    g->node[node].attr.pool.pool.pad_begin[1] = 1;
    g->node[node].attr.pool.pool.pad_end[0] = 1;
    g->node[node].attr.pool.pool.pad_end[1] = 1;
    graph_add_node(g, GRAPH_BINARY, "sum", ends, 2, &y, 1);
    graph_add_output(g, y);
    return g;
}

TEST(test_given_shapes)
{
    struct graph *g = small_graph();
    struct graph_shape shape = {4, {2, 3, 8, 9}};
    struct infer_error err;
    int y = graph_find_value(g, "y");

    assert_int_equal(graph_infer_shapes(g, NULL, &err), 0);
    assert_int_equal(g->value[y].dim[2], -1);
    assert_int_equal(graph_infer_shapes(g, &shape, &err), 0);
    assert_int_equal(g->value[y].dim[0], 2);
    assert_int_equal(g->value[y].dim[3], 9);
    /* Now the inputs are fixed. */
    shape.dim[0] = 3;
    assert_int_equal(graph_infer_shapes(g, &shape, &err), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "2x3x8x9 is needed"));
    shape.rank = 3;
    assert_int_equal(graph_infer_shapes(g, &shape, &err), INFER_EARGUMENT);
    graph_free(g);
}

/* A fault does not hide the next one, nor bring forth others. */
TEST(test_all_faults)
{
    struct graph *g = small_graph();
    struct infer_error err;
    int v = graph_add_value(g, "z"), w = graph_add_value(g, "zz");
    int node = graph_add_node(g, GRAPH_SOFTMAX, "soft", &g->input[0], 1, &v, 1);

    g->node[node].attr.axis.axis = 4;
    node = graph_add_node(g, GRAPH_LRN, "lrn", &v, 1, &w, 1);
    g->node[node].attr.lrn.size = -1;
    g->node[0].attr.pool.pool.stride[0] = 0;
    assert_int_equal(graph_infer_shapes(g, NULL, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "node 'pool' (pool): stride 0"));
    assert_non_null(strstr(err.text, "node 'soft' (softmax): axis 4"));
    assert_non_null(strstr(err.text, "node 'lrn' (lrn): size -1"));
    assert_null(strstr(err.text, "'sum'"));
    graph_free(g);
}

TEST(test_residual)
{
    struct graph *g = graph_new();
    const int64_t x_dim[4] = {1, 2, 4, 4}, w_dim[4] = {3, 2, 1, 1};
    const int64_t r_dim[4] = {1, 3, 4, 1};
    struct infer_error err;
    int in[4], y, node;

    in[0] = graph_add_input(g, "x", INFER_F32, 4, x_dim);
    in[1] = graph_add_constant(g, "w", constant_new(INFER_F16, 4, w_dim));
    in[2] = -1;
    in[3] = graph_add_input(g, "r", INFER_F32, 4, r_dim);
    y = graph_add_value(g, "y");
    node = graph_add_node(g, GRAPH_CONV, "conv", in, 4, &y, 1);
    graph_add_output(g, y);
    assert_int_equal(graph_validate(g, &err), INFER_EFORMAT);
    assert_non_null(
        strstr(err.text, "residual is 1x3x4x1, the output 1x3x4x4"));
    g->value[in[3]].dim[3] = 4;
    assert_int_equal(graph_validate(g, &err), 0);
    assert_int_equal(graph_infer_shapes(g, NULL, &err), 0);
    /* Weights may be narrower than the network runs. */
    assert_int_equal(g->value[y].dtype, INFER_F32);
    g->node[node].op = GRAPH_CONV_TRANSPOSE;
    assert_int_equal(graph_validate(g, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "4 inputs, 2 to 3 are expected"));
    graph_free(g);
}

TEST(test_gather_indices)
{
    struct graph *g = graph_new();
    const int64_t x_dim[2] = {-1, 3}, n = 2;
    struct constant *c = constant_new(INFER_I64, 1, &n);
    struct infer_error err;
    int in[2], y, node;

    ((int64_t *)(void *)c->data)[0] = -3;
    ((int64_t *)(void *)c->data)[1] = 2;
    in[0] = graph_add_input(g, "x", INFER_F32, 2, x_dim);
    in[1] = graph_add_constant(g, "at", c);
    y = graph_add_value(g, "y");
    node = graph_add_node(g, GRAPH_GATHER, "gather", in, 2, &y, 1);
    g->node[node].attr.axis.axis = 1;
    graph_add_output(g, y);
    assert_int_equal(graph_validate(g, &err), 0);
    ((int64_t *)(void *)c->data)[1] = 3;
    assert_int_equal(graph_validate(g, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "index 3 is outside"));
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_pads),
        cmocka_unit_test(test_transposed_pads),
        cmocka_unit_test(test_global_window),
        cmocka_unit_test(test_given_shapes),
        cmocka_unit_test(test_all_faults),
        cmocka_unit_test(test_residual),
        cmocka_unit_test(test_gather_indices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
