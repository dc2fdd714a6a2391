/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of weights that were split into several files, as Hugging Face
 * writes it: model.safetensors.index.json, pytorch_model.bin.index.json.
 *
 *     {"metadata": {...}, "weight_map": {"name of a tensor": "file", ...}}
 *
 * Untrusted: files are opened only in the folder of the index.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/memory_size.h"
#include "weights/external.h"
#include "weights/weights.h"

#define MAX_INDEX  ((size_t)64 << 20)
#define MAX_SHARDS 10000

extern const struct weights_format weights_format_shards;

static bool is_space(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int probe(const struct weights_file *file)
{
    const struct blob *blob = file->blob;
    size_t i = 0;

    while (i < blob->bytes && i < 64 && is_space(blob->data[i]))
        i++;
    return i < blob->bytes && blob->data[i] == '{' &&
                   memmem(blob->data, blob->bytes, "\"weight_map\"", 12) != NULL
               ? 95
               : 0;
}

static bool is_plain_name(const char *name)
{
    return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strpbrk(name, "/\\:") && strlen(name) < 256;
}

/* The format of a part: the one that knows its content best; NULL. */
static const struct weights_format *format_of(const struct weights_file *part)
{
    const struct weights_format *best = NULL;
    int most = 0;

    for (size_t i = 0; i < weights_format_count(); i++) {
        const struct weights_format *f = weights_format_at(i);
        const int score = f == &weights_format_shards ? 0 : f->probe(part);

        if (score > most) {
            most = score;
            best = f;
        }
    }
    return best;
}

/* Formats of bare tensors in one file.  Others read files that they name, or
 * that lie beside them: no path is known here for that. */
static bool is_bare(const struct weights_format *format)
{
    static const char *const names[] = {"pytorch", "safetensors", "npz"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(format->name, names[i]) == 0)
            return true;
    return false;
}

static int read_part(struct blob *blob, const char *name,
                     struct infer_error *err, struct weights_import *out)
{
    static const struct weights_options bare = {.bare = true};
    struct weights_file part = {.path = name, .blob = blob};
    const struct weights_format *format = format_of(&part);

    if (!format)
        return error_set(err, INFER_EFORMAT, "of no format known here");
    if (!is_bare(format))
        return error_set(err, INFER_EUNSUPPORTED,
                         "of format %s; shards are PyTorch's, safetensors or "
                         "numpy's",
                         format->name);
    const int rc = format->read(&part, &bare, err, out);
    if (rc == 0 && out->graph)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a whole network, not a part of its tensors");
    return rc;
}

/* Reads a shard from the folder of the index. */
static int read_shard(const char *index_path, const char *name,
                      struct infer_error *err, struct weights_import *out)
{
    const struct weights_location location = {name, strlen(name)};
    struct blob *blob = NULL;
    int rc;

    if (!is_plain_name(name))
        return error_set(err, INFER_EFORMAT,
                         "shard '%s' is no plain file name: shards lie in the "
                         "folder of their index",
                         name);
    rc = weights_external_read(index_path, location, memory_size() / 2, err,
                               &blob);
    if (rc == 0) {
        out->bytes += blob->bytes;
        rc = read_part(blob, name, err, out);
        blob_unref(blob);
    }
    error_prefix(rc < 0 ? err : NULL, "shard '%s'", name);
    return rc;
}

/* The names of the files that the map mentions, each once, sorted. */
struct shards {
    const char **name;
    size_t count;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_shards(const cJSON *map, struct infer_error *err,
                       struct shards *out)
{
    const cJSON *item;
    size_t count = 0, i;

    cJSON_ArrayForEach(item, map)
    {
        if (!cJSON_IsString(item))
            return error_set(err, INFER_EFORMAT,
                             "weight_map: '%s' names no file", item->string);
        count++;
    }
    out->name = malloc((count + 1) * sizeof *out->name);
    if (!out->name)
        return error_set(err, INFER_EMEMORY, "out of memory");
    i = 0;
    cJSON_ArrayForEach(item, map) out->name[i++] = item->valuestring;
    qsort(out->name, count, sizeof *out->name, by_text);
    for (i = 0; i < count; i++)
        if (i == 0 || strcmp(out->name[i], out->name[i - 1]) != 0)
            out->name[out->count++] = out->name[i];
    if (out->count > MAX_SHARDS)
        return error_set(err, INFER_EFORMAT, "%zu shards (at most %d)",
                         out->count, MAX_SHARDS);
    return 0;
}

static int check_map(const cJSON *map, struct infer_error *err,
                     const struct weights_import *out)
{
    const cJSON *item;
    size_t count = 0;

    cJSON_ArrayForEach(item, map)
    {
        count++;
        if (!weights_dict_find(&out->dict, item->string))
            return error_set(err, INFER_EFORMAT,
                             "tensor '%s' of the index is in none of its "
                             "shards",
                             item->string);
    }
    if (count != out->dict.count)
        return error_set(err, INFER_EFORMAT,
                         "the shards hold %zu tensors, but the index names "
                         "%zu",
                         out->dict.count, count);
    return 0;
}

static int read_shards(struct weights_file *file,
                       const struct weights_options *options,
                       struct infer_error *err, struct weights_import *out)
{
    struct shards shards = {NULL, 0};
    const cJSON *map;
    cJSON *index = NULL;
    size_t i;
    int rc;

    (void)options;
    if (file->blob->bytes > MAX_INDEX)
        return error_set(err, INFER_EFORMAT, "an index of %zu bytes",
                         file->blob->bytes);
    rc = json_parse((const char *)file->blob->data, file->blob->bytes, false,
                    err, &index);
    if (rc < 0)
        return rc;
    map = json_member(index, "weight_map");
    if (!cJSON_IsObject(map))
        rc = error_set(err, INFER_EFORMAT, "the index has no weight_map");
    if (rc == 0)
        rc = list_shards(map, err, &shards);
    for (i = 0; rc == 0 && i < shards.count; i++)
        rc = read_shard(file->path, shards.name[i], err, out);
    if (rc == 0)
        rc = check_map(map, err, out);
    snprintf(out->detail, sizeof out->detail, "%zu tensors in %zu shards",
             out->dict.count, shards.count);
    free(shards.name);
    cJSON_Delete(index);
    return rc;
}

const struct weights_format weights_format_shards = {
    .name = "shards",
    .description = "weights in several files, by their index (.index.json)",
    .probe = probe,
    .read = read_shards,
};
