/* SPDX-License-Identifier: Apache-2.0 */
/* ShuffleNet-v2 (Ma et al. 2018), torchvision's names. */
#include "weights/arch/build.h"

int arch_shufflenet_v2(const struct arch_row *row, int classes,
                       struct infer_error *err, struct graph **out);

/* Channels 0, n/2, 1, n/2 + 1 ...; side: height and width. */
static int shuffle(struct arch_build *b, int x, int channels, int side)
{
    const int64_t apart[5] = {-1, 2, channels / 2, side, side};
    const int64_t order[5] = {0, 2, 1, 3, 4};
    const int64_t together[4] = {-1, channels, side, side};

    x = arch_transpose(b, arch_reshape(b, x, 5, apart), 5, order);
    return arch_reshape(b, x, 4, together);
}

static int pointwise(struct arch_build *b, const char *name, const char *conv,
                     const char *bn, int x, int in, int out)
{
    return arch_relu(
        b, arch_conv_bn(b, name, conv, bn, x,
                        (struct arch_conv){.in = in, .out = out, .kernel = 1}));
}

static int depthwise(struct arch_build *b, const char *name, const char *conv,
                     const char *bn, int x, int channels, int stride)
{
    return arch_conv_bn(b, name, conv, bn, x,
                        (struct arch_conv){.in = channels,
                                           .out = channels,
                                           .kernel = 3,
                                           .stride = stride,
                                           .pad = 1,
                                           .groups = channels});
}

/* The branch that every block has: to half of its output's channels. */
static int branch2(struct arch_build *b, const char *name, int x, int in,
                   int half, int stride)
{
    struct arch_name branch = arch_join(name, "branch2");

    x = pointwise(b, branch.text, "0", "1", x, in, half);
    x = depthwise(b, branch.text, "3", "4", x, half, stride);
    return pointwise(b, branch.text, "5", "6", x, half, half);
}

/* The first block of a stage: both branches see all channels. */
static int wide_block(struct arch_build *b, const char *name, int x, int in,
                      int out)
{
    struct arch_name branch = arch_join(name, "branch1");
    int part[2] = {-1, branch2(b, name, x, in, out / 2, 2)};

    x = depthwise(b, branch.text, "0", "1", x, in, 2);
    part[0] = pointwise(b, branch.text, "2", "3", x, in, out / 2);
    return arch_concat(b, part, 2);
}

static int block(struct arch_build *b, const char *name, int x, int channels)
{
    const int half = channels / 2;
    int part[2];

    part[0] = arch_channels(b, x, 0, half);
    part[1] =
        branch2(b, name, arch_channels(b, x, half, channels), half, half, 1);
    return arch_concat(b, part, 2);
}

/* row->variant: channels of the three stages and of the last convolution,
 * shorter side of a picture. */
int arch_shufflenet_v2(const struct arch_row *row, int classes,
                       struct infer_error *err, struct graph **out)
{
    static const int blocks[3] = {4, 8, 4};
    const int *width = row->variant, last = row->variant[3];
    const struct graph_preprocess preprocess = arch_imagenet(row->variant[4]);
    struct arch_build b;
    int in = 24, side = 56;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = arch_conv_norm(
        &b, "conv1", x,
        (struct arch_conv){.in = 3, .out = in, .kernel = 3, .stride = 2},
        arch_relu);
    x = arch_max_pool(&b, x, 3, 2, 1, false);
    for (int s = 0; s < 3; s++) {
        side /= 2;
        for (int i = 0; i < blocks[s]; i++) {
            struct arch_name name = {"stage2"};

            name.text[5] = (char)('2' + s);
            name = arch_item(name.text, i);
            x = i == 0 ? wide_block(&b, name.text, x, in, width[s])
                       : block(&b, name.text, x, width[s]);
            x = shuffle(&b, x, width[s], side);
        }
        in = width[s];
    }
    x = arch_conv_norm(&b, "conv5", x,
                       (struct arch_conv){.in = in, .out = last, .kernel = 1},
                       arch_relu);
    return arch_build_end(&b, arch_classifier(&b, "fc", x, last, classes), out);
}
