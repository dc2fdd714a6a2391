/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of few elements for many outputs, as the sum over the groups of
 * channels of a split-attention block is: one thread computes V neighbouring
 * outputs and walks what they reduce.  V fills 16 bytes where the innermost
 * dimension stays and all tensors lie so that they can be moved as one, else it
 * is 1.  No shared memory.
 */
#include "kernels/cuda/reduce/reduce.cuh"

#define THREADS 256

/* Elements of an output, at most: neighbours in memory are read by one thread
 * one after the other where the innermost dimension is reduced. */
#define MOST       64
#define MOST_INNER 16
/* Outputs, at least: fewer leave multiprocessors without work. */
#define LEAST_OUTPUTS (1 << 12)

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    few_kernel(const __grid_constant__ struct reduce_args a)
{
    launch_wait();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
         i < a.kept.count; i += (int64_t)gridDim.x * THREADS) {
        int64_t at[3], step[1];
        float acc[V], x[V];

        a.kept.offsets(i, at);
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[j] = reduce_start(a.kind);
        for (int64_t k = 0; k < a.gone.count; k++) {
            a.gone.offsets(k, step);
            load_floats<T, V>((const T *)a.x + at[2] + step[0], x);
#pragma unroll
            for (int j = 0; j < V; j++)
                acc[j] = reduce_join(a.kind, acc[j], reduce_term(a.kind, x[j]));
        }
#pragma unroll
        for (int j = 0; j < V; j++)
            acc[j] = reduce_end(a.kind, acc[j], a.gone.count);
        if (a.residual) {
            load_floats<T, V>((const T *)a.residual + at[1], x);
#pragma unroll
            for (int j = 0; j < V; j++)
                acc[j] += x[j];
        }
        store_floats<T, V>((T *)a.y + at[0], acc);
    }
}

/* Makes the walks ones of vectors where all tensors allow. */
static bool in_vectors(struct reduce_args *a, int v, size_t size)
{
    const void *const base[3] = {a->y, a->residual, a->x};
    const size_t sizes[3] = {size, size, size};

    if (!a->inner_kept || a->kept.rank == 0 ||
        a->kept.stride[0][a->kept.rank - 1] != 1 ||
        (a->residual && a->kept.stride[1][a->kept.rank - 1] != 1))
        return false;
    for (int d = 0; d < a->gone.rank; d++)
        if (a->gone.stride[0][d] % v != 0)
            return false;
    return a->kept.vectorise(v, base, sizes);
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const int wide = 16 / (int)sizeof(T);
    struct reduce_args a = {};

    reduce_walks(&a, p);
    a.x = args->in[0];
    a.residual = args->in[1];
    a.y = args->out[0];
    if (a.kept.count == 0)
        return 0;
    const bool vectors = in_vectors(&a, wide, sizeof(T));
    return launch_chained(vectors ? few_kernel<T, wide> : few_kernel<T, 1>,
                          cuda_grid(a.kept.count, THREADS), THREADS, 0,
                          args->stream, a, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    struct reduce_args a = {};
    const int r = check_types(p, 1, 0, why);

    (void)d;
    if (r < 0)
        return r;
    reduce_walks(&a, p);
    if (a.gone.count <= (a.inner_kept ? MOST : MOST_INNER) &&
        a.kept.count >= LEAST_OUTPUTS)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "reduce: takes at most %d elements of each of at least %d "
                     "outputs",
                     a.inner_kept ? MOST : MOST_INNER, LEAST_OUTPUTS);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(reduce_cuda_few) = {
    .supports = supports,
    .launch = launch,
};
