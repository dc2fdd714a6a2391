/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX operators that join and cut: Concat, Split, Slice. */
#include <limits.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"

/* ---- Concat and Split ---------------------------------------------- */

int onnx_import_concat(struct onnx_import *im, int param,
                       struct infer_error *err)
{
    union graph_attr attr;
    int64_t axis = 1;
    int i, n = im->node->n_in, rc = onnx_arity(im, 1, -1, err);
    int *in = onnx_alloc(&im->scratch, (size_t)n * sizeof(*in));

    (void)param;
    if (!in)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0 && im->opset >= 4 && !onnx_has_attr(im, "axis"))
        rc = error_set(err, INFER_EFORMAT, "attribute 'axis' is missing");
    if (rc == 0)
        rc = onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis, err);
    for (i = 0; i < n && rc == 0; i++) {
        rc = onnx_input(im, i, &in[i], err);
        if (rc == 0 && in[i] < 0)
            rc = error_set(err, INFER_EFORMAT, "input %d is missing", i);
    }
    if (rc < 0)
        return rc;
    onnx_defaults(GRAPH_CONCAT, &attr);
    attr.axis.axis = (int)axis;
    return onnx_emit(im, GRAPH_CONCAT, &attr, in, n, 0, NULL, err);
}

static int check_parts(struct onnx_import *im, struct graph_split *split,
                       struct infer_error *err)
{
    int64_t parts = im->node->n_out;
    struct graph_type t;
    int i, axis, rc = onnx_input_type(im, 0, 0, &t, err);

    if (rc == 0)
        rc = op_axis(split->axis, t.rank, &axis, err);
    if (rc == 0 && im->opset >= 18)
        rc = onnx_int(im, "num_outputs", 1, INT_MAX, &parts, err);
    if (rc < 0)
        return rc;
    for (i = 0; i < im->node->n_out; i++)
        if (!onnx_has_output(im, i) && split->n_sizes == 0)
            return error_set(err, INFER_EFORMAT, "output %d has no name", i);
    if (parts != im->node->n_out ||
        (split->n_sizes && split->n_sizes != im->node->n_out))
        return error_set(err, INFER_EFORMAT, "%d outputs for %lld parts",
                         im->node->n_out,
                         (long long)(split->n_sizes ? split->n_sizes : parts));
    if (!split->n_sizes && im->opset < 18 && t.dim[axis] % parts != 0)
        return error_set(err, INFER_EFORMAT,
                         "%lld does not split into %lld equal parts",
                         (long long)t.dim[axis], (long long)parts);
    return 0;
}

/* The sizes of the parts: an attribute, an input from opset 13 on. */
static int read_parts(struct onnx_import *im, struct graph_split *split,
                      struct infer_error *err)
{
    int64_t size[GRAPH_MAX_PARTS];
    int i, n = -1, rc = 0;

    if (im->opset < 13)
        rc = onnx_ints(im, "split", GRAPH_MAX_PARTS, size, &n, err);
    if (rc == 0 && n < 0 && onnx_has_input(im, 1))
        rc = onnx_input_ints(im, 1, "split", GRAPH_MAX_PARTS, size, &n, err);
    for (i = 0; i < n && rc == 0; i++) {
        if (size[i] < 0 || size[i] > INT_MAX)
            rc = error_set(err, INFER_EFORMAT, "part %d has size %lld", i,
                           (long long)size[i]);
        split->size[i] = (int)size[i];
    }
    split->n_sizes = n < 0 ? 0 : n;
    return rc;
}

int onnx_import_split(struct onnx_import *im, int param,
                      struct infer_error *err)
{
    union graph_attr attr;
    int64_t axis = 0;
    int in;
    int rc = onnx_arity(im, 1, im->opset >= 2 && im->opset < 13 ? 1 : 2, err);

    (void)param;
    onnx_defaults(GRAPH_SPLIT, &attr);
    if (rc == 0)
        rc = onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis, err);
    if (rc == 0)
        rc = read_parts(im, &attr.split, err);
    if (rc < 0)
        return rc;
    attr.split.axis = (int)axis;
    rc = check_parts(im, &attr.split, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit_all(im, GRAPH_SPLIT, &attr, &in, 1, err);
}

/* ---- Slice --------------------------------------------------------- */

/* A list of bounds at each probe: attribute before opset 10, then input i. */
struct bounds {
    int n; /* -1: absent */
    int64_t at[ONNX_PROBES][INFER_MAX_RANK];
};

static int read_bounds(struct onnx_import *im, const char *name, int i,
                       struct bounds *b, struct infer_error *err)
{
    const struct onnx_small *const *s;
    int p, k, rc;

    b->n = -1;
    if (im->opset < 10) {
        rc = onnx_ints(im, name, INFER_MAX_RANK, b->at[0], &b->n, err);
        for (p = 1; p < im->probes; p++)
            memcpy(b->at[p], b->at[0], sizeof(b->at[0]));
        return rc;
    }
    if (!onnx_has_input(im, i))
        return 0;
    rc = onnx_input_small(im, i, &s, err);
    if (rc < 0)
        return rc;
    if (!s)
        return error_set(err, INFER_EUNSUPPORTED, "%s must not depend on data",
                         name);
    for (p = 0; p < im->probes; p++) {
        if (!s[p]->i || s[p]->rank > 1 || s[p]->count > INFER_MAX_RANK ||
            s[p]->count != s[0]->count)
            return error_set(err, INFER_EFORMAT,
                             "%s is no list of at most %d integers", name,
                             INFER_MAX_RANK);
        for (k = 0; k < (int)s[p]->count; k++)
            b->at[p][k] = s[p]->i[k];
    }
    b->n = (int)s[0]->count;
    return 0;
}

/* A bound that is the same at all probes, or that is always the size of its
 * dimension. */
static int one_bound(struct onnx_import *im, const struct bounds *b, int k,
                     int axis, int64_t *out, struct infer_error *err)
{
    bool fixed = true, whole = true;
    struct graph_type t;
    int p, rc;

    for (p = 0; p < im->probes; p++) {
        rc = onnx_input_type(im, 0, p, &t, err);
        if (rc < 0)
            return rc;
        fixed &= b->at[p][k] == b->at[0][k];
        whole &= b->at[p][k] >= t.dim[axis];
    }
    if (!fixed && !whole)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a bound that depends on a free dimension");
    *out = fixed ? b->at[0][k] : INT64_MAX;
    return 0;
}

static int fill_slice(struct onnx_import *im, const struct bounds *begin,
                      const struct bounds *end, const int64_t *axes,
                      const int64_t *step, struct graph_slice *slice,
                      struct infer_error *err)
{
    struct graph_type t;
    int k, axis, rc = onnx_input_type(im, 0, 0, &t, err);

    slice->n_axes = begin->n;
    for (k = 0; k < begin->n && rc == 0; k++) {
        if (axes[k] < -t.rank || axes[k] >= t.rank)
            return error_set(err, INFER_EFORMAT,
                             "axis %lld of a tensor of rank %d",
                             (long long)axes[k], t.rank);
        axis = (int)(axes[k] < 0 ? axes[k] + t.rank : axes[k]);
        slice->axis[k] = axis;
        slice->step[k] = step[k];
        rc = one_bound(im, begin, k, axis, &slice->begin[k], err);
        if (rc == 0)
            rc = one_bound(im, end, k, axis, &slice->end[k], err);
    }
    return rc;
}

int onnx_import_slice(struct onnx_import *im, int param,
                      struct infer_error *err)
{
    int64_t axes[INFER_MAX_RANK], step[INFER_MAX_RANK];
    struct bounds begin, end;
    union graph_attr attr;
    int in, k, n_axes = -1, n_step = -1;
    int rc = onnx_arity(im, 1, im->opset < 10 ? 1 : 5, err);

    (void)param;
    memset(&begin, 0, sizeof(begin));
    memset(&end, 0, sizeof(end));
    onnx_defaults(GRAPH_SLICE, &attr);
    for (k = 0; k < INFER_MAX_RANK; k++) {
        axes[k] = k;
        step[k] = 1;
    }
    if (rc == 0)
        rc = read_bounds(im, "starts", 1, &begin, err);
    if (rc == 0)
        rc = read_bounds(im, "ends", 2, &end, err);
    if (rc == 0)
        rc = onnx_axes(im, "axes", 3, 10, axes, &n_axes, err);
    if (rc == 0 && im->opset >= 10)
        rc =
            onnx_input_ints(im, 4, "steps", INFER_MAX_RANK, step, &n_step, err);
    if (rc < 0)
        return rc;
    if (begin.n < 0 || begin.n != end.n || (n_axes >= 0 && n_axes != begin.n) ||
        (n_step >= 0 && n_step != begin.n))
        return error_set(err, INFER_EFORMAT,
                         "starts, ends, axes and steps differ in length");
    rc = fill_slice(im, &begin, &end, axes, step, &attr.slice, err);
    if (rc == 0)
        rc = onnx_input(im, 0, &in, err);
    if (rc < 0)
        return rc;
    return onnx_emit(im, GRAPH_SLICE, &attr, &in, 1, 0, NULL, err);
}
