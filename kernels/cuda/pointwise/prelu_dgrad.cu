/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of PReLU: dx = (x < 0 ? slope dy : dy) + residual, and dslope =
 * x < 0 ? dy x : 0 before it is summed.
 *
 * One thread V neighbours of dx, 16 bytes where all tensors lie so (the slope
 * may be one for all of them), else one element; the grid loops.
 */
#include "kernels/cuda/pointwise/pointwise.cuh"

enum { DY, X, SLOPE, RESIDUAL, INPUTS, DSLOPE = INPUTS, DX, OPERANDS };

struct prelu_args {
    struct cuda_strided<OPERANDS> walk;
    const void *in[INPUTS];
    enum infer_dtype type[INPUTS]; /* INFER_NONE: absent */
    void *dslope, *dx;             /* dslope NULL: nobody wants it */
};

template <typename T, int V>
static __device__ __forceinline__ void prelu_element(const struct prelu_args &a,
                                                     const int64_t *at)
{
    float v[INPUTS][V];
    vec<T, V> dx, dslope;
#pragma unroll
    for (int k = 0; k < INPUTS; k++) {
#pragma unroll
        for (int j = 0; j < V; j++)
            v[k][j] = 0;
        if (a.type[k] != INFER_NONE)
            load_operand<T, V>(a.in[k], at[k], a.type[k],
                               V > 1 && a.walk.broadcasts(k), v[k]);
    }
#pragma unroll
    for (int j = 0; j < V; j++) {
        const float dy = v[DY][j], x = v[X][j];
        dx.at[j] =
            from_float<T>((x < 0 ? v[SLOPE][j] * dy : dy) + v[RESIDUAL][j]);
        dslope.at[j] = from_float<T>(x < 0 ? dy * x : 0);
    }
    store_vec<T, V>((T *)a.dx + at[DX], dx);
    if (a.dslope)
        store_vec<T, V>((T *)a.dslope + at[DSLOPE], dslope);
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const int wide = 16 / (int)sizeof(T);
    const struct kern_tensor *t[OPERANDS];
    const void *base[OPERANDS];
    size_t size[OPERANDS];
    struct prelu_args a = {};

    for (int k = 0; k < OPERANDS; k++) {
        t[k] = k < INPUTS    ? kern_problem_in(p, k)
               : k == DSLOPE ? kern_problem_out(p, 1)
                             : &p->out[0];
        base[k] = k < INPUTS ? args->in[k] : args->out[k == DSLOPE];
        size[k] = t[k] ? infer_dtype_size(t[k]->dtype) : 0;
        if (k < INPUTS) {
            a.in[k] = base[k];
            a.type[k] = t[k] ? t[k]->dtype : INFER_NONE;
        }
    }
    a.dslope = t[DSLOPE] ? args->out[1] : NULL;
    a.dx = args->out[0];
    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    if (a.walk.count == 0)
        return 0;
    return a.walk.vectorise(wide, base, size)
               ? walk_launch<prelu_element<T, wide>, true>(a, args, err)
               : walk_launch<prelu_element<T, 1>, true>(a, args, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(prelu_dgrad_cuda_vec) = {
    .supports = supports_gradients,
    .launch = launch,
};
