/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors whose number of entries along an axis is computed at run time: what
 * NonZero, NonMaxSuppression and Unique find.
 *
 * Sizes of the graph do not depend on data.  Such a tensor has room for the
 * most entries that there can be, and a count beside it, a value of the graph;
 * what lies behind the count is of no meaning.  Shape gives the room.  What
 * each operator does with such an input is in rules.c.  At the end of
 * the graph the rest is 0, or -1 in integers, and the count is an output, too.
 */
#include <stdio.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/counted/counted.h"

/* ---- counts of inputs and outputs ---------------------------------- */

struct counted counted_part(const struct onnx_import *im, int i)
{
    const int v =
        onnx_has_input(im, i) ? onnx_value_find(im, im->node->in[i]) : -1;

    if (v < 0 || im->value[v].count == 0)
        return (struct counted){0, -1};
    return (struct counted){im->value[v].axis, im->value[v].count - 1};
}

/* The first counted input; its number in *i. */
struct counted counted_first(const struct onnx_import *im, int *i)
{
    struct counted p = {0, -1};

    for (*i = 0; *i < im->node->n_in; (*i)++) {
        p = counted_part(im, *i);
        if (p.count >= 0)
            break;
    }
    return p;
}

bool onnx_reads_counted(const struct onnx_import *im)
{
    int i;

    return counted_first(im, &i).count >= 0;
}

int onnx_set_counted(struct onnx_import *im, int output, int axis, int count)
{
    int v;

    if (im->rc < 0 || !onnx_has_output(im, output) || count < 0 ||
        onnx_value_get(im, im->node->out[output], &v) < 0)
        return im->rc;
    im->value[v].count = count + 1;
    im->value[v].axis = axis;
    im->value[v].multiple = NULL;
    return 0;
}

int counted_mixes(struct onnx_import *im)
{
    return onnx_fail(im, INFER_EUNSUPPORTED,
                     "how many entries an input has is computed at run time, "
                     "and this operator is not known to keep them apart");
}

int counted_rank(struct onnx_import *im, int i)
{
    struct graph_type t;

    onnx_input_type(im, i, 0, &t);
    return im->rc < 0 ? 0 : t.rank;
}

struct graph_type counted_output(struct onnx_import *im, int i, int probe)
{
    struct graph_type t = {.rank = 0};

    if (im->rc == 0 && onnx_has_output(im, i))
        onnx_named_type(im, im->node->out[i], probe, &t);
    return t;
}

int64_t counted_elements(const struct graph_type *t, int begin, int end)
{
    int64_t n;

    return checked_count(end - begin, t->dim + begin, &n) ? n : -1;
}

bool counted_same_size(struct onnx_import *im, int axis)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type out = counted_output(im, 0, p);

        if (onnx_type_of_input(im, 0, p).dim[axis] != out.dim[axis])
            return false;
    }
    return true;
}

/* ---- masks --------------------------------------------------------- */

/* Which entries along the axis of x count. */
static int entries(struct onnx_import *im, int x, int axis, int count)
{
    const int n = compose_count_of(im, x, axis, compose_rank(im, x), axis);

    return compose_binary(im, KERN_LESS, n, count);
}

int counted_masked_by(struct onnx_import *im, int x, struct counted p,
                      int other)
{
    return compose_where(im, entries(im, x, p.axis, p.count), x, other);
}

int counted_masked(struct onnx_import *im, int x, struct counted p, double fill)
{
    const enum infer_dtype dtype = compose_dtype(im, x);
    int other;

    if (dtype == INFER_BOOL)
        return compose_binary(im, KERN_AND, x, entries(im, x, p.axis, p.count));
    if (scalar_is_integer(dtype))
        other = compose_integer(im, dtype,
                                fill > INT32_MAX   ? INT32_MAX
                                : fill < INT32_MIN ? INT32_MIN
                                                   : (int64_t)fill);
    else
        other = compose_number(im, dtype, fill);
    return counted_masked_by(im, x, p, other);
}

/* A name for a value of the graph. */
struct pb_span counted_name(struct onnx_import *im, int value)
{
    const struct pb_span word = {(unsigned char *)"masked", 6};
    struct pb_span name = onnx_fresh_name(im, word);
    int v;

    if (im->rc == 0 && onnx_value_get(im, name, &v) == 0) {
        im->value[v].state = ONNX_GRAPH;
        im->value[v].graph = value;
    }
    return name;
}

/* Imports the node with another value as input i. */
int counted_import_with(struct onnx_import *im, const struct onnx_op *op, int i,
                        int value)
{
    const struct onnx_node *own = im->node;
    struct onnx_node node = *own;

    node.in = onnx_alloc(&im->scratch, (size_t)own->n_in * sizeof *node.in);
    if (!node.in)
        return onnx_no_memory(im);
    memcpy(node.in, own->in, (size_t)own->n_in * sizeof *node.in);
    node.in[i] = counted_name(im, value);
    im->node = &node;
    if (im->rc == 0)
        op->import(im);
    im->node = own;
    return im->rc;
}

int counted_import_masked(struct onnx_import *im, const struct onnx_op *op,
                          int i, double fill)
{
    return counted_import_with(
        im, op, i,
        counted_masked(im, compose_input(im, i), counted_part(im, i), fill));
}

/* The smaller of a count and a number. */
int counted_at_most(struct onnx_import *im, int count, int64_t most)
{
    return compose_binary(im, KERN_MIN, count,
                          compose_integer(im, INFER_I64, most));
}

/* ---- NonZero ------------------------------------------------------- */

/* Indices of the elements of a flat I64 tensor of 0 and 1 that are 1, in
 * order; -1 behind them.  *count of one element. */
int counted_ones(struct onnx_import *im, int flags, int *count)
{
    union graph_attr attr;
    int at, base;

    onnx_defaults(GRAPH_CUMULATE, &attr);
    attr.cumulate.exclusive = true;
    onnx_emit(im, GRAPH_CUMULATE, &attr, &flags, 1, -1, &at);
    /* What is 0 goes to an element behind the last. */
    at = compose_where(im, compose_cast(im, INFER_BOOL, flags), at,
                       compose_entries(im, flags, 0));
    base = compose_pad(im, compose_filled(im, -1, flags, 0), 0, 0, 1, -1);
    *count = compose_reduce(im, KERN_REDUCE_SUM, flags, 0);
    at = compose_scatter(im, base, at, compose_count_of(im, flags, 0, 1, 0), 0,
                         KERN_SCATTER_SET);
    return compose_slice(im, at, 0, 0, -1, 1);
}

/* 1 where an element of x is not 0, as a flat I64 tensor. */
static int flags_of(struct onnx_import *im, int x)
{
    const int64_t line = -1;

    if (compose_dtype(im, x) != INFER_BOOL)
        x = compose_unary(
            im, KERN_NOT,
            compose_binary(im, KERN_EQUAL, x,
                           compose_number(im, compose_dtype(im, x), 0)));
    return compose_reshape(im, compose_cast(im, INFER_I64, x), 1, &line);
}

/* Rows of coordinates of flat indices into x; -1 stays -1. */
static int coordinates(struct onnx_import *im, int x, int flat)
{
    const int rank = compose_rank(im, x);
    const int zero = compose_integer(im, INFER_I64, 0);
    int row[INFER_MAX_RANK], none, left = flat;

    none = compose_binary(im, KERN_LESS, flat, zero);
    for (int d = rank - 1; d >= 0; d--) {
        const int n = d > 0 ? compose_entries(im, x, d) : -1;
        int at = left;

        if (d > 0) {
            at = compose_binary(im, KERN_MOD, left, n);
            left = compose_binary(im, KERN_DIV, left, n);
        }
        if (rank > 1)
            at = compose_where(im, none, flat, at);
        row[d] = compose_unsqueeze(im, at, 0);
    }
    return compose_concat(im, rank, row, 0);
}

int onnx_counted_non_zero(struct onnx_import *im)
{
    const struct counted p = counted_part(im, 0);
    int x = compose_input(im, 0), flat, count = -1;

    compose_need_rank(im, x, 1, INFER_MAX_RANK);
    for (int k = 0; k < im->probes && im->rc == 0; k++) {
        const int64_t all =
            counted_elements(&im->type[x][k], 0, im->type[x][k].rank);

        if (all < 1 || all > INT32_MAX)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "an input of %lld elements", (long long)all);
    }
    if (p.count >= 0)
        x = counted_masked(im, x, p, 0);
    flat = counted_ones(im, flags_of(im, x), &count);
    compose_output(im, 0, coordinates(im, x, flat));
    return onnx_set_counted(im, 0, 1, count);
}

/* ---- outputs of the graph ------------------------------------------ */

int onnx_settle_output(struct onnx_import *im, int v, int *value)
{
    const struct onnx_node *own = im->node;
    const struct onnx_node none = {
        .name = (char *)"", .op = (char *)"", .domain = (char *)""};
    const struct counted p = {im->value[v].axis, im->value[v].count - 1};
    char *name, *hidden;
    int all;

    if (onnx_value_graph(im, v, value) < 0 || p.count < 0)
        return im->rc;
    all = *value;
    im->node = &none;
    *value = counted_masked(im, all, p,
                            scalar_is_integer(compose_dtype(im, all)) ? -1 : 0);
    im->node = own;
    if (im->rc < 0 || onnx_name(im, im->value[v].name, &name) < 0 ||
        onnx_name(im, onnx_fresh_name(im, im->value[v].name), &hidden) < 0)
        return im->rc;
    if (graph_rename_value(im->g, all, hidden) == INFER_EMEMORY ||
        graph_rename_value(im->g, *value, name) == INFER_EMEMORY)
        return onnx_no_memory(im);
    return 0;
}

int onnx_count_output(struct onnx_import *im, int v)
{
    const int count = im->value[v].count - 1;
    char label[512];
    char *name;
    int rc;

    if (count < 0 || graph_is_output(im->g, count))
        return 0;
    if (onnx_name(im, im->value[v].name, &name) < 0)
        return im->rc;
    snprintf(label, sizeof label, "%.500s.count", name);
    /* A name that is taken leaves the count its own. */
    if (graph_rename_value(im->g, count, label) == INFER_EMEMORY)
        return onnx_no_memory(im);
    rc = graph_add_output(im->g, count);
    return rc < 0 ? onnx_fail(im, rc, "no room for the output '%s'", label) : 0;
}
