/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and pools. */
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"
#include "weights/onnx/composed/compose.h"

#define MAX_SPACE 3
/* Of an adaptive pool, along an axis of free size. */
#define MAX_FREE_WINDOWS 64

/* ONNX has the paddings at the beginnings, then those at the ends. */
static void set_pads(struct aten_attrs *a, int n, const int64_t *pad,
                     int64_t *both)
{
    for (int i = 0; i < n; i++)
        both[i] = both[n + i] = pad[i];
    aten_set_ints(a, "pads", both, 2 * n);
}

/* Axes of space of a picture; one without a batch is refused. */
static int space_of(struct onnx_import *im, struct pb_span x, int space)
{
    const int n = aten_rank(im, x) - 2;

    if (im->rc < 0)
        return 1;
    if (n < 1 || n > MAX_SPACE || (space > 0 && n != space)) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "an input of rank %d: a picture with batch and channels has "
                  "%d",
                  n + 2, (space > 0 ? space : 2) + 2);
        return 1;
    }
    return n;
}

/* A picture without a batch becomes a batch of one; whether it was one. */
static bool add_batch(struct onnx_import *im, struct pb_span *x, int space)
{
    if (im->rc < 0 || space < 1 || aten_rank(im, *x) != space + 1)
        return false;
    *x = ATEN_STEP(im, "Unsqueeze", NULL, *x, aten_list1(im, 0));
    return true;
}

/* The node's output, without the batch that was added. */
static int give_picture(struct onnx_import *im, bool added, const char *op,
                        const struct aten_attrs *a, int n_in,
                        const struct pb_span *in)
{
    if (!added)
        return aten_give(im, 0, op, a, n_in, in);
    return ATEN_LAST(im, "Squeeze", NULL, aten_step(im, op, a, n_in, in),
                     aten_list1(im, 0));
}

/* ---- convolutions -------------------------------------------------- */

/* padding="same" puts the odd element behind. */
static void same_padding(struct onnx_import *im, struct aten_attrs *a, int n,
                         struct pb_span w, const int64_t *dilation,
                         int64_t *both)
{
    for (int i = 0; i < n; i++) {
        const int64_t total = dilation[i] * (aten_dim(im, w, 2 + i) - 1);

        both[i] = total / 2;
        both[n + i] = total - total / 2;
    }
    aten_set_ints(a, "pads", both, 2 * n);
}

/* param: axes of space, or 0 for those of the weights; negative: transposed. */
int aten_conv(struct onnx_import *im)
{
    const int param = aten_row(im)->param;
    const bool turned = aten_flag(im, "transposed", param < 0);
    struct pb_span x = aten_tensor(im, "input");
    const struct pb_span w = aten_tensor(im, "weight");
    const bool added = add_batch(im, &x, param < 0 ? -param : param);
    const struct aten_arg *how = aten_find(im, "padding");
    int64_t stride[MAX_SPACE], pad[MAX_SPACE] = {0}, dilation[MAX_SPACE];
    int64_t extra[MAX_SPACE], both[2 * MAX_SPACE];
    struct aten_attrs a = {.n = 0};
    const int n = space_of(im, x, param < 0 ? -param : param);

    aten_each(im, "stride", n, 1, stride);
    aten_each(im, "dilation", n, 1, dilation);
    aten_each(im, "output_padding", n, 0, extra);
    if (how && how->kind == ATEN_TEXT && pb_span_is(how->text, "same")) {
        same_padding(im, &a, n, w, dilation, both);
    } else {
        if (!how || how->kind != ATEN_TEXT)
            aten_each(im, "padding", n, 0, pad);
        else if (!pb_span_is(how->text, "valid"))
            return onnx_fail(im, INFER_EUNSUPPORTED, "padding '%.*s'",
                             PB_TEXT(how->text, 64));
        set_pads(&a, n, pad, both);
    }
    aten_set_ints(&a, "strides", stride, n);
    aten_set_ints(&a, "dilations", dilation, n);
    aten_set_int(&a, "group", aten_int(im, "groups", 1));
    if (turned)
        aten_set_ints(&a, "output_padding", extra, n);
    return give_picture(im, added, turned ? "ConvTranspose" : "Conv", &a,
                        ATEN_N(x, w, aten_optional(im, "bias")));
}

/* torchvision's, whose offsets and masks lie as ONNX's do. */
int aten_deform_conv(struct onnx_import *im)
{
    const int64_t stride[2] = {aten_int(im, "stride_h", 1),
                               aten_int(im, "stride_w", 1)};
    const int64_t h = aten_int(im, "pad_h", 0), w = aten_int(im, "pad_w", 0);
    const int64_t pads[4] = {h, w, h, w};
    const int64_t dilation[2] = {aten_int(im, "dilation_h", 1),
                                 aten_int(im, "dilation_w", 1)};
    struct pb_span mask = aten_no_input();
    struct aten_attrs a = {.n = 0};

    if (aten_flag(im, "use_mask", true))
        mask = aten_optional(im, "mask");
    aten_set_ints(&a, "strides", stride, 2);
    aten_set_ints(&a, "pads", pads, 4);
    aten_set_ints(&a, "dilations", dilation, 2);
    aten_set_int(&a, "group", aten_int(im, "groups", 1));
    aten_set_int(&a, "offset_group", aten_int(im, "offset_groups", 1));
    return ATEN_LAST(im, "DeformConv", &a, aten_tensor(im, "input"),
                     aten_tensor(im, "weight"), aten_tensor(im, "offset"),
                     aten_optional(im, "bias"), mask);
}

/* torchvision's: boxes are rows of the picture and four corners. */
int aten_roi_align(struct onnx_import *im)
{
    const struct pb_span boxes = aten_tensor(im, "rois");
    struct pb_span picture;
    struct aten_attrs a = {.n = 0}, squeeze = {.n = 0};

    picture = aten_cast(im, aten_cut(im, boxes, 1, 0, 1), INFER_I64);
    picture = ATEN_STEP(im, "Squeeze", &squeeze, picture, aten_list1(im, 1));
    aten_set_int(&a, "output_height", aten_int(im, "pooled_height", 1));
    aten_set_int(&a, "output_width", aten_int(im, "pooled_width", 1));
    aten_set_int(&a, "sampling_ratio",
                 aten_int(im, "sampling_ratio", 0) < 0
                     ? 0
                     : aten_int(im, "sampling_ratio", 0));
    aten_set_float(&a, "spatial_scale", aten_number(im, "spatial_scale", 1));
    aten_set_word(&a, "coordinate_transformation_mode",
                  aten_flag(im, "aligned", false) ? "half_pixel"
                                                  : "output_half_pixel");
    return ATEN_LAST(im, "RoiAlign", &a, aten_tensor(im, "input"),
                     aten_cut(im, boxes, 1, 1, 5), picture);
}

/* ---- pools --------------------------------------------------------- */

/* The window, and the stride, which is the window where it is not given. */
static void set_window(struct onnx_import *im, struct aten_attrs *a, int n,
                       int64_t *window, int64_t *stride)
{
    int64_t given[MAX_SPACE];

    if (im->rc == 0 && !aten_has(im, "kernel_size"))
        onnx_fail(im, INFER_EFORMAT, "argument 'kernel_size' is missing");
    aten_each(im, "kernel_size", n, 1, window);
    aten_each(im, "stride", n, 1, stride);
    if (aten_ints(im, "stride", MAX_SPACE, given) <= 0)
        memcpy(stride, window, (size_t)n * sizeof *stride);
    aten_set_ints(a, "kernel_shape", window, n);
    aten_set_ints(a, "strides", stride, n);
}

/* Pads of a pool are at most half of its window, as PyTorch demands. */
static void set_pool_pads(struct onnx_import *im, struct aten_attrs *a, int n,
                          const int64_t *window, int64_t *both)
{
    int64_t pad[MAX_SPACE];

    aten_each(im, "padding", n, 0, pad);
    for (int i = 0; i < n && im->rc == 0; i++)
        if (pad[i] < 0 || pad[i] > window[i] / 2)
            onnx_fail(im, INFER_EFORMAT,
                      "a window of %lld with a padding of %lld",
                      (long long)window[i], (long long)pad[i]);
    set_pads(a, n, pad, both);
}

/* PyTorch counts the places of maxima in each channel, ONNX in the whole. */
static int pool_with_indices(struct onnx_import *im, struct aten_attrs *a,
                             struct pb_span x)
{
    aten_set_int(a, "aten_within_channels", 1);
    return onnx_steps(im, "MaxPool", &x, 1, im->node->out, 2, a->item, a->n);
}

int aten_max_pool(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    const bool added = add_batch(im, &x, aten_row(im)->param);
    const int n = space_of(im, x, aten_row(im)->param);
    int64_t window[MAX_SPACE], stride[MAX_SPACE];
    int64_t dilation[MAX_SPACE], both[2 * MAX_SPACE];
    struct aten_attrs a = {.n = 0};

    set_window(im, &a, n, window, stride);
    aten_each(im, "dilation", n, 1, dilation);
    set_pool_pads(im, &a, n, window, both);
    aten_set_ints(&a, "dilations", dilation, n);
    aten_set_int(&a, "ceil_mode", aten_flag(im, "ceil_mode", false));
    if (im->node->n_out < 2 || im->node->out[1].bytes == 0 ||
        !aten_is_read(im, im->node->out[1]))
        return give_picture(im, added, "MaxPool", &a, 1, &x);
    if (added)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "places of maxima without a batch");
    return pool_with_indices(im, &a, x);
}

/* Values at indices into the channels of a result of zeros. */
int aten_max_unpool(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    const int n = aten_row(im)->param;
    int64_t size[MAX_SPACE], dim[INFER_MAX_RANK], plane = 1;
    struct aten_attrs axis = {.n = 0}, first = {.n = 0};
    struct pb_span zeros, y, list;

    aten_each(im, "output_size", n, 1, size);
    if (im->rc < 0 || aten_rank(im, x) != n + 2)
        return onnx_fail(im, INFER_EUNSUPPORTED, "an input of rank %d",
                         aten_rank(im, x));
    for (int d = 0; d < n + 2; d++) {
        dim[d] = d < 2 ? 0 : size[d - 2]; /* 0: as it is */
        if (d >= 2 &&
            (dim[d] < 1 || dim[d] > INT32_MAX || (plane *= dim[d]) > INT32_MAX))
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "a size that is free or too large");
    }
    aten_set_int(&first, "axis", 0);
    list = ATEN_STEP(im, "Concat", &first,
                     aten_cut(im, ATEN_STEP(im, "Shape", NULL, x), 0, 0, 2),
                     aten_list1(im, plane));
    zeros = ATEN_STEP(im, "Expand", NULL,
                      aten_scalar(im, aten_type_of(im, x), 0), list);
    list = aten_list(im, 3, (int64_t[]){0, 0, -1});
    aten_set_int(&axis, "axis", 2);
    y = ATEN_STEP(
        im, "ScatterElements", &axis, zeros,
        ATEN_STEP(im, "Reshape", NULL, aten_tensor(im, "indices"), list),
        ATEN_STEP(im, "Reshape", NULL, x, list));
    return ATEN_LAST(im, "Reshape", NULL, y, aten_list(im, n + 2, dim));
}

/* x with zeros around it, so that no window of ceil_mode is cut off. */
static struct pb_span pad_windows(struct onnx_import *im, struct pb_span x,
                                  int n, const int64_t *window,
                                  const int64_t *stride, const int64_t *pad)
{
    int64_t pads[2 * (2 + MAX_SPACE)] = {0};
    const int rank = n + 2;

    for (int i = 0; i < n && im->rc == 0; i++) {
        const int64_t size = aten_dim(im, x, 2 + i), step = stride[i];
        int64_t more, windows;

        if (window[i] < 1 || step < 1) {
            onnx_fail(im, INFER_EFORMAT, "windows of %lld every %lld",
                      (long long)window[i], (long long)step);
            break;
        }
        if (size < 1 || size > INT32_MAX || window[i] > INT32_MAX ||
            step > INT32_MAX || size + 2 * pad[i] < window[i]) {
            onnx_fail(im, INFER_EUNSUPPORTED,
                      "a divisor of its own with ceil_mode and free sizes");
            break;
        }
        more = size + 2 * pad[i] - window[i];
        windows = (more + step - 1) / step;
        /* The last window begins within the input or the pad before it. */
        if (windows * step >= size + pad[i])
            windows--;
        pads[2 + i] = pad[i];
        pads[rank + 2 + i] = windows * step + window[i] - size - pad[i];
    }
    return ATEN_STEP(im, "Pad", NULL, x, aten_list(im, 2 * rank, pads));
}

int aten_avg_pool(struct onnx_import *im)
{
    struct pb_span x = aten_tensor(im, "self");
    const bool added = add_batch(im, &x, aten_row(im)->param);
    const int n = space_of(im, x, aten_row(im)->param);
    const bool own = aten_has(im, "divisor_override");
    const bool ceil_mode = aten_flag(im, "ceil_mode", false);
    int64_t window[MAX_SPACE], stride[MAX_SPACE], both[2 * MAX_SPACE];
    struct aten_attrs a = {.n = 0}, padded = {.n = 0};
    double divisor = 1;

    set_window(im, &a, n, window, stride);
    padded = a;
    set_pool_pads(im, &a, n, window, both);
    aten_set_int(&a, "ceil_mode", ceil_mode);
    aten_set_int(&a, "count_include_pad",
                 own || aten_flag(im, "count_include_pad", true));
    if (!own)
        return give_picture(im, added, "AveragePool", &a, 1, &x);
    for (int i = 0; i < n; i++)
        divisor *= (double)window[i];
    if (aten_int(im, "divisor_override", 1) < 1)
        return onnx_fail(im, INFER_EFORMAT, "a divisor that is not positive");
    if (ceil_mode) {
        x = pad_windows(im, x, n, window, stride, both);
        a = padded;
    }
    x = aten_mul(im, ATEN_STEP(im, "AveragePool", &a, x),
                 divisor / (double)aten_int(im, "divisor_override", 1));
    return give_picture(im, added, "Identity", NULL, 1, &x);
}

/* ---- pools to a size ----------------------------------------------- */

/* Window i of `to` over `size` elements begins at floor(i size / to) and ends
 * at ceil((i + 1) size / to). */
static struct pb_span windows_along(struct onnx_import *im, struct pb_span x,
                                    int axis, int64_t size, int64_t to)
{
    const char *const op = aten_row(im)->onnx;
    struct pb_span part[256];
    struct aten_attrs keep = {.n = 0}, a = {.n = 0};

    if (size == to || im->rc < 0)
        return x;
    if (to > 256) {
        onnx_fail(im, INFER_EUNSUPPORTED, "%lld windows along an axis",
                  (long long)to);
        return x;
    }
    aten_set_int(&keep, "keepdims", 1);
    aten_set_int(&a, "axis", axis);
    for (int64_t i = 0; i < to && im->rc == 0; i++)
        part[i] = ATEN_STEP(im, op, &keep,
                            aten_cut(im, x, axis, i * size / to,
                                     ((i + 1) * size + to - 1) / to),
                            aten_list1(im, axis));
    return aten_step(im, "Concat", &a, (int)to, part);
}

/* Which of the entries of an axis of x, which is free, are in each window:
 * to,size, of truth values; *wide: how many, to,1. */
static int inside_windows(struct onnx_import *im, int x, int axis, int64_t to,
                          int *wide)
{
    const int n = compose_entries(im, x, axis);
    const int count = compose_integer(im, INFER_I64, to);
    const int i = compose_count(im, to, 2, 0);
    const int at = compose_count_of(im, x, axis, 2, 1);
    int begin =
        compose_binary(im, KERN_DIV, compose_binary(im, KERN_MUL, i, n), count);
    int end =
        compose_binary(im, KERN_ADD, i, compose_integer(im, INFER_I64, 1));

    end = compose_binary(im, KERN_MUL, end, n);
    end = compose_binary(im, KERN_ADD, end,
                         compose_integer(im, INFER_I64, to - 1));
    end = compose_binary(im, KERN_DIV, end, count);
    *wide = compose_binary(im, KERN_SUB, end, begin);
    begin = compose_binary(im, KERN_GREATER_EQUAL, at, begin);
    end = compose_binary(im, KERN_LESS, at, end);
    return compose_binary(im, KERN_AND, begin, end);
}

/* The windows one after the other: what is outside a window is replaced, as a
 * product with 0 would let infinities and NaN in. */
static int pool_freely(struct onnx_import *im, int x, int axis, int64_t to)
{
    const bool max = strcmp(aten_row(im)->onnx, "ReduceMax") == 0;
    const int last = compose_rank(im, x) - 1;
    int64_t line[INFER_MAX_RANK];
    int part[MAX_FREE_WINDOWS], wide, inside, none, y;

    if (im->rc < 0 || to < 1 || to > MAX_FREE_WINDOWS) {
        onnx_fail(im, INFER_EUNSUPPORTED, "%lld windows along a free axis",
                  (long long)to);
        return -1;
    }
    inside = inside_windows(im, x, axis, to, &wide);
    none = compose_number(im, compose_dtype(im, x), max ? -INFINITY : 0);
    for (int d = 0; d <= last; d++)
        line[d] = d == axis ? -1 : 1;
    for (int i = 0; i < to; i++) {
        y = compose_reshape(im, compose_slice(im, inside, 0, i, i + 1, 1),
                            last + 1, line);
        part[i] = compose_reduce(im, max ? KERN_REDUCE_MAX : KERN_REDUCE_SUM,
                                 compose_where(im, y, x, none), axis);
    }
    y = to == 1 ? part[0] : compose_concat(im, (int)to, part, axis);
    if (max)
        return y;
    wide = compose_cast(im, compose_dtype(im, x), wide);
    return compose_binary(im, KERN_DIV, y,
                          compose_reshape(im, wide, last + 1, line));
}

/* The same of a tensor by name. */
static struct pb_span windows_freely(struct onnx_import *im, struct pb_span x,
                                     int axis, int64_t to)
{
    struct pb_span name = onnx_fresh_name(im, x);
    int v = onnx_value_find(im, x), value = -1;

    if (im->rc < 0 || v < 0 || onnx_value_graph(im, v, &value) < 0)
        return x;
    value = pool_freely(im, value, axis, to);
    if (im->rc == 0 && onnx_value_get(im, name, &v) == 0) {
        im->value[v].state = ONNX_GRAPH;
        im->value[v].graph = value;
    }
    return name;
}

/* Where the size is a multiple of the result's: a plain pool. */
static struct pb_span plain_pool(struct onnx_import *im, struct pb_span x,
                                 int n, const int64_t *size, const int64_t *to)
{
    const bool max = strcmp(aten_row(im)->onnx, "ReduceMax") == 0;
    struct aten_attrs a = {.n = 0};
    int64_t window[MAX_SPACE];

    for (int i = 0; i < n; i++)
        window[i] = size[i] / to[i];
    aten_set_ints(&a, "kernel_shape", window, n);
    aten_set_ints(&a, "strides", window, n);
    return ATEN_STEP(im, max ? "MaxPool" : "AveragePool", &a, x);
}

/* Whether a computed number is the size of an axis at every probe. */
static bool is_size_of(struct onnx_import *im, const struct aten_arg *a,
                       struct pb_span x, int axis)
{
    const struct onnx_small *const *small = NULL;
    struct pb_span now;

    if (a->kind == ATEN_VALUE && aten_alias_read(im, a->text, &now) == 0)
        small = onnx_small_named(im, now);
    if (!small || im->value[onnx_value_find(im, now)].sized)
        return false;
    for (int p = 0; p < im->probes; p++)
        if (small[p]->count != 1 || !small[p]->i ||
            small[p]->i[0] != onnx_type_named(im, x, p).dim[axis])
            return false;
    return true;
}

/* The sizes of the result; -1: that of the axis, which is free. */
static int read_output_size(struct onnx_import *im, const struct aten_arg *want,
                            struct pb_span x, int n, int64_t *to)
{
    bool computed = false;

    for (int i = 0; want->kind == ATEN_LIST && i < want->n; i++)
        computed |= want->item[i].kind == ATEN_VALUE;
    if (!computed || want->n != n)
        return aten_each(im, "output_size", n, 1, to);
    for (int i = 0; i < n && im->rc == 0; i++)
        if (want->item[i].kind == ATEN_INT)
            to[i] = want->item[i].i;
        else if (is_size_of(im, &want->item[i], x, 2 + i))
            to[i] = aten_dim(im, x, 2 + i);
        else
            onnx_fail(im, INFER_EUNSUPPORTED,
                      "a pool to a size that is computed");
    return im->rc;
}

int aten_adaptive_pool(struct onnx_import *im)
{
    const bool max = strcmp(aten_row(im)->onnx, "ReduceMax") == 0;
    struct pb_span x = aten_tensor(im, "self");
    const bool added = add_batch(im, &x, aten_row(im)->param);
    const int n = space_of(im, x, aten_row(im)->param);
    const struct aten_arg *want = aten_find(im, "output_size");
    int64_t to[MAX_SPACE], size[MAX_SPACE];
    bool all_one = true, plain = true;

    if (!want)
        return im->rc < 0 ? im->rc
                          : onnx_fail(im, INFER_EFORMAT,
                                      "argument 'output_size' is missing");
    read_output_size(im, want, x, n, to);
    for (int i = 0; i < n && im->rc == 0; i++) {
        size[i] = aten_dim(im, x, 2 + i);
        if (want->kind == ATEN_LIST && i < want->n &&
            want->item[i].kind == ATEN_NONE)
            to[i] = size[i];
        all_one &= to[i] == 1;
        if (to[i] < 1 && size[i] >= 0)
            return onnx_fail(im, INFER_EFORMAT, "a pool to a size of %lld",
                             (long long)to[i]);
    }
    if (im->rc < 0)
        return im->rc;
    if (all_one)
        return give_picture(im, added,
                            max ? "GlobalMaxPool" : "GlobalAveragePool", NULL,
                            1, &x);
    for (int i = 0; i < n; i++)
        if (size[i] == 0 || size[i] > 1 << 20)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "an adaptive pool of %lld entries",
                             (long long)size[i]);
        else
            plain &= size[i] > 0 && size[i] % to[i] == 0;
    if (plain)
        x = plain_pool(im, x, n, size, to);
    for (int i = 0; i < n && !plain; i++)
        if (size[i] > 0)
            x = windows_along(im, x, 2 + i, size[i], to[i]);
        else if (to[i] != size[i]) /* a size that is kept is -1 in both */
            x = windows_freely(im, x, 2 + i, to[i]);
    return give_picture(im, added, "Identity", NULL, 1, &x);
}

/* ---- windows as columns -------------------------------------------- */

/* The inverse of an unfolding: columns of windows are added into a picture. */
int aten_col2im(struct onnx_import *im)
{
    int64_t pad[2], dilation[2], stride[2], both[4];
    struct aten_attrs a = {.n = 0};

    aten_each(im, "padding", 2, 0, pad);
    aten_each(im, "dilation", 2, 1, dilation);
    aten_each(im, "stride", 2, 1, stride);
    set_pads(&a, 2, pad, both);
    aten_set_ints(&a, "dilations", dilation, 2);
    aten_set_ints(&a, "strides", stride, 2);
    return ATEN_LAST(im, "Col2Im", &a, aten_tensor(im, "self"),
                     aten_sizes(im, "output_size", 0, 0),
                     aten_sizes(im, "kernel_size", 0, 0));
}

/* Windows as columns, by a convolution with one filter an element of the
 * window: N,C,H,W -> N C,1,H,W -> N C,R S,P,Q -> N,C R S,P Q. */
int aten_im2col(struct onnx_import *im)
{
    const struct pb_span x = aten_tensor(im, "self");
    int64_t window[2], pad[2], dilation[2], stride[2], both[4], dim[4];
    struct aten_attrs a = {.n = 0}, first = {.n = 0};
    const int64_t c = aten_dim(im, x, 1);
    struct pb_span y, h, w;
    struct constant *filter;
    int64_t taps;

    aten_each(im, "kernel_size", 2, 1, window);
    aten_each(im, "padding", 2, 0, pad);
    aten_each(im, "dilation", 2, 1, dilation);
    aten_each(im, "stride", 2, 1, stride);
    if (im->rc < 0 || c < 1 || window[0] < 1 || window[1] < 1 ||
        window[0] > 64 || window[1] > 64 || aten_rank(im, x) != 4)
        return onnx_fail(im, INFER_EUNSUPPORTED, "windows of %lldx%lld",
                         (long long)window[0], (long long)window[1]);
    taps = window[0] * window[1];
    dim[0] = taps;
    dim[1] = 1;
    dim[2] = window[0];
    dim[3] = window[1];
    if (onnx_new_constant(im, INFER_F32, 4, dim, &filter) < 0)
        return im->rc;
    for (int64_t i = 0; i < taps; i++)
        ((float *)filter->data)[i * taps + i] = 1;
    set_pads(&a, 2, pad, both);
    aten_set_ints(&a, "dilations", dilation, 2);
    aten_set_ints(&a, "strides", stride, 2);
    h = aten_step(im, "Shape", NULL, 1, &x);
    w = aten_cut(im, h, 0, 2, 4);
    aten_set_int(&first, "axis", 0);
    y = ATEN_STEP(im, "Concat", &first, aten_list(im, 2, (int64_t[]){-1, 1}),
                  w);
    y = ATEN_STEP(im, "Reshape", NULL, x, y);
    y = ATEN_STEP(im, "Conv", &a, y, onnx_step_constant(im, filter));
    w = ATEN_STEP(im, "Concat", &first, aten_cut(im, h, 0, 0, 1),
                  aten_list(im, 2, (int64_t[]){c * taps, -1}));
    return ATEN_LAST(im, "Reshape", NULL, y, w);
}
