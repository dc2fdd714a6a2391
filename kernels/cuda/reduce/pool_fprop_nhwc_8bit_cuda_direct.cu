/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maximum and average pooling of 1 to 3 dimensions on 8 bits with scales
 * (kernels/quant/quant.h).
 *
 * One thread an output position and four channels, one word of them, where they
 * lie side by side, else one channel.  Maxima are of bytes in halves of words,
 * two at a time; I8 is moved by 128 first.  Sums are of 32 bits; maxima and
 * sums of F8E4M3 in single precision.
 *
 * Maxima of images of integers whose scale stays: one thread an output position
 * and 16 channels, which are never made values.
 */
#include "kernels/cuda/quant/scaled.cuh"
#include "kernels/cuda/reduce/pool_taps.cuh"
#include "kernels/cuda/strided.cuh"
#include "kernels/cuda/types.cuh"

#define THREADS 256

struct quant_pool_args {
    struct cuda_window w;
    uint32_t count; /* of threads with work */
    bool include_pad;
    uint32_t flip; /* 0x80808080 of I8 */
    int x_zero;    /* after that */
    float x_scale;
    struct scaled_type to;
    struct kern_unary act;
    const void *x;
    void *y;
};

/* What a window has shown: of N channels, their maxima or sums. */
template <int N, bool MAX> struct quant_seen;

template <int N> struct quant_seen<N, true> {
    enum { MAX = 1 };
    uint32_t even, odd; /* bytes 0 and 2, 1 and 3 */

    __device__ __forceinline__ void start(void)
    {
        even = odd = 0;
    }
    __device__ __forceinline__ void see(uint32_t word)
    {
        even = __vmaxu2(even, word & 0x00ff00ff);
        odd = __vmaxu2(odd, word >> 8 & 0x00ff00ff);
    }
    __device__ __forceinline__ int of(int j) const
    {
        return (int)((j % 2 ? odd : even) >> j / 2 * 16 & 0xffff);
    }
};

template <int N> struct quant_seen<N, false> {
    enum { MAX = 0 };
    int sum[N];

    __device__ __forceinline__ void start(void)
    {
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] = 0;
    }
    __device__ __forceinline__ void see(uint32_t word)
    {
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += (int)(word >> j * 8 & 255);
    }
    __device__ __forceinline__ int of(int j) const
    {
        return sum[j];
    }
};

/* The same of F8E4M3. */
template <int N, bool IS_MAX> struct float8_seen {
    enum { MAX = IS_MAX };
    float v[N];

    __device__ __forceinline__ void start(void)
    {
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = MAX ? -448.0f : 0;
    }
    __device__ __forceinline__ void see(uint32_t word)
    {
        float four[4];

        float8_values(word, four);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = MAX ? max_nan(v[j], four[j]) : __fadd_rn(v[j], four[j]);
    }
};

template <int N>
static __device__ __forceinline__ uint32_t load_word(const uint8_t *x)
{
    return N == 4 ? *(const uint32_t *)x : *x;
}

/* Values of the window: `inside` taps are in the input, the mean is over n. */
template <int N, bool MAX>
static __device__ __forceinline__ void
values_of(const struct quant_pool_args &a, const struct quant_seen<N, MAX> &s,
          int inside, int n, float *v)
{
    const float scale = MAX ? a.x_scale : __fdiv_rn(a.x_scale, (float)n);
    const int zero = MAX ? a.x_zero : a.x_zero * inside;

#pragma unroll
    for (int j = 0; j < N; j++)
        v[j] = inside ? __fmul_rn((float)(s.of(j) - zero), scale) : 0;
}

template <int N, bool MAX>
static __device__ __forceinline__ void
values_of(const struct quant_pool_args &a, const struct float8_seen<N, MAX> &s,
          int inside, int n, float *v)
{
    const float scale = MAX ? a.x_scale : __fdiv_rn(a.x_scale, (float)n);

#pragma unroll
    for (int j = 0; j < N; j++)
        v[j] = inside ? __fmul_rn(s.v[j], scale) : 0;
}

template <int N, typename Seen>
static __global__ void __launch_bounds__(THREADS)
    quant_pool(const __grid_constant__ struct quant_pool_args a)
{
    const uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    const struct cuda_window &w = a.w;
    Seen seen;
    uint32_t o[5];
    float v[N];

    launch_wait();
    if (i >= a.count)
        return;
    seen.start();
    w.index(i, o);
    const struct taps td = taps_of<false>(w, 0, o[2]);
    const struct taps th = taps_of<false>(w, 1, o[3]);
    const struct taps tw = taps_of<false>(w, 2, o[4]);
    const uint8_t *x = (const uint8_t *)a.x + o[0] * w.x_stride[0] +
                       (int64_t)o[1] * N * w.x_stride[1];
    for (int d = td.first; d < td.last; d++) {
        const int64_t id =
            (int64_t)o[2] * w.step[0] - w.pad[0] + (int64_t)d * w.dilation[0];
        for (int h = th.first; h < th.last; h++) {
            const int64_t ih = (int64_t)o[3] * w.step[1] - w.pad[1] +
                               (int64_t)h * w.dilation[1];
            const uint8_t *line = x + id * w.x_stride[2] + ih * w.x_stride[3];
#pragma unroll 4
            for (int c = tw.first; c < tw.last; c++) {
                const int64_t iw = (int64_t)o[4] * w.step[2] - w.pad[2] +
                                   (int64_t)c * w.dilation[2];
                seen.see(load_word<N>(line + iw * w.x_stride[4]) ^ a.flip);
            }
        }
    }
    const int inside = max(td.last - td.first, 0) * max(th.last - th.first, 0) *
                       max(tw.last - tw.first, 0);
    const int counted = td.counted * th.counted * tw.counted;
    values_of(a, seen, inside, a.include_pad ? counted : inside, v);
    unary_piecewise_linear<N>(a.act, v);
    scaled_store<N>(a.to, a.y,
                    o[0] * w.y_stride[0] + (int64_t)o[1] * N * w.y_stride[1] +
                        o[2] * w.y_stride[2] + o[3] * w.y_stride[3] +
                        o[4] * w.y_stride[4],
                    v);
}

/* ---- maxima that stay integers ------------------------------------- */

struct quant_max_args {
    const uint8_t *x;
    uint8_t *y;
    struct fast_div vectors, columns, rows; /* of the output */
    uint32_t count;                         /* of threads with work */
    int h, w;                               /* of x */
    int x_row, x_pixel, y_row, y_pixel;     /* bytes */
    int64_t x_image, y_image;
    int window[2], stride[2], pad[2], dilation[2];
    uint32_t flip;  /* 0x80808080 of I8 */
    uint32_t blank; /* four times the zero point */
};

/* WINDOW: of both dimensions, or 0: any. */
template <int WINDOW>
static __global__ void __launch_bounds__(THREADS)
    quant_pool_max(const __grid_constant__ struct quant_max_args a)
{
    const uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    const int rows = WINDOW ? WINDOW : a.window[0];
    const int columns = WINDOW ? WINDOW : a.window[1];
    struct quant_seen<4, true> seen[4];
    uint32_t vector, q, p;
    bool any = false;

    launch_wait();
    if (i >= a.count)
        return;
    const uint32_t pixel = a.vectors.divmod(i, &vector);
    const uint32_t row = a.columns.divmod(pixel, &q);
    const uint32_t n = a.rows.divmod(row, &p);
    const int top = (int)p * a.stride[0] - a.pad[0];
    const int left = (int)q * a.stride[1] - a.pad[1];
    const uint8_t *x = a.x + n * a.x_image + vector * 16;
#pragma unroll
    for (int j = 0; j < 4; j++)
        seen[j].start();
#pragma unroll
    for (int r = 0; r < rows; r++) {
        const int h = top + r * a.dilation[0];
        if ((unsigned)h >= (unsigned)a.h)
            continue;
#pragma unroll
        for (int s = 0; s < columns; s++) {
            const int w = left + s * a.dilation[1];
            if ((unsigned)w >= (unsigned)a.w)
                continue;
            const vec<uint32_t, 4> four = load_vec<uint32_t, 4>(
                (const uint32_t *)(x + (int64_t)h * a.x_row +
                                   (int64_t)w * a.x_pixel));
#pragma unroll
            for (int j = 0; j < 4; j++)
                seen[j].see(four.at[j] ^ a.flip);
            any = true;
        }
    }
    vec<uint32_t, 4> to;
#pragma unroll
    for (int j = 0; j < 4; j++)
        to.at[j] = any ? (seen[j].even | seen[j].odd << 8) ^ a.flip : a.blank;
    store_vec<uint32_t, 4>((uint32_t *)(a.y + n * a.y_image +
                                        (int64_t)p * a.y_row +
                                        (int64_t)q * a.y_pixel + vector * 16),
                           to);
}

/* ---- the host's side ----------------------------------------------- */

/* A sum of so many bytes fits 32 bits. */
#define MAX_TAPS (1 << 23)

static int supports(const struct kern_problem *p, const struct kern_device *d,
                    struct infer_error *why)
{
    const struct kern_pool *a = &p->attr.pool;
    double taps = 1;

    (void)d;
    if (!quant_is_scaled(p) || !scaled_is_known(&p->out[0]) ||
        !scaled_act_is_known(&p->epilogue.act))
        return error_set(why, INFER_EUNSUPPORTED, "pools 8 bits with scales");
    if (kern_tensor_count(&p->in[0]) > INT32_MAX ||
        kern_tensor_count(&p->out[0]) > INT32_MAX)
        return error_set(why, INFER_EUNSUPPORTED,
                         "has more than 2^31 elements");
    for (int i = 0; i < p->in[0].rank - 2; i++) {
        const double reach = (double)p->in[0].dim[i + 2] + a->pad_begin[i] +
                             a->pad_end[i] +
                             (double)a->window[i] * a->dilation[i] +
                             (double)p->out[0].dim[i + 2] * a->stride[i];
        taps *= a->window[i];
        if (reach > 1e9 || taps > MAX_TAPS)
            return error_set(why, INFER_EUNSUPPORTED,
                             "the window is too large");
    }
    return 0;
}

/* True if four channels of every position can be moved as one. */
static bool in_words(const struct kern_tensor *t, const void *at)
{
    const size_t bytes = 4 * infer_dtype_size(t->dtype);

    if (t->dim[1] % 4 != 0 || t->stride[1] != 1 || (uintptr_t)at % bytes != 0)
        return false;
    for (int d = 0; d < t->rank; d++)
        if (d != 1 && t->dim[d] > 1 && t->stride[d] % 4 != 0)
            return false;
    return true;
}

/* True if 16 channels of every position can be moved as one. */
static bool in_vectors(const struct kern_tensor *t, const void *at)
{
    if (t->rank != 4 || t->dim[1] % 16 != 0 || t->stride[1] != 1 ||
        (uintptr_t)at % 16 != 0)
        return false;
    for (int d = 0; d < t->rank; d++)
        if (d != 1 && (t->stride[d] % 16 != 0 || t->stride[d] < 0))
            return false;
    return t->stride[2] <= INT32_MAX && t->stride[3] <= INT32_MAX;
}

/* True of maxima that stay the integers that they are. */
static bool stays_integer(const struct kern_problem *p)
{
    return p->attr.pool.kind == KERN_POOL_MAX &&
           quant_is_integer(p->in[0].dtype) &&
           p->in[0].dtype == p->out[0].dtype &&
           p->quant.x_scale == p->quant.y_scale &&
           p->quant.x_zero == p->quant.y_zero &&
           p->epilogue.act.kind == KERN_IDENTITY;
}

static int launch_max(const struct kern_problem *p,
                      const struct kern_args *args, struct infer_error *err)
{
    const struct kern_pool *pool = &p->attr.pool;
    const struct kern_tensor *x = &p->in[0], *y = &p->out[0];
    struct quant_max_args a = {};

    a.x = (const uint8_t *)args->in[0];
    a.y = (uint8_t *)args->out[0];
    a.vectors.init((uint32_t)(y->dim[1] / 16));
    a.rows.init((uint32_t)y->dim[2]);
    a.columns.init((uint32_t)y->dim[3]);
    a.count = (uint32_t)(kern_tensor_count(y) / 16);
    a.h = (int)x->dim[2];
    a.w = (int)x->dim[3];
    a.x_image = x->stride[0];
    a.x_row = (int)x->stride[2];
    a.x_pixel = (int)x->stride[3];
    a.y_image = y->stride[0];
    a.y_row = (int)y->stride[2];
    a.y_pixel = (int)y->stride[3];
    for (int d = 0; d < 2; d++) {
        a.window[d] = (int)pool->window[d];
        a.stride[d] = (int)pool->stride[d];
        a.pad[d] = (int)pool->pad_begin[d];
        a.dilation[d] = (int)pool->dilation[d];
    }
    a.flip = x->dtype == INFER_I8 ? 0x80808080u : 0;
    a.blank = (uint32_t)(uint8_t)p->quant.y_zero * 0x01010101u;
    const bool three = a.window[0] == 3 && a.window[1] == 3;
    return launch_chained(three ? quant_pool_max<3> : quant_pool_max<0>,
                          cuda_blocks(a.count, THREADS), THREADS, 0,
                          args->stream, a, err);
}

typedef void (*quant_pool_function)(const struct quant_pool_args);

template <int N> static quant_pool_function function_of(bool float8, bool max)
{
    if (float8)
        return max ? quant_pool<N, float8_seen<N, true>>
                   : quant_pool<N, float8_seen<N, false>>;
    return max ? quant_pool<N, quant_seen<N, true>>
               : quant_pool<N, quant_seen<N, false>>;
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct kern_problem *p = &e->problem;
    const bool sign = p->in[0].dtype == INFER_I8;
    const bool max = p->attr.pool.kind == KERN_POOL_MAX;
    const bool words =
        in_words(&p->in[0], args->in[0]) && in_words(&p->out[0], args->out[0]);
    const int n = words ? 4 : 1;
    struct quant_pool_args a = {};

    if (kern_tensor_count(&p->out[0]) == 0)
        return 0;
    if (stays_integer(p) && in_vectors(&p->in[0], args->in[0]) &&
        in_vectors(&p->out[0], args->out[0]))
        return launch_max(p, args, err);
    a.w.fill_pool(p);
    a.include_pad = p->attr.pool.count_include_pad;
    a.flip = !sign ? 0 : words ? 0x80808080u : 0x80u;
    a.x_zero = p->quant.x_zero + (sign ? 128 : 0);
    a.x_scale = p->quant.x_scale;
    a.to = scaled_type_of(p->out[0].dtype, p->quant.y_scale, p->quant.y_zero);
    a.act = p->epilogue.act;
    a.x = args->in[0];
    a.y = args->out[0];
    a.count = (uint32_t)(kern_tensor_count(&p->out[0]) / n);
    a.w.split_by((int)(p->out[0].dim[1] / n));
    const bool float8 = p->in[0].dtype == INFER_F8E4M3;
    const quant_pool_function f =
        words ? function_of<4>(float8, max) : function_of<1>(float8, max);
    return launch_chained(f, cuda_blocks(a.count, THREADS), THREADS, 0,
                          args->stream, a, err);
}

KERN_FUNCTIONS(pool_fprop_nhwc_8bit_cuda_direct) = {
    .supports = supports,
    .launch = launch,
};
