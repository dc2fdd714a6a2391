/* SPDX-License-Identifier: Apache-2.0 */
/* MobileNet-v3 (Howard et al. 2019), torchvision's names. */
#include "weights/arch/build.h"

int arch_mobilenet_v3(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out);

struct block {
    int kernel, expanded, out;
    bool squeeze, hard_swish; /* else ReLU */
    int stride;
};

#define LARGE_BLOCKS 15
static const struct block large[LARGE_BLOCKS] = {
    {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2},
    {3, 72, 24, false, false, 1}, {5, 72, 40, true, false, 2},
    {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1},
    {3, 184, 80, false, true, 1}, {3, 184, 80, false, true, 1},
    {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1},
    {5, 960, 160, true, true, 1},
};
/* Blocks from here on are dilated in the backbone of segmentation. */
#define LAST_STAGE 12
/* The block whose output has an eighth of the picture's size. */
#define LOW_BLOCK 3

#define SMALL_BLOCKS 11
static const struct block small[SMALL_BLOCKS] = {
    {3, 16, 16, true, false, 2},  {3, 72, 24, false, false, 2},
    {3, 88, 24, false, false, 1}, {5, 96, 40, true, true, 2},
    {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1},  {5, 144, 48, true, true, 1},
    {5, 288, 96, true, true, 2},  {5, 576, 96, true, true, 1},
    {5, 576, 96, true, true, 1},
};

/* dilation over 1 takes the place of the stride. */
static int inverted_residual(struct arch_build *b, const char *name, int x,
                             int in, const struct block *k, int dilation)
{
    arch_activation *act = k->hard_swish ? arch_hard_swish : arch_relu;
    const int quarter = k->expanded / 4;
    int index = 0;
    int y = x;

    if (k->expanded != in)
        y = arch_conv_norm(
            b, arch_item(name, index++).text, y,
            (struct arch_conv){.in = in, .out = k->expanded, .kernel = 1}, act);
    y = arch_conv_norm(
        b, arch_item(name, index++).text, y,
        (struct arch_conv){.in = k->expanded,
                           .out = k->expanded,
                           .kernel = k->kernel,
                           .stride = dilation > 1 ? 1 : k->stride,
                           .groups = k->expanded,
                           .dilation = dilation},
        act);
    if (k->squeeze)
        y = arch_squeeze_excite(b, arch_item(name, index++).text, y,
                                k->expanded, arch_round_channels(quarter),
                                arch_relu, arch_hard_sigmoid);
    y = arch_conv_norm(
        b, arch_item(name, index).text, y,
        (struct arch_conv){.in = k->expanded, .out = k->out, .kernel = 1},
        NULL);
    return k->stride == 1 && in == k->out ? arch_add(b, x, y) : y;
}

/* The features, the last stage dilated by `dilation`; *low: see build.h. */
static int features(struct arch_build *b, const char *prefix,
                    const struct block *block, int n, int dilation, int x,
                    int *low)
{
    const float epsilon = b->bn_epsilon;
    int in = 16;

    b->bn_epsilon = 1e-3f;
    x = arch_conv_norm(
        b, arch_item(prefix, 0).text, x,
        (struct arch_conv){.in = 3, .out = in, .kernel = 3, .stride = 2},
        arch_hard_swish);
    for (int i = 0; i < n; i++) {
        struct arch_name name = arch_item(prefix, i + 1);

        x = inverted_residual(b, arch_join(name.text, "block").text, x, in,
                              &block[i], i >= LAST_STAGE ? dilation : 1);
        in = block[i].out;
        if (i == LOW_BLOCK)
            *low = x;
    }
    x = arch_conv_norm(b, arch_item(prefix, n + 1).text, x,
                       (struct arch_conv){.in = in, .out = 6 * in, .kernel = 1},
                       arch_hard_swish);
    b->bn_epsilon = epsilon;
    return x;
}

int arch_mobilenet_v3_dilated(struct arch_build *b, const char *prefix, int x,
                              int *low)
{
    return features(b, prefix, large, LARGE_BLOCKS, 2, x, low);
}

/* row->variant: 1 for the small network. */
int arch_mobilenet_v3(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out)
{
    const struct graph_preprocess preprocess = arch_imagenet(256);
    const bool is_small = row->variant[0] != 0;
    const int channels = is_small ? 576 : 960, hidden = is_small ? 1024 : 1280;
    struct arch_build b;
    int x, low;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = features(&b, "features", is_small ? small : large,
                 is_small ? SMALL_BLOCKS : LARGE_BLOCKS, 1, x, &low);
    x = arch_classifier(&b, "classifier.0", x, channels, hidden);
    x = arch_dense(&b, "classifier.3", arch_hard_swish(&b, x), hidden,
                   classes ? classes : 1000);
    return arch_build_end(&b, x, out);
}
