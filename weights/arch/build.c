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

int arch_image_input(struct arch_build *b, int channels, int height, int width,
                     const struct graph_preprocess *preprocess)
{
    const int64_t dim[4] = {-1, channels, height, width};
    int value;

    if (b->status < 0)
        return b->status;
    value = check(b, graph_add_input(b->g, "input", INFER_F32, 4, dim));
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

int arch_conv(struct arch_build *b, const char *name, int x, struct arch_conv c)
{
    int groups = c.groups ? c.groups : 1;
    const int64_t dim[4] = {c.out, c.in / groups, c.kernel, c.kernel};
    int in[3] = {x, -1, -1};
    struct kern_conv *conv;
    int value, node;

    in[1] = arch_weight(b, arch_join(name, "weight").text, 4, dim);
    if (c.bias)
        in[2] = vector(b, name, "bias", c.out);
    value = arch_node(b, GRAPH_CONV, name, in, c.bias ? 3 : 2, &node);
    if (value < 0)
        return value;
    conv = &b->g->node[node].attr.conv.conv;
    conv->groups = groups;
    for (int i = 0; i < 2; i++) {
        conv->stride[i] = c.stride ? c.stride : 1;
        conv->pad_begin[i] = c.pad;
        conv->pad_end[i] = c.pad;
    }
    return value;
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

static int pool(struct arch_build *b, int x, enum kern_pool_kind kind,
                int window, int stride, int pad, bool ceil_mode)
{
    struct graph_pool *attr;
    int node;
    int value = arch_node(b, GRAPH_POOL, NULL, &x, 1, &node);

    if (value < 0)
        return value;
    attr = &b->g->node[node].attr.pool;
    attr->pool.kind = kind;
    attr->pool.count_include_pad = kind == KERN_POOL_AVERAGE;
    attr->ceil_mode = ceil_mode;
    for (int i = 0; i < 2; i++) {
        attr->pool.window[i] = window;
        attr->pool.stride[i] = stride;
        attr->pool.dilation[i] = 1;
        attr->pool.pad_begin[i] = pad;
        attr->pool.pad_end[i] = pad;
    }
    return value;
}

int arch_max_pool(struct arch_build *b, int x, int window, int stride, int pad,
                  bool ceil_mode)
{
    return pool(b, x, KERN_POOL_MAX, window, stride, pad, ceil_mode);
}

int arch_average_pool(struct arch_build *b, int x, int window, int stride)
{
    return pool(b, x, KERN_POOL_AVERAGE, window, stride, 0, false);
}

int arch_global_average_pool(struct arch_build *b, int x)
{
    return pool(b, x, KERN_POOL_AVERAGE, 0, 1, 0, false);
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
