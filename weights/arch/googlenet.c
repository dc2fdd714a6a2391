/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GoogLeNet (Szegedy et al. 2014) as torchvision has it: batch normalisation
 * with epsilon 1e-3 and 3x3 kernels in the branch called 5x5.  The published
 * weights need an input that is brought from torchvision's mean and deviation
 * to 0.5 and 0.5 (transform_input); a network trained by
 * googlenet(weights=None) takes it as it is, and its tensors do not tell.  The
 * two auxiliary classifiers serve training only and are left out.
 */
#include "weights/arch/build.h"

int arch_googlenet(const struct arch_row *row, int classes,
                   struct infer_error *err, struct graph **out);

static int basic_conv(struct arch_build *b, const char *name, int x,
                      struct arch_conv c)
{
    x = arch_conv(b, arch_join(name, "conv").text, x, c);
    return arch_relu(b,
                     arch_batch_norm(b, arch_join(name, "bn").text, x, c.out));
}

static int point_conv(struct arch_build *b, const char *prefix,
                      const char *name, int x, int in, int out)
{
    return basic_conv(b, arch_join(prefix, name).text, x,
                      (struct arch_conv){.in = in, .out = out, .kernel = 1});
}

static int wide_conv(struct arch_build *b, const char *prefix, const char *name,
                     int x, int in, int out)
{
    return basic_conv(
        b, arch_join(prefix, name).text, x,
        (struct arch_conv){.in = in, .out = out, .kernel = 3, .pad = 1});
}

/* Widths: 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool projection. */
struct inception {
    const char *name;
    int width[6];
};

static int inception(struct arch_build *b, const struct inception *block, int x,
                     int *channels)
{
    const int *w = block->width;
    const char *name = block->name;
    int in = *channels;
    int part[4];

    part[0] = point_conv(b, name, "branch1", x, in, w[0]);
    part[1] = point_conv(b, name, "branch2.0", x, in, w[1]);
    part[1] = wide_conv(b, name, "branch2.1", part[1], w[1], w[2]);
    part[2] = point_conv(b, name, "branch3.0", x, in, w[3]);
    part[2] = wide_conv(b, name, "branch3.1", part[2], w[3], w[4]);
    part[3] = arch_max_pool(b, x, 3, 1, 1, true);
    part[3] = point_conv(b, name, "branch4.1", part[3], in, w[5]);
    *channels = w[0] + w[2] + w[4] + w[5];
    return arch_concat(b, part, 4);
}

static int stem(struct arch_build *b, int x)
{
    x = basic_conv(b, "conv1", x,
                   (struct arch_conv){
                       .in = 3, .out = 64, .kernel = 7, .stride = 2, .pad = 3});
    x = arch_max_pool(b, x, 3, 2, 0, true);
    x = basic_conv(b, "conv2", x,
                   (struct arch_conv){.in = 64, .out = 64, .kernel = 1});
    x = basic_conv(
        b, "conv3", x,
        (struct arch_conv){.in = 64, .out = 192, .kernel = 3, .pad = 1});
    return arch_max_pool(b, x, 3, 2, 0, true);
}

int arch_googlenet(const struct arch_row *row, int classes,
                   struct infer_error *err, struct graph **out)
{
    static const struct inception block[9] = {
        {"inception3a", {64, 96, 128, 16, 32, 32}},
        {"inception3b", {128, 128, 192, 32, 96, 64}},
        {"inception4a", {192, 96, 208, 16, 48, 64}},
        {"inception4b", {160, 112, 224, 24, 64, 64}},
        {"inception4c", {128, 128, 256, 24, 64, 64}},
        {"inception4d", {112, 144, 288, 32, 64, 64}},
        {"inception4e", {256, 160, 320, 32, 128, 128}},
        {"inception5a", {256, 160, 320, 32, 128, 128}},
        {"inception5b", {384, 192, 384, 48, 128, 128}},
    };
    const struct graph_preprocess preprocess = arch_imagenet(256);
    struct arch_build b;
    int channels = 192;
    int x;

    arch_build_begin(&b, row->name, err);
    b.bn_epsilon = 1e-3f;
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = stem(&b, row->variant[0] ? arch_transform_input(&b, x) : x);
    for (int i = 0; i < 9; i++) {
        if (i == 2)
            x = arch_max_pool(&b, x, 3, 2, 0, true);
        if (i == 7)
            x = arch_max_pool(&b, x, 2, 2, 0, true);
        x = inception(&b, &block[i], x, &channels);
    }
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    x = arch_dense(&b, "fc", x, channels, classes ? classes : 1000);
    return arch_build_end(&b, x, out);
}
