/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the tuning cache and their JSON. */
#ifndef LIBINFER_TUNE_TUNE_ENTRY_H
#define LIBINFER_TUNE_TUNE_ENTRY_H

#include <cjson/cJSON.h>

#include "libinfer/tune/tune.h"

/* Whether it is an entry of a problem or of a network. */
bool tune_entry_good(const cJSON *e);

/* NULL where memory is short. */
cJSON *tune_entry_json(const struct tune_entry *entry);
cJSON *tune_entry_network_json(const struct tune_network_entry *entry);

/* False where it is an entry of another kind.  The strings are the JSON's. */
bool tune_entry_read(const cJSON *e, struct tune_entry *out);
/* The same for a network, but for its exchanges. */
bool tune_entry_read_network(const cJSON *e, struct tune_network_entry *out);
/* What takes the place of the problem's own choice there; false: nothing. */
bool tune_entry_exchange(const cJSON *e, const char *problem,
                         struct tune_way *out);

#endif
