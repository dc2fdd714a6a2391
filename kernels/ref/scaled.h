/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of problems in 8 bits with scales (kernels/quant/quant.h). */
#ifndef KERNELS_REF_SCALED_H
#define KERNELS_REF_SCALED_H

#include <math.h>

#include "kernels/quant/quant.h"
#include "kernels/ref/ref.h"

/* The value of element i, in single precision where it is of 8 bits. */
static inline double ref_load_scaled(enum infer_dtype dtype, const void *base,
                                     int64_t i, float scale, int zero)
{
    const double q = ref_load(dtype, base, i);

    return quant_is_byte(dtype) ? (double)((float)(q - zero) * scale) : q;
}

/* Element i of y from its value. */
static inline void ref_store_scaled(const struct kern_problem *p, void *base,
                                    int64_t i, double value)
{
    const struct kern_tensor *y = &p->out[0];
    float v = (float)value, low, high;

    if (p->quant.y_scale != 0)
        v /= p->quant.y_scale;
    if (!quant_is_integer(y->dtype)) {
        ref_store(y->dtype, base, i, (double)v);
        return;
    }
    quant_limits(y->dtype, p->quant.y_zero, &low, &high);
    v = fminf(fmaxf(v, low), high);
    ref_store(y->dtype, base, i, nearbyint((double)v) + p->quant.y_zero);
}

#endif
