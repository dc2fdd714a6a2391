/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and attributes of an ONNX graph. */
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph.h"
#include "weights/onnx/proto.h"

static int out_of_memory(struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "out of memory");
}

/* ---- attributes ---------------------------------------------------- */

/* What was seen of one attribute, to tell its type where an old file does not
 * state it and to find one that states two. */
struct seen {
    bool has[ONNX_ATTR_SPARSE + 1];
    size_t floats, ints, strings;
};

static enum onnx_attr_type type_of_field(uint32_t number)
{
    switch (number) {
    case 2:
        return ONNX_ATTR_FLOAT;
    case 3:
        return ONNX_ATTR_INT;
    case 4:
        return ONNX_ATTR_STRING;
    case 5:
        return ONNX_ATTR_TENSOR;
    case 6:
        return ONNX_ATTR_GRAPH;
    case 7:
        return ONNX_ATTR_FLOATS;
    case 8:
        return ONNX_ATTR_INTS;
    case 9:
        return ONNX_ATTR_STRINGS;
    case 22:
        return ONNX_ATTR_SPARSE;
    case 10:
    case 11:
    case 14:
    case 15:
    case 23:
        return ONNX_ATTR_OTHER;
    default:
        return ONNX_ATTR_NONE;
    }
}

static float float_of_bits(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;

    memcpy(&f, &low, sizeof(f));
    return f;
}

/* One value field of an attribute; arrays are only counted. */
static int attr_value(const struct pb_reader *r, const struct pb_field *f,
                      struct onnx_attr *a, struct seen *seen,
                      struct infer_error *err)
{
    enum onnx_attr_type type = type_of_field(f->number);
    size_t n = 0;
    int rc = 0;

    if (type == ONNX_ATTR_NONE)
        return 0;
    switch (type) {
    case ONNX_ATTR_FLOAT:
        rc = pb_expect(r, f, PB_FIXED32, "a float", err);
        a->f = float_of_bits(f->value);
        break;
    case ONNX_ATTR_INT:
        rc = pb_expect(r, f, PB_VARINT, "an integer", err);
        a->i = (int64_t)f->value;
        break;
    case ONNX_ATTR_STRING:
    case ONNX_ATTR_TENSOR:
    case ONNX_ATTR_GRAPH:
    case ONNX_ATTR_SPARSE:
        if (type != ONNX_ATTR_STRING && seen->has[type])
            return error_set(err, INFER_EFORMAT, "an attribute holds two %s",
                             type == ONNX_ATTR_GRAPH ? "graphs" : "tensors");
        rc = pb_expect(r, f, PB_BYTES, "an attribute", err);
        a->s = f->span;
        break;
    case ONNX_ATTR_FLOATS:
        rc = pb_count(r, f, PB_FIXED32, "floats", err, &n);
        seen->floats += n;
        break;
    case ONNX_ATTR_INTS:
        rc = pb_count(r, f, PB_VARINT, "integers", err, &n);
        seen->ints += n;
        break;
    case ONNX_ATTR_STRINGS:
        rc = pb_expect(r, f, PB_BYTES, "a string", err);
        seen->strings++;
        break;
    default:
        rc = pb_expect(r, f, PB_BYTES, "an attribute", err);
        break;
    }
    seen->has[type] = true;
    return rc;
}

/* The arrays of an attribute, once their lengths are known. */
static int attr_arrays(const struct onnx_model *m, struct pb_span span,
                       struct onnx_arena *arena, const struct seen *seen,
                       struct onnx_attr *a, struct infer_error *err)
{
    struct pb_reader r = onnx_reader(m, span);
    struct pb_field f;
    size_t floats = 0, ints = 0, strings = 0;
    int rc;

    a->floats = onnx_alloc(arena, seen->floats * sizeof(*a->floats));
    a->ints = onnx_alloc(arena, seen->ints * sizeof(*a->ints));
    a->strings = onnx_alloc(arena, seen->strings * sizeof(*a->strings));
    if (!a->floats || !a->ints || !a->strings)
        return out_of_memory(err);
    while ((rc = pb_next(&r, &f, err)) > 0) {
        size_t at = 0;
        uint64_t bits;

        if (f.number == 7)
            while (pb_item(&f, PB_FIXED32, &at, &bits))
                a->floats[floats++] = float_of_bits(bits);
        else if (f.number == 8)
            while (pb_item(&f, PB_VARINT, &at, &bits))
                a->ints[ints++] = (int64_t)bits;
        else if (f.number == 9 && strings < seen->strings)
            a->strings[strings++] = f.span;
    }
    return rc;
}

/* Fixes the type, and refuses contents of another one. */
static int attr_settle(struct onnx_attr *a, const struct seen *seen,
                       struct infer_error *err)
{
    int t, found = ONNX_ATTR_NONE;

    for (t = ONNX_ATTR_FLOAT; t <= ONNX_ATTR_SPARSE; t++) {
        if (!seen->has[t])
            continue;
        if (found != ONNX_ATTR_NONE)
            return error_set(err, INFER_EFORMAT,
                             "attribute '%s' holds values of two types",
                             a->name);
        found = t;
    }
    if (a->type > ONNX_ATTR_OTHER && a->type != ONNX_ATTR_SPARSE)
        a->type = ONNX_ATTR_OTHER;
    if (a->type == ONNX_ATTR_NONE)
        a->type = found;
    if (found != ONNX_ATTR_NONE && found != a->type)
        return error_set(err, INFER_EFORMAT,
                         "attribute '%s' states type %d but holds type %d",
                         a->name, a->type, found);
    a->count = a->type == ONNX_ATTR_FLOATS ? seen->floats
               : a->type == ONNX_ATTR_INTS ? seen->ints
                                           : seen->strings;
    return 0;
}

static int attr_fields(const struct onnx_model *m, struct pb_span span,
                       struct onnx_arena *arena, struct seen *seen,
                       struct infer_error *err, struct onnx_attr *a)
{
    struct pb_reader r = onnx_reader(m, span);
    struct pb_span name = {NULL, 0};
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1) {
            rc = pb_expect(&r, &f, PB_BYTES, "a name", err);
            name = f.span;
        } else if (f.number == 20) {
            rc = pb_expect(&r, &f, PB_VARINT, "a type", err);
            a->type =
                f.value > ONNX_ATTR_SPARSE ? ONNX_ATTR_OTHER : (int)f.value;
        } else if (f.number == 21) {
            rc = pb_expect(&r, &f, PB_BYTES, "a name", err);
            a->ref = f.span;
        } else {
            rc = attr_value(&r, &f, a, seen, err);
        }
        if (rc < 0)
            return rc;
    }
    if (rc == 0)
        rc = onnx_string(arena, name, "attribute name", err, &a->name);
    return rc;
}

static int attr_parse(const struct onnx_model *m, struct pb_span span,
                      struct onnx_arena *arena, size_t *items,
                      struct infer_error *err, struct onnx_attr *out)
{
    struct seen seen;
    int rc;

    memset(&seen, 0, sizeof(seen));
    rc = attr_fields(m, span, arena, &seen, err, out);
    if (rc < 0)
        return rc;
    *items += seen.floats + seen.ints + seen.strings;
    if (*items > ONNX_MAX_ITEMS)
        return error_set(err, INFER_EUNSUPPORTED,
                         "attribute '%s', or those before it, have more than "
                         "%d entries",
                         out->name, ONNX_MAX_ITEMS);
    rc = attr_arrays(m, span, arena, &seen, out, err);
    if (rc < 0)
        return rc;
    return attr_settle(out, &seen, err);
}

int onnx_attr_parse(const struct onnx_model *m, struct pb_span span,
                    struct onnx_arena *arena, struct infer_error *err,
                    struct onnx_attr *out)
{
    size_t items = 0;

    memset(out, 0, sizeof *out);
    return attr_parse(m, span, arena, &items, err, out);
}

/* ---- nodes --------------------------------------------------------- */

/* Counts repeated fields and keeps the single ones. */
struct node_layout {
    struct pb_span name, op, domain, overload;
    size_t in, out, attr;
};

static int node_layout(const struct onnx_model *m, struct pb_span span,
                       struct infer_error *err, struct node_layout *n)
{
    struct pb_reader r = onnx_reader(m, span);
    struct pb_field f;
    int rc;

    memset(n, 0, sizeof(*n));
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if ((f.number >= 1 && f.number <= 5) || f.number == 7 || f.number == 8)
            rc = pb_expect(&r, &f, PB_BYTES, "a part of a node", err);
        if (rc < 0)
            return rc;
        n->in += f.number == 1;
        n->out += f.number == 2;
        n->attr += f.number == 5;
        if (f.number == 3)
            n->name = f.span;
        else if (f.number == 4)
            n->op = f.span;
        else if (f.number == 7)
            n->domain = f.span;
        else if (f.number == 8)
            n->overload = f.span;
    }
    if (rc == 0 && (n->in > GRAPH_MAX_INPUTS || n->out > GRAPH_MAX_INPUTS))
        return error_set(err, INFER_EFORMAT,
                         "a node has more than %d inputs or outputs",
                         GRAPH_MAX_INPUTS);
    if (rc == 0 && n->attr > ONNX_MAX_ATTRS)
        return error_set(err, INFER_EFORMAT,
                         "a node has more than %d attributes", ONNX_MAX_ATTRS);
    return rc;
}

static int node_lists(const struct onnx_model *m, struct pb_span span,
                      struct onnx_arena *arena, struct infer_error *err,
                      struct onnx_node *out)
{
    struct pb_reader r = onnx_reader(m, span);
    struct pb_field f;
    size_t items = 0;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number == 1)
            out->in[out->n_in++] = f.span;
        else if (f.number == 2)
            out->out[out->n_out++] = f.span;
        else if (f.number == 5)
            rc = attr_parse(m, f.span, arena, &items, err,
                            &out->attr[out->n_attr++]);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int check_duplicates(const struct onnx_node *node,
                            struct infer_error *err)
{
    int i, k;

    for (i = 0; i < node->n_attr; i++)
        for (k = 0; k < i; k++)
            if (strcmp(node->attr[i].name, node->attr[k].name) == 0)
                return error_set(err, INFER_EFORMAT,
                                 "node '%s' (%s): attribute '%s' appears twice",
                                 node->name, node->op, node->attr[i].name);
    return 0;
}

int onnx_node_parse(const struct onnx_model *m, struct pb_span span,
                    struct onnx_arena *arena, struct infer_error *err,
                    struct onnx_node *out)
{
    struct node_layout n;
    int rc;

    memset(out, 0, sizeof(*out));
    rc = node_layout(m, span, err, &n);
    if (rc < 0)
        return rc;
    out->overload = n.overload;
    out->in = onnx_alloc(arena, n.in * sizeof(*out->in));
    out->out = onnx_alloc(arena, n.out * sizeof(*out->out));
    out->attr = onnx_alloc(arena, n.attr * sizeof(*out->attr));
    if (!out->in || !out->out || !out->attr)
        return out_of_memory(err);
    if ((rc = onnx_string(arena, n.name, "node name", err, &out->name)) < 0 ||
        (rc = onnx_string(arena, n.op, "operator", err, &out->op)) < 0 ||
        (rc = onnx_string(arena, n.domain, "domain", err, &out->domain)) < 0)
        return rc;
    rc = node_lists(m, span, arena, err, out);
    if (rc < 0) {
        error_prefix(err, "node '%s' (%s)", out->name, out->op);
        return rc;
    }
    return check_duplicates(out, err);
}
