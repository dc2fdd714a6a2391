/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The range with the least Kullback-Leibler divergence.
 *
 * For a limit, P is the distribution of the magnitudes up to it, those above
 * counted in the last bin; Q is what a quantised tensor keeps of the magnitudes
 * up to it: bins that round to one number share their count evenly, as far as
 * they hold any.  The limit is the one whose sum of P log(P / Q) is least.
 * Elements that are 0 are left out: they are exact whatever the limit.
 *
 * A value that many elements have, such as that of a constant background, is
 * dear to smear over a group of bins, although it may be rounded well: limits
 * that cut more than MOST_CUT of the elements are not considered.
 */
#include <math.h>

#include "weights/quantize/range.h"

/* Limits are tried in steps of this many bins, from MIN_BINS on. */
#define STEP_BINS 16
#define MIN_BINS  128
#define MOST_CUT  0.01
/* Stands for Q of a bin that only elements above the limit are counted in. */
#define ABSENT 1e-9

struct counts {
    double at[RANGE_BINS]; /* without zeros */
    double all;
};

/* The bins first .. end - 1 round to one number, the last being below n. */
static int group_end(int first, int n, double unit_bins, double limit,
                     enum infer_dtype dtype)
{
    const double x = (first + 0.5) * unit_bins;
    const double step = range_step(x, limit, dtype);
    const double number = nearbyint(x / step);
    int end = first + 1;

    while (end < n && nearbyint((end + 0.5) * unit_bins / step) == number)
        end++;
    return end;
}

/* Adds one group's part of the sum. */
static double group_part(const struct counts *c, int first, int end, int n,
                         double above, double inside)
{
    double sum = 0, part = 0;
    int held = 0;

    for (int b = first; b < end; b++) {
        sum += c->at[b];
        held += c->at[b] > 0;
    }
    for (int b = first; b < end; b++) {
        const double p = (c->at[b] + (b == n - 1 ? above : 0)) / c->all;
        double q = c->at[b] > 0 ? sum / held / inside : 0;

        if (!(q > ABSENT))
            q = ABSENT;
        part += p > 0 ? p * log(p / q) : 0;
    }
    return part;
}

static double divergence(const struct counts *c, int n, double top,
                         enum infer_dtype dtype)
{
    const double width = top / RANGE_BINS;
    double above = 0, sum = 0;

    for (int b = n; b < RANGE_BINS; b++)
        above += c->at[b];
    if (!(above <= MOST_CUT * c->all))
        return INFINITY;
    for (int b = 0, end; b < n; b = end) {
        end = group_end(b, n, width, n * width, dtype);
        sum += group_part(c, b, end, n, above, c->all - above);
    }
    return sum;
}

double range_least_divergence(const struct range *r, double top,
                              enum infer_dtype dtype)
{
    struct counts c = {.all = 0};
    double least = INFINITY;
    int best = RANGE_BINS;

    for (int b = 0; b < RANGE_BINS; b++) {
        c.at[b] = (double)(r->bin[b] - (b == 0 ? r->zeros : 0));
        c.all += c.at[b];
    }
    /* Of equal limits the larger, so that nothing is cut for nothing. */
    for (int n = RANGE_BINS; n >= MIN_BINS; n -= STEP_BINS) {
        const double d = divergence(&c, n, top, dtype);

        if (d < least) {
            least = d;
            best = n;
        }
    }
    return top * best / RANGE_BINS;
}
