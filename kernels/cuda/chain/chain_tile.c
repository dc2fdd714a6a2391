/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of chains: every way to cut the outputs is priced, the cheapest of
 * each kind of block is a variant. */
#include "kernels/cuda/chain/chain_tile.h"

#include <string.h>

/* ---- what a block takes -------------------------------------------- */

/* Fitted to 312 variants of 26 problems on an H200 (root of the mean squared
 * logarithm of the ratio: 0.16): clocks of a multiprocessor, bytes a clock,
 * bytes a microsecond. */
#define WINDOW_READ   1.6  /* a row of the image, 16 places by 8 channels */
#define WINDOW_MMA    37.  /* nine taps of 16 outputs by 8 channels */
#define POINT_READ    0.8  /* weights of 16 channels to 16 outputs */
#define POINT_MMA     11.3 /* their product with 16 outputs */
#define STEP_LATENCY  1007 /* a warp by itself: 16 channels of the window */
#define PAIR_LATENCY  8    /* and of the second product, 16 outputs */
#define FILL_BYTES    11.7 /* that arrive */
#define CHUNK_LATENCY 2307 /* from asking for a chunk to its arrival */
#define BLOCK_LATENCY 1067 /* of a block besides its chunks */
#define BLOCK_CLOCKS  400  /* and what it takes from the others */
#define CLOCKS_US     1700.
#define BYTES_US      3.45e6
#define LAUNCH_US     2.4
/* Estimates of the parts with stride 2 are up to a tenth too high; a chain that
 * is no quicker must not be taken for quicker. */
#define STRIDE_MARGIN 1.15

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static int resident(const struct chain_tile *t, int registers,
                    const struct kern_device *d)
{
    const int threads = 32 * t->warps;
    const int by_memory =
        (int)((d->shared_per_block_optin + 1024) / (size_t)(t->bytes + 1024));
    const int by_registers = 65536 / (conv_round_up(registers, 8) * threads);
    const int by_threads = 2048 / threads;
    int n = by_memory < by_registers ? by_memory : by_registers;

    n = n < by_threads ? n : by_threads;
    return n < 1 ? 1 : n;
}

static double estimate(const struct conv_geometry *g, double bytes,
                       const struct kern_device *d, int registers,
                       const struct chain_tile *t)
{
    const double blocks = (double)t->across * t->down * t->deep;
    const int sms = conv_multiprocessors(d), here = resident(t, registers, d);
    const double steps = t->channels / 16.;
    const double window =
        WINDOW_READ * (g->r + (t->mt - 1) * g->stride_h) + WINDOW_MMA * t->mt;
    const double compute =
        t->warps * steps *
        (2 * window + t->pairs * (POINT_READ + POINT_MMA * t->mt));
    const double alone =
        steps * (STEP_LATENCY + PAIR_LATENCY * t->pairs * t->mt);
    const double fill =
        ((double)t->pixels * t->channels * 2 + (t->stage - t->taps)) /
        FILL_BYTES;
    const double arrival =
        (double)CHUNK_LATENCY / (t->stages > 1 ? t->stages - 1 : 1);
    const double throughput = t->chunks * larger(compute, fill) + BLOCK_CLOCKS;
    const double latency =
        BLOCK_LATENCY + t->chunks * larger(larger(alone, compute), arrival);
    const double each = (double)(int64_t)((blocks + sms - 1) / sms);
    const double turns =
        (double)(int64_t)((blocks + (double)sms * here - 1) / (sms * here));
    const double us =
        LAUNCH_US +
        larger(larger(each * throughput, turns * latency) / CLOCKS_US,
               bytes / BYTES_US);

    return g->stride_h > 1 ? STRIDE_MARGIN * us : us;
}

/* ---- a tile -------------------------------------------------------- */

/* What follows from the outputs of a block and the channels of a chunk; false
 * if it does not fit. */
static bool complete(const struct conv_geometry *g, const struct kern_device *d,
                     struct chain_tile *t)
{
    const int stride = g->stride_w;
    const int even = conv_round_up(g->c, 16);

    t->warps = conv_ceil_div(t->images * (t->rows / t->mt) * t->columns, 16);
    t->wide = (t->columns - 1) * stride + g->s;
    t->high = (t->rows - 1) * stride + g->r;
    t->odd = (t->wide + 1) / 2;
    t->pixels = t->images * t->high * t->wide;
    t->pixel = 16 * (t->channels / 8 | 1);
    t->line = (stride == 1 ? t->wide : 2 * t->odd) * t->pixel;
    t->plane = t->high * t->line;
    t->chunks = conv_ceil_div(even, t->channels);
    t->pairs = t->nt / 2;
    t->taps = t->images * t->plane;
    t->bias = t->taps + t->channels / 8 * 16 * chain_tap_words(g->r);
    t->w2 = t->bias + t->channels * 4;
    t->stage = t->w2 + t->channels / 16 * t->pairs * 512;
    /* Where results are not finite, a middle pixel needs room. */
    if (t->stages * t->stage < even * 2)
        t->stage = conv_round_up(conv_ceil_div(even * 2, t->stages), 16);
    t->bytes = conv_round_up(t->pixels * 8, 16) + t->stages * t->stage;
    t->across = conv_ceil_div(g->q, t->columns);
    t->down = conv_ceil_div(g->p, t->rows);
    t->deep = conv_ceil_div(g->n, t->images);
    return t->warps <= CHAIN_WARPS &&
           (size_t)t->bytes <= d->shared_per_block_optin;
}

/* The cheapest cut for blocks of at most that many warps and more than half of
 * them. */
static bool cut(const struct conv_geometry *g, double bytes,
                const struct kern_device *d, const int *tiles, int warps,
                int channels, int stages, struct chain_tile *best)
{
    const int mt = tiles[0], most = 16 * warps * mt;
    const int chunks = conv_ceil_div(conv_round_up(g->c, 16), channels);
    bool found = false;

    for (int across = 1, last = 0; across <= g->q; across++) {
        const int columns = conv_ceil_div(g->q, across);
        if (columns == last || columns > most || (across > 1 && columns < 4))
            continue;
        last = columns;
        for (int down = 1, high = 0; down <= g->p; down++) {
            const int rows = conv_round_up(conv_ceil_div(g->p, down), mt);
            if (rows == high || rows * columns > most)
                continue;
            high = rows;
            const bool whole = rows >= g->p && columns == g->q;
            const int images = whole ? most / (rows * columns) : 1;
            for (int i = images; i >= 1; i = i > 4 ? i / 2 : i - 1) {
                struct chain_tile t = {.mt = mt,
                                       .nt = tiles[1],
                                       .images = i,
                                       .rows = rows,
                                       .columns = columns,
                                       .channels = channels};
                if (i > g->n)
                    continue;
                t.stages = stages < chunks ? stages : chunks;
                if (!complete(g, d, &t) || 2 * t.warps <= warps)
                    continue;
                t.us = estimate(g, bytes, d, tiles[3], &t);
                if (!found || t.us < best->us)
                    *best = t;
                found = true;
            }
        }
    }
    return found;
}

/* ---- all ----------------------------------------------------------- */

/* The kernels: tiles of a warp, most warps, and registers of a thread as
 * chain_rows.cuh bounds them. */
static const int kernels[][4] = {
    {4, 4, 8, 128}, {2, 4, 8, 80}, {2, 8, 8, 128}, {1, 8, 8, 80}};

enum { KERNELS = sizeof kernels / sizeof kernels[0] };

/* True if the kernel holds k outputs, and none with as many rows does in
 * fewer tiles. */
static bool fits(int kernel, int k)
{
    const int *const a = kernels[kernel];
    int i;

    for (i = 0; i < KERNELS; i++)
        if (kernels[i][0] == a[0] && kernels[i][1] < a[1] &&
            kernels[i][1] * 8 >= k)
            return false;
    return a[1] * 8 >= k;
}

/* Channels of a chunk near `want` that waste the fewest. */
static int chunk_for(int channels, int want)
{
    const int even = conv_round_up(channels, 16);
    int best = 16, least = 1 << 30;

    for (int c = want; c >= want / 2 && c >= 16; c -= 16) {
        const int sum = conv_ceil_div(even, c) * c;
        if (sum < least) {
            least = sum;
            best = c;
        }
    }
    return best < even ? best : even;
}

/* Puts a tile into its place among n; how many there are then. */
static int enter(struct chain_tile *found, int n, const struct chain_tile *t)
{
    int at = n;

    for (int i = 0; i < n; i++)
        if (memcmp(&found[i], t, sizeof *t) == 0)
            return n;
    if (n == CHAIN_VARIANTS && found[--at].us <= t->us)
        return n;
    for (; at > 0 && found[at - 1].us > t->us; at--)
        found[at] = found[at - 1];
    found[at] = *t;
    return n < CHAIN_VARIANTS ? n + 1 : n;
}

bool chain_tile_of(const struct conv_geometry *g, int k, double bytes,
                   const struct kern_device *d, int variant,
                   struct chain_tile *out)
{
    /* Most warps, channels of a chunk, buffers. */
    static const int shape[][3] = {
        {8, 64, 2}, {8, 32, 3}, {8, 16, 4}, {4, 64, 2}, {4, 32, 3},
        {4, 16, 4}, {2, 64, 2}, {2, 32, 3}, {2, 16, 4}, {1, 64, 3}};
    enum { SHAPES = sizeof shape / sizeof shape[0] };
    struct chain_tile found[CHAIN_VARIANTS];
    int n = 0;

    if (k > CHAIN_OUTPUTS || variant < 0)
        return false;
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        if (!fits(kernel, k))
            continue;
        for (int i = 0; i < SHAPES; i++) {
            struct chain_tile t;
            if (shape[i][0] <= kernels[kernel][2] &&
                cut(g, bytes, d, kernels[kernel], shape[i][0],
                    chunk_for(g->c, shape[i][1]), shape[i][2], &t))
                n = enter(found, n, &t);
        }
    }
    if (variant >= n)
        return false;
    *out = found[variant];
    return true;
}
