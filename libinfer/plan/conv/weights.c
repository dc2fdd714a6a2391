/* SPDX-License-Identifier: Apache-2.0 */
#include "libinfer/plan/conv/weights.h"

#include <string.h>

#include "kernels/base/error.h"

int lower_turn_weights(const struct lower *l, int value, int rank,
                       const int64_t *dim, weights_source *source)
{
    struct graph_value *w = &l->plan->g->value[value];
    const struct host_memory *host = &l->plan->config->device->host;
    struct constant *from, *to;
    size_t size;
    int rc = constant_in_memory(w->data, host, l->err, &from);

    if (rc < 0)
        return rc;
    to = constant_new_in(host, from->dtype, rank, dim);
    if (!to) {
        constant_unref(from);
        return error_set(l->err, INFER_EMEMORY, "plan: out of memory");
    }
    size = infer_dtype_size(from->dtype);
    for (int64_t i = 0, n = constant_count(to); i < n; i++)
        memcpy((char *)to->data + (size_t)i * size,
               (const char *)from->data + (size_t)source(i, w->dim) * size,
               size);
    constant_unref(from);
    constant_unref(w->data);
    w->data = to;
    w->rank = rank;
    memcpy(w->dim, dim, (size_t)rank * sizeof dim[0]);
    return plan_set_constant(l->plan, value, l->err);
}
