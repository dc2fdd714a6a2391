/* SPDX-License-Identifier: Apache-2.0 */
/* The strict check of a JSON text before cJSON sees it. */
#ifndef KERNELS_BASE_JSON_SCAN_H
#define KERNELS_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/json.h"

/* Checks everything json_parse() promises but duplicate keys and the range of
 * numbers.  The tree may take `room` bytes, or as many as the text where that
 * is more, and JSON_FREE_BYTES.  *not_finite is the number of NaN and Infinity
 * tokens. */
int json_scan(const char *text, size_t bytes, size_t room, bool allow_nan,
              size_t *not_finite, struct infer_error *err);

#endif
