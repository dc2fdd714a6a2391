/* SPDX-License-Identifier: Apache-2.0 */
/* The outer messages of an ONNX file: model, graph, value infos. */
#include "weights/onnx/proto.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"

/* Protobuf itself stops here. */
#define ONNX_MAX_FILE INT32_MAX

/* ---- memory -------------------------------------------------------- */

#define BLOCK_BYTES ((size_t)64 << 10)

struct onnx_block {
    struct onnx_block *next;
    size_t used, bytes;
    _Alignas(max_align_t) unsigned char data[];
};

void *onnx_alloc(struct onnx_arena *arena, size_t bytes)
{
    struct onnx_block *b = arena->block;
    size_t need, size;
    void *p;

    if (!checked_add(bytes, sizeof(max_align_t) - 1, &need))
        return NULL;
    need -= need % sizeof(max_align_t);
    if (!b || b->bytes - b->used < need) {
        size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        if (!checked_add(size, sizeof(*b), &size))
            return NULL;
        if (arena->limit && (arena->bytes > arena->limit ||
                             size > arena->limit - arena->bytes)) {
            arena->full = true;
            return NULL;
        }
        b = calloc(1, size);
        if (!b)
            return NULL;
        arena->bytes += size;
        b->bytes = size - sizeof(*b);
        b->next = arena->block;
        arena->block = b;
    }
    p = b->data + b->used;
    b->used += need;
    return p;
}

void onnx_arena_clear(struct onnx_arena *arena)
{
    while (arena->block) {
        struct onnx_block *next = arena->block->next;

        free(arena->block);
        arena->block = next;
    }
    arena->bytes = 0;
}

void onnx_arena_reset(struct onnx_arena *arena)
{
    struct onnx_block *last = arena->block;

    if (!last || last->bytes > BLOCK_BYTES) {
        onnx_arena_clear(arena);
        return;
    }
    arena->block = last->next;
    onnx_arena_clear(arena);
    memset(last->data, 0, last->used);
    last->used = 0;
    last->next = NULL;
    arena->block = last;
    arena->bytes = last->bytes + sizeof *last;
}

/* ---- strings ------------------------------------------------------- */

int onnx_string(struct onnx_arena *arena, struct pb_span span, const char *what,
                struct infer_error *err, char **out)
{
    size_t at, n;
    uint32_t code;
    char *s;

    if (span.bytes > ONNX_MAX_NAME)
        return error_set(err, INFER_EFORMAT,
                         "%s of %zu bytes ('%.32s...'), at most %d are read",
                         what, span.bytes, (const char *)span.data,
                         ONNX_MAX_NAME);
    for (at = 0; at < span.bytes; at += n) {
        n = text_utf8(span.data + at, span.bytes - at, &code);
        if (n == 0 || span.data[at] == 0)
            return error_set(err, INFER_EFORMAT,
                             "%s '%.*s' is not UTF-8 without NUL", what,
                             (int)(at < 64 ? at : 64), (char *)span.data);
    }
    s = onnx_alloc(arena, span.bytes + 1);
    if (!s)
        return error_set(err, INFER_EMEMORY, "out of memory");
    if (span.bytes)
        memcpy(s, span.data, span.bytes);
    *out = s;
    return 0;
}

/* ---- lists --------------------------------------------------------- */

int onnx_list_add(struct onnx_list *list, struct pb_span span, size_t limit,
                  const char *what, struct infer_error *err)
{
    if (list->count >= limit)
        return error_set(err, INFER_EFORMAT, "more than %zu %s", limit, what);
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        struct pb_span *item =
            realloc(list->item, capacity * sizeof(*list->item));

        if (!item)
            return error_set(err, INFER_EMEMORY, "out of memory");
        list->item = item;
        list->capacity = capacity;
    }
    list->item[list->count++] = span;
    return 0;
}

struct pb_reader onnx_reader(const struct onnx_model *m, struct pb_span span)
{
    struct pb_reader r;

    pb_open(&r, m->blob->data, m->blob->bytes);
    /* An empty span may have no place. */
    if (span.data)
        r.at = span.data;
    r.end = r.at + span.bytes;
    return r;
}

/* ---- graph --------------------------------------------------------- */

/* The graph that a message is read into. */
struct graph_reader {
    const struct onnx_model *m;
    struct onnx_graph *g;
};

static int add_initializer(struct graph_reader *to, struct pb_span span,
                           struct infer_error *err)
{
    struct pb_span name;
    int rc = onnx_tensor_name(to->m, span, err, &name);

    if (rc == 0)
        rc = onnx_list_add(&to->g->initializer, span, ONNX_MAX_TENSORS,
                           "initializers", err);
    if (rc == 0)
        rc = onnx_list_add(&to->g->initializer_name, name, ONNX_MAX_TENSORS,
                           "initializers", err);
    return rc;
}

static int add_sparse(struct graph_reader *to, struct pb_span span,
                      struct infer_error *err)
{
    struct pb_span name;
    int rc = onnx_sparse_name(to->m, span, err, &name);

    if (rc == 0)
        rc = onnx_list_add(&to->g->sparse, span, ONNX_MAX_TENSORS,
                           "initializers", err);
    if (rc == 0)
        rc = onnx_list_add(&to->g->sparse_name, name, ONNX_MAX_TENSORS,
                           "initializers", err);
    return rc;
}

static int graph_field(void *user, const struct pb_reader *r,
                       const struct pb_field *f, struct infer_error *err)
{
    struct graph_reader *to = user;
    struct onnx_graph *g = to->g;

    switch (f->number) {
    case 1:
    case 2:
    case 5:
    case 11:
    case 12:
    case 15:
        if (pb_expect(r, f, PB_BYTES, "a part of the graph", err) < 0)
            return INFER_EFORMAT;
        break;
    default:
        return 0; /* documentation, intermediate shapes, annotations */
    }
    if (f->number == 1)
        return onnx_list_add(&g->node, f->span, ONNX_MAX_NODES, "nodes", err);
    if (f->number == 5)
        return add_initializer(to, f->span, err);
    if (f->number == 15)
        return add_sparse(to, f->span, err);
    if (f->number == 11)
        return onnx_list_add(&g->input, f->span, ONNX_MAX_TENSORS,
                             "graph inputs", err);
    if (f->number == 12)
        return onnx_list_add(&g->output, f->span, ONNX_MAX_OUTPUTS,
                             "graph outputs", err);
    g->name = f->span;
    return 0;
}

static void clear_graph(struct onnx_graph *g)
{
    free(g->node.item);
    free(g->initializer.item);
    free(g->initializer_name.item);
    free(g->sparse.item);
    free(g->sparse_name.item);
    free(g->input.item);
    free(g->output.item);
}

/* ---- graphs in attributes ------------------------------------------ */

struct onnx_body {
    unsigned char *key; /* where the message lies */
    struct onnx_graph *graph;
};

static struct onnx_body *body_slot(struct onnx_body *table, size_t slots,
                                   const unsigned char *key)
{
    size_t i = (size_t)((uintptr_t)key * 0x9e3779b97f4a7c15u) & (slots - 1);

    while (table[i].key && table[i].key != key)
        i = (i + 1) & (slots - 1);
    return &table[i];
}

/* Keeps the table at most half full. */
static bool grow_bodies(struct onnx_model *m)
{
    size_t slots = m->body_slots ? m->body_slots * 2 : 16;
    struct onnx_body *table;

    if (m->body_count * 2 < m->body_slots)
        return true;
    table = calloc(slots, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < m->body_slots; i++)
        if (m->body[i].key)
            *body_slot(table, slots, m->body[i].key) = m->body[i];
    free(m->body);
    m->body = table;
    m->body_slots = slots;
    return true;
}

int onnx_model_body(struct onnx_model *m, struct pb_span span,
                    struct infer_error *err, const struct onnx_graph **out)
{
    struct graph_reader to = {.m = m};
    struct pb_reader r = onnx_reader(m, span);
    struct onnx_body *slot;
    int rc;

    if (!grow_bodies(m))
        return error_set(err, INFER_EMEMORY, "out of memory");
    slot = body_slot(m->body, m->body_slots, span.data);
    if (!slot->key) {
        to.g = calloc(1, sizeof *to.g);
        if (!to.g)
            return error_set(err, INFER_EMEMORY, "out of memory");
        rc = pb_each(&r, graph_field, &to, err);
        if (rc < 0) {
            clear_graph(to.g);
            free(to.g);
            return rc;
        }
        slot->key = span.data;
        slot->graph = to.g;
        m->body_count++;
    }
    *out = slot->graph;
    return 0;
}

/* ---- functions ----------------------------------------------------- */

/* OperatorSetIdProto. */
struct opset {
    struct pb_span domain;
    int64_t version;
};

static int opset_field(void *user, const struct pb_reader *r,
                       const struct pb_field *f, struct infer_error *err)
{
    struct opset *o = user;
    int rc = 0;

    if (f->number == 1) {
        rc = pb_expect(r, f, PB_BYTES, "a domain", err);
        o->domain = f->span;
    } else if (f->number == 2) {
        rc = pb_expect(r, f, PB_VARINT, "an opset version", err);
        o->version = (int64_t)f->value;
    }
    return rc;
}

static int function_opset(struct onnx_function *fn, const struct pb_reader *r,
                          const struct pb_field *f, struct infer_error *err)
{
    struct opset o = {{NULL, 0}, 0};
    int rc = pb_each_in(r, f, opset_field, &o, err);

    if (rc == 0 && (o.domain.bytes == 0 || pb_span_is(o.domain, "ai.onnx"))) {
        if (o.version < 1)
            return error_set(err, INFER_EFORMAT, "opset version %lld",
                             (long long)o.version);
        fn->opset = o.version;
    }
    return rc;
}

static int function_field(void *user, const struct pb_reader *r,
                          const struct pb_field *f, struct infer_error *err)
{
    struct onnx_function *fn = user;
    struct onnx_graph *g = &fn->graph;

    if ((f->number == 1 || f->number == 4 || f->number == 5 || f->number == 7 ||
         f->number == 10 || f->number == 11 || f->number == 13) &&
        pb_expect(r, f, PB_BYTES, "a part of a function", err) < 0)
        return INFER_EFORMAT;
    if (f->number == 1)
        g->name = f->span;
    else if (f->number == 10)
        fn->domain = f->span;
    else if (f->number == 13)
        fn->overload = f->span;
    else if (f->number == 4)
        return onnx_list_add(&g->input, f->span, GRAPH_MAX_INPUTS,
                             "inputs of a function", err);
    else if (f->number == 5)
        return onnx_list_add(&g->output, f->span, GRAPH_MAX_INPUTS,
                             "outputs of a function", err);
    else if (f->number == 7)
        return onnx_list_add(&g->node, f->span, ONNX_MAX_NODES, "nodes", err);
    else if (f->number == 9)
        return function_opset(fn, r, f, err);
    else if (f->number == 11)
        return onnx_list_add(&fn->attr, f->span, ONNX_MAX_ATTRS,
                             "attributes of a function", err);
    return 0;
}

static int add_function(struct onnx_model *m, const struct pb_reader *r,
                        const struct pb_field *f, struct infer_error *err)
{
    struct onnx_function *grown;

    if (m->functions == ONNX_MAX_FUNCTIONS)
        return error_set(err, INFER_EUNSUPPORTED,
                         "the model defines more than %d functions",
                         ONNX_MAX_FUNCTIONS);
    grown = realloc(m->function, (m->functions + 1) * sizeof *grown);
    if (!grown)
        return error_set(err, INFER_EMEMORY, "out of memory");
    m->function = grown;
    memset(&grown[m->functions], 0, sizeof *grown);
    return pb_each_in(r, f, function_field, &grown[m->functions++], err);
}

/* ---- model --------------------------------------------------------- */

/* Other domains matter only where a node uses them. */
static int read_opset(struct onnx_model *m, const struct pb_reader *outer,
                      const struct pb_field *field, struct infer_error *err)
{
    struct opset o = {{NULL, 0}, 0};
    int rc = pb_each_in(outer, field, opset_field, &o, err);

    if (rc < 0)
        return rc;
    if (o.domain.bytes != 0 && !pb_span_is(o.domain, "ai.onnx"))
        return 0;
    if (m->opset != 0 && m->opset != o.version)
        return error_set(err, INFER_EFORMAT,
                         "two versions of the default opset: %lld and %lld",
                         (long long)m->opset, (long long)o.version);
    if (o.version < 1)
        return error_set(err, INFER_EFORMAT, "opset version %lld",
                         (long long)o.version);
    m->opset = o.version;
    return 0;
}

static int model_field(void *user, const struct pb_reader *r,
                       const struct pb_field *f, struct infer_error *err)
{
    struct onnx_model *m = user;

    switch (f->number) {
    case 1:
        if (pb_expect(r, f, PB_VARINT, "ir_version", err) < 0)
            return INFER_EFORMAT;
        m->ir_version = (int64_t)f->value;
        return 0;
    case 2:
    case 3:
        if (pb_expect(r, f, PB_BYTES, "the producer", err) < 0)
            return INFER_EFORMAT;
        if (f->number == 2)
            m->producer = f->span;
        else
            m->producer_version = f->span;
        return 0;
    case 7:
        m->has_graph = true; /* a second one adds, as protobuf merges them */
        return pb_each_in(r, f, graph_field,
                          &(struct graph_reader){m, &m->graph}, err);
    case 8:
        return read_opset(m, r, f, err);
    case 14:
        return onnx_metadata_read(m, r, f, err);
    case 20:
        return error_set(err, INFER_EUNSUPPORTED,
                         "the model holds training graphs (training_info)");
    case 25:
        return add_function(m, r, f, err);
    default:
        return 0;
    }
}

int onnx_model_open(struct blob *blob, const char *path,
                    struct infer_error *err, struct onnx_model *out)
{
    struct pb_reader r;
    int rc;

    memset(out, 0, sizeof(*out));
    if (blob->bytes > ONNX_MAX_FILE)
        return error_set(err, INFER_EFORMAT,
                         "%zu bytes; a protobuf message ends at 2 GiB",
                         blob->bytes);
    out->path = path;
    out->blob = blob_ref(blob);
    pb_open(&r, blob->data, blob->bytes);
    rc = pb_each(&r, model_field, out, err);
    if (rc == 0 && !out->has_graph)
        rc = error_set(err, INFER_EFORMAT, "the model has no graph");
    if (rc < 0)
        onnx_model_close(out);
    return rc;
}

void onnx_model_close(struct onnx_model *m)
{
    for (size_t i = 0; i < m->body_slots; i++)
        if (m->body[i].key) {
            clear_graph(m->body[i].graph);
            free(m->body[i].graph);
        }
    for (size_t i = 0; i < m->functions; i++) {
        clear_graph(&m->function[i].graph);
        free(m->function[i].attr.item);
    }
    free(m->body);
    free(m->function);
    clear_graph(&m->graph);
    onnx_tensors_clear(m);
    weights_external_clear(&m->external);
    blob_unref(m->blob);
    memset(m, 0, sizeof(*m));
}

/* ---- value infos --------------------------------------------------- */

struct dim {
    int64_t *size;
    struct pb_span *symbol;
};

static int dim_field(void *user, const struct pb_reader *r,
                     const struct pb_field *f, struct infer_error *err)
{
    const struct dim *dim = user;

    if (f->number == 2) {
        *dim->symbol = f->span;
        return pb_expect(r, f, PB_BYTES, "a dimension's name", err);
    }
    if (f->number != 1)
        return 0;
    *dim->size = (int64_t)f->value;
    return pb_expect(r, f, PB_VARINT, "a dimension", err);
}

static int shape_field(void *user, const struct pb_reader *r,
                       const struct pb_field *f, struct infer_error *err)
{
    struct onnx_value_info *out = user;
    struct dim dim;

    if (f->number != 1)
        return 0;
    if (out->rank == INFER_MAX_RANK)
        return error_set(err, INFER_EUNSUPPORTED, "more than %d dimensions",
                         INFER_MAX_RANK);
    dim.size = &out->dim[out->rank];
    dim.symbol = &out->symbol[out->rank++];
    *dim.size = -1;
    return pb_each_in(r, f, dim_field, &dim, err);
}

static int tensor_type_field(void *user, const struct pb_reader *r,
                             const struct pb_field *f, struct infer_error *err)
{
    struct onnx_value_info *out = user;

    if (f->number == 1) {
        out->elem_type = (int64_t)f->value;
        return pb_expect(r, f, PB_VARINT, "an element type", err);
    }
    if (f->number != 2)
        return 0;
    out->rank = 0;
    return pb_each_in(r, f, shape_field, out, err);
}

static int type_field(void *user, const struct pb_reader *r,
                      const struct pb_field *f, struct infer_error *err)
{
    struct onnx_value_info *out = user;

    if (f->number != 1)
        return 0; /* sequences, maps, optionals: not a tensor */
    out->is_tensor = true;
    return pb_each_in(r, f, tensor_type_field, out, err);
}

static int value_info_field(void *user, const struct pb_reader *r,
                            const struct pb_field *f, struct infer_error *err)
{
    struct onnx_value_info *out = user;

    if (f->number == 1) {
        out->name = f->span;
        return pb_expect(r, f, PB_BYTES, "a name", err);
    }
    return f->number == 2 ? pb_each_in(r, f, type_field, out, err) : 0;
}

int onnx_value_info_parse(const struct onnx_model *m, struct pb_span span,
                          struct infer_error *err, struct onnx_value_info *out)
{
    struct pb_reader r = onnx_reader(m, span);

    memset(out, 0, sizeof(*out));
    out->rank = -1;
    return pb_each(&r, value_info_field, out, err);
}
