/* SPDX-License-Identifier: Apache-2.0 */
/* A problem computed by its reference row: see reference.h. */
#include "kernels/reference.h"

#include <stdlib.h>

#include "kernels/base/error.h"

const struct kern_row *kern_reference_row(enum kern_op op)
{
    for (size_t i = 0; i < kern_row_count(); i++) {
        const struct kern_row *row = kern_row_at(i);
        if (row->op == op && row->backend == INFER_BACKEND_REF)
            return row;
    }
    return NULL;
}

int kern_reference_run(const struct kern_problem *p,
                       const struct kern_args *args, struct infer_error *err)
{
    const struct kern_device cpu = {.kind = KERN_CPU, .threads = 1};
    const struct kern_row *row = kern_reference_row(p->op);
    struct kern_args with_workspace = *args;
    struct kern_exec e;

    if (!row)
        return error_set(err, INFER_EUNSUPPORTED, "no reference for %s",
                         kern_op_name(p->op));
    int rc = kern_prepare(row, p, &cpu, err, &e);
    if (rc < 0)
        return rc;
    with_workspace.workspace = malloc(e.workspace + 1);
    if (with_workspace.workspace)
        rc = row->fn->launch(&e, &with_workspace, err);
    else
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    free(with_workspace.workspace);
    kern_release(&e);
    return rc;
}
