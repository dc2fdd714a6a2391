/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of inverted residual blocks: MobileNet-v2 (Sandler et al. 2018) and
 * EfficientNet-B0 (Tan and Le 2019), torchvision's names. */
#include "weights/arch/build.h"

int arch_mobilenet_v2(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out);
int arch_efficientnet_b0(const struct arch_row *row, int classes,
                         struct infer_error *err, struct graph **out);

/* One stage: blocks that share a width; the first has the stride. */
struct stage {
    int expand, kernel, stride, out, blocks;
};

/* conv "<name>.0" and batch norm "<name>.1". */
static int conv_bn(struct arch_build *b, const char *name, int x,
                   struct arch_conv c)
{
    c.pad = c.kernel / 2;
    x = arch_conv(b, arch_join(name, "0").text, x, c);
    return arch_batch_norm(b, arch_join(name, "1").text, x, c.out);
}

/* ---- MobileNet-v2 -------------------------------------------------- */

static int relu6(struct arch_build *b, int x)
{
    return arch_unary(b, x, KERN_CLIP, 0, 6);
}

/* The expansion of a block and its depthwise convolution. */
static int expand(struct arch_build *b, const char *name, int *index, int x,
                  int in, const struct stage *s, int stride,
                  int (*act)(struct arch_build *b, int x))
{
    int hidden = in * s->expand;

    if (s->expand != 1)
        x = act(b, conv_bn(b, arch_item(name, (*index)++).text, x,
                           (struct arch_conv){
                               .in = in, .out = hidden, .kernel = 1}));
    return act(b, conv_bn(b, arch_item(name, (*index)++).text, x,
                          (struct arch_conv){.in = hidden,
                                             .out = hidden,
                                             .kernel = s->kernel,
                                             .stride = stride,
                                             .groups = hidden}));
}

static int mobile_block(struct arch_build *b, const char *name, int x, int in,
                        const struct stage *s, int stride)
{
    int hidden = in * s->expand;
    int index = 0;
    int y = expand(b, name, &index, x, in, s, stride, relu6);

    y = arch_conv(b, arch_item(name, index++).text, y,
                  (struct arch_conv){.in = hidden, .out = s->out, .kernel = 1});
    y = arch_batch_norm(b, arch_item(name, index).text, y, s->out);
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
    x = relu6(&b, conv_bn(&b, "features.0", x,
                          (struct arch_conv){
                              .in = 3, .out = 32, .kernel = 3, .stride = 2}));
    for (int s = 0; s < 7; s++) {
        for (int i = 0; i < stage[s].blocks; i++) {
            struct arch_name name = arch_item("features", index++);

            name = arch_join(name.text, "conv");
            x = mobile_block(&b, name.text, x, in, &stage[s],
                             i == 0 ? stage[s].stride : 1);
            in = stage[s].out;
        }
    }
    x = relu6(&b,
              conv_bn(&b, "features.18", x,
                      (struct arch_conv){.in = in, .out = 1280, .kernel = 1}));
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    x = arch_dense(&b, "classifier.1", x, 1280, classes ? classes : 1000);
    return arch_build_end(&b, x, out);
}

/* ---- EfficientNet-B0 ----------------------------------------------- */

static int silu(struct arch_build *b, int x)
{
    return arch_unary(b, x, KERN_SILU, 1, 0);
}

/* x times a gate a channel, computed from the means of the planes. */
static int squeeze_excite(struct arch_build *b, const char *name, int x,
                          int channels, int squeeze)
{
    int y = arch_global_average_pool(b, x);

    y = arch_conv(
        b, arch_join(name, "fc1").text, y,
        (struct arch_conv){
            .in = channels, .out = squeeze, .kernel = 1, .bias = true});
    y = arch_conv(
        b, arch_join(name, "fc2").text, silu(b, y),
        (struct arch_conv){
            .in = squeeze, .out = channels, .kernel = 1, .bias = true});
    y = arch_unary(b, y, KERN_SIGMOID, 0, 0);
    return arch_binary(b, KERN_MUL, x, y);
}

static int efficient_block(struct arch_build *b, const char *name, int x,
                           int in, const struct stage *s, int stride)
{
    int hidden = in * s->expand;
    int index = 0;
    int y = expand(b, name, &index, x, in, s, stride, silu);

    y = squeeze_excite(b, arch_item(name, index++).text, y, hidden,
                       in < 4 ? 1 : in / 4);
    y = conv_bn(b, arch_item(name, index).text, y,
                (struct arch_conv){.in = hidden, .out = s->out, .kernel = 1});
    return stride == 1 && in == s->out ? arch_add(b, x, y) : y;
}

int arch_efficientnet_b0(const struct arch_row *row, int classes,
                         struct infer_error *err, struct graph **out)
{
    static const struct stage stage[7] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},
                                          {6, 5, 2, 40, 2},  {6, 3, 2, 80, 3},
                                          {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                                          {6, 3, 1, 320, 1}};
    struct graph_preprocess preprocess = arch_imagenet(256);
    struct arch_build b;
    int in = 32;
    int x;

    preprocess.filter = GRAPH_BICUBIC;
    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = silu(&b, conv_bn(&b, "features.0", x,
                         (struct arch_conv){
                             .in = 3, .out = 32, .kernel = 3, .stride = 2}));
    for (int s = 0; s < 7; s++) {
        for (int i = 0; i < stage[s].blocks; i++) {
            struct arch_name name = arch_item("features", s + 1);

            name = arch_join(arch_item(name.text, i).text, "block");
            x = efficient_block(&b, name.text, x, in, &stage[s],
                                i == 0 ? stage[s].stride : 1);
            in = stage[s].out;
        }
    }
    x = silu(&b,
             conv_bn(&b, "features.8", x,
                     (struct arch_conv){.in = in, .out = 1280, .kernel = 1}));
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    x = arch_dense(&b, "classifier.1", x, 1280, classes ? classes : 1000);
    return arch_build_end(&b, x, out);
}
