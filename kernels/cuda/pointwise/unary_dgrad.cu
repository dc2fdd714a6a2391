/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of functions of one argument: dx = dy f' + residual.
 *
 * One thread V neighbours of dx, 16 bytes where all tensors lie so, else one
 * element; the grid loops.
 */
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/derivative.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256

enum { DY, FROM, RESIDUAL, DX };

struct unary_grad_args {
    struct cuda_strided<4> walk;
    struct kern_unary f;
    bool from_output;
    const void *dy, *from, *residual; /* NULL: none */
    void *dx;
};

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    unary_grad_kernel(const __grid_constant__ struct unary_grad_args a)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * THREADS) {
        int64_t at[4];
        vec<T, V> r = {}, y;
        a.walk.offsets(i, at);
        const vec<T, V> dy = load_vec<T, V>((const T *)a.dy + at[DY]);
        const vec<T, V> from = load_vec<T, V>((const T *)a.from + at[FROM]);
        if (a.residual)
            r = load_vec<T, V>((const T *)a.residual + at[RESIDUAL]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float v = to_float(from.at[j]);
            const float s = a.from_output ? unary_derivative_from_output(a.f, v)
                                          : unary_derivative(a.f, v);
            float g = to_float(dy.at[j]) * s;
            if (a.residual)
                g += to_float(r.at[j]);
            y.at[j] = from_float<T>(g);
        }
        store_vec<T, V>((T *)a.dx + at[DX], y);
    }
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_tensor *x = kern_problem_in(p, 1);
    const struct kern_tensor *const t[4] = {&p->in[0], x ? x : &p->in[2],
                                            kern_problem_in(p, 3), &p->out[0]};
    const void *const base[4] = {args->in[0], x ? args->in[1] : args->in[2],
                                 args->in[3], args->out[0]};
    const size_t size[4] = {sizeof(T), sizeof(T), sizeof(T), sizeof(T)};
    const int wide = 16 / (int)sizeof(T);
    struct unary_grad_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    if (a.walk.count == 0)
        return 0;
    a.f = p->attr.unary;
    a.from_output = !x;
    a.dy = base[DY];
    a.from = base[FROM];
    a.residual = t[RESIDUAL] ? base[RESIDUAL] : NULL;
    a.dx = args->out[0];
    /* A tensor that is spread along the innermost dimension has no vectors. */
    bool spread = false;
    for (int k = 0; k < 4 && a.walk.rank > 0; k++)
        spread = spread || (t[k] && a.walk.broadcasts(k));
    if (!spread && a.walk.vectorise(wide, base, size))
        unary_grad_kernel<T, wide><<<cuda_grid(a.walk.count, THREADS), THREADS,
                                     0, cuda_stream(args)>>>(a);
    else
        unary_grad_kernel<T, 1><<<cuda_grid(a.walk.count, THREADS), THREADS, 0,
                                  cuda_stream(args)>>>(a);
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

const struct kern_functions unary_dgrad_cuda_vec = {
    .supports = supports,
    .launch = launch,
};
