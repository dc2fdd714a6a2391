/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that choose elements. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

int aten_slice(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), 0);
    const struct aten_arg *step = aten_find(im, "step");

    if (step && step->kind == ATEN_INT && step->i < 1)
        return onnx_fail(im, INFER_EFORMAT, "a step of %lld",
                         (long long)step->i);
    return ATEN_LAST(im, "Slice", NULL, x, aten_size(im, "start", 0),
                     aten_size(im, "end", INT64_MAX), aten_list1(im, axis),
                     aten_size(im, "step", 1));
}

int aten_narrow(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const struct pb_span begin = aten_size(im, "start", 0);
    const struct pb_span end =
        ATEN_STEP(im, "Add", NULL, begin, aten_size(im, "length", 0));
    const struct aten_arg *at = aten_find(im, "start");
    const struct aten_arg *n = aten_find(im, "length");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), 0);
    const int64_t size = aten_dim(im, x, axis);

    if (im->rc == 0 && size >= 0 && n && n->kind == ATEN_INT &&
        (n->i < 0 || n->i > size ||
         (at && at->kind == ATEN_INT &&
          at->i + (at->i < 0 ? size : 0) > size - n->i)))
        return onnx_fail(im, INFER_EFORMAT, "%lld entries of %lld",
                         (long long)n->i, (long long)size);
    return ATEN_LAST(im, "Slice", NULL, x, begin, end, aten_list1(im, axis));
}

int aten_select(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", aten_axis(im, "dim", aten_rank(im, x), 0));
    return ATEN_LAST(im, "Gather", &a, x, aten_tensor(im, "index"));
}

int aten_gather(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", aten_axis(im, "dim", aten_rank(im, x), 0));
    return ATEN_LAST(im, "GatherElements", &a, x, aten_tensor(im, "index"));
}

int aten_embedding(struct onnx_import *im)
{
    return ATEN_LAST(im, "Gather", NULL, aten_tensor(im, "weight"),
                     aten_tensor(im, "indices"));
}

/* How values meet that go to the same place, by PyTorch's word or by the row.
 */
static int set_reduction(struct onnx_import *im, struct aten_attrs *a)
{
    static const char *const words[][2] = {
        {"add", "add"},  {"sum", "add"},  {"multiply", "mul"},
        {"prod", "mul"}, {"amax", "max"}, {"amin", "min"}};
    const struct pb_span how = aten_text(im, "reduce");

    if (how.bytes == 0) {
        if (aten_row(im)->param)
            aten_set_word(a, "reduction", "add");
        return im->rc;
    }
    if (!aten_flag(im, "include_self", true))
        return onnx_fail(im, INFER_EUNSUPPORTED, "include_self=False");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (pb_span_is(how, words[i][0])) {
            aten_set_word(a, "reduction", words[i][1]);
            return im->rc;
        }
    return onnx_fail(im, INFER_EUNSUPPORTED, "values that meet by '%.*s'",
                     PB_TEXT(how, 64));
}

/* The value at each index of an axis; param: how values meet. */
int aten_scatter(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const struct pb_span index = aten_tensor(im, "index");
    struct pb_span value = aten_optional(im, "src");
    struct aten_attrs a = {.n = 0};

    if (value.bytes == 0)
        value = ATEN_STEP(
            im, "Expand", NULL,
            aten_cast(im, aten_tensor(im, "value"), aten_type_of(im, x)),
            ATEN_STEP(im, "Shape", NULL, index));
    aten_set_int(&a, "axis", aten_axis(im, "dim", aten_rank(im, x), 0));
    if (set_reduction(im, &a) < 0)
        return im->rc;
    return ATEN_LAST(im, "ScatterElements", &a, x, index, value);
}

/* ---- indices in brackets ------------------------------------------- */

/* Indices in several dimensions, as ONNX's operators of N dimensions take
 * them: one tensor whose last dimension holds one of each. */
static struct pb_span joined_indices(struct onnx_import *im, int n,
                                     const struct pb_span *index)
{
    struct aten_attrs a = {.n = 0};
    struct pb_span sum = index[0], shape, part[INFER_MAX_RANK];

    for (int i = 1; i < n; i++)
        sum = ATEN_STEP(im, "Add", NULL, sum, index[i]);
    shape = ATEN_STEP(im, "Shape", NULL, sum);
    for (int i = 0; i < n; i++) {
        part[i] = ATEN_STEP(im, "Expand", NULL, index[i], shape);
        part[i] = ATEN_STEP(im, "Unsqueeze", NULL, part[i], aten_list1(im, -1));
    }
    aten_set_int(&a, "axis", -1);
    return n == 1 ? part[0] : aten_step(im, "Concat", &a, n, part);
}

/* A mask of some dimensions as an index of each: how many. */
static int places_of_mask(struct onnx_import *im, struct pb_span mask, int room,
                          struct pb_span *index)
{
    const int rank = aten_rank(im, mask);
    struct pb_span at;

    if (im->rc == 0 && (rank < 1 || rank > room)) {
        onnx_fail(im, INFER_EUNSUPPORTED, "a mask of rank %d as an index",
                  rank);
        return 0;
    }
    at = ATEN_STEP(im, "NonZero", NULL, mask);
    for (int d = 0; d < rank; d++)
        index[d] =
            ATEN_STEP(im, "Gather", NULL, at, aten_scalar(im, INFER_I64, d));
    return rank;
}

/* Whether an index is a mask: PyTorch takes bytes for one, too. */
static bool is_mask(struct onnx_import *im, struct pb_span index)
{
    const enum infer_dtype type = aten_type_of(im, index);

    return type == INFER_BOOL || type == INFER_U8;
}

/* The indices that are given: how many, where the first and the last stand. */
static int list_indices(struct onnx_import *im, struct pb_span *index,
                        int *place)
{
    struct pb_span all[INFER_MAX_RANK];
    const int n = aten_tensors(im, "indices", INFER_MAX_RANK, all);
    int given = 0, at = 0;

    for (int i = 0; i < n && im->rc == 0; i++) {
        int wide = 1;

        if (all[i].bytes > 0) {
            if (aten_need_type(im, all[i], "what an index chooses") == 0 &&
                is_mask(im, all[i]))
                wide = places_of_mask(im, aten_cast(im, all[i], INFER_BOOL),
                                      INFER_MAX_RANK - given, index + given);
            else
                index[given] = aten_cast(im, all[i], INFER_I64);
            for (int d = 0; d < wide; d++)
                place[given++] = at + d;
        }
        at += wide;
    }
    if (given == 0)
        onnx_fail(im, INFER_EFORMAT, "no index");
    return given;
}

/* x with the indexed dimensions first, and the order that undoes that. */
static struct pb_span indexed_first(struct onnx_import *im, struct pb_span x,
                                    int n, const int *place, int64_t *back)
{
    const int rank = aten_rank(im, x);
    int64_t order[INFER_MAX_RANK];
    int k = 0;

    for (int i = 0; i < n; i++)
        order[k++] = place[i];
    for (int d = 0, i = 0; d < rank; d++)
        if (i < n && place[i] == d)
            i++;
        else
            order[k++] = d;
    for (int d = 0; d < rank; d++)
        back[order[d]] = d;
    return aten_permute(im, x, rank, order);
}

int aten_index(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    int64_t back[INFER_MAX_RANK];
    struct pb_span index[INFER_MAX_RANK], y;
    int place[INFER_MAX_RANK];
    struct aten_attrs a = {.n = 0};
    const int n = list_indices(im, index, place), rank = aten_rank(im, x);
    int k = 0, wide, first;

    if (im->rc < 0)
        return im->rc;
    if (n == 1) {
        aten_set_int(&a, "axis", place[0]);
        return ATEN_LAST(im, "Gather", &a, x, index[0]);
    }
    y = indexed_first(im, x, n, place, back);
    index[0] = joined_indices(im, n, index);
    wide = aten_rank(im, index[0]) - 1;
    /* Those of the result stand where the first index stood, if all indices
     * stand side by side. */
    first = place[n - 1] - place[0] == n - 1 ? place[0] : 0;
    if (first == 0)
        return ATEN_LAST(im, "GatherND", NULL, y, index[0]);
    y = ATEN_STEP(im, "GatherND", NULL, y, index[0]);
    if (im->rc < 0) /* also of a rank too high */
        return im->rc;
    k = 0;
    for (int i = 0; i < first; i++)
        back[k++] = wide + i;
    for (int i = 0; i < wide; i++)
        back[k++] = i;
    for (int i = first; i < rank - n; i++)
        back[k++] = wide + i;
    aten_set_ints(&a, "perm", back, k);
    return ATEN_LAST(im, "Transpose", &a, y);
}

/* Values in the shape of the result, whose `wide` dimensions of indices stand
 * at dimension `first` of x, n of whose they take the place of: these come
 * first.
 */
static struct pb_span values_first(struct onnx_import *im, struct pb_span value,
                                   struct pb_span x, struct pb_span index,
                                   int first, int n)
{
    const int rank = aten_rank(im, x), wide = aten_rank(im, index) - 1;
    struct aten_attrs before = {.n = 0}, chosen = {.n = 0}, behind = {.n = 0};
    struct aten_attrs axis = {.n = 0};
    int64_t order[2 * INFER_MAX_RANK];
    struct pb_span part[3];
    int k = 0;

    if (im->rc < 0 || rank - n + wide > INFER_MAX_RANK) {
        onnx_fail(im, INFER_EUNSUPPORTED, "values of rank %d", rank - n + wide);
        return value;
    }
    aten_set_int(&before, "end", first);
    aten_set_int(&chosen, "end", -1);
    aten_set_int(&behind, "start", first + n);
    aten_set_int(&axis, "axis", 0);
    part[0] = ATEN_STEP(im, "Shape", &before, x);
    part[1] = ATEN_STEP(im, "Shape", &chosen, index);
    part[2] = ATEN_STEP(im, "Shape", &behind, x);
    value = ATEN_STEP(
        im, "Expand", NULL, value,
        aten_step(im, "Concat", &axis, first + n < rank ? 3 : 2, part));
    for (int d = 0; d < wide; d++)
        order[k++] = first + d;
    for (int d = 0; d < first; d++)
        order[k++] = d;
    for (int d = first + n; d < rank; d++)
        order[k++] = d - n + wide;
    return aten_permute(im, value, k, order);
}

/* The one index where it is a mask of the first dimensions: then its name. */
static struct pb_span only_mask(struct onnx_import *im)
{
    struct pb_span all[INFER_MAX_RANK];
    const int n = aten_tensors(im, "indices", INFER_MAX_RANK, all);

    return im->rc == 0 && n == 1 && all[0].bytes > 0 && is_mask(im, all[0])
               ? aten_cast(im, all[0], INFER_BOOL)
               : aten_no_input();
}

/* Whether a tensor has one element. */
static bool is_number(struct onnx_import *im, struct pb_span x)
{
    const int rank = aten_rank(im, x);

    for (int d = 0; d < rank; d++)
        if (aten_dim(im, x, d) != 1)
            return false;
    return im->rc == 0;
}

/* One number where the mask is true. */
static int put_number(struct onnx_import *im, struct pb_span x,
                      struct pb_span mask, struct pb_span value)
{
    const int rank = aten_rank(im, x), wide = aten_rank(im, mask);
    int64_t axes[INFER_MAX_RANK];

    for (int d = wide; d < rank; d++)
        axes[d - wide] = d;
    if (wide < rank)
        mask = ATEN_STEP(im, "Unsqueeze", NULL, mask,
                         aten_list(im, rank - wide, axes));
    if (aten_flag(im, "accumulate", false))
        value = ATEN_STEP(im, "Add", NULL, x, value);
    return ATEN_LAST(im, "Where", NULL, mask, value, x);
}

/* Values at indices of the first dimensions, of others that stand side by side,
 * or one number. */
int aten_index_put(struct onnx_import *im)
{
    const struct pb_span self = aten_tensor(im, "self");
    const int rank = aten_rank(im, self);
    struct pb_span index[INFER_MAX_RANK], value, part[2], shape, x = self;
    int64_t back[INFER_MAX_RANK];
    int place[INFER_MAX_RANK];
    struct aten_attrs first = {.n = 0}, end = {.n = 0}, start = {.n = 0};
    struct aten_attrs how = {.n = 0};
    const struct pb_span mask = only_mask(im);
    int n;

    value = aten_cast(im, aten_tensor(im, "values"), aten_type_of(im, self));
    if (mask.bytes > 0 && is_number(im, value) &&
        aten_need_type(im, mask, "what an index chooses") == 0)
        return put_number(
            im, self, mask,
            ATEN_STEP(im, "Reshape", NULL, value, aten_list(im, 0, NULL)));
    n = list_indices(im, index, place);
    if (im->rc < 0)
        return im->rc;
    index[0] = joined_indices(im, n, index);
    if (place[n - 1] != n - 1) {
        x = indexed_first(im, self, n, place, back);
        if (aten_rank(im, value) != 0) {
            if (place[n - 1] - place[0] != n - 1)
                return onnx_fail(im, INFER_EUNSUPPORTED,
                                 "a write at indices of dimensions that stand "
                                 "apart");
            value = values_first(im, value, self, index[0], place[0], n);
        }
    }
    aten_set_int(&end, "end", -1);
    part[0] = ATEN_STEP(im, "Shape", &end, index[0]);
    shape = part[0];
    if (n < rank) {
        aten_set_int(&start, "start", n);
        part[1] = ATEN_STEP(im, "Shape", &start, x);
        aten_set_int(&first, "axis", 0);
        shape = aten_step(im, "Concat", &first, 2, part);
    }
    value = ATEN_STEP(im, "Expand", NULL, value, shape);
    if (aten_flag(im, "accumulate", false))
        aten_set_word(&how, "reduction", "add");
    if (place[n - 1] == n - 1)
        return ATEN_LAST(im, "ScatterND", &how, x, index[0], value);
    x = ATEN_STEP(im, "ScatterND", &how, x, index[0], value);
    return aten_same(im, 0, aten_permute(im, x, rank, back));
}

/* ---- places where a mask is true ----------------------------------- */

/* A row for each element that is not 0: its indices. */
int aten_nonzero(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};

    aten_set_ints(&a, "perm", (const int64_t[]){1, 0}, 2);
    return ATEN_LAST(im, "Transpose", &a,
                     ATEN_STEP(im, "NonZero", NULL, aten_tensor(im, "self")));
}

/* Elements where the mask is true; both have the larger shape. */
int aten_masked_select(struct onnx_import *im)
{
    const struct pb_span mask = aten_tensor(im, "mask");
    struct pb_span x = aten_tensor(im, "self"), where, places;
    struct aten_attrs a = {.n = 0};

    if (aten_need_type(im, mask, "what a mask chooses") < 0)
        return im->rc;
    where =
        ATEN_STEP(im, "Expand", NULL, mask, ATEN_STEP(im, "Shape", NULL, x));
    x = ATEN_STEP(im, "Expand", NULL, x, ATEN_STEP(im, "Shape", NULL, where));
    aten_set_ints(&a, "perm", (const int64_t[]){1, 0}, 2);
    places =
        ATEN_STEP(im, "Transpose", &a, ATEN_STEP(im, "NonZero", NULL, where));
    return ATEN_LAST(im, "GatherND", NULL, x, places);
}

/* torchvision's: indices of the boxes that stay, the best first. */
int aten_nms(struct onnx_import *im)
{
    const struct pb_span first = aten_list1(im, 0);
    struct aten_attrs axis = {.n = 0};
    struct pb_span box, score, chosen;

    box = ATEN_STEP(im, "Unsqueeze", NULL, aten_tensor(im, "dets"), first);
    score = aten_tensor(im, "scores");
    score = ATEN_STEP(im, "Unsqueeze", NULL, score,
                      aten_list(im, 2, (const int64_t[]){0, 1}));
    chosen = ATEN_STEP(
        im, "NonMaxSuppression", NULL, box, score, aten_list1(im, INT32_MAX),
        aten_scalar(im, INFER_F32, aten_number(im, "iou_threshold", 0)));
    aten_set_int(&axis, "axis", 1);
    return ATEN_LAST(im, "Gather", &axis, chosen,
                     aten_scalar(im, INFER_I64, 2));
}

/* ---- order --------------------------------------------------------- */

/* k entries of each row by size, and where they stood; param 1: all of them. */
int aten_topk(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), -1);
    const bool sort = aten_row(im)->param;
    struct pb_span k =
        sort ? aten_cut(im, ATEN_STEP(im, "Shape", NULL, x), 0, axis, axis + 1)
             : aten_size(im, "k", 1);
    struct onnx_attr attr[2];
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", axis);
    aten_set_int(&a, "largest",
                 sort ? aten_flag(im, "descending", false)
                      : aten_flag(im, "largest", true));
    memcpy(attr, a.item, sizeof attr);
    return onnx_steps(im, "TopK", (struct pb_span[]){x, k}, 2, im->node->out,
                      im->node->n_out < 2 ? im->node->n_out : 2, attr, 2);
}

/* ---- masks --------------------------------------------------------- */

/* The part of matrices on one side of a diagonal. param 1: the upper one. */
int aten_triangle(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "upper", aten_row(im)->param);
    return ATEN_LAST(
        im, "Trilu", &a, aten_tensor(im, "self"),
        aten_scalar(im, INFER_I64, (double)aten_int(im, "diagonal", 0)));
}
