/* SPDX-License-Identifier: Apache-2.0 */
/* The ONNX reader: an ONNX model becomes a graph, node by node. */
#include "weights/onnx/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/narrow.h"

/* ---- operators ----------------------------------------------------- */

static const struct onnx_op ops[] = {
#define ONNX_OP(name, since, until, function, param)                           \
    {name, since, until, function, param},
#include "weights/onnx/ops.def"
#undef ONNX_OP
};

/* The table is sorted by name; a test holds it to that. */
const struct onnx_op *onnx_op_find(const char *name)
{
    size_t low = 0, high = sizeof(ops) / sizeof(ops[0]);

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(name, ops[mid].name);

        if (order == 0)
            return &ops[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

/* ---- versions ------------------------------------------------------ */

static int check_versions(struct onnx_import *im)
{
    const struct onnx_model *m = im->model;

    if (m->ir_version < 1 || m->ir_version > ONNX_MAX_IR)
        return onnx_fail(im,
                         m->ir_version < 1 ? INFER_EFORMAT : INFER_EUNSUPPORTED,
                         "ONNX IR version %lld; 1 to %d are read",
                         (long long)m->ir_version, ONNX_MAX_IR);
    im->opset = m->opset;
    if (m->opset == 0 && m->ir_version >= 3)
        return onnx_fail(im, INFER_EFORMAT,
                         "the model imports no version of the ONNX operators");
    if (m->opset == 0)
        im->opset = 1; /* versions are older than opset_import */
    if (im->opset > ONNX_MAX_OPSET)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "ONNX opset %lld; 1 to %d are read",
                         (long long)im->opset, ONNX_MAX_OPSET);
    return 0;
}

/* ---- initializers and inputs --------------------------------------- */

static int file_constants(struct onnx_import *im)
{
    const struct onnx_list *list = &im->model->graph.initializer;
    struct pb_span name;
    size_t i;
    int v;

    for (i = 0; i < list->count; i++) {
        name = im->model->graph.initializer_name.item[i];
        if (name.bytes == 0)
            onnx_fail(im, INFER_EFORMAT, "initializer %zu has no name", i);
        if (im->rc < 0 || onnx_value_get(im, name, &v) < 0)
            return im->rc;
        if (im->value[v].state != ONNX_UNKNOWN)
            return onnx_fail(im, INFER_EFORMAT,
                             "two initializers are named '%.*s'",
                             PB_TEXT(name, 128));
        im->value[v].state = ONNX_LAZY;
        im->value[v].tensor = list->item[i];
    }
    return 0;
}

static int file_load(struct onnx_import *im, struct pb_span tensor,
                     struct constant **out)
{
    struct constant *c;
    int rc = onnx_tensor_load(im->model, tensor, im->err, &c);

    if (rc == 0)
        *out = constant_ref(c);
    return rc;
}

static int file_input(struct onnx_import *im, size_t i,
                      struct onnx_value_info *out)
{
    const struct onnx_list *list = &im->model->graph.input;
    int rc;

    if (i == list->count)
        return 0;
    rc = onnx_value_info_parse(im->model, list->item[i], im->err, out);
    return rc < 0 ? rc : 1;
}

/* The shape that the user gave for an input, or NULL. */
static const struct weights_input_shape *
given_shape(const struct onnx_import *im, const char *name, int position)
{
    int i;

    for (i = 0; i < im->options->input_count; i++) {
        const struct weights_input_shape *s = &im->options->input_shape[i];

        if (s->name ? strcmp(s->name, name) == 0 : i == position)
            return s;
    }
    return NULL;
}

/* Sizes of a free dimension at the probes.  Each free dimension gets sizes of
 * its own, so that no two are ever mistaken for one another.  Spatial ones are
 * large and divide well, as some networks need them.  Where the network takes
 * it, the second is above a multiple of 32 by 1 and the last below by 1: one of
 * them stays odd when it is halved again and again upwards, the other when
 * downwards, and so "twice this tensor" and "as large as that one" are two
 * things at every stride.  Attention between all pixels is beyond any memory at
 * these sizes; smaller ones are tried after them. */
static int64_t probe_size(const struct onnx_import *im, int probe,
                          int dimension)
{
    const int64_t k = 3 * (int64_t)probe + dimension;
    const int add = !im->odd_sizes || probe == 0 ? 0 : probe == 1 ? 1 : -1;

    if (dimension == 0)
        return probe + 1;
    return im->small_sizes ? 64 + 32 * k + add : 256 + 64 * k + add;
}

/* Whether a dimension from number d on is open. */
static bool has_free(const struct onnx_value_info *info, int d)
{
    for (; d < info->rank; d++)
        if (info->dim[d] < 0)
            return true;
    return false;
}

/* Floats of any width are computed in single precision; inputs of the types in
 * narrow.h are given as what these are kept as. */
static enum infer_dtype input_dtype(int64_t elem_type)
{
    const enum infer_dtype dtype = narrow_dtype(elem_type) != INFER_NONE
                                       ? narrow_dtype(elem_type)
                                       : onnx_dtype(elem_type);

    return dtype == INFER_F64 || dtype == INFER_F16 || dtype == INFER_BF16
               ? INFER_F32
               : dtype;
}

static int check_input(struct onnx_import *im, struct onnx_value_info *info,
                       const char *name,
                       const struct weights_input_shape *given)
{
    int d;

    if (!info->is_tensor)
        return onnx_fail(im, INFER_EUNSUPPORTED, "input '%s' is not a tensor",
                         name);
    if (input_dtype(info->elem_type) == INFER_NONE)
        return onnx_fail(
            im, INFER_EUNSUPPORTED, "input '%s' has data type %lld (%s)", name,
            (long long)info->elem_type, onnx_type_name(info->elem_type));
    if (given) {
        if (info->rank >= 0 && info->rank != given->rank)
            return onnx_fail(im, INFER_EARGUMENT,
                             "input '%s' has %d dimensions, %d are given", name,
                             info->rank, given->rank);
        info->rank = given->rank;
        memcpy(info->dim, given->dim, sizeof(info->dim));
    }
    if (info->rank < 0)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "input '%s' has no shape: give one with "
                         "--input-shape",
                         name);
    for (d = 0; d < info->rank; d++) {
        if (info->dim[d] < -1 || info->dim[d] > INT32_MAX)
            return onnx_fail(im, INFER_EFORMAT,
                             "input '%s': dimension %d is %lld", name, d,
                             (long long)info->dim[d]);
        /* Old writers state a batch of 0 where they mean any. */
        if (info->dim[d] == 0 && d == 0 && info->rank > 1)
            info->dim[d] = -1;
        if (info->dim[d] == 0)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "input '%s' is empty: dimension %d is 0", name, d);
    }
    return 0;
}

static int add_input(struct onnx_import *im, const struct onnx_value_info *info,
                     const char *name, int v)
{
    enum infer_dtype dtype = input_dtype(info->elem_type);
    struct graph_type type[ONNX_PROBES];
    int p, d, value;

    memset(type, 0, sizeof(type));
    for (p = 0; p < im->probes; p++) {
        type[p].dtype = dtype;
        type[p].rank = info->rank;
        for (d = 0; d < info->rank; d++)
            type[p].dim[d] =
                info->dim[d] < 0 ? probe_size(im, p, d) : info->dim[d];
    }
    value = graph_add_input(im->g, name, dtype, info->rank, info->dim);
    if (value < 0)
        return onnx_fail(im, value == INFER_EMEMORY ? value : INFER_EFORMAT,
                         "input '%s' cannot be added", name);
    im->value[v].graph = value;
    im->value[v].state = ONNX_GRAPH;
    if (narrow_dtype(info->elem_type) != INFER_NONE)
        im->value[v].narrow = (int)info->elem_type;
    return onnx_value_type(im, value, type);
}

/* The inputs that are no initializers (IR versions below 4 list both), with
 * the shapes they are to have. */
struct input {
    struct onnx_value_info info;
    char *name;
    int value;
    bool given;
};

static int list_inputs(struct onnx_import *im, struct input **out, int *n)
{
    const struct weights_input_shape *given;
    struct input *input = NULL, in;
    size_t i;
    int rc;

    *n = 0;
    for (i = 0; im->rc == 0; i++) {
        memset(&in, 0, sizeof(in));
        rc = im->source->input(im, i, &in.info);
        im->rc = rc < 0 ? rc : 0;
        if (rc <= 0 || onnx_value_get(im, in.info.name, &in.value) < 0)
            break;
        if (im->value[in.value].state == ONNX_LAZY)
            continue;
        im->rc = onnx_string(&im->keep, in.info.name, "input name", im->err,
                             &in.name);
        if (im->rc < 0)
            break;
        if (*n == GRAPH_MAX_INPUTS || !*in.name) {
            onnx_fail(im, INFER_EFORMAT,
                      *in.name ? "more than 4096 inputs"
                               : "a graph input has no name");
            break;
        }
        given = given_shape(im, in.name, *n);
        in.given = given != NULL;
        if (check_input(im, &in.info, in.name, given) == 0) {
            struct input *grown =
                realloc(input, ((size_t)*n + 1) * sizeof(*input));

            if (!grown) {
                onnx_no_memory(im);
                break;
            }
            input = grown;
            input[(*n)++] = in;
        }
    }
    *out = input;
    return im->rc;
}

/* True where every input has a batch of 1 that may be meant as any batch. */
static bool can_free_batch(const struct input *input, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (input[i].given || input[i].info.rank < 2 ||
            input[i].info.dim[0] != 1 || has_free(&input[i].info, 1))
            return false;
    return n > 0;
}

static int add_inputs(struct onnx_import *im)
{
    struct input *input;
    bool free_dims = false;
    int i, n;

    list_inputs(im, &input, &n);
    if (im->freed_batch && (im->rc < 0 || !can_free_batch(input, n)))
        im->freed_batch = false;
    for (i = 0; i < n; i++) {
        if (im->freed_batch)
            input[i].info.dim[0] = -1;
        for (int d = 0; im->fixed_sizes && d < input[i].info.rank; d++)
            if (input[i].info.dim[d] < 0)
                input[i].info.dim[d] = probe_size(im, 1, d);
        free_dims |= has_free(&input[i].info, 0);
        im->free_extent |= has_free(&input[i].info, 1);
    }
    im->probes = free_dims ? ONNX_PROBES : 1;
    for (i = 0; i < n && im->rc == 0; i++)
        add_input(im, &input[i].info, input[i].name, input[i].value);
    free(input);
    return im->rc;
}

/* ---- nodes --------------------------------------------------------- */

/* 1: an input comes from a node that was refused; 0: all are there. */
static int check_inputs(struct onnx_import *im)
{
    int i, v, failed = 0;

    for (i = 0; i < im->node->n_in; i++) {
        struct pb_span name = im->node->in[i];

        if (name.bytes == 0)
            continue;
        v = onnx_value_find(im, name);
        if (v >= 0 && im->value[v].state == ONNX_FAILED)
            failed = 1;
        else if (v >= 0 && im->value[v].state == ONNX_DROPPED)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "input '%.*s' is an extra output of its node, "
                             "which is not supported",
                             PB_TEXT(name, 128));
        else if (v < 0 || im->value[v].state == ONNX_UNKNOWN)
            return onnx_fail(im, INFER_EFORMAT,
                             "no node before it produces input '%.*s'",
                             PB_TEXT(name, 128));
    }
    return failed;
}

/* Names that repeat within one node are found when the graph refuses them. */
static int check_outputs(struct onnx_import *im)
{
    int i, v;

    if (im->node->n_out == 0)
        return onnx_fail(im, INFER_EFORMAT, "no output");
    for (i = 0; i < im->node->n_out; i++) {
        struct pb_span name = im->node->out[i];

        if (name.bytes == 0)
            continue;
        v = onnx_value_find(im, name);
        if (v >= 0 && im->value[v].state != ONNX_UNKNOWN)
            return onnx_fail(im, INFER_EFORMAT,
                             "output '%.*s' is produced twice",
                             PB_TEXT(name, 128));
    }
    return 0;
}

/* Row of the table for the current node. */
static int find_op(struct onnx_import *im, const struct onnx_op **out)
{
    const struct onnx_node *n = im->node;
    const struct onnx_op *op;

    if (*n->domain && strcmp(n->domain, "ai.onnx") != 0) {
        char name[128];

        snprintf(name, sizeof name, "%s.%s", n->domain, n->op);
        *out = op = onnx_op_find(name);
        return op ? 0
                  : onnx_fail(im, INFER_EUNSUPPORTED,
                              "operator %s of domain '%s' is not supported",
                              n->op, n->domain);
    }
    op = onnx_op_find(n->op);
    if (!op)
        return onnx_fail(im, INFER_EUNSUPPORTED, "operator %s is not supported",
                         *n->op ? n->op : "''");
    if (im->opset < op->since || (op->until && im->opset > op->until))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "operator %s does not exist in this opset", n->op);
    *out = op;
    return 0;
}

int onnx_check_attributes(struct onnx_import *im)
{
    int i;

    onnx_ignore(im, "consumed_inputs"); /* opset 1: a hint for reuse */
    for (i = 0; i < im->node->n_attr; i++)
        if (!im->node->attr[i].used)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "attribute '%s' is not known for this operator",
                             im->node->attr[i].name);
    return 0;
}

int onnx_check_node(struct onnx_import *im)
{
    return check_outputs(im) < 0 ? im->rc : check_inputs(im);
}

int onnx_import_node(struct onnx_import *im)
{
    const struct onnx_function *function = onnx_function_find(im);
    const struct onnx_op *op = NULL;
    int rc;

    if (!function && find_op(im, &op) < 0)
        return im->rc;
    rc = onnx_check_node(im);
    if (rc != 0)
        return rc;
    im->skip = false;
    if (function) {
        onnx_import_function(im, function);
    } else {
        rc = onnx_fold_node(im);
        if (rc > 0)
            onnx_pass_narrow(im);
        if (rc != 0)
            return rc < 0 ? rc : onnx_note_sizes(im, true);
        im->param = op->param;
        if (onnx_reads_counted(im))
            onnx_import_counted(im, op);
        else
            op->import(im);
        onnx_pass_narrow(im);
        onnx_note_sizes(im, false);
    }
    if (im->rc < 0 || im->skip)
        return im->rc < 0 ? im->rc : 1;
    return onnx_check_attributes(im);
}

static int fail_outputs(struct onnx_import *im)
{
    int i, v;

    for (i = 0; i < im->node->n_out; i++) {
        if (im->node->out[i].bytes == 0)
            continue;
        if (onnx_value_get(im, im->node->out[i], &v) < 0)
            return im->rc;
        if (im->value[v].state == ONNX_UNKNOWN ||
            im->value[v].state == ONNX_GRAPH)
            im->value[v].state = ONNX_FAILED;
    }
    return 0;
}

/* One reason for which nodes of one operator were refused. */
struct onnx_refusal {
    struct onnx_refusal *next;
    char *op, *why, *label; /* label: of the first such node */
    size_t nodes;
    int rc;
};

/* Further kinds are only counted. */
#define MAX_REFUSALS 256

static char *keep_text(struct onnx_import *im, const char *text)
{
    char *copy = onnx_alloc(&im->keep, strlen(text) + 1);

    if (copy)
        memcpy(copy, text, strlen(text) + 1);
    return copy;
}

static int refuse(struct onnx_import *im, int rc, const char *why,
                  const char *label)
{
    struct onnx_refusal **at = &im->refused.first, *r;

    while (*at && (strcmp((*at)->op, im->node->op) != 0 ||
                   strcmp((*at)->why, why) != 0))
        at = &(*at)->next;
    if (!*at && im->refused.kinds == MAX_REFUSALS) {
        im->refused.others++;
        return 0;
    }
    if (!*at) {
        r = onnx_alloc(&im->keep, sizeof *r);
        if (!r)
            return INFER_EMEMORY;
        r->rc = rc;
        r->op = keep_text(im, im->node->op);
        r->why = keep_text(im, why);
        r->label = keep_text(im, label);
        if (!r->op || !r->why || !r->label)
            return INFER_EMEMORY;
        im->refused.kinds++;
        *at = r;
    }
    (*at)->nodes++;
    return 0;
}

/* A line a reason in the error; none is left then. */
static void report_refusals(struct onnx_import *im)
{
    struct infer_error line;
    int rc = 0;

    for (const struct onnx_refusal *r = im->refused.first; r; r = r->next) {
        rc = r->rc;
        error_clear(&line);
        error_add(&line, rc, "%s", r->why);
        error_prefix(&line, "%s", r->label);
        if (r->nodes == 1)
            error_add(im->err, rc, "%s", line.text);
        else
            error_add(im->err, rc, "%s (%zu such nodes)", line.text, r->nodes);
    }
    if (im->refused.others > 0)
        error_add(im->err, rc, "and %zu nodes more", im->refused.others);
    im->refused = (struct onnx_refusals){NULL, 0, 0};
}

int onnx_end_node(struct onnx_import *im, int rc,
                  const struct infer_error *fault, const char *label,
                  int *result)
{
    im->rc = 0;
    if (rc < 0 && refuse(im, rc, fault->text, label) < 0)
        rc = INFER_EMEMORY;
    if (rc < 0 && *result == 0)
        *result = rc;
    return rc == INFER_EMEMORY || (rc != 0 && fail_outputs(im) < 0)
               ? INFER_EMEMORY
               : 0;
}

static void label_node(const struct onnx_import *im, size_t index, char *label,
                       size_t room)
{
    const struct onnx_node *n = im->node;

    if (*n->name)
        snprintf(label, room, "node '%s' (%s, opset %lld)", n->name, n->op,
                 (long long)im->opset);
    else if (n->n_out > 0)
        snprintf(label, room, "node %zu (%s, opset %lld) that makes '%.*s'",
                 index, n->op, (long long)im->opset, PB_TEXT(n->out[0], 128));
    else
        snprintf(label, room, "node %zu (%s, opset %lld)", index, n->op,
                 (long long)im->opset);
}

/* A node that cannot be read ends the import. */
static int bad_node(struct onnx_import *im, int rc, size_t i,
                    struct infer_error *fault)
{
    error_prefix(fault, "node %zu", i);
    if (!im->scope)
        report_refusals(im);
    error_add(im->err, rc, "%s", fault->text);
    return rc;
}

int onnx_import_list(struct onnx_import *im, const struct onnx_list *list,
                     int *result)
{
    struct infer_error *err = im->err, fault;
    char label[512] = "";
    struct onnx_node node;
    size_t i;
    int rc;

    for (i = 0; i < list->count; i++) {
        onnx_arena_reset(&im->scratch);
        error_clear(&fault);
        rc = onnx_node_parse(im->model, list->item[i], &im->scratch, &fault,
                             &node);
        if (rc < 0)
            return bad_node(im, rc, i, &fault);
        im->node = &node;
        im->emitted = 0;
        im->err = &fault;
        rc = onnx_scope_node(im, &node);
        if (rc == 0)
            rc = onnx_import_node(im);
        im->err = err;
        if (rc < 0)
            label_node(im, i, label, sizeof label);
        if (onnx_end_node(im, rc, &fault, label, result) < 0)
            return INFER_EMEMORY;
    }
    im->node = NULL;
    return 0;
}

static int file_nodes(struct onnx_import *im)
{
    int result = 0;
    int rc = onnx_import_list(im, &im->model->graph.node, &result);

    return rc < 0 && rc != INFER_EMEMORY && result < 0 ? result
           : rc < 0                                    ? rc
                                                       : result;
}

/* True where all refused nodes are of unknown kinds, and no output of the graph
 * needs one: what a loss or a metric of training left behind. */
static bool refused_are_dead(struct onnx_import *im)
{
    struct pb_span name;
    bool dead = im->refused.first && im->refused.others == 0;
    int rc, v;

    for (const struct onnx_refusal *r = im->refused.first; r; r = r->next)
        dead &= r->rc == INFER_EUNSUPPORTED;
    for (size_t i = 0; dead && (rc = im->source->output(im, i, &name)) != 0;
         i++) {
        v = rc < 0 ? -1 : onnx_value_find(im, name);
        dead = v >= 0 && im->value[v].state != ONNX_FAILED;
    }
    return dead;
}

static int import_nodes(struct onnx_import *im)
{
    int rc = im->source->nodes(im);

    if (rc != INFER_EMEMORY && refused_are_dead(im)) {
        im->refused = (struct onnx_refusals){NULL, 0, 0};
        error_clear(im->err);
        return im->rc = 0;
    }
    if (rc == 0 && im->refused.first) /* in the body of a node */
        rc = im->refused.first->rc;
    report_refusals(im);
    if (rc == INFER_EMEMORY && im->err->code == INFER_OK)
        error_set(im->err, rc, "out of memory");
    return rc;
}

/* ---- outputs ------------------------------------------------------- */

/* A model whose literal batch was read as free must give that batch back, and
 * nothing else may follow it. */
static int check_freed(struct onnx_import *im, int value)
{
    const struct graph_type *t = im->type[value];
    int p, d;

    for (p = 0; im->freed_batch && p < im->probes; p++) {
        bool kept = t[p].rank >= 1 && t[p].dim[0] == probe_size(im, p, 0);

        for (d = 1; d < t[p].rank; d++)
            kept = kept && t[p].dim[d] == t[0].dim[d];
        if (!kept)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "an output loses the batch");
    }
    return 0;
}

static int file_output(struct onnx_import *im, size_t i, struct pb_span *out)
{
    const struct onnx_list *list = &im->model->graph.output;
    struct onnx_value_info info;
    int rc;

    if (i == list->count)
        return 0;
    rc = onnx_value_info_parse(im->model, list->item[i], im->err, &info);
    *out = info.name;
    return rc < 0 ? rc : 1;
}

static int add_outputs(struct onnx_import *im)
{
    struct pb_span name;
    size_t i;
    int v, value, rc;

    for (i = 0; (rc = im->source->output(im, i, &name)) > 0; i++) {
        v = onnx_value_find(im, name);
        if (v < 0 || im->value[v].state == ONNX_UNKNOWN)
            return onnx_fail(im, INFER_EFORMAT,
                             "nothing produces the graph output '%.*s'",
                             PB_TEXT(name, 128));
        if (onnx_settle_output(im, v, &value) < 0 || check_freed(im, value) < 0)
            return im->rc;
        rc = graph_add_output(im->g, value);
        if (rc < 0)
            return onnx_fail(im, rc, "graph output %zu cannot be added", i);
    }
    if (rc == 0 && i == 0)
        return onnx_fail(im, INFER_EFORMAT, "the graph has no outputs");
    for (i = 0; rc == 0 && (rc = im->source->output(im, i, &name)) > 0; i++)
        rc = onnx_count_output(im, onnx_value_find(im, name));
    return rc;
}

/* ---- the whole ----------------------------------------------------- */

static int set_name(struct onnx_import *im, struct pb_span graph)
{
    char *name;

    im->rc = onnx_string(&im->scratch, graph, "graph name", im->err, &name);
    if (im->rc < 0)
        return im->rc;
    free(im->g->name);
    im->g->name = strdup(name);
    return im->g->name ? 0 : onnx_no_memory(im);
}

static int build_graph(struct onnx_import *im, struct pb_span name)
{
    int rc;

    im->g = graph_new();
    if (!im->g)
        return onnx_no_memory(im);
    if ((rc = set_name(im, name)) < 0 || (rc = im->source->constants(im)) < 0 ||
        (rc = add_inputs(im)) < 0 || (rc = import_nodes(im)) < 0 ||
        (rc = add_outputs(im)) < 0)
        return rc;
    graph_remove_dead(im->g);
    return graph_compact(im->g, im->err);
}

/* One attempt with these settings; *choice tells whether others could fare
 * better: a literal batch of 1 was read as free, or a free size was odd. */
static int attempt(struct onnx_import *settings, struct pb_span name,
                   bool *choice, struct graph **out)
{
    struct onnx_import im = *settings;
    int rc;

    error_clear(im.err);
    rc = build_graph(&im, name);
    *choice = im.freed_batch || (im.odd_sizes && im.free_extent);
    settings->free_extent = im.free_extent;
    if (rc == 0)
        *out = im.g;
    else
        graph_free(im.g);
    onnx_values_clear(&im);
    return rc;
}

/* Adds to a refusal that the inputs' open sizes are its reason, where a network
 * of other, fixed sizes is read or is refused in other words. */
static void explain_open_sizes(struct onnx_import *settings,
                               struct pb_span name)
{
    struct infer_error *err = settings->err, other;
    struct graph *g = NULL;
    bool choice;
    int rc;

    settings->err = &other;
    settings->fixed_sizes = true;
    rc = attempt(settings, name, &choice, &g);
    settings->fixed_sizes = false;
    settings->err = err;
    graph_free(g);
    if (rc == 0 || strcmp(other.text, err->text) != 0)
        error_add(err, err->code,
                  "the file leaves sizes of its inputs open, for which several "
                  "were tried: --input-shape fixes them");
}

/* Most files state a batch of 1 and mean any, and most with open sizes take odd
 * ones.  Where that reading does not work out, the batch stays as it is stated,
 * and the sizes are even. */
static int import_at_sizes(struct onnx_import *settings, struct pb_span name,
                           struct graph **out)
{
    bool choice;
    int rc;

    settings->freed_batch = settings->odd_sizes = true;
    rc = attempt(settings, name, &choice, out);
    settings->freed_batch = settings->odd_sizes = false;
    if (rc < 0 && choice && rc != INFER_EMEMORY)
        rc = attempt(settings, name, &choice, out);
    return rc;
}

/* A network that is refused at large sizes is read at smaller ones; where these
 * do not help, the first refusal stands. */
static int import_either(struct onnx_import *settings, struct pb_span name,
                         struct graph **out)
{
    struct infer_error first;
    int rc = import_at_sizes(settings, name, out), again;

    if (rc == 0 || rc == INFER_EMEMORY || !settings->free_extent)
        return rc;
    first = *settings->err;
    settings->small_sizes = true;
    again = import_at_sizes(settings, name, out);
    settings->small_sizes = false;
    if (again == 0 || again == INFER_EMEMORY)
        return again;
    *settings->err = first;
    explain_open_sizes(settings, name);
    return rc;
}

int onnx_import_graph(const struct onnx_source *source, void *context,
                      int64_t opset, struct pb_span name,
                      const struct weights_options *options,
                      struct infer_error *err, struct graph **out)
{
    struct onnx_import settings;

    memset(&settings, 0, sizeof(settings));
    settings.source = source;
    settings.context = context;
    settings.opset = opset;
    settings.options = options;
    settings.err = err;
    return import_either(&settings, name, out);
}

static int import_model(struct onnx_model *m,
                        const struct weights_options *options,
                        struct infer_error *err, struct graph **out)
{
    static const struct onnx_source file = {
        .constants = file_constants,
        .input = file_input,
        .nodes = file_nodes,
        .output = file_output,
        .load = file_load,
    };
    struct onnx_import settings;

    memset(&settings, 0, sizeof(settings));
    settings.source = &file;
    settings.model = m;
    settings.options = options;
    settings.err = err;
    return check_versions(&settings) < 0
               ? settings.rc
               : import_either(&settings, m->graph.name, out);
}

static int read_onnx(struct weights_file *file,
                     const struct weights_options *options,
                     struct infer_error *err, struct weights_import *out)
{
    struct infer_error local;
    struct onnx_model m;
    int rc;

    if (!err)
        err = &local;
    rc = onnx_model_open(file->blob, file->path, err, &m);
    if (rc < 0)
        return rc;
    rc = import_model(&m, options, err, &out->graph);
    if (rc == 0) {
        rc = onnx_metadata_apply(&m, out->graph, err);
        snprintf(out->detail, sizeof(out->detail),
                 "opset %lld, IR version %lld, %.*s %.*s",
                 (long long)(m.opset ? m.opset : 1), (long long)m.ir_version,
                 PB_TEXT(m.producer, 40), PB_TEXT(m.producer_version, 24));
        out->bytes = file->blob->bytes + m.external_bytes;
    }
    onnx_model_close(&m);
    return rc;
}

/* ---- recognition --------------------------------------------------- */

/* A protobuf message whose first fields are those of a ModelProto: an IR
 * version first, as every writer puts it, or any known field with the right
 * wire type. */
static int probe_onnx(const struct weights_file *file)
{
    struct pb_reader r;
    struct pb_field f;
    int known = 0, n;

    pb_open(&r, file->blob->data, file->blob->bytes);
    for (n = 0; n < 16; n++) {
        int rc = pb_next(&r, &f, NULL);

        if (rc < 0)
            return known > 1 ? 40 : 0; /* cut off: this reader says where */
        if (rc == 0)
            break;
        if (f.number == 1 && f.wire == PB_VARINT && f.value >= 1 &&
            f.value <= 1000)
            known += 2;
        else if (f.number == 7 && f.wire == PB_BYTES)
            known += 2;
        else if (f.number == 8 && f.wire == PB_BYTES)
            known++;
        else if (f.number == 0 || f.number > 30)
            return 0;
    }
    return known >= 4 ? 90 : known >= 2 ? 50 : 0;
}

const struct weights_format weights_format_onnx = {
    "onnx", "ONNX model, opset 1 to 28", probe_onnx, read_onnx};
