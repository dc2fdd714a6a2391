/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: diagonals, and sequences of stated lengths in reverse. */
#include "weights/tflite/tflite.h"

/* ---- diagonals ----------------------------------------------------- */

/* True on the diagonal of a matrix of this size. */
static int diagonal(struct tflite_import *im, int64_t rows, int64_t columns)
{
    const int64_t dim[2] = {rows, columns};
    struct constant *c = tflite_constant_new(im, INFER_BOOL, 2, dim);

    for (int64_t i = 0; c && i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            c->data[i * columns + k] = i == k;
    return tflite_add_constant(im, -1, c);
}

/* Vectors along the last axis as matrices, or as the diagonals of given ones
 * (`set`), whose sizes are fixed. */
void tflite_import_diagonal(struct tflite_import *im, int set)
{
    const int vector = set ? 1 : 0, rank = tflite_rank(im, vector);
    int64_t size[2], axis = rank;
    struct tflite_tensor x;
    float none = 0;
    int in[3];

    if (!tflite_arity(im, set ? 2 : 1, set ? 2 : 1))
        return;
    if (rank < 1 || rank >= INFER_MAX_RANK ||
        (set && tflite_rank(im, 0) != rank + 1)) {
        tflite_fail(im, INFER_EFORMAT, "diagonals of rank %d", rank);
        return;
    }
    for (int i = 0; i < 2; i++) {
        const int d = set ? rank - 1 + i : rank - 1;

        size[i] = tflite_type(im, 0, 0).dim[d];
        if (size[i] != tflite_type(im, 0, im->probes - 1).dim[d])
            tflite_fail(im, INFER_EUNSUPPORTED, "diagonals of a free size");
    }
    if (im->status == 0 && set &&
        tflite_type(im, 1, 0).dim[rank - 1] !=
            (size[0] < size[1] ? size[0] : size[1]))
        tflite_fail(im, INFER_EFORMAT, "a diagonal of %lld for %lldx%lld",
                    (long long)tflite_type(im, 1, 0).dim[rank - 1],
                    (long long)size[0], (long long)size[1]);
    if (im->status < 0)
        return;
    if (set && size[0] < size[1])
        axis = rank; /* one a row */
    else if (set && size[0] > size[1])
        axis = rank - 1; /* one a column */
    x = tflite_input_tensor(im, 0);
    if (im->raw && tflite_is_quantised(&x)) /* the integer 0 */
        none = (float)-tflite_quant(im, &x).zero;
    in[0] = diagonal(im, size[0], size[1]);
    in[1] = tflite_dims(im, GRAPH_UNSQUEEZE, tflite_in(im, vector, false), 1,
                        &axis);
    in[2] = set ? tflite_in(im, 0, false)
                : tflite_cast(im, tflite_scalar(im, none),
                              im->status == 0
                                  ? tflite_value_type(im, in[1], 0)->dtype
                                  : INFER_F32);
    tflite_out(im, 0, tflite_emit(im, GRAPH_WHERE, NULL, in, 3), false);
}

/* ---- REVERSE_SEQUENCE ---------------------------------------------- */

/* Input 1: how many entries of each sequence are reversed. */
void tflite_import_reverse_sequence(struct tflite_import *im, int param)
{
    const struct graph_type x = tflite_type(im, 0, 0);
    const int axis = fb_i32(&im->op.options, 0, 0);
    const int batch = fb_i32(&im->op.options, 1, 0);
    int64_t dim[INFER_MAX_RANK], n;
    int length, at, in[3], index;
    union graph_attr attr;
    struct constant *c;

    (void)param;
    if (!tflite_arity(im, 2, 2))
        return;
    if (axis < 0 || batch < 0 || axis >= x.rank || batch >= x.rank ||
        axis == batch || tflite_rank(im, 1) != 1) {
        tflite_fail(im, INFER_EFORMAT, "sequences along %d, one along %d", axis,
                    batch);
        return;
    }
    n = x.dim[axis];
    for (int p = 1; p < im->probes; p++)
        for (int d = 0; d < x.rank; d++)
            if (d != batch && tflite_type(im, 0, p).dim[d] != x.dim[d]) {
                tflite_fail(im, INFER_EUNSUPPORTED, "sequences of a free size");
                return;
            }
    for (int d = 0; d < x.rank; d++)
        dim[d] = d == axis ? n : 1;
    c = tflite_constant_new(im, INFER_I32, x.rank, dim);
    for (int64_t i = 0; c && i < n; i++)
        ((int32_t *)(void *)c->data)[i] = (int32_t)i;
    at = tflite_add_constant(im, -1, c);
    for (int d = 0; d < x.rank; d++)
        dim[d] = d == batch ? -1 : 1;
    length = tflite_cast(im, tflite_in(im, 1, false), INFER_I32);
    length = tflite_dims(im, GRAPH_RESHAPE, length, x.rank, dim);
    in[0] = tflite_binary(im, KERN_LESS, at, length);
    in[1] = tflite_binary(im, KERN_SUB, length, tflite_integer(im, 1));
    in[1] = tflite_binary(im, KERN_SUB, in[1], at);
    in[2] = at;
    index = tflite_emit(im, GRAPH_WHERE, NULL, in, 3);
    /* The index has x's shape. */
    in[0] = tflite_in(im, 0, false);
    for (int d = 0; d < x.rank; d++)
        dim[d] = d == batch ? -1 : x.dim[d];
    tflite_defaults(GRAPH_EXPAND, &attr);
    attr.dims.n = x.rank;
    for (int d = 0; d < x.rank; d++)
        attr.dims.dim[d] = d == batch ? 1 : x.dim[d];
    index = tflite_emit(im, GRAPH_EXPAND, &attr, &index, 1);
    index = tflite_cast(im, index, INFER_I64);
    in[1] = index;
    tflite_defaults(GRAPH_GATHER_ELEMENTS, &attr);
    attr.axis.axis = axis;
    tflite_out(im, 0, tflite_emit(im, GRAPH_GATHER_ELEMENTS, &attr, in, 2),
               false);
}
