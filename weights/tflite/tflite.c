/* SPDX-License-Identifier: Apache-2.0 */
/* The TensorFlow Lite reader: a file becomes a graph, operator by operator. */
#include "weights/tflite/tflite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"

/* ---- operators ----------------------------------------------------- */

static const struct tflite_op ops[] = {
#define TFLITE_OP(code, name, function, param)                                 \
    {code, name, function, param, false},
#define TFLITE_MOVE(code, name, function, param)                               \
    {code, name, function, param, true},
#define TFLITE_NO(code, name) {code, name, NULL, 0, false},
#include "weights/tflite/ops.def"
#undef TFLITE_OP
#undef TFLITE_MOVE
#undef TFLITE_NO
};

const struct tflite_op *tflite_op_find(int code)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].code == code)
            return &ops[i];
    return NULL;
}

/* ---- reports ------------------------------------------------------- */

/* One line a cause: the first operator that has it, and how many more. */
static void note_cause(struct tflite_import *im, const char *op,
                       const char *name)
{
    for (int i = 0; i < im->n_causes; i++)
        if (strcmp(im->cause[i].text, im->text) == 0 &&
            strcmp(im->cause[i].op, op) == 0) {
            im->cause[i].count++;
            return;
        }
    if (im->n_causes == TFLITE_MAX_CAUSES) {
        im->more_causes++;
        return;
    }
    struct tflite_cause *c = &im->cause[im->n_causes++];
    snprintf(c->op, sizeof c->op, "%s", op);
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->text, sizeof c->text, "%s", im->text);
    c->rc = im->status;
    c->count = 1;
}

static int report(const struct tflite_import *im)
{
    for (int i = 0; i < im->n_causes; i++) {
        const struct tflite_cause *c = &im->cause[i];
        char more[48] = "";
        if (c->count > 1)
            snprintf(more, sizeof more, " (and %d more)", c->count - 1);
        error_add(im->err, c->rc, "%s '%s': %s%s", c->op, c->name, c->text,
                  more);
    }
    if (im->more_causes > 0)
        error_add(im->err, im->cause[0].rc, "%d more are refused",
                  im->more_causes);
    if (im->free_extent)
        error_add(im->err, im->cause[0].rc,
                  "the file leaves sizes of its inputs open: --input-shape "
                  "fixes them");
    return im->cause[0].rc;
}

/* ---- inputs -------------------------------------------------------- */

/* Sizes of a free dimension at the probes, all of them different. */
static int64_t probe_size(int probe, int dimension)
{
    if (dimension == 0)
        return probe + 2;
    return 256 + 64 * (INFER_MAX_RANK * (int64_t)probe + dimension);
}

/* The first operator that reads a tensor; false where none does. */
static bool first_reader(struct tflite_import *im, int tensor,
                         struct tflite_operator *op)
{
    for (size_t i = 0; i < im->m->operators.count; i++) {
        if (tflite_model_operator(im->m, (int)i, NULL, op) < 0)
            return false;
        for (int k = 0; k < op->n_in; k++)
            if (fb_list_i32(&op->in, (size_t)k) == tensor)
                return true;
    }
    return false;
}

/* Operators that leave axes where they are: ADD, CONCATENATION, DEQUANTIZE,
 * MUL, PAD, SUB, DIV, STRIDED_SLICE, CAST, SLICE, QUANTIZE. */
static bool keeps_axes(int code)
{
    static const int codes[] = {0, 2, 6, 18, 34, 41, 42, 45, 53, 65, 114};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* Whether the tensor has its channels in front: what reads it first, behind
 * such operators, moves them to the end. */
static bool is_planar(struct tflite_import *im, int tensor, int rank)
{
    struct tflite_operator op;
    int order[INFER_MAX_RANK];

    tflite_order(rank, false, order);
    for (int depth = 0; depth < 8 && first_reader(im, tensor, &op); depth++) {
        if (op.code == 39 && op.n_in == 2) { /* TRANSPOSE */
            const int at = fb_list_i32(&op.in, 1);
            const struct constant *c =
                tflite_load(im, at) ? im->value[at].known[0] : NULL;
            if (!c || c->rank != 1 || c->dim[0] != rank ||
                !scalar_is_integer(c->dtype))
                return false;
            for (int i = 0; i < rank; i++)
                if (scalar_load_i64(c->dtype, c->data, i) != order[i])
                    return false;
            return true;
        }
        if (op.n_out < 1 || !keeps_axes(op.code))
            return false;
        tensor = fb_list_i32(&op.out, 0);
    }
    return false;
}

struct input {
    int tensor;
    struct tflite_tensor t;
    char name[256];
    bool swapped;
    const struct weights_input_shape *given;
    int64_t dim[INFER_MAX_RANK]; /* in the graph's order; -1: free */
};

static const struct weights_input_shape *
given_shape(const struct tflite_import *im, const char *name, int position)
{
    for (int i = 0; i < im->options->input_count; i++) {
        const struct weights_input_shape *s = &im->options->input_shape[i];
        if (s->name ? strcmp(s->name, name) == 0 : i == position)
            return s;
    }
    return NULL;
}

/* The input as the file states it, and as the user completes it. */
static int read_input(struct tflite_import *im, int position, struct input *in)
{
    int order[INFER_MAX_RANK], rc;

    memset(in, 0, sizeof *in);
    in->tensor = fb_list_i32(&im->m->inputs, (size_t)position);
    rc = tflite_model_tensor(im->m, in->tensor, im->err, &in->t);
    if (rc < 0)
        return rc;
    tflite_name(&in->t, in->name, sizeof in->name);
    if (tflite_dtype(in->t.type) == INFER_NONE || in->t.variable)
        return error_set(
            im->err, INFER_EUNSUPPORTED, "input '%s' is %s", in->name,
            in->t.variable ? "a variable" : tflite_type_name(in->t.type));
    in->swapped = in->t.rank >= 4 &&
                  !(position < 16 && is_planar(im, in->tensor, in->t.rank));
    tflite_order(in->t.rank, in->swapped, order);
    for (int d = 0; d < in->t.rank; d++)
        in->dim[d] = in->t.open[in->swapped ? order[d] : d];
    in->given = given_shape(im, in->name, position);
    if (!in->given)
        return 0;
    if (in->given->rank != in->t.rank)
        return error_set(im->err, INFER_EARGUMENT,
                         "input '%s' has %d dimensions, %d are given", in->name,
                         in->t.rank, in->given->rank);
    for (int d = 0; d < in->t.rank; d++) {
        const int64_t g = in->given->dim[d];
        if (g >= 0 && in->dim[d] >= 0 && g != in->dim[d])
            return error_set(im->err, INFER_EARGUMENT,
                             "input '%s' has %lld in dimension %d, %lld is "
                             "given",
                             in->name, (long long)in->dim[d], d, (long long)g);
        if (in->dim[d] < 0)
            in->dim[d] = g;
    }
    return 0;
}

/* Integers of eight bits that stand for a picture hold its pixels, less 128
 * where they have a sign. */
static void set_preprocess(struct tflite_import *im, const struct input *in)
{
    struct graph_preprocess *p = &im->g->preprocess[im->g->n_inputs - 1];
    const int64_t channels = in->t.rank == 4 ? in->t.dim[3] : 0;

    if (!in->swapped || !tflite_is_quantised(&in->t) ||
        in->t.type == TFLITE_INT16 || (channels != 1 && channels != 3))
        return;
    p->present = true;
    p->policy = GRAPH_RESIZE_EXACT;
    p->color = channels == 1 ? GRAPH_GRAY : GRAPH_RGB;
    p->scale = 1;
    for (int i = 0; i < 4; i++) {
        p->mean[i] = in->t.type == TFLITE_INT8 ? 128 : 0;
        p->std[i] = 1;
    }
}

static int add_input(struct tflite_import *im, const struct input *in)
{
    enum infer_dtype dtype = tflite_dtype(in->t.type);
    struct graph_type type[TFLITE_PROBES];
    struct tflite_value *v = &im->value[in->tensor];
    int value;

    if (scalar_is_float(dtype) || tflite_is_quantised(&in->t))
        dtype = INFER_F32;
    memset(type, 0, sizeof type);
    for (int p = 0; p < TFLITE_PROBES; p++) {
        type[p].dtype = dtype;
        type[p].rank = in->t.rank;
        for (int d = 0; d < in->t.rank; d++)
            type[p].dim[d] = in->dim[d] < 0 ? probe_size(p, d) : in->dim[d];
    }
    if (v->state != TFLITE_UNKNOWN)
        return error_set(im->err, INFER_EFORMAT, "two inputs are tensor %d",
                         in->tensor);
    value = graph_add_input(im->g, *in->name ? in->name : "input", dtype,
                            in->t.rank, in->dim);
    if (value < 0)
        return error_set(im->err,
                         value == INFER_EMEMORY ? value : INFER_EFORMAT,
                         "input '%s' cannot be added", in->name);
    if (!tflite_set_type(im, value, type))
        return INFER_EMEMORY;
    set_preprocess(im, in);
    if (tflite_is_quantised(&in->t)) {
        const struct tflite_quant q = tflite_quant(im, &in->t);
        if (q.zero != 0)
            value = tflite_unary(im, value, KERN_LINEAR, 1, (float)-q.zero);
        if (im->status < 0)
            return error_set(im->err, im->status, "input '%s': %s", in->name,
                             im->text);
    }
    v->state = TFLITE_GRAPH;
    v->plain = in->swapped ? -1 : value;
    v->swapped = in->swapped || in->t.rank < 3 ? value : -1;
    return 0;
}

static bool can_free_batch(const struct input *in, int n)
{
    for (int i = 0; i < n; i++)
        if (in[i].t.rank < 2 ||
            (in[i].dim[0] != -1 && (in[i].dim[0] != 1 || in[i].given)))
            return false;
    return n > 0;
}

static int add_inputs(struct tflite_import *im)
{
    const int n = (int)im->m->inputs.count;
    struct input *in = calloc((size_t)n + 1, sizeof *in);
    bool any = false;
    int rc = in ? 0 : error_set(im->err, INFER_EMEMORY, "out of memory");

    for (int i = 0; i < n && rc == 0; i++)
        rc = read_input(im, i, &in[i]);
    if (rc == 0)
        im->freed_batch = im->freed_batch && can_free_batch(in, n);
    for (int i = 0; i < n && rc == 0; i++) {
        if (im->freed_batch)
            in[i].dim[0] = -1;
        else if (in[i].t.rank > 0 && in[i].dim[0] < 0)
            in[i].dim[0] = in[i].t.dim[0];
        for (int d = 0; d < in[i].t.rank && rc == 0; d++) {
            any = any || in[i].dim[d] < 0;
            im->free_extent = im->free_extent || (d > 0 && in[i].dim[d] < 0);
            if (in[i].dim[d] == 0)
                rc = error_set(im->err, INFER_EFORMAT, "input '%s' is empty",
                               in[i].name);
        }
    }
    im->probes = any ? TFLITE_PROBES : 1;
    for (int i = 0; i < n && rc == 0; i++)
        rc = add_input(im, &in[i]);
    free(in);
    return rc;
}

/* ---- operators ----------------------------------------------------- */

/* 1: an input comes from an operator that was refused. */
static int check_inputs(struct tflite_import *im)
{
    for (int i = 0; i < im->op.n_in; i++) {
        const int t = fb_list_i32(&im->op.in, (size_t)i);
        if (t < -1 || t >= im->n_values) {
            tflite_fail(im, INFER_EFORMAT, "input %d is tensor %d of %d", i, t,
                        im->n_values);
            return 0;
        }
        if (t >= 0 && im->value[t].state == TFLITE_FAILED)
            return 1;
    }
    for (int o = 0; o < im->op.n_out; o++)
        if (tflite_output_index(im, o) < 0)
            return 0;
    return 0;
}

/* Whether integers may move as they are: in all tensors alike. */
static bool alike(struct tflite_import *im)
{
    struct tflite_tensor out;

    if (!im->row->moves || im->status < 0)
        return false;
    out = tflite_output_tensor(im, 0);
    if (im->status < 0 || !tflite_is_quantised(&out))
        return false;
    for (int i = 0; i < im->op.n_in; i++) {
        struct tflite_tensor t;
        if (!tflite_has(im, i))
            continue;
        t = tflite_input_tensor(im, i);
        if (tflite_is_quantised(&t) ? !tflite_same_quant(&t, &out)
                                    : t.type == TFLITE_FLOAT32)
            return false;
    }
    return true;
}

static void import_operator(struct tflite_import *im)
{
    if (!im->row) {
        tflite_fail(im, INFER_EUNSUPPORTED, "operator number %d is not known",
                    im->op.code);
        return;
    }
    if (!im->row->import) {
        tflite_fail(im, INFER_EUNSUPPORTED, "the operator is not supported");
        return;
    }
    if (tflite_fold(im) != 0)
        return;
    im->raw = alike(im);
    im->row->import(im, im->row->param);
    if (im->status < 0)
        return;
    for (int o = 0; o < im->op.n_out; o++)
        if (im->value[tflite_output_index(im, o)].state == TFLITE_UNKNOWN)
            tflite_fail(im, INFER_EUNSUPPORTED, "output %d is not made", o);
}

static void fail_outputs(struct tflite_import *im)
{
    for (int o = 0; o < im->op.n_out; o++) {
        const int t = fb_list_i32(&im->op.out, (size_t)o);
        if (t >= 0 && t < im->n_values &&
            (im->value[t].state == TFLITE_UNKNOWN ||
             im->value[t].state == TFLITE_GRAPH))
            im->value[t].state = TFLITE_FAILED;
    }
}

/* "CUSTOM Name" where the name is the file's. */
static void operator_label(const struct tflite_import *im, char *out,
                           size_t bytes)
{
    const int n = im->op.custom.count < 48 ? (int)im->op.custom.count : 48;

    if (!im->row)
        snprintf(out, bytes, "operator");
    else if (im->op.code == 32 && n > 0)
        snprintf(out, bytes, "CUSTOM %.*s", n,
                 (const char *)fb_list_data(&im->op.custom));
    else
        snprintf(out, bytes, "%s", im->row->name);
}

/* 1: an input comes from an operator that was refused. */
static int begin_operator(struct tflite_import *im)
{
    im->row = tflite_op_find(im->op.code);
    im->raw = false;
    im->first_node = im->g->n_nodes;
    im->signed_weights = tflite_signed_weights(im);
    return check_inputs(im);
}

void tflite_import_operator(struct tflite_import *im)
{
    if (begin_operator(im) == 0 && im->status == 0)
        import_operator(im);
}

static int import_operators(struct tflite_import *im)
{
    for (size_t i = 0; i < im->m->operators.count; i++) {
        char label[96], name[96] = "";
        int failed, rc;
        rc = tflite_model_operator(im->m, (int)i, im->err, &im->op);
        if (rc < 0)
            return rc;
        im->status = 0;
        failed = begin_operator(im);
        if (!failed && im->status == 0)
            import_operator(im);
        if (im->status < 0) {
            struct infer_error fault;
            struct tflite_tensor t;
            if (im->op.n_out > 0 &&
                tflite_model_tensor(im->m, fb_list_i32(&im->op.out, 0), &fault,
                                    &t) == 0)
                tflite_name(&t, name, sizeof name);
            operator_label(im, label, sizeof label);
            note_cause(im, label, name);
        }
        if (im->status == INFER_EMEMORY)
            break;
        if (failed || im->status < 0)
            fail_outputs(im);
    }
    im->row = NULL;
    im->status = 0;
    return im->n_causes > 0 ? report(im) : 0;
}

/* ---- outputs ------------------------------------------------------- */

/* A batch that was read as free must come out, and nothing else may follow it.
 */
static int check_freed(struct tflite_import *im, int value)
{
    const struct graph_type *t = im->type[value];

    for (int p = 0; im->freed_batch && p < im->probes; p++) {
        bool kept = t[p].rank >= 1 && t[p].dim[0] == probe_size(p, 0);
        for (int d = 1; d < t[p].rank && !im->free_extent; d++)
            kept = kept && t[p].dim[d] == t[0].dim[d];
        if (!kept)
            return error_set(im->err, INFER_EUNSUPPORTED,
                             "an output loses the batch");
    }
    return 0;
}

/* Integers leave as the file has them.  An output may be an input as it is, or
 * stand in the list twice. */
static int add_output(struct tflite_import *im, int tensor)
{
    struct tflite_tensor t;
    char name[256];
    int v, rc = tflite_model_tensor(im->m, tensor, im->err, &t);
    bool quantised;

    if (rc < 0)
        return rc;
    if (t.type == TFLITE_COMPLEX64)
        return error_set(im->err, INFER_EUNSUPPORTED,
                         "output %d has complex numbers", tensor);
    quantised = tflite_is_quantised(&t);
    im->first_node = im->g->n_nodes;
    v = tflite_tensor_value(im, tensor,
                            t.rank >= 4 && im->value[tensor].plain < 0);
    if (quantised && im->status == 0) {
        const struct tflite_quant q = tflite_quant(im, &t);
        if (q.zero != 0)
            v = tflite_unary(im, v, KERN_LINEAR, 1, (float)q.zero);
    }
    if (im->status == 0 &&
        (graph_is_output(im->g, v) || im->g->value[v].producer < 0))
        v = tflite_plain_unary(im, v, KERN_IDENTITY);
    if (im->status < 0)
        return error_set(im->err, im->status, "output: %s", im->text);
    rc = check_freed(im, v);
    if (rc < 0)
        return rc;
    tflite_name(&t, name, sizeof name);
    if (*name && quantised && im->g->value[v].producer >= im->first_node) {
        const int other = graph_find_value(im->g, name);
        char moved[264];
        snprintf(moved, sizeof moved, "%s/real", name);
        if (other >= 0)
            tflite_rename(im, other, moved);
        tflite_rename(im, v, name);
    }
    if (im->status < 0)
        return error_set(im->err, im->status, "output: %s", im->text);
    if (graph_add_output(im->g, v) < 0)
        return error_set(im->err, INFER_EMEMORY, "out of memory");
    return 0;
}

static int add_outputs(struct tflite_import *im)
{
    int rc = 0;

    if (im->m->outputs.count == 0)
        return error_set(im->err, INFER_EFORMAT, "the network has no outputs");
    im->op = (struct tflite_operator){0};
    for (size_t i = 0; i < im->m->outputs.count && rc == 0; i++)
        rc = add_output(im, fb_list_i32(&im->m->outputs, i));
    return rc;
}

/* ---- the whole ----------------------------------------------------- */

/* The graph's shapes for one batch, in a copy. */
static int with_batch(const struct graph *g, int64_t batch, struct graph **out)
{
    struct graph *copy = graph_copy(g);
    struct graph_shape *shape;
    int rc;

    if (!copy)
        return INFER_EMEMORY;
    shape = calloc((size_t)g->n_inputs + 1, sizeof *shape);
    for (int i = 0; shape && i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];
        shape[i].rank = v->rank;
        for (int d = 0; d < v->rank; d++)
            shape[i].dim[d] = v->dim[d] >= 0 ? v->dim[d]
                              : d == 0       ? batch
                                             : probe_size(0, d);
    }
    rc = shape ? graph_infer_shapes(copy, shape, NULL) : INFER_EMEMORY;
    free(shape);
    if (rc == 0)
        *out = copy;
    else
        graph_free(copy);
    return rc;
}

/* Pictures that were one batch must not meet in a larger one. */
static int check_separable(struct tflite_import *im)
{
    struct graph *whole = NULL, *part = NULL;
    int rc;

    if (!im->freed_batch)
        return 0;
    rc = with_batch(im->g, 3, &whole);
    if (rc == 0)
        rc = with_batch(im->g, 2, &part);
    if (rc == 0)
        rc = graph_separable(whole, part);
    graph_free(whole);
    graph_free(part);
    if (rc == INFER_EMEMORY)
        return error_set(im->err, rc, "out of memory");
    return rc > 0 ? 0
                  : error_set(im->err, INFER_EUNSUPPORTED,
                              "pictures of a batch would meet");
}

static int build_graph(struct tflite_import *im)
{
    int rc;

    im->n_values = (int)im->m->tensors.count;
    im->value = calloc((size_t)im->n_values + 1, sizeof *im->value);
    im->g = graph_new();
    if (!im->value || !im->g)
        return error_set(im->err, INFER_EMEMORY, "out of memory");
    for (int i = 0; i < im->n_values; i++)
        im->value[i].plain = im->value[i].swapped = im->value[i].weight = -1;
    rc = add_inputs(im);
    if (rc == 0)
        rc = import_operators(im);
    if (rc == 0)
        rc = add_outputs(im);
    if (rc == 0)
        rc = tflite_add_states(im);
    if (rc == 0)
        graph_remove_dead(im->g);
    if (rc == 0)
        rc = graph_compact(im->g, im->err);
    return rc == 0 ? check_separable(im) : rc;
}

/* One attempt; *freed tells whether another one may do better: where a literal
 * batch of 1 was read as free, or a state was found. */
static int attempt(struct tflite_model *m,
                   const struct weights_options *options, bool free_batch,
                   struct infer_error *err, bool *freed, struct graph **out)
{
    struct tflite_import *im = calloc(1, sizeof *im);
    int rc;

    error_clear(err);
    *freed = false;
    if (!im)
        return error_set(err, INFER_EMEMORY, "out of memory");
    im->m = m;
    im->options = options;
    im->err = err;
    im->freed_batch = free_batch;
    /* Weights of eight bits become floats. */
    im->max_constant_bytes = 6 * m->file.bytes + ((size_t)16 << 20);
    rc = build_graph(im);
    *freed = im->freed_batch || im->new_states;
    if (rc == 0)
        *out = im->g;
    else
        graph_free(im->g);
    tflite_variables_clear(im);
    tflite_values_clear(im);
    free(im);
    return rc;
}

/* An attempt finds the states that the one before could not know. */
#define MOST_ATTEMPTS 4

static int read_tflite(struct weights_file *file,
                       const struct weights_options *options,
                       struct infer_error *err, struct weights_import *out)
{
    struct infer_error local;
    struct tflite_model m;
    bool freed;
    int rc;

    if (!err)
        err = &local;
    rc = tflite_model_open(file->blob, err, &m);
    if (rc < 0)
        return rc;
    rc = tflite_model_find_own(&m, err);
    /* Most files state a batch of 1 and mean any.  Where that reading does not
     * work out, the batch stays as it is stated. */
    if (rc == 0)
        rc = attempt(&m, options, true, err, &freed, &out->graph);
    else
        freed = false;
    for (int more = MOST_ATTEMPTS; rc < 0 && freed && more > 0; more--) {
        if (rc == INFER_EMEMORY)
            break;
        rc = attempt(&m, options, false, err, &freed, &out->graph);
    }
    if (rc == 0)
        rc = tflite_metadata_apply(&m, out->graph, err);
    if (rc == 0)
        snprintf(out->detail, sizeof out->detail, "%zu operators, %.*s",
                 m.operators.count,
                 (int)(m.description.count < 64 ? m.description.count : 64),
                 m.description.count
                     ? (const char *)fb_list_data(&m.description)
                     : "no description");
    tflite_model_close(&m);
    return rc;
}

/* The identifier stands behind the first offset. */
static int probe(const struct weights_file *file)
{
    return file->blob->bytes >= 8 &&
                   memcmp(file->blob->data + 4, "TFL3", 4) == 0
               ? 100
               : 0;
}

const struct weights_format weights_format_tflite = {
    .name = "tflite",
    .description = "TensorFlow Lite: float, hybrid and quantised networks",
    .probe = probe,
    .read = read_tflite,
};
