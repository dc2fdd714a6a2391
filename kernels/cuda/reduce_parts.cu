/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums, means and L1 and L2 norms over many elements for few outputs, as the
 * norm of all gradients and the gradient of a bias are: x is dense, and either
 * everything is reduced or everything but its innermost dimension in memory.
 *
 * First pass: x is rows of C columns; a block of 256 threads takes COLUMNS
 * vectors of V columns by 256 / COLUMNS rows at a time, walks its part of the
 * rows, joins its rows in shared memory (V floats a thread: 8 KiB at most) and
 * writes parts[part][C] to the workspace.  A tensor of which all is reduced is
 * n / V rows of V columns, which the second pass adds as well.
 * Second pass: one warp an output adds the parts in a fixed order.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows.cuh"

#define THREADS   256
#define MAX_PARTS 528 /* four blocks a multiprocessor of the largest GPUs */

struct parts_args {
    int64_t rows, rows_per_part;
    int columns, block_columns, parts;
    int joined; /* columns that one output joins: 1, or all */
    enum kern_reduce_kind kind;
    enum infer_dtype y_type, r_type; /* r_type NONE: no residual */
    int64_t y_step, r_step;
    float factor; /* of a mean */
    const void *x, *r;
    void *y;
    float *part;
};

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    part_kernel(const __grid_constant__ struct parts_args a)
{
    __shared__ float joined[V][THREADS];
    const int column = threadIdx.x % a.block_columns;
    const int row = threadIdx.x / a.block_columns;
    const int rows = THREADS / a.block_columns;
    const int c = (int)(blockIdx.x * a.block_columns + column) * V;
    const int64_t first = blockIdx.y * a.rows_per_part;
    const int64_t last = min(first + a.rows_per_part, a.rows);
    float sum[V];

    launch_wait();
#pragma unroll
    for (int j = 0; j < V; j++)
        sum[j] = 0;
    if (c < a.columns) {
#pragma unroll 4
        for (int64_t i = first + row; i < last; i += rows) {
            const vec<T, V> x =
                load_vec<T, V>((const T *)a.x + i * a.columns + c);
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float v = to_float(x.at[j]);
                sum[j] += a.kind == KERN_REDUCE_L2   ? v * v
                          : a.kind == KERN_REDUCE_L1 ? fabsf(v)
                                                     : v;
            }
        }
    }
#pragma unroll
    for (int j = 0; j < V; j++)
        joined[j][threadIdx.x] = sum[j];
    for (int half = rows / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row < half) {
#pragma unroll
            for (int j = 0; j < V; j++)
                joined[j][threadIdx.x] +=
                    joined[j][threadIdx.x + half * a.block_columns];
        }
    }
    if (row != 0 || c >= a.columns)
        return;
#pragma unroll
    for (int j = 0; j < V; j++)
        a.part[(size_t)blockIdx.y * a.columns + c + j] = joined[j][threadIdx.x];
}

static __global__ void __launch_bounds__(THREADS)
    join_kernel(const __grid_constant__ struct parts_args a)
{
    const int o = (int)(blockIdx.x * (THREADS / 32) + threadIdx.x / 32);
    const int outputs = a.columns / a.joined;
    /* Where all is reduced, all columns are joined: the parts as they lie. */
    const size_t step_of_part = a.joined > 1 ? 1 : (size_t)a.columns;
    float sum = 0;

    launch_wait();
    if (o >= outputs)
        return;
#pragma unroll 8
    for (int i = threadIdx.x % 32; i < a.parts * a.joined; i += 32)
        sum += a.part[i * step_of_part + o];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 != 0)
        return;
    sum = a.kind == KERN_REDUCE_L2 ? sqrtf(sum) : sum * a.factor;
    if (a.r_type != INFER_NONE)
        sum += (float)load_any(a.r_type, a.r, o * a.r_step);
    store_any(a.y_type, a.y, o * a.y_step, (double)sum);
}

/* ---- shape --------------------------------------------------------- */

/* The dimension that stays: its index, -1 where all go, -2 where the problem
 * has another form. */
static int kept_dimension(const struct kern_problem *p)
{
    const struct kern_tensor *x = &p->in[0];
    int kept = -1;

    for (int i = 0; i < x->rank; i++)
        if (x->dim[i] != 1 && !(p->attr.reduce.axes >> i & 1)) {
            if (kept >= 0)
                return -2;
            kept = i;
        }
    return kept < 0 || x->stride[kept] == 1 ? kept : -2;
}

/* Fills all that follows from the problem and the width of a vector. */
static void fill(struct parts_args *a, const struct kern_problem *p, int v,
                 int multiprocessors)
{
    const int64_t count = kern_tensor_count(&p->in[0]);
    const int kept = kept_dimension(p);

    a->columns = kept < 0 ? v : (int)p->in[0].dim[kept];
    a->joined = kept < 0 ? v : 1;
    a->rows = count / a->columns;
    a->block_columns = 1;
    while (a->block_columns < a->columns / v && a->block_columns < 32)
        a->block_columns *= 2;
    const int64_t tiles =
        (a->columns / v + a->block_columns - 1) / a->block_columns;
    const int64_t rows = THREADS / a->block_columns;
    int64_t parts = 4 * (int64_t)multiprocessors / tiles;
    if (parts > (a->rows + 4 * rows - 1) / (4 * rows))
        parts = (a->rows + 4 * rows - 1) / (4 * rows);
    if (parts > MAX_PARTS)
        parts = MAX_PARTS;
    if (parts < 1)
        parts = 1;
    a->rows_per_part = (a->rows + parts - 1) / parts;
    a->parts = (int)((a->rows + a->rows_per_part - 1) / a->rows_per_part);
}

template <typename T, int V>
static int run_vectors(struct parts_args *a, const struct kern_exec *e,
                       const struct kern_args *args, struct infer_error *err)
{
    fill(a, &e->problem, V, (int)(intptr_t)e->state);
    const dim3 grid(cuda_blocks(a->columns / V, a->block_columns), a->parts);
    const int r = launch_chained(part_kernel<T, V>, grid, dim3(THREADS), 0,
                                 args->stream, *a, err);
    return r < 0 ? r
                 : launch_chained(
                       join_kernel,
                       dim3(cuda_blocks(a->columns / a->joined, THREADS / 32)),
                       dim3(THREADS), 0, args->stream, *a, err);
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0], *r = kern_problem_in(p, 1);
    const int wide = 16 / (int)sizeof(T), kept = kept_dimension(p);
    const int64_t count = kern_tensor_count(&p->in[0]);
    const int64_t inner = kept < 0 ? count : p->in[0].dim[kept];
    struct parts_args a = {};

    a.kind = p->attr.reduce.kind;
    a.y_type = y->dtype;
    a.y_step = kept < 0 ? 0 : y->stride[kept];
    a.r_type = r ? r->dtype : INFER_NONE;
    a.r_step = kept < 0 || !r ? 0 : r->stride[kept];
    a.factor = a.kind == KERN_REDUCE_MEAN
                   ? (float)((double)(kept < 0 ? 1 : inner) / (double)count)
                   : 1;
    a.x = args->in[0];
    a.r = args->in[1];
    a.y = args->out[0];
    a.part = (float *)args->workspace;
    if (inner % wide == 0 && (uintptr_t)a.x % 16 == 0)
        return run_vectors<T, wide>(&a, e, args, err);
    return run_vectors<T, 1>(&a, e, args, err);
}

/* ---- rows ---------------------------------------------------------- */

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0];
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    const int kept = kept_dimension(p);

    (void)d;
    if (!cuda_is_real(x->dtype) || !cuda_is_real(p->out[0].dtype) ||
        (kern_problem_in(p, 1) && !cuda_is_real(p->in[1].dtype)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: takes F32, F16 and BF16");
    if (kind != KERN_REDUCE_SUM && kind != KERN_REDUCE_MEAN &&
        kind != KERN_REDUCE_L1 && kind != KERN_REDUCE_L2)
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: does sums, means and norms");
    if (kept == -2 || (!kern_tensor_is_dense(x, KERN_NHWC) &&
                       !kern_tensor_is_dense(x, KERN_NCHW)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: takes a dense input of which all, or all but "
                         "the innermost dimension, is reduced");
    if (kern_tensor_count(x) == 0 || (kept >= 0 && x->dim[kept] > 1 << 24))
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: has no elements, or 2^24 outputs");
    return 0;
}

/* The state is the number of multiprocessors, which nobody has to free. */
static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    const int kept = kept_dimension(&e->problem);
    const size_t columns = kept < 0 ? 8 : (size_t)e->problem.in[0].dim[kept];

    (void)err;
    e->workspace = MAX_PARTS * columns * sizeof(float);
    e->state =
        (void *)(intptr_t)(d->multiprocessors > 0 ? d->multiprocessors : 64);
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return CUDA_DISPATCH(e->problem.in[0].dtype, run, e, args, err);
}

CUDA_PREPARED_ROWS(reduce, parts, KERN_REDUCE, supports, prepare, launch)
