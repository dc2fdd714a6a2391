/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: a ring of slots.  The caller reads one while threads make the
 * others.  A batch depends on seed, epoch and its number only. */
#include "tools/train/data/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/image/preprocess.h"

#define MAX_THREADS 16
/* One for the caller, one per thread, one spare. */
#define MAX_SLOTS (MAX_THREADS + 2)

struct worker {
    struct loader *loader;
    pthread_t thread;
    uint32_t *order; /* of epoch `ordered`; -1: none yet */
    int64_t ordered;
    uint8_t *picture, *scratch;
};

struct loader {
    struct loader_options options;
    int64_t batches;
    struct loader_batch slot[MAX_SLOTS];
    int64_t holds[MAX_SLOTS]; /* finished batch; -1: none */
    int slots;
    struct worker worker[MAX_THREADS];
    int running;          /* running threads */
    double table[4][256]; /* [channel][pixel]: input value of the network */
    float narrow[4][256]; /* the same */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;            /* asks the threads to end */
    int64_t begun, taken; /* batches since the start */
    int64_t epoch, first;
    int failed; /* code of the error */
    struct infer_error err;
};

/* Fisher-Yates shuffle with the epoch's random numbers. */
void loader_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count,
                  uint32_t *order)
{
    struct random r = random_at(seed, RANDOM_SHUFFLE, (uint64_t)epoch);

    for (int64_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    if (!shuffle)
        return;
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t k = (int64_t)random_below(&r, (uint64_t)i + 1);
        const uint32_t t = order[i];

        order[i] = order[k];
        order[k] = t;
    }
}

/* ---- one batch ----------------------------------------------------- */

static bool augments(const struct augment *a)
{
    return a->flip || a->crop > 0 || a->cutout > 0 || a->affine;
}

/* Planes of bytes to numbers, channels last. */
static void store(const struct loader *l, const uint8_t *planes, void *x,
                  int64_t row)
{
    const struct data_set *set = l->options.set;
    const size_t pixels = (size_t)set->height * (size_t)set->width;
    const size_t channels = (size_t)set->channels;
    const size_t at = (size_t)row * pixels * channels;

    for (size_t c = 0; c < channels; c++) {
        double *wide = (double *)x + at + c;
        float *narrow = (float *)x + at + c;

        for (size_t i = 0; l->options.doubles && i < pixels; i++)
            wide[i * channels] = l->table[c][planes[c * pixels + i]];
        for (size_t i = 0; !l->options.doubles && i < pixels; i++)
            narrow[i * channels] = l->narrow[c][planes[c * pixels + i]];
    }
}

static int make_row(struct worker *w, int64_t epoch, int64_t picture,
                    struct loader_batch *b, int64_t row,
                    struct infer_error *err)
{
    const struct loader *l = w->loader;
    const struct loader_options *o = &l->options;
    struct data_set *set = o->set;
    const uint8_t *planes;
    int rc = data_picture(set, picture, w->picture, err, &planes);

    if (rc < 0)
        return rc;
    if (augments(&o->augment)) {
        struct random r = random_at(o->seed, RANDOM_AUGMENT,
                                    (uint64_t)epoch * (uint64_t)set->count +
                                        (uint64_t)picture);

        if (planes != w->picture)
            memcpy(w->picture, planes, data_bytes(set));
        planes = w->picture;
        augment_apply(&o->augment, &r, w->picture, set->channels, set->height,
                      set->width, w->scratch);
    }
    store(l, planes, b->x, row);
    b->label[row] = set->label[picture];
    return 0;
}

/* remaining, clamped to 0 .. most */
static int64_t at_most(int64_t left, int64_t most)
{
    return left < 0 ? 0 : left < most ? left : most;
}

static int make_batch(struct worker *w, int64_t epoch, int64_t number,
                      struct loader_batch *b, struct infer_error *err)
{
    const struct loader_options *o = &w->loader->options;
    const int64_t whole = o->batch * o->ranks;
    const int64_t begin = number * whole + o->rank * o->batch;
    int64_t row;

    b->all = at_most(o->set->count - number * whole, whole);
    b->count = at_most(o->set->count - begin, o->batch);
    for (row = 0; row < b->count; row++) {
        const int rc = make_row(w, epoch, w->order[begin + row], b, row, err);

        if (rc < 0)
            return rc;
    }
    /* Filling rows keep the pixels of an earlier batch; without a label they
     * add no loss. */
    for (; row < o->batch; row++)
        b->label[row] = -1;
    return 0;
}

/* ---- the threads --------------------------------------------------- */

/* Number of the next batch to make, once its slot is free; -1 at the end. */
static int64_t next_to_make(struct loader *l)
{
    int64_t number = -1;

    pthread_mutex_lock(&l->lock);
    /* The caller still reads the last batch. */
    while (!l->stop && l->begun - l->taken >= l->slots - 1)
        pthread_cond_wait(&l->changed, &l->lock);
    if (!l->stop) {
        number = l->begun++;
        l->holds[number % l->slots] = -1;
    }
    pthread_mutex_unlock(&l->lock);
    return number;
}

static void tell(struct loader *l, int64_t number, int rc,
                 const struct infer_error *err)
{
    pthread_mutex_lock(&l->lock);
    if (rc == 0) {
        l->holds[number % l->slots] = number;
    } else if (l->failed == 0) {
        l->failed = rc;
        l->err = *err;
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static void *work(void *user)
{
    struct worker *w = user;
    struct loader *l = w->loader;
    const struct loader_options *o = &l->options;
    int64_t number;

    while ((number = next_to_make(l)) >= 0) {
        const int64_t batch = l->first + number;
        const int64_t epoch = l->epoch + batch / l->batches;
        struct infer_error err = {0};
        int rc;

        if (epoch != w->ordered)
            loader_order(o->seed, epoch, o->shuffle, o->set->count, w->order);
        w->ordered = epoch;
        rc = make_batch(w, epoch, batch % l->batches,
                        &l->slot[number % l->slots], &err);
        tell(l, number, rc, &err);
        if (rc < 0)
            break;
    }
    return NULL;
}

static void end_threads(struct loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    while (l->running > 0)
        pthread_join(l->worker[--l->running].thread, NULL);
}

/* ---- interface ----------------------------------------------------- */

static int allocate_worker(struct loader *l, struct worker *w,
                           struct infer_error *err)
{
    const struct data_set *set = l->options.set;

    w->loader = l;
    w->ordered = -1;
    w->order = malloc((size_t)set->count * sizeof(*w->order));
    w->picture = malloc(data_bytes(set));
    w->scratch =
        malloc(augment_scratch(set->channels, set->height, set->width));
    return w->order && w->picture && w->scratch
               ? 0
               : error_set(err, INFER_EMEMORY, "out of memory");
}

/* Memory that the device reads directly (pinned), if it can. */
static int allocate_pictures(struct loader *l, size_t bytes,
                             struct infer_error *err, struct loader_batch *out)
{
    const struct device *d = l->options.device;
    int rc = 0;

    out->readable = d && d->ops->alloc_host;
    if (out->readable)
        rc = d->ops->alloc_host(d, bytes, err, &out->x);
    else
        out->x = malloc(bytes);
    if (rc == 0 && !out->x)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    if (rc == 0)
        memset(out->x, 0, bytes);
    return rc;
}

static void free_pictures(const struct loader *l, struct loader_batch *b)
{
    if (b->readable)
        l->options.device->ops->free_host(l->options.device, b->x);
    else
        free(b->x);
}

static int allocate(struct loader *l, struct infer_error *err)
{
    const struct loader_options *o = &l->options;
    const size_t bytes = data_bytes(o->set);
    const size_t batch = (size_t)o->batch;
    int rc = 0;

    for (int i = 0; rc == 0 && i < o->threads; i++)
        rc = allocate_worker(l, &l->worker[i], err);
    for (int i = 0; rc == 0 && i < l->slots; i++) {
        rc = allocate_pictures(
            l, batch * bytes * (o->doubles ? sizeof(double) : sizeof(float)),
            err, &l->slot[i]);
        l->slot[i].label = calloc(batch, sizeof(*l->slot[i].label));
        if (rc == 0 && !l->slot[i].label)
            rc = error_set(err, INFER_EMEMORY, "out of memory");
    }
    return rc;
}

/* The input values of the stored preprocessing, as in infer. */
static void fill_table(struct loader *l)
{
    const struct graph_preprocess *p = &l->options.preprocess;

    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 256; i++) {
            l->narrow[c][i] =
                (float)i * preprocess_scale(p, c) + preprocess_shift(p, c);
            l->table[c][i] = (double)l->narrow[c][i];
        }
}

int loader_new(const struct loader_options *options, struct infer_error *err,
               struct loader **out)
{
    struct loader *l = calloc(1, sizeof(*l));
    int64_t whole;
    int rc;

    if (!l)
        return error_set(err, INFER_EMEMORY, "out of memory");
    l->options = *options;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (l->options.ranks == 0)
        l->options.ranks = 1;
    if (l->options.threads < 1)
        l->options.threads = 1;
    if (l->options.threads > MAX_THREADS)
        l->options.threads = MAX_THREADS;
    l->slots = l->options.threads + 2;
    whole = options->batch * l->options.ranks;
    l->batches = options->set->count / whole;
    if (l->batches == 0 || (options->whole && options->set->count % whole))
        l->batches++;
    fill_table(l);
    rc = allocate(l, err);
    if (rc < 0) {
        loader_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void loader_free(struct loader *l)
{
    if (!l)
        return;
    end_threads(l);
    for (int i = 0; i < MAX_SLOTS; i++) {
        free_pictures(l, &l->slot[i]);
        free(l->slot[i].label);
    }
    for (int i = 0; i < MAX_THREADS; i++) {
        free(l->worker[i].order);
        free(l->worker[i].picture);
        free(l->worker[i].scratch);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

int64_t loader_batches(const struct loader *l)
{
    return l->batches;
}

int loader_start(struct loader *l, int64_t epoch, int64_t first,
                 struct infer_error *err)
{
    end_threads(l);
    l->stop = false;
    l->begun = l->taken = 0;
    l->failed = 0;
    l->epoch = epoch;
    l->first = first;
    for (int i = 0; i < l->slots; i++)
        l->holds[i] = -1;
    while (l->running < l->options.threads) {
        struct worker *w = &l->worker[l->running];

        if (pthread_create(&w->thread, NULL, work, w) != 0)
            return error_set(err, INFER_EMEMORY, "cannot start a thread");
        l->running++;
    }
    return 0;
}

int loader_next(struct loader *l, struct infer_error *err,
                const struct loader_batch **out)
{
    const int at = (int)(l->taken % l->slots);
    int rc;

    pthread_mutex_lock(&l->lock);
    while (l->holds[at] != l->taken && l->failed == 0)
        pthread_cond_wait(&l->changed, &l->lock);
    rc = l->holds[at] == l->taken ? 0 : l->failed;
    if (rc == 0) {
        *out = &l->slot[at];
        l->taken++;
    } else if (err) {
        *err = l->err;
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return rc;
}
