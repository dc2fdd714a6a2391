/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of a batch of pictures, and the plan for it. */
#ifndef TOOLS_INFER_BATCH_H
#define TOOLS_INFER_BATCH_H

#include "tools/infer/infer_tool.h"

struct batch {
    struct infer_array in; /* as preprocessed, or with run->pixels as bytes */
    struct arrays out;
    size_t image_bytes; /* of one picture in `in` */
};

/* Makes the buffers for n pictures of hw[0] x hw[1] pixels and plans them,
 * unless that is how they are.  The first time it sets run->task. */
int batch_reserve(struct tool_run *run, const struct infer_tensor_info *info,
                  const int64_t *hw, int64_t n, struct batch *b,
                  struct infer_error *err);
void batch_clear(struct batch *b);

#endif
