/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caffe's binary network (.caffemodel): the weights of each layer.
 *
 *   NetParameter        1 name, 2 layers (old form), 100 layer
 *   LayerParameter      1 name, 7 blobs
 *   V1LayerParameter    4 name, 6 blobs
 *   BlobProto           1..4 num, channels, height, width; 5 data; 7 shape
 *   BlobShape           1 dim
 *
 * Nothing is copied: blobs point into the file.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/caffe/caffe.h"
#include "weights/protobuf/protobuf.h"

#define NET_LAYERS 2
#define NET_LAYER  100
#define MAX_BLOBS  262144

static int no_memory(struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "out of memory");
}

/* ---- one blob ------------------------------------------------------ */

static int add_dim(struct caffe_blob *blob, uint64_t value,
                   struct infer_error *err)
{
    if (blob->rank == INFER_MAX_RANK || value > INT32_MAX)
        return error_set(err, INFER_EFORMAT, "a blob of impossible shape");
    blob->dim[blob->rank++] = (int64_t)value;
    return 0;
}

static int read_shape(const struct pb_reader *r, const struct pb_field *f,
                      struct caffe_blob *blob, struct infer_error *err)
{
    struct pb_reader inner;
    struct pb_field d;
    uint64_t value;
    size_t n, at;
    int rc = pb_enter(r, f, err, &inner);

    blob->rank = 0;
    while (rc >= 0 && (rc = pb_next(&inner, &d, err)) > 0) {
        if (d.number != 1)
            continue;
        rc = pb_count(&inner, &d, PB_VARINT, "dim", err, &n);
        at = 0;
        while (rc >= 0 && d.wire == PB_BYTES &&
               pb_item(&d, PB_VARINT, &at, &value))
            rc = add_dim(blob, value, err);
        if (rc >= 0 && d.wire == PB_VARINT)
            rc = add_dim(blob, d.value, err);
    }
    return rc;
}

/* One piece of packed floats: protobuf allows several, Caffe writes one. */
static int read_data(const struct pb_reader *r, const struct pb_field *f,
                     struct caffe_blob *blob, struct infer_error *err)
{
    size_t n;
    int rc = pb_count(r, f, PB_FIXED32, "data", err, &n);

    if (rc < 0)
        return rc;
    if (blob->data != NULL || f->wire != PB_BYTES)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a blob whose data are not one packed array");
    blob->data = f->span.data;
    blob->bytes = f->span.bytes;
    blob->head = f->tag;
    return 0;
}

static int read_blob(const struct pb_reader *r, const struct pb_field *f,
                     struct caffe_blob *blob, struct infer_error *err)
{
    int64_t old[4] = {1, 1, 1, 1};
    bool shaped = false, legacy = false;
    struct pb_reader inner;
    struct pb_field d;
    int rc = pb_enter(r, f, err, &inner), i;

    while (rc >= 0 && (rc = pb_next(&inner, &d, err)) > 0) {
        if (d.number >= 1 && d.number <= 4 && d.wire == PB_VARINT) {
            legacy = true;
            old[d.number - 1] = d.value <= INT32_MAX ? (int64_t)d.value : -1;
        } else if (d.number == 5) {
            rc = read_data(&inner, &d, blob, err);
        } else if (d.number == 7) {
            shaped = true;
            rc = read_shape(&inner, &d, blob, err);
        } else if (d.number == 8 || d.number == 12) {
            rc = error_set(err, INFER_EUNSUPPORTED,
                           "a blob whose data are not single precision");
        }
    }
    if (rc < 0 || shaped || !legacy)
        return rc;
    blob->rank = 4;
    for (i = 0; i < 4; i++)
        blob->dim[i] = old[i];
    return 0;
}

/* ---- layers -------------------------------------------------------- */

static int add_blob(struct caffe_weights *w, const struct pb_reader *r,
                    const struct pb_field *f, struct infer_error *err)
{
    struct caffe_blob blob = {0}, *array;
    int64_t count;
    int rc;

    if (w->n_blobs == MAX_BLOBS)
        return error_set(err, INFER_EUNSUPPORTED, "more than %d blobs",
                         MAX_BLOBS);
    array =
        array_reserve(w->blob, w->n_blobs, &w->blobs_capacity, sizeof(*array));
    if (array == NULL)
        return no_memory(err);
    w->blob = array;
    rc = read_blob(r, f, &blob, err);
    if (rc < 0)
        return rc;
    if (!checked_count(blob.rank, blob.dim, &count) ||
        (uint64_t)count != blob.bytes / sizeof(float))
        return error_set(err, INFER_EFORMAT,
                         "a blob has %zu elements, which is not what its "
                         "shape says",
                         blob.bytes / sizeof(float));
    w->blob[w->n_blobs++] = blob;
    return 0;
}

static int add_layer(struct caffe_weights *w, struct layers_text name,
                     int first, struct infer_error *err)
{
    struct caffe_layer_blobs *array;
    int *at;

    array = array_reserve(w->layer, w->n_layers, &w->layers_capacity,
                          sizeof(*array));
    if (array == NULL)
        return no_memory(err);
    w->layer = array;
    at = layers_map_at(&w->by_name, name);
    if (at == NULL)
        return no_memory(err);
    if (*at >= 0)
        return error_set(err, INFER_EFORMAT, "two layers with weights");
    *at = w->n_layers;
    w->layer[w->n_layers++] =
        (struct caffe_layer_blobs){name, first, w->n_blobs - first};
    return 0;
}

/* Layers without blobs need no place. */
static int read_layer(struct caffe_weights *w, const struct pb_reader *r,
                      const struct pb_field *f, struct infer_error *err)
{
    const unsigned name_field = f->number == NET_LAYERS ? 4 : 1;
    const unsigned blobs_field = f->number == NET_LAYERS ? 6 : 7;
    struct layers_text name = {"", 0};
    const int first = w->n_blobs;
    struct pb_reader inner;
    struct pb_field d;
    int rc = pb_enter(r, f, err, &inner);

    while (rc >= 0 && (rc = pb_next(&inner, &d, err)) > 0) {
        if (d.number == name_field && d.wire == PB_BYTES)
            name =
                (struct layers_text){(const char *)d.span.data, d.span.bytes};
        else if (d.number == blobs_field)
            rc = add_blob(w, &inner, &d, err);
    }
    if (rc == 0 && w->n_blobs > first)
        rc = add_layer(w, name, first, err);
    if (rc < 0)
        error_prefix(err, "weights of layer '%.*s'", LAYERS_SHOW(name));
    return rc;
}

int caffe_weights_read(struct blob *file, struct infer_error *err,
                       struct caffe_weights *out)
{
    bool layers = false;
    struct pb_reader r;
    struct pb_field f;
    int rc = 0;

    memset(out, 0, sizeof(*out));
    out->file = file;
    pb_open(&r, file->data, file->bytes);
    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0)
        if (f.number == NET_LAYER || f.number == NET_LAYERS) {
            layers = true;
            rc = read_layer(out, &r, &f, err);
        }
    if (rc == 0 && !layers)
        rc = error_set(err, INFER_EFORMAT, "the weights hold no layers");
    if (rc < 0)
        caffe_weights_clear(out);
    return rc;
}

void caffe_weights_clear(struct caffe_weights *w)
{
    free(w->blob);
    free(w->layer);
    layers_map_clear(&w->by_name);
    memset(w, 0, sizeof(*w));
}

/* ---- probing ------------------------------------------------------- */

/* A layer of the old form has a number for its type and text for its name;
 * TensorFlow's graphs, which look alike, do not. */
static bool is_old_layer(const struct pb_reader *r, const struct pb_field *f)
{
    struct pb_reader inner;
    struct pb_field d;
    bool type = false;
    int rc = pb_enter(r, f, NULL, &inner);

    while (rc >= 0 && (rc = pb_next(&inner, &d, NULL)) > 0) {
        if (d.number == 4 && d.wire != PB_BYTES)
            return false;
        type = type || (d.number == 5 && d.wire == PB_VARINT);
    }
    return rc == 0 && type;
}

int caffe_weights_probe(const struct blob *file)
{
    static const enum pb_wire wires[] = {
        PB_BYTES,  PB_BYTES, PB_BYTES,  PB_BYTES, PB_VARINT,
        PB_VARINT, PB_BYTES, PB_VARINT, PB_BYTES,
    }; /* by number */
    struct pb_reader r;
    struct pb_field f;
    bool layers = false;
    int rc;

    pb_open(&r, file->data, file->bytes);
    while ((rc = pb_next(&r, &f, NULL)) > 0) {
        if (f.number < sizeof(wires) / sizeof(*wires)
                ? f.wire != wires[f.number] && f.number != 4
                : f.number != NET_LAYER)
            return 0;
        if (f.number == NET_LAYER && f.wire != PB_BYTES)
            return 0;
        if (f.number == NET_LAYERS && !is_old_layer(&r, &f))
            return 0;
        layers = layers || f.number == NET_LAYER || f.number == NET_LAYERS;
    }
    return !layers ? 0 : rc == 0 ? 85 : 40;
}
