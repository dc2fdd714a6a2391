/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the machine, and attributes of objects. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/torchscript/script.h"

int ts_fail(struct ts_run *r, int code, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return error_set(r->err, code, "%s:%u: %s",
                     r->file ? r->file->path : "code", r->line, text);
}

int ts_no_memory(struct ts_run *r)
{
    if (r->arena->full)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "the program takes too much memory for its file");
    return error_set(r->err, INFER_EMEMORY, "out of memory");
}

int ts_step(struct ts_run *r, size_t n)
{
    r->steps += n;
    return r->steps > TS_MAX_STEPS
               ? ts_fail(r, INFER_EUNSUPPORTED,
                         "the program takes more than %d steps", TS_MAX_STEPS)
               : 0;
}

int ts_compare(struct ts_run *r, size_t n)
{
    r->compared += n;
    return ts_step(r, r->compared / 64 - (r->compared - n) / 64);
}

int ts_join(struct ts_run *r, struct pb_span a, const char *between,
            struct pb_span b, struct pb_span *out)
{
    const size_t n = a.bytes ? strlen(between) : 0;

    if (a.bytes + b.bytes > ONNX_MAX_NAME)
        return ts_fail(r, INFER_EFORMAT, "a name is too long");
    out->bytes = a.bytes + n + b.bytes;
    out->data = onnx_alloc(r->arena, out->bytes + 1);
    if (!out->data)
        return ts_no_memory(r);
    if (a.bytes)
        memcpy(out->data, a.data, a.bytes);
    memcpy(out->data + a.bytes, between, n);
    if (b.bytes)
        memcpy(out->data + a.bytes + n, b.data, b.bytes);
    return 0;
}

/* ---- lists --------------------------------------------------------- */

int ts_new_list(struct ts_run *r, enum ts_kind kind, int n,
                struct ts_value *out)
{
    struct ts_list *list;

    if (n < 0 || n > TS_MAX_ITEMS)
        return ts_fail(r, INFER_EUNSUPPORTED, "a list of %d items", n);
    if (ts_step(r, (size_t)n) < 0)
        return r->err->code;
    list = onnx_alloc(r->arena, sizeof *list);
    if (list)
        list->item = onnx_alloc(r->arena, (size_t)(n + 1) * sizeof *list->item);
    if (!list || !list->item)
        return ts_no_memory(r);
    list->n = list->capacity = n;
    *out = (struct ts_value){.kind = kind, .list = list};
    return 0;
}

int ts_append(struct ts_run *r, struct ts_list *list,
              const struct ts_value *value)
{
    const int wanted = list->capacity < 8 ? 16 : 2 * list->capacity;
    struct ts_value *larger;

    if (list->n == TS_MAX_ITEMS)
        return ts_fail(r, INFER_EUNSUPPORTED, "a list of more than %d items",
                       TS_MAX_ITEMS);
    if (list->n == list->capacity) {
        if (ts_step(r, (size_t)wanted) < 0)
            return r->err->code;
        larger = onnx_alloc(r->arena, (size_t)wanted * sizeof *larger);
        if (!larger)
            return ts_no_memory(r);
        memcpy(larger, list->item, (size_t)list->n * sizeof *larger);
        list->item = larger;
        list->capacity = wanted;
    }
    list->item[list->n++] = *value;
    return 0;
}

/* ---- equality ------------------------------------------------------ */

static bool same_text(struct pb_span a, struct pb_span b)
{
    return a.bytes == b.bytes &&
           (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static int equal_lists(struct ts_run *r, const struct ts_list *a,
                       const struct ts_list *b, bool *out)
{
    int rc = 0;

    *out = a->n == b->n;
    if (++r->depth > TS_MAX_DEPTH)
        return ts_fail(r, INFER_EUNSUPPORTED, "nested too deep");
    for (int i = 0; i < a->n && *out && rc == 0; i++)
        rc = ts_equal(r, &a->item[i], &b->item[i], out);
    r->depth--;
    return rc;
}

int ts_equal(struct ts_run *r, const struct ts_value *a,
             const struct ts_value *b, bool *out)
{
    struct ts_value pair[2] = {*a, *b}, answer;
    int rc = ts_step(r, 1);

    *out = false;
    if (rc < 0)
        return rc;
    if (ts_is_known(a) && ts_is_known(b)) {
        if (a->assumed || b->assumed)
            return ts_type_unknown(r, a->assumed ? a->text : b->text);
        *out = a->kind == TSV_FLOAT || b->kind == TSV_FLOAT
                   ? !(ts_real(a) < ts_real(b)) && !(ts_real(a) > ts_real(b))
                   : a->i == b->i;
        return 0;
    }
    if ((a->kind == TSV_NUMBER && (ts_is_known(b) || b->kind == TSV_NUMBER)) ||
        (b->kind == TSV_NUMBER && ts_is_known(a))) {
        rc = ts_tell1(r, "eq", 2, pair, &answer);
        return rc < 0 ? rc : ts_truth(r, &answer, NULL, out);
    }
    if (a->kind != b->kind && a->kind != TSV_OTHER && b->kind != TSV_OTHER &&
        !ts_is_value(a) && !ts_is_value(b))
        return 0;
    if (a->kind != b->kind)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "whether two such values are equal is not known");
    if (a->kind == TSV_TEXT || a->kind == TSV_NAMED)
        *out = same_text(a->text, b->text);
    else if (a->kind == TSV_NONE || a->kind == TSV_DEVICE)
        *out = true;
    else if (a->kind == TSV_OBJECT)
        *out = a->object == b->object;
    else if (ts_is_list(a))
        return equal_lists(r, a->list, b->list, out);
    else
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "whether two such values are equal is not known");
    return 0;
}

int ts_dict_find(struct ts_run *r, const struct ts_list *dict,
                 const struct ts_value *key, int *out)
{
    bool same = false;
    int rc = 0;

    *out = -1;
    for (int i = 0; i + 1 < dict->n && rc == 0; i += 2) {
        rc = ts_equal(r, &dict->item[i], key, &same);
        if (rc == 0 && same) {
            *out = i + 1;
            break;
        }
    }
    return rc;
}

/* ---- pickles ------------------------------------------------------- */

static struct pb_span text_of(const struct pickle_node *n)
{
    return (struct pb_span){(unsigned char *)n->u.bytes, n->count};
}

/* A tensor: a constant of the graph, once however often it is read. */
static int take_tensor(struct ts_run *r, int which, uint32_t node,
                       struct pb_span path, struct ts_value *out)
{
    struct pb_span *name = &r->tensor[which][node];
    struct aten_constant *c;

    if (!name->bytes) {
        *name = path;
        c = onnx_alloc(r->arena, sizeof *c);
        if (!c)
            return ts_no_memory(r);
        *c = (struct aten_constant){path,
                                    (size_t)node * TS_PICKLES + (size_t)which};
        if (r->im && aten_add_constant(r->im, c) < 0)
            return r->err->code;
    }
    *out = (struct ts_value){
        .kind = TSV_TENSOR, .text = *name, .node = node + 1, .pickle = which};
    return 0;
}

static int take_object(struct ts_run *r, uint32_t node, struct pb_span path,
                       struct ts_value *out)
{
    const struct pickle *p = &r->archive->pickle[TS_DATA];
    const struct pickle_node *n = pickle_at(p, node), *class;
    const size_t prefix = strlen(PICKLE_SCRIPT);
    struct ts_object *o = r->object[node];

    class = pickle_at(p, n->u.item[PICKLE_OBJECT_CLASS]);
    if (!o) {
        o = r->object[node] = onnx_alloc(r->arena, sizeof *o);
        if (!o)
            return ts_no_memory(r);
        o->class = text_of(class);
        o->path = path;
        o->node = node + 1;
        if (o->class.bytes < prefix ||
            memcmp(o->class.data, PICKLE_SCRIPT, prefix) != 0)
            o->class.bytes = 0;
    }
    *out = (struct ts_value){.kind = TSV_OBJECT, .object = o};
    return 0;
}

static int take_items(struct ts_run *r, int which, const struct pickle_node *n,
                      enum ts_kind kind, struct pb_span path,
                      struct ts_value *out)
{
    char digits[16];
    struct pb_span name = {(unsigned char *)digits, 0};
    int rc =
        ts_new_list(r, kind, n->count > INT32_MAX ? -1 : (int)n->count, out);

    if (rc == 0 && ++r->depth > TS_MAX_DEPTH)
        rc = ts_fail(r, INFER_EFORMAT, "attributes are nested too deep");
    for (uint32_t i = 0; i < n->count && rc == 0; i++) {
        struct pb_span item;

        name.bytes = (size_t)snprintf(digits, sizeof digits, "%u", i);
        rc = ts_join(r, path, ".", name, &item);
        if (rc == 0)
            rc = ts_from_pickle(r, which, n->u.item[i], item,
                                &out->list->item[i]);
    }
    r->depth--;
    return rc;
}

int ts_from_pickle(struct ts_run *r, int which, uint32_t node,
                   struct pb_span path, struct ts_value *out)
{
    const struct pickle_node *n = pickle_at(&r->archive->pickle[which], node);

    *out = (struct ts_value){.kind = TSV_OTHER};
    if (ts_step(r, 1) < 0)
        return r->err->code;
    switch ((enum pickle_kind)n->kind) {
    case PICKLE_NONE:
        *out = ts_none();
        return 0;
    case PICKLE_BOOL:
        *out = ts_bool(n->u.integer != 0);
        return 0;
    case PICKLE_INT:
        *out = ts_int(n->u.integer);
        return 0;
    case PICKLE_FLOAT:
        *out = ts_float(n->u.number);
        return 0;
    case PICKLE_STR:
        *out = (struct ts_value){.kind = TSV_TEXT, .text = text_of(n)};
        return 0;
    case PICKLE_TUPLE:
        return take_items(r, which, n, TSV_TUPLE, path, out);
    case PICKLE_LIST:
        return take_items(r, which, n, TSV_LIST, path, out);
    case PICKLE_DICT:
        return take_items(r, which, n, TSV_DICT, path, out);
    case PICKLE_TENSOR:
        return take_tensor(r, which, node, path, out);
    case PICKLE_OBJECT:
        if (n->count > PICKLE_OBJECT_STATE &&
            pickle_at(&r->archive->pickle[which],
                      n->u.item[PICKLE_OBJECT_STATE])
                    ->kind == PICKLE_TUPLE)
            return ts_from_pickle(r, which, n->u.item[PICKLE_OBJECT_STATE],
                                  path, out);
        if (which == TS_DATA && n->count > PICKLE_OBJECT_CLASS)
            return take_object(r, node, path, out);
        return 0;
    case PICKLE_OPAQUE:
        *out = (struct ts_value){.kind = TSV_DEVICE};
        return 0;
    case PICKLE_BIGINT:
    case PICKLE_BYTES:
    case PICKLE_SET:
    case PICKLE_GLOBAL:
    case PICKLE_CLASS:
    case PICKLE_STORAGE:
    case PICKLE_NUMPY_DTYPE:
    case PICKLE_ARRAY:
        break;
    }
    return 0;
}

int ts_constant(struct ts_run *r, struct pb_span name, struct ts_value *out)
{
    const struct pickle *p = &r->archive->pickle[TS_CONSTANTS];
    const struct pickle_node *root;
    size_t index = 0;

    for (size_t i = 1; i < name.bytes; i++) {
        /* A letter, a digit or '_'. */
        if (name.data[i] > '9' || index > UINT32_MAX)
            return ts_fail(r, INFER_EFORMAT, "no constant is named so");
        index = 10 * index + (size_t)(name.data[i] - '0');
    }
    root = r->archive->there[TS_CONSTANTS] ? pickle_at(p, p->root) : NULL;
    if (!root || (root->kind != PICKLE_TUPLE && root->kind != PICKLE_LIST) ||
        name.bytes < 2 || index >= root->count)
        return ts_fail(r, INFER_EFORMAT, "the archive has no constant '%.*s'",
                       PB_TEXT(name, 64));
    return ts_from_pickle(r, TS_CONSTANTS, root->u.item[index], name, out);
}

/* ---- attributes ---------------------------------------------------- */

/* *out is NULL where there is none. */
static int find_attr(struct ts_run *r, const struct ts_object *o,
                     struct pb_span name, struct ts_attr **out)
{
    struct ts_attr *a = o->attr;
    size_t n = 0;

    for (; a && !same_text(a->name, name); a = a->next)
        n++;
    *out = a;
    return ts_compare(r, n);
}

int ts_set_attr(struct ts_run *r, const struct ts_value *object,
                struct pb_span name, const struct ts_value *value)
{
    struct ts_attr *a;
    int rc;

    if (object->kind != TSV_OBJECT)
        return ts_fail(r, INFER_EFORMAT, "'%.*s' of what has no attributes",
                       PB_TEXT(name, 64));
    rc = find_attr(r, object->object, name, &a);
    if (rc < 0)
        return rc;
    if (!a) {
        a = onnx_alloc(r->arena, sizeof *a);
        if (!a)
            return ts_no_memory(r);
        a->name = name;
        a->next = object->object->attr;
        object->object->attr = a;
    }
    a->value = *value;
    return 0;
}

/* The node of an attribute in data.pkl, or -1. */
static int64_t find_state(struct ts_run *r, const struct ts_object *o,
                          struct pb_span name)
{
    const struct pickle *p = &r->archive->pickle[TS_DATA];
    const struct pickle_node *n, *state;

    if (o->node == 0)
        return -1;
    n = pickle_at(p, o->node - 1);
    if (n->count < PICKLE_OBJECT_ITEMS)
        return -1;
    state = pickle_at(p, n->u.item[PICKLE_OBJECT_STATE]);
    if (state->kind != PICKLE_DICT)
        return -1;
    for (uint32_t i = 0; i + 1 < state->count; i += 2) {
        const struct pickle_node *key = pickle_at(p, state->u.item[i]);

        if (key->kind == PICKLE_STR && same_text(text_of(key), name))
            return ts_compare(r, i / 2) < 0 ? -1
                                            : (int64_t)state->u.item[i + 1];
    }
    ts_compare(r, state->count / 2);
    return -1;
}

/* A constant of the class. */
static int class_constant(struct ts_run *r, const struct ts_object *o,
                          struct pb_span name, struct ts_value *out)
{
    const struct ts_class *c;
    int rc = ts_find_class(r, o->class, &c);
    const struct ts_field *f = rc == 0 && c ? c->field : NULL;
    size_t n = 0;

    for (; f && !(f->value && same_text(f->name, name)); f = f->next)
        n++;
    if (rc == 0)
        rc = ts_compare(r, n);
    if (rc == 0 && f)
        return ts_evaluate(r, NULL, f->value, out);
    if (rc == 0)
        rc = ts_fail(r, INFER_EFORMAT, "'%.*s' has no attribute '%.*s'",
                     PB_TEXT(o->class, 128), PB_TEXT(name, 64));
    return rc;
}

int ts_get_attr(struct ts_run *r, const struct ts_value *object,
                struct pb_span name, struct ts_value *out)
{
    const struct ts_object *o = object->object;
    struct ts_attr *a;
    struct pb_span path;
    int64_t node;
    int rc;

    /* Enumerators are their values. */
    if (pb_span_is(name, "value") &&
        (object->kind == TSV_TEXT || ts_is_known(object))) {
        *out = *object;
        return 0;
    }
    if (object->kind != TSV_OBJECT)
        return ts_fail(r, INFER_EUNSUPPORTED,
                       "'%.*s' of what has no attributes here",
                       PB_TEXT(name, 64));
    rc = find_attr(r, o, name, &a);
    if (rc < 0)
        return rc;
    if (a) {
        *out = a->value;
        return 0;
    }
    /* Networks are read as they are after eval(). */
    if (pb_span_is(name, "training")) {
        *out = ts_bool(false);
        return 0;
    }
    node = find_state(r, o, name);
    if (node < 0 && r->steps > TS_MAX_STEPS)
        return r->err->code;
    if (node < 0)
        return class_constant(r, o, name, out);
    rc = ts_join(r, o->path, ".", name, &path);
    if (rc == 0)
        rc = ts_from_pickle(r, TS_DATA, (uint32_t)node, path, out);
    return rc < 0 ? rc : ts_set_attr(r, object, name, out);
}
