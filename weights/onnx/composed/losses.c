/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: scores N,C,D..
 * and the right class of each of N,D.., which may have a weight.
 */
#include <limits.h>

#include "weights/onnx/composed/compose.h"

enum { NONE, SUM, MEAN };

/* Class t of each score, with its weight w[t] (1 without weights), 0 where t is
 * the class to be ignored. */
static int weight_of(struct onnx_import *im, int like, int index, int ignored,
                     int64_t classes)
{
    int w = compose_input(im, 2);

    if (w >= 0) {
        compose_need_rank(im, w, 1, 1);
        if (im->rc == 0 && compose_dim(im, w, 0) != classes)
            onnx_fail(im, INFER_EFORMAT, "%lld weights of %lld classes",
                      (long long)compose_dim(im, w, 0), (long long)classes);
        w = compose_gather(im, w, index, 0);
    } else if (ignored >= 0)
        w = compose_linear(im, 0, 1, like);
    return ignored < 0 ? w
                       : compose_where(im, ignored,
                                       compose_number(im, INFER_F32, 0), w);
}

static int total(struct onnx_import *im, int x)
{
    const int rank = compose_rank(im, x);
    int64_t axes[INFER_MAX_RANK];

    for (int d = 0; d < rank; d++) {
        axes[d] = d;
        x = compose_reduce(im, KERN_REDUCE_SUM, x, d);
    }
    if (rank > 0)
        onnx_emit_dims(im, GRAPH_SQUEEZE, x, rank, axes, -1, &x);
    return x;
}

/* The loss of logarithms of probabilities. */
static int loss_of(struct onnx_import *im, int x)
{
    static const char *const words[] = {"none", "sum", "mean", NULL};
    const bool ignores = onnx_has_attr(im, "ignore_index");
    int64_t ignore = 0;
    int how = MEAN, index, ignored = -1, w, y;

    onnx_word(im, "reduction", words, &how);
    onnx_int(im, "ignore_index", INT32_MIN, INT32_MAX, &ignore);
    compose_need_rank(im, x, 2, INFER_MAX_RANK);
    index = compose_cast(im, INFER_I64, compose_input(im, 1));
    compose_need_rank(im, index, compose_rank(im, x) - 1,
                      compose_rank(im, x) - 1);
    if (ignores) {
        ignored = compose_binary(im, KERN_EQUAL, index,
                                 compose_integer(im, INFER_I64, ignore));
        index = compose_where(im, ignored, compose_integer(im, INFER_I64, 0),
                              index);
    }
    y = compose_squeeze(
        im, compose_gather_elements(im, x, compose_unsqueeze(im, index, 1), 1),
        1);
    y = compose_unary(im, KERN_NEG, y);
    w = weight_of(im, y, index, ignored, compose_dim(im, x, 1));
    if (w >= 0)
        y = compose_binary(im, KERN_MUL, y, w);
    if (how == NONE)
        return y;
    if (how == MEAN && w < 0)
        w = compose_linear(im, 0, 1, y);
    y = total(im, y);
    return how == SUM ? y : compose_binary(im, KERN_DIV, y, total(im, w));
}

int onnx_import_nll_loss(struct onnx_import *im)
{
    onnx_arity(im, 2, 3);
    return compose_output(im, 0, loss_of(im, compose_input(im, 0)));
}

/* Output 1: the logarithms of the probabilities. */
int onnx_import_cross_entropy(struct onnx_import *im)
{
    union graph_attr attr;
    int x, y = -1;

    onnx_arity(im, 2, 3);
    x = compose_input(im, 0);
    onnx_defaults(GRAPH_SOFTMAX, &attr);
    attr.axis.axis = 1;
    attr.axis.log = true;
    onnx_emit(im, GRAPH_SOFTMAX, &attr, &x, 1, -1, &y);
    if (onnx_has_output(im, 1))
        compose_output(im, 1, y);
    return compose_output(im, 0, loss_of(im, y));
}
