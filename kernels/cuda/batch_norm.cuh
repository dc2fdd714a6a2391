/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sums a channel over all pixels of a dense channels-last tensor, as the
 * ways forwards and back of batch norm in training need them.
 *
 * First pass: a block of 256 threads takes COLUMNS vectors of V channels by
 * 256 / COLUMNS rows at a time, walks its part of the pixels, joins its rows
 * in shared memory (2 V floats a thread: 16 KiB at most) and writes two
 * numbers a channel to the workspace: parts[part][2][C].  Blocks: column tiles
 * in x, parts in y.
 * Second pass: one warp a channel adds the parts in order of lanes, then
 * across lanes in a fixed order: the same bits every time.  Where channels are
 * few and the tensor is small, the parts are so few that every block of the
 * pass that follows rather adds them up itself ("brief"): a launch less, which
 * takes longer than the work.
 */
#ifndef KERNELS_CUDA_BATCH_NORM_CUH
#define KERNELS_CUDA_BATCH_NORM_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

#define NORM_THREADS 256
/* Four blocks a multiprocessor of the largest GPUs. */
#define NORM_MAX_PARTS 528
/* Brief: sums that a block adds up, 16 a thread, and the largest part, which
 * a multiprocessor reads in half a microsecond. */
#define NORM_BRIEF_SUMS  4096
#define NORM_BRIEF_BYTES (64 << 10)
/* Two sums a channel, at least one thread each. */
#define NORM_BRIEF_CHANNELS (NORM_THREADS / 2)

/* Activations that kernels are compiled for: a call in a loop over memory, as
 * the rarer ones need it, keeps loads from overlapping. */
enum norm_act { NORM_PLAIN, NORM_RELU, NORM_ANY };

static inline enum norm_act norm_act_of(const struct kern_unary *act)
{
    if (act->kind == KERN_IDENTITY)
        return NORM_PLAIN;
    return act->kind == KERN_RELU ? NORM_RELU : NORM_ANY;
}

struct norm_shape {
    int64_t pixels;
    int channels, columns; /* columns: of a block, a power of 2 up to 32 */
    int parts;
    int64_t pixels_per_part;
    bool brief;
};

static inline struct norm_shape norm_shape_of(const struct kern_tensor *x,
                                              int v, int multiprocessors)
{
    struct norm_shape s;
    const int vectors = (int)(x->dim[1] / v);

    s.channels = (int)x->dim[1];
    s.pixels = kern_tensor_count(x) / x->dim[1];
    s.columns = 1;
    while (s.columns < vectors && s.columns < 32)
        s.columns *= 2;
    const int64_t tiles = (vectors + s.columns - 1) / s.columns;
    const int64_t rows = NORM_THREADS / s.columns;
    /* At least 4 rounds a block, so that what follows stays small. */
    int64_t parts = 4 * (int64_t)multiprocessors / tiles;
    if (parts > (s.pixels + 4 * rows - 1) / (4 * rows))
        parts = (s.pixels + 4 * rows - 1) / (4 * rows);
    if (parts > NORM_MAX_PARTS)
        parts = NORM_MAX_PARTS;
    const int64_t few = NORM_BRIEF_SUMS / (2 * s.channels);
    const int64_t bytes =
        kern_tensor_count(x) * (int64_t)infer_dtype_size(x->dtype);
    s.brief =
        s.channels <= NORM_BRIEF_CHANNELS && bytes <= few * NORM_BRIEF_BYTES;
    if (s.brief && parts > few)
        parts = few;
    if (parts < 1)
        parts = 1;
    s.pixels_per_part = (s.pixels + parts - 1) / parts;
    s.parts = (int)((s.pixels + s.pixels_per_part - 1) / s.pixels_per_part);
    return s;
}

static inline size_t norm_workspace(const struct kern_tensor *x)
{
    return (size_t)NORM_MAX_PARTS * 2 * (size_t)x->dim[1] * sizeof(float);
}

/* One block's part.  F::see(a, pixel, c, sum0, sum1) adds V channels from c of
 * a pixel. */
template <typename F, typename A, int V>
static __device__ __forceinline__ void
norm_sum_part(const A &a, const struct norm_shape &s, float *parts)
{
    __shared__ float joined[2][V][NORM_THREADS];
    const int column = threadIdx.x % s.columns, row = threadIdx.x / s.columns;
    const int rows = NORM_THREADS / s.columns;
    const int c = (int)(blockIdx.x * s.columns + column) * V;
    const int64_t first = blockIdx.y * s.pixels_per_part;
    const int64_t last = min(first + s.pixels_per_part, s.pixels);
    float sum0[V], sum1[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        sum0[j] = sum1[j] = 0;
    if (c < s.channels) {
        typename F::constants k(a, c);
#pragma unroll 4
        for (int64_t p = first + row; p < last; p += rows)
            k.see(a, p, c, sum0, sum1);
    }
#pragma unroll
    for (int j = 0; j < V; j++) {
        joined[0][j][threadIdx.x] = sum0[j];
        joined[1][j][threadIdx.x] = sum1[j];
    }
    for (int half = rows / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row < half) {
#pragma unroll
            for (int j = 0; j < V; j++)
                for (int i = 0; i < 2; i++)
                    joined[i][j][threadIdx.x] +=
                        joined[i][j][threadIdx.x + half * s.columns];
        }
    }
    if (row != 0 || c >= s.channels)
        return;
    float *to = parts + (size_t)blockIdx.y * 2 * s.channels + c;
#pragma unroll
    for (int j = 0; j < V; j++) {
        to[j] = joined[0][j][threadIdx.x];
        to[s.channels + j] = joined[1][j][threadIdx.x];
    }
}

/* Both sums of channel c, in all lanes of the warp. */
static __device__ __forceinline__ void
norm_join_parts(const struct norm_shape &s, const float *parts, int c,
                float *sum0, float *sum1)
{
    float a = 0, b = 0;

#pragma unroll 4
    for (int i = threadIdx.x % 32; i < s.parts; i += 32) {
        a += parts[(size_t)i * 2 * s.channels + c];
        b += parts[((size_t)i * 2 + 1) * s.channels + c];
    }
    for (int step = 16; step > 0; step /= 2) {
        a += __shfl_xor_sync(~0u, a, step);
        b += __shfl_xor_sync(~0u, b, step);
    }
    *sum0 = a;
    *sum1 = b;
}

/* Brief: both sums of all channels, in all threads' sight; sums[2][C]. */
static __device__ __forceinline__ void
norm_join_block(const struct norm_shape &s, const float *parts,
                float (&sums)[2 * NORM_BRIEF_CHANNELS])
{
    __shared__ float joined[NORM_THREADS];
    const int width = 2 * s.channels, rows = NORM_THREADS / width;
    const int column = threadIdx.x % width, row = threadIdx.x / width;
    float sum = 0;

    if (row < rows) {
#pragma unroll 16
        for (int i = row; i < s.parts; i += rows)
            sum += parts[(size_t)i * width + column];
    }
    joined[threadIdx.x] = sum;
    __syncthreads();
    if (row == 0) {
        for (int i = 1; i < rows; i++)
            sum += joined[i * width + column];
        sums[column] = sum;
    }
    __syncthreads();
}

/* Blocks of the pass that follows: a few a multiprocessor, so that what a
 * thread knows of its channels serves many pixels. */
static inline unsigned norm_blocks(const struct norm_shape &s, int64_t vectors,
                                   int batch, int resident, int multiprocessors)
{
    const int64_t each = (int64_t)NORM_THREADS * batch;
    const int64_t blocks = (vectors + each - 1) / each;
    const int64_t most = (int64_t)multiprocessors * (s.brief ? resident : 8);

    return (unsigned)(blocks < most ? blocks : most);
}

/* What is applied to channels c .. c + V - 1. */
template <int V>
static __device__ __forceinline__ void norm_line(const float *line, int c,
                                                 float (&to)[V])
{
#pragma unroll
    for (int j = 0; j < V; j++)
        to[j] = line[c + j];
}

/* V neighbours as floats, and back. */
template <typename T, int V>
static __device__ __forceinline__ void norm_load(const void *p, int64_t i,
                                                 float *v)
{
    const vec<T, V> t = load_vec<T, V>((const T *)p + i);
#pragma unroll
    for (int j = 0; j < V; j++)
        v[j] = to_float(t.at[j]);
}

template <typename T, int V>
static __device__ __forceinline__ void norm_store(void *p, int64_t i,
                                                  const float *v)
{
    vec<T, V> t;
#pragma unroll
    for (int j = 0; j < V; j++)
        t.at[j] = from_float<T>(v[j]);
    store_vec<T, V>((T *)p + i, t);
}

/* ---- limits -------------------------------------------------------- */

/* Activations: dense, channels last, of one type.  Vectors: dense F32. */
static inline int norm_supports(const struct kern_problem *p,
                                uint32_t vectors_in, uint32_t vectors_out,
                                struct infer_error *why)
{
    const enum infer_dtype type = p->in[0].dtype;
    bool ok = cuda_is_real(type) && kern_tensor_count(&p->in[0]) < INT32_MAX;

    for (int i = 0; i < p->n_in; i++)
        if (kern_problem_in(p, i))
            ok = ok && (vectors_in >> i & 1
                            ? cuda_is_vector(&p->in[i])
                            : p->in[i].dtype == type &&
                                  kern_tensor_is_dense(&p->in[i], KERN_NHWC));
    for (int i = 0; i < p->n_out; i++)
        if (kern_problem_out(p, i))
            ok = ok && (vectors_out >> i & 1
                            ? cuda_is_vector(&p->out[i])
                            : p->out[i].dtype == type &&
                                  kern_tensor_is_dense(&p->out[i], KERN_NHWC));
    if (ok)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "%s: takes dense channels-last F32, F16 or BF16 below "
                     "2^31 elements, and dense F32 vectors",
                     kern_op_name(p->op));
}

/* Whether activations can be moved in vectors of v channels. */
static inline bool norm_vectors(const struct kern_problem *p,
                                const struct kern_args *args,
                                uint32_t vectors_in, uint32_t vectors_out,
                                int v)
{
    bool ok = p->in[0].dim[1] % v == 0;

    for (int i = 0; i < p->n_in; i++)
        if (kern_problem_in(p, i) && !(vectors_in >> i & 1))
            ok = ok && (uintptr_t)args->in[i] % 16 == 0;
    for (int i = 0; i < p->n_out; i++)
        if (kern_problem_out(p, i) && !(vectors_out >> i & 1))
            ok = ok && (uintptr_t)args->out[i] % 16 == 0;
    return ok;
}

/* Workspace for lines values a channel beside the sums' parts.  The state is
 * the number of multiprocessors, which nobody has to free. */
static inline int norm_prepare(struct kern_exec *e, const struct kern_device *d,
                               int lines)
{
    const struct kern_tensor *x = &e->problem.in[0];

    e->workspace =
        norm_workspace(x) + lines * (size_t)x->dim[1] * sizeof(float);
    e->state =
        (void *)(intptr_t)(d->multiprocessors > 0 ? d->multiprocessors : 64);
    return 0;
}

#endif
