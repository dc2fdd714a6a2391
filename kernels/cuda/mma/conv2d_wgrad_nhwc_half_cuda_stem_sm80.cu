/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgrad of a first layer, through mma.sync: with so few channels the columns of
 * the matrix product are a row of the window, S C contiguous elements. dw[k, r,
 * j] = sum over pixels m of dy[m, k] x[m, r, j], j = (s, c) filled up from S C
 * to 24 columns.
 *
 * A block keeps 64 outputs x R rows x 24 sums in registers, a warp a row of the
 * window, and walks its part of the tiles: up to 128 pixels side by side in a
 * row of the output.  Of each it copies dy and the R rows of x below, and
 * unfolds these to the matrix of pixels x (r, j).  Blocks: parts of the tiles
 * in x, 64 outputs in y.  Each writes its sums to the workspace,
 * parts[part][K][r, s, c]; wgrad_sum() adds them in order: the same bits every
 * time.
 *
 * Shared memory, bytes: 128 x 336 unfolded (21 units of 16 bytes a pixel), 128
 * x 144 of dy (9 units; odd numbers, so that ldmatrix meets no conflicts), 7 x
 * 2048 of x: 75,776, three blocks a multiprocessor.
 */
#include "kernels/cuda/mma/halo.cuh"
#include "kernels/cuda/mma/wgrad.cuh"

enum {
    ROWS = 7,      /* of the window, at most */
    COLUMNS = 24,  /* S C, at most */
    PIXELS = 128,  /* of a tile, at most */
    OUTPUTS = 64,  /* of a block */
    LENGTH = 1024, /* elements of a row of x below a tile, at most */
    THREADS = 32 * ROWS,
    UNFOLDED_PITCH = ROWS * COLUMNS * 2,
    DY_PITCH = OUTPUTS * 2 + 16,
    UNFOLDED = PIXELS * UNFOLDED_PITCH,
    SHARED = UNFOLDED + PIXELS * DY_PITCH + ROWS * LENGTH * 2,
    MT = OUTPUTS / 16,
    NT = COLUMNS / 8
};

struct stem_wgrad_args {
    struct conv_geometry g;
    int columns;       /* S C */
    int wide, tiles_q; /* pixels of a tile; tiles of a row of the output */
    int tiles, length; /* length: of a row of x below a tile */
    bool vectors;      /* rows of x are aligned to 16 bytes */
    const void *x, *dy;
    float *parts;
};

/* The first output pixel of a tile. */
struct tile_origin {
    int n, p, q;
};

static __device__ __forceinline__ struct tile_origin
tile_origin_of(const struct stem_wgrad_args &a, int tile)
{
    const int q = tile % a.tiles_q, rest = tile / a.tiles_q;

    return {rest / a.g.p, rest % a.g.p, q * a.wide};
}

/* ---- copying ------------------------------------------------------- */

/* Pixels and outputs beyond the last are zeros. */
template <typename T>
static __device__ __forceinline__ void copy_dy(const struct stem_wgrad_args &a,
                                               const struct tile_origin &t,
                                               uint32_t to)
{
    const int k0 = (int)blockIdx.y * OUTPUTS;

    for (int i = threadIdx.x; i < a.wide * (OUTPUTS / 8); i += THREADS) {
        const int m = i / (OUTPUTS / 8), k = k0 + i % (OUTPUTS / 8) * 8;
        const bool ok = t.q + m < a.g.q && k < a.g.k;
        const size_t pixel = ((size_t)t.n * a.g.p + t.p) * a.g.q + t.q + m;
        ptx_cp_async<16>(to + m * DY_PITCH + i % (OUTPUTS / 8) * 16,
                         (const T *)a.dy + (ok ? pixel * a.g.k + k : 0), ok);
    }
}

/* Where in the copied rows the first pixel's window starts. */
static __device__ __forceinline__ int offset_of(const struct stem_wgrad_args &a,
                                                int first)
{
    return a.vectors ? first & 7 : 0;
}

/* Row r of x from the first element of the first pixel's window on; in vectors,
 * from the one that holds it. */
template <typename T>
static __device__ __forceinline__ void
copy_rows(const struct stem_wgrad_args &a, const struct tile_origin &t, T *to)
{
    const int first = (t.q * a.g.stride_w - a.g.pad_left) * a.g.c;
    const int r = threadIdx.x / 32, wide = a.g.w * a.g.c;
    const int h = t.p * a.g.stride_h - a.g.pad_top + r;
    const bool inside = r < a.g.r && (unsigned)h < (unsigned)a.g.h;
    const T *from = (const T *)a.x +
                    (inside ? ((size_t)t.n * a.g.h + h) * wide : (size_t)0);

    to += r * LENGTH;
    if (a.vectors) {
        const int begin = first - offset_of(a, first);
        for (int i = threadIdx.x % 32 * 8; i < a.length; i += 256) {
            const bool ok = inside && (unsigned)(begin + i) < (unsigned)wide;
            ptx_cp_async<16>(ptx_shared(to + i), ok ? from + begin + i : from,
                             ok);
        }
        return;
    }
    for (int i = threadIdx.x % 32; i < a.length; i += 32) {
        const bool ok = inside && (unsigned)(first + i) < (unsigned)wide;
        to[i] = ok ? from[first + i] : from_float<T>(0);
    }
}

/* 24 elements of a window's row, zeros after the last.  They are read as words
 * of two, shifted if they start in the middle of one. */
template <typename T>
static __device__ __forceinline__ void unfold(const struct stem_wgrad_args &a,
                                              const struct tile_origin &t,
                                              const T *rows, unsigned char *to)
{
    const int first = (t.q * a.g.stride_w - a.g.pad_left) * a.g.c;

    for (int i = threadIdx.x; i < a.wide * ROWS; i += THREADS) {
        const int m = i % a.wide, r = i / a.wide;
        const int at =
            r * LENGTH + offset_of(a, first) + m * a.g.stride_w * a.g.c;
        const uint32_t *from = (const uint32_t *)rows + at / 2;
        uint32_t word[COLUMNS / 2 + 1];
#pragma unroll
        for (int j = 0; j <= COLUMNS / 2; j++)
            word[j] = from[j];
#pragma unroll
        for (int j = 0; j < COLUMNS / 2; j++) {
            if (at & 1)
                word[j] = __funnelshift_r(word[j], word[j + 1], 16);
            /* Beyond the last pixel dy is 0, and 0 times infinity is not. */
            if (2 * j + 1 >= a.columns || t.q + m >= a.g.q)
                word[j] =
                    2 * j < a.columns && t.q + m < a.g.q ? word[j] & 0xffff : 0;
        }
        uint4 *row = (uint4 *)(to + m * UNFOLDED_PITCH + r * COLUMNS * 2);
#pragma unroll
        for (int v = 0; v < COLUMNS / 8; v++)
            row[v] = make_uint4(word[4 * v], word[4 * v + 1], word[4 * v + 2],
                                word[4 * v + 3]);
    }
}

/* ---- computing ----------------------------------------------------- */

/* 16 pixels from m on, of row r of the window; matrices as in the halo rows.
 * The second four of x reach 8 columns past the end and are not used. */
template <typename MODE>
static __device__ __forceinline__ void
step(uint32_t unfolded, uint32_t dy, int m, int r, float (&acc)[MT][NT][4])
{
    const int lane = threadIdx.x % 32;
    const uint32_t from_y =
        dy + (m + lane / 16 * 8 + lane % 8) * DY_PITCH + lane / 8 % 2 * 16;
    const uint32_t from_x = unfolded +
                            (m + lane / 8 % 2 * 8 + lane % 8) * UNFOLDED_PITCH +
                            r * COLUMNS * 2 + lane / 16 * 16;
    uint32_t fx[8];

    ptx_ldmatrix_x4_trans(fx, from_x);
    ptx_ldmatrix_x4_trans(fx + 4, from_x + 32);
#pragma unroll
    for (int i = 0; i < MT; i++) {
        uint32_t fy[4];
        ptx_ldmatrix_x4_trans(fy, from_y + i * 32);
#pragma unroll
        for (int j = 0; j < NT; j++)
            ptx_mma(typename MODE::type(), acc[i][j], fy, fx + 2 * j);
    }
}

static __device__ __forceinline__ void store(const struct stem_wgrad_args &a,
                                             const float (&acc)[MT][NT][4])
{
    const int lane = threadIdx.x % 32, r = threadIdx.x / 32;
    const int row = a.g.r * a.columns;
    float *parts = a.parts + (size_t)blockIdx.x * a.g.k * row;

    if (r >= a.g.r)
        return;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int k =
                    (int)blockIdx.y * OUTPUTS + i * 16 + lane / 4 + e / 2 * 8;
                const int column = j * 8 + lane % 4 * 2 + e % 2;
                if (k < a.g.k && column < a.columns)
                    parts[(size_t)k * row + r * a.columns + column] =
                        acc[i][j][e];
            }
}

template <typename MODE>
static __global__ void __launch_bounds__(THREADS)
    stem_wgrad_kernel(const __grid_constant__ struct stem_wgrad_args a)
{
    typedef typename MODE::type T;
    LAUNCH_SHARED(shared);
    unsigned char *dy = shared + UNFOLDED;
    T *rows = (T *)(dy + PIXELS * DY_PITCH);
    float acc[MT][NT][4] = {};

    for (int i = blockIdx.x; i < a.tiles; i += gridDim.x) {
        const struct tile_origin t = tile_origin_of(a, i);
        copy_rows<T>(a, t, rows);
        ptx_cp_async_commit();
        copy_dy<T>(a, t, ptx_shared(dy));
        ptx_cp_async_commit();
        ptx_cp_async_wait<1>();
        __syncthreads();
        unfold<T>(a, t, rows, shared);
        ptx_cp_async_wait<0>();
        __syncthreads();
        for (int m = 0; m < a.wide; m += 16)
            step<MODE>(ptx_shared(shared), ptx_shared(dy), m, threadIdx.x / 32,
                       acc);
        __syncthreads();
    }
    store(a, acc);
}

/* ---- limits -------------------------------------------------------- */

struct stem_wgrad_state {
    struct conv_geometry g;
    int wide, tiles_q, tiles, length, ranges;
};

static int read_problem(const struct kern_problem *p,
                        const struct kern_device *d, int,
                        struct stem_wgrad_state *s, struct infer_error *why)
{
    const int rc = wgrad_geometry(p, &s->g, why);
    const struct conv_geometry *g = &s->g;

    if (rc < 0)
        return rc;
    s->tiles_q = conv_ceil_div(g->q, PIXELS);
    s->wide = conv_round_up(conv_ceil_div(g->q, s->tiles_q), 16);
    s->tiles = g->n * g->p * s->tiles_q;
    if (g->groups != 1 || g->r > ROWS || g->s * g->c > COLUMNS ||
        g->dilation_h != 1 || g->dilation_w != 1 || g->k % 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group, up to %d rows of a window of %d "
                         "elements, outputs in 8s",
                         ROWS, COLUMNS);
    /* Up to 7 elements before the first window, and the rest of 26 after the
     * last, are copied or read and dropped. */
    if ((int64_t)(s->wide - 1) * g->stride_w * g->c > LENGTH - 64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "windows are too far apart for rows of %d elements",
                         LENGTH);
    s->length = (s->wide - 1) * g->stride_w * g->c + COLUMNS + 2 + 7;
    int64_t most =
        3 * (int64_t)conv_multiprocessors(d) / conv_ceil_div(g->k, OUTPUTS);
    most = most > 1 ? most : 1;
    s->ranges = (int)(s->tiles < most ? s->tiles : most);
    return 0;
}

static void declare(struct kern_exec *e, const struct stem_wgrad_state *s)
{
    e->workspace = (size_t)s->ranges * (size_t)s->g.k * (size_t)s->g.r *
                   (size_t)s->g.s * (size_t)s->g.c * sizeof(float);
}

/* ---- launching ----------------------------------------------------- */

template <typename MODE>
static int launch(const struct kern_exec *e, const struct kern_args *args,
                  struct infer_error *err)
{
    const struct stem_wgrad_state *s =
        (const struct stem_wgrad_state *)e->state;
    const struct wgrad_join_shape shape = {s->g.k, s->g.c, s->g.r, s->g.s,
                                           s->ranges};
    struct stem_wgrad_args a = {};

    a.g = s->g;
    a.columns = s->g.s * s->g.c;
    a.wide = s->wide;
    a.tiles_q = s->tiles_q;
    a.tiles = s->tiles;
    a.length = s->length;
    a.vectors = s->g.w * s->g.c % 8 == 0;
    a.x = args->in[0];
    a.dy = args->in[1];
    a.parts = wgrad_target(e, &shape, args);
    const int rc =
        launch_kernel(stem_wgrad_kernel<MODE>,
                      dim3(s->ranges, conv_ceil_div(s->g.k, OUTPUTS)), THREADS,
                      SHARED, args->stream, a, err);
    return rc < 0 ? rc : wgrad_join(e, &shape, args, err);
}

#define STEM_WGRAD_ROW(symbol, m)                                              \
    KERN_FUNCTIONS(symbol) = {                                                 \
        .supports = state_supports<struct stem_wgrad_state, read_problem>,     \
        .prepare =                                                             \
            state_prepare<struct stem_wgrad_state, read_problem, declare>,     \
        .launch = launch<m>,                                                   \
        .release = cuda_state_release,                                         \
    };

STEM_WGRAD_ROW(conv2d_wgrad_nhwc_f16_cuda_stem_sm80, struct igemm_f16)
STEM_WGRAD_ROW(conv2d_wgrad_nhwc_bf16_cuda_stem_sm80, struct igemm_bf16)
