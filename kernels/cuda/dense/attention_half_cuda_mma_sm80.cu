/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of 16-bit types through mma.sync, without scores in memory: the
 * softmax goes along with the keys (Milakov and Gimelshein, 2018; Dao et al.,
 * "FlashAttention", 2022).
 *
 * A block of 128 threads takes 64 queries of one head, each of its four warps
 * 16, and goes over the keys 64 at a time.  A warp keeps its queries, the
 * running maxima and sums, and the sums of values in registers.  Keys and
 * values lie in shared memory, rows of the depth padded by 8 halves, so that
 * eight rows of an ldmatrix phase lie in different banks; the next keys arrive
 * while the values are multiplied, the next values while the scores are made.
 * Depths are those of the template, in 16s, filled up with zeros: 9 to 35 KiB
 * of shared memory.  Weights are rounded to the type of the values, their sum
 * is not. blockIdx.x: tiles of queries, fastest, then heads and batches.
 */
#include <string.h>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

#define THREADS 128

enum { Q, K, V, BIAS, Y = KERN_ATTENTION_INPUTS, TENSORS };

enum { TILE = 64, WARP_ROWS = 16, PAD = 8 };

#define LOG2_E 1.4426950408889634f

/* Rows of a tensor: queries or keys, and along the depth. */
struct attention_rows {
    const void *at;
    int64_t step_row, step_depth;
    bool eights; /* 8 neighbours along the depth can be moved as one */
};

struct attention_args {
    struct cuda_strided<TENSORS> heads; /* batches and heads */
    struct fast_div tiles;
    int32_t queries, keys, depth, width;
    float scale;
    struct attention_rows rows[V + 1];
    struct {
        const void *at; /* NULL: absent */
        int64_t step_query, step_key;
    } bias[2];
    struct attention_rows y;
    struct kern_unary act;
};

/* ---- loading ------------------------------------------------------- */

/* Begins to copy rows first .. first + TILE - 1 of `count` to shared memory,
 * in one group; elements beyond the rows and the depth are 0. */
template <typename T, int DEPTH>
static __device__ __forceinline__ void
load_rows(const attention_rows &r, int64_t offset, int first, int count,
          int depth, T *shared)
{
    enum { PITCH = DEPTH + PAD, EIGHTS = DEPTH / 8 };
    const T *const from = (const T *)r.at + offset;

#pragma unroll
    for (int i = 0; i < TILE * EIGHTS / THREADS; i++) {
        const int e = threadIdx.x + i * THREADS;
        const int row = e / EIGHTS, d = e % EIGHTS * 8;
        const bool there = first + row < count && d < depth;
        const T *const at =
            from + (first + row) * r.step_row + d * r.step_depth;
        T *const to = shared + row * PITCH + d;

        if (r.eights) {
            ptx_cp_async<16>(ptx_shared(to), there ? at : from, there);
            continue;
        }
#pragma unroll 1
        for (int j = 0; j < 8; j++)
            to[j] = there && d + j < depth ? at[j * r.step_depth]
                                           : from_float<T>(0);
    }
    ptx_cp_async_commit();
}

/* The 16 x 16 elements of a warp's rows at depth d, as mma's first factor. */
template <typename T, int PITCH>
static __device__ __forceinline__ void load_queries(const T *shared, int d,
                                                    uint32_t (&a)[4])
{
    const int lane = threadIdx.x % 32;

    ptx_ldmatrix_x4(a,
                    ptx_shared(shared + lane % 16 * PITCH + d + lane / 16 * 8));
}

/* Second factors of 16 keys at depth d: those of keys 0..7 are b[0..1]. */
template <typename T, int PITCH>
static __device__ __forceinline__ void load_keys(const T *shared, int key,
                                                 int d, uint32_t (&b)[4])
{
    const int lane = threadIdx.x % 32;

    ptx_ldmatrix_x4(b, ptx_shared(shared +
                                  (key + lane / 16 * 8 + lane % 8) * PITCH + d +
                                  lane / 8 % 2 * 8));
}

/* Second factors of 16 values wide at e, 16 keys deep. */
template <typename T, int PITCH>
static __device__ __forceinline__ void load_values(const T *shared, int key,
                                                   int e, uint32_t (&b)[4])
{
    const int lane = threadIdx.x % 32;

    ptx_ldmatrix_x4_trans(
        b, ptx_shared(shared + (key + lane % 16) * PITCH + e + lane / 16 * 8));
}

static __device__ __forceinline__ uint32_t pack_pair(__half, float a, float b)
{
    const __half2 v = __floats2half2_rn(a, b);

    return *reinterpret_cast<const uint32_t *>(&v);
}

static __device__ __forceinline__ uint32_t pack_pair(__nv_bfloat16, float a,
                                                     float b)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(a, b);

    return *reinterpret_cast<const uint32_t *>(&v);
}

/* ---- a tile of keys ------------------------------------------------ */

/* Scores of 16 queries and TILE keys: [n][0..1] of query lane / 4 and keys
 * 8 n + lane % 4 * 2 and the next, [n][2..3] of query lane / 4 + 8. */
typedef float scores[TILE / 8][4];

template <typename T, int DT>
static __device__ __forceinline__ void make_scores(const uint32_t (&q)[DT][4],
                                                   const T *keys, scores &s)
{
    enum { PITCH = DT * 16 + PAD };

#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int v = 0; v < 4; v++)
            s[n][v] = 0;
#pragma unroll
    for (int n = 0; n < TILE / 16; n++)
#pragma unroll
        for (int d = 0; d < DT; d++) {
            uint32_t b[4];

            load_keys<T, PITCH>(keys, n * 16, d * 16, b);
            ptx_mma(T(), s[2 * n], q[d], b);
            ptx_mma(T(), s[2 * n + 1], q[d], b + 2);
        }
}

/* Adds a bias to the scores of `keys` keys from `key` on.  STEP: its step from
 * key to key, 0 where that is known only when running. */
template <typename T, int STEP>
static __device__ __forceinline__ void add_bias(const attention_args &a, int i,
                                                int64_t offset, int query,
                                                int key, scores &s)
{
    const int lane = threadIdx.x % 32;
    const int64_t step = STEP ? STEP : a.bias[i].step_key;
    const int left = a.keys - key - lane % 4 * 2;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int m = min(query + lane / 4 + 8 * half, a.queries - 1);
        const T *const from = (const T *)a.bias[i].at + offset +
                              m * a.bias[i].step_query +
                              (key + lane % 4 * 2) * step;

#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int v = 0; v < 2; v++)
                if (8 * n + v < left)
                    s[n][2 * half + v] += to_float(from[(8 * n + v) * step]);
    }
}

/* Scales, adds the biases, and takes keys beyond the last one out.  Scores
 * become logarithms to base 2. */
template <typename T>
static __device__ __forceinline__ void
finish_scores(const attention_args &a, const int64_t *offset, int query,
              int key, scores &s)
{
    const int left = a.keys - key - threadIdx.x % 4 * 2;
    const bool biased = a.bias[0].at || a.bias[1].at;
    const float scale = biased ? a.scale : a.scale * LOG2_E;

#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int v = 0; v < 4; v++)
            s[n][v] *= scale;
    if (biased) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (!a.bias[i].at)
                continue;
            if (a.bias[i].step_key == 1)
                add_bias<T, 1>(a, i, offset[BIAS + i], query, key, s);
            else
                add_bias<T, 0>(a, i, offset[BIAS + i], query, key, s);
        }
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int v = 0; v < 4; v++)
                s[n][v] *= LOG2_E;
    }
    if (key + TILE <= a.keys)
        return;
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int v = 0; v < 4; v++)
            s[n][v] = 8 * n + v % 2 < left ? s[n][v] : -INFINITY;
}

/* Over the four lanes that share a query. */
static __device__ __forceinline__ float quad_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
    return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}

static __device__ __forceinline__ float quad_sum(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

/* What a lane keeps of its two queries. */
template <int ET> struct running {
    float largest[2], sum[2]; /* the sum of this lane's keys */
    float total[2 * ET][4];
};

/* Turns scores into weights and scales what was summed with other maxima. */
template <int ET>
static __device__ __forceinline__ void weigh(scores &s, running<ET> &r)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = -INFINITY, sum = 0;

#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            largest = fmaxf(largest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        largest = fmaxf(r.largest[half], quad_max(largest));
        /* Nothing weighs anything yet: any finite number will do. */
        const float base = largest == -INFINITY ? 0 : largest;
        const float keep = exp2f(r.largest[half] - base);
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int v = 2 * half; v < 2 * half + 2; v++) {
                s[n][v] = exp2f(s[n][v] - base);
                sum += s[n][v];
            }
        r.largest[half] = largest;
        r.sum[half] = r.sum[half] * keep + sum;
#pragma unroll
        for (int e = 0; e < 2 * ET; e++) {
            r.total[e][2 * half] *= keep;
            r.total[e][2 * half + 1] *= keep;
        }
    }
}

template <typename T, int ET>
static __device__ __forceinline__ void
add_values(const scores &s, const T *values, running<ET> &r)
{
    enum { PITCH = ET * 16 + PAD };

#pragma unroll
    for (int n = 0; n < TILE / 16; n++) {
        const uint32_t p[4] = {
            pack_pair(T(), s[2 * n][0], s[2 * n][1]),
            pack_pair(T(), s[2 * n][2], s[2 * n][3]),
            pack_pair(T(), s[2 * n + 1][0], s[2 * n + 1][1]),
            pack_pair(T(), s[2 * n + 1][2], s[2 * n + 1][3])};

#pragma unroll
        for (int e = 0; e < ET; e++) {
            uint32_t b[4];

            load_values<T, PITCH>(values, n * 16, e * 16, b);
            ptx_mma(T(), r.total[2 * e], p, b);
            ptx_mma(T(), r.total[2 * e + 1], p, b + 2);
        }
    }
}

/* ---- results ------------------------------------------------------- */

/* A warp's 16 rows, by way of its part of shared memory. */
template <typename T, int ET>
static __device__ __forceinline__ void store_rows(const attention_args &a,
                                                  int64_t offset, int query,
                                                  running<ET> &r, T *shared)
{
    enum { PITCH = ET * 16 + PAD, EIGHTS = ET * 2 };
    const int lane = threadIdx.x % 32;
    T *const y = (T *)a.y.at + offset;

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float part = 1 / quad_sum(r.sum[half]);

#pragma unroll
        for (int e = 0; e < 2 * ET; e++) {
            float pair[2] = {r.total[e][2 * half] * part,
                             r.total[e][2 * half + 1] * part};

            if (a.act.kind != KERN_IDENTITY) {
                pair[0] = apply_unary(a.act, pair[0]);
                pair[1] = apply_unary(a.act, pair[1]);
            }

            store_floats<T, 2>(shared + (lane / 4 + 8 * half) * PITCH + 8 * e +
                                   lane % 4 * 2,
                               pair);
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < WARP_ROWS * EIGHTS / 32; i++) {
        const int at = lane + i * 32, row = at / EIGHTS, e = at % EIGHTS * 8;
        const T *const from = shared + row * PITCH + e;
        T *const to = y + (query + row) * a.y.step_row + e * a.y.step_depth;

        if (query + row >= a.queries || e >= a.width)
            continue;
        if (a.y.eights) {
            store_vec<T, 8>(to, load_vec<T, 8>(from));
            continue;
        }
        for (int j = 0; j < 8 && e + j < a.width; j++)
            to[j * a.y.step_depth] = from[j];
    }
}

/* Blocks whose registers a multiprocessor holds. */
static constexpr int resident(int dt, int et)
{
    return dt + et <= 6 ? 4 : dt + et <= 10 ? 3 : 2;
}

template <typename T, int DT, int ET>
static __global__ void __launch_bounds__(THREADS, resident(DT, ET))
    attention_kernel(const __grid_constant__ attention_args a)
{
    enum { DEPTH = DT * 16, WIDTH = ET * 16 };
    __shared__ __align__(16) T keys[TILE * (DEPTH + PAD)];
    __shared__ __align__(16) T values[TILE * (WIDTH + PAD)];
    const int warp = threadIdx.x / 32;
    uint32_t tile;
    const uint32_t head = a.tiles.divmod(blockIdx.x, &tile);
    const int first = (int)tile * TILE, query = first + warp * WARP_ROWS;
    int64_t offset[TENSORS];
    uint32_t q[DT][4];
    running<ET> r = {{-INFINITY, -INFINITY}, {0, 0}, {}};

    a.heads.offsets(head, offset);
    launch_wait();
    load_rows<T, DEPTH>(a.rows[Q], offset[Q], first, a.queries, a.depth, keys);
    load_rows<T, WIDTH>(a.rows[V], offset[V], 0, a.keys, a.width, values);
    ptx_cp_async_wait<1>();
    __syncthreads();
#pragma unroll
    for (int d = 0; d < DT; d++)
        load_queries<T, DEPTH + PAD>(keys + warp * WARP_ROWS * (DEPTH + PAD),
                                     d * 16, q[d]);
    __syncthreads();
    load_rows<T, DEPTH>(a.rows[K], offset[K], 0, a.keys, a.depth, keys);
    for (int key = 0; key < a.keys; key += TILE) {
        const bool more = key + TILE < a.keys;
        scores s;

        /* In flight: values, then keys at first; later keys, then values. */
        if (key == 0)
            ptx_cp_async_wait<0>();
        else
            ptx_cp_async_wait<1>();
        __syncthreads();
        make_scores<T, DT>(q, keys, s);
        __syncthreads();
        if (more)
            load_rows<T, DEPTH>(a.rows[K], offset[K], key + TILE, a.keys,
                                a.depth, keys);
        finish_scores<T>(a, offset, query, key, s);
        weigh<ET>(s, r);
        if (more)
            ptx_cp_async_wait<1>();
        else
            ptx_cp_async_wait<0>();
        __syncthreads();
        add_values<T, ET>(s, values, r);
        __syncthreads();
        if (more)
            load_rows<T, WIDTH>(a.rows[V], offset[V], key + TILE, a.keys,
                                a.width, values);
    }
    store_rows<T, ET>(a, offset[Y], query, r,
                      values + warp * WARP_ROWS * (WIDTH + PAD));
}

/* ---- launching ----------------------------------------------------- */

/* Depths in 16s for which there is a kernel, each with the widths after it. */
#define ATTENTION_SHAPES(T)                                                    \
    SHAPE(T, 1, 2)                                                             \
    SHAPE(T, 1, 4)                                                             \
    SHAPE(T, 2, 2)                                                             \
    SHAPE(T, 2, 4)                                                             \
    SHAPE(T, 3, 3)                                                             \
    SHAPE(T, 4, 4)                                                             \
    SHAPE(T, 2, 8)                                                             \
    SHAPE(T, 4, 8)                                                             \
    SHAPE(T, 8, 8)

#define MOST_DEPTH 128

/* The first kernel that is deep and wide enough. */
template <typename T>
static void (*kernel_of(int64_t depth, int64_t width))(const attention_args)
{
#define SHAPE(T, d, e)                                                         \
    if (depth <= (d)*16 && width <= (e)*16)                                    \
        return attention_kernel<T, d, e>;
    ATTENTION_SHAPES(T)
#undef SHAPE
    return NULL;
}

/* A tensor of ..., L, H, X as ..., H. */
static struct kern_tensor heads_of(const struct kern_tensor *t)
{
    struct kern_tensor h = *t;
    const int r = t->rank;

    h.rank = r - 2;
    h.dim[r - 3] = t->dim[r - 2];
    h.stride[r - 3] = t->stride[r - 2];
    return h;
}

/* A bias of ..., H, M, N as ..., H: its leading dimensions. */
static struct kern_tensor heads_of_bias(const struct kern_tensor *t)
{
    struct kern_tensor h = *t;

    h.rank = t->rank > 2 ? t->rank - 2 : 0;
    return h;
}

/* Step of a bias along its last dimension but `back`. */
static int64_t bias_step(const struct kern_tensor *t, int back)
{
    const int d = t->rank - 1 - back;

    return d < 0 || t->dim[d] == 1 ? 0 : t->stride[d];
}

/* True if 8 neighbours along the depth can be moved as one. */
static bool in_eights(const struct kern_tensor *t, const void *base)
{
    const int r = t->rank;

    if (t->dim[r - 1] % 8 != 0 || t->stride[r - 1] != 1 ||
        (uintptr_t)base % 16 != 0)
        return false;
    for (int d = 0; d < r - 1; d++)
        if (t->dim[d] > 1 && t->stride[d] % 8 != 0)
            return false;
    return true;
}

static struct attention_rows rows_of(const struct kern_tensor *t,
                                     const void *base)
{
    return {base, t->stride[t->rank - 3], t->stride[t->rank - 1],
            in_eights(t, base)};
}

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    const struct kern_tensor *q = &p->in[Q], *y = &p->out[0];
    const int r = q->rank;
    struct kern_tensor heads[TENSORS];
    const struct kern_tensor *t[TENSORS];
    struct attention_args a = {};

    if (kern_tensor_count(y) == 0)
        return 0;
    memset(heads, 0, sizeof heads);
    for (int i = Q; i <= V; i++) {
        heads[i] = heads_of(&p->in[i]);
        a.rows[i] = rows_of(&p->in[i], args->in[i]);
    }
    for (int i = 0; i < 2; i++) {
        const struct kern_tensor *b = kern_problem_in(p, BIAS + i);

        if (!b)
            continue;
        heads[BIAS + i] = heads_of_bias(b);
        a.bias[i] = {args->in[BIAS + i], bias_step(b, 1), bias_step(b, 0)};
    }
    heads[Y] = heads_of(y);
    a.y = rows_of(y, args->out[0]);
    for (int i = 0; i < TENSORS; i++)
        t[i] = &heads[i];
    a.heads.init(heads[Y].rank, heads[Y].dim, t);
    a.queries = (int32_t)q->dim[r - 3];
    a.keys = (int32_t)p->in[K].dim[r - 3];
    a.depth = (int32_t)q->dim[r - 1];
    a.width = (int32_t)y->dim[r - 1];
    a.scale = p->attr.attention.scale;
    a.act = p->epilogue.act;
    const uint32_t tiles = (uint32_t)((a.queries + TILE - 1) / TILE);
    a.tiles.init(tiles);
    return launch_chained(kernel_of<T>(a.depth, a.width),
                          (unsigned)(tiles * a.heads.count), THREADS, 0,
                          args->stream, a, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    return e->problem.in[Q].dtype == INFER_F16
               ? run<__half>(&e->problem, args, err)
               : run<__nv_bfloat16>(&e->problem, args, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_tensor *q = &p->in[Q], *y = &p->out[0];
    const int64_t depth = q->dim[q->rank - 1], width = y->dim[q->rank - 1];
    const int r = check_types(p, 1, 0, why);

    (void)d;
    if (r < 0)
        return r;
    if (depth < 1 || depth > MOST_DEPTH || width > MOST_DEPTH)
        return error_set(why, INFER_EUNSUPPORTED,
                         "attention: depths %lld and %lld, supported up to %d",
                         (long long)depth, (long long)width, MOST_DEPTH);
    if (q->dim[q->rank - 3] >= 1 << 30 || p->in[K].dim[q->rank - 3] >= 1 << 30)
        return error_set(why, INFER_EUNSUPPORTED,
                         "attention: 2^30 queries or keys or more are not "
                         "supported");
    return check_count(p, why);
}

KERN_FUNCTIONS(attention_half_cuda_mma_sm80) = {
    .supports = supports,
    .launch = launch,
};
