/* SPDX-License-Identifier: Apache-2.0 */
/* Packed constants, shared by all plans of a model.
 *
 * An entry is made when the first plan asks for it and freed with the last.
 * Plans whose problems differ (say, in the batch) share an entry where the
 * packed bytes turn out to be the same.  All functions may be called by any
 * thread. */
#ifndef LIBINFER_MODEL_PACKED_H
#define LIBINFER_MODEL_PACKED_H

#include <stdint.h>

#include "kernels/kern.h"
#include "libinfer/device/device.h"
#include "libinfer/graph/constant.h"

struct packed_cache;
struct packed;

/* One chain for each of n_values graph values; NULL when out of memory. */
struct packed_cache *packed_cache_new(int n_values);
void packed_cache_free(struct packed_cache *cache); /* NULL is fine */
/* Frees the memory of the allocator (NULL: of all) that loading uses; to be
 * called after a series of calls of the functions below. */
void packed_cache_trim(struct packed_cache *cache,
                       const struct host_memory *host);

/* The constant of graph value `value` as a dense row-major array of dtype.
 * Bytes already in memory in that type are used where they lie. */
int packed_plain(struct packed_cache *cache, int value,
                 const struct constant *c, enum infer_dtype dtype,
                 const struct device *d, struct infer_error *err,
                 struct packed **out);

/* The same, repacked for constant input i of a prepared problem whose tensor
 * starts at element `offset` of the constant. */
int packed_for(struct packed_cache *cache, int value, const struct constant *c,
               const struct kern_exec *exec, int i, int64_t offset,
               const struct device *d, struct infer_error *err,
               struct packed **out);

const void *packed_data(const struct packed *p);
size_t packed_bytes(const struct packed *p);
void packed_unref(struct packed_cache *cache, struct packed *p);

#endif
