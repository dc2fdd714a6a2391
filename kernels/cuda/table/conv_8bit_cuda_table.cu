/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and dense layers on integers of 8 bits whose products are those
 * of a multiplier (kernels/quant/quant.h), channels last.
 *
 * A product is (x - x_zero) w, computed, plus the error, read: a row of errors
 * for each weight, and behind those of the 256 codes of x a 0 for padding.
 * error_kernel puts the rows into the workspace, in 16 and in 32 bits, and
 * says whether 16 bits hold all of them; the rows then take half of the
 * first-level cache.  They are read where they lie: lanes have one weight, and
 * so read one row, of 528 bytes.
 *
 * tile_kernel: a block of 256 threads computes tiles of OUTPUTS outputs, 32 or
 * 16, of one group times 32 EACH or 64 EACH pixels; a lane has EACH pixels, a
 * warp 4 outputs.  Terms, the channels innermost, come 32 at a time to shared
 * memory.  single_kernel, for groups of few outputs: a thread has one output.
 *
 * Sums of 32 terms are in 32 bits, their totals in 64.
 *
 * Workspace: a word for each row of errors that tells whether it needs 32 bits,
 * the errors of 32 bits, those of 16.  Shared memory: x as (value, code) words
 * [32][pixels + 1], codes of w [32][OUTPUTS].
 */
#include <stdlib.h>

#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/quant/end.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS 256
#define TERMS   32
#define WARP    4 /* outputs of a warp */
#define ROW     264
#define OUTSIDE 256
/* Fewer outputs a group leave most of a tile empty. */
#define LEAST_OUTPUTS 8

struct errors {
    uint32_t wide[256]; /* not 0: the row needs 32 bits */
    int32_t in32[256 * ROW];
    int16_t in16[256 * ROW];
};

struct conv_8bit_args {
    struct conv_geometry g;
    const uint8_t *x, *w; /* codes of x; w: [k][c][r][s] */
    uint32_t flip;        /* to be xored with x: 0x80 for I8 */
    int x_zero;           /* as a flipped code */
    const int32_t *error;
    int64_t error_x, error_w; /* strides */
    struct errors *errors;
    struct output_args out;
    struct quant_end end;
    struct fast_div by_cg, by_s, by_q, by_p;
    int tiles_k; /* of a group */
};

/* ---- errors -------------------------------------------------------- */

/* A block a weight. */
static __global__ void __launch_bounds__(THREADS)
    error_kernel(const __grid_constant__ struct conv_8bit_args a)
{
    const int w = blockIdx.x, x = threadIdx.x;

    launch_wait();
    const int32_t error = a.error[x * a.error_x + w * a.error_w];
    const bool wide = error != (int16_t)error;
    a.errors->in32[w * ROW + x] = error;
    a.errors->in16[w * ROW + x] = (int16_t)error;
    if (x < ROW - OUTSIDE) {
        a.errors->in32[w * ROW + OUTSIDE + x] = 0;
        a.errors->in16[w * ROW + OUTSIDE + x] = 0;
    }
    const int any = __syncthreads_or(wide);
    if (x == 0)
        a.errors->wide[w] = any != 0;
}

/* Whether any row needs 32 bits; all threads of a block. */
static __device__ __forceinline__ bool errors_are_wide(const struct errors *e)
{
    return __syncthreads_or(e->wide[threadIdx.x] != 0) != 0;
}

/* ---- operands ------------------------------------------------------ */

/* (x - x_zero) in the upper half, its code in the lower. */
static __device__ __forceinline__ uint32_t
x_word(const struct conv_8bit_args &a, bool inside, int64_t at)
{
    if (!inside)
        return OUTSIDE;
    const uint32_t code = a.x[at] ^ a.flip;
    return (code - (uint32_t)a.x_zero) << 16 | code;
}

/* Where a pixel's window begins. */
struct corner {
    int n, h, w;
};

static __device__ __forceinline__ struct corner
corner_of(const struct conv_8bit_args &a, int m)
{
    uint32_t p, q;
    struct corner c;

    c.n = (int)a.by_p.divmod(a.by_q.divmod((uint32_t)m, &q), &p);
    c.h = (int)p * a.g.stride_h - a.g.pad_top;
    c.w = (int)q * a.g.stride_w - a.g.pad_left;
    return c;
}

/* A term's channel and filter position. */
struct tap {
    int c, r, s;
};

static __device__ __forceinline__ struct tap
tap_of(const struct conv_8bit_args &a, int term)
{
    uint32_t c, s;
    struct tap t;

    t.r = (int)a.by_s.divmod(a.by_cg.divmod((uint32_t)term, &c), &s);
    t.c = (int)c;
    t.s = (int)s;
    return t;
}

static __device__ __forceinline__ uint32_t x_at(const struct conv_8bit_args &a,
                                                const struct corner &p,
                                                const struct tap &t, int group)
{
    const int h = p.h + t.r * a.g.dilation_h, w = p.w + t.s * a.g.dilation_w;

    return x_word(
        a, (unsigned)h < (unsigned)a.g.h && (unsigned)w < (unsigned)a.g.w,
        (((int64_t)p.n * a.g.h + h) * a.g.w + w) * a.g.x_pitch +
            group * a.g.cg + t.c);
}

/* The code of output k's weight of a term. */
static __device__ __forceinline__ uint32_t w_at(const struct conv_8bit_args &a,
                                                int k, const struct tap &t)
{
    return a.w[((int64_t)k * a.g.cg + t.c) * a.g.r * a.g.s + t.r * a.g.s +
               t.s] ^
           0x80u;
}

/* sum + (x - x_zero) w + error. */
template <typename E>
static __device__ __forceinline__ int add(const E *row, uint32_t x, int w,
                                          int sum)
{
    return sum + ((int)x >> 16) * w + row[x & 0xffff];
}

/* ---- results ------------------------------------------------------- */

/* Finishes N outputs of pixel m from k on. */
template <int N>
static __device__ __forceinline__ void
finish(const struct conv_8bit_args &a, int m, int k, const long long (&sum)[N])
{
    const struct output_args &o = a.out;
    const struct quant_end &q = a.end;
    float v[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = fmaf(__ll2float_rn(sum[i]),
                    __fmul_rn(q.x_scale, q.scale[(k + i) * q.scale_step]),
                    o.bias ? o.bias[k + i] : 0.0f);
    if (o.residual && !o.epilogue.residual_last)
        quant_add_residual<int, N>(q, o, m, k, v);
    if (q.act)
        unary_piecewise_linear<N>(o.epilogue.act, v);
    if (o.residual && o.epilogue.residual_last)
        quant_add_residual<int, N>(q, o, m, k, v);
    quant_store_values<int, N>(q, o, (size_t)m * o.y_pitch + k, v);
}

/* ---- tiles --------------------------------------------------------- */

template <int EACH, int OUTPUTS> struct tile_memory {
    enum {
        WARPS = OUTPUTS / WARP, /* with the same pixels */
        PIXELS = THREADS / WARPS * EACH
    };
    alignas(16) uint32_t x[TERMS][PIXELS + 1];
    alignas(16) uint8_t w[TERMS][OUTPUTS];
};

/* Brings a chunk of terms; neighbouring threads have neighbouring terms. */
template <int EACH, int OUTPUTS>
static __device__ __forceinline__ void
load(const struct conv_8bit_args &a, int first, int m0, int k0, int end_k,
     int group, struct tile_memory<EACH, OUTPUTS> *s)
{
    const int term = threadIdx.x % TERMS, across = threadIdx.x / TERMS;
    const bool valid = first + term < a.g.depth;
    const struct tap t = tap_of(a, valid ? first + term : 0);

#pragma unroll 4
    for (int i = across; i < tile_memory<EACH, OUTPUTS>::PIXELS;
         i += THREADS / TERMS)
        s->x[term][i] = valid && m0 + i < a.g.m
                            ? x_at(a, corner_of(a, m0 + i), t, group)
                            : OUTSIDE;
#pragma unroll
    for (int i = across; i < OUTPUTS; i += THREADS / TERMS)
        s->w[term][i] =
            valid && k0 + i < end_k ? (uint8_t)w_at(a, k0 + i, t) : 0x80;
}

/* pixel: the first of this lane, the others are 32 apart; k: the first output
 * of this warp. */
template <int EACH, int OUTPUTS, typename E>
static __device__ __forceinline__ void
multiply(const E *errors, const struct tile_memory<EACH, OUTPUTS> *s, int pixel,
         int k, int (&sum)[EACH][WARP])
{

#pragma unroll 4
    for (int t = 0; t < TERMS; t++) {
        const uint32_t four = *reinterpret_cast<const uint32_t *>(&s->w[t][k]);
        uint32_t x[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            x[i] = s->x[t][pixel + i * 32];
#pragma unroll
        for (int j = 0; j < WARP; j++) {
            const int code = (int)(four >> 8 * j & 255);
            const E *row = errors + code * ROW;
#pragma unroll
            for (int i = 0; i < EACH; i++)
                sum[i][j] = add(row, x[i], code - 128, sum[i][j]);
        }
    }
}

template <int EACH, int OUTPUTS, typename E>
static __device__ __forceinline__ void
tile_run(const struct conv_8bit_args &a, const E *errors,
         struct tile_memory<EACH, OUTPUTS> *s)
{
    typedef struct tile_memory<EACH, OUTPUTS> Memory;
    const int warp = threadIdx.x / 32;
    const int pixel = warp / Memory::WARPS * 32 * EACH + (int)threadIdx.x % 32;
    const int own_k = warp % Memory::WARPS * WARP;
    const int group = (int)blockIdx.y / a.tiles_k;
    const int m0 = (int)blockIdx.x * Memory::PIXELS;
    const int k0 = group * a.g.kg + (int)blockIdx.y % a.tiles_k * OUTPUTS;
    const int end_k = (group + 1) * a.g.kg;
    long long total[EACH][WARP] = {};

    for (int first = 0; first < a.g.depth; first += TERMS) {
        int sum[EACH][WARP] = {};
        __syncthreads();
        load(a, first, m0, k0, end_k, group, s);
        __syncthreads();
        multiply(errors, s, pixel, own_k, sum);
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < WARP; j++)
                total[i][j] += sum[i][j];
    }
    const int k = k0 + own_k;
    const bool wide = quant_is_wide(a.out, a.g.kg);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int m = m0 + pixel + i * 32;
        if (m >= a.g.m || k >= end_k)
            continue;
        if (wide) {
            finish<WARP>(a, m, k, total[i]);
            continue;
        }
#pragma unroll
        for (int j = 0; j < WARP; j++) {
            const long long one[1] = {total[i][j]};
            if (k + j < end_k)
                finish<1>(a, m, k + j, one);
        }
    }
}

template <int EACH, int OUTPUTS>
static __global__ void __launch_bounds__(THREADS)
    tile_kernel(const __grid_constant__ struct conv_8bit_args a)
{
    __shared__ struct tile_memory<EACH, OUTPUTS> s;

    launch_wait();
    if (errors_are_wide(a.errors))
        tile_run(a, a.errors->in32, &s);
    else
        tile_run(a, a.errors->in16, &s);
}

/* ---- single outputs ------------------------------------------------ */

template <typename E>
static __device__ __forceinline__ void
single_run(const struct conv_8bit_args &a, const E *errors)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const int k = (int)(i % a.g.k), m = (int)(i / a.g.k);
    long long total[1] = {};

    if (m >= a.g.m)
        return;
    const struct corner p = corner_of(a, m);
    const int group = k / a.g.kg;
    for (int first = 0; first < a.g.depth; first += TERMS) {
        const int end = min(a.g.depth, first + TERMS);
        int sum = 0;
        for (int t = first; t < end; t++) {
            const struct tap at = tap_of(a, t);
            const int w = (int)w_at(a, k, at);
            sum = add(errors + w * ROW, x_at(a, p, at, group), w - 128, sum);
        }
        total[0] += sum;
    }
    finish<1>(a, m, k, total);
}

static __global__ void __launch_bounds__(THREADS)
    single_kernel(const __grid_constant__ struct conv_8bit_args a)
{
    launch_wait();
    if (errors_are_wide(a.errors))
        single_run(a, a.errors->in32);
    else
        single_run(a, a.errors->in16);
}

/* ---- the host's side ----------------------------------------------- */

struct tile {
    int pixels, outputs;
    void (*kernel)(const struct conv_8bit_args);
};

#define TILE(EACH, OUTPUTS)                                                    \
    {                                                                          \
        tile_memory<EACH, OUTPUTS>::PIXELS, OUTPUTS,                           \
            tile_kernel<EACH, OUTPUTS>                                         \
    }

/* [outputs at most 16][few tiles] */
static const struct tile tiles[2][2] = {{TILE(4, 32), TILE(1, 32)},
                                        {TILE(4, 16), TILE(1, 16)}};

struct conv_8bit_state {
    struct conv_geometry g;
    int multiprocessors;
};

/* Small tiles where large ones do not fill the device twice. */
static const struct tile *choose_tile(const struct conv_8bit_state *s)
{
    const struct conv_geometry *g = &s->g;
    const struct tile *t = tiles[g->kg <= 16];
    const int64_t blocks = (int64_t)conv_ceil_div(g->m, t->pixels) *
                           conv_ceil_div(g->kg, t->outputs) * g->groups;

    return blocks < 2 * s->multiprocessors ? t + 1 : t;
}

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, int,
                        struct conv_8bit_state *s, struct infer_error *why)
{
    int rc;

    if (!product_table_of(p))
        return error_set(why, INFER_EUNSUPPORTED, "takes a table of products");
    rc = conv_geometry_read_pitched(p, &s->g, why);
    if (rc == 0)
        rc = quant_check(p, false, why);
    if (rc < 0)
        return rc;
    if ((int64_t)s->g.groups * conv_ceil_div(s->g.kg, 16) > 65535 &&
        s->g.kg >= LEAST_OUTPUTS)
        return error_set(why, INFER_EUNSUPPORTED, "has too many outputs");
    s->multiprocessors = conv_multiprocessors(d);
    return 0;
}

static void declare(struct kern_exec *e, const struct conv_8bit_state *)
{
    e->workspace = sizeof(struct errors);
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct conv_8bit_state *s = (const struct conv_8bit_state *)e->state;
    const struct kern_problem *p = &e->problem;
    const struct kern_tensor *t = product_table_of(p);
    const struct conv_geometry *g = &s->g;
    const bool is_signed = p->in[CONV_X].dtype == INFER_I8;
    struct conv_8bit_args a = {};

    if (g->m == 0)
        return 0;
    a.g = *g;
    a.x = (const uint8_t *)args->in[CONV_X];
    a.w = (const uint8_t *)args->in[CONV_W];
    a.flip = is_signed ? 0x80 : 0;
    a.x_zero = p->quant.x_zero + (is_signed ? 128 : 0);
    a.error = (const int32_t *)args->in[PRODUCT_TABLE_IN];
    a.error_x = t->stride[0];
    a.error_w = t->stride[1];
    a.errors = (struct errors *)args->workspace;
    a.out = output_of(e, args, g->k);
    a.out.y_pitch = g->y_pitch;
    a.out.r_pitch = g->r_pitch;
    a.end = quant_end_of(e, args, 0, g->k);
    a.by_cg.init((uint32_t)g->cg);
    a.by_s.init((uint32_t)g->s);
    a.by_q.init((uint32_t)g->q);
    a.by_p.init((uint32_t)g->p);
    const struct tile *tile = choose_tile(s);
    a.tiles_k = conv_ceil_div(g->kg, tile->outputs);
    const int rc = launch_chained(error_kernel, dim3(256), dim3(THREADS), 0,
                                  args->stream, a, err);
    if (rc < 0)
        return rc;
    if (g->kg < LEAST_OUTPUTS)
        return launch_chained(single_kernel,
                              dim3(cuda_blocks((int64_t)g->m * g->k, THREADS)),
                              dim3(THREADS), 0, args->stream, a, err);
    return launch_chained(tile->kernel,
                          dim3((unsigned)conv_ceil_div(g->m, tile->pixels),
                               (unsigned)(a.tiles_k * g->groups)),
                          dim3(THREADS), 0, args->stream, a, err);
}

KERN_FUNCTIONS(conv_8bit_cuda_table) = {
    .supports = state_supports<struct conv_8bit_state, read_problem>,
    .prepare = state_prepare<struct conv_8bit_state, read_problem, declare>,
    .launch = launch,
    .release = cuda_state_release,
};
