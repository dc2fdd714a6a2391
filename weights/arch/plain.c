/* SPDX-License-Identifier: Apache-2.0 */
/* Networks without branches: LeNet (LeCun 1998), AlexNet (Krizhevsky 2012 in
 * torchvision's one-tower form) and VGG (Simonyan and Zisserman 2014). */
#include <stdio.h>

#include "weights/arch/build.h"

int arch_mlp(const struct arch_row *row, int classes, struct infer_error *err,
             struct graph **out);
int arch_lenet5(const struct arch_row *row, int classes,
                struct infer_error *err, struct graph **out);
int arch_alexnet_mnist(const struct arch_row *row, int classes,
                       struct infer_error *err, struct graph **out);
int arch_vgg_mnist(const struct arch_row *row, int classes,
                   struct infer_error *err, struct graph **out);
int arch_alexnet(const struct arch_row *row, int classes,
                 struct infer_error *err, struct graph **out);
int arch_vgg(const struct arch_row *row, int classes, struct infer_error *err,
             struct graph **out);

/* Mean and deviation of MNIST's training set. */
#define MNIST_MEAN 0.1307f
#define MNIST_STD  0.3081f

/* row->variant: units of each hidden layer, then 0. */
int arch_mlp(const struct arch_row *row, int classes, struct infer_error *err,
             struct graph **out)
{
    const struct graph_preprocess preprocess = arch_gray(MNIST_MEAN, MNIST_STD);
    struct arch_build b;
    char name[16];
    int x, units = 784, layer = 0;

    arch_build_begin(&b, row->name, err);
    x = arch_flatten(&b, arch_image_input(&b, 1, 28, 28, &preprocess));
    for (; row->variant[layer]; layer++) {
        snprintf(name, sizeof(name), "fc%d", layer + 1);
        x = arch_relu(&b, arch_dense(&b, name, x, units, row->variant[layer]));
        units = row->variant[layer];
    }
    snprintf(name, sizeof(name), "fc%d", layer + 1);
    x = arch_dense(&b, name, x, units, classes ? classes : 10);
    return arch_build_end(&b, x, out);
}

int arch_lenet5(const struct arch_row *row, int classes,
                struct infer_error *err, struct graph **out)
{
    const struct graph_preprocess preprocess = arch_gray(MNIST_MEAN, MNIST_STD);
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 1, 28, 28, &preprocess);
    x = arch_conv(&b, "conv1", x,
                  (struct arch_conv){
                      .in = 1, .out = 6, .kernel = 5, .pad = 2, .bias = true});
    x = arch_max_pool(&b, arch_relu(&b, x), 2, 2, 0, false);
    x = arch_conv(
        &b, "conv2", x,
        (struct arch_conv){.in = 6, .out = 16, .kernel = 5, .bias = true});
    x = arch_max_pool(&b, arch_relu(&b, x), 2, 2, 0, false);
    x = arch_flatten(&b, x);
    x = arch_relu(&b, arch_dense(&b, "fc1", x, 400, 120));
    x = arch_relu(&b, arch_dense(&b, "fc2", x, 120, 84));
    x = arch_dense(&b, "fc3", x, 84, classes ? classes : 10);
    return arch_build_end(&b, x, out);
}

/* The two hidden layers and the classifier of AlexNet and VGG. */
static int classifier(struct arch_build *b, int x, const int index[3], int in,
                      int classes)
{
    x = arch_dense(b, arch_item("classifier", index[0]).text, x, in, 4096);
    x = arch_relu(b, x);
    x = arch_dense(b, arch_item("classifier", index[1]).text, x, 4096, 4096);
    x = arch_relu(b, x);
    return arch_dense(b, arch_item("classifier", index[2]).text, x, 4096,
                      classes ? classes : 1000);
}

int arch_alexnet(const struct arch_row *row, int classes,
                 struct infer_error *err, struct graph **out)
{
    static const struct {
        int index, in, out, kernel, stride, pad, pool;
    } layer[5] = {
        {0, 3, 64, 11, 4, 2, 1},    {3, 64, 192, 5, 1, 2, 1},
        {6, 192, 384, 3, 1, 1, 0},  {8, 384, 256, 3, 1, 1, 0},
        {10, 256, 256, 3, 1, 1, 1},
    };
    static const int index[3] = {1, 4, 6};
    const struct graph_preprocess preprocess = arch_imagenet(256);
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    for (int i = 0; i < 5; i++) {
        x = arch_conv(&b, arch_item("features", layer[i].index).text, x,
                      (struct arch_conv){.in = layer[i].in,
                                         .out = layer[i].out,
                                         .kernel = layer[i].kernel,
                                         .stride = layer[i].stride,
                                         .pad = layer[i].pad,
                                         .bias = true});
        x = arch_relu(&b, x);
        if (layer[i].pool)
            x = arch_max_pool(&b, x, 3, 2, 0, false);
    }
    /* The adaptive pooling to 6x6 sees 6x6 here. */
    x = arch_flatten(&b, x);
    return arch_build_end(&b, classifier(&b, x, index, 256 * 36, classes), out);
}

/* timm's form of the hidden layers: convolutions of all 7x7 pixels, then of
 * one, so that larger pictures give a mean of scores. */
static int timm_classifier(struct arch_build *b, int x, int classes)
{
    x = arch_conv(
        b, "pre_logits.fc1", x,
        (struct arch_conv){.in = 512, .out = 4096, .kernel = 7, .bias = true});
    x = arch_relu(b, x);
    x = arch_conv(
        b, "pre_logits.fc2", x,
        (struct arch_conv){.in = 4096, .out = 4096, .kernel = 1, .bias = true});
    return arch_classifier(b, "head.fc", arch_relu(b, x), 4096, classes);
}

/* row->variant: convolutions in each of five stages, 1 for batch
 * normalisation, 1 for timm's names. */
int arch_vgg(const struct arch_row *row, int classes, struct infer_error *err,
             struct graph **out)
{
    static const int channels[5] = {64, 128, 256, 512, 512};
    static const int index[3] = {0, 3, 6};
    const struct graph_preprocess preprocess = arch_imagenet(256);
    bool bn = row->variant[5];
    struct arch_build b;
    int in = 3, layer = 0;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    for (int stage = 0; stage < 5; stage++) {
        for (int i = 0; i < row->variant[stage]; i++) {
            x = arch_conv(&b, arch_item("features", layer).text, x,
                          (struct arch_conv){.in = in,
                                             .out = channels[stage],
                                             .kernel = 3,
                                             .pad = 1,
                                             .bias = true});
            if (bn)
                x = arch_batch_norm(&b, arch_item("features", layer + 1).text,
                                    x, channels[stage]);
            x = arch_relu(&b, x);
            /* conv, [bn,] relu count in torchvision's Sequential. */
            layer += bn ? 3 : 2;
            in = channels[stage];
        }
        x = arch_max_pool(&b, x, 2, 2, 0, false);
        layer++;
    }
    if (row->variant[6])
        return arch_build_end(&b, timm_classifier(&b, x, classes), out);
    x = arch_flatten(&b, x);
    return arch_build_end(&b, classifier(&b, x, index, 512 * 49, classes), out);
}

/* ---- forms for MNIST ----------------------------------------------- */

/* 3x3 convolutions with ReLU, each followed by a max pooling where pool[i];
 * named features.0, features.1, ... */
static int small_features(struct arch_build *b, int x, const int *channels,
                          const bool *pool, int n)
{
    int in = 1;

    for (int i = 0; i < n; i++) {
        x = arch_conv(b, arch_item("features", i).text, x,
                      (struct arch_conv){.in = in,
                                         .out = channels[i],
                                         .kernel = 3,
                                         .pad = 1,
                                         .bias = true});
        x = arch_relu(b, x);
        if (pool[i])
            x = arch_max_pool(b, x, 2, 2, 0, false);
        in = channels[i];
    }
    return arch_flatten(b, x);
}

/* Two hidden layers with dropout, and the scores. */
static int small_classifier(struct arch_build *b, int x, int in, int hidden,
                            int classes)
{
    x = arch_relu(b, arch_dense(b, "classifier.0", x, in, hidden));
    x = arch_dropout(b, x, 0.5f);
    x = arch_relu(b, arch_dense(b, "classifier.1", x, hidden, hidden));
    x = arch_dropout(b, x, 0.5f);
    return arch_dense(b, "classifier.2", x, hidden, classes ? classes : 10);
}

/* AlexNet's five convolutions with 3x3 windows; 28 pixels become 3. */
int arch_alexnet_mnist(const struct arch_row *row, int classes,
                       struct infer_error *err, struct graph **out)
{
    static const int channels[5] = {64, 192, 384, 256, 256};
    static const bool pooled[5] = {true, true, false, false, true};
    const struct graph_preprocess preprocess = arch_gray(MNIST_MEAN, MNIST_STD);
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 1, 28, 28, &preprocess);
    x = small_features(&b, x, channels, pooled, 5);
    x = small_classifier(&b, x, 256 * 9, 1024, classes);
    return arch_build_end(&b, x, out);
}

/* VGG-11 without its last pooling; 28 pixels become 1. */
int arch_vgg_mnist(const struct arch_row *row, int classes,
                   struct infer_error *err, struct graph **out)
{
    static const int channels[8] = {64, 128, 256, 256, 512, 512, 512, 512};
    static const bool pooled[8] = {true,  true, false, true,
                                   false, true, false, false};
    const struct graph_preprocess preprocess = arch_gray(MNIST_MEAN, MNIST_STD);
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 1, 28, 28, &preprocess);
    x = small_features(&b, x, channels, pooled, 8);
    x = small_classifier(&b, x, 512, 512, classes);
    return arch_build_end(&b, x, out);
}
