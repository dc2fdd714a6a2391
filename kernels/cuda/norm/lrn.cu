/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local response normalisation across channels.
 *
 * One thread an element of the output, in the order of its memory; the squares
 * of the window are summed anew for each, from the caches.  No shared memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256

struct lrn_args {
    struct cuda_strided<3> walk; /* the channel's number, x, y */
    int64_t channels, stride;
    struct kern_lrn lrn;
    const void *x;
    void *y;
};

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    lrn_kernel(const __grid_constant__ struct lrn_args a)
{
    const int below = (a.lrn.size - 1) / 2, above = a.lrn.size - 1 - below;
    const float factor = a.lrn.alpha / (float)a.lrn.size;
    const T *x = (const T *)a.x;

    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * THREADS) {
        int64_t at[3];
        float sum = 0;

        a.walk.offsets(i, at);
        const int64_t c = at[0];
        const int64_t first = c > below ? -below : -c;
        const int64_t last =
            c + above < a.channels ? above : a.channels - 1 - c;
        for (int64_t k = first; k <= last; k++) {
            const float v = to_float(x[at[1] + k * a.stride]);
            sum = fmaf(v, v, sum);
        }
        ((T *)a.y)[at[2]] =
            from_float<T>(to_float(x[at[1]]) /
                          powf(fmaf(factor, sum, a.lrn.bias), a.lrn.beta));
    }
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    struct kern_tensor number = p->out[0];
    const struct kern_tensor *const t[3] = {&number, &p->in[0], &p->out[0]};
    struct lrn_args a = {};

    for (int d = 0; d < number.rank; d++)
        number.stride[d] = d == 1;
    a.walk.init(number.rank, number.dim, t);
    a.channels = p->in[0].dim[1];
    a.stride = p->in[0].stride[1];
    a.lrn = p->attr.lrn;
    a.x = args->in[0];
    a.y = args->out[0];
    if (a.walk.count == 0)
        return 0;
    lrn_kernel<T>
        <<<cuda_grid(a.walk.count, THREADS), THREADS, 0, cuda_stream(args)>>>(
            a);
    return CUDA_LAUNCHED(err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    return check_types(p, 1, 0, why);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[0].dtype, run, &e->problem, args, err);
}

const struct kern_functions lrn_cuda_direct = {
    .supports = supports,
    .launch = launch,
};
