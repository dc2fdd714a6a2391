/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements or give them another shape. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

int aten_view(struct onnx_import *im)
{
    return ATEN_LAST(im, "Reshape", NULL, aten_tensor(im, "self"),
                     aten_sizes(im, aten_row(im)->onnx, 0, 0));
}

/* The shape of another tensor. param 1: expanded to it. */
int aten_view_as(struct onnx_import *im)
{
    const struct pb_span other = aten_tensor(im, "other");

    return ATEN_LAST(im, aten_row(im)->param ? "Expand" : "Reshape", NULL,
                     aten_tensor(im, "self"),
                     ATEN_STEP(im, "Shape", NULL, other));
}

/* The shape as a tensor. */
int aten_shape_tensor(struct onnx_import *im)
{
    return ATEN_LAST(im, "Shape", NULL, aten_tensor(im, "self"));
}

/* Sizes begin .. end - 1 of a shape. */
static struct pb_span shape_part(struct onnx_import *im, struct pb_span x,
                                 int begin, int end)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "start", begin);
    aten_set_int(&a, "end", end);
    return ATEN_STEP(im, "Shape", &a, x);
}

static struct pb_span join(struct onnx_import *im, int axis, int n,
                           const struct pb_span *part)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", axis);
    return aten_step(im, "Concat", &a, n, part);
}

int aten_flatten(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);
    const int begin = rank ? aten_axis(im, "start_dim", rank, 0) : 0;
    const int end = rank ? aten_axis(im, "end_dim", rank, -1) : 0;
    struct pb_span part[3];
    int64_t shape[INFER_MAX_RANK];

    if (rank == 0)
        return ATEN_LAST(im, "Reshape", NULL, x, aten_list1(im, 1));
    if (im->rc == 0 && begin > end)
        return onnx_fail(im, INFER_EFORMAT, "it flattens %d to %d", begin, end);
    if (end == rank - 1 || begin == 0) {
        /* 0 keeps a size, -1 takes the rest. */
        if (end == rank - 1) {
            memset(shape, 0, sizeof shape);
            shape[begin] = -1;
            return ATEN_LAST(im, "Reshape", NULL, x,
                             aten_list(im, begin + 1, shape));
        }
        part[0] = aten_list1(im, -1);
        part[1] = shape_part(im, x, end + 1, rank);
        return ATEN_LAST(im, "Reshape", NULL, x, join(im, 0, 2, part));
    }
    part[0] = shape_part(im, x, 0, begin);
    part[1] = aten_list1(im, -1);
    part[2] = shape_part(im, x, end + 1, rank);
    return ATEN_LAST(im, "Reshape", NULL, x, join(im, 0, 3, part));
}

int aten_unflatten(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x), axis = aten_axis(im, "dim", rank, 0);
    struct pb_span part[3];
    int n = 0;

    if (axis > 0)
        part[n++] = shape_part(im, x, 0, axis);
    part[n++] = aten_sizes(im, "sizes", 0, 0);
    if (axis < rank - 1)
        part[n++] = shape_part(im, x, axis + 1, rank);
    return ATEN_LAST(im, "Reshape", NULL, x, join(im, 0, n, part));
}

/* ---- order of axes ------------------------------------------------- */

static int give_permuted(struct onnx_import *im, struct pb_span x, int n,
                         const int64_t *order)
{
    struct aten_attrs a = {.n = 0};

    aten_set_ints(&a, "perm", order, n);
    return ATEN_LAST(im, "Transpose", &a, x);
}

int aten_permute_dims(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    int64_t order[INFER_MAX_RANK];
    const int rank = aten_rank(im, x);
    const int n = aten_ints(im, "dims", INFER_MAX_RANK, order);

    for (int i = 0; i < n; i++)
        if (order[i] < 0)
            order[i] += rank;
    return give_permuted(im, x, n < 0 ? 0 : n, order);
}

/* param 1: t(), the transpose of a matrix; 2: all dimensions in reverse. */
int aten_transpose(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);
    int64_t order[INFER_MAX_RANK];
    int a, b;

    if (aten_row(im)->param && rank < 2)
        return aten_same(im, 0, x);
    if (aten_row(im)->param == 1 && rank > 2)
        return onnx_fail(im, INFER_EFORMAT, "t() of rank %d", rank);
    if (aten_row(im)->param == 2) {
        for (int i = 0; i < rank; i++)
            order[i] = rank - 1 - i;
        return give_permuted(im, x, rank, order);
    }
    a = aten_axis(im, "dim0", rank, 0);
    b = aten_axis(im, "dim1", rank, 1);
    for (int i = 0; i < rank; i++)
        order[i] = i;
    if (im->rc < 0)
        return im->rc;
    order[a] = b;
    order[b] = a;
    return give_permuted(im, x, rank, order);
}

int aten_movedim(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);
    int64_t from[INFER_MAX_RANK], to[INFER_MAX_RANK], order[INFER_MAX_RANK];
    const int n = aten_ints(im, "source", rank, from);
    bool taken[INFER_MAX_RANK] = {false};
    int next = 0;

    if (aten_ints(im, "destination", rank, to) != n || n < 0)
        return onnx_fail(im, INFER_EFORMAT, "as many sources as destinations");
    for (int i = 0; i < rank; i++)
        order[i] = -1;
    for (int i = 0; i < n; i++) {
        if (from[i] < -rank || from[i] >= rank || to[i] < -rank ||
            to[i] >= rank)
            return onnx_fail(im, INFER_EFORMAT, "a dimension out of range");
        from[i] += from[i] < 0 ? rank : 0;
        to[i] += to[i] < 0 ? rank : 0;
        if (taken[from[i]] || order[to[i]] >= 0)
            return onnx_fail(im, INFER_EFORMAT, "a dimension is moved twice");
        order[to[i]] = from[i];
        taken[from[i]] = true;
    }
    for (int i = 0; i < rank; i++) {
        if (order[i] >= 0)
            continue;
        while (taken[next])
            next++;
        order[i] = next++;
    }
    return give_permuted(im, x, rank, order);
}

/* ---- axes of size 1 ------------------------------------------------ */

int aten_unsqueeze(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x) + 1, 0);

    return ATEN_LAST(im, "Unsqueeze", NULL, x, aten_list1(im, axis));
}

/* Axes that are not 1 stay. */
/* Whether a dimension is the literal batch of 1 that is tried as a free one. */
static bool drops_batch(struct onnx_import *im, struct pb_span x, int64_t axis)
{
    struct graph_type t;

    if (!im->freed_batch)
        return false;
    t = onnx_type_named(im, x, 0);
    axis += axis < 0 ? t.rank : 0;
    return axis >= 0 && axis < t.rank && t.dim[axis] == 1 &&
           aten_dim(im, x, (int)axis) < 0;
}

int aten_squeeze(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int rank = aten_rank(im, x);
    int64_t axis[INFER_MAX_RANK], kept[INFER_MAX_RANK];
    int n = aten_ints(im, "dim", INFER_MAX_RANK, axis), k = 0;

    for (int i = 0; n < 0 && i < rank; i++)
        axis[i] = i;
    if (n < 0)
        n = rank;
    for (int i = 0; i < n && im->rc == 0; i++)
        if (aten_dim(im, x, (int)axis[i]) == 1)
            kept[k++] = axis[i];
        else if (drops_batch(im, x, axis[i]))
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "the batch of 1 is dropped");
    if (k == 0)
        return aten_same(im, 0, x);
    return ATEN_LAST(im, "Squeeze", NULL, x, aten_list(im, k, kept));
}

/* ---- repetition ---------------------------------------------------- */

/* -1 keeps a size, as 1 does in ONNX. */
int aten_expand(struct onnx_import *im)
{
    return ATEN_LAST(im, "Expand", NULL, aten_tensor(im, "self"),
                     aten_sizes(im, "size", -1, 1));
}

/* New axes come in front. */
int aten_repeat(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self"), part[2], shape;
    const struct aten_arg *times = aten_find(im, "repeats");
    const int rank = aten_rank(im, x);
    int64_t ones[INFER_MAX_RANK];
    const int n = times && times->kind == ATEN_LIST ? times->n : 1;

    if (im->rc < 0 || n > INFER_MAX_RANK || n < rank)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a tensor of rank %d repeated by %d numbers", rank, n);
    for (int i = 0; i < n; i++)
        ones[i] = 1;
    if (n > rank) {
        part[0] = aten_list(im, n - rank, ones);
        part[1] = ATEN_STEP(im, "Shape", NULL, x);
        shape = rank ? join(im, 0, 2, part) : part[0];
        x = ATEN_STEP(im, "Reshape", NULL, x, shape);
    }
    return ATEN_LAST(im, "Tile", NULL, x, aten_sizes(im, "repeats", 0, 0));
}

/* Each element this often, one after the other: an axis behind it, expanded. */
int aten_repeat_interleave(struct onnx_import *im)
{
    const int64_t times = aten_int(im, "repeats", 0);
    struct pb_span x = aten_tensor(im, "self"), part[3], y;
    int64_t expanded[INFER_MAX_RANK];
    int rank, axis, n = 0;

    if (!aten_has(im, "dim"))
        x = ATEN_STEP(im, "Reshape", NULL, x, aten_list1(im, -1));
    rank = aten_rank(im, x);
    axis = aten_axis(im, "dim", rank, 0);
    if (im->rc < 0 || times < 1 || rank == INFER_MAX_RANK)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%lld repeats in rank %d",
                         (long long)times, rank);
    for (int i = 0; i <= rank; i++)
        expanded[i] = i == axis + 1 ? times : 1;
    y = ATEN_STEP(im, "Unsqueeze", NULL, x, aten_list1(im, axis + 1));
    y = ATEN_STEP(im, "Expand", NULL, y, aten_list(im, rank + 1, expanded));
    if (axis > 0)
        part[n++] = shape_part(im, x, 0, axis);
    part[n++] = aten_list1(im, -1);
    if (axis < rank - 1)
        part[n++] = shape_part(im, x, axis + 1, rank);
    return ATEN_LAST(im, "Reshape", NULL, y, join(im, 0, n, part));
}

/* ---- joining ------------------------------------------------------- */

/* param 1: along a new axis. */
int aten_cat(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};
    struct pb_span in[ATEN_MAX_ARGS];
    const int n = aten_tensors(im, "tensors", ATEN_MAX_ARGS, in);
    const int extra = aten_row(im)->param;
    int axis, kept = 0;

    if (im->rc < 0 || n == 0)
        return onnx_fail(im, INFER_EFORMAT, "an empty list of tensors");
    axis = aten_axis(im, "dim", aten_rank(im, in[0]) + extra, 0);
    aten_promote(im, n, in);
    for (int i = 0; i < n && im->rc == 0; i++) {
        /* cat() passes over empty lists. */
        if (!extra && aten_rank(im, in[i]) == 1 && aten_dim(im, in[i], 0) == 0)
            continue;
        in[kept++] = extra ? ATEN_STEP(im, "Unsqueeze", NULL, in[i],
                                       aten_list1(im, axis))
                           : in[i];
    }
    aten_set_int(&a, "axis", axis);
    return aten_give(im, 0, "Concat", &a, kept, in);
}

/* ---- splitting ----------------------------------------------------- */

/* Output i is the part begin .. end - 1 of an axis. */
static int give_cut(struct onnx_import *im, int i, struct pb_span x, int axis,
                    int64_t begin, int64_t end)
{
    return aten_give(im, i, "Slice", NULL,
                     ATEN_N(x, aten_list1(im, begin), aten_list1(im, end),
                            aten_list1(im, axis)));
}

/* Parts of this size, the last one may be smaller. */
static int give_parts(struct onnx_import *im, struct pb_span x, int axis,
                      int64_t part)
{
    const int n = im->node->n_out;

    if (im->rc < 0 || part < 1 || part > INT64_MAX / (n + 1))
        return onnx_fail(im, INFER_EUNSUPPORTED, "parts of size %lld",
                         (long long)part);
    for (int i = 0; i < n; i++)
        give_cut(im, i, x, axis, i * part,
                 i == n - 1 ? INT64_MAX : (i + 1) * part);
    return im->rc;
}

static int give_lengths(struct onnx_import *im, struct pb_span x, int axis,
                        const char *name)
{
    int64_t length[256], at = 0;
    const int n = aten_ints(im, name, 256, length);
    const int64_t size = aten_dim(im, x, axis);

    for (int i = 0; i < n; i++) {
        if (length[i] < 0 || length[i] > INT64_MAX / 256)
            return onnx_fail(im, INFER_EFORMAT, "a part of size %lld",
                             (long long)length[i]);
        give_cut(im, i, x, axis, at, at + length[i]);
        at += length[i];
    }
    if (im->rc == 0 && size >= 0 && at != size)
        return onnx_fail(im, INFER_EFORMAT,
                         "parts of %lld in a dimension of size %lld",
                         (long long)at, (long long)size);
    return im->rc;
}

/* By one size, or by a list of sizes. */
int aten_split(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const char *const name = aten_row(im)->onnx;
    const struct aten_arg *size = aten_find(im, name);
    const int axis = aten_axis(im, "dim", aten_rank(im, x), 0);

    if (size && size->kind == ATEN_LIST)
        return give_lengths(im, x, axis, name);
    return give_parts(im, x, axis, aten_int(im, name, 0));
}

int aten_chunk(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), 0);
    const int64_t n = aten_int(im, "chunks", 0), size = aten_dim(im, x, axis);

    if (im->rc == 0 && (n < 1 || size < 1))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "chunks of a dimension of free size");
    return give_parts(im, x, axis, im->rc < 0 ? 0 : (size + n - 1) / n);
}

int aten_unbind(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "axis", aten_axis(im, "dim", aten_rank(im, x), 0));
    for (int i = 0; i < im->node->n_out; i++)
        aten_give(im, i, "Gather", &a,
                  ATEN_N(x, aten_scalar(im, INFER_I64, i)));
    return im->rc;
}

/* ---- blocks of pixels ---------------------------------------------- */

int aten_pixel_shuffle(struct onnx_import *im)
{
    struct aten_attrs a = {.n = 0};

    aten_set_int(&a, "blocksize", aten_int(im, "upscale_factor", 1));
    aten_set_word(&a, "mode", "CRD");
    return ATEN_LAST(im, "DepthToSpace", &a, aten_tensor(im, "self"));
}

/* N,C,H r,W r -> N,C,H,r,W,r -> N,C,r,r,H,W -> N,C r r,H,W */
int aten_pixel_unshuffle(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int64_t r = aten_int(im, "downscale_factor", 1);
    static const int64_t order[6] = {0, 1, 3, 5, 2, 4};
    const int64_t c = aten_dim(im, x, 1), h = aten_dim(im, x, 2);
    const int64_t w = aten_dim(im, x, 3);
    struct pb_span y;

    if (im->rc < 0 || aten_rank(im, x) != 4 || c < 1 || h < 1 || w < 1 ||
        r < 1 || h % r || w % r || r > 65535)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "pixel_unshuffle by %lld of free or odd sizes",
                         (long long)r);
    y = ATEN_STEP(im, "Reshape", NULL, x,
                  aten_list(im, 6, (int64_t[]){0, 0, h / r, r, w / r, r}));
    y = aten_permute(im, y, 6, order);
    return ATEN_LAST(im, "Reshape", NULL, y,
                     aten_list(im, 4, (int64_t[]){0, c * r * r, h / r, w / r}));
}

/* Channels as groups x rest, exchanged. */
int aten_channel_shuffle(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int64_t groups = aten_int(im, "groups", 1), c = aten_dim(im, x, 1);
    static const int64_t order[INFER_MAX_RANK] = {0, 2, 1, 3, 4, 5, 6, 7};
    const int rank = aten_rank(im, x);
    struct pb_span y, shape = ATEN_STEP(im, "Shape", NULL, x);
    struct pb_span part[3];

    if (im->rc < 0 || rank < 3 || rank >= INFER_MAX_RANK || c < 1 ||
        groups < 1 || c % groups)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "%lld groups of %lld channels, rank %d",
                         (long long)groups, (long long)c, rank);
    part[0] = shape_part(im, x, 0, 1);
    part[1] = aten_list(im, 2, (int64_t[]){groups, c / groups});
    part[2] = shape_part(im, x, 2, rank);
    y = ATEN_STEP(im, "Reshape", NULL, x, join(im, 0, 3, part));
    y = aten_permute(im, y, rank + 1, order);
    return ATEN_LAST(im, "Reshape", NULL, y, shape);
}

/* ---- moving along axes --------------------------------------------- */

/* x[-shift:], x[:-shift] along each axis. */
int aten_roll(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self"), part[2];
    const int rank = aten_rank(im, x);
    int64_t shift[INFER_MAX_RANK], axis[INFER_MAX_RANK], size;
    const int n = aten_ints(im, "shifts", INFER_MAX_RANK, shift);
    const int axes = aten_ints(im, "dims", INFER_MAX_RANK, axis);

    if (im->rc < 0 || n < 1 || axes != n)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a roll of the flat tensor");
    for (int i = 0; i < n; i++) {
        axis[i] += axis[i] < 0 ? rank : 0;
        size = aten_dim(im, x, (int)axis[i]);
        if (im->rc < 0)
            return im->rc;
        if (shift[i] == INT64_MIN)
            return onnx_fail(im, INFER_EFORMAT, "a shift of %lld",
                             (long long)shift[i]);
        if (size > 0)
            shift[i] = (shift[i] % size + size) % size;
        if (shift[i] == 0)
            continue;
        part[0] = aten_cut(im, x, (int)axis[i], -shift[i], INT64_MAX);
        part[1] = aten_cut(im, x, (int)axis[i], 0, -shift[i]);
        x = join(im, (int)axis[i], 2, part);
    }
    return aten_same(im, 0, x);
}

/* fliplr, flipud: the dimension is the row's. */
int aten_flip_one(struct onnx_import *im)
{
    return ATEN_LAST(im, "Slice", NULL, aten_tensor(im, "self"),
                     aten_list1(im, -1), aten_list1(im, INT64_MIN),
                     aten_list1(im, aten_row(im)->param), aten_list1(im, -1));
}

int aten_flip(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    int64_t axis[INFER_MAX_RANK];
    const int n = aten_ints(im, "dims", INFER_MAX_RANK, axis);

    for (int i = 0; i < n; i++)
        x = ATEN_STEP(im, "Slice", NULL, x, aten_list1(im, -1),
                      aten_list1(im, INT64_MIN), aten_list1(im, axis[i]),
                      aten_list1(im, -1));
    return aten_same(im, 0, x);
}

/* A view by strides, where these are of the tensor as it lies: a reshape. */
int aten_as_strided(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    int64_t size[INFER_MAX_RANK], stride[INFER_MAX_RANK], dense = 1;
    const int n = aten_ints(im, "size", INFER_MAX_RANK, size);
    const int strides = aten_ints(im, "stride", INFER_MAX_RANK, stride);
    bool same =
        n >= 0 && strides == n && aten_int(im, "storage_offset", 0) == 0;

    for (int d = n - 1; d >= 0 && same; d--) {
        same = size[d] > 0 && (size[d] == 1 || stride[d] == dense) &&
               size[d] <= INT64_MAX / dense;
        dense *= same ? size[d] : 1;
    }
    for (int d = 0; d < aten_rank(im, x) && im->rc == 0; d++)
        if (aten_dim(im, x, d) > 0 && dense % aten_dim(im, x, d) == 0)
            dense /= aten_dim(im, x, d);
        else
            same = false;
    if (!same || dense != 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "strides other than those of a dense tensor");
    return ATEN_LAST(im, "Reshape", NULL, x, aten_list(im, n, size));
}

/* ---- sizes --------------------------------------------------------- */

int aten_sym_size(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int axis = aten_axis(im, "dim", aten_rank(im, x), 0);
    struct pb_span part = shape_part(im, x, axis, axis + 1);

    return ATEN_LAST(im, "Squeeze", NULL, part, aten_list1(im, 0));
}

int aten_sym_numel(struct onnx_import *im)
{
    return ATEN_LAST(im, "Size", NULL, aten_tensor(im, "self"));
}
