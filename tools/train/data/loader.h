/* SPDX-License-Identifier: Apache-2.0 */
/* Batches, made by threads of their own while the device works. */
#ifndef TOOLS_TRAIN_DATA_LOADER_H
#define TOOLS_TRAIN_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "libinfer/device/device.h"
#include "tools/train/data/augment.h"
#include "tools/train/data/data.h"

struct loader_options {
    struct data_set *set; /* nobody else may use it meanwhile */
    int64_t batch;
    int rank, ranks; /* rank's part of batches ranks times as large; 0: whole */
    uint64_t seed;
    bool shuffle;
    bool whole; /* the last batch may be filled up with label -1; else what
                 * does not fill a batch is left for another epoch */
    struct augment augment;
    struct graph_preprocess preprocess; /* scale, mean, std */
    bool doubles;                       /* F64 instead of F32 */
    const struct device *device;        /* that reads batches itself, or NULL */
    int threads;                        /* at least 1 are taken, at most 16 */
};

struct loader_batch {
    void *x; /* batch,height,width,channels */
    int32_t *label;
    int64_t count; /* pictures; the rest fills up */
    int64_t all;   /* pictures of all ranks together */
    bool readable; /* by the device itself */
};

struct loader;

int loader_new(const struct loader_options *options, struct infer_error *err,
               struct loader **out);
void loader_free(struct loader *l); /* NULL is fine */
/* Batches an epoch; at least 1. */
int64_t loader_batches(const struct loader *l);
/* Starts with batch `first` of an epoch; epochs follow one another.  What was
 * begun before is dropped. */
int loader_start(struct loader *l, int64_t epoch, int64_t first,
                 struct infer_error *err);
/* The next batch, valid until the call after. */
int loader_next(struct loader *l, struct infer_error *err,
                const struct loader_batch **out);
/* Order of the pictures in an epoch; order has room for count. */
void loader_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count,
                  uint32_t *order);

#endif
