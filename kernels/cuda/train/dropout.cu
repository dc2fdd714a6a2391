/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout: one thread an element, in the order of the output's memory.  The
 * element's row-major number, which decides its fate, comes from the walk as
 * if it were the offset into a third tensor.
 */
#include "kernels/base/philox.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256

struct dropout_args {
    struct cuda_strided<3> walk; /* x, number, y */
    uint32_t stream, threshold;
    float factor;
    const uint64_t *random;
    int64_t random_step;
    const void *x;
    void *y;
};

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    dropout_kernel(const __grid_constant__ struct dropout_args a)
{
    const uint64_t seed = a.random[0], offset = a.random[a.random_step];

    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * THREADS) {
        int64_t at[3];
        a.walk.offsets(i, at);
        const struct philox_words r =
            philox_dropout(seed, offset, a.stream, at[1]);
        const float v = to_float(((const T *)a.x)[at[0]]);
        ((T *)a.y)[at[2]] =
            from_float<T>(r.word[at[1] & 3] >= a.threshold ? v * a.factor : 0);
    }
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_tensor *y = &p->out[0];
    const struct kern_tensor number =
        kern_tensor_dense(INFER_F32, y->rank, y->dim, KERN_NCHW);
    const struct kern_tensor *const t[3] = {&p->in[0], &number, y};
    struct dropout_args a = {};

    a.walk.init(y->rank, y->dim, t);
    if (a.walk.count == 0)
        return 0;
    a.stream = p->attr.dropout.stream;
    a.threshold = philox_threshold(p->attr.dropout.ratio);
    a.factor = (float)(1 / (1 - (double)p->attr.dropout.ratio));
    a.random = (const uint64_t *)args->in[1];
    a.random_step = p->in[1].stride[0];
    a.x = args->in[0];
    a.y = args->out[0];
    dropout_kernel<T>
        <<<cuda_grid(a.walk.count, THREADS), THREADS, 0, cuda_stream(args)>>>(
            a);
    return CUDA_LAUNCHED(err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (cuda_is_real(p->in[0].dtype) && p->out[0].dtype == p->in[0].dtype)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "dropout: takes F32, F16 and BF16, in and out alike");
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(dropout_cuda_philox) = {
    .supports = supports,
    .launch = launch,
};
