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

struct lrn_args {
    struct cuda_strided<3> walk; /* the channel's number, x, y */
    int64_t channels, stride;
    int below, above;
    float scale, beta, bias; /* scale: alpha / size */
    const void *x;
    void *y;
};

template <typename T>
static __device__ __forceinline__ void lrn_element(const struct lrn_args &a,
                                                   const int64_t *at)
{
    const T *x = (const T *)a.x;
    const int64_t c = at[0];
    const int64_t first = c > a.below ? -a.below : -c;
    const int64_t last =
        c + a.above < a.channels ? a.above : a.channels - 1 - c;
    float sum = 0;

    for (int64_t k = first; k <= last; k++) {
        const float v = to_float(x[at[1] + k * a.stride]);
        sum = fmaf(v, v, sum);
    }
    ((T *)a.y)[at[2]] = from_float<T>(to_float(x[at[1]]) /
                                      powf(fmaf(a.scale, sum, a.bias), a.beta));
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_lrn *f = &p->attr.lrn;
    struct kern_tensor number = p->out[0];
    const struct kern_tensor *const t[3] = {&number, &p->in[0], &p->out[0]};
    struct lrn_args a = {};

    for (int d = 0; d < number.rank; d++)
        number.stride[d] = d == 1;
    a.walk.init(number.rank, number.dim, t);
    a.channels = p->in[0].dim[1];
    a.stride = p->in[0].stride[1];
    a.below = (f->size - 1) / 2;
    a.above = f->size - 1 - a.below;
    a.scale = f->alpha / (float)f->size;
    a.beta = f->beta;
    a.bias = f->bias;
    a.x = args->in[0];
    a.y = args->out[0];
    return walk_launch<lrn_element<T>>(a, args, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

const struct kern_functions lrn_cuda_direct = {
    .supports = supports_types<>,
    .launch = launch,
};
