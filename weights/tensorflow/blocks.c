/* SPDX-License-Identifier: Apache-2.0 */
/* SpaceToBatchND, BatchToSpaceND and Roll.  Dilated convolutions of Keras stand
 * between the first two. */
#include "weights/onnx/composed/compose.h"
#include "weights/tensorflow/tensorflow.h"

struct blocks {
    int n; /* block dimensions, from 1 on */
    int64_t size[INFER_MAX_RANK], edge[2 * INFER_MAX_RANK];
};

/* Block sizes, and pairs of pads or crops. */
static int read_blocks(struct onnx_import *im, struct blocks *b)
{
    const struct onnx_small *const *edge;
    int n = -1;

    onnx_input_ints(im, 1, "block_shape", INFER_MAX_RANK - 1, b->size, &n);
    if (onnx_input_small(im, 2, &edge) < 0)
        return im->rc;
    if (!edge || !onnx_small_is_fixed(im, edge))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "pads or crops that are computed at run time");
    if (n < 1 || !edge[0]->i || edge[0]->count != 2 * n)
        return onnx_fail(im, INFER_EFORMAT, "%d block sizes, %lld edges", n,
                         (long long)edge[0]->count);
    b->n = n;
    for (int i = 0; i < 2 * n; i++) {
        b->edge[i] = edge[0]->i[i];
        if (b->edge[i] < 0 || b->edge[i] > OP_MAX_STEP || b->size[i / 2] < 1 ||
            b->size[i / 2] > OP_MAX_STEP)
            return onnx_fail(im, INFER_EFORMAT,
                             "blocks of %lld, an edge of "
                             "%lld",
                             (long long)b->size[i / 2], (long long)b->edge[i]);
    }
    return 0;
}

static int check_rank(struct onnx_import *im, const struct blocks *b, int x)
{
    const int rank = compose_rank(im, x);

    if (im->rc == 0 && (rank <= b->n || rank + b->n > INFER_MAX_RANK))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "blocks of %d dimensions in %d", b->n, rank);
    return im->rc;
}

/* N,S b,rest to b,N,S,rest: an entry of each block becomes a picture. */
static int to_batch(struct onnx_import *im, const struct blocks *b, int x)
{
    const int rank = compose_rank(im, x), n = b->n;
    int64_t split[INFER_MAX_RANK], order[INFER_MAX_RANK], join[INFER_MAX_RANK];

    for (int i = 0; i < n; i++)
        if (b->edge[2 * i] || b->edge[2 * i + 1])
            x = compose_pad(im, x, 1 + i, (int)b->edge[2 * i],
                            (int)b->edge[2 * i + 1], 0);
    split[0] = join[0] = -1;
    order[n] = 0;
    for (int i = 0; i < n; i++) {
        const int64_t whole = compose_dim(im, x, 1 + i);

        if (im->rc == 0 && whole % b->size[i])
            onnx_fail(im, INFER_EFORMAT, "blocks of %lld in %lld",
                      (long long)b->size[i], (long long)whole);
        split[1 + 2 * i] = join[1 + i] = whole / b->size[i];
        split[2 + 2 * i] = b->size[i];
        order[i] = 2 + 2 * i;
        order[n + 1 + i] = 1 + 2 * i;
    }
    for (int d = 1 + n; d < rank; d++) {
        split[d + n] = join[d] = compose_dim(im, x, d);
        order[d + n] = d + n;
    }
    x = compose_reshape(im, x, rank + n, split);
    x = compose_transpose(im, x, rank + n, order);
    return compose_reshape(im, x, rank, join);
}

static int from_batch(struct onnx_import *im, const struct blocks *b, int x)
{
    const int rank = compose_rank(im, x), n = b->n;
    int64_t split[INFER_MAX_RANK], order[INFER_MAX_RANK], join[INFER_MAX_RANK];

    split[n] = join[0] = -1;
    order[0] = n;
    for (int i = 0; i < n; i++) {
        const int64_t part = compose_dim(im, x, 1 + i);

        split[i] = b->size[i];
        split[n + 1 + i] = part;
        join[1 + i] = part * b->size[i];
        order[1 + 2 * i] = n + 1 + i;
        order[2 + 2 * i] = i;
    }
    for (int d = 1 + n; d < rank; d++) {
        split[d + n] = join[d] = compose_dim(im, x, d);
        order[d + n] = d + n;
    }
    x = compose_reshape(im, x, rank + n, split);
    x = compose_transpose(im, x, rank + n, order);
    x = compose_reshape(im, x, rank, join);
    for (int i = 0; i < n; i++)
        if (b->edge[2 * i] || b->edge[2 * i + 1])
            x = compose_slice(im, x, 1 + i, b->edge[2 * i],
                              join[1 + i] - b->edge[2 * i + 1], 1);
    return x;
}

/* The ends of a dilated convolution: pads, and crops. */
static int pad_or_crop(struct onnx_import *im, const struct blocks *b, int x)
{
    for (int i = 0; i < b->n; i++) {
        const int64_t begin = b->edge[2 * i], end = b->edge[2 * i + 1];

        if (begin == 0 && end == 0)
            continue;
        if (!tf_row(im)->param)
            x = compose_pad(im, x, 1 + i, (int)begin, (int)end, 0);
        else
            x = compose_slice(im, x, 1 + i, begin, end > 0 ? -end : INT64_MAX,
                              1);
    }
    return x;
}

int tf_batch_blocks(struct onnx_import *im)
{
    const struct tf_import *tf = im->context;
    struct blocks b = {.n = 0};
    int x;

    onnx_arity(im, 3, 3);
    x = compose_input(im, 0);
    if (read_blocks(im, &b) < 0 || check_rank(im, &b, x) < 0)
        return im->rc;
    if (tf->dilated[tf->node])
        return compose_output(im, 0, pad_or_crop(im, &b, x));
    return compose_output(
        im, 0, tf_row(im)->param ? from_batch(im, &b, x) : to_batch(im, &b, x));
}

/* Entries that leave at the end come back at the beginning. */
int tf_roll(struct onnx_import *im)
{
    int64_t shift[INFER_MAX_RANK], axis[INFER_MAX_RANK];
    int x, n = -1, m = -1;

    onnx_arity(im, 3, 3);
    x = compose_input(im, 0);
    onnx_input_ints(im, 1, "the shift", INFER_MAX_RANK, shift, &n);
    onnx_input_ints(im, 2, "the axis", INFER_MAX_RANK, axis, &m);
    if (im->rc == 0 && n != m)
        return onnx_fail(im, INFER_EFORMAT, "%d shifts of %d axes", n, m);
    for (int i = 0; i < n && im->rc == 0; i++) {
        int part[2], d = 0;
        int64_t size, cut;

        im->rc = op_axis(axis[i] < -INFER_MAX_RANK || axis[i] > INFER_MAX_RANK
                             ? INFER_MAX_RANK
                             : (int)axis[i],
                         compose_rank(im, x), &d, im->err);
        size = compose_dim(im, x, d);
        if (im->rc < 0 || size < 1)
            return im->rc;
        cut = (size - shift[i] % size) % size;
        if (cut == 0)
            continue;
        part[0] = compose_slice(im, x, d, cut, size, 1);
        part[1] = compose_slice(im, x, d, 0, cut, 1);
        x = compose_concat(im, 2, part, d);
    }
    return compose_output(im, 0, x);
}
