/* SPDX-License-Identifier: Apache-2.0 */
/* Writes into a part of a tensor. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

struct pb_span aten_replaced(struct onnx_import *im, struct pb_span x, int axis,
                             int64_t begin, int64_t end, struct pb_span by)
{
    const int64_t size = aten_dim(im, x, axis);
    struct aten_attrs a = {.n = 0};
    struct pb_span part[3];
    int n = 0;

    if (im->rc < 0)
        return by;
    if (size < 0 && (begin < 0 || end < 0)) {
        onnx_fail(im, INFER_EUNSUPPORTED, "a part of an axis of free size");
        return by;
    }
    if (begin < 0)
        begin = begin + size < 0 ? 0 : begin + size;
    if (end < 0)
        end += size;
    if (begin > 0)
        part[n++] = aten_cut(im, x, axis, 0, begin);
    part[n++] = by;
    if (size < 0 ? end != INT64_MAX : end < size)
        part[n++] = aten_cut(im, x, axis, end, INT64_MAX);
    aten_set_int(&a, "axis", axis);
    return n == 1 ? by : aten_step(im, "Concat", &a, n, part);
}

/* The same where `by` takes the place of every step-th entry: entries of both
 * behind each other are chosen from. */
static struct pb_span replaced_by_steps(struct onnx_import *im,
                                        struct pb_span x, int axis,
                                        int64_t begin, int64_t end,
                                        int64_t step, struct pb_span by)
{
    const int64_t size = aten_dim(im, x, axis);
    struct aten_attrs a = {.n = 0};
    struct constant *c;

    if (im->rc < 0 || step == 1)
        return aten_replaced(im, x, axis, begin, end, by);
    if (size < 0 || step < 1) {
        onnx_fail(im, INFER_EUNSUPPORTED, "a step of %lld along a free axis",
                  (long long)step);
        return by;
    }
    begin += begin < 0 ? size : 0;
    end += end < 0 ? size : 0;
    begin = begin < 0 ? 0 : begin;
    end = end > size ? size : end;
    if (aten_dim(im, by, axis) !=
        (begin < end ? (end - begin - 1) / step + 1 : 0)) {
        onnx_fail(im, INFER_EFORMAT, "%lld entries for every %lldth of %lld",
                  (long long)aten_dim(im, by, axis), (long long)step,
                  (long long)size);
        return by;
    }
    if (onnx_new_constant(im, INFER_I64, 1, &size, &c) < 0)
        return by;
    for (int64_t i = 0; i < size; i++)
        ((int64_t *)c->data)[i] =
            i >= begin && i < end && (i - begin) % step == 0
                ? size + (i - begin) / step
                : i;
    aten_set_int(&a, "axis", axis);
    return ATEN_STEP(im, "Gather", &a, ATEN_STEP(im, "Concat", &a, x, by),
                     onnx_step_constant(im, c));
}

/* The part between start and end, and the source expanded to it. */
int aten_slice_scatter(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), 0);

    return aten_same(im, 0,
                     replaced_by_steps(im, x, axis, aten_int(im, "start", 0),
                                       aten_int(im, "end", INT64_MAX),
                                       aten_int(im, "step", 1),
                                       aten_cast(im, aten_tensor(im, "src"),
                                                 aten_type_of(im, x))));
}

int aten_select_scatter(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), 0);
    const int64_t index = aten_int(im, "index", 0);
    struct pb_span by =
        aten_cast(im, aten_tensor(im, "src"), aten_type_of(im, x));

    by = ATEN_STEP(im, "Unsqueeze", NULL, by, aten_list1(im, axis));
    return aten_same(im, 0,
                     aten_replaced(im, x, axis, index,
                                   index == -1 ? INT64_MAX : index + 1, by));
}

/* self becomes the other one, in its own shape and type. */
int aten_copy(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const struct pb_span by =
        aten_cast(im, aten_tensor(im, aten_row(im)->onnx), aten_type_of(im, x));

    return ATEN_LAST(im, "Expand", NULL, by, ATEN_STEP(im, "Shape", NULL, x));
}

/* ---- a tensor around a view ---------------------------------------- */

/* The transpose that undoes a view's. */
static struct pb_span turned_back(struct onnx_import *im, struct pb_span part)
{
    int64_t order[INFER_MAX_RANK], back[INFER_MAX_RANK];
    const int rank = aten_rank(im, part);

    for (int i = 0; i < rank; i++)
        back[i] = order[i] = i;
    if (aten_row(im)->import == aten_permute_dims) {
        if (aten_ints(im, "dims", rank, order) != rank)
            return aten_no_input();
    } else if (rank > 1) {
        const int a = aten_axis(im, "dim0", rank, 0);
        const int b = aten_axis(im, "dim1", rank, 1);

        order[a] = b;
        order[b] = a;
    }
    for (int i = 0; i < rank; i++) {
        if (order[i] < -rank || order[i] >= rank)
            return aten_no_input();
        back[order[i] < 0 ? order[i] + rank : order[i]] = i;
    }
    return aten_permute(im, part, rank, back);
}

static struct pb_span around(struct onnx_import *im, struct pb_span base,
                             struct pb_span part)
{
    onnx_op_fn *const view = aten_row(im)->import;
    const int rank = aten_rank(im, base);
    int64_t index;
    int axis;

    if (view == aten_slice) {
        axis = aten_axis(im, "dim", rank, 0);
        return replaced_by_steps(im, base, axis, aten_int(im, "start", 0),
                                 aten_int(im, "end", INT64_MAX),
                                 aten_int(im, "step", 1), part);
    }
    if (view == aten_select) {
        axis = aten_axis(im, "dim", rank, 0);
        index = aten_int(im, "index", 0);
        part = ATEN_STEP(im, "Unsqueeze", NULL, part, aten_list1(im, axis));
        return aten_replaced(im, base, axis, index,
                             index == -1 ? INT64_MAX : index + 1, part);
    }
    if (view == aten_transpose || view == aten_permute_dims)
        return turned_back(im, part);
    if (view == aten_identity)
        return part;
    if (view == aten_view || view == aten_flatten || view == aten_unflatten ||
        view == aten_squeeze || view == aten_unsqueeze || view == aten_view_as)
        return ATEN_STEP(im, "Reshape", NULL, part,
                         ATEN_STEP(im, "Shape", NULL, base));
    return aten_no_input();
}

struct pb_span aten_around(struct onnx_import *im,
                           const struct aten_node *maker, struct pb_span base,
                           struct pb_span part)
{
    struct aten_context *c = aten_of(im);
    const struct aten_node *node = c->node;
    const struct aten_op *op = c->op;
    struct pb_span out;
    bool written;

    c->node = maker;
    c->op = aten_op_of(maker->op, &written);
    out = around(im, base, part);
    c->node = node;
    c->op = op;
    return im->rc < 0 ? aten_no_input() : out;
}
