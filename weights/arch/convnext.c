/* SPDX-License-Identifier: Apache-2.0 */
/* ConvNeXt (Liu et al. 2022), torchvision's names. */
#include "weights/arch/build.h"

int arch_convnext(const struct arch_row *row, int classes,
                  struct infer_error *err, struct graph **out);

#define EPSILON 1e-6f

/* x + layer_scale * branch(x).  The dense layers over the channels are 1x1
 * convolutions. */
static int block(struct arch_build *b, const char *name, int x, int channels)
{
    const int64_t scale[3] = {channels, 1, 1};
    struct arch_name part = arch_join(name, "block");
    int gate, y;

    y = arch_conv(b, arch_item(part.text, 0).text, x,
                  (struct arch_conv){.in = channels,
                                     .out = channels,
                                     .kernel = 7,
                                     .pad = 3,
                                     .groups = channels,
                                     .bias = true});
    y = arch_channel_norm(b, arch_item(part.text, 2).text, y, channels,
                          EPSILON);
    y = arch_conv(
        b, arch_item(part.text, 3).text, y,
        (struct arch_conv){
            .in = channels, .out = 4 * channels, .kernel = 1, .bias = true});
    y = arch_unary(b, y, KERN_GELU, 0, 0);
    y = arch_conv(
        b, arch_item(part.text, 5).text, y,
        (struct arch_conv){
            .in = 4 * channels, .out = channels, .kernel = 1, .bias = true});
    gate = arch_weight(b, arch_join(name, "layer_scale").text, 3, scale);
    return arch_add(b, x, arch_binary(b, KERN_MUL, y, gate));
}

/* Fewer pixels, more channels: norm and convolution 2x2. */
static int downsample(struct arch_build *b, const char *name, int x, int in,
                      int out)
{
    x = arch_channel_norm(b, arch_item(name, 0).text, x, in, EPSILON);
    return arch_conv(
        b, arch_item(name, 1).text, x,
        (struct arch_conv){
            .in = in, .out = out, .kernel = 2, .stride = 2, .bias = true});
}

/* row->variant: channels of the first stage, blocks of the third, shorter side
 * of a picture. */
int arch_convnext(const struct arch_row *row, int classes,
                  struct infer_error *err, struct graph **out)
{
    const struct graph_preprocess preprocess = arch_imagenet(row->variant[2]);
    int channels = row->variant[0];
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = arch_conv(
        &b, "features.0.0", x,
        (struct arch_conv){
            .in = 3, .out = channels, .kernel = 4, .stride = 4, .bias = true});
    x = arch_channel_norm(&b, "features.0.1", x, channels, EPSILON);
    for (int s = 0; s < 4; s++) {
        const int blocks = s == 2 ? row->variant[1] : 3;

        if (s > 0) {
            x = downsample(&b, arch_item("features", 2 * s).text, x, channels,
                           2 * channels);
            channels *= 2;
        }
        for (int i = 0; i < blocks; i++) {
            struct arch_name name = arch_item("features", 2 * s + 1);

            x = block(&b, arch_item(name.text, i).text, x, channels);
        }
    }
    x = arch_channel_norm(&b, "classifier.0", arch_global_average_pool(&b, x),
                          channels, EPSILON);
    x = arch_dense(&b, "classifier.2", arch_flatten(&b, x), channels,
                   classes ? classes : 1000);
    return arch_build_end(&b, x, out);
}
