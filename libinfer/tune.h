/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel choice by measurement.
 *
 * A tuner belongs to one session.  It runs the rows that could compute a
 * problem on memory of its own, filled with numbers of moderate size, and
 * keeps the fastest in a cache: in memory, and in a JSON file that all
 * processes of a user share.  Entries hold for one device, driver and build.
 */
#ifndef LIBINFER_TUNE_H
#define LIBINFER_TUNE_H

#include "kernels/kern.h"
#include "libinfer/device.h"
#include "libinfer/infer.h"

enum tune_mode { TUNE_OFF, TUNE_ON, TUNE_EXHAUSTIVE };

struct tuner;

/* path: the cache file, NULL for the usual place, "" for none.  A file that
 * cannot be used is no error: tuner_info() says why.  device must outlive the
 * tuner.  rivals: which libraries' kernels the session lets compete beside
 * ours, with their versions, "" for none: what is fastest depends on them. */
int tuner_open(enum tune_mode mode, const char *path,
               const struct device *device, const char *rivals,
               struct infer_error *err, struct tuner **out);
void tuner_close(struct tuner *t); /* NULL is fine */

enum tune_mode tuner_mode(const struct tuner *t);

/* One way to compute a problem. */
struct tune_choice {
    const struct kern_row *row;
    int variant; /* of kern_prepare_variant() */
    /* What its kern_exec must then be called; "" for anything. */
    char variant_name[KERN_VARIANT_NAME];
};

/* What the cache has for the problem.  Whether the row may be taken here and
 * now is the caller's to judge, who then says so with tuner_take(). */
bool tuner_known(const struct tuner *t, const struct kern_problem *p,
                 struct tune_choice *out);
void tuner_take(struct tuner *t);

/* Measures n > 0 rows, all of which take the problem, with their variants: the
 * fastest.  Where none could be measured (memory is short, say) it is the
 * first.  EDEVICE where a launch fails. */
int tuner_choose(struct tuner *t, const struct kern_problem *p,
                 const struct kern_row *const *row, int n,
                 struct infer_error *err, struct tune_choice *out);

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
struct tune_entry {
    const char *row;
    int variant;
    const char *variant_name;
};
/* False where the key is not there.  The strings are the cache's until the
 * next call. */
bool tune_cache_find(const struct tune_cache *c, const char *key,
                     struct tune_entry *out);
int tune_cache_add(struct tune_cache *c, const char *key,
                   const struct tune_entry *entry, double seconds,
                   struct infer_error *err);
/* Writes what was added since, beside what other processes wrote meanwhile.
 * Never fails: the note says what went wrong. */
void tune_cache_write(struct tune_cache *c);
const char *tune_cache_path(const struct tune_cache *c); /* "" for none */
const char *tune_cache_note(const struct tune_cache *c); /* "" for none */

#endif
