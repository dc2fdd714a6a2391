/* SPDX-License-Identifier: Apache-2.0 */
/* SqueezeNet 1.0 and 1.1 (Iandola et al. 2016), torchvision's names. */
#include "weights/arch/build.h"

int arch_squeezenet(const struct arch_row *row, int classes,
                    struct infer_error *err, struct graph **out);

static int conv_relu(struct arch_build *b, const char *prefix, const char *name,
                     int x, struct arch_conv c)
{
    c.bias = true;
    return arch_relu(b, arch_conv(b, arch_join(prefix, name).text, x, c));
}

static int fire(struct arch_build *b, int index, int x, int in, int squeeze,
                int expand)
{
    const struct arch_name name = arch_item("features", index);
    int part[2];

    x = conv_relu(b, name.text, "squeeze", x,
                  (struct arch_conv){.in = in, .out = squeeze, .kernel = 1});
    part[0] = conv_relu(
        b, name.text, "expand1x1", x,
        (struct arch_conv){.in = squeeze, .out = expand, .kernel = 1});
    part[1] =
        conv_relu(b, name.text, "expand3x3", x,
                  (struct arch_conv){
                      .in = squeeze, .out = expand, .kernel = 3, .pad = 1});
    return arch_concat(b, part, 2);
}

/* row->variant: minor version; filters and kernel of the stem. */
int arch_squeezenet(const struct arch_row *row, int classes,
                    struct infer_error *err, struct graph **out)
{
    /* Position in features of each fire block; a gap in the count is a
     * pooling layer before it. */
    static const int position[2][8] = {{3, 4, 5, 7, 8, 9, 10, 12},
                                       {3, 4, 6, 7, 9, 10, 11, 12}};
    static const int squeeze[8] = {16, 16, 32, 32, 48, 48, 64, 64};
    const int *at = position[row->variant[0]];
    const struct graph_preprocess preprocess = arch_imagenet(256);
    int in = row->variant[1];
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = conv_relu(
        &b, "features", "0", x,
        (struct arch_conv){
            .in = 3, .out = in, .kernel = row->variant[2], .stride = 2});
    for (int i = 0; i < 8; i++) {
        if (i == 0 || at[i] != at[i - 1] + 1)
            x = arch_max_pool(&b, x, 3, 2, 0, true);
        x = fire(&b, at[i], x, in, squeeze[i], squeeze[i] * 4);
        in = squeeze[i] * 8;
    }
    x = conv_relu(&b, "classifier", "1", x,
                  (struct arch_conv){
                      .in = in, .out = classes ? classes : 1000, .kernel = 1});
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    return arch_build_end(&b, x, out);
}
