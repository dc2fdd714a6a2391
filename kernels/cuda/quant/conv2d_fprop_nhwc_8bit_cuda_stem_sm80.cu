/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution of images of up to four channels (a network's first layer) on
 * integers of 8 bits, by mma.sync.
 *
 * A block copies the part of the image under its outputs into shared memory,
 * four bytes a pixel, those outside the image as the zero point.  One row of
 * the window, up to 8 pixels, is a step of 32 bytes of the depth; lane 4 g + t
 * reads its parts of the left operand, pixels t and t + 4 of outputs g and g +
 * 8, as words from there.  Outputs are ordered as in the pointwise kernel
 * (conv2d_fprop_nhwc_8bit_cuda_pointwise_sm80.cu): a lane ends with outputs 8 t
 * .. 8 t + 7 of 32.
 *
 * A block of 4 warps owns 16 x 16 outputs, each warp 4 rows, two at a time.
 * Blocks are persistent over several such tiles.  Shared memory: weights in the
 * lanes' order, [32 outputs][row of the window][two tiles][lane][tile] of 8
 * bytes; 96 words of scales, biases and offsets for 32 outputs; the patch.
 */
#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quant/end.cuh"
#include "kernels/cuda/quant/mma.cuh"
#include "kernels/cuda/strided.cuh"

#define THREADS     128
#define BLOCKS      4    /* of a multiprocessor */
#define SIDE        16   /* outputs of a tile's row and column */
#define ROW_BYTES   1024 /* of weights: a row of the window, 32 outputs */
#define GROUP_WORDS 96
#define SHARED      (48 << 10) /* bytes of a block, at most */

struct quant_stem_args {
    struct conv_geometry g;
    const uint8_t *x;
    const void *w;
    struct output_args out;
    struct quant_end end;
    int groups;           /* of 32 outputs */
    int patch_h, patch_w; /* pixels */
    int tiles;
    struct fast_div tiles_q, tiles_p;
    bool words; /* 12 bytes of x are 4 pixels, at a multiple of 4 bytes */
};

/* ---- the patch ----------------------------------------------------- */

/* Four pixels of three channels as four words. */
static __device__ __forceinline__ uint4 spread(uint32_t a, uint32_t b,
                                               uint32_t c)
{
    return make_uint4(a, __byte_perm(a, b, 0x6543), __byte_perm(b, c, 0x5432),
                      c >> 8);
}

/* Fills the patch whose first pixel is (h0, w0) of image n; w0 is a multiple
 * of 4, and so is the width of the patch. */
static __device__ __forceinline__ void
fill_patch(const struct quant_stem_args &a, int n, int h0, int w0,
           uint32_t *patch)
{
    const uint32_t blank = *(const uint32_t *)a.end.blank;
    const int fours = a.patch_w / 4;

    for (int i = threadIdx.x; i < a.patch_h * fours; i += THREADS) {
        const int row = i / fours, column = i % fours * 4;
        const int h = h0 + row, w = w0 + column;
        const bool inside = (unsigned)h < (unsigned)a.g.h;
        const uint8_t *from =
            a.x + ((int64_t)(n * a.g.h + h) * a.g.w + w) * a.g.c;
        uint32_t pixel[4] = {blank, blank, blank, blank};
        if (a.words) {
            if (inside && (unsigned)w < (unsigned)a.g.w) {
                const uint32_t *const three = (const uint32_t *)from;
                const uint4 four = spread(three[0], three[1], three[2]);
                pixel[0] = four.x;
                pixel[1] = four.y;
                pixel[2] = four.z;
                pixel[3] = four.w;
            }
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (inside && (unsigned)(w + j) < (unsigned)a.g.w) {
                    pixel[j] = 0;
                    for (int c = 0; c < a.g.c; c++)
                        pixel[j] |= (uint32_t)from[j * a.g.c + c] << 8 * c;
                }
        }
        *(uint4 *)(patch + row * a.patch_w + column) =
            make_uint4(pixel[0], pixel[1], pixel[2], pixel[3]);
    }
}

/* ---- the kernel ---------------------------------------------------- */

/* Eight words of this lane's outputs. */
static __device__ __forceinline__ void load_eight(const float *from,
                                                  float (&to)[8])
{
    load_floats<float, 4>(from, to);
    load_floats<float, 4>(from + 4, to + 4);
}

/* Sums of 32 outputs of two rows of 16 pixels.  x: word t of output g's first
 * pixel; lines: words from row to row of outputs. */
template <typename X>
static __device__ __forceinline__ void
multiply(const struct quant_stem_args &a, const uint32_t *x, int lines,
         const unsigned char *w, const float *start, int (&acc)[2][4][4])
{
    const int eight = 8 * a.g.stride_w;
    float from[8];

    load_eight(start, from);
#pragma unroll
    for (int i = 0; i < 32; i++)
        acc[i / 16][i / 4 % 4][i % 4] =
            __float_as_int(from[i / 4 % 4 * 2 + i % 2]);
#pragma unroll 1
    for (int r = 0; r < a.g.r; r++, x += a.patch_w, w += ROW_BYTES) {
        const uint4 low = *(const uint4 *)w, high = *(const uint4 *)(w + 512);
        const uint32_t f[4][2] = {
            {low.x, low.y}, {low.z, low.w}, {high.x, high.y}, {high.z, high.w}};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t *const at = x + i * lines;
            const uint32_t two[4] = {at[0], at[eight], at[4], at[eight + 4]};
#pragma unroll
            for (int j = 0; j < 4; j++)
                ptx_mma(X(), acc[i][j], two, f[j]);
        }
    }
}

/* Finishes outputs k .. k + 7 of this lane's pixels of two rows. */
template <quant_kind KIND>
static __device__ __forceinline__ void
store_outputs(const struct quant_stem_args &a, int n, int p, int q, int k,
              const float *channels, const int (&acc)[2][4][4])
{
    float scale[8], bias[8];

    load_eight(channels, scale);
    load_eight(channels + 32, bias);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = p + i / 2, column = q + i % 2 * 8;
        float v[8];
        if (row >= a.g.p || column >= a.g.q)
            continue;
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = fmaf(__int2float_rn(acc[i / 2][j / 2][i % 2 * 2 + j % 2]),
                        scale[j], bias[j]);
        const uint2 word = {quant_word<int, KIND>(a.end, a.out, v, 0),
                            quant_word<int, KIND>(a.end, a.out, v + 4, 0)};
        *(uint2 *)((uint8_t *)a.out.y +
                   ((int64_t)(n * a.g.p + row) * a.g.q + column) *
                       a.out.y_pitch +
                   k) = word;
    }
}

/* Weights, and scales, biases and negative offsets, which do not change. */
static __device__ __forceinline__ void
stage_layer(const struct quant_stem_args &a, unsigned char *w, float *channels)
{
    const int bytes = a.groups * a.g.r * ROW_BYTES;

    for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16)
        *(uint4 *)(w + i) = *(const uint4 *)((const unsigned char *)a.w + i);
    for (int k = threadIdx.x; k < a.groups * 32; k += THREADS) {
        const bool ok = k < a.g.k;
        float *const at = channels + k / 32 * GROUP_WORDS + k % 32;
        at[0] = ok ? __fmul_rn(a.end.x_scale, a.end.scale[k * a.end.scale_step])
                   : 0;
        at[32] = ok && a.out.bias ? a.out.bias[k] : 0;
        at[64] = __int_as_float(ok ? -a.end.offset[k] : 0);
    }
}

template <typename X, bool SMOOTH>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    quant_stem(const __grid_constant__ struct quant_stem_args a)
{
    LAUNCH_SHARED(shared);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;
    float *const channels = (float *)(shared + a.groups * a.g.r * ROW_BYTES);
    uint32_t *const patch = (uint32_t *)(channels + a.groups * GROUP_WORDS);

    launch_wait(); /* the bias may have changed */
    stage_layer(a, shared, channels);
    for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
        uint32_t at_q, at_p;
        const uint32_t rest = a.tiles_q.divmod((uint32_t)tile, &at_q);
        const int n = (int)a.tiles_p.divmod(rest, &at_p);
        const int p0 = (int)at_p * SIDE, q0 = (int)at_q * SIDE;
        const int w0 = q0 * a.g.stride_w - a.g.pad_left;
        const int skew = w0 & 3; /* of a negative number, too */
        __syncthreads();
        fill_patch(a, n, p0 * a.g.stride_h - a.g.pad_top, w0 - skew, patch);
        __syncthreads();
        const int lines = a.g.stride_h * a.patch_w;
#pragma unroll 1
        for (int row = warp * 4; row < warp * 4 + 4; row += 2) {
            const uint32_t *const x =
                patch + row * lines + skew + g * a.g.stride_w + t;
            if (p0 + row >= a.g.p)
                continue;
#pragma unroll 1
            for (int group = 0; group < a.groups; group++) {
                const float *const of = channels + group * GROUP_WORDS + t * 8;
                const int k = group * 32 + t * 8;
                int acc[2][4][4];
                multiply<X>(a, x, lines,
                            shared + group * a.g.r * ROW_BYTES +
                                threadIdx.x % 32 * 16,
                            of + 64, acc);
                if (k >= a.g.k)
                    continue;
                if constexpr (SMOOTH)
                    store_outputs<QUANT_SMOOTH>(a, n, p0 + row, q0 + g, k, of,
                                                acc);
                else if (a.end.kind == QUANT_PLAIN)
                    store_outputs<QUANT_PLAIN>(a, n, p0 + row, q0 + g, k, of,
                                               acc);
                else
                    store_outputs<QUANT_ANY>(a, n, p0 + row, q0 + g, k, of,
                                             acc);
            }
        }
    }
}

/* ---- limits -------------------------------------------------------- */

struct quant_stem_state {
    struct conv_geometry g;
    int groups, patch_h, patch_w, tiles_p, tiles_q, blocks;
    int shared;
};

static size_t weight_bytes(const struct quant_stem_state *s)
{
    return (size_t)s->groups * (size_t)s->g.r * ROW_BYTES;
}

static int check_shape(const struct kern_problem *p,
                       const struct conv_geometry *g, struct infer_error *why)
{
    if (g->c > 4 || g->groups != 1 || g->x_pitch != g->c)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to 4 channels, which lie side by side, in "
                         "one group, found %d",
                         g->c);
    if (g->s > 8 || g->r > 16 || g->stride_h > 4 || g->stride_w > 4 ||
        g->dilation_h != 1 || g->dilation_w != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes windows of up to 16x8, strides of up to 4 and "
                         "no dilation");
    if (g->m == 0 || g->k % 8 || g->k > 256 || g->y_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to 256 outputs in eights, found %d", g->k);
    return quant_is_integer(p->out[0].dtype) &&
                   !kern_problem_in(p, CONV_RESIDUAL)
               ? 0
               : error_set(why, INFER_EUNSUPPORTED,
                           "adds no residual and gives outputs of 8 bits");
}

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, int,
                        struct quant_stem_state *s, struct infer_error *why)
{
    const struct conv_geometry *g = &s->g;
    int rc = conv_geometry_read_pitched(p, &s->g, why);

    if (rc == 0)
        rc = quant_check(p, true, why);
    if (rc == 0)
        rc = check_shape(p, &s->g, why);
    if (rc < 0)
        return rc;
    s->groups = conv_ceil_div(g->k, 32);
    s->tiles_p = conv_ceil_div(g->p, SIDE);
    s->tiles_q = conv_ceil_div(g->q, SIDE);
    s->patch_h = (SIDE - 1) * g->stride_h + g->r;
    /* 8 pixels of the last output's window, and what is skipped in front. */
    s->patch_w = conv_round_up((SIDE - 1) * g->stride_w + 8 + 3, 4);
    s->shared = (int)weight_bytes(s) + s->groups * GROUP_WORDS * 4 +
                s->patch_h * s->patch_w * 4;
    if (s->shared > SHARED)
        return error_set(why, INFER_EUNSUPPORTED,
                         "weights and pixels take %d bytes, supported %d",
                         s->shared, SHARED);
    const int64_t tiles = (int64_t)g->n * s->tiles_p * s->tiles_q;
    const int most = BLOCKS * conv_multiprocessors(d);
    s->blocks = tiles < most ? (int)tiles : most;
    return 0;
}

/* Instructions of an output at 0.6 of the peak, or the bytes. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct quant_stem_state s;

    if (read_problem(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const double each =
        (quant_is_smooth(p->epilogue.act.kind) ? 26 : 12) + 0.9 * s.g.r;
    const double tiles = (double)s.g.n * s.tiles_p * s.tiles_q;
    const double ends = tiles * SIDE * SIDE * s.groups * 32 * each / 128 /
                        (conv_multiprocessors(d) * 1.7e3 * 0.6);

    return 4 + cost_overlapped(ends, kern_problem_bytes(p) / 3e6, 0.3);
}

/* ---- packing ------------------------------------------------------- */

static void declare(struct kern_exec *e, const struct quant_stem_state *s)
{
    e->packed[CONV_W] = quant_packed_bytes(weight_bytes(s), s->g.k);
}

/* Byte i of the packed weights; w: [k][c][r][s]. */
static int8_t packed_weight(const struct quant_stem_state *s, const int8_t *w,
                            size_t i)
{
    const struct conv_geometry *g = &s->g;
    const int c = (int)(i % 4), half = (int)(i / 4 % 2);
    const int tile = (int)(i / 8 % 2), lane = (int)(i / 16 % 32);
    const int j = (int)(i / 512 % 2) * 2 + tile;
    const int r = (int)(i / ROW_BYTES % (size_t)g->r);
    const int group = (int)(i / ROW_BYTES / (size_t)g->r);
    const int k = group * 32 + lane / 8 * 8 + 2 * j + lane / 4 % 2;
    const int column = half * 4 + lane % 4;

    return k < g->k && c < g->c && column < g->s
               ? w[((size_t)(k * g->c + c) * g->r + r) * g->s + column]
               : (int8_t)0;
}

static int pack(const struct kern_exec *e, int, const void *src, void *dst,
                struct infer_error *)
{
    const struct quant_stem_state *s =
        (const struct quant_stem_state *)e->state;
    const struct conv_geometry *g = &s->g;
    const size_t bytes = weight_bytes(s);

    for (size_t i = 0; i < bytes; i++)
        ((int8_t *)dst)[i] = packed_weight(s, (const int8_t *)src, i);
    quant_pack_tail(&e->problem, (const int8_t *)src, g->k,
                    (int64_t)g->c * g->r * g->s, bytes, dst);
    return 0;
}

/* ---- launching ----------------------------------------------------- */

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct quant_stem_state *s =
        (const struct quant_stem_state *)e->state;
    const struct conv_geometry *g = &s->g;
    const bool sign = e->problem.in[CONV_X].dtype == INFER_I8;
    struct quant_stem_args a = {};

    a.g = *g;
    a.x = (const uint8_t *)args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.out = output_of(e, args, g->k);
    a.out.y_pitch = g->y_pitch;
    a.end = quant_end_of(e, args, weight_bytes(s), g->k);
    a.groups = s->groups;
    a.patch_h = s->patch_h;
    a.patch_w = s->patch_w;
    a.tiles = g->n * s->tiles_p * s->tiles_q;
    a.tiles_q.init((uint32_t)s->tiles_q);
    a.tiles_p.init((uint32_t)s->tiles_p);
    a.words = g->c == 3 && g->w % 4 == 0 && (uintptr_t)a.x % 4 == 0;
    const bool smooth = a.end.kind == QUANT_SMOOTH;
    return launch_chained(sign     ? smooth ? quant_stem<int8_t, true>
                                            : quant_stem<int8_t, false>
                              : smooth ? quant_stem<uint8_t, true>
                                   : quant_stem<uint8_t, false>,
                          dim3((unsigned)s->blocks), dim3(THREADS),
                          (size_t)s->shared, args->stream, a, err);
}

KERN_FUNCTIONS(conv2d_fprop_nhwc_8bit_cuda_stem_sm80) = {
    .supports = state_supports<struct quant_stem_state, read_problem>,
    .estimate = estimate,
    .prepare = state_prepare<struct quant_stem_state, read_problem, declare>,
    .pack = pack,
    .launch = launch,
    .release = cuda_state_release,
};
