/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution of few channels and its dgrad of stride 1, any number of channels
 * in and out, on mma.sync.
 *
 * A block copies the part of the image under a tile of outputs, the patch, into
 * shared memory once, and reads every position of the window from there; an
 * implicit GEMM would copy each pixel once a position. A tile is `high` rows of
 * 2^log outputs of an image, BM in all; where the window is 1x1, an image is
 * one row of all pixels.
 *
 * Depth.  The channels of a pixel are padded with zeros to `vectors` of 8, and
 * the depth is cut into slices: one vector of one position of the window. An
 * m16n8k16 instruction takes two slices, from wherever they lie; a table in
 * shared memory holds their offsets. Where the slices are odd in number, a
 * vector of zeros is the last.
 *
 * Patch.  A pixel takes `pitch` bytes, an odd number of 16-byte units. Columns
 * are sorted by their remainder by the stride, so that the pixels which eight
 * neighbouring outputs read are neighbours: ldmatrix has no conflicts, whatever
 * the stride. Rows, or columns, of which a window of one never reads are left
 * out.
 *
 * Weights lie in shared memory in the order of the fragments, [step][n16
 * tile][lane] of 16 bytes. Constant ones are packed so; those of training are
 * gathered from where they lie, [k][r][s][c], by each block once. For dgrad the
 * window is flipped and the roles of K and C are exchanged.
 *
 * Shared memory: weights; offsets; a vector of zeros; one patch, or two where
 * they fit, then the next one is copied while this one is used. The grid walks
 * over the tiles, so that weights are copied once. fragments.cuh is the end.
 */
#include <math.h>

#include "kernels/cuda/conv/cost.h"
#include "kernels/cuda/conv/family.cuh"
#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma/fragments.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/strided.cuh"

extern "C" {
#include "kernels/base/scalar.h"
}

#define PATCH_MAX_CHANNELS 64

struct patch_layout {
    int high, log; /* of a tile */
    int tiles_p, tiles_q;
    int rows, columns;      /* of the patch */
    int step_h, step_w;     /* from row to row of the patch, in the image */
    int stride_h, stride_w; /* from output to output, in the patch */
    int part;               /* columns of one remainder by the stride */
    int vectors, pitch;
    int slices, steps;
    int access;  /* bytes of a copy: 16, 8, 4, or 2 */
    int width;   /* elements of a store: fragment_width() */
    int patches; /* 1 or 2 */
    int table, zeros, patch, patch_bytes; /* in shared memory, in bytes */
    int shared;
};

/* Weights as they lie: the element of output channel 0, input channel 0 and
 * position 0, and elements from one to the next of each. */
struct patch_weights {
    int first, output, channel, tap;
};

struct patch_args {
    struct conv_geometry g;
    struct patch_layout l;
    struct patch_weights lie;
    const void *x;
    const void *w; /* if packed [K / BN][step][n16 tile][lane] of 16 bytes */
    bool packed;
    int tiles;
    struct fast_div vectors, columns, stride, tiles_p, tiles_q;
    struct output_args out;
};

template <typename T_, int BM_, int BN_, int WARPS_> struct patch_tile {
    typedef T_ T;
    enum {
        BM = BM_,
        BN = BN_,
        WARPS = WARPS_,
        THREADS = 32 * WARPS,
        MT = BM / WARPS / 16,
        NT = BN / 8,
        STEP = BN * 32 /* bytes of the weights of one step */
    };
    static_assert(MT * WARPS * 16 == BM && NT % 2 == 0, "");
};

/* Where a tile lies. */
struct patch_place {
    int n, p, q;
};

static __device__ __forceinline__ struct patch_place
patch_place_at(const struct patch_args &a, int tile)
{
    uint32_t p, q;
    const uint32_t row = a.tiles_q.divmod((uint32_t)tile, &q);
    const uint32_t n = a.tiles_p.divmod(row, &p);

    return {(int)n, (int)p * a.l.high, (int)q << a.l.log};
}

/* ---- copying ------------------------------------------------------- */

/* One vector of 8 channels, of which `channels` exist, in copies of BYTES. */
template <int BYTES>
static __device__ __forceinline__ void
patch_copy_pieces(unsigned char *to, const uint16_t *from, int channels)
{
#pragma unroll
    for (int i = 0; i < 8; i += BYTES / 2)
        ptx_cp_async<BYTES>(ptx_shared(to) + i * 2,
                            i < channels ? from + i : from, i < channels);
}

static __device__ __forceinline__ void patch_copy_vector(unsigned char *to,
                                                         const uint16_t *from,
                                                         int channels,
                                                         int access)
{
    if (access == 16) {
        patch_copy_pieces<16>(to, from, channels);
    } else if (access == 8) {
        patch_copy_pieces<8>(to, from, channels);
    } else if (access == 4) {
        patch_copy_pieces<4>(to, from, channels);
    } else {
        uint32_t word[4];
        fragment_load(from, channels, 1, word);
        *(uint4 *)to = make_uint4(word[0], word[1], word[2], word[3]);
    }
}

/* Starts to copy the image under a tile; zeros outside. */
template <int THREADS>
static __device__ __forceinline__ void patch_copy(const struct patch_args &a,
                                                  const struct patch_place &t,
                                                  unsigned char *to)
{
    const int top = t.p * a.g.stride_h - a.g.pad_top;
    const int left = t.q * a.g.stride_w - a.g.pad_left;
    const int count = a.l.rows * a.l.columns * a.l.vectors;
    const uint16_t *image =
        (const uint16_t *)a.x + (size_t)t.n * a.g.h * a.g.w * a.g.x_pitch;

#pragma unroll 2
    for (int i = threadIdx.x; i < count; i += THREADS) {
        uint32_t v, column, phase;
        const uint32_t pixel = a.vectors.divmod((uint32_t)i, &v);
        const int row = (int)a.columns.divmod(pixel, &column);
        const int place = (int)a.stride.divmod(column, &phase);
        const int h = top + row * a.l.step_h;
        const int w = left + (int)column * a.l.step_w;
        const bool inside =
            (unsigned)h < (unsigned)a.g.h && (unsigned)w < (unsigned)a.g.w;
        const int line = row * a.l.part * a.l.stride_w;
        patch_copy_vector(
            to + (line + (int)phase * a.l.part + place) * a.l.pitch + v * 16,
            image + (inside ? (h * a.g.w + w) * a.g.x_pitch + (int)v * 8 : 0),
            inside ? a.g.c - (int)v * 8 : 0, a.l.access);
    }
}

/* The block's packed weights. */
template <typename L>
static __device__ __forceinline__ void
patch_copy_weights(const struct patch_args &a, uint4 *to)
{
    const int count = a.l.steps * L::STEP / 16;

    for (int i = threadIdx.x; i < count; i += L::THREADS)
        to[i] = ((const uint4 *)a.w)[(int)blockIdx.y * count + i];
}

/* The block's weights from where they lie, two neighbours in the depth at a
 * time. */
template <typename L>
static __device__ __forceinline__ void
patch_gather_weights(const struct patch_args &a, uint32_t *to)
{
    const uint16_t *w = (const uint16_t *)a.w;

    for (int i = threadIdx.x; i < a.l.steps * L::STEP / 4; i += L::THREADS) {
        const int lane = i / 4 % 32, line = i / 128; /* a line: an n16 tile */
        const int slice = line / (L::NT / 2) * 2 + i % 2;
        const int k = (int)blockIdx.y * L::BN + line % (L::NT / 2) * 16 +
                      i / 2 % 2 * 8 + lane / 4;
        uint32_t v;
        const int tap = (int)a.vectors.divmod((uint32_t)slice, &v);
        const int c = (int)v * 8 + lane % 4 * 2;
        const int at = a.lie.first + k * a.lie.output + c * a.lie.channel +
                       tap * a.lie.tap;
        const bool ok = k < a.g.k && slice < a.l.slices;
        const uint32_t one = ok && c < a.g.c ? w[at] : 0;
        const uint32_t two = ok && c + 1 < a.g.c ? w[at + a.lie.channel] : 0;
        to[i] = one | two << 16;
    }
}

/* Offsets of slices, and zeros. */
static __device__ __forceinline__ void
patch_begin(const struct patch_args &a, unsigned char *shared, int threads)
{
    int *offset = (int *)(shared + a.l.table);

    for (int i = threadIdx.x; i < a.l.steps * 2; i += threads) {
        const int tap = i / a.l.vectors, v = i % a.l.vectors;
        const int r = tap / a.g.s * a.g.dilation_h;
        const int s = tap % a.g.s * a.g.dilation_w;
        const int pixel = r * a.l.part * a.l.stride_w +
                          s % a.l.stride_w * a.l.part + s / a.l.stride_w;
        offset[i] = i < a.l.slices ? pixel * a.l.pitch + v * 16 : -1;
    }
    if (threadIdx.x < 4)
        ((uint32_t *)(shared + a.l.zeros))[threadIdx.x] = 0;
}

/* ---- computing ----------------------------------------------------- */

template <typename L, typename F>
static __device__ __forceinline__ void
patch_multiply(const struct patch_args &a, const unsigned char *shared,
               uint32_t patch, F &f)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint4 *weights = (const uint4 *)shared + lane;
    const int *offset = (const int *)(shared + a.l.table) + lane / 16;
    const uint32_t zeros = ptx_shared(shared) + a.l.zeros;
    uint32_t from[L::MT];

#pragma unroll
    for (int i = 0; i < L::MT; i++) {
        const int m = (warp * L::MT + i) * 16 + lane % 16;
        const int row = (m >> a.l.log) * a.l.stride_h;
        const int column = m & ((1 << a.l.log) - 1);
        from[i] = patch + (row * a.l.part * a.l.stride_w + column) * a.l.pitch;
#pragma unroll
        for (int j = 0; j < L::NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                f.sum[i][j][e] = 0;
    }
#pragma unroll 2
    for (int step = 0; step < a.l.steps; step++) {
        const int at = offset[step * 2];
        uint32_t fa[L::MT][4], fb[L::NT][2];
#pragma unroll
        for (int j = 0; j < L::NT; j += 2) {
            const uint4 four = weights[(step * (L::NT / 2) + j / 2) * 32];
            fb[j][0] = four.x;
            fb[j][1] = four.y;
            fb[j + 1][0] = four.z;
            fb[j + 1][1] = four.w;
        }
#pragma unroll
        for (int i = 0; i < L::MT; i++)
            ptx_ldmatrix_x4(fa[i], at < 0 ? zeros : from[i] + at);
#pragma unroll
        for (int i = 0; i < L::MT; i++)
#pragma unroll
            for (int j = 0; j < L::NT; j++)
                ptx_mma(typename L::T(), f.sum[i][j], fa[i], fb[j]);
    }
}

/* Where this lane's outputs go. */
template <typename L, typename F>
static __device__ __forceinline__ void
patch_find_pixels(const struct patch_args &a, const struct patch_place &t, F &f)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

#pragma unroll
    for (int i = 0; i < L::MT; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int m = (warp * L::MT + i) * 16 + half * 8 + lane / 4;
            const int p = t.p + (m >> a.l.log);
            const int q = t.q + (m & ((1 << a.l.log) - 1));
            f.pixel[i][half] =
                p < a.g.p && q < a.g.q ? (t.n * a.g.p + p) * a.g.q + q : -1;
        }
}

template <typename L>
static __global__ void __launch_bounds__(L::THREADS)
    patch_kernel(const __grid_constant__ struct patch_args a)
{
    LAUNCH_SHARED(shared);
    unsigned char *patch = shared + a.l.patch;
    const int k = (int)blockIdx.y * L::BN;
    const bool ahead = a.l.patches == 2;
    float bias[L::NT][2];
    struct fragments<L::MT, L::NT> f;

    patch_begin(a, shared, L::THREADS);
    if (a.packed)
        patch_copy_weights<L>(a, (uint4 *)shared);
    launch_wait();
    if (!a.packed)
        patch_gather_weights<L>(a, (uint32_t *)shared);
    fragment_load_bias<L::NT>(a.out, k, bias);
    if (ahead)
        patch_copy<L::THREADS>(a, patch_place_at(a, blockIdx.x), patch);
    ptx_cp_async_commit();
    for (int tile = blockIdx.x, now = 0; tile < a.tiles;
         tile += gridDim.x, now ^= ahead) {
        const struct patch_place t = patch_place_at(a, tile);
        const int next = ahead ? tile + (int)gridDim.x : tile;

        if (next < a.tiles)
            patch_copy<L::THREADS>(a, patch_place_at(a, next),
                                   patch + (now ^ ahead) * a.l.patch_bytes);
        ptx_cp_async_commit();
        if (ahead)
            ptx_cp_async_wait<1>();
        else
            ptx_cp_async_wait<0>();
        __syncthreads();
        patch_multiply<L>(a, shared, ptx_shared(patch) + now * a.l.patch_bytes,
                          f);
        __syncthreads(); /* the patch has been read */
        patch_find_pixels<L>(a, t, f);
        fragment_finish<typename L::T>(a.out, k, a.l.width, bias, f);
    }
}

/* ---- limits -------------------------------------------------------- */

struct patch_state {
    struct conv_tiled tiled;
    struct conv_geometry g;
    struct patch_layout l;
    int blocks; /* of a multiprocessor */
    int multiprocessors;
    bool packed;
};

/* One image of one row, where each output reads one pixel and all of them. */
static inline void patch_flatten(struct conv_geometry *g)
{
    if (g->r != 1 || g->s != 1 || g->stride_h != 1 || g->stride_w != 1 ||
        g->p != g->h || g->q != g->w || g->pad_top != 0 || g->pad_left != 0)
        return;
    g->w = g->q = g->m;
    g->n = g->h = g->p = 1;
}

/* The patch of tiles of `high` rows of 2^log outputs. */
static inline void patch_shape(const struct conv_geometry *g, int high, int log,
                               struct patch_layout *l)
{
    l->high = high;
    l->log = log;
    l->tiles_p = conv_ceil_div(g->p, high);
    l->tiles_q = conv_ceil_div(g->q, 1 << log);
    l->rows = (high - 1) * l->stride_h + (g->r - 1) * g->dilation_h + 1;
    l->columns =
        ((1 << log) - 1) * l->stride_w + (g->s - 1) * g->dilation_w + 1;
    l->part = conv_ceil_div(l->columns, l->stride_w);
    l->patch_bytes = l->rows * l->part * l->stride_w * l->pitch;
}

/* Lays the tile and shared memory out.  False if not one patch fits `room`. */
template <typename L>
static bool patch_layout_of(const struct conv_geometry *g, int64_t room,
                            struct patch_layout *l)
{
    double least = 1e30;
    struct patch_layout best = {};

    l->step_h = g->r == 1 ? g->stride_h : 1;
    l->step_w = g->s == 1 ? g->stride_w : 1;
    l->stride_h = g->stride_h / l->step_h;
    l->stride_w = g->stride_w / l->step_w;
    l->vectors = conv_ceil_div(g->c, 8);
    l->pitch = (l->vectors | 1) * 16;
    l->slices = g->r * g->s * l->vectors;
    l->steps = conv_ceil_div(l->slices, 2);
    l->access = 2 * fragment_width(g->x_pitch, g->c);
    l->width = fragment_width(g->k, g->y_pitch | g->r_pitch);
    l->table = l->steps * L::STEP;
    l->zeros = l->table + conv_round_up(l->steps * 8, 16);
    l->patch = l->zeros + 16;
    for (int log = 3; 1 << log <= L::BM; log++) {
        patch_shape(g, L::BM >> log, log, l);
        const double cost = (double)l->tiles_p * l->tiles_q *
                            (l->rows * l->columns + 2 * L::BM);
        if (cost < least && (int64_t)l->patch + l->patch_bytes <= room) {
            least = cost;
            best = *l;
        }
    }
    *l = best;
    if (least == 1e30)
        return false;
    /* Two patches where four blocks, or as many as with one, fit then. */
    const int64_t one = l->patch + (int64_t)l->patch_bytes;
    const int64_t two = one + l->patch_bytes;
    l->patches =
        two <= room && (4 * two <= room || room / two == room / one) ? 2 : 1;
    l->shared = (int)(l->patches == 2 ? two : one);
    return true;
}

/* Reads fprop with constant weights, or with others, or dgrad. */
static int patch_read_geometry(const struct kern_problem *p,
                               struct patch_state *s, struct infer_error *why)
{
    const struct kern_tensor *w = &p->in[CONV_W];
    int rc;

    s->packed = false;
    if (p->op == KERN_CONV_DGRAD)
        return conv_geometry_read_dgrad(p, &s->g, why);
    rc = conv_geometry_read_pitched(p, &s->g, why);
    if (rc < 0)
        return rc;
    s->packed = p->constant_in & 1u << CONV_W;
    if (s->packed)
        return conv_weights_packable(p, why);
    if (w->dtype != p->in[CONV_X].dtype || !kern_tensor_is_dense(w, KERN_NHWC))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes weights that change in the input's type, "
                         "inputs innermost");
    return 0;
}

template <typename L>
static int patch_read(const struct kern_problem *p, const struct kern_device *d,
                      int, struct patch_state *s, struct infer_error *why)
{
    struct conv_geometry *g = &s->g;
    const int64_t room =
        d->shared_per_block_optin ? d->shared_per_block_optin : 99 * 1024;
    const int rc = patch_read_geometry(p, s, why);

    if (rc < 0)
        return rc;
    if (g->groups != 1 || g->c > PATCH_MAX_CHANNELS)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group of at most %d channels",
                         PATCH_MAX_CHANNELS);
    if (g->r > 32 || g->s > 32 || g->stride_h > 16 || g->stride_w > 16 ||
        g->dilation_h > 64 || g->dilation_w > 64)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes windows up to 32, strides up to 16 and "
                         "dilations up to 64");
    if (!unary_is_inline(p->epilogue.act.kind))
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes activations of few instructions");
    if (g->m == 0 || conv_ceil_div(g->k, L::BN) > 65535)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes 1 to 2^31 pixels and 65535 tiles of channels");
    patch_flatten(g);
    if (!patch_layout_of<L>(g, room, &s->l))
        return error_set(why, INFER_EUNSUPPORTED,
                         "needs more than the %lld bytes of shared memory that "
                         "a block has",
                         (long long)room);
    const int64_t fit = (room + 1024) / (s->l.shared + 1024);
    const int64_t most = 1024 / L::THREADS;
    s->blocks = (int)(fit < most ? fit : most);
    s->multiprocessors = conv_multiprocessors(d);
    return 0;
}

template <typename L>
static int patch_supports(const struct kern_problem *p,
                          const struct kern_device *d, struct infer_error *why)
{
    struct patch_state s = {};

    return patch_read<L>(p, d, 0, &s, why);
}

/* Microseconds: a latency for each wave of blocks, what the tiles of a
 * multiprocessor copy, multiply and finish, and the bytes; fitted to kbench's
 * measurements of 60 layers on an H100, with 15 % of standard deviation. */
template <typename L>
static double patch_estimate(const struct kern_problem *p,
                             const struct kern_device *d, int percent)
{
    const bool quick = unary_is_piecewise_linear(p->epilogue.act.kind);
    struct patch_state s = {};

    if (patch_read<L>(p, d, 0, &s, NULL) < 0)
        return 1e30;
    const struct patch_layout &l = s.l;
    const double all =
        (double)s.g.n * l.tiles_p * l.tiles_q * conv_ceil_div(s.g.k, L::BN);
    const double share = all / s.multiprocessors;
    const double tiles = share > 8 ? share : ceil(share);
    const double copy =
        (l.access == 2 ? 0.83e-3 : 0.43e-3) * l.rows * l.columns * l.vectors;
    const int reads =
        l.steps * L::WARPS * (L::MT * 4 + L::NT * 2 + L::MT * L::NT);
    const int outputs = L::BM * L::NT;
    const double finish =
        (l.width == 8 ? 0.47e-3 : 0.6e-3) + (quick ? 0 : 0.33e-3);
    const double wait = 0.56 * ceil(share / s.blocks);
    const double steps = share <= 2 ? 0.05 * l.steps : 0;

    const int weights = l.steps * L::STEP;
    const double gather = s.packed ? 0 : 0.3 + 6e-6 * weights;

    return (1.52 + wait + steps + gather +
            tiles * (copy + 0.42e-3 * reads + finish * outputs) +
            cost_conv_bytes(p, &s.g) / 6.2e6) *
           100 / percent;
}

/* ---- packing and launching ----------------------------------------- */

template <typename L>
static void patch_declare(struct kern_exec *e, const struct patch_state *s)
{
    if (s->packed)
        e->packed[CONV_W] =
            (size_t)conv_ceil_div(s->g.k, L::BN) * (size_t)s->l.steps * L::STEP;
}

/* Channel k's weight of a slice's element. */
static double patch_weight(const struct patch_state *s, enum infer_dtype from,
                           const void *src, int k, int slice, int element)
{
    const struct conv_geometry *g = &s->g;
    const int tap = slice / s->l.vectors;
    const int c = slice % s->l.vectors * 8 + element;

    if (k >= g->k || c >= g->c || slice >= s->l.slices)
        return 0;
    return scalar_load(from, src, ((int64_t)k * g->c + c) * g->r * g->s + tap);
}

/* A lane's 8 values: of two n8 tiles, pairs 2t, 2t + 1 of both slices, channel
 * lane / 4. */
template <typename L>
static int patch_pack(const struct kern_exec *e, int i, const void *src,
                      void *dst, struct infer_error *err)
{
    const struct patch_state *s = (const struct patch_state *)e->state;
    const int chunks = conv_ceil_div(s->g.k, L::BN);
    int64_t to = 0;

    (void)err;
    for (int at = 0; at < chunks * s->l.steps * L::NT / 2; at++) {
        const int tile = at % (L::NT / 2), line = at / (L::NT / 2);
        const int step = line % s->l.steps, chunk = line / s->l.steps;
        for (int lane = 0; lane < 32; lane++)
            for (int v = 0; v < 8; v++)
                scalar_store(e->problem.in[CONV_X].dtype, dst, to++,
                             patch_weight(s, e->problem.in[i].dtype, src,
                                          chunk * L::BN + tile * 16 +
                                              v / 4 * 8 + lane / 4,
                                          step * 2 + v / 2 % 2,
                                          lane % 4 * 2 + v % 2));
    }
    return 0;
}

/* fprop: [k][tap][c]; dgrad: c and k exchanged, taps from the last. */
static struct patch_weights patch_weights_of(const struct conv_geometry *g,
                                             bool dgrad)
{
    const int taps = g->r * g->s;

    if (dgrad)
        return {(taps - 1) * g->k, 1, taps * g->k, -g->k};
    return {0, taps * g->c, 1, g->c};
}

template <typename L>
static int patch_launch(const struct kern_exec *e, const struct kern_args *args,
                        struct infer_error *err)
{
    const struct patch_state *s = (const struct patch_state *)e->state;
    struct patch_args a;

    a.g = s->g;
    a.l = s->l;
    a.x = args->in[CONV_X];
    a.w = args->in[CONV_W];
    a.packed = s->packed;
    a.lie = patch_weights_of(&s->g, e->problem.op == KERN_CONV_DGRAD);
    a.tiles = s->g.n * s->l.tiles_p * s->l.tiles_q;
    a.vectors.init((uint32_t)s->l.vectors);
    a.columns.init((uint32_t)s->l.columns);
    a.stride.init((uint32_t)s->l.stride_w);
    a.tiles_p.init((uint32_t)s->l.tiles_p);
    a.tiles_q.init((uint32_t)s->l.tiles_q);
    a.out = output_of(e, args, s->g.k);
    a.out.y_pitch = s->g.y_pitch;
    a.out.r_pitch = s->g.r_pitch;
    const int chunks = conv_ceil_div(s->g.k, L::BN);
    const int most = conv_ceil_div(s->blocks * s->multiprocessors, chunks);
    return launch_chained(
        patch_kernel<L>,
        dim3((unsigned)(a.tiles < most ? a.tiles : most), (unsigned)chunks),
        dim3(L::THREADS), (size_t)s->l.shared, args->stream, a, err);
}

#define PATCH_TILE(name, percent, ...)                                         \
    {                                                                          \
        name, percent, patch_supports<__VA_ARGS__>,                            \
            patch_estimate<__VA_ARGS__>, NULL, NULL,                           \
            state_prepare<struct patch_state, patch_read<__VA_ARGS__>,         \
                          patch_declare<__VA_ARGS__>>,                         \
            patch_pack<__VA_ARGS__>, patch_launch<__VA_ARGS__>                 \
    }

/* Outputs x channels, and warps along outputs. */
template <typename T> using patch_64x16 = patch_tile<T, 64, 16, 4>;
template <typename T> using patch_128x16 = patch_tile<T, 128, 16, 4>;
template <typename T> using patch_256x16 = patch_tile<T, 256, 16, 8>;
template <typename T> using patch_64x32 = patch_tile<T, 64, 32, 4>;
template <typename T> using patch_128x32 = patch_tile<T, 128, 32, 4>;
template <typename T> using patch_256x32 = patch_tile<T, 256, 32, 8>;
template <typename T> using patch_128x64 = patch_tile<T, 128, 64, 8>;

template <typename T>
static const struct conv_tile patch_tiles[] = {
    PATCH_TILE("64x16", 100, patch_64x16<T>),
    PATCH_TILE("128x16", 100, patch_128x16<T>),
    PATCH_TILE("256x16", 100, patch_256x16<T>),
    PATCH_TILE("64x32", 100, patch_64x32<T>),
    PATCH_TILE("128x32", 100, patch_128x32<T>),
    PATCH_TILE("256x32", 100, patch_256x32<T>),
    PATCH_TILE("128x64", 100, patch_128x64<T>),
};

CONV_FAMILY(conv2d_fprop_nhwc_f16_cuda_patch_sm80, patch_tiles<__half>)
CONV_FAMILY(conv2d_fprop_nhwc_bf16_cuda_patch_sm80, patch_tiles<__nv_bfloat16>)
CONV_FAMILY(conv2d_dgrad_nhwc_f16_cuda_patch_sm80, patch_tiles<__half>)
CONV_FAMILY(conv2d_dgrad_nhwc_bf16_cuda_patch_sm80, patch_tiles<__nv_bfloat16>)
