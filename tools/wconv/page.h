/* SPDX-License-Identifier: Apache-2.0 */
/* wconv inspect --html. */
#ifndef TOOLS_WCONV_PAGE_H
#define TOOLS_WCONV_PAGE_H

#include "weights/weights.h"

/* Writes a page of the network, which has its shapes: graph, weights, and, if
 * it is no model file yet, what the passes would change.  profile_file: what
 * infer --profile=FILE wrote, for times of layers, or NULL.  EFORMAT, EIO,
 * EMEMORY. */
int wconv_page(const struct weights_network *s, const char *profile_file,
               const char *path, struct infer_error *err);

#endif
