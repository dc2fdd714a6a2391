/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/infer/batch.h"

#include <stdlib.h>
#include <string.h>

int batch_reserve(struct tool_run *run, const struct infer_tensor_info *info,
                  const int64_t *hw, int64_t n, struct batch *b,
                  struct infer_error *err)
{
    const int64_t planes[4] = {n, info->dim[1], hw[0], hw[1]};
    const int64_t pixels[4] = {n, hw[0], hw[1], info->dim[1]};
    struct infer_array in = {.name = info->name,
                             .dtype = run->pixels ? INFER_U8 : INFER_F32};
    const double start = cli_now();
    int rc;

    /* A network that takes pixels has a batch. */
    tool_picture_array(run->model, run->pixels ? pixels : planes, &in);
    if (b->in.data != NULL && memcmp(in.dim, b->in.dim, sizeof in.dim) == 0)
        return INFER_OK;
    batch_clear(b);
    b->in = in;
    rc = array_alloc("input", info->name, &b->in, err);
    if (rc < 0)
        return rc;
    b->image_bytes = b->in.bytes / (size_t)n;
    rc = infer_session_prepare(run->session, &b->in, 1, err);
    run->plan_seconds += cli_now() - start;
    if (rc == INFER_OK)
        rc = tool_make_outputs(run->session, run->model, &b->out, err);
    if (rc == INFER_OK)
        rc = tool_find_task(run, &b->out, hw, n, err);
    return rc;
}

void batch_clear(struct batch *b)
{
    free(b->in.data);
    arrays_clear(&b->out);
    memset(b, 0, sizeof(*b));
}
