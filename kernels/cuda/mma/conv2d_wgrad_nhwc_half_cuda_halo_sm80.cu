/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgrad of 3x3 convolutions of few channels, through mma.sync: dw[k, r, s, c] =
 * sum over pixels m of dy[m, k] x[m + (r, s), c]. halo.cuh has the tiles of x;
 * those of dy follow them without a halo.
 *
 * A block keeps BK x 9 C sums in registers and walks its part of the tiles, two
 * in flight.  Each of its warps has G filter positions and every PARTS-th step
 * of 16 pixels; those that share positions are added at the end through shared
 * memory, in a fixed order.  Blocks: parts of the tiles in x, BK outputs in y.
 * Each writes its sums to the workspace, parts[part][K][r, s, c], and
 * wgrad_sum() adds them in order: the same bits every time.
 *
 *    C   BK  G  PARTS   warps   sums a thread
 *   16   16  9      8       8   72
 *   32   32  3      2       6   96
 *   64   32  1      1       9   64
 *
 * Shared memory: two stages of up to M pixels of dy (2 BK + 16 bytes each) and
 * of x with its patch; at the end sums of half the warps in its place.
 */

#include "kernels/cuda/mma/halo.cuh"
#include "kernels/cuda/mma/wgrad.cuh"

struct halo_wgrad_args {
    struct halo_shape s;
    int outputs; /* K */
    const void *x, *dy;
    float *parts;
};

template <int C> struct halo_wgrad_plan {
    enum {
        M = C == 64 ? 64 : 128,
        BK = C == 16 ? 16 : 32,
        G = C == 16   ? 9
            : C == 32 ? 3
                      : 1,
        PARTS = C == 16   ? 8
                : C == 32 ? 2
                          : 1,
        TAPS = 9 / G, /* groups of taps */
        WARPS = TAPS * PARTS,
        THREADS = 32 * WARPS,
        MT = BK / 16,
        NT = G * C / 8,
        SUMS = MT * NT * 4,  /* of a thread */
        PITCH = 2 * BK + 16, /* bytes of a pixel of dy */
        PATCH = halo_patch<M, C>(),
        STAGE = PATCH + M * PITCH,
        JOIN = PARTS / 2 * TAPS * SUMS * 32 * 4,
        SHARED = 2 * STAGE > JOIN ? 2 * STAGE : JOIN
    };
};

/* Starts the copy of a tile of dy. */
template <typename T, int C>
static __device__ __forceinline__ void copy_dy(const struct halo_wgrad_args &a,
                                               const struct halo_tile &t,
                                               int k0, uint32_t to)
{
    typedef halo_wgrad_plan<C> P;
    enum { VECTORS = P::BK / 8 };

    for (int i = threadIdx.x; i < (a.s.high << a.s.log) * VECTORS;
         i += P::THREADS) {
        const int m = i / VECTORS, v = i % VECTORS;
        const int h = t.h + (m >> a.s.log);
        const int w = t.w + (m & ((1 << a.s.log) - 1));
        const size_t pixel = ((size_t)t.image * a.s.h + h) * a.s.w + w;
        ptx_cp_async<16>(to + m * P::PITCH + v * 16,
                         (const T *)a.dy + pixel * a.outputs + k0 + v * 8,
                         true);
    }
}

/* One step: 16 pixels from m on.  The matrices of dy are (pixels 0-7, outputs
 * 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15), those of x (pixels 0-7,
 * channels 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15), all transposed. */
template <typename MODE, int C>
static __device__ __forceinline__ void
step(const struct halo_shape &s, uint32_t patch, uint32_t dy, int m, int tap0,
     float (&acc)[halo_wgrad_plan<C>::MT][halo_wgrad_plan<C>::NT][4])
{
    typedef halo_wgrad_plan<C> P;
    const int lane = threadIdx.x % 32;
    const uint32_t from_y =
        dy + (m + lane / 16 * 8 + lane % 8) * P::PITCH + lane / 8 % 2 * 16;
    const uint32_t from_x =
        patch + halo_at<C>(s, m + lane / 8 % 2 * 8 + lane % 8) + lane / 16 * 16;
    const int row = ((1 << s.log) + 2) * halo_pitch<C>();
    uint32_t fa[P::MT][4];

#pragma unroll
    for (int i = 0; i < P::MT; i++)
        ptx_ldmatrix_x4_trans(fa[i], from_y + i * 32);
#pragma unroll
    for (int g = 0; g < P::G; g++) {
        const int r = P::G == 9 ? g / 3 : tap0 / 3;
        const int column = P::G == 1 ? tap0 % 3 : g % 3;
        const uint32_t from = from_x + r * row + column * halo_pitch<C>();
#pragma unroll
        for (int c = 0; c < C; c += 16) {
            uint32_t four[4];
            ptx_ldmatrix_x4_trans(four, from + c * 2);
#pragma unroll
            for (int i = 0; i < P::MT; i++) {
                const int j = (g * C + c) / 8;
                ptx_mma(typename MODE::type(), acc[i][j], fa[i], four);
                ptx_mma(typename MODE::type(), acc[i][j + 1], fa[i], four + 2);
            }
        }
    }
}

/* Adds up the warps that share filter positions; those of part 0 have the
 * result. */
template <int C>
static __device__ __forceinline__ void
join(float (&acc)[halo_wgrad_plan<C>::MT][halo_wgrad_plan<C>::NT][4],
     float *shared)
{
    typedef halo_wgrad_plan<C> P;
    const int warp = threadIdx.x / 32, part = warp / P::TAPS;

#pragma unroll
    for (int half = P::PARTS / 2; half > 0; half /= 2) {
        const int slot = (part % half) * P::TAPS + warp % P::TAPS;
        float *at = shared + slot * P::SUMS * 32 + threadIdx.x % 32;
        __syncthreads();
        if (part >= half && part < 2 * half) {
#pragma unroll
            for (int i = 0; i < P::SUMS; i++)
                at[i * 32] = acc[i / (P::NT * 4)][i / 4 % P::NT][i % 4];
        }
        __syncthreads();
        if (part < half) {
#pragma unroll
            for (int i = 0; i < P::SUMS; i++)
                acc[i / (P::NT * 4)][i / 4 % P::NT][i % 4] += at[i * 32];
        }
    }
}

template <int C>
static __device__ __forceinline__ void
store(const struct halo_wgrad_args &a, int k0, int tap0,
      const float (&acc)[halo_wgrad_plan<C>::MT][halo_wgrad_plan<C>::NT][4])
{
    typedef halo_wgrad_plan<C> P;
    const int lane = threadIdx.x % 32, channels = a.s.channels;
    const int row = 9 * channels;
    float *parts = a.parts + (size_t)blockIdx.x * a.outputs * row;

#pragma unroll
    for (int i = 0; i < P::MT; i++)
#pragma unroll
        for (int j = 0; j < P::NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int k = k0 + i * 16 + lane / 4 + e / 2 * 8;
                const int tap = tap0 + j * 8 / C;
                const int c = j * 8 % C + lane % 4 * 2 + e % 2;
                if (c < channels)
                    parts[(size_t)k * row + tap * channels + c] = acc[i][j][e];
            }
}

template <typename MODE, int C, bool NARROW>
static __global__ void __launch_bounds__(halo_wgrad_plan<C>::THREADS)
    halo_wgrad_kernel(const __grid_constant__ struct halo_wgrad_args a)
{
    typedef halo_wgrad_plan<C> P;
    typedef typename MODE::type T;
    LAUNCH_SHARED(shared);
    const int k0 = (int)blockIdx.y * P::BK;
    const int warp = threadIdx.x / 32, part = warp / P::TAPS;
    const int tap0 = warp % P::TAPS * P::G;
    float acc[P::MT][P::NT][4] = {};
    int stage = 0;

    for (int i = blockIdx.x - (int)gridDim.x; i < a.s.tiles;
         i += gridDim.x, stage ^= 1) {
        const int next = i + (int)gridDim.x;
        unsigned char *to = shared + (stage ^ 1) * P::STAGE;
        if (next < a.s.tiles) {
            const struct halo_tile t = halo_tile_at(a.s, next);
            halo_copy<T, C, P::THREADS, NARROW>(a.s, t, a.x, to);
            copy_dy<T, C>(a, t, k0, ptx_shared(to) + P::PATCH);
        }
        ptx_cp_async_commit();
        if (i < 0)
            continue;
        ptx_cp_async_wait<1>();
        __syncthreads();
        const uint32_t from = ptx_shared(shared) + stage * P::STAGE;
#pragma unroll 1
        for (int m = part * 16; m < a.s.high << a.s.log; m += P::PARTS * 16)
            step<MODE, C>(a.s, from, from + P::PATCH, m, tap0, acc);
        __syncthreads(); /* the stage has been read */
    }
    join<C>(acc, (float *)shared);
    if (part == 0)
        store<C>(a, k0, tap0, acc);
}

/* ---- limits -------------------------------------------------------- */

struct halo_wgrad_state {
    struct halo_shape s;
    int depth, outputs, bk, ranges;
};

/* Tiles that cover the image exactly: a pixel outside it would multiply pixels
 * of its window by zero, and turn infinities into NaNs.  As wide as possible;
 * steps are of 16 pixels. */
static bool exact_tiles(struct halo_shape *s, int m)
{
    for (s->log = 5; s->log >= 3; s->log--)
        for (s->high = m >> s->log; s->high > 0; s->high--)
            if (s->w % (1 << s->log) == 0 && s->h % s->high == 0 &&
                (s->high << s->log) % 16 == 0) {
                halo_count_tiles(s);
                return true;
            }
    return false;
}

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, int,
                        struct halo_wgrad_state *s, struct infer_error *why)
{
    const int rc =
        halo_read(p, &p->in[0], &p->in[1], &p->out[0], 1, &s->s, why);

    if (rc < 0)
        return rc;
    if (!cuda_is_real(p->out[0].dtype) ||
        (kern_problem_in(p, 2) && !cuda_is_real(p->in[2].dtype)))
        return error_set(why, INFER_EUNSUPPORTED,
                         "dw and what is added to it are F32, F16 or BF16");
    s->outputs = (int)p->in[1].dim[1];
    s->depth = halo_depth(s->s.channels);
    s->bk = s->depth == 16 ? 16 : 32;
    if (!s->depth || s->outputs % s->bk)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1 to 16 channels and outputs in 16s, or 32 or "
                         "64 channels and outputs in 32s; found %d to %d",
                         s->s.channels, s->outputs);
    if (!exact_tiles(&s->s, s->depth == 64 ? 64 : 128))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes pictures of whole tiles, found %dx%d", s->s.h,
                         s->s.w);
    /* Two blocks a multiprocessor if they are small, else one. */
    int64_t most = (int64_t)conv_multiprocessors(d) * (s->depth == 16 ? 2 : 1) /
                   (s->outputs / s->bk);
    most = most > 1 ? most : 1;
    /* All blocks have the same number of tiles, or one less. */
    const int64_t each = (s->s.tiles + most - 1) / most;
    s->ranges = (int)((s->s.tiles + each - 1) / each);
    return 0;
}

/* Microseconds, roughly: 1 TFLOP/s a multiprocessor as measured on an H200. */
static double estimate(const struct kern_problem *p,
                       const struct kern_device *d)
{
    struct halo_wgrad_state s = {};

    if (read_problem(p, d, 0, &s, NULL) < 0)
        return 1e30;
    return 8 + kern_problem_flops(p) / 1e6 / conv_multiprocessors(d) * s.depth /
                   s.s.channels;
}

static void declare(struct kern_exec *e, const struct halo_wgrad_state *s)
{
    e->workspace =
        (size_t)s->ranges * s->outputs * 9 * s->s.channels * sizeof(float);
}

/* ---- launching ----------------------------------------------------- */

template <typename MODE, int C, bool NARROW>
static int run(const struct halo_wgrad_state *s,
               const struct halo_wgrad_args *a, void *stream,
               struct infer_error *err)
{
    typedef halo_wgrad_plan<C> P;

    return launch_kernel(halo_wgrad_kernel<MODE, C, NARROW>,
                         dim3(s->ranges, s->outputs / P::BK), P::THREADS,
                         P::SHARED, stream, *a, err);
}

template <typename MODE>
static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct halo_wgrad_state *s =
        (const struct halo_wgrad_state *)e->state;
    const struct wgrad_join_shape shape = {s->outputs, s->s.channels, 3, 3,
                                           s->ranges};
    struct halo_wgrad_args a = {};
    int rc;

    a.s = s->s;
    a.outputs = s->outputs;
    a.x = args->in[0];
    a.dy = args->in[1];
    a.parts = wgrad_target(e, &shape, args);
    if (s->depth == 64)
        rc = run<MODE, 64, false>(s, &a, args->stream, err);
    else if (s->depth == 32)
        rc = run<MODE, 32, false>(s, &a, args->stream, err);
    else if (s->s.channels == 16)
        rc = run<MODE, 16, false>(s, &a, args->stream, err);
    else
        rc = run<MODE, 16, true>(s, &a, args->stream, err);
    return rc < 0 ? rc : wgrad_join(e, &shape, args, err);
}

#define HALO_WGRAD_ROW(symbol, m)                                              \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = state_supports<struct halo_wgrad_state, read_problem>,     \
        .estimate = estimate,                                                  \
        .prepare =                                                             \
            state_prepare<struct halo_wgrad_state, read_problem, declare>,     \
        .launch = launch<m>,                                                   \
        .release = cuda_state_release,                                         \
    };

HALO_WGRAD_ROW(conv2d_wgrad_nhwc_f16_cuda_halo_sm80, struct igemm_f16)
HALO_WGRAD_ROW(conv2d_wgrad_nhwc_bf16_cuda_halo_sm80, struct igemm_bf16)
