/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of TensorFlow's ResizeBicubic and ScaleAndTranslate. */
#include "weights/filters/filter.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define POSITIONS 1024
#define PI        3.14159265358979323846

/* Keys' cubic with a = -1/2 at a distance below 2. */
static double cubic(double x)
{
    return x < 1   ? (1.5 * x - 2.5) * x * x + 1
           : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2
                   : 0;
}

static double mitchell(double x)
{
    return x < 1   ? (7.0 / 6 * x - 2) * x * x + 8.0 / 9
           : x < 2 ? ((-7.0 / 18 * x + 2) * x - 10.0 / 3) * x + 16.0 / 9
                   : 0;
}

static double lanczos(double x, double radius)
{
    if (x > radius)
        return 0;
    return x <= 1e-3 ? 1
                     : radius * sin(PI * x) * sin(PI * x / radius) /
                           (PI * PI * x * x);
}

static double radius_of(enum filter_kind kind)
{
    static const double radius[] = {2, 3, 5, 1.5, 1, 1, 2, 2};

    return radius[kind];
}

/* The weight at a distance x >= 0. */
static double weight(enum filter_kind kind, double x)
{
    switch (kind) {
    case FILTER_LANCZOS3:
    case FILTER_LANCZOS5:
        return lanczos(x, radius_of(kind));
    case FILTER_GAUSSIAN: /* a third of the radius is one deviation */
        return x < 1.5 ? exp(-x * x / (2 * 0.25)) : 0;
    case FILTER_BOX:
        return x < 0.5 ? 1 : x <= 0.5 ? 0.5 : 0;
    case FILTER_TRIANGLE:
        return x < 1 ? 1 - x : 0;
    case FILTER_MITCHELL:
        return mitchell(x);
    case FILTER_CUBIC_TABLE:
    case FILTER_CUBIC:
        break;
    }
    return cubic(x);
}

/* Weights of the inputs for output i; those outside do not count. */
static void table_row(int64_t i, int64_t in, int64_t out, double *w)
{
    const float at = ((float)i + 0.5f) * ((float)in / (float)out) - 0.5f;
    const int64_t first = (int64_t)floorf(at);
    const double part =
        (double)lrintf((at - (float)first) * POSITIONS) / POSITIONS;

    for (int64_t j = -1; j <= 2; j++)
        if (first + j >= 0 && first + j < in)
            w[first + j] = cubic(fabs((double)j - part));
}

static void scaled_row(const struct filter *f, int64_t i, int64_t in, double *w)
{
    const double step = 1 / f->scale;
    const double wide = f->antialias && step > 1 ? step : 1;
    const double at = ((double)i + 0.5 - f->translate) * step;
    const double reach = radius_of(f->kind) * wide;
    double low = ceil(at - reach - 0.5), high = floor(at + reach - 0.5);

    if (at < 0 || at > (double)in)
        return;
    low = low > 0 ? low : 0;
    high = high < (double)(in - 1) ? high : (double)(in - 1);
    for (int64_t j = (int64_t)low; j <= (int64_t)high; j++)
        w[j] = weight(f->kind, fabs((double)j + 0.5 - at) / wide);
}

bool filter_fill(const struct filter *f, int64_t in, int64_t out,
                 bool transposed, float *data)
{
    double *w = calloc((size_t)in, sizeof *w);

    if (!w)
        return false;
    for (int64_t i = 0; i < out; i++) {
        double sum = 0;

        for (int64_t j = 0; j < in; j++)
            w[j] = 0;
        if (f->kind == FILTER_CUBIC_TABLE)
            table_row(i, in, out, w);
        else
            scaled_row(f, i, in, w);
        for (int64_t j = 0; j < in; j++)
            sum += w[j];
        for (int64_t j = 0; j < in; j++)
            data[transposed ? i * in + j : j * out + i] =
                (float)(fabs(sum) >= 1000 * (double)FLT_MIN ? w[j] / sum : 0);
    }
    free(w);
    return true;
}
