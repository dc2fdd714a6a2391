/* SPDX-License-Identifier: Apache-2.0 */
/* Slice and StridedSlice. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* What a slice does to the dimensions of its input. */
struct slices {
    int n; /* dimensions with bounds */
    int64_t axis[INFER_MAX_RANK], begin[INFER_MAX_RANK], end[INFER_MAX_RANK],
        step[INFER_MAX_RANK];
    int64_t shrink[INFER_MAX_RANK], grow[INFER_MAX_RANK];
    int n_shrink, n_grow; /* axes of the slice taken away; of the result new */
};

/* ---- steps --------------------------------------------------------- */

/* Squeeze or Unsqueeze. */
static struct pb_span change_axes(struct onnx_import *im, const char *op,
                                  const int64_t *axes, int n, bool last,
                                  struct pb_span at)
{
    struct pb_span in[2] = {at}, out;
    char word[32];

    if (n == 0)
        return at;
    snprintf(word, sizeof word, "%s_axes", op);
    out = last ? im->node->out[0] : tf_temp(im, op);
    in[1] = tf_ints(im, word, axes, n);
    onnx_step(im, op, in, 2, out, NULL, 0);
    return out;
}

static int emit_slices(struct onnx_import *im, const struct slices *s)
{
    const bool more = s->n_shrink > 0 || s->n_grow > 0;
    struct pb_span in[5], at = im->node->in[0];

    if (s->n > 0) {
        in[0] = at;
        in[1] = tf_ints(im, "begin", s->begin, s->n);
        in[2] = tf_ints(im, "end", s->end, s->n);
        in[3] = tf_ints(im, "axes", s->axis, s->n);
        in[4] = tf_ints(im, "step", s->step, s->n);
        at = more ? tf_temp(im, "slice") : im->node->out[0];
        onnx_step(im, "Slice", in, 5, at, NULL, 0);
    } else if (!more) {
        return tf_last(im, "Identity", &at, 1, NULL, 0);
    }
    at = change_axes(im, "Squeeze", s->shrink, s->n_shrink, s->n_grow == 0, at);
    change_axes(im, "Unsqueeze", s->grow, s->n_grow, true, at);
    return im->rc;
}

/* ---- Slice --------------------------------------------------------- */

/* A slice that reaches beyond its input is an error in TensorFlow. */
static int check_slice(struct onnx_import *im, int n, const int64_t *begin,
                       const int64_t *size)
{
    for (int p = 0; p < im->probes; p++) {
        struct graph_type t;

        if (onnx_input_type(im, 0, p, &t) < 0)
            return im->rc;
        for (int d = 0; d < n; d++)
            if (t.rank != n || begin[d] < 0 || begin[d] > t.dim[d] ||
                size[d] < -1 || size[d] > t.dim[d] - begin[d])
                return onnx_fail(im, INFER_EFORMAT,
                                 "the slice does not fit into the input");
    }
    return 0;
}

int tf_slice(struct onnx_import *im)
{
    int64_t size[INFER_MAX_RANK];
    struct slices s = {0};
    int n = 0;

    onnx_arity(im, 3, 3);
    onnx_input_ints(im, 1, "begin", INFER_MAX_RANK, s.begin, &s.n);
    onnx_input_ints(im, 2, "size", INFER_MAX_RANK, size, &n);
    if (im->rc == 0 && n != s.n)
        onnx_fail(im, INFER_EFORMAT, "%d begins and %d sizes", s.n, n);
    if (im->rc < 0 || check_slice(im, n, s.begin, size) < 0)
        return im->rc;
    for (int d = 0; d < n; d++) {
        s.axis[d] = d;
        s.step[d] = 1;
        s.end[d] = size[d] < 0 ? INT64_MAX : s.begin[d] + size[d];
    }
    return emit_slices(im, &s);
}

/* ---- StridedSlice -------------------------------------------------- */

struct masks {
    int64_t begin, end, ellipsis, new_axis, shrink;
};

static int get_masks(struct onnx_import *im, struct masks *m)
{
    const int64_t max = (1 << INFER_MAX_RANK) - 1;

    onnx_int(im, "begin_mask", 0, max, &m->begin);
    onnx_int(im, "end_mask", 0, max, &m->end);
    onnx_int(im, "ellipsis_mask", 0, max, &m->ellipsis);
    onnx_int(im, "new_axis_mask", 0, max, &m->new_axis);
    onnx_int(im, "shrink_axis_mask", 0, max, &m->shrink);
    if (m->ellipsis & (m->ellipsis - 1))
        return onnx_fail(im, INFER_EFORMAT, "two ellipses");
    return im->rc;
}

/* The bounds of one dimension, where it is not whole. */
static void add_bounds(struct slices *s, const struct masks *m, int i, int d,
                       int64_t begin, int64_t end, int64_t step)
{
    const bool from_start = m->begin >> i & 1, to_end = m->end >> i & 1;

    if (m->shrink >> i & 1) {
        s->shrink[s->n_shrink++] = d;
        step = 1;
        end = begin == -1 || begin == INT64_MAX ? INT64_MAX : begin + 1;
    } else {
        if (from_start && to_end && step == 1)
            return;
        if (from_start)
            begin = step > 0 ? 0 : INT64_MAX;
        if (to_end)
            end = step > 0 ? INT64_MAX : INT64_MIN + 1;
    }
    s->axis[s->n] = d;
    s->begin[s->n] = begin;
    s->end[s->n] = end;
    s->step[s->n++] = step;
}

/* One element of a dimension, which is then taken away. */
static int check_index(struct onnx_import *im, int d, int64_t index,
                       int64_t step)
{
    if (step < 0)
        return onnx_fail(im, INFER_EFORMAT, "a step of %lld for one element",
                         (long long)step);
    for (int p = 0; p < im->probes; p++) {
        struct graph_type x;

        if (onnx_input_type(im, 0, p, &x) < 0)
            return im->rc;
        if (index < -x.dim[d] || index >= x.dim[d])
            return onnx_fail(im, INFER_EFORMAT,
                             "index %lld is outside a dimension of %lld",
                             (long long)index, (long long)x.dim[d]);
    }
    return 0;
}

/* Entry i of the lists is about a dimension of the input (d), a new axis of
 * the result, or all dimensions that the other entries leave (ellipsis). */
static int walk_entries(struct onnx_import *im, const struct masks *m, int n,
                        int rank, const int64_t *begin, const int64_t *end,
                        const int64_t *step, struct slices *s)
{
    int named = 0, d = 0, out = 0;

    for (int i = 0; i < n; i++)
        named += !(m->ellipsis >> i & 1) && !(m->new_axis >> i & 1);
    if (named > rank)
        return onnx_fail(im, INFER_EFORMAT, "%d bounds for rank %d", named,
                         rank);
    for (int i = 0; i < n; i++) {
        if (m->ellipsis >> i & 1) {
            d += rank - named;
            out += rank - named;
        } else if (m->new_axis >> i & 1) {
            s->grow[s->n_grow++] = out++;
        } else if (step[i] == 0) {
            return onnx_fail(im, INFER_EFORMAT, "a step of 0");
        } else if ((m->shrink >> i & 1) &&
                   check_index(im, d, begin[i], step[i]) < 0) {
            return im->rc;
        } else {
            add_bounds(s, m, i, d++, begin[i], end[i], step[i]);
            out += !(m->shrink >> i & 1);
        }
    }
    return 0;
}

int tf_strided_slice(struct onnx_import *im)
{
    int64_t begin[INFER_MAX_RANK], end[INFER_MAX_RANK], step[INFER_MAX_RANK];
    int n = 0, n_end = 0, n_step = 0;
    struct masks m = {0};
    struct slices s = {0};
    struct graph_type t;

    onnx_arity(im, 4, 4);
    get_masks(im, &m);
    onnx_input_type(im, 0, 0, &t);
    onnx_input_ints(im, 1, "begin", INFER_MAX_RANK, begin, &n);
    onnx_input_ints(im, 2, "end", INFER_MAX_RANK, end, &n_end);
    if (onnx_input_ints(im, 3, "strides", INFER_MAX_RANK, step, &n_step) < 0)
        return im->rc;
    if (n != n_end || n != n_step)
        return onnx_fail(im, INFER_EFORMAT, "%d begins, %d ends, %d strides", n,
                         n_end, n_step);
    if (walk_entries(im, &m, n, t.rank, begin, end, step, &s) < 0)
        return im->rc;
    return emit_slices(im, &s);
}
