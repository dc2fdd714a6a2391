/* SPDX-License-Identifier: Apache-2.0 */
/* Smooth activations of layers in 8 bits over arrays, vectorised by the
 * compiler.  Each form is a loop without branches. */
#include "config.h"

#include "kernels/cpu/cpu.h"
#include "kernels/quant/act.h"

#define LOOP(name, expression)                                                 \
    CPU_CLONES static void name(const struct quant_smooth *from, float *v,     \
                                int64_t n)                                     \
    {                                                                          \
        const struct quant_smooth s = *from;                                   \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                    \
        {                                                                      \
            const float x = v[i];                                              \
            v[i] = expression;                                                 \
        }                                                                      \
    }

LOOP(times_logistic, quant_times(x, quant_logistic(QUANT_MUL(s.c0, x))))
LOOP(times_curve, quant_times(x, quant_logistic(quant_curve(&s, x))))
LOOP(times_hard, quant_times(x, quant_hard(&s, x)))
LOOP(plain_logistic,
     quant_smooth_end(&s, x, quant_logistic(QUANT_MUL(s.c0, x))))
LOOP(plain_hard, quant_smooth_end(&s, x, quant_hard(&s, x)))

void cpu_quant_act(const struct kern_unary *act, float *v, int64_t n)
{
    const struct quant_smooth s = quant_smooth_of(*act);

    if (s.hard && s.times)
        times_hard(&s, v, n);
    else if (s.hard)
        plain_hard(&s, v, n);
    else if (!s.times)
        plain_logistic(&s, v, n);
    else if (s.c1 == 0)
        times_logistic(&s, v, n);
    else
        times_curve(&s, v, n);
}
