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
 * Untrusted: the ranges of the tensors must tile the buffer exactly.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/graph/model_layout.h"
#include "weights/arch.h"
#include "weights/bytes.h"
#include "weights/numpy/numpy.h"
#include "weights/safetensors/safetensors_header.h"
#include "weights/weights.h"

#define MAX_HEADER ((uint64_t)100000000) /* as the reference reader */
#define ALIGN      8

/* ---- probing ------------------------------------------------------- */

static bool is_space(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int probe(const struct weights_file *file)
{
    const struct blob *blob = file->blob;
    size_t i;

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

/* ---- the format ---------------------------------------------------- */

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

    rc = read_one(file->blob, err, out, &graph);
    if (rc == 0 && graph && !options->arch && !options->bare)
        rc = read_described(graph, err, out);
    free(graph);
    return rc;
}

const struct weights_format weights_format_safetensors = {
    .name = "safetensors",
    .description = "safetensors (.safetensors)",
    .probe = probe,
    .read = read,
};
