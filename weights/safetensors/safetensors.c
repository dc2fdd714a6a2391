/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors:
 *
 *     0      n, the length of the header, 8 bytes little-endian
 *     8      header: JSON, padded with spaces
 *     8 + n  elements of all tensors, without gaps or overlaps
 *
 * Metadata "infer.graph", the JSON of an architecture file, makes a network of
 * bare tensors (train's checkpoints have it).
 *
 * And model.safetensors.index.json, which names the files of a model that was
 * split into several; those of pytorch_model.bin.index.json are PyTorch's.
 *
 * Untrusted: the ranges of the tensors must tile the buffer exactly; shards
 * are opened only in the folder of the index.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/memory_size.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/graph/model_layout.h"
#include "weights/arch.h"
#include "weights/bytes.h"
#include "weights/external.h"
#include "weights/numpy/numpy.h"
#include "weights/safetensors/safetensors_header.h"
#include "weights/weights.h"

extern const struct weights_format weights_format_pytorch;

#define MAX_HEADER ((uint64_t)100000000) /* as the reference reader */
#define MAX_INDEX  ((size_t)64 << 20)
#define MAX_SHARDS 10000
#define ALIGN      8

/* ---- probing ------------------------------------------------------- */

static bool is_space(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_index(const struct blob *blob)
{
    size_t i = 0;

    while (i < blob->bytes && i < 64 && is_space(blob->data[i]))
        i++;
    return i < blob->bytes && blob->data[i] == '{' &&
           memmem(blob->data, blob->bytes, "\"weight_map\"", 12) != NULL;
}

static int probe(const struct weights_file *file)
{
    const struct blob *blob = file->blob;
    size_t i;

    if (is_index(blob))
        return 90;
    if (blob->bytes < 9)
        return 0;
    for (i = 8; i < blob->bytes && i < 72 && is_space(blob->data[i]); i++)
        ;
    if (i == blob->bytes || blob->data[i] != '{')
        return 0;
    /* A plausible length decides; else its error is still the best guess. */
    return bytes_le64(blob->data) <= blob->bytes - 8 ? 90 : 25;
}

/* ---- one file ------------------------------------------------------ */

static enum infer_dtype dtype_of(const char *name)
{
    int d;

    for (d = INFER_NONE + 1; d < INFER_DTYPE_COUNT; d++)
        if (strcmp(infer_dtype_name((enum infer_dtype)d), name) == 0)
            return (enum infer_dtype)d;
    return INFER_NONE;
}

static bool is_known_dtype(const char *name)
{
    static const char *const known[] = {"F8_E4M3",     "F8_E5M2",     "F8_E8M0",
                                        "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4",
                                        "F6_E2M3",     "F6_E3M2",     "C64"};
    size_t i;

    for (i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], name) == 0)
            return true;
    return false;
}

/* Type, rank and size of every tensor; everything unsupported is listed. */
static int check_entries(const struct safetensors_header *h,
                         struct infer_error *err)
{
    size_t i;
    int rc = 0;

    error_clear(err);
    for (i = 0; i < h->count; i++) {
        const struct safetensors_entry *e = &h->entry[i];
        const char *name = h->names + e->name;
        enum infer_dtype dtype = dtype_of(e->dtype);
        int64_t count = 0;
        size_t bytes;

        if (dtype == INFER_NONE) {
            rc = error_add(err,
                           is_known_dtype(e->dtype) ? INFER_EUNSUPPORTED
                                                    : INFER_EFORMAT,
                           "tensor '%s': dtype '%s' is not supported "
                           "(supported: F64 F32 F16 BF16 I64 I32 I16 I8 U64 "
                           "U32 U16 U8 BOOL)",
                           name, e->dtype);
        } else if (e->rank > INFER_MAX_RANK) {
            rc = error_add(err, INFER_EUNSUPPORTED,
                           "tensor '%s': rank %d is not supported (at most "
                           "%d)",
                           name, e->rank, INFER_MAX_RANK);
        } else if (!checked_count(e->rank, e->dim, &count) ||
                   !checked_mul((size_t)count, infer_dtype_size(dtype),
                                &bytes)) {
            rc = error_add(err, INFER_EFORMAT,
                           "tensor '%s': its shape is beyond all memory", name);
        } else if (e->end < e->begin || e->end - e->begin != bytes) {
            rc = error_add(err, INFER_EFORMAT,
                           "tensor '%s': its shape needs %zu bytes, but its "
                           "data_offsets are %llu to %llu",
                           name, bytes, (unsigned long long)e->begin,
                           (unsigned long long)e->end);
        }
    }
    return rc;
}

static int by_range(const void *a, const void *b)
{
    const struct safetensors_entry *x = *(struct safetensors_entry *const *)a;
    const struct safetensors_entry *y = *(struct safetensors_entry *const *)b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* No gaps, no overlaps, nothing after the last tensor. */
static int check_tiling(const struct safetensors_header *h, uint64_t bytes,
                        struct infer_error *err)
{
    const struct safetensors_entry **order =
        malloc((h->count + 1) * sizeof *order);
    uint64_t end = 0;
    size_t i;
    int rc = 0;

    if (!order)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < h->count; i++)
        order[i] = &h->entry[i];
    qsort(order, h->count, sizeof *order, by_range);
    for (i = 0; rc == 0 && i < h->count; i++) {
        if (order[i]->begin != end)
            rc = error_set(err, INFER_EFORMAT,
                           "tensor '%s' starts at byte %llu of the buffer, "
                           "but the one before it ends at %llu",
                           h->names + order[i]->name,
                           (unsigned long long)order[i]->begin,
                           (unsigned long long)end);
        end = order[i]->end;
    }
    free(order);
    if (rc == 0 && end != bytes)
        rc = error_set(err, INFER_EFORMAT,
                       "the tensors need %llu bytes, but the buffer has %llu",
                       (unsigned long long)end, (unsigned long long)bytes);
    return rc;
}

static int add_tensor(struct blob *blob, unsigned char *buffer,
                      const struct safetensors_entry *e, const char *name,
                      struct infer_error *err, struct weights_import *out)
{
    enum infer_dtype dtype = dtype_of(e->dtype);
    size_t bytes = (size_t)(e->end - e->begin);
    unsigned char *data = buffer + e->begin;
    struct constant *c;

    numpy_settle(dtype, false, data, bytes);
    if ((uintptr_t)data % infer_dtype_size(dtype) == 0 && bytes > 0) {
        c = constant_in_blob(dtype, e->rank, e->dim, blob, data);
    } else {
        c = constant_new(dtype, e->rank, e->dim);
        if (c && bytes > 0)
            memcpy(c->data, data, bytes);
    }
    if (!c)
        return error_set(err, INFER_EMEMORY, "tensor '%s': out of memory",
                         name);
    return weights_dict_add(&out->dict, name, c, err);
}

static int add_tensors(struct blob *blob, uint64_t start,
                       const struct safetensors_header *h,
                       struct infer_error *err, struct weights_import *out)
{
    size_t bytes = blob->bytes - (size_t)start, over, i;
    unsigned char *buffer = blob->data + start;
    int rc;

    if ((rc = check_entries(h, err)) < 0 ||
        (rc = check_tiling(h, bytes, err)) < 0)
        return rc;
    /* Old writers did not pad the header: the buffer moves back over it. */
    over = (uintptr_t)buffer % ALIGN;
    if (over > 0)
        memmove(buffer - over, buffer, bytes);
    buffer -= over;
    for (i = 0; rc == 0 && i < h->count; i++)
        rc = add_tensor(blob, buffer, &h->entry[i], h->names + h->entry[i].name,
                        err, out);
    return rc;
}

/* *graph, where it is not NULL, is the text of the network that the file
 * describes, to be freed; or NULL. */
static int read_one(struct blob *blob, struct infer_error *err,
                    struct weights_import *out, char **graph)
{
    struct safetensors_header header;
    uint64_t n;
    int rc;

    if (blob->bytes < 10)
        return error_set(err, INFER_EFORMAT,
                         "%zu bytes are too few for a safetensors file",
                         blob->bytes);
    n = bytes_le64(blob->data);
    if (n > MAX_HEADER)
        return error_set(err, INFER_EFORMAT,
                         "the header declares %llu bytes (at most %llu)",
                         (unsigned long long)n, (unsigned long long)MAX_HEADER);
    if (n < 2 || n > blob->bytes - 8)
        return error_set(err, INFER_EFORMAT,
                         "the header of %llu bytes does not fit into a file "
                         "of %zu",
                         (unsigned long long)n, blob->bytes);
    rc = safetensors_header_read(blob->data + 8, (size_t)n, err, &header);
    if (rc < 0)
        return rc;
    rc = add_tensors(blob, 8 + n, &header, err, out);
    snprintf(out->detail, sizeof out->detail, "%zu tensors%s%s",
             out->dict.count, header.detail[0] ? ", format " : "",
             header.detail);
    if (rc == 0 && graph) {
        *graph = header.graph;
        header.graph = NULL;
    }
    safetensors_header_clear(&header);
    return rc;
}

/* ---- several files ------------------------------------------------- */

static bool is_plain_name(const char *name)
{
    return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strpbrk(name, "/\\:") && strlen(name) < 256;
}

static int read_part(struct blob *blob, const char *name,
                     struct infer_error *err, struct weights_import *out)
{
    static const struct weights_options bare = {.bare = true};
    struct weights_file part = {.path = name, .blob = blob};

    if (weights_format_pytorch.probe(&part) == 0)
        return read_one(blob, err, out, NULL);
    const int rc = weights_format_pytorch.read(&part, &bare, err, out);
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

static int read_index(struct weights_file *file, struct infer_error *err,
                      struct weights_import *out)
{
    struct shards shards = {NULL, 0};
    const cJSON *map;
    cJSON *index = NULL;
    size_t i;
    int rc;

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

/* Weights that bring their network along, as train's checkpoints do. */
static int read_described(const char *text, struct infer_error *err,
                          struct weights_import *out)
{
    int rc = model_file_parse_arch(text, strlen(text), err, &out->graph);

    if (rc == 0)
        rc = weights_bind(out->graph, &out->dict, NULL, err);
    if (rc < 0)
        error_prefix(err, MODEL_KEY_GRAPH);
    else
        weights_dict_drop_entries(&out->dict);
    return rc;
}

static int read(struct weights_file *file,
                const struct weights_options *options, struct infer_error *err,
                struct weights_import *out)
{
    char *graph = NULL;
    int rc;

    if (is_index(file->blob))
        return read_index(file, err, out);
    rc = read_one(file->blob, err, out, &graph);
    if (rc == 0 && graph && !options->arch && !options->bare)
        rc = read_described(graph, err, out);
    free(graph);
    return rc;
}

const struct weights_format weights_format_safetensors = {
    .name = "safetensors",
    .description = "safetensors (.safetensors, or the index of shards)",
    .probe = probe,
    .read = read,
};
