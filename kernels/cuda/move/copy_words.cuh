/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between strides in words.
 *
 * A word is 1 to 16 adjacent bytes of one side, the wide one.  A thread moves
 * WORDS_EACH of them, as many as threads lie between two: it loads all before
 * it stores the first.  The wide side is the output (a gather) or the input (a
 * scatter); on the other side a word is V parts of sizeof(E) bytes, `part`
 * apart.  V = 1: both sides have words.
 *
 *     gather, V = 2     y[i] y[i+1] = x[a] x[a + part]     shuffles of channels
 *     scatter, V = 4    y[a] .. y[a + 3 part] = x[i] .. x[i+3]    4 planes
 *
 * Offsets have 32 bits; words are numbered in the order of the wide side.
 */
#ifndef KERNELS_CUDA_MOVE_COPY_WORDS_CUH
#define KERNELS_CUDA_MOVE_COPY_WORDS_CUH

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/strided.cuh"

#define WORDS_THREADS 256

/* ---- the form of a copy -------------------------------------------- */

/* Operand 1 is the wide side.  Strides are in words on the wide side, in parts
 * on the other. */
struct words_form {
    int rank;
    int64_t dim[KERN_MAX_RANK], stride[2][KERN_MAX_RANK];
    int64_t count; /* of words */
    int64_t part;
    int bytes; /* of a part */
    int v;     /* parts of a word */
    bool scatter;
    double score; /* bytes a cycle of the load and store units, about */
};

/* True if a dimension's parts can be joined to words of v on this side. */
static inline bool words_join(const struct words_form *f, int side,
                              uintptr_t at, int v)
{
    const int last = f->rank - 1;

    if (f->stride[side][last] != 1 || at % ((uintptr_t)v * f->bytes) != 0)
        return false;
    for (int d = 0; d < last; d++)
        if (f->stride[side][d] % v != 0)
            return false;
    return true;
}

/* The innermost dimension has 1 of v words; one that is left alone goes. */
static inline void words_shorten(struct words_form *f, int v)
{
    const int last = f->rank - 1;

    f->dim[last] /= v;
    f->count /= v;
    if (f->dim[last] == 1 && f->rank > 1)
        f->rank--;
}

/* Joins what is adjacent on both sides. */
static inline void words_both(struct words_form *f, const uintptr_t *at)
{
    const int last = f->rank - 1;

    for (int v = 16 / f->bytes; v > 1; v /= 2) {
        if (f->dim[last] % v != 0 || !words_join(f, 0, at[0], v) ||
            !words_join(f, 1, at[1], v))
            continue;
        for (int k = 0; k < 2; k++)
            for (int d = 0; d < last; d++)
                f->stride[k][d] /= v;
        f->bytes *= v;
        words_shorten(f, v);
        return;
    }
}

/* Joins v parts to a word on the wide side. */
static inline bool words_wide(struct words_form *f, const uintptr_t *at, int v)
{
    const int last = f->rank - 1;

    if (f->bytes * v > 16 || f->dim[last] % v != 0 ||
        !words_join(f, 1, at[1], v))
        return false;
    for (int d = 0; d < last; d++)
        f->stride[1][d] /= v;
    f->part = f->stride[0][last];
    f->stride[0][last] *= v;
    f->v = v;
    words_shorten(f, v);
    return true;
}

/* Lines of 128 bytes that n accesses of `bytes` touch, `stride` apart. */
static inline double words_lines(double n, int64_t stride, int bytes)
{
    const double reach = n * (double)(stride < 0 ? -stride : stride) * bytes;
    const double lines = reach / 128;

    return lines < 1 ? 1 : lines > n ? n : lines;
}

/* The same of the parts of 32 neighbouring words. */
static inline double words_part_lines(const struct words_form *f)
{
    const int last = f->rank - 1;
    const int64_t d = f->dim[last], s = f->stride[0][last];
    double inner, outer, n;

    if (d >= 32 || f->rank == 1)
        return words_lines(32, s, f->bytes);
    n = 32.0 / (double)d;
    inner = n * words_lines((double)d, s, f->bytes);
    outer = (double)d * words_lines(n, f->stride[0][last - 1], f->bytes);
    return inner < outer ? inner : outer;
}

static inline void words_rate(struct words_form *f)
{
    const double parts = words_part_lines(f) * (f->scatter ? 2 : 1);
    const int word = f->bytes * f->v;

    f->score = 32.0 * word / (words_lines(32, 1, word) + f->v * parts);
}

/* The best form with operand 1 of w as the wide side; at: addresses.  False
 * where offsets take more than 31 bits or numbers more than 30. */
static inline bool words_best(const struct cuda_strided<2> &w, int bytes,
                              const uintptr_t *at, bool scatter,
                              struct words_form *best)
{
    struct words_form plain = {};
    bool found = false;

    if (w.count < 1 || w.count >= (int64_t)1 << 30)
        return false;
    plain.rank = w.rank > 0 ? w.rank : 1;
    plain.count = w.count;
    plain.bytes = bytes;
    plain.v = 1;
    plain.scatter = scatter;
    plain.dim[0] = 1;
    for (int k = 0; k < 2; k++) {
        int64_t reach = 0;

        for (int d = 0; d < w.rank; d++) {
            plain.dim[d] = w.dim[d];
            plain.stride[k][d] = w.stride[k][d];
            reach += (w.dim[d] - 1) *
                     (w.stride[k][d] < 0 ? -w.stride[k][d] : w.stride[k][d]);
        }
        if (reach >= (int64_t)1 << 31)
            return false;
    }
    words_both(&plain, at);
    for (int v = 1; v <= 8; v *= 2) {
        struct words_form f = plain;

        if (v > 1 && !words_wide(&f, at, v))
            continue;
        words_rate(&f);
        if (!found || f.score > best->score)
            *best = f;
        found = true;
    }
    return found;
}

/* The form of the copy of p, of elements of one type; false where it needs
 * larger numbers. */
static inline bool words_form_of(const struct kern_problem *p, const void *x,
                                 const void *y, struct words_form *form)
{
    const struct kern_tensor *const gather[2] = {&p->in[0], &p->out[0]},
                                    *const scatter[2] = {&p->out[0], &p->in[0]};
    const uintptr_t to_y[2] = {(uintptr_t)x, (uintptr_t)y},
                    to_x[2] = {(uintptr_t)y, (uintptr_t)x};
    const int bytes = (int)infer_dtype_size(p->out[0].dtype);
    struct cuda_strided<2> w = {
    };
    struct words_form other;

    w.init(p->out[0].rank, p->out[0].dim, gather);
    if (!words_best(w, bytes, to_y, false, form))
        return false;
    /* What repeats an element has no order of its own. */
    for (int d = 0; d < p->in[0].rank; d++)
        if (p->in[0].stride[d] == 0 && p->in[0].dim[d] != 1)
            return true;
    w.init(p->out[0].rank, p->out[0].dim, scatter);
    if (words_best(w, bytes, to_x, true, &other) && other.score > form->score)
        *form = other;
    return true;
}

/* ---- the kernel ---------------------------------------------------- */

struct words_args {
    uint32_t count, threads; /* words; threads of the grid */
    int inner;               /* dimensions but the outermost, innermost first */
    int32_t part;
    struct fast_div divide[KERN_MAX_RANK - 1];
    int32_t stride[2][KERN_MAX_RANK - 1], outer[2];
    const void *parts; /* the side without words */
    const void *wide;
};

/* Words that a thread moves. */
static __host__ __device__ constexpr int words_each(int bytes)
{
    return bytes <= 2 ? 8 : 4;
}

static __device__ __forceinline__ void words_offsets(const struct words_args &a,
                                                     uint32_t i, int32_t *at)
{
    at[0] = at[1] = 0;
#pragma unroll
    for (int d = 0; d < KERN_MAX_RANK - 1; d++) {
        uint32_t index;

        if (d >= a.inner)
            break;
        i = a.divide[d].divmod(i, &index);
        at[0] += (int32_t)index * a.stride[0][d];
        at[1] += (int32_t)index * a.stride[1][d];
    }
    at[0] += (int32_t)i * a.outer[0];
    at[1] += (int32_t)i * a.outer[1];
}

/* What thread `first` moves. */
template <typename E, int V, bool SCATTER>
static __device__ __forceinline__ void words_move(const struct words_args &a,
                                                  uint32_t first)
{
    constexpr int EACH = words_each(sizeof(E) * V);
    vec<E, V> word[EACH];
    int32_t at[EACH][2];

#pragma unroll
    for (int u = 0; u < EACH; u++) {
        const uint32_t i = first + u * a.threads;

        if (i >= a.count)
            continue;
        words_offsets(a, i, at[u]);
        if constexpr (SCATTER) {
            word[u] = ((const vec<E, V> *)a.wide)[at[u][1]];
        } else {
#pragma unroll
            for (int j = 0; j < V; j++)
                word[u].at[j] = ((const E *)a.parts)[at[u][0] + j * a.part];
        }
    }
#pragma unroll
    for (int u = 0; u < EACH; u++) {
        if (first + u * a.threads >= a.count)
            continue;
        if constexpr (SCATTER) {
#pragma unroll
            for (int j = 0; j < V; j++)
                ((E *)a.parts)[at[u][0] + j * a.part] = word[u].at[j];
        } else {
            ((vec<E, V> *)a.wide)[at[u][1]] = word[u];
        }
    }
}

template <typename E, int V, bool SCATTER>
static __global__ void __launch_bounds__(WORDS_THREADS)
    words_kernel(const __grid_constant__ struct words_args a)
{
    launch_wait();
    words_move<E, V, SCATTER>(a, blockIdx.x * (uint32_t)WORDS_THREADS +
                                     threadIdx.x);
}

/* ---- launching ----------------------------------------------------- */

static inline void words_fill(const struct words_form *f, const void *x,
                              void *y, struct words_args *a)
{
    const int64_t each = words_each(f->bytes * f->v);
    const int64_t blocks =
        (f->count + each * WORDS_THREADS - 1) / (each * WORDS_THREADS);

    a->count = (uint32_t)f->count;
    a->threads = (uint32_t)(blocks * WORDS_THREADS);
    a->inner = f->rank - 1;
    a->part = (int32_t)f->part;
    for (int d = 0; d < a->inner; d++) {
        const int own = f->rank - 1 - d;

        a->divide[d].init((uint32_t)f->dim[own]);
        a->stride[0][d] = (int32_t)f->stride[0][own];
        a->stride[1][d] = (int32_t)f->stride[1][own];
    }
    a->outer[0] = (int32_t)f->stride[0][0];
    a->outer[1] = (int32_t)f->stride[1][0];
    a->parts = f->scatter ? y : x;
    a->wide = f->scatter ? x : (const void *)y;
}

template <typename E, int V, bool SCATTER>
static int words_start(const struct words_args &a, void *stream,
                       struct infer_error *err)
{
    return launch_chained(words_kernel<E, V, SCATTER>,
                          a.threads / WORDS_THREADS, WORDS_THREADS, 0, stream,
                          a, err);
}

/* Words of E by themselves, of V parts on the input's side or the output's. */
template <typename E, int V>
static int words_side(const struct words_form *f, const struct words_args &a,
                      void *stream, struct infer_error *err)
{
    return f->scatter ? words_start<E, V, true>(a, stream, err)
                      : words_start<E, V, false>(a, stream, err);
}

template <typename E>
static int words_parts(const struct words_form *f, const struct words_args &a,
                       void *stream, struct infer_error *err)
{
    if constexpr (sizeof(E) <= 2)
        if (f->v == 8)
            return words_side<E, 8>(f, a, stream, err);
    if constexpr (sizeof(E) <= 4)
        if (f->v == 4)
            return words_side<E, 4>(f, a, stream, err);
    if constexpr (sizeof(E) <= 8)
        if (f->v == 2)
            return words_side<E, 2>(f, a, stream, err);
    return words_side<E, 1>(f, a, stream, err);
}

static int words_launch(const struct words_form *f, const void *x, void *y,
                        void *stream, struct infer_error *err)
{
    struct words_args a = {};

    words_fill(f, x, y, &a);
    switch (f->bytes) {
    case 16:
        return words_parts<uint4>(f, a, stream, err);
    case 8:
        return words_parts<uint2>(f, a, stream, err);
    case 4:
        return words_parts<uint32_t>(f, a, stream, err);
    case 2:
        return words_parts<uint16_t>(f, a, stream, err);
    default:
        return words_parts<uint8_t>(f, a, stream, err);
    }
}

#endif
