/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of nodes (AttrValue), as the importer of ONNX keeps them. */
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* Fields of AttrValue, and of its ListValue. */
enum { LIST = 1, TEXT = 2, INT = 3, FLOAT = 4, BOOL = 5, TYPE = 6 };
enum { SHAPE = 7, TENSOR = 8 };

static float float_of_bits(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float f;

    memcpy(&f, &low, sizeof f);
    return f;
}

/* ---- lists --------------------------------------------------------- */

static int count_list(const struct tf_graph *g, struct pb_span list,
                      size_t *ints, size_t *floats, struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, list);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        size_t n = 0;

        if (f.number == INT || f.number == BOOL) {
            rc = pb_count(&r, &f, PB_VARINT, "integers", err, &n);
            *ints += n;
        } else if (f.number == FLOAT) {
            rc = pb_count(&r, &f, PB_FIXED32, "floats", err, &n);
            *floats += n;
        }
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && (*ints > ONNX_MAX_ITEMS || *floats > ONNX_MAX_ITEMS))
        rc = error_set(err, INFER_EUNSUPPORTED,
                       "a list of more than %d entries", ONNX_MAX_ITEMS);
    return rc;
}

static int read_list(struct onnx_import *im, const struct tf_graph *g,
                     struct pb_span list, struct onnx_attr *a,
                     struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, list);
    size_t ints = 0, floats = 0, i = 0, k = 0;
    struct pb_field f;
    int rc = count_list(g, list, &ints, &floats, err);

    if (rc < 0)
        return rc;
    a->ints = onnx_alloc(&im->scratch, ints * sizeof *a->ints);
    a->floats = onnx_alloc(&im->scratch, floats * sizeof *a->floats);
    if (!a->ints || !a->floats)
        return error_set(err, INFER_EMEMORY, "out of memory");
    while ((rc = pb_next(&r, &f, err)) > 0) {
        size_t at = 0;
        uint64_t bits;

        if (f.number == INT || f.number == BOOL)
            while (pb_item(&f, PB_VARINT, &at, &bits))
                a->ints[i++] = (int64_t)bits;
        else if (f.number == FLOAT)
            while (pb_item(&f, PB_FIXED32, &at, &bits))
                a->floats[k++] = float_of_bits(bits);
    }
    a->type = floats ? ONNX_ATTR_FLOATS : ONNX_ATTR_INTS;
    a->count = floats ? floats : ints;
    return rc;
}

/* ---- one attribute ------------------------------------------------- */

static int read_value(struct onnx_import *im, const struct tf_graph *g,
                      struct pb_span value, struct onnx_attr *a,
                      struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, value);
    struct pb_field f;
    int rc;

    while ((rc = pb_next(&r, &f, err)) > 0) {
        const bool number =
            f.number == INT || f.number == BOOL || f.number == TYPE;
        const enum pb_wire wire = number              ? PB_VARINT
                                  : f.number == FLOAT ? PB_FIXED32
                                                      : PB_BYTES;

        if (f.number > 10)
            continue;
        if (pb_expect(&r, &f, wire, "an attribute", err) < 0)
            return INFER_EFORMAT;
        a->s = f.span;
        a->type = ONNX_ATTR_OTHER;
        if (number) {
            a->type = ONNX_ATTR_INT;
            a->i = (int64_t)f.value;
            /* Types of inputs say what is known already. */
            a->used = f.number == TYPE;
        } else if (f.number == FLOAT) {
            a->type = ONNX_ATTR_FLOAT;
            a->f = float_of_bits(f.value);
        } else if (f.number == TEXT) {
            a->type = ONNX_ATTR_STRING;
        } else if (f.number == TENSOR) {
            a->type = ONNX_ATTR_TENSOR;
        } else if (f.number == LIST) {
            rc = read_list(im, g, f.span, a, err);
            if (rc < 0)
                return rc;
        }
    }
    return rc;
}

/* Attributes that say nothing about the result. */
static bool is_hint(const char *name)
{
    static const char *const names[] = {"use_cudnn_on_gpu",
                                        "N",
                                        "validate_indices",
                                        "output_shapes",
                                        "half_to_float",
                                        "exponential_avg_factor",
                                        "use_inter_op_parallelism",
                                        "grad_x",
                                        "grad_y",
                                        "grad_a",
                                        "grad_b"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return *name == '_';
}

/* An entry of the map NodeDef.attr. */
static int read_entry(struct onnx_import *im, const struct tf_graph *g,
                      const struct pb_reader *outer,
                      const struct pb_field *field, struct onnx_attr *a,
                      struct infer_error *err)
{
    struct pb_span key = {NULL, 0}, value = {NULL, 0};
    struct pb_reader r;
    struct pb_field f;
    int rc = pb_enter(outer, field, err, &r);

    while (rc >= 0 && (rc = pb_next(&r, &f, err)) > 0) {
        if (f.number != 1 && f.number != 2)
            continue;
        rc = pb_expect(&r, &f, PB_BYTES, "an attribute", err);
        if (f.number == 1)
            key = f.span;
        else
            value = f.span;
    }
    if (rc == 0)
        rc = onnx_string(&im->scratch, key, "attribute name", err, &a->name);
    if (rc == 0)
        rc = read_value(im, g, value, a, err);
    if (rc == 0 && is_hint(a->name))
        a->used = true;
    return rc;
}

static int read_attributes(struct onnx_import *im, const struct tf_graph *g,
                           struct pb_span message, struct onnx_node *out,
                           struct infer_error *err)
{
    struct pb_reader r = tf_reader(g, message);
    struct pb_field f;
    int rc, n = 0;

    while ((rc = pb_next(&r, &f, err)) > 0)
        n += f.number == 5;
    if (rc == 0 && n > ONNX_MAX_ATTRS)
        rc = error_set(err, INFER_EFORMAT, "more than %d attributes",
                       ONNX_MAX_ATTRS);
    if (rc < 0)
        return rc;
    out->attr = onnx_alloc(&im->scratch, (size_t)n * sizeof *out->attr);
    if (!out->attr)
        return error_set(err, INFER_EMEMORY, "out of memory");
    r = tf_reader(g, message);
    while ((rc = pb_next(&r, &f, err)) > 0) {
        if (f.number != 5)
            continue;
        rc = read_entry(im, g, &r, &f, &out->attr[out->n_attr], err);
        if (rc < 0)
            return rc;
        out->n_attr++;
    }
    return rc;
}

/* ---- a node -------------------------------------------------------- */

static int parse(struct onnx_import *im, int node, struct onnx_node *out,
                 struct infer_error *err)
{
    struct tf_import *tf = im->context;
    struct tf_graph *g = &tf->graph;
    const struct tf_node *n = &g->node[node];
    int rc;

    memset(out, 0, sizeof *out);
    out->domain = (char *)"";
    out->name = out->op = (char *)"";
    if ((rc = onnx_string(&im->scratch, n->name, "node name", err,
                          &out->name)) < 0 ||
        (rc = onnx_string(&im->scratch, n->op, "operator", err, &out->op)) < 0)
        return rc;
    if (n->n_in > GRAPH_MAX_INPUTS)
        return error_set(err, INFER_EFORMAT, "more than %d inputs",
                         GRAPH_MAX_INPUTS);
    out->in = onnx_alloc(&im->scratch, (size_t)n->n_in * sizeof *out->in);
    out->out = onnx_alloc(&im->scratch, sizeof *out->out);
    if (!out->in || !out->out)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (; out->n_in < n->n_in; out->n_in++) {
        struct tf_edge e;

        rc = tf_input(g, node, out->n_in, err, &e);
        if (rc < 0)
            return rc;
        out->in[out->n_in] = tf_value_name(im, e);
        if (out->in[out->n_in].bytes == 0)
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    out->out[out->n_out++] = tf_value_name(im, (struct tf_edge){node, 0});
    if (out->out[0].bytes == 0)
        return error_set(err, INFER_EMEMORY, "out of memory");
    return read_attributes(im, g, n->message, out, err);
}

int tf_node_parse(struct onnx_import *im, int node, struct onnx_node *out)
{
    if (im->rc == 0)
        im->rc = parse(im, node, out, im->err);
    return im->rc;
}

int tf_attr_int(const struct tf_graph *g, int node, const char *name,
                int64_t *out, bool *found, struct infer_error *err)
{
    struct pb_span value;
    struct pb_reader r;
    struct pb_field f;
    int rc = tf_attr_span(g, node, name, err, &value);

    *found = false;
    if (rc < 0)
        return rc;
    r = tf_reader(g, value);
    while ((rc = pb_next(&r, &f, err)) > 0)
        if (f.wire == PB_VARINT &&
            (f.number == INT || f.number == BOOL || f.number == TYPE)) {
            *out = (int64_t)f.value;
            *found = true;
        }
    return rc;
}

int tf_attr_text(const struct tf_graph *g, int node, const char *name,
                 struct pb_span *out, struct infer_error *err)
{
    struct pb_span value;
    struct pb_reader r;
    struct pb_field f;
    int rc = tf_attr_span(g, node, name, err, &value);

    *out = (struct pb_span){NULL, 0};
    if (rc < 0)
        return rc;
    r = tf_reader(g, value);
    while ((rc = pb_next(&r, &f, err)) > 0)
        if (f.wire == PB_BYTES && f.number == TEXT)
            *out = f.span;
    return rc;
}

bool tf_attr_all_one(const struct tf_graph *g, int node, const char *name)
{
    struct pb_span value;
    struct pb_reader r, list;
    struct pb_field f, item;
    bool one = true;

    if (tf_attr_span(g, node, name, NULL, &value) < 0)
        return false;
    r = tf_reader(g, value);
    while (one && pb_next(&r, &f, NULL) > 0) {
        if (f.number != 1 || f.wire != PB_BYTES)
            continue;
        list = tf_reader(g, f.span);
        while (one && pb_next(&list, &item, NULL) > 0) {
            uint64_t bits;
            size_t at = 0;

            while (item.number == 3 && pb_item(&item, PB_VARINT, &at, &bits))
                one = one && bits == 1;
        }
    }
    return one;
}
