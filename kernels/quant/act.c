/* SPDX-License-Identifier: Apache-2.0 */
/* Smooth activations of layers in 8 bits, one value at a time. */
#include "kernels/quant/act.h"
#include "kernels/quant/quant.h"

float quant_act(const struct kern_unary *f, float v)
{
    const struct quant_smooth s = quant_smooth_of(*f);

    return quant_smooth(&s, v);
}
