/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that the processes of one run exchange: gradients, losses, running
 * statistics, first weights.
 *
 * Every process has one device and the same network, and calls the same
 * functions in the same order with arrays of the same size.
 */
#ifndef TOOLS_TRAIN_GROUP_EXCHANGE_H
#define TOOLS_TRAIN_GROUP_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "libinfer/device/device.h"
#include "tools/train/group/group.h"

struct exchange;

struct exchange_ops {
    /* Replaces the array, in device memory, by the sum or mean over all
     * processes, with the same bits in each.  Starts after the launches so far
     * and runs concurrently with later ones until join(). */
    int (*reduce)(struct exchange *x, void *data, int64_t count,
                  enum infer_dtype dtype, bool mean, struct infer_error *err);
    /* Makes later launches wait for the reductions. */
    int (*join)(struct exchange *x, struct infer_error *err);
    /* Copies the bytes of process 0 to all others, before it returns. */
    int (*share)(struct exchange *x, void *data, size_t bytes,
                 struct infer_error *err);
    void (*close)(struct exchange *x);
};

struct exchange {
    const struct exchange_ops *ops;
    int rank, size;
};

/* Checks, before anything is opened, that the processes of this host find their
 * GPUs and NCCL.  EDEVICE. */
int exchange_check(const struct group *g, struct infer_error *err);
/* Between the GPUs of a group, through NCCL.  EDEVICE. */
int exchange_open(struct group *g, const struct device *d,
                  struct infer_error *err, struct exchange **out);
void exchange_close(struct exchange *x); /* NULL is fine */

#endif
