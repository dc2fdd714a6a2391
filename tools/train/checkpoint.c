/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading checkpoints; see checkpoint.h for the format. */
#include "tools/train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cjson/cJSON.h>

#include "kernels/base/error.h"
#include "kernels/base/file_write.h"
#include "kernels/base/json.h"
#include "kernels/base/text.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/graph/model_layout.h"
#include "weights/weights.h"

#define NAME_BYTES 512

/* The arrays of a network on the host: [NET_WEIGHTS .. NET_AVERAGE]. */
struct arrays {
    float *flat[NET_MEMORIES];
    float state[KERN_STEP_SIZE];
};

static void arrays_clear(struct arrays *a)
{
    for (int i = 0; i < NET_MEMORIES; i++)
        free(a->flat[i]);
    memset(a, 0, sizeof(*a));
}

static bool is_kept(enum net_memory home)
{
    return home == NET_WEIGHTS || home == NET_M || home == NET_V ||
           home == NET_AVERAGE;
}

static int arrays_read(struct net *n, struct arrays *a, struct infer_error *err)
{
    int rc = 0;

    memset(a, 0, sizeof(*a));
    for (int home = 0; rc == 0 && home < NET_MEMORIES; home++) {
        if (!is_kept((enum net_memory)home) || n->flat[home] < 0)
            continue;
        a->flat[home] = malloc(net_flat_bytes(n, (enum net_memory)home));
        if (!a->flat[home])
            rc = error_set(err, INFER_EMEMORY, "out of memory");
        else
            rc = net_read_flat(n, (enum net_memory)home, a->flat[home], err);
    }
    if (rc == 0)
        rc = net_read_state(n, a->state, err);
    if (rc < 0)
        arrays_clear(a);
    return rc;
}

static int arrays_write(struct net *n, const struct arrays *a,
                        struct infer_error *err)
{
    int rc = 0;

    for (int home = 0; rc == 0 && home < NET_MEMORIES; home++)
        if (a->flat[home])
            rc = net_write_flat(n, (enum net_memory)home, a->flat[home], err);
    return rc < 0 ? rc : net_write_state(n, a->state, err);
}

/* ---- the list of tensors ------------------------------------------- */

/* Calls visit() for every tensor of a checkpoint, in the order of the file. */
typedef int visit_fn(void *user, const char *name, int rank, const int64_t *dim,
                     float *data, int64_t count, struct infer_error *err);

static int visit_param(const struct net *n, int index, struct arrays *a,
                       visit_fn *visit, void *user, struct infer_error *err)
{
    static const struct {
        enum net_memory home;
        const char *prefix;
    } part[] = {{NET_WEIGHTS, "train.weight."},
                {NET_M, "train.momentum."},
                {NET_V, "train.variance."}};
    const struct net_param *p = &n->param[index];
    const bool trained = net_is_trained(n, index);
    const bool average = trained && a->flat[NET_AVERAGE];
    float *first = a->flat[average ? NET_AVERAGE : NET_WEIGHTS];
    int rc =
        visit(user, p->name, p->rank, p->dim, first + p->offset, p->count, err);

    for (size_t i = average ? 0 : 1;
         rc == 0 && trained && i < sizeof(part) / sizeof(part[0]); i++) {
        char name[NAME_BYTES];

        if (!a->flat[part[i].home])
            continue;
        snprintf(name, sizeof(name), "%s%s", part[i].prefix, p->name);
        rc = visit(user, name, p->rank, p->dim,
                   a->flat[part[i].home] + p->offset, p->count, err);
    }
    return rc;
}

static int visit_all(const struct net *n, struct arrays *a, visit_fn *visit,
                     void *user, struct infer_error *err)
{
    static const int64_t size = KERN_STEP_SIZE;
    int rc = 0;

    for (int i = 0; rc == 0 && i < n->n_params; i++)
        rc = visit_param(n, i, a, visit, user, err);
    return rc < 0 ? rc
                  : visit(user, "train.state", 1, &size, a->state, size, err);
}

/* Constants of the network that are no parameters. */
static const struct constant *other_constant(const struct net *n, int value)
{
    const struct graph_value *v = &n->g->value[value];

    return v->name && v->data && n->value[value].param < 0 ? v->data : NULL;
}

static bool is_other_constant(const struct net *n, const char *name)
{
    const int value = graph_find_value(n->g, name);

    return value >= 0 && other_constant(n, value) != NULL;
}

int checkpoint_check(const struct net *n, struct infer_error *err)
{
    const size_t longest = NAME_BYTES - sizeof("train.momentum.");

    for (int i = 0; i < n->n_params; i++) {
        const char *name = n->param[i].name;

        if (strlen(name) > longest)
            return error_set(err, INFER_EUNSUPPORTED,
                             "the name of weight '%.64s...' is too long for a "
                             "checkpoint (at most %zu bytes)",
                             name, longest);
        if (strcmp(name, "__metadata__") == 0 || text_begins(name, "train.") ||
            !text_is_utf8(name, strlen(name)))
            return error_set(err, INFER_EUNSUPPORTED,
                             "a checkpoint cannot hold a weight named '%s': "
                             "rename it",
                             name);
    }
    return 0;
}

/* ---- writing ------------------------------------------------------- */

/* cJSON leaves out what it has no memory for: true if nothing is missing. */
static bool has_all(const cJSON *json, int members)
{
    return json && cJSON_GetArraySize(json) == members;
}

struct writer {
    cJSON *header;
    uint64_t offset; /* file offset of the next tensor */
    uint32_t crc;
    struct file_writer *file;
    uint64_t data; /* file offset of the first tensor */
};

static int describe_tensor(struct writer *w, const char *name,
                           enum infer_dtype dtype, int rank, const int64_t *dim,
                           size_t bytes, struct infer_error *err)
{
    cJSON *entry = cJSON_AddObjectToObject(w->header, name), *list, *shape;

    cJSON_AddStringToObject(entry, "dtype", infer_dtype_name(dtype));
    shape = cJSON_AddArrayToObject(entry, "shape");
    for (int i = 0; i < rank; i++)
        json_append(shape, cJSON_CreateNumber((double)dim[i]));
    list = cJSON_AddArrayToObject(entry, "data_offsets");
    json_append(list, cJSON_CreateNumber((double)w->offset));
    w->offset += bytes;
    json_append(list, cJSON_CreateNumber((double)w->offset));
    return has_all(entry, 3) && has_all(shape, rank) && has_all(list, 2)
               ? 0
               : error_set(err, INFER_EMEMORY, "out of memory");
}

static int describe(void *user, const char *name, int rank, const int64_t *dim,
                    float *data, int64_t count, struct infer_error *err)
{
    struct writer *w = user;
    const size_t bytes = (size_t)count * sizeof(*data);

    w->crc = (uint32_t)crc32_z(w->crc, (const unsigned char *)data, bytes);
    return describe_tensor(w, name, INFER_F32, rank, dim, bytes, err);
}

static int describe_constants(const struct net *n, struct writer *w,
                              struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < n->g->n_values; i++) {
        const struct constant *c = other_constant(n, i);

        if (c)
            rc = describe_tensor(w, n->g->value[i].name, c->dtype, c->rank,
                                 c->dim, c->bytes, err);
    }
    return rc;
}

static int store_constants(const struct net *n, struct writer *w,
                           struct infer_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < n->g->n_values; i++) {
        const struct constant *c = other_constant(n, i);

        if (!c)
            continue;
        rc = file_writer_put(w->file, w->data + w->offset, c->data, c->bytes,
                             err);
        w->offset += c->bytes;
    }
    return rc;
}

static int store(void *user, const char *name, int rank, const int64_t *dim,
                 float *data, int64_t count, struct infer_error *err)
{
    struct writer *w = user;
    const size_t bytes = (size_t)count * sizeof(*data);
    const uint64_t at = w->data + w->offset;

    (void)name;
    (void)rank;
    (void)dim;
    w->offset += bytes;
    return file_writer_put(w->file, at, data, bytes, err);
}

/* 64-bit integers exceed the range of JSON numbers: written as text. */
static void add_integer(cJSON *to, const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    cJSON_AddStringToObject(to, key, text);
}

/* CRC of the run's own values, so that a damaged step or seed is refused. */
static void info_checksum(const struct checkpoint_info *info, char out[16])
{
    char text[512];
    const int n =
        snprintf(text, sizeof(text),
                 "%s\n%s\n%" PRId64 "\n%" PRIu64 "\n%" PRId64 "\n%" PRId64
                 "\n%" PRId64 "\n%.17g",
                 info->arch, info->rule, info->step, info->seed, info->batch,
                 info->accumulate, info->pictures, info->best);

    snprintf(out, 16, "%08" PRIx32,
             (uint32_t)crc32_z(crc32_z(0, NULL, 0), (unsigned char *)text,
                               (size_t)n));
}

/* The text behind "train" in __metadata__. */
static char *info_text(const struct checkpoint_info *info, uint32_t crc)
{
    cJSON *json = cJSON_CreateObject();
    char text[16], *out;

    snprintf(text, sizeof(text), "%08" PRIx32, crc);
    cJSON_AddNumberToObject(json, "version", CHECKPOINT_VERSION);
    cJSON_AddStringToObject(json, "crc32", text);
    cJSON_AddStringToObject(json, "arch", info->arch);
    cJSON_AddStringToObject(json, "optimizer", info->rule);
    add_integer(json, "step", (uint64_t)info->step);
    add_integer(json, "seed", info->seed);
    add_integer(json, "batch", (uint64_t)info->batch);
    add_integer(json, "accumulate", (uint64_t)info->accumulate);
    add_integer(json, "pictures", (uint64_t)info->pictures);
    cJSON_AddNumberToObject(json, "best", info->best);
    info_checksum(info, text);
    cJSON_AddStringToObject(json, "info_crc32", text);
    out = has_all(json, 11) ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    return out;
}

/* The value of "train.header_crc32" before it is known. */
#define NO_CRC "00000000"

/* The eight digits of the header's own checksum in its text; NULL: none.  The
 * key is the first of __metadata__ and the only one of that spelling. */
static char *find_crc(char *text, size_t bytes)
{
    static const char key[] = "\"train.header_crc32\":\"";
    char *at = memmem(text, bytes, key, sizeof(key) - 1);

    if (!at || bytes - (size_t)(at - text) < sizeof(key) - 1 + 8)
        return NULL;
    return at + sizeof(key) - 1;
}

/* Of a header and the spaces behind it. */
static uint32_t header_crc(const char *text, size_t bytes, size_t spaces)
{
    uLong crc =
        crc32_z(crc32_z(0, NULL, 0), (const unsigned char *)text, bytes);

    while (spaces-- > 0)
        crc = crc32_z(crc, (const unsigned char *)" ", 1);
    return (uint32_t)crc;
}

/* Length, header padded with spaces so that the tensors start at a multiple of
 * 64. */
static int put_header(struct writer *w, const struct checkpoint_info *info,
                      struct infer_error *err)
{
    char *text = info_text(info, w->crc), *header, crc[16], *digits;
    cJSON *meta = cJSON_AddObjectToObject(w->header, "__metadata__");
    unsigned char length[8];
    size_t bytes, padded;
    int members = 3, rc;

    cJSON_AddStringToObject(meta, "train.header_crc32", NO_CRC);
    cJSON_AddStringToObject(meta, "format", "pt");
    cJSON_AddStringToObject(meta, "train", text ? text : "");
    members += info->graph != NULL;
    if (info->graph)
        cJSON_AddStringToObject(meta, MODEL_KEY_GRAPH, info->graph);
    members += info->kernels != NULL;
    if (info->kernels)
        cJSON_AddStringToObject(meta, "train.kernels", info->kernels);
    header = text && has_all(meta, members) ? cJSON_PrintUnformatted(w->header)
                                            : NULL;
    cJSON_free(text);
    digits = header ? find_crc(header, strlen(header)) : NULL;
    if (!digits) {
        cJSON_free(header);
        return error_set(err, INFER_EMEMORY, "out of memory");
    }
    bytes = strlen(header);
    padded = (8 + bytes + 63) / 64 * 64 - 8;
    snprintf(crc, sizeof(crc), "%08" PRIx32,
             header_crc(header, bytes, padded - bytes));
    memcpy(digits, crc, 8);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    rc = file_writer_put(w->file, 0, length, 8, err);
    if (rc == 0)
        rc = file_writer_put(w->file, 8, header, bytes, err);
    while (rc == 0 && bytes < padded)
        rc = file_writer_put(w->file, 8 + bytes++, " ", 1, err);
    cJSON_free(header);
    w->data = 8 + padded;
    return rc;
}

static int write_file(const char *path, const struct net *n, struct arrays *a,
                      const struct checkpoint_info *info,
                      struct infer_error *err)
{
    struct file_writer file;
    struct writer w = {.header = cJSON_CreateObject(), .file = &file};
    int rc = w.header ? file_writer_open(path, err, &file)
                      : error_set(err, INFER_EMEMORY, "out of memory");

    if (rc < 0) {
        cJSON_Delete(w.header);
        return rc;
    }
    w.crc = (uint32_t)crc32_z(0, NULL, 0);
    rc = visit_all(n, a, describe, &w, err);
    if (rc == 0)
        rc = describe_constants(n, &w, err);
    if (rc == 0)
        rc = put_header(&w, info, err);
    w.offset = 0;
    if (rc == 0)
        rc = visit_all(n, a, store, &w, err);
    if (rc == 0)
        rc = store_constants(n, &w, err);
    cJSON_Delete(w.header);
    if (rc == 0)
        return file_writer_commit(&file, err);
    file_writer_abort(&file);
    return rc;
}

int checkpoint_write(const char *path, struct net *n,
                     const struct checkpoint_info *info,
                     struct infer_error *err)
{
    struct arrays a;
    int rc = checkpoint_check(n, err);

    if (rc == 0)
        rc = arrays_read(n, &a, err);
    if (rc < 0)
        return rc;
    rc = write_file(path, n, &a, info, err);
    arrays_clear(&a);
    return rc;
}

/* ---- reading ------------------------------------------------------- */

struct reader {
    const struct weights_dict *dict;
    size_t used, missing, other;    /* other: of a different shape */
    char first_missing[NAME_BYTES]; /* their names */
    char first_other[NAME_BYTES];
    uint32_t crc;
};

static bool same_shape(const struct constant *c, int rank, const int64_t *dim)
{
    return c->dtype == INFER_F32 && c->rank == rank &&
           memcmp(c->dim, dim, (size_t)rank * sizeof(*dim)) == 0;
}

static void note(size_t *count, char first[NAME_BYTES], const char *name)
{
    if ((*count)++ == 0)
        snprintf(first, NAME_BYTES, "%s", name);
}

/* Reads the tensor of that name into the array; counts what does not fit. */
static int take(void *user, const char *name, int rank, const int64_t *dim,
                float *data, int64_t count, struct infer_error *err)
{
    struct reader *r = user;
    const struct constant *c = weights_dict_find(r->dict, name);
    const size_t bytes = (size_t)count * sizeof(*data);

    (void)err;
    if (!c) {
        note(&r->missing, r->first_missing, name);
        return 0;
    }
    r->used++;
    if (!same_shape(c, rank, dim)) {
        note(&r->other, r->first_other, name);
        return 0;
    }
    memcpy(data, c->data, bytes);
    r->crc = (uint32_t)crc32_z(r->crc, c->data, bytes);
    return 0;
}

/* Summarises what does not fit, one line a kind. */
static int check_taken(const struct reader *r, struct infer_error *err)
{
    int rc = 0;

    error_clear(err);
    if (r->missing > 0)
        rc = error_add(err, INFER_EFORMAT,
                       "tensor '%s' is missing, and %zu more: the checkpoint "
                       "is of another network, --optimizer, --ema or --freeze",
                       r->first_missing, r->missing - 1);
    if (r->other > 0)
        rc = error_add(err, INFER_EFORMAT,
                       "tensor '%s' has another shape than in this network, "
                       "and %zu more",
                       r->first_other, r->other - 1);
    if (r->used != r->dict->count)
        rc = error_add(err, INFER_EFORMAT,
                       "holds %zu tensors, of which this network, --optimizer, "
                       "--ema and --freeze have %zu",
                       r->dict->count, r->used);
    return rc;
}

static int integer(const cJSON *json, const char *key, uint64_t *out,
                   struct infer_error *err)
{
    const char *text = json_string(json, key);
    char *end;

    if (!text || text[0] < '0' || text[0] > '9')
        return error_set(err, INFER_EFORMAT, "the checkpoint states no %s",
                         key);
    *out = strtoull(text, &end, 10);
    return *end == '\0' ? 0
                        : error_set(err, INFER_EFORMAT,
                                    "the checkpoint's %s is '%s'", key, text);
}

static int read_info(const cJSON *json, bool sealed,
                     struct checkpoint_info *out, uint32_t *crc,
                     struct infer_error *err)
{
    const double version = json_double(json, "version", 0);
    const char *text = json_string(json, "crc32");
    const char *arch = json_string(json, "arch");
    const char *rule = json_string(json, "optimizer");
    char checksum[16];
    uint64_t v[4];
    int rc;

    if (version != 1 && version != CHECKPOINT_VERSION)
        return error_set(err, INFER_EUNSUPPORTED,
                         "checkpoint of version %g; this program reads "
                         "versions 1 to %d",
                         version, CHECKPOINT_VERSION);
    if (version > 1 && !sealed)
        return error_set(err, INFER_EFORMAT,
                         "its header has no checksum: the file is damaged");
    if (!text || strlen(text) != 8 || !arch || !rule)
        return error_set(err, INFER_EFORMAT,
                         "the checkpoint's description is incomplete");
    *crc = (uint32_t)strtoul(text, NULL, 16);
    snprintf(out->arch, sizeof(out->arch), "%s", arch);
    snprintf(out->rule, sizeof(out->rule), "%s", rule);
    rc = integer(json, "step", &v[0], err);
    if (rc == 0)
        rc = integer(json, "seed", &out->seed, err);
    if (rc == 0)
        rc = integer(json, "batch", &v[1], err);
    if (rc == 0)
        rc = integer(json, "accumulate", &v[2], err);
    if (rc == 0)
        rc = integer(json, "pictures", &v[3], err);
    for (int i = 0; rc == 0 && i < 4; i++)
        if (v[i] > INT64_MAX / 2)
            rc = error_set(err, INFER_EFORMAT,
                           "the checkpoint's position is out of range");
    if (rc < 0)
        return rc;
    out->step = (int64_t)v[0];
    out->batch = (int64_t)v[1];
    out->accumulate = (int64_t)v[2];
    out->pictures = (int64_t)v[3];
    out->best = json_double(json, "best", 0);
    /* Absent from the first version's files. */
    text = json_string(json, "info_crc32");
    info_checksum(out, checksum);
    if (text && strcmp(text, checksum) != 0)
        return error_set(err, INFER_EFORMAT,
                         "the checksum of its description is wrong: the file "
                         "is damaged");
    return 0;
}

/* Compares the header with its own checksum; *sealed: it has one.  The text is
 * as it was afterwards. */
static int check_header(char *text, size_t bytes, struct infer_error *err,
                        bool *sealed)
{
    char *digits = find_crc(text, bytes), stated[9] = "", found[16];

    *sealed = digits != NULL;
    if (!digits)
        return 0;
    memcpy(stated, digits, 8);
    memcpy(digits, NO_CRC, 8);
    snprintf(found, sizeof(found), "%08" PRIx32, header_crc(text, bytes, 0));
    memcpy(digits, stated, 8);
    return strcmp(stated, found) == 0
               ? 0
               : error_set(err, INFER_EFORMAT,
                           "the checksum of its header is wrong: the file is "
                           "damaged");
}

static int read_header(const char *path, struct infer_error *err, bool *sealed,
                       cJSON **out)
{
    struct weights_file file;
    uint64_t bytes = 0;
    int rc = weights_file_read(path, 0, err, &file);

    if (rc < 0)
        return rc;
    for (int i = 7; i >= 0 && file.blob->bytes >= 8; i--)
        bytes = bytes << 8 | file.blob->data[i];
    if (file.blob->bytes < 8 || bytes > file.blob->bytes - 8)
        rc = error_set(err, INFER_EFORMAT, "%s: is no checkpoint", path);
    else
        rc = check_header((char *)file.blob->data + 8, (size_t)bytes, err,
                          sealed);
    if (rc == 0)
        rc = json_parse((const char *)file.blob->data + 8, (size_t)bytes, false,
                        err, out);
    weights_file_close(&file);
    return rc;
}

#define NO_STATE                                                               \
    "holds weights but no training state: start from it with --init-from"

/* The text of __metadata__'s "train", parsed. */
static int read_metadata(const char *path, struct infer_error *err,
                         bool *sealed, cJSON **out)
{
    cJSON *header = NULL;
    const char *text;
    int rc = read_header(path, err, sealed, &header);

    text = rc == 0 ? json_string(json_member(header, "__metadata__"), "train")
                   : NULL;
    if (rc == 0 && !text)
        rc = error_set(err, INFER_EFORMAT, NO_STATE);
    if (rc == 0)
        rc = json_parse(text, strlen(text), false, err, out);
    cJSON_Delete(header);
    return rc;
}

/* A text of __metadata__, to be freed; NULL if it has none of that key. */
static int read_text(const char *path, const char *key, struct infer_error *err,
                     char **out)
{
    cJSON *header = NULL;
    const char *text;
    bool sealed;
    int rc = read_header(path, err, &sealed, &header);

    *out = NULL;
    text =
        rc == 0 ? json_string(json_member(header, "__metadata__"), key) : NULL;
    if (text && !(*out = strdup(text)))
        rc = error_set(err, INFER_EMEMORY, "out of memory");
    cJSON_Delete(header);
    return rc;
}

int checkpoint_kernels(const char *path, struct infer_error *err, char **out)
{
    return read_text(path, "train.kernels", err, out);
}

int checkpoint_graph(const char *path, struct infer_error *err,
                     struct graph **out)
{
    char *text = NULL, *state = NULL;
    int rc = read_text(path, "train", err, &state);

    *out = NULL;
    if (rc == 0 && !state)
        rc = error_set(err, INFER_EFORMAT, NO_STATE);
    free(state);
    if (rc == 0)
        rc = read_text(path, MODEL_KEY_GRAPH, err, &text);
    if (rc == 0 && text)
        rc = model_file_parse_arch(text, strlen(text), err, out);
    free(text);
    return rc;
}

/* All tensors are checked before any is changed. */
static int take_all(struct net *n, const struct weights_dict *dict,
                    uint32_t crc, struct infer_error *err)
{
    struct reader r = {.dict = dict, .crc = (uint32_t)crc32_z(0, NULL, 0)};
    struct arrays a;
    int rc = arrays_read(n, &a, err);

    if (rc == 0)
        rc = visit_all(n, &a, take, &r, err);
    for (size_t i = 0; rc == 0 && i < dict->count; i++)
        r.used += is_other_constant(n, dict->entry[i].name);
    if (rc == 0)
        rc = check_taken(&r, err);
    if (rc == 0 && r.crc != crc)
        rc = error_set(err, INFER_EFORMAT,
                       "the checksum of its tensors is wrong: the file is "
                       "damaged");
    if (rc == 0)
        rc = arrays_write(n, &a, err);
    arrays_clear(&a);
    return rc;
}

int checkpoint_read(const char *path, struct net *n, checkpoint_judge *judge,
                    void *user, struct infer_error *err,
                    struct checkpoint_info *info)
{
    struct weights_options options;
    struct weights_import import;
    struct checkpoint_info found = {0};
    cJSON *meta = NULL;
    bool sealed = false;
    uint32_t crc = 0;
    int rc;

    weights_options_init(&options);
    options.from = "safetensors";
    options.bare = true;
    rc = weights_read(path, &options, err, &import);
    if (rc < 0)
        return rc; /* names the file */
    rc = read_metadata(path, err, &sealed, &meta);
    if (rc == 0)
        rc = read_info(meta, sealed, &found, &crc, err);
    if (rc == 0)
        rc = judge(&found, user, err);
    if (rc == 0)
        rc = take_all(n, &import.dict, crc, err);
    if (rc < 0)
        error_prefix(err, "%s", path);
    else
        *info = found;
    cJSON_Delete(meta);
    weights_import_clear(&import);
    return rc;
}
