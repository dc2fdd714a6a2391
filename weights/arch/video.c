/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that classify a clip of N,3,frames,height,width, torchvision's
 * names: ResNet-18 with 3-D, mixed and factored convolutions (Tran et al. 2017)
 * and S3D (Xie et al. 2017).  A clip comes as an array, not as a picture.
 */
#include "weights/arch/build.h"

int arch_video_resnet(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out);
int arch_s3d(const struct arch_row *row, int classes, struct infer_error *err,
             struct graph **out);

#define CLASSES 400

/* A window of t frames and s x s pixels, padded to keep the size. */
static struct arch_window window(int in, int out, int t, int s, int stride_t,
                                 int stride_s)
{
    return (struct arch_window){.dims = 3,
                                .in = in,
                                .out = out,
                                .kernel = {t, s, s},
                                .stride = {stride_t, stride_s, stride_s},
                                .pad = {t / 2, s / 2, s / 2}};
}

/* Convolution "<name>.<conv>" and batch norm "<name>.<norm>". */
static int conv_bn(struct arch_build *b, const char *name, int conv, int norm,
                   int x, struct arch_window w)
{
    x = arch_conv_window(b, arch_item(name, conv).text, x, &w);
    return arch_batch_norm(b, arch_item(name, norm).text, x, w.out);
}

static int clip(struct arch_build *b, const struct arch_row *row, int frames,
                int side, struct infer_error *err)
{
    const int64_t dim[5] = {-1, 3, frames, side, side};

    arch_build_begin(b, row->name, err);
    return arch_input(b, 5, dim);
}

/* ---- ResNet-18 ------------------------------------------------------- */

/* row->variant of arch_video_resnet(): the kind of convolution of the first
 * stage and of the others. */
enum { FULL, NO_TIME, FACTORED };

/* Convolution and batch norm "<name>.0", "<name>.1". */
static int conv3d(struct arch_build *b, const char *name, int kind, int x,
                  int in, int out, int middle, int stride)
{
    struct arch_name parts = arch_item(name, 0);
    struct arch_window w = window(middle, out, 3, 1, stride, 1);

    if (kind != FACTORED)
        return conv_bn(b, name, 0, 1, x,
                       window(in, out, kind == FULL ? 3 : 1, 3,
                              kind == FULL ? stride : 1, stride));
    x = conv_bn(b, parts.text, 0, 1, x, window(in, middle, 1, 3, 1, stride));
    x = arch_conv_window(b, arch_item(parts.text, 3).text, arch_relu(b, x), &w);
    return arch_batch_norm(b, arch_item(name, 1).text, x, out);
}

static int residual_block(struct arch_build *b, const char *name, int kind,
                          int x, int in, int out, int stride)
{
    /* As many weights as a full 3x3x3 convolution has. */
    const int middle = in * out * 27 / (in * 9 + 3 * out);
    int y = conv3d(b, arch_join(name, "conv1").text, kind, x, in, out, middle,
                   stride);

    y = conv3d(b, arch_join(name, "conv2").text, kind, arch_relu(b, y), out,
               out, middle, 1);
    if (stride != 1)
        x = conv_bn(
            b, arch_join(name, "downsample").text, 0, 1, x,
            window(in, out, 1, 1, kind == NO_TIME ? 1 : stride, stride));
    return arch_relu(b, arch_add(b, y, x));
}

static int stem(struct arch_build *b, bool factored, int x)
{
    if (!factored)
        return arch_relu(
            b, conv_bn(b, "stem", 0, 1, x, window(3, 64, 3, 7, 1, 2)));
    x = arch_relu(b, conv_bn(b, "stem", 0, 1, x, window(3, 45, 1, 7, 1, 2)));
    return arch_relu(b,
                     conv_bn(b, "stem", 3, 4, x, window(45, 64, 3, 1, 1, 1)));
}

int arch_video_resnet(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out)
{
    const int *kind = row->variant;
    struct arch_build b;
    int in = 64;
    int x = stem(&b, kind[0] == FACTORED, clip(&b, row, 16, 112, err));

    for (int stage = 0; stage < 4; stage++) {
        struct arch_name layer = {"layer1"};
        const int planes = 64 << stage;

        layer.text[5] = (char)('1' + stage);
        for (int i = 0; i < 2; i++) {
            x = residual_block(&b, arch_item(layer.text, i).text,
                               kind[stage > 0], x, in, planes,
                               i == 0 && stage > 0 ? 2 : 1);
            in = planes;
        }
    }
    x = arch_classifier(&b, "fc", x, in, classes ? classes : CLASSES);
    return arch_build_end(&b, x, out);
}

/* ---- S3D ------------------------------------------------------------- */

static int conv_relu(struct arch_build *b, const char *name, int x,
                     struct arch_window w)
{
    return arch_relu(b, conv_bn(b, name, 0, 1, x, w));
}

/* A window of pixels, then one of frames. */
static int separable(struct arch_build *b, const char *name, int x, int in,
                     int out, int size, int stride)
{
    x = conv_relu(b, arch_item(name, 0).text, x,
                  window(in, out, 1, size, 1, stride));
    return conv_relu(b, arch_item(name, 1).text, x,
                     window(out, out, size, 1, stride, 1));
}

/* Widths of a block's convolutions. */
struct inception {
    int b0, b1_mid, b1, b2_mid, b2, b3;
};

static int inception(struct arch_build *b, const char *name, int x, int *in,
                     const struct inception *k)
{
    static const int three[3] = {3, 3, 3}, one[3] = {1, 1, 1};
    struct arch_name branch = arch_join(name, "branch1");
    int part[4];

    part[0] = conv_relu(b, arch_join(name, "branch0").text, x,
                        window(*in, k->b0, 1, 1, 1, 1));
    part[1] = conv_relu(b, arch_item(branch.text, 0).text, x,
                        window(*in, k->b1_mid, 1, 1, 1, 1));
    part[1] = separable(b, arch_item(branch.text, 1).text, part[1], k->b1_mid,
                        k->b1, 3, 1);
    branch = arch_join(name, "branch2");
    part[2] = conv_relu(b, arch_item(branch.text, 0).text, x,
                        window(*in, k->b2_mid, 1, 1, 1, 1));
    part[2] = separable(b, arch_item(branch.text, 1).text, part[2], k->b2_mid,
                        k->b2, 3, 1);
    part[3] = arch_max_pool_window(b, x, 3, three, one, one);
    part[3] = conv_relu(b, arch_join(name, "branch3.1").text, part[3],
                        window(*in, k->b3, 1, 1, 1, 1));
    *in = k->b0 + k->b1 + k->b2 + k->b3;
    return arch_concat(b, part, 4);
}

/* Max pooling by its place in "features". */
static int s3d_pool(struct arch_build *b, int x, int place)
{
    static const int pixels[3] = {1, 3, 3}, halve[3] = {1, 2, 2},
                     pad_pixels[3] = {0, 1, 1};
    static const int three[3] = {3, 3, 3}, two[3] = {2, 2, 2},
                     one[3] = {1, 1, 1}, none[3] = {0, 0, 0};

    if (place < 7)
        return arch_max_pool_window(b, x, 3, pixels, halve, pad_pixels);
    if (place == 7)
        return arch_max_pool_window(b, x, 3, three, two, one);
    return arch_max_pool_window(b, x, 3, two, two, none);
}

static int s3d_features(struct arch_build *b, int x)
{
    /* b0 0: max pooling */
    static const struct inception block[12] = {{0},
                                               {64, 96, 128, 16, 32, 32},
                                               {128, 128, 192, 32, 96, 64},
                                               {0},
                                               {192, 96, 208, 16, 48, 64},
                                               {160, 112, 224, 24, 64, 64},
                                               {128, 128, 256, 24, 64, 64},
                                               {112, 144, 288, 32, 64, 64},
                                               {256, 160, 320, 32, 128, 128},
                                               {0},
                                               {256, 160, 320, 32, 128, 128},
                                               {384, 192, 384, 48, 128, 128}};
    int in = 192;

    x = separable(b, "features.0", x, 3, 64, 7, 2);
    x = s3d_pool(b, x, 1);
    x = conv_relu(b, "features.2", x, window(64, 64, 1, 1, 1, 1));
    x = separable(b, "features.3", x, 64, in, 3, 1);
    for (int i = 0; i < 12; i++)
        x = block[i].b0 == 0 ? s3d_pool(b, x, 4 + i)
                             : inception(b, arch_item("features", 4 + i).text,
                                         x, &in, &block[i]);
    return x;
}

int arch_s3d(const struct arch_row *row, int classes, struct infer_error *err,
             struct graph **out)
{
    static const int seven[3] = {2, 7, 7}, one[3] = {1, 1, 1},
                     none[3] = {0, 0, 0};
    struct arch_build b;
    struct arch_window w =
        window(1024, classes ? classes : CLASSES, 1, 1, 1, 1);
    int x = clip(&b, row, 16, 224, err);

    b.bn_epsilon = 1e-3f;
    x = arch_average_pool_window(&b, s3d_features(&b, x), 3, seven, one, none);
    w.bias = true;
    x = arch_conv_window(&b, "classifier.1", x, &w);
    x = arch_flatten(&b, arch_global_average_pool(&b, x));
    return arch_build_end(&b, x, out);
}
