/* SPDX-License-Identifier: Apache-2.0 */
/* DenseNet (Huang et al. 2016), torchvision's names. */
#include "weights/arch/build.h"

#include <string.h>

int arch_densenet(const struct arch_row *row, int classes,
                  struct infer_error *err, struct graph **out);

/* Layers of a block at most: DenseNet-201 has 48. */
#define MAX_LAYERS 64

static int norm_relu(struct arch_build *b, const char *prefix, const char *name,
                     int x, int channels)
{
    return arch_relu(
        b, arch_batch_norm(b, arch_join(prefix, name).text, x, channels));
}

/* Growth channels from all that came before in this block. */
static int dense_layer(struct arch_build *b, const char *name, int x, int in,
                       int growth)
{
    x = norm_relu(b, name, "norm1", x, in);
    x = arch_conv(b, arch_join(name, "conv1").text, x,
                  (struct arch_conv){.in = in, .out = 4 * growth, .kernel = 1});
    x = norm_relu(b, name, "norm2", x, 4 * growth);
    return arch_conv(
        b, arch_join(name, "conv2").text, x,
        (struct arch_conv){
            .in = 4 * growth, .out = growth, .kernel = 3, .pad = 1});
}

static int dense_block(struct arch_build *b, int block, int x, int *channels,
                       int layers, int growth)
{
    struct arch_name prefix = arch_join("features", "denseblock1.denselayer");
    int part[MAX_LAYERS + 1];

    prefix.text[19] = (char)('0' + block);
    part[0] = x;
    for (int i = 0; i < layers && i < MAX_LAYERS; i++) {
        struct arch_name name = arch_item(prefix.text, i + 1);
        size_t dot = strlen(prefix.text);

        /* "denselayer.3" is "denselayer3" there. */
        memmove(name.text + dot, name.text + dot + 1, strlen(name.text + dot));
        if (i > 0)
            x = arch_concat(b, part, i + 1);
        part[i + 1] = dense_layer(b, name.text, x, *channels, growth);
        *channels += growth;
    }
    return arch_concat(b, part, layers + 1);
}

static int transition(struct arch_build *b, int block, int x, int *channels)
{
    struct arch_name name = arch_join("features", "transition1");

    name.text[19] = (char)('0' + block);
    x = norm_relu(b, name.text, "norm", x, *channels);
    x = arch_conv(
        b, arch_join(name.text, "conv").text, x,
        (struct arch_conv){.in = *channels, .out = *channels / 2, .kernel = 1});
    *channels /= 2;
    return arch_average_pool(b, x, 2, 2, 0);
}

/* row->variant: layers of the four blocks, growth, channels of the stem. */
int arch_densenet(const struct arch_row *row, int classes,
                  struct infer_error *err, struct graph **out)
{
    const struct graph_preprocess preprocess = arch_imagenet(256);
    const int *v = row->variant;
    int channels = v[5];
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    x = arch_image_input(&b, 3, 224, 224, &preprocess);
    x = arch_conv(
        &b, "features.conv0", x,
        (struct arch_conv){
            .in = 3, .out = channels, .kernel = 7, .stride = 2, .pad = 3});
    x = norm_relu(&b, "features", "norm0", x, channels);
    x = arch_max_pool(&b, x, 3, 2, 1, false);
    for (int block = 0; block < 4; block++) {
        x = dense_block(&b, block + 1, x, &channels, v[block], v[4]);
        if (block < 3)
            x = transition(&b, block + 1, x, &channels);
    }
    x = norm_relu(&b, "features", "norm5", x, channels);
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    x = arch_dense(&b, "classifier", x, channels, classes ? classes : 1000);
    return arch_build_end(&b, x, out);
}
