/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of convolution, transposed convolution and pooling, and of their
 * backward passes.  A convolution's dgrad is a transposed convolution. */
#include <string.h>

#include "kernels/input_scale.h"
#include "kernels/bn_stats.h"
#include "tests/checkkern/checkkern.h"

/* One 2-D problem; pads are top, left, bottom, right. */
struct window_case {
    int n, c, h, w, k, r, s, stride, pad[4], dilation, groups;
};

static const struct window_case conv_cases[] = {
    /* Around tiles of 4, 8, 16 and 32 channels. */
    {1, 1, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1, 1},
    {1, 7, 5, 5, 9, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {2, 8, 8, 8, 8, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {1, 15, 9, 9, 17, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {3, 16, 6, 7, 16, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {1, 31, 4, 4, 33, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {2, 64, 7, 7, 64, 1, 1, 1, {0, 0, 0, 0}, 1, 1},
    {1, 33, 7, 7, 65, 1, 1, 2, {0, 0, 0, 0}, 1, 1},
    /* Window larger than the input; stride larger than the window. */
    {1, 4, 3, 3, 5, 5, 5, 1, {2, 2, 2, 2}, 1, 1},
    {1, 6, 3, 2, 4, 7, 7, 2, {3, 3, 3, 3}, 1, 1},
    {2, 5, 11, 11, 6, 1, 1, 3, {0, 0, 0, 0}, 1, 1},
    {1, 5, 13, 12, 6, 2, 2, 4, {1, 0, 0, 1}, 1, 1},
    /* Dilation, groups, depthwise, asymmetric pads, 1xN and Nx1. */
    {1, 8, 12, 12, 8, 3, 3, 1, {2, 2, 2, 2}, 2, 1},
    {1, 8, 15, 15, 4, 3, 3, 2, {4, 4, 4, 4}, 4, 1},
    {2, 12, 6, 6, 18, 3, 3, 1, {1, 1, 1, 1}, 1, 3},
    {1, 32, 7, 7, 32, 3, 3, 1, {1, 1, 1, 1}, 1, 32},
    {1, 24, 9, 9, 48, 3, 3, 2, {1, 1, 1, 1}, 1, 24},
    {1, 16, 10, 10, 16, 5, 5, 1, {2, 2, 2, 2}, 1, 16},
    {1, 3, 10, 10, 8, 3, 3, 2, {0, 0, 1, 1}, 1, 1},
    {1, 4, 9, 8, 6, 3, 2, 1, {2, 0, 1, 3}, 1, 1},
    {1, 6, 9, 9, 6, 1, 7, 1, {0, 3, 0, 3}, 1, 1},
    {1, 6, 9, 9, 6, 7, 1, 1, {3, 0, 3, 0}, 1, 1},
    /* Groups that share a vector, some of which is left; strips of a row. */
    {1, 20, 5, 61, 20, 3, 3, 1, {1, 1, 1, 1}, 1, 5},
    {1, 24, 20, 37, 24, 3, 3, 2, {1, 1, 1, 1}, 1, 3},
    {2, 14, 6, 9, 21, 3, 3, 1, {2, 2, 2, 2}, 2, 7},
    {1, 30, 4, 30, 12, 5, 3, 1, {2, 1, 2, 1}, 1, 6},
    /* Rows of the result that see nothing but padding. */
    {2, 9, 1, 11, 31, 5, 2, 1, {3, 0, 3, 0}, 2, 1},
    /* LeNet-5, CIFAR ResNet. */
    {1, 1, 32, 32, 6, 5, 5, 1, {0, 0, 0, 0}, 1, 1},
    {1, 16, 32, 32, 16, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {1, 32, 16, 16, 64, 3, 3, 2, {1, 1, 1, 1}, 1, 1},
    /* Where Winograd pays: tiles of 4x4 that hang over, tiles of 2x2. */
    {2, 17, 12, 13, 20, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {1, 32, 8, 8, 33, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    /* Channels in eights beside tiles of 64 to 256; more tiles than a GPU has
     * multiprocessors; first layers. */
    {2, 72, 13, 11, 136, 3, 3, 2, {1, 1, 1, 1}, 1, 1},
    {1, 136, 10, 10, 72, 3, 3, 1, {2, 2, 2, 2}, 2, 1},
    {1, 200, 9, 9, 264, 1, 1, 1, {0, 0, 0, 0}, 1, 1},
    {1, 8, 150, 171, 8, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {2, 3, 33, 48, 40, 7, 7, 2, {3, 3, 3, 3}, 1, 1},
    {2, 3, 20, 144, 32, 3, 3, 2, {1, 1, 1, 1}, 1, 1},
    {1, 3, 19, 40, 16, 3, 3, 2, {0, 0, 1, 1}, 1, 1},
    /* 3x3 of few channels: tiles of 8, 16 and 32 pixels that hang over, more
     * tiles than blocks, first layers. */
    {3, 16, 9, 37, 48, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {2, 32, 17, 16, 32, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {3, 64, 8, 8, 64, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {2, 64, 19, 35, 32, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {140, 16, 2, 2, 256, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {70, 64, 2, 2, 256, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {40, 32, 3, 2, 256, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {2, 3, 33, 35, 16, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {2, 3, 17, 300, 72, 7, 7, 2, {3, 3, 3, 3}, 1, 1},
    {1, 1, 20, 21, 24, 6, 5, 3, {2, 2, 2, 2}, 1, 1},
    /* Squeeze-and-excite: images of one pixel. */
    {7, 96, 1, 1, 4, 1, 1, 1, {0, 0, 0, 0}, 1, 1},
    {3, 20, 1, 1, 480, 1, 1, 1, {0, 0, 0, 0}, 1, 1},
    /* Depthwise, backward: pads on one side, windows that hang over on all,
     * rows that are cut, more channels than a block takes. */
    {2, 72, 12, 14, 72, 3, 3, 2, {0, 0, 1, 1}, 1, 72},
    {2, 40, 15, 13, 40, 5, 5, 2, {2, 2, 2, 2}, 1, 40},
    {3, 16, 4, 3, 16, 5, 5, 2, {4, 3, 4, 4}, 1, 16},
    {1, 24, 31, 33, 24, 5, 5, 1, {2, 2, 2, 2}, 1, 24},
    {1, 8, 3, 131, 8, 3, 3, 1, {1, 1, 1, 1}, 1, 8},
    /* Groups in eights: of 16, 32 and 64 channels, one that is no whole tile,
     * and tiles that run on from image to image. */
    {3, 64, 13, 9, 64, 3, 3, 1, {1, 1, 1, 1}, 1, 4},
    {2, 96, 11, 14, 96, 3, 3, 2, {1, 1, 1, 1}, 1, 3},
    {2, 128, 9, 7, 256, 3, 3, 1, {1, 1, 1, 1}, 1, 2},
    {5, 144, 7, 7, 48, 3, 3, 1, {1, 1, 1, 1}, 1, 2},
    {2, 336, 6, 7, 336, 3, 3, 2, {1, 1, 1, 1}, 1, 2},
    {1, 8, 5, 260, 8, 5, 5, 2, {1, 2, 2, 1}, 1, 8},
    {2, 960, 7, 7, 960, 3, 3, 1, {1, 1, 1, 1}, 1, 960},
    /* MobileNet-v2, ResNet-50: the stem, a block, its ends. */
    {1, 32, 112, 112, 32, 3, 3, 1, {1, 1, 1, 1}, 1, 32},
    {1, 96, 112, 112, 96, 3, 3, 2, {1, 1, 1, 1}, 1, 96},
    {1, 320, 7, 7, 1280, 1, 1, 1, {0, 0, 0, 0}, 1, 1},
    {1, 3, 224, 224, 64, 7, 7, 2, {3, 3, 3, 3}, 1, 1},
    {1, 64, 56, 56, 64, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {1, 64, 56, 56, 256, 1, 1, 1, {0, 0, 0, 0}, 1, 1},
    {1, 512, 7, 7, 512, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {1, 2048, 7, 7, 512, 1, 1, 1, {0, 0, 0, 0}, 1, 1},
    /* Depthwise, backward: channels in fours and twos, windows of 7x7. */
    {2, 58, 11, 13, 58, 3, 3, 2, {1, 1, 1, 1}, 1, 58},
    {1, 36, 15, 14, 36, 5, 5, 2, {2, 2, 2, 2}, 1, 36},
    {1, 60, 9, 8, 60, 7, 7, 1, {3, 3, 3, 3}, 1, 60},
    {1, 20, 13, 12, 20, 7, 7, 2, {3, 3, 3, 3}, 1, 20},
    {1, 9, 8, 9, 9, 3, 3, 2, {1, 1, 1, 1}, 1, 9},
    /* Groups: more tiles than blocks, more than 32,768 rows. */
    {1, 64, 250, 250, 64, 3, 3, 1, {1, 1, 1, 1}, 1, 8},
    {1, 8, 33010, 7, 8, 3, 3, 1, {1, 1, 1, 1}, 1, 2},
};

static const struct window_case transpose_cases[] = {
    {1, 8, 8, 8, 4, 2, 2, 2, {0, 0, 0, 0}, 1, 1},
    {1, 16, 7, 7, 16, 4, 4, 2, {1, 1, 1, 1}, 1, 1},
    {2, 5, 4, 6, 7, 3, 3, 1, {1, 1, 1, 1}, 1, 1},
    {1, 6, 5, 5, 4, 3, 3, 2, {1, 1, 0, 0}, 2, 2},
    {1, 8, 6, 6, 8, 4, 4, 2, {1, 1, 1, 1}, 1, 8},
    {1, 4, 3, 3, 4, 1, 1, 3, {0, 0, 0, 0}, 1, 1},
};

static const struct window_case pool_cases[] = {
    {1, 8, 8, 8, 8, 2, 2, 2, {0, 0, 0, 0}, 1, 1},
    {2, 17, 9, 9, 17, 3, 3, 2, {1, 1, 1, 1}, 1, 1},
    {1, 16, 13, 13, 16, 3, 3, 2, {0, 0, 0, 0}, 1, 1},
    {1, 64, 7, 7, 64, 7, 7, 1, {0, 0, 0, 0}, 1, 1},
    {1, 5, 10, 10, 5, 2, 2, 1, {0, 0, 1, 1}, 1, 1},
    {1, 32, 8, 8, 32, 5, 5, 1, {2, 2, 2, 2}, 1, 1},
    {1, 4, 10, 10, 4, 3, 3, 1, {2, 2, 2, 2}, 2, 1},
    {1, 64, 112, 112, 64, 3, 3, 2, {1, 1, 1, 1}, 1, 1},
    {2, 24, 9, 12, 24, 3, 3, 2, {2, 0, 0, 2}, 1, 1},
    {2, 16, 7, 8, 16, 2, 2, 2, {1, 0, 1, 1}, 1, 1},
};

/* Each shape of a list stands with every variant: epilogues of convolution,
 * kinds of pooling, residuals of gradients. */
#define VARIANTS 4

static const struct window_case *list_of(enum kern_op op, int *count)
{
    switch (op) {
    case KERN_CONV_FPROP:
    case KERN_CONV_WGRAD:
        *count = COUNT(conv_cases);
        return conv_cases;
    case KERN_CONV_TRANSPOSE_FPROP: /* behind them those of a dgrad */
        *count = COUNT(transpose_cases);
        return transpose_cases;
    default:
        *count = COUNT(pool_cases);
        return pool_cases;
    }
}

int window_fixed_count(enum kern_op op)
{
    int count;

    (void)list_of(op, &count);
    if (op == KERN_CONV_TRANSPOSE_FPROP)
        count += COUNT(conv_cases);
    /* Behind all others, weights that are not constant, and bn_stats. */
    return count * VARIANTS + (op == KERN_CONV_FPROP ? 2 * count : 0);
}

/* ---- shapes -------------------------------------------------------- */

/* A window problem of up to 3 dimensions before its tensors are made. */
struct shape {
    int spatial, groups;
    int64_t n, c, k, in[3], window[3];
    int stride[3], dilation[3], begin[3], end[3];
};

static void from_case(struct shape *s, const struct window_case *v)
{
    memset(s, 0, sizeof(*s));
    s->spatial = 2;
    s->groups = v->groups;
    s->n = v->n;
    s->c = v->c;
    s->k = v->k;
    s->in[0] = v->h;
    s->in[1] = v->w;
    s->window[0] = v->r;
    s->window[1] = v->s;
    for (int i = 0; i < 2; i++) {
        s->stride[i] = v->stride;
        s->dilation[i] = v->dilation;
        s->begin[i] = v->pad[i];
        s->end[i] = v->pad[i + 2];
    }
}

static int pick_spatial(struct rng *r)
{
    if (rng_chance(r, 70))
        return 2;
    return rng_chance(r, 50) ? 1 : 3;
}

static int64_t pick_channels(struct rng *r)
{
    static const int64_t some[] = {1,  2,  3,  4,  5,  7,  8,  9,
                                   12, 16, 17, 24, 31, 32, 40, 64};

    return some[rng_range(r, 0, COUNT(some) - 1)];
}

/* Channels in eights, which tensor cores want: now and then so many that the
 * sum is worth splitting. */
static int64_t pick_eights(struct rng *r)
{
    return 8 * (rng_chance(r, 70) ? rng_range(r, 1, 6) : rng_range(r, 7, 24));
}

static void random_channels(struct shape *s, struct rng *r)
{
    s->groups = 1;
    if (rng_chance(r, 35)) {
        s->c = pick_eights(r);
        s->k = pick_eights(r);
    } else if (rng_chance(r, 20)) { /* depthwise, at times with a multiplier */
        s->c = pick_channels(r);
        s->groups = (int)s->c;
        s->k = s->c * (rng_chance(r, 70) ? 1 : 2);
    } else if (rng_chance(r, 30)) {
        const int64_t unit = rng_chance(r, 35) ? 8 : 1;
        s->groups = (int)rng_range(r, 2, 4);
        s->c = s->groups * unit * rng_range(r, 1, unit == 8 ? 4 : 6);
        s->k = s->groups * unit * rng_range(r, 1, unit == 8 ? 4 : 6);
    } else {
        s->c = pick_channels(r);
        s->k = pick_channels(r);
    }
}

/* Windows of one size along both axes of an image, stride and dilation 1. */
static void plain_windows(struct shape *s, int64_t window)
{
    s->spatial = 2;
    s->groups = 1;
    for (int i = 0; i < 2; i++) {
        s->window[i] = window;
        s->stride[i] = s->dilation[i] = 1;
        s->begin[i] = s->end[i] = (int)window / 2;
    }
}

/* What most layers of networks are: 1x1, or 3x3 with padding 1. */
static void common_shape(struct shape *s, struct rng *r)
{
    const int groups = s->groups;

    plain_windows(s, rng_chance(r, 60) ? 3 : 1);
    s->groups = groups;
    for (int i = 0; i < 2; i++)
        s->in[i] = rng_range(r, 1, 18);
}

/* A first layer: few channels, and rows of the image that are whole vectors
 * most of the time. */
static void first_shape(struct shape *s, struct rng *r)
{
    const bool wide = rng_chance(r, 15); /* several tiles along a row */

    plain_windows(s, rng_chance(r, 50) ? 7 : rng_chance(r, 75) ? 3 : 5);
    s->c = rng_chance(r, 75) ? 3 : rng_range(r, 1, 4);
    s->k = rng_chance(r, 85) ? 8 * rng_range(r, 1, 8) : rng_range(r, 1, 70);
    for (int i = 0; i < 2; i++) {
        s->stride[i] = rng_chance(r, 75) ? 2 : 1;
        s->in[i] = s->window[i] + rng_range(r, 0, wide && i == 0 ? 2 : 14);
        if (rng_chance(r, 30)) {
            s->begin[i] = (int)rng_range(r, 0, s->window[i] - 1);
            s->end[i] = (int)rng_range(r, 0, s->window[i] - 1);
        }
    }
    if (wide)
        s->in[1] = rng_range(r, 120, 300);
    if (rng_chance(r, 80))
        s->in[1] = (s->in[1] + 7) / 8 * 8;
}

/* Many channels over few pixels: sums worth splitting, or many tiles of
 * outputs. */
static void deep_shape(struct shape *s, struct rng *r)
{
    const bool point = rng_chance(r, 50);
    const int64_t many =
        8 * (point ? rng_range(r, 16, 96) : rng_range(r, 6, 24));
    const int64_t few = 8 * rng_range(r, 1, 8);
    const bool turned = rng_chance(r, 30);

    plain_windows(s, point ? 1 : 3);
    s->c = turned ? few : many;
    s->k = turned ? many : few;
    for (int i = 0; i < 2; i++)
        s->in[i] = rng_range(r, 1, point ? 6 : 4);
}

/* Few channels over many pixels: more tiles than a GPU has multiprocessors. */
static void flat_shape(struct shape *s, struct rng *r)
{
    plain_windows(s, rng_chance(r, 70) ? 1 : 3);
    s->c = rng_chance(r, 50) ? 8 * rng_range(r, 1, 2) : 32 * rng_range(r, 1, 2);
    s->k = rng_chance(r, 50) ? 8 * rng_range(r, 1, 2) : 32;
    for (int i = 0; i < 2; i++)
        s->in[i] = rng_range(r, s->c > 16 ? 1 : 50, s->c > 16 ? 40 : 100);
}

/* The blocks of small residual networks: 3x3 over pictures of whole tiles. */
static void block_shape(struct shape *s, struct rng *r)
{
    plain_windows(s, 3);
    s->c = 16 << rng_range(r, 0, 2);
    s->k = 16 << rng_range(r, 0, 2);
    s->in[0] = 2 * rng_range(r, 1, 8);
    s->in[1] = 8 << rng_range(r, 0, 2);
}

/* Images of one pixel, as squeeze-and-excite has them. */
static void pixel_shape(struct shape *s, struct rng *r)
{
    plain_windows(s, 1);
    s->n = rng_range(r, 1, 10);
    s->c = rng_chance(r, 60) ? pick_eights(r) : rng_range(r, 1, 700);
    s->k = rng_range(r, 1, 100);
    s->in[0] = s->in[1] = 1;
}

/* What lies behind squeeze-and-excite: a window of one, now and then over more
 * pixels than a GPU's blocks take at once, or at twice. */
static void squeezed_shape(struct shape *s, struct rng *r)
{
    const bool small = rng_chance(r, 25), twice = rng_chance(r, 50);
    const bool large = rng_chance(r, 30);

    memset(s, 0, sizeof(*s));
    plain_windows(s, 1);
    s->n = rng_range(r, 1, 5);
    s->c = small ? 32 * rng_range(r, 1, 2) : 8 * rng_range(r, 1, 40);
    s->k = small ? 8 << rng_range(r, 0, 2) : 8 * rng_range(r, 1, 40);
    for (int i = 0; i < 2; i++)
        s->in[i] = rng_range(r, 1, 15);
    if (large) {
        s->n = 2;
        s->c = 8 * rng_range(r, 1, twice ? 4 : 9);
        s->k = 8;
        for (int i = 0; i < 2; i++)
            s->in[i] = (twice ? 132 : 92) + rng_range(r, 0, 5);
    }
}

/* Window and dilation of a depthwise layer at random: square ones of up to 9,
 * or rows, columns and squares of up to 31. */
static void depthwise_window(struct shape *s, struct rng *r)
{
    const bool large = rng_chance(r, 25), flat = rng_chance(r, 40);

    plain_windows(s, rng_chance(r, 40)   ? 3
                     : rng_chance(r, 40) ? 5
                     : rng_chance(r, 60) ? 7
                                         : 9);
    if (!large)
        return;
    plain_windows(s, rng_range(r, 1, flat ? 31 : 15));
    if (flat) {
        const int one = rng_chance(r, 50);
        s->window[one] = 1;
        s->begin[one] = s->end[one] = 0;
    }
    if (rng_chance(r, 30))
        s->dilation[0] = s->dilation[1] = 2;
}

/* Depthwise layers: mostly channels in eights, now and then over rows that are
 * worth cutting. */
static void depthwise_shape(struct shape *s, struct rng *r)
{
    const bool wide = rng_chance(r, 10);

    depthwise_window(s, r);
    s->c = rng_chance(r, 85) ? pick_eights(r) : pick_channels(r);
    s->k = rng_chance(r, 80) ? s->c : s->c * rng_range(r, 2, 8);
    s->groups = (int)s->c;
    const int stride = rng_chance(r, 50) ? 2 : 1;
    for (int i = 0; i < 2; i++) {
        const int64_t reach = s->dilation[i] * (s->window[i] - 1);
        s->stride[i] = stride;
        s->in[i] = reach + 1 + rng_range(r, 0, wide ? 2 : 14);
        if (rng_chance(r, 30)) {
            s->begin[i] = (int)rng_range(r, 0, reach);
            s->end[i] = (int)rng_range(r, 0, reach);
        } else if (s->dilation[i] == 1 && rng_chance(r, 30)) {
            s->in[i] = rng_range(r, 1, 4);
            if (s->in[i] + s->begin[i] + s->end[i] < s->window[i])
                s->in[i] = s->window[i];
        }
    }
    if (wide) {
        s->c = s->k = s->groups = 8;
        s->in[1] = rng_range(r, 100, 300);
    }
}

/* Pooling that halves a picture. */
static void halving_shape(struct shape *s, struct rng *r)
{
    memset(s, 0, sizeof(*s));
    plain_windows(s, rng_chance(r, 60) ? 3 : 2);
    s->n = rng_range(r, 1, 3);
    s->c = rng_chance(r, 80) ? pick_eights(r) : pick_channels(r);
    for (int i = 0; i < 2; i++) {
        s->stride[i] = 2;
        s->begin[i] = (int)rng_range(r, 0, s->window[i] - 1);
        s->end[i] = (int)rng_range(r, 0, s->window[i] - 1);
        s->in[i] = s->window[i] + rng_range(r, 0, 14);
    }
}

/* Groups of channels in eights, often of 16, 32 or 64. */
static void grouped_shape(struct shape *s, struct rng *r)
{
    const int groups = (int)rng_range(r, 2, 5);

    plain_windows(s, rng_chance(r, 70) ? 3 : rng_chance(r, 50) ? 1 : 5);
    s->groups = groups;
    s->c = groups * (rng_chance(r, 50) ? 16 << rng_range(r, 0, 2)
                                       : 8 * rng_range(r, 1, 18));
    s->k = rng_chance(r, 60) ? s->c
                             : groups * 8 *
                                   (rng_chance(r, 70) ? rng_range(r, 1, 9)
                                                      : rng_range(r, 10, 26));
    const int stride = rng_chance(r, 70) ? 1 : 2;
    for (int i = 0; i < 2; i++) {
        s->stride[i] = stride;
        s->in[i] = s->window[i] + rng_range(r, 0, 14);
        if (rng_chance(r, 20)) {
            s->begin[i] = (int)rng_range(r, 0, s->window[i] - 1);
            s->end[i] = (int)rng_range(r, 0, s->window[i] - 1);
        }
    }
    if (rng_chance(r, 10))
        s->dilation[0] = s->dilation[1] = 2;
    for (int i = 0; i < 2; i++)
        if (s->in[i] <= s->dilation[i] * (s->window[i] - 1))
            s->in[i] = s->dilation[i] * (s->window[i] - 1) + 1;
}

/* What rows were made for and chance would hardly find. */
static bool special_shape(struct shape *s, struct rng *r)
{
    const int64_t which = rng_range(r, 0, 99);

    if (which < 10)
        first_shape(s, r);
    else if (which < 18)
        deep_shape(s, r);
    else if (which < 22)
        flat_shape(s, r);
    else if (which < 28)
        block_shape(s, r);
    else if (which < 30)
        pixel_shape(s, r);
    else if (which < 35)
        depthwise_shape(s, r);
    else if (which < 40)
        grouped_shape(s, r);
    return which < 40;
}

/* A window that is the whole image. */
static void whole_shape(struct shape *s, struct rng *r)
{
    memset(s, 0, sizeof(*s));
    plain_windows(s, 1);
    s->n = rng_range(r, 1, 3);
    s->c = rng_chance(r, 50) ? pick_eights(r) : pick_channels(r);
    for (int i = 0; i < 2; i++) {
        s->begin[i] = s->end[i] = 0;
        s->in[i] = s->window[i] = rng_range(r, 1, 14);
    }
}

static void random_shape(struct shape *s, struct rng *r)
{
    memset(s, 0, sizeof(*s));
    s->n = rng_range(r, 1, 3);
    if (special_shape(s, r))
        return;
    s->spatial = pick_spatial(r);
    random_channels(s, r);
    if (rng_chance(r, 25)) {
        common_shape(s, r);
        return;
    }
    for (int i = 0; i < s->spatial; i++) {
        const int64_t extent = s->spatial == 3 ? 6 : 13;
        s->window[i] = rng_range(r, 1, s->spatial == 3 ? 3 : 5);
        s->stride[i] = (int)rng_range(r, 1, 3);
        s->dilation[i] = rng_chance(r, 75) ? 1 : 2;
        const int64_t reach = s->dilation[i] * (s->window[i] - 1);
        s->begin[i] = (int)rng_range(r, 0, reach);
        s->end[i] = (int)rng_range(r, 0, reach);
        /* At least one position. */
        const int64_t least = reach + 1 - s->begin[i] - s->end[i];
        s->in[i] = rng_range(r, least > 1 ? least : 1, reach + extent);
    }
}

/* Extent along dimension i of what a convolution of the shape gives. */
static int64_t out_extent(const struct shape *s, int i, bool ceil)
{
    const int64_t room = s->in[i] + s->begin[i] + s->end[i] -
                         s->dilation[i] * (s->window[i] - 1) - 1;

    return (room + (ceil ? s->stride[i] - 1 : 0)) / s->stride[i] + 1;
}

static int64_t transposed_extent(const struct shape *s, int i)
{
    const int64_t full = (s->in[i] - 1) * s->stride[i] +
                         s->dilation[i] * (s->window[i] - 1) + 1 - s->begin[i] -
                         s->end[i];

    return full < 1 ? 1 : full;
}

/* ---- problems ------------------------------------------------------ */

static void fill_conv(struct maker *m, const struct shape *s)
{
    struct kern_problem *p = m->p;
    const bool transpose = p->op == KERN_CONV_TRANSPOSE_FPROP;
    struct kern_conv *a = &p->attr.conv;
    int64_t x[5] = {s->n, s->c}, y[5] = {s->n, s->k}, w[5];

    a->groups = s->groups;
    w[0] = transpose ? s->c : s->k;
    w[1] = (transpose ? s->k : s->c) / s->groups;
    for (int i = 0; i < s->spatial; i++) {
        x[i + 2] = s->in[i];
        w[i + 2] = s->window[i];
        y[i + 2] =
            transpose ? transposed_extent(s, i) : out_extent(s, i, false);
        a->stride[i] = s->stride[i];
        a->dilation[i] = s->dilation[i];
        a->pad_begin[i] = s->begin[i];
        a->pad_end[i] = s->end[i];
    }
    p->n_in = 2;
    p->in[0] = make_tensor(m, m->dtype, s->spatial + 2, x, false);
    p->in[1] = make_weights(m, s->spatial + 2, w);
    p->out[0] = make_tensor(m, m->dtype, s->spatial + 2, y, true);
}

/* Tensors of a backward pass take the places that its operation gives them. */
static void add_residual(struct maker *m)
{
    struct kern_problem *p = m->p;
    const int r = kern_op_residual(p->op);

    p->in[r] =
        make_tensor(m, p->out[0].dtype, p->out[0].rank, p->out[0].dim, false);
    p->n_in = r + 1;
}

/* s: of the convolution whose input gradient is computed. */
static void fill_dgrad(struct maker *m, const struct shape *s, int variant)
{
    struct kern_problem *p = m->p;
    struct kern_tensor x;

    m->changing = variant != 3;
    p->op = KERN_CONV_FPROP;
    fill_conv(m, s);
    p->op = KERN_CONV_DGRAD;
    x = p->in[0];
    p->in[0] = make_tensor(m, m->dtype, x.rank, p->out[0].dim, false);
    p->out[0] = make_tensor(m, m->dtype, x.rank, x.dim, true);
    if (variant & 1)
        add_residual(m);
}

static void fill_wgrad(struct maker *m, const struct shape *s, int variant)
{
    const enum infer_dtype dtype =
        rng_chance(&m->rng, 70) ? vector_dtype(m) : m->dtype;
    struct kern_problem *p = m->p;
    struct kern_tensor w;

    fill_conv(m, s);
    w = p->in[1];
    p->in[1] = make_tensor(m, m->dtype, w.rank, p->out[0].dim, false);
    if (rng_chance(&m->rng, m->row->flags & KERN_STRIDED ? 50 : 5))
        p->out[0] = make_tensor(m, dtype, w.rank, w.dim, true);
    else
        p->out[0] = kern_tensor_dense(dtype, w.rank, w.dim,
                                      variant < 2 ? KERN_NCHW : KERN_NHWC);
    p->n_in = 2;
    if (variant & 1) {
        add_residual(m);
        /* Accumulated in place, most of the time: then they lie alike. */
        if (rng_chance(&m->rng, 80))
            p->in[2] = p->out[0];
    }
}

static void fill_pool(struct maker *m, const struct shape *s, bool ceil)
{
    struct kern_problem *p = m->p;
    struct kern_pool *a = &p->attr.pool;
    int64_t x[5] = {s->n, s->c}, y[5] = {s->n, s->c};

    for (int i = 0; i < s->spatial; i++) {
        x[i + 2] = s->in[i];
        y[i + 2] = out_extent(s, i, ceil);
        a->window[i] = (int)s->window[i];
        a->stride[i] = s->stride[i];
        a->dilation[i] = s->dilation[i];
        a->pad_begin[i] = s->begin[i];
        a->pad_end[i] = s->end[i];
    }
    p->n_in = 1;
    p->in[0] = make_tensor(m, m->dtype, s->spatial + 2, x, false);
    p->out[0] = make_tensor(m, m->dtype, s->spatial + 2, y, true);
}

static void fill_pool_dgrad(struct maker *m, const struct shape *s, int variant)
{
    struct kern_problem *p = m->p;
    struct kern_tensor x, y;

    fill_pool(m, s, variant == 1 || rng_chance(&m->rng, 30));
    x = p->in[0];
    y = p->out[0];
    p->in[0] = make_tensor(m, m->dtype, y.rank, y.dim, false);
    if (p->attr.pool.kind == KERN_POOL_MAX) {
        p->in[1] = x;
        p->n_in = 2;
    }
    p->out[0] = make_tensor(m, m->dtype, x.rank, x.dim, true);
    if (rng_chance(&m->rng, 30))
        add_residual(m);
}

/* Plain; bias and ReLU; bias, residual and ReLU; bias, SiLU, then residual. */
static void fixed_epilogue(struct maker *m, int variant)
{
    struct kern_problem *p = m->p;

    if (variant == 0)
        return;
    p->in[2] =
        kern_tensor_dense(vector_dtype(m), 1, &p->out[0].dim[1], KERN_NCHW);
    p->n_in = 3;
    p->epilogue.act.kind = variant == 3 ? KERN_SILU : KERN_RELU;
    p->epilogue.act.a = 1;
    if (variant < 2 || p->op != KERN_CONV_FPROP)
        return;
    p->in[3] = make_tensor(m, m->dtype, p->out[0].rank, p->out[0].dim, false);
    p->n_in = 4;
    p->epilogue.residual_last = variant == 3;
}

/* Moments of the output, in the parts that rows give, at random in others, and
 * nothing behind the sum but a bias. */
static void add_bn_stats(struct maker *m)
{
    struct kern_problem *p = m->p;
    const int64_t k = p->out[0].dim[1];
    const int64_t pixels = kern_tensor_count(&p->out[0]) / k;
    const int64_t part = rng_chance(&m->rng, 85)
                             ? BN_STATS_PART
                             : (int64_t)1 << rng_range(&m->rng, 0, 8);
    const int64_t dim[3] = {bn_stats_parts(part, pixels), 2, k};

    if (rng_chance(&m->rng, 40)) {
        p->in[2] = make_vector(m, k);
        p->n_in = 3;
    }
    p->out[1] = kern_tensor_dense(bn_stats_dtype(m), 3, dim, KERN_NCHW);
    p->n_out = 2;
}

/* Factors of the input, dense as rows of fixed strides take them or not. */
static void add_input_scale(struct maker *m)
{
    struct kern_problem *p = m->p;
    const int rank = p->in[0].rank;
    const int64_t dim[KERN_MAX_RANK] = {p->in[0].dim[0], p->in[0].dim[1], 1, 1,
                                        1};

    p->in[INPUT_SCALE_IN] =
        rng_chance(&m->rng, 85)
            ? kern_tensor_dense(p->in[0].dtype, rank, dim, KERN_NCHW)
            : make_tensor(m, p->in[0].dtype, rank, dim, false);
    p->n_in = INPUT_SCALE_IN + 1;
}

/* Whether the problem at random gets them: few where a row is for others too.
 */
static bool has_input_scale(struct maker *m, int k)
{
    const bool few = m->row->backend == INFER_BACKEND_REF;

    return m->p->op == KERN_CONV_FPROP && k >= window_fixed_count(m->p->op) &&
           (m->row->flags & KERN_INPUT_SCALE) && scalar_is_float(m->dtype) &&
           rng_chance(&m->rng, few ? 30 : 80);
}

/* Problem k, or one at random, of convolutions that give bn_stats. */
static bool has_bn_stats(struct maker *m, int k)
{
    if (m->p->op != KERN_CONV_FPROP)
        return false;
    if (k < window_fixed_count(m->p->op))
        return k >= COUNT(conv_cases) * (VARIANTS + 1);
    return m->row->flags & KERN_BN_STATS && rng_chance(&m->rng, 30);
}

/* The convolution whose dgrad is problem k, or false: a transposed one. */
static bool pick_dgrad(struct maker *m, int k, struct shape *s)
{
    const int at = k / VARIANTS - COUNT(transpose_cases);

    if (m->p->op != KERN_CONV_TRANSPOSE_FPROP || at < 0)
        return false;
    if (at < COUNT(conv_cases)) {
        from_case(s, &conv_cases[at]);
        return true;
    }
    if (rng_chance(&m->rng, 50))
        return false;
    random_shape(s, &m->rng);
    return true;
}

static bool is_pool(enum kern_op op)
{
    return op == KERN_POOL_FPROP || op == KERN_POOL_DGRAD;
}

static void make_shape(struct maker *m, int k, struct shape *s)
{
    int count;

    const struct window_case *list = list_of(m->p->op, &count);
    m->changing = m->p->op == KERN_CONV_FPROP && k >= count * VARIANTS &&
                  (k < count * (VARIANTS + 1) ||
                   rng_chance(&m->rng, k < count * (VARIANTS + 2) ? 50 : 20));
    if (m->p->op == KERN_CONV_FPROP && k >= count * VARIANTS &&
        k < count * (VARIANTS + 2))
        from_case(s, &list[k % count]);
    else if (k / VARIANTS < count)
        from_case(s, &list[k / VARIANTS]);
    else if (is_pool(m->p->op) && rng_chance(&m->rng, 15))
        whole_shape(s, &m->rng);
    else if (is_pool(m->p->op) && rng_chance(&m->rng, 25))
        halving_shape(s, &m->rng);
    else if ((m->row->flags & KERN_INPUT_SCALE) &&
             rng_chance(&m->rng,
                        m->row->backend == INFER_BACKEND_REF ? 10 : 80))
        squeezed_shape(s, &m->rng);
    else
        random_shape(s, &m->rng);
}

void make_window_problem(struct maker *m, int k)
{
    struct kern_problem *p = m->p;
    const bool pool = is_pool(p->op);
    const bool fixed = k < window_fixed_count(p->op);
    const int variant = fixed ? k % VARIANTS : (int)rng_range(&m->rng, 0, 3);
    struct shape s;

    if (pick_dgrad(m, k, &s)) {
        fill_dgrad(m, &s, variant);
        return;
    }
    make_shape(m, k, &s);
    if (pool) {
        p->attr.pool.kind = variant < 2 ? KERN_POOL_MAX : KERN_POOL_AVERAGE;
        p->attr.pool.count_include_pad = variant == 3;
    }
    if (p->op == KERN_POOL_DGRAD) {
        fill_pool_dgrad(m, &s, variant);
        return;
    }
    if (p->op == KERN_CONV_WGRAD) {
        fill_wgrad(m, &s, variant);
        return;
    }
    if (pool)
        fill_pool(m, &s, variant == 1 || rng_chance(&m->rng, 30));
    else
        fill_conv(m, &s);
    if (has_bn_stats(m, k))
        add_bn_stats(m);
    else if (fixed && !pool)
        fixed_epilogue(m, variant);
    else
        make_epilogue(m);
    if (has_input_scale(m, k))
        add_input_scale(m);
}
