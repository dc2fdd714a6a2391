/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel choice by measurement.
 *
 * A tuner belongs to one session, or to one run of train.  It runs the rows
 * that could compute a problem on memory of its own, filled with numbers of
 * moderate size, and keeps the fastest in a cache: in memory, and in a JSON
 * file that all processes of a user share.  Entries hold for one device, driver
 * and build, choices of a library's kernels for one version of the library.
 */
#ifndef LIBINFER_TUNE_TUNE_H
#define LIBINFER_TUNE_TUNE_H

#include "include/infer.h"
#include "kernels/kern.h"
#include "libinfer/device/device.h"
#include "libinfer/tune/rows.h"

/* TUNE_TIMES: rows are chosen as with TUNE_OFF, but times may be asked for. */
enum tune_mode { TUNE_OFF, TUNE_ON, TUNE_EXHAUSTIVE, TUNE_TIMES };

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

/* Most choices that are remembered in addition to the fastest. */
#define TUNE_NEAR 6

/* Sets *choice to that of the cache where it has one that may be taken, else to
 * the fastest by measurement among the rows of the first n tiers that take the
 * problem.  Unless the search is exhaustive, a later tier is measured only if
 * the earlier ones have no row, or none that is near the device's peak rates.
 * *choice comes in as the choice without measuring: its row may be
 * taken in any case, and it stays where nothing can be measured (operands that
 * are indices) or where there is no alternative. */
int tuner_pick(struct tuner *t, const struct row_query *q, const uint32_t *tier,
               int n, struct infer_error *err, struct tune_choice *choice);

/* Prepares a choice, or its row's first variant where the one that was chosen
 * is not what it was when it was measured. */
int tuner_prepare(const struct tune_choice *choice,
                  const struct kern_problem *p, const struct kern_device *d,
                  struct infer_error *err, struct kern_exec *out);

/* Seconds of a choice that the tuner or the caller made: as the choice says, as
 * the cache knows, or as measured now.  Not for TUNE_OFF.  0 where it cannot be
 * measured (operands that are indices; memory is short). */
int tuner_seconds(struct tuner *t, const struct kern_problem *p,
                  const struct tune_choice *choice, struct infer_error *err,
                  double *seconds);

/* ---- choices in their network -------------------------------------- */

/*
 * Steps of a recorded run overlap: the fastest kernel by itself need not be the
 * fastest in its place.  A short run is therefore timed as a whole with
 * substitutions, one problem after another, and those that save more than the
 * noise are kept.  The cache remembers them under the problems of the network
 * and their own choices.
 */

/* One step of a network, in the order in which they run. */
struct tune_step {
    const struct kern_problem *problem;
    struct tune_choice rule;   /* the choice without measuring */
    struct tune_choice choice; /* the current one: tuner_pick()'s at first */
};

struct tune_network {
    struct tune_step *step;
    int n_steps;
    void *user; /* of what follows */
    /* Whether the row may be taken for that step. */
    bool (*takes)(void *user, int step, const struct kern_row *row);
    /* Prepares a trial of the choices that the steps have now, in addition to
     * the current network; 1: it cannot be prepared. */
    int (*ready)(void *user, struct infer_error *err);
    /* Seconds of n runs of the current network and, by turns, of the trial. */
    int (*time)(void *user, int n, struct infer_error *err, double *stands,
                double *tried);
    /* The trial becomes the current network, or is dropped. */
    void (*commit)(void *user, bool stands);
    double (*now)(void *user); /* a clock, seconds */
};

/* Sets a network's choices from the cache.  False where the cache does not know
 * the network, or a choice may not be taken. */
bool tuner_recall(struct tuner *t, const struct tune_network *n);
/* True if there are alternatives and the search may be worth its time. */
bool tuner_may_refine(struct tuner *t, const struct tune_network *n);
/* Searches, and adds the result to the cache. */
int tuner_refine(struct tuner *t, const struct tune_network *n,
                 struct infer_error *err);

/* ---- types of a network's layers ----------------------------------- */

/* The choice of least time by steps, and whole runs (libinfer/plan/best). */
struct tune_types {
    const char *bytes; /* '1' of each layer in 8 bits, else '0' */
    /* Seconds of a run: so; with all layers in floats; with all in 8 bits. 0:
     * was not run. */
    double seconds, floats, all;
};
/* False where the cache does not know the network; the string is the cache's
 * until the next call. */
bool tuner_recall_types(struct tuner *t, const char *key,
                        struct tune_types *out);
int tuner_remember_types(struct tuner *t, const char *key,
                         const struct tune_types *types,
                         struct infer_error *err);

/* ---- keys of the cache --------------------------------------------- */

/* A line for people and a hash of all that it leaves out. */
#define TUNE_KEY 640
void tune_key(const struct kern_problem *p, char *key, size_t bytes);
/* FNV-1a, which stays the same from run to run; begins with TUNE_HASH. */
#define TUNE_HASH 0xcbf29ce484222325u
uint64_t tune_hash(uint64_t hash, const void *data, size_t bytes);

/* True for the types that sessions compute in. */
static inline bool tune_is_real(enum infer_dtype dtype)
{
    return dtype == INFER_F32 || dtype == INFER_F16 || dtype == INFER_BF16;
}

/* Seconds of a clock that only goes forward. */
double tune_now(void);

/* Numbers of both signs and moderate size into memory of the device. */
int tune_fill(const struct device *d, void *memory, size_t bytes,
              struct infer_error *err);
/* ---- choices that travel ------------------------------------------- */

/* All choices so far, to be freed with cJSON_free(); NULL where nothing is
 * measured or memory is short. */
char *tuner_text(const struct tuner *t);
/* Imports the choices of another tuner of this device: they come before those
 * of the file, however thorough the search was.  EFORMAT */
int tuner_import(struct tuner *t, const char *text, struct infer_error *err);

/* ---- the end ------------------------------------------------------- */

/* After a series of choices: frees the memory that measuring took and writes
 * what is new to the cache file. */
void tuner_finish(struct tuner *t);

void tuner_info(const struct tuner *t, struct infer_tuning_info *out);

#endif
