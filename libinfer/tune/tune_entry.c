/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the tuning cache.  A choice is
 *
 *     ["row", variant, us, "variant's name"]
 *
 * and of a row that calls a vendor's libraries
 *
 *     ["row", variant, us, "variant's name", "cuDNN 9.19.0, cuBLAS 13.1.0"].
 *
 * A problem's entry is its choice with one more element where there is
 * something to say:
 *
 *     {"exhaustive": "libraries", "near": [choice, ...]}
 *
 * and that of a network, whose runs take `us` microseconds and took `alone_us`
 * when every problem had the choice that is the fastest by itself:
 *
 *     {"us": 151.3, "alone_us": 164.9, "exhaustive": "libraries",
 *      "exchanged": {"a problem's key": choice, ...}}
 *
 * "exhaustive" names the libraries whose rows were measured too.  The types of
 * a network's layers (libinfer/plan/best), one digit each, with the times of a
 * run so, with all layers in floats and with all in 8 bits, are
 *
 *     {"bytes": "1101", "us": 101.5, "floats_us": 151.3, "bytes_us": 110.2}
 */
#include "libinfer/tune/tune_entry.h"

#include <string.h>

#include "kernels/base/json.h"

#define MAX_VARIANT (1 << 20)

/* Hundredths of a microsecond are below what can be measured. */
static double micros(double seconds)
{
    return (double)(int64_t)(seconds * 1e8 + 0.5) / 100;
}

/* Adds what may be NULL, and what is then freed where it cannot be added; key
 * NULL: to an array. */
static bool put(cJSON *to, const char *key, cJSON *item)
{
    const bool good = key ? cJSON_AddItemToObject(to, key, item)
                          : cJSON_AddItemToArray(to, item);

    if (!good)
        cJSON_Delete(item);
    return good;
}

/* ---- choices ------------------------------------------------------- */

/* The libraries of a choice; NULL: none. */
static const char *libraries_of(const cJSON *e)
{
    const cJSON *item = cJSON_GetArrayItem(e, 4);

    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* Elements of the choice at the start of an array. */
static int choice_size(const cJSON *e)
{
    return libraries_of(e) ? 5 : 4;
}

/* True if the array holds a choice and `more` further elements. */
static bool good_choice(const cJSON *e, int more)
{
    int64_t variant;

    return cJSON_IsArray(e) && cJSON_GetArraySize(e) == choice_size(e) + more &&
           cJSON_IsString(cJSON_GetArrayItem(e, 0)) &&
           cJSON_IsString(cJSON_GetArrayItem(e, 3)) &&
           json_int64(cJSON_GetArrayItem(e, 1), 0, MAX_VARIANT, &variant) &&
           cJSON_IsNumber(cJSON_GetArrayItem(e, 2));
}

static void read_choice(const cJSON *e, struct tune_stored *out)
{
    out->row = cJSON_GetArrayItem(e, 0)->valuestring;
    out->variant = cJSON_GetArrayItem(e, 1)->valueint;
    out->seconds = 1e-6 * cJSON_GetArrayItem(e, 2)->valuedouble;
    out->variant_name = cJSON_GetArrayItem(e, 3)->valuestring;
    out->libraries = libraries_of(e);
}

static cJSON *choice_json(const struct tune_stored *choice)
{
    const char *libraries = choice->libraries ? choice->libraries : "";
    cJSON *e = cJSON_CreateArray();

    if (!e || !put(e, NULL, cJSON_CreateString(choice->row)) ||
        !put(e, NULL, cJSON_CreateNumber(choice->variant)) ||
        !put(e, NULL, cJSON_CreateNumber(micros(choice->seconds))) ||
        !put(e, NULL, cJSON_CreateString(choice->variant_name)) ||
        (libraries[0] && !put(e, NULL, cJSON_CreateString(libraries)))) {
        cJSON_Delete(e);
        return NULL;
    }
    return e;
}

/* ---- problems ------------------------------------------------------ */

static bool good_near(const cJSON *near)
{
    const cJSON *e;

    if (!near)
        return true;
    cJSON_ArrayForEach(e, near)
    {
        if (!good_choice(e, 0))
            return false;
    }
    return cJSON_IsArray(near);
}

static bool good_problem(const cJSON *e)
{
    const cJSON *more = cJSON_GetArrayItem(e, choice_size(e));

    return good_choice(e, 0) || (good_choice(e, 1) && cJSON_IsObject(more) &&
                                 good_near(json_member(more, "near")));
}

bool tune_entry_read(const cJSON *e, struct tune_entry *out)
{
    const cJSON *more, *near;

    if (!cJSON_IsArray(e))
        return false;
    more = cJSON_GetArrayItem(e, choice_size(e));
    *out = (struct tune_entry){0};
    read_choice(e, &out->best);
    out->exhaustive = json_string(more, "exhaustive");
    cJSON_ArrayForEach(near, json_member(more, "near"))
    {
        if (out->n_near < TUNE_NEAR)
            read_choice(near, &out->near[out->n_near++]);
    }
    return true;
}

static bool add_near(cJSON *more, const struct tune_entry *entry)
{
    cJSON *list =
        entry->n_near > 0 ? cJSON_AddArrayToObject(more, "near") : NULL;
    int i;

    if (entry->n_near > 0 && !list)
        return false;
    for (i = 0; i < entry->n_near; i++)
        if (!put(list, NULL, choice_json(&entry->near[i])))
            return false;
    return true;
}

cJSON *tune_entry_json(const struct tune_entry *entry)
{
    cJSON *e = choice_json(&entry->best), *more;

    if (!e || (!entry->exhaustive && entry->n_near == 0))
        return e;
    more = cJSON_CreateObject();
    if (!put(e, NULL, more) ||
        (entry->exhaustive &&
         !cJSON_AddStringToObject(more, "exhaustive", entry->exhaustive)) ||
        !add_near(more, entry)) {
        cJSON_Delete(e);
        return NULL;
    }
    return e;
}

/* ---- networks ------------------------------------------------------ */

static bool good_network(const cJSON *e)
{
    const cJSON *exchanged = json_member(e, "exchanged"), *choice;

    if (!cJSON_IsNumber(json_member(e, "us")) ||
        !cJSON_IsNumber(json_member(e, "alone_us")) ||
        !cJSON_IsObject(exchanged))
        return false;
    cJSON_ArrayForEach(choice, exchanged)
    {
        if (!good_choice(choice, 0))
            return false;
    }
    return true;
}

bool tune_entry_read_network(const cJSON *e, struct tune_network_entry *out)
{
    if (!cJSON_IsObject(e))
        return false;
    *out = (struct tune_network_entry){
        .seconds = 1e-6 * json_double(e, "us", 0),
        .alone = 1e-6 * json_double(e, "alone_us", 0),
        .exhaustive = json_string(e, "exhaustive")};
    return true;
}

bool tune_entry_substitution(const cJSON *e, const char *problem,
                             struct tune_stored *out)
{
    const cJSON *choice = json_member(json_member(e, "exchanged"), problem);

    if (!choice)
        return false;
    read_choice(choice, out);
    return true;
}

static bool fill_network(cJSON *e, const struct tune_network_entry *entry)
{
    cJSON *list;
    int i;

    if (!cJSON_AddNumberToObject(e, "us", micros(entry->seconds)) ||
        !cJSON_AddNumberToObject(e, "alone_us", micros(entry->alone)) ||
        (entry->exhaustive &&
         !cJSON_AddStringToObject(e, "exhaustive", entry->exhaustive)))
        return false;
    list = cJSON_AddObjectToObject(e, "exchanged");
    if (!list)
        return false;
    for (i = 0; i < entry->n; i++)
        if (!put(list, entry->substitution[i].problem,
                 choice_json(&entry->substitution[i].choice)))
            return false;
    return true;
}

cJSON *tune_entry_network_json(const struct tune_network_entry *entry)
{
    cJSON *e = cJSON_CreateObject();

    if (e && !fill_network(e, entry)) {
        cJSON_Delete(e);
        return NULL;
    }
    return e;
}

/* ---- types --------------------------------------------------------- */

static bool good_types(const cJSON *e)
{
    const char *bytes = json_string(e, "bytes");

    return bytes && bytes[strspn(bytes, "01")] == '\0' &&
           cJSON_IsNumber(json_member(e, "us")) &&
           cJSON_IsNumber(json_member(e, "floats_us")) &&
           cJSON_IsNumber(json_member(e, "bytes_us"));
}

bool tune_entry_read_types(const cJSON *e, struct tune_types *out)
{
    if (!good_types(e))
        return false;
    out->bytes = json_string(e, "bytes");
    out->seconds = 1e-6 * json_double(e, "us", 0);
    out->floats = 1e-6 * json_double(e, "floats_us", 0);
    out->all = 1e-6 * json_double(e, "bytes_us", 0);
    return true;
}

cJSON *tune_entry_types_json(const struct tune_types *types)
{
    cJSON *e = cJSON_CreateObject();

    if (e && (!cJSON_AddStringToObject(e, "bytes", types->bytes) ||
              !cJSON_AddNumberToObject(e, "us", micros(types->seconds)) ||
              !cJSON_AddNumberToObject(e, "floats_us", micros(types->floats)) ||
              !cJSON_AddNumberToObject(e, "bytes_us", micros(types->all)))) {
        cJSON_Delete(e);
        return NULL;
    }
    return e;
}

bool tune_entry_good(const cJSON *e)
{
    return cJSON_IsObject(e) ? good_network(e) || good_types(e)
                             : good_problem(e);
}
