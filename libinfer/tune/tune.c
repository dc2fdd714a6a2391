/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring rows.
 *
 * A row is launched once to load it, once between marks, and then, where it
 * is short and still in the race, as a recorded series that is replayed: the
 * time of one launch of the series counts, so that what a launch costs the CPU
 * does not.  Activations stay in one place, as a layer finds them where the
 * layer before left them; packed weights move on from launch to launch, since
 * those of a layer are rarely still cached when its turn comes again.
 *
 * On a device without marks and recordings (the CPU) launches are timed by the
 * clock.
 */
#include "config.h"

#include "libinfer/tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/backend.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/memory/view.h"

/* A series takes this long, seconds, but has no more launches than MAX_SERIES;
 * it is replayed REPLAYS times and the shortest counts. */
#define SERIES_TIME 200e-6
#define MAX_SERIES  20
#define REPLAYS     3

/* A row whose first launch takes this many times the best series is out of the
 * race; the launch itself may cost LAUNCH_TIME, seconds. */
#define HOPELESS    3
#define LAUNCH_TIME 15e-6
/* Seconds of what is out of the race. */
#define FOREVER 1e30

/* Packed weights are spread over this many bytes, more than a GPU's cache
 * holds beside them, in MAX_COPIES copies at most. */
#define SPREAD     (96u << 20)
#define MAX_COPIES 16

/* Variants of a row that are tried, but for an exhaustive search: a row offers
 * the best first, and a vendor's library takes its time to prepare each. */
#define MAX_VARIANTS 8
/* Seconds of measuring after which vendors' libraries, which compile some of
 * their kernels while they prepare them, only stand in for rows that are not
 * there, with their first variant; but for an exhaustive search. */
#define PATIENCE 10.0

#define ALIGN 256

/* Bytes of numbers that fill the memory, over and over.  The first of the pool
 * are no tensor's. */
#define PATTERN (1u << 20)

struct tuner {
    enum tune_mode mode;
    const struct device *device;
    struct tune_cache *cache;
    unsigned char *pool;
    size_t pool_bytes;
    struct infer_tuning_info info;
};

/* Where a problem's tensors lie in the pool. */
struct room {
    size_t in[KERN_MAX_IN], in_step[KERN_MAX_IN]; /* step: 0 for one place */
    size_t out[KERN_MAX_OUT];
    size_t written; /* outputs and workspace lie from here to the end */
    size_t workspace, total;
    int copies[KERN_MAX_IN];
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- opening ------------------------------------------------------- */

/* The vendors' libraries whose kernels may be chosen, with their versions; ""
 * for none.  They are loaded for that even if no kernel of theirs turns out the
 * fastest: a choice that was measured against other versions does not hold. */
static void name_libraries(const struct row_tiers *tiers, char *text,
                           size_t bytes)
{
    uint32_t all = 0;
    size_t used = 0;

    for (int i = 0; i < tiers->n; i++)
        all |= tiers->tier[i];
    text[0] = '\0';
    for (int i = 0; i < INFER_BACKEND_COUNT; i++) {
        const struct kern_library *l =
            kern_backend_of((enum infer_backend)i)->library;

        for (; (all >> i & 1) != 0 && l->name && used < bytes; l++) {
            const char *version = l->version(NULL);

            used += (size_t)snprintf(text + used, bytes - used, ", %s%s",
                                     version ? "" : "no ",
                                     version ? version : l->name);
        }
    }
}

int tuner_open(enum tune_mode mode, const char *path,
               const struct device *device, const struct row_tiers *tiers,
               struct infer_error *err, struct tuner **out)
{
    struct tuner *t = calloc(1, sizeof *t);
    char name[160] = "cpu", libraries[64], label[224];
    int rc = 0;

    if (!t)
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    if (mode == TUNE_ON && device->kern.kind == KERN_CPU)
        mode = TUNE_OFF;
    t->mode = mode;
    t->device = device;
    if (mode != TUNE_OFF) {
        name_libraries(tiers, libraries, sizeof libraries);
        if (device->ops->describe)
            rc = device->ops->describe(device, err, name, sizeof name);
        snprintf(label, sizeof label, "%.140s%.62s", name, libraries);
        if (rc == 0)
            rc = tune_cache_open(path, label, err, &t->cache);
    }
    if (rc < 0) {
        tuner_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

static void free_pool(struct tuner *t)
{
    if (t->pool)
        t->device->ops->free(t->device, t->pool);
    t->pool = NULL;
    t->pool_bytes = 0;
}

void tuner_close(struct tuner *t)
{
    if (!t)
        return;
    free_pool(t);
    tune_cache_close(t->cache);
    free(t);
}

enum tune_mode tuner_mode(const struct tuner *t)
{
    return t ? t->mode : TUNE_OFF;
}

const struct kern_device *tuner_device(const struct tuner *t)
{
    return &t->device->kern;
}

struct tune_cache *tuner_cache(const struct tuner *t)
{
    return t ? t->cache : NULL;
}

void tuner_count(struct tuner *t, int exchanged, double seconds)
{
    t->info.exchanged += exchanged;
    t->info.seconds += seconds;
}

void tuner_finish(struct tuner *t)
{
    if (!t || t->mode == TUNE_OFF)
        return;
    free_pool(t);
    tune_cache_write(t->cache);
}

void tuner_info(const struct tuner *t, struct infer_tuning_info *out)
{
    if (t)
        memcpy(out, &t->info, sizeof *out);
    else
        memset(out, 0, sizeof *out);
    out->cache = t && t->cache ? tune_cache_path(t->cache) : "";
    out->note = t && t->cache ? tune_cache_note(t->cache) : "";
}

char *tuner_text(const struct tuner *t)
{
    return t && t->cache ? tune_cache_text(t->cache) : NULL;
}

int tuner_learn(struct tuner *t, const char *text, struct infer_error *err)
{
    return t && t->cache ? tune_cache_learn(t->cache, text, err) : 0;
}

/* ---- memory -------------------------------------------------------- */

static bool add_room(size_t bytes, size_t *total, size_t *at)
{
    *at = *total;
    return checked_add(bytes, ALIGN - 1, &bytes) &&
           checked_add(*total, bytes / ALIGN * ALIGN, total);
}

/* Room for a tensor; *at is that of the element with all indices 0. */
static bool add_tensor_room(const struct kern_tensor *t, size_t *total,
                            size_t *at)
{
    const size_t below =
        (size_t)view_reach_below(t) * infer_dtype_size(t->dtype);

    if (!add_room(kern_tensor_span(t), total, at))
        return false;
    *at += below;
    return true;
}

/* Room for a packed constant in as many copies as are of use. */
static bool add_packed_room(size_t bytes, struct room *r, int i)
{
    size_t copies = bytes > 0 ? SPREAD / bytes : 1, at;

    copies = copies < 1 ? 1 : copies > MAX_COPIES ? MAX_COPIES : copies;
    r->copies[i] = (int)copies;
    if (!add_room(bytes, &r->total, &r->in[i]))
        return false;
    r->in_step[i] = r->total - r->in[i];
    while (--copies > 0)
        if (!add_room(bytes, &r->total, &at))
            return false;
    return true;
}

static bool lay_out(const struct kern_exec *e, struct room *r)
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
            good = add_packed_room(e->packed[i], r, i);
        else
            good = add_tensor_room(&p->in[i], &r->total, &r->in[i]);
    }
    r->written = r->total;
    for (i = 0; i < p->n_out && good; i++)
        good = add_tensor_room(&p->out[i], &r->total, &r->out[i]);
    return good && add_room(e->workspace, &r->total, &r->workspace);
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

int tuner_fill(const struct device *d, void *memory, size_t bytes,
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
static int restore(const struct tuner *t, const struct room *r,
                   struct infer_error *err)
{
    const size_t bytes = r->total - r->written;
    const size_t first = bytes < PATTERN ? bytes : PATTERN;
    unsigned char *to = t->pool + r->written;
    int rc = t->device->ops->copy_within(t->device, to, t->pool, first, err);

    return rc < 0 ? rc : fill_on(t->device, to, first, bytes, err);
}

static int reserve(struct tuner *t, size_t bytes, struct infer_error *err)
{
    void *pool;
    int rc;

    if (bytes <= t->pool_bytes)
        return 0;
    free_pool(t);
    rc = t->device->ops->alloc(t->device, bytes, err, &pool);
    if (rc < 0)
        return rc;
    t->pool = pool;
    t->pool_bytes = bytes;
    return tuner_fill(t->device, t->pool, bytes, err);
}

/* ---- time ---------------------------------------------------------- */

static int launch(const struct tuner *t, const struct kern_exec *e,
                  const struct room *r, int turn, struct infer_error *err)
{
    struct kern_args args;
    int i;

    memset(&args, 0, sizeof args);
    for (i = 0; i < e->problem.n_in; i++)
        if (e->problem.in[i].dtype != INFER_NONE)
            args.in[i] = t->pool + r->in[i] +
                         (r->copies[i] > 1
                              ? r->in_step[i] * (size_t)(turn % r->copies[i])
                              : 0);
    for (i = 0; i < e->problem.n_out; i++)
        args.out[i] = t->pool + r->out[i];
    args.workspace = t->pool + r->workspace;
    args.stream = t->device->stream;
    return device_launch(t->device, e, &args, err);
}

/* Seconds of one launch between marks. */
static int time_once(const struct tuner *t, const struct kern_exec *e,
                     const struct room *r, int turn, struct infer_error *err,
                     double *seconds)
{
    const struct device *d = t->device;
    const double start = now();
    int rc = d->ops->begin(d, err);

    if (rc == 0 && d->ops->mark)
        rc = d->ops->mark(d, 0, err);
    if (rc == 0)
        rc = launch(t, e, r, turn, err);
    if (rc == 0 && d->ops->mark)
        rc = d->ops->mark(d, 1, err);
    if (rc == 0)
        rc = d->ops->end(d, err);
    *seconds = now() - start;
    if (rc == 0 && d->ops->mark)
        rc = d->ops->elapsed(d, 1, err, seconds);
    return rc;
}

static int record_series(const struct tuner *t, const struct kern_exec *e,
                         const struct room *r, int n, struct infer_error *err,
                         struct device_graph **out)
{
    const struct device *d = t->device;
    int i, rc = d->ops->record_begin(d, err);

    if (rc < 0)
        return rc;
    for (i = 0; rc == 0 && i < n; i++)
        rc = launch(t, e, r, i, err);
    if (rc < 0) {
        d->ops->record_end(d, NULL, NULL);
        return rc;
    }
    return d->ops->record_end(d, err, out);
}

/* The shortest of REPLAYS recorded series of n launches; *seconds: of one. */
static int time_series(const struct tuner *t, const struct kern_exec *e,
                       const struct room *r, int n, struct infer_error *err,
                       double *seconds)
{
    const struct device *d = t->device;
    struct device_graph *graph = NULL;
    int i, rc = d->ops->begin(d, err);

    if (rc == 0)
        rc = record_series(t, e, r, n, err, &graph);
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

/* Times a prepared problem; *seconds stays where it is out of the race. */
static int race(const struct tuner *t, const struct kern_exec *e,
                const struct room *r, double best, struct infer_error *err,
                double *seconds)
{
    double once, again;
    int rc = time_once(t, e, r, 0, err, &once); /* loads the kernel */

    if (rc == 0)
        rc = time_once(t, e, r, 1, err, &once);
    if (rc < 0 || once > HOPELESS * best + LAUNCH_TIME)
        return rc;
    if (t->device->ops->replay)
        return time_series(t, e, r, series_of(once), err, seconds);
    rc = time_once(t, e, r, 2, err, &again);
    *seconds = once < again ? once : again;
    return rc;
}

/* ---- choosing ------------------------------------------------------ */

/* What takes up to this many times as long as the fastest, and no more seconds
 * than neighbours may win by starting early, is near to it: of the choices that
 * networks took on an H200 none was slower by more than 1.75 us. */
#define NEAR         1.3
#define NEAR_SECONDS 2e-6

/* The fastest so far, one behind the other. */
struct field {
    struct tune_choice at[1 + TUNE_NEAR];
    int n;
};

static double best_of(const struct field *f)
{
    return f->n > 0 ? f->at[0].seconds : FOREVER;
}

/* Of two that are as fast the one that was there first stays ahead. */
static void enter(struct field *f, const struct tune_choice *c)
{
    int i = f->n;

    if (f->n <= TUNE_NEAR)
        f->n++;
    else if (f->at[--i].seconds <= c->seconds)
        return;
    for (; i > 0 && f->at[i - 1].seconds > c->seconds; i--)
        memcpy(&f->at[i], &f->at[i - 1], sizeof *c);
    memcpy(&f->at[i], c, sizeof *c);
}

/* Measures one variant.  What cannot be prepared or finds no memory is passed
 * over; a launch that fails is an error, since the device may be lost. */
static int measure(struct tuner *t, const struct kern_row *row, int variant,
                   const struct kern_problem *p, struct field *field,
                   struct infer_error *err)
{
    const struct device *d = t->device;
    struct tune_choice c = {.row = row, .variant = variant};
    double seconds = FOREVER;
    struct kern_exec e;
    struct room room;
    int rc;

    if (kern_prepare_variant(row, p, &d->kern, variant, NULL, &e) < 0)
        return 0;
    if (p->deterministic && (e.flags & KERN_NONDETERMINISTIC)) {
        kern_release(&e);
        return 0;
    }
    if (!lay_out(&e, &room) || reserve(t, room.total, NULL) < 0) {
        kern_release(&e);
        return 0;
    }
    rc = race(t, &e, &room, best_of(field), err, &seconds);
    if (rc == 0)
        rc = restore(t, &room, err);
    if (rc < 0 && d->ops->give_up)
        d->ops->give_up(d, err);
    if (rc == 0 && seconds < FOREVER) {
        memcpy(c.variant_name, e.variant_name, sizeof c.variant_name);
        c.seconds = seconds;
        enter(field, &c);
    }
    kern_release(&e);
    return rc;
}

/* Whether any of the rows is no vendor's. */
static bool has_own(const struct kern_row *const *row, int n)
{
    for (int i = 0; i < n; i++)
        if (row[i]->backend != INFER_BACKEND_CUDNN)
            return true;
    return false;
}

/* How many variants of a row are tried. */
static int variants_of(const struct tuner *t, const struct kern_problem *p,
                       const struct kern_row *row, bool own)
{
    const bool late =
        t->info.seconds > PATIENCE && row->backend == INFER_BACKEND_CUDNN;
    int n;

    if (t->mode == TUNE_EXHAUSTIVE)
        return kern_variants(row, p, &t->device->kern, NULL);
    if (late && own)
        return 0;
    n = kern_variants(row, p, &t->device->kern, NULL);
    return late && n > 1 ? 1 : n > MAX_VARIANTS ? MAX_VARIANTS : n;
}

static int measure_all(struct tuner *t, const struct kern_problem *p,
                       const struct kern_row *const *row, int n,
                       struct infer_error *err, struct field *field)
{
    const bool own = has_own(row, n);
    int rc = 0;

    for (int i = 0; rc == 0 && i < n; i++) {
        const int variants = variants_of(t, p, row[i], own);

        for (int k = 0; rc == 0 && k < variants; k++)
            rc = measure(t, row[i], k, p, field, err);
    }
    return rc;
}

/* ---- the cache ----------------------------------------------------- */

int tuner_take(struct tuner *t, const struct kern_problem *p,
               struct infer_error *err)
{
    char key[TUNE_KEY];

    t->info.cached++;
    tune_key(p, key, sizeof key);
    return tune_cache_use(t->cache, key, err);
}

/* What must be the same on every run is never exchanged: there the fastest is
 * all that is of use. */
static int remember(struct tuner *t, const struct kern_problem *p,
                    const char *key, const struct field *f,
                    struct infer_error *err)
{
    struct tune_entry entry = {.best = tune_way_of(&f->at[0]),
                               .exhaustive = t->mode == TUNE_EXHAUSTIVE};
    int i, rc;

    for (i = 1; i < f->n && !p->deterministic; i++)
        if (f->at[i].seconds <= NEAR * f->at[0].seconds &&
            f->at[i].seconds <= f->at[0].seconds + NEAR_SECONDS)
            entry.near[entry.n_near++] = tune_way_of(&f->at[i]);
    rc = tune_cache_add(t->cache, key, &entry, err);
    return rc < 0 ? rc : tune_cache_use(t->cache, key, err);
}

int tuner_choose(struct tuner *t, const struct kern_problem *p,
                 const struct kern_row *const *row, int n,
                 struct infer_error *err, struct tune_choice *out)
{
    struct field field = {.n = 0};
    const double start = now();
    char key[TUNE_KEY];
    int rc;

    tune_key(p, key, sizeof key);
    rc = measure_all(t, p, row, n, err, &field);
    t->info.seconds += now() - start;
    if (rc < 0) {
        error_prefix(err, "measuring %s", key);
        return rc;
    }
    memset(out, 0, sizeof *out);
    out->row = row[0];
    if (field.n == 0)
        return 0;
    t->info.measured++;
    memcpy(out, &field.at[0], sizeof *out);
    /* As the cache will give it. */
    out->seconds =
        1e-6 * ((double)(int64_t)(field.at[0].seconds * 1e8 + 0.5) / 100);
    return remember(t, p, key, &field, err);
}
