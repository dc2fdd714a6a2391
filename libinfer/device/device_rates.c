/* SPDX-License-Identifier: Apache-2.0 */
/* Peak rates of GPUs by compute capability, and roofline bounds of problems. */
#include "libinfer/device/device_rates.h"

/*
 * Multiply-adds of one multiprocessor a clock, dense: F32 on vector units, F16
 * with sums in F32 on tensor cores.  From NVIDIA's architecture papers; where
 * cards of one generation differ the faster one counts, so that a bound is
 * never too high.  The last entry whose sm is not above the device's holds.
 */
static const struct {
    int sm, vector, tensor;
} per_clock[] = {
    {0, 64, 0},       {70, 64, 512},    {75, 64, 512},   {80, 64, 1024},
    {86, 128, 512},   {87, 128, 1024},  {89, 128, 512},  {90, 128, 2048},
    {100, 128, 4096}, {110, 128, 4096}, {120, 128, 512},
};

struct device_rates device_rates_of_gpu(int sm, int multiprocessors,
                                        double clock, double memory_clock,
                                        int bus)
{
    const double cycles = clock * multiprocessors;
    struct device_rates r = {0};

    /* Two transfers a clock. */
    r.bandwidth = 2 * memory_clock * bus / 8;
    for (size_t i = 0; i < sizeof per_clock / sizeof per_clock[0]; i++)
        if (per_clock[i].sm <= sm) {
            r.vector = 2 * per_clock[i].vector * cycles;
            r.tensor = 2 * per_clock[i].tensor * cycles;
        }
    return r;
}

/* FLOP/s at which the problem's products could be computed.  Of tensor cores
 * TF32 has half the rate of F16, types of 8 bits twice that rate. */
static double peak_of(const struct device_rates *r,
                      const struct kern_problem *p)
{
    const enum infer_dtype dtype = p->in[0].dtype;
    double tensor = 2 * r->tensor;

    if (dtype == INFER_F32)
        tensor = p->allow_tf32 ? r->tensor / 2 : 0;
    else if (dtype == INFER_F16 || dtype == INFER_BF16)
        tensor = r->tensor;
    return tensor > r->vector ? tensor : r->vector;
}

double device_rates_bound(const struct device_rates *r,
                          const struct kern_problem *p)
{
    const double peak = peak_of(r, p);
    double by_bytes, by_flops;

    if (r->bandwidth <= 0 || peak <= 0)
        return 0;
    by_bytes = kern_problem_bytes(p) / r->bandwidth;
    by_flops = kern_problem_flops(p) / peak;
    return by_bytes > by_flops ? by_bytes : by_flops;
}
