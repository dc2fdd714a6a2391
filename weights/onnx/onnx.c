/* SPDX-License-Identifier: Apache-2.0 */
/* The importer of ONNX: a graph of its operators becomes ours, node by node. */
#include "weights/onnx/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/import.h"

/* ---- operators ----------------------------------------------------- */

static const struct onnx_op ops[] = {
#define ONNX_OP(name, since, until, function, param)                           \
    {name, since, until, function, param},
#include "weights/onnx/ops.def"
#undef ONNX_OP
};

static int compare_op(const void *name, const void *op)
{
    return strcmp(name, ((const struct onnx_op *)op)->name);
}

/* The table is sorted by name; a test holds it to that. */
const struct onnx_op *onnx_op_find(const char *name)
{
    return bsearch(name, ops, sizeof ops / sizeof *ops, sizeof *ops,
                   compare_op);
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
    if (!op) { /* some writers leave the domain out */
        char name[128];

        snprintf(name, sizeof name, "com.microsoft.%s", n->op);
        op = onnx_op_find(name);
    }
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
        if (rc > 0) {
            onnx_pass_narrow(im);
            onnx_note_sizes(im, true);
            return onnx_keep_maker(im);
        }
        if (rc < 0)
            return rc;
        im->param = op->param;
        if (onnx_reads_counted(im))
            onnx_import_counted(im, op);
        else if (onnx_check_sized(im) == 0)
            op->import(im);
        onnx_pass_narrow(im);
        onnx_note_sizes(im, false);
    }
    if (im->rc < 0 || im->skip)
        return im->rc < 0 ? im->rc : 1;
    return onnx_check_attributes(im);
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
        onnx_report_refusals(im);
    error_add(im->err, rc, "%s", fault->text);
    return rc;
}

/* A file's node is of ONNX's operators: it has to say of which version. */
static int check_plain(struct onnx_import *im)
{
    const char *domain = im->node->domain;

    return im->model->opset == 0 && im->model->ir_version >= 3 && !im->scope &&
                   (!*domain || strcmp(domain, "ai.onnx") == 0)
               ? onnx_fail(im, INFER_EFORMAT,
                           "the model imports no version of the ONNX operators")
               : 0;
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
        rc = check_plain(im) < 0 ? im->rc : onnx_scope_node(im, &node);
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

static int import_nodes(struct onnx_import *im)
{
    int rc = im->source->nodes(im);

    if (rc != INFER_EMEMORY && onnx_refused_are_dead(im)) {
        im->refused = (struct onnx_refusals){NULL, 0, 0};
        error_clear(im->err);
        return im->rc = 0;
    }
    if (rc == 0 && im->refused.first) /* in the body of a node */
        rc = onnx_first_refusal(im);
    onnx_report_refusals(im);
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
        bool kept = t[p].rank >= 1 && t[p].dim[0] == onnx_probe_size(im, p, 0);

        for (d = 1; d < t[p].rank; d++)
            kept = kept && t[p].dim[d] == t[0].dim[d];
        if (!kept)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "an output loses the batch");
    }
    return 0;
}

/* What is an output already becomes another one by a copy. */
static int copy_output(struct onnx_import *im, int *value)
{
    const struct onnx_node *before = im->node;
    const struct onnx_node node = {.name = (char *)"output"};

    if (!graph_is_output(im->g, *value))
        return im->rc;
    im->node = &node;
    onnx_emit_unary(im, KERN_IDENTITY, 0, 0, *value, -1, value);
    im->node = before;
    return im->rc;
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
        if (onnx_settle_output(im, v, &value) < 0 ||
            check_freed(im, value) < 0 || copy_output(im, &value) < 0)
            return im->rc;
        rc = graph_add_output(im->g, value);
        if (rc == INFER_EARGUMENT)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "graph output %zu is one too many", i);
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
        (rc = onnx_add_inputs(im)) < 0 || (rc = import_nodes(im)) < 0 ||
        (rc = add_outputs(im)) < 0)
        return rc;
    graph_remove_dead(im->g);
    rc = graph_compact(im->g, im->err);
    for (int i = 0; rc == 0 && i < im->g->n_values; i++)
        constant_fill(im->g->value[i].data);
    return rc;
}

/* One attempt with these settings; *choice tells whether others could fare
 * better: a literal batch of 1 was read as free, or a free size was odd. */
int onnx_attempt(struct onnx_import *settings, struct pb_span name,
                 bool *choice, struct graph **out)
{
    struct onnx_import im = *settings;
    int rc;

    error_clear(im.err);
    rc = build_graph(&im, name);
    if (im.numbers &&
        (rc == 0 || (im.refused_numbers && rc != INFER_EMEMORY))) {
        const int kept = onnx_numbers_of(&im, im.numbers);

        rc = kept < 0 ? kept : rc;
    }
    *choice = im.freed_batch || (im.odd_sizes && im.free_extent);
    settings->free_extent = im.free_extent;
    settings->drops_batch = im.drops_batch;
    settings->several = im.several;
    settings->worked = im.work - settings->work;
    settings->free_slots = im.free_slots;
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
    rc = onnx_attempt(settings, name, &choice, &g);
    settings->fixed_sizes = false;
    settings->err = err;
    graph_free(g);
    if (rc == 0 || (rc != INFER_EMEMORY && strcmp(other.text, err->text) != 0))
        error_add(err, err->code,
                  "the file leaves sizes of its inputs open, for which several "
                  "were tried: --input-shape fixes them");
}

/* Most files state a batch of 1 and mean any, and most with open sizes take odd
 * ones.  Where that reading does not work out, the batch stays as it is stated.
 * Where a network does not take odd sizes, its shapes being in conflict then,
 * they are even: not where a limit of this reader is in the way, since what the
 * network does at odd sizes would be lost without a word. */
static int import_at_sizes(struct onnx_import *settings, struct pb_span name,
                           struct graph **out)
{
    bool choice;
    int rc;

    settings->freed_batch = settings->odd_sizes = true;
    rc = onnx_attempt(settings, name, &choice, out);
    settings->freed_batch = false;
    if (rc < 0 && choice && settings->free_extent && rc != INFER_EMEMORY)
        rc = onnx_attempt(settings, name, &choice, out);
    settings->odd_sizes = false;
    if (rc < 0 && choice && rc != INFER_EMEMORY &&
        (rc == INFER_EFORMAT || !settings->free_extent))
        rc = onnx_attempt(settings, name, &choice, out);
    return rc;
}

/* The same, with what came of it compared at other sizes. */
static int import_checked(struct onnx_import *settings, struct pb_span name,
                          struct graph **out)
{
    struct onnx_numbers numbers = {NULL, 0};
    int rc;

    *out = NULL;
    settings->numbers = &numbers;
    rc = import_at_sizes(settings, name, out);
    settings->numbers = NULL;
    if (rc == 0 && settings->free_extent)
        rc = onnx_verify_sizes(settings, name, *out, &numbers);
    free(numbers.item);
    if (rc == 0 && settings->drops_batch)
        rc = onnx_verify_one(settings, name, *out);
    if (rc == 0 && settings->alike)
        rc = onnx_verify_alike(settings, *out);
    if (rc < 0) {
        graph_free(*out);
        *out = NULL;
    }
    return rc;
}

/* A network that is refused at large sizes is read at smaller ones; where these
 * do not help, the first refusal stands. */
int onnx_import_large_or_small(struct onnx_import *settings,
                               struct pb_span name, struct graph **out)
{
    struct infer_error first;
    int rc = import_checked(settings, name, out), again;

    if (rc == 0 || rc == INFER_EMEMORY || !settings->free_extent)
        return rc;
    first = *settings->err;
    settings->small_sizes = true;
    again = import_checked(settings, name, out);
    settings->small_sizes = false;
    if (again == 0 || again == INFER_EMEMORY)
        return again;
    *settings->err = first;
    return rc;
}

/* Several inputs may need to have one size, as the two pictures of a siamese
 * network, without saying so.  Where the network does not work out with sizes
 * of their own, they are taken for one. */
int onnx_import_either(struct onnx_import *settings, struct pb_span name,
                       struct graph **out)
{
    int rc = onnx_import_large_or_small(settings, name, out);

    if (rc < 0 && rc != INFER_EMEMORY && settings->free_extent &&
        settings->several) {
        settings->alike = true;
        rc = onnx_import_large_or_small(settings, name, out);
    }
    if (rc == INFER_EFORMAT && settings->free_extent && !settings->several)
        rc = onnx_import_few_sizes(settings, name, out);
    if (rc < 0 && rc != INFER_EMEMORY && settings->free_extent)
        explain_open_sizes(settings, name);
    settings->alike = false;
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
    return onnx_import_either(&settings, name, out);
}
