/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residual networks (He et al. 2015; Xie et al. 2017; Zagoruyko 2016).
 *
 * The ImageNet forms carry torchvision's names.  The "-cifar" forms of
 * resnet18 to 50 have a 3x3 stem and no max pooling, with the same names.
 * resnet20-cifar to resnet110-cifar are the paper's own CIFAR networks with
 * option A shortcuts, as github.com/akamaster/pytorch_resnet_cifar10 has them.
 */
#include "weights/arch/build.h"

int arch_resnet(const struct arch_row *row, int classes,
                struct infer_error *err, struct graph **out);
int arch_resnet_option_a(const struct arch_row *row, int classes,
                         struct infer_error *err, struct graph **out);

/* row->variant of arch_resnet(). */
enum {
    BLOCKS = 0, /* four entries: blocks of each stage */
    BOTTLENECK = 4,
    GROUPS = 5,
    GROUP_WIDTH = 6, /* channels a group, at 64 planes */
    FORM = 7         /* of stem, shortcuts and blocks */
};
enum {
    CIFAR = 1, /* for small pictures */
    MNIST = 2,
    DEEP = 4, /* timm's "d": a stem of three convolutions, means in shortcuts */
    TIERED = 8, /* and "t": the first one has 24 channels */
    GATED = 16, /* squeeze and excitation */
    SMALL = CIFAR | MNIST
};

static int shortcut(struct arch_build *b, const char *name, int x, int in,
                    int out, int stride, int form)
{
    if (stride == 1 && in == out)
        return x;
    if (form & DEEP) {
        if (stride > 1)
            x = arch_average_pool(b, x, stride, stride, 0);
        return arch_conv_bn(
            b, name, "downsample.1", "downsample.2", x,
            (struct arch_conv){.in = in, .out = out, .kernel = 1});
    }
    return arch_conv_bn(
        b, name, "downsample.0", "downsample.1", x,
        (struct arch_conv){
            .in = in, .out = out, .kernel = 1, .stride = stride});
}

/* The two 3x3 convolutions of a basic block. */
static int two_convs(struct arch_build *b, const char *name, int x, int in,
                     int planes, int stride)
{
    x = arch_conv_bn(
        b, name, "conv1", "bn1", x,
        (struct arch_conv){
            .in = in, .out = planes, .kernel = 3, .stride = stride, .pad = 1});
    x = arch_relu(b, x);
    return arch_conv_bn(
        b, name, "conv2", "bn2", x,
        (struct arch_conv){.in = planes, .out = planes, .kernel = 3, .pad = 1});
}

/* The gate of a block: a sixteenth of its channels between the two layers, at
 * least 8. */
static int gate(struct arch_build *b, const char *name, int x, int channels,
                int form)
{
    const int squeeze = channels < 128 ? 8 : channels / 16;

    return form & GATED
               ? arch_squeeze_excite(b, arch_join(name, "se").text, x, channels,
                                     squeeze, arch_relu, arch_sigmoid)
               : x;
}

static int basic_block(struct arch_build *b, const char *name, int x, int in,
                       int planes, int stride, int form)
{
    int y = two_convs(b, name, x, in, planes, stride);

    y = gate(b, name, y, planes, form);
    return arch_relu(
        b, arch_add(b, y, shortcut(b, name, x, in, planes, stride, form)));
}

/* How the blocks of a network differ from a plain ResNet's. */
struct bottleneck {
    int groups, group_width; /* channels a group, at 64 planes */
    int dilation;            /* of the 3x3 convolution */
    int form;
};

static int bottleneck_block(struct arch_build *b, const struct bottleneck *k,
                            const char *name, int x, int in, int planes,
                            int stride)
{
    int width = planes * k->group_width / 64 * k->groups;
    int out = planes * 4;
    int y =
        arch_conv_bn(b, name, "conv1", "bn1", x,
                     (struct arch_conv){.in = in, .out = width, .kernel = 1});

    y = arch_relu(b, y);
    y = arch_conv_bn(b, name, "conv2", "bn2", y,
                     (struct arch_conv){.in = width,
                                        .out = width,
                                        .kernel = 3,
                                        .stride = stride,
                                        .pad = k->dilation,
                                        .groups = k->groups,
                                        .dilation = k->dilation});
    y = arch_relu(b, y);
    y = arch_conv_bn(b, name, "conv3", "bn3", y,
                     (struct arch_conv){.in = width, .out = out, .kernel = 1});
    y = gate(b, name, y, out, k->form);
    return arch_relu(
        b, arch_add(b, y, shortcut(b, name, x, in, out, stride, k->form)));
}

static int input(struct arch_build *b, int small)
{
    static const float mean[3] = {0.4914f, 0.4822f, 0.4465f};
    static const float std[3] = {0.2023f, 0.1994f, 0.2010f};
    const struct graph_preprocess cifar = arch_rgb(mean, std);
    const struct graph_preprocess mnist = arch_gray(0.1307f, 0.3081f);
    const struct graph_preprocess large = arch_imagenet(256);

    if (small == MNIST)
        return arch_image_input(b, 1, 28, 28, &mnist);
    if (small == CIFAR)
        return arch_image_input(b, 3, 32, 32, &cifar);
    return arch_image_input(b, 3, 224, 224, &large);
}

/* Three 3x3 convolutions; in a Sequential, whose last norm is bn1. */
static int deep_stem(struct arch_build *b, bool tiered, int x)
{
    const int first = tiered ? 24 : 32;

    x = arch_conv_bn(
        b, "conv1", "0", "1", x,
        (struct arch_conv){
            .in = 3, .out = first, .kernel = 3, .stride = 2, .pad = 1});
    x = arch_conv_bn(
        b, "conv1", "3", "4", arch_relu(b, x),
        (struct arch_conv){.in = first, .out = 32, .kernel = 3, .pad = 1});
    x = arch_conv(
        b, "conv1.6", arch_relu(b, x),
        (struct arch_conv){.in = 32, .out = 64, .kernel = 3, .pad = 1});
    return arch_relu(b, arch_batch_norm(b, "bn1", x, 64));
}

static int stem(struct arch_build *b, int form)
{
    const int small = form & SMALL;
    int x = input(b, small);

    if (form & DEEP)
        return arch_max_pool(b, deep_stem(b, form & TIERED, x), 3, 2, 1, false);
    x = arch_conv(b, "conv1", x,
                  (struct arch_conv){.in = small == MNIST ? 1 : 3,
                                     .out = 64,
                                     .kernel = small ? 3 : 7,
                                     .stride = small ? 1 : 2,
                                     .pad = small ? 1 : 3});

    x = arch_relu(b, arch_batch_norm(b, "bn1", x, 64));
    return small ? x : arch_max_pool(b, x, 3, 2, 1, false);
}

int arch_resnet(const struct arch_row *row, int classes,
                struct infer_error *err, struct graph **out)
{
    const int *v = row->variant;
    const struct bottleneck k = {v[GROUPS], v[GROUP_WIDTH], 1, v[FORM]};
    struct arch_build b;
    int in = 64;
    int x;

    arch_build_begin(&b, row->name, err);
    x = stem(&b, v[FORM]);
    for (int stage = 0; stage < 4; stage++) {
        struct arch_name layer = {"layer1"};
        int planes = 64 << stage;

        layer.text[5] = (char)('1' + stage);
        for (int i = 0; i < v[BLOCKS + stage]; i++) {
            struct arch_name name = arch_item(layer.text, i);
            int stride = i == 0 && stage > 0 ? 2 : 1;

            if (v[BOTTLENECK])
                x = bottleneck_block(&b, &k, name.text, x, in, planes, stride);
            else
                x = basic_block(&b, name.text, x, in, planes, stride, v[FORM]);
            in = v[BOTTLENECK] ? planes * 4 : planes;
        }
    }
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    if (classes == 0)
        classes = v[FORM] & SMALL ? 10 : 1000;
    return arch_build_end(&b, arch_dense(&b, "fc", x, in, classes), out);
}

/* torchvision's replace_stride_with_dilation of the last two stages: the first
 * block of a stage keeps the dilation of the stage before. */
int arch_resnet_dilated(struct arch_build *b, const char *prefix,
                        const int *blocks, int x)
{
    struct bottleneck k = {1, 64, 1, 0};
    int in = 64;

    x = arch_conv(b, arch_join(prefix, "conv1").text, x,
                  (struct arch_conv){
                      .in = 3, .out = 64, .kernel = 7, .stride = 2, .pad = 3});
    x = arch_batch_norm(b, arch_join(prefix, "bn1").text, x, 64);
    x = arch_max_pool(b, arch_relu(b, x), 3, 2, 1, false);
    for (int stage = 0; stage < 4; stage++) {
        struct arch_name layer = {"layer1"};
        const int planes = 64 << stage;

        layer.text[5] = (char)('1' + stage);
        layer = arch_join(prefix, layer.text);
        for (int i = 0; i < blocks[stage]; i++) {
            k.dilation = stage < 2 || (stage == 2 && i == 0) ? 1
                         : stage == 2 || i == 0              ? 2
                                                             : 4;
            x = bottleneck_block(b, &k, arch_item(layer.text, i).text, x, in,
                                 planes, stage == 1 && i == 0 ? 2 : 1);
            in = planes * 4;
        }
    }
    return x;
}

/* ---- CIFAR, option A ----------------------------------------------- */

/* Every second row and column, and zero channels on both sides. */
static int padded_shortcut(struct arch_build *b, int x, int in, int planes)
{
    const int pad[4] = {0, (planes - in) / 2, 0, 0};
    struct graph_slice *slice;
    int node;
    int y = arch_node(b, GRAPH_SLICE, NULL, &x, 1, &node);

    if (y < 0)
        return y;
    slice = &b->g->node[node].attr.slice;
    slice->n_axes = 2;
    for (int i = 0; i < 2; i++) {
        slice->axis[i] = 2 + i;
        slice->begin[i] = 0;
        slice->end[i] = INT64_MAX;
        slice->step[i] = 2;
    }
    return arch_pad(b, y, pad, pad);
}

static int option_a_block(struct arch_build *b, const char *name, int x, int in,
                          int planes)
{
    int stride = in == planes ? 1 : 2;
    int y = two_convs(b, name, x, in, planes, stride);

    if (stride != 1)
        x = padded_shortcut(b, x, in, planes);
    return arch_relu(b, arch_add(b, y, x));
}

int arch_resnet_option_a(const struct arch_row *row, int classes,
                         struct infer_error *err, struct graph **out)
{
    static const char *const layer[3] = {"layer1", "layer2", "layer3"};
    static const float mean[3] = {0.485f, 0.456f, 0.406f};
    static const float std[3] = {0.229f, 0.224f, 0.225f};
    const struct graph_preprocess preprocess = arch_rgb(mean, std);
    struct arch_build b;
    int in = 16;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 32, 32, &preprocess);
    x = arch_conv(
        &b, "conv1", x,
        (struct arch_conv){.in = 3, .out = 16, .kernel = 3, .pad = 1});
    x = arch_relu(&b, arch_batch_norm(&b, "bn1", x, 16));
    for (int stage = 0; stage < 3; stage++) {
        for (int i = 0; i < row->variant[BLOCKS]; i++) {
            int planes = 16 << stage;

            x = option_a_block(&b, arch_item(layer[stage], i).text, x, in,
                               planes);
            in = planes;
        }
    }
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    x = arch_dense(&b, "linear", x, in, classes ? classes : 10);
    return arch_build_end(&b, x, out);
}
