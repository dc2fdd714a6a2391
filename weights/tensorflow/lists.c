/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of tensors (TensorList...), which loops over time steps read their
 * input from and write their output to.
 *
 * A list is no value of the graph.  Each operator that makes one makes a
 * version: what it changed, and the version before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* Changes of one list: each read walks back over them. */
#define MAX_CHANGES (2 * TF_MAX_ITERATIONS)

/* A version of a list. */
struct tf_list {
    struct tf_list *before; /* NULL: the first one */
    int64_t count;          /* of items; -1: depends on a free size */
    int64_t at;             /* the item that was set */
    int changes;
    struct pb_span item; /* the item; of the first version all, or empty */
};

/* The version that input i names, or NULL after a failure. */
static const struct tf_list *list_in(struct onnx_import *im, int i)
{
    struct tf_import *tf = im->context;
    struct tf_edge e;

    if (im->rc < 0)
        return NULL;
    im->rc = tf_input(&tf->graph, tf->node, i, im->err, &e);
    if (im->rc < 0)
        return NULL;
    if (!tf->list[e.node] || e.port != 0) {
        onnx_fail(im, INFER_EUNSUPPORTED, "a list that no operator made");
        return NULL;
    }
    return tf->list[e.node];
}

static int list_out(struct onnx_import *im, struct tf_list version)
{
    const int64_t none = 0;
    struct tf_import *tf = im->context;
    struct tf_list *l;

    if (im->rc < 0)
        return im->rc;
    /* Whoever reads the list as data finds an array without elements. */
    if (onnx_set_constant(im, 0, constant_new(INFER_BOOL, 1, &none)) < 0)
        return im->rc;
    l = onnx_alloc(&im->keep, sizeof *l);
    if (!l)
        return onnx_no_memory(im);
    *l = version;
    tf->list[tf->node] = l;
    return 0;
}

static int check_count(struct onnx_import *im, int64_t count)
{
    if (im->rc == 0 && (count < 0 || count > TF_MAX_ITERATIONS))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "%lld items; at most %d are supported",
                         (long long)count, TF_MAX_ITERATIONS);
    return im->rc;
}

/* Of a free number of items any may be there. */
static bool has_item(const struct tf_list *l, int64_t at)
{
    return at >= 0 && (l->count < 0 || at < l->count);
}

static int not_there(struct onnx_import *im, int64_t at,
                     const struct tf_list *l)
{
    return onnx_fail(im, INFER_EFORMAT, "item %lld of a list of %lld",
                     (long long)at, (long long)l->count);
}

static void ignore_types(struct onnx_import *im)
{
    onnx_ignore(im, "element_dtype");
    onnx_ignore(im, "shape_type");
    onnx_ignore(im, "num_elements");
}

/* TensorListReserve(element_shape, num_elements) */
int tf_list_reserve(struct onnx_import *im)
{
    int64_t count = 0;

    onnx_arity(im, 2, 2);
    ignore_types(im);
    tf_axis(im, 1, &count);
    check_count(im, count);
    return list_out(im, (struct tf_list){.count = count});
}

/* TensorListFromTensor(tensor, element_shape) */
int tf_list_from_tensor(struct onnx_import *im)
{
    struct graph_type t;
    int64_t count = 0;

    onnx_arity(im, 2, 2);
    ignore_types(im);
    for (int probe = 0; probe < im->probes && im->rc == 0; probe++) {
        if (onnx_input_type(im, 0, probe, &t) == 0 && t.rank < 1)
            onnx_fail(im, INFER_EFORMAT, "a scalar has no items");
        else if (im->rc == 0)
            count = probe == 0 || count == t.dim[0] ? t.dim[0] : -1;
    }
    return list_out(im,
                    (struct tf_list){.count = count, .item = im->node->in[0]});
}

/* TensorListSetItem(list, index, item) */
int tf_list_set(struct onnx_import *im)
{
    const struct tf_list *l;
    int64_t at = 0, resize = 0;

    onnx_arity(im, 3, 3);
    ignore_types(im);
    onnx_int(im, "resize_if_index_out_of_bounds", 0, 1, &resize);
    l = list_in(im, 0);
    tf_axis(im, 1, &at);
    if (im->rc < 0)
        return im->rc;
    if (!has_item(l, at) && (at < 0 || !resize))
        return not_there(im, at, l);
    if (!has_item(l, at) && at >= TF_MAX_ITERATIONS)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "item %lld of a list; at most %d items are supported",
                         (long long)at, TF_MAX_ITERATIONS);
    if (l->changes == MAX_CHANGES)
        return onnx_fail(im, INFER_EUNSUPPORTED, "a list that changes %d times",
                         MAX_CHANGES);
    return list_out(
        im, (struct tf_list){.before = (struct tf_list *)l,
                             .count = has_item(l, at) ? l->count : at + 1,
                             .at = at,
                             .changes = l->changes + 1,
                             .item = im->node->in[2]});
}

/* Item `at` of the tensor that a list was made from. */
static struct pb_span part(struct onnx_import *im, struct pb_span tensor,
                           int64_t at, struct pb_span out)
{
    const struct onnx_attr axis = tf_set_int("axis", 0);
    const struct pb_span in[2] = {tensor, onnx_step_ints(im, 0, 1, &at)};

    onnx_step(im, "Gather", in, 2, out, &axis, 1);
    return out;
}

static int not_set(struct onnx_import *im, int64_t at)
{
    return onnx_fail(im, INFER_EUNSUPPORTED,
                     "item %lld of the list is read and was not set",
                     (long long)at);
}

/* TensorListGetItem(list, index, element_shape) */
int tf_list_get(struct onnx_import *im)
{
    const struct tf_list *l;
    int64_t at = 0;

    onnx_arity(im, 2, 3);
    ignore_types(im);
    l = list_in(im, 0);
    tf_axis(im, 1, &at);
    if (im->rc < 0)
        return im->rc;
    if (!has_item(l, at))
        return not_there(im, at, l);
    while (l->before && l->at != at)
        l = l->before;
    if (l->before)
        return tf_last(im, "Identity", &l->item, 1, NULL, 0);
    if (!l->item.bytes || !has_item(l, at))
        return not_set(im, at);
    part(im, l->item, at, im->node->out[0]);
    return im->rc;
}

/* The items of a list that was changed. */
static int stack_items(struct onnx_import *im, const struct tf_list *l,
                       int64_t count)
{
    const struct onnx_attr attr = tf_set_int("axis", 0);
    const int64_t zero = 0;
    struct pb_span *item =
        onnx_alloc(&im->scratch, (size_t)count * sizeof *item);
    struct pb_span in[2];

    if (!item)
        return onnx_no_memory(im);
    memset(item, 0, (size_t)count * sizeof *item);
    for (; l->before; l = l->before)
        if (l->at < count && !item[l->at].bytes)
            item[l->at] = l->item;
    in[1] = tf_ints(im, "axis", &zero, 1);
    for (int64_t i = 0; i < count && im->rc == 0; i++) {
        char word[32];

        if (!item[i].bytes && (!l->item.bytes || i >= l->count))
            return not_set(im, i);
        snprintf(word, sizeof word, "item%lld", (long long)i);
        in[0] =
            item[i].bytes ? item[i] : part(im, l->item, i, tf_temp(im, word));
        snprintf(word, sizeof word, "part%lld", (long long)i);
        item[i] = tf_temp(im, word);
        onnx_step(im, "Unsqueeze", in, 2, item[i], NULL, 0);
    }
    return tf_last(im, "Concat", item, (int)count, &attr, 1);
}

/* TensorListStack(list, element_shape) */
int tf_list_stack(struct onnx_import *im)
{
    const struct tf_list *l;

    onnx_arity(im, 2, 2);
    ignore_types(im);
    l = list_in(im, 0);
    if (im->rc < 0)
        return im->rc;
    if (!l->before && l->item.bytes)
        return tf_last(im, "Identity", &l->item, 1, NULL, 0);
    if (l->count < 1)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         l->count == 0 ? "an empty list as a tensor"
                                       : "a list of a free number of items");
    if (check_count(im, l->count) < 0)
        return im->rc;
    return stack_items(im, l, l->count);
}
