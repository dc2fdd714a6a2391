/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that arrange: shapes, axes, parts. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/tensorflow/tensorflow.h"

/* ---- shapes -------------------------------------------------------- */

/* ONNX counts in 64 bits, TensorFlow in 32 unless told otherwise. */
int tf_shape(struct onnx_import *im)
{
    const struct onnx_attr *type = onnx_attr(im, "out_type");
    struct pb_span wide;
    struct onnx_attr to;

    if (onnx_arity(im, 1, 1) < 0)
        return im->rc;
    to = tf_set_int("to", type ? tf_onnx_type((uint64_t)type->i) : ONNX_INT32);
    wide = tf_next(im, tf_row(im)->onnx, im->node->in[0], "wide");
    return tf_last(im, "Cast", &wide, 1, &to, 1);
}

/* 0 in a shape is a size of 0. */
int tf_reshape(struct onnx_import *im)
{
    const struct onnx_attr zero = tf_set_int("allowzero", 1);

    onnx_arity(im, 2, 2);
    return tf_last(im, "Reshape", im->node->in, 2, &zero, 1);
}

int tf_squeeze(struct onnx_import *im)
{
    int64_t axes[INFER_MAX_RANK];
    struct pb_span in[2];
    int n = 0;

    onnx_arity(im, 1, 1);
    onnx_ints(im, "squeeze_dims", INFER_MAX_RANK, axes, &n);
    if (onnx_ints(im, "axis", INFER_MAX_RANK, axes, &n) < 0)
        return im->rc;
    in[0] = im->node->in[0];
    if (n > 0)
        in[1] = tf_ints(im, "axes", axes, n);
    return tf_last(im, "Squeeze", in, n > 0 ? 2 : 1, NULL, 0);
}

int tf_expand_dims(struct onnx_import *im)
{
    struct pb_span in[2];
    int64_t axis = 0;

    onnx_arity(im, 2, 2);
    if (tf_axis(im, 1, &axis) < 0)
        return im->rc;
    in[0] = im->node->in[0];
    in[1] = tf_ints(im, "axis", &axis, 1);
    return tf_last(im, "Unsqueeze", in, 2, NULL, 0);
}

int tf_transpose(struct onnx_import *im)
{
    int64_t order[INFER_MAX_RANK];
    struct onnx_attr perm;
    int n = 0;

    onnx_arity(im, 2, 2);
    onnx_input_ints(im, 1, "the order of axes", INFER_MAX_RANK, order, &n);
    perm = tf_set_ints("perm", order, n);
    return tf_last(im, "Transpose", im->node->in, 1, &perm, 1);
}

/* dims, value */
int tf_fill(struct onnx_import *im)
{
    struct pb_span in[2];

    if (onnx_arity(im, 2, 2) < 0)
        return im->rc;
    in[0] = im->node->in[1];
    in[1] = im->node->in[0];
    return tf_last(im, "Expand", in, 2, NULL, 0);
}

/* ---- joining and parting ------------------------------------------- */

/* The axis is the last input, or the first one. */
int tf_concat(struct onnx_import *im)
{
    const int n = im->node->n_in - 1, first = tf_row(im)->param;
    struct onnx_attr attr;
    int64_t axis = 0;

    onnx_arity(im, 2, -1);
    if (tf_axis(im, first ? 0 : n, &axis) < 0)
        return im->rc;
    attr = tf_set_int("axis", axis);
    return tf_last(im, "Concat", im->node->in + first, n, &attr, 1);
}

/* Pack: a new axis for each input, along which they are joined. */
int tf_pack(struct onnx_import *im)
{
    const int n = im->node->n_in;
    struct pb_span *part, in[2];
    struct onnx_attr attr;
    int64_t axis = 0;

    onnx_arity(im, 1, -1);
    onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis);
    in[1] = tf_ints(im, "axis", &axis, 1);
    part = onnx_alloc(&im->scratch, (size_t)n * sizeof *part);
    if (!part)
        return onnx_no_memory(im);
    for (int i = 0; i < n && im->rc == 0; i++) {
        char word[32];

        snprintf(word, sizeof word, "part%d", i);
        part[i] = tf_temp(im, word);
        in[0] = im->node->in[i];
        onnx_step(im, "Unsqueeze", in, 2, part[i], NULL, 0);
    }
    attr = tf_set_int("axis", axis);
    return tf_last(im, "Concat", part, n, &attr, 1);
}

/* Part i of an axis, from `begin` on, as output i; `less`: without the axis. */
static int one_part(struct onnx_import *im, int i, struct pb_span in,
                    int64_t axis, int64_t begin, int64_t size, bool less)
{
    const struct tf_import *tf = im->context;
    const struct pb_span out = tf_value_name(im, (struct tf_edge){tf->node, i});
    const int64_t end = begin + size;
    struct pb_span slice[4] = {in}, part = out;
    char word[32];

    snprintf(word, sizeof word, "begin%d", i);
    slice[1] = tf_ints(im, word, &begin, 1);
    snprintf(word, sizeof word, "end%d", i);
    slice[2] = tf_ints(im, word, &end, 1);
    snprintf(word, sizeof word, "axis%d", i);
    slice[3] = tf_ints(im, word, &axis, 1);
    snprintf(word, sizeof word, "part%d", i);
    if (less)
        part = tf_temp(im, word);
    onnx_step(im, "Slice", slice, 4, part, NULL, 0);
    if (im->rc < 0 || !less)
        return im->rc;
    slice[0] = part;
    slice[1] = slice[3];
    return onnx_step(im, "Squeeze", slice, 2, out, NULL, 0);
}

/* Length of an axis of input i, which must not depend on the batch. */
static int axis_length(struct onnx_import *im, int i, int64_t *axis,
                       int64_t *length)
{
    for (int p = 0; p < im->probes; p++) {
        struct graph_type t;

        if (onnx_input_type(im, i, p, &t) < 0)
            return im->rc;
        if (*axis < 0)
            *axis += t.rank;
        if (*axis < 0 || *axis >= t.rank)
            return onnx_fail(im, INFER_EFORMAT, "axis %lld of rank %d",
                             (long long)*axis, t.rank);
        if (p > 0 && t.dim[*axis] != *length)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "the axis is as long as the batch");
        *length = t.dim[*axis];
    }
    return im->rc;
}

#define MAX_PARTS 1024

static int wrong_parts(struct onnx_import *im, int64_t parts, int64_t length)
{
    return onnx_fail(im, INFER_EFORMAT, "%lld parts of an axis of %lld",
                     (long long)parts, (long long)length);
}

/* Unpack: an output for each index of the axis. */
int tf_unpack(struct onnx_import *im)
{
    int64_t axis = 0, num = 0, length = 0;

    onnx_arity(im, 1, 1);
    onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis);
    onnx_int(im, "num", 1, MAX_PARTS, &num);
    if (axis_length(im, 0, &axis, &length) < 0)
        return im->rc;
    if (num != length)
        return wrong_parts(im, num, length);
    for (int i = 0; i < num && im->rc == 0; i++)
        one_part(im, i, im->node->in[0], axis, i, 1, true);
    return im->rc;
}

/* Split: the axis, then the tensor. */
int tf_split(struct onnx_import *im)
{
    int64_t axis = 0, num = 0, length = 0;

    onnx_arity(im, 2, 2);
    tf_axis(im, 0, &axis);
    onnx_int(im, "num_split", 1, MAX_PARTS, &num);
    if (axis_length(im, 1, &axis, &length) < 0)
        return im->rc;
    if (num == 0 || length % num != 0)
        return wrong_parts(im, num, length);
    for (int i = 0; i < num && im->rc == 0; i++)
        one_part(im, i, im->node->in[1], axis, i * (length / num), length / num,
                 false);
    return im->rc;
}

/* SplitV: the tensor, the sizes, of which one may be -1, the axis. */
int tf_split_v(struct onnx_import *im)
{
    int64_t size[MAX_PARTS], axis = 0, length = 0, rest, begin = 0;
    int n = 0, open = -1;

    onnx_arity(im, 3, 3);
    onnx_ignore(im, "num_split");
    onnx_input_ints(im, 1, "the sizes", MAX_PARTS, size, &n);
    tf_axis(im, 2, &axis);
    if (axis_length(im, 0, &axis, &length) < 0)
        return im->rc;
    rest = length;
    for (int i = 0; i < n; i++) {
        if (size[i] == -1 && open < 0)
            open = i;
        else if (size[i] < 0 || size[i] > rest)
            return onnx_fail(im, INFER_EFORMAT, "a part of %lld of %lld",
                             (long long)size[i], (long long)length);
        else
            rest -= size[i];
    }
    if (open >= 0)
        size[open] = rest;
    else if (rest != 0)
        return wrong_parts(im, n, length);
    for (int i = 0; i < n && im->rc == 0; i++) {
        one_part(im, i, im->node->in[0], axis, begin, size[i], false);
        begin += size[i];
    }
    return im->rc;
}

/* ---- picking and padding ------------------------------------------- */

/* Of dimensions that indices and values share, entries of the next one are
 * picked: tuples of one index. */
static int gather_batches(struct onnx_import *im, int64_t axis, int64_t batch)
{
    static const int64_t last = -1;
    const struct onnx_attr attr = tf_set_int("batch_dims", batch);
    const struct pb_span tuples = tf_temp(im, "tuples");
    struct pb_span in[2];

    if (axis != batch)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "entries of axis %lld with %lld axes shared",
                         (long long)axis, (long long)batch);
    in[0] = im->node->in[1];
    in[1] = tf_ints(im, "last", &last, 1);
    onnx_step(im, "Unsqueeze", in, 2, tuples, NULL, 0);
    in[0] = im->node->in[0];
    in[1] = tuples;
    return tf_last(im, "GatherND", in, 2, &attr, 1);
}

int tf_gather(struct onnx_import *im)
{
    struct onnx_attr attr;
    int64_t axis = 0, batch = 0;

    onnx_arity(im, 2, 3);
    onnx_int(im, "batch_dims", -INFER_MAX_RANK, INFER_MAX_RANK, &batch);
    if (im->node->n_in == 3)
        tf_axis(im, 2, &axis);
    if (batch != 0 && im->rc == 0) {
        struct graph_type x, index;

        onnx_input_type(im, 0, 0, &x);
        if (onnx_input_type(im, 1, 0, &index) < 0)
            return im->rc;
        return gather_batches(im, axis < 0 ? axis + x.rank : axis,
                              batch < 0 ? batch + index.rank : batch);
    }
    attr = tf_set_int("axis", axis);
    return tf_last(im, "Gather", im->node->in, 2, &attr, 1);
}

/* paddings: begin and end of each dimension.  ONNX has all begins first: the
 * number of dimensions. */
static int get_paddings(struct onnx_import *im, int64_t *pad)
{
    const struct onnx_small *const *small;
    int n = 0;

    if (onnx_input_small(im, 1, &small) < 0)
        return 0;
    if (!small || !onnx_small_is_fixed(im, small))
        onnx_fail(im, INFER_EUNSUPPORTED, "paddings must be constant");
    else if (!small[0]->i || small[0]->rank != 2 || small[0]->dim[1] != 2 ||
             small[0]->dim[0] > INFER_MAX_RANK)
        onnx_fail(im, INFER_EFORMAT,
                  "paddings must be two integers for each dimension");
    else
        n = (int)small[0]->dim[0];
    for (int d = 0; d < n; d++) {
        pad[d] = small[0]->i[2 * d];
        pad[n + d] = small[0]->i[2 * d + 1];
        if (pad[d] < 0 || pad[n + d] < 0)
            onnx_fail(im, INFER_EFORMAT, "paddings %lld and %lld",
                      (long long)pad[d], (long long)pad[n + d]);
    }
    return n;
}

/* `count` entries of an axis from `begin` down to `end`, called by a word and
 * it.  An axis of a free size that has fewer is refused by the reshape. */
static struct pb_span backwards(struct onnx_import *im, struct pb_span x,
                                int axis, const char *word, int64_t begin,
                                int64_t end, int rank, int64_t count)
{
    const int64_t list[4] = {begin, end, axis, -1};
    int64_t shape[INFER_MAX_RANK] = {0};
    struct pb_span in[5] = {x}, out;
    char name[32];

    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s_%d_%d", word, axis, i);
        in[1 + i] = tf_ints(im, name, &list[i], 1);
    }
    snprintf(name, sizeof name, "%s_%d", word, axis);
    out = tf_temp(im, name);
    onnx_step(im, "Slice", in, 5, out, NULL, 0);
    shape[axis] = count;
    snprintf(name, sizeof name, "%s_%d_size", word, axis);
    in[0] = out;
    in[1] = tf_ints(im, name, shape, rank);
    snprintf(name, sizeof name, "%s_%d_all", word, axis);
    out = tf_temp(im, name);
    onnx_step(im, "Reshape", in, 2, out, NULL, 0);
    return out;
}

/* As many pairs as the input has dimensions; at most as wide as these, where
 * their sizes are known. */
static int check_mirror(struct onnx_import *im, int n, const int64_t *pad)
{
    struct graph_type first, t;

    if (onnx_input_type(im, 0, 0, &first) < 0)
        return im->rc;
    if (first.rank != n)
        return onnx_fail(im, INFER_EFORMAT,
                         "paddings of %d dimensions, the input has %d", n,
                         first.rank);
    for (int p = 1; p < im->probes; p++) {
        if (onnx_input_type(im, 0, p, &t) < 0)
            return im->rc;
        for (int d = 0; d < n; d++)
            if (t.dim[d] != first.dim[d])
                first.dim[d] = -1;
    }
    for (int d = 0; d < n; d++)
        if (first.dim[d] >= 0 &&
            (pad[d] > first.dim[d] || pad[n + d] > first.dim[d]))
            return onnx_fail(im, INFER_EFORMAT,
                             "paddings %lld and %lld mirror %lld entries",
                             (long long)pad[d], (long long)pad[n + d],
                             (long long)first.dim[d]);
    return 0;
}

/* Mirrors with the entries at the ends repeated. */
static int pad_symmetric(struct onnx_import *im, int n, const int64_t *pad)
{
    struct pb_span x = im->node->in[0];

    if (im->rc < 0 || check_mirror(im, n, pad) < 0)
        return im->rc;
    for (int d = 0; d < n && im->rc == 0; d++) {
        const struct onnx_attr axis = tf_set_int("axis", d);
        struct pb_span part[3], out;
        char name[32];
        int parts = 0;

        if (pad[d] > 0)
            part[parts++] =
                backwards(im, x, d, "before", pad[d] - 1, INT64_MIN, n, pad[d]);
        part[parts++] = x;
        if (pad[n + d] > 0)
            part[parts++] = backwards(im, x, d, "after", -1, -pad[n + d] - 1, n,
                                      pad[n + d]);
        if (parts == 1)
            continue;
        snprintf(name, sizeof name, "mirrored_%d", d);
        out = tf_temp(im, name);
        onnx_step(im, "Concat", part, parts, out, &axis, 1);
        x = out;
    }
    return tf_last(im, "Identity", &x, 1, NULL, 0);
}

/* Pad, PadV2 (with a value), MirrorPad. */
int tf_pad(struct onnx_import *im)
{
    static const char *const words[] = {"REFLECT", "SYMMETRIC", NULL};
    const bool mirror = tf_row(im)->param;
    const struct onnx_attr mode =
        tf_set_word("mode", mirror ? "reflect" : "constant");
    int64_t pad[2 * INFER_MAX_RANK];
    struct pb_span in[3];
    int word = 0, n = 2, rank;

    if (onnx_arity(im, 2, 3) < 0)
        return im->rc;
    if (mirror)
        onnx_word(im, "mode", words, &word);
    rank = get_paddings(im, pad);
    if (word == 1)
        return pad_symmetric(im, rank, pad);
    in[0] = im->node->in[0];
    in[1] = tf_ints(im, "pads", pad, 2 * rank);
    if (im->node->n_in == 3)
        in[n++] = im->node->in[2];
    return tf_last(im, "Pad", in, n, &mode, 1);
}

/* ZerosLike, OnesLike: one number in the shape and the type of the input. */
int tf_like(struct onnx_import *im)
{
    struct pb_span in[2];
    struct constant *c;
    struct graph_type t;

    onnx_arity(im, 1, 1);
    if (onnx_input_type(im, 0, 0, &t) < 0)
        return im->rc;
    c = constant_new(t.dtype, 0, NULL);
    if (c)
        scalar_store(t.dtype, c->data, 0, tf_row(im)->param);
    in[0] = onnx_step_constant(im, c);
    in[1] = tf_next(im, "Shape", im->node->in[0], "shape");
    return tf_last(im, "Expand", in, 2, NULL, 0);
}
