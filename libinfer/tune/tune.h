/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel choice by measurement.
 *
 * A tuner belongs to one session, or to one run of train.  It runs the rows
 * that could compute a problem on memory of its own, filled with numbers of
 * moderate size, and keeps the fastest in a cache: in memory, and in a JSON
 * file that all processes of a user share.  Entries hold for one device, driver
 * and build.
 */
#ifndef LIBINFER_TUNE_TUNE_H
#define LIBINFER_TUNE_TUNE_H

#include "include/infer.h"
#include "kernels/kern.h"
#include "libinfer/device/device.h"
#include "libinfer/tune/rows.h"

enum tune_mode { TUNE_OFF, TUNE_ON, TUNE_EXHAUSTIVE };

struct tuner;

/* path: the cache file, NULL for the usual place, "" for none.  A file that
 * cannot be used is no error: tuner_info() says why.  device must outlive the
 * tuner; on a CPU TUNE_ON measures nothing.  tiers: the backends whose rows may
 * compete: what is fastest depends on them and on their libraries' versions. */
int tuner_open(enum tune_mode mode, const char *path,
               const struct device *device, const struct row_tiers *tiers,
               struct infer_error *err, struct tuner **out);
void tuner_close(struct tuner *t); /* NULL is fine */

enum tune_mode tuner_mode(const struct tuner *t);

/* One way to compute a problem. */
struct tune_choice {
    const struct kern_row *row;
    int variant; /* of kern_prepare_variant() */
    /* What its kern_exec must then be called; "" for anything. */
    char variant_name[KERN_VARIANT_NAME];
    double seconds; /* as measured; 0: was not */
};

static inline bool tune_same(const struct tune_choice *a,
                             const struct tune_choice *b)
{
    return a->row == b->row && a->variant == b->variant;
}

/* Choices that came near to the fastest and are kept beside it, at most. */
#define TUNE_NEAR 6

/* Sets *choice to that of the cache where it has one that may be taken, else to
 * the fastest by measurement among the rows of the first n tiers that take the
 * problem.  *choice comes in as the choice without measuring: its row may be
 * taken in any case, and it stays where nothing can be measured (operands that
 * are indices) or where there is no alternative. */
int tuner_pick(struct tuner *t, const struct row_query *q, const uint32_t *tier,
               int n, struct infer_error *err, struct tune_choice *choice);

/* Prepares a choice, or its row's first variant where the one that was chosen
 * is not what it was when it was measured. */
int tuner_prepare(const struct tune_choice *choice,
                  const struct kern_problem *p, const struct kern_device *d,
                  struct infer_error *err, struct kern_exec *out);

/* ---- choices in their network -------------------------------------- */

/*
 * On a device that records runs neighbours overlap: what is fastest by itself
 * need not be so in its place.  So where a run is short the whole of it is
 * timed with other choices, one problem after the other, and those stay with
 * which it is quicker by more than the noise.  What was found is kept in the
 * cache, under the problems of the network and their own choices.
 */

/* One step of a network, in the order in which they run. */
struct tune_step {
    const struct kern_problem *problem;
    struct tune_choice rule;   /* what is taken without measuring */
    struct tune_choice choice; /* what it has: by tuner_pick() at first */
};

struct tune_network {
    struct tune_step *step;
    int n_steps;
    void *user; /* of what follows */
    /* Whether the row may be taken for that step. */
    bool (*takes)(void *user, int step, const struct kern_row *row);
    /* Makes a network of the choices that the steps have now, to be tried
     * beside the one that stands; 1: it cannot be made ready. */
    int (*ready)(void *user, struct infer_error *err);
    /* Seconds of n runs of the one that stands and, by turns, of the other. */
    int (*race)(void *user, int n, struct infer_error *err, double *stands,
                double *tried);
    /* The other stands from now on, or it is forgotten. */
    void (*settle)(void *user, bool stands);
    double (*now)(void *user); /* a clock, seconds */
};

/* Sets the choices of a network that the cache knows.  False where it does not
 * know it, or not all of them may be taken. */
bool tuner_recall(struct tuner *t, const struct tune_network *n);
/* Whether there is a choice to be made, and it may be worth the time. */
bool tuner_may_refine(struct tuner *t, const struct tune_network *n);
/* Makes it, and has the cache remember it. */
int tuner_refine(struct tuner *t, const struct tune_network *n,
                 struct infer_error *err);

/* ---- for tune_pick.c and tune_network.c ----------------------------- */

const struct kern_device *tuner_device(const struct tuner *t);
struct tune_cache *tuner_cache(const struct tuner *t); /* NULL: off */

/* A line for people and a hash of all that it leaves out. */
#define TUNE_KEY 640
void tune_key(const struct kern_problem *p, char *key, size_t bytes);
/* FNV-1a, which stays the same from run to run; begins with TUNE_HASH. */
#define TUNE_HASH 0xcbf29ce484222325u
uint64_t tune_hash(uint64_t hash, const void *data, size_t bytes);

/* Numbers of both signs and moderate size into memory of the device. */
int tuner_fill(const struct device *d, void *memory, size_t bytes,
               struct infer_error *err);
/* For tuner_info(). */
void tuner_count(struct tuner *t, int exchanged, double seconds);
/* Notes that what the cache has for the problem was taken. */
int tuner_take(struct tuner *t, const struct kern_problem *p,
               struct infer_error *err);

/* Measures n > 0 rows, all of which take the problem, with their variants: the
 * fastest.  Where none could be measured (memory is short, say) it is the
 * first.  EDEVICE where a launch fails. */
int tuner_choose(struct tuner *t, const struct kern_problem *p,
                 const struct kern_row *const *row, int n,
                 struct infer_error *err, struct tune_choice *out);

/* ---- choices that travel ------------------------------------------- */

/* All choices so far, to be freed with cJSON_free(); NULL where nothing is
 * measured or memory is short. */
char *tuner_text(const struct tuner *t);
/* Takes what another tuner of this device has chosen before anything else,
 * however it was searched.  EFORMAT */
int tuner_learn(struct tuner *t, const char *text, struct infer_error *err);

/* ---- the end ------------------------------------------------------- */

/* After a series of choices: frees the memory that measuring took and writes
 * what is new to the cache file. */
void tuner_finish(struct tuner *t);

void tuner_info(const struct tuner *t, struct infer_tuning_info *out);

/* ---- the cache ----------------------------------------------------- */

struct tune_cache;

/* label: the device, as device_ops.describe() puts it, and what competes. */
int tune_cache_open(const char *path, const char *label,
                    struct infer_error *err, struct tune_cache **out);
void tune_cache_close(struct tune_cache *c);
/* A choice as the file has it. */
struct tune_way {
    const char *row;
    int variant;
    const char *variant_name;
    double seconds; /* as measured */
};
/* What is known of a problem. */
struct tune_entry {
    struct tune_way best;
    bool exhaustive; /* found by an exhaustive search */
    bool learned;    /* when found: came by tune_cache_learn() */
    int n_near;
    struct tune_way near[TUNE_NEAR]; /* the fastest first */
};
/* False where the key is not there.  The strings are the cache's until the
 * next call. */
bool tune_cache_find(const struct tune_cache *c, const char *key,
                     struct tune_entry *out);
int tune_cache_add(struct tune_cache *c, const char *key,
                   const struct tune_entry *entry, struct infer_error *err);

/* What is known of a network. */
struct tune_exchange {
    const char *problem; /* its key */
    struct tune_way way; /* in the place of the fastest by itself */
};
struct tune_network_entry {
    double seconds, alone; /* of a run; without the exchanges */
    bool exhaustive;
    int n; /* 0 when found */
    const struct tune_exchange *exchange;
};
bool tune_cache_find_network(const struct tune_cache *c, const char *key,
                             struct tune_network_entry *out);
/* The exchange of a problem in a network that was found; false: none. */
bool tune_cache_exchange(const struct tune_cache *c, const char *key,
                         const char *problem, struct tune_way *out);
int tune_cache_add_network(struct tune_cache *c, const char *key,
                           const struct tune_network_entry *entry,
                           struct infer_error *err);

/* False where there is no such row.  The strings are those of the choice. */
bool tune_choice_of(const struct tune_way *way, struct tune_choice *out);
struct tune_way tune_way_of(const struct tune_choice *c);

/* Notes that the entry was taken. */
int tune_cache_use(struct tune_cache *c, const char *key,
                   struct infer_error *err);
/* What was taken since the cache was opened, as a document like its file: to be
 * freed with cJSON_free(); NULL where memory is short. */
char *tune_cache_text(const struct tune_cache *c);
/* Takes the entries of such a document that are of this device, in the place of
 * those that are known.  EFORMAT */
int tune_cache_learn(struct tune_cache *c, const char *text,
                     struct infer_error *err);
/* Writes what was added since, beside what other processes wrote meanwhile.
 * Never fails: the note says what went wrong. */
void tune_cache_write(struct tune_cache *c);
const char *tune_cache_path(const struct tune_cache *c); /* "" for none */
const char *tune_cache_note(const struct tune_cache *c); /* "" for none */

#endif
