/* SPDX-License-Identifier: Apache-2.0 */
/* Batches, made by threads while the device computes. */
#ifndef TOOLS_TRAIN_DATA_LOADER_H
#define TOOLS_TRAIN_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "libinfer/device/device.h"
#include "tools/train/data/augment.h"
#include "tools/train/data/data.h"

struct loader_options {
    struct data_set *set; /* exclusive use */
    int64_t batch;
    int rank, ranks; /* this process's share of batches `ranks` times as large;
                        0: whole */
    uint64_t seed;
    bool shuffle;
    bool whole; /* fill the last batch with label -1; else incomplete batches
                   are left out */
    struct augment augment;
    struct graph_preprocess preprocess; /* scale, mean, std */
    bool doubles;                       /* F64 instead of F32 */
    const struct device *device; /* device that reads batches itself, or NULL */
    int threads;                 /* clamped to 1 .. 16 */
};

struct loader_batch {
    void *x; /* batch,height,width,channels */
    int32_t *label;
    int64_t count; /* real pictures; the rest is filling */
    int64_t all;   /* real pictures of all ranks */
    bool readable; /* readable by the device */
};

struct loader;

int loader_new(const struct loader_options *options, struct infer_error *err,
               struct loader **out);
void loader_free(struct loader *l); /* NULL is fine */
/* Batches an epoch; at least 1. */
int64_t loader_batches(const struct loader *l);
/* Restarts at batch `first` of an epoch and drops unfinished batches; epochs
 * follow one another. */
int loader_start(struct loader *l, int64_t epoch, int64_t first,
                 struct infer_error *err);
/* The next batch, valid until the next call. */
int loader_next(struct loader *l, struct infer_error *err,
                const struct loader_batch **out);
/* Order of the pictures in an epoch; order has `count` elements. */
void loader_order(uint64_t seed, int64_t epoch, bool shuffle, int64_t count,
                  uint32_t *order);

#endif
