/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner as its files see it: tune.c opens and closes it, tune_choice.c
 * chooses by tune_measure.c, tune_network.c chooses for whole runs, and
 * tune_cache.c remembers. */
#ifndef LIBINFER_TUNE_TUNE_PRIVATE_H
#define LIBINFER_TUNE_TUNE_PRIVATE_H

#include "libinfer/tune/tune.h"
#include "libinfer/tune/tune_cache.h"
#include "libinfer/tune/tune_measure.h"

struct tuner {
    enum tune_mode mode;
    struct tune_cache *cache; /* NULL where the mode is TUNE_OFF */
    struct tune_pool pool;
    struct infer_tuning_info info;
    char libraries[160]; /* that an exhaustive search measures; "" for none */
};

/* True if an entry whose search was as thorough as that (tune_cache.h) need not
 * be measured again. */
bool tuner_trusts(const struct tuner *t, const char *exhaustive);
/* What entries of this tuner's search say of it. */
const char *tuner_thoroughness(const struct tuner *t);

/* Rows that take a problem. */
struct tune_candidates {
    const struct kern_row **row;
    double *estimate; /* microseconds; 0 where the row has none */
    double *limit; /* variants with a higher estimate are left out; 0: none */
    int n;
};

/* Measures n > 0 rows with their variants: the fastest.  If none could be
 * measured (memory is short, say) it is the first.  EDEVICE if a launch
 * fails. */
int tuner_choose(struct tuner *t, const struct kern_problem *p,
                 const struct tune_candidates *c, struct infer_error *err,
                 struct tune_choice *out);

/* True if rows of later tiers, a vendor's library as a rule, should be measured
 * although the fastest row of the earlier ones takes no more than that many
 * seconds: the search is exhaustive, or the row is far from what the device
 * could do. */
bool tuner_wants_later(const struct tuner *t, const struct kern_problem *p,
                       double seconds);

#endif
