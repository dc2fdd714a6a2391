/* SPDX-License-Identifier: Apache-2.0 */
/* Weight files whose inputs are arrays, or that have no recorded outputs. */
#ifndef TESTS_CONFORMANCE_RECORDED_H
#define TESTS_CONFORMANCE_RECORDED_H

#include <stdbool.h>
#include <stddef.h>

#include "include/infer.h"
#include "kernels/base/json.h"

/* Runs the cases whose path contains word on the reference backend and as
 * asked for, as read and optimised.  On a CPU all results are held against the
 * record; on a GPU its own against those of the reference, within the bound of
 * the precision or what the reference that rounds likewise says.  models: the
 * records.  Returns the number of cases and adds those that failed to *failed.
 */
size_t recorded_run(const char *folder,
                    const struct infer_session_options *asked, const char *word,
                    const cJSON *models, size_t *failed);

/* Prints the paths of the networks that known() does not know. */
void recorded_list(bool (*known)(const char *path));

/* True where a case looks at this file below weights/. */
bool recorded_has(const char *path);

#endif
