/* SPDX-License-Identifier: Apache-2.0 */
/* Reading untrusted model files and architecture files.  The layout is in
 * model_file.h.  Only the header is read; its offsets and sizes are checked
 * against the size of the file, and the data's CRCs when it is loaded. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/graph/graph_check.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/graph/model_layout.h"

/* No architecture of a million nodes is larger. */
#define MAX_ARCH_BYTES (UINT64_C(256) << 20)

struct tensor {
    char *name;
    enum infer_dtype dtype;
    int rank;
    int64_t dim[INFER_MAX_RANK];
    uint64_t begin, end;
};

/* Everything that reading holds on to.  The header's text, its tree and the
 * trees inside it are given up one after the other: together they would take
 * several times the file. */
struct model {
    struct file_source *source;
    char *text; /* the header */
    size_t bytes;
    cJSON *header, *metadata, *crcs;
    struct tensor *tensor;
    size_t tensors;
    uint64_t data_bytes;
    struct graph *g;
};

static void model_clear(struct model *m)
{
    size_t i;

    file_source_unref(m->source);
    free(m->text);
    cJSON_Delete(m->header);
    cJSON_Delete(m->metadata);
    cJSON_Delete(m->crcs);
    for (i = 0; i < m->tensors; i++)
        free(m->tensor[i].name);
    free(m->tensor);
    graph_free(m->g);
}

/* ---- header -------------------------------------------------------- */

/* Reads the header's bytes.  Error texts name the file already. */
static int read_header(struct model *m, struct infer_error *err)
{
    const char *path = m->source->path;
    unsigned char length[8];
    uint64_t bytes = 0;
    int i, rc;

    if (m->source->bytes < 10)
        return error_set(err, INFER_EFORMAT,
                         "%s: %llu bytes are too few for a model file", path,
                         (unsigned long long)m->source->bytes);
    rc = file_source_read(m->source, 0, length, 8, err);
    if (rc < 0)
        return rc;
    for (i = 0; i < 8; i++)
        bytes |= (uint64_t)length[i] << (8 * i);
    if (bytes < 2 || bytes > MODEL_MAX_HEADER)
        return error_set(err, INFER_EFORMAT,
                         "%s: not a model file; wconv makes one from trained "
                         "weights",
                         path);
    if (bytes > m->source->bytes - 8)
        return error_set(err, INFER_EFORMAT,
                         "%s: no model file, or cut short: a header of %llu "
                         "bytes in a file of %llu",
                         path, (unsigned long long)bytes,
                         (unsigned long long)m->source->bytes);
    m->text = malloc((size_t)bytes);
    if (m->text == NULL)
        return error_set(err, INFER_EMEMORY, "%s: out of memory", path);
    m->bytes = (size_t)bytes;
    m->data_bytes = m->source->bytes - 8 - bytes;
    return file_source_read(m->source, 8, m->text, m->bytes, err);
}

/* The version before everything else: a newer one may check differently. */
static int check_version(const struct model *m, struct infer_error *err)
{
    const char *text = json_string(m->metadata, MODEL_KEY_VERSION);
    long version;
    char *end;

    if (text == NULL)
        return error_set(err, INFER_EFORMAT,
                         "a safetensors file, but no model (it has no '%s'): "
                         "convert it with wconv",
                         MODEL_KEY_VERSION);
    if (text[0] < '1' || text[0] > '9' || strlen(text) > 9)
        return error_set(err, INFER_EFORMAT, "version '%.20s' is no number",
                         text);
    version = strtol(text, &end, 10);
    if (*end != '\0')
        return error_set(err, INFER_EFORMAT, "version '%.20s' is no number",
                         text);
    if (version > MODEL_FILE_VERSION)
        return error_set(err, INFER_EUNSUPPORTED,
                         "format version %ld is newer than this library reads "
                         "(up to %d)",
                         version, MODEL_FILE_VERSION);
    return INFER_OK;
}

/* Where the 8 digits of the header's CRC stand in its text, or NULL. */
static const char *find_crc(const struct model *m)
{
    size_t mark = strlen(MODEL_HEADER_CRC_MARK), i;

    for (i = 0; i + mark + 8 <= m->bytes; i++) {
        const char *at = memchr(m->text + i, '"', m->bytes - i);

        if (at == NULL)
            return NULL;
        i = (size_t)(at - m->text);
        if (i + mark + 8 <= m->bytes &&
            memcmp(at, MODEL_HEADER_CRC_MARK, mark) == 0)
            return at + mark;
    }
    return NULL;
}

static int check_header_crc(const struct model *m, struct infer_error *err)
{
    const char *stated = json_string(m->metadata, MODEL_KEY_HEADER_CRC);
    const char *digits = find_crc(m);
    uLong crc, want = 0;
    int i;

    if (stated == NULL || digits == NULL || strlen(stated) != 8 ||
        memcmp(stated, digits, 8) != 0)
        return error_set(err, INFER_EFORMAT, "no '%s'", MODEL_KEY_HEADER_CRC);
    for (i = 0; i < 8; i++) {
        /* Lower case only: so that every changed bit is noticed. */
        const char *hex = "0123456789abcdef";
        const char *at = strchr(hex, stated[i]);

        if (at == NULL)
            return error_set(err, INFER_EFORMAT,
                             "'%s' is not 8 hexadecimal digits",
                             MODEL_KEY_HEADER_CRC);
        want = want << 4 | (uLong)(at - hex);
    }
    i = (int)(digits - m->text);
    crc = crc32(0, (const Bytef *)m->text, (uInt)i);
    crc = crc32(crc, (const Bytef *)"00000000", 8);
    crc = crc32(crc, (const Bytef *)digits + 8, (uInt)(m->bytes - 8) - (uInt)i);
    if (crc != want)
        return error_set(err, INFER_EFORMAT,
                         "the header does not match its CRC-32: the file is "
                         "damaged");
    return INFER_OK;
}

static int parse_header(struct model *m, struct infer_error *err)
{
    const cJSON *item;
    int rc;

    if (m->text[0] != '{')
        return error_set(err, INFER_EFORMAT,
                         "no model file: the header does not start with '{'");
    rc = json_parse(m->text, m->bytes, false, err, &m->header);
    if (rc < 0) {
        error_prefix(err, "header");
        return rc;
    }
    m->metadata =
        cJSON_DetachItemFromObjectCaseSensitive(m->header, MODEL_METADATA);
    rc = check_version(m, err);
    if (rc == INFER_OK)
        rc = check_header_crc(m, err);
    free(m->text);
    m->text = NULL;
    if (rc < 0)
        return rc;
    cJSON_ArrayForEach(item, m->metadata)
    {
        if (!cJSON_IsString(item))
            rc = error_add(err, INFER_EFORMAT,
                           "metadata '%.100s' is not a string", item->string);
        else if (strcmp(item->string, MODEL_KEY_VERSION) != 0 &&
                 strcmp(item->string, MODEL_KEY_HEADER_CRC) != 0 &&
                 strcmp(item->string, MODEL_KEY_GRAPH) != 0 &&
                 strcmp(item->string, MODEL_KEY_MULTIPLIER) != 0 &&
                 strcmp(item->string, MODEL_KEY_CRC) != 0)
            rc = error_add(err, INFER_EFORMAT, "metadata '%.100s' is not known",
                           item->string);
    }
    return rc;
}

/* ---- tensors ------------------------------------------------------- */

static int read_shape(const cJSON *shape, struct tensor *t)
{
    const cJSON *item;

    t->rank = 0;
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > INFER_MAX_RANK)
        return INFER_EFORMAT;
    cJSON_ArrayForEach(item, shape)
    {
        if (!json_int64(item, 0, OP_MAX_COUNT, &t->dim[t->rank]))
            return INFER_EFORMAT;
        t->rank++;
    }
    return INFER_OK;
}

/* Whether they lie in the file, check_cover() sees. */
static int read_offsets(const cJSON *pair, struct tensor *t)
{
    int64_t begin, end;

    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2 ||
        !json_int64(pair->child, 0, INT64_MAX, &begin) ||
        !json_int64(pair->child->next, 0, INT64_MAX, &end) || begin > end)
        return INFER_EFORMAT;
    t->begin = (uint64_t)begin;
    t->end = (uint64_t)end;
    return INFER_OK;
}

static int read_tensor(const cJSON *entry, struct tensor *t,
                       struct infer_error *err)
{
    const char *dtype = json_string(entry, "dtype");
    int64_t count;
    size_t bytes;

    t->name = strdup(entry->string);
    if (t->name == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    t->dtype = dtype != NULL ? dtype_find(dtype) : INFER_NONE;
    if (!cJSON_IsObject(entry) || cJSON_GetArraySize(entry) != 3)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%.100s': not an object with dtype, shape "
                         "and data_offsets",
                         t->name);
    if (t->dtype == INFER_NONE)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%.100s': dtype '%.20s' is not known", t->name,
                         dtype != NULL ? dtype : "");
    if (read_shape(json_member(entry, "shape"), t) < 0)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%.100s': shape is not a list of at most %d "
                         "sizes",
                         t->name, INFER_MAX_RANK);
    if (read_offsets(json_member(entry, "data_offsets"), t) < 0)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%.100s': data_offsets are not two numbers of "
                         "bytes, the first no larger",
                         t->name);
    if (!checked_count(t->rank, t->dim, &count) ||
        !checked_mul((size_t)count, infer_dtype_size(t->dtype), &bytes) ||
        bytes != t->end - t->begin)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%.100s': shape and type do not make %llu "
                         "bytes",
                         t->name, (unsigned long long)(t->end - t->begin));
    return INFER_OK;
}

static int compare(const void *a, const void *b)
{
    const struct tensor *x = *(const struct tensor *const *)a;
    const struct tensor *y = *(const struct tensor *const *)b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The tensors must cover the data without overlap or hole. */
static int check_cover(const struct model *m, struct infer_error *err)
{
    const struct tensor **sorted =
        malloc((m->tensors > 0 ? m->tensors : 1) * sizeof(*sorted));
    int rc = INFER_OK;
    uint64_t at = 0;
    size_t i;

    if (sorted == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < m->tensors; i++)
        sorted[i] = &m->tensor[i];
    qsort(sorted, m->tensors, sizeof(*sorted), compare);
    for (i = 0; i < m->tensors && rc == INFER_OK; i++) {
        if (sorted[i]->begin != at)
            rc = error_set(
                err, INFER_EFORMAT,
                "tensor '%.100s' begins at byte %llu of the data, %llu is "
                "expected: overlap or hole",
                sorted[i]->name, (unsigned long long)sorted[i]->begin,
                (unsigned long long)at);
        at = sorted[i]->end;
    }
    if (rc == INFER_OK && at != m->data_bytes)
        rc = error_set(
            err, INFER_EFORMAT,
            at > m->data_bytes
                ? "cut short: the tensors make up %llu bytes, %llu are there"
                : "the tensors make up %llu bytes, the file has %llu",
            (unsigned long long)at, (unsigned long long)m->data_bytes);
    free(sorted);
    return rc;
}

static int read_tensors(struct model *m, struct infer_error *err)
{
    size_t members = (size_t)cJSON_GetArraySize(m->header);
    const cJSON *entry;
    int rc = INFER_OK;

    m->tensor = calloc(members > 0 ? members : 1, sizeof(*m->tensor));
    if (m->tensor == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    cJSON_ArrayForEach(entry, m->header)
    {
        int one = read_tensor(entry, &m->tensor[m->tensors], err);

        m->tensors++;
        if (rc == INFER_OK)
            rc = one;
    }
    cJSON_Delete(m->header);
    m->header = NULL;
    return rc == INFER_OK ? check_cover(m, err) : rc;
}

/* ---- graph --------------------------------------------------------- */

/* Parses one of the JSON texts inside the metadata. */
static int parse_inner(const struct model *m, const char *key, cJSON **out,
                       struct infer_error *err)
{
    const char *text = json_string(m->metadata, key);
    int rc;

    if (text == NULL)
        return error_set(err, INFER_EFORMAT, "no '%s'", key);
    rc = json_parse(text, strlen(text), false, err, out);
    if (rc < 0)
        error_prefix(err, "%s", key);
    return rc;
}

/* Whether a tensor is the table of the graph's multiplier. */
static bool is_table(const struct model *m, const char *name)
{
    return m->g->multiplier != NULL && strcmp(name, MODEL_KEY_MULTIPLIER) == 0;
}

/* CRCs by value of the graph, then that of the multiplier's table; -1 where
 * there is none, -2 for inputs, which are no weights. */
static int read_crcs(struct model *m, int64_t *crc, struct infer_error *err)
{
    const cJSON *item;
    int rc = INFER_OK, i;

    if (!cJSON_IsObject(m->crcs))
        return error_set(err, INFER_EFORMAT, "'%s' is not an object",
                         MODEL_KEY_CRC);
    for (i = 0; i <= m->g->n_values; i++)
        crc[i] = -1;
    cJSON_ArrayForEach(item, m->crcs)
    {
        int value = is_table(m, item->string)
                        ? m->g->n_values
                        : graph_find_value(m->g, item->string);

        if (value < 0 || !json_int64(item, 0, UINT32_MAX, &crc[value]))
            rc = error_add(err, INFER_EFORMAT,
                           "CRC-32 of '%.100s': no such tensor, or no "
                           "number of 32 bits",
                           item->string);
    }
    for (i = 0; i < m->g->n_inputs; i++)
        crc[m->g->input[i]] = -2;
    return rc;
}

static int bind_tensor(struct model *m, const struct tensor *t,
                       const int64_t *crc, struct infer_error *err)
{
    const bool table = is_table(m, t->name);
    int value = table ? m->g->n_values : graph_find_value(m->g, t->name);
    struct constant *c;

    if (value < 0 || (!table && m->g->value[value].producer >= 0) ||
        crc[value] == -2)
        return error_add(err, INFER_EFORMAT,
                         "tensor '%.100s' is no weight of the graph", t->name);
    if (crc[value] < 0)
        return error_add(err, INFER_EFORMAT, "tensor '%.100s' has no CRC-32",
                         t->name);
    c = constant_in_file(t->dtype, t->rank, t->dim, m->source,
                         m->source->bytes - m->data_bytes + t->begin,
                         (uint32_t)crc[value]);
    if (c == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return table ? graph_multiplier_set_table(m->g->multiplier, c, err)
                 : graph_set_constant(m->g, value, c, err);
}

static int bind_tensors(struct model *m, struct infer_error *err)
{
    int64_t *crc = malloc(((size_t)m->g->n_values + 1) * sizeof(*crc));
    int rc, one;
    size_t i;

    if (crc == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    rc = read_crcs(m, crc, err);
    for (i = 0; rc == INFER_OK && i < m->tensors; i++) {
        one = bind_tensor(m, &m->tensor[i], crc, err);
        if (rc == INFER_OK)
            rc = one;
    }
    free(crc);
    if (rc == INFER_OK && m->g->multiplier != NULL &&
        m->g->multiplier->table == NULL)
        rc = error_set(err, INFER_EFORMAT,
                       "the table of multiplier '%s' is missing",
                       m->g->multiplier->name);
    return rc;
}

/* Reads the multiplier's metadata, if there are any. */
static int read_multiplier(struct model *m, struct infer_error *err)
{
    struct graph_multiplier *multiplier = NULL;
    cJSON *json = NULL;
    int rc;

    if (json_member(m->metadata, MODEL_KEY_MULTIPLIER) == NULL)
        return INFER_OK;
    if (graph_find_value(m->g, MODEL_KEY_MULTIPLIER) >= 0)
        return error_set(err, INFER_EFORMAT,
                         "a tensor is named '%s', as the multiplier's table is",
                         MODEL_KEY_MULTIPLIER);
    rc = parse_inner(m, MODEL_KEY_MULTIPLIER, &json, err);
    if (rc == INFER_OK) {
        rc = graph_multiplier_from_json(json, err, &multiplier);
        if (rc < 0)
            error_prefix(err, "%s", MODEL_KEY_MULTIPLIER);
    }
    cJSON_Delete(json);
    if (rc == INFER_OK)
        graph_set_multiplier(m->g, multiplier);
    return rc;
}

static int read_graph(struct model *m, struct infer_error *err)
{
    cJSON *json = NULL;
    int rc = parse_inner(m, MODEL_KEY_GRAPH, &json, err);

    if (rc == INFER_OK)
        rc = graph_from_json(json, err, &m->g);
    cJSON_Delete(json);
    cJSON_DeleteItemFromObjectCaseSensitive(m->metadata, MODEL_KEY_GRAPH);
    if (rc == INFER_OK)
        rc = read_multiplier(m, err);
    if (rc == INFER_OK)
        rc = parse_inner(m, MODEL_KEY_CRC, &m->crcs, err);
    if (rc == INFER_OK)
        rc = bind_tensors(m, err);
    if (rc == INFER_OK)
        rc = graph_validate(m->g, err);
    if (rc == INFER_OK)
        rc = graph_sort(m->g, err);
    if (rc == INFER_OK)
        rc = graph_infer_shapes(m->g, NULL, err);
    return rc;
}

/* Reads the model in a source, which it gives up. */
static int read_source(struct file_source *source, struct infer_error *err,
                       struct graph **out)
{
    struct model m = {.source = source};
    int rc = read_header(&m, err);

    if (rc < 0)
        goto done;
    rc = parse_header(&m, err);
    if (rc == INFER_OK)
        rc = read_tensors(&m, err);
    if (rc == INFER_OK)
        rc = read_graph(&m, err);
    if (rc < 0) {
        error_prefix(err, "%s", source->path);
        goto done;
    }
    *out = m.g;
    m.g = NULL;
done:
    model_clear(&m);
    return rc;
}

int model_file_read(const char *path, struct infer_error *err,
                    struct graph **out)
{
    struct file_source *source;

    error_clear(err);
    source = file_source_open(path, err);
    if (source == NULL)
        return err != NULL ? err->code : INFER_EIO;
    return read_source(source, err, out);
}

int model_file_read_memory(const void *data, size_t bytes,
                           void (*release)(void *user), void *user,
                           struct infer_error *err, struct graph **out)
{
    struct file_source *source;

    error_clear(err);
    source =
        file_source_memory(data, bytes, MODEL_IN_MEMORY, release, user, err);
    return source == NULL ? INFER_EMEMORY : read_source(source, err, out);
}

/* ---- architecture files -------------------------------------------- */

/* Gives the tree up once it is a graph. */
static int arch_of_json(cJSON *json, struct infer_error *err,
                        struct graph **out)
{
    struct graph *g = NULL;
    int rc = graph_expand_repeats(json, err);

    if (rc == INFER_OK)
        rc = graph_from_json(json, err, &g);
    cJSON_Delete(json);
    if (rc == INFER_OK)
        rc = graph_check(g, true, err);
    if (rc == INFER_OK)
        rc = graph_sort(g, err);
    if (rc == INFER_OK)
        rc = graph_infer_shapes(g, NULL, err);
    if (rc < 0)
        graph_free(g);
    else
        *out = g;
    return rc;
}

int model_file_parse_arch(const char *text, size_t bytes,
                          struct infer_error *err, struct graph **out)
{
    cJSON *json = NULL;
    const int rc = json_parse(text, bytes, false, err, &json);

    return rc < 0 ? rc : arch_of_json(json, err, out);
}

int model_file_read_arch(const char *path, struct infer_error *err,
                         struct graph **out)
{
    cJSON *json = NULL;
    int rc = file_read_json(path, MAX_ARCH_BYTES, err, &json);

    if (rc < 0)
        return rc;
    rc = arch_of_json(json, err, out);
    if (rc < 0)
        error_prefix(err, "%s", path);
    return rc;
}
