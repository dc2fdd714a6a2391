/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of ONNX Resize in up to three dimensions at once, gathered: each
 * element of dx adds up the outputs that were made of it, so no two threads add
 * to one place, and the order of every sum is fixed.
 *
 * prepare() transposes the tables of kernels/resize.h: for each resized
 * dimension and each index of dx, the outputs that read it, as offsets in dy,
 * and their weights.  The tables are in device memory.  A thread computes V
 * neighbours of dx in memory order: 16 bytes if the innermost dimension is not
 * resized and all tensors allow it, else one element.  No shared memory.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/move/resize.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256

enum { SLOTS = 3 }; /* dimensions that are resized, at most */

/* A dimension of dx. */
struct line {
    struct fast_div extent;
    int64_t dx_stride, r_stride;
    int64_t dy_stride; /* 0 of those that are resized */
    int slot;          /* -1: not resized */
};

/* Index i of a resized dimension was taken by outputs start[i] .. start[i+1].
 * One that stands for no dimension has weight 1 at offset 0. */
struct slot {
    const int64_t *from; /* offsets in dy */
    const float *weight;
    const uint32_t *start;
};

/* Dimensions in the order of dx's strides, outermost first. */
struct gather_args {
    int rank;
    uint32_t count;
    struct line line[KERN_MAX_RANK];
    struct slot slot[SLOTS];
    const void *dy, *residual; /* residual NULL: none */
    void *dx;
};

typedef struct resize_state<struct gather_args> state;

/* ---- the kernel ---------------------------------------------------- */

/* Where a thread's element lies, and its ranges in the slots. */
struct place {
    int64_t dx, residual, dy;
    uint32_t first[SLOTS], end[SLOTS];
};

static __device__ __forceinline__ struct place
place_of(const struct gather_args &a, uint32_t i)
{
    struct place at = {};

#pragma unroll
    for (int s = 0; s < SLOTS; s++)
        at.end[s] = 1;
    for (int d = a.rank - 1; d >= 0; d--) {
        const struct line &l = a.line[d];
        uint32_t o;

        i = l.extent.divmod(i, &o);
        at.dx += o * l.dx_stride;
        at.residual += o * l.r_stride;
        at.dy += o * l.dy_stride;
#pragma unroll
        for (int s = 0; s < SLOTS; s++)
            if (l.slot == s) {
                at.first[s] = a.slot[s].start[o];
                at.end[s] = a.slot[s].start[o + 1];
            }
    }
    return at;
}

template <typename T, int V>
static __global__ void __launch_bounds__(THREADS)
    gather_kernel(const __grid_constant__ struct gather_args a)
{
    const uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    float sum[V];

    if (i >= a.count)
        return;
    const struct place at = place_of(a, i);
#pragma unroll
    for (int j = 0; j < V; j++)
        sum[j] = 0;
    for (uint32_t u = at.first[0]; u < at.end[0]; u++)
        for (uint32_t v = at.first[1]; v < at.end[1]; v++)
            for (uint32_t w = at.first[2]; w < at.end[2]; w++) {
                const float weight = a.slot[0].weight[u] * a.slot[1].weight[v] *
                                     a.slot[2].weight[w];
                const vec<T, V> dy =
                    load_vec<T, V>((const T *)a.dy + at.dy + a.slot[0].from[u] +
                                   a.slot[1].from[v] + a.slot[2].from[w]);
#pragma unroll
                for (int j = 0; j < V; j++)
                    sum[j] = fmaf(weight, to_float(dy.at[j]), sum[j]);
            }
    if (a.residual) {
        const vec<T, V> r = load_vec<T, V>((const T *)a.residual + at.residual);
#pragma unroll
        for (int j = 0; j < V; j++)
            sum[j] += to_float(r.at[j]);
    }
    store_floats<T, V>((T *)a.dx + at.dx, sum);
}

/* ---- tables -------------------------------------------------------- */

/* The forward problem, with strides of 1: its tables hold indices. */
static struct kern_problem fprop_of(const struct kern_problem *p)
{
    struct kern_problem f = *p;

    f.in[0] = p->out[0];
    f.out[0] = p->in[0];
    for (int i = 0; i < f.in[0].rank; i++)
        f.in[0].stride[i] = 1;
    return f;
}

static bool is_resized(const struct kern_problem *p, int d)
{
    return p->attr.resize.scale[d] != 1.0f;
}

/* A transposed table in host memory. */
struct transposed {
    size_t entries, extent; /* extent: of dx */
    int64_t *from;          /* [entries] */
    uint32_t *start;        /* [extent + 1] */
    float *weight;          /* [entries] */
};

static void transposed_free(struct transposed *t)
{
    free(t->from);
    free(t->start);
    free(t->weight);
}

static int transposed_new(struct transposed *t, size_t entries, size_t extent,
                          struct infer_error *err)
{
    t->entries = entries;
    t->extent = extent;
    t->from = (int64_t *)calloc(entries + 1, sizeof *t->from);
    t->start = (uint32_t *)calloc(extent + 1, sizeof *t->start);
    t->weight = (float *)calloc(entries + 1, sizeof *t->weight);
    if (!t->from || !t->start || !t->weight)
        return error_set(err, INFER_EMEMORY, "resize_dgrad: out of memory");
    return 0;
}

/* Weight 1 at offset 0 for every index. */
static int transpose_identity(struct transposed *t, struct infer_error *err)
{
    const int r = transposed_new(t, 1, 1, err);

    if (r == 0) {
        t->start[1] = 1;
        t->weight[0] = 1;
    }
    return r;
}

/* Counting sort of the entries by the input they read: outputs stay in order.
 */
static int transpose(const struct resize_table *table, int64_t outputs,
                     int64_t extent, int64_t stride, struct transposed *t,
                     struct infer_error *err)
{
    const int64_t n = outputs * table->taps;
    int r = n > UINT32_MAX
                ? error_set(err, INFER_EMEMORY, "resize_dgrad: too many taps")
                : transposed_new(t, (size_t)n, (size_t)extent, err);
    uint32_t at = 0;

    if (r < 0)
        return r;
    for (int64_t k = 0; k < n; k++)
        t->start[table->index[k]]++;
    for (int64_t i = 0; i <= extent; i++) {
        const uint32_t here = i < extent ? t->start[i] : 0;
        t->start[i] = at;
        at += here;
    }
    for (int64_t k = 0; k < n; k++) {
        const uint32_t to = t->start[table->index[k]]++;
        t->from[to] = k / table->taps * stride;
        t->weight[to] = (float)table->weight[k];
    }
    /* Each start has moved on to the next one's place. */
    memmove(t->start + 1, t->start, (size_t)extent * sizeof *t->start);
    t->start[0] = 0;
    return 0;
}

static int transpose_dimension(const struct kern_problem *p, int d,
                               struct transposed *t, struct infer_error *err)
{
    const struct kern_problem f = fprop_of(p);
    struct resize_table table = {};
    int r = 0;

    /* Without outputs nothing was taken. */
    if (kern_tensor_count(&p->in[0]) == 0)
        return transposed_new(t, 0, (size_t)p->out[0].dim[d], err);
    r = resize_table_make(&f, d, err, &table);
    if (r == 0)
        r = transpose(&table, p->in[0].dim[d], p->out[0].dim[d],
                      p->in[0].stride[d], t, err);
    resize_table_free(&table);
    return r;
}

/* ---- preparing ----------------------------------------------------- */

/* Offsets of all slots, then weights, then starts. */
static int upload(state *s, const struct transposed *t, struct infer_error *err)
{
    size_t entries = 0, starts = 0;

    for (int i = 0; i < SLOTS; i++) {
        entries += t[i].entries;
        starts += t[i].extent + 1;
    }
    const size_t bytes = entries * 12 + starts * 4;
    char *host = (char *)malloc(bytes);
    if (!host)
        return error_set(err, INFER_EMEMORY, "resize_dgrad: out of memory");
    size_t from = 0, weight = entries * 8, start = entries * 12;
    size_t at[SLOTS][3];
    for (int i = 0; i < SLOTS; i++) {
        memcpy(host + from, t[i].from, t[i].entries * 8);
        memcpy(host + weight, t[i].weight, t[i].entries * 4);
        memcpy(host + start, t[i].start, (t[i].extent + 1) * 4);
        at[i][0] = from;
        at[i][1] = weight;
        at[i][2] = start;
        from += t[i].entries * 8;
        weight += t[i].entries * 4;
        start += (t[i].extent + 1) * 4;
    }
    const int r = resize_upload(host, bytes, &s->memory, err);
    free(host);
    for (int i = 0; r == 0 && i < SLOTS; i++) {
        const char *base = (const char *)s->memory;
        s->args.slot[i].from = (const int64_t *)(base + at[i][0]);
        s->args.slot[i].weight = (const float *)(base + at[i][1]);
        s->args.slot[i].start = (const uint32_t *)(base + at[i][2]);
    }
    return r;
}

static void fill_lines(const struct kern_problem *p, struct gather_args *a)
{
    const struct kern_tensor *dx = &p->out[0], *dy = &p->in[0];
    const struct kern_tensor *residual = kern_problem_in(p, 1);
    int order[KERN_MAX_RANK], slots = 0;

    a->rank = dx->rank;
    a->count = (uint32_t)kern_tensor_count(dx);
    cuda_sort_dimensions(dx, order);
    for (int i = 0; i < dx->rank; i++) {
        const int d = order[i];
        struct line *l = &a->line[i];
        const bool resized = is_resized(p, d);

        l->extent.init((uint32_t)dx->dim[d]);
        l->dx_stride = dx->stride[d];
        l->r_stride = residual ? residual->stride[d] : 0;
        l->dy_stride = resized ? 0 : dy->stride[d];
        l->slot = resized ? slots++ : -1;
    }
}

static int fill(state *s, const struct kern_problem *p, struct infer_error *err)
{
    struct transposed t[SLOTS] = {};
    int order[KERN_MAX_RANK], slots = 0, r = 0;

    fill_lines(p, &s->args);
    cuda_sort_dimensions(&p->out[0], order);
    for (int i = 0; r == 0 && i < p->out[0].rank; i++)
        if (is_resized(p, order[i]))
            r = transpose_dimension(p, order[i], &t[slots++], err);
    while (r == 0 && slots < SLOTS)
        r = transpose_identity(&t[slots++], err);
    if (r == 0)
        r = upload(s, t, err);
    for (int i = 0; i < SLOTS; i++)
        transposed_free(&t[i]);
    return r;
}

/* ---- launching ----------------------------------------------------- */

/* True if v neighbours can be moved as one everywhere. */
static bool in_vectors(const struct kern_problem *p,
                       const struct kern_args *args, int v)
{
    const struct kern_tensor *residual = kern_problem_in(p, 1);
    const struct kern_tensor *const t[3] = {
        &p->in[0], residual ? residual : &p->out[0], &p->out[0]};
    const void *const base[3] = {
        args->in[0], residual ? args->in[1] : args->out[0], args->out[0]};
    int order[KERN_MAX_RANK];

    cuda_sort_dimensions(&p->out[0], order);
    if (p->out[0].rank == 0)
        return false;
    const int last = order[p->out[0].rank - 1];
    if (is_resized(p, last) || p->out[0].dim[last] % v != 0)
        return false;
    for (int k = 0; k < 3; k++) {
        if (t[k]->stride[last] != 1 || (uintptr_t)base[k] % 16 != 0)
            return false;
        for (int d = 0; d < t[k]->rank; d++)
            if (d != last && t[k]->stride[d] % v != 0)
                return false;
    }
    return true;
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    const int wide = 16 / (int)sizeof(T);
    struct gather_args a = ((const state *)e->state)->args;
    const cudaStream_t stream = cuda_stream(args);

    if (a.count == 0)
        return 0;
    a.dy = args->in[0];
    a.residual = kern_problem_in(&e->problem, 1) ? args->in[1] : NULL;
    a.dx = args->out[0];
    if (in_vectors(&e->problem, args, wide)) {
        struct line *l = &a.line[a.rank - 1];
        a.count /= wide;
        l->extent.init(l->extent.divisor / wide);
        l->dx_stride = l->r_stride = l->dy_stride = wide;
        gather_kernel<T, wide>
            <<<cuda_blocks(a.count, THREADS), THREADS, 0, stream>>>(a);
    } else {
        gather_kernel<T, 1>
            <<<cuda_blocks(a.count, THREADS), THREADS, 0, stream>>>(a);
    }
    return CUDA_LAUNCHED(err);
}

CUDA_LAUNCH(launch, run, e)

/* dx is numbered with 31 bits, and so is what an element adds up. */
static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_problem f = fprop_of(p);
    int resized = 0, r = check_types(p, 1, 0, why);

    (void)d;
    if (r == 0)
        r = check_count(p, why);
    if (r == 0)
        r = check_count(&f, why);
    if (r == 0)
        r = resize_limits(&f, why);
    for (int i = 0; i < p->out[0].rank; i++)
        resized += is_resized(p, i);
    if (r == 0 && resized > SLOTS)
        r = error_set(why, INFER_EUNSUPPORTED,
                      "resize_dgrad: %d dimensions are resized, supported %d",
                      resized, SLOTS);
    return r;
}

KERN_FUNCTIONS(resize_dgrad_cuda_gather) = {
    .supports = supports,
    .prepare = resize_prepare<struct gather_args, fill>,
    .launch = launch,
    .release = resize_release<struct gather_args>,
};
