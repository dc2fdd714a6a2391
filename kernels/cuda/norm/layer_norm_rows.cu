/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer norm over elements that lie side by side, which are read once.
 *
 * G lanes of a warp, a power of two, hold a line in registers, R vectors of 16
 * bytes each: vector r of lane l is number r * G + l of the line.  The mean is
 * that of the elements, then that of their distances from it, so that rounding
 * errors of a large sum cancel.  Scale and shift stay in registers while a
 * group walks over lines.  Blocks of 128 threads; no shared memory.
 */
#include <stdlib.h>

#include "kernels/cuda/norm/norm.cuh"

#define THREADS 128

/* Blocks a multiprocessor at most: the groups of these walk over all lines. */
#define BLOCKS_EACH 12

struct rows_args {
    struct cuda_strided<2> outer;            /* x, y */
    uint32_t n;                              /* elements of a line */
    int group;                               /* lanes of a line */
    enum infer_dtype scale_type, shift_type; /* INFER_NONE: absent */
    const void *scale, *shift, *x;
    void *y;
    float epsilon;
    bool rms;
};

static __device__ __forceinline__ float group_sum(float v, int group)
{
    for (int step = group / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

/* A parameter of the elements of this lane, of type T or F32; `neutral` where
 * it is absent. */
template <typename T, int V, int R>
static __device__ __forceinline__ void
load_parameter(const struct rows_args &a, enum infer_dtype type, const void *p,
               float neutral, uint32_t lane, float (&out)[R][V])
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        const uint32_t e = (r * a.group + lane) * V;

#pragma unroll
        for (int j = 0; j < V; j++)
            out[r][j] = neutral;
        if (e >= a.n || type == INFER_NONE)
            continue;
        if (type == dtype_of<T>::value) {
            load_floats<T, V>((const T *)p + e, out[r]);
            continue;
        }
#pragma unroll
        for (int j = 0; j < V; j += 4)
            load_floats<float, 4>((const float *)p + e + j, out[r] + j);
    }
}

template <typename T, int R>
static __global__ void __launch_bounds__(THREADS)
    rows_kernel(const __grid_constant__ struct rows_args a)
{
    enum { V = 16 / (int)sizeof(T) };
    const uint32_t lane = threadIdx.x % a.group;
    const int64_t groups = gridDim.x * (int64_t)(THREADS / a.group);
    const int64_t first =
        blockIdx.x * (int64_t)(THREADS / a.group) + threadIdx.x / a.group;
    const float part = 1 / (float)a.n;
    float scale[R][V], shift[R][V];

    load_parameter<T, V, R>(a, a.scale_type, a.scale, 1, lane, scale);
    load_parameter<T, V, R>(a, a.shift_type, a.shift, 0, lane, shift);
    launch_wait();
    /* All lanes of a warp go on as long as one has a line. */
    for (int64_t o = first; o - threadIdx.x % 32 / a.group < a.outer.count;
         o += groups) {
        const bool there = o < a.outer.count;
        int64_t at[2];
        float x[R][V], mean = 0, more = 0, squares = 0;

        a.outer.offsets(there ? o : a.outer.count - 1, at);
        const T *from = (const T *)a.x + at[0];
#pragma unroll
        for (int r = 0; r < R; r++) {
            const uint32_t e = (r * a.group + lane) * V;
#pragma unroll
            for (int j = 0; j < V; j++)
                x[r][j] = 0;
            if (e < a.n)
                load_floats<T, V>(from + e, x[r]);
        }
        if (!a.rms) {
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int j = 0; j < V; j++)
                    mean += x[r][j];
            mean = group_sum(mean, a.group) * part;
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            if ((r * a.group + lane) * V >= a.n)
                continue;
#pragma unroll
            for (int j = 0; j < V; j++) {
                x[r][j] -= mean;
                more += x[r][j];
                squares = fmaf(x[r][j], x[r][j], squares);
            }
        }
        more = a.rms ? 0 : group_sum(more, a.group) * part;
        squares = group_sum(squares, a.group) * part;
        const float inverse =
            1 / sqrtf(fmaxf(squares - more * more, 0) + a.epsilon);
        T *to = (T *)a.y + at[1];
#pragma unroll
        for (int r = 0; r < R; r++) {
            const uint32_t e = (r * a.group + lane) * V;
#pragma unroll
            for (int j = 0; j < V; j++)
                x[r][j] =
                    fmaf((x[r][j] - more) * inverse, scale[r][j], shift[r][j]);
            if (there && e < a.n)
                store_floats<T, V>(to + e, x[r]);
        }
    }
}

/* ---- launching ----------------------------------------------------- */

enum { MOST = 8 }; /* vectors a lane */

/* Lanes of a line of so many vectors, and vectors of each: the fewest that are
 * idle, and of those the most lanes. */
static int split(int64_t vectors, int *each)
{
    int best = 32, idle = INT32_MAX;

    for (int group = 32; group >= 2; group /= 2) {
        const int r = (int)((vectors + group - 1) / group);
        const int left = (r * group - (int)vectors) * (32 / group);

        if (r > (group == 32 ? MOST : 3) || left >= idle)
            continue;
        idle = left;
        best = group;
    }
    *each = (int)((vectors + best - 1) / best);
    return best;
}

/* Elements of a line. */
static int64_t line_elements(const struct kern_problem *p)
{
    int64_t n = 1;

    for (int d = p->attr.norm.axis; d < p->in[0].rank; d++)
        n *= p->in[0].dim[d];
    return n;
}

/* True if a tensor's elements from dimension `from` on lie side by side, and
 * those before it at multiples of v. */
static bool in_lines(const struct kern_tensor *t, int from, int v)
{
    int64_t step = 1;

    for (int d = t->rank - 1; d >= from; d--) {
        if (t->dim[d] > 1 && t->stride[d] != step)
            return false;
        step *= t->dim[d];
    }
    for (int d = 0; d < from; d++)
        if (t->dim[d] > 1 && t->stride[d] % v != 0)
            return false;
    return true;
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const int v = 16 / (int)infer_dtype_size(p->in[0].dtype);
    const int axis = p->attr.norm.axis;
    const int64_t n = line_elements(p);
    const int r = check_types(p, 1, 2, why);
    bool good = in_lines(&p->in[0], axis, v) && in_lines(&p->out[0], axis, v);

    (void)d;
    if (r < 0)
        return r;
    for (int i = 1; i <= 2; i++)
        good = good && (!kern_problem_in(p, i) || in_lines(&p->in[i], 0, 1));
    if (!good || n % v != 0 || n > 32 * MOST * v)
        return error_set(why, INFER_EUNSUPPORTED,
                         "layer_norm: supported are up to %d elements, a "
                         "multiple of %d, side by side",
                         32 * MOST * v, v);
    return 0;
}

struct state {
    int multiprocessors;
};

static int prepare(struct kern_exec *e, const struct kern_device *d,
                   struct infer_error *err)
{
    struct state *s = (struct state *)malloc(sizeof *s);

    if (!s)
        return error_set(err, INFER_EMEMORY, "layer_norm: out of memory");
    s->multiprocessors = d->multiprocessors > 0 ? d->multiprocessors : 64;
    e->state = s;
    return 0;
}

static void release(struct kern_exec *e)
{
    free(e->state);
    e->state = NULL;
}

template <typename T>
static int run(const struct kern_exec *e, const struct kern_args *args,
               struct infer_error *err)
{
    enum { V = 16 / (int)sizeof(T) };
    const struct kern_problem *p = &e->problem;
    const int axis = p->attr.norm.axis;
    const struct kern_tensor *scale = kern_problem_in(p, 1);
    const struct kern_tensor *shift = kern_problem_in(p, 2);
    const struct kern_tensor x = norm_head(&p->in[0], axis);
    const struct kern_tensor y = norm_head(&p->out[0], axis);
    const struct kern_tensor *const t[2] = {&x, &y};
    struct rows_args a = {};
    int each;

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    a.outer.init(y.rank, y.dim, t);
    a.n = (uint32_t)line_elements(p);
    a.group = split(a.n / V, &each);
    a.scale_type = scale ? scale->dtype : INFER_NONE;
    a.shift_type = shift ? shift->dtype : INFER_NONE;
    a.scale = args->in[1];
    a.shift = args->in[2];
    a.x = args->in[0];
    a.y = args->out[0];
    a.epsilon = p->attr.norm.epsilon;
    a.rms = p->attr.norm.rms;
    const int lines = THREADS / a.group; /* of a block */
    const int64_t blocks = (a.outer.count + lines - 1) / lines;
    const int64_t most = ((const struct state *)e->state)->multiprocessors *
                         (int64_t)BLOCKS_EACH;
    return launch_chained(each == 1   ? rows_kernel<T, 1>
                          : each == 2 ? rows_kernel<T, 2>
                          : each == 3 ? rows_kernel<T, 3>
                          : each == 4 ? rows_kernel<T, 4>
                          : each <= 6 ? rows_kernel<T, 6>
                                      : rows_kernel<T, MOST>,
                          (unsigned)(blocks < most ? blocks : most), THREADS, 0,
                          args->stream, a, err);
}

CUDA_LAUNCH(launch, run, e)

KERN_FUNCTIONS(layer_norm_cuda_rows) = {
    .supports = supports,
    .prepare = prepare,
    .launch = launch,
    .release = release,
};
