/* SPDX-License-Identifier: Apache-2.0 */
/* The state of rows that keep only the geometry of a convolution. */
#include "kernels/cuda/conv/conv_state.h"

#include <stdlib.h>

#include "kernels/base/error.h"

int conv_state_keep(struct kern_exec *e, struct infer_error *err,
                    const struct conv_geometry **out)
{
    struct conv_geometry *g = malloc(sizeof(*g));
    const int rc =
        g ? conv_geometry_read(&e->problem, g, err)
          : error_set(err, INFER_EMEMORY, "%s: no memory", e->row->name);

    if (rc < 0) {
        free(g);
        return rc;
    }
    e->state = g;
    *out = g;
    return 0;
}
