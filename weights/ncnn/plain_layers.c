/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn: functions of each element, of several inputs, and pooling. */
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
        KERN_ABS,  KERN_NEG,  KERN_FLOOR, KERN_CEIL,
        -2,        KERN_SQRT, -3,         KERN_EXP,
        KERN_LOG,  -1,        -1,         -1,
        -1,        -1,        -1,         KERN_RECIPROCAL,
        KERN_TANH, -1,        KERN_ROUND};
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
    if (ncnn_int(n, 0, 0, 1, 0) != 0 || attr.lrn.size % 2 == 0)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "a region within channels, or an even size of %d",
                    attr.lrn.size);
    ends->out[0] = layers_emit(&n->b, GRAPH_LRN, "", &attr, ends->in, 1);
}

/* ---- pooling ------------------------------------------------------- */

/* Sizes are rounded up by padding at the end, which an average counts where it
 * counts padding at all. */
static void pad_tail(struct ncnn *n, int x, struct kern_pool *p)
{
    int i;

    for (i = 0; i < 2; i++) {
        const int64_t in = layers_known(&n->b, x, 2 + i);
        const int64_t room =
            in + p->pad_begin[i] + p->pad_end[i] - p->window[i];
        const int64_t tail = room % p->stride[i];

        if (n->b.status == 0 && tail > 0)
            p->pad_end[i] += p->stride[i] - (int)tail;
    }
}

static void read_pool(struct ncnn *n, int x, union graph_attr *attr)
{
    struct kern_pool *p = &attr->pool.pool;
    const int mode = ncnn_int(n, 5, 0, 3, 0);
    const int left = ncnn_int(n, 3, 0, NCNN_MAX_STEP, 0);
    const int top = ncnn_int(n, 13, 0, NCNN_MAX_STEP, left);

    p->count_include_pad = ncnn_int(n, 6, 0, 1, 0) != 0;
    p->window[1] = ncnn_int(n, 1, 1, NCNN_MAX_STEP, 1);
    p->window[0] = ncnn_int(n, 11, 1, NCNN_MAX_STEP, p->window[1]);
    p->stride[1] = ncnn_int(n, 2, 1, NCNN_MAX_STEP, 1);
    p->stride[0] = ncnn_int(n, 12, 1, NCNN_MAX_STEP, p->stride[1]);
    if (mode >= 2) {
        attr->pool.auto_pad =
            mode == 2 ? GRAPH_PAD_SAME_UPPER : GRAPH_PAD_SAME_LOWER;
        return;
    }
    p->pad_begin[0] = top;
    p->pad_begin[1] = left;
    p->pad_end[1] = ncnn_int(n, 14, 0, NCNN_MAX_STEP, left);
    p->pad_end[0] = ncnn_int(n, 15, 0, NCNN_MAX_STEP, top);
    if (mode == 0 && (p->stride[0] > 1 || p->stride[1] > 1))
        pad_tail(n, x, p);
}

/* The mean or maximum of all pixels is a vector. */
void ncnn_pooling(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const bool global = ncnn_int(n, 4, 0, 1, 0) != 0;
    union graph_attr attr = layers_defaults(GRAPH_POOL);
    int y;

    (void)arg;
    attr.pool.pool.kind =
        ncnn_int(n, 0, 0, 1, 0) == 0 ? KERN_POOL_MAX : KERN_POOL_AVERAGE;
    if (ncnn_int(n, 7, 0, 1, 0) != 0 &&
        (ncnn_int(n, 8, NCNN_NONE, NCNN_MAX_STEP, 1) != 1 ||
         ncnn_int(n, 18, NCNN_NONE, NCNN_MAX_STEP, 1) != 1))
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "adaptive pooling to more than one pixel");
    else if (!global && ncnn_int(n, 7, 0, 1, 0) == 0)
        read_pool(n, ends->in[0], &attr);
    y = layers_emit(&n->b, GRAPH_POOL, "", &attr, ends->in, 1);
    ends->out[0] = global ? layers_flatten(&n->b, "vector", y) : y;
}
