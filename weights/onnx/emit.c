/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of the current ONNX node, and the graph nodes made from it. */
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

/* *out is NULL where the attribute is absent. */
static int typed_attr(const struct onnx_import *im, const char *name, int type,
                      struct onnx_attr **out, struct infer_error *err)
{
    struct onnx_attr *a = onnx_attr(im, name);

    *out = a;
    if (a && a->type != type)
        return error_set(err, INFER_EFORMAT,
                         "attribute '%s' has type %d, expected %d", name,
                         a->type, type);
    return 0;
}

int onnx_int(struct onnx_import *im, const char *name, int64_t min, int64_t max,
             int64_t *out, struct infer_error *err)
{
    struct onnx_attr *a;
    int rc = typed_attr(im, name, ONNX_ATTR_INT, &a, err);

    if (rc < 0 || !a)
        return rc;
    if (a->i < min || a->i > max)
        return error_set(err, INFER_EFORMAT,
                         "attribute '%s' is %lld, must be %lld to %lld", name,
                         (long long)a->i, (long long)min, (long long)max);
    *out = a->i;
    return 0;
}

int onnx_flag(struct onnx_import *im, const char *name, bool *out,
              struct infer_error *err)
{
    int64_t value = *out;
    int rc = onnx_int(im, name, 0, 1, &value, err);

    *out = value != 0;
    return rc;
}

int onnx_float(struct onnx_import *im, const char *name, float *out,
               struct infer_error *err)
{
    struct onnx_attr *a;
    int rc = typed_attr(im, name, ONNX_ATTR_FLOAT, &a, err);

    if (rc < 0 || !a)
        return rc;
    if (!isfinite(a->f))
        return error_set(err, INFER_EFORMAT, "attribute '%s' is %g", name,
                         (double)a->f);
    *out = a->f;
    return 0;
}

int onnx_ints(struct onnx_import *im, const char *name, int max, int64_t *out,
              int *n, struct infer_error *err)
{
    struct onnx_attr *a;
    int rc = typed_attr(im, name, ONNX_ATTR_INTS, &a, err);

    if (rc < 0 || !a)
        return rc;
    if (a->count > (size_t)max)
        return error_set(err, INFER_EFORMAT,
                         "attribute '%s' has %zu entries, at most %d are read",
                         name, a->count, max);
    if (a->count)
        memcpy(out, a->ints, a->count * sizeof(*out));
    *n = (int)a->count;
    return 0;
}

int onnx_word(struct onnx_import *im, const char *name,
              const char *const *words, int *out, struct infer_error *err)
{
    struct onnx_attr *a;
    int i, rc = typed_attr(im, name, ONNX_ATTR_STRING, &a, err);

    if (rc < 0 || !a)
        return rc;
    for (i = 0; words[i]; i++)
        if (a->s.bytes == strlen(words[i]) &&
            memcmp(a->s.data, words[i], a->s.bytes) == 0) {
            *out = i;
            return 0;
        }
    return error_set(err, INFER_EUNSUPPORTED, "attribute '%s' is '%.*s'", name,
                     (int)(a->s.bytes < 64 ? a->s.bytes : 64),
                     a->s.bytes ? (char *)a->s.data : "");
}

/* ---- nodes --------------------------------------------------------- */

void onnx_defaults(enum graph_op op, union graph_attr *attr)
{
    *attr = graph_op_info(op)->defaults;
}

/* A value that a graph node will produce: output `out` of the ONNX node, or a
 * step on the way. */
static int new_value(struct onnx_import *im, int out, int *value,
                     struct infer_error *err)
{
    bool named = out >= 0 && onnx_has_output(im, out);
    char *name = NULL;
    int v, rc;

    if (named) {
        rc = onnx_string(&im->scratch, im->node->out[out], "tensor name", err,
                         &name);
        if (rc < 0)
            return rc;
    }
    v = graph_add_value(im->g, name);
    if (v == INFER_EARGUMENT)
        return error_set(err, INFER_EFORMAT, "two tensors are named '%s'",
                         name);
    if (v < 0)
        return graph_no_room(im->g, err);
    *value = v;
    if (!named)
        return 0;
    rc = onnx_value_get(im, im->node->out[out], err, &v);
    if (rc < 0)
        return rc;
    im->value[v].graph = *value;
    im->value[v].state = ONNX_GRAPH;
    return 0;
}

/* Shape rule of a graph node at one probe. */
static int infer_at(struct onnx_import *im, int node, int probe,
                    struct graph_type *in, struct constant **data,
                    struct graph_type *out, struct infer_error *err)
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
    return graph_op_info(n->op)->infer_shape(&args, err);
}

/* A shape that a network could really have: known, and of a size that fits. */
static int check_type(const struct graph_type *t, struct infer_error *err)
{
    int64_t count;

    if (t->rank < 0 || t->rank > INFER_MAX_RANK ||
        !checked_count(t->rank, t->dim, &count) || count > (int64_t)1 << 40)
        return error_set(err, INFER_EUNSUPPORTED,
                         "an output of unknown or impossible size");
    return 0;
}

static int infer_types(struct onnx_import *im, int node,
                       struct infer_error *err)
{
    int n_in = im->g->node[node].n_in, n_out = im->g->node[node].n_out;
    struct graph_type *in, *out, type[ONNX_PROBES];
    struct constant **data;
    int p, i, rc = 0;

    in = onnx_alloc(&im->scratch, (size_t)n_in * sizeof(*in));
    data = onnx_alloc(&im->scratch, (size_t)n_in * sizeof(struct constant *));
    out = onnx_alloc(&im->scratch, (size_t)n_out * ONNX_PROBES * sizeof(*out));
    if (!in || !out || !data)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (p = 0; p < im->probes && rc == 0; p++) {
        rc = infer_at(im, node, p, in, data, out + p * n_out, err);
        for (i = 0; i < n_out && rc == 0; i++)
            rc = check_type(&out[p * n_out + i], err);
    }
    for (i = 0; i < n_out && rc == 0; i++) {
        for (p = 0; p < im->probes; p++)
            type[p] = out[p * n_out + i];
        rc = onnx_value_type(im, im->g->node[node].out[i], type, err);
    }
    return rc < 0 ? rc : onnx_keep_batch(im, node, err);
}

/* Name of a graph node: that of the ONNX node, or of its first output where it
 * has none; steps on the way get the graph's fresh names. */
static int add_node(struct onnx_import *im, enum graph_op op, const int *in,
                    int n_in, const int *out, int n_out,
                    struct infer_error *err)
{
    char *name = im->node->name;
    int node;

    if (im->emitted++ > 0)
        name = NULL;
    else if (!*name && onnx_has_output(im, 0) &&
             onnx_string(&im->scratch, im->node->out[0], "tensor name", err,
                         &name) < 0)
        return INFER_EFORMAT;
    if (name && !*name)
        name = NULL;
    node = graph_add_node(im->g, op, name, in, n_in, out, n_out);
    if (node == INFER_EARGUMENT && name) /* ONNX lets names repeat */
        node = graph_add_node(im->g, op, NULL, in, n_in, out, n_out);
    if (node == INFER_EMEMORY)
        return graph_no_room(im->g, err);
    if (node < 0)
        return error_set(err, node, "the graph cannot take the node");
    return node;
}

static int emit(struct onnx_import *im, enum graph_op op,
                const union graph_attr *attr, const int *in, int n_in,
                const int *out, int n_out, struct infer_error *err)
{
    int node = add_node(im, op, in, n_in, out, n_out, err);

    if (node < 0)
        return node;
    if (attr)
        im->g->node[node].attr = *attr;
    return infer_types(im, node, err);
}

int onnx_emit(struct onnx_import *im, enum graph_op op,
              const union graph_attr *attr, const int *in, int n_in, int out,
              int *value, struct infer_error *err)
{
    int v, rc = new_value(im, out, &v, err);

    if (rc == 0)
        rc = emit(im, op, attr, in, n_in, &v, 1, err);
    if (rc == 0 && value)
        *value = v;
    return rc;
}

int onnx_emit_all(struct onnx_import *im, enum graph_op op,
                  const union graph_attr *attr, const int *in, int n_in,
                  struct infer_error *err)
{
    int i, n = im->node->n_out, rc = 0;
    int *out = onnx_alloc(&im->scratch, (size_t)n * sizeof(*out));

    if (!out)
        return error_set(err, INFER_EMEMORY, "out of memory");
    for (i = 0; i < n && rc == 0; i++)
        rc = new_value(im, i, &out[i], err);
    if (rc < 0)
        return rc;
    return emit(im, op, attr, in, n_in, out, n, err);
}

int onnx_emit_unary(struct onnx_import *im, enum kern_unary_kind kind, float a,
                    float b, int in, int out, int *value,
                    struct infer_error *err)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_UNARY, &attr);
    attr.unary.kind = kind;
    attr.unary.a = a;
    attr.unary.b = b;
    return onnx_emit(im, GRAPH_UNARY, &attr, &in, 1, out, value, err);
}

int onnx_emit_binary(struct onnx_import *im, enum kern_binary_kind kind, int a,
                     int b, int out, int *value, struct infer_error *err)
{
    union graph_attr attr;
    int in[2];

    onnx_defaults(GRAPH_BINARY, &attr);
    attr.binary.kind = kind;
    in[0] = a;
    in[1] = b;
    return onnx_emit(im, GRAPH_BINARY, &attr, in, 2, out, value, err);
}

int onnx_emit_cast(struct onnx_import *im, enum infer_dtype to, int in, int out,
                   int *value, struct infer_error *err)
{
    union graph_attr attr;

    onnx_defaults(GRAPH_CAST, &attr);
    attr.cast.to = to;
    return onnx_emit(im, GRAPH_CAST, &attr, &in, 1, out, value, err);
}

int onnx_emit_dims(struct onnx_import *im, enum graph_op op, int in, int n,
                   const int64_t *dim, int out, int *value,
                   struct infer_error *err)
{
    union graph_attr attr;

    onnx_defaults(op, &attr);
    attr.dims.n = n;
    memcpy(attr.dims.dim, dim, (size_t)n * sizeof(*dim));
    return onnx_emit(im, op, &attr, &in, 1, out, value, err);
}
