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

enum { DY, FROM, RESIDUAL, DX };

struct unary_grad_args {
    struct cuda_strided<4> walk;
    struct kern_unary f;
    bool from_output;
    const void *dy, *from, *residual; /* NULL: none */
    void *dx;
};

template <typename T, int V>
static __device__ __forceinline__ void
unary_grad_element(const struct unary_grad_args &a, const int64_t *at)
{
    vec<T, V> r = {}, y;
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
    return !spread && a.walk.vectorise(wide, base, size)
               ? walk_launch<unary_grad_element<T, wide>>(a, args, err)
               : walk_launch<unary_grad_element<T, 1>>(a, args, err);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(unary_dgrad_cuda_vec) = {
    .supports = supports_types<>,
    .launch = launch,
};
