/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: safetensors files.
 *
 * Weights stand under the names of the architecture, as wconv reads them (the
 * averages where the run keeps averages); everything else under "train.":
 *     train.weight.NAME     weights, where those under NAME are averages
 *     train.momentum.NAME   first moments
 *     train.variance.NAME   second moments
 *     train.state           KERN_STEP_SIZE numbers of the update
 * and in __metadata__, key "train", JSON text:
 *     {"version": 2, "crc32": hex of all tensors' bytes, "step": ..., ...,
 *      "info_crc32": hex of the other values}
 * and, first in __metadata__, "train.header_crc32": hex of the header's text,
 * with its padding, and zeros in place of these eight digits.  Version 1 had
 * none.  "infer.graph" is the network with the names of its classes, as JSON:
 * wconv needs no --arch.  Constants that are not trained are tensors under
 * their own names; resuming passes over them.  Where kernels were chosen by
 * measurement, those choices are under "train.kernels", a document like the
 * tuning cache.  Random numbers follow from seed and position, so there is no
 * other state.
 */
#ifndef TOOLS_TRAIN_CHECKPOINT_H
#define TOOLS_TRAIN_CHECKPOINT_H

#include "tools/train/net/net.h"

#define CHECKPOINT_VERSION 2

/* State of a run, and what must be equal in a resumed run. */
struct checkpoint_info {
    int64_t step; /* updates made */
    uint64_t seed;
    int64_t batch, accumulate;
    int64_t pictures; /* of the training set */
    double best;      /* best validation accuracy so far; 0: none */
    char arch[256];
    char rule[32];       /* optimizer */
    const char *kernels; /* measured kernel choices, stored in an entry of their
                            own; NULL: none */
    const char *graph;   /* JSON of the network; NULL: none */
};

/* Checks that a file can hold the network's weights under their names, before
 * training.  EUNSUPPORTED. */
int checkpoint_check(const struct net *n, struct infer_error *err);
/* Writes a new file, syncs, renames: path is the old file or, once that is on
 * the disk, the new one. */
int checkpoint_write(const char *path, struct net *n,
                     const struct checkpoint_info *info,
                     struct infer_error *err);
/* Decides whether a run may continue from this state. */
typedef int checkpoint_judge(const struct checkpoint_info *info, void *user,
                             struct infer_error *err);
/* Reads a checkpoint.  *info is its state, which judge() has accepted. EFORMAT
 * if the file is damaged or of a different network; the network is then
 * unchanged. */
int checkpoint_read(const char *path, struct net *n, checkpoint_judge *judge,
                    void *user, struct infer_error *err,
                    struct checkpoint_info *info);

/* The file's kernel choices, to be freed; *out is NULL if it has none. EFORMAT,
 * EIO. */
int checkpoint_kernels(const char *path, struct infer_error *err, char **out);

/* The network that the file describes, without weights; *out is NULL if it
 * describes none, as files before 0.2 do.  EFORMAT, EIO. */
int checkpoint_graph(const char *path, struct infer_error *err,
                     struct graph **out);

#endif
