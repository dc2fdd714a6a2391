/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1x1 convolution of up to 32 channels to many, as blocks of mobile networks
 * begin: little arithmetic and many outputs, so that the stores, and the
 * exponentials of the activation, set the pace.
 *
 * A warp takes 32 pixels, two tiles of 16, whose channels stay in registers,
 * and goes through the outputs 32 at a time, by mma.sync.  As in the kernel for
 * few outputs (pointwise_small_k), the order of channels in the depth and in
 * the columns is chosen so that lane 4 g + t loads and stores 16 bytes: of
 * pixels g + 8 i its parts of the depth are channels 8 t .. 8 t + 7 of 32 (two
 * steps of 16), or 4 t .. 4 t + 3 of 16 (one step), and it ends with outputs
 * 8 t .. 8 t + 7 of 32: column n of tile j is output n / 2 * 8 + 2 j + n % 2.
 *
 * Weights are packed in the lanes' order, [32 outputs][32 channels][tile j]
 * [lane] of 16 bytes (8 if there is one step), and lie in shared memory in that
 * order: K / 32 * STEPS / 2 * 2048 bytes, rounded up.  Blocks are persistent
 * over several tiles; if pixels are few, blockIdx.y divides the outputs.
 * Channels and outputs past the last are zeros.
 */
#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"

extern "C" {
#include "kernels/base/scalar.h"
}

#define SMALL_C_THREADS 128
#define SMALL_C_BLOCKS  4                           /* of a multiprocessor */
#define SMALL_C_PIXELS  (SMALL_C_THREADS / 32 * 32) /* of a block at once */
#define SMALL_C_SHARED  (48 << 10) /* bytes of weights, at most */

struct small_c_args {
    struct conv_geometry g;
    const void *x, *w;
    const float *bias;
    int groups; /* of 32 outputs */
    int tiles;  /* of SMALL_C_PIXELS pixels */
    struct output_args out;
};

/* Words of 4 bytes that a lane holds of a pixel's, or an output's, channels. */
template <int STEPS> struct small_c_lane {
    enum {
        WORDS = 2 * STEPS,
        VECTOR = STEPS == 1 ? 2 : 4, /* words that lie together */
        PARTS = STEPS == 1 ? 1 : STEPS / 2,
        CHANNELS = 2 * VECTOR * 4 /* of a part */
    };
};

/* ---- the kernel ---------------------------------------------------- */

/* 8 bytes as two registers. */
static __device__ __forceinline__ void ptx_load_words(const void *from,
                                                      uint32_t (&to)[2])
{
    const uint2 v = *(const uint2 *)from;

    to[0] = v.x;
    to[1] = v.y;
}

/* This lane's channels of pixels g + 8 i of the warp's. */
template <typename T, int STEPS>
static __device__ __forceinline__ void small_c_load_pixels(
    const struct small_c_args &a, int m0,
    uint32_t (&x)[4][small_c_lane<STEPS>::PARTS][small_c_lane<STEPS>::VECTOR])
{
    typedef small_c_lane<STEPS> L;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int m = min(m0 + g + 8 * i, a.g.m - 1);
        const T *const from = (const T *)a.x + (size_t)m * a.g.x_pitch;
#pragma unroll
        for (int p = 0; p < L::PARTS; p++) {
            const int c = p * L::CHANNELS + t * 2 * L::VECTOR;
#pragma unroll
            for (int w = 0; w < L::VECTOR; w++)
                x[i][p][w] = 0;
            if (c < a.g.c)
                ptx_load_words(from + c, x[i][p]);
        }
    }
}

/* The sums of 32 outputs from k on begin with the bias. */
static __device__ __forceinline__ void
small_c_start(const struct small_c_args &a, int k, float (&acc)[2][4][4])
{
    float bias[8] = {};

    if (a.bias && k < a.g.k) {
        load_floats<float, 4>(a.bias + k, bias);
        load_floats<float, 4>(a.bias + k + 4, bias + 4);
    }
#pragma unroll
    for (int i = 0; i < 32; i++)
        acc[i / 16][i / 4 % 4][i % 4] = bias[i / 4 % 4 * 2 + i % 2];
}

template <typename T, int STEPS>
static __device__ __forceinline__ void
small_c_multiply(const uint32_t (&x)[4][small_c_lane<STEPS>::PARTS]
                                    [small_c_lane<STEPS>::VECTOR],
                 const unsigned char *w, float (&acc)[2][4][4])
{
    typedef small_c_lane<STEPS> L;

#pragma unroll
    for (int p = 0; p < L::PARTS; p++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t f[L::VECTOR];
            ptx_load_words(w + ((p * 4 + j) * 32 + threadIdx.x % 32) * 4 *
                                   (int)L::VECTOR,
                           f);
#pragma unroll
            for (int s = 0; s < L::VECTOR; s += 2)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const uint32_t two[4] = {x[2 * i][p][s], x[2 * i + 1][p][s],
                                             x[2 * i][p][s + 1],
                                             x[2 * i + 1][p][s + 1]};
                    ptx_mma(T(), acc[i][j], two, f + s);
                }
        }
}

/* Finishes outputs k .. k + 7 of this lane's pixels. */
template <typename T>
static __device__ __forceinline__ void
small_c_store(const struct small_c_args &a, int m0, int k,
              const float (&acc)[2][4][4])
{
    const int m = m0 + threadIdx.x % 32 / 4;

    if (k >= a.g.k)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float v[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
        if (m + 8 * i < a.g.m)
            output_vector<T, 8>(a.out, m + 8 * i, k, v);
    }
}

template <typename T, int STEPS>
static __global__ void __launch_bounds__(SMALL_C_THREADS, SMALL_C_BLOCKS)
    small_c_kernel(const __grid_constant__ struct small_c_args a)
{
    typedef small_c_lane<STEPS> L;
    enum { GROUP = L::PARTS * 4 * 32 * 4 * L::VECTOR }; /* bytes */
    LAUNCH_SHARED(shared);
    const int first = blockIdx.y * a.groups / gridDim.y;
    const int end = (blockIdx.y + 1) * a.groups / gridDim.y;
    const unsigned char *const w = (const unsigned char *)a.w + first * GROUP;

    for (int i = threadIdx.x * 16; i < (end - first) * GROUP;
         i += SMALL_C_THREADS * 16)
        *(uint4 *)(shared + i) = *(const uint4 *)(w + i);
    launch_wait();
    __syncthreads();
    for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
        const int m0 = tile * SMALL_C_PIXELS + threadIdx.x / 32 * 32;
        uint32_t x[4][L::PARTS][L::VECTOR];
        if (m0 >= a.g.m)
            continue; /* the whole warp */
        small_c_load_pixels<T, STEPS>(a, m0, x);
#pragma unroll 1
        for (int group = first; group < end; group++) {
            const int k = group * 32 + threadIdx.x % 4 * 8;
            float acc[2][4][4];
            small_c_start(a, k, acc);
            small_c_multiply<T, STEPS>(x, shared + (group - first) * GROUP,
                                       acc);
            small_c_store<T>(a, m0, k, acc);
        }
    }
}

/* ---- the host's side ----------------------------------------------- */

struct small_c_state {
    struct conv_geometry g;
    int steps, groups, tiles;
    int blocks, parts; /* of the grid */
    int multiprocessors;
};

/* Bytes of packed weights. */
static int64_t small_c_bytes(const struct small_c_state *s)
{
    return (int64_t)s->groups * s->steps * 1024;
}

static int small_c_read(const struct kern_problem *p,
                        const struct kern_device *d, int,
                        struct small_c_state *s, struct infer_error *why)
{
    const struct conv_geometry *g = &s->g;
    int rc = conv_geometry_read_pitched(p, &s->g, why);

    if (rc == 0)
        rc = conv_weights_packable(p, why);
    if (rc < 0)
        return rc;
    s->steps = g->c > 16 ? 2 : 1;
    s->groups = conv_ceil_div(g->k, 32);
    s->tiles = conv_ceil_div(g->m, SMALL_C_PIXELS);
    s->multiprocessors = conv_multiprocessors(d);
    const int most = SMALL_C_BLOCKS * s->multiprocessors;
    const int wanted = s->tiles > 0 ? s->multiprocessors / s->tiles : 1;
    s->blocks = s->tiles < most ? s->tiles : most;
    s->parts = wanted < 1 ? 1 : wanted < s->groups ? wanted : s->groups;
    if (g->r != 1 || g->s != 1 || g->stride_h != 1 || g->stride_w != 1 ||
        g->p != g->h || g->q != g->w || g->pad_top || g->pad_left ||
        g->groups != 1)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1x1 windows without strides and pads, and one "
                         "group");
    if (g->c > 32 || g->c % 8 || g->k % 8 || small_c_bytes(s) > SMALL_C_SHARED)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes up to 32 channels, all in eights, whose "
                         "weights fit %d bytes, found %d to %d",
                         SMALL_C_SHARED, g->c, g->k);
    if (g->m == 0 || g->x_pitch % 8 || g->y_pitch % 8 || g->r_pitch % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes pixels that lie multiples of 8 elements apart, "
                         "found %d, %d and %d",
                         g->x_pitch, g->y_pitch, g->r_pitch);
    return 0;
}

/* A warp finishes 32 pixels' 32 outputs in 0.45 us if each takes an
 * exponential, else in less than half of that; the warps of a block run in
 * parallel, the blocks of a multiprocessor one after another.  Or the bytes, if
 * they take longer (measured on two layers, H200). */
static double small_c_estimate(const struct kern_problem *p,
                               const struct kern_device *d)
{
    struct small_c_state s;

    if (small_c_read(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const double group =
        unary_is_piecewise_linear(p->epilogue.act.kind) ? 0.2 : 0.45;
    const int turns = conv_ceil_div(s.tiles * s.parts, s.multiprocessors);

    return 5 + cost_overlapped(turns * conv_ceil_div(s.groups, s.parts) * group,
                               kern_problem_bytes(p) / 4e6, 0.3);
}

static void small_c_declare(struct kern_exec *e, const struct small_c_state *s)
{
    e->packed[CONV_W] = (size_t)small_c_bytes(s);
}

static const auto small_c_supports =
    state_supports<struct small_c_state, small_c_read>;
static const auto small_c_prepare =
    state_prepare<struct small_c_state, small_c_read, small_c_declare>;

/* Number i of the packed weights, counted in elements. */
static double small_c_weight(const struct small_c_state *s,
                             enum infer_dtype from, const void *src, int64_t i)
{
    const int vector = s->steps == 1 ? 4 : 8; /* elements of a lane */
    const int parts = s->steps == 1 ? 1 : s->steps / 2;
    const int e = (int)(i % vector), lane = (int)(i / vector % 32);
    const int j = (int)(i / vector / 32 % 4);
    const int part = (int)(i / vector / 128 % parts);
    const int group = (int)(i / vector / 128 / parts);
    const int g = lane / 4, t = lane % 4;
    const int k = group * 32 + g / 2 * 8 + 2 * j + g % 2;
    const int c = part * 4 * vector + t * vector + e;

    return k < s->g.k && c < s->g.c
               ? scalar_load(from, src, (int64_t)k * s->g.c + c)
               : 0;
}

static int small_c_pack(const struct kern_exec *e, int i, const void *src,
                        void *dst, struct infer_error *err)
{
    const struct small_c_state *s = (const struct small_c_state *)e->state;
    const enum infer_dtype from = e->problem.in[i].dtype;
    const enum infer_dtype to = e->problem.in[CONV_X].dtype;
    const int64_t count = small_c_bytes(s) / 2;

    (void)err;
    for (int64_t n = 0; n < count; n++)
        scalar_store(to, dst, n, small_c_weight(s, from, src, n));
    return 0;
}

template <typename T>
static int small_c_launch(const struct kern_exec *e,
                          const struct kern_args *args, struct infer_error *err)
{
    const struct small_c_state *s = (const struct small_c_state *)e->state;
    const int groups = conv_ceil_div(s->groups, s->parts);
    struct small_c_args a;

    a.g = s->g;
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.groups = s->groups;
    a.tiles = s->tiles;
    a.out = output_of(e, args, s->g.k);
    a.out.y_pitch = s->g.y_pitch;
    a.out.r_pitch = s->g.r_pitch;
    a.bias = a.out.bias;
    a.out.bias = NULL; /* the sums begin with it */
    return launch_chained(
        s->steps == 1 ? small_c_kernel<T, 1> : small_c_kernel<T, 2>,
        dim3(s->blocks, s->parts), dim3(SMALL_C_THREADS),
        (size_t)groups * s->steps * 1024, args->stream, a, err);
}

STATE_ROW(conv2d_fprop_nhwc_f16_cuda_pointwise_small_c_sm80, small_c, __half,
          NULL)
STATE_ROW(conv2d_fprop_nhwc_bf16_cuda_pointwise_small_c_sm80, small_c,
          __nv_bfloat16, NULL)
