/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow graphs written by hand, for the tests of the reader. */
#ifndef TESTS_UNIT_WEIGHTS_TENSORFLOW_GRAPHDEF_WRITER_H
#define TESTS_UNIT_WEIGHTS_TENSORFLOW_GRAPHDEF_WRITER_H

#include "tests/unit/weights/protobuf_writer.h"

/* An attribute of a node; the value is released. */
static inline void def_attr(struct pb_message *node, const char *name,
                            struct pb_message *value)
{
    struct pb_message entry = {0};

    pb_text(&entry, 1, name);
    pb_nested(&entry, 2, value);
    pb_nested(node, 5, &entry);
}

static inline void def_text(struct pb_message *node, const char *name,
                            const char *text)
{
    struct pb_message value = {0};

    pb_text(&value, 2, text);
    def_attr(node, name, &value);
}

static inline void def_type(struct pb_message *node, const char *name, int type)
{
    struct pb_message value = {0};

    pb_int(&value, 6, type);
    def_attr(node, name, &value);
}

static inline void def_ints(struct pb_message *node, const char *name, int n,
                            const int64_t *item)
{
    struct pb_message value = {0}, list = {0};

    for (int i = 0; i < n; i++)
        pb_int(&list, 3, item[i]);
    pb_nested(&value, 1, &list);
    def_attr(node, name, &value);
}

/* NodeDef with up to two inputs. */
static inline struct pb_message def_node(const char *name, const char *op,
                                         const char *a, const char *b)
{
    struct pb_message node = {0};

    pb_text(&node, 1, name);
    pb_text(&node, 2, op);
    if (a)
        pb_text(&node, 3, a);
    if (b)
        pb_text(&node, 3, b);
    return node;
}

/* TensorShapeProto. */
static inline struct pb_message def_shape(int rank, const int64_t *dim)
{
    struct pb_message shape = {0};

    for (int i = 0; i < rank; i++) {
        struct pb_message size = {0};

        pb_int(&size, 1, dim[i]);
        pb_nested(&shape, 2, &size);
    }
    return shape;
}

static inline void def_placeholder(struct pb_message *graph, const char *name,
                                   int rank, const int64_t *dim)
{
    struct pb_message node = def_node(name, "Placeholder", NULL, NULL);
    struct pb_message shape = def_shape(rank, dim), value = {0};

    pb_nested(&value, 7, &shape);
    def_attr(&node, "shape", &value);
    def_type(&node, "dtype", 1);
    pb_nested(graph, 1, &node);
}

/* A Const of n floats; the last one stands for those that are not given. */
static inline void def_floats(struct pb_message *graph, const char *name,
                              int rank, const int64_t *dim, const float *value,
                              int n)
{
    struct pb_message node = def_node(name, "Const", NULL, NULL);
    struct pb_message shape = def_shape(rank, dim), tensor = {0}, attr = {0};

    pb_int(&tensor, 1, 1);
    pb_nested(&tensor, 2, &shape);
    for (int i = 0; i < n; i++)
        pb_float(&tensor, 5, value[i]);
    pb_nested(&attr, 8, &tensor);
    def_attr(&node, "value", &attr);
    def_type(&node, "dtype", 1);
    pb_nested(graph, 1, &node);
}

/* A Const of 32-bit integers in the nodes of `field`: GraphDef's 1,
 * FunctionDef's
 * 3.  The last of n values stands for those that are not given; none: 0. */
static inline void def_int32s(struct pb_message *to, unsigned field,
                              const char *name, int rank, const int64_t *dim,
                              const int *value, int n)
{
    struct pb_message node = def_node(name, "Const", NULL, NULL);
    struct pb_message shape = def_shape(rank, dim), tensor = {0}, attr = {0};

    pb_int(&tensor, 1, 3);
    pb_nested(&tensor, 2, &shape);
    for (int i = 0; i < n; i++)
        pb_int(&tensor, 7, value[i]);
    pb_nested(&attr, 8, &tensor);
    def_attr(&node, "value", &attr);
    def_type(&node, "dtype", 3);
    pb_nested(to, field, &node);
}

#endif
