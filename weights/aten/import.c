/* SPDX-License-Identifier: Apache-2.0 */
/* The import of a program, node by node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/aten/aten.h"

/* ---- operators ----------------------------------------------------- */

static const struct aten_op ops[] = {
#define ATEN_OP(name, parameters, view, function, onnx, param)                 \
    {name, parameters, view, function, onnx, param},
#include "weights/aten/ops.def"
#undef ATEN_OP
};

/* The table is sorted by name; a test holds it to that. */
const struct aten_op *aten_op_find(struct pb_span name)
{
    return bsearch(&name, ops, sizeof ops / sizeof *ops, sizeof *ops,
                   pb_span_order);
}

const struct aten_op *aten_op_of(struct pb_span name, bool *written)
{
    const struct aten_op *op = aten_op_find(name);

    *written = !op && name.bytes > 1 && name.data[name.bytes - 1] == '_' &&
               name.data[name.bytes - 2] != '_';
    if (*written)
        op = aten_op_find((struct pb_span){name.data, name.bytes - 1});
    return op;
}

/* ---- constants, inputs, outputs ------------------------------------ */

int aten_add_constant(struct onnx_import *im, const struct aten_constant *c)
{
    int v;

    if (onnx_value_get(im, c->name, &v) < 0)
        return im->rc;
    if (im->value[v].state != ONNX_UNKNOWN)
        return onnx_fail(im, INFER_EFORMAT, "two tensors are named '%.*s'",
                         PB_TEXT(c->name, 128));
    im->value[v].state = ONNX_LAZY;
    im->value[v].tensor = (struct pb_span){(unsigned char *)c, sizeof *c};
    return 0;
}

static int add_constants(struct onnx_import *im)
{
    const struct aten_program *p = aten_of(im)->program;

    aten_alias_clear(aten_of(im));
    aten_of(im)->assumes = false;
    for (int i = 0; i < p->n_constants && im->rc == 0; i++)
        aten_add_constant(im, &p->constant[i]);
    return im->rc;
}

static int load(struct onnx_import *im, struct pb_span tensor,
                struct constant **out)
{
    const struct aten_program *p = aten_of(im)->program;
    const struct aten_constant *c = (const void *)tensor.data;

    return p->load(im, p->user, c->index, out);
}

static int give_input(struct onnx_import *im, size_t i,
                      struct onnx_value_info *out)
{
    const struct aten_program *p = aten_of(im)->program;
    const struct aten_input *in = &p->input[i];
    struct pb_span *assumed;

    if (i >= (size_t)p->n_inputs)
        return 0;
    if (in->assumed) {
        assumed = aten_assumed(im, in->name);
        if (!assumed)
            return im->rc;
        *assumed = in->name;
        aten_of(im)->assumes = true;
    }
    *out = (struct onnx_value_info){.name = in->name,
                                    .is_tensor = true,
                                    .elem_type = aten_onnx_type(in->dtype),
                                    .rank = in->rank};
    memcpy(out->dim, in->dim, sizeof in->dim);
    memcpy(out->symbol, in->symbol, sizeof in->symbol);
    return 1;
}

static int give_output(struct onnx_import *im, size_t i, struct pb_span *out)
{
    const struct aten_program *p = aten_of(im)->program;

    if (p->unfinished)
        return INFER_EUNSUPPORTED;
    if (i >= (size_t)p->n_outputs)
        return 0;
    return aten_alias_read(im, p->output[i], out) < 0 ? im->rc : 1;
}

/* ---- nodes --------------------------------------------------------- */

static char *c_text(struct onnx_import *im, struct pb_span s)
{
    char *text = NULL;

    if (onnx_string(&im->scratch, s, "a name", im->err, &text) < 0)
        im->rc = im->err->code;
    return text ? text : (char *)"";
}

/* Tensors that the node reads, in order: of the lists inside as well. */
static int count_inputs(const struct aten_arg *a, int n)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        if (a[i].kind == ATEN_VALUE)
            count++;
        else if (a[i].kind == ATEN_LIST)
            count += count_inputs(a[i].item, a[i].n);
    return count;
}

static void list_inputs(const struct aten_arg *a, int n, struct pb_span **to)
{
    for (int i = 0; i < n; i++)
        if (a[i].kind == ATEN_VALUE)
            *(*to)++ = a[i].text;
        else if (a[i].kind == ATEN_LIST)
            list_inputs(a[i].item, a[i].n, to);
}

/* Notes what the nodes and the outputs read. */
static int mark_reads(struct onnx_import *im, const struct aten_arg *a, int n)
{
    for (int i = 0; i < n && im->rc == 0; i++)
        if (a[i].kind == ATEN_VALUE)
            aten_alias_mark(im, a[i].text);
        else if (a[i].kind == ATEN_LIST)
            mark_reads(im, a[i].item, a[i].n);
    return im->rc;
}

static int mark_all_reads(struct onnx_import *im)
{
    const struct aten_program *p = aten_of(im)->program;

    for (int i = 0; i < p->n_nodes && im->rc == 0; i++)
        mark_reads(im, p->node[i].arg, p->node[i].n_args);
    for (int i = 0; i < p->n_outputs && im->rc == 0; i++)
        aten_alias_mark(im, p->output[i]);
    return im->rc;
}

/* The node as one of ONNX, for names, inputs and outputs. */
static int stand_in(struct onnx_import *im, const struct aten_node *n)
{
    struct aten_context *c = aten_of(im);
    struct onnx_node *node = &c->current;
    struct pb_span *to;

    *node = (struct onnx_node){.domain = (char *)"",
                               .out = n->out,
                               .n_out = n->n_out,
                               .n_in = count_inputs(n->arg, n->n_args)};
    c->node = n;
    im->node = node;
    im->emitted = 0;
    im->rc = 0;
    node->name = (char *)"";
    node->op = c_text(im, n->op);
    if (n->n_out > 0 && n->out[0].bytes)
        node->name = c_text(im, n->out[0]);
    node->in =
        onnx_alloc(&im->scratch, (size_t)(node->n_in + 1) * sizeof *node->in);
    if (!node->in)
        return onnx_no_memory(im);
    to = node->in;
    list_inputs(n->arg, n->n_args, &to);
    return im->rc;
}

/* The first tensor that the node reads: what it views or writes into. */
static struct pb_span first_of(const struct aten_node *n)
{
    return n->n_args > 0 && n->arg[0].kind == ATEN_VALUE ? n->arg[0].text
                                                         : aten_no_input();
}

/* Whether the operator writes into its first input, by its name. */
static bool writes(struct pb_span op)
{
    return op.bytes > 1 && op.data[op.bytes - 1] == '_' &&
           op.data[op.bytes - 2] != '_';
}

/* 1: an input of it was refused. */
static int run_node(struct onnx_import *im, const struct aten_node *n)
{
    struct aten_context *c = aten_of(im);
    struct pb_span assumed;
    bool written;
    int rc;

    c->op = aten_op_of(n->op, &written);
    if (stand_in(im, n) < 0 || (c->op && c->op->import == aten_nothing))
        return im->rc;
    rc = onnx_check_node(im);
    if (rc != 0)
        return rc;
    if (!c->op)
        return onnx_fail(im, INFER_EUNSUPPORTED, "it is not supported");
    assumed = aten_assumed_of(im, n);
    if (im->rc < 0)
        return im->rc;
    c->op->import(im);
    for (int i = 0; i < n->n_out && im->rc == 0; i++)
        if (n->out[i].bytes && written)
            aten_alias_write(im, n->out[i], first_of(n));
        else if (n->out[i].bytes && c->op->view)
            aten_alias_view(im, n->out[i], first_of(n));
    if (assumed.bytes && im->rc == 0)
        aten_spread_assumed(im, n, assumed);
    return im->rc;
}

int aten_tell(struct onnx_import *im, const struct aten_node *node,
              const char *label, int *result)
{
    struct infer_error *err = im->err, fault;
    int rc;

    onnx_arena_reset(&im->scratch);
    error_clear(&fault);
    im->err = &fault;
    rc = run_node(im, node);
    if (rc != 0 && rc != INFER_EMEMORY && writes(node->op)) {
        im->rc = 0;
        if (aten_alias_fail(im, first_of(node)) < 0)
            rc = im->rc;
    }
    im->err = err;
    return onnx_end_node(im, rc, &fault, label, result) < 0 ? INFER_EMEMORY : 0;
}

static int run_nodes(struct onnx_import *im)
{
    const struct aten_program *p = aten_of(im)->program;
    char label[512];
    int result = 0;

    if (p->run)
        return p->run(im, p->user);
    if (mark_all_reads(im) < 0)
        return im->rc;
    for (int i = 0; i < p->n_nodes; i++) {
        const struct aten_node *n = &p->node[i];

        snprintf(label, sizeof label, "%.*s %.*s", PB_TEXT(n->op, 128),
                 PB_TEXT(n->n_out ? n->out[0] : n->op, 256));
        if (aten_tell(im, n, label, &result) < 0)
            return INFER_EMEMORY;
    }
    return result;
}

int aten_import(struct aten_program *program,
                const struct weights_options *options, struct infer_error *err,
                struct graph **out)
{
    static const struct onnx_source source = {
        .constants = add_constants,
        .input = give_input,
        .nodes = run_nodes,
        .output = give_output,
        .load = load,
    };
    struct aten_context context = {.program = program};
    int rc = onnx_import_graph(&source, &context, ATEN_OPSET,
                               (struct pb_span){NULL, 0}, options, err, out);

    aten_alias_clear(&context);
    return rc;
}
