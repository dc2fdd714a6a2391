/* SPDX-License-Identifier: Apache-2.0 */
/* Writing model files.  The layout is in model_file.h.
 *
 * The data is written first, each piece right after its CRC has been taken and
 * while it is still in the cache, and the header last: its length is settled
 * before by allowing each CRC as many digits as it can need. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "kernels/base/error.h"
#include "kernels/base/file_write.h"
#include "kernels/base/json.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/graph/model_layout.h"

/* One write, and one read of a constant that is still in a file. */
#define PIECE ((size_t)1 << 20)

struct tensor {
    const struct graph_value *value;
    uint64_t begin; /* offset in the data */
    uint32_t crc;
    int order; /* in the graph */
};

struct tensors {
    const struct graph *g;
    struct graph_value table; /* of the graph's multiplier, if there is one */
    struct tensor *item;
    int count;
    uint64_t bytes;
};

/* ---- which tensors, and where -------------------------------------- */

/* Largest power of two, up to 64, that divides the size. */
static unsigned alignment(const struct tensor *t)
{
    size_t bytes = t->value->data->bytes | MODEL_ALIGN;

    return (unsigned)(bytes & -bytes);
}

/* Tensors that keep the next one aligned come first. */
static int compare(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;

    if (alignment(x) != alignment(y))
        return alignment(x) > alignment(y) ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The constants that nodes or outputs name. */
static int collect(const struct graph *g, struct tensors *out,
                   struct infer_error *err)
{
    int *uses = graph_count_all_uses(g);
    int i;

    out->item = calloc((size_t)g->n_values + 1, sizeof(*out->item));
    if (uses == NULL || out->item == NULL) {
        free(uses);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    for (i = 0; i < g->n_values; i++)
        if (g->value[i].data != NULL && uses[i] > 0) {
            out->item[out->count].value = &g->value[i];
            out->item[out->count].order = i;
            out->count++;
        }
    free(uses);
    out->g = g;
    if (g->multiplier != NULL) {
        out->table.name = (char *)MODEL_KEY_MULTIPLIER;
        out->table.data = g->multiplier->table;
        out->item[out->count].value = &out->table;
        out->item[out->count++].order = g->n_values;
    }
    qsort(out->item, (size_t)out->count, sizeof(*out->item), compare);
    for (i = 0; i < out->count; i++) {
        const struct graph_value *v = out->item[i].value;

        if (strcmp(v->name, MODEL_METADATA) == 0 ||
            (v != &out->table && g->multiplier != NULL &&
             strcmp(v->name, MODEL_KEY_MULTIPLIER) == 0))
            return error_set(err, INFER_EUNSUPPORTED,
                             "a tensor cannot be named '%s' in a model file",
                             v->name);
        out->item[i].begin = out->bytes;
        out->bytes += v->data->bytes;
        if (out->bytes > MODEL_MAX_BYTES)
            return error_set(err, INFER_EUNSUPPORTED,
                             "the weights are larger than a file can be");
    }
    return INFER_OK;
}

/* ---- header -------------------------------------------------------- */

/* Takes item over. */
static bool put(cJSON *object, const char *key, cJSON *item)
{
    if (cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static char *graph_text(const struct graph *g)
{
    cJSON *json = graph_to_json(g);
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;

    cJSON_Delete(json);
    return text;
}

/* The multiplier of the graph as text, or NULL when out of memory. */
static char *multiplier_text(const struct graph *g)
{
    cJSON *json = graph_multiplier_to_json(g->multiplier);
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;

    cJSON_Delete(json);
    return text;
}

static bool put_multiplier(cJSON *metadata, const struct graph *g)
{
    char *text = g->multiplier != NULL ? multiplier_text(g) : NULL;
    const bool ok = g->multiplier == NULL ||
                    (text != NULL && put(metadata, MODEL_KEY_MULTIPLIER,
                                         cJSON_CreateString(text)));

    cJSON_free(text);
    return ok;
}

static char *crc_text(const struct tensors *t)
{
    cJSON *json = cJSON_CreateObject();
    char *text = NULL;
    bool ok = json != NULL;
    int i;

    for (i = 0; ok && i < t->count; i++)
        ok = put(json, t->item[i].value->name,
                 cJSON_CreateNumber((double)t->item[i].crc));
    if (ok)
        text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

static cJSON *pair(double a, double b)
{
    double both[2] = {a, b};

    return cJSON_CreateDoubleArray(both, 2);
}

static cJSON *tensor_entry(const struct tensor *t)
{
    const struct constant *c = t->value->data;
    cJSON *entry = cJSON_CreateObject();
    double dim[INFER_MAX_RANK];
    int i;

    for (i = 0; i < c->rank; i++)
        dim[i] = (double)c->dim[i];
    if (entry == NULL ||
        !put(entry, "dtype", cJSON_CreateString(infer_dtype_name(c->dtype))) ||
        !put(entry, "shape", cJSON_CreateDoubleArray(dim, c->rank)) ||
        !put(entry, "data_offsets",
             pair((double)t->begin, (double)(t->begin + c->bytes)))) {
        cJSON_Delete(entry);
        return NULL;
    }
    return entry;
}

/* The header as text, the header's own CRC still zeros. */
static char *header_text(const char *graph, const struct tensors *t)
{
    cJSON *header = cJSON_CreateObject(), *metadata = cJSON_CreateObject();
    char *crcs = crc_text(t), *text = NULL;
    bool ok;
    int i;

    ok = crcs != NULL && header != NULL && metadata != NULL &&
         put(metadata, MODEL_KEY_VERSION,
             cJSON_CreateString(MODEL_VERSION_TEXT)) &&
         put(metadata, MODEL_KEY_HEADER_CRC, cJSON_CreateString("00000000")) &&
         put(metadata, MODEL_KEY_GRAPH, cJSON_CreateString(graph)) &&
         put(metadata, MODEL_KEY_CRC, cJSON_CreateString(crcs)) &&
         put_multiplier(metadata, t->g);
    if (!ok)
        cJSON_Delete(metadata);
    else
        ok = put(header, MODEL_METADATA, metadata);
    for (i = 0; ok && i < t->count; i++)
        ok = put(header, t->item[i].value->name, tensor_entry(&t->item[i]));
    if (ok)
        text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    free(crcs);
    return text;
}

/* Reads the text back: a network beyond a limit of the reader is refused before
 * anything is written. */
static int check_readable(const char *text, bool is_graph,
                          struct infer_error *err)
{
    struct graph *g = NULL;
    cJSON *json = NULL;
    int rc = json_parse(text, strlen(text), false, err, &json);

    if (rc == INFER_OK && is_graph)
        rc = graph_from_json(json, err, &g);
    cJSON_Delete(json);
    graph_free(g);
    if (rc < 0)
        error_prefix(err, "no model file can hold this network");
    return rc;
}

/* Bytes of the header, padding included: room for every CRC at its longest (10
 * digits in place of the 0). */
static int header_bytes(const char *graph, const struct tensors *t, size_t *out,
                        struct infer_error *err)
{
    char *text = header_text(graph, t);
    size_t bytes;
    int rc;

    if (text == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    bytes = strlen(text) + 9 * (size_t)t->count;
    rc = check_readable(text, false, err);
    free(text);
    if (rc < 0)
        return rc;
    /* The 8 bytes of the length come before the header. */
    bytes = (bytes + 8 + MODEL_ALIGN - 1) / MODEL_ALIGN * MODEL_ALIGN - 8;
    if (bytes > MODEL_MAX_HEADER)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the header needs %zu bytes, safetensors allows %d",
                         bytes, MODEL_MAX_HEADER);
    *out = bytes;
    return INFER_OK;
}

/* Puts the CRC of the whole header into its 8 digits. */
static void sign_header(char *header, size_t bytes)
{
    uLong crc = crc32(0, (const Bytef *)header, (uInt)bytes);
    /* The first one: in strings the quotes would be escaped. */
    char *digits = strstr(header, MODEL_HEADER_CRC_MARK), text[9];

    snprintf(text, sizeof(text), "%08lx", crc & 0xffffffffUL);
    memcpy(digits + strlen(MODEL_HEADER_CRC_MARK), text, 8);
}

static int write_header(struct file_writer *w, const char *graph,
                        const struct tensors *t, size_t bytes,
                        struct infer_error *err)
{
    char *text = header_text(graph, t), *block = malloc(8 + bytes + 1);
    size_t length = text != NULL ? strlen(text) : 0;
    int rc, i;

    if (text == NULL || block == NULL || length > bytes) {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    } else {
        for (i = 0; i < 8; i++)
            block[i] = (char)((uint64_t)bytes >> (8 * i) & 0xff);
        memcpy(block + 8, text, length);
        memset(block + 8 + length, ' ', bytes - length);
        block[8 + bytes] = '\0';
        sign_header(block + 8, bytes);
        rc = file_writer_put(w, 0, block, 8 + bytes, err);
    }
    free(text);
    free(block);
    return rc;
}

/* ---- data ---------------------------------------------------------- */

/* Writes one tensor and computes its CRC. */
static int write_tensor(struct file_writer *w, struct tensor *t,
                        uint64_t data_at, unsigned char *buffer,
                        struct infer_error *err)
{
    const struct constant *c = t->value->data;
    uLong crc = crc32(0, NULL, 0);
    size_t done = 0;

    while (done < c->bytes) {
        size_t part = c->bytes - done < PIECE ? c->bytes - done : PIECE;
        const unsigned char *from = c->data != NULL ? c->data + done : buffer;
        int rc = INFER_OK;

        if (c->data == NULL)
            rc = file_source_read(c->source, c->offset + done, buffer, part,
                                  err);
        if (rc < 0)
            return rc;
        crc = crc32(crc, from, (uInt)part);
        rc = file_writer_put(w, data_at + t->begin + done, from, part, err);
        if (rc < 0)
            return rc;
        done += part;
    }
    if (c->data == NULL && (uint32_t)crc != c->crc)
        return error_set(err, INFER_EFORMAT,
                         "%s: the bytes of '%.100s' do not match their CRC-32: "
                         "the file is damaged",
                         c->source->path, t->value->name);
    t->crc = (uint32_t)crc;
    return INFER_OK;
}

static int write_all(struct file_writer *w, const struct graph *g,
                     struct tensors *t, uint64_t *bytes_written,
                     struct infer_error *err)
{
    unsigned char *buffer = malloc(PIECE);
    char *graph = graph_text(g);
    size_t header = 0;
    int i, rc;

    if (buffer == NULL || graph == NULL)
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    else
        rc = check_readable(graph, true, err);
    if (rc == INFER_OK)
        rc = header_bytes(graph, t, &header, err);
    for (i = 0; rc == INFER_OK && i < t->count; i++)
        rc = write_tensor(w, &t->item[i], 8 + header, buffer, err);
    if (rc == INFER_OK)
        rc = write_header(w, graph, t, header, err);
    if (rc == INFER_OK)
        *bytes_written = 8 + header + t->bytes;
    free(buffer);
    free(graph);
    return rc;
}

int model_file_put(const struct graph *g, struct file_writer *w,
                   uint64_t *bytes_written, struct infer_error *err)
{
    struct tensors t = {0};
    uint64_t bytes = 0;
    int rc = graph_validate(g, err);

    if (rc == INFER_OK)
        rc = collect(g, &t, err);
    if (rc == INFER_OK)
        rc = write_all(w, g, &t, &bytes, err);
    if (rc == INFER_OK && bytes_written != NULL)
        *bytes_written = bytes;
    free(t.item);
    return rc;
}

int model_file_write(const struct graph *g, const char *path,
                     uint64_t *bytes_written, struct infer_error *err)
{
    struct file_writer w;
    int rc = file_writer_open(path, err, &w);

    if (rc < 0)
        return rc;
    rc = model_file_put(g, &w, bytes_written, err);
    if (rc == INFER_OK)
        return file_writer_commit(&w, err);
    file_writer_abort(&w);
    return rc;
}
