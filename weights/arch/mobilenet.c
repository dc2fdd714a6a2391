/* SPDX-License-Identifier: Apache-2.0 */
/* MobileNet-v2 (Sandler et al. 2018) and MNASNet (Tan et al. 2018), networks of
 * inverted residual blocks; torchvision's names. */
#include "weights/arch/build.h"

int arch_mobilenet_v2(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out);
int arch_mnasnet(const struct arch_row *row, int classes,
                 struct infer_error *err, struct graph **out);

/* One stage: blocks that share a width; the first has the stride. */
struct stage {
    int expand, kernel, stride, out, blocks;
};

/* ---- MobileNet-v2 -------------------------------------------------- */

static int mobile_block(struct arch_build *b, const char *name, int x, int in,
                        const struct stage *s, int stride)
{
    int hidden = in * s->expand;
    int index = 0;
    int y = x;

    if (s->expand != 1)
        y = arch_conv_norm(
            b, arch_item(name, index++).text, y,
            (struct arch_conv){.in = in, .out = hidden, .kernel = 1},
            arch_relu6);
    y = arch_conv_norm(b, arch_item(name, index++).text, y,
                       (struct arch_conv){.in = hidden,
                                          .out = hidden,
                                          .kernel = s->kernel,
                                          .stride = stride,
                                          .groups = hidden},
                       arch_relu6);
    y = arch_conv_bn(
        b, name, arch_digits(index).text, arch_digits(index + 1).text, y,
        (struct arch_conv){.in = hidden, .out = s->out, .kernel = 1});
    return stride == 1 && in == s->out ? arch_add(b, x, y) : y;
}

int arch_mobilenet_v2(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out)
{
    static const struct stage stage[7] = {
        {1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 3, 2, 32, 3}, {6, 3, 2, 64, 4},
        {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3}, {6, 3, 1, 320, 1}};
    const struct graph_preprocess preprocess = arch_imagenet(256);
    struct arch_build b;
    int in = 32, index = 1;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = arch_conv_norm(
        &b, "features.0", x,
        (struct arch_conv){.in = 3, .out = 32, .kernel = 3, .stride = 2},
        arch_relu6);
    for (int s = 0; s < 7; s++) {
        for (int i = 0; i < stage[s].blocks; i++) {
            struct arch_name name = arch_item("features", index++);

            name = arch_join(name.text, "conv");
            x = mobile_block(&b, name.text, x, in, &stage[s],
                             i == 0 ? stage[s].stride : 1);
            in = stage[s].out;
        }
    }
    x = arch_conv_norm(&b, "features.18", x,
                       (struct arch_conv){.in = in, .out = 1280, .kernel = 1},
                       arch_relu6);
    return arch_build_end(
        &b, arch_classifier(&b, "classifier.1", x, 1280, classes), out);
}

/* ---- MNASNet -------------------------------------------------------- */

/* Convolution "<name>.<i>" and batch norm "<name>.<i+1>". */
static int indexed(struct arch_build *b, const char *name, int i, int x,
                   struct arch_conv c)
{
    c.pad = c.kernel / 2;
    return arch_conv_bn(b, name, arch_digits(i).text, arch_digits(i + 1).text,
                        x, c);
}

static int mnas_block(struct arch_build *b, const char *name, int x, int in,
                      const struct stage *s, int stride)
{
    const int hidden = in * s->expand;
    int y = indexed(b, name, 0, x,
                    (struct arch_conv){.in = in, .out = hidden, .kernel = 1});

    y = indexed(b, name, 3, arch_relu(b, y),
                (struct arch_conv){.in = hidden,
                                   .out = hidden,
                                   .kernel = s->kernel,
                                   .stride = stride,
                                   .groups = hidden});
    y = indexed(b, name, 6, arch_relu(b, y),
                (struct arch_conv){.in = hidden, .out = s->out, .kernel = 1});
    return stride == 1 && in == s->out ? arch_add(b, x, y) : y;
}

/* The stem: a convolution, a depthwise one, a projection to `out`. */
static int mnas_stem(struct arch_build *b, int x, int width, int out)
{
    x = indexed(
        b, "layers", 0, x,
        (struct arch_conv){.in = 3, .out = width, .kernel = 3, .stride = 2});
    x = indexed(b, "layers", 3, arch_relu(b, x),
                (struct arch_conv){
                    .in = width, .out = width, .kernel = 3, .groups = width});
    return indexed(b, "layers", 6, arch_relu(b, x),
                   (struct arch_conv){.in = width, .out = out, .kernel = 1});
}

/* row->variant: hundredths of the width, the shorter side of a picture. */
int arch_mnasnet(const struct arch_row *row, int classes,
                 struct infer_error *err, struct graph **out)
{
    static const struct stage stage[6] = {{3, 3, 2, 24, 3},  {3, 5, 2, 40, 3},
                                          {6, 5, 2, 80, 3},  {6, 3, 1, 96, 2},
                                          {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
    const struct graph_preprocess preprocess = arch_imagenet(row->variant[1]);
    const double width = row->variant[0] / 100.0;
    int in = arch_round_channels(16 * width);
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = mnas_stem(&b, x, arch_round_channels(32 * width), in);
    for (int s = 0; s < 6; s++) {
        struct stage scaled = stage[s];

        scaled.out = arch_round_channels(stage[s].out * width);
        for (int i = 0; i < scaled.blocks; i++) {
            struct arch_name name = arch_item("layers", 8 + s);

            name = arch_join(arch_item(name.text, i).text, "layers");
            x = mnas_block(&b, name.text, x, in, &scaled,
                           i == 0 ? scaled.stride : 1);
            in = scaled.out;
        }
    }
    x = indexed(&b, "layers", 14, x,
                (struct arch_conv){.in = in, .out = 1280, .kernel = 1});
    x = arch_classifier(&b, "classifier.1", arch_relu(&b, x), 1280, classes);
    return arch_build_end(&b, x, out);
}
