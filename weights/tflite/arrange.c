/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: operators that join, cut and pick along axes. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "weights/tflite/tflite.h"

/* ---- joining ------------------------------------------------------- */

void tflite_import_concat(struct tflite_import *im, int param)
{
    const int n = im->op.n_in;
    union graph_attr attr;
    bool swapped = false;
    int rank, axis, x, *in;

    (void)param;
    if (!tflite_arity(im, 1, GRAPH_MAX_INPUTS))
        return;
    rank = tflite_rank(im, 0);
    axis = tflite_axis(im, fb_i32(&im->op.options, 0, 0), rank);
    for (int i = 0; i < n; i++)
        swapped = swapped || tflite_is_swapped(im, i);
    in = calloc((unsigned)n, sizeof *in);
    if (!in) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    for (int i = 0; i < n && im->status == 0; i++)
        in[i] = tflite_in(im, i, swapped);
    tflite_defaults(GRAPH_CONCAT, &attr);
    attr.axis.axis = tflite_map_axis(axis, rank, swapped);
    x = tflite_emit(im, GRAPH_CONCAT, &attr, in, n);
    free(in);
    /* Integers move only, with equal scales: those have no activation. */
    tflite_out(im, 0, tflite_fused(im, x, 1), swapped);
}

void tflite_import_pack(struct tflite_import *im, int param)
{
    const int n = im->op.n_in;
    union graph_attr attr;
    int64_t axis;
    int x, *in;

    (void)param;
    if (!tflite_arity(im, 1, GRAPH_MAX_INPUTS))
        return;
    axis =
        tflite_axis(im, fb_i32(&im->op.options, 1, 0), tflite_rank(im, 0) + 1);
    in = calloc((size_t)n, sizeof *in);
    if (!in) {
        tflite_fail(im, INFER_EMEMORY, "out of memory");
        return;
    }
    for (int i = 0; i < n && im->status == 0; i++)
        in[i] =
            tflite_dims(im, GRAPH_UNSQUEEZE, tflite_in(im, i, false), 1, &axis);
    tflite_defaults(GRAPH_CONCAT, &attr);
    attr.axis.axis = (int)axis;
    x = tflite_emit(im, GRAPH_CONCAT, &attr, in, n);
    free(in);
    tflite_out(im, 0, x, false);
}

/* ---- cutting ------------------------------------------------------- */

/* Outputs of a split along the file's axis; squeeze drops that axis. */
static void split(struct tflite_import *im, int x_input, int axis,
                  const int64_t *size, int n_sizes, bool squeeze)
{
    const bool swapped = !squeeze && tflite_is_swapped(im, x_input);
    const int n = im->op.n_out, rank = tflite_rank(im, x_input);
    const int64_t file_axis = axis;
    int x = tflite_in(im, x_input, swapped);
    union graph_attr attr;
    int *out = calloc((size_t)n + 1, sizeof *out);

    if (!out)
        tflite_fail(im, INFER_EMEMORY, "out of memory");
    tflite_defaults(GRAPH_SPLIT, &attr);
    attr.split.axis = tflite_map_axis(axis, rank, swapped);
    attr.split.n_sizes = n_sizes;
    for (int i = 0; i < n_sizes; i++)
        attr.split.size[i] = (int)size[i];
    if (im->status == 0 &&
        tflite_emit_all(im, GRAPH_SPLIT, &attr, &x, 1, out, n))
        for (int i = 0; i < n && im->status == 0; i++)
            tflite_out(
                im, i,
                squeeze ? tflite_dims(im, GRAPH_SQUEEZE, out[i], 1, &file_axis)
                        : out[i],
                swapped);
    free(out);
}

/* SPLIT: axis, x.  SPLIT_V: x, sizes of which one may be -1, axis. */
void tflite_import_split(struct tflite_import *im, int sizes)
{
    const int x = sizes ? 0 : 1, at = sizes ? 2 : 0;
    int64_t axis, size[GRAPH_MAX_PARTS], sum = 0;
    struct graph_type t;
    int n = 0, rest = -1;

    if (!tflite_arity(im, sizes ? 3 : 2, sizes ? 3 : 2))
        return;
    t = tflite_type(im, x, 0);
    if (tflite_ints(im, at, "the axis", 1, &axis) != 1) {
        tflite_fail(im, INFER_EFORMAT, "no axis");
        return;
    }
    axis = tflite_axis(im, axis, t.rank);
    if (im->status < 0)
        return;
    if (sizes)
        n = tflite_ints(im, 1, "the sizes", GRAPH_MAX_PARTS, size);
    for (int i = 0; i < n; i++) {
        if (size[i] == -1 && rest < 0) {
            rest = i;
        } else if (size[i] < 0 || size[i] > INT32_MAX) {
            tflite_fail(im, INFER_EFORMAT, "a part of %lld",
                        (long long)size[i]);
            return;
        } else {
            sum += size[i];
        }
    }
    if (rest >= 0) {
        size[rest] = t.dim[axis] - sum;
        if (size[rest] < 0 || size[rest] > INT32_MAX) {
            tflite_fail(im, INFER_EFORMAT, "parts of %lld in all for %lld",
                        (long long)sum, (long long)t.dim[axis]);
            return;
        }
    }
    if (!sizes && t.dim[axis] % im->op.n_out != 0) {
        tflite_fail(im, INFER_EFORMAT, "%lld in %d equal parts",
                    (long long)t.dim[axis], im->op.n_out);
        return;
    }
    split(im, x, (int)axis, size, n < 0 ? 0 : n, false);
}

void tflite_import_unpack(struct tflite_import *im, int param)
{
    struct graph_type t;
    int axis;

    (void)param;
    if (!tflite_arity(im, 1, 1))
        return;
    t = tflite_type(im, 0, 0);
    axis = tflite_axis(im, fb_i32(&im->op.options, 1, 0), t.rank);
    if (im->status == 0 && t.dim[axis] != im->op.n_out)
        tflite_fail(im, INFER_EFORMAT, "%lld entries for %d outputs",
                    (long long)t.dim[axis], im->op.n_out);
    if (im->status == 0)
        split(im, 0, axis, NULL, 0, true);
}

/* Beyond the end of any axis. */
#define FAR ((int64_t)INT32_MAX)

/* ---- slices -------------------------------------------------------- */

/* Begin and size, -1 for all that is left. */
void tflite_import_slice(struct tflite_import *im, int param)
{
    int64_t begin[INFER_MAX_RANK], size[INFER_MAX_RANK];
    int64_t other[INFER_MAX_RANK];
    union graph_attr attr;
    bool swapped;
    int rank, n, x;

    (void)param;
    if (!tflite_arity(im, 3, 3))
        return;
    rank = tflite_rank(im, 0);
    swapped = tflite_is_swapped(im, 0);
    n = tflite_ints(im, 1, "the begin", INFER_MAX_RANK, begin);
    if (im->status == 0 &&
        (n != rank ||
         tflite_ints_at(im, 2, 0, "the size", INFER_MAX_RANK, size) != rank))
        tflite_fail(im, INFER_EFORMAT, "begin and size of %d for rank %d", n,
                    rank);
    tflite_defaults(GRAPH_SLICE, &attr);
    for (int i = 0; i < rank && im->status == 0; i++) {
        const int k = attr.slice.n_axes;
        bool whole = begin[i] == 0 && size[i] != -1, same = true;
        for (int p = 0; p < im->probes && im->status == 0; p++) {
            tflite_ints_at(im, 2, p, "the size", INFER_MAX_RANK, other);
            if (im->status < 0)
                return;
            whole = whole && (other[i] == tflite_type(im, 0, p).dim[i] ||
                              (i == 0 && im->freed_batch && other[i] == 1));
            same = same && other[i] == size[i];
        }
        if (whole || (begin[i] == 0 && size[i] == -1))
            continue;
        if (begin[i] < 0 || size[i] < -1 || size[i] > INT32_MAX ||
            begin[i] > INT32_MAX)
            tflite_fail(im, INFER_EFORMAT, "begin %lld and size %lld",
                        (long long)begin[i], (long long)size[i]);
        if (!same)
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "a size that depends on free sizes");
        attr.slice.axis[k] = tflite_map_axis(i, rank, swapped);
        attr.slice.begin[k] = begin[i];
        attr.slice.end[k] = size[i] < 0 ? FAR : begin[i] + size[i];
        attr.slice.step[k] = 1;
        attr.slice.n_axes++;
    }
    x = tflite_in(im, 0, swapped);
    if (attr.slice.n_axes > 0)
        x = tflite_emit(im, GRAPH_SLICE, &attr, &x, 1);
    else
        x = tflite_plain_unary(im, x, KERN_IDENTITY);
    tflite_out(im, 0, x, swapped);
}

/* What STRIDED_SLICE says of axes, as bits: bit i speaks of entry i. */
struct strided {
    int n, rank;
    int64_t begin[INFER_MAX_RANK], end[INFER_MAX_RANK], step[INFER_MAX_RANK];
    unsigned begin_mask, end_mask, shrink;
};

static int64_t within(int64_t at)
{
    return at < -FAR ? -FAR : at > FAR ? FAR : at;
}

static bool read_strided(struct tflite_import *im, struct strided *s)
{
    static const char *const what[] = {"the begin", "the end", "the step"};
    int64_t *to[] = {s->begin, s->end, s->step};
    const struct fb_table *o = &im->op.options;

    s->rank = tflite_rank(im, 0);
    s->begin_mask = fb_u32(o, 0, 0);
    s->end_mask = fb_u32(o, 1, 0);
    s->shrink = fb_u32(o, 4, 0);
    s->n = 0;
    for (int i = 0; i < 3; i++) {
        const int n = tflite_ints(im, 1 + i, what[i], INFER_MAX_RANK, to[i]);
        if (im->status < 0)
            return false;
        if (i > 0 && n != s->n)
            tflite_fail(im, INFER_EFORMAT, "%s has %d entries, not %d", what[i],
                        n, s->n);
        s->n = n;
    }
    if (fb_u32(o, 2, 0) || fb_u32(o, 3, 0) || fb_bool(o, 5))
        tflite_fail(im, INFER_EUNSUPPORTED,
                    "an ellipsis, a new axis, or an end that is an offset");
    if (im->status == 0 && s->n > s->rank)
        tflite_fail(im, INFER_EFORMAT, "%d entries for rank %d", s->n, s->rank);
    return im->status == 0;
}

void tflite_import_strided_slice(struct tflite_import *im, int param)
{
    int64_t dropped[INFER_MAX_RANK];
    int n_dropped = 0, x;
    union graph_attr attr;
    struct graph_type t;
    struct strided s;
    bool swapped;

    (void)param;
    if (!tflite_arity(im, 4, 4) || !read_strided(im, &s))
        return;
    t = tflite_type(im, 0, 0);
    swapped = tflite_is_swapped(im, 0) && s.shrink == 0;
    tflite_defaults(GRAPH_SLICE, &attr);
    for (int i = 0; i < s.n; i++) {
        const int k = attr.slice.n_axes;
        const bool one = s.shrink >> i & 1, down = s.step[i] < 0;
        int64_t begin = within(s.begin[i]), end = within(s.end[i]);
        if (s.begin_mask >> i & 1)
            begin = down ? FAR : 0;
        if (s.end_mask >> i & 1)
            end = down ? -FAR : FAR;
        /* Of the batch of 1 that is read as free, 0:1 is all. */
        if (i == 0 && im->freed_batch && !one && begin == 0 && end == 1 &&
            s.step[i] == 1 && im->probes > 1 &&
            tflite_type(im, 0, 1).dim[0] != t.dim[0])
            end = FAR;
        if (one) {
            end = begin == -1 ? FAR : begin + 1;
            dropped[n_dropped++] = i;
        }
        if (s.step[i] == 0 || s.step[i] < -FAR || s.step[i] > FAR) {
            tflite_fail(im, INFER_EFORMAT, "begin %lld and step %lld",
                        (long long)begin, (long long)s.step[i]);
            return;
        }
        if (begin == 0 && end == FAR && s.step[i] == 1)
            continue;
        attr.slice.axis[k] = tflite_map_axis(i, s.rank, swapped);
        attr.slice.begin[k] = begin;
        attr.slice.end[k] = end;
        attr.slice.step[k] = one ? 1 : s.step[i];
        attr.slice.n_axes++;
    }
    x = tflite_in(im, 0, swapped);
    if (attr.slice.n_axes > 0 || n_dropped == 0)
        x = tflite_emit(im, GRAPH_SLICE, &attr, &x, 1);
    if (n_dropped > 0)
        x = tflite_dims(im, GRAPH_SQUEEZE, x, n_dropped, dropped);
    tflite_out(im, 0, x, swapped);
}

/* ---- picking ------------------------------------------------------- */

void tflite_import_gather(struct tflite_import *im, int param)
{
    union graph_attr attr;
    int in[2], axis;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    if (fb_i32(&im->op.options, 1, 0) != 0) {
        tflite_fail(im, INFER_EUNSUPPORTED, "batch dimensions");
        return;
    }
    axis = tflite_axis(im, fb_i32(&im->op.options, 0, 0), tflite_rank(im, 0));
    tflite_defaults(GRAPH_GATHER, &attr);
    attr.axis.axis = axis;
    in[0] = tflite_in(im, 0, false);
    in[1] = tflite_in(im, 1, false);
    tflite_out(im, 0, tflite_emit(im, GRAPH_GATHER, &attr, in, 2), false);
}

/* ---- DYNAMIC_UPDATE_SLICE ------------------------------------------ */

/* A part of the input along one axis is replaced, from a place on that is
 * known; over the other axes the update is whole. */
void tflite_import_update_slice(struct tflite_import *im, int param)
{
    int64_t start[INFER_MAX_RANK], size = 0, begin = 0;
    struct graph_type x, u;
    int axis = -1, n = 0, part[3], value[2];

    (void)param;
    if (!tflite_arity(im, 3, 3))
        return;
    x = tflite_type(im, 0, 0);
    u = tflite_type(im, 1, 0);
    if (im->status == 0 &&
        (x.rank != u.rank || x.rank < 1 ||
         tflite_ints(im, 2, "the start", INFER_MAX_RANK, start) != x.rank))
        tflite_fail(im, INFER_EFORMAT, "an update of rank %d in rank %d",
                    u.rank, x.rank);
    for (int d = 0; d < x.rank && im->status == 0; d++) {
        bool whole = true;

        for (int p = 0; p < im->probes; p++)
            whole = whole && tflite_type(im, 0, p).dim[d] ==
                                 tflite_type(im, 1, p).dim[d];
        if (whole)
            continue;
        for (int p = 1; p < im->probes; p++)
            whole = whole || tflite_type(im, 0, p).dim[d] != x.dim[d] ||
                    tflite_type(im, 1, p).dim[d] != u.dim[d];
        if (axis >= 0 || whole || u.dim[d] > x.dim[d])
            tflite_fail(im, INFER_EUNSUPPORTED,
                        "an update that is part of several dimensions, or of "
                        "a free one");
        axis = d;
    }
    value[0] = tflite_in(im, 0, false);
    value[1] = tflite_in(im, 1, false);
    if (im->status < 0 || axis < 0) {
        tflite_out(im, 0, tflite_plain_unary(im, value[1], KERN_IDENTITY),
                   false);
        return;
    }
    /* Places before the start and beyond the end are moved inside. */
    size = u.dim[axis];
    begin = start[axis] < 0 ? 0 : start[axis];
    if (begin > x.dim[axis] - size)
        begin = x.dim[axis] - size;
    if (begin > 0)
        part[n++] = tflite_slice(im, value[0], axis, 0, begin);
    part[n++] = value[1];
    if (begin + size < x.dim[axis])
        part[n++] = tflite_slice(im, value[0], axis, begin + size, x.dim[axis]);
    tflite_out(im, 0, tflite_concat(im, part, n, axis), false);
}
