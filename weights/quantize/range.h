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
    /* Magnitudes in equal bins up to the largest, in the second round. */
    uint64_t *bin;
};

void range_clear(struct range *r);
/* First round.  EFORMAT: an element is no finite number. */
int range_observe(struct range *r, const float *data, int rank,
                  const int64_t *dim, struct infer_error *err);
/* Joins what another tensor holds, for tensors that share a scale. */
void range_join(struct range *r, const struct range *other);
/* Second round: counts magnitudes. */
int range_count(struct range *r, const float *data, int64_t n,
                struct infer_error *err);
/* The largest magnitude that is represented, with `levels` steps above 0 (127
 * or 255). */
double range_limit(const struct range *r, enum quantize_method method,
                   int levels);
static inline bool range_is_signed(const struct range *r)
{
    return r->low < 0;
}
static inline int range_levels(const struct range *r)
{
    return range_is_signed(r) ? 127 : 255;
}
/* Mean of channel c; 0 where there are no such means. */
double range_mean(const struct range *r, int64_t c, int64_t channels);

#endif
