/* SPDX-License-Identifier: Apache-2.0 */
/* What the elements of one tensor are over all samples, and the range that its
 * quantised form covers. */
#ifndef WEIGHTS_QUANTIZE_RANGE_H
#define WEIGHTS_QUANTIZE_RANGE_H

#include "weights/quantize/quantize.h"

#define RANGE_BINS 2048

struct range {
    double low, high; /* 0 lies between */
    int64_t count;    /* elements seen */
    /* Sums over each index of the channels' dimension (1, or the last of rank
     * 2), for means. */
    double *sum;
    int64_t channels;
    double *peak; /* largest magnitude of each of these channels */
    /* Magnitudes in equal bins up to the largest, in the second round, and how
     * many of the first bin are 0. */
    uint64_t *bin;
    uint64_t zeros;
};

void range_clear(struct range *r);
/* First round.  EFORMAT: an element is no finite number. */
int range_observe(struct range *r, const float *data, int rank,
                  const int64_t *dim, struct infer_error *err);
/* Joins the limits of another tensor, for tensors that share a scale. */
void range_join(struct range *r, const struct range *other);
/* Adds the magnitudes that another tensor has counted, in bins of equal width.
 */
void range_add_counts(struct range *r, const struct range *other);
/* Second round: counts magnitudes. */
int range_count(struct range *r, const float *data, int64_t n,
                struct infer_error *err);
/* The type of 8 bits for a tensor of a network that is quantised to I8 or to
 * F8E4M3: I8 becomes U8 where the tensor cannot be negative.  One that merely
 * was not in the samples stays I8: U8 would cut off what lies below 0, as a
 * ReLU does. */
static inline enum infer_dtype
range_dtype(const struct range *r, bool not_negative, enum infer_dtype to)
{
    return to == INFER_I8 && not_negative && !(r->low < 0) ? INFER_U8 : to;
}
/* The largest value of such a type. */
static inline double range_top(enum infer_dtype dtype)
{
    return dtype == INFER_F8E4M3 ? 448 : dtype == INFER_I8 ? 127 : 255;
}
/* The largest magnitude that is represented, which becomes range_top(). */
double range_limit(const struct range *r, enum quantize_method method,
                   enum infer_dtype dtype);
/* The limit with the least divergence; top: the largest magnitude. */
double range_least_divergence(const struct range *r, double top,
                              enum infer_dtype dtype);
/* Mean of channel c; 0 where there are no such means. */
double range_mean(const struct range *r, int64_t c, int64_t channels);
/* The distance of neighbours around x in a type whose largest value stands for
 * limit. */
double range_step(double x, double limit, enum infer_dtype dtype);

#endif
