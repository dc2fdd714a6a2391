/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sums a channel over all pixels of a dense channels-last tensor, for the
 * forward and the backward pass of batch norm in training.
 *
 * First pass: a block of 256 threads takes COLUMNS vectors of V channels by
 * 256 / COLUMNS rows at a time, joins its rows in shared memory (2 V floats a
 * thread: 16 KiB at most) and writes two numbers a channel to the workspace:
 * parts[part][2][C].  Blocks: column tiles in x, parts in y.  All blocks are
 * resident at once and read the tensor side by side from its end to its
 * beginning: the previous kernel has left the end in the L2 cache, and the next
 * pass, which reads forwards, finds the beginning there.
 * Second pass: one warp a channel adds the parts in order of lanes, then
 * across lanes in a fixed order: the same bits every time.  Few channels of a
 * small tensor make so few parts that every block of the last pass adds them up
 * itself ("brief"): this saves a launch, which takes longer than the work.
 */
#ifndef KERNELS_CUDA_NORM_BATCH_NORM_CUH
#define KERNELS_CUDA_NORM_BATCH_NORM_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

#define NORM_THREADS 256
/* Resident blocks of the first pass on a multiprocessor: 80 registers a thread,
 * 32 of them for 8 vectors in flight, 96 KiB on the multiprocessor. */
#define NORM_RESIDENT 3
/* Blocks of a short first pass on a multiprocessor: few enough that blocks of
 * the next kernel become resident in addition, and wait there. */
#define NORM_FEW 2
/* Resident blocks of the last pass on a multiprocessor. */
#define NORM_LAST 3
/* On 176 multiprocessors. */
#define NORM_MAX_PARTS 528
/* Brief: sums that a block adds up, 16 a thread, and the largest part, which
 * a multiprocessor reads in half a microsecond. */
#define NORM_BRIEF_SUMS  4096
#define NORM_BRIEF_BYTES (64 << 10)
/* Two sums a channel, at least one thread each. */
#define NORM_BRIEF_CHANNELS (NORM_THREADS / 2)

/* Activations that kernels are compiled for: a call in a loop over memory, as
 * the rarer ones need it, keeps loads from overlapping. */
enum norm_act {
    NORM_PLAIN,
    NORM_RELU,
    NORM_RELU_MASK, /* ReLU given by a bit mask instead of y */
    NORM_ANY
};

static inline enum norm_act norm_act_of(const struct kern_unary *act)
{
    if (act->kind == KERN_IDENTITY)
        return NORM_PLAIN;
    return act->kind == KERN_RELU ? NORM_RELU : NORM_ANY;
}

/* Calls run<T, V, ACT>(arguments) for an activation that needs no bit mask. */
#define NORM_DISPATCH(act, run, T, V, ...)                                     \
    (norm_act_of(act) == NORM_PLAIN  ? run<T, V, NORM_PLAIN>(__VA_ARGS__)      \
     : norm_act_of(act) == NORM_RELU ? run<T, V, NORM_RELU>(__VA_ARGS__)       \
                                     : run<T, V, NORM_ANY>(__VA_ARGS__))

struct norm_shape {
    int64_t pixels;
    int channels, columns; /* columns: of a block, a power of 2 up to 32 */
    int parts;
    bool brief;
};

/* v channels a vector, `resident` blocks a multiprocessor. */
static inline struct norm_shape norm_shape_of(const struct kern_tensor *x,
                                              int v, int resident,
                                              int multiprocessors)
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
    int64_t parts = resident * (int64_t)multiprocessors / tiles;
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
    s.parts = (int)parts;
    return s;
}

static inline size_t norm_workspace(const struct kern_tensor *x)
{
    return (size_t)NORM_MAX_PARTS * 2 * (size_t)x->dim[1] * sizeof(float);
}

/* One block's part.  F(a, c) is what stays of V channels from c; it loads
 * F::operands, theirs of a pixel, and sees them: adds them to the sums.  A
 * thread has BATCH of them on their way at once. */
template <typename F, typename A, int V, int BATCH>
static __device__ __forceinline__ void
norm_sum_part(const A &a, const struct norm_shape &s, float *parts)
{
    __shared__ float joined[2][V][NORM_THREADS];
    const int column = threadIdx.x % s.columns, row = threadIdx.x / s.columns;
    const int rows = NORM_THREADS / s.columns;
    const int c = (int)(blockIdx.x * s.columns + column) * V;
    const int64_t step = (int64_t)s.parts * rows;
    const int64_t last = s.pixels - 1 - (int64_t)blockIdx.y * rows - row;
    float sum0[V], sum1[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        sum0[j] = sum1[j] = 0;
    if (c < s.channels) {
        const F f(a, c);
        for (int64_t p = last; p >= 0; p -= BATCH * step) {
            typename F::operands o[BATCH] = {};
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                if (p - k * step >= 0)
                    F::load(a, p - k * step, c, &o[k]);
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                if (p - k * step >= 0)
                    f.see(o[k], sum0, sum1);
        }
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

/* Launches the first pass, which takes v channels a vector; the second, unless
 * brief; and the last, whose threads take `batch` vectors at a time.  The last
 * pass has no more blocks than are resident at once: they move through the
 * tensors side by side, and the factors of a thread's channels serve many
 * pixels. */
template <typename Args>
static int norm_launch(void (*sum)(const Args), void (*join)(const Args),
                       void (*apply)(const Args), const Args &a, int v,
                       int batch, int multiprocessors, void *stream,
                       struct infer_error *err)
{
    const dim3 grid(cuda_blocks(a.s.channels / v, a.s.columns), a.s.parts);
    const int64_t blocks = cuda_blocks(a.vectors, NORM_THREADS * batch);
    const int64_t most = (int64_t)multiprocessors * NORM_LAST;
    int rc = launch_chained(sum, grid, NORM_THREADS, 0, stream, a, err);

    if (rc == 0 && !a.s.brief)
        rc = launch_chained(join, cuda_blocks(a.s.channels, NORM_THREADS / 32),
                            NORM_THREADS, 0, stream, a, err);
    if (rc < 0)
        return rc;
    return launch_chained(apply, (unsigned)(blocks < most ? blocks : most),
                          NORM_THREADS, 0, stream, a, err);
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

/* ---- vectors ------------------------------------------------------- */

/* V neighbours of 16 bytes, or one, packed as in memory: unpacked, each element
 * of 16 bits would take a register. */
template <typename T, int V> struct alignas(16) pack {
    uint32_t word[4];
};
template <typename T> struct pack<T, 1> {
    T one;
};

template <typename T, int V>
static __device__ __forceinline__ pack<T, V> pack_load(const T *p)
{
    return *reinterpret_cast<const pack<T, V> *>(p);
}

template <typename T, int V>
static __device__ __forceinline__ void pack_store(T *p, const pack<T, V> &v)
{
    *reinterpret_cast<pack<T, V> *>(p) = v;
}

/* Both halves of a word, and from floats, to nearest. */
static __device__ __forceinline__ float2 halves(uint32_t word, __half)
{
    return __half22float2(*reinterpret_cast<const __half2 *>(&word));
}
static __device__ __forceinline__ float2 halves(uint32_t word, __nv_bfloat16)
{
    return make_float2(__uint_as_float(word << 16),
                       __uint_as_float(word & 0xffff0000u));
}
static __device__ __forceinline__ uint32_t word_of(float low, float high,
                                                   __half)
{
    const __half2 v = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&v);
}
static __device__ __forceinline__ uint32_t word_of(float low, float high,
                                                   __nv_bfloat16)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&v);
}

template <typename T, int V>
static __device__ __forceinline__ void unpack(const pack<T, V> &p, float *v)
{
    if constexpr (V == 1) {
        v[0] = to_float(p.one);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int j = 0; j < V; j++)
            v[j] = __uint_as_float(p.word[j]);
    } else {
#pragma unroll
        for (int j = 0; j < V; j += 2) {
            const float2 two = halves(p.word[j / 2], T());
            v[j] = two.x;
            v[j + 1] = two.y;
        }
    }
}

template <typename T, int V>
static __device__ __forceinline__ pack<T, V> pack_of(const float *v)
{
    pack<T, V> p;

    if constexpr (V == 1) {
        p.one = from_float<T>(v[0]);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int j = 0; j < V; j++)
            p.word[j] = __float_as_uint(v[j]);
    } else {
#pragma unroll
        for (int j = 0; j < V; j += 2)
            p.word[j / 2] = word_of(v[j], v[j + 1], T());
    }
    return p;
}

/* ---- limits -------------------------------------------------------- */

/* Activations: dense, channels last, of one type; bit masks lie as they do.
 * Vectors: dense F32. */
static inline bool norm_takes(const struct kern_tensor *t, bool vector,
                              enum infer_dtype type)
{
    if (vector)
        return cuda_is_vector(t);
    return (t->dtype == type || t->dtype == INFER_U8) &&
           kern_tensor_is_dense(t, KERN_NHWC);
}

static inline int norm_supports(const struct kern_problem *p,
                                uint32_t vectors_in, uint32_t vectors_out,
                                struct infer_error *why)
{
    const enum infer_dtype type = p->in[0].dtype;
    bool ok = cuda_is_real(type) && kern_tensor_count(&p->in[0]) < INT32_MAX;

    for (int i = 0; i < p->n_in; i++)
        if (kern_problem_in(p, i))
            ok = ok && norm_takes(&p->in[i], vectors_in >> i & 1, type);
    for (int i = 0; i < p->n_out; i++)
        if (kern_problem_out(p, i))
            ok = ok && norm_takes(&p->out[i], vectors_out >> i & 1, type);
    if (ok)
        return 0;
    return error_set(why, INFER_EUNSUPPORTED,
                     "%s: takes dense channels-last F32, F16 or BF16 below "
                     "2^31 elements, and dense F32 vectors",
                     kern_op_name(p->op));
}

/* True if activations can be moved in vectors of v channels. */
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

static inline int norm_multiprocessors(const struct kern_device *d)
{
    return d->multiprocessors > 0 ? d->multiprocessors : 64;
}

#endif
