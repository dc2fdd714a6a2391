/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between any strides and data types.
 *
 * One thread an element of the output in row-major order, in a loop over the
 * grid.  No shared memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/walk.cuh"

#define THREADS 256

struct copy_args {
    struct cuda_walk<2> walk;
    enum infer_dtype from, to;
    const void *x;
    void *y;
};

static __device__ int64_t load_i64(enum infer_dtype t, const void *p, int64_t i)
{
    switch (t) {
    case INFER_I64:
    case INFER_U64:
        return ((const int64_t *)p)[i];
    default:
        return (int64_t)load_any(t, p, i);
    }
}

/* Integers to integers: exact beyond the 53 bits of a double. */
static __device__ void convert_integer(const struct copy_args &a, int64_t from,
                                       int64_t to)
{
    const int64_t v = load_i64(a.from, a.x, from);

    if (a.to == INFER_I64)
        ((int64_t *)a.y)[to] = a.from == INFER_U64 && v < 0 ? INT64_MAX : v;
    else if (a.to == INFER_U64)
        ((int64_t *)a.y)[to] = a.from == INFER_I64 && v < 0 ? 0 : v;
    else if (a.from == INFER_U64 && v < 0)
        store_any(a.to, a.y, to, 18446744073709551615.0);
    else
        store_any(a.to, a.y, to, (double)v);
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    move_kernel(const __grid_constant__ struct copy_args a)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * THREADS) {
        int64_t at[2];
        a.walk.offsets(i, at);
        ((T *)a.y)[at[1]] = ((const T *)a.x)[at[0]];
    }
}

static __global__ void __launch_bounds__(THREADS)
    convert_kernel(const __grid_constant__ struct copy_args a, bool integers)
{
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
         i < a.walk.count; i += (int64_t)gridDim.x * THREADS) {
        int64_t at[2];
        a.walk.offsets(i, at);
        if (integers)
            convert_integer(a, at[0], at[1]);
        else
            store_any(a.to, a.y, at[1], load_any(a.from, a.x, at[0]));
    }
}

static bool is_integer(enum infer_dtype t)
{
    return t >= INFER_I64;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)p;
    (void)d;
    (void)why;
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *const t[2] = {&p->in[0], &p->out[0]};
    struct copy_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.from = p->in[0].dtype;
    a.to = p->out[0].dtype;
    a.x = args->in[0];
    a.y = args->out[0];
    if (a.walk.count == 0)
        return 0;
    const unsigned blocks = cuda_grid(a.walk.count, THREADS);
    const cudaStream_t s = cuda_stream(args);
    if (a.from != a.to)
        convert_kernel<<<blocks, THREADS, 0, s>>>(a, is_integer(a.from) &&
                                                         is_integer(a.to));
    else if (infer_dtype_size(a.to) == 8)
        move_kernel<uint64_t><<<blocks, THREADS, 0, s>>>(a);
    else if (infer_dtype_size(a.to) == 4)
        move_kernel<uint32_t><<<blocks, THREADS, 0, s>>>(a);
    else if (infer_dtype_size(a.to) == 2)
        move_kernel<uint16_t><<<blocks, THREADS, 0, s>>>(a);
    else
        move_kernel<uint8_t><<<blocks, THREADS, 0, s>>>(a);
    return CUDA_LAUNCHED(err);
}

bool cuda_has_code(void)
{
    struct cudaFuncAttributes a;
    const cudaError_t code = cudaFuncGetAttributes(
        &a, reinterpret_cast<const void *>(move_kernel<uint32_t>));

    (void)cudaGetLastError();
    return code == cudaSuccess;
}

const struct kern_row copy_cuda_strided = {
    .name = "copy_cuda_strided",
    .op = KERN_COPY,
    .backend = INFER_BACKEND_CUDA,
    .layout = KERN_NHWC,
    .dtype = INFER_NONE,
    .acc = INFER_F32,
    .min_sm = 75,
    .flags = KERN_STRIDED,
    .supports = supports,
    .launch = launch,
};
