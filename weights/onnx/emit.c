/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of the current ONNX node, and the graph nodes made from it. */
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"

/* ---- attributes ---------------------------------------------------- */

struct onnx_attr *onnx_attr(const struct onnx_import *im, const char *name)
{
    int i;

    for (i = 0; i < im->node->n_attr; i++)
        if (strcmp(im->node->attr[i].name, name) == 0) {
            im->node->attr[i].used = true;
            return &im->node->attr[i];
        }
    return NULL;
}

bool onnx_has_attr(const struct onnx_import *im, const char *name)
{
    return onnx_attr(im, name) != NULL;
}

void onnx_ignore(struct onnx_import *im, const char *name)
{
    onnx_attr(im, name);
}

/* NULL where the attribute is absent, or of another type: an error. */
static struct onnx_attr *typed_attr(struct onnx_import *im, const char *name,
                                    int type)
{
    struct onnx_attr *a = im->rc < 0 ? NULL : onnx_attr(im, name);

    if (!a || a->type == type)
        return a;
    onnx_fail(im, INFER_EFORMAT, "attribute '%s' has type %d, expected %d",
              name, a->type, type);
    return NULL;
}

int onnx_int(struct onnx_import *im, const char *name, int64_t min, int64_t max,
             int64_t *out)
{
    const struct onnx_attr *a = typed_attr(im, name, ONNX_ATTR_INT);

    if (!a)
        return im->rc;
    if (a->i < min || a->i > max)
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute '%s' is %lld, must be %lld to %lld", name,
                         (long long)a->i, (long long)min, (long long)max);
    *out = a->i;
    return 0;
}

int onnx_axis(struct onnx_import *im, int otherwise)
{
    int64_t axis = otherwise;

    onnx_int(im, "axis", -INFER_MAX_RANK, INFER_MAX_RANK, &axis);
    return (int)axis;
}

int onnx_flag(struct onnx_import *im, const char *name, bool *out)
{
    int64_t value = *out;

    onnx_int(im, name, 0, 1, &value);
    *out = value != 0;
    return im->rc;
}

int onnx_float(struct onnx_import *im, const char *name, float *out)
{
    const struct onnx_attr *a = typed_attr(im, name, ONNX_ATTR_FLOAT);

    if (!a)
        return im->rc;
    if (!isfinite(a->f))
        return onnx_fail(im, INFER_EFORMAT, "attribute '%s' is %g", name,
                         (double)a->f);
    *out = a->f;
    return 0;
}

int onnx_ints(struct onnx_import *im, const char *name, int max, int64_t *out,
              int *n)
{
    const struct onnx_attr *a = typed_attr(im, name, ONNX_ATTR_INTS);

    if (!a)
        return im->rc;
    if (a->count > (size_t)max)
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute '%s' has %zu entries, at most %d are read",
                         name, a->count, max);
    if (a->count)
        memcpy(out, a->ints, a->count * sizeof(*out));
    *n = (int)a->count;
    return 0;
}

int onnx_word(struct onnx_import *im, const char *name,
              const char *const *words, int *out)
{
    const struct onnx_attr *a = typed_attr(im, name, ONNX_ATTR_STRING);
    int i;

    if (!a)
        return im->rc;
    for (i = 0; words[i]; i++)
        if (pb_span_is(a->s, words[i])) {
            *out = i;
            return 0;
        }
    return onnx_fail(im, INFER_EUNSUPPORTED, "attribute '%s' is '%.*s'", name,
                     PB_TEXT(a->s, 64));
}

/* ---- nodes --------------------------------------------------------- */

void onnx_defaults(enum graph_op op, union graph_attr *attr)
{
    *attr = graph_op_info(op)->defaults;
}

/* A value that a graph node will produce: output `out` of the ONNX node, or a
 * step on the way. */
static int new_value(struct onnx_import *im, int out, int *value)
{
    bool named = out >= 0 && onnx_has_output(im, out);
    char *name = NULL;
    int v;

    if (named && onnx_name(im, im->node->out[out], &name) < 0)
        return im->rc;
    v = graph_add_value(im->g, name);
    if (v == INFER_EARGUMENT)
        return onnx_fail(im, INFER_EFORMAT, "two tensors are named '%s'", name);
    if (v < 0)
        return im->rc = graph_no_room(im->g, im->err);
    *value = v;
    if (!named || onnx_value_get(im, im->node->out[out], &v) < 0)
        return im->rc;
    im->value[v].graph = *value;
    im->value[v].state = ONNX_GRAPH;
    return 0;
}

/* Shape rule of a graph node at one probe. */
static int infer_at(struct onnx_import *im, int node, int probe,
                    struct graph_type *in, struct constant **data,
                    struct graph_type *out)
{
    const struct graph_node *n = &im->g->node[node];
    struct graph_shape_args args;
    int i;

    memset(&args, 0, sizeof(args));
    for (i = 0; i < n->n_in; i++) {
        memset(&in[i], 0, sizeof(in[i]));
        data[i] = NULL;
        if (n->in[i] < 0)
            continue;
        in[i] = im->type[n->in[i]][probe];
        data[i] = im->g->value[n->in[i]].data;
    }
    args.node = n;
    args.attr = &n->attr;
    args.n_in = n->n_in;
    args.n_out = n->n_out;
    args.in = in;
    args.data = data;
    args.out = out;
    for (i = 0; i < n->n_out; i++) {
        memset(&out[i], 0, sizeof(out[i]));
        out[i].rank = -1;
    }
    return im->rc = graph_op_info(n->op)->infer_shape(&args, im->err);
}

/* A shape that a network could really have: known, and of a size that fits. */
static int check_type(struct onnx_import *im, const struct graph_type *t)
{
    int64_t count;

    if (!op_is_possible(t) || !checked_count(t->rank, t->dim, &count) ||
        count > (int64_t)1 << 40)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "an output of unknown or impossible size");
    return 0;
}

static int infer_types(struct onnx_import *im, int node)
{
    int n_in = im->g->node[node].n_in, n_out = im->g->node[node].n_out;
    struct graph_type *in, *out, type[ONNX_PROBES];
    struct constant **data;
    int p, i;

    in = onnx_alloc(&im->scratch, (size_t)n_in * sizeof(*in));
    data = onnx_alloc(&im->scratch, (size_t)n_in * sizeof(struct constant *));
    out = onnx_alloc(&im->scratch, (size_t)n_out * ONNX_PROBES * sizeof(*out));
    if (!in || !out || !data)
        return onnx_no_memory(im);
    for (p = 0; p < im->probes && im->rc == 0; p++) {
        infer_at(im, node, p, in, data, out + p * n_out);
        for (i = 0; i < n_out && im->rc == 0; i++)
            check_type(im, &out[p * n_out + i]);
    }
    for (i = 0; i < n_out && im->rc == 0; i++) {
        for (p = 0; p < im->probes; p++)
            type[p] = out[p * n_out + i];
        onnx_value_type(im, im->g->node[node].out[i], type);
    }
    return onnx_keep_batch(im, node);
}

/* Name of a graph node: that of the ONNX node, or of its first output where it
 * has none; steps on the way get the graph's fresh names. */
static int add_node(struct onnx_import *im, enum graph_op op, const int *in,
                    int n_in, const int *out, int n_out)
{
    char *name = im->node->name;
    int node;

    if (im->emitted++ > 0)
        name = NULL;
    else if (!*name && onnx_has_output(im, 0) &&
             onnx_name(im, im->node->out[0], &name) < 0)
        return im->rc;
    if (name && !*name)
        name = NULL;
    node = graph_add_node(im->g, op, name, in, n_in, out, n_out);
    if (node == INFER_EARGUMENT && name) /* ONNX lets names repeat */
        node = graph_add_node(im->g, op, NULL, in, n_in, out, n_out);
    if (node == INFER_EMEMORY)
        return im->rc = graph_no_room(im->g, im->err);
    if (node < 0)
        return onnx_fail(im, node, "the graph cannot take the node");
    return node;
}

static int emit(struct onnx_import *im, enum graph_op op,
                const union graph_attr *attr, const int *in, int n_in,
                const int *out, int n_out)
{
    int node = add_node(im, op, in, n_in, out, n_out);

    if (node < 0)
        return node;
    if (attr)
        im->g->node[node].attr = *attr;
    return infer_types(im, node);
}

int onnx_emit(struct onnx_import *im, enum graph_op op,
              const union graph_attr *attr, const int *in, int n_in, int out,
              int *value)
{
    int v = -1;

    if (im->rc == 0 && new_value(im, out, &v) == 0)
        emit(im, op, attr, in, n_in, &v, 1);
    if (value)
        *value = im->rc < 0 ? -1 : v;
    return im->rc;
}

int onnx_emit_node(struct onnx_import *im, enum graph_op op,
                   const union graph_attr *attr, int n)
{
    int in[5], i;

    assert(n <= 5);
    for (i = 0; i < n; i++)
        onnx_input(im, i, &in[i]);
    while (n > 0 && in[n - 1] < 0)
        n--;
    return onnx_emit(im, op, attr, in, n, 0, NULL);
}

int onnx_emit_all(struct onnx_import *im, enum graph_op op,
                  const union graph_attr *attr, const int *in, int n_in)
{
    int i, n = im->node->n_out;
    int *out = onnx_alloc(&im->scratch, (size_t)n * sizeof(*out));

    if (!out)
        return onnx_no_memory(im);
    for (i = 0; i < n && im->rc == 0; i++)
        new_value(im, i, &out[i]);
    return im->rc < 0 ? im->rc : emit(im, op, attr, in, n_in, out, n);
}

int onnx_emit_unary(struct onnx_import *im, enum kern_unary_kind kind, float a,
                    float b, int in, int out, int *value)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_UNARY, &attr);
    attr.unary.kind = kind;
    attr.unary.a = a;
    attr.unary.b = b;
    return onnx_emit(im, GRAPH_UNARY, &attr, &in, 1, out, value);
}

int onnx_emit_binary(struct onnx_import *im, enum kern_binary_kind kind, int a,
                     int b, int out, int *value)
{
    union graph_attr attr;
    int in[2];

    onnx_defaults(GRAPH_BINARY, &attr);
    attr.binary.kind = kind;
    in[0] = a;
    in[1] = b;
    return onnx_emit(im, GRAPH_BINARY, &attr, in, 2, out, value);
}

int onnx_emit_cast(struct onnx_import *im, enum infer_dtype to, int in, int out,
                   int *value)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_CAST, &attr);
    attr.cast.to = to;
    return onnx_emit(im, GRAPH_CAST, &attr, &in, 1, out, value);
}

int onnx_emit_dims(struct onnx_import *im, enum graph_op op, int in, int n,
                   const int64_t *dim, int out, int *value)
{
    union graph_attr attr;

    onnx_defaults(op, &attr);
    attr.dims.n = n;
    memcpy(attr.dims.dim, dim, (size_t)n * sizeof(*dim));
    return onnx_emit(im, op, &attr, &in, 1, out, value);
}
