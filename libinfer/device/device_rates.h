/* SPDX-License-Identifier: Apache-2.0 */
/* Peak rates of a device, and the least time that a problem can take there. */
#ifndef LIBINFER_DEVICE_DEVICE_RATES_H
#define LIBINFER_DEVICE_DEVICE_RATES_H

#include "kernels/kern.h"

/* All 0 where they are not known, as on a CPU. */
struct device_rates {
    double bandwidth; /* of the memory, bytes/s */
    double vector;    /* F32 without tensor cores, FLOP/s */
    double tensor;    /* F16 and BF16 with sums in F32, FLOP/s; 0 without */
};

/* Rates of a GPU by its properties.
 * sm: compute capability times ten.  clock, memory_clock: Hz.  bus: bits. */
struct device_rates device_rates_of_gpu(int sm, int multiprocessors,
                                        double clock, double memory_clock,
                                        int bus);

/* Roofline bound of a problem, seconds: the larger of its multiply-adds at the
 * peak of its type and of its bytes at the memory's bandwidth.  0 where the
 * rates are not known. */
double device_rates_bound(const struct device_rates *r,
                          const struct kern_problem *p);

#endif
