/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inception v3 (Szegedy et al. 2015), torchvision's names.  The published
 * weights expect the input scaled again (transform_input).  The auxiliary
 * classifier serves training only and is left out.
 */
#include "weights/arch/build.h"

int arch_inception_v3(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out);

/* One convolution of a branch: R x S, padded to keep the size unless it is
 * strided. */
struct step {
    const char *name;
    int out, r, s, stride;
};

/* Convolution, batch norm and ReLU "<name>.<step>". */
static int one(struct arch_build *b, const char *name, int x, int in,
               const struct step *k)
{
    const int stride = k->stride ? k->stride : 1;
    const struct arch_window w = {
        .dims = 2,
        .in = in,
        .out = k->out,
        .kernel = {k->r, k->s},
        .stride = {stride, stride},
        .pad = {stride > 1 ? 0 : k->r / 2, stride > 1 ? 0 : k->s / 2}};
    struct arch_name part = arch_join(name, k->name);

    x = arch_conv_window(b, arch_join(part.text, "conv").text, x, &w);
    x = arch_batch_norm(b, arch_join(part.text, "bn").text, x, k->out);
    return arch_relu(b, x);
}

/* n convolutions, one after the other. */
static int chain(struct arch_build *b, const char *name, int x, int in,
                 const struct step *step, int n)
{
    for (int i = 0; i < n; i++) {
        x = one(b, name, x, in, &step[i]);
        in = step[i].out;
    }
    return x;
}

/* Average of 3x3 pixels and a 1x1 convolution. */
static int pooled(struct arch_build *b, const char *name, int x, int in,
                  int out)
{
    const struct step k = {"branch_pool", out, 1, 1, 1};

    return one(b, name, arch_average_pool(b, x, 3, 1, 1), in, &k);
}

/* ---- the five kinds of block ---------------------------------------- */

static int block_a(struct arch_build *b, const char *name, int x, int in,
                   int pool)
{
    static const struct step s1[] = {{"branch1x1", 64, 1, 1, 1}};
    static const struct step s5[] = {{"branch5x5_1", 48, 1, 1, 1},
                                     {"branch5x5_2", 64, 5, 5, 1}};
    static const struct step s3[] = {{"branch3x3dbl_1", 64, 1, 1, 1},
                                     {"branch3x3dbl_2", 96, 3, 3, 1},
                                     {"branch3x3dbl_3", 96, 3, 3, 1}};
    int part[4];

    part[0] = chain(b, name, x, in, s1, 1);
    part[1] = chain(b, name, x, in, s5, 2);
    part[2] = chain(b, name, x, in, s3, 3);
    part[3] = pooled(b, name, x, in, pool);
    return arch_concat(b, part, 4);
}

static int block_b(struct arch_build *b, const char *name, int x)
{
    static const struct step s3[] = {{"branch3x3", 384, 3, 3, 2}};
    static const struct step dbl[] = {{"branch3x3dbl_1", 64, 1, 1, 1},
                                      {"branch3x3dbl_2", 96, 3, 3, 1},
                                      {"branch3x3dbl_3", 96, 3, 3, 2}};
    int part[3];

    part[0] = chain(b, name, x, 288, s3, 1);
    part[1] = chain(b, name, x, 288, dbl, 3);
    part[2] = arch_max_pool(b, x, 3, 2, 0, false);
    return arch_concat(b, part, 3);
}

static int block_c(struct arch_build *b, const char *name, int x, int c7)
{
    static const struct step s1[] = {{"branch1x1", 192, 1, 1, 1}};
    const struct step s7[] = {{"branch7x7_1", c7, 1, 1, 1},
                              {"branch7x7_2", c7, 1, 7, 1},
                              {"branch7x7_3", 192, 7, 1, 1}};
    const struct step dbl[] = {{"branch7x7dbl_1", c7, 1, 1, 1},
                               {"branch7x7dbl_2", c7, 7, 1, 1},
                               {"branch7x7dbl_3", c7, 1, 7, 1},
                               {"branch7x7dbl_4", c7, 7, 1, 1},
                               {"branch7x7dbl_5", 192, 1, 7, 1}};
    int part[4];

    part[0] = chain(b, name, x, 768, s1, 1);
    part[1] = chain(b, name, x, 768, s7, 3);
    part[2] = chain(b, name, x, 768, dbl, 5);
    part[3] = pooled(b, name, x, 768, 192);
    return arch_concat(b, part, 4);
}

static int block_d(struct arch_build *b, const char *name, int x)
{
    static const struct step s3[] = {{"branch3x3_1", 192, 1, 1, 1},
                                     {"branch3x3_2", 320, 3, 3, 2}};
    static const struct step s7[] = {{"branch7x7x3_1", 192, 1, 1, 1},
                                     {"branch7x7x3_2", 192, 1, 7, 1},
                                     {"branch7x7x3_3", 192, 7, 1, 1},
                                     {"branch7x7x3_4", 192, 3, 3, 2}};
    int part[3];

    part[0] = chain(b, name, x, 768, s3, 2);
    part[1] = chain(b, name, x, 768, s7, 4);
    part[2] = arch_max_pool(b, x, 3, 2, 0, false);
    return arch_concat(b, part, 3);
}

static int block_e(struct arch_build *b, const char *name, int x, int in)
{
    static const struct step s1[] = {{"branch1x1", 320, 1, 1, 1}};
    static const struct step s3[] = {{"branch3x3_1", 384, 1, 1, 1}};
    static const struct step s3a[] = {{"branch3x3_2a", 384, 1, 3, 1}};
    static const struct step s3b[] = {{"branch3x3_2b", 384, 3, 1, 1}};
    static const struct step dbl[] = {{"branch3x3dbl_1", 448, 1, 1, 1},
                                      {"branch3x3dbl_2", 384, 3, 3, 1}};
    static const struct step dbla[] = {{"branch3x3dbl_3a", 384, 1, 3, 1}};
    static const struct step dblb[] = {{"branch3x3dbl_3b", 384, 3, 1, 1}};
    int part[6], y;

    part[0] = chain(b, name, x, in, s1, 1);
    y = chain(b, name, x, in, s3, 1);
    part[1] = chain(b, name, y, 384, s3a, 1);
    part[2] = chain(b, name, y, 384, s3b, 1);
    y = chain(b, name, x, in, dbl, 2);
    part[3] = chain(b, name, y, 384, dbla, 1);
    part[4] = chain(b, name, y, 384, dblb, 1);
    part[5] = pooled(b, name, x, in, 192);
    return arch_concat(b, part, 6);
}

/* ---- the network ----------------------------------------------------- */

/* Convolution without padding, batch norm and ReLU. */
static int plain(struct arch_build *b, const char *name, int x,
                 struct arch_conv c)
{
    return arch_relu(b, arch_conv_bn(b, name, "conv", "bn", x, c));
}

static int stem(struct arch_build *b, int x)
{
    x = plain(b, "Conv2d_1a_3x3", x,
              (struct arch_conv){.in = 3, .out = 32, .kernel = 3, .stride = 2});
    x = plain(b, "Conv2d_2a_3x3", x,
              (struct arch_conv){.in = 32, .out = 32, .kernel = 3});
    x = plain(b, "Conv2d_2b_3x3", x,
              (struct arch_conv){.in = 32, .out = 64, .kernel = 3, .pad = 1});
    x = arch_max_pool(b, x, 3, 2, 0, false);
    x = plain(b, "Conv2d_3b_1x1", x,
              (struct arch_conv){.in = 64, .out = 80, .kernel = 1});
    x = plain(b, "Conv2d_4a_3x3", x,
              (struct arch_conv){.in = 80, .out = 192, .kernel = 3});
    return arch_max_pool(b, x, 3, 2, 0, false);
}

/* row->variant: transform_input. */
int arch_inception_v3(const struct arch_row *row, int classes,
                      struct infer_error *err, struct graph **out)
{
    const struct graph_preprocess preprocess = arch_imagenet(342);
    struct arch_build b;
    int x;

    arch_build_begin(&b, row->name, err);
    b.bn_epsilon = 1e-3f;
    x = arch_image_input(&b, 3, 299, 299, &preprocess);
    x = stem(&b, row->variant[0] ? arch_transform_input(&b, x) : x);
    x = block_a(&b, "Mixed_5b", x, 192, 32);
    x = block_a(&b, "Mixed_5c", x, 256, 64);
    x = block_a(&b, "Mixed_5d", x, 288, 64);
    x = block_b(&b, "Mixed_6a", x);
    x = block_c(&b, "Mixed_6b", x, 128);
    x = block_c(&b, "Mixed_6c", x, 160);
    x = block_c(&b, "Mixed_6d", x, 160);
    x = block_c(&b, "Mixed_6e", x, 192);
    x = block_d(&b, "Mixed_7a", x);
    x = block_e(&b, "Mixed_7b", x, 1280);
    x = block_e(&b, "Mixed_7c", x, 2048);
    return arch_build_end(&b, arch_classifier(&b, "fc", x, 2048, classes), out);
}
