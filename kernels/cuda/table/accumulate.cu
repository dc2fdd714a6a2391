/* SPDX-License-Identifier: Apache-2.0 */
/* Which tiles and which parts of the terms accumulate.cuh computes. */
#include "kernels/cuda/table/accumulate.cuh"

typedef void accumulate_function(const struct accumulate_args);

struct shape {
    int columns, scalars, terms;
    size_t shared; /* without the table */
    accumulate_function *kernel;
};

#define SHAPE(WARPS, SCALARS, TERMS)                                           \
    {                                                                          \
        tile_shape<WARPS, SCALARS, TERMS>::columns,                            \
            tile_shape<WARPS, SCALARS, TERMS>::scalars, TERMS,                 \
            sizeof(struct tile_shared<tile_shape<WARPS, SCALARS, TERMS>>),     \
            accumulate_kernel<WARPS, SCALARS, TERMS>                           \
    }

/* 128 columns x 64 scalars, 128 x 16, 1024 x 1. */
enum { LARGE, SMALL, SINGLE };
static const struct shape shapes[] = {SHAPE(1, 8, 16), SHAPE(1, 2, 16),
                                      SHAPE(8, 1, 4)};

/* Most bytes of sums of chunks. */
#define MOST_PARTS ((int64_t)64 << 20)

static int blocks_of(int64_t n, int each)
{
    return (int)((n + each - 1) / each);
}

static int64_t tiles_of(const struct table_geometry *g, int shape)
{
    return (int64_t)g->groups * blocks_of(g->columns(), shapes[shape].columns) *
           blocks_of(g->scalars, shapes[shape].scalars);
}

/* Bytes of shared memory for the table, whose entries take 4 bytes at most; 0:
 * it stays where it is. */
static size_t table_bytes(const struct kern_device *d, const struct shape *s,
                          int m)
{
    const size_t all =
        d->shared_per_block_optin ? d->shared_per_block_optin : 64 * 1024;
    const size_t wanted = m > 7 ? 0 : (size_t)4 << 2 * m;

    return s->shared + wanted <= all ? wanted : 0;
}

void accumulate_plan_for(const struct table_geometry *g, int m,
                         const struct kern_device *d, struct accumulate_plan *s)
{
    const int runs = blocks_of(g->terms(), ACCUMULATOR_RUN);
    const int chunks = blocks_of(g->terms(), ACCUMULATOR_CHUNK);
    const int64_t outputs = (int64_t)g->groups * g->scalars * g->columns();
    const int slots = 2 * (d->multiprocessors < 1 ? 1 : d->multiprocessors);

    s->shape = g->scalars == 1 ? SINGLE
               : g->scalars > shapes[SMALL].scalars &&
                       tiles_of(g, LARGE) * runs >= slots
                   ? LARGE
                   : SMALL;
    const struct shape *shape = &shapes[s->shape];
    const int64_t tiles = tiles_of(g, s->shape);
    const size_t table = table_bytes(d, shape, m);

    s->room = table;
    s->column_blocks = blocks_of(g->columns(), shape->columns);
    s->scalar_blocks = blocks_of(g->scalars, shape->scalars);
    s->splits = runs;
    s->split_terms = ACCUMULATOR_RUN;
    s->parts = runs > 1 ? runs : 0;
    if (chunks > 1 && tiles * runs < slots &&
        chunks * outputs * (int64_t)sizeof(float) <= MOST_PARTS) {
        const int each = blocks_of(chunks * tiles, slots);
        s->chunks = true;
        s->splits = blocks_of(chunks, each);
        s->split_terms = each * ACCUMULATOR_CHUNK;
        s->parts = chunks;
    }
    s->blocks = (int)(tiles * s->splits < slots ? tiles * s->splits : slots);
}

size_t accumulate_bytes(const struct table_geometry *g,
                        const struct accumulate_plan *s)
{
    return (size_t)s->parts * g->groups * g->scalars * g->columns() *
           sizeof(float);
}

int accumulate_launch(const struct accumulate_plan *s,
                      const struct tile_args *tile, const void *accumulator,
                      void *stream, struct infer_error *err)
{
    const struct shape *shape = &shapes[s->shape];
    const struct table_geometry *g = &tile->g;
    struct accumulate_args a = {};

    a.tile = *tile;
    a.accumulator = (const int32_t *)accumulator;
    a.chunks = s->chunks;
    a.count = s->parts;
    a.tile.room = s->room;
    a.tile.column_blocks = s->column_blocks;
    a.tile.scalar_blocks = s->scalar_blocks;
    a.tile.splits = s->splits;
    a.tile.split_terms = s->split_terms;
    a.tile.tasks =
        (int64_t)g->groups * s->splits * s->column_blocks * s->scalar_blocks;
    const int rc = launch_chained(shape->kernel, dim3((unsigned)s->blocks),
                                  dim3(TILE_THREADS), shape->shared + s->room,
                                  stream, a, err);
    if (rc < 0 || s->parts == 0)
        return rc;
    return launch_chained(
        accumulate_join,
        dim3(cuda_grid((int64_t)g->groups * g->scalars * g->columns(),
                       TILE_THREADS)),
        dim3(TILE_THREADS), 0, stream, a, err);
}
