/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element by element over up to seven strided tensors.
 *
 * One thread handles V neighbours of the output at a time, the most up to 16
 * bytes that lie in all tensors so that they can be moved as one, in a loop
 * over the grid.  No shared memory.
 *
 * A function is a struct on top of pointwise_function, with apply(a, x) on one
 * element of each input.
 */
#ifndef KERNELS_CUDA_POINTWISE_POINTWISE_CUH
#define KERNELS_CUDA_POINTWISE_POINTWISE_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

#define POINTWISE_THREADS 256

template <int N> struct pointwise {
    struct cuda_strided<N + 1> walk; /* the inputs, then the output */
    const void *in[N];
    enum infer_dtype type[N]; /* INFER_NONE: absent */
    void *out;
    struct kern_epilogue epilogue;
    union {
        struct kern_unary unary;
        enum kern_binary_kind binary;
        float epsilon;
    } f;
};

/* A function of INPUTS tensors: the value of an absent input k, and what it
 * takes from the problem besides the tensors and the epilogue. */
template <int INPUTS> struct pointwise_function {
    static const int N = INPUTS;
    static __device__ __forceinline__ float neutral(int)
    {
        return 0;
    }
    static void set(struct pointwise<N> *, const struct kern_problem *)
    {
    }
};

/* V elements from one address, of the kernel's type or, rarely, another. */
template <typename T, int V>
static __device__ __forceinline__ void load_operand(const void *p, int64_t at,
                                                    enum infer_dtype type,
                                                    bool spreads, float *out)
{
    if (V == 1 || spreads) {
        const float v = load_as<T>(type, p, at);
#pragma unroll
        for (int j = 0; j < V; j++)
            out[j] = v;
    } else if (type == dtype_of<T>::value) {
        const vec<T, V> v = load_vec<T, V>((const T *)p + at);
#pragma unroll
        for (int j = 0; j < V; j++)
            out[j] = to_float(v.at[j]);
    } else { /* only F32 comes here: vectorise() saw its alignment */
        enum { W = V < 4 ? V : 4 };
#pragma unroll
        for (int j = 0; j < V; j += W)
            load_floats<float, W>((const float *)p + at + j, out + j);
    }
}

template <class F, typename T, typename Out, int V>
static __global__ void __launch_bounds__(POINTWISE_THREADS)
    pointwise_kernel(const __grid_constant__ struct pointwise<F::N> a)
{
    launch_wait();
    for (int64_t i = blockIdx.x * (int64_t)POINTWISE_THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * POINTWISE_THREADS) {
        int64_t at[F::N + 1];
        float x[F::N][V];
        vec<Out, V> y;

        a.walk.offsets(i, at);
#pragma unroll
        for (int k = 0; k < F::N; k++) {
            if (a.type[k] == INFER_NONE) {
#pragma unroll
                for (int j = 0; j < V; j++)
                    x[k][j] = F::neutral(k);
            } else {
                load_operand<T, V>(a.in[k], at[k], a.type[k],
                                   V > 1 && a.walk.broadcasts(k), x[k]);
            }
        }
#pragma unroll
        for (int j = 0; j < V; j++) {
            float e[F::N];
#pragma unroll
            for (int k = 0; k < F::N; k++)
                e[k] = x[k][j];
            y.at[j] = from_float<Out>(F::apply(a, e));
        }
        store_vec<Out, V>((Out *)a.out + at[F::N], y);
    }
}

/* Sets everything but f from the problem, whose inputs are those of F; the
 * vectors from..to lie along dimension 1. */
template <class F>
static void pointwise_init(struct pointwise<F::N> *a,
                           const struct kern_problem *p,
                           const struct kern_args *args, int from, int to)
{
    const struct kern_tensor *t[F::N + 1];
    struct kern_tensor vector[F::N];
    const struct kern_tensor *y = &p->out[0];

    for (int k = 0; k < F::N; k++) {
        t[k] = kern_problem_in(p, k);
        a->in[k] = args->in[k];
        a->type[k] = t[k] ? t[k]->dtype : INFER_NONE;
        if (!t[k] || k < from || k > to)
            continue;
        /* Size 1 in every dimension but the channels'. */
        vector[k] = *y;
        for (int d = 0; d < y->rank; d++)
            vector[k].dim[d] = d == 1 ? y->dim[d] : 1;
        vector[k].stride[1] = t[k]->stride[0];
        t[k] = &vector[k];
    }
    t[F::N] = y;
    a->out = args->out[0];
    a->epilogue = p->epilogue;
    a->walk.init(y->rank, y->dim, t);
}

/* Makes the walk one of vectors where all tensors allow.  Returns the elements
 * of a vector. */
template <class F, typename T, typename Out>
static int pointwise_vectors(struct pointwise<F::N> *a)
{
    const int wide = sizeof(T) == sizeof(Out) ? 16 / sizeof(T) : 1;
    const void *at[F::N + 1];
    size_t size[F::N + 1];

    for (int k = 0; k < F::N; k++) {
        at[k] = a->in[k];
        size[k] = infer_dtype_size(a->type[k]);
    }
    at[F::N] = a->out;
    size[F::N] = sizeof(Out);
    /* Whole vectors are of T or F32; anything else goes one by one. */
    bool plain = true;
    for (int k = 0; k < F::N; k++)
        plain = plain && (a->type[k] == INFER_NONE || a->type[k] == INFER_F32 ||
                          a->type[k] == dtype_of<T>::value);
    if (!plain || a->walk.count == 0)
        return 1;
    for (int v = wide; v > 1; v /= 2)
        if (a->walk.vectorise(v, at, size))
            return v;
    return 1;
}

/* v: of pointwise_vectors(). */
template <class F, typename T, typename Out>
static int pointwise_start(const struct pointwise<F::N> *a, int v,
                           const struct kern_args *args,
                           struct infer_error *err)
{
    constexpr int wide = sizeof(T) == sizeof(Out) ? 16 / sizeof(T) : 1;
    constexpr int half = wide > 2 ? wide / 2 : wide;
    constexpr int few = wide > 1 ? 2 : 1;

    if (a->walk.count == 0)
        return 0;
    return launch_chained(v == 1      ? pointwise_kernel<F, T, Out, 1>
                          : v == wide ? pointwise_kernel<F, T, Out, wide>
                          : v == 2    ? pointwise_kernel<F, T, Out, few>
                                      : pointwise_kernel<F, T, Out, half>,
                          cuda_grid(a->walk.count, POINTWISE_THREADS),
                          dim3(POINTWISE_THREADS), 0, args->stream, *a, err);
}

template <class F, typename T, typename Out>
static int pointwise_run(struct pointwise<F::N> *a,
                         const struct kern_args *args, struct infer_error *err)
{
    const int v = pointwise_vectors<F, T, Out>(a);

    return pointwise_start<F, T, Out>(a, v, args, err);
}

template <class F, int FROM, int TO, typename T>
static int pointwise_problem(const struct kern_problem *p,
                             const struct kern_args *args,
                             struct infer_error *err)
{
    struct pointwise<F::N> a = {
    };

    pointwise_init<F>(&a, p, args, FROM, TO);
    F::set(&a, p);
    return pointwise_run<F, T, T>(&a, args, err);
}

/* launch() of a row; the vectors FROM..TO lie along dimension 1. */
template <class F, int FROM = 1, int TO = 0>
static int pointwise_launch(const struct kern_exec *e,
                            const struct kern_args *args,
                            struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const enum infer_dtype t = p->in[0].dtype;

    return t == INFER_F16 ? pointwise_problem<F, FROM, TO, __half>(p, args, err)
           : t == INFER_BF16
               ? pointwise_problem<F, FROM, TO, __nv_bfloat16>(p, args, err)
               : pointwise_problem<F, FROM, TO, float>(p, args, err);
}

#endif
