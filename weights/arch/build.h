/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the graphs of the built-in architectures.
 *
 * A builder function adds one layer and returns the index of its output, or a
 * negative number: then the builder has failed, and every later call does
 * nothing and returns that number too, so that only arch_build_end() has to be
 * checked.  Weights are values without data, named as the framework names
 * them: layer "layer1.0.conv1" has "layer1.0.conv1.weight" and so on.
 */
#ifndef WEIGHTS_ARCH_BUILD_H
#define WEIGHTS_ARCH_BUILD_H

#include "libinfer/graph/graph.h"
#include "weights/arch.h"

struct arch_build {
    struct graph *g;
    struct infer_error *err;
    int status;
    float bn_epsilon; /* of arch_batch_norm(); PyTorch's 1e-5 at first */
};

/* Starts a graph called name. */
void arch_build_begin(struct arch_build *b, const char *name,
                      struct infer_error *err);
/* Hands the graph over with value `output` as its only output, or frees it. */
int arch_build_end(struct arch_build *b, int output, struct graph **out);

/* The input picture "input": N free, C,H,W as given, with the preprocessing
 * that goes with the published weights. */
int arch_image_input(struct arch_build *b, int channels, int height, int width,
                     const struct graph_preprocess *preprocess);
/* Any other input "input". */
int arch_input(struct arch_build *b, int rank, const int64_t *dim);
/* ImageNet as torchvision reads it: shorter side `resize`, centre crop, RGB,
 * usual mean and deviation. */
struct graph_preprocess arch_imagenet(int resize);
/* Exact size, RGB, pixel / 255, then these means and deviations (3 each). */
struct graph_preprocess arch_rgb(const float *mean, const float *std);
struct graph_preprocess arch_gray(float mean, float std);

/* The name "a.b" in a buffer of its own; long names are cut (the builder
 * fails on the clash that follows). */
struct arch_name {
    char text[96];
};
struct arch_name arch_join(const char *prefix, const char *name);
/* "prefix.i" */
struct arch_name arch_item(const char *prefix, int i);
/* "i" */
struct arch_name arch_digits(int i);

/* Attributes of a convolution; kernel, stride, pad and dilation are those of
 * both dimensions.  0 means 1 for groups, stride and dilation. */
struct arch_conv {
    int in, out; /* channels */
    int kernel, stride, pad, groups;
    bool bias;
    int dilation;
    bool same; /* TensorFlow's padding instead of pad */
};
int arch_conv(struct arch_build *b, const char *name, int x,
              struct arch_conv c);
/* The same for windows that differ by dimension: dims spatial dimensions (1 to
 * 3), one entry each.  0 means 1 for groups, stride and dilation. */
struct arch_window {
    int dims, in, out, groups;
    int kernel[3], stride[3], pad[3], dilation[3];
    bool bias;
};
int arch_conv_window(struct arch_build *b, const char *name, int x,
                     const struct arch_window *w);
int arch_batch_norm(struct arch_build *b, const char *name, int x,
                    int channels);
int arch_dense(struct arch_build *b, const char *name, int x, int in, int out);
int arch_unary(struct arch_build *b, int x, enum kern_unary_kind kind, float a,
               float c);
int arch_relu(struct arch_build *b, int x);
int arch_binary(struct arch_build *b, enum kern_binary_kind kind, int x, int y);
int arch_add(struct arch_build *b, int x, int y);
int arch_concat(struct arch_build *b, const int *x, int n);
int arch_max_pool(struct arch_build *b, int x, int window, int stride, int pad,
                  bool ceil_mode);
/* Windows that differ by dimension, dims of them; the padding is no maximum. */
int arch_max_pool_window(struct arch_build *b, int x, int dims,
                         const int *window, const int *stride, const int *pad);
/* The padding counts as zeros. */
int arch_average_pool(struct arch_build *b, int x, int window, int stride,
                      int pad);
int arch_average_pool_window(struct arch_build *b, int x, int dims,
                             const int *window, const int *stride,
                             const int *pad);
/* Mean of each plane; N,C,1,1 (N,C,1,1,1 for three dimensions). */
int arch_global_average_pool(struct arch_build *b, int x);
int arch_flatten(struct arch_build *b, int x);
int arch_dropout(struct arch_build *b, int x, float ratio);
int arch_pad(struct arch_build *b, int x, const int begin[4], const int end[4]);
/* A weight without data. */
int arch_weight(struct arch_build *b, const char *name, int rank,
                const int64_t *dim);
/* A constant with data. */
int arch_constant(struct arch_build *b, const char *name, int64_t n,
                  const float *x);
/* Channels begin .. end - 1. */
int arch_channels(struct arch_build *b, int x, int begin, int end);
/* Sizes as struct graph_dims has them: 0 as the input's, -1 the rest. */
int arch_reshape(struct arch_build *b, int x, int n, const int64_t *dim);
int arch_transpose(struct arch_build *b, int x, int n, const int64_t *order);
/* Layer norm over the channels of N,C,H,W, with weight and bias. */
int arch_channel_norm(struct arch_build *b, const char *name, int x,
                      int channels, float epsilon);
/* Bilinear, corners not aligned, to the height and width of `like`. */
int arch_resize_like(struct arch_build *b, int x, int like);

/* ---- blocks that several families share (blocks.c) ------------------- */

/* An activation between layers; NULL: none. */
typedef int arch_activation(struct arch_build *b, int x);
arch_activation arch_relu6, arch_silu, arch_hard_swish, arch_sigmoid,
    arch_hard_sigmoid;

/* width as torchvision and Keras round it: to the nearest multiple of 8, or
 * the next if that is less than 0.9 of it. */
int arch_round_channels(double width);
/* torchvision's Conv2dNormActivation: convolution "<name>.0" padded to keep
 * its size, batch norm "<name>.1", act.  c.pad is not read. */
int arch_conv_norm(struct arch_build *b, const char *name, int x,
                   struct arch_conv c, arch_activation *act);
/* convolution "<name>.<conv>" as c says, batch norm "<name>.<bn>". */
int arch_conv_bn(struct arch_build *b, const char *name, const char *conv,
                 const char *bn, int x, struct arch_conv c);
/* x times a gate a channel, computed from the means of the planes by the 1x1
 * convolutions "<name>.fc1" and "<name>.fc2". */
int arch_squeeze_excite(struct arch_build *b, const char *name, int x,
                        int channels, int squeeze, arch_activation *act,
                        arch_activation *gate);
/* Global average, and the dense layer `name` of classes (0: 1000) outputs. */
int arch_classifier(struct arch_build *b, const char *name, int x, int in,
                    int classes);

/* From ImageNet's mean and deviation to 0.5 and 0.5 (torchvision's
 * transform_input). */
int arch_transform_input(struct arch_build *b, int x);

/* ---- backbones of segmentation --------------------------------------- */

/* ResNet-50 or deeper, the layers that torchvision calls prefix "conv1" to
 * "layer4": blocks of four stages; the last two stages dilated instead of
 * strided (output stride 8).  Output: 2048 channels. */
int arch_resnet_dilated(struct arch_build *b, const char *prefix,
                        const int *blocks, int x);
/* The features of MobileNetV3-Large, prefix + "0" on, the last stage dilated.
 * Output: 960 channels; *low: the 40 channels at an eighth of the size. */
int arch_mobilenet_v3_dilated(struct arch_build *b, const char *prefix, int x,
                              int *low);

/* Any node with one output; fill the attributes through b->g->node. */
int arch_node(struct arch_build *b, enum graph_op op, const char *name,
              const int *in, int n_in, int *node);

#endif
