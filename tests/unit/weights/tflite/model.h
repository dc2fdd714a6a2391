/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite files written by hand, for the tests of the reader. */
#ifndef TESTS_UNIT_WEIGHTS_TFLITE_MODEL_H
#define TESTS_UNIT_WEIGHTS_TFLITE_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/model/model.h"
#include "tests/unit/test.h"
#include "tests/unit/weights/importer/memory_faults.h"
#include "weights/tflite/tflite.h"

extern const struct weights_format weights_format_tflite;

/* ---- FlatBuffers --------------------------------------------------- */

/* Bytes of the largest file. */
#ifndef FLAT_BYTES
#define FLAT_BYTES (1 << 17)
#endif

struct flat {
    unsigned char data[FLAT_BYTES];
    size_t bytes;
};

/* A field of a table: its number, its size, and its value; an offset has size
 * 4 and is filled by flat_link(). */
struct flat_field {
    int id, size;
    uint64_t value;
};

static inline void flat_put(struct flat *f, size_t at, uint64_t v, int size)
{
    assert_true(at + (size_t)size <= sizeof f->data);
    for (int i = 0; i < size; i++)
        f->data[at + (size_t)i] = (unsigned char)(v >> 8 * i);
    if (at + (size_t)size > f->bytes)
        f->bytes = at + (size_t)size;
}

static inline void flat_align(struct flat *f, size_t to)
{
    while (f->bytes % to)
        f->bytes++;
}

/* A table and its vtable before it; returns its place. */
static inline size_t flat_table(struct flat *f, const struct flat_field *field,
                                int n)
{
    int fields = 0, used = 4;
    size_t vtable, at;

    for (int i = 0; i < n; i++)
        if (field[i].id >= fields)
            fields = field[i].id + 1;
    flat_align(f, 8);
    vtable = f->bytes;
    flat_put(f, vtable, (uint64_t)(4 + 2 * fields), 2);
    for (int i = 0; i < fields; i++)
        flat_put(f, vtable + 4 + 2 * (size_t)i, 0, 2);
    flat_align(f, 8);
    at = f->bytes;
    flat_put(f, at, at - vtable, 4);
    for (int i = 0; i < n; i++) {
        while (used % field[i].size)
            used++;
        flat_put(f, vtable + 4 + 2 * (size_t)field[i].id, (uint64_t)used, 2);
        flat_put(f, at + (size_t)used, field[i].value, field[i].size);
        used += field[i].size;
    }
    flat_put(f, vtable + 2, (uint64_t)used, 2);
    return at;
}

/* Where a field of a table lies. */
static inline size_t flat_field_at(const struct flat *f, size_t table, int id)
{
    const struct fb file = {f->data, f->bytes, false, 0};
    const size_t vtable = table - (f->data[table] | f->data[table + 1] << 8);

    (void)file;
    return table + f->data[vtable + 4 + 2 * (size_t)id] +
           256u * f->data[vtable + 5 + 2 * (size_t)id];
}

static inline void flat_link(struct flat *f, size_t from, size_t to)
{
    flat_put(f, from, to - from, 4);
}

/* A vector of n elements; returns its place. */
static inline size_t flat_vector(struct flat *f, const void *data, size_t n,
                                 size_t size)
{
    size_t at;

    flat_align(f, 16);
    f->bytes += 12; /* so that the elements are aligned */
    at = f->bytes;
    flat_put(f, at, n, 4);
    assert_true(at + 4 + n * size <= sizeof f->data);
    if (n > 0)
        memcpy(f->data + at + 4, data, n * size);
    f->bytes = at + 4 + n * size;
    return at;
}

/* ---- networks ------------------------------------------------------ */

#define MODEL_TENSORS 24
#define MODEL_OPS     12

/* A matrix whose first level is dense and whose second one is sparse. */
struct model_sparse {
    int order[2], size[2];
    int32_t segments[8], indices[8];
    int n_segments, n_indices;
};

struct model_tensor {
    const char *name;
    int type, rank;
    int64_t dim[8];
    const void *data; /* NULL: computed */
    size_t bytes;
    int n_scales, axis;
    float scale[16];
    int64_t zero;
    bool open_batch, variable;
    const struct model_sparse *sparse;
};

struct model_op {
    int code, in[24], n_in, out[8], n_out;
    struct flat_field option[10];
    int n_options;
    /* One option may be a list of int32. */
    int list_id;
    int32_t list[8];
    int n_list;
    const char *custom;
};

struct model {
    struct model_tensor tensor[MODEL_TENSORS];
    int n_tensors;
    struct model_op op[MODEL_OPS];
    int n_ops;
    int input[24], n_inputs, output[8], n_outputs;
    const struct model *inner[2]; /* networks 1 and 2: of a loop */
    /* A FlatBuffer of metadata, or NULL. */
    const unsigned char *metadata;
    size_t metadata_bytes;
};

static inline int model_add(struct model *m, const char *name, int type,
                            int rank, const int64_t *dim, const void *data)
{
    static const int sizes[] = {4, 2, 4,  1, 8, 0, 1, 2, 8,
                                1, 8, 16, 8, 0, 0, 4, 2};
    struct model_tensor *t = &m->tensor[m->n_tensors];

    assert_true(m->n_tensors < MODEL_TENSORS);
    *t = (struct model_tensor){
        .name = name, .type = type, .rank = rank, .data = data};
    t->bytes = (size_t)sizes[type];
    for (int i = 0; i < rank; i++) {
        t->dim[i] = dim[i];
        t->bytes *= (size_t)dim[i];
    }
    return m->n_tensors++;
}

static inline int model_float(struct model *m, const char *name, int rank,
                              const int64_t *dim, const float *data)
{
    return model_add(m, name, TFLITE_FLOAT32, rank, dim, data);
}

static inline int model_ints(struct model *m, const char *name, int rank,
                             const int64_t *dim, const int32_t *data)
{
    return model_add(m, name, TFLITE_INT32, rank, dim, data);
}

static inline int model_quantised(struct model *m, const char *name, int type,
                                  int rank, const int64_t *dim,
                                  const void *data, float scale, int64_t zero)
{
    const int t = model_add(m, name, type, rank, dim, data);

    m->tensor[t].n_scales = 1;
    m->tensor[t].scale[0] = scale;
    m->tensor[t].zero = zero;
    return t;
}

static inline struct model_op *model_op(struct model *m, int code,
                                        const int *in, int n_in, int out)
{
    struct model_op *o = &m->op[m->n_ops++];

    assert_true(m->n_ops <= MODEL_OPS);
    *o = (struct model_op){.code = code, .n_in = n_in, .n_out = 1};
    memcpy(o->in, in, (size_t)n_in * sizeof *in);
    o->out[0] = out;
    return o;
}

static inline void model_option(struct model_op *o, int id, int size,
                                uint64_t value)
{
    o->option[o->n_options++] = (struct flat_field){id, size, value};
}

static inline uint64_t float_bits(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Padding (0 same, 1 valid), strides and the fused activation. */
static inline void model_window(struct model_op *o, int padding, int stride,
                                int act_id, int act)
{
    model_option(o, 0, 1, (uint64_t)padding);
    model_option(o, 1, 4, (uint64_t)stride);
    model_option(o, 2, 4, (uint64_t)stride);
    model_option(o, act_id, 1, (uint64_t)act);
}

static inline void model_io(struct model *m, int in, int out)
{
    m->input[m->n_inputs++] = in;
    m->output[m->n_outputs++] = out;
}

/* ---- writing ------------------------------------------------------- */

static inline void write_ints(struct flat *f, size_t table, int id,
                              const int *v, int n)
{
    int32_t list[24];

    for (int i = 0; i < n; i++)
        list[i] = v[i];
    flat_link(f, flat_field_at(f, table, id),
              flat_vector(f, list, (size_t)n, 4));
}

/* A table that holds a list of int32. */
static inline size_t write_list(struct flat *f, const int32_t *v, int n)
{
    static const struct flat_field field[] = {{0, 4, 0}};
    const size_t at = flat_table(f, field, 1);

    flat_link(f, flat_field_at(f, at, 0), flat_vector(f, v, (size_t)n, 4));
    return at;
}

static inline size_t write_sparsity(struct flat *f,
                                    const struct model_sparse *s)
{
    static const struct flat_field fields[] = {{0, 4, 0}, {1, 4, 0}, {2, 4, 0}};
    const struct flat_field dense[] = {{0, 1, 0}, {1, 4, (uint64_t)s->size[0]}};
    const struct flat_field sparse[] = {{0, 1, 1}, {1, 4, (uint64_t)s->size[1]},
                                        {2, 1, 1}, {3, 4, 0},
                                        {4, 1, 1}, {5, 4, 0}};
    static const unsigned char none[8];
    const size_t at = flat_table(f, fields, 3);
    size_t list, level;

    write_ints(f, at, 0, s->order, 2);
    write_ints(f, at, 1, NULL, 0);
    list = flat_vector(f, none, 2, 4);
    flat_link(f, flat_field_at(f, at, 2), list);
    flat_link(f, list + 4, flat_table(f, dense, 2));
    level = flat_table(f, sparse, 6);
    flat_link(f, list + 8, level);
    flat_link(f, flat_field_at(f, level, 3),
              write_list(f, s->segments, s->n_segments));
    flat_link(f, flat_field_at(f, level, 5),
              write_list(f, s->indices, s->n_indices));
    return at;
}

static inline size_t write_tensor(struct flat *f, const struct model_tensor *t,
                                  int buffer)
{
    const struct flat_field fields[] = {{0, 4, 0},
                                        {1, 1, (uint64_t)t->type},
                                        {2, 4, (uint64_t)buffer},
                                        {3, 4, 0},
                                        {4, 4, 0},
                                        {7, 4, 0},
                                        {5, 1, t->variable},
                                        {6, 4, 0}};
    const struct flat_field quant[] = {
        {2, 4, 0}, {3, 4, 0}, {6, 4, (uint64_t)t->axis}};
    const size_t at = flat_table(f, fields, t->sparse ? 8 : 7);
    int shape[8];
    size_t q;

    for (int i = 0; i < t->rank; i++)
        shape[i] = (int)t->dim[i];
    write_ints(f, at, 0, shape, t->rank);
    if (t->open_batch)
        shape[0] = -1;
    write_ints(f, at, 7, shape, t->rank);
    flat_link(f, flat_field_at(f, at, 3),
              flat_vector(f, t->name, strlen(t->name), 1));
    f->data[f->bytes++] = 0;
    q = flat_table(f, quant, 3);
    flat_link(f, flat_field_at(f, at, 4), q);
    flat_link(f, flat_field_at(f, q, 2),
              flat_vector(f, t->scale, (size_t)t->n_scales, 4));
    flat_link(f, flat_field_at(f, q, 3),
              flat_vector(f, &t->zero, t->n_scales == 1 ? 1 : 0, 8));
    if (t->sparse)
        flat_link(f, flat_field_at(f, at, 6), write_sparsity(f, t->sparse));
    return at;
}

static inline size_t write_op(struct flat *f, const struct model_op *o,
                              int code)
{
    struct flat_field option[10];
    const struct flat_field fields[] = {
        {0, 4, (uint64_t)code}, {1, 4, 0}, {2, 4, 0}, {3, 1, 1}, {4, 4, 0}};
    const size_t at = flat_table(f, fields, 5);
    size_t options;

    memcpy(option, o->option, sizeof option);
    options = flat_table(f, option, o->n_options);
    flat_link(f, flat_field_at(f, at, 4), options);
    if (o->n_list > 0)
        flat_link(f, flat_field_at(f, options, o->list_id),
                  flat_vector(f, o->list, (size_t)o->n_list, 4));
    write_ints(f, at, 1, o->in, o->n_in);
    write_ints(f, at, 2, o->out, o->n_out);
    return at;
}

/* A vector of n offsets, to be filled in. */
static inline size_t write_offsets(struct flat *f, size_t table, int id, int n)
{
    static const unsigned char none[4 * 64];
    const size_t at = flat_vector(f, none, (size_t)n, 4);

    flat_link(f, flat_field_at(f, table, id), at);
    return at + 4;
}

/* The operator codes of one network from number `first` on. */
static inline void write_codes(struct flat *f, const struct model *m,
                               size_t list, int first)
{
    for (int i = 0; i < m->n_ops; i++) {
        const int old = m->op[i].code < 127 ? m->op[i].code : 127;
        const struct flat_field code[] = {
            {0, 1, (uint64_t)old}, {1, 4, 0}, {3, 4, (uint64_t)m->op[i].code}};
        const char *custom = m->op[i].custom ? m->op[i].custom : "";
        const size_t at = flat_table(f, code, 3);

        flat_link(f, list + 4 * (size_t)(first + i), at);
        flat_link(f, flat_field_at(f, at, 1),
                  flat_vector(f, custom, strlen(custom), 1));
    }
}

/* One network, whose operators and buffers have numbers from these on. */
static inline size_t write_network(struct flat *f, const struct model *m,
                                   int op, int buffer)
{
    static const struct flat_field network[] = {
        {0, 4, 0}, {1, 4, 0}, {2, 4, 0}, {3, 4, 0}};
    const size_t graph = flat_table(f, network, 4);
    size_t list = write_offsets(f, graph, 0, m->n_tensors);

    for (int i = 0; i < m->n_tensors; i++)
        flat_link(f, list + 4 * (size_t)i,
                  write_tensor(f, &m->tensor[i], buffer + i));
    write_ints(f, graph, 1, m->input, m->n_inputs);
    write_ints(f, graph, 2, m->output, m->n_outputs);
    list = write_offsets(f, graph, 3, m->n_ops);
    for (int i = 0; i < m->n_ops; i++)
        flat_link(f, list + 4 * (size_t)i, write_op(f, &m->op[i], op + i));
    return graph;
}

static inline void write_buffer(struct flat *f, size_t from, const void *data,
                                size_t bytes)
{
    static const struct flat_field buffer[] = {{0, 4, 0}};
    const size_t at = flat_table(f, buffer, 1);

    flat_link(f, from, at);
    flat_link(f, flat_field_at(f, at, 0),
              data ? flat_vector(f, data, bytes, 1)
                   : flat_vector(f, NULL, 0, 1));
}

/* The entry that names the buffer of the metadata. */
static inline void write_metadata(struct flat *f, size_t model, int buffer)
{
    static const char name[] = "TFLITE_METADATA";
    const struct flat_field entry[] = {{0, 4, 0}, {1, 4, (uint64_t)buffer}};
    const size_t list = write_offsets(f, model, 6, 1);
    const size_t at = flat_table(f, entry, 2);

    flat_link(f, list, at);
    flat_link(f, flat_field_at(f, at, 0),
              flat_vector(f, name, sizeof name - 1, 1));
}

static inline void model_write(const struct model *m, struct flat *f)
{
    static const struct flat_field root[] = {
        {0, 4, 3}, {1, 4, 0}, {2, 4, 0}, {4, 4, 0}, {6, 4, 0}};
    const struct model *all[3] = {m, m->inner[0], m->inner[1]};
    int ops = 0, tensors = 1, n = 0;
    size_t model, list;

    memset(f->data, 0, f->bytes);
    f->bytes = 0;
    flat_put(f, 4, 0x334c4654, 4); /* "TFL3" */
    model = flat_table(f, root, m->metadata ? 5 : 4);
    flat_link(f, 0, model);
    for (; n < 3 && all[n]; n++)
        ops += all[n]->n_ops;
    list = write_offsets(f, model, 1, ops);
    for (int i = 0, at = 0; i < n; at += all[i++]->n_ops)
        write_codes(f, all[i], list, at);
    list = write_offsets(f, model, 2, n);
    for (int i = 0, at = 0; i < n; i++) {
        flat_link(f, list + 4 * (size_t)i,
                  write_network(f, all[i], at, tensors));
        at += all[i]->n_ops;
        tensors += all[i]->n_tensors;
    }
    list = write_offsets(f, model, 4, tensors + (m->metadata != NULL));
    write_buffer(f, list, NULL, 0);
    for (int i = 0, at = 1; i < n; at += all[i++]->n_tensors)
        for (int k = 0; k < all[i]->n_tensors; k++)
            write_buffer(f, list + 4 * (size_t)(at + k), all[i]->tensor[k].data,
                         all[i]->tensor[k].bytes);
    if (m->metadata) {
        write_buffer(f, list + 4 * (size_t)tensors, m->metadata,
                     m->metadata_bytes);
        write_metadata(f, model, tensors);
    }
}

/* ---- reading and running ------------------------------------------- */

static inline int read_bytes(const void *data, size_t bytes,
                             const struct weights_options *options,
                             struct infer_error *err, struct graph **out)
{
    unsigned char *copy = malloc(bytes ? bytes : 1);
    struct weights_file file = {"test", NULL};
    struct weights_options defaults;
    struct weights_import import;
    int rc;

    assert_non_null(copy);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    file.blob = blob_new(copy, bytes);
    assert_non_null(file.blob);
    weights_options_init(&defaults);
    weights_import_init(&import);
    memory_faults_on();
    rc = weights_format_tflite.read(&file, options ? options : &defaults, err,
                                    &import);
    memory_faults_off();
    *out = import.graph;
    import.graph = NULL;
    weights_import_clear(&import);
    weights_file_close(&file);
    return rc;
}

static inline struct graph *must_read(const struct model *m)
{
    static struct flat f;
    struct infer_error err = {0};
    struct graph *g = NULL;

    model_write(m, &f);
    if (read_bytes(f.data, f.bytes, NULL, &err, &g) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(graph_infer_shapes(g, NULL, &err), 0);
    if (graph_validate(g, &err) < 0)
        fail_msg("%s", err.text);
    return g;
}

static inline void must_refuse(const struct model *m, int code,
                               const char *words)
{
    static struct flat f;
    struct infer_error err = {0};
    struct graph *g = NULL;
    int rc;

    model_write(m, &f);
    rc = read_bytes(f.data, f.bytes, NULL, &err, &g);
    graph_free(g);
    if (rc >= 0)
        fail_msg("read, but '%s' was expected", words);
    if (rc != code || !strstr(err.text, words))
        fail_msg("%d and '%s' were expected in %d: %s", code, words, rc,
                 err.text);
}

/* Runs a graph on the reference backend, which takes it over: on n_in inputs of
 * one shape; the elements of the first n_out outputs as floats, n each. */
static inline void run_inputs(struct graph *g, const float *const *x, int n_in,
                              int rank, const int64_t *dim, float *const *y,
                              int n_out, size_t n)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct infer_array in[4] = {{0}}, out[4] = {{0}};
    struct infer_error err = {0};
    int rc = model_from_graph(g, &err, &model);

    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    options.threads = 1;
    if (rc == 0)
        rc = infer_session_create(model, &options, &err, &session);
    for (int k = 0; k < n_in; k++) {
        in[k].dtype = INFER_F32;
        in[k].rank = rank;
        in[k].bytes = sizeof **x;
        for (int i = 0; i < rank; i++) {
            in[k].dim[i] = dim[i];
            in[k].bytes *= (size_t)dim[i];
        }
        in[k].data = (void *)(uintptr_t)x[k];
    }
    if (rc == 0)
        rc = infer_session_run(session, in, n_in, out,
                               infer_model_output_count(model), &err);
    for (int k = 0; k < n_out && rc == 0; k++) {
        if (out[k].dtype != INFER_F32 || out[k].bytes != n * sizeof **y)
            fail_msg("%zu bytes of %s, %zu floats are due", out[k].bytes,
                     infer_dtype_name(out[k].dtype), n);
        out[k].data = y[k];
    }
    if (rc == 0)
        rc = infer_session_run(session, in, n_in, out, n_out, &err);
    if (rc != 0)
        fail_msg("%s", err.text);
    infer_session_close(&session);
    infer_model_close(&model);
}

/* The same of one input and the first output. */
static inline void run_model(struct graph *g, const float *x, int rank,
                             const int64_t *dim, float *y, size_t n)
{
    run_inputs(g, &x, 1, rank, dim, &y, 1, n);
}

static inline int count_op(const struct graph *g, enum graph_op op)
{
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        n += g->node[i].op == op;
    return n;
}

/* Numbers that repeat, without a generator of the C library. */
static inline uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline void fill(float *v, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(draw(&seed) % 2001) / 1000.0f - 1.0f;
}

#endif
