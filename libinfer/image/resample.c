/* SPDX-License-Identifier: Apache-2.0 */
/* Resampling of 8-bit pictures, with Pillow's arithmetic (the definition is
 * that of Pillow's Resample.c, which torchvision uses on PIL images). */
#include "libinfer/image/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"

/* Weights are fixed-point: 8 bits of pixel and 2 of headroom stay free of 32.
 */
#define FRACTION_BITS (32 - 8 - 2)

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Keys' cubic convolution with a = -1/2. */
static double cubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

/* For each output place: the first input place, how many, and the weights
 * (taps entries each). */
struct kernel {
    int taps;
    int *first, *count;
    int32_t *weight;
};

static void kernel_free(struct kernel *k)
{
    free(k->first);
    free(k->count);
    free(k->weight);
}

/* Fills the weights of one output place; double_weight has taps entries. */
static void place_weights(struct kernel *k, int at, int in_size, double scale,
                          double filter_scale, double support,
                          double (*filter)(double), double *double_weight)
{
    double center = (at + 0.5) * scale, sum = 0;
    int first = (int)(center - support + 0.5);
    int last = (int)(center + support + 0.5);
    int i;

    if (first < 0)
        first = 0;
    if (last > in_size)
        last = in_size;
    for (i = 0; i < last - first; i++) {
        double_weight[i] =
            filter((i + first - center + 0.5) * (1.0 / filter_scale));
        sum += double_weight[i];
    }
    for (i = 0; i < last - first; i++) {
        double w = double_weight[i] / (sum != 0 ? sum : 1);

        k->weight[(size_t)at * (size_t)k->taps + (size_t)i] =
            (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << FRACTION_BITS));
    }
    k->first[at] = first;
    k->count[at] = last - first;
}

static int kernel_make(int in_size, int out_size, enum graph_filter which,
                       struct infer_error *err, struct kernel *k)
{
    double (*filter)(double) = which == GRAPH_BICUBIC ? cubic : triangle;
    double scale = (double)in_size / out_size;
    double filter_scale = scale < 1 ? 1 : scale;
    double support = (which == GRAPH_BICUBIC ? 2.0 : 1.0) * filter_scale;
    double *row = NULL;
    size_t n;
    int i;

    memset(k, 0, sizeof(*k));
    k->taps = (int)ceil(support) * 2 + 1;
    if (checked_mul((size_t)out_size, (size_t)k->taps, &n)) {
        k->first = calloc((size_t)out_size, sizeof(*k->first));
        k->count = calloc((size_t)out_size, sizeof(*k->count));
        k->weight = calloc(n, sizeof(*k->weight));
        row = calloc((size_t)k->taps, sizeof(*row));
    }
    if (row == NULL || k->first == NULL || k->count == NULL ||
        k->weight == NULL) {
        free(row);
        kernel_free(k);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    for (i = 0; i < out_size; i++)
        place_weights(k, i, in_size, scale, filter_scale, support, filter, row);
    free(row);
    return INFER_OK;
}

static uint8_t clip8(int64_t sum)
{
    int64_t value = sum >> FRACTION_BITS;

    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* Weighted sum of count samples that lie `step` bytes apart. */
static uint8_t weigh(const uint8_t *from, size_t step, const int32_t *weight,
                     int count)
{
    int64_t sum = (int64_t)1 << (FRACTION_BITS - 1);
    int i;

    for (i = 0; i < count; i++)
        sum += (int64_t)from[(size_t)i * step] * weight[i];
    return clip8(sum);
}

/* Resamples along one axis: along x where horizontal, else along y. */
static void resample(const struct infer_image *in, const struct kernel *k,
                     bool horizontal, struct infer_image *out)
{
    size_t pixel = (size_t)in->channels;
    size_t in_row = (size_t)in->width * pixel;
    size_t step = horizontal ? pixel : in_row;
    uint8_t *to = out->pixels;
    int x, y;
    size_t c;

    for (y = 0; y < out->height; y++)
        for (x = 0; x < out->width; x++) {
            int at = horizontal ? x : y;
            size_t start =
                horizontal ? (size_t)y * in_row + (size_t)k->first[at] * pixel
                           : (size_t)k->first[at] * in_row + (size_t)x * pixel;

            for (c = 0; c < pixel; c++)
                *to++ = weigh(in->pixels + start + c, step,
                              k->weight + (size_t)at * (size_t)k->taps,
                              k->count[at]);
        }
}

static int resample_axis(const struct infer_image *in, int size,
                         enum graph_filter filter, bool horizontal,
                         struct infer_error *err, struct infer_image *out)
{
    struct kernel k;
    int rc =
        kernel_make(horizontal ? in->width : in->height, size, filter, err, &k);

    if (rc < 0)
        return rc;
    rc = image_new(horizontal ? size : in->width,
                   horizontal ? in->height : size, in->channels, err, out);
    if (rc == INFER_OK)
        resample(in, &k, horizontal, out);
    kernel_free(&k);
    return rc;
}

static int resize_nearest(const struct infer_image *in, int width, int height,
                          struct infer_error *err, struct infer_image *out)
{
    size_t pixel = (size_t)in->channels;
    uint8_t *to;
    int x, y, rc = image_new(width, height, in->channels, err, out);

    if (rc < 0)
        return rc;
    to = out->pixels;
    for (y = 0; y < height; y++) {
        int sy = (int)((y + 0.5) * ((double)in->height / height));

        for (x = 0; x < width; x++, to += pixel) {
            int sx = (int)((x + 0.5) * ((double)in->width / width));

            memcpy(to,
                   in->pixels +
                       ((size_t)sy * (size_t)in->width + (size_t)sx) * pixel,
                   pixel);
        }
    }
    return INFER_OK;
}

int image_resize(const struct infer_image *in, int width, int height,
                 enum graph_filter filter, struct infer_error *err,
                 struct infer_image *out)
{
    struct infer_image wide;
    int rc;

    if (width < 1 || height < 1)
        return error_set(err, INFER_EARGUMENT,
                         "cannot resize a picture to %d x %d", width, height);
    if (filter == GRAPH_NEAREST)
        return resize_nearest(in, width, height, err, out);
    rc = resample_axis(in, width, filter, true, err, &wide);
    if (rc < 0)
        return rc;
    rc = resample_axis(&wide, height, filter, false, err, out);
    infer_image_free(&wide);
    return rc;
}

int image_convert(const struct infer_image *in, int channels,
                  struct infer_error *err, struct infer_image *out)
{
    size_t i, n = (size_t)in->width * (size_t)in->height;
    const uint8_t *from = in->pixels;
    uint8_t *to;
    int rc = image_new(in->width, in->height, channels, err, out);

    if (rc < 0)
        return rc;
    to = out->pixels;
    if (in->channels == channels) {
        memcpy(to, from, n * (size_t)channels);
    } else if (channels == 1) {
        for (i = 0; i < n; i++, from += 3)
            /* 0.299 R + 0.587 G + 0.114 B in 16-bit fixed point. */
            to[i] = (uint8_t)((from[0] * 19595u + from[1] * 38470u +
                               from[2] * 7471u + 0x8000u) >>
                              16);
    } else {
        for (i = 0; i < n; i++)
            memset(to + 3 * i, from[i], 3);
    }
    return INFER_OK;
}
