/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of tensors whose number of entries is computed at run time, as numbers
 * of the graph: what Shape and Size give, and what is computed from it.
 *
 * While importing, such a size is the room for entries.  It is followed through
 * the operators that keep it, so that what is filled by it has as many entries;
 * a use as data is refused.
 */
#include <string.h>

#include "kernels/base/checked.h"
#include "weights/onnx/counted/counted.h"

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

    if (p.count < 0)
        return false;
    t = onnx_type_of_input(im, 0, 0);
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
        t = onnx_type_of_input(im, 0, k);
        own->room[k] = t.dim[p.axis];
        if (size && !has_elements(&t))
            own->none = ONNX_NONE_UNKNOWN;
    }
    return true;
}

/* Whether the element of input i that is the size is all of it. */
static bool is_room(struct onnx_import *im, int i)
{
    const struct onnx_size *s = input_size(im, i);
    const struct onnx_small *const *small = s ? onnx_small_input(im, i) : NULL;

    if (!small || s->axis < 0 || s->less != 0)
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
    const struct onnx_small *const *small =
        counted_input_is_sized(im, i) ? NULL : onnx_small_input(im, i);

    if (!small)
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
        const struct graph_type in = onnx_type_of_input(im, i, p);

        if (counted_elements(&in, 0, in.rank) !=
            counted_elements(&out, 0, out.rank))
            return false;
    }
    return true;
}

/* The one number that all elements of input i are at every probe: 0 where they
 * are not one number. */
static int64_t factor(struct onnx_import *im, int i)
{
    const struct onnx_small *const *small = onnx_small_input(im, i);

    if (!small || !small[0]->i || small[0]->count < 1)
        return 0;
    return within(im, i, small[0]->i[0], small[0]->i[0]) ? small[0]->i[0] : 0;
}

/* Whether input i is one number at every probe. */
static bool is_one(struct onnx_import *im, int i)
{
    const struct onnx_small *const *small = onnx_small_input(im, i);

    if (!small)
        return false;
    for (int p = 0; p < im->probes; p++)
        if (small[p]->count != 1)
            return false;
    return true;
}

/* Whether no element of input i is 0 at any probe. */
static bool has_no_zero(struct onnx_import *im, int i)
{
    const struct onnx_small *const *small = onnx_small_input(im, i);

    if (!small)
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

    if (at < 0)
        return -1;
    shape = onnx_type_of_input(im, i, 0);
    if (strcmp(op, "ConstantOfShape") == 0)
        return at;
    if (strcmp(op, "Range") == 0)
        return i == 1 && within(im, 0, 0, 0) && within(im, 2, 1, 1) ? 0 : -1;
    if (i != 1)
        return -1;
    x = onnx_type_of_input(im, 0, 0);
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
