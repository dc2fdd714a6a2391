/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: what the file says, one object at a time.  The numbers of
 * fields are those of schema.fbs, version 3. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/tflite/tflite.h"

/* Fields by table. */
enum { MODEL_VERSION, MODEL_CODES, MODEL_GRAPHS, MODEL_TEXT, MODEL_BUFFERS };
enum { CODE_OLD, CODE_CUSTOM, CODE_VERSION, CODE_NEW };
enum { GRAPH_TENSORS, GRAPH_INPUTS, GRAPH_OUTPUTS, GRAPH_OPERATORS };
enum {
    TENSOR_SHAPE,
    TENSOR_TYPE,
    TENSOR_BUFFER,
    TENSOR_NAME,
    TENSOR_QUANT,
    TENSOR_VARIABLE,
    TENSOR_SPARSITY,
    TENSOR_SIGNATURE
};
enum {
    QUANT_MIN,
    QUANT_MAX,
    QUANT_SCALE,
    QUANT_ZERO,
    QUANT_KIND,
    QUANT_AXIS = 6
};
enum {
    OPERATOR_CODE,
    OPERATOR_INPUTS,
    OPERATOR_OUTPUTS,
    OPERATOR_OPTIONS = 4,
    OPERATOR_CUSTOM,
    OPERATOR_OPTIONS_2 = 12
};
enum { BUFFER_DATA, BUFFER_OFFSET, BUFFER_SIZE };

static int check(const struct tflite_model *m, struct infer_error *err)
{
    if (!m->file.damaged)
        return 0;
    return error_set(err, INFER_EFORMAT,
                     "an offset at byte %zu leads out of the file",
                     m->file.damaged_at);
}

static int check_counts(const struct tflite_model *m, struct infer_error *err)
{
    if (m->tensors.count > TFLITE_MAX_TENSORS ||
        m->operators.count > GRAPH_MAX_NODES ||
        m->inputs.count > GRAPH_MAX_INPUTS ||
        m->outputs.count > GRAPH_MAX_INPUTS)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%zu tensors, %zu operators, %zu inputs and %zu "
                         "outputs; at most %d, %d, %d and %d are read",
                         m->tensors.count, m->operators.count, m->inputs.count,
                         m->outputs.count, TFLITE_MAX_TENSORS, GRAPH_MAX_NODES,
                         GRAPH_MAX_INPUTS, GRAPH_MAX_INPUTS);
    return 0;
}

int tflite_model_select(struct tflite_model *m, int graph,
                        struct infer_error *err)
{
    struct fb_table t;
    int rc;

    if (graph < 0 || (size_t)graph >= m->graphs.count)
        return error_set(err, INFER_EFORMAT, "network %d of %zu is named",
                         graph, m->graphs.count);
    t = fb_list_table(&m->graphs, (size_t)graph);
    m->tensors = fb_list(&t, GRAPH_TENSORS, 4);
    m->inputs = fb_list(&t, GRAPH_INPUTS, 4);
    m->outputs = fb_list(&t, GRAPH_OUTPUTS, 4);
    m->operators = fb_list(&t, GRAPH_OPERATORS, 4);
    rc = check(m, err);
    return rc < 0 ? rc : check_counts(m, err);
}

int tflite_model_open(struct blob *blob, struct infer_error *err,
                      struct tflite_model *out)
{
    struct fb_table root;
    struct fb_vector graphs;
    int rc;

    memset(out, 0, sizeof *out);
    out->blob = blob;
    fb_open(&out->file, blob->data, blob->bytes);
    root = fb_root(&out->file);
    out->version = fb_u32(&root, MODEL_VERSION, 0);
    out->codes = fb_list(&root, MODEL_CODES, 4);
    out->buffers = fb_list(&root, MODEL_BUFFERS, 4);
    out->description = fb_list(&root, MODEL_TEXT, 1);
    out->graphs = graphs = fb_list(&root, MODEL_GRAPHS, 4);
    rc = check(out, err);
    if (rc < 0)
        return rc;
    if (out->version != 3)
        return error_set(err, INFER_EUNSUPPORTED,
                         "version %lu of the schema; 3 is supported",
                         (unsigned long)out->version);
    if (graphs.count == 0)
        return error_set(err, INFER_EFORMAT, "the file holds no network");
    return tflite_model_select(out, 0, err);
}

/* ---- tensors ------------------------------------------------------- */

static const struct {
    int type;
    enum infer_dtype dtype;
    const char *name;
} types[] = {
    {TFLITE_FLOAT32, INFER_F32, "FLOAT32"},
    {TFLITE_FLOAT16, INFER_F16, "FLOAT16"},
    {TFLITE_INT32, INFER_I32, "INT32"},
    {TFLITE_UINT8, INFER_U8, "UINT8"},
    {TFLITE_INT64, INFER_I64, "INT64"},
    {5, INFER_NONE, "STRING"},
    {TFLITE_BOOL, INFER_BOOL, "BOOL"},
    {TFLITE_INT16, INFER_I16, "INT16"},
    {8, INFER_NONE, "COMPLEX64"},
    {TFLITE_INT8, INFER_I8, "INT8"},
    {TFLITE_FLOAT64, INFER_F64, "FLOAT64"},
    {11, INFER_NONE, "COMPLEX128"},
    {12, INFER_U64, "UINT64"},
    {13, INFER_NONE, "RESOURCE"},
    {14, INFER_NONE, "VARIANT"},
    {15, INFER_U32, "UINT32"},
    {16, INFER_U16, "UINT16"},
    {17, INFER_NONE, "INT4"},
    {18, INFER_BF16, "BFLOAT16"},
};

enum infer_dtype tflite_dtype(int type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return types[i].dtype;
    return INFER_NONE;
}

const char *tflite_type_name(int type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return types[i].name;
    return "of an unknown type";
}

static int read_shape(const struct fb_table *t, int index,
                      struct infer_error *err, struct tflite_tensor *out)
{
    const struct fb_vector shape = fb_list(t, TENSOR_SHAPE, 4);
    const struct fb_vector open = fb_list(t, TENSOR_SIGNATURE, 4);

    if (shape.count > INFER_MAX_RANK)
        return error_set(err, INFER_EUNSUPPORTED,
                         "tensor %d has %zu dimensions; at most %d are read",
                         index, shape.count, INFER_MAX_RANK);
    out->rank = (int)shape.count;
    for (int i = 0; i < out->rank; i++) {
        out->dim[i] = out->open[i] = fb_list_i32(&shape, (size_t)i);
        if (open.count == shape.count && fb_list_i32(&open, (size_t)i) == -1)
            out->open[i] = -1;
        if (out->dim[i] < 0)
            return error_set(err, INFER_EFORMAT,
                             "tensor %d: dimension %d is %lld", index, i,
                             (long long)out->dim[i]);
    }
    return 0;
}

/* The byte as two's complement. */
static int as_signed(unsigned byte)
{
    return byte < 128 ? (int)byte : (int)byte - 256;
}

int tflite_model_tensor(struct tflite_model *m, int index,
                        struct infer_error *err, struct tflite_tensor *out)
{
    struct fb_table t, q;
    int rc;

    memset(out, 0, sizeof *out);
    if (index < 0 || (size_t)index >= m->tensors.count)
        return error_set(err, INFER_EFORMAT, "tensor %d of %zu is used", index,
                         m->tensors.count);
    t = fb_list_table(&m->tensors, (size_t)index);
    out->type = as_signed(fb_u8(&t, TENSOR_TYPE, 0));
    out->buffer = fb_u32(&t, TENSOR_BUFFER, 0);
    out->name = fb_list(&t, TENSOR_NAME, 1);
    out->variable = fb_bool(&t, TENSOR_VARIABLE);
    out->sparse = fb_has(&t, TENSOR_SPARSITY);
    out->sparsity = fb_sub(&t, TENSOR_SPARSITY);
    q = fb_sub(&t, TENSOR_QUANT);
    out->scale = fb_list(&q, QUANT_SCALE, 4);
    out->zero_point = fb_list(&q, QUANT_ZERO, 8);
    out->quantised_axis = fb_i32(&q, QUANT_AXIS, 0);
    rc = read_shape(&t, index, err, out);
    return rc < 0 ? rc : check(m, err);
}

void tflite_model_close(struct tflite_model *m)
{
    weights_kept_clear(&m->kept);
    free(m->own);
    m->own = NULL;
    free(m->state);
    m->state = NULL;
    m->n_states = 0;
}

int tflite_model_buffer(struct tflite_model *m, uint32_t index,
                        struct infer_error *err, const unsigned char **data,
                        size_t *bytes)
{
    struct fb_table b;
    struct fb_vector v;
    uint64_t offset, size;
    int rc;

    *data = NULL;
    *bytes = 0;
    if (index == 0) /* stands for none */
        return 0;
    if (index >= m->buffers.count)
        return error_set(err, INFER_EFORMAT, "buffer %lu of %zu is used",
                         (unsigned long)index, m->buffers.count);
    b = fb_list_table(&m->buffers, index);
    v = fb_list(&b, BUFFER_DATA, 1);
    offset = fb_u64(&b, BUFFER_OFFSET, 0);
    size = fb_u64(&b, BUFFER_SIZE, 0);
    rc = check(m, err);
    if (rc < 0)
        return rc;
    if (v.count == 0 && offset > 1 && size > 0) { /* behind the FlatBuffer */
        if (!checked_range(offset, size, m->file.bytes))
            return error_set(err, INFER_EFORMAT,
                             "buffer %lu lies outside the file",
                             (unsigned long)index);
        *data = m->file.data + offset;
        *bytes = (size_t)size;
        return 0;
    }
    if (v.count > 0)
        *data = fb_list_data(&v);
    *bytes = v.count;
    return 0;
}

/* ---- operators ----------------------------------------------------- */

int tflite_model_operator(struct tflite_model *m, int index,
                          struct infer_error *err, struct tflite_operator *out)
{
    const struct fb_table t = fb_list_table(&m->operators, (size_t)index);
    const uint32_t number = fb_u32(&t, OPERATOR_CODE, 0);
    struct fb_table code;
    int32_t old, new;
    int rc;

    memset(out, 0, sizeof *out);
    out->in = fb_list(&t, OPERATOR_INPUTS, 4);
    out->out = fb_list(&t, OPERATOR_OUTPUTS, 4);
    out->options = fb_sub(&t, OPERATOR_OPTIONS);
    out->options_2 = fb_sub(&t, OPERATOR_OPTIONS_2);
    out->custom_options = fb_list(&t, OPERATOR_CUSTOM, 1);
    rc = check(m, err);
    if (rc < 0)
        return rc;
    if (number >= m->codes.count)
        return error_set(err, INFER_EFORMAT, "operator %d has code %lu of %zu",
                         index, (unsigned long)number, m->codes.count);
    if (out->in.count > GRAPH_MAX_INPUTS || out->out.count > GRAPH_MAX_INPUTS)
        return error_set(err, INFER_EUNSUPPORTED,
                         "operator %d has %zu inputs and %zu outputs; at most "
                         "%d are read",
                         index, out->in.count, out->out.count,
                         GRAPH_MAX_INPUTS);
    out->n_in = (int)out->in.count;
    out->n_out = (int)out->out.count;
    code = fb_list_table(&m->codes, number);
    /* Numbers up to 127 stand in the old field, and in both since 2020. */
    old = as_signed(fb_u8(&code, CODE_OLD, 0));
    new = fb_i32(&code, CODE_NEW, 0);
    out->code = old > new ? old : new;
    out->custom = fb_list(&code, CODE_CUSTOM, 1);
    return check(m, err);
}
