/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions of the table make steps and nodes with. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/error.h"
#include "weights/tensorflow/tensorflow.h"

/* ---- names --------------------------------------------------------- */

static struct pb_span join(struct onnx_import *im, struct pb_span name,
                           const char *word)
{
    const size_t n = strlen(word);
    unsigned char *p = onnx_alloc(&im->keep, name.bytes + 2 + n);

    if (!p)
        return (struct pb_span){NULL, 0};
    memcpy(p, name.data, name.bytes);
    p[name.bytes] = ':';
    memcpy(p + name.bytes + 1, word, n + 1);
    return (struct pb_span){p, name.bytes + 1 + n};
}

struct pb_span tf_value_name(struct onnx_import *im, struct tf_edge e)
{
    const struct tf_import *tf = im->context;
    const struct tf_node *n = &tf->graph.node[e.node];
    char number[16];

    if (e.port == 0)
        return n->renamed ? join(im, n->name, "file") : n->name;
    snprintf(number, sizeof number, "%d", e.port);
    return join(im, n->name, number);
}

struct pb_span tf_temp(struct onnx_import *im, const char *word)
{
    const struct tf_import *tf = im->context;

    return join(im, tf->graph.node[tf->node].name, word);
}

/* ---- attributes ---------------------------------------------------- */

struct onnx_attr tf_set_int(const char *name, int64_t value)
{
    return (struct onnx_attr){
        .name = (char *)name, .type = ONNX_ATTR_INT, .i = value};
}

struct onnx_attr tf_set_word(const char *name, const char *value)
{
    return (struct onnx_attr){.name = (char *)name,
                              .type = ONNX_ATTR_STRING,
                              .s = {(unsigned char *)value, strlen(value)}};
}

struct onnx_attr tf_set_ints(const char *name, const int64_t *value, int n)
{
    return (struct onnx_attr){.name = (char *)name,
                              .type = ONNX_ATTR_INTS,
                              .ints = (int64_t *)value,
                              .count = (size_t)n};
}

/* ---- steps --------------------------------------------------------- */

int tf_last(struct onnx_import *im, const char *op, const struct pb_span *in,
            int n_in, const struct onnx_attr *attr, int n_attr)
{
    return onnx_step(im, op, in, n_in, im->node->out[0], attr, n_attr);
}

struct pb_span tf_next(struct onnx_import *im, const char *op,
                       struct pb_span in, const char *word)
{
    const struct pb_span out = tf_temp(im, word);

    onnx_step(im, op, &in, 1, out, NULL, 0);
    return out;
}

struct pb_span tf_ints(struct onnx_import *im, const char *word,
                       const int64_t *value, int n)
{
    const struct pb_span out = tf_temp(im, word);
    const int64_t dim = n;
    struct constant *c;
    int v = 0;

    if (im->rc < 0)
        return out;
    c = constant_new(INFER_I64, 1, &dim);
    if (!c || out.bytes == 0)
        onnx_no_memory(im);
    else if (onnx_value_get(im, out, &v) == 0 &&
             im->value[v].state != ONNX_UNKNOWN)
        onnx_fail(im, INFER_EFORMAT, "two tensors are named '%.*s'",
                  PB_TEXT(out, 128));
    if (im->rc < 0) {
        constant_unref(c);
        return out;
    }
    if (n > 0)
        memcpy(c->data, value, (size_t)n * sizeof *value);
    im->value[v].constant = c;
    im->value[v].state = ONNX_CONSTANT;
    return out;
}

int tf_axis(struct onnx_import *im, int i, int64_t *out)
{
    int n = 0;

    onnx_input_ints(im, i, "the axis", 1, out, &n);
    if (im->rc == 0 && n != 1)
        onnx_fail(im, INFER_EFORMAT, "%d axes, expected 1", n);
    return im->rc;
}

/* ---- pictures ------------------------------------------------------ */

bool tf_channels_first(struct onnx_import *im)
{
    static const char *const words[] = {"NHWC", "NCHW", NULL};
    int word = 0;

    onnx_word(im, "data_format", words, &word);
    return word == 1;
}

int tf_picture(struct onnx_import *im, int i, bool channels_first, int *out)
{
    static const int64_t order[4] = {0, 3, 1, 2};
    struct graph_type t;

    if (onnx_input_type(im, i, 0, &t) == 0 && t.rank != 4)
        onnx_fail(im, INFER_EFORMAT, "input %d has rank %d; a picture has 4", i,
                  t.rank);
    if (onnx_input(im, i, out) < 0 || channels_first)
        return im->rc;
    im->emitted++; /* the node's name is for the operation itself */
    return onnx_emit_dims(im, GRAPH_TRANSPOSE, *out, 4, order, -1, out);
}

int tf_emit_picture(struct onnx_import *im, enum graph_op op,
                    const union graph_attr *attr, const int *in, int n_in,
                    bool channels_first)
{
    static const int64_t order[4] = {0, 2, 3, 1};
    int value;

    im->emitted = 0;
    onnx_emit(im, op, attr, in, n_in, channels_first ? 0 : -1, &value);
    if (im->rc < 0 || channels_first)
        return im->rc;
    return onnx_emit_dims(im, GRAPH_TRANSPOSE, value, 4, order, 0, NULL);
}

int tf_window_ints(struct onnx_import *im, const char *name,
                   bool channels_first, int *out)
{
    const int space = tf_space(channels_first);
    int64_t value[4];
    int n = -1;

    if (onnx_ints(im, name, 4, value, &n) < 0 || n < 0)
        return im->rc;
    if (n != 4)
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute '%s' has %d entries, expected 4", name, n);
    for (int d = 0; d < 4; d++) {
        const bool spatial = d == space || d == space + 1;

        if (value[d] < 1 || value[d] > INT32_MAX)
            return onnx_fail(im, INFER_EFORMAT, "attribute '%s' is %lld", name,
                             (long long)value[d]);
        if (!spatial && value[d] != 1)
            return onnx_fail(
                im, INFER_EUNSUPPORTED, "attribute '%s' is %lld for %s", name,
                (long long)value[d], d == 0 ? "the batch" : "the channels");
        if (spatial)
            out[d - space] = (int)value[d];
    }
    return 0;
}

static int explicit_paddings(struct onnx_import *im, bool channels_first,
                             int *begin, int *end)
{
    const int space = tf_space(channels_first);
    int64_t pad[8];
    int n = 0;

    if (onnx_ints(im, "explicit_paddings", 8, pad, &n) < 0)
        return im->rc;
    if (n != 8)
        return onnx_fail(im, INFER_EFORMAT,
                         "attribute 'explicit_paddings' has %d entries, "
                         "expected 8",
                         n);
    for (int i = 0; i < 8; i++) {
        const int d = i / 2 - space;

        if (pad[i] < 0 || pad[i] > INT32_MAX || ((d < 0 || d > 1) && pad[i]))
            return onnx_fail(im, INFER_EFORMAT,
                             "attribute 'explicit_paddings' is %lld",
                             (long long)pad[i]);
        if (d >= 0 && d <= 1)
            (i % 2 ? end : begin)[d] = (int)pad[i];
    }
    return 0;
}

int tf_padding(struct onnx_import *im, bool channels_first,
               enum graph_auto_pad *auto_pad, int *begin, int *end)
{
    static const char *const words[] = {"VALID", "SAME", "EXPLICIT", NULL};
    int word = -1;

    if (onnx_word(im, "padding", words, &word) < 0)
        return im->rc;
    if (word < 0)
        return onnx_fail(im, INFER_EFORMAT, "attribute 'padding' is missing");
    *auto_pad = word == 0   ? GRAPH_PAD_VALID
                : word == 1 ? GRAPH_PAD_SAME_UPPER
                            : GRAPH_PAD_EXPLICIT;
    if (word == 2)
        return explicit_paddings(im, channels_first, begin, end);
    onnx_ignore(im, "explicit_paddings");
    return im->rc;
}
