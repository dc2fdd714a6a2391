/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks of inverted residual blocks under the names of timm (PyTorch Image
 * Models, its files efficientnet.py and mobilenetv3.py), which writes each as a
 * list of blocks: MobileNet-v1 to v3, EfficientNet and its Lite and Edge forms,
 * EfficientNetV2, MNASNet, FBNet-C, Single-Path NAS.
 */
#include <stdlib.h>
#include <string.h>

#include "weights/arch/build.h"

int arch_timm(const struct arch_row *row, int classes, struct infer_error *err,
              struct graph **out);

/* What row->variant holds: the index of nets[], hundredths of the width and of
 * the depth, side of the input, shorter side of a picture, flags, channels of
 * the last convolution (0: there is none). */
enum { NET, WIDTH, DEPTH, SIDE, RESIZE, FLAGS, LAST };
enum {
    TENSORFLOW = 3, /* 1: epsilon 1e-3; 2: the odd row of padding at the end */
    HALF = 4,       /* mean and deviation 0.5 */
    FIXED_STEM = 8, /* the stem's width is not scaled */
    FIXED_STAGES = 16 /* nor the depth of the first and the last stage */
};

/* Blocks as timm writes them: a stage a word, its kinds of blocks between
 * commas.  ds: depthwise and pointwise; dsa: activation behind it, no shortcut;
 * ir: expansion, depthwise, projection; er: full convolution, projection; cn:
 * one convolution.  r: how many; k: kernel; s: stride of the first; e:
 * expansion; c: channels; fc: channels that the expansion counts from; se:
 * gate's share of the channels before the expansion; nre: ReLU. */
struct net {
    int stem;
    arch_activation *act;
    bool v3; /* MobileNet-v3: gates of all channels, head behind the mean */
    const char *stages;
};

static const struct net nets[] = {
    {32, arch_silu, false,
     "ds_r1_k3_s1_c16_se0.25 ir_r2_k3_s2_e6_c24_se0.25 "
     "ir_r2_k5_s2_e6_c40_se0.25 ir_r3_k3_s2_e6_c80_se0.25 "
     "ir_r3_k5_s1_e6_c112_se0.25 ir_r4_k5_s2_e6_c192_se0.25 "
     "ir_r1_k3_s1_e6_c320_se0.25"},
    {32, arch_relu, false,
     "er_r1_k3_s1_e4_c24_fc24_noskip er_r2_k3_s2_e8_c32 "
     "er_r4_k3_s2_e8_c48 ir_r5_k5_s2_e8_c96 ir_r4_k5_s1_e8_c144 "
     "ir_r2_k5_s2_e8_c192"},
    {32, arch_relu6, false,
     "ds_r1_k3_s1_c16 ir_r2_k3_s2_e6_c24 ir_r2_k5_s2_e6_c40 "
     "ir_r3_k3_s2_e6_c80 ir_r3_k5_s1_e6_c112 ir_r4_k5_s2_e6_c192 "
     "ir_r1_k3_s1_e6_c320"},
    {32, arch_silu, false,
     "cn_r4_k3_s1_c32_skip er_r7_k3_s2_e4_c64 er_r7_k3_s2_e4_c96 "
     "ir_r10_k3_s2_e4_c192_se0.25 ir_r19_k3_s1_e6_c224_se0.25 "
     "ir_r25_k3_s2_e6_c384_se0.25 ir_r7_k3_s1_e6_c640_se0.25"},
    {24, arch_silu, false,
     "cn_r3_k3_s1_c24_skip er_r5_k3_s2_e4_c48 er_r5_k3_s2_e4_c80 "
     "ir_r7_k3_s2_e4_c160_se0.25 ir_r14_k3_s1_e6_c176_se0.25 "
     "ir_r18_k3_s2_e6_c304_se0.25 ir_r5_k3_s1_e6_c512_se0.25"},
    {24, arch_silu, false,
     "er_r2_k3_s1_c24 er_r4_k3_s2_e4_c48 er_r4_k3_s2_e4_c64 "
     "ir_r6_k3_s2_e4_c128_se0.25 ir_r9_k3_s1_e6_c160_se0.25 "
     "ir_r15_k3_s2_e6_c272_se0.25"},
    {24, arch_silu, false,
     "cn_r2_k3_s1_c24_skip er_r4_k3_s2_e4_c48 er_r4_k3_s2_e4_c64 "
     "ir_r6_k3_s2_e4_c128_se0.25 ir_r9_k3_s1_e6_c160_se0.25 "
     "ir_r15_k3_s2_e6_c256_se0.25"},
    {32, arch_silu, false,
     "cn_r4_k3_s1_c32_skip er_r8_k3_s2_e4_c64 er_r8_k3_s2_e4_c96 "
     "ir_r16_k3_s2_e4_c192_se0.25 ir_r24_k3_s1_e6_c256_se0.25 "
     "ir_r32_k3_s2_e6_c512_se0.25 ir_r8_k3_s1_e6_c640_se0.25"},
    {16, arch_relu, false,
     "ir_r1_k3_s1_c16 ir_r1_k3_s2_e6_c24,ir_r2_k3_s1_c24 "
     "ir_r1_k5_s2_e6_c32,ir_r1_k5_s1_e3_c32,ir_r1_k5_s1_e6_c32,"
     "ir_r1_k3_s1_e6_c32 ir_r1_k5_s2_e6_c64,ir_r1_k5_s1_e3_c64,"
     "ir_r2_k5_s1_e6_c64 ir_r3_k5_s1_e6_c112,ir_r1_k5_s1_e3_c112 "
     "ir_r4_k5_s2_e6_c184 ir_r1_k3_s1_e6_c352"},
    {32, arch_relu, false,
     "ds_r1_k3_s1_c16_noskip ir_r3_k3_s2_e3_c24 ir_r3_k5_s2_e3_c40 "
     "ir_r3_k5_s2_e6_c80 ir_r2_k3_s1_e6_c96 ir_r4_k5_s2_e6_c192 "
     "ir_r1_k3_s1_e6_c320_noskip"},
    {8, arch_relu, false,
     "ds_r1_k3_s1_c8 ir_r1_k3_s2_e3_c16 ir_r2_k3_s2_e6_c16 "
     "ir_r4_k5_s2_e6_c32_se0.25 ir_r3_k3_s1_e6_c32_se0.25 "
     "ir_r3_k5_s2_e6_c88_se0.25 ir_r1_k3_s1_e6_c144"},
    {32, arch_relu, false,
     "cn_r1_k1_s1_c16 er_r1_k3_s2_e8_c32,er_r3_k3_s1_e4_c32 "
     "er_r1_k3_s2_e8_c48,er_r3_k3_s1_e4_c48 ir_r1_k3_s2_e8_c96,"
     "ir_r3_k3_s1_e4_c96 ir_r1_k3_s1_e8_c96_noskip,"
     "ir_r3_k3_s1_e4_c96 ir_r1_k5_s2_e8_c160,ir_r3_k5_s1_e4_c160 "
     "ir_r1_k3_s1_e8_c192"},
    {32, arch_relu6, false,
     "dsa_r1_k3_s1_c64 dsa_r2_k3_s2_c128 dsa_r2_k3_s2_c256 "
     "dsa_r6_k3_s2_c512 dsa_r2_k3_s2_c1024"},
    {32, arch_relu6, false,
     "ds_r1_k3_s1_c16 ir_r2_k3_s2_e6_c24 ir_r3_k3_s2_e6_c32 "
     "ir_r4_k3_s2_e6_c64 ir_r3_k3_s1_e6_c96 ir_r3_k3_s2_e6_c160 "
     "ir_r1_k3_s1_e6_c320"},
    {16, arch_hard_swish, true,
     "ds_r1_k3_s1_c16_nre ir_r1_k3_s2_e4_c24_nre,"
     "ir_r1_k3_s1_e3_c24_nre ir_r3_k5_s2_e3_c40_se0.25_nre "
     "ir_r1_k3_s2_e6_c80,ir_r1_k3_s1_e2.5_c80,ir_r2_k3_s1_e2.3_c80 "
     "ir_r2_k3_s1_e6_c112_se0.25 ir_r3_k5_s2_e6_c160_se0.25 "
     "cn_r1_k1_s1_c960"},
    {16, arch_hard_swish, true,
     "ds_r1_k3_s2_c16_se0.25_nre ir_r1_k3_s2_e4.5_c24_nre,"
     "ir_r1_k3_s1_e3.67_c24_nre ir_r1_k5_s2_e4_c40_se0.25,"
     "ir_r2_k5_s1_e6_c40_se0.25 ir_r2_k5_s1_e3_c48_se0.25 "
     "ir_r3_k5_s2_e6_c96_se0.25 cn_r1_k1_s1_c576"},
    {32, arch_relu, false,
     "ds_r1_k3_s1_c16_noskip ir_r2_k3_s2_e6_c24 "
     "ir_r3_k5_s2_e3_c40_se0.25 ir_r4_k3_s2_e6_c80 "
     "ir_r2_k3_s1_e6_c112_se0.25 ir_r3_k5_s2_e6_c160_se0.25 "
     "ir_r1_k3_s1_e6_c320"},
    {32, arch_relu, false,
     "ds_r1_k3_s1_c16_noskip ir_r3_k3_s2_e3_c24 ir_r1_k5_s2_e6_c40,"
     "ir_r3_k3_s1_e3_c40 ir_r1_k5_s2_e6_c80,ir_r3_k3_s1_e3_c80 "
     "ir_r1_k5_s1_e6_c96,ir_r3_k5_s1_e3_c96 ir_r4_k5_s2_e6_c192 "
     "ir_r1_k3_s1_e6_c320_noskip"},
    {16, arch_relu, true,
     "ds_r1_k3_s1_c16 ir_r1_k3_s2_e4_c24,ir_r1_k3_s1_e3_c24 "
     "ir_r3_k3_s2_e3_c40 ir_r1_k3_s2_e6_c80,ir_r1_k3_s1_e2.5_c80,"
     "ir_r2_k3_s1_e2.3_c80 ir_r2_k3_s1_e6_c112 ir_r3_k3_s2_e6_c160 "
     "cn_r1_k1_s1_c960"},
    {16, arch_relu, true,
     "ds_r1_k3_s2_c16 ir_r1_k3_s2_e4.5_c24,ir_r1_k3_s1_e3.67_c24 "
     "ir_r1_k3_s2_e4_c40,ir_r2_k3_s1_e6_c40 ir_r2_k3_s1_e3_c48 "
     "ir_r3_k3_s2_e6_c96 cn_r1_k1_s1_c576"},
};

/* One kind of blocks. */
enum kind { DS, DSA, IR, ER, CN };
struct block {
    enum kind kind;
    int repeat, kernel, stride, out, from;
    double expand, squeeze;
    bool skip, no_skip;
    arch_activation *act;
};

struct timm {
    struct arch_build b;
    const struct net *net;
    const int *variant;
};

/* ---- blocks as text ------------------------------------------------ */

/* The kind at *text, whose end it becomes. */
static void read_block(const struct timm *t, const char **text,
                       struct block *out)
{
    static const char *const kinds[] = {"ds_", "dsa_", "ir_", "er_", "cn_"};
    const char *p = *text;

    *out = (struct block){.expand = 1, .act = t->net->act};
    for (int i = DS; i <= CN; i++)
        if (strncmp(p, kinds[i], strlen(kinds[i])) == 0)
            out->kind = (enum kind)i;
    for (p = strchr(p, '_'); p && *p == '_'; p += strcspn(p, "_, ")) {
        p++;
        if (strncmp(p, "se", 2) == 0)
            out->squeeze = strtod(p + 2, NULL);
        else if (strncmp(p, "skip", 4) == 0)
            out->skip = true;
        else if (strncmp(p, "noskip", 6) == 0)
            out->no_skip = true;
        else if (strncmp(p, "nre", 3) == 0)
            out->act = arch_relu;
        else if (strncmp(p, "fc", 2) == 0)
            out->from = atoi(p + 2);
        else if (*p == 'r')
            out->repeat = atoi(p + 1);
        else if (*p == 'k')
            out->kernel = atoi(p + 1);
        else if (*p == 's')
            out->stride = atoi(p + 1);
        else if (*p == 'c')
            out->out = atoi(p + 1);
        else if (*p == 'e')
            out->expand = strtod(p + 1, NULL);
    }
    *text = p;
}

/* ---- layers -------------------------------------------------------- */

static int scaled(const struct timm *t, int channels)
{
    return arch_round_channels(channels * t->variant[WIDTH] / 100.0);
}

/* Convolution `conv` and batch norm `bn` of block `name`. */
static int conv(struct timm *t, const char *name, const char *conv,
                const char *bn, int x, struct arch_conv c)
{
    c.pad = c.kernel / 2;
    c.same = t->variant[FLAGS] & 2;
    return arch_conv_bn(&t->b, name, conv, bn, x, c);
}

/* The gate of a block. */
static int gate(struct timm *t, const char *name, const struct block *k, int x,
                int channels)
{
    const bool v3 = t->net->v3;
    const struct arch_name se = arch_join(name, "se");
    const double share =
        v3 ? channels * k->squeeze : channels * (k->squeeze / k->expand);
    const int squeeze = v3 ? arch_round_channels(share) : (int)(share + 0.5);
    int y = x;

    if (k->squeeze == 0)
        return x;
    y = arch_conv(
        &t->b, arch_join(se.text, "conv_reduce").text,
        arch_global_average_pool(&t->b, x),
        (struct arch_conv){
            .in = channels, .out = squeeze, .kernel = 1, .bias = true});
    y = arch_conv(
        &t->b, arch_join(se.text, "conv_expand").text,
        v3 ? arch_relu(&t->b, y) : k->act(&t->b, y),
        (struct arch_conv){
            .in = squeeze, .out = channels, .kernel = 1, .bias = true});
    y = v3 ? arch_hard_sigmoid(&t->b, y) : arch_sigmoid(&t->b, y);
    return arch_binary(&t->b, KERN_MUL, x, y);
}

/* Depthwise and pointwise. */
static int separable(struct timm *t, const char *name, const struct block *k,
                     int x, int in, int out, int stride)
{
    int y = conv(t, name, "conv_dw", "bn1", x,
                 (struct arch_conv){.in = in,
                                    .out = in,
                                    .kernel = k->kernel,
                                    .stride = stride,
                                    .groups = in});

    y = gate(t, name, k, k->act(&t->b, y), in);
    y = conv(t, name, "conv_pw", "bn2", y,
             (struct arch_conv){.in = in, .out = out, .kernel = 1});
    return k->kind == DSA ? k->act(&t->b, y) : y;
}

static int inverted(struct timm *t, const char *name, const struct block *k,
                    int x, int in, int out, int stride)
{
    const int mid = arch_round_channels(in * k->expand);
    int y = conv(t, name, "conv_pw", "bn1", x,
                 (struct arch_conv){.in = in, .out = mid, .kernel = 1});

    y = conv(t, name, "conv_dw", "bn2", k->act(&t->b, y),
             (struct arch_conv){.in = mid,
                                .out = mid,
                                .kernel = k->kernel,
                                .stride = stride,
                                .groups = mid});
    y = gate(t, name, k, k->act(&t->b, y), mid);
    return conv(t, name, "conv_pwl", "bn3", y,
                (struct arch_conv){.in = mid, .out = out, .kernel = 1});
}

static int edge(struct timm *t, const char *name, const struct block *k, int x,
                int in, int out, int stride)
{
    const int from = k->from ? scaled(t, k->from) : in;
    const int mid = arch_round_channels(from * k->expand);
    int y =
        conv(t, name, "conv_exp", "bn1", x,
             (struct arch_conv){
                 .in = in, .out = mid, .kernel = k->kernel, .stride = stride});

    y = gate(t, name, k, k->act(&t->b, y), mid);
    return conv(t, name, "conv_pwl", "bn2", y,
                (struct arch_conv){.in = mid, .out = out, .kernel = 1});
}

static int one_block(struct timm *t, const char *name, const struct block *k,
                     int x, int in, int out, int stride)
{
    const bool fits = in == out && stride == 1;
    bool skip = fits && !k->no_skip;
    int y = -1;

    switch (k->kind) {
    case DS:
    case DSA:
        y = separable(t, name, k, x, in, out, stride);
        skip = skip && k->kind == DS;
        break;
    case IR:
        y = inverted(t, name, k, x, in, out, stride);
        break;
    case ER:
        y = edge(t, name, k, x, in, out, stride);
        break;
    case CN:
        y = conv(
            t, name, "conv", "bn1", x,
            (struct arch_conv){
                .in = in, .out = out, .kernel = k->kernel, .stride = stride});
        y = k->act(&t->b, y);
        skip = fits && k->skip;
        break;
    }
    return skip ? arch_add(&t->b, x, y) : y;
}

/* ---- the network --------------------------------------------------- */

/* A stage from *text; *channels: of x, then of the result. */
static int stage(struct timm *t, int index, const char **text, int x,
                 int *channels)
{
    const char *const name = "blocks";
    const struct arch_name own = arch_item(name, index);
    int i = 0;

    for (bool more = true; more; more = **text == ',' && *++*text) {
        const char *next;
        struct block k;
        int repeat;
        bool fixed;

        read_block(t, text, &k);
        next = *text;
        fixed = t->variant[FLAGS] & FIXED_STAGES && (index == 0 || !*next);
        repeat = fixed ? k.repeat : (k.repeat * t->variant[DEPTH] + 99) / 100;
        for (int r = 0; r < repeat; r++, i++) {
            const int out = scaled(t, k.out);

            x = one_block(t, arch_item(own.text, i).text, &k, x, *channels, out,
                          r == 0 ? k.stride : 1);
            *channels = out;
        }
    }
    return x;
}

/* The last convolution and the scores. */
static int head(struct timm *t, int x, int in, int classes)
{
    const int last = t->variant[LAST];
    struct arch_build *b = &t->b;

    if (last == 0)
        return arch_classifier(b, "classifier", x, in, classes);
    if (!t->net->v3) {
        x = arch_conv(b, "conv_head", x,
                      (struct arch_conv){.in = in, .out = last, .kernel = 1});
        x = t->net->act(b, arch_batch_norm(b, "bn2", x, last));
        return arch_classifier(b, "classifier", x, last, classes);
    }
    x = arch_conv(
        b, "conv_head", arch_global_average_pool(b, x),
        (struct arch_conv){.in = in, .out = last, .kernel = 1, .bias = true});
    x = arch_flatten(b, t->net->act(b, x));
    return arch_dense(b, "classifier", x, last, classes ? classes : 1000);
}

static struct graph_preprocess pictures(const int *variant)
{
    static const float half[3] = {0.5f, 0.5f, 0.5f};
    struct graph_preprocess p = arch_imagenet(variant[RESIZE]);

    if (variant[FLAGS] & HALF) {
        p = arch_rgb(half, half);
        p.policy = GRAPH_RESIZE_SHORTER;
        p.resize = variant[RESIZE];
    }
    p.filter = GRAPH_BICUBIC;
    return p;
}

int arch_timm(const struct arch_row *row, int classes, struct infer_error *err,
              struct graph **out)
{
    const int *v = row->variant;
    const struct graph_preprocess preprocess = pictures(v);
    struct timm t = {.net = &nets[v[NET]], .variant = v};
    const char *text = t.net->stages;
    int channels, x;

    arch_build_begin(&t.b, row->name, err);
    t.b.bn_epsilon = v[FLAGS] & 1 ? 1e-3f : 1e-5f;
    channels = v[FLAGS] & FIXED_STEM ? t.net->stem : scaled(&t, t.net->stem);
    x = arch_image_input(&t.b, 3, v[SIDE], v[SIDE], &preprocess);
    x = arch_conv(&t.b, "conv_stem", x,
                  (struct arch_conv){.in = 3,
                                     .out = channels,
                                     .kernel = 3,
                                     .stride = 2,
                                     .pad = 1,
                                     .same = v[FLAGS] & 2});
    x = t.net->act(&t.b, arch_batch_norm(&t.b, "bn1", x, channels));
    for (int s = 0; *text; s++) {
        x = stage(&t, s, &text, x, &channels);
        text += *text == ' ';
    }
    return arch_build_end(&t.b, head(&t, x, channels, classes), out);
}
