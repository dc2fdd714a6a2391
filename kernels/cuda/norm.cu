/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer and group norm: blocks of elements by their own mean and variance.
 *
 * One thread block of 256 a block of elements, in three passes: the mean, the
 * variance about it, the result.  Sums are joined in shared memory (1 KiB) in
 * a fixed order.
 */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/walk.cuh"

#define THREADS 256

/* Operands of the walks: scale, shift, x, y. */
struct norm_args {
    struct cuda_walk<4> outer, inner;
    enum infer_dtype scale_type, shift_type; /* INFER_NONE: absent */
    const void *scale, *shift, *x;
    void *y;
    float epsilon;
    bool rms;
};

/* The sum over the block, the same in every thread. */
static __device__ float block_sum(float v, float *part)
{
    __syncthreads(); /* everybody has read the sum before */
    part[threadIdx.x] = v;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    __syncthreads();
    return part[0];
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    norm_kernel(const __grid_constant__ struct norm_args a)
{
    __shared__ float part[THREADS];
    const float n = (float)a.inner.count;

    for (int64_t o = blockIdx.x; o < a.outer.count; o += gridDim.x) {
        int64_t base[4], at[4];
        float mean = 0, sum = 0, squares = 0;

        a.outer.offsets(o, base);
        const T *x = (const T *)a.x + base[2];
        if (!a.rms) {
            for (int64_t i = threadIdx.x; i < a.inner.count; i += THREADS) {
                a.inner.offsets(i, at);
                sum += to_float(x[at[2]]);
            }
            mean = block_sum(sum, part) / n;
        }
        for (int64_t i = threadIdx.x; i < a.inner.count; i += THREADS) {
            a.inner.offsets(i, at);
            const float d = to_float(x[at[2]]) - mean;
            squares += d * d;
        }
        const float inverse =
            1 / sqrtf(block_sum(squares, part) / n + a.epsilon);
        for (int64_t i = threadIdx.x; i < a.inner.count; i += THREADS) {
            a.inner.offsets(i, at);
            const float scale =
                a.scale_type == INFER_NONE
                    ? 1
                    : load_as<T>(a.scale_type, a.scale, base[0] + at[0]);
            const float shift =
                a.shift_type == INFER_NONE
                    ? 0
                    : load_as<T>(a.shift_type, a.shift, base[1] + at[1]);
            ((T *)a.y)[base[3] + at[3]] = from_float<T>(
                fmaf((to_float(x[at[2]]) - mean) * inverse, scale, shift));
        }
    }
}

template <typename T>
static int start(const struct norm_args *a, const struct kern_args *args,
                 struct infer_error *err)
{
    const int64_t blocks = a->outer.count < 65536 ? a->outer.count : 65536;

    norm_kernel<T><<<(unsigned)blocks, THREADS, 0, cuda_stream(args)>>>(*a);
    return CUDA_LAUNCHED(err);
}

static void fill(struct norm_args *a, const struct kern_problem *p,
                 const struct kern_args *args)
{
    const struct kern_tensor *scale = kern_problem_in(p, 1);
    const struct kern_tensor *shift = kern_problem_in(p, 2);

    a->scale_type = scale ? scale->dtype : INFER_NONE;
    a->shift_type = shift ? shift->dtype : INFER_NONE;
    a->scale = args->in[1];
    a->shift = args->in[2];
    a->x = args->in[0];
    a->y = args->out[0];
    a->epsilon = p->attr.norm.epsilon;
    a->rms = p->attr.norm.rms;
}

/* The first `rank` dimensions of a tensor, or those behind. */
static struct kern_tensor head(const struct kern_tensor *t, int rank)
{
    struct kern_tensor h = *t;

    h.rank = rank;
    return h;
}

static struct kern_tensor tail(const struct kern_tensor *t, int from)
{
    struct kern_tensor b = *t;

    b.rank = t->rank - from;
    for (int i = 0; i < b.rank; i++) {
        b.dim[i] = t->dim[from + i];
        b.stride[i] = t->stride[from + i];
    }
    return b;
}

static int launch_layer(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int axis = p->attr.norm.axis;
    const struct kern_tensor outer_x = head(&p->in[0], axis);
    const struct kern_tensor outer_y = head(&p->out[0], axis);
    const struct kern_tensor inner_x = tail(&p->in[0], axis);
    const struct kern_tensor inner_y = tail(&p->out[0], axis);
    const struct kern_tensor *const outer[4] = {NULL, NULL, &outer_x, &outer_y};
    const struct kern_tensor *const inner[4] = {
        kern_problem_in(p, 1), kern_problem_in(p, 2), &inner_x, &inner_y};
    struct norm_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    fill(&a, p, args);
    a.outer.init(axis, outer_y.dim, outer);
    a.inner.init(inner_y.rank, inner_y.dim, inner);
    return CUDA_DISPATCH(p->in[0].dtype, start, &a, args, err);
}

/* N, C, ... with C as groups and channels of a group: the dimensions of the
 * blocks, then those within. */
static void split_groups(const struct kern_tensor *t, int groups,
                         struct kern_tensor *outer, struct kern_tensor *inner)
{
    const int64_t channels = t->dim[1] / groups;

    *outer = head(t, 2);
    outer->dim[1] = groups;
    outer->stride[1] = channels * t->stride[1];
    *inner = tail(t, 1);
    inner->dim[0] = channels;
}

/* A vector over channels, along the groups and within one. */
static void split_vector(const struct kern_tensor *v, int groups,
                         const struct kern_tensor *outer_y,
                         const struct kern_tensor *inner_y,
                         struct kern_tensor *outer, struct kern_tensor *inner)
{
    const int64_t step = v->stride[0];

    *outer = *outer_y;
    outer->stride[0] = 0;
    outer->stride[1] = v->dim[0] / groups * step;
    *inner = *inner_y;
    for (int i = 1; i < inner->rank; i++)
        inner->stride[i] = 0;
    inner->stride[0] = step;
}

static int launch_group(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const int groups = p->attr.norm.groups;
    struct kern_tensor outer[4], inner[4];
    const struct kern_tensor *out[4], *in[4];
    struct norm_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    split_groups(&p->in[0], groups, &outer[2], &inner[2]);
    split_groups(&p->out[0], groups, &outer[3], &inner[3]);
    for (int k = 0; k < 4; k++) {
        const struct kern_tensor *v = k < 2 ? kern_problem_in(p, k + 1) : NULL;

        if (v)
            split_vector(v, groups, &outer[3], &inner[3], &outer[k], &inner[k]);
        out[k] = v || k >= 2 ? &outer[k] : NULL;
        in[k] = v || k >= 2 ? &inner[k] : NULL;
    }
    fill(&a, p, args);
    a.outer.init(2, outer[3].dim, out);
    a.inner.init(inner[3].rank, inner[3].dim, in);
    return CUDA_DISPATCH(p->in[0].dtype, start, &a, args, err);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    return check_types(p, 1, 2, why);
}

CUDA_ROWS(layer_norm, block, KERN_LAYER_NORM, supports, launch_layer)
CUDA_ROWS(group_norm, block, KERN_GROUP_NORM, supports, launch_group)
