/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantisation, its inverse, and both: copies with scales between F32, F16,
 * BF16, I8, U8 and F8E4M3 of any strides (kernels/quant/quant.h).
 *
 * One thread four elements of the output's innermost dimension where they lie
 * side by side there, and in the input side by side or one for all, else one.
 * No shared memory.
 */
#include "kernels/cuda/quant/scaled.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

struct scaled_copy_args {
    struct cuda_strided<2> walk;
    struct scaled_type from, to;
    const void *x;
    void *y;
};

template <int N>
static __device__ __forceinline__ void
copy_element(const struct scaled_copy_args &a, const int64_t *at)
{
    float v[N];

    if (N > 1 && a.walk.broadcasts(0)) {
        scaled_load<1>(a.from, a.x, at[0], v);
#pragma unroll
        for (int j = 1; j < N; j++)
            v[j] = v[0];
    } else {
        scaled_load<N>(a.from, a.x, at[0], v);
    }
    scaled_store<N>(a.to, a.y, at[1], v);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!quant_is_scaled(p) || !scaled_is_known(&p->in[0]) ||
        !scaled_is_known(&p->out[0]))
        return error_set(why, INFER_EUNSUPPORTED,
                         "copies 8 bits, F32, F16 and BF16 with scales");
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *const t[2] = {&p->in[0], &p->out[0]};
    const void *const at[2] = {args->in[0], args->out[0]};
    const size_t size[2] = {infer_dtype_size(p->in[0].dtype),
                            infer_dtype_size(p->out[0].dtype)};
    struct scaled_copy_args a = {};

    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.from = scaled_type_of(p->in[0].dtype, p->quant.x_scale, p->quant.x_zero);
    a.to = scaled_type_of(p->out[0].dtype, p->quant.y_scale, p->quant.y_zero);
    a.x = args->in[0];
    a.y = args->out[0];
    return a.walk.vectorise(4, at, size)
               ? walk_launch<copy_element<4>, true>(a, args, err)
               : walk_launch<copy_element<1>, true>(a, args, err);
}

KERN_FUNCTIONS(copy_cuda_scaled) = {
    .supports = supports,
    .launch = launch,
};
