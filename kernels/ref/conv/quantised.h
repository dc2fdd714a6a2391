/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a layer in 8 bits, as kernels/quant/quant.h states it. */
#ifndef KERNELS_REF_CONV_QUANTISED_H
#define KERNELS_REF_CONV_QUANTISED_H

#include <math.h>

#include "kernels/quant/act.h"
#include "kernels/quant/quant.h"
#include "kernels/ref/ref.h"

static inline float ref_act_f32(const struct kern_unary *act, float v)
{
    return quant_is_smooth(act->kind) ? quant_act(act, v)
                                      : (float)ref_unary(act, (double)v);
}

/* Error of the multiplier at the elements of x and w at these offsets; 0
 * without one. */
static inline double ref_quant_error(const struct kern_problem *p,
                                     const struct kern_args *args, int64_t x,
                                     int64_t w)
{
    const struct kern_tensor *t = product_table_of(p);

    if (!t)
        return 0;
    const int least = p->in[0].dtype == INFER_I8 ? -128 : 0;
    const int64_t i = (int64_t)ref_load(p->in[0].dtype, args->in[0], x) - least;
    const int64_t k = (int64_t)ref_load(INFER_I8, args->in[1], w) + 128;
    return ref_load(INFER_I32, args->in[PRODUCT_TABLE_IN],
                    i * t->stride[0] + k * t->stride[1]);
}

/* v plus the residual at an offset, if there is one. */
static inline float ref_quant_add(const struct kern_problem *p,
                                  const struct kern_args *args, int64_t at,
                                  float v)
{
    const struct kern_tensor *r = kern_problem_in(p, 3);

    if (!r)
        return v;
    if (!quant_is_byte(r->dtype))
        return v + (float)ref_load(r->dtype, args->in[3], at);
    return fmaf(
        (float)(ref_load(r->dtype, args->in[3], at) - p->quant.residual_zero),
        p->quant.residual_scale, v);
}

/* Finishes the sum of output channel k and stores it at `at`; the residual
 * stands at `from`. */
static inline void ref_store_quantised(const struct kern_problem *p,
                                       const struct kern_args *args, double sum,
                                       int64_t k, int64_t at, int64_t from)
{
    const struct kern_tensor *scale = quant_of(p), *y = &p->out[0];
    const struct kern_tensor *bias = kern_problem_in(p, 2);
    const float w_scale =
        (float)ref_load(scale->dtype, args->in[QUANT_IN], k * scale->stride[0]);
    const float b = (float)ref_optional(bias, args->in[2],
                                        bias ? k * bias->stride[0] : 0, 0);
    float v = fmaf((float)sum, p->quant.x_scale * w_scale, b), low, high;

    if (!p->epilogue.residual_last)
        v = ref_quant_add(p, args, from, v);
    v = ref_act_f32(&p->epilogue.act, v);
    if (p->epilogue.residual_last)
        v = ref_quant_add(p, args, from, v);
    if (p->quant.y_scale != 0)
        v *= 1 / p->quant.y_scale;
    if (!quant_is_integer(y->dtype)) {
        ref_store(y->dtype, args->out[0], at, (double)v);
        return;
    }
    quant_limits(y->dtype, p->quant.y_zero, &low, &high);
    v = fminf(fmaxf(v, low), high);
    ref_store(y->dtype, args->out[0], at,
              nearbyint((double)v) + p->quant.y_zero);
}

#endif
