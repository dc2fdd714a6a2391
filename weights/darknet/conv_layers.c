/* SPDX-License-Identifier: Apache-2.0 */
/* Darknet: layers with weights, and activations. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/darknet/darknet.h"

/* Both forms of Darknet divide by sqrt(variance + 1e-5) on a GPU, where
 * networks are trained; --bn-eps sets another. */
#define BATCH_NORM_EPSILON 1e-5f

/* ---- activations --------------------------------------------------- */

static const struct {
    const char *name;
    enum kern_unary_kind kind;
    float a, b;
} activations[] = {
    {"elu", KERN_ELU, 1, 0},
    {"gelu", KERN_GELU_TANH, 0, 0},
    {"hardtan", KERN_CLIP, -1, 1},
    {"leaky", KERN_LEAKY_RELU, 0.1f, 0},
    {"linear", KERN_IDENTITY, 0, 0},
    {"logistic", KERN_SIGMOID, 0, 0},
    {"mish", KERN_MISH, 0, 0},
    {"relie", KERN_LEAKY_RELU, 0.01f, 0},
    {"relu", KERN_RELU, 0, 0},
    {"relu6", KERN_CLIP, 0, 6},
    {"selu", KERN_SELU, 1.6732f, 1.0507f},
    {"swish", KERN_SILU, 1, 0},
    {"tanh", KERN_TANH, 0, 0},
};

/* Activations of two operations. */
static int composed(struct darknet *d, int x, struct layers_text name)
{
    int y;

    if (layers_text_is(name, "loggy")) { /* 2 / (1 + exp(-x)) - 1 */
        y = layers_unary(&d->b, "half", x, KERN_LINEAR, 0.5f, 0);
        return layers_unary(&d->b, "loggy", y, KERN_TANH, 0, 0);
    }
    if (layers_text_is(name, "ramp")) { /* x (x > 0) + 0.1 x */
        y = layers_unary(&d->b, "scale", x, KERN_LINEAR, 1.1f, 0);
        return layers_unary(&d->b, "ramp", y, KERN_LEAKY_RELU, 1 / 11.0f, 0);
    }
    if (layers_text_is(name, "hard_mish")) { /* x clip(x / 2 + 1, 0, 1) */
        y = layers_unary(&d->b, "gate", x, KERN_HARD_SIGMOID, 0.5f, 1);
        return layers_binary(&d->b, "hard_mish", KERN_MUL, x, y);
    }
    return layers_fail(&d->b, INFER_EUNSUPPORTED,
                       "activation=%.*s is not supported", LAYERS_SHOW(name));
}

int darknet_activation(struct darknet *d, int x, const char *otherwise)
{
    struct layers_text name = {otherwise, strlen(otherwise)};
    size_t i;

    darknet_option(d, "activation", &name);
    for (i = 0; i < sizeof(activations) / sizeof(*activations); i++)
        if (layers_text_is(name, activations[i].name))
            return activations[i].kind == KERN_IDENTITY
                       ? x
                       : layers_unary(&d->b, activations[i].name, x,
                                      activations[i].kind, activations[i].a,
                                      activations[i].b);
    return composed(d, x, name);
}

/* ---- batch norm ---------------------------------------------------- */

/* The vectors of a layer, as far as they stand in the file already. */
struct vectors {
    int bias, scale, mean, variance; /* values */
};

static void read_statistics(struct darknet *d, int64_t n, struct vectors *v)
{
    v->scale = darknet_weight(d, "scale", 1, &n);
    v->mean = darknet_weight(d, "mean", 1, &n);
    v->variance = darknet_weight(d, "variance", 1, &n);
}

/* (x - mean) / sqrt(variance + epsilon) * scale + bias */
static int batch_norm(struct darknet *d, int x, const struct vectors *v)
{
    union graph_attr attr = layers_defaults(GRAPH_BATCH_NORM);
    const int in[] = {x, v->scale, v->bias, v->mean, v->variance};

    attr.norm.epsilon = BATCH_NORM_EPSILON;
    return layers_emit(&d->b, GRAPH_BATCH_NORM, "batch_norm", &attr, in, 5);
}

/* ---- layers -------------------------------------------------------- */

int darknet_picture(struct darknet *d, int x)
{
    static const int64_t dim[] = {0, 0, 1, 1};

    return layers_rank(&d->b, x) == 2
               ? layers_dims(&d->b, GRAPH_RESHAPE, "picture", x, 4, dim)
               : x;
}

/* Window, strides and pads of a convolution; the window is square. */
struct window {
    int filters, groups, size, stride[2], dilation, pad;
};

static void read_window(struct darknet *d, struct window *w)
{
    const int stride = darknet_int(d, "stride", 1, DARKNET_MAX_STEP, 1);

    w->filters = darknet_int(d, "filters", 1, INT32_MAX, 1);
    w->groups = darknet_int(d, "groups", 1, INT32_MAX, 1);
    w->size = darknet_int(d, "size", 1, DARKNET_MAX_STEP, 1);
    w->stride[0] = darknet_int(d, "stride_y", 1, DARKNET_MAX_STEP, stride);
    w->stride[1] = darknet_int(d, "stride_x", 1, DARKNET_MAX_STEP, stride);
    w->dilation = darknet_int(d, "dilation", 1, DARKNET_MAX_STEP, 1);
    w->pad = darknet_int(d, "padding", 0, DARKNET_MAX_STEP, 0);
    if (darknet_int(d, "pad", INT32_MIN, INT32_MAX, 0) != 0)
        w->pad = w->size / 2;
    if (w->size == 1)
        w->dilation = 1;
    /* Darknet's output size leaves the dilation out. */
    if (w->dilation > 1 && 2 * w->pad != w->size - 1)
        layers_fail(&d->b, INFER_EUNSUPPORTED,
                    "dilation=%d with a pad of %d for a window of %d is not "
                    "supported",
                    w->dilation, w->pad, w->size);
}

static union graph_attr conv_attr(enum graph_op op, const struct window *w)
{
    union graph_attr attr = layers_defaults(op);
    struct kern_conv *c = &attr.conv.conv;
    int i;

    c->groups = w->groups;
    for (i = 0; i < 2; i++) {
        c->stride[i] = w->stride[i];
        c->dilation[i] = w->dilation;
        c->pad_begin[i] = c->pad_end[i] = w->pad * w->dilation;
    }
    return attr;
}

/* Both convolutions: bias, statistics, weights in the file's order. */
static int convolve(struct darknet *d, int x, enum graph_op op,
                    const struct window *w, const int64_t *shape,
                    const char *activation)
{
    const bool norm =
        darknet_int(d, "batch_normalize", INT32_MIN, INT32_MAX, 0) != 0;
    const union graph_attr attr = conv_attr(op, w);
    const int64_t n = w->filters;
    struct vectors v = {-1, -1, -1, -1};
    int in[3], y;

    v.bias = darknet_weight(d, norm ? "shift" : "bias", 1, &n);
    if (norm)
        read_statistics(d, n, &v);
    in[0] = x;
    in[1] = darknet_weight(d, "weight", 4, shape);
    in[2] = v.bias;
    y = layers_emit(&d->b, op, "", &attr, in, norm ? 2 : 3);
    if (norm)
        y = batch_norm(d, y, &v);
    return darknet_activation(d, y, activation);
}

int darknet_convolutional(struct darknet *d, int x)
{
    static const char *const refused[] = {"binary",
                                          "xnor",
                                          "flipped",
                                          "share_index",
                                          "antialiasing",
                                          "deform",
                                          "sway",
                                          "rotate",
                                          "stretch",
                                          "stretch_sway",
                                          "coordconv",
                                          "assisted_excitation",
                                          NULL};
    struct window w;
    int64_t channels, shape[4];

    x = darknet_picture(d, x);
    read_window(d, &w);
    darknet_refuse_options(d, refused);
    channels = layers_known(&d->b, x, 1);
    if (d->b.status < 0)
        return d->b.status;
    if (channels % w.groups != 0 || w.filters % w.groups != 0)
        return layers_fail(&d->b, INFER_EFORMAT,
                           "%lld channels and %d filters do not divide into "
                           "%d groups",
                           (long long)channels, w.filters, w.groups);
    shape[0] = w.filters;
    shape[1] = channels / w.groups;
    shape[2] = shape[3] = w.size;
    return convolve(d, x, GRAPH_CONV, &w, shape, "logistic");
}

int darknet_deconvolutional(struct darknet *d, int x)
{
    static const char *const refused[] = {"flipped", "dilation", NULL};
    struct window w;
    int64_t shape[4];

    x = darknet_picture(d, x);
    read_window(d, &w);
    darknet_refuse_options(d, refused);
    if (w.groups > 1)
        return layers_fail(&d->b, INFER_EUNSUPPORTED,
                           "groups=%d is not supported", w.groups);
    shape[0] = layers_known(&d->b, x, 1);
    shape[1] = w.filters;
    shape[2] = shape[3] = w.size;
    return convolve(d, x, GRAPH_CONV_TRANSPOSE, &w, shape, "logistic");
}

/* The weights of a dense layer; old files have them as C,K. */
static int dense_weight(struct darknet *d, int64_t k, int64_t c)
{
    const int64_t shape[] = {k, c}, stored[] = {c, k};
    static const int64_t order[] = {1, 0};
    int v;

    if (!d->transposed)
        return darknet_weight(d, "weight", 2, shape);
    v = darknet_weight(d, "weight", 2, stored);
    return layers_dims(&d->b, GRAPH_TRANSPOSE, "weight", v, 2, order);
}

int darknet_connected(struct darknet *d, int x)
{
    const bool norm =
        darknet_int(d, "batch_normalize", INT32_MIN, INT32_MAX, 0) != 0;
    const int64_t n = darknet_int(d, "output", 1, INT32_MAX, 1);
    struct vectors v = {-1, -1, -1, -1};
    int in[3], y;

    x = layers_flatten(&d->b, "flat", x);
    v.bias = darknet_weight(d, norm ? "shift" : "bias", 1, &n);
    in[0] = x;
    in[1] = dense_weight(d, n, layers_known(&d->b, x, 1));
    in[2] = v.bias;
    if (norm)
        read_statistics(d, n, &v);
    y = layers_emit(&d->b, GRAPH_DENSE, "", NULL, in, norm ? 2 : 3);
    if (norm)
        y = batch_norm(d, y, &v);
    return darknet_activation(d, y, "logistic");
}

int darknet_active(struct darknet *d, int x)
{
    return darknet_activation(d, x, "linear");
}
