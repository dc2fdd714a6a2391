/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that several of torchvision's families share; see build.h. */
#include "weights/arch/build.h"

int arch_relu6(struct arch_build *b, int x)
{
    return arch_unary(b, x, KERN_CLIP, 0, 6);
}

int arch_silu(struct arch_build *b, int x)
{
    return arch_unary(b, x, KERN_SILU, 1, 0);
}

int arch_hard_swish(struct arch_build *b, int x)
{
    return arch_unary(b, x, KERN_HARD_SWISH, 0, 0);
}

int arch_sigmoid(struct arch_build *b, int x)
{
    return arch_unary(b, x, KERN_SIGMOID, 0, 0);
}

int arch_hard_sigmoid(struct arch_build *b, int x)
{
    return arch_unary(b, x, KERN_HARD_SIGMOID, 1.0f / 6.0f, 0.5f);
}

int arch_round_channels(double width)
{
    const int near = (int)(width + 4) / 8 * 8;
    const int rounded = near < 8 ? 8 : near;

    return rounded < 0.9 * width ? rounded + 8 : rounded;
}

int arch_conv_bn(struct arch_build *b, const char *name, const char *conv,
                 const char *bn, int x, struct arch_conv c)
{
    x = arch_conv(b, arch_join(name, conv).text, x, c);
    return arch_batch_norm(b, arch_join(name, bn).text, x, c.out);
}

int arch_conv_norm(struct arch_build *b, const char *name, int x,
                   struct arch_conv c, arch_activation *act)
{
    c.pad = (c.kernel - 1) / 2 * (c.dilation ? c.dilation : 1);
    x = arch_conv_bn(b, name, "0", "1", x, c);
    return act ? act(b, x) : x;
}

int arch_squeeze_excite(struct arch_build *b, const char *name, int x,
                        int channels, int squeeze, arch_activation *act,
                        arch_activation *gate)
{
    int y = arch_global_average_pool(b, x);

    y = arch_conv(
        b, arch_join(name, "fc1").text, y,
        (struct arch_conv){
            .in = channels, .out = squeeze, .kernel = 1, .bias = true});
    y = arch_conv(
        b, arch_join(name, "fc2").text, act(b, y),
        (struct arch_conv){
            .in = squeeze, .out = channels, .kernel = 1, .bias = true});
    return arch_binary(b, KERN_MUL, x, gate(b, y));
}

int arch_classifier(struct arch_build *b, const char *name, int x, int in,
                    int classes)
{
    x = arch_flatten(b, arch_global_average_pool(b, x));
    return arch_dense(b, name, x, in, classes ? classes : 1000);
}

int arch_transform_input(struct arch_build *b, int x)
{
    static const float scale[3] = {0.229f / 0.5f, 0.224f / 0.5f, 0.225f / 0.5f};
    static const float shift[3] = {
        (0.485f - 0.5f) / 0.5f, (0.456f - 0.5f) / 0.5f, (0.406f - 0.5f) / 0.5f};
    int in[3] = {x, -1, -1};
    int node;

    in[1] = arch_constant(b, "transform_input.scale", 3, scale);
    in[2] = arch_constant(b, "transform_input.shift", 3, shift);
    return arch_node(b, GRAPH_SCALE_SHIFT, "transform_input", in, 3, &node);
}
