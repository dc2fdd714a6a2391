/* SPDX-License-Identifier: Apache-2.0 */
/* ConvNeXt (Liu et al. 2022), torchvision's names or timm's. */
#include "weights/arch/build.h"

int arch_convnext(const struct arch_row *row, int classes,
                  struct infer_error *err, struct graph **out);

#define EPSILON 1e-6f

/* The names of a block's parts. */
struct names {
    const char *depthwise, *norm, *expand, *project, *scale;
};
static const struct names torchvision = {"block.0", "block.2", "block.3",
                                         "block.5", "layer_scale"};
static const struct names timm = {"conv_dw", "norm", "mlp.fc1", "mlp.fc2",
                                  "gamma"};

/* x + layer_scale * branch(x).  The dense layers over the channels are 1x1
 * convolutions. */
static int block(struct arch_build *b, const struct names *n, const char *name,
                 int x, int channels)
{
    const int64_t scale[1] = {channels};
    int in[2], node, y;

    y = arch_conv(b, arch_join(name, n->depthwise).text, x,
                  (struct arch_conv){.in = channels,
                                     .out = channels,
                                     .kernel = 7,
                                     .pad = 3,
                                     .groups = channels,
                                     .bias = true});
    y = arch_channel_norm(b, arch_join(name, n->norm).text, y, channels,
                          EPSILON);
    y = arch_conv(
        b, arch_join(name, n->expand).text, y,
        (struct arch_conv){
            .in = channels, .out = 4 * channels, .kernel = 1, .bias = true});
    y = arch_unary(b, y, KERN_GELU, 0, 0);
    y = arch_conv(
        b, arch_join(name, n->project).text, y,
        (struct arch_conv){
            .in = 4 * channels, .out = channels, .kernel = 1, .bias = true});
    in[0] = y;
    in[1] = arch_weight(b, arch_join(name, n->scale).text, 1, scale);
    return arch_add(b, x,
                    arch_node(b, GRAPH_SCALE_SHIFT,
                              arch_join(name, n->scale).text, in, 2, &node));
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

/* "features.0.i" or "stem.i", and so on for stages (features.2s+1, stages.s.
 * blocks) and what is between them (features.2s, stages.s.downsample). */
static struct arch_name stage_name(bool own, int s, bool between)
{
    if (!own)
        return arch_item("features", between ? 2 * s : 2 * s + 1);
    if (between && s == 0)
        return (struct arch_name){"stem"};
    return arch_join(arch_item("stages", s).text,
                     between ? "downsample" : "blocks");
}

/* row->variant: channels of the first stage, blocks of the third, shorter side
 * of a picture, blocks of the other stages (0: 3), 1 for timm's names. */
int arch_convnext(const struct arch_row *row, int classes,
                  struct infer_error *err, struct graph **out)
{
    const struct graph_preprocess preprocess = arch_imagenet(row->variant[2]);
    const bool own = row->variant[4];
    int channels = row->variant[0];
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = arch_conv(
        &b, arch_item(stage_name(own, 0, true).text, 0).text, x,
        (struct arch_conv){
            .in = 3, .out = channels, .kernel = 4, .stride = 4, .bias = true});
    x = arch_channel_norm(&b, arch_item(stage_name(own, 0, true).text, 1).text,
                          x, channels, EPSILON);
    for (int s = 0; s < 4; s++) {
        const int others = row->variant[3] ? row->variant[3] : 3;
        const int blocks = s == 2 ? row->variant[1] : others;

        if (s > 0) {
            x = downsample(&b, stage_name(own, s, true).text, x, channels,
                           2 * channels);
            channels *= 2;
        }
        for (int i = 0; i < blocks; i++) {
            const struct arch_name name = stage_name(own, s, false);

            x = block(&b, own ? &timm : &torchvision,
                      arch_item(name.text, i).text, x, channels);
        }
    }
    x = arch_channel_norm(&b, own ? "head.norm" : "classifier.0",
                          arch_global_average_pool(&b, x), channels, EPSILON);
    x = arch_dense(&b, own ? "head.fc" : "classifier.2", arch_flatten(&b, x),
                   channels, classes ? classes : 1000);
    return arch_build_end(&b, x, out);
}
