/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TensorFlow reader on one operator each: what is accepted, with the shape
 * of the output, and what is refused in which words.  A line is the operator,
 * its inputs and its attributes:
 *
 *     x(1,8,8,3)   a float placeholder; -1: free
 *     w{3,3,3,2}   a float constant, all 0.5
 *     n[1,2]       an int32 constant; n[]: an empty one; pairs[0,1,2,3]: a
 *                  matrix of two columns
 *     N=2  alpha=0.5  strides=[1,2,2,1]  padding='SAME'  keep_dims=true
 */
#include <stdio.h>

#include "tests/unit/weights/importer/line.h"
#include "tests/unit/weights/tensorflow/graphdef_reader.h"
#include "tests/unit/weights/tensorflow/graphdef_writer.h"
#include "weights/tensorflow/tensorflow.h"

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

static const char *read_input(const char *p, const char *name,
                              struct pb_message *graph)
{
    const char kind = *p;
    int32_t small[MOST];
    struct list v;

    p = read_list(p + 1, &v);
    for (int i = 0; i < v.n; i++)
        small[i] = (int32_t)v.integer[i];
    if (kind == '(')
        def_placeholder(graph, name, v.n, v.integer);
    else if (kind == '[' && strcmp(name, "pairs") == 0)
        def_int32s(graph, 1, name, 2, (const int64_t[]){v.n / 2, 2}, small,
                   v.n);
    else if (kind == '[')
        def_int32s(graph, 1, name, 1, (const int64_t[]){v.n}, small, v.n);
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
    struct infer_error err;
    struct graph *g;
    const int rc = def_read(m.data, m.size, &g, &err);

    if (rc < 0)
        snprintf(said, room, "%s", err.text);
    else
        shapes_of(g, said, room);
    graph_free(g);
    pb_free(&m);
    return rc;
}

#define TABLE "tests/unit/weights/tensorflow/operators.def"
#include "tests/unit/weights/importer/table.h"
