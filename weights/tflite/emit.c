/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow Lite: nodes of the graph, and their shapes at the probes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "weights/tflite/tflite.h"

int tflite_fail(struct tflite_import *im, int rc, const char *fmt, ...)
{
    va_list args;

    if (im->status < 0)
        return -1;
    im->status = rc;
    va_start(args, fmt);
    vsnprintf(im->text, sizeof im->text, fmt, args);
    va_end(args);
    return -1;
}

void tflite_defaults(enum graph_op op, union graph_attr *attr)
{
    *attr = graph_op_info(op)->defaults;
}

/* ---- shapes -------------------------------------------------------- */

/* A shape that a network could really have. */
static bool possible(const struct graph_type *t)
{
    int64_t count;

    return op_is_possible(t) && checked_count(t->rank, t->dim, &count) &&
           count <= (int64_t)1 << 40;
}

/* Shapes of a node's outputs at one probe. */
static int infer_at(struct tflite_import *im, int node, int probe,
                    struct graph_type *in, struct constant **data,
                    struct graph_type *out, struct infer_error *err)
{
    const struct graph_node *n = &im->g->node[node];
    struct graph_shape_args args = {.node = n,
                                    .attr = &n->attr,
                                    .n_in = n->n_in,
                                    .n_out = n->n_out,
                                    .in = in,
                                    .data = data,
                                    .out = out};
    int rc;

    for (int i = 0; i < n->n_in; i++) {
        memset(&in[i], 0, sizeof in[i]);
        data[i] = NULL;
        if (n->in[i] < 0)
            continue;
        in[i] = *tflite_value_type(im, n->in[i], probe);
        data[i] = im->g->value[n->in[i]].data;
    }
    for (int i = 0; i < n->n_out; i++) {
        memset(&out[i], 0, sizeof out[i]);
        out[i].rank = -1;
    }
    rc = graph_op_info(n->op)->infer_shape(&args, err);
    for (int i = 0; i < n->n_out && rc == 0; i++)
        if (!possible(&out[i]))
            rc = error_set(err, INFER_EUNSUPPORTED,
                           "an output of unknown or impossible size");
    return rc;
}

static bool infer_types(struct tflite_import *im, int node)
{
    const int n_in = im->g->node[node].n_in, n_out = im->g->node[node].n_out;
    struct graph_type *in = calloc((size_t)n_in + 1, sizeof *in);
    struct graph_type *out =
        calloc((size_t)n_out * TFLITE_PROBES + 1, sizeof *out);
    struct constant **data =
        calloc((size_t)n_in + 1, sizeof(struct constant *));
    struct infer_error fault;
    int rc = in && out && data ? 0 : INFER_EMEMORY;

    error_clear(&fault);
    if (rc < 0)
        tflite_fail(im, rc, "out of memory");
    for (int p = 0; p < im->probes && rc == 0; p++) {
        rc = infer_at(im, node, p, in, data, out + p * n_out, &fault);
        if (rc < 0)
            tflite_fail(im, rc, "%s", fault.text);
    }
    for (int i = 0; i < n_out && rc == 0; i++) {
        struct graph_type type[TFLITE_PROBES];
        for (int p = 0; p < TFLITE_PROBES; p++)
            type[p] = out[(p < im->probes ? p : 0) * n_out + i];
        if (!tflite_set_type(im, im->g->node[node].out[i], type))
            rc = INFER_EMEMORY;
    }
    free(in);
    free(out);
    free(data);
    return rc == 0;
}

/* ---- nodes --------------------------------------------------------- */

/* Nodes of an operator are called like its first output; those after the
 * first have the graph's fresh names. */
static const char *node_name(struct tflite_import *im, char *name, size_t bytes)
{
    struct infer_error fault;
    struct tflite_tensor t;

    if (im->g->n_nodes > im->first_node || im->op.n_out < 1 ||
        tflite_model_tensor(im->m, fb_list_i32(&im->op.out, 0), &fault, &t) < 0)
        return NULL;
    tflite_name(&t, name, bytes);
    return *name ? name : NULL;
}

bool tflite_emit_all(struct tflite_import *im, enum graph_op op,
                     const union graph_attr *attr, const int *in, int n_in,
                     int *out, int n_out)
{
    struct infer_error fault;
    char name[256];
    int node;

    for (int i = 0; i < n_in && im->status == 0; i++)
        if (in[i] < -1) /* -1 is an input left out */
            tflite_fail(im, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < n_out && im->status == 0; i++) {
        out[i] = graph_add_value(im->g, NULL);
        if (out[i] < 0)
            tflite_fail(im, graph_no_room(im->g, &fault), "%s", fault.text);
    }
    if (im->status < 0)
        return false;
    node = graph_add_node(im->g, op, node_name(im, name, sizeof name), in, n_in,
                          out, n_out);
    if (node == INFER_EARGUMENT)
        node = graph_add_node(im->g, op, NULL, in, n_in, out, n_out);
    if (node < 0) {
        tflite_fail(im, graph_no_room(im->g, &fault), "%s", fault.text);
        return false;
    }
    if (attr)
        im->g->node[node].attr = *attr;
    return infer_types(im, node);
}

int tflite_emit(struct tflite_import *im, enum graph_op op,
                const union graph_attr *attr, const int *in, int n_in)
{
    int out;

    /* An input that could not be made has set the status. */
    if (im->status < 0)
        return -1;
    return tflite_emit_all(im, op, attr, in, n_in, &out, 1) ? out : -1;
}

int tflite_unary(struct tflite_import *im, int x, enum kern_unary_kind kind,
                 float a, float b)
{
    union graph_attr attr;

    tflite_defaults(GRAPH_UNARY, &attr);
    attr.unary = (struct kern_unary){kind, a, b};
    return tflite_emit(im, GRAPH_UNARY, &attr, &x, 1);
}

int tflite_plain_unary(struct tflite_import *im, int x,
                       enum kern_unary_kind kind)
{
    const struct kern_unary u = graph_unary(kind);

    return tflite_unary(im, x, kind, u.a, u.b);
}

int tflite_binary(struct tflite_import *im, enum kern_binary_kind kind, int a,
                  int b)
{
    const int in[2] = {a, b};
    union graph_attr attr;

    tflite_defaults(GRAPH_BINARY, &attr);
    attr.binary.kind = kind;
    return tflite_emit(im, GRAPH_BINARY, &attr, in, 2);
}

int tflite_cast(struct tflite_import *im, int x, enum infer_dtype to)
{
    union graph_attr attr;

    if (im->status < 0 || tflite_value_type(im, x, 0)->dtype == to)
        return x;
    tflite_defaults(GRAPH_CAST, &attr);
    attr.cast.to = to;
    return tflite_emit(im, GRAPH_CAST, &attr, &x, 1);
}

int tflite_dims(struct tflite_import *im, enum graph_op op, int x, int n,
                const int64_t *dim)
{
    union graph_attr attr;

    tflite_defaults(op, &attr);
    attr.dims.n = n;
    memcpy(attr.dims.dim, dim, (size_t)n * sizeof *dim);
    return tflite_emit(im, op, &attr, &x, 1);
}

/* A reshape to sizes that are known at every probe.  A size that differs
 * between them is that of the input at the same place, or the rest. */
int tflite_reshape_to(struct tflite_import *im, int x,
                      const struct graph_type *target)
{
    const int rank = target[0].rank;
    int64_t dim[INFER_MAX_RANK];
    bool rest = false;

    if (im->status < 0)
        return -1;
    for (int i = 0; i < rank; i++) {
        bool same = true, copied = true;
        for (int p = 0; p < im->probes; p++) {
            const struct graph_type *t = tflite_value_type(im, x, p);
            same = same && target[p].dim[i] == target[0].dim[i];
            copied = copied && i < t->rank && target[p].dim[i] == t->dim[i];
        }
        if (same && target[0].dim[i] != 0) {
            dim[i] = target[0].dim[i];
        } else if (copied) {
            dim[i] = 0;
        } else if (!rest && !same) {
            dim[i] = -1;
            rest = true;
        } else {
            return tflite_fail(im, INFER_EUNSUPPORTED,
                               "a shape with two sizes that depend on those "
                               "of the input");
        }
    }
    return tflite_dims(im, GRAPH_RESHAPE, x, rank, dim);
}

int tflite_slice(struct tflite_import *im, int x, int axis, int64_t begin,
                 int64_t end)
{
    union graph_attr attr;

    tflite_defaults(GRAPH_SLICE, &attr);
    attr.slice.n_axes = 1;
    attr.slice.axis[0] = axis;
    attr.slice.begin[0] = begin;
    attr.slice.end[0] = end;
    attr.slice.step[0] = 1;
    return tflite_emit(im, GRAPH_SLICE, &attr, &x, 1);
}

int tflite_concat(struct tflite_import *im, const int *x, int n, int axis)
{
    union graph_attr attr;

    tflite_defaults(GRAPH_CONCAT, &attr);
    attr.axis.axis = axis;
    return n == 1 ? x[0] : tflite_emit(im, GRAPH_CONCAT, &attr, x, n);
}

/* ---- fused activations --------------------------------------------- */

enum tflite_activation tflite_activation(struct tflite_import *im, int id)
{
    const int act = fb_u8(&im->op.options, id, 0);

    if (act > TFLITE_TANH)
        tflite_fail(im, INFER_EUNSUPPORTED, "fused activation %d", act);
    return act > TFLITE_TANH ? TFLITE_NONE : (enum tflite_activation)act;
}

int tflite_activated(struct tflite_import *im, enum tflite_activation act,
                     int x)
{
    switch (act) {
    case TFLITE_NONE:
        break;
    case TFLITE_RELU:
        return tflite_plain_unary(im, x, KERN_RELU);
    case TFLITE_RELU_N1_TO_1:
        return tflite_unary(im, x, KERN_CLIP, -1, 1);
    case TFLITE_RELU6:
        return tflite_unary(im, x, KERN_CLIP, 0, 6);
    case TFLITE_TANH:
        return tflite_plain_unary(im, x, KERN_TANH);
    }
    return x;
}

int tflite_fused(struct tflite_import *im, int x, int id)
{
    return tflite_activated(im, tflite_activation(im, id), x);
}
