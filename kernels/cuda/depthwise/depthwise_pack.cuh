/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of depthwise convolutions that are not constant: a kernel in front
 * packs them [r][s][k], in the type of the activations, one thread a weight. */
#ifndef KERNELS_CUDA_DEPTHWISE_DEPTHWISE_PACK_CUH
#define KERNELS_CUDA_DEPTHWISE_DEPTHWISE_PACK_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

extern "C" {
#include "kernels/cuda/conv/conv.h"
}

#define DEPTHWISE_PACK_THREADS 128

struct depthwise_pack_args {
    int count, k, s;
    enum infer_dtype type;
    int64_t stride[3]; /* of w: k, r, s */
    const void *w;
    void *packed;
};

template <typename T>
static __global__ void __launch_bounds__(DEPTHWISE_PACK_THREADS)
    depthwise_pack_kernel(const __grid_constant__ struct depthwise_pack_args a)
{
    const int i = blockIdx.x * DEPTHWISE_PACK_THREADS + threadIdx.x;

    launch_wait();
    if (i >= a.count)
        return;
    const int tap = i / a.k;
    const int64_t at = i % a.k * a.stride[0] + tap / a.s * a.stride[1] +
                       tap % a.s * a.stride[2];
    ((T *)a.packed)[i] = from_float<T>(load_as<T>(a.type, a.w, at));
}

/* Packs a problem's weights, one a group and filter position, into the
 * workspace. */
template <typename T>
static int
depthwise_pack_weights(const struct kern_exec *e, const struct conv_geometry *g,
                       const struct kern_args *args, struct infer_error *err)
{
    const struct kern_tensor *w = &e->problem.in[CONV_W];
    struct depthwise_pack_args a = {};

    a.count = g->k * g->r * g->s;
    a.k = g->k;
    a.s = g->s;
    a.type = w->dtype;
    a.stride[0] = w->stride[0];
    a.stride[1] = w->rank > 3 ? w->stride[2] : 0;
    a.stride[2] = w->stride[w->rank - 1];
    a.w = args->in[CONV_W];
    a.packed = args->workspace;
    return launch_chained(depthwise_pack_kernel<T>,
                          dim3(cuda_blocks(a.count, DEPTHWISE_PACK_THREADS)),
                          dim3(DEPTHWISE_PACK_THREADS), 0, args->stream, a,
                          err);
}

static inline size_t depthwise_pack_bytes(const struct kern_exec *e,
                                          const struct conv_geometry *g)
{
    return (size_t)g->k * (size_t)g->r * (size_t)g->s *
           infer_dtype_size(e->problem.in[CONV_X].dtype);
}

/* Checks that the kernel that packs them can read the weights. */
static inline int depthwise_weights_readable(const struct kern_problem *p,
                                             struct infer_error *why)
{
    if (cuda_is_real(p->in[CONV_W].dtype))
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "weights are %s, supported F32, F16 and BF16",
                     infer_dtype_name(p->in[CONV_W].dtype));
}

#endif
