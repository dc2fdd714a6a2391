/* SPDX-License-Identifier: Apache-2.0 */
/* RegNetX and RegNetY (Radosavovic et al. 2020), torchvision's names or timm's.
 */
#include "weights/arch/build.h"

#include <stdio.h>

int arch_regnet(const struct arch_row *row, int classes,
                struct infer_error *err, struct graph **out);

#define STAGES 4
/* One network: blocks and channels of each stage, channels of a group. */
struct net {
    int blocks[STAGES], width[STAGES], group;
};

/* row->variant of arch_regnet(). */
enum {
    NET = 0,     /* index of nets[] */
    SQUEEZE = 1, /* 1: squeeze and excitation (RegNetY) */
    TIMM = 2     /* 1: timm's names */
};
static const struct net nets[] = {
    {{1, 2, 7, 12}, {32, 64, 160, 400}, 16},
    {{1, 3, 7, 5}, {64, 128, 288, 672}, 16},
    {{2, 4, 10, 2}, {72, 168, 408, 912}, 24},
    {{2, 6, 15, 2}, {96, 192, 432, 1008}, 48},
    {{2, 5, 15, 1}, {80, 240, 720, 1920}, 120},
    {{2, 6, 13, 1}, {256, 512, 896, 2048}, 128},
    {{2, 7, 13, 1}, {336, 672, 1344, 2520}, 168},
    {{1, 3, 6, 6}, {48, 104, 208, 440}, 8},
    {{1, 3, 8, 2}, {64, 144, 320, 784}, 16},
    {{2, 6, 17, 2}, {48, 120, 336, 888}, 24},
    {{2, 5, 13, 1}, {72, 216, 576, 1512}, 24},
    {{2, 4, 10, 1}, {224, 448, 896, 2016}, 56},
    {{2, 4, 11, 1}, {224, 448, 1232, 3024}, 112},
    {{2, 5, 12, 1}, {232, 696, 1392, 3712}, 232},
    {{2, 7, 17, 1}, {528, 1056, 2904, 7392}, 264},
    /* timm's; those of 400 and 800 MF and 8 GF differ from torchvision's */
    {{1, 1, 4, 7}, {24, 56, 152, 368}, 8},
    {{1, 2, 7, 12}, {32, 64, 160, 384}, 16},
    {{1, 3, 5, 7}, {48, 96, 240, 528}, 24},
    {{2, 5, 14, 2}, {80, 240, 560, 1360}, 40},
    {{2, 4, 10, 1}, {168, 392, 784, 1624}, 56},
    {{2, 5, 11, 1}, {224, 448, 896, 2240}, 112},
    {{1, 3, 7, 4}, {48, 112, 256, 608}, 16},
    {{1, 3, 8, 2}, {64, 128, 320, 768}, 16},
    {{2, 6, 12, 2}, {128, 192, 512, 1088}, 64},
    {{2, 7, 14, 2}, {144, 288, 576, 1296}, 72},
    {{2, 4, 10, 1}, {168, 448, 896, 2016}, 56},
};

/* The names of a block's parts. */
struct names {
    const char *conv, *norm, *a, *b, *c, *gate, *shortcut;
};
static const struct names torchvision = {"0",   "1",    "f.a", "f.b",
                                         "f.c", "f.se", "proj"};
static const struct names timm = {"conv",  "bn", "conv1",     "conv2",
                                  "conv3", "se", "downsample"};

/* Convolution and batch norm of part `name`, and act. */
static int layer(struct arch_build *b, const struct names *n, const char *name,
                 int x, struct arch_conv c, arch_activation *act)
{
    c.pad = c.kernel / 2;
    x = arch_conv_bn(b, name, n->conv, n->norm, x, c);
    return act ? act(b, x) : x;
}

/* The three convolutions of block `name`; its first one has the stride. */
static int branch(struct arch_build *b, const struct names *n, const char *name,
                  int x, int in, int width, int group, int stride, bool squeeze)
{
    x = layer(b, n, arch_join(name, n->a).text, x,
              (struct arch_conv){.in = in, .out = width, .kernel = 1},
              arch_relu);
    x = layer(b, n, arch_join(name, n->b).text, x,
              (struct arch_conv){.in = width,
                                 .out = width,
                                 .kernel = 3,
                                 .stride = stride,
                                 .groups = width / group},
              arch_relu);
    /* The gate's width is a quarter of the block's input. */
    if (squeeze)
        x = arch_squeeze_excite(b, arch_join(name, n->gate).text, x, width,
                                in / 4, arch_relu, arch_sigmoid);
    return layer(b, n, arch_join(name, n->c).text, x,
                 (struct arch_conv){.in = width, .out = width, .kernel = 1},
                 NULL);
}

static int block(struct arch_build *b, const struct names *n, const char *name,
                 int x, int in, int width, int group, int stride, bool squeeze)
{
    int y = branch(b, n, name, x, in, width, group, stride, squeeze);

    if (in != width || stride != 1)
        x = layer(b, n, arch_join(name, n->shortcut).text, x,
                  (struct arch_conv){
                      .in = in, .out = width, .kernel = 1, .stride = stride},
                  NULL);
    return arch_relu(b, arch_add(b, x, y));
}

int arch_regnet(const struct arch_row *row, int classes,
                struct infer_error *err, struct graph **out)
{
    const struct net *net = &nets[row->variant[NET]];
    const bool own = row->variant[TIMM];
    const struct names *n = own ? &timm : &torchvision;
    const struct graph_preprocess preprocess = arch_imagenet(256);
    struct arch_build b;
    int in = 32;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = layer(&b, n, "stem", x,
              (struct arch_conv){.in = 3, .out = in, .kernel = 3, .stride = 2},
              arch_relu);
    for (int s = 0; s < STAGES; s++) {
        const int width = net->width[s];
        /* A stage that is narrower than a group is one group. */
        const int group = net->group < width ? net->group : width;

        for (int i = 0; i < net->blocks[s]; i++) {
            struct arch_name name = {""};

            if (own)
                snprintf(name.text, sizeof(name.text), "s%d.b%d", s + 1, i + 1);
            else
                snprintf(name.text, sizeof(name.text),
                         "trunk_output.block%d.block%d-%d", s + 1, s + 1, i);
            x = block(&b, n, name.text, x, in, width, group, i == 0 ? 2 : 1,
                      row->variant[SQUEEZE] != 0);
            in = width;
        }
    }
    return arch_build_end(
        &b, arch_classifier(&b, own ? "head.fc" : "fc", x, in, classes), out);
}
