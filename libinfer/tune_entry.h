/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the tuning cache and their JSON. */
#ifndef LIBINFER_TUNE_ENTRY_H
#define LIBINFER_TUNE_ENTRY_H

#include <cjson/cJSON.h>

#include "libinfer/tune.h"

bool tune_entry_good(const cJSON *e);

/* NULL where memory is short. */
cJSON *tune_entry_json(const struct tune_entry *entry);

/* False where it is an entry of another kind.  The strings are the JSON's. */
bool tune_entry_read(const cJSON *e, struct tune_entry *out);

#endif
