/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was read of several sizes is compared with others.
 *
 * Of a network with free sizes a few are tried, and what becomes of them is
 * read as a formula of the sizes.  A formula may hold at all that were tried
 * and at no others: so the network is imported again at fixed sizes, where its
 * shapes are computed by the file's own arithmetic, and the shapes of both are
 * compared, and the numbers that no size changed (numbers.c).
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/onnx/import.h"

#define SETS 3

/* The shape of each input: that of the same input of another graph. */
static struct graph_shape *shapes_of(const struct graph *g)
{
    const size_t n = g->n_inputs > 0 ? (size_t)g->n_inputs : 1;
    struct graph_shape *shape = calloc(n, sizeof *shape);

    for (int i = 0; shape && i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        shape[i].rank = v->rank;
        memcpy(shape[i].dim, v->dim, sizeof v->dim);
    }
    return shape;
}

/* The first output whose shape differs, or -1. */
static int different_output(const struct graph *a, const struct graph *b)
{
    for (int i = 0; i < a->n_outputs && i < b->n_outputs; i++) {
        const struct graph_value *x = &a->value[a->output[i]];
        const struct graph_value *y = &b->value[b->output[i]];

        if (x->rank != y->rank)
            return i;
        for (int d = 0; d < x->rank; d++)
            if (x->dim[d] >= 0 && y->dim[d] >= 0 && x->dim[d] != y->dim[d])
                return i;
    }
    return -1;
}

/* Whether shapes of the graph can be inferred; *out is a copy with them, where
 * that is asked for. */
static int infer(const struct graph *g, const struct graph_shape *shape,
                 struct graph **out)
{
    struct graph *copy = graph_copy(g);
    struct infer_error err;
    int rc = copy ? graph_infer_shapes(copy, shape, &err) : INFER_EMEMORY;

    if (rc == 0 && out)
        *out = copy;
    else
        graph_free(copy);
    return rc;
}

/* Compares g with `fixed`, imported at sizes of its own. */
static int compare(const struct onnx_import *settings, const struct graph *g,
                   struct graph *fixed)
{
    struct graph_shape *shape = shapes_of(fixed);
    struct graph *free_one = NULL, *fixed_one = NULL;
    int rc = shape ? infer(g, shape, &free_one) : INFER_EMEMORY;
    int i = -1;

    /* Sizes that one of them refuses give no wrong result. */
    if (rc == 0)
        rc = infer(fixed, NULL, &fixed_one);
    if (rc == 0)
        i = different_output(free_one, fixed_one);
    rc = rc == INFER_EMEMORY ? rc : 0;
    if (rc < 0)
        error_set(settings->err, rc, "out of memory");
    else if (i >= 0)
        rc = error_set(settings->err, INFER_EUNSUPPORTED,
                       "output '%s' depends on free sizes in a way that is not "
                       "supported; --input-shape fixes them",
                       g->value[g->output[i]].name);
    graph_free(free_one);
    graph_free(fixed_one);
    free(shape);
    return rc;
}

int onnx_verify_sizes(struct onnx_import *settings, struct pb_span name,
                      const struct graph *g, const struct onnx_numbers *numbers)
{
    struct infer_error *err = settings->err, other;
    const struct onnx_import before = *settings;
    struct onnx_numbers now = {NULL, 0};
    const char *number;
    int rc = 0;

    settings->numbers = &now;
    settings->fixed_sizes = true;
    settings->freed_batch = false;
    for (int k = 1; k <= SETS && rc == 0; k++) {
        struct graph *fixed = NULL;
        bool choice;

        settings->check = k;
        settings->err = &other;
        rc = onnx_attempt(settings, name, &choice, &fixed);
        settings->err = err;
        if (rc == 0)
            rc = compare(settings, g, fixed);
        else if (rc == INFER_EMEMORY)
            *err = other;
        else
            rc = 0; /* the network may not take such sizes */
        graph_free(fixed);
        number = rc == 0 ? onnx_numbers_differ(numbers, &now) : NULL;
        if (number)
            rc = error_set(err, INFER_EUNSUPPORTED,
                           "'%s' is one number at the free sizes that were "
                           "tried and another at others; --input-shape "
                           "fixes them",
                           number);
    }
    free(now.item);
    *settings = before;
    return rc;
}

/* ---- at one size, whole --------------------------------------------- */

/* The value of a name, looked for from `*from` on; -1: there is none. */
static int find_named(const struct graph *g, const char *name, int *from)
{
    for (int k = 0; k < g->n_values; k++) {
        const int v = (*from + k) % g->n_values;

        if (g->value[v].name && strcmp(g->value[v].name, name) == 0) {
            *from = v + 1;
            return v;
        }
    }
    return -1;
}

typedef bool alike(const struct graph_value *a, const struct graph_value *b);

static bool same_shape(const struct graph_value *a, const struct graph_value *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

static bool same_count(const struct graph_value *a, const struct graph_value *b)
{
    int64_t n, m;

    return checked_count(a->rank, a->dim, &n) &&
           checked_count(b->rank, b->dim, &m) && n == m;
}

/* A value that both graphs have, and that is not alike in them; or NULL. */
static const char *different_value(const struct graph *a, const struct graph *b,
                                   alike *is_alike)
{
    int from = 0;

    for (int i = 0; i < b->n_values; i++) {
        const struct graph_value *y = &b->value[i];
        const int v = y->name ? find_named(a, y->name, &from) : -1;

        if (v >= 0 && !is_alike(&a->value[v], y))
            return y->name;
    }
    return NULL;
}

/* Imports at fixed sizes, of `at`, and compares the values with those of g at
 * these.  Sizes that one of them refuses give no wrong result. */
static int compare_values(struct onnx_import *at, struct pb_span name,
                          const struct graph *g, alike *is_alike)
{
    struct graph *fixed = NULL, *fixed_one = NULL, *free_one = NULL;
    struct infer_error *err = at->err, other;
    struct graph_shape *shape = NULL;
    const char *value = NULL;
    bool choice;
    int rc;

    at->fixed_sizes = true;
    at->freed_batch = at->odd_sizes = at->small_sizes = false;
    at->numbers = NULL;
    at->err = &other;
    rc = onnx_attempt(at, name, &choice, &fixed);
    if (rc == 0) {
        shape = shapes_of(fixed);
        rc = shape ? infer(fixed, NULL, &fixed_one) : INFER_EMEMORY;
    }
    if (rc == 0 && (rc = infer(g, shape, &free_one)) == 0)
        value = different_value(free_one, fixed_one, is_alike);
    rc = rc == INFER_EMEMORY ? error_set(err, rc, "out of memory")
         : value             ? error_set(err, INFER_EUNSUPPORTED,
                                         "'%s' depends on free sizes in a way that is not "
                                                     "supported; --input-shape fixes them",
                                         value)
                             : 0;
    graph_free(fixed);
    graph_free(fixed_one);
    graph_free(free_one);
    free(shape);
    return rc;
}

int onnx_verify_at(const struct onnx_import *settings, struct pb_span name,
                   const struct onnx_few_sizes *sizes, const struct graph *g)
{
    struct onnx_import at = *settings;

    at.window = sizes;
    return compare_values(&at, name, g, same_shape);
}

int onnx_verify_one(const struct onnx_import *settings, struct pb_span name,
                    const struct graph *g)
{
    struct onnx_import at = *settings;

    at.check = ONNX_CHECK_ONE;
    return compare_values(&at, name, g, same_count);
}

static bool shared(const struct graph *g, int input, int d)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];

        if (i != input && d < v->rank && v->dim[d] < 0)
            return true;
    }
    return false;
}

int onnx_verify_alike(struct onnx_import *settings, const struct graph *g)
{
    struct graph_shape *shape = shapes_of(g);
    int rc = 0;

    for (int i = 0; shape && i < g->n_inputs; i++)
        for (int d = 0; d < shape[i].rank; d++)
            if (shape[i].dim[d] < 0)
                shape[i].dim[d] = onnx_probe_size(settings, 0, d);
    for (int i = 0; shape && i < g->n_inputs && rc == 0; i++)
        for (int d = 1; d < shape[i].rank && rc == 0; d++) {
            const struct graph_value *v = &g->value[g->input[i]];

            if (v->dim[d] >= 0 || !shared(g, i, d))
                continue;
            shape[i].dim[d] += 64;
            rc = infer(g, shape, NULL);
            shape[i].dim[d] -= 64;
            if (rc == 0)
                rc = error_set(settings->err, INFER_EUNSUPPORTED,
                               "dimension %d of input '%s' is free in several "
                               "inputs, and nothing says that their sizes are "
                               "one; --input-shape fixes them",
                               d, v->name);
            else if (rc != INFER_EMEMORY)
                rc = 0;
        }
    free(shape);
    return !shape || rc == INFER_EMEMORY
               ? error_set(settings->err, INFER_EMEMORY, "out of memory")
               : rc;
}
