/* SPDX-License-Identifier: Apache-2.0 */
/* EfficientNet (Tan and Le 2019) and EfficientNetV2 (Tan and Le 2021),
 * torchvision's names. */
#include "weights/arch/build.h"

int arch_efficientnet(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out);
int arch_efficientnet_v2(const struct arch_row *row, int classes,
                         struct infer_error *err, struct graph **out);

/* One stage: blocks that share a width; the first has the stride. */
struct stage {
    bool fused; /* one full convolution for expansion and depthwise one */
    int expand, kernel, stride, out, blocks;
};

/* One network. */
struct net {
    const struct stage *stage;
    int stages, stem, last; /* channels of the stem and the last convolution */
    float bn_epsilon;
    int side; /* of the input picture */
    struct graph_preprocess preprocess;
};

/* The convolutions before the projection: expansion and depthwise. */
static int expand(struct arch_build *b, const char *name, int *index, int x,
                  int in, const struct stage *s, int stride)
{
    const int hidden = arch_round_channels(in * s->expand);

    if (s->expand != 1)
        x = arch_conv_norm(
            b, arch_item(name, (*index)++).text, x,
            (struct arch_conv){.in = in, .out = hidden, .kernel = 1},
            arch_silu);
    x = arch_conv_norm(b, arch_item(name, (*index)++).text, x,
                       (struct arch_conv){.in = hidden,
                                          .out = hidden,
                                          .kernel = s->kernel,
                                          .stride = stride,
                                          .groups = hidden},
                       arch_silu);
    return arch_squeeze_excite(b, arch_item(name, (*index)++).text, x, hidden,
                               in < 4 ? 1 : in / 4, arch_silu, arch_sigmoid);
}

static int block(struct arch_build *b, const char *name, int x, int in,
                 const struct stage *s, int stride)
{
    const int hidden = arch_round_channels(in * s->expand);
    const bool alone = s->fused && s->expand == 1;
    int index = 0;
    int y;

    if (s->fused)
        y = arch_conv_norm(b, arch_item(name, index++).text, x,
                           (struct arch_conv){.in = in,
                                              .out = alone ? s->out : hidden,
                                              .kernel = s->kernel,
                                              .stride = stride},
                           arch_silu);
    else
        y = expand(b, name, &index, x, in, s, stride);
    if (!alone)
        y = arch_conv_norm(
            b, arch_item(name, index).text, y,
            (struct arch_conv){.in = hidden, .out = s->out, .kernel = 1}, NULL);
    return stride == 1 && in == s->out ? arch_add(b, x, y) : y;
}

static int build(const struct arch_row *row, const struct net *net, int classes,
                 struct infer_error *err, struct graph **out)
{
    struct arch_build b;
    int in = net->stem;
    int x;

    arch_build_begin(&b, row->name, err);
    b.bn_epsilon = net->bn_epsilon;
    x = arch_image_input(&b, 3, net->side, net->side, &net->preprocess);
    x = arch_conv_norm(
        &b, "features.0", x,
        (struct arch_conv){.in = 3, .out = in, .kernel = 3, .stride = 2},
        arch_silu);
    for (int s = 0; s < net->stages; s++) {
        const struct stage *stage = &net->stage[s];

        for (int i = 0; i < stage->blocks; i++) {
            struct arch_name name = arch_item("features", s + 1);

            name = arch_join(arch_item(name.text, i).text, "block");
            x = block(&b, name.text, x, in, stage, i == 0 ? stage->stride : 1);
            in = stage->out;
        }
    }
    x = arch_conv_norm(
        &b, arch_item("features", net->stages + 1).text, x,
        (struct arch_conv){.in = in, .out = net->last, .kernel = 1}, arch_silu);
    x = arch_classifier(&b, "classifier.1", x, net->last, classes);
    return arch_build_end(&b, x, out);
}

/* row->variant: tenths of the width, tenths of the depth, side of the input,
 * shorter side of a picture, 1 for an epsilon of 1e-3. */
int arch_efficientnet(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out)
{
    static const struct stage b0[7] = {
        {false, 1, 3, 1, 16, 1},  {false, 6, 3, 2, 24, 2},
        {false, 6, 5, 2, 40, 2},  {false, 6, 3, 2, 80, 3},
        {false, 6, 5, 1, 112, 3}, {false, 6, 5, 2, 192, 4},
        {false, 6, 3, 1, 320, 1}};
    const int *v = row->variant;
    struct stage scaled[7];
    struct net net = {.stage = scaled,
                      .stages = 7,
                      .stem = arch_round_channels(32 * v[0] / 10.0),
                      .bn_epsilon = v[4] ? 1e-3f : 1e-5f,
                      .side = v[2],
                      .preprocess = arch_imagenet(v[3])};

    net.preprocess.filter = GRAPH_BICUBIC;
    for (int i = 0; i < 7; i++) {
        scaled[i] = b0[i];
        scaled[i].out = arch_round_channels(b0[i].out * v[0] / 10.0);
        scaled[i].blocks = (b0[i].blocks * v[1] + 9) / 10;
    }
    net.last = 4 * scaled[6].out;
    return build(row, &net, classes, err, out);
}

/* row->variant: 0, 1, 2 for S, M, L. */
int arch_efficientnet_v2(const struct arch_row *row, int classes,
                         struct infer_error *err, struct graph **out)
{
    static const struct stage stages[3][7] = {{{true, 1, 3, 1, 24, 2},
                                               {true, 4, 3, 2, 48, 4},
                                               {true, 4, 3, 2, 64, 4},
                                               {false, 4, 3, 2, 128, 6},
                                               {false, 6, 3, 1, 160, 9},
                                               {false, 6, 3, 2, 256, 15}},
                                              {{true, 1, 3, 1, 24, 3},
                                               {true, 4, 3, 2, 48, 5},
                                               {true, 4, 3, 2, 80, 5},
                                               {false, 4, 3, 2, 160, 7},
                                               {false, 6, 3, 1, 176, 14},
                                               {false, 6, 3, 2, 304, 18},
                                               {false, 6, 3, 1, 512, 5}},
                                              {{true, 1, 3, 1, 32, 4},
                                               {true, 4, 3, 2, 64, 7},
                                               {true, 4, 3, 2, 96, 7},
                                               {false, 4, 3, 2, 192, 10},
                                               {false, 6, 3, 1, 224, 19},
                                               {false, 6, 3, 2, 384, 25},
                                               {false, 6, 3, 1, 640, 7}}};
    static const float half[3] = {0.5f, 0.5f, 0.5f};
    const int size = row->variant[0];
    struct net net = {.stage = stages[size],
                      .stages = size == 0 ? 6 : 7,
                      .stem = stages[size][0].out,
                      .last = 1280,
                      .bn_epsilon = 1e-3f,
                      .side = size == 0 ? 384 : 480};

    net.preprocess = arch_imagenet(net.side);
    if (size == 2) {
        net.preprocess = arch_rgb(half, half);
        net.preprocess.policy = GRAPH_RESIZE_SHORTER;
        net.preprocess.resize = net.side;
        net.preprocess.filter = GRAPH_BICUBIC;
    }
    return build(row, &net, classes, err, out);
}
