/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that a node is told in: each is imported like one of the file. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/onnx/onnx.h"

int onnx_step(struct onnx_import *im, const char *op, const struct pb_span *in,
              int n_in, struct pb_span out, const struct onnx_attr *attr,
              int n_attr)
{
    if (im->rc == 0 && out.bytes == 0)
        return onnx_no_memory(im);
    return onnx_steps(im, op, in, n_in, &out, 1, attr, n_attr);
}

int onnx_steps(struct onnx_import *im, const char *op, const struct pb_span *in,
               int n_in, struct pb_span *out, int n_out,
               const struct onnx_attr *attr, int n_attr)
{
    const struct onnx_node *own = im->node;
    struct onnx_node step = {.name = own->name,
                             .op = (char *)op,
                             .domain = (char *)"",
                             .n_in = n_in,
                             .n_out = n_out,
                             .out = out,
                             .n_attr = n_attr};

    if (im->rc < 0)
        return im->rc;
    step.in = onnx_alloc(&im->scratch, (size_t)n_in * sizeof *step.in);
    step.attr = onnx_alloc(&im->scratch, (size_t)n_attr * sizeof *step.attr);
    if (!step.in || !step.attr)
        return onnx_no_memory(im);
    if (n_in > 0)
        memcpy(step.in, in, (size_t)n_in * sizeof *in);
    if (n_attr > 0)
        memcpy(step.attr, attr, (size_t)n_attr * sizeof *attr);
    im->node = &step;
    if (onnx_import_node(im) > 0)
        onnx_fail(im, INFER_EFORMAT, "a step's input was refused");
    im->node = own;
    return im->rc;
}

struct pb_span onnx_fresh_name(struct onnx_import *im, struct pb_span name)
{
    char number[16];
    const int n = snprintf(number, sizeof number, "@%u", ++im->fresh);
    unsigned char *p = onnx_alloc(&im->keep, name.bytes + (size_t)n + 1);

    if (!p) {
        onnx_no_memory(im);
        return (struct pb_span){NULL, 0};
    }
    if (name.bytes)
        memcpy(p, name.data, name.bytes);
    memcpy(p + name.bytes, number, (size_t)n);
    return (struct pb_span){p, name.bytes + (size_t)n};
}

struct pb_span onnx_step_constant(struct onnx_import *im, struct constant *c)
{
    const struct pb_span word = {(unsigned char *)"constant", 8};
    struct pb_span name = {NULL, 0};
    int v = 0;

    if (!c)
        onnx_no_memory(im);
    else if (im->rc == 0)
        name = onnx_fresh_name(im, word);
    if (im->rc == 0 && onnx_value_get(im, name, &v) == 0 &&
        im->value[v].state != ONNX_UNKNOWN)
        onnx_fail(im, INFER_EFORMAT, "two tensors are named '%.*s'",
                  PB_TEXT(name, 128));
    if (im->rc < 0) {
        constant_unref(c);
        return name;
    }
    im->value[v].constant = c;
    im->value[v].state = ONNX_CONSTANT;
    return name;
}

struct pb_span onnx_step_ints(struct onnx_import *im, int rank, int64_t n,
                              const int64_t *value)
{
    struct constant *c = constant_new(INFER_I64, rank, &n);

    if (c && c->bytes)
        memcpy(c->data, value, c->bytes);
    return onnx_step_constant(im, c);
}

/* ---- tensors by name ----------------------------------------------- */

/* The node with this one input, for the functions of onnx.h on inputs. */
static struct onnx_node reader_of(struct pb_span *name)
{
    return (struct onnx_node){.name = (char *)"",
                              .op = (char *)"",
                              .domain = (char *)"",
                              .in = name,
                              .n_in = 1};
}

int onnx_named_type(struct onnx_import *im, struct pb_span name, int probe,
                    struct graph_type *out)
{
    const struct onnx_node *own = im->node, node = reader_of(&name);

    im->node = &node;
    onnx_input_type(im, 0, probe, out);
    im->node = own;
    return im->rc;
}

struct graph_type onnx_type_named(struct onnx_import *im, struct pb_span name,
                                  int probe)
{
    struct graph_type t;

    onnx_named_type(im, name, probe, &t);
    return t;
}

const struct onnx_small *const *onnx_small_named(struct onnx_import *im,
                                                 struct pb_span name)
{
    const struct onnx_small *const *small;

    onnx_named_small(im, name, &small);
    return small;
}

int onnx_named_small(struct onnx_import *im, struct pb_span name,
                     const struct onnx_small *const **out)
{
    const struct onnx_node *own = im->node, node = reader_of(&name);

    im->node = &node;
    onnx_input_small(im, 0, out);
    im->node = own;
    return im->rc;
}
