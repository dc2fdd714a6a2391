/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of layer and group norm.  With xn = (x - mean) inverse, h = dy
 * scale and means over a block of elements,
 *     dx = inverse (h - mean(h) - xn mean(h xn)) + residual,
 * and dscale = dy xn before it is summed.  RMS norm takes off no mean, so that
 * its gradient has no mean(h).
 *
 * One thread block of 256, or a warp, a block of elements, in four passes: the
 * mean, the variance about it, the two means of gradients, the results.  Sums
 * are joined by shuffles and in shared memory (64 bytes), in a fixed order.
 */
#include "kernels/cuda/norm/norm.cuh"

enum { SCALE, RESIDUAL, DY, X, DSCALE, DX, OPERANDS };

struct norm_args {
    struct cuda_strided<OPERANDS> outer, inner;
    enum infer_dtype scale_type;           /* INFER_NONE: absent */
    const void *scale, *residual, *dy, *x; /* residual NULL: none */
    void *dscale, *dx;                     /* dscale NULL: none */
    float epsilon;
    bool rms;
};

/* An element's h and xn. */
struct element {
    float dy, h, xn;
};

template <typename T>
static __device__ __forceinline__ struct element
element_at(const struct norm_args &a, const struct norm_stats &m,
           const int64_t (&base)[OPERANDS], const int64_t (&at)[OPERANDS])
{
    struct element e;

    e.dy = to_float(((const T *)a.dy)[base[DY] + at[DY]]);
    e.h = e.dy;
    if (a.scale_type != INFER_NONE)
        e.h *= load_as<T>(a.scale_type, a.scale, base[SCALE] + at[SCALE]);
    e.xn = (to_float(((const T *)a.x)[base[X] + at[X]]) - m.mean) * m.inverse;
    return e;
}

template <typename T, int G>
static __global__ void __launch_bounds__(NORM_THREADS)
    norm_kernel(const __grid_constant__ struct norm_args a)
{
    __shared__ double part[NORM_THREADS / 32];
    const float n = (float)a.inner.count;

    for (int64_t o = norm_first<G>(); o < a.outer.count;
         o += gridDim.x * (int64_t)(NORM_THREADS / G)) {
        int64_t base[OPERANDS], at[OPERANDS];
        float h = 0, h_xn = 0;

        a.outer.offsets(o, base);
        const struct norm_stats m = norm_measure<T, X, G>(
            a.inner, (const T *)a.x + base[X], a.epsilon, a.rms, part);
        for (int64_t i = norm_lane<G>(); i < a.inner.count; i += G) {
            a.inner.offsets(i, at);
            const struct element e = element_at<T>(a, m, base, at);
            h += e.h;
            h_xn = fmaf(e.h, e.xn, h_xn);
        }
        const float mean_h = a.rms ? 0 : norm_sum<G>(h, part) / n;
        const float mean_h_xn = norm_sum<G>(h_xn, part) / n;
        for (int64_t i = norm_lane<G>(); i < a.inner.count; i += G) {
            a.inner.offsets(i, at);
            const struct element e = element_at<T>(a, m, base, at);
            float dx = m.inverse * (e.h - mean_h - e.xn * mean_h_xn);
            if (a.residual)
                dx += to_float(
                    ((const T *)a.residual)[base[RESIDUAL] + at[RESIDUAL]]);
            ((T *)a.dx)[base[DX] + at[DX]] = from_float<T>(dx);
            if (a.dscale)
                ((T *)a.dscale)[base[DSCALE] + at[DSCALE]] =
                    from_float<T>(e.dy * e.xn);
        }
    }
}

template <typename T>
static int start(const struct norm_args *a, const struct kern_args *args,
                 struct infer_error *err)
{
    return norm_start(norm_kernel<T, 32>, norm_kernel<T, NORM_THREADS>, a,
                      false, args, err);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_norm *norm = &p->attr.norm;
    const struct kern_tensor *scale = kern_problem_in(p, 2);
    const struct kern_tensor *residual = kern_problem_in(p, 3);
    const struct kern_tensor *dscale = kern_problem_out(p, 1);
    const struct kern_tensor *const t[OPERANDS] = {
        scale, residual, &p->in[0], &p->in[1], dscale, &p->out[0]};
    struct norm_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    a.scale_type = scale ? scale->dtype : INFER_NONE;
    a.scale = args->in[2];
    a.residual = residual ? args->in[3] : NULL;
    a.dy = args->in[0];
    a.x = args->in[1];
    a.dscale = dscale ? args->out[1] : NULL;
    a.dx = args->out[0];
    a.epsilon = norm->epsilon;
    a.rms = norm->rms;
    norm_loops(t, 1, p->op == KERN_GROUP_NORM_DGRAD ? norm->groups : 0,
               norm->axis, &a.outer, &a.inner);
    return CUDA_DISPATCH(p->in[0].dtype, start, &a, args, err);
}

KERN_FUNCTIONS(norm_dgrad_cuda_block) = {
    .supports = supports_gradients,
    .launch = launch,
};
