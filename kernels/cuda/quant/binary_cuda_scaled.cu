/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums, differences, products, maxima and minima of tensors that broadcast to
 * each other, on 8 bits with scales (kernels/quant/quant.h), of any strides.
 *
 * One thread four elements of the output's innermost dimension where all
 * tensors allow, else one.  No shared memory.
 */
#include "kernels/cuda/quant/scaled.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

struct scaled_binary_args {
    struct cuda_strided<3> walk;
    struct scaled_type from[2], to;
    enum kern_binary_kind kind;
    struct kern_unary act;
    const void *x[2];
    void *y;
};

static bool is_known(enum kern_binary_kind kind)
{
    return kind == KERN_ADD || kind == KERN_SUB || kind == KERN_MUL ||
           kind == KERN_MAX || kind == KERN_MIN;
}

/* Rounded once; of a NaN, NaN. */
static __device__ __forceinline__ float combine(enum kern_binary_kind kind,
                                                float a, float b)
{
    if (kind == KERN_ADD)
        return __fadd_rn(a, b);
    if (kind == KERN_SUB)
        return __fsub_rn(a, b);
    if (kind == KERN_MUL)
        return __fmul_rn(a, b);
    return kind == KERN_MAX ? max_nan(a, b) : min_nan(a, b);
}

/* Elements of input k; one for all where it is broadcast along them. */
template <int N>
static __device__ __forceinline__ void
load_input(const struct scaled_binary_args &a, int k, int64_t at, float *v)
{
    if (N > 1 && !a.walk.broadcasts(k)) {
        scaled_load<N>(a.from[k], a.x[k], at, v);
        return;
    }
    scaled_load<1>(a.from[k], a.x[k], at, v);
#pragma unroll
    for (int j = 1; j < N; j++)
        v[j] = v[0];
}

template <int N>
static __device__ __forceinline__ void
binary_element(const struct scaled_binary_args &a, const int64_t *at)
{
    float x[N], z[N];

    load_input<N>(a, 0, at[0], x);
    load_input<N>(a, 1, at[1], z);
#pragma unroll
    for (int j = 0; j < N; j++)
        x[j] = combine(a.kind, x[j], z[j]);
    unary_piecewise_linear<N>(a.act, x);
    scaled_store<N>(a.to, a.y, at[2], x);
}

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    (void)d;
    if (!quant_is_scaled(p) || !scaled_is_known(&p->in[0]) ||
        !scaled_is_known(&p->in[1]) || !scaled_is_known(&p->out[0]))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 8 bits, F32, F16 and BF16 with scales");
    if (!is_known(p->attr.binary.kind) ||
        !scaled_act_is_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED,
                         "lacks this function of 8 bits with scales");
    return 0;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_quant *q = &p->quant;
    const struct kern_tensor *const t[3] = {&p->in[0], &p->in[1], &p->out[0]};
    const void *const at[3] = {args->in[0], args->in[1], args->out[0]};
    struct scaled_binary_args a = {};
    size_t size[3];

    for (int k = 0; k < 3; k++)
        size[k] = infer_dtype_size(t[k]->dtype);
    a.walk.init(p->out[0].rank, p->out[0].dim, t);
    a.from[0] = scaled_type_of(t[0]->dtype, q->x_scale, q->x_zero);
    a.from[1] =
        scaled_type_of(t[1]->dtype, q->residual_scale, q->residual_zero);
    a.to = scaled_type_of(t[2]->dtype, q->y_scale, q->y_zero);
    a.kind = p->attr.binary.kind;
    a.act = p->epilogue.act;
    a.x[0] = args->in[0];
    a.x[1] = args->in[1];
    a.y = args->out[0];
    return a.walk.vectorise(4, at, size)
               ? walk_launch<binary_element<4>, true>(a, args, err)
               : walk_launch<binary_element<1>, true>(a, args, err);
}

KERN_FUNCTIONS(binary_cuda_scaled) = {
    .supports = supports,
    .launch = launch,
};
