/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators that join and cut: Concat, Split, Slice. */
#include <limits.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"

/* ---- Concat and Split ---------------------------------------------- */

int onnx_import_concat(struct onnx_import *im)
{
    union graph_attr attr;
    int i, n = im->node->n_in;
    int *in = onnx_alloc(&im->scratch, (size_t)n * sizeof(*in));

    onnx_arity(im, 1, -1);
    if (!in)
        return onnx_no_memory(im);
    if (im->opset >= 4 && !onnx_has_attr(im, "axis"))
        onnx_fail(im, INFER_EFORMAT, "attribute 'axis' is missing");
    onnx_defaults(GRAPH_CONCAT, &attr);
    attr.axis.axis = onnx_axis(im, 1);
    for (i = 0; i < n; i++)
        if (onnx_input(im, i, &in[i]) == 0 && in[i] < 0)
            onnx_fail(im, INFER_EFORMAT, "input %d is missing", i);
    return onnx_emit(im, GRAPH_CONCAT, &attr, in, n, 0, NULL);
}

static int check_parts(struct onnx_import *im, struct graph_split *split)
{
    int64_t parts = im->node->n_out;
    struct graph_type t;
    int i, axis = 0;

    if (onnx_input_type(im, 0, 0, &t) == 0)
        im->rc = op_axis(split->axis, t.rank, &axis, im->err);
    if (im->opset >= 18)
        onnx_int(im, "num_outputs", 1, INT_MAX, &parts);
    if (im->rc < 0)
        return im->rc;
    for (i = 0; i < im->node->n_out; i++)
        if (!onnx_has_output(im, i) && split->n_sizes == 0)
            return onnx_fail(im, INFER_EFORMAT, "output %d has no name", i);
    if (parts != im->node->n_out ||
        (split->n_sizes && split->n_sizes != im->node->n_out))
        return onnx_fail(im, INFER_EFORMAT, "%d outputs for %lld parts",
                         im->node->n_out,
                         (long long)(split->n_sizes ? split->n_sizes : parts));
    if (!split->n_sizes && im->opset < 18 && t.dim[axis] % parts != 0)
        return onnx_fail(im, INFER_EFORMAT,
                         "%lld does not split into %lld equal parts",
                         (long long)t.dim[axis], (long long)parts);
    return 0;
}

/* Sizes of parts, at each probe; free: they differ between the probes. */
struct parts {
    int64_t size[ONNX_PROBES][INFER_MAX_RANK];
    int n;
    bool free;
};

/* Whether input 1 gives a few sizes of which some are free. */
static int read_free_parts(struct onnx_import *im, struct parts *parts)
{
    const struct onnx_small *const *small;

    parts->free = false;
    if (im->probes < 2 || im->opset < 13 || !onnx_has_input(im, 1) ||
        onnx_input_small(im, 1, &small) < 0 || !small ||
        onnx_small_is_fixed(im, small) || onnx_small_is_free(im, small) ||
        small[0]->count > INFER_MAX_RANK)
        return im->rc;
    parts->free = true;
    return onnx_input_lists(im, 1, "split", parts->size, &parts->n);
}

/* The sizes of the parts: an attribute, an input from opset 13 on. */
static int read_parts(struct onnx_import *im, struct graph_split *split)
{
    int64_t size[GRAPH_MAX_PARTS];
    int i, n = -1;

    if (im->opset < 13)
        onnx_ints(im, "split", GRAPH_MAX_PARTS, size, &n);
    if (n < 0 && onnx_has_input(im, 1))
        onnx_input_ints(im, 1, "split", GRAPH_MAX_PARTS, size, &n);
    for (i = 0; i < n && im->rc == 0; i++) {
        if (size[i] < 0 || size[i] > INT_MAX)
            onnx_fail(im, INFER_EFORMAT, "part %d has size %lld", i,
                      (long long)size[i]);
        split->size[i] = (int)size[i];
    }
    split->n_sizes = n < 0 ? 0 : n;
    return im->rc;
}

/* Output i is this value. */
static int give(struct onnx_import *im, int i, int value)
{
    return onnx_emit_unary(im, KERN_IDENTITY, 0, 0, value, i, NULL);
}

static int split_freely(struct onnx_import *im, const struct parts *parts,
                        int axis)
{
    int64_t begin[ONNX_PROBES] = {0}, size[ONNX_PROBES];
    struct graph_type t;
    int in;

    onnx_input(im, 0, &in);
    if (onnx_input_type(im, 0, 0, &t) == 0)
        im->rc = op_axis(axis, t.rank, &axis, im->err);
    if (im->rc == 0 && parts->n != im->node->n_out)
        return onnx_fail(im, INFER_EFORMAT, "%d outputs for %d parts",
                         im->node->n_out, parts->n);
    for (int i = 0; i < parts->n && im->rc == 0; i++) {
        for (int p = 0; p < im->probes; p++)
            size[p] = parts->size[p][i];
        if (onnx_has_output(im, i))
            give(im, i, onnx_cut_to(im, in, axis, begin, size));
        for (int p = 0; p < im->probes; p++)
            begin[p] += size[p];
    }
    for (int p = 0; p < im->probes && im->rc == 0; p++)
        if (onnx_input_type(im, 0, p, &t) == 0 && begin[p] != t.dim[axis])
            return onnx_fail(im, INFER_EFORMAT,
                             "parts of %lld in all, the dimension has %lld",
                             (long long)begin[p], (long long)t.dim[axis]);
    return im->rc;
}

int onnx_import_split(struct onnx_import *im)
{
    union graph_attr attr;
    struct parts parts;
    int in;

    onnx_arity(im, 1, im->opset >= 2 && im->opset < 13 ? 1 : 2);
    onnx_defaults(GRAPH_SPLIT, &attr);
    attr.split.axis = onnx_axis(im, 0);
    if (read_free_parts(im, &parts) < 0 || parts.free)
        return im->rc < 0 ? im->rc : split_freely(im, &parts, attr.split.axis);
    read_parts(im, &attr.split);
    check_parts(im, &attr.split);
    onnx_input(im, 0, &in);
    return onnx_emit_all(im, GRAPH_SPLIT, &attr, &in, 1);
}

/* ---- Slice --------------------------------------------------------- */

/* A list of bounds at each probe: attribute before opset 10, then input i. */
struct bounds {
    int n; /* -1: absent */
    int64_t at[ONNX_PROBES][INFER_MAX_RANK];
};

static int read_bounds(struct onnx_import *im, const char *name, int i,
                       struct bounds *b)
{
    int p;

    b->n = -1;
    if (im->opset < 10) {
        onnx_ints(im, name, INFER_MAX_RANK, b->at[0], &b->n);
        for (p = 1; p < im->probes; p++)
            memcpy(b->at[p], b->at[0], sizeof(b->at[0]));
        return im->rc;
    }
    if (!onnx_has_input(im, i))
        return 0;
    return onnx_input_lists(im, i, name, b->at, &b->n);
}

/* A bound that is the same at all probes, counted from the end of the dimension
 * or that end at all: *out.  *free: it is none of these. */
static int one_bound(struct onnx_import *im, const struct bounds *b, int k,
                     int axis, int64_t *out, bool *free)
{
    bool fixed = true, whole = true, from_end = true;
    int64_t rest = 0;
    struct graph_type t;
    int p;

    for (p = 0; p < im->probes; p++) {
        if (onnx_input_type(im, 0, p, &t) < 0)
            return im->rc;
        fixed &= b->at[p][k] == b->at[0][k];
        whole &= b->at[p][k] >= t.dim[axis];
        if (p == 0 && b->at[0][k] >= 0)
            rest = b->at[0][k] - t.dim[axis];
        from_end &= b->at[p][k] >= 0 && b->at[p][k] - t.dim[axis] == rest;
    }
    *free = *free || (!fixed && !whole && !from_end);
    *out = fixed ? b->at[0][k] : whole ? INT64_MAX : rest;
    return 0;
}

/* What is cut from one axis, one number a probe. */
struct cut {
    int axis;
    int64_t begin[ONNX_PROBES], size[ONNX_PROBES];
};

/* Slices of which no bound is free, and cuts. */
struct cuts {
    struct graph_slice slice;
    struct cut cut[INFER_MAX_RANK];
    int n;
};

static int64_t clamped(int64_t at, int64_t size)
{
    at += at < 0 ? size : 0;
    return at < 0 ? 0 : at > size ? size : at;
}

static int add_cut(struct onnx_import *im, const struct bounds *begin,
                   const struct bounds *end, int k, int axis, struct cuts *cuts)
{
    struct cut *c = &cuts->cut[cuts->n++];
    struct graph_type t;

    c->axis = axis;
    for (int p = 0; p < im->probes; p++) {
        if (onnx_input_type(im, 0, p, &t) < 0)
            return im->rc;
        c->begin[p] = clamped(begin->at[p][k], t.dim[axis]);
        c->size[p] = clamped(end->at[p][k], t.dim[axis]) - c->begin[p];
        if (c->size[p] < 1)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "a slice that is empty at some free sizes");
    }
    return 0;
}

static int fill_slice(struct onnx_import *im, const struct bounds *begin,
                      const struct bounds *end, const int64_t *axes,
                      const int64_t *step, struct cuts *cuts)
{
    struct graph_slice *slice = &cuts->slice;
    struct graph_type t;
    int k, axis;

    onnx_input_type(im, 0, 0, &t);
    slice->n_axes = 0;
    for (k = 0; k < begin->n && im->rc == 0; k++) {
        const int n = slice->n_axes;
        bool free = false;

        if (axes[k] < -t.rank || axes[k] >= t.rank)
            return onnx_fail(im, INFER_EFORMAT,
                             "axis %lld of a tensor of rank %d",
                             (long long)axes[k], t.rank);
        axis = (int)(axes[k] < 0 ? axes[k] + t.rank : axes[k]);
        slice->axis[n] = axis;
        slice->step[n] = step[k];
        one_bound(im, begin, k, axis, &slice->begin[n], &free);
        one_bound(im, end, k, axis, &slice->end[n], &free);
        if (!free)
            slice->n_axes++;
        else if (step[k] != 1)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "a bound that depends on a free dimension, with "
                             "a step of %lld",
                             (long long)step[k]);
        else
            add_cut(im, begin, end, k, axis, cuts);
    }
    return im->rc;
}

static int emit_cuts(struct onnx_import *im, const struct cuts *cuts)
{
    union graph_attr attr;
    int x;

    onnx_defaults(GRAPH_SLICE, &attr);
    attr.slice = cuts->slice;
    if (cuts->n == 0)
        return onnx_emit_node(im, GRAPH_SLICE, &attr, 1);
    onnx_input(im, 0, &x);
    if (attr.slice.n_axes > 0)
        onnx_emit(im, GRAPH_SLICE, &attr, &x, 1, -1, &x);
    for (int i = 0; i < cuts->n && im->rc == 0; i++)
        x = onnx_cut_to(im, x, cuts->cut[i].axis, cuts->cut[i].begin,
                        cuts->cut[i].size);
    return give(im, 0, x);
}

int onnx_import_slice(struct onnx_import *im)
{
    int64_t axes[INFER_MAX_RANK], step[INFER_MAX_RANK];
    struct bounds begin, end;
    struct cuts cuts = {.n = 0};
    union graph_attr attr;
    int k, n_axes = -1, n_step = -1;

    onnx_arity(im, 1, im->opset < 10 ? 1 : 5);
    memset(&begin, 0, sizeof(begin));
    memset(&end, 0, sizeof(end));
    onnx_defaults(GRAPH_SLICE, &attr);
    cuts.slice = attr.slice;
    for (k = 0; k < INFER_MAX_RANK; k++) {
        axes[k] = k;
        step[k] = 1;
    }
    read_bounds(im, "starts", 1, &begin);
    read_bounds(im, "ends", 2, &end);
    onnx_axes(im, "axes", 3, 10, axes, &n_axes);
    if (im->opset >= 10)
        if (onnx_input_ints(im, 4, "steps", INFER_MAX_RANK, step, &n_step) < 0)
            return im->rc;
    if (begin.n < 0 || begin.n != end.n || (n_axes >= 0 && n_axes != begin.n) ||
        (n_step >= 0 && n_step != begin.n))
        return onnx_fail(im, INFER_EFORMAT,
                         "starts, ends, axes and steps differ in length");
    fill_slice(im, &begin, &end, axes, step, &cuts);
    return emit_cuts(im, &cuts);
}
