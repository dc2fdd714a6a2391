/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto and TensorShapeProto. */
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* Typed payload fields of TensorProto. */
enum { CONTENT = 4, FLOATS = 5, DOUBLES = 6, INTS = 7, INT64S = 10 };
enum { BOOLS = 11, HALVES = 13, UINT32S = 16, UINT64S = 17 };

static const struct {
    int64_t onnx;
    enum infer_dtype dtype;
    uint32_t field; /* where its typed payload lies */
} types[] = {
    [TF_FLOAT] = {ONNX_FLOAT, INFER_F32, FLOATS},
    [TF_DOUBLE] = {ONNX_DOUBLE, INFER_F64, DOUBLES},
    [TF_INT32] = {ONNX_INT32, INFER_I32, INTS},
    [TF_UINT8] = {ONNX_UINT8, INFER_U8, INTS},
    [TF_INT16] = {ONNX_INT16, INFER_I16, INTS},
    [TF_INT8] = {ONNX_INT8, INFER_I8, INTS},
    [TF_INT64] = {ONNX_INT64, INFER_I64, INT64S},
    [TF_BOOL] = {ONNX_BOOL, INFER_BOOL, BOOLS},
    [TF_QINT8] = {ONNX_INT8, INFER_I8, INTS},
    [TF_QUINT8] = {ONNX_UINT8, INFER_U8, INTS},
    [TF_QINT32] = {ONNX_INT32, INFER_I32, INTS},
    [TF_BFLOAT16] = {ONNX_BFLOAT16, INFER_BF16, HALVES},
    [TF_UINT16] = {ONNX_UINT16, INFER_U16, INTS},
    [TF_HALF] = {ONNX_FLOAT16, INFER_F16, HALVES},
    [TF_UINT32] = {ONNX_UINT32, INFER_U32, UINT32S},
    [TF_UINT64] = {ONNX_UINT64, INFER_U64, UINT64S},
};
#define N_TYPES (sizeof types / sizeof *types)

enum infer_dtype tf_dtype(uint64_t type)
{
    return type < N_TYPES && types[type].onnx ? types[type].dtype : INFER_NONE;
}

int64_t tf_onnx_type(uint64_t type)
{
    return type < N_TYPES ? types[type].onnx : 0;
}

/* ---- shapes -------------------------------------------------------- */

static int read_dim(const struct pb_reader *outer, const struct pb_field *field,
                    int64_t *out, struct infer_error *err)
{
    struct pb_reader r;
    struct pb_field f;
    int rc = pb_enter(outer, field, err, &r);

    *out = 0;
    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0)
        if (f.number == 1) {
            rc = pb_expect(&r, &f, PB_VARINT, "a size", err);
            *out = (int64_t)f.value;
        }
    if (rc == 0 && *out < -1)
        rc = error_set(err, INFER_EFORMAT, "a dimension of %lld",
                       (long long)*out);
    return rc;
}

int tf_shape_parse(const struct tf_graph *g, struct pb_span shape, int *rank,
                   int64_t *dim, struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, shape);
    bool unknown = false;
    struct pb_field f;
    int rc;

    *rank = 0;
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 3 && f.wire == PB_VARINT)
            unknown = f.value != 0;
        if (f.number != 2)
            continue;
        if (*rank == INFER_MAX_RANK)
            return error_set(err, INFER_EUNSUPPORTED, "more than %d dimensions",
                             INFER_MAX_RANK);
        rc = read_dim(&r, &f, &dim[*rank], err);
        if (rc < 0)
            return rc;
        ++*rank;
    }
    if (unknown)
        *rank = -1;
    return rc;
}

/* ---- payloads ------------------------------------------------------ */

struct tensor {
    uint64_t type;
    int rank;
    int64_t dim[INFER_MAX_RANK];
    struct pb_span shape, content, message;
    uint32_t field;   /* of the typed payload */
    size_t values;    /* in it */
    size_t width;     /* bytes of an element */
    int64_t elements; /* of the shape */
};

static int read_fields(const struct tf_graph *g, struct tensor *t,
                       struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, t->message);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1)
            rc = pb_expect(&r, &f, PB_VARINT, "a type", err);
        else if (f.number == 2 || f.number == CONTENT)
            rc = pb_expect(&r, &f, PB_BYTES, "a tensor", err);
        if (rc < 0)
            return rc;
        if (f.number == 1)
            t->type = f.value;
        else if (f.number == 2)
            t->shape = f.span;
        else if (f.number == CONTENT)
            t->content = f.span;
    }
    return rc;
}

static enum pb_wire wire_of(uint32_t field)
{
    return field == FLOATS    ? PB_FIXED32
           : field == DOUBLES ? PB_FIXED64
                              : PB_VARINT;
}

static int count_values(const struct tf_graph *g, struct tensor *t,
                        struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, t->message);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        size_t n;

        if (f.number != t->field)
            continue;
        rc = pb_count(&r, &f, wire_of(t->field), "values", err, &n);
        if (rc < 0)
            return rc;
        t->values += n;
    }
    return rc;
}

static void store(const struct tensor *t, struct constant *c, int64_t i,
                  uint64_t bits)
{
    unsigned char *to = c->data + (size_t)i * t->width;

    if (c->dtype == INFER_BOOL)
        bits = bits != 0;
    for (size_t k = 0; k < t->width; k++)
        to[k] = (unsigned char)(bits >> (8 * k));
}

/* Elements `from` and later become the one before them, in runs that double. */
static void repeat_last(const struct tensor *t, struct constant *c,
                        int64_t from)
{
    unsigned char *to = c->data + (size_t)from * t->width;
    const size_t bytes = (size_t)(t->elements - from) * t->width;

    for (size_t done = 0, run = t->width; done < bytes; run += run) {
        if (run > bytes - done)
            run = bytes - done;
        memcpy(to + done, to - t->width, run);
        done += run;
    }
}

/* The typed payload; its last value stands for all that follow. */
static int fill(const struct tf_graph *g, const struct tensor *t,
                struct constant *c, struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, t->message);
    struct pb_field f;
    uint64_t bits = 0;
    int64_t i = 0;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        size_t at = 0;

        if (f.number != t->field)
            continue;
        while (i < t->elements && pb_item(&f, wire_of(t->field), &at, &bits))
            store(t, c, i++, bits);
    }
    if (i > 0)
        repeat_last(t, c, i);
    return rc;
}

static int check_tensor(const struct tf_graph *g, struct tensor *t,
                        struct infer_error *err)
{
    size_t bytes;
    int rc = tf_shape_parse(g, t->shape, &t->rank, t->dim, err);

    if (rc < 0)
        return rc;
    if (tf_dtype(t->type) == INFER_NONE)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a tensor of TensorFlow's type %llu",
                         (unsigned long long)t->type);
    t->field = types[t->type].field;
    t->width = infer_dtype_size(tf_dtype(t->type));
    if (t->rank < 0 || !checked_count(t->rank, t->dim, &t->elements) ||
        !checked_mul((size_t)t->elements, t->width, &bytes))
        return error_set(err, INFER_EFORMAT, "a tensor of impossible size");
    rc = count_values(g, t, err);
    if (rc < 0)
        return rc;
    if (t->content.bytes > 0 && t->values > 0)
        return error_set(err, INFER_EFORMAT,
                         "a tensor with both tensor_content and values");
    if (t->content.bytes > 0 && t->content.bytes != bytes)
        return error_set(err, INFER_EFORMAT,
                         "tensor_content has %zu bytes, the shape %zu",
                         t->content.bytes, bytes);
    if (t->values > (size_t)t->elements)
        return error_set(err, INFER_EFORMAT,
                         "%zu values for a tensor of %lld elements", t->values,
                         (long long)t->elements);
    return 0;
}

int64_t tf_tensor_count(const struct tf_graph *g, struct pb_span tensor)
{
    struct tensor t = {.message = tensor};

    return read_fields(g, &t, NULL) == 0 && check_tensor(g, &t, NULL) == 0
               ? t.elements
               : -1;
}

/* Room for the tensor.  Constants that the file holds whole are bounded by its
 * size, others by the import: one value may stand for all, and a number of one
 * byte becomes eight. */
static struct constant *make_room(struct onnx_import *im,
                                  const struct tensor *t)
{
    const bool whole =
        t->content.bytes > 0 ||
        (t->values == (size_t)t->elements && wire_of(t->field) != PB_VARINT);
    struct constant *c = NULL;

    if (!whole) {
        onnx_new_constant(im, tf_dtype(t->type), t->rank, t->dim, &c);
        return c;
    }
    c = constant_new(tf_dtype(t->type), t->rank, t->dim);
    if (!c)
        onnx_no_memory(im);
    return c;
}

/* One value, or none, for all elements. */
static int load_fill(struct onnx_import *im, const struct tensor *t,
                     struct constant **out)
{
    const struct tf_import *tf = im->context;
    struct tensor one = *t;
    struct constant *c = constant_new(tf_dtype(t->type), 0, NULL);

    if (!c)
        return onnx_no_memory(im);
    one.elements = 1;
    im->rc = fill(&tf->graph, &one, c, im->err);
    onnx_new_fill(im, c->dtype, t->rank, t->dim, c->data, out);
    constant_unref(c);
    return im->rc;
}

int tf_tensor_load(struct onnx_import *im, struct pb_span tensor,
                   struct constant **out)
{
    const struct tf_import *tf = im->context;
    const struct tf_graph *g = &tf->graph;
    struct tensor t = {.message = tensor};
    struct constant *c;
    int rc = read_fields(g, &t, im->err);

    if (rc == 0)
        rc = check_tensor(g, &t, im->err);
    if (rc < 0)
        return rc;
    if (t.content.bytes == 0 && t.values <= 1 && t.elements > 1)
        return load_fill(im, &t, out);
    c = make_room(im, &t);
    if (!c)
        return im->rc;
    if (t.content.bytes > 0)
        memcpy(c->data, t.content.data, t.content.bytes);
    else
        rc = fill(g, &t, c, im->err);
    for (size_t i = 0; c->dtype == INFER_BOOL && i < c->bytes; i++)
        c->data[i] = c->data[i] != 0;
    if (rc < 0)
        constant_unref(c);
    else
        *out = c;
    return rc;
}

void tf_tensor_give_back(const struct tf_graph *g, struct pb_span tensor)
{
    struct tensor t = {.message = tensor};

    if (read_fields(g, &t, NULL) == 0 && t.content.bytes > 0)
        blob_give_back(g->blob, t.content.data, t.content.bytes);
}
