/* SPDX-License-Identifier: Apache-2.0 */
/* The work of grouped_patch.cuh: its shape, which channels belong to a column
 * of 16 outputs, and copies of the input to shared memory. */
#ifndef KERNELS_CUDA_GROUPED_GROUPED_COPY_CUH
#define KERNELS_CUDA_GROUPED_GROUPED_COPY_CUH

#include "kernels/cuda/conv/output.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/strided.cuh"

enum {
    GROUPED_N = 16,  /* outputs of a column, and channels of a step */
    GROUPED_TAPS = 9 /* of the windows whose weights registers hold */
};

/* Phases.  Pixels of a dgrad with strides whose row and column have the same
 * remainders by the strides see the same positions of the window, at the same
 * pixels of dy: a tile is counted in such pixels, and computed once for each
 * pair of remainders.  Else there is one phase. */
struct grouped_phases {
    int n, h, w; /* n = h w, the strides; 1 where there are no phases */
    struct {
        short row, column; /* of its pixel, from the first of the patch */
    } at[GROUPED_TAPS];    /* where n > 1 */
    unsigned taps[4];      /* bits: the positions of a phase */
};

struct grouped_patch_shape {
    struct conv_geometry g;
    struct grouped_phases f;
    int columns, steps;
    int slices, across, down;
    int range, pitch; /* channels of a patch; bytes of one of its pixels */
    int high, wide;
    int rows, width; /* of the patch, in pixels */
    int part;        /* columns of one remainder by the stride */
    int row_bytes;   /* of a row of the patch */
    int patch_bytes, stages, shared;
    int tiles_p, tiles_q;
    bool packed;
    bool mixed; /* columns read channels of other groups */
};

/* Weights as they lie: elements from one to the next group, output of a group,
 * channel of a group and filter position. */
struct grouped_lie {
    int first, group, output, channel, tap;
};

struct grouped_patch_args {
    struct grouped_patch_shape s;
    struct grouped_lie lie;
    const void *x;
    const void *w;
    int tiles;                /* of all images */
    int offset[GROUPED_TAPS]; /* of a position's pixel, in bytes */
    struct fast_div by_tiles_p, by_tiles_q, by_stride, by_width, by_wide,
        by_vectors, by_kg, by_cg;
    struct output_args out;
};

/* A warp has 16 MT pixels of a tile in each of its PASSES. */
template <typename T_, int MT_, int PASSES_, int WARPS_> struct grouped_tile {
    typedef T_ T;
    enum {
        MT = MT_,
        PASSES = PASSES_,
        PARTS = MT * PASSES,
        WARPS = WARPS_,
        THREADS = 32 * WARPS_
    };
    static_assert(PASSES == 1 || PASSES == 2, "");
};

/* Warps of a multiprocessor that registers have room for. */
#define GROUPED_RESIDENT 16

/* ---- columns ------------------------------------------------------- */

static __host__ __device__ __forceinline__ int
grouped_columns_each(const struct conv_geometry &g)
{
    return (g.kg + GROUPED_N - 1) / GROUPED_N;
}

/* First output of a column. */
static __host__ __device__ __forceinline__ int
grouped_first(const struct conv_geometry &g, int column)
{
    const int each = grouped_columns_each(g);

    return g.kg < GROUPED_N ? column * GROUPED_N
                            : column / each * g.kg + column % each * GROUPED_N;
}

/* The last of its outputs, plus one. */
static __host__ __device__ __forceinline__ int
grouped_end(const struct conv_geometry &g, int column)
{
    const int first = grouped_first(g, column);
    const int end = g.kg < GROUPED_N ? g.k : first / g.kg * g.kg + g.kg;

    return first + GROUPED_N < end ? first + GROUPED_N : end;
}

/* First input channel of a column. */
static __host__ __device__ __forceinline__ int
grouped_channel(const struct conv_geometry &g, int column)
{
    return grouped_first(g, column) / g.kg * g.cg;
}

/* A lane's value v of an operand: of two tiles of 8 outputs, pairs 2t, 2t + 1
 * of both halves of 16 channels, output lane / 4.  Output and channel of the
 * convolution; false where the weight is 0. */
static __host__ __device__ __forceinline__ bool
grouped_weight_of(const struct conv_geometry &g, int column, int step, int lane,
                  int v, int *k, int *c)
{
    *k = grouped_first(g, column) + v / 4 * 8 + lane / 4;
    *c = grouped_channel(g, column) + step * 16 + v / 2 % 2 * 8 + lane % 4 * 2 +
         v % 2;
    return *k < grouped_end(g, column) && *c < g.c && *k / g.kg == *c / g.cg;
}

/* ---- copying ------------------------------------------------------- */

/* Where a tile lies: its image and first output. */
struct grouped_place {
    int n, p, q;
};

static __device__ __forceinline__ struct grouped_place
grouped_place_at(const struct grouped_patch_args &a, int tile)
{
    uint32_t p, q;
    const uint32_t row = a.by_tiles_q.divmod((uint32_t)tile, &q);
    const uint32_t n = a.by_tiles_p.divmod(row, &p);

    return {(int)n, (int)p * a.s.high, (int)q * a.s.wide};
}

/* A thread's part of the copies: vectors of 8 channels from channel c on, of
 * pixels `rows` rows and `columns` columns apart. */
struct grouped_copier {
    int c, v;        /* c is past the last channel in threads without a part */
    int row, column; /* the first pixel */
    int rows, columns;
    int bytes; /* from one to the next, where the stride is 1 */
};

static __device__ __forceinline__ struct grouped_copier
grouped_copier_of(const struct grouped_patch_args &a, int first, int threads)
{
    struct grouped_copier own;
    uint32_t v, columns, column;
    const uint32_t pixel = a.by_vectors.divmod(threadIdx.x, &v);
    const uint32_t apart = a.by_vectors.div((uint32_t)threads);

    own.row = (int)a.by_width.divmod(pixel, &column);
    own.rows = (int)a.by_width.divmod(apart, &columns);
    own.column = (int)column;
    own.columns = (int)columns;
    own.bytes = own.rows * a.s.row_bytes + own.columns * a.s.pitch;
    own.v = (int)v * 16;
    own.c = first + (int)v * 8;
    if (pixel >= apart)
        own.row = a.s.rows; /* no part: threads are no multiple of vectors */
    return own;
}

/* Starts to copy the input under a tile.  An address outside the image is not
 * read.  PHASES: the columns of a row are kept apart by their remainder modulo
 * the stride. */
template <bool PHASES>
static __device__ __forceinline__ void
grouped_copy_pixels(const struct grouped_patch_args &a,
                    const struct grouped_copier &own, int tile, uint32_t to)
{
    const struct conv_geometry &g = a.s.g;
    const struct grouped_place t = grouped_place_at(a, tile);
    const uint16_t *image =
        (const uint16_t *)a.x + (size_t)t.n * g.h * g.w * g.x_pitch;
    const int height = own.c < g.c ? g.h : 0; /* no row is inside */
    const int end = a.s.width - own.column;   /* columns from the first on */
    int h = t.p * g.stride_h - g.pad_top + own.row;
    int w = t.q * g.stride_w - g.pad_left + own.column;
    int at = (h * g.w + w) * g.x_pitch + own.c;
    const int by = (own.rows * g.w + own.columns) * g.x_pitch;
    const int wrap = (g.w - a.s.width) * g.x_pitch;
    int row = own.row, column = 0;

    to +=
        own.v + (PHASES ? 0 : own.row * a.s.row_bytes + own.column * a.s.pitch);
    while (row < a.s.rows) {
        uint32_t phase, place = to;

        if constexpr (PHASES) {
            place = a.by_stride.divmod((uint32_t)(own.column + column), &phase);
            place = to + row * a.s.row_bytes +
                    ((int)phase * a.s.part + (int)place) * a.s.pitch;
        }
        ptx_cp_async<16>(place, image + at,
                         (unsigned)h < (unsigned)height &&
                             (unsigned)w < (unsigned)g.w);
        to += PHASES ? 0 : own.bytes;
        at += by;
        row += own.rows;
        h += own.rows;
        w += own.columns;
        column += own.columns;
        if (column >= end) {
            column -= a.s.width;
            w -= a.s.width;
            at += wrap;
            to += PHASES ? 0 : a.s.row_bytes - a.s.width * a.s.pitch;
            row++;
            h++;
        }
    }
}

static __device__ __forceinline__ void
grouped_copy(const struct grouped_patch_args &a,
             const struct grouped_copier &own, int tile, uint32_t to)
{
    if (a.s.g.stride_w == 1)
        grouped_copy_pixels<false>(a, own, tile, to);
    else
        grouped_copy_pixels<true>(a, own, tile, to);
}

#endif
