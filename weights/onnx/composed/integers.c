/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX MatMul of integers.  The graph's matrix product is one of floats, which
 * hold integers up to 2^24; this one is exact: the products of all pairs, added
 * along the dimension that both have.
 */
#include "kernels/base/checked.h"
#include "weights/onnx/composed/compose.h"

/* All products at once are a value of the graph. */
#define MOST_PRODUCTS ((int64_t)1 << 26)

static int check_products(struct onnx_import *im, int a, int b)
{
    int64_t all = compose_dim(im, b, -1);

    /* The rows of a and the columns of b, and the larger of the batches. */
    const int rank_a = compose_rank(im, a), rank_b = compose_rank(im, b);
    for (int d = 0; d < rank_a || d + 2 < rank_b; d++) {
        const int64_t of_a =
            d < rank_a ? compose_free_dim(im, a, rank_a - 1 - d) : 1;
        const int64_t of_b =
            d >= 2 && d < rank_b ? compose_free_dim(im, b, rank_b - 1 - d) : 1;
        const int64_t n = of_a > of_b ? of_a : of_b;

        if (!checked_mul_i64(all, n > 0 ? n : 1, &all))
            all = INT64_MAX;
        if (im->rc == 0 && all > MOST_PRODUCTS)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "a product of integers with more than %lld terms",
                             (long long)MOST_PRODUCTS);
    }
    return im->rc;
}

int onnx_import_integer_matmul(struct onnx_import *im)
{
    int a = compose_input(im, 0), b = compose_input(im, 1), y;
    const bool row = compose_rank(im, a) == 1,
               column = compose_rank(im, b) == 1;
    int64_t axes[3];
    int n = 0;

    if (row)
        a = compose_unsqueeze(im, a, 0);
    if (column)
        b = compose_unsqueeze(im, b, 1);
    if (im->rc == 0 && compose_dim(im, a, -1) != compose_dim(im, b, -2))
        return onnx_fail(im, INFER_EFORMAT, "%lld columns and %lld rows",
                         (long long)compose_dim(im, a, -1),
                         (long long)compose_dim(im, b, -2));
    if (check_products(im, a, b) < 0)
        return im->rc;
    /* M,K,1 by 1,K,N */
    y = compose_binary(im, KERN_MUL,
                       compose_unsqueeze(im, a, compose_rank(im, a)),
                       compose_unsqueeze(im, b, compose_rank(im, b) - 2));
    y = compose_reduce(im, KERN_REDUCE_SUM, y, compose_rank(im, y) - 2);
    axes[n++] = compose_rank(im, y) - 2;
    if (row)
        axes[n++] = compose_rank(im, y) - 3;
    if (column)
        axes[n++] = compose_rank(im, y) - 1;
    return onnx_emit_dims(im, GRAPH_SQUEEZE, y, n, axes, 0, NULL);
}
