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
};

/* Measures n > 0 rows, all of which take the problem, with their variants: the
 * fastest.  Variants of row i with an estimate above limit[i] microseconds,
 * unless that is 0, are left out.  If none could be measured (memory is short,
 * say) it is the first.  EDEVICE if a launch fails. */
int tuner_choose(struct tuner *t, const struct kern_problem *p,
                 const struct kern_row *const *row, const double *limit, int n,
                 struct infer_error *err, struct tune_choice *out);

#endif
