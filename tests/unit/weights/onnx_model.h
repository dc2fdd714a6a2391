/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX models written by hand, for the tests of the reader. */
#ifndef TESTS_UNIT_WEIGHTS_ONNX_MODEL_H
#define TESTS_UNIT_WEIGHTS_ONNX_MODEL_H

#include <math.h>
#include <stdbool.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/model/model.h"
#include "tests/unit/test.h"
#include "tests/unit/weights/importer/memory_faults.h"
#include "tests/unit/weights/protobuf_writer.h"
#include "weights/onnx/onnx.h"

extern const struct weights_format weights_format_onnx;

#define FLOATS(...)                                                            \
    (const float[])                                                            \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
#define INTS(...)                                                              \
    (const int64_t[])                                                          \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

#define EMPTY                                                                  \
    {                                                                          \
        0                                                                      \
    }

/* ---- graph --------------------------------------------------------- */

/* ValueInfoProto as field `number` of a graph; -1 writes a named dimension. */
static inline void graph_info(struct pb_message *g, unsigned number,
                              const char *name, int type, int rank,
                              const int64_t *dim)
{
    struct pb_message info = {0}, tensor = {0}, shape = {0}, kind = {0};
    int i;

    for (i = 0; i < rank; i++) {
        struct pb_message d = {0};

        if (dim[i] == -1)
            pb_text(&d, 2, "N");
        else
            pb_int(&d, 1, dim[i]);
        pb_nested(&shape, 1, &d);
    }
    pb_int(&tensor, 1, type);
    pb_nested(&tensor, 2, &shape);
    pb_nested(&kind, 1, &tensor);
    pb_text(&info, 1, name);
    pb_nested(&info, 2, &kind);
    pb_nested(g, number, &info);
}

static inline void graph_input(struct pb_message *g, const char *name, int rank,
                               const int64_t *dim)
{
    graph_info(g, 11, name, ONNX_FLOAT, rank, dim);
}

static inline void graph_output(struct pb_message *g, const char *name)
{
    graph_info(g, 12, name, ONNX_FLOAT, 0, NULL);
}

/* TensorProto with raw_data. */
static inline struct pb_message tensor_raw(const char *name, int type, int rank,
                                           const int64_t *dim, const void *data,
                                           size_t bytes)
{
    struct pb_message t = {0};
    int i;

    for (i = 0; i < rank; i++)
        pb_int(&t, 1, dim[i]);
    pb_int(&t, 2, type);
    pb_text(&t, 8, name);
    pb_bytes(&t, 9, data, bytes);
    return t;
}

static inline size_t count_of(int rank, const int64_t *dim)
{
    size_t n = 1;
    int i;

    for (i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    return n;
}

/* Initializers. */
static inline void graph_floats(struct pb_message *g, const char *name,
                                int rank, const int64_t *dim, const float *data)
{
    struct pb_message t = tensor_raw(name, ONNX_FLOAT, rank, dim, data,
                                     count_of(rank, dim) * sizeof(*data));

    pb_nested(g, 5, &t);
}

static inline void graph_ints(struct pb_message *g, const char *name, int rank,
                              const int64_t *dim, const int64_t *data)
{
    struct pb_message t = tensor_raw(name, ONNX_INT64, rank, dim, data,
                                     count_of(rank, dim) * sizeof(*data));

    pb_nested(g, 5, &t);
}

/* ---- nodes --------------------------------------------------------- */

/* Words of a list "a b c" as strings; "-" is an empty one. */
static inline void node_names(struct pb_message *n, unsigned number,
                              const char *list)
{
    while (*list) {
        size_t length = strcspn(list, " ");

        if (length == 1 && *list == '-')
            pb_bytes(n, number, "", 0);
        else
            pb_bytes(n, number, list, length);
        list += length + (list[length] == ' ');
    }
}

/* Attributes to be put into a node. */
static inline void attr_int(struct pb_message *n, const char *name, int64_t v)
{
    struct pb_message a = {0};

    pb_text(&a, 1, name);
    pb_int(&a, 3, v);
    pb_int(&a, 20, ONNX_ATTR_INT);
    pb_nested(n, 5, &a);
}

static inline void attr_float(struct pb_message *n, const char *name, float v)
{
    struct pb_message a = {0};

    pb_text(&a, 1, name);
    pb_float(&a, 2, v);
    pb_int(&a, 20, ONNX_ATTR_FLOAT);
    pb_nested(n, 5, &a);
}

static inline void attr_text(struct pb_message *n, const char *name,
                             const char *v)
{
    struct pb_message a = {0};

    pb_text(&a, 1, name);
    pb_text(&a, 4, v);
    pb_int(&a, 20, ONNX_ATTR_STRING);
    pb_nested(n, 5, &a);
}

static inline void attr_ints(struct pb_message *n, const char *name, int count,
                             const int64_t *v)
{
    struct pb_message a = {0};
    int i;

    pb_text(&a, 1, name);
    for (i = 0; i < count; i++)
        pb_int(&a, 8, v[i]);
    pb_int(&a, 20, ONNX_ATTR_INTS);
    pb_nested(n, 5, &a);
}

static inline void attr_floats(struct pb_message *n, const char *name,
                               int count, const float *v)
{
    struct pb_message a = {0};
    int i;

    pb_text(&a, 1, name);
    for (i = 0; i < count; i++)
        pb_float(&a, 7, v[i]);
    pb_int(&a, 20, ONNX_ATTR_FLOATS);
    pb_nested(n, 5, &a);
}

/* Takes the tensor's message over. */
static inline void attr_tensor(struct pb_message *n, const char *name,
                               struct pb_message tensor)
{
    struct pb_message a = {0};

    pb_text(&a, 1, name);
    pb_nested(&a, 5, &tensor);
    pb_int(&a, 20, ONNX_ATTR_TENSOR);
    pb_nested(n, 5, &a);
}

/* Takes attr over; it may be NULL. */
static inline void graph_node(struct pb_message *g, const char *op,
                              const char *in, const char *out,
                              struct pb_message *attr)
{
    struct pb_message n = {0};

    node_names(&n, 1, in);
    node_names(&n, 2, out);
    pb_text(&n, 4, op);
    if (attr) {
        pb_raw(&n, attr->data, attr->size);
        pb_free(attr);
    }
    pb_nested(g, 1, &n);
}

/* ---- models -------------------------------------------------------- */

/* Takes the graph over. */
static inline struct pb_message model_of(struct pb_message *g, int opset)
{
    struct pb_message m = {0}, version = {0};

    pb_int(&m, 1, 8);
    pb_int(&version, 2, opset);
    pb_nested(&m, 8, &version);
    pb_nested(&m, 7, g);
    return m;
}

static inline int read_at(const char *path, const struct pb_message *m,
                          const struct weights_options *options,
                          struct infer_error *err, struct graph **out)
{
    struct weights_options defaults;
    struct weights_import imported;
    struct weights_file file;
    unsigned char *copy = malloc(m->size + 1);
    int status;

    assert_non_null(copy);
    if (m->size)
        memcpy(copy, m->data, m->size);
    file.path = path;
    file.blob = blob_new(copy, m->size);
    assert_non_null(file.blob);
    if (!options) {
        weights_options_init(&defaults);
        options = &defaults;
    }
    weights_import_init(&imported);
    memset(err, 0, sizeof(*err));
    memory_faults_on();
    status = weights_format_onnx.read(&file, options, err, &imported);
    memory_faults_off();
    *out = imported.graph;
    imported.graph = NULL;
    weights_import_clear(&imported);
    blob_unref(file.blob);
    if (status < 0) {
        assert_null(*out);
        if (status != INFER_EMEMORY) /* which may follow another refusal */
            assert_int_equal(err->code, status);
        assert_true(err->text[0] != 0);
    }
    return status;
}

/* Reads a model that must be fine, and releases the message. */
static inline struct graph *must_read(struct pb_message m)
{
    struct infer_error err;
    struct graph *g;

    if (read_at(NULL, &m, NULL, &err, &g) < 0)
        fail_msg("%s", err.text);
    if (graph_infer_shapes(g, NULL, &err) < 0)
        fail_msg("%s", err.text);
    if (graph_validate(g, &err) < 0)
        fail_msg("%s", err.text);
    pb_free(&m);
    return g;
}

/* Reads a model that must be refused with this code and these words. */
static inline void must_refuse(struct pb_message m, int code, const char *words)
{
    struct infer_error err;
    struct graph *g;
    int status = read_at(NULL, &m, NULL, &err, &g);

    graph_free(g);
    pb_free(&m);
    if (status != code)
        fail_msg("status %d, expected %d (%s): %s", status, code, words,
                 status < 0 ? err.text : "accepted");
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

/* The only node of an operation. */
static inline const struct graph_node *the_node(const struct graph *g,
                                                enum graph_op op)
{
    const struct graph_node *found = NULL;
    int i;

    for (i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == op) {
            assert_null(found);
            found = &g->node[i];
        }
    assert_non_null(found);
    return found;
}

/* Shape of output `index`. */
static inline void assert_output(const struct graph *g, int index, int rank,
                                 const int64_t *dim)
{
    const struct graph_value *v = &g->value[g->output[index]];
    int i;

    assert_int_equal(v->rank, rank);
    for (i = 0; i < rank; i++)
        assert_int_equal(v->dim[i], dim[i]);
}

/* x of this shape -> op -> y. */
static inline struct pb_message one_node(const char *op, const char *in,
                                         int rank, const int64_t *dim,
                                         struct pb_message *attr)
{
    struct pb_message g = EMPTY;

    graph_input(&g, "x", rank, dim);
    graph_output(&g, "y");
    graph_node(&g, op, in, "y", attr);
    return g;
}

static inline struct graph *read_one(const char *op, int opset, int rank,
                                     const int64_t *dim,
                                     struct pb_message *attr)
{
    struct pb_message g = one_node(op, "x", rank, dim, attr);

    return must_read(model_of(&g, opset));
}

/* The constant that the only node of an operation takes second. */
static inline const struct constant *weight_of(const struct graph *g,
                                               enum graph_op op)
{
    const struct constant *c = g->value[the_node(g, op)->in[1]].data;

    assert_non_null(c);
    return c;
}

/* Runs a network of one input and one output on the reference backend. */
static inline int run_reference(struct graph *g, int rank, const int64_t *dim,
                                const float *x, float *y, size_t room)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct infer_error err;
    struct infer_array in = {.dtype = INFER_F32, .rank = rank};
    struct infer_array out = {.data = y, .bytes = room};

    memcpy(in.dim, dim, (size_t)rank * sizeof(*dim));
    in.data = (void *)(uintptr_t)x;
    in.bytes = count_of(rank, dim) * sizeof(*x);
    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    if (model_from_graph(g, &err, &model) < 0 ||
        infer_session_create(model, &options, &err, &session) < 0 ||
        infer_session_run(session, &in, 1, &out, 1, &err) < 0)
        fail_msg("%s", err.text);
    infer_session_close(&session);
    infer_model_close(&model);
    return out.rank;
}

/* Runs a model of input x and output y, which must give these n values. */
static inline void must_compute(struct pb_message *m, int opset, int rank,
                                const int64_t *dim, const float *x,
                                const float *want, size_t n)
{
    float y[64] = {0};

    assert_true(n <= COUNT(y));
    run_reference(must_read(model_of(m, opset)), rank, dim, x, y, sizeof y);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(y[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))) &&
            !(isinf(want[i]) && y[i] == want[i]) &&
            !(isnan(want[i]) && isnan(y[i])))
            fail_msg("element %zu is %g, expected %g", i, (double)y[i],
                     (double)want[i]);
}

/* A TensorProto w of four elements of this type, without them. */
static inline struct pb_message tensor_head(int type)
{
    struct pb_message t = EMPTY;

    pb_int(&t, 1, 4);
    pb_int(&t, 2, type);
    pb_text(&t, 8, "w");
    return t;
}

/* The graph adds -1.5, -0.5, 0.5, 1.5 of this type; takes it over. */
static inline void assert_weight(struct graph *g, enum infer_dtype dtype)
{
    const struct constant *c = weight_of(g, GRAPH_BINARY);
    int i;

    assert_int_equal(c->dtype, dtype);
    for (i = 0; i < 4; i++)
        assert_true(scalar_load(dtype, c->data, i) == (double)i - 1.5);
    graph_free(g);
}

#endif
