/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn: functions of each element and of several inputs. */
#include <float.h>
#include <math.h>

#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

static void unary(struct ncnn *n, struct ncnn_ends *ends,
                  enum kern_unary_kind kind, float a, float b)
{
    ends->out[0] = layers_unary(&n->b, "", ends->in[0], kind, a, b);
}

void ncnn_unary(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    unary(n, ends, (enum kern_unary_kind)arg, 0, 0);
}

void ncnn_relu(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const float slope = ncnn_float(n, 0, 0);

    (void)arg;
    unary(n, ends, slope > 0 || slope < 0 ? KERN_LEAKY_RELU : KERN_RELU, slope,
          0);
}

void ncnn_clip(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    (void)arg;
    unary(n, ends, KERN_CLIP, ncnn_float(n, 0, -FLT_MAX),
          ncnn_float(n, 1, FLT_MAX));
}

void ncnn_elu(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    (void)arg;
    unary(n, ends, KERN_ELU, ncnn_float(n, 0, 0.1f), 0);
}

void ncnn_selu(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    (void)arg;
    unary(n, ends, KERN_SELU, ncnn_float(n, 0, 1.67326324f),
          ncnn_float(n, 1, 1.050700987f));
}

void ncnn_gelu(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    (void)arg;
    unary(n, ends, ncnn_int(n, 0, 0, 1, 0) ? KERN_GELU_TANH : KERN_GELU, 0, 0);
}

void ncnn_swish(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    (void)arg;
    unary(n, ends, KERN_SILU, 1, 0);
}

/* A factor, where training did not scale. */
void ncnn_dropout(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    (void)arg;
    unary(n, ends, KERN_LINEAR, ncnn_float(n, 0, 1), 0);
}

/* (shift + scale x)^power */
void ncnn_power(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const float power = ncnn_float(n, 0, 1);

    (void)arg;
    unary(n, ends, KERN_LINEAR, ncnn_float(n, 1, 1), ncnn_float(n, 2, 0));
    if (power < 1 || power > 1)
        ends->out[0] = layers_binary(&n->b, "power", KERN_POW, ends->out[0],
                                     layers_filled(&n->b, "power", 1, power));
}

void ncnn_unary_op(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const int kinds[] = {
        KERN_ABS,        KERN_NEG,  KERN_FLOOR, KERN_CEIL,  -2,
        KERN_SQRT,       -3,        KERN_EXP,   KERN_LOG,   KERN_SIN,
        KERN_COS,        KERN_TAN,  KERN_ASIN,  KERN_ACOS,  KERN_ATAN,
        KERN_RECIPROCAL, KERN_TANH, -4,         KERN_ROUND, -5};
    const int op = ncnn_int(n, 0, 0, INT32_MAX, 0);
    const int kind =
        op < (int)(sizeof(kinds) / sizeof(*kinds)) ? kinds[op] : -1;

    (void)arg;
    if (kind >= 0) {
        unary(n, ends, (enum kern_unary_kind)kind, 0, 0);
    } else if (kind == -2) {
        ends->out[0] =
            layers_binary(&n->b, "", KERN_MUL, ends->in[0], ends->in[0]);
    } else if (kind == -3) {
        unary(n, ends, KERN_SQRT, 0, 0);
        ends->out[0] = layers_unary(&n->b, "reciprocal", ends->out[0],
                                    KERN_RECIPROCAL, 0, 0);
    } else if (kind == -4) {
        unary(n, ends, KERN_LOG, 0, 0);
        ends->out[0] = layers_unary(&n->b, "base", ends->out[0], KERN_LINEAR,
                                    0.43429448190325182f, 0);
    } else if (kind == -5) { /* toward zero */
        const int sign =
            layers_unary(&n->b, "sign", ends->in[0], KERN_SIGN, 0, 0);

        unary(n, ends, KERN_ABS, 0, 0);
        ends->out[0] =
            layers_unary(&n->b, "floor", ends->out[0], KERN_FLOOR, 0, 0);
        ends->out[0] =
            layers_binary(&n->b, "trunc", KERN_MUL, ends->out[0], sign);
    } else {
        layers_fail(&n->b, INFER_EUNSUPPORTED, "op_type %d is not supported",
                    op);
    }
}

/* ---- several inputs ------------------------------------------------ */

/* ncnn takes the vector for channels where their number fits, else for a row;
 * a matrix for channels and rows. */
int ncnn_spread(struct ncnn *n, int x, int other)
{
    const int rank = layers_rank(&n->b, x), to = layers_rank(&n->b, other);
    const int64_t width = layers_dim(&n->b, x, 1);
    int64_t dim[4] = {0, 0, 0, 0};
    int i;

    if (n->b.status < 0 || rank >= to)
        return x;
    if (rank < 2 || to > 4)
        return layers_fail(&n->b, INFER_EUNSUPPORTED,
                           "inputs of %d and %d dimensions", rank - 1, to - 1);
    for (i = 1; i < to; i++)
        dim[i] = 1;
    if (rank == 3) {
        dim[1] = dim[2] = 0;
    } else if (width == layers_dim(&n->b, other, 1)) {
        dim[1] = 0;
    } else {
        dim[to - 1] = layers_known(&n->b, x, 1);
    }
    return layers_dims(&n->b, GRAPH_RESHAPE, "spread", x, to, dim);
}

void ncnn_binary(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const struct {
        enum kern_binary_kind kind;
        bool reversed;
    } ops[] = {{KERN_ADD, false}, {KERN_SUB, false}, {KERN_MUL, false},
               {KERN_DIV, false}, {KERN_MAX, false}, {KERN_MIN, false},
               {KERN_POW, false}, {KERN_SUB, true},  {KERN_DIV, true},
               {KERN_POW, true}};
    const int op = ncnn_int(n, 0, 0, INT32_MAX, 0);
    int a = ends->in[0], b;

    (void)arg;
    if (op >= (int)(sizeof(ops) / sizeof(*ops))) {
        layers_fail(&n->b, INFER_EUNSUPPORTED, "op_type %d is not supported",
                    op);
        return;
    }
    if (ncnn_int(n, 1, 0, 1, 0) != 0 || ends->n_in == 1) {
        b = layers_filled(&n->b, "number", 1, ncnn_float(n, 2, 0));
    } else {
        b = ncnn_spread(n, ends->in[1], a);
        a = ncnn_spread(n, a, b);
    }
    ends->out[0] = ops[op].reversed
                       ? layers_binary(&n->b, "", ops[op].kind, b, a)
                       : layers_binary(&n->b, "", ops[op].kind, a, b);
}

void ncnn_eltwise(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const enum kern_binary_kind kinds[] = {KERN_MUL, KERN_ADD, KERN_MAX};
    const int op = ncnn_int(n, 0, 0, 2, 0);
    float coeff[GRAPH_MAX_PARTS];
    const int count = ncnn_floats(n, 1, GRAPH_MAX_PARTS, coeff);
    int i, y = -1;

    (void)arg;
    if (count > 0 && (count != ends->n_in || op != 1))
        layers_fail(&n->b, INFER_EFORMAT, "%d coefficients for %d inputs",
                    count, ends->n_in);
    for (i = 0; i < ends->n_in && n->b.status == 0; i++) {
        int x = ends->in[i];

        if (count > 0 && (coeff[i] < 1 || coeff[i] > 1))
            x = layers_unary(&n->b, "coeff", x, KERN_LINEAR, coeff[i], 0);
        y = i == 0 ? x : layers_binary(&n->b, "", kinds[op], y, x);
    }
    ends->out[0] = y;
}

void ncnn_split(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    int i;

    (void)n;
    (void)arg;
    for (i = 0; i < ends->n_out; i++)
        ends->out[i] = ends->in[ends->n_in > 1 && i < ends->n_in ? i : 0];
}

void ncnn_softmax(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    union graph_attr attr = layers_defaults(GRAPH_SOFTMAX);

    (void)arg;
    attr.axis.axis =
        ncnn_axis(n, ncnn_int(n, 0, -4, 3, 0), layers_rank(&n->b, ends->in[0]));
    ends->out[0] = layers_emit(&n->b, GRAPH_SOFTMAX, "", &attr, ends->in, 1);
}

void ncnn_lrn(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    union graph_attr attr = layers_defaults(GRAPH_LRN);

    (void)arg;
    attr.lrn.size = ncnn_int(n, 1, 1, NCNN_MAX_STEP, 5);
    attr.lrn.alpha = ncnn_float(n, 2, 1);
    attr.lrn.beta = ncnn_float(n, 3, 0.75f);
    attr.lrn.bias = ncnn_float(n, 4, 1);
    if (attr.lrn.size % 2 == 0)
        layers_fail(&n->b, INFER_EUNSUPPORTED, "an even size of %d",
                    attr.lrn.size);
    else if (ncnn_int(n, 0, 0, 1, 0) != 0)
        ends->out[0] =
            layers_lrn_within(&n->b, ends->in[0], attr.lrn.size, attr.lrn.alpha,
                              attr.lrn.beta, attr.lrn.bias);
    else
        ends->out[0] = layers_emit(&n->b, GRAPH_LRN, "", &attr, ends->in, 1);
}
