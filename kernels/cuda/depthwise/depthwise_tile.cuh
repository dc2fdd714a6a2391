/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution of 16-bit types by tensor cores, 3x3 to 9x9.
 *
 * One tap of a window is a product with a diagonal matrix: of 16 pixels by 8
 * channels, as they lie, with the 8 weights of the tap.  Two taps side by side
 * make one mma of depth 16.  Only an eighth of its products are used, but it
 * replaces 8 instructions in single precision, and reads 16-bit numbers without
 * the conversions, which would be as many as the products.
 *
 * A block computes `rows` by `columns` outputs of `images` images and `groups`
 * eights of channels, from a tile of the image in shared memory:
 * [image][row][column][channel], zeros in columns outside the image; rows above
 * and below it are left out.  A pixel takes an odd number of 16 bytes, so that
 * 8 neighbours lie in different banks.  With stride 2 the even columns come
 * first, then the odd ones, and neighbours of a window are so again.
 *
 * Warp i computes eight i, down the rows.  An mma has pixels of two eights of
 * columns: with halves of 8 columns numbered through the images, mma b has
 * halves 2b and 2b + 1.  A row of the image is loaded once for all outputs that
 * it is part of: SLOTS = R / STRIDE, rounded up, rows of them are in the making
 * at once.  A row is finished while the next is multiplied, so that one more
 * row has sums: registers: 4 (SLOTS + 1) BLOCKS sums, R R weights.  A finished
 * row overwrites the first one of its window, which is no longer needed; when
 * all warps are done, the block copies the rows out.
 *
 * Zeros of the diagonal matrix times an infinity are NaN in the other channels
 * of that pixel, and so are zeros outside the image times an infinite weight.
 * So a warp that finds a NaN computes the row again, product by product.
 */
#ifndef KERNELS_CUDA_DEPTHWISE_DEPTHWISE_TILE_CUH
#define KERNELS_CUDA_DEPTHWISE_DEPTHWISE_TILE_CUH

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/strided.cuh"

/* Warps of a block: eights of channels. */
#define DEPTHWISE_TILE_GROUPS 6

/* Rows that a thread copies out at a time. */
#define DEPTHWISE_DRAIN 4

/* Bytes after the tile for results outside the image: a word of each lane. */
#define DEPTHWISE_TILE_SPARE (32 * 4)

/* How outputs are divided among blocks. */
struct depthwise_tile {
    int blocks;               /* of 16 pixels a warp: 1 or 2 */
    int kib;                  /* bytes asked for / 1024 */
    int groups, images;       /* of a block */
    int rows, columns;        /* of outputs */
    int halves;               /* log2 of eights of columns, rounded up */
    int high, wide;           /* rows and columns of the image */
    int odd;                  /* pixels before the odd columns; stride 2 */
    int pixel, line;          /* bytes from pixel to pixel, row to row */
    int slices, across, down; /* blocks by channels, columns, rows */
    size_t bytes;
};

struct depthwise_tile_args {
    struct conv_geometry g;
    struct depthwise_tile t;
    const void *x, *w;
    struct fast_div slices, across, down;
    struct fast_div groups, wide, columns;
    struct output_args out;
};

/* The part of the tensors that a block computes. */
struct depthwise_tile_place {
    int n, p, q, k;            /* the first output */
    int images, rows, columns; /* that there are */
    int h, w;                  /* the tile's first pixel, may be outside */
    int first, last;           /* rows of the tile inside the image */
    uint32_t shared;           /* where it is */
};

/* ---- the tile ------------------------------------------------------ */

/* Bytes from a row's beginning to a column. */
template <int STRIDE>
static __device__ __forceinline__ int
depthwise_tile_column(const struct depthwise_tile &t, int column)
{
    if (STRIDE == 1)
        return column * t.pixel;
    return (column / 2 + column % 2 * t.odd) * t.pixel;
}

static __device__ __forceinline__ struct depthwise_tile_place
depthwise_tile_place_of(const struct depthwise_tile_args &a, int r, int stride,
                        uint32_t shared)
{
    struct depthwise_tile_place at;
    uint32_t slice, across, down;

    /* From the last to the first, as depthwise_thread(). */
    uint32_t rest = a.slices.divmod(gridDim.x - 1 - blockIdx.x, &slice);
    rest = a.across.divmod(rest, &across);
    at.n = (int)a.down.divmod(rest, &down) * a.t.images;
    at.p = (int)down * a.t.rows;
    at.q = (int)across * a.t.columns;
    at.k = (int)slice * a.t.groups * 8;
    at.images = min(a.t.images, a.g.n - at.n);
    at.rows = min(a.t.rows, a.g.p - at.p);
    at.columns = min(a.t.columns, a.g.q - at.q);
    at.h = at.p * stride - a.g.pad_top;
    at.w = at.q * stride - a.g.pad_left;
    at.first = max(0, -at.h);
    at.last = min((at.rows - 1) * stride + r, a.g.h - at.h);
    at.shared = shared;
    return at;
}

/* Starts to fill the tile: a thread has an eight of channels and, of the 32
 * pixels that the block fetches at a time, one column. */
template <typename T, int STRIDE>
static __device__ __forceinline__ void
depthwise_tile_fill(const struct depthwise_tile_args &a,
                    const struct depthwise_tile_place &at)
{
    uint32_t group, column;
    const uint32_t pixel = a.groups.divmod(threadIdx.x, &group);
    const bool narrow = a.t.wide <= 32;
    const int step = narrow ? (int)a.wide.div(32) : 1;
    const int y = (int)a.wide.divmod(pixel, &column);
    const int k = at.k + 8 * (int)group, row_pitch = a.g.w * a.g.x_pitch;

    if (k >= a.g.k || y >= step)
        return;
    const int begin = at.first + y;
    for (int i = (int)column; i < a.t.wide; i += 32) {
        const int w = at.w + i;
        const bool ok = (unsigned)w < (unsigned)a.g.w;
        for (int image = 0; image < at.images; image++) {
            const T *from = (const T *)a.x +
                            (((at.n + image) * a.g.h + at.h + begin) * a.g.w +
                             (ok ? w : 0)) *
                                a.g.x_pitch +
                            k;
            uint32_t to = at.shared + (image * a.t.high + begin) * a.t.line +
                          depthwise_tile_column<STRIDE>(a.t, i) + group * 16;
#pragma unroll 4
            for (int row = begin; row < at.last; row += step) {
                ptx_cp_async<16>(to, from, ok);
                from += step * row_pitch;
                to += step * a.t.line;
            }
        }
        if (narrow)
            break;
    }
}

/* Copies the finished rows out. */
template <typename T>
static __device__ __forceinline__ void
depthwise_tile_drain(const struct depthwise_tile_args &a,
                     const struct depthwise_tile_place &at,
                     const unsigned char *shared)
{
    uint32_t group, column;
    const uint32_t pixel = a.groups.divmod(threadIdx.x, &group);
    const int step = (int)a.columns.div(32);
    const int y = (int)a.columns.divmod(pixel, &column);
    const int k = at.k + 8 * (int)group, row_pitch = a.g.q * a.out.y_pitch;

    if (k >= a.g.k || y >= step || (int)column >= at.columns)
        return;
    for (int image = 0; image < at.images; image++) {
        T *to = (T *)a.out.y +
                (size_t)(((at.n + image) * a.g.p + at.p + y) * a.g.q + at.q +
                         (int)column) *
                    a.out.y_pitch +
                k;
        const unsigned char *from = shared + (image * a.t.high + y) * a.t.line +
                                    (int)column * a.t.pixel + (int)group * 16;
#pragma unroll 1
        for (int row = y; row < at.rows; row += DEPTHWISE_DRAIN * step) {
            vec<T, 8> v[DEPTHWISE_DRAIN];
#pragma unroll
            for (int i = 0; i < DEPTHWISE_DRAIN; i++)
                if (row + i * step < at.rows)
                    v[i] =
                        load_vec<T, 8>((const T *)(from + i * step * a.t.line));
#pragma unroll
            for (int i = 0; i < DEPTHWISE_DRAIN; i++)
                if (row + i * step < at.rows)
                    store_vec<T, 8>(to + i * step * row_pitch, v[i]);
            from += DEPTHWISE_DRAIN * step * a.t.line;
            to += DEPTHWISE_DRAIN * step * row_pitch;
        }
    }
}

/* ---- the host's side ----------------------------------------------- */

/* Eights of channels of a block: the number that wastes the fewest past the
 * last channel; whole sectors of 32 bytes are preferred, then more of them, or
 * four if a warp has two blocks of pixels. */
static inline int depthwise_tile_groups(int eights, int blocks)
{
    static const int orders[][DEPTHWISE_TILE_GROUPS] = {{6, 4, 2, 5, 3, 1},
                                                        {4, 6, 2, 5, 3, 1}};
    const int *const order = orders[blocks - 1];
    int best = 0, least = 0;

    for (int i = 0; i < DEPTHWISE_TILE_GROUPS; i++) {
        const int sum = conv_ceil_div(eights, order[i]) * order[i];
        if (best == 0 || sum < least) {
            best = order[i];
            least = sum;
        }
    }
    return best;
}

/* True if warps of that many blocks of pixels can compute the problem in tiles
 * of that many bytes and at most `most` rows of outputs. */
static inline bool depthwise_tile_of(const struct conv_geometry *g, int blocks,
                                     int bytes, int most,
                                     struct depthwise_tile *t)
{
    const int stride = g->stride_w;

    t->blocks = blocks;
    t->groups = depthwise_tile_groups(g->k / 8, blocks);
    t->pixel = 16 * (t->groups | 1);
    t->across = conv_ceil_div(g->q, 16 * blocks);
    t->columns = conv_ceil_div(g->q, t->across);
    t->halves = t->columns <= 8 ? 0 : t->columns <= 16 ? 1 : 2;
    t->images = 2 * blocks >> t->halves;
    t->wide = (t->columns - 1) * stride + g->s;
    t->odd = (t->wide + 1) / 2;
    t->line = (stride == 1 ? t->wide : 2 * t->odd) * t->pixel;
    const int high = bytes / (t->images * t->line);
    if (high < g->r)
        return false;
    const int rows = (high - g->r) / stride + 1;
    t->down = conv_ceil_div(g->p, rows < most ? rows : most);
    t->rows = conv_ceil_div(g->p, t->down);
    t->high = (t->rows - 1) * stride + g->r;
    t->slices = conv_ceil_div(g->k / 8, t->groups);
    t->bytes = (size_t)t->images * (size_t)t->high * (size_t)t->line +
               (size_t)t->groups * DEPTHWISE_TILE_SPARE;
    return true;
}

/* True if the tiles can compute the problem's window and epilogue. */
static inline bool depthwise_tile_takes(const struct kern_problem *p,
                                        const struct conv_geometry *g,
                                        const struct kern_device *d)
{
    const enum kern_unary_kind act = p->epilogue.act.kind;

    return infer_dtype_size(p->in[CONV_X].dtype) == 2 && d->sm >= 80 &&
           g->m > 0 && g->h > 0 && g->w > 0 && g->kg == 1 && g->k % 8 == 0 &&
           g->r == g->s && g->r % 2 == 1 && g->r >= 3 &&
           g->r <= (g->stride_w == 1 ? 9 : 7) && g->stride_h == g->stride_w &&
           g->stride_w <= 2 && g->dilation_h == 1 && g->dilation_w == 1 &&
           !kern_problem_in(p, CONV_RESIDUAL) && unary_is_inline(act) &&
           act != KERN_GELU;
}

#endif
