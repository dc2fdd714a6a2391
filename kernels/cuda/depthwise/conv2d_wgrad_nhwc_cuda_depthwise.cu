/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgrad of a depthwise convolution, channels last, 3x3 to 7x7 of stride 1 and
 * 2: dw[c, r, s] = sum over n, p, q of x[n, c, h, w] dy[n, c, p, q], bound by
 * memory.
 *
 * A thread owns V channels and all R x S sums of them, in registers, and walks
 * strips: up to `length` pixels of a row of dy.  Step j reads pixel j of dy and
 * the STRIDE columns of x that begin a window there, R rows of each, and
 * multiplies these with the last DEPTH pixels of dy, whose windows hold them:
 * of its own strip every vector of x is read once a row of the window.  The
 * next steps' vectors are copied meanwhile to shared memory of the thread's own
 * (STAGES of COUNT vectors), so that no thread waits for another.  V is 16
 * bytes for 3x3, 8 for 5x5 and 2 channels for 7x7, limited by the registers for
 * the sums, or less where the channels are no multiple of it.
 *
 * A block is `chunk` vectors of channels times `lanes` strips, neighbours in a
 * warp with neighbouring channels, lanes on neighbouring rows in step, so that
 * the rows of x that they share come from the L1 cache.  blockIdx.x counts
 * chunks of channels, y ranges of strips.  At the end the lanes are added in
 * order in shared memory, a row of the window at a time, up to 12 KiB; each
 * range writes its sums to the workspace, parts[range][K][r, s], and
 * wgrad_sum() adds them in order: the same bits every time.
 */
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/mma/wgrad.cuh"

enum {
    THREADS = 128,
    STAGES = 4,
    MOST_UNITS = 16, /* vectors of channels in a block; of 4 bytes twice that */
    LEAST_LENGTH = 14 /* of a strip, where a row is cut */
};

/* Resident blocks of a multiprocessor, limited by registers. */
static constexpr int blocks_of(int r, int stride)
{
    return r == 7 || (r == 5 && stride == 2) ? 2 : 3;
}

struct strips_args {
    struct conv_geometry g;
    struct fast_div p, strips; /* strips: of a row */
    int units, chunk, lanes;   /* units: vectors of all channels */
    int count, per_range;      /* strips */
    int length;
    const void *x, *dy;
    float *parts;
};

/* ---- strips -------------------------------------------------------- */

/* A strip: pixels q0 .. q1 - 1 of a row of dy, and the rows of x below. */
template <typename T, int R> struct strip {
    const T *dy, *x[R];
    bool inside[R];
    int q0, q1;
};

template <typename T, int R>
static __device__ __forceinline__ struct strip<T, R>
strip_of(const struct strips_args &a, int number, int c) {
    struct strip<T, R> at;
    uint32_t part, p;
    const uint32_t row = a.strips.divmod((uint32_t)number, &part);
    const int n = (int)a.p.divmod(row, &p);
    const int h = (int)p * a.g.stride_h - a.g.pad_top;

    at.q0 = (int)part * a.length;
    at.q1 = min(at.q0 + a.length, a.g.q);
    at.dy = (const T *)a.dy + (int)row * a.g.q * a.g.k + c;
#pragma unroll
    for (int r = 0; r < R; r++) {
        at.inside[r] = (unsigned)(h + r) < (unsigned)a.g.h;
        const int line = n * a.g.h + (at.inside[r] ? h + r : 0);
        at.x[r] = (const T *)a.x + line * a.g.w * a.g.c + c;
    }
    return at;
}

/* The vectors that a step reads. */
template <typename T, int V, int R, int STRIDE>
struct step {
    vec<T, V> dy, x[STRIDE][R];
};

/* Its place in shared memory, the threads' vectors side by side. */
template <typename T, int V, int R, int STRIDE> struct step_shape {
    enum {
        BYTES = V * (int)sizeof(T),
        PITCH = THREADS * BYTES, /* from vector to vector of a thread */
        STAGE = (1 + STRIDE * R) * PITCH,
        JOIN = R * PITCH / (int)sizeof(T) * 4, /* of join_row() */
        SHARED = STAGES * STAGE > JOIN ? STAGES *STAGE : JOIN
    };
};

static __device__ __forceinline__ int clamp(int i, int n)
{
    return min(max(i, 0), n - 1);
}

/* Starts to copy step j, through L1, which lanes on neighbouring rows share.
 * Positions outside the image copy a pixel at its edge, which is not used. */
template <typename T, int V, int R, int STRIDE>
static __device__ __forceinline__ void start_step(const struct strips_args &a,
                                                  const struct strip<T, R> &at,
                                                  int j, uint32_t to)
{
    typedef step_shape<T, V, R, STRIDE> S;

    ptx_cp_async_cached<S::BYTES>(to, at.dy + clamp(j, a.g.q) * a.g.k);
#pragma unroll
    for (int b = 0; b < STRIDE; b++) {
        const int w = clamp(j * STRIDE + b - a.g.pad_left, a.g.w);
#pragma unroll
        for (int r = 0; r < R; r++)
            ptx_cp_async_cached<S::BYTES>(to + (1 + b * R + r) * S::PITCH,
                                          at.x[r] + w * a.g.c);
    }
    ptx_cp_async_commit();
}

template <typename T, int V, int R, int STRIDE>
static __device__ __forceinline__ struct step<T, V, R, STRIDE>
take_step(const unsigned char *from) {
    typedef step_shape<T, V, R, STRIDE> S;
    struct step<T, V, R, STRIDE> s;

    s.dy = load_vec<T, V>((const T *)from);
#pragma unroll
    for (int b = 0; b < STRIDE; b++)
#pragma unroll
        for (int r = 0; r < R; r++)
            s.x[b][r] =
                load_vec<T, V>((const T *)(from + (1 + b * R + r) * S::PITCH));
    return s;
}

/* Adds a step's products. dy[(turn + DEPTH - i) % DEPTH] is the pixel i steps
 * back.  Positions outside the image are skipped, not multiplied by 0, since 0
 * times infinity is NaN. */
template <typename T, int V, int R, int STRIDE, int DEPTH>
static __device__ __forceinline__ void
add_step(const struct strips_args &a, const struct strip<T, R> &at, int j,
         int turn, const struct step<T, V, R, STRIDE> &now,
         const float (&dy)[DEPTH][V], float (&acc)[R][R][V])
{
    bool known[DEPTH];

#pragma unroll
    for (int i = 0; i < DEPTH; i++)
        known[i] = j - i >= at.q0 && j - i < at.q1;
#pragma unroll
    for (int b = 0; b < STRIDE; b++) {
        const int w = j * STRIDE + b - a.g.pad_left;
        const bool column = (unsigned)w < (unsigned)a.g.w;
#pragma unroll
        for (int r = 0; r < R; r++) {
            float x[V];
#pragma unroll
            for (int v = 0; v < V; v++)
                x[v] = to_float(now.x[b][r].at[v]);
#pragma unroll
            for (int i = 0; i * STRIDE + b < R; i++)
                if (column && at.inside[r] && known[i])
#pragma unroll
                    for (int v = 0; v < V; v++)
                        acc[r][i * STRIDE + b][v] =
                            fmaf(x[v], dy[(turn + DEPTH - i) % DEPTH][v],
                                 acc[r][i * STRIDE + b][v]);
        }
    }
}

/* own: the thread's part of the first stage. */
template <typename T, int V, int R, int STRIDE>
static __device__ __forceinline__ void
add_strip(const struct strips_args &a, int number, int c, unsigned char *own,
          float (&acc)[R][R][V])
{
    typedef step_shape<T, V, R, STRIDE> S;
    constexpr int DEPTH = (R - 1) / STRIDE + 1;
    const struct strip<T, R> at = strip_of<T, R>(a, number, c);
    const int end = at.q0 + a.length + DEPTH - 1;
    float dy[DEPTH][V] = {};
    int stage = 0;

#pragma unroll
    for (int i = 0; i < STAGES - 1; i++)
        start_step<T, V, R, STRIDE>(a, at, at.q0 + i,
                                    ptx_shared(own + i * S::STAGE));
    for (int j0 = at.q0; j0 < end; j0 += DEPTH)
#pragma unroll
        for (int turn = 0; turn < DEPTH; turn++) {
            const int j = j0 + turn;
            const int free = stage == 0 ? STAGES - 1 : stage - 1;
            ptx_cp_async_wait<STAGES - 2>();
            const struct step<T, V, R, STRIDE> now =
                take_step<T, V, R, STRIDE>(own + stage * S::STAGE);
            start_step<T, V, R, STRIDE>(a, at, j + STAGES - 1,
                                        ptx_shared(own + free * S::STAGE));
            stage = stage == STAGES - 1 ? 0 : stage + 1;
#pragma unroll
            for (int v = 0; v < V; v++)
                dy[turn][v] = to_float(now.dy.at[v]);
            add_step<T, V, R, STRIDE, DEPTH>(a, at, j, turn, now, dy, acc);
        }
    ptx_cp_async_wait<0>();
}

/* ---- the kernel ---------------------------------------------------- */

/* Adds the lanes' sums of row r of the window and writes them. */
template <int V, int R>
static __device__ __forceinline__ void join_row(const struct strips_args &a,
                                                int r, const float (&acc)[R][V],
                                                float *shared)
{
    enum { L = V < 4 ? V : 4 };
    const int unit = threadIdx.x % a.chunk, lane = threadIdx.x / a.chunk;
    const int wide = a.chunk * V;

    __syncthreads(); /* the row before has been read */
    if (lane < a.lanes)
#pragma unroll
        for (int s = 0; s < R; s++)
#pragma unroll
            for (int v = 0; v < V; v += L)
                store_floats<float, L>(shared + (s * a.lanes + lane) * wide +
                                           unit * V + v,
                                       acc[s] + v);
    __syncthreads();
    for (int i = threadIdx.x; i < R * wide; i += THREADS) {
        const int s = i / wide, c = i % wide;
        const int k = (int)blockIdx.x * wide + c;
        float sum = 0;
        for (int z = 0; z < a.lanes; z++)
            sum += shared[(s * a.lanes + z) * wide + c];
        if (k < a.g.k)
            a.parts[((size_t)blockIdx.y * a.g.k + k) * (R * R) + r * R + s] =
                sum;
    }
}

template <typename T, int V, int R, int STRIDE>
static __global__ void __launch_bounds__(THREADS, blocks_of(R, STRIDE))
    strips_kernel(const __grid_constant__ struct strips_args a)
{
    LAUNCH_SHARED(shared);
    const int lane = threadIdx.x / a.chunk;
    const int unit = (int)blockIdx.x * a.chunk + threadIdx.x % a.chunk;
    const int first = (int)blockIdx.y * a.per_range;
    const int end = min(first + a.per_range, a.count);
    float acc[R][R][V] = {};

    launch_wait();
    if (lane < a.lanes && unit < a.units)
        for (int i = first + lane; i < end; i += a.lanes)
            add_strip<T, V, R, STRIDE>(
                a, i, unit * V, shared + threadIdx.x * (V * (int)sizeof(T)),
                acc);
#pragma unroll
    for (int r = 0; r < R; r++)
        join_row<V, R>(a, r, acc[r], (float *)shared);
}

/* ---- preparing ----------------------------------------------------- */

struct strips_state {
    struct conv_geometry g;
    int units, chunk, chunks, lanes;
    int strips, length; /* of a row */
    int count, per_range, ranges;
};

/* Most bytes of a vector. */
static constexpr int most_bytes(int r, int size)
{
    return r == 3 ? 16 : r == 5 ? 8 : 2 * size;
}

/* Elements of a vector; 0 if not even 4 bytes divide the channels. */
static int vector_of(const struct conv_geometry *g, enum infer_dtype type)
{
    const int size = (int)infer_dtype_size(type);
    int bytes = most_bytes(g->r, size);

    while (bytes >= 4 && g->k * (int64_t)size % bytes)
        bytes /= 2;
    return bytes >= 4 ? bytes / size : 0;
}

/* As many blocks as are resident on the device, if there is enough work: rows
 * are cut until every lane has several strips, or strips would be short.  All
 * ranges then take the same number of steps. */
static void plan(const struct kern_device *d, enum infer_dtype type,
                 struct strips_state *s)
{
    const struct conv_geometry *g = &s->g;
    const int rows = g->n * g->p;

    const int vector = vector_of(g, type);
    const bool narrow = vector * (int)infer_dtype_size(type) == 4;

    s->units = g->k / vector;
    s->chunks = conv_ceil_div(s->units, narrow ? 2 * MOST_UNITS : MOST_UNITS);
    s->chunk = conv_ceil_div(s->units, s->chunks);
    s->lanes = THREADS / s->chunk;
    const int most = conv_ceil_div(
        blocks_of(g->r, g->stride_h) * conv_multiprocessors(d), s->chunks);
    s->strips = 1;
    while ((int64_t)rows * s->strips < 6 * (int64_t)most * s->lanes &&
           g->q >= 2 * s->strips * LEAST_LENGTH)
        s->strips *= 2;
    s->length = conv_ceil_div(g->q, s->strips);
    s->strips = conv_ceil_div(g->q, s->length);
    s->count = rows * s->strips;
    s->per_range = conv_ceil_div(s->count, most * s->lanes) * s->lanes;
    s->ranges = conv_ceil_div(s->count, s->per_range);
}

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, int,
                        struct strips_state *s, struct infer_error *why)
{
    const struct conv_geometry *g = &s->g;
    const int rc = wgrad_geometry(p, &s->g, why);

    if (rc < 0)
        return rc;
    if (g->cg != 1 || g->kg != 1 || g->r != g->s ||
        (g->r != 3 && g->r != 5 && g->r != 7) || g->stride_h != g->stride_w ||
        g->stride_h > 2 || g->dilation_h != 1 || g->dilation_w != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one channel a group, in and out, 3x3, 5x5 and "
                         "7x7, stride 1 and 2, no dilation");
    if (vector_of(g, p->in[0].dtype) == 0 || g->h < 1 || g->w < 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes channels of whole 4 bytes and no empty "
                         "pictures");
    plan(d, p->in[0].dtype, s);
    return 0;
}

static void declare(struct kern_exec *e, const struct strips_state *s)
{
    e->workspace = (size_t)s->ranges * (size_t)s->g.k * (size_t)s->g.r *
                   (size_t)s->g.s * sizeof(float);
}

/* ---- launching ----------------------------------------------------- */

template <typename T, int V, int R, int STRIDE>
static int run(const struct strips_state *s, const struct strips_args *a,
               void *stream, struct infer_error *err)
{
    return launch_chained(strips_kernel<T, V, R, STRIDE>,
                          dim3(s->chunks, s->ranges), dim3(THREADS),
                          step_shape<T, V, R, STRIDE>::SHARED, stream, *a, err);
}

/* With vectors of V elements, or of half as many. */
template <typename T, int R, int V>
static int run_vector(const struct strips_state *s, const struct strips_args *a,
                      void *stream, struct infer_error *err)
{
    if constexpr (V * sizeof(T) > 4)
        if (s->g.k % V != 0)
            return run_vector<T, R, V / 2>(s, a, stream, err);
    return s->g.stride_h == 1 ? run<T, V, R, 1>(s, a, stream, err)
                              : run<T, V, R, 2>(s, a, stream, err);
}

template <typename T, int R>
static int run_window(const struct strips_state *s, const struct strips_args *a,
                      void *stream, struct infer_error *err)
{
    return run_vector<T, R, most_bytes(R, sizeof(T)) / (int)sizeof(T)>(
        s, a, stream, err);
}

template <typename T>
static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct strips_state *s = (const struct strips_state *)e->state;
    const struct wgrad_join_shape shape = {s->g.k, 1, s->g.r, s->g.s,
                                           s->ranges};
    struct strips_args a = {};

    a.g = s->g;
    a.p.init((uint32_t)s->g.p);
    a.strips.init((uint32_t)s->strips);
    a.units = s->units;
    a.chunk = s->chunk;
    a.lanes = s->lanes;
    a.count = s->count;
    a.per_range = s->per_range;
    a.length = s->length;
    a.x = args->in[0];
    a.dy = args->in[1];
    a.parts = wgrad_target(e, &shape, args);
    const int rc = s->g.r == 3   ? run_window<T, 3>(s, &a, args->stream, err)
                   : s->g.r == 5 ? run_window<T, 5>(s, &a, args->stream, err)
                                 : run_window<T, 7>(s, &a, args->stream, err);
    return rc < 0 ? rc : wgrad_join(e, &shape, args, err);
}

#define STRIPS_ROW(symbol, T)                                                  \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = state_supports<struct strips_state, read_problem>,         \
        .prepare = state_prepare<struct strips_state, read_problem, declare>,  \
        .launch = launch<T>,                                                   \
        .release = cuda_state_release,                                         \
    };

STRIPS_ROW(conv2d_wgrad_nhwc_f32_cuda_depthwise, float)
STRIPS_ROW(conv2d_wgrad_nhwc_f16_cuda_depthwise, __half)
STRIPS_ROW(conv2d_wgrad_nhwc_bf16_cuda_depthwise, __nv_bfloat16)
