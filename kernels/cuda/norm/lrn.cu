/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local response normalisation across channels, and its gradient.
 *
 * One thread an element of the output, in the order of its memory; the squares
 * of each window are summed anew, from the caches.  An element's channel comes
 * from the walk as if it were the offset into one more tensor.  No shared
 * memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

/* Operands of the walks. */
enum { CHANNEL, X, Y, FPROP_OPERANDS };
enum { DY = Y, RESIDUAL, DX, DGRAD_OPERANDS };

template <int OPERANDS> struct lrn_args {
    struct cuda_strided<OPERANDS> walk;
    int64_t channels, x_step, dy_step; /* strides of channels */
    int below, above;                  /* channels of a window */
    float scale, beta, bias;           /* scale: alpha / size */
    const void *x, *dy, *residual;     /* residual NULL: none */
    void *out;
};

/* x is that of channel c. */
template <typename T, int OPERANDS>
static __device__ __forceinline__ float
denominator(const struct lrn_args<OPERANDS> &a, const T *x, int64_t c)
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
static __device__ __forceinline__ void
fprop_element(const struct lrn_args<FPROP_OPERANDS> &a, const int64_t *at)
{
    const T *x = (const T *)a.x + at[X];

    ((T *)a.out)[at[Y]] = from_float<T>(
        to_float(*x) / powf(denominator<T>(a, x, at[CHANNEL]), a.beta));
}

template <typename T>
static __device__ __forceinline__ void
dgrad_element(const struct lrn_args<DGRAD_OPERANDS> &a, const int64_t *at)
{
    const int64_t c = at[CHANNEL];
    const T *dy = (const T *)a.dy + at[DY], *x = (const T *)a.x + at[X];
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
        g += to_float(((const T *)a.residual)[at[RESIDUAL]]);
    ((T *)a.out)[at[DX]] = from_float<T>(g);
}

/* Fills all but the pointers.  t[]: x, then the tensors after it. */
template <int OPERANDS>
static void init(struct lrn_args<OPERANDS> *a, const struct kern_problem *p,
                 const struct kern_tensor *const (&t)[OPERANDS - 1])
{
    const struct kern_lrn *f = &p->attr.lrn;
    const struct kern_tensor *all[OPERANDS];
    struct kern_tensor channel = p->out[0];

    for (int i = 0; i < channel.rank; i++)
        channel.stride[i] = i == 1;
    all[CHANNEL] = &channel;
    for (int k = X; k < OPERANDS; k++)
        all[k] = t[k - X];
    a->walk.init(p->out[0].rank, p->out[0].dim, all);
    a->channels = t[0]->dim[1];
    a->x_step = t[0]->stride[1];
    a->below = (f->size - 1) / 2;
    a->above = f->size - 1 - a->below;
    a->scale = f->alpha / (float)f->size;
    a->beta = f->beta;
    a->bias = f->bias;
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    struct lrn_args<FPROP_OPERANDS> a = {
    };

    init(&a, p, {&p->in[0], &p->out[0]});
    a.x = args->in[0];
    a.out = args->out[0];
    return walk_launch<fprop_element<T>>(a, args, err);
}

template <typename T>
static int run_dgrad(const struct kern_problem *p, const struct kern_args *args,
                     struct infer_error *err)
{
    const struct kern_tensor *residual = kern_problem_in(p, 2);
    struct lrn_args<DGRAD_OPERANDS> a = {
    };

    init(&a, p, {&p->in[1], &p->in[0], residual, &p->out[0]});
    a.dy_step = p->in[0].stride[1];
    a.dy = args->in[0];
    a.x = args->in[1];
    a.residual = residual ? args->in[2] : NULL;
    a.out = args->out[0];
    return walk_launch<dgrad_element<T>>(a, args, err);
}

CUDA_LAUNCH(launch, run, &e->problem)
CUDA_LAUNCH(launch_dgrad, run_dgrad, &e->problem)

KERN_FUNCTIONS(lrn_cuda_direct) = {
    .supports = supports_types<>,
    .launch = launch,
};
KERN_FUNCTIONS(lrn_dgrad_cuda_direct) = {
    .supports = supports_types<>,
    .launch = launch_dgrad,
};
