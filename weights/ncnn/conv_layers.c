/* SPDX-License-Identifier: Apache-2.0 */
/* ncnn: convolutions, dense layers, normalisation: layers with weights. */
#include "kernels/base/error.h"
#include "weights/ncnn/ncnn.h"

/* ---- activations --------------------------------------------------- */

/* x clip(alpha x + beta, 0, 1) */
static int hard_swish(struct ncnn *n, int x, float alpha, float beta)
{
    const int gate =
        layers_unary(&n->b, "gate", x, KERN_HARD_SIGMOID, alpha, beta);

    return layers_binary(&n->b, "hard_swish", KERN_MUL, x, gate);
}

int ncnn_activation(struct ncnn *n, int x)
{
    const int kind = ncnn_int(n, 9, 0, INT32_MAX, 0);
    float p[2] = {0, 0};

    ncnn_floats(n, 10, 2, p);
    switch (kind) {
    case 0:
        return x;
    case 1:
        return layers_unary(&n->b, "relu", x, KERN_RELU, 0, 0);
    case 2:
        return layers_unary(&n->b, "leaky_relu", x, KERN_LEAKY_RELU, p[0], 0);
    case 3:
        return layers_unary(&n->b, "clip", x, KERN_CLIP, p[0], p[1]);
    case 4:
        return layers_unary(&n->b, "sigmoid", x, KERN_SIGMOID, 0, 0);
    case 5:
        return layers_unary(&n->b, "mish", x, KERN_MISH, 0, 0);
    case 6:
        return hard_swish(n, x, p[0], p[1]);
    default:
        return layers_fail(&n->b, INFER_EUNSUPPORTED,
                           "activation_type %d is not supported", kind);
    }
}

void ncnn_hard_sigmoid(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const float alpha = ncnn_float(n, 0, 0.2f), beta = ncnn_float(n, 1, 0.5f);

    ends->out[0] = arg ? hard_swish(n, ends->in[0], alpha, beta)
                       : layers_unary(&n->b, "", ends->in[0], KERN_HARD_SIGMOID,
                                      alpha, beta);
}

/* ---- convolutions -------------------------------------------------- */

struct window {
    int64_t outputs, groups;
    int64_t size[2]; /* rows, columns */
    union graph_attr attr;
    bool bias;
};

/* The columns come first, and the rows are as the columns where absent. */
static void read_window(struct ncnn *n, enum graph_op op, bool depthwise,
                        struct window *w)
{
    struct kern_conv *c = &w->attr.conv.conv;
    int left, right, top;

    w->attr = layers_defaults(op);
    w->outputs = ncnn_int(n, 0, 1, INT32_MAX, 1);
    w->groups = depthwise ? ncnn_int(n, 7, 1, INT32_MAX, 1) : 1;
    w->bias = ncnn_int(n, 5, 0, 1, 0) != 0;
    w->size[1] = ncnn_int(n, 1, 1, NCNN_MAX_STEP, 1);
    w->size[0] = ncnn_int(n, 11, 1, NCNN_MAX_STEP, (int)w->size[1]);
    c->groups = (int)w->groups;
    c->dilation[1] = ncnn_int(n, 2, 1, NCNN_MAX_STEP, 1);
    c->dilation[0] = ncnn_int(n, 12, 1, NCNN_MAX_STEP, c->dilation[1]);
    c->stride[1] = ncnn_int(n, 3, 1, NCNN_MAX_STEP, 1);
    c->stride[0] = ncnn_int(n, 13, 1, NCNN_MAX_STEP, c->stride[1]);
    left = ncnn_int(n, 4, -234, NCNN_MAX_STEP, 0);
    right = ncnn_int(n, 15, -234, NCNN_MAX_STEP, left);
    top = ncnn_int(n, 14, -234, NCNN_MAX_STEP, left);
    c->pad_begin[0] = top;
    c->pad_end[0] = ncnn_int(n, 16, -234, NCNN_MAX_STEP, top);
    c->pad_begin[1] = left;
    c->pad_end[1] = right;
    if (left == NCNN_NONE || left == NCNN_NONE - 1)
        w->attr.conv.auto_pad =
            left == NCNN_NONE ? GRAPH_PAD_SAME_UPPER : GRAPH_PAD_SAME_LOWER;
    if (left < 0)
        c->pad_begin[0] = c->pad_begin[1] = c->pad_end[0] = c->pad_end[1] = 0;
    if (ncnn_int(n, 8, 0, INT32_MAX, 0) != 0)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "weights of 8-bit integers are not supported");
    if (ncnn_int(n, 19, 0, 1, 0) != 0)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "weights that are computed are not supported");
}

/* The channels of the input, which the count of weights must fit. */
static int64_t window_channels(struct ncnn *n, const struct window *w, int x)
{
    const int64_t channels = layers_known(&n->b, x, 1);
    const int64_t size = ncnn_int(n, 6, 0, INT32_MAX, 0);

    if (n->b.status < 0)
        return -1;
    if (channels % w->groups != 0 || w->outputs % w->groups != 0 ||
        channels > INT32_MAX ||
        (double)size != (double)channels / (double)w->groups *
                            (double)w->outputs *
                            (double)(w->size[0] * w->size[1])) {
        layers_fail(&n->b, INFER_EFORMAT,
                    "%lld weights do not fit %lld channels, %lld outputs, %lld "
                    "groups and a window of %lldx%lld",
                    (long long)size, (long long)channels, (long long)w->outputs,
                    (long long)w->groups, (long long)w->size[0],
                    (long long)w->size[1]);
        return -1;
    }
    return channels;
}

/* A vector becomes a picture of one pixel, as ncnn sees it here. */
static int picture(struct ncnn *n, int x)
{
    static const int64_t dim[] = {0, 0, 1, 1};

    return layers_rank(&n->b, x) == 2
               ? layers_dims(&n->b, GRAPH_RESHAPE, "picture", x, 4, dim)
               : x;
}

void ncnn_conv(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const bool vector = layers_rank(&n->b, ends->in[0]) == 2;
    int in[3] = {picture(n, ends->in[0]), -1, -1}, y;
    int64_t shape[4], channels;
    struct window w;

    read_window(n, GRAPH_CONV, arg != 0, &w);
    channels = window_channels(n, &w, in[0]);
    if (n->b.status < 0)
        return;
    if (ncnn_float(n, 18, 0) > 0 || ncnn_float(n, 18, 0) < 0)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "padding by another value than 0 is not supported");
    shape[0] = w.outputs;
    shape[1] = channels / w.groups;
    shape[2] = w.size[0];
    shape[3] = w.size[1];
    in[1] = ncnn_weight(n, "weight", true, 4, shape);
    if (w.bias)
        in[2] = ncnn_weight(n, "bias", false, 1, &w.outputs);
    y = layers_emit(&n->b, GRAPH_CONV, "", &w.attr, in, w.bias ? 3 : 2);
    y = ncnn_activation(n, y);
    ends->out[0] = vector ? layers_flatten(&n->b, "vector", y) : y;
}

/* Weights are stored as groups, outputs of one, inputs of one, rows, columns;
 * the graph has the inputs before the outputs. */
static int transposed_weight(struct ncnn *n, const struct window *w,
                             int64_t channels)
{
    static const int order[] = {0, 2, 1, 3, 4};
    const int64_t k = w->outputs / w->groups, c = channels / w->groups;
    const int64_t stored[] = {w->groups, k, c, w->size[0], w->size[1]};
    const int64_t shape[] = {channels, k, w->size[0], w->size[1]};
    struct constant *data, *transposed, *made;

    if (n->weights == NULL)
        return layers_unbound(&n->b, "weight", 4, shape);
    data = ncnn_data(n, "weight", true, 5, stored);
    if (data == NULL)
        return n->b.status;
    transposed = constant_transpose(data, order);
    constant_unref(data);
    made = transposed != NULL ? constant_reshape(transposed, 4, shape) : NULL;
    constant_unref(transposed);
    return layers_constant(&n->b, "weight", made);
}

void ncnn_deconv(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    int in[3] = {ends->in[0], -1, -1}, y;
    struct window w;
    int64_t channels;

    read_window(n, GRAPH_CONV_TRANSPOSE, arg != 0, &w);
    channels = window_channels(n, &w, in[0]);
    w.attr.conv.output_pad[1] = ncnn_int(n, 18, 0, NCNN_MAX_STEP, 0);
    w.attr.conv.output_pad[0] =
        ncnn_int(n, 19, 0, NCNN_MAX_STEP, w.attr.conv.output_pad[1]);
    if (w.attr.conv.auto_pad != GRAPH_PAD_EXPLICIT ||
        ncnn_int(n, 20, 0, NCNN_MAX_STEP, 0) != 0 ||
        ncnn_int(n, 21, 0, NCNN_MAX_STEP, 0) != 0)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "an output size (parameters 20, 21) is not supported");
    if (n->b.status < 0)
        return;
    in[1] = transposed_weight(n, &w, channels);
    if (w.bias)
        in[2] = ncnn_weight(n, "bias", false, 1, &w.outputs);
    y = layers_emit(&n->b, GRAPH_CONV_TRANSPOSE, "", &w.attr, in,
                    w.bias ? 3 : 2);
    ends->out[0] = ncnn_activation(n, y);
}

/* ---- dense --------------------------------------------------------- */

/* Over the last dimension of a matrix of that width; else over all. */
void ncnn_inner_product(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int64_t k = ncnn_int(n, 0, 1, INT32_MAX, 1);
    const bool bias = ncnn_int(n, 1, 0, 1, 0) != 0;
    const int64_t size = ncnn_int(n, 2, 0, INT32_MAX, 0);
    int64_t shape[2] = {k, size / k};
    int in[3] = {ends->in[0], -1, -1}, y;

    (void)arg;
    if (ncnn_int(n, 8, 0, INT32_MAX, 0) != 0)
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "weights of 8-bit integers are not supported");
    if (layers_rank(&n->b, in[0]) != 3 ||
        layers_dim(&n->b, in[0], 2) != shape[1])
        in[0] = layers_flatten(&n->b, "flat", in[0]);
    if (n->b.status == 0 && shape[0] * shape[1] != size)
        layers_fail(&n->b, INFER_EFORMAT,
                    "%lld weights do not fit %lld outputs", (long long)size,
                    (long long)k);
    in[1] = n->b.status < 0 ? -1 : ncnn_weight(n, "weight", true, 2, shape);
    if (bias && n->b.status == 0)
        in[2] = ncnn_weight(n, "bias", false, 1, &k);
    y = layers_emit(&n->b, GRAPH_DENSE, "", NULL, in, bias ? 3 : 2);
    ends->out[0] = ncnn_activation(n, y);
}

/* ---- by channel ---------------------------------------------------- */

/* (x - mean) / sqrt(variance + eps) * slope + bias */
void ncnn_batch_norm(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int64_t c = ncnn_int(n, 0, 1, INT32_MAX, 1);
    union graph_attr attr = layers_defaults(GRAPH_BATCH_NORM);
    int in[5] = {ends->in[0]};

    (void)arg;
    attr.norm.epsilon = ncnn_float(n, 1, 0);
    in[1] = ncnn_weight(n, "scale", false, 1, &c);
    in[3] = ncnn_weight(n, "mean", false, 1, &c);
    in[4] = ncnn_weight(n, "variance", false, 1, &c);
    in[2] = ncnn_weight(n, "shift", false, 1, &c);
    ends->out[0] = layers_emit(&n->b, GRAPH_BATCH_NORM, "", &attr, in, 5);
}

void ncnn_scale(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int64_t c = ncnn_int(n, 0, NCNN_NONE, INT32_MAX, 0);
    const bool bias = ncnn_int(n, 1, 0, 1, 0) != 0;
    int in[3] = {ends->in[0], -1, -1};

    (void)arg;
    if (ends->n_in == 2 && !bias) {
        ends->out[0] = layers_binary(&n->b, "", KERN_MUL, in[0],
                                     ncnn_spread(n, ends->in[1], in[0]));
        return;
    }
    if (ends->n_in == 2 || c < 1) {
        layers_fail(&n->b, INFER_EUNSUPPORTED,
                    "%d inputs with a bias, %lld scales", ends->n_in,
                    (long long)c);
        return;
    }
    in[1] = ncnn_weight(n, "scale", false, 1, &c);
    if (bias)
        in[2] = ncnn_weight(n, "shift", false, 1, &c);
    ends->out[0] =
        layers_emit(&n->b, GRAPH_SCALE_SHIFT, "", NULL, in, bias ? 3 : 2);
}

void ncnn_bias(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int64_t c = ncnn_int(n, 0, 1, INT32_MAX, 1);
    const int in[3] = {ends->in[0], -1, ncnn_weight(n, "shift", false, 1, &c)};

    (void)arg;
    ends->out[0] = layers_emit(&n->b, GRAPH_SCALE_SHIFT, "", NULL, in, 3);
}

void ncnn_prelu(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    const int rank = layers_rank(&n->b, ends->in[0]);
    int64_t dim[INFER_MAX_RANK];
    int in[2] = {ends->in[0], -1}, i;

    (void)arg;
    dim[0] = ncnn_int(n, 0, 1, INT32_MAX, 1);
    for (i = 1; i < rank - 1; i++)
        dim[i] = 1;
    in[1] = ncnn_weight(n, "slope", false, rank > 1 ? rank - 1 : 1, dim);
    ends->out[0] = layers_emit(&n->b, GRAPH_PRELU, "", NULL, in, 2);
}

/* A constant: one entry of the batch. */
void ncnn_memory_data(struct ncnn *n, struct ncnn_ends *ends, int arg)
{
    static const int ids[] = {2, 1, 0};
    int64_t dim[4] = {1, 0, 0, 0};
    int i, rank = 1;

    (void)arg;
    for (i = 0; i < 3; i++) {
        const int size = ncnn_int(n, ids[i], 0, INT32_MAX, 0);

        if (size > 0)
            dim[rank++] = size;
    }
    if (ncnn_int(n, 11, 0, INT32_MAX, 0) > 0 || rank == 1)
        layers_fail(&n->b, INFER_EUNSUPPORTED, "its shape is not supported");
    ends->out[0] =
        ncnn_weight(n, "data", ncnn_int(n, 21, 0, 1, 1) == 0, rank, dim);
}
