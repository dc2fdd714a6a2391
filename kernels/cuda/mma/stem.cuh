/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution of images of few channels (a network's first layer) on mma.sync.
 *
 * With 3 channels the depth (r, s, c) has no 16-byte pieces.  But for one row r
 * of the window the S * C values of an output lie next to each other, and those
 * of its neighbour STRIDE * C further on.  So a block copies the part of the
 * image under its outputs into shared memory as it is, and reads the left
 * operand's fragments from there: nothing is unfolded.
 *
 * The depth is cut into slices of 8: ceil(S * C / 8) for each r, the last one
 * of a row padded with zero weights (and masked, so that values after it, even
 * NaN, do not count).  An m16n8k16 instruction takes two slices, from wherever
 * they are.  7x7x3 makes 21 slices, 11 steps: 176 products for 147.
 *
 * A block of 4 warps owns 8 rows of 16 outputs of one image by 64 channels
 * (blockIdx.y); each warp two rows.  The grid walks over the tiles, so that
 * weights are copied once, and copies the next tile's patch while it computes.
 * Shared memory: weights, steps * 2048 bytes, in the order of the fragments:
 * [step][n8 tile][lane] of 8 bytes; 4 * 16 * 72 floats to turn sums into rows
 * of 64 channels (8 more than 64 spread the float2 stores over the banks); two
 * patches, rows of `pitch` elements.
 *
 * A tile's first value lies before the image by the padding, an odd number of
 * values where that and C are odd: `front` puts one more, of weight zero and
 * masked, before it, so that pairs lie at even places.  `skew` more make the
 * patch start at a multiple of 8 of the image's row.
 */
#ifndef KERNELS_CUDA_MMA_STEM_CUH
#define KERNELS_CUDA_MMA_STEM_CUH

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"

extern "C" {
#include "kernels/base/scalar.h"
}

enum {
    STEM_THREADS = 128,
    STEM_P = 8,  /* rows of outputs of a block */
    STEM_Q = 16, /* columns */
    STEM_K = 64, /* channels */
    STEM_NT = STEM_K / 8,
    STEM_STEP = STEM_NT * 32 * 8, /* bytes of the weights of one step */
    STEM_PITCH = STEM_K + 8,      /* floats of a row of sums */
    STEM_SUMS = 4 * STEM_Q * STEM_PITCH * 4
};

struct stem_layout {
    int sc;     /* values of a row of the window: S * C */
    int front;  /* 0 or 1: a value before them, so that tiles start even */
    int skew;   /* values of the patch before that */
    int slices; /* of a row */
    int steps;
    int rows, pitch; /* of the patch, in elements */
    bool vectors;    /* the patch is copied in vectors of 8 elements */
    int shared;      /* bytes */
};

struct stem_args {
    struct conv_geometry g;
    struct stem_layout l;
    const void *x;
    const uint2 *w; /* [K / 64][step][n8 tile][lane] */
    int tiles_p, tiles_q;
    struct output_args out;
};

static inline void stem_layout_of(const struct conv_geometry *g,
                                  struct stem_layout *l)
{
    /* Tiles start at multiples of 16 values of a row, less the padding. */
    const int before = g->pad_left * g->c;

    l->sc = g->s * g->c;
    l->front = before & 1;
    l->vectors = g->w * g->c % 8 == 0;
    l->skew = l->vectors ? -(before + l->front) & 7 : 0;
    l->slices = conv_ceil_div(l->front + l->sc, 8);
    l->steps = conv_ceil_div(g->r * l->slices, 2);
    l->rows = (STEM_P - 1) * g->stride_h + (g->r - 1) * g->dilation_h + 1;
    /* The last slice may reach past the last value. */
    l->pitch = conv_round_up(
        l->skew + (STEM_Q - 1) * g->stride_w * g->c + l->slices * 8, 8);
    l->shared = l->steps * STEM_STEP + STEM_SUMS + 2 * l->rows * l->pitch * 2;
}

/* Where a tile lies. */
struct stem_tile {
    int n, p0, q0;
};

static __device__ __forceinline__ struct stem_tile
stem_tile_at(const struct stem_args &a, int tile)
{
    return {tile / a.tiles_q / a.tiles_p, tile / a.tiles_q % a.tiles_p * STEM_P,
            tile % a.tiles_q * STEM_Q};
}

/* Starts to copy the image under a tile's outputs; zeros outside.  In vectors
 * of 8 where rows of the image are made of such: one is inside or outside as a
 * whole. */
static __device__ __forceinline__ void
stem_copy_patch(const struct stem_args &a, const struct stem_tile &t,
                uint16_t *patch)
{
    const int top = t.p0 * a.g.stride_h - a.g.pad_top, width = a.g.w * a.g.c;
    const int left =
        (t.q0 * a.g.stride_w - a.g.pad_left) * a.g.c - a.l.front - a.l.skew;
    const uint16_t *x = (const uint16_t *)a.x + t.n * a.g.h * width;

    if (a.l.vectors) {
        const int per_row = a.l.pitch / 8, count = a.l.rows * per_row;
        const uint32_t to = ptx_shared(patch);
        for (int i = threadIdx.x; i < count; i += STEM_THREADS) {
            const int row = i / per_row, at = left + i % per_row * 8;
            const bool ok = (unsigned)(top + row) < (unsigned)a.g.h &&
                            (unsigned)at < (unsigned)width;
            ptx_cp_async<16>(to + i * 16,
                             x + (ok ? (top + row) * width + at : 0), ok);
        }
        return;
    }
    for (int row = threadIdx.x / 32; row < a.l.rows; row += STEM_THREADS / 32) {
        const bool inside = (unsigned)(top + row) < (unsigned)a.g.h;
#pragma unroll 4
        for (int i = threadIdx.x % 32; i < a.l.pitch; i += 32)
            patch[row * a.l.pitch + i] =
                inside && (unsigned)(left + i) < (unsigned)width
                    ? x[(top + row) * width + left + i]
                    : (uint16_t)0;
    }
}

/* Two adjacent values; the address is even only where the stride is. */
static __device__ __forceinline__ uint32_t stem_pair(const uint16_t *from,
                                                     bool even)
{
    return even ? *(const uint32_t *)from : from[0] | (uint32_t)from[1] << 16;
}

/* Slices of the depth in order: where they start in the patch, and which of a
 * lane's two values count. */
struct stem_slice {
    int r, i; /* row of the window, slice of the row */
};

static __device__ __forceinline__ void stem_next(const struct stem_args &a,
                                                 struct stem_slice *s,
                                                 int *offset, uint32_t *mask)
{
    const int t = threadIdx.x % 4 * 2;
    const int rest = a.l.front + a.l.sc - s->i * 8 - t;

    *offset = s->r * a.g.dilation_h * a.l.pitch + s->i * 8 + t + a.l.skew;
    *mask = rest >= 2 ? 0xffffffffu : rest == 1 ? 0xffffu : 0;
    if (s->i + t == 0 && a.l.front)
        *mask &= 0xffff0000u;
    if (s->r >= a.g.r) { /* one slice too many where their number is odd */
        *offset = 0;
        *mask = 0;
    }
    if (++s->i == a.l.slices) {
        s->i = 0;
        s->r++;
    }
}

/* One row of 16 outputs: element 0 is that of output g, 1 that of g + 8. */
template <typename T>
static __device__ __forceinline__ void
stem_multiply(const struct stem_args &a, const uint16_t *patch,
              const uint2 *weights, float (&acc)[2][STEM_NT][4])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int pixel = a.g.stride_w * a.g.c;
    const bool even = pixel % 2 == 0;
    const uint16_t *x =
        patch + warp * 2 * a.g.stride_h * a.l.pitch + lane / 4 * pixel;
    struct stem_slice at = {0, 0};

    for (int step = 0; step < a.l.steps; step++) {
        int offset[2];
        uint32_t mask[2], fb[STEM_NT][2];
        stem_next(a, &at, &offset[0], &mask[0]);
        stem_next(a, &at, &offset[1], &mask[1]);
#pragma unroll
        for (int j = 0; j < STEM_NT; j++) {
            const uint2 two = weights[(step * STEM_NT + j) * 32 + lane];
            fb[j][0] = two.x;
            fb[j][1] = two.y;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t fa[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                fa[e] = stem_pair(x + i * a.g.stride_h * a.l.pitch +
                                      e % 2 * 8 * pixel + offset[e / 2],
                                  even) &
                        mask[e / 2];
#pragma unroll
            for (int j = 0; j < STEM_NT; j++)
                ptx_mma(T(), acc[i][j], fa, fb[j]);
        }
    }
}

/* Stores one row of 16 outputs through the warp's own part of `sums`. */
template <typename T>
static __device__ __forceinline__ void
stem_store(const struct stem_args &a, const float (&acc)[STEM_NT][4],
           float *sums, int n, int p, int q0)
{
    const int lane = threadIdx.x % 32, k0 = blockIdx.y * STEM_K;
    const bool whole = a.g.k % 8 == 0;

    __syncwarp();
#pragma unroll
    for (int j = 0; j < STEM_NT; j++) {
        float *to = sums + lane / 4 * STEM_PITCH + j * 8 + lane % 4 * 2;
        *(float2 *)to = make_float2(acc[j][0], acc[j][1]);
        *(float2 *)(to + 8 * STEM_PITCH) = make_float2(acc[j][2], acc[j][3]);
    }
    __syncwarp();
    for (int i = lane; i < STEM_Q * STEM_K / 8; i += 32) {
        const int q = i / (STEM_K / 8), k = i % (STEM_K / 8) * 8;
        float v[8];
        if (p >= a.g.p || q0 + q >= a.g.q || k0 + k >= a.g.k)
            continue;
        load_floats<float, 4>(sums + q * STEM_PITCH + k, v);
        load_floats<float, 4>(sums + q * STEM_PITCH + k + 4, v + 4);
        const int m = (n * a.g.p + p) * a.g.q + q0 + q;
        if (whole)
            output_vector<T, 8>(a.out, m, k0 + k, v);
        else
            output_scalars<T, 8>(a.out, m, k0 + k, a.g.k, v);
    }
}

template <typename T>
static __global__ void __launch_bounds__(STEM_THREADS)
    stem_kernel(const __grid_constant__ struct stem_args a)
{
    LAUNCH_SHARED(shared);
    uint2 *weights = (uint2 *)shared;
    float *sums = (float *)(shared + a.l.steps * STEM_STEP);
    uint16_t *patch[2];
    const int warp = threadIdx.x / 32, count = a.l.steps * STEM_NT * 32;
    const int tiles = a.g.n * a.tiles_p * a.tiles_q;

    patch[0] = (uint16_t *)(shared + a.l.steps * STEM_STEP + STEM_SUMS);
    patch[1] = patch[0] + a.l.rows * a.l.pitch;
    for (int i = threadIdx.x; i < count; i += STEM_THREADS)
        weights[i] = a.w[(int)blockIdx.y * count + i];
    launch_wait();
    if ((int)blockIdx.x < tiles)
        stem_copy_patch(a, stem_tile_at(a, blockIdx.x), patch[0]);
    ptx_cp_async_commit();
    for (int tile = blockIdx.x, now = 0; tile < tiles;
         tile += gridDim.x, now ^= 1) {
        const struct stem_tile t = stem_tile_at(a, tile);
        float acc[2][STEM_NT][4];
        /* The next tile's patch is copied while this one is used. */
        if (tile + (int)gridDim.x < tiles)
            stem_copy_patch(a, stem_tile_at(a, tile + gridDim.x),
                            patch[now ^ 1]);
        ptx_cp_async_commit();
        ptx_cp_async_wait<1>();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < STEM_NT; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    acc[i][j][e] = 0;
        stem_multiply<T>(a, patch[now], weights, acc);
#pragma unroll
        for (int i = 0; i < 2; i++)
            stem_store<T>(a, acc[i], sums + warp * STEM_Q * STEM_PITCH, t.n,
                          t.p0 + warp * 2 + i, t.q0);
        __syncthreads(); /* the patch is read: the copy after next lands here */
    }
}

/* ---- the host's side ----------------------------------------------- */

struct stem_state {
    struct conv_geometry g;
    struct stem_layout l;
    int multiprocessors;
};

static int stem_read(const struct kern_problem *p, const struct kern_device *d,
                     int, struct stem_state *s, struct infer_error *why)
{
    /* What every GPU from sm_80 on has. */
    const size_t limit =
        d->shared_per_block_optin ? d->shared_per_block_optin : 99 * 1024;
    const struct conv_geometry &g = s->g;
    int rc = conv_geometry_read(p, &s->g, why);

    if (rc == 0)
        rc = conv_weights_packable(p, why);
    if (rc < 0)
        return rc;
    if (g.groups != 1 || (g.dilation_w != 1 && g.s != 1))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes no groups and no dilated rows");
    if (g.c > 16 || g.r > 32 || g.s > 32 || g.stride_h > 8 || g.stride_w > 8 ||
        g.dilation_h > 8)
        return error_set(why, INFER_EUNSUPPORTED,
                         "is for few channels and small windows");
    stem_layout_of(&g, &s->l);
    if ((size_t)s->l.shared > limit)
        return error_set(why, INFER_EUNSUPPORTED,
                         "needs %d bytes of shared memory, found %zu",
                         s->l.shared, limit);
    if ((int64_t)g.n * conv_ceil_div(g.p, STEM_P) * conv_ceil_div(g.q, STEM_Q) >
            INT32_MAX ||
        conv_ceil_div(g.k, STEM_K) > 65535)
        return error_set(why, INFER_EUNSUPPORTED, "has too many outputs");
    s->multiprocessors = conv_multiprocessors(d);
    return 0;
}

/* Microseconds on an H200: the latency of one tile, or the throughput of
 * many. */
static double stem_estimate(const struct kern_problem *p,
                            const struct kern_device *d)
{
    struct stem_state s;

    if (stem_read(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const double tiles = (double)s.g.n * conv_ceil_div(s.g.p, STEM_P) *
                         conv_ceil_div(s.g.q, STEM_Q) *
                         conv_ceil_div(s.g.k, STEM_K);
    const double one = 2.3 + 0.4 * s.l.steps;
    const double all = tiles / s.multiprocessors * (1.55 + 0.175 * s.l.steps);

    return 2 + (one > all ? one : all);
}

static void stem_declare(struct kern_exec *e, const struct stem_state *s)
{
    e->packed[CONV_W] =
        (size_t)conv_ceil_div(s->g.k, STEM_K) * (size_t)s->l.steps * STEM_STEP;
}

static const auto stem_supports = state_supports<struct stem_state, stem_read>;
static const auto stem_prepare =
    state_prepare<struct stem_state, stem_read, stem_declare>;

/* Value `depth` (r, s, c with the gaps of the slices) of channel k. */
static double stem_weight(const struct stem_state *s, enum infer_dtype from,
                          const void *src, int k, int slice, int at)
{
    const struct conv_geometry *g = &s->g;
    const int r = slice / s->l.slices;
    const int sc = slice % s->l.slices * 8 + at - s->l.front;

    if (k >= g->k || r >= g->r || sc < 0 || sc >= s->l.sc)
        return 0;
    return scalar_load(from, src,
                       (((int64_t)k * g->c + sc % g->c) * g->r + r) * g->s +
                           sc / g->c);
}

/* A lane's 4 values: depths 2t, 2t+1 of both slices, channel lane / 4. */
static int stem_pack(const struct kern_exec *e, int i, const void *src,
                     void *dst, struct infer_error *err)
{
    const struct stem_state *s = (const struct stem_state *)e->state;
    const int chunks = conv_ceil_div(s->g.k, STEM_K);
    int64_t to = 0;

    (void)err;
    for (int chunk = 0; chunk < chunks; chunk++)
        for (int step = 0; step < s->l.steps; step++)
            for (int place = 0; place < STEM_NT * 32; place++)
                for (int v = 0; v < 4; v++)
                    scalar_store(e->problem.in[CONV_X].dtype, dst, to++,
                                 stem_weight(s, e->problem.in[i].dtype, src,
                                             chunk * STEM_K + place / 32 * 8 +
                                                 place % 32 / 4,
                                             step * 2 + v / 2,
                                             place % 4 * 2 + v % 2));
    return 0;
}

template <typename T>
static int stem_launch(const struct kern_exec *e, const struct kern_args *args,
                       struct infer_error *err)
{
    const struct stem_state *s = (const struct stem_state *)e->state;
    struct stem_args a;

    if (s->g.m == 0)
        return 0;
    a.g = s->g;
    a.l = s->l;
    a.x = args->in[CONV_X];
    a.w = (const uint2 *)args->in[CONV_W];
    a.tiles_p = conv_ceil_div(s->g.p, STEM_P);
    a.tiles_q = conv_ceil_div(s->g.q, STEM_Q);
    a.out = output_of(e, args, s->g.k);
    const int tiles = s->g.n * a.tiles_p * a.tiles_q;
    /* As many blocks as are resident at once, 8 a multiprocessor at most. */
    const int blocks = s->multiprocessors * 8;
    const dim3 grid(tiles < blocks ? tiles : blocks,
                    conv_ceil_div(s->g.k, STEM_K));
    return launch_chained(stem_kernel<T>, grid, dim3(STEM_THREADS),
                          (size_t)s->l.shared, args->stream, a, err);
}

#endif
