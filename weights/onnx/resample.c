/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Pad, Upsample, Resize, DepthToSpace, SpaceToDepth. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"

/* An axis of the file among `rank`, which no other before it is. */
static int one_axis(struct onnx_import *im, int64_t stated, int rank,
                    unsigned *seen, int *axis)
{
    if (stated < -rank || stated >= rank)
        return onnx_fail(im, INFER_EFORMAT,
                         "axis %lld is outside a tensor of rank %d",
                         (long long)stated, rank);
    im->rc = op_axis_once((int)stated, rank, seen, axis, im->err);
    return im->rc;
}

/* ---- Pad ----------------------------------------------------------- */

/* Pads before and after each axis, one number a probe. */
struct pads {
    int64_t before[INFER_MAX_RANK][ONNX_PROBES];
    int64_t after[INFER_MAX_RANK][ONNX_PROBES];
};

/* The list of pads at a probe: an attribute, or input 1 from opset 11 on. */
static int list_pads(struct onnx_import *im, int probe, int64_t *amount, int *n)
{
    const struct onnx_small *const *small;

    if (im->opset < 11)
        return onnx_ints(im, im->opset < 2 ? "paddings" : "pads",
                         2 * INFER_MAX_RANK, amount, n);
    if (onnx_input_small(im, 1, &small) < 0)
        return im->rc;
    if (!small || onnx_small_is_free(im, small))
        return onnx_fail(
            im, INFER_EUNSUPPORTED, "pads must be a constant, but %s",
            small ? "their number is free" : "they are computed at run time");
    if (!small[probe]->i || small[probe]->rank > 1 ||
        small[probe]->count > 2 * INFER_MAX_RANK)
        return onnx_fail(im, INFER_EFORMAT, "pads of rank %d and type %s",
                         small[probe]->rank,
                         infer_dtype_name(small[probe]->dtype));
    *n = (int)small[probe]->count;
    memcpy(amount, small[probe]->i, (size_t)*n * sizeof(*amount));
    return 0;
}

static int read_pads(struct onnx_import *im, int rank, struct pads *pads)
{
    int64_t amount[2 * INFER_MAX_RANK], axis[INFER_MAX_RANK];
    int at[INFER_MAX_RANK] = {0}, n = -1, n_axes = -1, i, p;
    unsigned seen = 0;

    memset(pads, 0, sizeof *pads);
    if (im->opset >= 18)
        onnx_input_ints(im, 3, "axes", INFER_MAX_RANK, axis, &n_axes);
    if (n_axes < 0)
        for (n_axes = 0; n_axes < rank; n_axes++)
            axis[n_axes] = n_axes;
    for (i = 0; i < n_axes && im->rc == 0; i++)
        one_axis(im, axis[i], rank, &seen, &at[i]);
    for (p = 0; p < im->probes && im->rc == 0; p++) {
        if (list_pads(im, p, amount, &n) < 0)
            return im->rc;
        if (n != 2 * n_axes)
            return onnx_fail(im, INFER_EFORMAT, "%d pads, expected %d",
                             n < 0 ? 0 : n, 2 * n_axes);
        for (i = 0; i < n_axes; i++) {
            if (amount[i] < INT32_MIN || amount[i] > INT32_MAX ||
                amount[n_axes + i] < INT32_MIN ||
                amount[n_axes + i] > INT32_MAX)
                return onnx_fail(
                    im, INFER_EFORMAT, "pads %lld and %lld along axis %lld",
                    (long long)amount[i], (long long)amount[n_axes + i],
                    (long long)axis[i]);
            pads->before[at[i]][p] = amount[i];
            pads->after[at[i]][p] = amount[n_axes + i];
        }
    }
    return im->rc;
}

/* Pads of axis d that differ between the probes are left to onnx_pad_to(). */
static bool pad_is_free(const struct onnx_import *im, const struct pads *pads,
                        int d)
{
    for (int p = 1; p < im->probes; p++)
        if (pads->before[d][p] != pads->before[d][0] ||
            pads->after[d][p] != pads->after[d][0])
            return true;
    return false;
}

static int emit_pads(struct onnx_import *im, const struct pads *pads, int rank,
                     union graph_attr *attr)
{
    int64_t size[ONNX_PROBES];
    bool any = false;
    int x;

    for (int d = 0; d < rank; d++) {
        const bool free = pad_is_free(im, pads, d);

        any = any || free;
        attr->pad.begin[d] = free ? 0 : (int)pads->before[d][0];
        attr->pad.end[d] = free ? 0 : (int)pads->after[d][0];
    }
    if (!any)
        return onnx_emit_node(im, GRAPH_PAD, attr, 1);
    onnx_input(im, 0, &x);
    onnx_emit(im, GRAPH_PAD, attr, &x, 1, -1, &x);
    for (int d = 0; d < rank && im->rc == 0; d++) {
        if (!pad_is_free(im, pads, d))
            continue;
        for (int p = 0; p < im->probes; p++)
            size[p] =
                im->type[x][p].dim[d] + pads->before[d][p] + pads->after[d][p];
        x = onnx_pad_to(im, x, d, pads->before[d], size, attr->pad.mode,
                        attr->pad.value);
    }
    return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, x, 0, NULL);
}

/* Attribute 'value', which may be infinite. */
static int pad_value(struct onnx_import *im, float *value)
{
    const struct onnx_attr *a = onnx_attr(im, "value");

    if (!a || a->type != ONNX_ATTR_FLOAT || !isinf(a->f))
        return onnx_float(im, "value", value);
    *value = a->f;
    return im->rc;
}

int onnx_import_pad(struct onnx_import *im)
{
    static const char *const words[] = {"constant", "reflect", "edge", "wrap",
                                        NULL};
    union graph_attr attr;
    struct graph_type t;
    struct pads pads;
    int mode = 0;

    onnx_arity(im, 1, im->opset < 11 ? 1 : 4);
    onnx_defaults(GRAPH_PAD, &attr);
    onnx_word(im, "mode", words, &mode);
    onnx_input_type(im, 0, 0, &t);
    read_pads(im, t.rank, &pads);
    if (im->opset < 11)
        pad_value(im, &attr.pad.value);
    else if (mode == 0)
        onnx_input_float(im, 2, "the pad value", &attr.pad.value);
    attr.pad.mode = (enum kern_pad_mode)mode;
    return im->rc < 0 ? im->rc : emit_pads(im, &pads, t.rank, &attr);
}

/* ---- Resize: what it is to do -------------------------------------- */

/* enum kern_resize_mode in order; the second spellings are old. */
static const char *const resize_modes[] = {"nearest", "linear", "cubic",
                                           "bilinear", NULL};

static int resize_mode(struct onnx_import *im, struct kern_resize *r)
{
    int word = 0;

    onnx_word(im, "mode", resize_modes, &word);
    if (word == 3)
        word = KERN_BILINEAR;
    r->mode = (enum kern_resize_mode)word;
    return im->rc;
}

static int resize_attributes(struct onnx_import *im, struct kern_resize *r)
{
    /* enum kern_resize_coord and kern_nearest_mode in order */
    static const char *const coords[] = {
        "half_pixel", "pytorch_half_pixel",   "align_corners",
        "asymmetric", "half_pixel_symmetric", "tf_half_pixel_for_nn",
        NULL};
    static const char *const nearest[] = {
        "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    int coord = 0, round = 0;

    resize_mode(im, r);
    r->coord = KERN_HALF_PIXEL;
    r->nearest = KERN_ROUND_PREFER_FLOOR;
    r->cubic_a = -0.75f;
    if (im->opset < 11) { /* as Upsample */
        r->coord = KERN_ASYMMETRIC;
        r->nearest = KERN_FLOOR_NEAREST;
        return im->rc;
    }
    onnx_word(im, "coordinate_transformation_mode", coords, &coord);
    onnx_word(im, "nearest_mode", nearest, &round);
    onnx_float(im, "cubic_coeff_a", &r->cubic_a);
    onnx_flag(im, "exclude_outside", &r->exclude_outside);
    onnx_flag(im, "antialias", &r->antialias);
    onnx_ignore(im, "extrapolation_value"); /* of tf_crop_and_resize alone */
    /* the last word: see check_tables() */
    r->coord = coord == 5 ? KERN_ASYMMETRIC : (enum kern_resize_coord)coord;
    r->nearest = (enum kern_nearest_mode)round;
    return im->rc;
}

/* ---- Resize: by how much ------------------------------------------- */

/* The dimensions that scales and sizes speak of. */
static int resize_axes(struct onnx_import *im, int rank, int *axis, int *n)
{
    int64_t value[INFER_MAX_RANK];
    unsigned seen = 0;
    int i, given = -1;

    if (onnx_ints(im, "axes", INFER_MAX_RANK, value, &given) < 0)
        return im->rc;
    *n = given < 0 ? rank : given;
    for (i = 0; i < *n && im->rc == 0; i++)
        one_axis(im, given < 0 ? i : value[i], rank, &seen, &axis[i]);
    return im->rc;
}

static int set_scales(struct onnx_import *im, const float *scale, int64_t count,
                      const int *axis, int n, struct graph_resize *r)
{
    int i;

    if (count != n)
        return onnx_fail(im, INFER_EFORMAT, "%lld scales, expected %d",
                         (long long)count, n);
    for (i = 0; i < n; i++) {
        if (!(scale[i] > 0.0f) || !isfinite(scale[i]))
            return onnx_fail(im, INFER_EFORMAT, "scale %g", (double)scale[i]);
        r->resize.scale[axis[i]] = scale[i];
    }
    return 0;
}

/* Scales as an input; *found tells whether any are there. */
static int scales_input(struct onnx_import *im, int i, const int *axis, int n,
                        struct graph_resize *r, bool *found)
{
    const struct onnx_small *const *s;
    float scale[INFER_MAX_RANK];
    int k;

    *found = false;
    if (onnx_input_small(im, i, &s) < 0 || !onnx_has_input(im, i))
        return im->rc;
    if (!s)
        return onnx_fail(im, INFER_EUNSUPPORTED, "scales must be constant");
    if (!onnx_small_is_fixed(im, s))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "scales depend on a free dimension");
    if (s[0]->count == 0)
        return 0;
    if (!s[0]->d || s[0]->count > INFER_MAX_RANK)
        return onnx_fail(im, INFER_EFORMAT, "scales of a wrong type or number");
    *found = true;
    for (k = 0; k < s[0]->count; k++)
        scale[k] = (float)s[0]->d[k];
    return set_scales(im, scale, s[0]->count, axis, n, r);
}

/* How one size follows from the shapes: fixed or the input's own (AS_STATED, in
 * r->size), a fixed multiple of the input's (MULTIPLE, in r->resize.scale), or
 * in another way. */
enum size_kind { AS_STATED, MULTIPLE, OTHER_SIZE };

static int one_size(struct onnx_import *im, const struct onnx_small *const *s,
                    int i, int axis, struct graph_resize *r,
                    enum size_kind *kind)
{
    struct graph_type first, t;
    bool fixed = true, own = true, ratio = true;
    int p;

    onnx_input_type(im, 0, 0, &first);
    for (p = 0; p < im->probes && im->rc == 0; p++) {
        onnx_input_type(im, 0, p, &t);
        fixed &= s[p]->i[i] == s[0]->i[i];
        own &= s[p]->i[i] == t.dim[axis];
        /* exact: both numbers are far below 2^26 in any real case */
        ratio &= (double)s[p]->i[i] * (double)first.dim[axis] ==
                 (double)s[0]->i[i] * (double)t.dim[axis];
        /* A batch of 1, where 1 is read as any batch. */
        if (im->freed_batch && axis == 0 && s[p]->i[i] == 1)
            own = true;
    }
    if (im->rc < 0)
        return im->rc;
    if (s[0]->i[i] < 1 || s[0]->i[i] > INT32_MAX)
        return onnx_fail(im, INFER_EFORMAT, "size %lld", (long long)s[0]->i[i]);
    r->size[axis] = own ? 0 : s[0]->i[i];
    *kind = own || fixed ? AS_STATED : ratio ? MULTIPLE : OTHER_SIZE;
    if (*kind == MULTIPLE)
        r->resize.scale[axis] =
            (float)((double)s[0]->i[i] / (double)first.dim[axis]);
    return 0;
}

/* True where a value of the graph has the sizes along the axes that follow the
 * free dimensions, at every probe. */
static bool has_sizes(const struct onnx_import *im, int value,
                      const struct onnx_small *const *s, const int *axis, int n,
                      const enum size_kind *kind, int rank)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type *t = &im->type[value][p];

        if (t->rank != rank)
            return false;
        for (int k = 0; k < n; k++)
            if (kind[k] != AS_STATED && t->dim[axis[k]] != s[p]->i[k])
                return false;
    }
    return true;
}

/* A tensor that is made to have them, or -1. */
static int with_sizes(struct onnx_import *im, const struct onnx_small *const *s,
                      const int *axis, int n, const enum size_kind *kind,
                      int rank)
{
    int64_t want[ONNX_PROBES][INFER_MAX_RANK], dim[INFER_MAX_RANK];
    struct constant *one;
    int value;

    for (int d = 0; d < rank; d++) {
        dim[d] = 1;
        for (int p = 0; p < im->probes; p++)
            want[p][d] = 1;
    }
    for (int k = 0; k < n; k++) {
        if (kind[k] == AS_STATED)
            continue;
        for (int p = 0; p < im->probes; p++)
            want[p][axis[k]] = s[p]->i[k];
        if (onnx_size_like_one(im, want, axis[k], rank, dim) < 0)
            return -1;
        dim[axis[k]] = 1;
    }
    if (onnx_new_constant(im, INFER_F32, rank, dim, &one) < 0)
        return -1;
    ((float *)one->data)[0] = 1;
    onnx_add_constant(im, one, &value);
    return onnx_emit_expand(im, value, want, rank, -1, &value) < 0 ? -1 : value;
}

/* The sizes that follow the free dimensions become those of a tensor that has
 * them, *like. */
static int sizes_of_tensor(struct onnx_import *im,
                           const struct onnx_small *const *s, const int *axis,
                           int n, const enum size_kind *kind, int rank,
                           struct graph_resize *r, int *like)
{
    for (int v = 0; v < im->g->n_values; v++)
        if (has_sizes(im, v, s, axis, n, kind, rank)) {
            for (int k = 0; k < n; k++)
                if (kind[k] != AS_STATED)
                    r->size[axis[k]] = GRAPH_SIZE_LIKE;
            *like = v;
            return 0;
        }
    *like = with_sizes(im, s, axis, n, kind, rank);
    for (int k = 0; k < n && *like >= 0; k++)
        if (kind[k] != AS_STATED)
            r->size[axis[k]] = GRAPH_SIZE_LIKE;
    if (*like >= 0)
        return 0;
    return onnx_fail(im, INFER_EUNSUPPORTED,
                     "a size that depends on a free dimension and is that of "
                     "no tensor; --input-shape fixes it");
}

/* keep_aspect_ratio_policy: one scale for all axes. */
static int keep_aspect(struct onnx_import *im, const struct onnx_small *s,
                       bool larger, const int *axis, int n,
                       struct graph_resize *r)
{
    struct graph_type t;
    double scale = 0.0;
    int i;

    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    if (im->probes > 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "keep_aspect_ratio_policy with free dimensions");
    for (i = 0; i < n; i++) {
        double ratio;

        if (t.dim[axis[i]] < 1)
            return onnx_fail(im, INFER_EFORMAT, "an empty input");
        ratio = (double)s->i[i] / (double)t.dim[axis[i]];
        if (i == 0 || (larger ? ratio > scale : ratio < scale))
            scale = ratio;
    }
    r->n_sizes = t.rank;
    for (i = 0; i < n; i++) {
        r->resize.scale[axis[i]] = (float)scale;
        r->size[axis[i]] = (int64_t)floor(scale * (double)t.dim[axis[i]] + 0.5);
    }
    return 0;
}

/* *like: the value that sizes are taken from, or as it was. */
static int sizes_input(struct onnx_import *im, int i, int rank, const int *axis,
                       int n, struct graph_resize *r, int *like)
{
    static const char *const policies[] = {"stretch", "not_larger",
                                           "not_smaller", NULL};
    const struct onnx_small *const *s;
    enum size_kind kind[INFER_MAX_RANK];
    bool stated = false, scaled = true, any = false;
    int k, p, policy = 0;

    onnx_input_small(im, i, &s);
    if (onnx_word(im, "keep_aspect_ratio_policy", policies, &policy) < 0)
        return im->rc;
    if (!onnx_has_input(im, i))
        return onnx_fail(im, INFER_EFORMAT, "neither scales nor sizes");
    if (!s)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "sizes must not depend on data");
    for (p = 0; p < im->probes; p++)
        if (!s[p]->i || s[p]->count != n)
            return onnx_fail(im, INFER_EFORMAT, "sizes must be %d integers", n);
    if (policy != 0)
        return keep_aspect(im, s[0], policy == 2, axis, n, r);
    for (k = 0; k < n && one_size(im, s, k, axis[k], r, &kind[k]) == 0; k++) {
        any |= kind[k] != AS_STATED;
        scaled &= kind[k] != OTHER_SIZE;
        stated |= kind[k] == AS_STATED && r->size[axis[k]] != 0;
    }
    if (im->rc < 0 || (any && scaled && !stated))
        return im->rc;
    r->n_sizes = rank;
    return any ? sizes_of_tensor(im, s, axis, n, kind, rank, r, like) : 0;
}

static void resize_defaults(union graph_attr *attr)
{
    int i;

    onnx_defaults(GRAPH_RESIZE, attr);
    attr->resize.n_sizes = 0;
    for (i = 0; i < INFER_MAX_RANK; i++)
        attr->resize.resize.scale[i] = 1.0f;
}

static bool has_coordinates(const struct onnx_import *im, const char *word)
{
    const struct onnx_attr *a = onnx_attr(im, "coordinate_transformation_mode");

    return a && a->type == ONNX_ATTR_STRING && pb_span_is(a->s, word);
}

/* True where the picture's size and that of the result, or the scales, are
 * fixed. */
static bool is_by_constants(struct onnx_import *im)
{
    const struct onnx_small *const *s = NULL;
    const int i = onnx_has_input(im, 3) ? 3 : 2;
    struct graph_type first, t;

    if (onnx_has_input(im, i))
        onnx_input_small(im, i, &s);
    onnx_input_type(im, 0, 0, &first);
    for (int p = 1; p < im->probes && im->rc == 0; p++) {
        onnx_input_type(im, 0, p, &t);
        for (int d = 1; d < t.rank; d++)
            if (t.dim[d] != first.dim[d])
                return false;
    }
    return im->rc == 0 && s && onnx_small_is_fixed(im, s);
}

/* With sizes that are free there are no tables (composed/crop_resize.c).  For
 * scales that are integers tf_half_pixel_for_nn, rounded down, is asymmetric:
 * (x + 0.5) / n and x / n have one floor. */
static int check_tables(struct onnx_import *im, const struct graph_resize *r)
{
    bool same = r->n_sizes == 0 && r->resize.mode == KERN_NEAREST &&
                r->resize.nearest == KERN_FLOOR_NEAREST;

    for (int d = 0; d < INFER_MAX_RANK; d++)
        same = same && r->resize.scale[d] == floorf(r->resize.scale[d]);
    if (im->rc == 0 && !same)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "tf_half_pixel_for_nn with free sizes by other than "
                         "whole scales, rounded down; --input-shape fixes "
                         "them");
    return im->rc;
}

/* In opset 10, which has no nearest_mode, a smaller axis takes the next pixel
 * and a larger one the pixel before (ONNX's own test of it, and ONNX Runtime).
 * The former are resized here, and have a scale of 1 afterwards. */
static int shrink(struct onnx_import *im, int rank, union graph_attr *attr,
                  int *x)
{
    struct kern_resize *r = &attr->resize.resize;
    union graph_attr first = *attr;
    bool smaller = false;

    first.resize.resize.nearest = KERN_CEIL_NEAREST;
    for (int d = 0; d < rank; d++) {
        if (r->scale[d] < 1) {
            r->scale[d] = 1;
            smaller = true;
        } else {
            first.resize.resize.scale[d] = 1;
        }
    }
    return smaller ? onnx_emit(im, GRAPH_RESIZE, &first, x, 1, -1, x) : im->rc;
}

int onnx_import_resize(struct onnx_import *im)
{
    union graph_attr attr;
    struct graph_type t;
    int axis[INFER_MAX_RANK] = {0}, n = 0, in[2] = {-1, -1};
    bool found = false, tables;

    onnx_arity(im, 1, 4);
    if (has_coordinates(im, "tf_crop_and_resize"))
        return onnx_import_crop_resize(im, true);
    tables = has_coordinates(im, "tf_half_pixel_for_nn");
    if (tables && is_by_constants(im))
        return onnx_import_crop_resize(im, false);
    resize_defaults(&attr);
    onnx_input_type(im, 0, 0, &t);
    resize_attributes(im, &attr.resize.resize);
    resize_axes(im, t.rank, axis, &n);
    scales_input(im, im->opset < 11 ? 1 : 2, axis, n, &attr.resize, &found);
    if (!found && im->opset >= 11)
        sizes_input(im, 3, t.rank, axis, n, &attr.resize, &in[1]);
    else if (!found)
        onnx_fail(im, INFER_EFORMAT, "no scales");
    else if (im->rc == 0)
        onnx_ignore(im, "keep_aspect_ratio_policy"); /* of sizes alone */
    if (tables)
        check_tables(im, &attr.resize);
    onnx_input(im, 0, &in[0]);
    if (found)
        onnx_whole_lengths(im, in[0], &attr, &in[1]);
    if (im->opset < 11 && attr.resize.resize.mode == KERN_NEAREST)
        shrink(im, t.rank, &attr, &in[0]);
    return onnx_emit(im, GRAPH_RESIZE, &attr, in, in[1] < 0 ? 1 : 2, 0, NULL);
}

/* Scales are two attributes in opset 1, one list in opset 7, an input in opset
 * 9. */
static int upsample_scales(struct onnx_import *im, int rank,
                           struct graph_resize *r)
{
    int axis[INFER_MAX_RANK] = {0}, i;
    struct onnx_attr *a;
    bool found;

    for (i = 0; i < rank; i++)
        axis[i] = i;
    if (im->opset >= 9) {
        scales_input(im, 1, axis, rank, r, &found);
        if (!found)
            onnx_fail(im, INFER_EFORMAT, "no scales");
        return im->rc;
    }
    if (im->opset < 7) {
        float scale[4] = {1.0f, 1.0f, 0.0f, 0.0f};

        onnx_float(im, "height_scale", &scale[2]);
        if (onnx_float(im, "width_scale", &scale[3]) < 0)
            return im->rc;
        return set_scales(im, scale, 4, axis, rank, r);
    }
    a = onnx_attr(im, "scales");
    if (!a || a->type != ONNX_ATTR_FLOATS)
        return onnx_fail(im, INFER_EFORMAT, "attribute 'scales' is missing");
    return set_scales(im, a->floats, (int64_t)a->count, axis, rank, r);
}

int onnx_import_upsample(struct onnx_import *im)
{
    union graph_attr attr;
    struct graph_type t;

    onnx_arity(im, 1, 2);
    resize_defaults(&attr);
    attr.resize.resize.coord = KERN_ASYMMETRIC;
    attr.resize.resize.nearest = KERN_FLOOR_NEAREST;
    onnx_input_type(im, 0, 0, &t);
    resize_mode(im, &attr.resize.resize);
    upsample_scales(im, t.rank, &attr.resize);
    return onnx_emit_node(im, GRAPH_RESIZE, &attr, 1);
}

/* ---- blocks -------------------------------------------------------- */

int onnx_import_block(struct onnx_import *im)
{
    const enum graph_op op = (enum graph_op)im->param;
    static const char *const words[] = {"DCR", "CRD", NULL};
    union graph_attr attr;
    int64_t block = 0;
    int mode = 0;

    onnx_arity(im, 1, 1);
    onnx_defaults(op, &attr);
    if (!onnx_has_attr(im, "blocksize"))
        onnx_fail(im, INFER_EFORMAT, "attribute 'blocksize' is missing");
    onnx_int(im, "blocksize", 1, INT32_MAX, &block);
    onnx_word(im, "mode", words, &mode);
    attr.depth_space.block = (int)block;
    attr.depth_space.crd = mode == 1;
    return onnx_emit_node(im, op, &attr, 1);
}
