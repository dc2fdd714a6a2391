/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of vector instructions, and the epilogue as the inner loops take
 * it. */
#include "config.h"

#include "kernels/cpu/conv/vector.h"

#include <math.h>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu.h"
#include "kernels/problem.h"
#include "kernels/test_hooks.h"

/* Pixels up to which, and bytes of weights from which, a layer takes the time
 * of reading its weights from memory (Sapphire Rapids, L2 cache of 2 MiB). */
#define STREAM_PIXELS 64
#define STREAM_BYTES  (1 << 20)

/* Channels and outputs of a group up to which a vector holds several. */
#define SPREAD_CHANNELS 8

#ifdef VECTOR_LEVELS
bool cpu_has_avx512(void)
{
    return (KERN_TEST_HOOK(isa) == TEST_ISA_ALL ||
            KERN_TEST_HOOK(isa) == TEST_ISA_AVX512) &&
           __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

bool cpu_has_avx2(void)
{
    return KERN_TEST_HOOK(isa) != TEST_ISA_SSE41 &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
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
#ifdef VECTOR_LEVELS
    if (cpu_has_avx512())
        return &vector_steps_avx512;
    if (cpu_has_avx2())
        return &vector_steps_avx2;
#endif
    return NULL;
}

static bool lies_channels_last(const struct kern_tensor *t)
{
    return !t || (cpu_is_f32(t) && cpu_channels_inner(t));
}

int vector_conv_supports(const struct kern_problem *p, struct infer_error *why)
{
    enum { X, W, BIAS, RESIDUAL }; /* in[] of a convolution */
    const struct kern_tensor *residual = kern_problem_in(p, RESIDUAL);

    if (!vector_steps())
        return error_set(why, INFER_EUNSUPPORTED, "needs AVX2 or AVX-512");
    if (!lies_channels_last(&p->in[X]) || !lies_channels_last(&p->out[0]) ||
        !lies_channels_last(residual))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels-last F32 activations");
    if (!(p->constant_in & 1u << W) || !cpu_is_dense(&p->in[W], KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes constant dense F32 weights");
    if (!cpu_is_dense(kern_problem_in(p, BIAS), KERN_NCHW))
        return error_set(why, INFER_EUNSUPPORTED, "takes a dense F32 bias");
    if (!cpu_act_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "lacks this epilogue");
    return 0;
}

bool vector_conv_spreads(const struct kern_problem *p)
{
    enum { X, W };
    const int64_t groups = p->attr.conv.groups, c = p->in[W].dim[1];
    const int64_t k = groups > 0 ? p->out[0].dim[1] / groups : 0;

    return cpu_has_avx512() && groups > 1 && c > 1 && c <= SPREAD_CHANNELS &&
           k > 0 && k <= SPREAD_CHANNELS &&
           vector_window_supports(p, NULL) == 0;
}

bool vector_conv_streams(const struct kern_problem *p)
{
    enum { X, W };
    const int64_t k = p->out[0].dim[1];

    return cpu_has_avx512() && p->attr.conv.groups == 1 && k > 0 &&
           kern_tensor_count(&p->out[0]) <= STREAM_PIXELS * k &&
           kern_tensor_count(&p->in[W]) >=
               STREAM_BYTES / (int64_t)sizeof(float) &&
           vector_window_supports(p, NULL) == 0;
}

void vector_epilogue_fill(struct vector_epilogue *e,
                          const struct kern_epilogue *of)
{
    e->bias = NULL;
    e->of = *of;
    e->bounded = cpu_act_bounds(&of->act, &e->low, &e->high);
    e->on_rows = !e->bounded && !of->residual_last;
}
