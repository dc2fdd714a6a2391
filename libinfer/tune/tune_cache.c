/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of measured kernel choices:
 *
 *     {"libinfer_tuning": 3,
 *      "devices": {"NVIDIA H200, driver 580.159.04 CUDA 13.0, libinfer 0.2.0
 *                   rows 0123...": {
 *          "conv_fprop mb1ic64... #89ab...": ["row", variant, us, "variant's
 * name"]}}}
 *
 * tune_entry.c has all forms of an entry.
 *
 * It is rewritten as a whole beside what others wrote meanwhile; of two
 * processes that write at once, the later one wins.  A file that is damaged or
 * of another version is not touched before there is something to write, and is
 * then replaced; one that is something else altogether stays as it is.
 */
#include "libinfer/tune/tune_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/base/file_write.h"
#include "kernels/base/json.h"
#include "libinfer/graph/constant.h"
#include "libinfer/tune/tune_entry.h"

#define FORMAT_KEY "libinfer_tuning"
/* 2: a tile is a variant of a row, not a row of its own.  3: a choice names the
 * libraries that it calls; the device does not. */
#define FORMAT_VERSION 3
/* A network has tens of problems of some 150 bytes each. */
#define MAX_BYTES (16u << 20)

struct tune_cache {
    char *path; /* NULL: memory only */
    char *label;
    cJSON *known;    /* key -> entry */
    cJSON *added;    /* those of them that are not in the file yet */
    cJSON *used;     /* those of them that were taken */
    cJSON *imported; /* like known, which it comes before */
    char note[512];
};

/* ---- where it lies ------------------------------------------------- */

static char *join(const char *folder, const char *rest)
{
    const size_t bytes = strlen(folder) + strlen(rest) + 1;
    char *path = malloc(bytes);

    if (path)
        snprintf(path, bytes, "%s%s", folder, rest);
    return path;
}

/* The XDG base directory specification: a relative path there is ignored. */
char *tune_cache_usual_path(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && cache[0] == '/')
        return join(cache, "/libinfer/tuning.json");
    if (home && home[0] == '/')
        return join(home, "/.cache/libinfer/tuning.json");
    return NULL;
}

/* Makes the folders above the file that are missing. */
static void make_folders(const char *path)
{
    char *copy = strdup(path), *at;

    for (at = copy ? strchr(copy + 1, '/') : NULL; at;
         at = strchr(at + 1, '/')) {
        *at = '\0';
        /* What fails here shows when the file is written. */
        (void)mkdir(copy, 0700);
        *at = '/';
    }
    free(copy);
}

/* ---- what it hashes ------------------------------------------------ */

/* Names of all rows: a build with other kernels measures anew. */
static uint64_t table_hash(void)
{
    uint64_t hash = TUNE_HASH;
    size_t i;

    for (i = 0; i < kern_row_count(); i++) {
        const char *name = kern_row_at(i)->name;

        hash = tune_hash(hash, name, strlen(name) + 1);
    }
    return hash;
}

static char *full_label(const char *device)
{
    char text[320];

    snprintf(text, sizeof text, "%.223s, libinfer %s rows %016llx", device,
             infer_version(), (unsigned long long)table_hash());
    return strdup(text);
}

/* ---- reading ------------------------------------------------------- */

/* The document in the file: 0 and NULL where there is none. */
static int read_file(const char *path, struct infer_error *err, cJSON **out)
{
    struct stat st;

    *out = NULL;
    return stat(path, &st) < 0 && errno == ENOENT
               ? 0
               : file_read_json(path, MAX_BYTES, err, out);
}

static int check_format(const cJSON *root, struct infer_error *err)
{
    int64_t version;

    if (json_int64(json_member(root, FORMAT_KEY), FORMAT_VERSION,
                   FORMAT_VERSION, &version) &&
        cJSON_IsObject(json_member(root, "devices")))
        return 0;
    return error_set(err, INFER_EFORMAT, "not a tuning cache of version %d",
                     FORMAT_VERSION);
}

/* The same, and its format is the one of this build. */
static int read_cache(const char *path, struct infer_error *err, cJSON **out)
{
    cJSON *root;
    int rc = read_file(path, err, &root);

    if (rc == 0 && root && (rc = check_format(root, err)) < 0) {
        error_prefix(err, "%s", path);
        cJSON_Delete(root);
    }
    if (rc == 0)
        *out = root;
    return rc;
}

/* All entries of the device where none are known yet: an object's members are
 * a list, and to look each of them up takes time that grows with the square of
 * their number. */
static void adopt_section(cJSON **list, cJSON *section)
{
    cJSON *e = section->child, *next;

    for (; e; e = next) {
        next = e->next;
        if (!tune_entry_good(e))
            cJSON_Delete(cJSON_DetachItemViaPointer(section, e));
    }
    cJSON_Delete(*list);
    *list = section;
}

/* Entries of this device, in the place of those that are there. */
static void take_section(const struct tune_cache *c, const cJSON *root,
                         cJSON **list)
{
    cJSON *devices = cJSON_GetObjectItemCaseSensitive(root, "devices"),
          *section;
    const cJSON *e;

    section = cJSON_GetObjectItemCaseSensitive(devices, c->label);
    if (!cJSON_IsObject(section))
        return;
    if (!(*list)->child) {
        adopt_section(list, cJSON_DetachItemViaPointer(devices, section));
        return;
    }
    cJSON_ArrayForEach(e, section)
    {
        cJSON *copy = tune_entry_good(e) ? cJSON_Duplicate(e, true) : NULL;

        if (!copy)
            continue;
        cJSON_DeleteItemFromObjectCaseSensitive(*list, e->string);
        if (!cJSON_AddItemToObject(*list, e->string, copy))
            cJSON_Delete(copy);
    }
}

static void take_known(struct tune_cache *c)
{
    struct infer_error err;
    cJSON *root = NULL;

    err.text[0] = '\0';
    if (read_cache(c->path, &err, &root) < 0) {
        snprintf(c->note, sizeof c->note, "tuning cache ignored: %.400s",
                 err.text);
        return;
    }
    take_section(c, root, &c->known);
    cJSON_Delete(root);
}

int tune_cache_import(struct tune_cache *c, const char *text,
                      struct infer_error *err)
{
    cJSON *root = NULL;
    int rc = json_parse(text, strlen(text), false, err, &root);

    if (rc == 0)
        rc = check_format(root, err);
    if (rc == 0)
        take_section(c, root, &c->imported);
    cJSON_Delete(root);
    return rc;
}

/* ---- writing ------------------------------------------------------- */

/* The member, made an object where it is none. */
static cJSON *object_in(cJSON *parent, const char *key)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(parent, key);

    if (cJSON_IsObject(item))
        return item;
    cJSON_DeleteItemFromObjectCaseSensitive(parent, key);
    return cJSON_AddObjectToObject(parent, key);
}

static cJSON *new_document(void)
{
    cJSON *root = cJSON_CreateObject();

    if (root)
        cJSON_AddNumberToObject(root, FORMAT_KEY, FORMAT_VERSION);
    return root;
}

static bool merge(const struct tune_cache *c, const cJSON *entries, cJSON *root)
{
    cJSON *section = object_in(object_in(root, "devices"), c->label);
    const cJSON *e;
    bool good = section != NULL;

    cJSON_ArrayForEach(e, entries)
    {
        cJSON *copy = good ? cJSON_Duplicate(e, true) : NULL;

        if (!copy)
            return false;
        cJSON_DeleteItemFromObjectCaseSensitive(section, e->string);
        good = cJSON_AddItemToObject(section, e->string, copy);
        if (!good)
            cJSON_Delete(copy);
    }
    return good;
}

/* Whether the file is a tuning cache, of whatever version and however damaged,
 * or holds nothing that could be lost. */
static bool may_replace(const char *path)
{
    char head[64];
    struct stat st;
    size_t got;
    FILE *f;

    if (stat(path, &st) < 0)
        return errno == ENOENT;
    /* To open a pipe would wait for its other end. */
    f = S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    if (!f)
        return false;
    got = fread(head, 1, sizeof head - 1, f);
    fclose(f);
    head[got] = '\0';
    return got == 0 || strstr(head, "\"" FORMAT_KEY "\"");
}

static int write_cache(const struct tune_cache *c, struct infer_error *err)
{
    cJSON *root = NULL;
    char *text = NULL;
    int rc = INFER_EMEMORY;

    if (read_cache(c->path, NULL, &root) < 0 && !may_replace(c->path))
        return error_set(err, INFER_EFORMAT, "%s: is something else", c->path);
    if (!root)
        root = new_document();
    if (root && merge(c, c->added, root))
        text = cJSON_Print(root);
    if (text) {
        const struct file_part part = {text, strlen(text)};

        make_folders(c->path);
        rc = file_replace(c->path, &part, 1, true, err);
    } else {
        error_set(err, rc, "%s: out of memory", c->path);
    }
    cJSON_free(text);
    cJSON_Delete(root);
    return rc;
}

void tune_cache_write(struct tune_cache *c)
{
    struct infer_error err;

    if (!c->path || !c->added->child)
        return;
    err.text[0] = '\0';
    if (write_cache(c, &err) < 0) {
        snprintf(c->note, sizeof c->note, "tuning cache not written: %.400s",
                 err.text);
        return;
    }
    cJSON_Delete(c->added->child);
    c->added->child = NULL;
}

char *tune_cache_text(const struct tune_cache *c)
{
    cJSON *root = new_document();
    char *text =
        root && merge(c, c->used, root) ? cJSON_PrintUnformatted(root) : NULL;

    cJSON_Delete(root);
    return text;
}

/* ---- entries ------------------------------------------------------- */

static const cJSON *find(const struct tune_cache *c, const char *key)
{
    const cJSON *e = cJSON_GetObjectItemCaseSensitive(c->imported, key);

    return e ? e : cJSON_GetObjectItemCaseSensitive(c->known, key);
}

bool tune_cache_find(const struct tune_cache *c, const char *key,
                     struct tune_entry *out)
{
    if (!tune_entry_read(find(c, key), out))
        return false;
    out->imported = cJSON_GetObjectItemCaseSensitive(c->imported, key) != NULL;
    return true;
}

bool tune_cache_find_network(const struct tune_cache *c, const char *key,
                             struct tune_network_entry *out)
{
    return tune_entry_read_network(find(c, key), out);
}

bool tune_cache_substitution(const struct tune_cache *c, const char *key,
                             const char *problem, struct tune_stored *out)
{
    return tune_entry_substitution(find(c, key), problem, out);
}

int tune_cache_use(struct tune_cache *c, const char *key,
                   struct infer_error *err)
{
    const cJSON *e = find(c, key);
    cJSON *copy = e ? cJSON_Duplicate(e, true) : NULL;

    cJSON_DeleteItemFromObjectCaseSensitive(c->used, key);
    if (!e || (copy && cJSON_AddItemToObject(c->used, key, copy)))
        return 0;
    cJSON_Delete(copy);
    return error_set(err, INFER_EMEMORY, "tuning: out of memory");
}

/* Takes e, which may be NULL. */
static int add(struct tune_cache *c, const char *key, cJSON *e,
               struct infer_error *err)
{
    cJSON *copy = e ? cJSON_Duplicate(e, true) : NULL;

    cJSON_DeleteItemFromObjectCaseSensitive(c->imported, key);
    cJSON_DeleteItemFromObjectCaseSensitive(c->known, key);
    cJSON_DeleteItemFromObjectCaseSensitive(c->added, key);
    if (!e || !cJSON_AddItemToObject(c->known, key, e)) {
        cJSON_Delete(e);
        cJSON_Delete(copy);
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    }
    if (copy && cJSON_AddItemToObject(c->added, key, copy))
        return 0;
    cJSON_Delete(copy);
    return error_set(err, INFER_EMEMORY, "tuning: out of memory");
}

int tune_cache_add(struct tune_cache *c, const char *key,
                   const struct tune_entry *entry, struct infer_error *err)
{
    return add(c, key, tune_entry_json(entry), err);
}

int tune_cache_add_network(struct tune_cache *c, const char *key,
                           const struct tune_network_entry *entry,
                           struct infer_error *err)
{
    return add(c, key, tune_entry_network_json(entry), err);
}

bool tune_cache_find_types(const struct tune_cache *c, const char *key,
                           struct tune_types *out)
{
    return tune_entry_read_types(find(c, key), out);
}

int tune_cache_add_types(struct tune_cache *c, const char *key,
                         const struct tune_types *types,
                         struct infer_error *err)
{
    return add(c, key, tune_entry_types_json(types), err);
}

/* ---- kernels -------------------------------------------------------- */

bool tune_choice_of(const struct tune_stored *stored, struct tune_choice *out)
{
    memset(out, 0, sizeof *out);
    out->row = kern_row_find(stored->row);
    out->variant = stored->variant;
    out->seconds = stored->seconds;
    snprintf(out->variant_name, sizeof out->variant_name, "%s",
             stored->variant_name);
    return out->row != NULL &&
           strcmp(stored->libraries ? stored->libraries : "",
                  kern_backend_libraries(out->row->backend)) == 0;
}

struct tune_stored tune_stored_of(const struct tune_choice *c)
{
    return (struct tune_stored){.row = c->row->name,
                                .variant = c->variant,
                                .variant_name = c->variant_name,
                                .seconds = c->seconds,
                                .libraries =
                                    kern_backend_libraries(c->row->backend)};
}

/* ---- opening ------------------------------------------------------- */

int tune_cache_open(const char *path, const char *label,
                    struct infer_error *err, struct tune_cache **out)
{
    struct tune_cache *c = calloc(1, sizeof *c);

    if (!c)
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    c->label = full_label(label);
    c->known = cJSON_CreateObject();
    c->added = cJSON_CreateObject();
    c->used = cJSON_CreateObject();
    c->imported = cJSON_CreateObject();
    if (!path)
        c->path = tune_cache_usual_path();
    else if (path[0])
        c->path = strdup(path);
    if (!c->label || !c->known || !c->added || !c->used || !c->imported ||
        (path && path[0] && !c->path)) {
        tune_cache_close(c);
        return error_set(err, INFER_EMEMORY, "tuning: out of memory");
    }
    if (c->path)
        take_known(c);
    *out = c;
    return 0;
}

void tune_cache_close(struct tune_cache *c)
{
    if (!c)
        return;
    free(c->path);
    free(c->label);
    cJSON_Delete(c->known);
    cJSON_Delete(c->added);
    cJSON_Delete(c->used);
    cJSON_Delete(c->imported);
    free(c);
}

const char *tune_cache_path(const struct tune_cache *c)
{
    return c->path ? c->path : "";
}

const char *tune_cache_note(const struct tune_cache *c)
{
    return c->note;
}
