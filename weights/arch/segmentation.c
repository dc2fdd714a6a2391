/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that give each pixel a class, torchvision's names: FCN (Long et al.
 * 2014), DeepLabV3 (Chen et al. 2017) and LR-ASPP (Howard et al. 2019).  The
 * output "out" of torchvision: scores of 21 classes in the picture's size.
 * The auxiliary classifier serves training only and is left out.
 */
#include "weights/arch/build.h"

int arch_fcn(const struct arch_row *row, int classes, struct infer_error *err,
             struct graph **out);
int arch_deeplabv3(const struct arch_row *row, int classes,
                   struct infer_error *err, struct graph **out);
int arch_lraspp(const struct arch_row *row, int classes,
                struct infer_error *err, struct graph **out);

#define CLASSES       21
#define ASPP_CHANNELS 256

/* row->variant: blocks of the four stages of the backbone; 0: MobileNetV3. */
static int backbone(struct arch_build *b, const struct arch_row *row, int x,
                    int *low)
{
    if (row->variant[0] == 0)
        return arch_mobilenet_v3_dilated(b, "backbone", x, low);
    return arch_resnet_dilated(b, "backbone", row->variant, x);
}

static int channels(const struct arch_row *row)
{
    return row->variant[0] == 0 ? 960 : 2048;
}

static int begin(struct arch_build *b, const struct arch_row *row,
                 struct infer_error *err)
{
    const struct graph_preprocess preprocess = arch_imagenet(520);

    arch_build_begin(b, row->name, err);
    return arch_image_input(b, 3, 520, 520, &preprocess);
}

/* Convolution "<name>.0", batch norm "<name>.1" and ReLU. */
static int conv_relu(struct arch_build *b, const char *name, int x,
                     struct arch_conv c)
{
    return arch_relu(b, arch_conv_bn(b, name, "0", "1", x, c));
}

/* The scores: a 1x1 convolution with bias. */
static int scores(struct arch_build *b, const char *name, int x, int in,
                  int classes)
{
    return arch_conv(b, name, x,
                     (struct arch_conv){.in = in,
                                        .out = classes ? classes : CLASSES,
                                        .kernel = 1,
                                        .bias = true});
}

/* ---- FCN ------------------------------------------------------------- */

int arch_fcn(const struct arch_row *row, int classes, struct infer_error *err,
             struct graph **out)
{
    const int in = channels(row);
    struct arch_build b;
    int input = begin(&b, row, err);
    int low;
    int x = backbone(&b, row, input, &low);

    x = conv_relu(
        &b, "classifier", x,
        (struct arch_conv){.in = in, .out = in / 4, .kernel = 3, .pad = 1});
    x = scores(&b, "classifier.4", x, in / 4, classes);
    return arch_build_end(&b, arch_resize_like(&b, x, input), out);
}

/* ---- DeepLabV3 ------------------------------------------------------- */

/* One convolution a rate, and the mean of the planes. */
static int pyramid(struct arch_build *b, const char *name, int x, int in)
{
    static const int rate[3] = {12, 24, 36};
    struct arch_name convs = arch_join(name, "convs");
    int part[5], y;

    part[0] = conv_relu(
        b, arch_item(convs.text, 0).text, x,
        (struct arch_conv){.in = in, .out = ASPP_CHANNELS, .kernel = 1});
    for (int i = 0; i < 3; i++)
        part[1 + i] = conv_relu(b, arch_item(convs.text, 1 + i).text, x,
                                (struct arch_conv){.in = in,
                                                   .out = ASPP_CHANNELS,
                                                   .kernel = 3,
                                                   .pad = rate[i],
                                                   .dilation = rate[i]});
    y = arch_conv_bn(
        b, arch_item(convs.text, 4).text, "1", "2",
        arch_global_average_pool(b, x),
        (struct arch_conv){.in = in, .out = ASPP_CHANNELS, .kernel = 1});
    part[4] = arch_resize_like(b, arch_relu(b, y), x);
    return conv_relu(
        b, arch_join(name, "project").text, arch_concat(b, part, 5),
        (struct arch_conv){
            .in = 5 * ASPP_CHANNELS, .out = ASPP_CHANNELS, .kernel = 1});
}

int arch_deeplabv3(const struct arch_row *row, int classes,
                   struct infer_error *err, struct graph **out)
{
    struct arch_build b;
    int input = begin(&b, row, err);
    int low;
    int x = backbone(&b, row, input, &low);

    x = pyramid(&b, "classifier.0", x, channels(row));
    x = arch_relu(&b, arch_conv_bn(&b, "classifier", "1", "2", x,
                                   (struct arch_conv){.in = ASPP_CHANNELS,
                                                      .out = ASPP_CHANNELS,
                                                      .kernel = 3,
                                                      .pad = 1}));
    x = scores(&b, "classifier.4", x, ASPP_CHANNELS, classes);
    return arch_build_end(&b, arch_resize_like(&b, x, input), out);
}

/* ---- LR-ASPP --------------------------------------------------------- */

int arch_lraspp(const struct arch_row *row, int classes,
                struct infer_error *err, struct graph **out)
{
    const int in = channels(row), hidden = 128, low_channels = 40;
    struct arch_build b;
    int input = begin(&b, row, err);
    int low = -1;
    int high = backbone(&b, row, input, &low);
    int x, gate;

    x = conv_relu(&b, "classifier.cbr", high,
                  (struct arch_conv){.in = in, .out = hidden, .kernel = 1});
    gate =
        arch_conv(&b, "classifier.scale.1", arch_global_average_pool(&b, high),
                  (struct arch_conv){.in = in, .out = hidden, .kernel = 1});
    x = arch_binary(&b, KERN_MUL, x, arch_sigmoid(&b, gate));
    x = arch_resize_like(&b, x, low);
    low = scores(&b, "classifier.low_classifier", low, low_channels, classes);
    x = scores(&b, "classifier.high_classifier", x, hidden, classes);
    return arch_build_end(&b, arch_resize_like(&b, arch_add(&b, low, x), input),
                          out);
}
