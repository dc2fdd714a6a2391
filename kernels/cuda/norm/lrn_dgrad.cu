/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of local response normalisation: one thread an element, which works
 * out the denominators of the channels around it again.  Its channel comes from
 * the walk as if it were the offset into one more tensor. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

struct lrn_args {
    struct cuda_strided<5> walk; /* channel, dy, x, residual, dx */
    int64_t channels, dy_step, x_step;
    int below, above;
    float scale, beta, bias; /* scale: alpha / size */
    bool residual;
    const void *dy, *x, *r;
    void *dx;
};

/* x is that of channel c. */
template <typename T>
static __device__ __forceinline__ float denominator(const struct lrn_args &a,
                                                    const T *x, int64_t c)
{
    const int64_t first = c > a.below ? c - a.below : 0;
    const int64_t last = min(c + a.above, a.channels - 1);
    float sum = 0;

    for (int64_t i = first; i <= last; i++) {
        const float v = to_float(x[(i - c) * a.x_step]);
        sum = fmaf(v, v, sum);
    }
    return fmaf(a.scale, sum, a.bias);
}

template <typename T>
static __device__ __forceinline__ void lrn_element(const struct lrn_args &a,
                                                   const int64_t *at)
{
    const int64_t c = at[0];
    const T *dy = (const T *)a.dy + at[1], *x = (const T *)a.x + at[2];
    /* Channel j's window holds c where j - below <= c <= j + above. */
    const int64_t first = c > a.above ? c - a.above : 0;
    const int64_t last = min(c + a.below, a.channels - 1);
    float sum = 0;
    for (int64_t j = first; j <= last; j++) {
        const T *xj = x + (j - c) * a.x_step;
        sum += to_float(dy[(j - c) * a.dy_step]) * to_float(*xj) *
               powf(denominator<T>(a, xj, j), -a.beta - 1);
    }
    float g = to_float(*dy) * powf(denominator<T>(a, x, c), -a.beta) -
              2 * a.scale * a.beta * to_float(*x) * sum;
    if (a.residual)
        g += to_float(((const T *)a.r)[at[3]]);
    ((T *)a.dx)[at[4]] = from_float<T>(g);
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_lrn *f = &p->attr.lrn;
    struct kern_tensor channel = p->out[0];
    const struct kern_tensor *const t[5] = {&channel, &p->in[0], &p->in[1],
                                            kern_problem_in(p, 2), &p->out[0]};
    struct lrn_args a = {};

    for (int i = 0; i < channel.rank; i++)
        channel.stride[i] = i == 1;
    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.channels = p->in[0].dim[1];
    a.dy_step = p->in[0].stride[1];
    a.x_step = p->in[1].stride[1];
    a.below = (f->size - 1) / 2;
    a.above = f->size - 1 - a.below;
    a.scale = f->alpha / (float)f->size;
    a.beta = f->beta;
    a.bias = f->bias;
    a.residual = t[3] != NULL;
    a.dy = args->in[0];
    a.x = args->in[1];
    a.r = args->in[2];
    a.dx = args->out[0];
    return walk_launch<lrn_element<T>>(a, args, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

const struct kern_functions lrn_dgrad_cuda_direct = {
    .supports = supports_types<>,
    .launch = launch,
};
