/* SPDX-License-Identifier: Apache-2.0 */
/* Which vector instructions the machine has, and what the inner loops need to
 * know of an epilogue. */
#include "config.h"

#include "kernels/onednn/vector.h"

#include <math.h>

#include "kernels/onednn/cpu.h"

enum cpu_isa cpu_limit = CPU_WIDEST;

#ifdef HAVE_TARGET_CLONES
bool cpu_has_avx512(void)
{
    return cpu_limit > CPU_AVX2 && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

bool cpu_has_avx2(void)
{
    return cpu_limit >= CPU_AVX2 && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}
#else
bool cpu_has_avx512(void)
{
    return false;
}

bool cpu_has_avx2(void)
{
    return false;
}
#endif

const struct vector_steps *vector_steps(void)
{
#ifdef HAVE_TARGET_CLONES
    if (cpu_has_avx512())
        return &vector_steps_avx512;
    if (cpu_has_avx2())
        return &vector_steps_avx2;
#endif
    return NULL;
}

bool vector_bounds(const struct kern_unary *act)
{
    return act->kind == KERN_IDENTITY || act->kind == KERN_RELU ||
           act->kind == KERN_CLIP;
}

void vector_epilogue_fill(struct vector_epilogue *e,
                          const struct kern_epilogue *of)
{
    e->bias = NULL;
    e->of = *of;
    e->bounded = vector_bounds(&of->act);
    e->low = -INFINITY;
    e->high = INFINITY;
    if (of->act.kind == KERN_RELU)
        e->low = 0.0f;
    if (of->act.kind == KERN_CLIP) {
        e->low = of->act.a;
        e->high = of->act.b;
    }
}
