/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient of reductions.  Sums, means and L1: one thread an element of dx, dy
 * spread over the dimensions that were reduced.  Extremes and L2: one warp an
 * output, its lanes along what was reduced, twice: for the extreme or the norm,
 * then to write.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/warp.cuh"

#define THREADS 256

/* ---- element by element -------------------------------------------- */

struct spread_args {
    struct cuda_strided<4> walk; /* dy, x, residual, dx */
    bool l1, residual;
    float factor;
    const void *dy, *x, *r;
    void *dx;
};

template <typename T>
static __device__ __forceinline__ void
spread_element(const struct spread_args &a, const int64_t *at)
{
    float g = to_float(((const T *)a.dy)[at[0]]) * a.factor;
    if (a.l1) {
        const float x = to_float(((const T *)a.x)[at[1]]);
        g *= (float)((x > 0) - (x < 0));
    }
    if (a.residual)
        g += to_float(((const T *)a.r)[at[2]]);
    ((T *)a.dx)[at[3]] = from_float<T>(g);
}

template <typename T>
static int run_spread(const struct kern_problem *p,
                      const struct kern_args *args, struct infer_error *err)
{
    const struct kern_tensor *const t[4] = {&p->in[0], kern_problem_in(p, 1),
                                            kern_problem_in(p, 2), &p->out[0]};
    struct spread_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    if (a.walk.count == 0)
        return 0;
    a.l1 = p->attr.reduce.kind == KERN_REDUCE_L1;
    a.residual = t[2] != NULL;
    a.factor = p->attr.reduce.kind == KERN_REDUCE_MEAN
                   ? (float)((double)kern_tensor_count(&p->in[0]) /
                             (double)a.walk.count)
                   : 1;
    a.dy = args->in[0];
    a.x = args->in[1];
    a.r = args->in[2];
    a.dx = args->out[0];
    return walk_launch<spread_element<T>>(a, args, err);
}

/* ---- output by output ---------------------------------------------- */

struct warp_args {
    struct cuda_strided<4> kept; /* dy, x, residual, dx */
    struct cuda_strided<4> gone; /* row-major number, x, residual, dx */
    enum kern_reduce_kind kind;
    bool residual;
    const void *dy, *x, *r;
    void *dx;
};

/* The extreme of a part and its number; -1: none yet. */
struct extreme {
    float value;
    int64_t number;
};

/* As the reference finds it going through all in order: the first extreme, but
 * the last NaN. */
static __device__ __forceinline__ bool wins(bool max, const struct extreme &x,
                                            const struct extreme &y)
{
    const bool nan_x = x.value != x.value, nan_y = y.value != y.value;

    if (x.number < 0 || y.number < 0)
        return x.number >= 0;
    if (nan_x || nan_y)
        return nan_x && (!nan_y || x.number > y.number);
    if (x.value == y.value)
        return x.number < y.number;
    return max ? x.value > y.value : x.value < y.value;
}

static __device__ __forceinline__ struct extreme
join_extremes(bool max, struct extreme mine)
{
    for (int step = 16; step > 0; step /= 2) {
        struct extreme other;
        other.value = __shfl_xor_sync(~0u, mine.value, step);
        other.number = __shfl_xor_sync(~0u, (long long)mine.number, step);
        if (wins(max, other, mine))
            mine = other;
    }
    return mine;
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    warp_kernel(const __grid_constant__ struct warp_args a)
{
    const int lane = threadIdx.x % 32;
    const int64_t warps = (int64_t)gridDim.x * (THREADS / 32);
    const bool l2 = a.kind == KERN_REDUCE_L2, max = a.kind == KERN_REDUCE_MAX;

    /* The warp stays whole: the loop's bound is the same for all lanes. */
    for (int64_t o = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
         o < a.kept.count; o += warps) {
        int64_t at[4], step[4];
        struct extreme top = {0, -1};
        float norm = 0;

        a.kept.offsets(o, at);
        const T *x = (const T *)a.x + at[1];
        for (int64_t i = lane; i < a.gone.count; i += 32) {
            a.gone.offsets(i, step);
            const struct extreme here = {to_float(x[step[1]]), step[0]};
            norm = fmaf(here.value, here.value, norm);
            if (wins(max, here, top))
                top = here;
        }
        norm = warp_sum(norm);
        top = join_extremes(max, top);
        const float dy = to_float(((const T *)a.dy)[at[0]]);
        const float scale = norm > 0 ? dy / sqrtf(norm) : 0;
        for (int64_t i = lane; i < a.gone.count; i += 32) {
            a.gone.offsets(i, step);
            float g = step[0] == top.number ? dy : 0;
            if (l2)
                g = to_float(x[step[1]]) * scale;
            if (a.residual)
                g += to_float(((const T *)a.r)[at[2] + step[2]]);
            ((T *)a.dx)[at[3] + step[3]] = from_float<T>(g);
        }
    }
}

static void init_walks(struct warp_args *a, const struct kern_problem *p)
{
    const uint32_t axes = p->attr.reduce.axes;
    const struct kern_tensor *dx = &p->out[0];
    const struct kern_tensor *r = kern_problem_in(p, 2);
    const struct kern_tensor shape = cuda_dimensions(dx, axes, true);
    const struct kern_tensor number =
        kern_tensor_dense(INFER_F32, dx->rank, shape.dim, KERN_NCHW);
    const struct kern_tensor kept[3] = {
        cuda_dimensions(&p->in[1], axes, false),
        cuda_dimensions(r ? r : dx, axes, false),
        cuda_dimensions(dx, axes, false)};
    const struct kern_tensor gone[3] = {cuda_dimensions(&p->in[1], axes, true),
                                        cuda_dimensions(r ? r : dx, axes, true),
                                        shape};
    const struct kern_tensor *const outer[4] = {&p->in[0], &kept[0], &kept[1],
                                                &kept[2]};
    const struct kern_tensor *const inner[4] = {&number, &gone[0], &gone[1],
                                                &gone[2]};

    a->kept.init(dx->rank, kept[2].dim, outer);
    a->gone.init(dx->rank, shape.dim, inner);
}

template <typename T>
static int run_warps(const struct kern_problem *p, const struct kern_args *args,
                     struct infer_error *err)
{
    struct warp_args a = {};

    init_walks(&a, p);
    if (a.kept.count == 0 || a.gone.count == 0)
        return 0;
    a.kind = p->attr.reduce.kind;
    a.residual = kern_problem_in(p, 2);
    a.dy = args->in[0];
    a.x = args->in[1];
    a.r = args->in[2];
    a.dx = args->out[0];
    warp_kernel<T><<<cuda_grid(a.kept.count, THREADS / 32), THREADS, 0,
                     cuda_stream(args)>>>(a);
    return CUDA_LAUNCHED(err);
}

/* ---- rows ---------------------------------------------------------- */

template <typename T>
static int run(const struct kern_problem *p, const struct kern_args *args,
               struct infer_error *err)
{
    switch (p->attr.reduce.kind) {
    case KERN_REDUCE_MEAN:
    case KERN_REDUCE_SUM:
    case KERN_REDUCE_L1:
        return run_spread<T>(p, args, err);
    case KERN_REDUCE_MAX:
    case KERN_REDUCE_MIN:
    case KERN_REDUCE_L2:
        return run_warps<T>(p, args, err);
    case KERN_REDUCE_PROD:
    case KERN_REDUCE_KIND_COUNT:
        break;
    }
    return error_set(err, INFER_EUNSUPPORTED, "reduce_dgrad: kind %d",
                     (int)p->attr.reduce.kind);
}

CUDA_LAUNCH(launch, run, &e->problem)

KERN_FUNCTIONS(reduce_dgrad_cuda_walk) = {
    .supports = supports_types<>,
    .launch = launch,
};
