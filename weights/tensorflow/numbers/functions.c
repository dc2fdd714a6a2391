/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of numbers for which ONNX has no operator, and counts of them. */
#include "weights/onnx/composed/compose.h"
#include "weights/tensorflow/tensorflow.h"

int tf_is_finite(struct onnx_import *im)
{
    struct pb_span part[2], out = tf_temp(im, "none");

    onnx_arity(im, 1, 1);
    if (im->rc < 0)
        return im->rc;
    part[0] = tf_next(im, "IsNaN", im->node->in[0], "nan");
    part[1] = tf_next(im, "IsInf", im->node->in[0], "infinite");
    onnx_step(im, "Or", part, 2, out, NULL, 0);
    return tf_last(im, "Not", &out, 1, NULL, 0);
}

/* 0 where x is 0, else x / y, x log(y) or x log(1 + y): param 0, 1, 2; 3: x /
 * y, and 0 where y is 0. */
int tf_unless_zero(struct onnx_import *im)
{
    const int kind = tf_row(im)->param;
    int x, y, zero, least;

    onnx_arity(im, 2, 2);
    x = compose_input(im, 0);
    y = compose_input(im, 1);
    least = kind == 3 ? y : x;
    zero = compose_number(im, compose_dtype(im, x), 0);
    if (kind == 2)
        y = compose_linear(im, 1, 1, y);
    if (kind == 1 || kind == 2)
        y = compose_unary(im, KERN_LOG, y);
    y = compose_binary(im, kind == 1 || kind == 2 ? KERN_MUL : KERN_DIV, x, y);
    x = compose_binary(im, KERN_EQUAL, least, zero);
    return compose_output(im, 0, compose_where(im, x, zero, y));
}

/* How often each number below `size` stands in a row, or whether it does; other
 * numbers do not count. */
int tf_bincount(struct onnx_import *im)
{
    bool binary = false;
    int64_t size = 0;
    int x, y, rank, n = 1;
    struct graph_type weights;

    onnx_arity(im, 3, 3);
    onnx_flag(im, "binary_output", &binary);
    onnx_input_ints(im, 1, "the number of bins", 1, &size, &n);
    x = compose_input(im, 0);
    if (onnx_input_type(im, 2, 0, &weights) < 0 ||
        compose_need_rank(im, x, 1, 2) < 0)
        return im->rc;
    if (size < 1 || size > 65536 || weights.rank != 1 || weights.dim[0] != 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "%lld bins, or counts by weights", (long long)size);
    rank = compose_rank(im, x);
    y = compose_cast(im, compose_dtype(im, x),
                     compose_count(im, size, rank + 1, rank));
    x = compose_binary(im, KERN_EQUAL, compose_unsqueeze(im, x, rank), y);
    x = compose_cast(im, weights.dtype, x);
    x = compose_reduce(im, binary ? KERN_REDUCE_MAX : KERN_REDUCE_SUM, x,
                       rank - 1);
    return compose_output(im, 0, compose_squeeze(im, x, rank - 1));
}

/* The shape that two shapes broadcast to. */
int tf_broadcast_args(struct onnx_import *im)
{
    int in[2], rank[2], part[2];
    int64_t *ones = NULL;

    onnx_arity(im, 2, 2);
    for (int i = 0; i < 2; i++) {
        in[i] = compose_input(im, i);
        if (compose_need_rank(im, in[i], 1, 1) < 0)
            return im->rc;
        rank[i] = (int)compose_dim(im, in[i], 0);
    }
    for (int i = 0; i < 2 && im->rc == 0; i++) {
        const int64_t more = rank[!i] - rank[i];

        in[i] = compose_cast(im, INFER_I64, in[i]);
        if (more <= 0 || more > INFER_MAX_RANK)
            continue;
        part[0] = compose_i64(im, 1, &more, &ones);
        for (int64_t k = 0; k < more && ones; k++)
            ones[k] = 1;
        part[1] = in[i];
        in[i] = compose_concat(im, 2, part, 0);
    }
    in[0] = compose_binary(im, KERN_MAX, in[0], in[1]);
    return compose_output(im, 0, in[0]);
}
