/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors whose number of entries along an axis is computed at run time: what
 * NonZero, NonMaxSuppression and Unique find.
 *
 * Sizes of the graph do not depend on data.  Such a tensor has room for the
 * most entries that there can be, and a count beside it, a value of the graph;
 * what lies behind the count is of no meaning.  Shape gives the room.  What
 * each operator does with such an input is in counted_rules.c.  At the end of
 * the graph the rest is 0, or -1 in integers, and the count is an output, too.
 */
#include <stdio.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/composed/counted.h"

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

bool counted_same_size(struct onnx_import *im, int axis, int d)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type out = counted_output(im, 0, p);
        struct graph_type in;

        if (onnx_input_type(im, 0, p, &in) < 0 || axis >= in.rank ||
            d >= out.rank || in.dim[axis] != out.dim[d])
            return false;
    }
    return true;
}

/* ---- sizes --------------------------------------------------------- */

static int input_value(const struct onnx_import *im, int i)
{
    return onnx_has_input(im, i) ? onnx_value_find(im, im->node->in[i]) : -1;
}

/* What is known of input i as a size; NULL where it is none. */
static const struct onnx_size *input_size(const struct onnx_import *im, int i)
{
    const int v = input_value(im, i);

    return v < 0 ? NULL : im->value[v].sized;
}

bool counted_input_is_sized(const struct onnx_import *im, int i)
{
    return input_size(im, i) != NULL;
}

static bool has_elements(const struct graph_type *t)
{
    for (int d = 0; d < t->rank; d++)
        if (t->dim[d] < 1)
            return false;
    return true;
}

/* How many entries of the axis the current Shape or Size of a counted tensor
 * gives: false where it gives those of other axes. */
static bool own_size(struct onnx_import *im, struct onnx_size *own)
{
    const bool size = strcmp(im->node->op, "Size") == 0;
    const struct onnx_attr *start = onnx_attr(im, "start");
    const struct onnx_attr *end = onnx_attr(im, "end");
    const struct counted p = counted_part(im, 0);
    struct graph_type t;
    int64_t from, to;

    if (p.count < 0 || onnx_input_type(im, 0, 0, &t) < 0)
        return false;
    from = start && start->type == ONNX_ATTR_INT ? start->i : 0;
    to = end && end->type == ONNX_ATTR_INT ? end->i : t.rank;
    from += from < 0 ? t.rank : 0;
    from = from < 0 ? 0 : from;
    to += to < 0 ? t.rank : 0;
    if (!size && (p.axis < from || p.axis >= to))
        return false;
    own->count = p.count;
    own->axis = size ? (t.rank == 1 ? 0 : -1) : p.axis - (int)from;
    own->none = size ? ONNX_NONE_ZERO : ONNX_NONE_UNKNOWN;
    for (int k = 0; k < im->probes; k++) {
        if (onnx_input_type(im, 0, k, &t) < 0)
            return false;
        own->room[k] = t.dim[p.axis];
        if (size && !has_elements(&t))
            own->none = ONNX_NONE_UNKNOWN;
    }
    return true;
}

/* Whether the element of input i that is the size is all of it. */
static bool is_room(struct onnx_import *im, int i)
{
    const struct onnx_small *const *small;
    const struct onnx_size *s = input_size(im, i);

    if (!s || s->axis < 0 || s->less != 0 ||
        onnx_input_small(im, i, &small) < 0 || !small)
        return false;
    for (int p = 0; p < im->probes; p++)
        if (!small[p]->i || s->axis >= small[p]->count ||
            small[p]->i[s->axis] != s->room[p])
            return false;
    return true;
}

int counted_size_at(struct onnx_import *im, int i)
{
    return is_room(im, i) ? input_size(im, i)->axis : -1;
}

int counted_limit_at(struct onnx_import *im, int i, int64_t less, int *count)
{
    const struct onnx_size *s = input_size(im, i);

    if (!s || s->less != less)
        return -1;
    *count = s->count;
    return s->axis;
}

int counted_none(const struct onnx_import *im, int i)
{
    const struct onnx_size *s = input_size(im, i);

    return s && s->none == ONNX_NONE_TRUE ? s->count : -1;
}

int counted_as_data(struct onnx_import *im, int i)
{
    return onnx_fail(im, INFER_EUNSUPPORTED,
                     "'%.*s' depends on how many entries a tensor has, which "
                     "is computed at run time, and is used as data",
                     PB_TEXT(im->node->in[i], 128));
}

int onnx_check_sized(struct onnx_import *im)
{
    static const char *const takers[] = {
        "Range", "ConstantOfShape", "Expand", "If", "Loop", "Scan"};
    bool taken = false;

    for (size_t i = 0; i < sizeof takers / sizeof takers[0]; i++)
        taken = taken || strcmp(im->node->op, takers[i]) == 0;
    for (int i = 0; i < im->node->n_in && !taken; i++)
        if (counted_input_is_sized(im, i))
            return counted_as_data(im, i);
    return im->rc;
}

/* Whether all elements of input i are `low` .. `high` at every probe. */
static bool within(struct onnx_import *im, int i, int64_t low, int64_t high)
{
    const struct onnx_small *const *small;

    if (counted_input_is_sized(im, i) || onnx_input_small(im, i, &small) < 0 ||
        !small)
        return false;
    for (int p = 0; p < im->probes; p++)
        for (int64_t k = 0; k < small[p]->count; k++)
            if (!small[p]->i || small[p]->i[k] < low || small[p]->i[k] > high)
                return false;
    return true;
}

/* Whether output 0 has as many elements as input i. */
static bool keeps_elements(struct onnx_import *im, int i)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type out = counted_output(im, 0, p);
        struct graph_type in;
        int64_t a, b;

        if (onnx_input_type(im, i, p, &in) < 0 ||
            !checked_count(in.rank, in.dim, &a) ||
            !checked_count(out.rank, out.dim, &b) || a != b)
            return false;
    }
    return true;
}

/* The one number that all elements of input i are at every probe: 0 where they
 * are not one number. */
static int64_t factor(struct onnx_import *im, int i)
{
    const struct onnx_small *const *small;

    if (onnx_input_small(im, i, &small) < 0 || !small || !small[0]->i ||
        small[0]->count < 1)
        return 0;
    return within(im, i, small[0]->i[0], small[0]->i[0]) ? small[0]->i[0] : 0;
}

/* Whether input i is one number at every probe. */
static bool is_one(struct onnx_import *im, int i)
{
    const struct onnx_small *const *small;

    if (onnx_input_small(im, i, &small) < 0 || !small)
        return false;
    for (int p = 0; p < im->probes; p++)
        if (small[p]->count != 1)
            return false;
    return true;
}

/* Whether no element of input i is 0 at any probe. */
static bool has_no_zero(struct onnx_import *im, int i)
{
    const struct onnx_small *const *small;

    if (onnx_input_small(im, i, &small) < 0 || !small)
        return false;
    for (int p = 0; p < im->probes; p++)
        for (int64_t k = 0; k < small[p]->count; k++)
            if (!small[p]->i || small[p]->i[k] == 0)
                return false;
    return true;
}

/* Whether output 0 is one number. */
static bool makes_one(struct onnx_import *im)
{
    const struct graph_type t = counted_output(im, 0, 0);

    return t.rank == 0 || (t.rank == 1 && t.dim[0] == 1);
}

/* What the folded node tells of there being no entry: from input i, a size as
 * `v`. */
static enum onnx_none carry_none(struct onnx_import *im, int i,
                                 const struct onnx_size *v)
{
    const char *op = im->node->op;
    const bool zero = v->none == ONNX_NONE_ZERO ||
                      (is_one(im, i) && counted_size_at(im, i) == 0);
    const struct onnx_attr *to = onnx_attr(im, "to");

    if (strcmp(op, "ReduceProd") == 0)
        return i == 0 && counted_size_at(im, i) >= 0 && has_no_zero(im, i) &&
                       makes_one(im)
                   ? ONNX_NONE_ZERO
                   : ONNX_NONE_UNKNOWN;
    if (strcmp(op, "Equal") == 0)
        return zero && im->node->n_in == 2 && is_one(im, 1 - i) &&
                       within(im, 1 - i, 0, 0)
                   ? ONNX_NONE_TRUE
                   : ONNX_NONE_UNKNOWN;
    if (strcmp(op, "Cast") == 0 && to && to->type == ONNX_ATTR_INT &&
        (v->none == ONNX_NONE_TRUE) == (onnx_dtype(to->i) == INFER_BOOL))
        return v->none;
    return strcmp(op, "Identity") == 0 ? v->none : ONNX_NONE_UNKNOWN;
}

/* What the folded node makes of input i, the only one that is sized: `v` has
 * that input's size, and becomes the output's.  False: nothing of it. */
static bool carry_size(struct onnx_import *im, int i, struct onnx_size *v)
{
    const char *op = im->node->op;
    const int at = v->axis;

    v->none = carry_none(im, i, v);
    v->axis = -1;
    if (at < 0)
        return true;
    if (strcmp(op, "Equal") == 0 && v->less == 0 && im->node->n_in == 2)
        return !within(im, 1 - i, INT64_MIN, -1); /* a size is not negative */
    if (strcmp(op, "Min") == 0) {
        v->axis = v->less == 0 && keeps_elements(im, i) ? at : -1;
    } else if (strcmp(op, "Sub") == 0) {
        if (i == 1 && is_room(im, i) && keeps_elements(im, i)) {
            v->axis = at;
            v->less = 1;
        }
    } else if (strcmp(op, "Add") == 0) {
        if (within(im, 1 - i, 0, 0) && keeps_elements(im, i))
            v->axis = at;
    } else if (strcmp(op, "Mul") == 0) {
        const int64_t times = factor(im, 1 - i);

        if (times == 1 || (times > 1 && v->less > 0 && keeps_elements(im, i)))
            v->axis = keeps_elements(im, i) &&
                              checked_mul_i64(v->less, times, &v->less)
                          ? at
                          : -1;
    } else {
        const int place = onnx_fold_place(im, i, at);

        if (place == -1)
            return false;
        v->axis = place < 0 ? -1 : place;
    }
    return true;
}

/* The axis of output 0 along which the current node fills as many entries as
 * input i says, a size; -1 where that is not known. */
static int filled_axis(struct onnx_import *im, int i)
{
    const char *op = im->node->op;
    const int at = counted_size_at(im, i), rank = counted_output(im, 0, 0).rank;
    struct graph_type shape, x;
    int axis;

    if (at < 0 || onnx_input_type(im, i, 0, &shape) < 0)
        return -1;
    if (strcmp(op, "ConstantOfShape") == 0)
        return at;
    if (strcmp(op, "Range") == 0)
        return i == 1 && within(im, 0, 0, 0) && within(im, 2, 1, 1) ? 0 : -1;
    if (i != 1 || onnx_input_type(im, 0, 0, &x) < 0)
        return -1;
    axis = at + rank - (int)(shape.rank == 1 ? shape.dim[0] : 0);
    if (axis < 0 || axis >= rank)
        return -1;
    /* x is repeated along it */
    return axis < rank - x.rank || x.dim[axis - (rank - x.rank)] == 1 ? axis
                                                                      : -1;
}

/* What Range, ConstantOfShape and Expand make of a size has as many entries.
 * Whatever else is folded is a number that depends on the size. */
int onnx_note_sizes(struct onnx_import *im, bool folded)
{
    static const char *const fills[] = {"Range", "ConstantOfShape", "Expand"};
    const bool of_shape =
        strcmp(im->node->op, "Shape") == 0 || strcmp(im->node->op, "Size") == 0;
    struct onnx_size own = {.count = 0}, *kept;
    bool fill = false;
    int from = -1, sized = 0, v, axis;

    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++)
        fill = fill || strcmp(im->node->op, fills[i]) == 0;
    if (im->rc < 0 || (!folded && !fill))
        return im->rc;
    for (int i = 0; i < im->node->n_in && !of_shape; i++)
        if (counted_input_is_sized(im, i)) {
            from = i;
            sized++;
        }
    if (of_shape ? !own_size(im, &own) : from < 0)
        return im->rc;
    v = onnx_has_output(im, 0) ? onnx_value_find(im, im->node->out[0]) : -1;
    if (v < 0 || im->value[v].count > 0)
        return im->rc;
    /* Expand of such a number, which is known, is another. */
    if (fill && (strcmp(im->node->op, "Expand") != 0 || from != 0)) {
        axis = sized == 1 ? filled_axis(im, from) : -1;
        if (axis < 0)
            return counted_mixes(im);
        return onnx_set_counted(im, 0, axis, input_size(im, from)->count);
    }
    if (!of_shape) {
        own = *input_size(im, from);
        if (sized > 1)
            own.axis = -1;
        if (!carry_size(im, from, &own) || im->rc < 0)
            return im->rc;
    }
    kept = onnx_alloc(&im->keep, sizeof *kept);
    if (!kept)
        return onnx_no_memory(im);
    *kept = own;
    im->value[v].sized = kept;
    return im->rc;
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
        int64_t all = 1;

        for (int d = 0; d < compose_rank(im, x); d++)
            if (!checked_mul_i64(all, im->type[x][k].dim[d], &all))
                return onnx_fail(im, INFER_EFORMAT, "the input overflows");
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
