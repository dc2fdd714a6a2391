/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums, differences, products, maxima and minima of tensors that broadcast to
 * each other, on 8 bits with scales (kernels/quant/quant.h), of any strides.
 *
 * One thread four elements of the output's innermost dimension where all
 * tensors allow, else one; 16 or 8 of integers.  No shared memory.
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

/* ---- integers in words --------------------------------------------- */

/* Four bytes of an operand as values: that of I8 plus 128 is made a float's
 * fraction above 2^23, from which 2^23, the 128 and the zero point are taken,
 * exactly. */
static __device__ __forceinline__ void word_values(const struct scaled_type &t,
                                                   uint32_t word, float *v)
{
    const bool sign = t.dtype == INFER_I8;
    const float base = 8388608.0f + (float)(t.zero + (sign ? 128 : 0));

    word ^= sign ? 0x80808080u : 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const uint32_t bits = __byte_perm(word, 0x4b000000, 0x7440 + j);
        v[j] = __fmul_rn(__fadd_rn(__uint_as_float(bits), -base), t.scale);
    }
}

/* Four values as bytes by quotients: not inline, as it is seldom taken. */
static __device__ __noinline__ uint32_t word_of_quotients(
    const struct scaled_type *t, float a, float b, float c, float d)
{
    const float v[4] = {a, b, c, d};
    uint32_t word = 0;

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float q =
            fminf(fmaxf(__fdiv_rn(v[j], t->scale), t->low), t->high);
        word |= ((uint32_t)(__float2int_rn(q) + t->zero) & 255) << 8 * j;
    }
    return word;
}

/* Four values as bytes.  Within the limits v + 1.5 2^23 has no bits behind the
 * point; the product with the inverse does for the quotient as in
 * scaled_quotient(). */
static __device__ __forceinline__ uint32_t
word_of_values(const struct scaled_type &t, const float *v)
{
    uint32_t to[4];
    float off = 0;

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float q = fminf(fmaxf(__fmul_rn(v[j], t.inverse), t.low), t.high);
        const float rounded = __fadd_rn(q, 12582912.0f);
        off = fmaxf(off, fabsf(q - __fadd_rn(rounded, -12582912.0f)));
        to[j] = __float_as_uint(rounded) + (uint32_t)t.zero;
    }
    if (!(off < 0.4998f))
        return word_of_quotients(&t, v[0], v[1], v[2], v[3]);
    return __byte_perm(__byte_perm(to[0], to[1], 0x0040),
                       __byte_perm(to[2], to[3], 0x0040), 0x5410);
}

/* 4 WORDS values of operand k; one for all where it is broadcast along them. */
template <int WORDS>
static __device__ __forceinline__ void
load_values(const struct scaled_binary_args &a, int k, int64_t at, float *v)
{
    const struct scaled_type &t = a.from[k];

    if (a.walk.broadcasts(k)) {
        scaled_load<1>(t, a.x[k], at, v);
#pragma unroll
        for (int j = 1; j < 4 * WORDS; j++)
            v[j] = v[0];
    } else if (t.dtype == INFER_I8 || t.dtype == INFER_U8) {
        const vec<uint32_t, WORDS> w =
            *(const vec<uint32_t, WORDS> *)((const uint8_t *)a.x[k] + at);
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            word_values(t, w.at[i], v + 4 * i);
    } else {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            scaled_load<4>(t, a.x[k], at + 4 * i, v + 4 * i);
    }
}

template <int WORDS>
static __device__ __forceinline__ void
binary_words(const struct scaled_binary_args &a, const int64_t *at)
{
    float x[4 * WORDS], z[4 * WORDS];
    vec<uint32_t, WORDS> y;

    load_values<WORDS>(a, 0, at[0], x);
    load_values<WORDS>(a, 1, at[1], z);
#pragma unroll
    for (int j = 0; j < 4 * WORDS; j++)
        x[j] = combine(a.kind, x[j], z[j]);
    unary_piecewise_linear<4 * WORDS>(a.act, x);
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        y.at[i] = word_of_values(a.to, x + 4 * i);
    *(vec<uint32_t, WORDS> *)((uint8_t *)a.y + at[2]) = y;
}

/* ---- the host's side ----------------------------------------------- */

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
    if (quant_is_integer(t[2]->dtype) && t[0]->dtype != INFER_F8E4M3 &&
        t[1]->dtype != INFER_F8E4M3) {
        if (a.walk.vectorise(16, at, size))
            return walk_launch<binary_words<4>, true>(a, args, err);
        if (a.walk.vectorise(8, at, size))
            return walk_launch<binary_words<2>, true>(a, args, err);
    }
    return a.walk.vectorise(4, at, size)
               ? walk_launch<binary_element<4>, true>(a, args, err)
               : walk_launch<binary_element<1>, true>(a, args, err);
}

KERN_FUNCTIONS(binary_cuda_scaled) = {
    .supports = supports,
    .launch = launch,
};
