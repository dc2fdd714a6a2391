/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer and group norm: blocks of elements by their own mean and variance.
 *
 * One thread block of 256, or a warp, a block of elements, in three passes: the
 * mean, the variance about it, the result.  Sums are joined by shuffles and in
 * shared memory (64 bytes), in a fixed order.
 */
#include "kernels/cuda/norm/norm.cuh"

/* Operands of the loops: scale, shift, x, y. */
struct norm_args {
    struct cuda_strided<4> outer, inner;
    enum infer_dtype scale_type, shift_type; /* INFER_NONE: absent */
    const void *scale, *shift, *x;
    void *y;
    float epsilon;
    bool rms;
    bool alike; /* norm_start() */
};

template <typename T, int G>
static __global__ void __launch_bounds__(NORM_THREADS)
    norm_kernel(const __grid_constant__ struct norm_args a)
{
    __shared__ double part[NORM_THREADS / 32];

    for (int64_t o = norm_first<G>(); o < a.outer.count;
         o += gridDim.x * (int64_t)(NORM_THREADS / G)) {
        int64_t base[4], at[4];

        a.outer.offsets(o, base);
        const T *x = (const T *)a.x + base[2];
        const struct norm_stats m =
            norm_measure<T, 2, G>(a.inner, x, a.epsilon, a.rms, part);
        for (int64_t i = norm_lane<G>(); i < a.inner.count; i += G) {
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
                fmaf((to_float(x[at[2]]) - m.mean) * m.inverse, scale, shift));
        }
    }
}

template <typename T>
static int start(const struct norm_args *a, const struct kern_args *args,
                 struct infer_error *err)
{
    return norm_start(norm_kernel<T, 32>, norm_kernel<T, NORM_THREADS>, a,
                      a->alike, args, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_norm *norm = &p->attr.norm;
    const struct kern_tensor *scale = kern_problem_in(p, 1);
    const struct kern_tensor *shift = kern_problem_in(p, 2);
    const struct kern_tensor *const t[4] = {scale, shift, &p->in[0],
                                            &p->out[0]};
    struct norm_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    a.alike = p->deterministic;
    a.scale_type = scale ? scale->dtype : INFER_NONE;
    a.shift_type = shift ? shift->dtype : INFER_NONE;
    a.scale = args->in[1];
    a.shift = args->in[2];
    a.x = args->in[0];
    a.y = args->out[0];
    a.epsilon = norm->epsilon;
    a.rms = norm->rms;
    norm_loops(t, 2, p->op == KERN_GROUP_NORM ? norm->groups : 0, norm->axis,
               &a.outer, &a.inner);
    return CUDA_DISPATCH(p->in[0].dtype, start, &a, args, err);
}

KERN_FUNCTIONS(norm_cuda_block) = {
    .supports = supports_types<1, 2>,
    .launch = launch,
};
