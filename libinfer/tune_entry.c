/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the tuning cache, the fifth element where there is something to
 * say:
 *
 *     ["row", variant, us, "variant's name", {"exhaustive": true}]
 */
#include "libinfer/tune_entry.h"

#include "libinfer/json.h"

#define MAX_VARIANT (1 << 20)

/* Hundredths of a microsecond are below what can be measured. */
static double micros(double seconds)
{
    return (double)(int64_t)(seconds * 1e8 + 0.5) / 100;
}

/* Adds what may be NULL, and what is then freed where it cannot be added. */
static bool put(cJSON *to, cJSON *item)
{
    const bool good = cJSON_AddItemToArray(to, item);

    if (!good)
        cJSON_Delete(item);
    return good;
}

static bool good_way(const cJSON *e, int elements)
{
    int64_t variant;

    return cJSON_IsArray(e) && cJSON_GetArraySize(e) == elements &&
           cJSON_IsString(cJSON_GetArrayItem(e, 0)) &&
           cJSON_IsString(cJSON_GetArrayItem(e, 3)) &&
           json_int64(cJSON_GetArrayItem(e, 1), 0, MAX_VARIANT, &variant) &&
           cJSON_IsNumber(cJSON_GetArrayItem(e, 2));
}

static void read_way(const cJSON *e, struct tune_way *out)
{
    out->row = cJSON_GetArrayItem(e, 0)->valuestring;
    out->variant = cJSON_GetArrayItem(e, 1)->valueint;
    out->seconds = 1e-6 * cJSON_GetArrayItem(e, 2)->valuedouble;
    out->variant_name = cJSON_GetArrayItem(e, 3)->valuestring;
}

static cJSON *way_json(const struct tune_way *way)
{
    cJSON *e = cJSON_CreateArray();

    if (!e || !put(e, cJSON_CreateString(way->row)) ||
        !put(e, cJSON_CreateNumber(way->variant)) ||
        !put(e, cJSON_CreateNumber(micros(way->seconds))) ||
        !put(e, cJSON_CreateString(way->variant_name))) {
        cJSON_Delete(e);
        return NULL;
    }
    return e;
}

bool tune_entry_good(const cJSON *e)
{
    const cJSON *more = cJSON_GetArrayItem(e, 4);

    return good_way(e, 4) || (good_way(e, 5) && cJSON_IsObject(more));
}

bool tune_entry_read(const cJSON *e, struct tune_entry *out)
{
    const cJSON *more = cJSON_GetArrayItem(e, 4);

    if (!cJSON_IsArray(e))
        return false;
    *out = (struct tune_entry){0};
    read_way(e, &out->best);
    out->exhaustive = json_bool(more, "exhaustive", false);
    return true;
}

cJSON *tune_entry_json(const struct tune_entry *entry)
{
    cJSON *e = way_json(&entry->best), *more;

    if (!e || !entry->exhaustive)
        return e;
    more = cJSON_CreateObject();
    if (!put(e, more) || !cJSON_AddTrueToObject(more, "exhaustive")) {
        cJSON_Delete(e);
        return NULL;
    }
    return e;
}
