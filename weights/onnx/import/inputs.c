/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of an ONNX graph: types, free sizes, given shapes. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/scalar.h"
#include "weights/narrow.h"
#include "weights/onnx/import.h"

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

/* The numbers that the user gave for an input, or NULL. */
static struct weights_input_value *given_value(const struct onnx_import *im,
                                               const char *name)
{
    for (int i = 0; i < im->options->input_value_count; i++)
        if (strcmp(im->options->input_value[i].name, name) == 0)
            return &im->options->input_value[i];
    return NULL;
}

/* The input becomes a constant.  Open dimensions are 1, but for the one of a
 * list, which has as many elements as numbers are given. */
static int fix_input(struct onnx_import *im, struct onnx_value_info *info,
                     const char *name, int v, struct weights_input_value *given)
{
    const enum infer_dtype dtype = input_dtype(info->elem_type);
    struct constant *c;
    int64_t count;

    given->used = true;
    if (im->value[v].constant)
        return onnx_fail(im, INFER_EFORMAT, "two inputs are named '%s'", name);
    if (narrow_dtype(info->elem_type) != INFER_NONE)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "--input-value: input '%s' is a tensor of less than 8 "
                         "bits or of 8-bit floats",
                         name);
    for (int d = 0; d < info->rank; d++)
        if (info->dim[d] < 0)
            info->dim[d] = info->rank == 1 ? given->count : 1;
    if (onnx_new_constant(im, dtype, info->rank, info->dim, &c) < 0)
        return im->rc;
    count = constant_count(c);
    if (given->count != 1 && given->count != count) {
        constant_unref(c);
        return onnx_fail(im, INFER_EARGUMENT,
                         "--input-value: input '%s' has %lld elements, %d are "
                         "given",
                         name, (long long)count, given->count);
    }
    for (int64_t k = 0; k < count; k++) {
        const double number = given->value[given->count > 1 ? k : 0];

        scalar_store(dtype, c->data, k, number);
        if (scalar_is_integer(dtype) &&
            scalar_load(dtype, c->data, k) != number) {
            constant_unref(c);
            return onnx_fail(im, INFER_EARGUMENT,
                             "--input-value: input '%s' is %s, which cannot "
                             "hold %g",
                             name, infer_dtype_name(dtype), number);
        }
    }
    im->value[v].constant = c;
    im->value[v].state = ONNX_CONSTANT;
    return 0;
}

static int add_input(struct onnx_import *im, const struct onnx_value_info *info,
                     const int *slot, const char *name, int v)
{
    enum infer_dtype dtype = input_dtype(info->elem_type);
    struct graph_type type[ONNX_PROBES];
    int p, d, value;

    memset(type, 0, sizeof(type));
    for (p = 0; p < im->probes; p++) {
        type[p].dtype = dtype;
        type[p].rank = info->rank;
        for (d = 0; d < info->rank; d++)
            type[p].dim[d] = info->dim[d] < 0 ? onnx_probe_size(im, p, slot[d])
                                              : info->dim[d];
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
    int slot[INFER_MAX_RANK]; /* of its free dimensions (sizes.c) */
};

static int list_inputs(struct onnx_import *im, struct input **out, int *n)
{
    const struct weights_input_shape *given;
    struct weights_input_value *fixed;
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
        fixed = given_value(im, in.name);
        if (check_input(im, &in.info, in.name, given) == 0 && fixed) {
            fix_input(im, &in.info, in.name, in.value, fixed);
        } else if (im->rc == 0) {
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

/* Whether a free dimension's name says which size it is: some writers put a
 * mark there that says "unknown". */
static bool is_named(struct pb_span symbol)
{
    return symbol.bytes > 0 && symbol.data[0] != '?' &&
           !pb_span_is(symbol, "None");
}

static bool same_span(struct pb_span a, struct pb_span b)
{
    return a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0;
}

static bool slot_is_used(const struct input *in, int slot)
{
    for (int d = 0; d < in->info.rank; d++)
        if (in->info.dim[d] < 0 && in->slot[d] == slot)
            return true;
    return false;
}

/* Inputs whose names of dimensions are looked at. */
#define MAX_NAMED 64

/* The size that was given for a dimension of this name, or -1. */
static int64_t given_size(const struct input *input, int n,
                          struct pb_span symbol)
{
    for (int i = 0; i < n; i++)
        for (int d = 0; input[i].given && d < input[i].info.rank; d++)
            if (input[i].info.dim[d] >= 0 &&
                same_span(input[i].info.symbol[d], symbol))
                return input[i].info.dim[d];
    return -1;
}

/* A size that --input-shape gives one input is that of all dimensions of its
 * name in inputs without a shape of their own. */
static void share_given_sizes(struct input *input, int n)
{
    for (int i = 0; i < n; i++)
        for (int d = 0; !input[i].given && d < input[i].info.rank; d++)
            if (input[i].info.dim[d] < 0 && is_named(input[i].info.symbol[d]))
                input[i].info.dim[d] =
                    given_size(input, n, input[i].info.symbol[d]);
}

/* The slot that a dimension of the name of input n's dimension d has in an
 * input before it, or -1: states S,N,H of a batch N, say.  The same axis comes
 * first: two dimensions of one input are never taken for one. */
static int slot_of_name(const struct input *input, int n, int d)
{
    const struct pb_span symbol = input[n].info.symbol[d];

    for (int other = 0; other < 2; other++)
        for (int i = 0; i < n && i < MAX_NAMED; i++)
            for (int k = 0; k < input[i].info.rank; k++)
                if ((k == d || other) && input[i].info.dim[k] < 0 &&
                    same_span(input[i].info.symbol[k], symbol) &&
                    !slot_is_used(&input[n], input[i].slot[k]))
                    return input[i].slot[k];
    return -1;
}

/* Gives each free dimension behind the batch a slot of its own, and the first
 * ones slot 0; dimensions of one name in several inputs share one. */
static void give_slots(struct onnx_import *im, struct input *input, int n)
{
    bool taken[INFER_MAX_RANK] = {false};
    int next = INFER_MAX_RANK;

    im->several = false;
    im->free_slots = 0;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < input[i].info.rank; d++)
            input[i].slot[d] = d == 0 ? 0 : -1;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < input[i].info.rank; d++) {
            int slot = -1;

            if (input[i].info.dim[d] >= 0)
                continue;
            if (!im->alike && is_named(input[i].info.symbol[d]))
                slot = slot_of_name(input, i, d);
            if (slot < 0 && (im->alike || !taken[d] || d == 0))
                slot = d;
            else if (slot < 0)
                slot = next++;
            if (slot == d)
                taken[d] = true;
            input[i].slot[d] = slot;
            im->several |= slot != d;
            im->free_slots |= slot == d && d > 0 ? 1u << d : 0;
        }
}

int onnx_add_inputs(struct onnx_import *im)
{
    struct input *input;
    bool free_dims = false;
    int i, n;

    list_inputs(im, &input, &n);
    if (im->freed_batch && (im->rc < 0 || !can_free_batch(input, n)))
        im->freed_batch = false;
    if (im->rc == 0) {
        share_given_sizes(input, n);
        give_slots(im, input, n);
    }
    for (i = 0; i < n; i++) {
        if (im->freed_batch)
            input[i].info.dim[0] = -1;
        for (int d = 0; im->fixed_sizes && d < input[i].info.rank; d++)
            if (input[i].info.dim[d] < 0)
                input[i].info.dim[d] = onnx_fixed_size(im, input[i].slot[d]);
        free_dims |= has_free(&input[i].info, 0);
        im->free_extent |= has_free(&input[i].info, 1);
    }
    im->probes = free_dims ? ONNX_PROBES : 1;
    for (i = 0; i < n && im->rc == 0; i++)
        add_input(im, &input[i].info, input[i].slot, input[i].name,
                  input[i].value);
    free(input);
    return im->rc;
}
