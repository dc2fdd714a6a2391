/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bitcast of floats, of which BitwiseAnd takes the sign: the way in which Keras
 * tells -0 from 0.  Other bits of floats are not computed.
 */
#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"
#include "weights/tensorflow/tensorflow.h"

static bool is_op(const struct tf_import *tf, int node, const char *op)
{
    return pb_span_is(tf->graph.node[node].op, op);
}

/* Whether all that reads the node is a BitwiseAnd.  1, 0 or an error. */
static int all_mask(struct onnx_import *im, struct tf_import *tf)
{
    for (int k = 0; k < tf->n_order; k++) {
        const int reader = tf->order[k];

        for (int i = 0; i < tf->graph.node[reader].n_in; i++) {
            struct tf_edge e;

            if (tf->graph.node[reader].alias || is_op(tf, reader, "BitwiseAnd"))
                break;
            if (tf_input(&tf->graph, reader, i, im->err, &e) < 0)
                return im->rc = im->err->code;
            if (e.node == tf->node)
                return 0;
        }
    }
    for (int o = 0; o < tf->n_outputs; o++)
        if (tf->output[o].edge.node == tf->node)
            return 0;
    return 1;
}

/* The lowest integer where x or 1 / x is below 0, else 0. */
int tf_bitcast(struct onnx_import *im)
{
    struct tf_import *tf = im->context;
    const struct onnx_attr *type = onnx_attr(im, "type");
    int x, zero, negative, only;

    onnx_arity(im, 1, 1);
    x = compose_input(im, 0);
    only = im->rc < 0 ? im->rc : all_mask(im, tf);
    if (only < 0)
        return im->rc;
    if (!type || type->i != TF_INT32 || compose_dtype(im, x) != INFER_F32 ||
        !only)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "bits of a tensor other than the sign of floats");
    zero = compose_number(im, INFER_F32, 0);
    negative = compose_binary(
        im, KERN_OR, compose_binary(im, KERN_LESS, x, zero),
        compose_binary(im, KERN_LESS, compose_unary(im, KERN_RECIPROCAL, x),
                       zero));
    return compose_output(
        im, 0,
        compose_where(im, negative, compose_integer(im, INFER_I32, INT32_MIN),
                      compose_integer(im, INFER_I32, 0)));
}

/* Of the bits of floats only the sign may be taken. */
int tf_bit_and(struct onnx_import *im)
{
    struct tf_import *tf = im->context;

    onnx_arity(im, 2, 2);
    for (int i = 0; i < 2 && im->rc == 0; i++) {
        struct constant *mask = NULL;
        struct tf_edge e;

        if (tf_input(&tf->graph, tf->node, i, im->err, &e) < 0)
            return im->rc = im->err->code;
        if (!is_op(tf, e.node, "Bitcast"))
            continue;
        if (onnx_input_constant(im, 1 - i, &mask) < 0)
            return im->rc;
        if (!mask || constant_count(mask) != 1 || mask->dtype != INFER_I32 ||
            scalar_load_i64(INFER_I32, mask->data, 0) != INT32_MIN)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "bits of floats other than their sign");
    }
    return compose_output(im, 0,
                          compose_binary(im, KERN_BIT_AND, compose_input(im, 0),
                                         compose_input(im, 1)));
}
