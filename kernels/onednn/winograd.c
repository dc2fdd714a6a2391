/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps of Winograd convolution the machine can run. */
#include "config.h"

#include "kernels/onednn/winograd.h"

const struct winograd_steps *winograd_steps(void)
{
#ifdef HAVE_TARGET_CLONES
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &winograd_steps_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &winograd_steps_avx2;
#endif
    return NULL;
}
