/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of an ONNX graph: types, free sizes, given shapes. */
#include <stdlib.h>
#include <string.h>

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

/* Sizes of a free dimension at the probes.  Each free dimension gets sizes of
 * its own, so that no two are ever mistaken for one another.  Spatial ones are
 * large and divide well, as some networks need them.  Where the network takes
 * it, the second is above a multiple of 32 by 1, 3, ... and the third below
 * by as much, each dimension by a number of its own: one of them stays odd when
 * it is halved again and again upwards, the other when downwards, so that
 * "twice this tensor" and "as large as that one" are two things at every
 * stride, and what is missing to a multiple tells the dimensions apart.  The
 * binary digits of the last two alternate in several ways, so that multiples of
 * 2, 4, 8, ... of what such strides leave are different numbers.
 * Attention between all pixels is beyond any memory at these sizes; smaller
 * ones are tried after them. */
int64_t onnx_probe_size(const struct onnx_import *im, int probe, int dimension)
{
    const int64_t k = 3 * (int64_t)probe + dimension;
    const int more = 2 * dimension - 3;
    static const signed char others[2][INFER_MAX_RANK] = {
        {0, 11, 21, 19, 13, 25, 7, 29}, {0, -21, -22, -27, -19, -11, -25, -13}};
    const int add = !im->odd_sizes || probe == 0 ? 0
                    : probe == 1                 ? more
                    : probe == 2                 ? -more
                                                 : others[probe - 3][dimension];

    /* No progression, which rounded sizes of the others may be. */
    if (dimension == 0)
        return probe < 3 ? probe + 1 : 8 - probe;
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
                info->dim[d] < 0 ? onnx_probe_size(im, p, d) : info->dim[d];
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

int onnx_add_inputs(struct onnx_import *im)
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
                input[i].info.dim[d] = onnx_probe_size(im, 1, d);
        free_dims |= has_free(&input[i].info, 0);
        im->free_extent |= has_free(&input[i].info, 1);
    }
    im->probes = free_dims ? ONNX_PROBES : 1;
    for (i = 0; i < n && im->rc == 0; i++)
        add_input(im, &input[i].info, input[i].name, input[i].value);
    free(input);
    return im->rc;
}
