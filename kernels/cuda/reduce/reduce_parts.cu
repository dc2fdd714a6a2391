/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums, means and L1 and L2 norms over many elements for few outputs, as the
 * norm of all gradients and the gradient of a bias are: x is dense, and either
 * everything is reduced or everything but its innermost dimension in memory, or
 * but its innermost and its outermost (images).
 *
 * First pass: an image is rows of C columns; a block of 256 threads takes
 * COLUMNS vectors of V columns by 256 / COLUMNS rows at a time, walks its part
 * of the rows of image blockIdx.z, joins its rows in shared memory (V floats a
 * thread: 8 KiB at most) and writes parts[image][part][C] to the workspace.  A
 * tensor of which all is reduced is n / V rows of V columns, which the second
 * pass adds as well. Second pass: one warp an output adds the parts in a fixed
 * order.
 */
#include <stdlib.h>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/warp.cuh"

#define THREADS   256
#define MAX_PARTS 528 /* four blocks a multiprocessor of the largest GPUs */

struct parts_args {
    int64_t rows, rows_per_part; /* of an image */
    int columns, block_columns, parts;
    int joined; /* columns that one output joins: 1, or all */
    enum kern_reduce_kind kind;
    enum infer_dtype y_type, r_type; /* r_type NONE: no residual */
    int64_t y_step, r_step, y_image, r_image;
    int images;
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
    const T *image = (const T *)a.x + blockIdx.z * a.rows * a.columns;
    float sum[V];

    launch_wait();
#pragma unroll
    for (int j = 0; j < V; j++)
        sum[j] = 0;
    if (c < a.columns) {
#pragma unroll 4
        for (int64_t i = first + row; i < last; i += rows) {
            const vec<T, V> x = load_vec<T, V>(image + i * a.columns + c);
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
        a.part[((size_t)blockIdx.z * a.parts + blockIdx.y) * a.columns + c +
               j] = joined[j][threadIdx.x];
}

static __global__ void __launch_bounds__(THREADS)
    join_kernel(const __grid_constant__ struct parts_args a)
{
    const int64_t number =
        blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
    const int outputs = a.columns / a.joined;
    const int64_t image = number / outputs;
    const int o = (int)(number % outputs);
    /* Where all is reduced, all columns are joined: the parts as they lie. */
    const size_t step_of_part = a.joined > 1 ? 1 : (size_t)a.columns;
    float sum = 0;

    launch_wait();
    if (image >= a.images)
        return;
    const float *part = a.part + (size_t)image * a.parts * a.columns + o;
#pragma unroll 8
    for (int i = threadIdx.x % 32; i < a.parts * a.joined; i += 32)
        sum += part[i * step_of_part];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 != 0)
        return;
    sum = a.kind == KERN_REDUCE_L2 ? sqrtf(sum) : sum * a.factor;
    if (a.r_type != INFER_NONE)
        sum += (float)load_any(a.r_type, a.r, image * a.r_image + o * a.r_step);
    store_any(a.y_type, a.y, image * a.y_image + o * a.y_step, (double)sum);
}

/* ---- shape --------------------------------------------------------- */

struct parts_state {
    int multiprocessors;
};

/* The dimensions that stay, -1 where there is none: the innermost in memory and
 * the outermost. */
struct kept {
    int inner, outer;
    int64_t columns, images;
};

/* False where the problem has another form. */
static bool read_kept(const struct kern_problem *p, struct kept *k)
{
    const struct kern_tensor *x = &p->in[0];

    k->inner = k->outer = -1;
    k->columns = k->images = 1;
    for (int i = 0; i < x->rank; i++) {
        if (x->dim[i] == 1 || p->attr.reduce.axes >> i & 1)
            continue;
        if (x->stride[i] == 1) {
            k->inner = i;
            k->columns = x->dim[i];
        } else if (k->outer < 0 &&
                   x->stride[i] * x->dim[i] == kern_tensor_count(x)) {
            k->outer = i;
            k->images = x->dim[i];
        } else {
            return false;
        }
    }
    return k->outer < 0 || k->inner >= 0;
}

/* Parts of an image, at most. */
static int64_t most_parts(int64_t images)
{
    return images < MAX_PARTS ? MAX_PARTS / images : 1;
}

/* Fills all that follows from the shape and the width of a vector. */
static void fill(struct parts_args *a, int64_t count, const struct kept *k,
                 int v, int multiprocessors)
{
    a->images = (int)k->images;
    a->columns = k->inner < 0 ? v : (int)k->columns;
    a->joined = k->inner < 0 ? v : 1;
    a->rows = count / k->images / a->columns;
    a->block_columns = 1;
    while (a->block_columns < a->columns / v && a->block_columns < 32)
        a->block_columns *= 2;
    const int64_t tiles =
        (a->columns / v + a->block_columns - 1) / a->block_columns;
    const int64_t rows = THREADS / a->block_columns;
    int64_t parts = 4 * (int64_t)multiprocessors / tiles / k->images;
    if (parts > (a->rows + 4 * rows - 1) / (4 * rows))
        parts = (a->rows + 4 * rows - 1) / (4 * rows);
    if (parts > most_parts(k->images))
        parts = most_parts(k->images);
    if (parts < 1)
        parts = 1;
    a->rows_per_part = (a->rows + parts - 1) / parts;
    a->parts = (int)((a->rows + a->rows_per_part - 1) / a->rows_per_part);
}

template <typename T, int V>
static int run_vectors(struct parts_args *a, const struct kept *k,
                       const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    fill(a, kern_tensor_count(&e->problem.in[0]), k, V,
         ((const struct parts_state *)e->state)->multiprocessors);
    const dim3 grid(cuda_blocks(a->columns / V, a->block_columns), a->parts,
                    a->images);
    const int64_t outputs = (int64_t)a->images * (a->columns / a->joined);
    const int r = launch_chained(part_kernel<T, V>, grid, THREADS, 0,
                                 args->stream, *a, err);
    return r < 0
               ? r
               : launch_chained(join_kernel, cuda_blocks(outputs, THREADS / 32),
                                THREADS, 0, args->stream, *a, err);
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *y = &p->out[0], *r = kern_problem_in(p, 1);
    const int wide = 16 / (int)sizeof(T);
    const int64_t count = kern_tensor_count(&p->in[0]);
    struct parts_args a = {};
    struct kept k;

    (void)read_kept(p, &k);
    const int64_t inner = k.inner < 0 ? count : k.columns;
    a.kind = p->attr.reduce.kind;
    a.y_type = y->dtype;
    a.y_step = k.inner < 0 ? 0 : y->stride[k.inner];
    a.y_image = k.outer < 0 ? 0 : y->stride[k.outer];
    a.r_type = r ? r->dtype : INFER_NONE;
    a.r_step = k.inner < 0 || !r ? 0 : r->stride[k.inner];
    a.r_image = k.outer < 0 || !r ? 0 : r->stride[k.outer];
    a.factor = a.kind == KERN_REDUCE_MEAN
                   ? (float)((double)(k.columns * k.images) / (double)count)
                   : 1;
    a.x = args->in[0];
    a.r = args->in[1];
    a.y = args->out[0];
    a.part = (float *)args->workspace;
    if (inner % wide == 0 && (uintptr_t)a.x % 16 == 0)
        return run_vectors<T, wide>(&a, &k, e, args, err);
    return run_vectors<T, 1>(&a, &k, e, args, err);
}

/* ---- rows ---------------------------------------------------------- */

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *x = &p->in[0];
    const enum kern_reduce_kind kind = p->attr.reduce.kind;
    struct kept k;

    (void)d;
    if (!cuda_is_real(x->dtype) || !cuda_is_real(p->out[0].dtype) ||
        (kern_problem_in(p, 1) && !cuda_is_real(p->in[1].dtype)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: takes F32, F16 and BF16");
    if (kind != KERN_REDUCE_SUM && kind != KERN_REDUCE_MEAN &&
        kind != KERN_REDUCE_L1 && kind != KERN_REDUCE_L2)
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: does sums, means and norms");
    if ((!kern_tensor_is_dense(x, KERN_NHWC) &&
         !kern_tensor_is_dense(x, KERN_NCHW)) ||
        !read_kept(p, &k))
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: takes a dense input of which all, or all but "
                         "the innermost and the outermost dimension, is "
                         "reduced");
    if (kern_tensor_count(x) == 0 || k.columns > 1 << 24 || k.images > 65535)
        return error_set(why, INFER_EUNSUPPORTED,
                         "reduce: has no elements, 2^24 columns or 2^16 "
                         "images");
    return 0;
}

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct parts_state *s = (struct parts_state *)malloc(sizeof *s);
    struct kept k;

    if (!s)
        return error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);
    s->multiprocessors = d->multiprocessors > 0 ? d->multiprocessors : 64;
    e->state = s;
    (void)read_kept(&e->problem, &k);
    const size_t columns = k.inner < 0 ? 8 : (size_t)k.columns;
    e->workspace =
        (size_t)(k.images * most_parts(k.images)) * columns * sizeof(float);
    return 0;
}

CUDA_LAUNCH(launch, run, e)

KERN_FUNCTIONS(reduce_cuda_parts) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = cuda_state_release,
};
