/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that read and write at places of a dimension, and look values up.
 */
#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* The vector `index` along an axis, as many times as like has entries there. */
static struct pb_span spread(struct onnx_import *im, struct pb_span index,
                             int axis, struct pb_span like)
{
    int64_t shape[INFER_MAX_RANK];
    const int rank = aten_rank(im, like);

    for (int d = 0; d < rank; d++)
        shape[d] = d == axis ? -1 : 1;
    index = ATEN_STEP(im, "Reshape", NULL, index, aten_list(im, rank, shape));
    return ATEN_STEP(im, "Expand", NULL, index,
                     ATEN_STEP(im, "Shape", NULL, like));
}

/* Rows of source at places of a dimension. param 1: added to what is there. */
int aten_index_copy(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct pb_span source = aten_tensor(im, "source");
    const double alpha = aten_number(im, "alpha", 1);
    const int rank = aten_rank(im, x), axis = aten_axis(im, "dim", rank, 0);
    struct aten_attrs a = {.n = 0};

    if (im->rc == 0 && (rank == 0 || aten_rank(im, source) != rank))
        return onnx_fail(im, INFER_EUNSUPPORTED, "a source of rank %d",
                         aten_rank(im, source));
    source = aten_cast(im, source, aten_type_of(im, x));
    if (alpha != 1)
        source = aten_mul(im, source, alpha);
    aten_set_int(&a, "axis", axis);
    if (aten_row(im)->param)
        aten_set_word(&a, "reduction", "add");
    return ATEN_LAST(im, "ScatterElements", &a, x,
                     spread(im, aten_tensor(im, "index"), axis, source),
                     source);
}

/* One number at places of a dimension. */
int aten_index_fill(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x), axis = aten_axis(im, "dim", rank, 0);
    struct pb_span index = aten_tensor(im, "index"), rows;
    struct aten_attrs a = {.n = 0};

    if (im->rc == 0 && rank == 0)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a tensor of rank 0");
    index = ATEN_STEP(im, "Reshape", NULL, index, aten_list1(im, -1));
    aten_set_int(&a, "axis", axis);
    /* As many rows as are written. */
    rows = ATEN_STEP(im, "Gather", &a, x, index);
    rows =
        ATEN_STEP(im, "Expand", NULL,
                  aten_cast(im, aten_tensor(im, "value"), aten_type_of(im, x)),
                  ATEN_STEP(im, "Shape", NULL, rows));
    return ATEN_LAST(im, "ScatterElements", &a, x,
                     spread(im, index, axis, rows), rows);
}

/* Elements by their place in the whole tensor. */
int aten_take(struct onnx_import *im)
{
    return ATEN_LAST(im, "Gather", NULL,
                     ATEN_STEP(im, "Reshape", NULL, aten_tensor(im, "self"),
                               aten_list1(im, -1)),
                     aten_tensor(im, "index"));
}

/* GatherElements of tensors that are made equal but along the dimension;
 * without one, of both as vectors. */
int aten_take_along(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    struct pb_span index = aten_tensor(im, "indices");
    const int rank = aten_rank(im, x);
    struct aten_attrs a = {.n = 0};
    int axis;

    if (!aten_has(im, "dim")) {
        x = ATEN_STEP(im, "Reshape", NULL, x, aten_list1(im, -1));
        index = ATEN_STEP(im, "Reshape", NULL, index, aten_list1(im, -1));
        return ATEN_LAST(im, "GatherElements", NULL, x, index);
    }
    axis = aten_axis(im, "dim", rank, 0);
    if (im->rc == 0 && aten_rank(im, index) != rank)
        return onnx_fail(im, INFER_EUNSUPPORTED, "indices of rank %d",
                         aten_rank(im, index));
    for (int d = 0; d < rank && im->rc == 0; d++)
        if (d != axis && aten_dim(im, x, d) != aten_dim(im, index, d)) {
            if (aten_dim(im, x, d) != 1 && aten_dim(im, index, d) != 1)
                return onnx_fail(im, INFER_EUNSUPPORTED,
                                 "indices of another shape");
            if (aten_dim(im, index, d) == 1) {
                int64_t one[INFER_MAX_RANK];

                for (int i = 0; i < rank; i++)
                    one[i] = i == d ? aten_dim(im, x, d) : 1;
                index = ATEN_STEP(im, "Expand", NULL, index,
                                  aten_list(im, rank, one));
            } else {
                int64_t one[INFER_MAX_RANK];

                for (int i = 0; i < rank; i++)
                    one[i] = i == d ? aten_dim(im, index, d) : 1;
                x = ATEN_STEP(im, "Expand", NULL, x, aten_list(im, rank, one));
            }
        }
    aten_set_int(&a, "axis", axis);
    return ATEN_LAST(im, "GatherElements", &a, x, index);
}

/* Whether each element is among those of another tensor. */
int aten_is_in(struct onnx_import *im)
{
    const bool invert = aten_flag(im, "invert", false);
    struct aten_attrs a = {.n = 0};
    struct pb_span in[2], y;

    aten_operands(
        im, aten_has(im, "element") ? "element" : "elements",
        aten_has(im, "test_element") ? "test_element" : "test_elements", in);
    in[0] = ATEN_STEP(im, "Unsqueeze", NULL, in[0], aten_list1(im, -1));
    in[1] = ATEN_STEP(im, "Reshape", NULL, in[1], aten_list1(im, -1));
    y = aten_cast(im, aten_step(im, "Equal", NULL, 2, in), INFER_I32);
    aten_set_int(&a, "keepdims", 0);
    y = aten_cast(im, ATEN_STEP(im, "ReduceMax", &a, y, aten_list1(im, -1)),
                  INFER_BOOL);
    return invert ? ATEN_LAST(im, "Not", NULL, y) : aten_same(im, 0, y);
}

/* Where each value would be put into a row in ascending order: how many stand
 * before it.  param 1: the row is "boundaries". */
int aten_search(struct onnx_import *im)
{
    const char *const name =
        aten_row(im)->param ? "boundaries" : "sorted_sequence";
    const struct pb_span side = aten_text(im, "side");
    const bool right =
        pb_span_is(side, "right") || aten_flag(im, "right", false);
    struct aten_attrs a = {.n = 0};
    struct pb_span in[2], y;

    if (aten_has(im, "sorter"))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a row that is sorted by "
                         "another tensor");
    aten_operands(im, "self", name, in);
    in[0] = ATEN_STEP(im, "Unsqueeze", NULL, in[0], aten_list1(im, -1));
    if (aten_rank(im, in[1]) > 1)
        in[1] = ATEN_STEP(im, "Unsqueeze", NULL, in[1], aten_list1(im, -2));
    y = aten_step(im, right ? "GreaterOrEqual" : "Greater", NULL, 2, in);
    y = aten_cast(im, y,
                  aten_flag(im, "out_int32", false) ? INFER_I32 : INFER_I64);
    aten_set_int(&a, "keepdims", 0);
    return ATEN_LAST(im, "ReduceSum", &a, y, aten_list1(im, -1));
}
