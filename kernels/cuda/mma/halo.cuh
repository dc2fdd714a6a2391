/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 3x3 convolutions of few channels, stride 1 and padding 1, through mma.sync
 * (sm_80): common to fprop, dgrad and wgrad.
 *
 * A block works on tiles of M output pixels, `high` rows of `wide` pixels of
 * one image (wide: 8, 16 or 32).  It copies the tile and its halo of one pixel
 * to shared memory once and reads all nine filter positions from there; an
 * implicit GEMM would copy every pixel nine times.
 *
 * Shared memory.  A pixel of C channels of 16 bits takes 2 C + 16 bytes, an odd
 * number of 16-byte units for C = 16, 32 and 64: the eight neighbours that an
 * ldmatrix phase reads then lie on all 32 banks.  Eight neighbours of the
 * tile's order are neighbours in the image, since `wide` is a multiple of 8; so
 * the address of a lane for a filter position is that of its pixel plus a
 * constant.  Pixels outside the image are zeros.
 *
 * Fewer than 16 channels are padded with zeros in shared memory.
 */
#ifndef KERNELS_CUDA_MMA_HALO_CUH
#define KERNELS_CUDA_MMA_HALO_CUH

#include "kernels/cuda/conv/state.cuh"
#include "kernels/cuda/mma/igemm.cuh"
#include "kernels/cuda/strided.cuh"

struct halo_shape {
    int n, h, w;
    int step;      /* 2: only every second pixel, from 0 on, is there */
    int channels;  /* of a pixel in memory */
    int high, log; /* rows of a tile; log2 of its width */
    int tiles;
    struct fast_div tiles_h, tiles_w;
    struct fast_div patch_w; /* by width + 2 */
};

/* The first pixel of a tile. */
struct halo_tile {
    int image, h, w;
};

enum { HALO_MAX_CHANNELS = 64 };

/* Bytes of a pixel of C channels, and of the largest tile of M pixels with its
 * halo: that of width 32 for 128 pixels, of width 8 for 64, or less. */
template <int C> static __host__ __device__ constexpr int halo_pitch(void)
{
    return 2 * C + 16;
}

template <int M, int C>
static __host__ __device__ constexpr int halo_patch(void)
{
    return (M / 32 + 2) * 34 * halo_pitch<C>();
}

static __device__ __forceinline__ struct halo_tile
halo_tile_at(const struct halo_shape &s, int tile)
{
    uint32_t row, column;
    struct halo_tile t;

    tile = (int)s.tiles_w.divmod((uint32_t)tile, &column);
    t.image = (int)s.tiles_h.divmod((uint32_t)tile, &row);
    t.h = (int)row * s.high;
    t.w = (int)column << s.log;
    return t;
}

/* Byte offset of pixel m of a tile with its halo, for filter position (0,
 * 0). */
template <int C>
static __device__ __forceinline__ int halo_at(const struct halo_shape &s, int m)
{
    const int row = m >> s.log, column = m & ((1 << s.log) - 1);

    return (row * ((1 << s.log) + 2) + column) * halo_pitch<C>();
}

/* C channels of a pixel that has fewer, one at a time. */
template <typename T, int C>
static __device__ __forceinline__ void
halo_fill_pixel(unsigned char *to, const T *from, int channels, bool inside)
{
#pragma unroll
    for (int v = 0; v < C; v += 8) {
        vec<T, 8> t;
#pragma unroll
        for (int j = 0; j < 8; j++)
            t.at[j] =
                inside && v + j < channels ? from[v + j] : from_float<T>(0);
        store_vec<T, 8>((T *)to + v, t);
    }
}

/* Starts the copy of a tile with its halo; NARROW: copies it at once. */
template <typename T, int C, int THREADS, bool NARROW>
static __device__ __forceinline__ void
halo_copy(const struct halo_shape &s, const struct halo_tile &t, const void *x,
          unsigned char *to)
{
    enum { VECTORS = NARROW ? 1 : C / 8 };
    const int pixels = (s.high + 2) * ((1 << s.log) + 2);
    const int shift = s.step - 1; /* rows and columns are halved, or not */
    const int high = s.h >> shift, wide = s.w >> shift;
    const T *image = (const T *)x + (size_t)t.image * high * wide * s.channels;

#pragma unroll 4
    for (int i = threadIdx.x; i < pixels * VECTORS; i += THREADS) {
        uint32_t column;
        const int v = i % VECTORS, pixel = i / VECTORS;
        const int row = (int)s.patch_w.divmod((uint32_t)pixel, &column);
        const int h = t.h + row - 1, w = t.w + (int)column - 1;
        const bool inside = (unsigned)h < (unsigned)s.h &&
                            (unsigned)w < (unsigned)s.w &&
                            ((h | w) & shift) == 0;
        const T *from =
            image +
            (inside ? ((h >> shift) * wide + (w >> shift)) * s.channels : 0);
        if (NARROW)
            halo_fill_pixel<T, C>(to + pixel * halo_pitch<C>(), from,
                                  s.channels, inside);
        else
            ptx_cp_async<16>(ptx_shared(to) + pixel * halo_pitch<C>() + v * 16,
                             inside ? from + v * 8 : from, inside);
    }
}

/* ---- limits -------------------------------------------------------- */

/* C of the kernel for that many channels; 0 if there is none. */
static inline int halo_depth(int64_t channels)
{
    return channels <= 16                     ? 16
           : channels == 32 || channels == 64 ? (int)channels
                                              : 0;
}

static inline void halo_count_tiles(struct halo_shape *s)
{
    s->tiles_h.init((uint32_t)conv_ceil_div(s->h, s->high));
    s->tiles_w.init((uint32_t)conv_ceil_div(s->w, 1 << s->log));
    s->tiles = s->n * (int)(s->tiles_h.divisor * s->tiles_w.divisor);
    s->patch_w.init((uint32_t)(1 << s->log) + 2);
}

/* Sets the tiles of M pixels: as wide as the image up to 32. */
static inline void halo_tiles(struct halo_shape *s, int m)
{
    s->log = s->w > 16 ? 5 : s->w > 8 ? 4 : 3;
    s->high = m >> s->log;
    halo_count_tiles(s);
}

/* 3x3 with padding 1 between dense channels-last tensors of one type; x is the
 * one with the halo.  Stride 1, both of one extent; or, with `most` 2, stride
 * 2, where x has only every second row and column of y. */
static inline int halo_read(const struct kern_problem *p,
                            const struct kern_tensor *x,
                            const struct kern_tensor *y,
                            const struct kern_tensor *w, int most,
                            struct halo_shape *s, struct infer_error *why)
{
    const struct kern_conv *c = &p->attr.conv;
    bool ok = x->rank == 4 && c->groups == 1 && y->dtype == x->dtype;

    for (int i = 0; ok && i < 2; i++)
        ok = w->dim[i + 2] == 3 && c->stride[i] == c->stride[0] &&
             c->stride[i] <= most && c->dilation[i] == 1 &&
             c->pad_begin[i] == 1 && (c->stride[i] > 1 || c->pad_end[i] == 1) &&
             x->dim[i + 2] * c->stride[i] == y->dim[i + 2];
    if (!ok)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes one group, windows of 3x3, dilation and "
                         "padding 1, strides of 1 to %d that divide the "
                         "picture",
                         most);
    if (!kern_tensor_is_dense(x, KERN_NHWC) ||
        !kern_tensor_is_dense(y, KERN_NHWC) || kern_tensor_count(x) < 1 ||
        kern_tensor_count(x) > INT32_MAX / 2 ||
        kern_tensor_count(y) > INT32_MAX / 2)
        return error_set(why, INFER_EUNSUPPORTED,
                         "takes dense channels-last activations of 1 to 2^30 "
                         "elements");
    s->n = (int)x->dim[0];
    s->channels = (int)x->dim[1];
    s->h = (int)y->dim[2];
    s->w = (int)y->dim[3];
    s->step = c->stride[0];
    return 0;
}

#endif
