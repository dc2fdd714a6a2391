/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: a ring of three, one being read, the others being made.  Every
 * batch follows from seed, epoch and its number alone. */
#include "tools/train/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/error.h"

#define SLOTS 3

struct loader {
    struct loader_options options;
    int64_t batches;
    struct loader_batch slot[SLOTS];
    uint32_t *order;
    uint8_t *picture, *scratch;
    double table[4][256]; /* channel, pixel: the value that the network sees */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running;        /* the thread is there */
    bool stop;           /* it is to end */
    int64_t made, taken; /* batches since the start */
    int64_t epoch, first;
    int failed; /* code of the error */
    struct infer_error err;
};

/* Fisher and Yates with a sequence that belongs to the epoch. */
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

/* Planes of bytes to pixels of numbers. */
static void store(const struct loader *l, const uint8_t *planes, void *x,
                  int64_t row)
{
    const struct data_set *set = l->options.set;
    const size_t pixels = (size_t)set->height * (size_t)set->width;
    const size_t channels = (size_t)set->channels;
    const size_t at = (size_t)row * pixels * channels;

    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < pixels; i++) {
            const double value = l->table[c][planes[c * pixels + i]];

            if (l->options.doubles)
                ((double *)x)[at + i * channels + c] = value;
            else
                ((float *)x)[at + i * channels + c] = (float)value;
        }
}

static int make_row(struct loader *l, int64_t epoch, int64_t picture,
                    struct loader_batch *b, int64_t row,
                    struct infer_error *err)
{
    const struct loader_options *o = &l->options;
    struct data_set *set = o->set;
    const uint8_t *planes;
    int rc = data_picture(set, picture, l->picture, err, &planes);

    if (rc < 0)
        return rc;
    if (augments(&o->augment)) {
        struct random r = random_at(o->seed, RANDOM_AUGMENT,
                                    (uint64_t)epoch * (uint64_t)set->count +
                                        (uint64_t)picture);

        if (planes != l->picture)
            memcpy(l->picture, planes, data_bytes(set));
        planes = l->picture;
        augment_apply(&o->augment, &r, l->picture, set->channels, set->height,
                      set->width, l->scratch);
    }
    store(l, planes, b->x, row);
    b->label[row] = set->label[picture];
    return 0;
}

/* left, but neither negative nor above most */
static int64_t at_most(int64_t left, int64_t most)
{
    return left < 0 ? 0 : left < most ? left : most;
}

static int make_batch(struct loader *l, int64_t epoch, int64_t number,
                      struct loader_batch *b, struct infer_error *err)
{
    const struct loader_options *o = &l->options;
    const int64_t whole = o->batch * o->ranks;
    const int64_t begin = number * whole + o->rank * o->batch;
    int64_t row;

    b->all = at_most(o->set->count - number * whole, whole);
    b->count = at_most(o->set->count - begin, o->batch);
    for (row = 0; row < b->count; row++) {
        const int rc = make_row(l, epoch, l->order[begin + row], b, row, err);

        if (rc < 0)
            return rc;
    }
    /* Rows that only fill up keep the pixels of an earlier batch: no label, no
     * loss. */
    for (; row < o->batch; row++)
        b->label[row] = -1;
    return 0;
}

/* ---- the thread ---------------------------------------------------- */

/* The slot for the next batch once it is free; NULL when it is time to end. */
static struct loader_batch *wait_for_room(struct loader *l)
{
    struct loader_batch *b = NULL;

    pthread_mutex_lock(&l->lock);
    /* The batch taken last is still being read. */
    while (!l->stop && l->made - l->taken >= SLOTS - 1)
        pthread_cond_wait(&l->changed, &l->lock);
    if (!l->stop)
        b = &l->slot[l->made % SLOTS];
    pthread_mutex_unlock(&l->lock);
    return b;
}

static void *work(void *user)
{
    struct loader *l = user;
    const struct loader_options *o = &l->options;
    int64_t ordered = -1;
    struct loader_batch *b;

    while ((b = wait_for_room(l)) != NULL) {
        const int64_t number = l->first + l->made;
        const int64_t epoch = l->epoch + number / l->batches;
        int rc;

        if (epoch != ordered)
            loader_order(o->seed, epoch, o->shuffle, o->set->count, l->order);
        ordered = epoch;
        rc = make_batch(l, epoch, number % l->batches, b, &l->err);
        pthread_mutex_lock(&l->lock);
        l->failed = rc;
        l->made += rc == 0;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        if (rc < 0)
            break;
    }
    return NULL;
}

static void end_thread(struct loader *l)
{
    if (!l->running)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    l->running = false;
}

/* ---- interface ----------------------------------------------------- */

static int allocate(struct loader *l, struct infer_error *err)
{
    const struct loader_options *o = &l->options;
    const size_t bytes = data_bytes(o->set);
    const size_t batch = (size_t)o->batch;

    l->order = malloc((size_t)o->set->count * sizeof(*l->order));
    l->picture = malloc(bytes);
    l->scratch = malloc(
        augment_scratch(o->set->channels, o->set->height, o->set->width));
    if (!l->order || !l->picture || !l->scratch)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < SLOTS; i++) {
        l->slot[i].x = calloc(
            batch, bytes * (o->doubles ? sizeof(double) : sizeof(float)));
        l->slot[i].label = calloc(batch, sizeof(*l->slot[i].label));
        if (!l->slot[i].x || !l->slot[i].label)
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    return 0;
}

int loader_new(const struct loader_options *options, struct infer_error *err,
               struct loader **out)
{
    const struct graph_preprocess *p = &options->preprocess;
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
    whole = options->batch * l->options.ranks;
    l->batches = options->set->count / whole;
    if (l->batches == 0 || (options->whole && options->set->count % whole))
        l->batches++;
    /* As infer computes it from the stored preprocessing. */
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 256; i++)
            l->table[c][i] = (double)((float)i * (p->scale / p->std[c]) +
                                      -p->mean[c] / p->std[c]);
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
    end_thread(l);
    for (int i = 0; i < SLOTS; i++) {
        free(l->slot[i].x);
        free(l->slot[i].label);
    }
    free(l->order);
    free(l->picture);
    free(l->scratch);
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
    end_thread(l);
    l->stop = false;
    l->made = l->taken = 0;
    l->failed = 0;
    l->epoch = epoch;
    l->first = first;
    if (pthread_create(&l->thread, NULL, work, l) != 0)
        return error_set(err, INFER_EMEMORY, "cannot start a thread");
    l->running = true;
    return 0;
}

int loader_next(struct loader *l, struct infer_error *err,
                const struct loader_batch **out)
{
    int rc;

    pthread_mutex_lock(&l->lock);
    while (l->made == l->taken && l->failed == 0)
        pthread_cond_wait(&l->changed, &l->lock);
    rc = l->made > l->taken ? 0 : l->failed;
    if (rc == 0)
        *out = &l->slot[l->taken++ % SLOTS];
    else if (err)
        *err = l->err;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return rc;
}
