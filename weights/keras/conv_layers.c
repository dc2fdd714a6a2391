/* SPDX-License-Identifier: Apache-2.0 */
/* Keras: convolutions and dense layers.
 *
 * Kernels are stored window first: (R,S,C,K) for a convolution, (R,S,K,C) for
 * a transposed one, (R,S,C,M) for a depthwise one with M outputs a channel,
 * (C,K) for a dense layer.  Keras 1 stored channels-first convolutions as
 * (K,C,R,S) and one-dimensional ones as (R,1,C,K). */
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/json.h"
#include "weights/keras/keras.h"

static bool uses_bias(struct keras_emit *k, const struct keras_layer *l)
{
    return keras_bool(k, l->config, keras_key(l->config, "use_bias", "bias"),
                      true);
}

int keras_conv_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_add_variable(l, "kernel", true);
    if (uses_bias(k, l))
        keras_add_variable(l, "bias", true);
    return k->status;
}

int keras_depthwise_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_add_variable(l, "depthwise_kernel", true);
    if (uses_bias(k, l))
        keras_add_variable(l, "bias", true);
    return k->status;
}

int keras_separable_variables(struct keras_emit *k, struct keras_layer *l)
{
    keras_add_variable(l, "depthwise_kernel", true);
    keras_add_variable(l, "pointwise_kernel", true);
    if (uses_bias(k, l))
        keras_add_variable(l, "bias", true);
    return k->status;
}

int keras_dense_variables(struct keras_emit *k, struct keras_layer *l)
{
    return keras_conv_variables(k, l);
}

/* ---- kernels ------------------------------------------------------- */

/* Reverses the window of every plane: Theano convolves, all others
 * correlate. */
static struct constant *flip(struct constant *c)
{
    struct constant *f = constant_writable(c);
    int64_t window = 1;

    if (f == NULL)
        return NULL;
    for (int i = 2; i < f->rank; i++)
        window *= f->dim[i];
    const int64_t planes = window ? constant_count(f) / window : 0;
    for (int64_t p = 0; p < planes; p++) {
        unsigned char *plane = f->data + (size_t)(p * window) * 4;
        for (int64_t i = 0, j = window - 1; i < j; i++, j--) {
            unsigned char swap[4];
            memcpy(swap, plane + 4 * i, 4);
            memcpy(plane + 4 * i, plane + 4 * j, 4);
            memcpy(plane + 4 * j, swap, 4);
        }
    }
    return f;
}

/* The axes in another order, in place where only this layer holds the bytes. */
static struct constant *in_order(const struct keras_emit *k, struct constant *c,
                                 const int *order)
{
    return k->apart && constant_transpose_here(c, order)
               ? constant_ref(c)
               : constant_transpose(c, order);
}

/* (window, a, b) -> (b, a, window): both kinds of convolution. */
static struct constant *window_last(const struct keras_emit *k,
                                    struct constant *c)
{
    int order[INFER_MAX_RANK];
    const int n = c->rank - 2;

    order[0] = n + 1;
    order[1] = n;
    for (int i = 0; i < n; i++)
        order[i + 2] = i;
    return in_order(k, c, order);
}

/* Keras 1: (R,1,C,K) is a one-dimensional kernel, before that (K,C,R,1). */
static struct constant *old_conv1d(const struct keras_emit *k,
                                   struct constant *c, int64_t window)
{
    const bool older = c->dim[0] != window || c->dim[1] != 1;
    const int64_t dim[3] = {c->dim[0], older ? c->dim[1] : c->dim[2],
                            older ? c->dim[2] : c->dim[3]};

    if (older ? c->dim[3] != 1 : c->dim[1] != 1)
        return NULL;
    struct constant *flat = constant_reshape(c, 3, dim);
    if (flat == NULL || older)
        return flat;
    struct constant *out = window_last(k, flat);
    constant_unref(flat);
    return out;
}

struct constant *keras_conv_kernel(struct keras_emit *k,
                                   const struct keras_layer *l,
                                   struct constant *c)
{
    const int spatial = l->class->arg;
    const bool transposed = l->class->emit == keras_conv_transpose;
    struct constant *w;
    int window[3];

    if (k->major == 1 && spatial == 1 && c->rank == 4) {
        keras_ints(k, l->config,
                   keras_key(l->config, "filter_length", "kernel_size"), 1, 1,
                   INT32_MAX, 1, window);
        w = old_conv1d(k, c, window[0]);
    } else if (c->rank != spatial + 2) {
        keras_fail(k, INFER_EFORMAT, "its kernel has rank %d, %d is due",
                   c->rank, spatial + 2);
        return NULL;
    } else if (k->major == 1 && !keras_channels_last(k, l->config)) {
        /* (K,C,window) already; a transposed one is (K,C) where the graph has
         * (C,K). */
        const int order[5] = {1, 0, 2, 3, 4};
        w = transposed ? constant_transpose(c, order) : constant_ref(c);
    } else if (k->major == 1 && transposed) {
        const int order[4] = {2, 3, 0, 1}; /* (R,S,C,K) */
        w = spatial == 2 ? constant_transpose(c, order) : NULL;
    } else {
        w = window_last(k, c);
    }
    return w != NULL && k->theano ? flip(w) : w;
}

/* (window, C, M) -> (C*M, 1, window): output c*M+m belongs to channel c. */
static struct constant *depthwise_kernel(struct keras_emit *k,
                                         const struct keras_layer *l,
                                         struct constant *c)
{
    const int n = l->class->arg;
    int order[INFER_MAX_RANK];
    int64_t dim[INFER_MAX_RANK];

    if (c->rank != n + 2) {
        keras_fail(k, INFER_EFORMAT, "its kernel has rank %d, %d is due",
                   c->rank, n + 2);
        return NULL;
    }
    order[0] = n;
    order[1] = n + 1;
    for (int i = 0; i < n; i++)
        order[i + 2] = i;
    struct constant *t = constant_transpose(c, order);
    if (t == NULL)
        return NULL;
    memcpy(dim, t->dim, sizeof dim);
    if (!checked_mul_i64(dim[0], dim[1], &dim[0])) {
        constant_unref(t);
        return NULL;
    }
    dim[1] = 1;
    struct constant *w = constant_reshape(t, n + 2, dim);
    constant_unref(t);
    return w;
}

struct constant *keras_dense_kernel(struct keras_emit *k,
                                    const struct keras_layer *l,
                                    struct constant *c)
{
    const int order[2] = {1, 0};

    (void)l;
    if (c->rank != 2) {
        keras_fail(k, INFER_EFORMAT, "its kernel has rank %d, 2 is due",
                   c->rank);
        return NULL;
    }
    return in_order(k, c, order);
}

/* ---- attributes ---------------------------------------------------- */

/* window[], and an attribute with strides, dilation and pads. */
struct geometry {
    int n, window[3];
    struct graph_conv conv;
};

/* Keras 1 names the window by side, and the other attributes differently. */
static void read_window(struct keras_emit *k, const cJSON *c, int n,
                        int *window)
{
    static const char *const sides[3][3] = {
        {"filter_length", NULL, NULL},
        {"nb_row", "nb_col", NULL},
        {"kernel_dim1", "kernel_dim2", "kernel_dim3"}};

    if (json_member(c, "kernel_size") != NULL ||
        json_member(c, sides[n - 1][0]) == NULL) {
        keras_ints(k, c, "kernel_size", n, 1, INT32_MAX, 0, window);
        return;
    }
    for (int i = 0; i < n; i++)
        window[i] = keras_int(k, c, sides[n - 1][i], 1, INT32_MAX, 0);
}

static struct geometry read_geometry(struct keras_emit *k,
                                     const struct keras_layer *l)
{
    struct geometry g = {.n = l->class->arg};
    const cJSON *c = l->config;
    struct kern_conv *conv = &g.conv.conv;
    const enum keras_padding padding = keras_padding(k, c);
    const char *strides = keras_key(c, "subsample", "subsample_length");

    read_window(k, c, g.n, g.window);
    keras_ints(k, c, keras_key(c, "strides", strides), g.n, 1, INT32_MAX, 1,
               conv->stride);
    keras_ints(k, c, keras_key(c, "dilation_rate", "atrous_rate"), g.n, 1,
               INT32_MAX, 1, conv->dilation);
    conv->groups = keras_int(k, c, "groups", 1, INT32_MAX, 1);
    for (int i = 0; i < g.n; i++)
        if (g.window[i] == 0)
            keras_fail(k, INFER_EFORMAT, "it has no window size");
    if (padding == KERAS_SAME) {
        g.conv.auto_pad = GRAPH_PAD_SAME_UPPER;
    } else if (padding == KERAS_CAUSAL) {
        int64_t reach;
        if (g.n != 1 ||
            !checked_mul_i64(g.window[0] - 1, conv->dilation[0], &reach) ||
            reach > INT32_MAX)
            keras_fail(k, INFER_EUNSUPPORTED, "causal padding here");
        else
            conv->pad_begin[0] = (int)reach;
    }
    return g;
}

/* The kernel must be what the configuration says. */
static bool check_kernel(struct keras_emit *k, int weight,
                         const struct geometry *g, int64_t filters, int axis)
{
    if (k->status < 0)
        return false;
    const struct constant *w = k->g->value[weight].data;
    bool good = w->rank == g->n + 2 && (filters < 0 || w->dim[axis] == filters);

    for (int i = 0; i < g->n && good; i++)
        good = w->dim[i + 2] == g->window[i];
    if (!good)
        keras_fail(k, INFER_EFORMAT,
                   "its kernel does not have the shape that its "
                   "configuration states");
    return good;
}

static int filters_of(struct keras_emit *k, const struct keras_layer *l)
{
    return keras_int(k, l->config, keras_key(l->config, "filters", "nb_filter"),
                     1, INT32_MAX, -1);
}

/* Adds the bias where there is one; checks its length. */
static int bias_of(struct keras_emit *k, struct keras_layer *l, int64_t length)
{
    const int i = keras_variable(l, "bias");

    if (i < 0 || k->status < 0)
        return -1;
    const int v = keras_weight(k, l, i, "bias", NULL);
    if (v >= 0) {
        const struct constant *c = k->g->value[v].data;
        if (c->rank != 1 || c->dim[0] != length)
            keras_fail(k, INFER_EFORMAT, "its bias does not have %lld values",
                       (long long)length);
    }
    return v;
}

/* "" where the node is the layer's last, else a role. */
static const char *role_before(const struct keras_layer *l, const char *role)
{
    return keras_activation_of(l) != NULL ? role : "";
}

static struct keras_value conv_node(struct keras_emit *k, enum graph_op op,
                                    const char *role, struct keras_value x,
                                    int weight, int bias,
                                    const struct graph_conv *attr)
{
    const int in[3] = {x.value, weight, bias};
    int node;

    if (k->status < 0)
        return keras_failed(k);
    x.value = keras_node(k, op, role, in, bias >= 0 ? 3 : 2, &node);
    if (x.value >= 0)
        k->g->node[node].attr.conv = *attr;
    return x;
}

/* ---- layers -------------------------------------------------------- */

struct keras_value keras_conv(struct keras_emit *k, struct keras_layer *l,
                              const struct keras_value *in, int n)
{
    const struct geometry g = read_geometry(k, l);
    const int filters = filters_of(k, l);
    struct keras_value x = keras_spatial_input(k, l, in[0]);
    const int w = keras_weight(k, l, 0, "weight", keras_conv_kernel);

    (void)n;
    if (!check_kernel(k, w, &g, filters, 0))
        return keras_failed(k);
    const int b = bias_of(k, l, k->g->value[w].data->dim[0]);
    x = conv_node(k, GRAPH_CONV, role_before(l, "conv"), x, w, b, &g.conv);
    return keras_activation(k, x, keras_activation_of(l));
}

/* TensorFlow's transposed convolution is the gradient of a forward one over
 * its output: with "same", whose extent is in * stride, the pads are those of
 * that convolution, the odd one at the end.  With output_padding the extent is
 * (in - 1) * stride + window - 2 * pad + output_padding, pad = window / 2 for
 * "same" and 0 for "valid". */
struct keras_value keras_conv_transpose(struct keras_emit *k,
                                        struct keras_layer *l,
                                        const struct keras_value *in, int n)
{
    struct geometry g = read_geometry(k, l);
    const enum keras_padding padding = keras_padding(k, l->config);
    struct kern_conv *conv = &g.conv.conv;
    int given[3];

    (void)n;
    if (conv->groups != 1 || padding == KERAS_CAUSAL)
        return keras_fail(k, INFER_EUNSUPPORTED,
                          "groups or causal padding of a transposed "
                          "convolution");
    keras_ints(k, l->config, "output_padding", g.n, 0, INT32_MAX, -1, given);
    g.conv.auto_pad = GRAPH_PAD_EXPLICIT;
    for (int i = 0; i < g.n && k->status == 0; i++) {
        const int64_t reach =
            ((int64_t)g.window[i] - 1) * conv->dilation[i] + 1;
        /* Output extent less (in - 1) * stride + reach. */
        int64_t extra;
        if (given[i] >= 0)
            extra =
                given[i] -
                (padding == KERAS_SAME ? 2 * (int64_t)(g.window[i] / 2) : 0);
        else if (padding == KERAS_SAME)
            extra = conv->stride[i] - reach;
        else
            extra = conv->stride[i] > reach ? conv->stride[i] - reach : 0;
        const int64_t pads = extra < 0 ? -extra : 0;
        if (reach > INT32_MAX)
            return keras_fail(k, INFER_EFORMAT, "its window is too large");
        conv->pad_begin[i] = (int)(pads / 2);
        conv->pad_end[i] = (int)(pads - pads / 2);
        g.conv.output_pad[i] = extra > 0 ? (int)extra : 0;
    }
    struct keras_value x = keras_spatial_input(k, l, in[0]);
    const int w = keras_weight(k, l, 0, "weight", keras_conv_kernel);
    if (!check_kernel(k, w, &g, filters_of(k, l), 1))
        return keras_failed(k);
    const int b = bias_of(k, l, k->g->value[w].data->dim[1]);
    x = conv_node(k, GRAPH_CONV_TRANSPOSE, role_before(l, "conv"), x, w, b,
                  &g.conv);
    return keras_activation(k, x, keras_activation_of(l));
}

/* The depthwise part: as many groups as channels. */
static struct keras_value depthwise(struct keras_emit *k, struct keras_layer *l,
                                    struct geometry *g, const char *role,
                                    const char *suffix, struct keras_value x,
                                    bool with_bias)
{
    const int multiplier =
        keras_int(k, l->config, "depth_multiplier", 1, INT32_MAX, 1);
    const int w = keras_weight(k, l, 0, suffix, depthwise_kernel);

    if (!check_kernel(k, w, g, -1, 0))
        return keras_failed(k);
    const int64_t outputs = k->g->value[w].data->dim[0];
    if (outputs % multiplier != 0 || outputs / multiplier < 1 ||
        outputs / multiplier > INT32_MAX)
        return keras_fail(k, INFER_EFORMAT,
                          "its kernel does not fit a depth multiplier of %d",
                          multiplier);
    g->conv.conv.groups = (int)(outputs / multiplier);
    const int b = with_bias ? bias_of(k, l, outputs) : -1;
    return conv_node(k, GRAPH_CONV, role, x, w, b, &g->conv);
}

struct keras_value keras_depthwise(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    struct geometry g = read_geometry(k, l);
    struct keras_value x = keras_spatial_input(k, l, in[0]);

    (void)n;
    x = depthwise(k, l, &g, role_before(l, "conv"), "weight", x, true);
    return keras_activation(k, x, keras_activation_of(l));
}

static struct constant *pointwise_kernel(struct keras_emit *k,
                                         const struct keras_layer *l,
                                         struct constant *c)
{
    if (c->rank != l->class->arg + 2) {
        keras_fail(k, INFER_EFORMAT, "its pointwise kernel has rank %d",
                   c->rank);
        return NULL;
    }
    return window_last(k, c);
}

struct keras_value keras_separable(struct keras_emit *k, struct keras_layer *l,
                                   const struct keras_value *in, int n)
{
    struct geometry g = read_geometry(k, l);
    struct geometry one = {.n = g.n, .window = {1, 1, 1}};
    struct keras_value x = keras_spatial_input(k, l, in[0]);

    (void)n;
    x = depthwise(k, l, &g, "depthwise", "depthwise.weight", x, false);
    const int w = keras_weight(k, l, 1, "pointwise.weight", pointwise_kernel);
    if (!check_kernel(k, w, &one, filters_of(k, l), 0))
        return keras_failed(k);
    one.conv.conv.groups = 1;
    for (int i = 0; i < KERN_MAX_SPATIAL; i++)
        one.conv.conv.stride[i] = one.conv.conv.dilation[i] = 1;
    const int b = bias_of(k, l, k->g->value[w].data->dim[0]);
    x = conv_node(k, GRAPH_CONV, role_before(l, "pointwise"), x, w, b,
                  &one.conv);
    return keras_activation(k, x, keras_activation_of(l));
}

/* A dense layer works on the last axis.  Where that is the channel axis of a
 * picture in N,C,spatial it is a convolution with a window of one. */
static struct constant *dense_as_conv(struct keras_emit *k,
                                      const struct keras_layer *l,
                                      struct constant *c, int rank)
{
    struct constant *t = keras_dense_kernel(k, l, c);
    int64_t dim[INFER_MAX_RANK];

    if (t == NULL)
        return NULL;
    for (int i = 0; i < rank; i++)
        dim[i] = i < 2 ? t->dim[i] : 1;
    struct constant *w = constant_reshape(t, rank, dim);
    constant_unref(t);
    return w;
}

static struct constant *dense_kernel3(struct keras_emit *k,
                                      const struct keras_layer *l,
                                      struct constant *c)
{
    return dense_as_conv(k, l, c, 3);
}

static struct constant *dense_kernel4(struct keras_emit *k,
                                      const struct keras_layer *l,
                                      struct constant *c)
{
    return dense_as_conv(k, l, c, 4);
}

static struct constant *dense_kernel5(struct keras_emit *k,
                                      const struct keras_layer *l,
                                      struct constant *c)
{
    return dense_as_conv(k, l, c, 5);
}

struct keras_value keras_dense(struct keras_emit *k, struct keras_layer *l,
                               const struct keras_value *in, int n)
{
    static keras_convert_fn *const convert[] = {dense_kernel3, dense_kernel4,
                                                dense_kernel5};
    struct keras_value x = in[0];
    const int units =
        keras_int(k, l->config, keras_key(l->config, "units", "output_dim"), 1,
                  INT32_MAX, -1);

    (void)n;
    if (k->status < 0)
        return keras_failed(k);
    /* A layer that is shared may see inputs of any rank: one weight for all
     * needs Keras' order. */
    if (l->n_calls > 1)
        x = keras_plain(k, x);
    const int w =
        keras_weight(k, l, 0, "weight",
                     x.swapped ? convert[x.rank - 3] : keras_dense_kernel);
    if (w < 0)
        return keras_failed(k);
    const int64_t outputs = k->g->value[w].data->dim[0];
    if (units >= 0 && outputs != units)
        return keras_fail(k, INFER_EFORMAT,
                          "its kernel has %lld outputs, its configuration "
                          "states %d",
                          (long long)outputs, units);
    const int b = bias_of(k, l, outputs);
    if (x.swapped) {
        struct graph_conv attr = {.conv.groups = 1};
        for (int i = 0; i < KERN_MAX_SPATIAL; i++)
            attr.conv.stride[i] = attr.conv.dilation[i] = 1;
        x = conv_node(k, GRAPH_CONV, role_before(l, "dense"), x, w, b, &attr);
    } else if (k->status == 0) {
        const int args[3] = {x.value, w, b};
        x.value = keras_node(k, GRAPH_DENSE, role_before(l, "dense"), args,
                             b >= 0 ? 3 : 2, NULL);
    }
    return keras_activation(k, x, keras_activation_of(l));
}
