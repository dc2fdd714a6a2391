/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a layer on 8 bits (kernels/quant/quant.h), from sums in 32 bits to
 * outputs.  Each operation is rounded once, as the reference rounds it: no
 * product and sum are contracted that it does not contract.  The type S of the
 * sums says what 8 bits are: int of I8 and U8, float of F8E4M3, which has no
 * zero points, so that its offsets are not read.
 *
 * The product takes x as it lies, its padding as the zero point, so that the
 * zero point's share of a sum depends on the output channel alone: it is packed
 * behind the weights (`offset`), and after it 16 bytes of the zero point, which
 * stand for pixels outside the image (`blank`).
 */
#ifndef KERNELS_CUDA_QUANT_END_CUH
#define KERNELS_CUDA_QUANT_END_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/float8.cuh"
#include "kernels/cuda/quant/smooth.cuh"

extern "C" {
#include "kernels/cuda/quant/quant_pack.h"
}

/* What most layers do has code without branches: bytes, a scale and a bias for
 * each channel, an activation that is part of the limits, and no residual
 * (PLAIN) or one of bytes before the activation (ADD).  SMOOTH: anything with
 * an activation of kernels/quant/act.h, by integers alone, in kernels of their
 * own: its code would take registers of the others. */
enum quant_kind { QUANT_ANY, QUANT_PLAIN, QUANT_ADD, QUANT_SMOOTH };

struct quant_end {
    enum quant_kind kind;
    const float *scale; /* of the weights, scale_step apart */
    const int *offset;  /* one an output channel */
    const void *blank;  /* 16 bytes of x's zero point */
    int scale_step;     /* 0 or 1 */
    float x_scale;
    enum infer_dtype y_type, r_type;
    bool is_byte; /* y is of 8 bits */
    bool act;     /* the activation is not part of the limits */
    float inverse, low, high;
    int zero;
    float r_scale, r_base; /* r_base: see quant_add_word() */
    uint32_t r_flip;
    struct quant_curve_args smooth; /* of SMOOTH */
};

/* ---- host ---------------------------------------------------------- */

/* Limits of bytes hold an activation that nothing is added after: 1 / y_scale
 * is positive, so that rounding keeps the order of v and of the limit. */
static inline void quant_fold_act(const struct kern_problem *p,
                                  struct quant_end *q)
{
    const struct kern_unary *act = &p->epilogue.act;
    const bool last =
        p->epilogue.residual_last && kern_problem_in(p, CONV_RESIDUAL);

    q->act = act->kind != KERN_IDENTITY;
    if (!q->is_byte || last)
        return;
    if (act->kind == KERN_RELU) {
        q->low = q->low > 0 ? q->low : 0;
        q->high = q->high > 0 ? q->high : 0;
        q->act = false;
    } else if (act->kind == KERN_CLIP && act->a <= act->b) {
        const float low = act->a * q->inverse, high = act->b * q->inverse;
        /* The activation's limits come first. */
        const float least = q->low, most = q->high;
        q->low = low < least ? least : low > most ? most : low;
        q->high = high < least ? least : high > most ? most : high;
        q->act = false;
    }
}

/* w: packed weights of `bytes` bytes, behind which quant_pack_tail() has put
 * what follows them. */
static inline struct quant_end quant_end_of(const struct kern_exec *e,
                                            const struct kern_args *args,
                                            size_t bytes, int k)
{
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *r = kern_problem_in(p, CONV_RESIDUAL);
    const unsigned char *w = (const unsigned char *)args->in[CONV_W];
    struct quant_end q = {};

    q.scale = (const float *)args->in[QUANT_IN];
    q.scale_step = quant_of(p)->stride[0] ? 1 : 0;
    q.offset = (const int *)(w + quant_offset_at(bytes));
    q.blank = w + quant_blank_at(bytes, k);
    q.x_scale = p->quant.x_scale;
    q.y_type = p->out[0].dtype;
    q.is_byte = quant_is_byte(q.y_type);
    q.r_type = r ? r->dtype : INFER_NONE;
    q.r_scale = p->quant.residual_scale;
    q.r_flip = q.r_type == INFER_I8 ? 0x80808080u : 0;
    q.r_base = 8388608.0f + (float)(p->quant.residual_zero +
                                    (q.r_type == INFER_I8 ? 128 : 0));
    if (q.is_byte) {
        q.inverse = 1 / p->quant.y_scale;
        q.zero = p->quant.y_zero;
        quant_limits(q.y_type, q.zero, &q.low, &q.high);
    }
    if (quant_is_smooth(p->epilogue.act.kind)) {
        q.kind = QUANT_SMOOTH;
        q.act = true;
        q.smooth = quant_curve_of(p->epilogue.act, q.inverse, q.low, q.high);
        return q;
    }
    quant_fold_act(p, &q);
    if (q.is_byte && !q.act && q.scale_step && kern_problem_in(p, CONV_BIAS))
        q.kind = !r ? QUANT_PLAIN
                 : quant_is_byte(q.r_type) && !p->epilogue.residual_last
                     ? QUANT_ADD
                     : QUANT_ANY;
    return q;
}

/* ---- values -------------------------------------------------------- */

/* True for the sums of F8E4M3. */
template <typename S>
static __host__ __device__ constexpr bool quant_is_f8(void);
template <> constexpr bool quant_is_f8<int>(void)
{
    return false;
}
template <> constexpr bool quant_is_f8<float>(void)
{
    return true;
}

/* Scales, biases and offsets of N adjacent output channels. */
template <int N> struct quant_channels {
    float scale[N], bias[N];
    int offset[N];
};

/* Channels from k on; those from `end` on are 0.  k is a multiple of N, which
 * is 1 or 4, and if N is 4 so is `end`. */
template <int N>
static __device__ __forceinline__ void
quant_load_channels(const struct quant_end &q, const float *bias, int k,
                    int end, struct quant_channels<N> *c)
{
    if (k >= end) {
#pragma unroll
        for (int i = 0; i < N; i++)
            c->scale[i] = c->bias[i] = c->offset[i] = 0;
        return;
    }
    const vec<int, N> offset = load_vec<int, N>(q.offset + k);
    if (q.scale_step) {
        load_floats<float, N>(q.scale + k, c->scale);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            c->scale[i] = __ldg(q.scale);
    }
    if (bias) {
        load_floats<float, N>(bias + k, c->bias);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            c->bias[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        c->scale[i] = __fmul_rn(q.x_scale, c->scale[i]);
        c->offset[i] = offset.at[i];
    }
}

/* Adds N residuals of bytes, the lowest N of a word.  Integers: that of I8 plus
 * 128 is made a float's fraction above 2^23, from which r_base takes 2^23, the
 * 128 and the zero point, exactly. */
template <typename S, int N>
static __device__ __forceinline__ void quant_add_word(const struct quant_end &q,
                                                      uint32_t word, float *v)
{
    if constexpr (quant_is_f8<S>()) {
        float r[4];

        float8_values(word, r);
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = fmaf(r[i], q.r_scale, v[i]);
        return;
    }
    word ^= q.r_flip;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint32_t bits = __byte_perm(word, 0x4b000000, 0x7440 + i);
        v[i] =
            fmaf(__fadd_rn(__uint_as_float(bits), -q.r_base), q.r_scale, v[i]);
    }
}

/* The low bytes of four words. */
static __device__ __forceinline__ uint32_t quant_bytes(const uint32_t *v)
{
    return __byte_perm(__byte_perm(v[0], v[1], 0x0040),
                       __byte_perm(v[2], v[3], 0x0040), 0x5410);
}

/* Integers of N values, in the low bytes of each.  After the limits v is within
 * 2^9, and 1.5 2^23 + v has no bits behind the point. */
template <int N>
static __device__ __forceinline__ void
quant_integers(const struct quant_end &q, const float *v, uint32_t *to)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float scaled = __fmul_rn(v[i], q.inverse);
        const float limited = fminf(fmaxf(scaled, q.low), q.high);
        to[i] =
            __float_as_uint(__fadd_rn(limited, 12582912.0f)) + (uint32_t)q.zero;
    }
}

/* The codes of F8E4M3 of four values within the limits, which only an
 * activation makes narrower than the conversion's own. */
static __device__ __forceinline__ uint32_t quant_f8(const struct quant_end &q,
                                                    const float *v)
{
    float to[4];

#pragma unroll
    for (int i = 0; i < 4; i++)
        to[i] = min_nan(max_nan(__fmul_rn(v[i], q.inverse), q.low), q.high);
    return float8_codes(to);
}

/* The bytes of four values with the activation by the stated steps: not inline,
 * so that what is seldom taken does not lie between what is always. */
static __device__ __noinline__ uint32_t
quant_stated_word(const struct quant_end *q, float a, float b, float c, float d)
{
    float v[4] = {a, b, c, d};
    uint32_t bits[4];

    quant_smooth_exact<4>(q->smooth, v);
    quant_integers<4>(*q, v, bits);
    return quant_bytes(bits);
}

/* The same.  A value of the special function unit is off by less than half a
 * unit less `margin` (quant_smooth_guess()); only where that is not enough,
 * near the middle of two integers, the stated steps are taken. */
static __device__ __forceinline__ uint32_t
quant_smooth_word(const struct quant_end &q, float *v)
{
    float y[4], off = 0;
    uint32_t to[4];

    if (q.smooth.s.hard) {
        quant_smooth_exact<4>(q.smooth, v);
        quant_integers<4>(q, v, to);
        return quant_bytes(to);
    }
    quant_smooth_guess<4>(q.smooth, v, y);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float scaled = __fmul_rn(y[i], q.inverse);
        const float limited = fminf(fmaxf(scaled, q.low), q.high);
        const float rounded = __fadd_rn(limited, 12582912.0f);
        off = fmaxf(off, fabsf(limited - __fadd_rn(rounded, -12582912.0f)));
        to[i] = __float_as_uint(rounded) + (uint32_t)q.zero;
    }
    if (!(off < q.smooth.margin))
        return quant_stated_word(&q, v[0], v[1], v[2], v[3]);
    return quant_bytes(to);
}

/* Four values as bytes of a word. */
template <typename S>
static __device__ __forceinline__ uint32_t
quant_round_word(const struct quant_end &q, const float *v)
{
    if constexpr (quant_is_f8<S>()) {
        return quant_f8(q, v);
    } else {
        uint32_t bits[4];

        quant_integers<4>(q, v, bits);
        return quant_bytes(bits);
    }
}

template <typename S>
static __device__ __forceinline__ uint8_t
quant_round_byte(const struct quant_end &q, float v)
{
    if constexpr (quant_is_f8<S>()) {
        const float four[4] = {v, v, v, v};

        return (uint8_t)quant_f8(q, four);
    } else {
        uint32_t bits;

        quant_integers<1>(q, &v, &bits);
        return (uint8_t)bits;
    }
}

/* Sums of N channels as values, with the bias. */
template <int N>
static __device__ __forceinline__ void
quant_values(const float *sum, const struct quant_channels<N> &c, float *v)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = fmaf(sum[i], c.scale[i], c.bias[i]);
}

template <int N>
static __device__ __forceinline__ void
quant_values(const int *sum, const struct quant_channels<N> &c, float *v)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] =
            fmaf(__int2float_rn(sum[i] - c.offset[i]), c.scale[i], c.bias[i]);
}

/* Four channels whose output and residual are bytes; word: the residual's. */
template <typename S, quant_kind KIND>
static __device__ __forceinline__ uint32_t
quant_word(const struct quant_end &q, const struct output_args &o, float *v,
           uint32_t word)
{
    if (KIND == QUANT_ADD || ((KIND == QUANT_ANY || KIND == QUANT_SMOOTH) &&
                              o.residual && !o.epilogue.residual_last))
        quant_add_word<S, 4>(q, word, v);
    if constexpr (KIND == QUANT_SMOOTH) {
        if (!o.residual || !o.epilogue.residual_last)
            return quant_smooth_word(q, v);
        quant_smooth_exact<4>(q.smooth, v);
    }
    if (KIND == QUANT_ANY && q.act)
        unary_piecewise_linear<4>(o.epilogue.act, v);
    if ((KIND == QUANT_ANY || KIND == QUANT_SMOOTH) && o.residual &&
        o.epilogue.residual_last)
        quant_add_word<S, 4>(q, word, v);
    return quant_round_word<S>(q, v);
}

/* ---- memory -------------------------------------------------------- */

template <typename T, int N>
static __device__ __forceinline__ void quant_add_floats(const void *from,
                                                        size_t at, float *v)
{
    float r[N];

    load_floats<T, N>((const T *)from + at, r);
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = __fadd_rn(v[i], r[i]);
}

/* Adds N residuals from channel k of pixel m on, of any type. */
template <typename S, int N>
static __device__ __forceinline__ void
quant_add_residual(const struct quant_end &q, const struct output_args &o,
                   int m, int k, float *v)
{
    const size_t at = (size_t)m * o.r_pitch + k;

    if (q.r_type == INFER_F32) {
        quant_add_floats<float, N>(o.residual, at, v);
    } else if (q.r_type == INFER_F16) {
        quant_add_floats<__half, N>(o.residual, at, v);
    } else if (q.r_type == INFER_BF16) {
        quant_add_floats<__nv_bfloat16, N>(o.residual, at, v);
    } else {
        const uint8_t *from = (const uint8_t *)o.residual + at;
        quant_add_word<S, N>(q, N == 4 ? *(const uint32_t *)from : *from, v);
    }
}

/* Stores N values from channel k of pixel m on. */
template <typename S, int N>
static __device__ __forceinline__ void
quant_store_values(const struct quant_end &q, const struct output_args &o,
                   size_t at, const float *v)
{
    if (q.is_byte) {
        if constexpr (N == 4)
            *(uint32_t *)((uint8_t *)o.y + at) = quant_round_word<S>(q, v);
        else
            ((uint8_t *)o.y)[at] = quant_round_byte<S>(q, v[0]);
    } else if (q.y_type == INFER_F16) {
        store_floats<__half, N>((__half *)o.y + at, v);
    } else if (q.y_type == INFER_BF16) {
        store_floats<__nv_bfloat16, N>((__nv_bfloat16 *)o.y + at, v);
    } else {
        store_floats<float, N>((float *)o.y + at, v);
    }
}

/* Stores N integers with the activation. */
template <int N>
static __device__ __forceinline__ void
quant_store_smooth(const struct quant_end &q, uint8_t *to, float *v)
{
    if constexpr (N == 4) {
        *(uint32_t *)to = quant_smooth_word(q, v);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = (uint8_t)quant_stated_word(&q, v[i], v[i], v[i], v[i]);
    }
}

/* Finishes N sums from channel k of pixel m on, and stores them. */
template <int N, quant_kind KIND, typename S>
static __device__ __forceinline__ void
quant_store(const struct quant_end &q, const struct output_args &o,
            const struct quant_channels<N> &c, int m, int k, const S *sum)
{
    const size_t at = (size_t)m * o.y_pitch + k;
    float v[N];

    quant_values<N>(sum, c, v);
    if constexpr (KIND == QUANT_SMOOTH) {
        const bool last = o.residual && o.epilogue.residual_last;
        if (o.residual && !last)
            quant_add_residual<S, N>(q, o, m, k, v);
        if (q.is_byte && !last) {
            quant_store_smooth<N>(q, (uint8_t *)o.y + at, v);
            return;
        }
        quant_smooth_exact<N>(q.smooth, v);
        if (last)
            quant_add_residual<S, N>(q, o, m, k, v);
        quant_store_values<S, N>(q, o, at, v);
    } else if constexpr (KIND != QUANT_ANY) {
        uint32_t word = 0;
        if (KIND == QUANT_ADD)
            word = *(const uint32_t *)((const uint8_t *)o.residual +
                                       (size_t)m * o.r_pitch + k);
        *(uint32_t *)((uint8_t *)o.y + at) = quant_word<S, KIND>(q, o, v, word);
    } else {
        if (o.residual && !o.epilogue.residual_last)
            quant_add_residual<S, N>(q, o, m, k, v);
        if (q.act)
            unary_piecewise_linear<N>(o.epilogue.act, v);
        if (o.residual && o.epilogue.residual_last)
            quant_add_residual<S, N>(q, o, m, k, v);
        quant_store_values<S, N>(q, o, at, v);
    }
}

/* The same of four channels, the kind being that of q, or SMOOTH. */
template <bool SMOOTH, typename S>
static __device__ __forceinline__ void
quant_store_four(const struct quant_end &q, const struct output_args &o,
                 const struct quant_channels<4> &c, int m, int k, const S *sum)
{
    if constexpr (SMOOTH)
        quant_store<4, QUANT_SMOOTH>(q, o, c, m, k, sum);
    else if (q.kind == QUANT_PLAIN)
        quant_store<4, QUANT_PLAIN>(q, o, c, m, k, sum);
    else if (q.kind == QUANT_ADD)
        quant_store<4, QUANT_ADD>(q, o, c, m, k, sum);
    else
        quant_store<4, QUANT_ANY>(q, o, c, m, k, sum);
}

/* ---- tiles --------------------------------------------------------- */

/* Finishes a tile of sums in shared memory, rows of `pitch` words: `rows`
 * pixels from m on by `columns` channels from k on, four channels a thread and
 * step where `wide`.  A thread keeps its channels. */
template <int N, quant_kind KIND, int COLUMNS, int THREADS, typename S>
static __device__ __forceinline__ void
quant_store_columns(const struct quant_end &q, const struct output_args &o,
                    const S *tile, int pitch, int m, int rows, int k,
                    int columns)
{
    constexpr int per_row = COLUMNS / N;
    const int column = threadIdx.x % per_row * N;
    struct quant_channels<N> c;

    static_assert(THREADS % per_row == 0, "a thread keeps its channels");
    if (column >= columns)
        return;
    quant_load_channels<N>(q, o.bias, k + column, o.k, &c);
#pragma unroll 2
    for (int row = threadIdx.x / per_row; row < rows;
         row += THREADS / per_row) {
        const vec<S, N> sum = load_vec<S, N>(tile + row * pitch + column);
        quant_store<N, KIND>(q, o, c, m + row, k + column, sum.at);
    }
}

/* True if four channels at a time can be read and written everywhere; kg:
 * channels of a group. */
static __device__ __forceinline__ bool
quant_is_wide(const struct output_args &o, int kg)
{
    return kg % 4 == 0 && o.y_pitch % 4 == 0 && o.r_pitch % 4 == 0;
}

template <int COLUMNS, int THREADS, bool SMOOTH, typename S>
static __device__ __forceinline__ void
quant_store_tile(const struct quant_end &q, const struct output_args &o,
                 const S *tile, int pitch, int m, int rows, int k, int columns,
                 int kg)
{
    constexpr quant_kind any = SMOOTH ? QUANT_SMOOTH : QUANT_ANY;

    if (!quant_is_wide(o, kg))
        quant_store_columns<1, any, COLUMNS, THREADS>(q, o, tile, pitch, m,
                                                      rows, k, columns);
    else if constexpr (SMOOTH)
        quant_store_columns<4, any, COLUMNS, THREADS>(q, o, tile, pitch, m,
                                                      rows, k, columns);
    else if (q.kind == QUANT_PLAIN)
        quant_store_columns<4, QUANT_PLAIN, COLUMNS, THREADS>(
            q, o, tile, pitch, m, rows, k, columns);
    else if (q.kind == QUANT_ADD)
        quant_store_columns<4, QUANT_ADD, COLUMNS, THREADS>(
            q, o, tile, pitch, m, rows, k, columns);
    else
        quant_store_columns<4, QUANT_ANY, COLUMNS, THREADS>(
            q, o, tile, pitch, m, rows, k, columns);
}

/* ---- split-K ------------------------------------------------------- */

/* parts[split][m][k] of type S. */
template <typename S> struct quant_reduce_args {
    struct output_args out;
    struct quant_end end;
    const S *parts;
    int m, splits;
};

/* One thread finishes N channels of a pixel. */
template <int N, typename S, bool SMOOTH>
static __global__ void __launch_bounds__(256)
    quant_reduce(const __grid_constant__ struct quant_reduce_args<S> a)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const size_t per_row = a.out.k / N, count = (size_t)a.m * a.out.k;
    struct quant_channels<N> c;
    S sum[N] = {};

    launch_wait();
    if (i >= (size_t)a.m * per_row)
        return;
    const int k = (int)(i % per_row) * N;
    quant_load_channels<N>(a.end, a.out.bias, k, a.out.k, &c);
    for (int s = 0; s < a.splits; s++) {
        const vec<S, N> part = load_vec<S, N>(a.parts + s * count + i * N);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += part.at[j];
    }
    if constexpr (N == 4)
        quant_store_four<SMOOTH>(a.end, a.out, c, (int)(i / per_row), k, sum);
    else
        quant_store<N, SMOOTH ? QUANT_SMOOTH : QUANT_ANY>(
            a.end, a.out, c, (int)(i / per_row), k, sum);
}

#endif
