/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that are computed from free sizes and used as data.
 *
 * They are folded while importing, for each probe.  The nodes that made them
 * are kept: where such a number is data, and no plain formula of one size gives
 * it, these nodes are imported into the graph after all.  The number is then
 * computed at run time by the file's own arithmetic, from the sizes of tensors.
 */
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/composed/compose.h"

/* Nodes of which one needs the next. */
#define MAX_UNFOLDED 48

/* ---- nodes that are kept ------------------------------------------- */

static void *kept(struct onnx_import *im, const void *data, size_t bytes)
{
    void *p = onnx_alloc(&im->keep, bytes + 1);

    if (p && bytes > 0)
        memcpy(p, data, bytes);
    return p;
}

static bool keep_attr(struct onnx_import *im, struct onnx_attr *a)
{
    a->name = kept(im, a->name, strlen(a->name) + 1);
    a->s.data = kept(im, a->s.data, a->s.bytes);
    if (a->floats)
        a->floats = kept(im, a->floats, a->count * sizeof *a->floats);
    if (a->ints)
        a->ints = kept(im, a->ints, a->count * sizeof *a->ints);
    a->strings = NULL; /* no arithmetic on sizes has any */
    return a->name && a->s.data;
}

static struct onnx_node *keep_node(struct onnx_import *im)
{
    const struct onnx_node *n = im->node;
    struct onnx_node *copy = kept(im, n, sizeof *n);

    if (!copy)
        return NULL;
    copy->name = (char *)"";
    copy->domain = (char *)"";
    copy->op = kept(im, n->op, strlen(n->op) + 1);
    copy->in = kept(im, n->in, (size_t)n->n_in * sizeof *n->in);
    copy->out = kept(im, n->out, (size_t)n->n_out * sizeof *n->out);
    copy->attr = kept(im, n->attr, (size_t)n->n_attr * sizeof *n->attr);
    if (!copy->op || !copy->in || !copy->out || !copy->attr)
        return NULL;
    for (int i = 0; i < n->n_attr; i++)
        if (!keep_attr(im, &copy->attr[i]))
            return NULL;
    return copy;
}

int onnx_keep_maker(struct onnx_import *im)
{
    int v;

    if (im->rc < 0 || im->probes == 1 || im->freed_batch ||
        im->node->n_out != 1 || !onnx_has_output(im, 0) || *im->node->domain)
        return im->rc;
    v = onnx_value_find(im, im->node->out[0]);
    if (v < 0 || im->value[v].state != ONNX_SMALL || im->value[v].sized ||
        onnx_small_is_fixed(im, im->value[v].small))
        return im->rc;
    im->value[v].maker = keep_node(im);
    return im->value[v].maker ? im->rc : onnx_no_memory(im);
}

/* ---- nodes in the graph -------------------------------------------- */

/* Whether the node makes integers of floats: single precision could round
 * another way than the file's arithmetic. */
static bool rounds(struct onnx_import *im)
{
    static const char *const words[] = {"Floor", "Ceil", "Round"};
    struct graph_type t, out;

    t = onnx_type_of_input(im, 0, 0);
    if (!scalar_is_float(t.dtype))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(im->node->op, words[i]) == 0)
            return true;
    return onnx_named_type(im, im->node->out[0], 0, &out) == 0 &&
           !scalar_is_float(out.dtype);
}

/* The sizes of a tensor, or some of them; their product. */
static int sizes(struct onnx_import *im, bool product)
{
    const int x = compose_input(im, 0), rank = compose_rank(im, x);
    int64_t begin = 0, end = rank;
    int part[INFER_MAX_RANK], all;

    onnx_int(im, "start", INT64_MIN, INT64_MAX, &begin);
    onnx_int(im, "end", INT64_MIN, INT64_MAX, &end);
    begin = begin < -rank ? 0 : begin < 0 ? begin + rank : begin;
    end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
    if (im->rc < 0 || begin >= end)
        return -1;
    for (int64_t d = begin; d < end; d++)
        part[d] = compose_reshape(im, compose_entries(im, x, (int)d), 1,
                                  (const int64_t[]){1});
    if (!product)
        return compose_concat(im, (int)(end - begin), part + begin, 0);
    all = part[begin];
    for (int64_t d = begin + 1; d < end; d++)
        all = compose_binary(im, KERN_MUL, all, part[d]);
    return compose_reshape(im, all, 0, NULL);
}

/* Imports the current node, whose output is of this name. */
static int import(struct onnx_import *im, struct pb_span out)
{
    const struct onnx_op *op = onnx_op_find(im->node->op);
    const int param = im->param;
    int v, value = -1;

    if (strcmp(im->node->op, "Shape") == 0)
        return sizes(im, false);
    if (strcmp(im->node->op, "Size") == 0)
        return sizes(im, true);
    if (!op || im->opset < op->since || (op->until && im->opset > op->until))
        return -1;
    im->param = op->param;
    op->import(im);
    im->param = param;
    v = onnx_value_find(im, out);
    if (im->rc == 0 && v >= 0 && im->value[v].state == ONNX_GRAPH)
        value = im->value[v].graph;
    return value;
}

/* Whether the graph's value has the type and the shapes of the small one. */
static bool is_like(const struct onnx_import *im, int value,
                    const struct onnx_small *const *small)
{
    for (int p = 0; p < im->probes; p++) {
        const struct graph_type *t = &im->type[value][p];

        if (t->dtype != small[p]->dtype || t->rank != small[p]->rank)
            return false;
        for (int d = 0; d < t->rank; d++)
            if (t->dim[d] != small[p]->dim[d])
                return false;
    }
    return true;
}

/* Nodes that are looked at for one that chooses. */
#define MAX_LOOKED_AT 256

static bool chooses(const struct onnx_import *im, int v, int *left)
{
    static const char *const words[] = {"Clip", "Max", "Min", "Where"};
    const struct onnx_node *maker = v < 0 ? NULL : im->value[v].maker;

    if (!maker || --*left < 0)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(maker->op, words[i]) == 0)
            return true;
    for (int i = 0; i < maker->n_in; i++)
        if (maker->in[i].bytes > 0 &&
            chooses(im, onnx_value_find(im, maker->in[i]), left))
            return true;
    return false;
}

bool onnx_is_chosen(const struct onnx_import *im, int v)
{
    int left = MAX_LOOKED_AT;

    return chooses(im, v, &left);
}

int onnx_unfold(struct onnx_import *im, int v, int *value)
{
    const struct onnx_node *own = im->node, *maker = im->value[v].maker;
    const struct onnx_small *const *small =
        (const struct onnx_small *const *)im->value[v].small;
    const int emitted = im->emitted++; /* the name of the node stays free */
    struct onnx_node node;
    struct pb_span out;

    *value = -1;
    if (im->rc < 0 || !maker || im->unfolding == MAX_UNFOLDED)
        return im->rc;
    im->unfolding++;
    node = *maker;
    im->node = &node;
    if (!rounds(im)) {
        out = onnx_fresh_name(im, im->value[v].name);
        node.out = &out;
        if (im->rc == 0)
            *value = import(im, out);
    }
    /* Why it is none stands in the caller's message. */
    if (im->rc < 0 && im->rc != INFER_EMEMORY)
        im->rc = 0;
    if (*value >= 0 && !is_like(im, *value, small))
        *value = -1;
    im->node = own;
    im->unfolding--;
    im->emitted = emitted;
    return im->rc;
}
