/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the tuning cache and their JSON. */
#ifndef LIBINFER_TUNE_TUNE_ENTRY_H
#define LIBINFER_TUNE_TUNE_ENTRY_H

#include <cjson/cJSON.h>

#include "libinfer/tune/tune_cache.h"

/* Whether it is an entry of a problem, a network or the types of one. */
bool tune_entry_good(const cJSON *e);

/* NULL where memory is short. */
cJSON *tune_entry_json(const struct tune_entry *entry);
cJSON *tune_entry_network_json(const struct tune_network_entry *entry);
cJSON *tune_entry_types_json(const struct tune_types *types);

/* False where it is an entry of another kind.  The strings are the JSON's. */
bool tune_entry_read(const cJSON *e, struct tune_entry *out);
/* The same for a network, except its substitutions. */
bool tune_entry_read_network(const cJSON *e, struct tune_network_entry *out);
/* The substitution for the problem's own choice there; false: none. */
bool tune_entry_substitution(const cJSON *e, const char *problem,
                             struct tune_stored *out);
bool tune_entry_read_types(const cJSON *e, struct tune_types *out);

#endif
