/* SPDX-License-Identifier: Apache-2.0 */
/* Layers for the built-in architectures; see build.h. */
#include "weights/arch/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

static int failed(struct arch_build *b, int rc)
{
    if (b->status == 0) {
        b->status = rc;
        if (rc == INFER_EMEMORY)
            error_set(b->err, rc, "out of memory");
        else
            error_set(b->err, rc, "the architecture uses a name twice");
    }
    return b->status;
}

static int check(struct arch_build *b, int result)
{
    return result < 0 ? failed(b, result) : result;
}

void arch_build_begin(struct arch_build *b, const char *name,
                      struct infer_error *err)
{
    memset(b, 0, sizeof(*b));
    b->err = err;
    b->bn_epsilon = 1e-5f;
    b->g = graph_new();
    if (!b->g) {
        failed(b, INFER_EMEMORY);
        return;
    }
    free(b->g->name);
    b->g->name = strdup(name);
    if (!b->g->name)
        failed(b, INFER_EMEMORY);
}

int arch_build_end(struct arch_build *b, int output, struct graph **out)
{
    if (b->status == 0 && output >= 0) {
        int rc = graph_rename_value(b->g, output, "output");

        if (rc == 0)
            rc = graph_add_output(b->g, output);
        if (rc < 0)
            failed(b, rc);
    }
    if (b->status < 0) {
        graph_free(b->g);
        return b->status;
    }
    *out = b->g;
    return 0;
}

/* ---- names and inputs ---------------------------------------------- */

struct arch_name arch_join(const char *prefix, const char *name)
{
    struct arch_name n;

    snprintf(n.text, sizeof(n.text), "%s.%s", prefix, name);
    return n;
}

struct arch_name arch_item(const char *prefix, int i)
{
    struct arch_name n;

    snprintf(n.text, sizeof(n.text), "%s.%d", prefix, i);
    return n;
}

struct arch_name arch_digits(int i)
{
    struct arch_name n;

    snprintf(n.text, sizeof(n.text), "%d", i);
    return n;
}

struct graph_preprocess arch_imagenet(int resize)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f};
    static const float std[3] = {0.229f, 0.224f, 0.225f};
    struct graph_preprocess p = arch_rgb(mean, std);

    p.policy = GRAPH_RESIZE_SHORTER;
    p.resize = resize;
    return p;
}

struct graph_preprocess arch_rgb(const float *mean, const float *std)
{
    struct graph_preprocess p;

    memset(&p, 0, sizeof(p));
    p.present = true;
    p.policy = GRAPH_RESIZE_EXACT;
    p.filter = GRAPH_BILINEAR;
    p.color = GRAPH_RGB;
    p.scale = 1.0f / 255.0f;
    for (int i = 0; i < 4; i++) {
        p.mean[i] = i < 3 ? mean[i] : 0;
        p.std[i] = i < 3 ? std[i] : 1;
    }
    return p;
}

struct graph_preprocess arch_gray(float mean, float std)
{
    const float means[3] = {mean, 0, 0};
    const float stds[3] = {std, 1, 1};
    struct graph_preprocess p = arch_rgb(means, stds);

    p.color = GRAPH_GRAY;
    return p;
}

int arch_input(struct arch_build *b, int rank, const int64_t *dim)
{
    if (b->status < 0)
        return b->status;
    return check(b, graph_add_input(b->g, "input", INFER_F32, rank, dim));
}

int arch_image_input(struct arch_build *b, int channels, int height, int width,
                     const struct graph_preprocess *preprocess)
{
    const int64_t dim[4] = {-1, channels, height, width};
    int value = arch_input(b, 4, dim);

    if (value >= 0 && preprocess)
        b->g->preprocess[b->g->n_inputs - 1] = *preprocess;
    return value;
}

/* ---- weights and nodes --------------------------------------------- */

int arch_weight(struct arch_build *b, const char *name, int rank,
                const int64_t *dim)
{
    struct graph_value *v;
    int value;

    if (b->status < 0)
        return b->status;
    value = check(b, graph_add_value(b->g, name));
    if (value < 0)
        return value;
    v = &b->g->value[value];
    v->dtype = INFER_F32;
    v->rank = rank;
    memcpy(v->dim, dim, (size_t)rank * sizeof(*dim));
    return value;
}

static int vector(struct arch_build *b, const char *layer, const char *name,
                  int64_t n)
{
    return arch_weight(b, arch_join(layer, name).text, 1, &n);
}

int arch_constant(struct arch_build *b, const char *name, int64_t n,
                  const float *x)
{
    struct constant *c;

    if (b->status < 0)
        return b->status;
    c = constant_new(INFER_F32, 1, &n);
    if (!c)
        return failed(b, INFER_EMEMORY);
    memcpy(c->data, x, (size_t)n * sizeof(*x));
    return check(b, graph_add_constant(b->g, name, c));
}

int arch_node(struct arch_build *b, enum graph_op op, const char *name,
              const int *in, int n_in, int *node)
{
    int value, index;

    *node = -1;
    if (b->status < 0)
        return b->status;
    value = check(b, graph_add_value(b->g, NULL));
    if (value < 0)
        return value;
    index = check(b, graph_add_node(b->g, op, name, in, n_in, &value, 1));
    if (index < 0)
        return index;
    *node = index;
    return value;
}

/* ---- layers -------------------------------------------------------- */

int arch_conv_window(struct arch_build *b, const char *name, int x,
                     const struct arch_window *w)
{
    const int groups = w->groups ? w->groups : 1;
    int64_t dim[2 + KERN_MAX_SPATIAL] = {w->out, w->in / groups};
    int in[3] = {x, -1, -1};
    struct kern_conv *conv;
    int value, node;

    for (int i = 0; i < w->dims; i++)
        dim[2 + i] = w->kernel[i];
    in[1] = arch_weight(b, arch_join(name, "weight").text, 2 + w->dims, dim);
    if (w->bias)
        in[2] = vector(b, name, "bias", w->out);
    value = arch_node(b, GRAPH_CONV, name, in, w->bias ? 3 : 2, &node);
    if (value < 0)
        return value;
    conv = &b->g->node[node].attr.conv.conv;
    conv->groups = groups;
    for (int i = 0; i < w->dims; i++) {
        conv->stride[i] = w->stride[i] ? w->stride[i] : 1;
        conv->dilation[i] = w->dilation[i] ? w->dilation[i] : 1;
        conv->pad_begin[i] = w->pad[i];
        conv->pad_end[i] = w->pad[i];
    }
    return value;
}

int arch_conv(struct arch_build *b, const char *name, int x, struct arch_conv c)
{
    const struct arch_window w = {.dims = 2,
                                  .in = c.in,
                                  .out = c.out,
                                  .groups = c.groups,
                                  .kernel = {c.kernel, c.kernel},
                                  .stride = {c.stride, c.stride},
                                  .pad = {c.pad, c.pad},
                                  .dilation = {c.dilation, c.dilation},
                                  .bias = c.bias};
    const int y = arch_conv_window(b, name, x, &w);

    if (y >= 0 && c.same)
        b->g->node[b->g->value[y].producer].attr.conv.auto_pad =
            GRAPH_PAD_SAME_UPPER;
    return y;
}

int arch_batch_norm(struct arch_build *b, const char *name, int x, int channels)
{
    static const char *const part[4] = {"weight", "bias", "running_mean",
                                        "running_var"};
    int in[5] = {x, -1, -1, -1, -1};
    int value, node;

    for (int i = 0; i < 4; i++)
        in[1 + i] = vector(b, name, part[i], channels);
    value = arch_node(b, GRAPH_BATCH_NORM, name, in, 5, &node);
    if (value >= 0)
        b->g->node[node].attr.norm.epsilon = b->bn_epsilon;
    return value;
}

int arch_dense(struct arch_build *b, const char *name, int x, int in, int out)
{
    const int64_t dim[2] = {out, in};
    int inputs[3] = {x, -1, -1};
    int node;

    inputs[1] = arch_weight(b, arch_join(name, "weight").text, 2, dim);
    inputs[2] = vector(b, name, "bias", out);
    return arch_node(b, GRAPH_DENSE, name, inputs, 3, &node);
}

int arch_unary(struct arch_build *b, int x, enum kern_unary_kind kind, float a,
               float c)
{
    int node;
    int value = arch_node(b, GRAPH_UNARY, NULL, &x, 1, &node);

    if (value >= 0) {
        b->g->node[node].attr.unary.kind = kind;
        b->g->node[node].attr.unary.a = a;
        b->g->node[node].attr.unary.b = c;
    }
    return value;
}

int arch_relu(struct arch_build *b, int x)
{
    return arch_unary(b, x, KERN_RELU, 0, 0);
}

int arch_binary(struct arch_build *b, enum kern_binary_kind kind, int x, int y)
{
    const int in[2] = {x, y};
    int node;
    int value = arch_node(b, GRAPH_BINARY, NULL, in, 2, &node);

    if (value >= 0)
        b->g->node[node].attr.binary.kind = kind;
    return value;
}

int arch_add(struct arch_build *b, int x, int y)
{
    return arch_binary(b, KERN_ADD, x, y);
}

int arch_concat(struct arch_build *b, const int *x, int n)
{
    int node;
    int value = arch_node(b, GRAPH_CONCAT, NULL, x, n, &node);

    if (value >= 0)
        b->g->node[node].attr.axis.axis = 1;
    return value;
}

/* window NULL: global. */
static int pool(struct arch_build *b, int x, enum kern_pool_kind kind, int dims,
                const int *window, const int *stride, const int *pad)
{
    struct kern_pool *attr;
    int node;
    int value = arch_node(b, GRAPH_POOL, NULL, &x, 1, &node);

    if (value < 0)
        return value;
    attr = &b->g->node[node].attr.pool.pool;
    attr->kind = kind;
    attr->count_include_pad = kind == KERN_POOL_AVERAGE;
    for (int i = 0; window && i < dims; i++) {
        attr->window[i] = window[i];
        attr->stride[i] = stride[i];
        attr->pad_begin[i] = pad[i];
        attr->pad_end[i] = pad[i];
    }
    return value;
}

int arch_max_pool_window(struct arch_build *b, int x, int dims,
                         const int *window, const int *stride, const int *pad)
{
    return pool(b, x, KERN_POOL_MAX, dims, window, stride, pad);
}

int arch_max_pool(struct arch_build *b, int x, int window, int stride, int pad,
                  bool ceil_mode)
{
    const int windows[2] = {window, window}, strides[2] = {stride, stride};
    const int pads[2] = {pad, pad};
    int value = pool(b, x, KERN_POOL_MAX, 2, windows, strides, pads);

    if (value >= 0)
        b->g->node[b->g->value[value].producer].attr.pool.ceil_mode = ceil_mode;
    return value;
}

int arch_average_pool(struct arch_build *b, int x, int window, int stride,
                      int pad)
{
    const int windows[2] = {window, window}, strides[2] = {stride, stride};
    const int pads[2] = {pad, pad};

    return pool(b, x, KERN_POOL_AVERAGE, 2, windows, strides, pads);
}

int arch_average_pool_window(struct arch_build *b, int x, int dims,
                             const int *window, const int *stride,
                             const int *pad)
{
    return pool(b, x, KERN_POOL_AVERAGE, dims, window, stride, pad);
}

int arch_global_average_pool(struct arch_build *b, int x)
{
    return pool(b, x, KERN_POOL_AVERAGE, 0, NULL, NULL, NULL);
}

int arch_flatten(struct arch_build *b, int x)
{
    int node;
    int value = arch_node(b, GRAPH_FLATTEN, NULL, &x, 1, &node);

    if (value >= 0)
        b->g->node[node].attr.axis.axis = 1;
    return value;
}

int arch_dropout(struct arch_build *b, int x, float ratio)
{
    int node;
    int value = arch_node(b, GRAPH_DROPOUT, NULL, &x, 1, &node);

    if (value >= 0)
        b->g->node[node].attr.dropout.ratio = ratio;
    return value;
}

int arch_pad(struct arch_build *b, int x, const int begin[4], const int end[4])
{
    int node;
    int value = arch_node(b, GRAPH_PAD, NULL, &x, 1, &node);

    if (value >= 0) {
        memcpy(b->g->node[node].attr.pad.begin, begin, 4 * sizeof(*begin));
        memcpy(b->g->node[node].attr.pad.end, end, 4 * sizeof(*end));
    }
    return value;
}

int arch_channels(struct arch_build *b, int x, int begin, int end)
{
    struct graph_slice *slice;
    int node;
    int value = arch_node(b, GRAPH_SLICE, NULL, &x, 1, &node);

    if (value < 0)
        return value;
    slice = &b->g->node[node].attr.slice;
    slice->n_axes = 1;
    slice->axis[0] = 1;
    slice->begin[0] = begin;
    slice->end[0] = end;
    slice->step[0] = 1;
    return value;
}

static int dims_node(struct arch_build *b, enum graph_op op, int x, int n,
                     const int64_t *dim)
{
    int node;
    int value = arch_node(b, op, NULL, &x, 1, &node);

    if (value >= 0) {
        b->g->node[node].attr.dims.n = n;
        memcpy(b->g->node[node].attr.dims.dim, dim, (size_t)n * sizeof(*dim));
    }
    return value;
}

int arch_transpose(struct arch_build *b, int x, int n, const int64_t *order)
{
    return dims_node(b, GRAPH_TRANSPOSE, x, n, order);
}

int arch_reshape(struct arch_build *b, int x, int n, const int64_t *dim)
{
    return dims_node(b, GRAPH_RESHAPE, x, n, dim);
}

int arch_channel_norm(struct arch_build *b, const char *name, int x,
                      int channels, float epsilon)
{
    static const int64_t last[4] = {0, 2, 3, 1}, first[4] = {0, 3, 1, 2};
    int in[3] = {arch_transpose(b, x, 4, last), -1, -1};
    int node;
    int value;

    in[1] = vector(b, name, "weight", channels);
    in[2] = vector(b, name, "bias", channels);
    value = arch_node(b, GRAPH_LAYER_NORM, name, in, 3, &node);
    if (value >= 0) {
        b->g->node[node].attr.norm.axis = -1;
        b->g->node[node].attr.norm.epsilon = epsilon;
    }
    return arch_transpose(b, value, 4, first);
}

int arch_resize_like(struct arch_build *b, int x, int like)
{
    const int in[2] = {x, like};
    struct graph_resize *attr;
    int node;
    int value = arch_node(b, GRAPH_RESIZE, NULL, in, 2, &node);

    if (value < 0)
        return value;
    attr = &b->g->node[node].attr.resize;
    attr->resize.mode = KERN_BILINEAR;
    attr->resize.coord = KERN_HALF_PIXEL;
    attr->n_sizes = 4;
    for (int i = 0; i < 4; i++)
        attr->size[i] = i < 2 ? 0 : GRAPH_SIZE_LIKE;
    return value;
}
