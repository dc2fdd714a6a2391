/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring one kernel on memory of the tuner's own. */
#ifndef LIBINFER_TUNE_TUNE_MEASURE_H
#define LIBINFER_TUNE_TUNE_MEASURE_H

#include "kernels/kern.h"
#include "libinfer/device/device.h"

/* Memory of the device for a problem's tensors, which grows as it must. */
struct tune_pool {
    const struct device *device;
    unsigned char *memory;
    size_t bytes;
};

void tune_pool_clear(struct tune_pool *pool);

/* Seconds of a kernel that was not timed to the end. */
#define TUNE_PRUNED 1e30

/* *seconds: of one launch; TUNE_PRUNED where it is far beyond `best`, or where
 * memory is short.  EDEVICE where a launch fails: the device may be lost. */
int tune_measure(struct tune_pool *pool, const struct kern_exec *e, double best,
                 struct infer_error *err, double *seconds);

#endif
