/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that do not fit: values, ends of nodes, constants, sources of bytes and
 * pictures outside of what their functions take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libinfer/graph/graph.h"
#include "libinfer/image/image.h"
#include "libinfer/image/image_head.h"
#include "libinfer/image/preprocess.h"
#include "libinfer/model/model.h"
#include "tests/unit/test.h"

/* ---- graphs -------------------------------------------------------- */

TEST(test_inputs_and_outputs)
{
    const int64_t dim[INFER_MAX_RANK + 1] = {1, 1};
    struct graph *g = graph_new();
    int i, v;

    assert_int_equal(graph_add_input(g, "x", INFER_F32, -2, dim),
                     INFER_EARGUMENT);
    assert_int_equal(
        graph_add_input(g, "x", INFER_F32, INFER_MAX_RANK + 1, dim),
        INFER_EARGUMENT);
    for (i = 0; i < GRAPH_MAX_INPUTS; i++) {
        v = graph_add_input(g, NULL, INFER_F32, 1, dim);
        assert_true(v >= 0);
        assert_int_equal(graph_add_output(g, v), i);
    }
    assert_int_equal(graph_add_input(g, "more", INFER_F32, 1, dim),
                     INFER_EARGUMENT);
    v = graph_add_value(g, "more");
    assert_int_equal(graph_add_output(g, v), INFER_EARGUMENT);
    assert_int_equal(g->n_inputs, GRAPH_MAX_INPUTS);
    assert_int_equal(g->n_outputs, GRAPH_MAX_INPUTS);
    graph_free(g);
}

/* Indices outside of the graph, and of a value that was removed. */
TEST(test_values_that_are_none)
{
    const int64_t dim[1] = {2};
    struct graph *g = graph_new();
    int x = graph_add_input(g, "x", INFER_F32, 1, dim);
    int hole = graph_add_value(g, "hole");
    int y = graph_add_value(g, "y"), many[GRAPH_MAX_INPUTS + 1];

    free(g->value[hole].name);
    g->value[hole].name = NULL;
    const int wrong[] = {-2, g->n_values, hole};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct infer_error err = {0};
        const int out = wrong[i];

        assert_int_equal(graph_add_output(g, wrong[i]), INFER_EARGUMENT);
        assert_int_equal(graph_rename_value(g, wrong[i], "z"), INFER_EARGUMENT);
        assert_int_equal(graph_set_constant(g, wrong[i],
                                            constant_new(INFER_F32, 1, dim),
                                            &err),
                         INFER_EARGUMENT);
        assert_non_null(strstr(err.text, "no value has index"));
        assert_int_equal(
            graph_add_node(g, GRAPH_UNARY, "n", &wrong[i], 1, &y, 1),
            INFER_EARGUMENT);
        assert_int_equal(graph_add_node(g, GRAPH_UNARY, "n", &x, 1, &out, 1),
                         INFER_EARGUMENT);
    }
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = x;
    assert_int_equal(
        graph_add_node(g, GRAPH_CONCAT, "n", many, GRAPH_MAX_INPUTS + 1, &y, 1),
        INFER_EARGUMENT);
    assert_int_equal(graph_add_node(g, GRAPH_CONCAT, "n", many, -1, &y, 1),
                     INFER_EARGUMENT);
    assert_int_equal(graph_add_node(g, GRAPH_SPLIT, "n", &x, 1, &y, 0),
                     INFER_EARGUMENT);
    assert_int_equal(
        graph_add_node(g, GRAPH_SPLIT, "n", &x, 1, many, GRAPH_MAX_INPUTS + 1),
        INFER_EARGUMENT);
    assert_int_equal(graph_set_constant(g, y, NULL, NULL), INFER_EMEMORY);
    assert_int_equal(g->n_nodes, 0);
    graph_free(g);
}

/* A value that two nodes make: the first function refuses it, and the order of
 * nodes does where a rewrite leaves it so. */
TEST(test_two_producers)
{
    const int64_t dim[1] = {2};
    struct graph *g = graph_new();
    const int x = graph_add_input(g, "x", INFER_F32, 1, dim);
    const int y = graph_add_value(g, "y"), z = graph_add_value(g, "z");
    struct infer_error err = {0};

    assert_int_equal(graph_add_node(g, GRAPH_SOFTMAX, "a", &x, 1, &y, 1), 0);
    assert_int_equal(graph_add_node(g, GRAPH_SOFTMAX, "b", &x, 1, &y, 1),
                     INFER_EARGUMENT);
    assert_int_equal(graph_add_node(g, GRAPH_SOFTMAX, "b", &x, 1, &z, 1), 1);
    graph_add_output(g, y);
    g->node[1].out[0] = y;
    assert_int_equal(graph_sort(g, &err), INFER_EFORMAT);
    assert_non_null(strstr(err.text, "nodes 'a' and 'b' both produce 'y'"));
    graph_free(g);
}

/* ---- constants and their bytes ------------------------------------- */

TEST(test_shapes_of_constants)
{
    const int64_t half = INT64_C(1) << 31, one[INFER_MAX_RANK + 1] = {1};
    struct constant *c = constant_new(INFER_F32, DIMS(2, 3));

    assert_null(constant_new(INFER_F32, -1, one));
    assert_null(constant_new(INFER_F32, INFER_MAX_RANK + 1, one));
    assert_null(constant_new(INFER_NONE, 1, one));
    assert_null(constant_new(INFER_F32, DIMS(half, half, half)));
    assert_null(constant_new(INFER_F64, DIMS(half, half)));
    assert_null(constant_new(INFER_U8, DIMS(-1)));
    /* Beyond PTRDIFF_MAX bytes, of which none would be written. */
    assert_null(constant_new_fill(INFER_F32, DIMS(half << 30), &(float){1}));
    assert_null(constant_reshape(c, -1, one));
    assert_null(constant_reshape(c, INFER_MAX_RANK + 1, one));
    assert_null(constant_reshape(c, DIMS(half, half, half)));
    assert_null(constant_reshape(c, DIMS(5)));
    constant_unref(c);
}

TEST(test_bytes_that_are_not_there)
{
    char path[] = "/tmp/misuse-XXXXXX", buffer[16];
    const int fd = mkstemp(path);
    struct infer_error err = {0};
    struct file_source *source;

    assert_int_equal(write(fd, "12345678", 8), 8);
    close(fd);
    source = file_source_open(path, &err);
    assert_non_null(source);
    assert_int_equal(file_source_read(source, 4, buffer, 4, &err), 0);
    assert_memory_equal(buffer, "5678", 4);
    assert_int_equal(file_source_read(source, 4, buffer, 5, &err), INFER_EIO);
    assert_non_null(strstr(err.text, "ends at byte 8, 1 more are needed"));
    assert_int_equal(file_source_read(source, UINT64_MAX - 2, buffer, 1, &err),
                     INFER_EIO);
    assert_non_null(strstr(err.text, "is out of range"));
    file_source_unref(source);
    unlink(path);

    source = file_source_memory("12345678", 8, "bytes", NULL, NULL, &err);
    assert_int_equal(file_source_read(source, 4, buffer, 4, &err), 0);
    assert_int_equal(file_source_read(source, 4, buffer, 5, &err), INFER_EIO);
    assert_non_null(strstr(err.text, "ends at byte 8, 5 at 4 are needed"));
    assert_int_equal(file_source_read(source, UINT64_MAX - 2, buffer, 4, &err),
                     INFER_EIO);
    file_source_unref(source);
}

/* ---- pictures ------------------------------------------------------ */

TEST(test_pictures)
{
    unsigned char pixels[12] = {0}, out[12];
    const struct infer_image good = {
        .width = 2, .height = 2, .channels = 3, .pixels = pixels};
    struct graph_preprocess p = {
        .policy = GRAPH_RESIZE_NONE, .scale = 1, .std = {1, 1, 1, 1}};
    struct infer_image made, wrong[5] = {good, good, good, good, good};

    assert_int_equal(image_new(0, 2, 3, NULL, &made), INFER_EARGUMENT);
    assert_int_equal(image_new(2, 0, 3, NULL, &made), INFER_EARGUMENT);
    assert_int_equal(image_resize(&good, 2, 0, GRAPH_BILINEAR, NULL, &made),
                     INFER_EARGUMENT);
    assert_int_equal(preprocess_fit(&p, &good, 3, 2, 2, out, NULL), 0);
    assert_int_equal(preprocess_fit(&p, &good, 3, 3, 2, out, NULL),
                     INFER_EARGUMENT);
    assert_int_equal(preprocess_fit(&p, &good, 3, 2, 3, out, NULL),
                     INFER_EARGUMENT);
    assert_int_equal(preprocess_fit(&p, NULL, 3, 2, 2, out, NULL),
                     INFER_EARGUMENT);
    wrong[0].pixels = NULL;
    wrong[1].width = 0;
    wrong[2].height = 0;
    wrong[3].channels = 2;
    wrong[4].channels = 4;
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_equal(preprocess_fit(&p, &wrong[i], 3, 2, 2, out, NULL),
                         INFER_EARGUMENT);
    assert_int_equal(infer_image_load("/nowhere", 0, NULL, NULL),
                     INFER_EARGUMENT);
    assert_int_equal(infer_image_load(NULL, 0, NULL, &made), INFER_EARGUMENT);
}

/* Pictures of one pixel. */
static const struct {
    const char *png;
    size_t bytes;
    int code;
} one_pixel[] = {
    {"\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122"
     "\000\000\000\001\000\000\000\001\010\000\000\000\000\072\176\233"
     "\125\000\000\000\012\111\104\101\124\170\234\143\140\007\000\000"
     "\011\000\010\040\043\303\214\000\000\000\000\111\105\116\104\256"
     "\102\140\202",
     67, 0},
    {"\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122"
     "\000\000\000\001\000\000\000\001\010\002\000\000\000\220\167\123"
     "\336\000\000\000\014\111\104\101\124\170\234\143\140\144\142\006"
     "\000\000\016\000\007\327\157\344\170\000\000\000\000\111\105\116"
     "\104\256\102\140\202",
     69, INFER_EUNSUPPORTED}, /* colours */
    {"\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122"
     "\000\000\000\001\000\000\000\001\020\000\000\000\000\152\356\107"
     "\026\000\000\000\013\111\104\101\124\170\234\143\140\144\002\000"
     "\000\007\000\004\166\111\343\050\000\000\000\000\111\105\116\104"
     "\256\102\140\202",
     68, INFER_EUNSUPPORTED}, /* 16 bits */
};

/* A mask is a palette's indices or gray values of a byte. */
TEST(test_masks)
{
    for (size_t i = 0; i < COUNT(one_pixel); i++) {
        struct infer_error err = {0};
        struct infer_image mask = {0};

        assert_int_equal(
            image_decode_png_indices((const unsigned char *)one_pixel[i].png,
                                     one_pixel[i].bytes, 16, &err, &mask),
            one_pixel[i].code);
        if (one_pixel[i].code == 0)
            assert_int_equal(mask.pixels[0], 7);
        else
            assert_non_null(strstr(err.text, "a mask has a palette or gray"));
        infer_image_free(&mask);
    }
}

/* A picture begins with its head, whose bytes are 13. */
TEST(test_heads)
{
    unsigned char png[67];
    struct image_head head;

    assert_int_equal(one_pixel[0].bytes, sizeof png);
    memcpy(png, one_pixel[0].png, sizeof png);
    assert_int_equal(png_read_head(png, sizeof png, NULL, &head), 0);
    assert_int_equal(head.width, 1);
    png[11] = 14;
    assert_int_equal(png_read_head(png, sizeof png, NULL, &head),
                     INFER_EFORMAT);
    png[11] = 13;
    png[12] = 'J';
    assert_int_equal(png_read_head(png, sizeof png, NULL, &head),
                     INFER_EFORMAT);
}

/* Inputs that cannot take pixels: without a batch, or an output too. */
TEST(test_pixels_of_other_inputs)
{
    static const char *const says[] = {"without a batch", "is an output too"};

    for (int i = 0; i < 2; i++) {
        struct infer_model *model, *pixels = NULL;
        struct graph *g = graph_new();
        struct infer_error err = {0};
        const int x =
            i == 0 ? graph_add_input(g, "x", INFER_F32, DIMS(3, 4, 5))
                   : graph_add_input(g, "x", INFER_F32, DIMS(-1, 3, 4, 5));
        int y = graph_add_value(g, "y");

        assert_true(graph_add_node(g, GRAPH_SOFTMAX, "n", &x, 1, &y, 1) >= 0);
        graph_add_output(g, i == 0 ? y : x);
        if (i == 1)
            graph_add_output(g, y);
        assert_int_equal(model_from_graph(g, &err, &model), 0);
        assert_int_equal(infer_model_take_pixels(model, 0, &err, &pixels),
                         INFER_EUNSUPPORTED);
        assert_non_null(strstr(err.text, says[i]));
        assert_null(pixels);
        infer_model_close(&model);
    }
}

/* No graph, or no room for the model. */
TEST(test_models_of_nothing)
{
    struct infer_model *model = NULL;
    struct infer_error err = {0};

    assert_int_equal(model_from_graph(NULL, &err, &model), INFER_EARGUMENT);
    assert_null(model);
    assert_int_equal(model_from_graph(graph_new(), &err, NULL),
                     INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "no graph given"));
}

TEST(test_inputs_that_are_no_pictures)
{
    struct graph *g = graph_new();
    struct infer_error err = {0};
    int64_t dim[4];

    graph_add_input(g, "x", INFER_F32, DIMS(-1, 3, 8, 8));
    graph_add_input(g, "y", INFER_F32, DIMS(-1, 10));
    graph_add_input(g, "z", INFER_F32, DIMS(-1, 2, 8, 8));
    assert_int_equal(preprocess_check(g, 0, &err), 0);
    assert_int_equal(preprocess_check(g, -1, &err), INFER_EARGUMENT);
    assert_int_equal(preprocess_check(g, 3, &err), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "no input 3"));
    assert_int_equal(preprocess_check(g, 1, &err), INFER_EARGUMENT);
    assert_non_null(strstr(err.text, "'y' is no picture"));
    assert_int_equal(preprocess_check(g, 2, &err), INFER_EARGUMENT);
    assert_true(preprocess_dims(3, (int64_t[]){3, 4, 5}, dim));
    assert_false(preprocess_dims(3, (int64_t[]){1, 4, 5}, dim));
    graph_free(g);
}

/* A chunk whose length lies, or that begins beyond the bytes. */
TEST(test_chunks)
{
    unsigned char chunk[12 + 4] = {0, 0, 0, 4, 't', 'E', 'X', 't'};

    assert_int_equal(png_chunk_bytes(chunk, sizeof chunk, 0), 16);
    assert_int_equal(png_chunk_bytes(chunk, sizeof chunk, 17), 0);
    assert_int_equal(png_chunk_bytes(chunk, sizeof chunk, 5), 0);
    chunk[3] = 5;
    assert_int_equal(png_chunk_bytes(chunk, sizeof chunk, 0), 0);
    chunk[0] = 0x80;
    assert_int_equal(png_chunk_bytes(chunk, sizeof chunk, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs_and_outputs),
        cmocka_unit_test(test_values_that_are_none),
        cmocka_unit_test(test_two_producers),
        cmocka_unit_test(test_shapes_of_constants),
        cmocka_unit_test(test_bytes_that_are_not_there),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_pixels_of_other_inputs),
        cmocka_unit_test(test_models_of_nothing),
        cmocka_unit_test(test_inputs_that_are_no_pictures),
        cmocka_unit_test(test_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
