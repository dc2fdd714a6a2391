/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of one element to a whole dense tensor.  One thread stores 16 bytes at
 * a time, in a loop over the grid; the first threads store what is left behind
 * the last vector.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256

struct fill_args {
    int64_t count;
    enum infer_dtype from;
    const void *x;
    void *y;
};

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    fill_kernel(const __grid_constant__ struct fill_args a)
{
    constexpr int V = 16 / (int)sizeof(T);
    const int64_t first = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const int64_t vectors = a.count / V;
    vec<T, V> all;

    launch_wait();
    const T value = from_float<T>((float)load_any(a.from, a.x, 0));
#pragma unroll
    for (int j = 0; j < V; j++)
        all.at[j] = value;
    for (int64_t i = first; i < vectors; i += (int64_t)gridDim.x * THREADS)
        store_vec<T, V>((T *)a.y + i * V, all);
    if (first < a.count - vectors * V)
        ((T *)a.y)[vectors * V + first] = value;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    bool one = cuda_is_real(x->dtype) && cuda_is_real(y->dtype) &&
               kern_tensor_count(y) > 0 &&
               (kern_tensor_is_dense(y, KERN_NCHW) ||
                kern_tensor_is_dense(y, KERN_NHWC));

    (void)d;
    for (int i = 0; one && i < x->rank; i++)
        one = x->dim[i] == 1 || x->stride[i] == 0;
    if (one)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "copies one F32, F16 or BF16 element to a dense tensor");
}

template <typename T>
static int run(const struct fill_args *a, void *stream, struct infer_error *err)
{
    const int64_t vectors = a->count * (int64_t)sizeof(T) / 16 + 1;

    return launch_chained(fill_kernel<T>, dim3(cuda_grid(vectors, THREADS)),
                          THREADS, 0, stream, *a, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    struct fill_args a = {};

    a.count = kern_tensor_count(&e->problem.out[0]);
    a.from = e->problem.in[0].dtype;
    a.x = args->in[0];
    a.y = args->out[0];
    return CUDA_DISPATCH(e->problem.out[0].dtype, run, &a, args->stream, err);
}

/* Rows that are not flagged strided get aligned tensors. */
const struct kern_functions copy_cuda_fill = {
    .supports = supports,
    .launch = launch,
};
