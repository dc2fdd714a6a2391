/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of measured choices: in memory, and in a JSON file. */
#ifndef LIBINFER_TUNE_TUNE_CACHE_H
#define LIBINFER_TUNE_TUNE_CACHE_H

#include "libinfer/tune/tune.h"

struct tune_cache;

/* label: the device, as device_ops.describe() puts it. */
int tune_cache_open(const char *path, const char *label,
                    struct infer_error *err, struct tune_cache **out);
void tune_cache_close(struct tune_cache *c);
/* A choice as the file has it. */
struct tune_stored {
    const char *row;
    int variant;
    const char *variant_name;
    double seconds;        /* as measured */
    const char *libraries; /* of the row's backend; NULL or "": none */
};
/* What is known of a problem. */
struct tune_entry {
    struct tune_stored best;
    /* NULL, or found by an exhaustive search among these libraries. */
    const char *exhaustive;
    bool imported; /* when found: by tune_cache_import() */
    int n_near;
    struct tune_stored near[TUNE_NEAR]; /* the fastest first */
};
/* False where the key is not there.  The strings are the cache's until the
 * next call. */
bool tune_cache_find(const struct tune_cache *c, const char *key,
                     struct tune_entry *out);
int tune_cache_add(struct tune_cache *c, const char *key,
                   const struct tune_entry *entry, struct infer_error *err);

/* What is known of a network. */
struct tune_substitution {
    const char *problem;       /* its key */
    struct tune_stored choice; /* instead of the fastest by itself */
};
struct tune_network_entry {
    double seconds, alone;  /* of a run; without the substitutions */
    const char *exhaustive; /* as of struct tune_entry */
    int n;                  /* 0 when found */
    const struct tune_substitution *substitution;
};
bool tune_cache_find_network(const struct tune_cache *c, const char *key,
                             struct tune_network_entry *out);
/* The substitution of a problem in a network that was found; false: none. */
bool tune_cache_substitution(const struct tune_cache *c, const char *key,
                             const char *problem, struct tune_stored *out);
int tune_cache_add_network(struct tune_cache *c, const char *key,
                           const struct tune_network_entry *entry,
                           struct infer_error *err);

bool tune_cache_find_types(const struct tune_cache *c, const char *key,
                           struct tune_types *out);
int tune_cache_add_types(struct tune_cache *c, const char *key,
                         const struct tune_types *types,
                         struct infer_error *err);

/* False where there is no such row, or its backend's libraries are others now:
 * they are loaded to be asked. */
bool tune_choice_of(const struct tune_stored *stored, struct tune_choice *out);
/* The strings are those of the choice. */
struct tune_stored tune_stored_of(const struct tune_choice *c);

/* Marks the entry as used. */
int tune_cache_use(struct tune_cache *c, const char *key,
                   struct infer_error *err);
/* The entries that were used since the cache was opened, as a document like its
 * file; to be freed with cJSON_free(); NULL if memory is short. */
char *tune_cache_text(const struct tune_cache *c);
/* Imports the entries of such a document that are of this device; they replace
 * known ones. EFORMAT */
int tune_cache_import(struct tune_cache *c, const char *text,
                      struct infer_error *err);
/* Writes the entries that were added, merged with those that other processes
 * wrote meanwhile. Never fails: the note says what went wrong. */
void tune_cache_write(struct tune_cache *c);
const char *tune_cache_path(const struct tune_cache *c); /* "" for none */
/* The path where the caller names none, to be freed; NULL: no cache. */
char *tune_cache_usual_path(void);
const char *tune_cache_note(const struct tune_cache *c); /* "" for none */

#endif
