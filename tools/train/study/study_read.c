/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a study, and the commands of its runs. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "tools/train/study/study.h"

#define MAX_FILE (1 << 20) /* bytes */
#define MAX_RUNS 10000

const char *const study_directions[STUDY_DIRECTIONS] = {
    "exact", "all",        "forward",   "dgrad",    "wgrad",
    "slope", "derivative", "fine-tune", "inference"};

/* ---- the file ------------------------------------------------------ */

static int load(const char *path, struct infer_error *err, cJSON **out)
{
    char *text = malloc(MAX_FILE + 1);
    FILE *f = fopen(path, "rb");
    size_t n = 0;
    int rc = 0;

    if (!text)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    else if (!f)
        rc = error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    else
        n = fread(text, 1, MAX_FILE + 1, f);
    if (rc == 0 && ferror(f))
        rc = error_set(err, INFER_EIO, "%s: %s", path, strerror(errno));
    else if (rc == 0 && n > MAX_FILE)
        rc = error_set(err, INFER_EFORMAT, "%s: more than %d bytes", path,
                       MAX_FILE);
    if (rc == 0) {
        rc = json_parse(text, n, false, err, out);
        if (rc < 0)
            error_prefix(err, "%s", path);
    }
    if (f)
        fclose(f);
    free(text);
    return rc;
}

static bool is_list_of_texts(const cJSON *list)
{
    const cJSON *item;

    if (list && !cJSON_IsArray(list))
        return false;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item))
            return false;
    }
    return true;
}

/* Every member is known and of its type. */
static int check(const cJSON *json, struct infer_error *err)
{
    static const char *const known[] = {"networks",   "options",
                                        "fine_tune",  "multipliers",
                                        "directions", "seeds"};
    const cJSON *item;

    if (!cJSON_IsObject(json))
        return error_set(err, INFER_EFORMAT, "no JSON object");
    cJSON_ArrayForEach(item, json)
    {
        size_t i = 0;
        while (i < sizeof known / sizeof known[0] &&
               strcmp(known[i], item->string) != 0)
            i++;
        if (i == sizeof known / sizeof known[0])
            return error_set(err, INFER_EFORMAT,
                             "member '%s' is unknown; there are networks, "
                             "options, fine_tune, multipliers, directions and "
                             "seeds",
                             item->string);
        if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) > MAX_RUNS)
            return error_set(err, INFER_EFORMAT, "'%s' is no list",
                             item->string);
        if (i >= 1 && i <= 4 && !is_list_of_texts(item))
            return error_set(err, INFER_EFORMAT, "'%s' is no list of texts",
                             item->string);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (i != 1 && i != 2 &&
            cJSON_GetArraySize(json_member(json, known[i])) == 0)
            return error_set(err, INFER_EFORMAT, "'%s' is missing or empty",
                             known[i]);
    return 0;
}

static int check_networks(const cJSON *json, struct infer_error *err)
{
    const cJSON *item;
    int n = 0;

    cJSON_ArrayForEach(item, json_member(json, "networks"))
    {
        n++;
        if (!json_string(item, "arch") || !json_string(item, "data") ||
            !is_list_of_texts(json_member(item, "options")))
            return error_set(err, INFER_EFORMAT,
                             "network %d: needs the texts 'arch' and 'data', "
                             "and may have a list of texts 'options'",
                             n);
    }
    return 0;
}

static int direction_of(const char *word, struct infer_error *err)
{
    for (int d = STUDY_ALL; d < STUDY_DIRECTIONS; d++)
        if (strcmp(word, study_directions[d]) == 0)
            return d;
    return error_set(err, INFER_EFORMAT,
                     "direction '%s': there are all, forward, dgrad, wgrad, "
                     "slope, derivative, fine-tune and inference",
                     word);
}

/* ---- runs ---------------------------------------------------------- */

/* Letters, digits, '.', '-' of the text; '_' for the rest. */
static void put_word(char *to, size_t room, const char *text)
{
    const size_t n = strlen(to);
    size_t i = 0;

    for (; text[i] && n + i + 1 < room; i++)
        to[n + i] = isalnum((unsigned char)text[i]) || strchr(".-", text[i])
                        ? text[i]
                        : '_';
    to[n + i] = '\0';
}

/* The last part of a path, without the ending if it has that. */
static void label(char *to, size_t room, const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/');
    const size_t end = strlen(ending);

    snprintf(to, room, "%s", slash && slash[1] ? slash + 1 : path);
    const size_t n = strlen(to);
    if (end > 0 && n > end && strcmp(to + n - end, ending) == 0)
        to[n - end] = '\0';
}

static void name_run(const struct study_run *r, char *name, size_t room,
                     enum study_direction d)
{
    snprintf(name, room, "%d-", r->network + 1);
    put_word(name, 60, r->network_label);
    put_word(name, room, "-");
    if (d != STUDY_EXACT) {
        put_word(name, 130, r->multiplier_label);
        put_word(name, room, "-");
    }
    put_word(name, room, study_directions[d]);
    snprintf(name + strlen(name), room - strlen(name), "-%lld",
             (long long)r->seed);
}

static bool add(cJSON *command, const char *option, const char *value)
{
    const size_t room = strlen(option) + strlen(value) + 1;
    char *text = malloc(room);
    bool good = false;

    if (text) {
        snprintf(text, room, "%s%s", option, value);
        good = cJSON_AddItemToArray(command, cJSON_CreateString(text));
    }
    free(text);
    return good;
}

static bool add_list(cJSON *command, const cJSON *list)
{
    const cJSON *item;
    bool good = true;

    cJSON_ArrayForEach(item, list)
    {
        good = good && add(command, item->valuestring, "");
    }
    return good;
}

/* The weights of the exact run. */
static bool add_weights(cJSON *command, const char *folder, const char *exact)
{
    const size_t room = strlen(folder) + strlen(exact) + 16;
    char *path = malloc(room);
    bool good = path != NULL;

    if (path)
        snprintf(path, room, "%s/%s.safetensors", folder, exact);
    good = good && add(command, "--init-from=", path);
    free(path);
    return good;
}

/* The options of one run. */
static cJSON *make_command(const cJSON *json, const cJSON *network,
                           struct study_run *r, const char *folder)
{
    static const char *const option[STUDY_DIRECTIONS] = {
        [STUDY_ALL] = "--multiplier=",
        [STUDY_FORWARD] = "--multiplier-forward=",
        [STUDY_DGRAD] = "--multiplier-dgrad=",
        [STUDY_WGRAD] = "--multiplier-wgrad=",
        [STUDY_SLOPE] = "--multiplier=",
        [STUDY_DERIVATIVE] = "--multiplier=",
        [STUDY_FINE_TUNE] = "--multiplier=",
        [STUDY_INFERENCE] = "--multiplier-forward="};
    const bool starts =
        r->direction == STUDY_FINE_TUNE || r->direction == STUDY_INFERENCE;
    cJSON *c = cJSON_CreateArray();
    char seed[32], exact[160];
    bool good = c != NULL;

    snprintf(seed, sizeof seed, "%lld", (long long)r->seed);
    name_run(r, exact, sizeof exact, STUDY_EXACT);
    good = good && add_list(c, json_member(json, "options")) &&
           add_list(c, json_member(network, "options"));
    if (r->direction == STUDY_FINE_TUNE)
        good = good && add_list(c, json_member(json, "fine_tune"));
    good = good && add(c, "--arch=", r->arch) &&
           add(c, "--data=", json_string(network, "data")) &&
           add(c, "--seed=", seed);
    if (r->direction == STUDY_SLOPE || r->direction == STUDY_DERIVATIVE)
        good = good &&
               add(c, "--multiplier-gradient=", study_directions[r->direction]);
    if (r->direction != STUDY_EXACT)
        good = good && add(c, option[r->direction], r->multiplier);
    if (starts)
        good = good && add_weights(c, folder, exact);
    if (r->direction == STUDY_INFERENCE)
        good = good && add(c, "--evaluate", "");
    if (good)
        return c;
    cJSON_Delete(c);
    return NULL;
}

static int add_run(struct study *s, const cJSON *network, const char *folder,
                   const struct study_run *like, struct infer_error *err)
{
    struct study_run *r;

    if (s->runs == MAX_RUNS)
        return error_set(err, INFER_EFORMAT, "more than %d runs", MAX_RUNS);
    r = realloc(s->run, (size_t)(s->runs + 1) * sizeof *r);
    if (!r)
        return error_set(err, INFER_EMEMORY, "out of memory");
    s->run = r;
    r += s->runs;
    *r = *like;
    label(r->network_label, sizeof r->network_label, r->arch, ".json");
    label(r->multiplier_label, sizeof r->multiplier_label, r->multiplier, "");
    name_run(r, r->name, sizeof r->name, r->direction);
    for (int i = 0; i < s->runs; i++)
        if (strcmp(s->run[i].name, r->name) == 0)
            return error_set(err, INFER_EFORMAT,
                             "two runs have the name %s: networks, "
                             "multipliers, directions and seeds must differ",
                             r->name);
    r->command = make_command(s->json, network, r, folder);
    if (!r->command)
        return error_set(err, INFER_EMEMORY, "out of memory");
    s->runs++;
    return 0;
}

/* The runs of one network and seed, the exact one first. */
static int add_runs(struct study *s, const cJSON *network, const char *folder,
                    struct study_run like, struct infer_error *err)
{
    const cJSON *multiplier, *direction;
    int rc;

    like.direction = STUDY_EXACT;
    like.multiplier = "exact";
    rc = add_run(s, network, folder, &like, err);
    cJSON_ArrayForEach(multiplier, json_member(s->json, "multipliers"))
    {
        cJSON_ArrayForEach(direction, json_member(s->json, "directions"))
        {
            const int d =
                rc < 0 ? rc : direction_of(direction->valuestring, err);
            like.multiplier = multiplier->valuestring;
            like.direction = d < 0 ? STUDY_EXACT : (enum study_direction)d;
            rc = d < 0 ? d : add_run(s, network, folder, &like, err);
        }
    }
    return rc;
}

int study_read(const char *path, const char *folder, struct infer_error *err,
               struct study *out)
{
    const cJSON *network, *seed;
    struct study_run like = {0};
    int rc;

    memset(out, 0, sizeof *out);
    rc = load(path, err, &out->json);
    if (rc < 0)
        return rc;
    rc = check(out->json, err);
    if (rc == 0)
        rc = check_networks(out->json, err);
    cJSON_ArrayForEach(network, json_member(out->json, "networks"))
    {
        like.arch = rc < 0 ? "" : json_string(network, "arch");
        cJSON_ArrayForEach(seed, json_member(out->json, "seeds"))
        {
            if (rc == 0 && !json_int64(seed, 0, INT32_MAX, &like.seed))
                rc = error_set(err, INFER_EFORMAT,
                               "seeds are whole numbers from 0");
            if (rc == 0)
                rc = add_runs(out, network, folder, like, err);
        }
        like.network++;
    }
    if (rc == 0)
        return 0;
    error_prefix(err, "%s", path);
    study_clear(out);
    return rc;
}

void study_clear(struct study *s)
{
    for (int i = 0; i < s->runs; i++)
        cJSON_Delete(s->run[i].command);
    free(s->run);
    cJSON_Delete(s->json);
    memset(s, 0, sizeof *s);
}
