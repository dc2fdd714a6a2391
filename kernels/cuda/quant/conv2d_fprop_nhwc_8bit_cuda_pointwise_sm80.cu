/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1x1 convolution of up to 256 channels on integers of 8 bits, as blocks of
 * mobile networks begin and end: little arithmetic, so that the bytes, and the
 * ends of the outputs, set the pace.
 *
 * A warp takes 32 pixels, two tiles of 16, whose channels stay in registers,
 * and goes through the outputs 32 at a time, by mma.sync.  The order of
 * channels in the depth does not matter as long as x and w agree, so lane 4 g +
 * t loads 16 bytes of pixels g + 8 i, channels 64 b + 16 t and on, which are
 * its parts of two steps of 32; of an odd last step 8 bytes.  Likewise for the
 * outputs: column n of tile j is output n / 2 * 8 + 2 j + n % 2 of 32, so that
 * a lane ends with outputs 8 t .. 8 t + 7 of its pixels, 8 bytes each.
 *
 * Sums of up to 128 channels begin as the bits of 1.5 2^23 less the offset and
 * stay the bits of a float, from which 1.5 2^23 is taken.
 *
 * Shared memory: weights in the lanes' order, [32 outputs][step][two tiles j]
 * [lane][tile] of 8 bytes, 1024 * STEPS bytes for 32 outputs; and 96 words of
 * scales, biases and offsets for 32 outputs.  Blocks are persistent over
 * several tiles; blockIdx.y divides the outputs where pixels are few or
 * weights many.  Channels and outputs past the last are zeros.
 */
#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quant/end.cuh"
#include "kernels/cuda/quant/mma.cuh"

#define THREADS    128
#define PIXELS     (THREADS / 32 * 32) /* of a block at once */
#define BLOCKS     4                   /* of a multiprocessor, at least 3 */
#define SHARED     (52 << 10)          /* bytes of a block, at most */
#define STEPS_MOST 8

struct quant_pointwise_args {
    struct conv_geometry g;
    const void *x, *w;
    struct output_args out;
    struct quant_end end;
    int groups; /* of 32 outputs */
    int tiles;  /* of 32 pixels */
};

/* Bytes of 32 outputs. */
static __host__ __device__ constexpr int group_bytes(int steps)
{
    return 1024 * steps;
}
#define GROUP_WORDS 96

/* ---- the kernel ---------------------------------------------------- */

/* This lane's channels of pixels g + 8 i of the warp's. */
template <int STEPS>
static __device__ __forceinline__ void
load_pixels(const struct quant_pointwise_args &a, int m0,
            uint32_t (&x)[4][2 * STEPS])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const bool wide = (a.g.c | a.g.x_pitch) % 16 == 0;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int m = min(m0 + g + 8 * i, a.g.m - 1);
        const uint8_t *const from =
            (const uint8_t *)a.x + (size_t)m * a.g.x_pitch;
#pragma unroll
        for (int b = 0; b < STEPS / 2; b++) {
            const int c = 64 * b + 16 * t;
            uint4 four = {0, 0, 0, 0};
            if (wide) {
                if (c < a.g.c)
                    four = *(const uint4 *)(from + c);
            } else {
                uint2 low = {0, 0}, high = {0, 0};
                if (c < a.g.c)
                    low = *(const uint2 *)(from + c);
                if (c + 8 < a.g.c)
                    high = *(const uint2 *)(from + c + 8);
                four = make_uint4(low.x, low.y, high.x, high.y);
            }
            x[i][4 * b] = four.x;
            x[i][4 * b + 1] = four.y;
            x[i][4 * b + 2] = four.z;
            x[i][4 * b + 3] = four.w;
        }
        if (STEPS % 2 == 1) {
            const int c = STEPS / 2 * 64 + 8 * t;
            uint2 two = {0, 0};
            if (c < a.g.c)
                two = *(const uint2 *)(from + c);
            x[i][2 * STEPS - 2] = two.x;
            x[i][2 * STEPS - 1] = two.y;
        }
    }
}

/* Eight words of this lane's outputs. */
template <typename T>
static __device__ __forceinline__ void load_eight(const T *from, T (&to)[8])
{
    const vec<T, 4> low = load_vec<T, 4>(from), high = load_vec<T, 4>(from + 4);

#pragma unroll
    for (int j = 0; j < 4; j++) {
        to[j] = low.at[j];
        to[j + 4] = high.at[j];
    }
}

/* The sums of 32 outputs, which begin with their offsets' negatives. */
template <typename X, int STEPS>
static __device__ __forceinline__ void
multiply(const uint32_t (&x)[4][2 * STEPS], const unsigned char *w,
         const int (&start)[8], int (&acc)[2][4][4])
{
#pragma unroll
    for (int i = 0; i < 32; i++)
        acc[i / 16][i / 4 % 4][i % 4] = start[i / 4 % 4 * 2 + i % 2];
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            const uint4 four =
                *(const uint4 *)(w + ((s * 2 + j / 2) * 32 + threadIdx.x % 32) *
                                         16);
            const uint32_t f[2][2] = {{four.x, four.y}, {four.z, four.w}};
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t two[4] = {x[2 * i][2 * s], x[2 * i + 1][2 * s],
                                         x[2 * i][2 * s + 1],
                                         x[2 * i + 1][2 * s + 1]};
                ptx_mma(X(), acc[i][j], two, f[0]);
                ptx_mma(X(), acc[i][j + 1], two, f[1]);
            }
        }
}

/* True if sums are the bits of floats. */
template <int STEPS>
static __host__ __device__ constexpr bool sums_as_bits(void)
{
    return STEPS <= 4;
}

/* Finishes outputs k .. k + 7 of this lane's pixels. */
template <int STEPS, quant_kind KIND>
static __device__ __forceinline__ void
store_outputs(const struct quant_pointwise_args &a, int m0, int k,
              const float (&scale)[8], const float (&bias)[8],
              const int (&acc)[2][4][4])
{
    const int m = m0 + threadIdx.x % 32 / 4;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint2 word = {0, 0};
        float v[8];
        if (m + 8 * i >= a.g.m)
            continue;
        if (KIND == QUANT_ADD ||
            ((KIND == QUANT_ANY || KIND == QUANT_SMOOTH) && a.out.residual))
            word = *(const uint2 *)((const uint8_t *)a.out.residual +
                                    (size_t)(m + 8 * i) * a.out.r_pitch + k);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int sum = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
            const float s = sums_as_bits<STEPS>()
                                ? __fadd_rn(__int_as_float(sum), -12582912.0f)
                                : __int2float_rn(sum);
            v[j] = fmaf(s, scale[j], bias[j]);
        }
        word.x = quant_word<int, KIND>(a.end, a.out, v, word.x);
        word.y = quant_word<int, KIND>(a.end, a.out, v + 4, word.y);
        *(uint2 *)((uint8_t *)a.out.y + (size_t)(m + 8 * i) * a.out.y_pitch +
                   k) = word;
    }
}

/* Scales, biases and starts of the sums of outputs from k on. */
template <int STEPS>
static __device__ __forceinline__ void
stage_channels(const struct quant_pointwise_args &a, int k, int count,
               float *to)
{
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const bool ok = k + i < a.g.k;
        const int offset = ok ? a.end.offset[k + i] : 0;
        float *const at = to + i / 32 * GROUP_WORDS + i % 32;
        at[0] = ok ? __fmul_rn(a.end.x_scale,
                               a.end.scale[(k + i) * a.end.scale_step])
                   : 0;
        at[32] = ok && a.out.bias ? a.out.bias[k + i] : 0;
        at[64] =
            __int_as_float((sums_as_bits<STEPS>() ? 0x4b400000 : 0) - offset);
    }
}

template <typename X, int STEPS, bool SMOOTH>
static __global__ void __launch_bounds__(THREADS, STEPS > 6 ? 3 : BLOCKS)
    quant_pointwise(const __grid_constant__ struct quant_pointwise_args a)
{
    LAUNCH_SHARED(shared);
    const int first = blockIdx.y * a.groups / gridDim.y;
    const int end = (blockIdx.y + 1) * a.groups / gridDim.y;
    const unsigned char *const w =
        (const unsigned char *)a.w + first * group_bytes(STEPS);
    float *const channels =
        (float *)(shared + (end - first) * group_bytes(STEPS));

    for (int i = threadIdx.x * 16; i < (end - first) * group_bytes(STEPS);
         i += THREADS * 16)
        *(uint4 *)(shared + i) = *(const uint4 *)(w + i);
    launch_wait();
    stage_channels<STEPS>(a, first * 32, (end - first) * 32, channels);
    __syncthreads();
    for (int tile = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
         tile < a.tiles; tile += gridDim.x * (THREADS / 32)) {
        const int m0 = tile * 32;
        uint32_t x[4][2 * STEPS];
        load_pixels<STEPS>(a, m0, x);
#pragma unroll 1
        for (int group = 0; group < end - first; group++) {
            const int k = (first + group) * 32 + threadIdx.x % 4 * 8;
            const float *const of =
                channels + group * GROUP_WORDS + threadIdx.x % 4 * 8;
            float scale[8], bias[8];
            int acc[2][4][4], start[8];
            load_eight((const int *)(of + 64), start);
            multiply<X, STEPS>(x, shared + group * group_bytes(STEPS), start,
                               acc);
            load_eight(of, scale);
            load_eight(of + 32, bias);
            if (k >= a.g.k)
                continue;
            if constexpr (SMOOTH)
                store_outputs<STEPS, QUANT_SMOOTH>(a, m0, k, scale, bias, acc);
            else if (a.end.kind == QUANT_PLAIN)
                store_outputs<STEPS, QUANT_PLAIN>(a, m0, k, scale, bias, acc);
            else if (a.end.kind == QUANT_ADD)
                store_outputs<STEPS, QUANT_ADD>(a, m0, k, scale, bias, acc);
            else
                store_outputs<STEPS, QUANT_ANY>(a, m0, k, scale, bias, acc);
        }
    }
}

/* ---- limits -------------------------------------------------------- */

struct quant_pointwise_state {
    struct conv_geometry g;
    int steps, groups, tiles;
    int blocks, parts; /* of the grid */
};

/* Bytes of packed weights. */
static size_t weight_bytes(const struct quant_pointwise_state *s)
{
    return (size_t)s->groups * group_bytes(s->steps);
}

static int shared_bytes(const struct quant_pointwise_state *s, int groups)
{
    return groups * (group_bytes(s->steps) + GROUP_WORDS * 4);
}

static int check_shape(const struct kern_problem *p,
                       const struct conv_geometry *g, struct infer_error *why)
{
    const struct kern_tensor *r = kern_problem_in(p, CONV_RESIDUAL);

    if (g->r != 1 || g->s != 1 || g->stride_h != 1 || g->stride_w != 1 ||
        g->p != g->h || g->q != g->w || g->pad_top || g->pad_left ||
        g->groups != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1x1 windows without strides and pads, and one "
                         "group");
    if (g->c > 32 * STEPS_MOST || g->c % 8 || g->k % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to %d channels, all in eights, found %d to "
                         "%d",
                         32 * STEPS_MOST, g->c, g->k);
    if (g->m == 0 || g->x_pitch % 8 || g->y_pitch % 8 || g->r_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes pixels that lie multiples of 8 elements apart, "
                         "found %d, %d and %d",
                         g->x_pitch, g->y_pitch, g->r_pitch);
    if (p->in[CONV_X].dtype != INFER_I8 &&
        quant_is_smooth(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes this activation of inputs of I8");
    return quant_is_integer(p->out[0].dtype) &&
                   (!r || quant_is_integer(r->dtype))
               ? 0
               : error_set(why, INFER_EUNSUPPORTED,
                           "takes residuals and gives outputs of 8 bits");
}

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, int,
                        struct quant_pointwise_state *s,
                        struct infer_error *why)
{
    const struct conv_geometry *g = &s->g;
    int rc = conv_geometry_read_pitched(p, &s->g, why);

    if (rc == 0)
        rc = quant_check(p, true, why);
    if (rc == 0)
        rc = check_shape(p, &s->g, why);
    if (rc < 0)
        return rc;
    const int multiprocessors = conv_multiprocessors(d);
    s->steps = conv_ceil_div(g->c, 32);
    s->steps += s->steps == 7; /* there is no kernel of 7 */
    s->groups = conv_ceil_div(g->k, 32);
    s->tiles = conv_ceil_div(g->m, 32);
    const int turns = conv_ceil_div(s->tiles, THREADS / 32);
    const int most = BLOCKS * multiprocessors;
    const int fit = SHARED / shared_bytes(s, 1);
    int parts = turns < multiprocessors ? multiprocessors / turns : 1;
    if (parts < conv_ceil_div(s->groups, fit))
        parts = conv_ceil_div(s->groups, fit);
    s->parts = parts < s->groups ? parts : s->groups;
    s->blocks = turns < most ? turns : most;
    return 0;
}

/* Instructions of an output at 0.7 of the peak, or the bytes. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct quant_pointwise_state s;

    if (read_problem(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const bool smooth = quant_is_smooth(p->epilogue.act.kind);
    const int rounds =
        conv_ceil_div(s.tiles * s.parts, conv_multiprocessors(d) * BLOCKS * 4);
    const double each = (smooth ? 24 : 10) + 1.2 * s.steps;
    const double ends = (double)rounds * BLOCKS * 4 *
                        conv_ceil_div(s.groups, s.parts) * 1024 * each / 128 /
                        (1.7e3 * 0.7);

    return 3 + cost_overlapped(ends, kern_problem_bytes(p) / 3e6, 0.3);
}

/* ---- packing ------------------------------------------------------- */

static void declare(struct kern_exec *e, const struct quant_pointwise_state *s)
{
    e->packed[CONV_W] = quant_packed_bytes(weight_bytes(s), s->g.k);
}

/* Byte i of the packed weights. */
static int8_t packed_weight(const struct quant_pointwise_state *s,
                            const int8_t *w, size_t i)
{
    const int byte = (int)(i % 8), tile = (int)(i / 8 % 2);
    const int lane = (int)(i / 16 % 32), j = (int)(i / 512 % 2) * 2 + tile;
    const int step = (int)(i / 1024 % (size_t)s->steps);
    const int group = (int)(i / 1024 / (size_t)s->steps);
    const int g = lane / 4, t = lane % 4, pairs = s->steps / 2;
    const int k = group * 32 + g / 2 * 8 + 2 * j + g % 2;
    const int c = step < 2 * pairs
                      ? step / 2 * 64 + 16 * t + step % 2 * 8 + byte
                      : pairs * 64 + 8 * t + byte;

    return k < s->g.k && c < s->g.c ? w[(size_t)k * s->g.c + c] : (int8_t)0;
}

static int pack(const struct kern_exec *e, int, const void *src, void *dst,
                struct infer_error *)
{
    const struct quant_pointwise_state *s =
        (const struct quant_pointwise_state *)e->state;
    const size_t bytes = weight_bytes(s);

    for (size_t i = 0; i < bytes; i++)
        ((int8_t *)dst)[i] = packed_weight(s, (const int8_t *)src, i);
    quant_pack_tail(&e->problem, (const int8_t *)src, s->g.k, s->g.c, bytes,
                    dst);
    return 0;
}

/* ---- launching ----------------------------------------------------- */

typedef void (*quant_pointwise_function)(const struct quant_pointwise_args);

template <typename X, bool SMOOTH>
static quant_pointwise_function kernel_for(int steps)
{
    switch (steps) {
    case 1:
        return quant_pointwise<X, 1, SMOOTH>;
    case 2:
        return quant_pointwise<X, 2, SMOOTH>;
    case 3:
        return quant_pointwise<X, 3, SMOOTH>;
    case 4:
        return quant_pointwise<X, 4, SMOOTH>;
    case 5:
        return quant_pointwise<X, 5, SMOOTH>;
    case 6:
        return quant_pointwise<X, 6, SMOOTH>;
    default:
        return quant_pointwise<X, 8, SMOOTH>;
    }
}

static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct quant_pointwise_state *s =
        (const struct quant_pointwise_state *)e->state;
    struct quant_pointwise_args a = {};

    a.g = s->g;
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.out = output_of(e, args, s->g.k);
    a.out.y_pitch = s->g.y_pitch;
    a.out.r_pitch = s->g.r_pitch;
    a.end = quant_end_of(e, args, weight_bytes(s), s->g.k);
    a.groups = s->groups;
    a.tiles = s->tiles;
    return launch_chained(
        e->problem.in[CONV_X].dtype == INFER_U8
            ? kernel_for<uint8_t, false>(s->steps)
        : a.end.kind == QUANT_SMOOTH ? kernel_for<int8_t, true>(s->steps)
                                     : kernel_for<int8_t, false>(s->steps),
        dim3((unsigned)s->blocks, (unsigned)s->parts), dim3(THREADS),
        (size_t)shared_bytes(s, conv_ceil_div(s->groups, s->parts)),
        args->stream, a, err);
}

KERN_FUNCTIONS(conv2d_fprop_nhwc_8bit_cuda_pointwise_sm80) = {
    .supports = state_supports<struct quant_pointwise_state, read_problem>,
    .estimate = estimate,
    .prepare =
        state_prepare<struct quant_pointwise_state, read_problem, declare>,
    .pack = pack,
    .launch = launch,
    .release = cuda_state_release,
};
