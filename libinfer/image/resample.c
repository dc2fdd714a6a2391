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

/* Of each output place from `begin` to `end`: the first input place, how many,
 * and the weights (taps entries each).  The whole table has about two entries
 * an input place, so that a long axis takes several. */
struct kernel {
    double (*filter)(double);
    double scale, filter_scale, support;
    int in_size, out_size, taps;
    int begin, end, most; /* most: places of a table */
    int *first, *count;
    int32_t *weight;
    double *row; /* weights of one place */
};

/* Entries of a table, unless one place has more. */
#define MOST_WEIGHTS (1 << 20)

static void kernel_free(struct kernel *k)
{
    free(k->first);
    free(k->count);
    free(k->weight);
    free(k->row);
}

/* Fills the weights of one output place. */
static void place_weights(struct kernel *k, int at)
{
    const double center = (at + 0.5) * k->scale;
    const size_t place = (size_t)(at - k->begin);
    int first = (int)(center - k->support + 0.5);
    int last = (int)(center + k->support + 0.5);
    double sum = 0;
    int i;

    if (first < 0)
        first = 0;
    if (last > k->in_size)
        last = k->in_size;
    for (i = 0; i < last - first; i++) {
        k->row[i] =
            k->filter((i + first - center + 0.5) * (1.0 / k->filter_scale));
        sum += k->row[i];
    }
    for (i = 0; i < last - first; i++) {
        double w = k->row[i] / (sum != 0 ? sum : 1);

        k->weight[place * (size_t)k->taps + (size_t)i] =
            (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << FRACTION_BITS));
    }
    k->first[place] = first;
    k->count[place] = last - first;
}

static int kernel_make(int in_size, int out_size, enum graph_filter which,
                       struct infer_error *err, struct kernel *k)
{
    size_t n;

    memset(k, 0, sizeof(*k));
    k->filter = which == GRAPH_BICUBIC ? cubic : triangle;
    k->in_size = in_size;
    k->out_size = out_size;
    k->scale = (double)in_size / out_size;
    k->filter_scale = k->scale < 1 ? 1 : k->scale;
    k->support = (which == GRAPH_BICUBIC ? 2.0 : 1.0) * k->filter_scale;
    k->taps = (int)ceil(k->support) * 2 + 1;
    k->most = MOST_WEIGHTS / k->taps;
    if (k->most > out_size)
        k->most = out_size;
    if (k->most < 1)
        k->most = 1;
    if (checked_mul((size_t)k->most, (size_t)k->taps, &n)) {
        k->first = calloc((size_t)k->most, sizeof(*k->first));
        k->count = calloc((size_t)k->most, sizeof(*k->count));
        k->weight = calloc(n, sizeof(*k->weight));
        k->row = calloc((size_t)k->taps, sizeof(*k->row));
    }
    if (k->row == NULL || k->first == NULL || k->count == NULL ||
        k->weight == NULL) {
        kernel_free(k);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    return INFER_OK;
}

/* The table of the next places; false: there are none. */
static bool kernel_next(struct kernel *k)
{
    k->begin = k->end;
    if (k->begin == k->out_size)
        return false;
    k->end =
        k->out_size - k->begin < k->most ? k->out_size : k->begin + k->most;
    for (int i = k->begin; i < k->end; i++)
        place_weights(k, i);
    return true;
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

/* Resamples along one axis, the places of the table: along x where horizontal,
 * else along y. */
static void resample(const struct infer_image *in, const struct kernel *k,
                     bool horizontal, struct infer_image *out)
{
    const size_t pixel = (size_t)in->channels;
    const size_t in_row = (size_t)in->width * pixel;
    const size_t step = horizontal ? pixel : in_row;
    const int top = horizontal ? 0 : k->begin;
    const int bottom = horizontal ? out->height : k->end;
    const int left = horizontal ? k->begin : 0;
    const int right = horizontal ? k->end : out->width;

    for (int y = top; y < bottom; y++) {
        uint8_t *to = out->pixels +
                      ((size_t)y * (size_t)out->width + (size_t)left) * pixel;

        for (int x = left; x < right; x++) {
            const size_t at = (size_t)((horizontal ? x : y) - k->begin);
            const size_t start =
                horizontal ? (size_t)y * in_row + (size_t)k->first[at] * pixel
                           : (size_t)k->first[at] * in_row + (size_t)x * pixel;

            for (size_t c = 0; c < pixel; c++)
                *to++ = weigh(in->pixels + start + c, step,
                              k->weight + at * (size_t)k->taps, k->count[at]);
        }
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
    while (rc == INFER_OK && kernel_next(&k))
        resample(in, &k, horizontal, out);
    kernel_free(&k);
    return rc;
}

/* Positions are summed up, as Pillow has them: one that lies between two pixels
 * falls to the same of them. */
static int resize_nearest(const struct infer_image *in, int width, int height,
                          struct infer_error *err, struct infer_image *out)
{
    const double down = (double)in->height / height;
    const double right = (double)in->width / width;
    size_t pixel = (size_t)in->channels;
    double at_y = down * 0.5, at_x;
    uint8_t *to;
    int x, y, rc = image_new(width, height, in->channels, err, out);

    if (rc < 0)
        return rc;
    to = out->pixels;
    for (y = 0; y < height; y++, at_y += down) {
        int sy = at_y < in->height ? (int)at_y : in->height - 1;

        at_x = right * 0.5;
        for (x = 0; x < width; x++, to += pixel, at_x += right) {
            int sx = at_x < in->width ? (int)at_x : in->width - 1;

            memcpy(to,
                   in->pixels +
                       ((size_t)sy * (size_t)in->width + (size_t)sx) * pixel,
                   pixel);
        }
    }
    return INFER_OK;
}

/* Pixels of the picture between the two axes, unless the input has more. */
#define MOST_BETWEEN ((int64_t)1 << 26)

/* True if columns are resampled first, as Pillow does.  A picture of few
 * columns and many rows would grow without limit between the axes: its rows are
 * first. */
static bool columns_first(const struct infer_image *in, int width)
{
    const int64_t between = (int64_t)width * in->height;

    return width <= in->width || between <= MOST_BETWEEN;
}

int image_resize(const struct infer_image *in, int width, int height,
                 enum graph_filter filter, struct infer_error *err,
                 struct infer_image *out)
{
    struct infer_image between;
    bool columns;
    int rc;

    if (width < 1 || height < 1)
        return error_set(err, INFER_EARGUMENT,
                         "cannot resize a picture to %d x %d", width, height);
    if (filter == GRAPH_NEAREST)
        return resize_nearest(in, width, height, err, out);
    columns = columns_first(in, width);
    rc = resample_axis(in, columns ? width : height, filter, columns, err,
                       &between);
    if (rc < 0)
        return rc;
    rc = resample_axis(&between, columns ? height : width, filter, !columns,
                       err, out);
    infer_image_free(&between);
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
