/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and its transpose: attributes and shapes. */
#include "libinfer/graph/ops/op.h"

static struct op_window window_at(const struct kern_conv *conv, int i,
                                  int64_t in, int64_t window)
{
    return (struct op_window){
        .in = in,
        .window = window,
        .stride = conv->stride[i],
        .dilation = conv->dilation[i],
        .pad_begin = conv->pad_begin[i],
        .pad_end = conv->pad_end[i],
    };
}

/* ---- transposed ---------------------------------------------------- */

static int check_transposed(const struct graph_conv *conv, int i,
                            const struct op_window *w, struct infer_error *err)
{
    int rc = op_window_check(w, err);

    if (rc == INFER_OK)
        rc = op_need_range("output_pad", conv->output_pad[i], 0, OP_MAX_STEP,
                           err);
    if (rc == INFER_OK)
        rc = op_need_range("output_size", conv->output_size[i], 0, OP_MAX_COUNT,
                           err);
    return rc;
}

/* One dimension.  ONNX: a given output size, or SAME (input * stride), decides
 * the pads; only SAME_UPPER puts the odd one at the end. */
static int transposed_extent(const struct graph_conv *conv, int i,
                             struct op_window *w, int64_t *extent,
                             struct infer_error *err)
{
    bool same = conv->auto_pad == GRAPH_PAD_SAME_UPPER ||
                conv->auto_pad == GRAPH_PAD_SAME_LOWER;
    int64_t effective = 1, full, want = conv->output_size[i];
    int rc = check_transposed(conv, i, w, err);

    if (rc < 0)
        return rc;
    if (conv->auto_pad != GRAPH_PAD_EXPLICIT)
        w->pad_begin = w->pad_end = 0;
    if (same && want == 0 && w->in > 0 &&
        !checked_mul_i64(w->in, w->stride, &want))
        return error_set(err, INFER_EFORMAT, "the output is too large");
    *extent = want > 0 ? want : -1;
    if (w->in < 0 || w->window < 0)
        return INFER_OK;
    rc = op_window_effective(w, &effective, err);
    if (rc < 0)
        return rc;
    if (w->in < 1 || !checked_mul_i64(w->in - 1, w->stride, &full) ||
        full > OP_MAX_COUNT)
        return error_set(err, INFER_EFORMAT,
                         "an input of %lld with stride %d is not possible",
                         (long long)w->in, w->stride);
    full += effective;
    if (want > 0) {
        int64_t total = full + conv->output_pad[i] - want;

        rc = op_window_split(total > 0 ? total : 0,
                             conv->auto_pad != GRAPH_PAD_SAME_UPPER, w, err);
        if (rc < 0)
            return rc;
    } else {
        want = full - w->pad_begin - w->pad_end + conv->output_pad[i];
        if (want < 1)
            return error_set(err, INFER_EFORMAT,
                             "pads %d and %d leave nothing of %lld",
                             w->pad_begin, w->pad_end, (long long)full);
    }
    if (want - full > OP_MAX_STEP)
        return error_set(err, INFER_EFORMAT, "output size %lld is too large",
                         (long long)want);
    w->pad_end = (int)(full - w->pad_begin - want);
    *extent = want;
    return INFER_OK;
}

static int resolve(const struct graph_conv *conv, bool transposed, int spatial,
                   const int64_t *in_extent, const int64_t *window,
                   struct kern_conv *out, int64_t *out_extent,
                   struct infer_error *err)
{
    int i;

    *out = conv->conv;
    for (i = 0; i < spatial; i++) {
        struct op_window w = window_at(&conv->conv, i, in_extent[i], window[i]);
        int rc = transposed
                     ? transposed_extent(conv, i, &w, &out_extent[i], err)
                     : op_window_extent(conv->auto_pad, false, &w,
                                        &out_extent[i], err);

        if (rc < 0)
            return rc;
        out->pad_begin[i] = w.pad_begin;
        out->pad_end[i] = w.pad_end;
    }
    return INFER_OK;
}

int op_conv_resolve(const struct graph_conv *conv, int spatial,
                    const int64_t *in_extent, const int64_t *window,
                    struct kern_conv *out, int64_t *out_extent,
                    struct infer_error *err)
{
    return resolve(conv, false, spatial, in_extent, window, out, out_extent,
                   err);
}

int op_conv_transpose_resolve(const struct graph_conv *conv, int spatial,
                              const int64_t *in_extent, const int64_t *window,
                              struct kern_conv *out, int64_t *out_extent,
                              struct infer_error *err)
{
    return resolve(conv, true, spatial, in_extent, window, out, out_extent,
                   err);
}

/* ---- rules --------------------------------------------------------- */

/* Checks of both: ranks, groups, channels.  x has C channels; the weight is
 * K,C/groups or, transposed, C,K/groups.  Sets *k. */
static int channels(const struct graph_shape_args *args, bool transposed,
                    int64_t *k, struct infer_error *err)
{
    const struct graph_type *x = &args->in[0], *w = &args->in[1];
    int groups = args->attr->conv.conv.groups;
    int64_t c = x->rank >= 2 ? x->dim[1] : -1, per_group;
    char xs[OP_TEXT], ws[OP_TEXT];
    int rc = op_need_spatial(x, err);

    *k = -1;
    if (rc < 0)
        return rc;
    if (w->rank < 0)
        return INFER_OK;
    if (w->rank < 3 || w->rank > 2 + KERN_MAX_SPATIAL ||
        (x->rank >= 0 && x->rank != w->rank))
        return error_set(err, INFER_EFORMAT,
                         "weight is %s and does not fit input %s",
                         op_text(w, ws), op_text(x, xs));
    per_group = transposed ? w->dim[0] : w->dim[1];
    if (!transposed && per_group >= 0 &&
        !checked_mul_i64(per_group, groups, &per_group))
        per_group = INT64_MAX;
    if (!op_fits(c, per_group))
        return error_set(err, INFER_EFORMAT,
                         "weight is %s with %d groups and does not fit input "
                         "%s",
                         op_text(w, ws), groups, op_text(x, xs));
    if (w->dim[0] >= 0 && w->dim[0] % groups != 0)
        return error_set(err, INFER_EFORMAT,
                         "weight is %s: %lld channels do not divide into %d "
                         "groups",
                         op_text(w, ws), (long long)w->dim[0], groups);
    *k = transposed ? w->dim[1] : w->dim[0];
    if (transposed && *k >= 0 && !checked_mul_i64(*k, groups, k))
        return error_set(err, INFER_EFORMAT, "the output is too large");
    return INFER_OK;
}

static int infer(const struct graph_shape_args *args, bool transposed,
                 struct infer_error *err)
{
    static const int64_t unknown[KERN_MAX_SPATIAL] = {-1, -1, -1};
    const struct graph_type *x = &args->in[0], *w = &args->in[1];
    const struct graph_conv *attr = &args->attr->conv;
    struct graph_type *out = &args->out[0];
    /* Attributes are checked even where neither rank is known. */
    int spatial = x->rank > 0 ? x->rank - 2 : w->rank > 0 ? w->rank - 2 : 1;
    int64_t extent[KERN_MAX_SPATIAL], k = -1;
    struct kern_conv resolved;
    int rc, i;

    rc = op_need_range("groups", attr->conv.groups, 1, OP_MAX_STEP, err);
    if (rc == INFER_OK)
        rc = op_need_float(args, err);
    if (rc == INFER_OK)
        rc = channels(args, transposed, &k, err);
    if (rc == INFER_OK)
        rc = op_need_vector(args, 2, "bias", k, err);
    if (rc < 0)
        return rc;
    rc = resolve(attr, transposed, spatial, x->rank > 0 ? x->dim + 2 : unknown,
                 w->rank > 0 ? w->dim + 2 : unknown, &resolved, extent, err);
    if (rc < 0)
        return rc;
    out->dtype = x->dtype;
    if (x->rank < 0 && w->rank < 0)
        return INFER_OK;
    out->rank = 2 + spatial;
    out->dim[0] = x->rank > 0 ? x->dim[0] : -1;
    out->dim[1] = k;
    for (i = 0; i < spatial; i++)
        out->dim[2 + i] = extent[i];
    return INFER_OK;
}

int op_conv_shape(struct graph_shape_args *args, struct infer_error *err)
{
    return infer(args, false, err);
}

int op_conv_transpose_shape(struct graph_shape_args *args,
                            struct infer_error *err)
{
    return infer(args, true, err);
}
