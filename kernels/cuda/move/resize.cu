/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Resize in every dimension at once.
 *
 * prepare() puts the tables of kernels/resize.h for the dimensions that are
 * resized, the slots, into device memory.  A thread computes V neighbours of
 * the output in memory order: the most up to 16 bytes that both tensors allow
 * if the innermost dimension is not resized, else one element.  It sums over
 * the product of the slots' tables: the taps of the two innermost slots in
 * loops, those of further ones as one number that is taken apart.  No shared
 * memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/move/resize.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256

enum { LOOPS = 2 }; /* slots whose taps have loops of their own */

/* A dimension. */
struct line {
    struct fast_div extent; /* of y */
    int64_t y_stride;
    int64_t x_stride; /* 0 of those that are resized */
    int slot;         /* -1: not resized */
};

/* A resized dimension's table on the device: output o takes the inputs at
 * offsets index[o * taps ..].  Of one that stands for no dimension there is one
 * tap of offset 0 and weight 1. */
struct slot {
    uint32_t taps;
    const int64_t *index;
    const float *weight;
};

/* Dimensions in the order of the output's strides, outermost first; slots
 * innermost first. */
struct resize_args {
    int rank, slots;
    uint32_t count;
    uint32_t further; /* product of the taps of slots LOOPS and on */
    struct line line[KERN_MAX_RANK];
    struct slot slot[KERN_MAX_RANK];
    const void *x;
    void *y;
};

typedef struct resize_state<struct resize_args> state;

/* ---- the kernel ---------------------------------------------------- */

/* Where a thread's element lies, and where its taps begin in the tables of the
 * slots 0 and 1.  No array: it would lie in local memory. */
struct place {
    int64_t y, x;
    uint32_t inner, outer;
};

/* RANK: of the output, 0 where it is known only when running. */
template <int RANK>
static __device__ __forceinline__ struct place
place_of(const struct resize_args &a, uint32_t i)
{
    struct place at = {};

#pragma unroll
    for (int d = (RANK ? RANK : a.rank) - 1; d >= 0; d--) {
        const struct line &l = a.line[d];
        uint32_t o;

        i = l.extent.divmod(i, &o);
        at.y += o * l.y_stride;
        at.x += o * l.x_stride;
        at.inner = l.slot == 0 ? o * a.slot[0].taps : at.inner;
        at.outer = l.slot == 1 ? o * a.slot[1].taps : at.outer;
    }
    return at;
}

/* The offset and weight of tap t of the slots from LOOPS on, for output i. */
static __device__ int64_t further_tap(const struct resize_args &a, uint32_t i,
                                      uint32_t t, float *weight)
{
    int64_t from = 0;

    *weight = 1;
    for (int d = a.rank - 1; d >= 0; d--) {
        const struct line &l = a.line[d];
        uint32_t o;

        i = l.extent.divmod(i, &o);
        if (l.slot < LOOPS)
            continue;
        const struct slot &s = a.slot[l.slot];
        const uint32_t at = o * s.taps + t % s.taps;
        t /= s.taps;
        from += s.index[at];
        *weight *= s.weight[at];
    }
    return from;
}

template <typename T, int V>
static __device__ __forceinline__ void
add_taps(const struct resize_args &a, const struct place &at, const T *x,
         float factor, float (&sum)[V])
{
    const struct slot &inner = a.slot[0], &outer = a.slot[1];

    for (uint32_t u = 0; u < outer.taps; u++) {
        const T *row = x + outer.index[at.outer + u];
        const float of_row = factor * outer.weight[at.outer + u];

        for (uint32_t v = 0; v < inner.taps; v++) {
            const float weight = of_row * inner.weight[at.inner + v];

            if (weight == 0)
                continue;
            const vec<T, V> from =
                load_vec<T, V>(row + inner.index[at.inner + v]);
#pragma unroll
            for (int j = 0; j < V; j++)
                sum[j] = fmaf(weight, to_float(from.at[j]), sum[j]);
        }
    }
}

template <typename T, int V, int RANK>
static __global__ void __launch_bounds__(THREADS)
    resize_kernel(const __grid_constant__ struct resize_args a)
{
    const uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    float sum[V];

    if (i >= a.count)
        return;
    const struct place at = place_of<RANK>(a, i);
    const T *x = (const T *)a.x + at.x;

    launch_wait();
#pragma unroll
    for (int j = 0; j < V; j++)
        sum[j] = 0;
    if (a.slots <= LOOPS) {
        add_taps<T, V>(a, at, x, 1, sum);
    } else {
        for (uint32_t t = 0; t < a.further; t++) {
            float weight;
            const int64_t from = further_tap(a, i, t, &weight);

            add_taps<T, V>(a, at, x + from, weight, sum);
        }
    }
    store_floats<T, V>((T *)a.y + at.y, sum);
}

/* ---- preparing ----------------------------------------------------- */

static bool is_resized(const struct kern_problem *p, int d)
{
    return p->attr.resize.scale[d] != 1.0f;
}

/* Tables of the slots, in host memory. */
struct tables {
    size_t entries[KERN_MAX_RANK];
    struct resize_table at[KERN_MAX_RANK];
};

static int make_tables(state *s, const struct kern_problem *p, struct tables *t,
                       struct infer_error *err)
{
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    struct resize_args *a = &s->args;
    int order[KERN_MAX_RANK], rc = 0;

    cuda_sort_dimensions(y, order);
    for (int i = y->rank - 1; rc == 0 && i >= 0; i--) {
        const int d = order[i];
        struct line *l = &a->line[i];
        const bool resized = is_resized(p, d);

        l->extent.init((uint32_t)y->dim[d]);
        l->y_stride = y->stride[d];
        l->x_stride = resized ? 0 : x->stride[d];
        l->slot = resized ? a->slots : -1;
        if (!resized)
            continue;
        rc = resize_table_make(p, d, err, &t->at[a->slots]);
        t->entries[a->slots] = (size_t)t->at[a->slots].taps * (size_t)y->dim[d];
        a->slots++;
    }
    return rc;
}

/* The offsets of all slots behind one another, then all weights; last an entry
 * of offset 0 and weight 1, which is the table of a slot without a dimension.
 */
static int upload(state *s, const struct tables *t, struct infer_error *err)
{
    struct resize_args *a = &s->args;
    size_t total = 1, at = 0;

    for (int k = 0; k < a->slots; k++)
        total += t->entries[k];
    char *host = (char *)calloc(total, 12);
    if (!host)
        return error_set(err, INFER_EMEMORY, "resize: out of memory");
    float *weight = (float *)(host + total * 8);
    for (int k = 0; k < a->slots; k++) {
        memcpy(host + at * 8, t->at[k].index, t->entries[k] * 8);
        for (size_t i = 0; i < t->entries[k]; i++)
            weight[at + i] = (float)t->at[k].weight[i];
        at += t->entries[k];
    }
    weight[at] = 1;
    const int r = resize_upload(host, total * 12, &s->memory, err);
    free(host);
    if (r < 0)
        return r;
    at = 0;
    a->further = 1;
    for (int k = 0; k < KERN_MAX_RANK; k++) {
        const bool there = k < a->slots;

        a->slot[k].taps = there ? (uint32_t)t->at[k].taps : 1;
        a->slot[k].index = (const int64_t *)s->memory + at;
        a->slot[k].weight =
            (const float *)((const char *)s->memory + total * 8) + at;
        at += there ? t->entries[k] : 0;
        if (k >= LOOPS)
            a->further *= a->slot[k].taps;
    }
    return 0;
}

static int fill(state *s, const struct kern_problem *p, struct infer_error *err)
{
    const struct kern_tensor *y = &p->out[0];
    struct tables t = {};

    s->args.rank = y->rank;
    s->args.count = (uint32_t)kern_tensor_count(y);
    int rc = make_tables(s, p, &t, err);
    if (rc == 0)
        rc = upload(s, &t, err);
    resize_free_tables(t.at);
    return rc;
}

/* ---- launching ----------------------------------------------------- */

/* True if v neighbours can be moved as one everywhere. */
static bool in_vectors(const struct kern_problem *p,
                       const struct kern_args *args, int v)
{
    const struct kern_tensor *const t[2] = {&p->in[0], &p->out[0]};
    const void *const base[2] = {args->in[0], args->out[0]};
    int order[KERN_MAX_RANK];

    if (p->out[0].rank == 0)
        return false;
    cuda_sort_dimensions(&p->out[0], order);
    const int last = order[p->out[0].rank - 1];
    if (is_resized(p, last) || p->out[0].dim[last] % v != 0)
        return false;
    for (int k = 0; k < 2; k++) {
        if (t[k]->stride[last] != 1 ||
            (uintptr_t)base[k] % (v * infer_dtype_size(t[k]->dtype)) != 0)
            return false;
        for (int d = 0; d < t[k]->rank; d++)
            if (d != last && t[k]->stride[d] % v != 0)
                return false;
    }
    return true;
}

/* For images, v elements a thread. */
template <typename T> static void (*images(int v))(const struct resize_args)
{
    return v == 1   ? resize_kernel<T, 1, 4>
           : v == 2 ? resize_kernel<T, 2, 4>
           : v == 4 ? resize_kernel<T, 4, 4>
                    : resize_kernel<T, 16 / (int)sizeof(T), 4>;
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    constexpr int wide = 16 / (int)sizeof(T);
    struct resize_args a = ((const state *)e->state)->args;

    if (a.count == 0)
        return 0;
    a.x = args->in[0];
    a.y = args->out[0];
    int v = wide;
    while (v > 1 && !in_vectors(&e->problem, args, v))
        v = a.rank == 4 ? v / 2 : 1;
    if (v > 1) {
        struct line *l = &a.line[a.rank - 1];
        a.count /= v;
        l->extent.init(l->extent.divisor / v);
        l->x_stride = l->y_stride = v;
    }
    void (*kernel)(const struct resize_args) = a.rank == 4 ? images<T>(v)
                                               : v == wide
                                                   ? resize_kernel<T, wide, 0>
                                                   : resize_kernel<T, 1, 0>;
    return launch_chained(kernel, cuda_blocks(a.count, THREADS), THREADS, 0,
                          args->stream, a, err);
}

CUDA_LAUNCH(launch, run, e)

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    int r = check_types(p, 1, 0, why);

    (void)d;
    if (r == 0)
        r = check_count(p, why);
    return r < 0 ? r : resize_limits(p, why);
}

KERN_FUNCTIONS(resize_cuda_table) = {
    .supports = supports,
    .prepare = resize_prepare<struct resize_args, fill>,
    .launch = launch,
    .release = resize_release<struct resize_args>,
};
