/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A study of approximate multipliers: networks x multipliers x directions x
 * seeds, each combination a run of `train` of its own.
 *
 *     study_read.c     the file that describes it
 *     study_run.c      its runs
 *     study_report.c   table, CSV, SVG
 *
 * In its folder a run has NAME.json (its command, and its figures once it has
 * ended) and NAME.safetensors.  A study that is started again takes over the
 * runs that have ended by the same command, and goes on with one that was
 * interrupted.
 */
#ifndef TOOLS_TRAIN_STUDY_STUDY_H
#define TOOLS_TRAIN_STUDY_STUDY_H

#include "tools/cli.h"

/* The passes with approximate products. */
enum study_direction {
    STUDY_EXACT, /* none: what the others are compared with */
    STUDY_ALL,
    STUDY_FORWARD,
    STUDY_DGRAD,
    STUDY_WGRAD,
    /* Forward, and gradients by its products' regression or derivatives. */
    STUDY_SLOPE,
    STUDY_DERIVATIVE,
    STUDY_FINE_TUNE, /* all, from the weights of the exact run on */
    STUDY_INFERENCE, /* forward, the weights of the exact run unchanged */
    STUDY_DIRECTIONS
};
extern const char *const study_directions[STUDY_DIRECTIONS];

struct study_run {
    int network;            /* number in the file */
    const char *arch;       /* as the file has it */
    const char *multiplier; /* the same; "exact" */
    /* What people read: without folders, and the network without ".json". */
    char network_label[64], multiplier_label[64];
    enum study_direction direction;
    int64_t seed;
    char name[160];
    cJSON *command; /* options of train */
    bool done;
    bool diverged; /* done, and its loss was not finite: it has no figures */
    double accuracy, loss, seconds; /* of a run that is done */
};

struct study {
    cJSON *json; /* the file */
    struct study_run *run;
    int runs;
};

/* Reads the file and makes its runs, whose files lie in folder; an exact run
 * is before those that need its weights.  EIO, EFORMAT, EMEMORY. */
int study_read(const char *path, const char *folder, struct infer_error *err,
               struct study *out);
void study_clear(struct study *s);

/* Makes the runs that are not done, one after the other; *code: the exit code
 * of a run that failed or was interrupted, which ends the study; 0.  A run
 * whose training diverges is a result. */
int study_make(const struct cli *cli, struct study *s, const char *folder,
               struct infer_error *err, int *code);

/* Writes study.csv and study.svg to the folder; prints the table, if asked. */
int study_report(const struct study *s, const char *folder, bool table,
                 struct infer_error *err);

/* The whole: `train --study=path -o folder`.  Returns the exit code. */
int study_main(const struct cli *cli, const char *path, const char *folder);

#endif
