/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TensorFlow reader on one operator each: what is accepted, and what is
 * refused in which words.  A line is the operator, its inputs and its
 * attributes:
 *
 *     x(1,8,8,3)   a float placeholder; -1: free
 *     w{3,3,3,2}   a float constant, all 0.5
 *     n[1,2]       an int32 constant; n[]: an empty one
 *     N=2  alpha=0.5  strides=[1,2,2,1]  padding='SAME'  keep_dims=true
 */
#include <stdio.h>

#include "tests/unit/weights/importer/line.h"
#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "weights/tensorflow/tensorflow.h"

extern const struct weights_format weights_format_tensorflow;

static const char *read_attribute(const char *p, const char *name,
                                  struct pb_message *node)
{
    struct pb_message value = {0};
    struct list v;
    char *end;

    if (*p == '\'') {
        char word[CHARS];

        p = read_word(p + 1, word);
        def_text(node, name, word);
        return p;
    }
    if (*p == '[') {
        p = read_list(p + 1, &v);
        def_ints(node, name, v.n, v.integer);
        return p;
    }
    if (strncmp(p, "true", 4) == 0) {
        pb_int(&value, 5, 1);
        end = (char *)(uintptr_t)p + 4;
    } else {
        const float real = strtof(p, &end);

        assert_true(end > p);
        if (memchr(p, '.', (size_t)(end - p)))
            pb_float(&value, 4, real);
        else
            pb_int(&value, 3, strtoll(p, NULL, 10));
    }
    def_attr(node, name, &value);
    return end;
}

static void put_ints(struct pb_message *graph, const char *name,
                     const struct list *v)
{
    struct pb_message node = def_node(name, "Const", NULL, NULL);
    struct pb_message shape = def_shape(1, (const int64_t[]){v->n});
    struct pb_message tensor = {0}, attr = {0};

    pb_int(&tensor, 1, 3);
    pb_nested(&tensor, 2, &shape);
    for (int i = 0; i < v->n; i++)
        pb_int(&tensor, 7, v->integer[i]);
    pb_nested(&attr, 8, &tensor);
    def_attr(&node, "value", &attr);
    def_type(&node, "dtype", 3);
    pb_nested(graph, 1, &node);
}

static const char *read_input(const char *p, const char *name,
                              struct pb_message *graph)
{
    const char kind = *p;
    struct list v;

    p = read_list(p + 1, &v);
    if (kind == '(')
        def_placeholder(graph, name, v.n, v.integer);
    else if (kind == '[')
        put_ints(graph, name, &v);
    else
        def_floats(graph, name, v.n, v.integer, (const float[]){0.5f}, 1);
    return p;
}

static struct pb_message graph_line(const char *line)
{
    struct pb_message graph = {0}, node;
    char op[CHARS], name[CHARS];
    const char *p = read_name(line, op);

    node = def_node("y", op, NULL, NULL);
    while (*p) {
        p = read_name(p, name);
        if (*p == '=') {
            p = read_attribute(p + 1, name, &node);
        } else {
            pb_text(&node, 3, name);
            p = read_input(p, name, &graph);
        }
    }
    pb_nested(&graph, 1, &node);
    return graph;
}

/* The status of the network, its shapes included. */
static int read_line(const char *line, char *said, size_t room)
{
    struct pb_message m = graph_line(line);
    struct weights_file file = {.path = "memory/graph.pb"};
    struct weights_options options;
    struct weights_import import;
    struct infer_error err = {0};
    unsigned char *copy = malloc(m.size);
    int rc;

    assert_non_null(copy);
    memcpy(copy, m.data, m.size);
    file.blob = blob_new(copy, m.size);
    assert_non_null(file.blob);
    pb_free(&m);
    weights_options_init(&options);
    weights_import_init(&import);
    rc = weights_format_tensorflow.read(&file, &options, &err, &import);
    if (rc == 0)
        rc = graph_infer_shapes(import.graph, NULL, &err);
    snprintf(said, room, "%s", rc < 0 ? err.text : "");
    weights_import_clear(&import);
    weights_file_close(&file);
    return rc;
}

TEST(test_operators)
{
    static const struct line_row rows[] = {
#define ROW(line, code, word) {(line), (code), (word)},
#include "tests/unit/weights/tensorflow/operators.def"
#undef ROW
    };

    check_lines(rows, COUNT(rows), read_line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operators)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
