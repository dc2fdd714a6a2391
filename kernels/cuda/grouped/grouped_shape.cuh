/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of channels and tiles of pixels of grouped_patch.cuh, chosen on the
 * host. */
#ifndef KERNELS_CUDA_GROUPED_GROUPED_SHAPE_CUH
#define KERNELS_CUDA_GROUPED_GROUPED_SHAPE_CUH

#include "kernels/cuda/grouped/grouped_copy.cuh"

#define GROUPED_MAX_CHANNELS 128 /* of a group, in and out */

/* ---- shape --------------------------------------------------------- */

/* Slices of up to `most` columns: those that copy the fewest channels, all
 * slices together.  False if a column alone has too many. */
static inline bool grouped_slice(struct grouped_patch_shape *s, int most)
{
    const struct conv_geometry &g = s->g;
    const int deep = g.kg < GROUPED_N ? GROUPED_N / g.kg * g.cg : g.cg;
    int64_t least = INT64_MAX;

    s->columns = g.kg < GROUPED_N ? conv_ceil_div(g.k, GROUPED_N)
                                  : g.groups * grouped_columns_each(g);
    s->steps = conv_ceil_div(deep, GROUPED_N);
    s->mixed = g.kg < GROUPED_N || g.cg % GROUPED_N != 0;
    for (int across = 1; across <= most; across++) {
        const int slices = conv_ceil_div(s->columns, across);
        int range = 0;

        for (int j = 0; j < s->columns; j++) {
            const int wide = grouped_channel(g, j) + s->steps * GROUPED_N -
                             grouped_channel(g, j / across * across);
            range = wide > range ? wide : range;
        }
        /* A block of few warps hides less. */
        const int64_t cost = (int64_t)slices * (range + 16);
        if (cost <= least && range <= 2 * GROUPED_MAX_CHANNELS) {
            least = cost;
            s->across = across;
            s->slices = slices;
            s->range = range;
        }
    }
    s->pitch = s->range * 2 + (s->range / 8 % 2 ? 0 : 16);
    return least < INT64_MAX;
}

/* Bytes of a row of the patch: in 16-byte units, those from an output to the
 * one under it are as many as those of the outputs between them, modulo 8, if
 * there is such a number. */
static inline int grouped_row_bytes(const struct grouped_patch_shape *s)
{
    const int least = s->part * s->g.stride_w * (s->pitch / 16);
    const int wanted = s->wide * (s->pitch / 16);

    for (int units = least; units < least + 8; units++)
        if ((s->g.stride_h * units - wanted) % 8 == 0)
            return units * 16;
    return least * 16;
}

/* Rows of the image that the window of an output reaches past its first one. */
static inline int grouped_reach_h(const struct grouped_patch_shape *s)
{
    int reach = 0;

    if (s->f.n == 1)
        return (s->g.r - 1) * s->g.dilation_h;
    for (int i = 0; i < GROUPED_TAPS; i++)
        reach = s->f.at[i].row > reach ? s->f.at[i].row : reach;
    return reach;
}

static inline int grouped_reach_w(const struct grouped_patch_shape *s)
{
    int reach = 0;

    if (s->f.n == 1)
        return (s->g.s - 1) * s->g.dilation_w;
    for (int i = 0; i < GROUPED_TAPS; i++)
        reach = s->f.at[i].column > reach ? s->f.at[i].column : reach;
    return reach;
}

/* The patch of tiles of `high` x `wide` outputs of a phase. */
static inline void grouped_patch_of(struct grouped_patch_shape *s, int high,
                                    int wide)
{
    const struct conv_geometry &g = s->g;

    s->high = high;
    s->wide = wide;
    s->rows = (high - 1) * g.stride_h + grouped_reach_h(s) + 1;
    s->width = (wide - 1) * g.stride_w + grouped_reach_w(s) + 1;
    s->part = conv_ceil_div(s->width, g.stride_w);
    s->row_bytes = grouped_row_bytes(s);
    s->tiles_p = conv_ceil_div(conv_ceil_div(g.p, s->f.h), high);
    s->tiles_q = conv_ceil_div(conv_ceil_div(g.q, s->f.w), wide);
}

static inline int64_t grouped_patch_size(const struct grouped_patch_shape *s)
{
    return (int64_t)s->rows * s->row_bytes;
}

/* The tile of at most 16 parts x down outputs that takes the least work,
 * counted in pixels, and of which two patches fit in `room` bytes.  False if
 * none does. */
static inline bool grouped_choose_tile(struct grouped_patch_shape *s, int parts,
                                       int room)
{
    const struct conv_geometry &g = s->g;
    const int most = GROUPED_N * parts * s->down;
    const int p = conv_ceil_div(g.p, s->f.h), q = conv_ceil_div(g.q, s->f.w);
    int64_t least = 0;
    int best = 0;

    for (int wide = 1; wide <= most && wide <= q; wide++) {
        const int high = most / wide < p ? most / wide : p;

        grouped_patch_of(s, high, wide);
        const int64_t cost =
            (int64_t)s->tiles_p * s->tiles_q *
            ((int64_t)most * s->steps + (int64_t)s->rows * s->width);
        if (2 * grouped_patch_size(s) > room || (least > 0 && cost >= least))
            continue;
        least = cost;
        best = wide;
    }
    if (best == 0)
        return false;
    grouped_patch_of(s, most / best < p ? most / best : p, best);
    s->patch_bytes = (int)grouped_patch_size(s);
    return true;
}

/* ---- what kernels take of it --------------------------------------- */

/* All but the tensors and where weights lie. */
static inline void grouped_args_of(const struct grouped_patch_shape *s,
                                   struct grouped_patch_args *a)
{
    const struct conv_geometry *g = &s->g;

    a->s = *s;
    a->tiles = g->n * s->tiles_p * s->tiles_q;
    a->by_tiles_p.init((uint32_t)s->tiles_p);
    a->by_tiles_q.init((uint32_t)s->tiles_q);
    a->by_stride.init((uint32_t)g->stride_w);
    a->by_width.init((uint32_t)s->width);
    a->by_wide.init((uint32_t)s->wide);
    a->by_vectors.init((uint32_t)s->range / 8);
    a->by_kg.init((uint32_t)g->kg);
    a->by_cg.init((uint32_t)g->cg);
    for (int tap = 0; s->f.n > 1 && tap < GROUPED_TAPS; tap++)
        a->offset[tap] =
            s->f.at[tap].row * s->row_bytes + s->f.at[tap].column * s->pitch;
    for (int tap = 0; s->f.n == 1 && tap < GROUPED_TAPS && tap < g->r * g->s;
         tap++) {
        const int column = tap % g->s * g->dilation_w;
        a->offset[tap] =
            tap / g->s * g->dilation_h * s->row_bytes +
            (column % g->stride_w * s->part + column / g->stride_w) * s->pitch;
    }
}

#endif
