/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of one prepared kernel.
 *
 * A kernel is launched once to load it, once between marks, and then, where it
 * is short and not pruned, as a recorded series that is replayed: the time of
 * one launch of the series counts, so that the CPU's cost of a launch does not.
 * Activations stay in one place, as a layer finds them where the layer before
 * left them; packed weights move on from launch to launch, since a layer's are
 * rarely still cached when it runs again.
 *
 * On a device without marks and recordings (the CPU) launches are timed by the
 * clock.
 */
#include "libinfer/tune/tune_measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/memory/view.h"
#include "libinfer/tune/tune.h"

/* A series takes this long, seconds, but has no more launches than MAX_SERIES;
 * it is replayed REPLAYS times and the shortest counts. */
#define SERIES_TIME 200e-6
#define MAX_SERIES  20
#define REPLAYS     3

/* A kernel whose second launch takes this many times the best time so far is
 * pruned; the launch itself may cost LAUNCH_TIME (seconds). */
#define PRUNE_RATIO 3
#define LAUNCH_TIME 15e-6

/* Packed weights are spread over this many bytes, more than a GPU's cache
 * holds beside them, in MAX_COPIES copies at most. */
#define SPREAD     (96u << 20)
#define MAX_COPIES 16

#define ALIGN 256

/* Bytes of numbers that fill the memory, over and over.  The first of the pool
 * are no tensor's. */
#define PATTERN (1u << 20)

/* Byte offsets of a problem's tensors in the pool. */
struct pool_layout {
    size_t in[KERN_MAX_IN], in_step[KERN_MAX_IN]; /* from copy to copy */
    size_t out[KERN_MAX_OUT];
    size_t written; /* outputs and workspace lie from here to the end */
    size_t workspace, total;
    int copies[KERN_MAX_IN];
};

double tune_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- memory -------------------------------------------------------- */

void tune_pool_clear(struct tune_pool *pool)
{
    if (pool->memory)
        pool->device->ops->free(pool->device, pool->memory);
    pool->memory = NULL;
    pool->bytes = 0;
}

static bool add_piece(size_t bytes, size_t *total, size_t *at)
{
    *at = *total;
    return checked_add(bytes, ALIGN - 1, &bytes) &&
           checked_add(*total, bytes / ALIGN * ALIGN, total);
}

/* Adds a tensor; *at: offset of its element with all indices 0. */
static bool add_tensor(const struct kern_tensor *t, size_t *total, size_t *at)
{
    const size_t below =
        (size_t)view_reach_below(t) * infer_dtype_size(t->dtype);

    if (!add_piece(kern_tensor_span(t), total, at))
        return false;
    *at += below;
    return true;
}

/* Adds a packed constant, in as many copies as are of use. */
static bool add_packed(size_t bytes, struct pool_layout *r, int i)
{
    size_t copies = bytes > 0 ? SPREAD / bytes : 1, at;

    copies = copies < 1 ? 1 : copies > MAX_COPIES ? MAX_COPIES : copies;
    r->copies[i] = (int)copies;
    if (!add_piece(bytes, &r->total, &r->in[i]))
        return false;
    r->in_step[i] = r->total - r->in[i];
    while (--copies > 0)
        if (!add_piece(bytes, &r->total, &at))
            return false;
    return true;
}

static bool lay_out(const struct kern_exec *e, struct pool_layout *r)
{
    const struct kern_problem *p = &e->problem;
    bool good = true;
    int i;

    memset(r, 0, sizeof *r);
    r->total = PATTERN;
    for (i = 0; i < p->n_in && good; i++) {
        if (p->in[i].dtype == INFER_NONE)
            continue;
        if (e->packed[i] > 0)
            good = add_packed(e->packed[i], r, i);
        else
            good = add_tensor(&p->in[i], &r->total, &r->in[i]);
    }
    r->written = r->total;
    for (i = 0; i < p->n_out && good; i++)
        good = add_tensor(&p->out[i], &r->total, &r->out[i]);
    return good && add_piece(e->workspace, &r->total, &r->workspace);
}

/* Numbers of both signs: as halves from 1/8 to 2, as singles and bfloat16
 * small but normal.  Zeros would draw less power, so that clocks would be
 * those of no real network. */
static void make_pattern(uint16_t *to)
{
    uint32_t state = 2463534242u;
    size_t i;

    for (i = 0; i < PATTERN / sizeof *to; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        to[i] = (uint16_t)((state & 0x8fff) | 0x3000);
    }
}

/* Fills memory whose first bytes are filled. */
static int fill_on(const struct device *d, unsigned char *to, size_t filled,
                   size_t bytes, struct infer_error *err)
{
    int rc = 0;

    while (rc == 0 && filled < bytes) {
        const size_t n = bytes - filled < filled ? bytes - filled : filled;

        rc = d->ops->copy_within(d, to + filled, to, n, err);
        filled += n;
    }
    return rc;
}

int tune_fill(const struct device *d, void *memory, size_t bytes,
              struct infer_error *err)
{
    const size_t first = bytes < PATTERN ? bytes : PATTERN;
    uint16_t *pattern = malloc(PATTERN);
    int rc;

    if (!pattern)
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    make_pattern(pattern);
    rc = d->ops->copy_in(d, memory, pattern, first, err);
    if (rc == 0)
        rc = fill_on(d, memory, first, bytes, err);
    free(pattern);
    return rc;
}

/* Fills what a kernel has written.  Left there it would be read by kernels
 * measured later, and what they make of it by others, until numbers overflow:
 * kernels that compute rows with NaNs again would seem slow. */
static int restore(const struct tune_pool *pool, const struct pool_layout *r,
                   struct infer_error *err)
{
    const size_t bytes = r->total - r->written;
    const size_t first = bytes < PATTERN ? bytes : PATTERN;
    unsigned char *to = pool->memory + r->written;
    int rc = pool->device->ops->copy_within(pool->device, to, pool->memory,
                                            first, err);

    return rc < 0 ? rc : fill_on(pool->device, to, first, bytes, err);
}

static int reserve(struct tune_pool *pool, size_t bytes,
                   struct infer_error *err)
{
    void *memory;
    int rc;

    if (bytes <= pool->bytes)
        return 0;
    tune_pool_clear(pool);
    rc = pool->device->ops->alloc(pool->device, bytes, err, &memory);
    if (rc < 0)
        return rc;
    pool->memory = memory;
    pool->bytes = bytes;
    return tune_fill(pool->device, memory, bytes, err);
}

/* ---- time ---------------------------------------------------------- */

static int launch(const struct tune_pool *pool, const struct kern_exec *e,
                  const struct pool_layout *r, int turn,
                  struct infer_error *err)
{
    struct kern_args args;
    int i;

    memset(&args, 0, sizeof args);
    for (i = 0; i < e->problem.n_in; i++)
        if (e->problem.in[i].dtype != INFER_NONE)
            args.in[i] = pool->memory + r->in[i] +
                         (r->copies[i] > 1
                              ? r->in_step[i] * (size_t)(turn % r->copies[i])
                              : 0);
    for (i = 0; i < e->problem.n_out; i++)
        args.out[i] = pool->memory + r->out[i];
    args.workspace = pool->memory + r->workspace;
    args.stream = pool->device->stream;
    return device_launch(pool->device, e, &args, err);
}

/* Seconds of one launch between marks. */
static int time_once(const struct tune_pool *pool, const struct kern_exec *e,
                     const struct pool_layout *r, int turn,
                     struct infer_error *err, double *seconds)
{
    const struct device *d = pool->device;
    const double start = tune_now();
    int rc = d->ops->begin(d, err);

    if (rc == 0 && d->ops->mark)
        rc = d->ops->mark(d, 0, err);
    if (rc == 0)
        rc = launch(pool, e, r, turn, err);
    if (rc == 0 && d->ops->mark)
        rc = d->ops->mark(d, 1, err);
    if (rc == 0)
        rc = d->ops->end(d, err);
    *seconds = tune_now() - start;
    if (rc == 0 && d->ops->mark)
        rc = d->ops->elapsed(d, 1, err, seconds);
    return rc;
}

static int record_series(const struct tune_pool *pool,
                         const struct kern_exec *e, const struct pool_layout *r,
                         int n, struct infer_error *err,
                         struct device_graph **out)
{
    const struct device *d = pool->device;
    int i, rc = d->ops->record_begin(d, err);

    if (rc < 0)
        return rc;
    for (i = 0; rc == 0 && i < n; i++)
        rc = launch(pool, e, r, i, err);
    return device_record_end(d, rc, err, out);
}

/* The shortest of REPLAYS recorded series of n launches; *seconds: of one. */
static int time_series(const struct tune_pool *pool, const struct kern_exec *e,
                       const struct pool_layout *r, int n,
                       struct infer_error *err, double *seconds)
{
    const struct device *d = pool->device;
    struct device_graph *graph = NULL;
    int i, rc = d->ops->begin(d, err);

    if (rc == 0)
        rc = record_series(pool, e, r, n, err, &graph);
    if (rc == 0)
        rc = d->ops->replay(d, graph, err);
    if (rc == 0)
        rc = d->ops->mark(d, 0, err);
    for (i = 0; rc == 0 && i < REPLAYS; i++) {
        rc = d->ops->replay(d, graph, err);
        if (rc == 0)
            rc = d->ops->mark(d, i + 1, err);
    }
    if (rc == 0)
        rc = d->ops->end(d, err);
    for (i = 0; rc == 0 && i < REPLAYS; i++) {
        double each;

        rc = d->ops->elapsed(d, i + 1, err, &each);
        each /= n;
        if (rc == 0 && (i == 0 || each < *seconds))
            *seconds = each;
    }
    if (graph)
        d->ops->graph_free(d, graph);
    return rc;
}

/* Launches of a series whose single launch took that long. */
static int series_of(double seconds)
{
    const double n = SERIES_TIME / (seconds > 1e-7 ? seconds : 1e-7);

    return n > MAX_SERIES ? MAX_SERIES : n < 1 ? 1 : (int)n + 1;
}

static int time_kernel(const struct tune_pool *pool, const struct kern_exec *e,
                       const struct pool_layout *r, double best,
                       struct infer_error *err, double *seconds)
{
    double once, again;
    int rc = time_once(pool, e, r, 0, err, &once); /* loads the kernel */

    if (rc == 0)
        rc = time_once(pool, e, r, 1, err, &once);
    if (rc < 0 || once > PRUNE_RATIO * best + LAUNCH_TIME)
        return rc;
    if (pool->device->ops->replay)
        return time_series(pool, e, r, series_of(once), err, seconds);
    rc = time_once(pool, e, r, 2, err, &again);
    *seconds = once < again ? once : again;
    return rc;
}

int tune_measure(struct tune_pool *pool, const struct kern_exec *e, double best,
                 struct infer_error *err, double *seconds)
{
    const struct device *d = pool->device;
    struct pool_layout r;
    int rc;

    *seconds = TUNE_PRUNED;
    if (!lay_out(e, &r) || reserve(pool, r.total, NULL) < 0)
        return 0;
    rc = time_kernel(pool, e, &r, best, err, seconds);
    if (rc == 0)
        rc = restore(pool, &r, err);
    if (rc < 0 && d->ops->give_up)
        d->ops->give_up(d, err);
    return rc;
}
