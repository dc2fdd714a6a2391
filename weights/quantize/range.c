/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of tensors from samples. */
#include "weights/quantize/range.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"

/* The share of the elements that the percentile leaves out. */
#define LEFT_OUT 1e-4

void range_clear(struct range *r)
{
    free(r->sum);
    free(r->peak);
    free(r->bin);
    memset(r, 0, sizeof *r);
}

/* Elements behind one index of the channels' dimension, and how many there are
 * of the latter.  Tensors without a batch have one channel. */
static int64_t inner_of(int rank, const int64_t *dim, int64_t *channels)
{
    int64_t inner = 1;

    *channels = rank >= 2 ? dim[rank == 2 ? rank - 1 : 1] : 1;
    for (int d = 2; d < rank; d++)
        inner *= dim[d];
    return rank >= 2 ? inner : 0;
}

/* Room for the sums: a tensor whose channels differ between samples keeps
 * none. */
static int need_sums(struct range *r, int64_t channels, struct infer_error *err)
{
    if (r->count == 0 && !r->sum) {
        r->sum = calloc((size_t)channels + 1, sizeof *r->sum);
        r->peak = calloc((size_t)channels + 1, sizeof *r->peak);
        if (!r->sum || !r->peak)
            return error_set(err, INFER_EMEMORY, "out of memory");
        r->channels = channels;
    }
    if (r->channels != channels)
        r->channels = 0;
    return INFER_OK;
}

int range_observe(struct range *r, const float *data, int rank,
                  const int64_t *dim, struct infer_error *err)
{
    int64_t n = 1, channels;
    const int64_t inner = inner_of(rank, dim, &channels);
    int rc = need_sums(r, channels, err);

    if (rc < 0)
        return rc;
    for (int d = 0; d < rank; d++)
        n *= dim[d];
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)data[i];

        if (!isfinite(x))
            return error_set(err, INFER_EFORMAT, "element %lld is %g",
                             (long long)i, x);
        r->low = fmin(r->low, x);
        r->high = fmax(r->high, x);
        if (r->channels > 0 && inner > 0) {
            const int64_t c = i / inner % channels;

            r->sum[c] += x;
            r->peak[c] = fmax(r->peak[c], fabs(x));
        }
    }
    r->count += n;
    return INFER_OK;
}

void range_join(struct range *r, const struct range *other)
{
    r->low = fmin(r->low, other->low);
    r->high = fmax(r->high, other->high);
}

void range_add_counts(struct range *r, const struct range *other)
{
    for (int b = 0; r->bin && other->bin && b < RANGE_BINS; b++)
        r->bin[b] += other->bin[b];
    r->zeros += other->zeros;
}

double range_mean(const struct range *r, int64_t c, int64_t channels)
{
    return r->channels == channels && r->count > 0
               ? r->sum[c] * (double)channels / (double)r->count
               : 0;
}

static double magnitude(const struct range *r)
{
    return fmax(-r->low, r->high);
}

int range_count(struct range *r, const float *data, int64_t n,
                struct infer_error *err)
{
    const double top = magnitude(r);

    if (!r->bin)
        r->bin = calloc(RANGE_BINS, sizeof *r->bin);
    if (!r->bin)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int64_t i = 0; i < n && top > 0; i++) {
        const double at = fabs((double)data[i]) / top * RANGE_BINS;

        /* A sample that differs from that of the first round counts at the
         * end. */
        r->bin[at < RANGE_BINS ? (int)at : RANGE_BINS - 1]++;
        r->zeros += at == 0;
    }
    return INFER_OK;
}

/* The first bin boundary that leaves out at most LEFT_OUT of the elements. */
static double percentile(const struct range *r, double top)
{
    uint64_t all = 0, above = 0;
    int b;

    for (b = 0; b < RANGE_BINS; b++)
        all += r->bin[b];
    for (b = RANGE_BINS; b > 1; b--) {
        above += r->bin[b - 1];
        if ((double)above > LEFT_OUT * (double)all)
            break;
    }
    return top * b / RANGE_BINS;
}

double range_step(double x, double limit, enum infer_dtype dtype)
{
    const double unit = limit / range_top(dtype);
    int exponent;

    if (dtype != INFER_F8E4M3)
        return unit;
    (void)frexp(x / unit, &exponent); /* of 0.5 .. 1 */
    return ldexp(unit, (exponent > -5 ? exponent : -5) - 4);
}

/* Sum of squared errors with a limit: elements below it are rounded, which
 * gives step^2 / 12 each, those above are cut. */
static double squared_error(const struct range *r, double top, double limit,
                            enum infer_dtype dtype)
{
    double sum = 0;

    for (int b = 0; b < RANGE_BINS; b++) {
        const double x = (b + 0.5) * top / RANGE_BINS;
        const double cut = x > limit ? x - limit : 0;
        const double step = range_step(x, limit, dtype);
        /* Elements far below a step are rounded to 0, at the cost of their own
         * square. */
        const double rounding = x < step / 2 ? x * x : step * step / 12;

        sum += (double)r->bin[b] * (cut > 0 ? cut * cut : rounding);
    }
    return sum;
}

static double least_error(const struct range *r, double top,
                          enum infer_dtype dtype)
{
    double best = top, least = squared_error(r, top, top, dtype);

    for (int i = 127; i >= 13; i--) {
        const double limit = top * i / 128;
        const double e = squared_error(r, top, limit, dtype);

        if (e < least) {
            least = e;
            best = limit;
        }
    }
    return best;
}

double range_limit(const struct range *r, enum quantize_method method,
                   enum infer_dtype dtype)
{
    const double top = magnitude(r);

    if (!r->bin || !(top > 0))
        return top;
    switch (method) {
    case QUANTIZE_MAX:
        break;
    case QUANTIZE_PERCENTILE:
        return percentile(r, top);
    case QUANTIZE_MSE:
        return least_error(r, top, dtype);
    case QUANTIZE_ENTROPY:
        return range_least_divergence(r, top, dtype);
    }
    return top;
}
