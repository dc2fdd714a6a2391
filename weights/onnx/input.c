/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of the current node: as values of the graph, as constants, and as
 * numbers that are known while importing. */
#include <string.h>

#include "kernels/base/checked.h"
#include "weights/onnx/onnx.h"

bool onnx_has_input(const struct onnx_import *im, int i)
{
    return i < im->node->n_in && im->node->in[i].bytes > 0;
}

bool onnx_has_output(const struct onnx_import *im, int i)
{
    return i < im->node->n_out && im->node->out[i].bytes > 0;
}

int onnx_arity(struct onnx_import *im, int min, int max)
{
    int i;

    if (im->node->n_in < min || (max >= 0 && im->node->n_in > max))
        return onnx_fail(im, INFER_EFORMAT, "%d inputs", im->node->n_in);
    for (i = 0; i < min; i++)
        if (!onnx_has_input(im, i))
            return onnx_fail(im, INFER_EFORMAT, "input %d is missing", i);
    return im->rc;
}

int onnx_drop_outputs(struct onnx_import *im, int first)
{
    int i, v;

    for (i = first; i < im->node->n_out && im->rc == 0; i++)
        if (onnx_has_output(im, i) &&
            onnx_value_get(im, im->node->out[i], &v) == 0)
            im->value[v].state = ONNX_DROPPED;
    return im->rc;
}

/* Operators that take tensors of narrow types: those that move elements (the
 * first ones), quantise, dequantise, or give them another type. */
static const char *const takers[] = {
    "Identity",
    "Reshape",
    "Transpose",
    "Unsqueeze",
    "Squeeze",
    "Flatten",
    "Slice",
    "Split",
    "Expand",
    "Tile",
    "Gather",
    "Concat",
    "DequantizeLinear",
    "QuantizeLinear",
    "Cast",
    "CastLike",
    "Shape",
    "Size",
};
#define MOVERS 12

static bool takes_narrow(const char *op, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(op, takers[i]) == 0)
            return true;
    return false;
}

int onnx_input_narrow(const struct onnx_import *im, int i)
{
    const int v = im->rc < 0 || !onnx_has_input(im, i)
                      ? -1
                      : onnx_value_find(im, im->node->in[i]);

    return v < 0 ? 0 : im->value[v].narrow;
}

int onnx_set_narrow(struct onnx_import *im, int type)
{
    int v;

    if (im->rc == 0 && onnx_has_output(im, 0) &&
        onnx_value_get(im, im->node->out[0], &v) == 0)
        im->value[v].narrow = type;
    return im->rc;
}

void onnx_pass_narrow(struct onnx_import *im)
{
    const int type = onnx_input_narrow(im, 0);
    int v;

    if (type == 0 || !takes_narrow(im->node->op, MOVERS))
        return;
    for (int i = 0; i < im->node->n_out; i++)
        if (onnx_has_output(im, i) &&
            (v = onnx_value_find(im, im->node->out[i])) >= 0)
            im->value[v].narrow = type;
}

/* The value of input i, loaded; NULL where it is absent. */
static struct onnx_value *input_value(struct onnx_import *im, int i)
{
    int v;

    if (im->rc < 0 || !onnx_has_input(im, i))
        return NULL;
    v = onnx_value_find(im, im->node->in[i]);
    if (v < 0) { /* the driver has looked all inputs up */
        onnx_fail(im, INFER_EFORMAT, "input %d is unknown", i);
        return NULL;
    }
    if (onnx_load_lazy(im, &im->value[v]) < 0)
        return NULL;
    if (im->value[v].narrow &&
        !takes_narrow(im->node->op, sizeof takers / sizeof takers[0])) {
        onnx_fail(im, INFER_EUNSUPPORTED,
                  "input %d is a tensor of less than 8 bits or of 8-bit floats",
                  i);
        return NULL;
    }
    return &im->value[v];
}

int onnx_input(struct onnx_import *im, int i, int *out)
{
    const struct onnx_value *v = input_value(im, i);

    *out = -1;
    return v ? onnx_value_graph(im, (int)(v - im->value), out) : im->rc;
}

int onnx_input_weight(struct onnx_import *im, int i, struct constant **out)
{
    struct onnx_value *v = input_value(im, i);

    *out = v && onnx_load_small(im, v) == 0 && onnx_value_evaluate(im, v) == 0
               ? v->constant
               : NULL;
    return im->rc;
}

int onnx_input_constant(struct onnx_import *im, int i, struct constant **out)
{
    if (onnx_input_weight(im, i, out) == 0 && onnx_fill(im, *out) < 0)
        *out = NULL;
    return im->rc;
}

/* True where a constant is worth computing with while importing. */
static bool is_small(const struct constant *c)
{
    return constant_count(c) <= ONNX_MAX_SMALL && c->data;
}

/* The same of a value that the graph computes. */
static bool computes_small(const struct onnx_import *im,
                           const struct onnx_value *v)
{
    int64_t count = 0;

    return v->state == ONNX_GRAPH && im->fixed[v->graph] &&
           checked_count(im->type[v->graph][0].rank, im->type[v->graph][0].dim,
                         &count) &&
           count <= ONNX_MAX_SMALL;
}

bool onnx_input_is_known(const struct onnx_import *im, int i)
{
    const struct onnx_value *v =
        &im->value[onnx_value_find(im, im->node->in[i])];

    return v->state != ONNX_GRAPH || computes_small(im, v);
}

/* A constant that is too large for a list without being loaded: a few bytes of
 * a file may ask for many elements. */
static bool lazy_is_large(struct onnx_import *im, int i)
{
    struct onnx_value *v;
    int at;

    if (im->rc < 0 || !im->source->large || !onnx_has_input(im, i))
        return false;
    at = onnx_value_find(im, im->node->in[i]);
    v = at < 0 ? NULL : &im->value[at];
    if (!v || v->state != ONNX_LAZY)
        return false;
    if (v->large == 0)
        v->large = im->source->large(im, v->tensor) ? 1 : -1;
    return v->large > 0;
}

int onnx_input_small(struct onnx_import *im, int i,
                     const struct onnx_small *const **out)
{
    const struct onnx_small **small;
    struct onnx_small *s;
    struct onnx_value *v;
    int p;

    *out = NULL;
    if (lazy_is_large(im, i))
        return 0;
    v = input_value(im, i);
    if (!v)
        return im->rc;
    if (computes_small(im, v) && onnx_value_evaluate(im, v) < 0)
        return im->rc;
    if (!v->small && v->constant && is_small(v->constant)) {
        if (onnx_small_from_constant(im, v->constant, &s) < 0)
            return im->rc;
        small = onnx_alloc(&im->keep, sizeof(*small) * ONNX_PROBES);
        if (!small)
            return onnx_no_memory(im);
        for (p = 0; p < ONNX_PROBES; p++)
            small[p] = s;
        v->small = small;
    }
    *out = (const struct onnx_small *const *)v->small;
    return 0;
}

const struct onnx_small *const *onnx_small_input(struct onnx_import *im, int i)
{
    const struct onnx_small *const *small;

    onnx_input_small(im, i, &small);
    return small;
}

int onnx_input_list(struct onnx_import *im, int i, int probe, const char *what,
                    int64_t *out, int *n)
{
    const struct onnx_small *const *s;

    if (onnx_input_small(im, i, &s) < 0)
        return im->rc;
    if (!s)
        return onnx_fail(im, INFER_EUNSUPPORTED, "%s must not depend on data",
                         what);
    if (!s[probe]->i || s[probe]->rank > 1 ||
        s[probe]->count > INFER_MAX_RANK ||
        (*n >= 0 && *n != (int)s[probe]->count))
        return onnx_fail(im, INFER_EFORMAT,
                         "%s is no list of at most %d integers", what,
                         INFER_MAX_RANK);
    *n = (int)s[probe]->count;
    memcpy(out, s[probe]->i, (size_t)*n * sizeof(*out));
    return 0;
}

int onnx_input_lists(struct onnx_import *im, int i, const char *what,
                     int64_t (*out)[INFER_MAX_RANK], int *n)
{
    int p, all = -1;

    for (p = 0; p < im->probes && im->rc == 0; p++)
        onnx_input_list(im, i, p, what, out[p], &all);
    if (im->rc == 0)
        *n = all;
    return im->rc;
}

int onnx_input_ints(struct onnx_import *im, int i, const char *what, int max,
                    int64_t *out, int *n)
{
    const struct onnx_small *const *small;

    if (onnx_input_small(im, i, &small) < 0 || !onnx_has_input(im, i))
        return im->rc;
    if (!small && !onnx_input_is_known(im, i))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "%s must be a constant, but is computed at run time",
                         what);
    if (!small)
        return onnx_fail(im, INFER_EFORMAT, "%s has more than %d entries", what,
                         max);
    if (!onnx_small_is_fixed(im, small))
        return onnx_fail(im, INFER_EUNSUPPORTED, "%s depends on the batch",
                         what);
    if (!small[0]->i)
        return onnx_fail(im, INFER_EFORMAT, "%s must be integers, not %s", what,
                         infer_dtype_name(small[0]->dtype));
    if (small[0]->rank > 1 || small[0]->count > max)
        return onnx_fail(im, INFER_EFORMAT,
                         "%s has rank %d and %lld entries, at most %d are read",
                         what, small[0]->rank, (long long)small[0]->count, max);
    *n = (int)small[0]->count;
    memcpy(out, small[0]->i, (size_t)*n * sizeof(*out));
    return 0;
}

int onnx_input_float(struct onnx_import *im, int i, const char *what,
                     float *out)
{
    const struct onnx_small *const *small;

    if (onnx_input_small(im, i, &small) < 0 || !onnx_has_input(im, i))
        return im->rc;
    if (!small || !onnx_small_is_fixed(im, small))
        return onnx_fail(im, INFER_EUNSUPPORTED, "%s must be a constant", what);
    if (small[0]->count != 1)
        return onnx_fail(im, INFER_EFORMAT, "%s has %lld elements", what,
                         (long long)small[0]->count);
    *out = small[0]->i ? (float)small[0]->i[0] : (float)small[0]->d[0];
    return 0;
}

int onnx_input_type(struct onnx_import *im, int i, int probe,
                    struct graph_type *out)
{
    const struct onnx_value *v = input_value(im, i);

    memset(out, 0, sizeof(*out));
    if (!v)
        return im->rc;
    if (v->state == ONNX_GRAPH) {
        *out = im->type[v->graph][probe];
    } else if (v->small) {
        out->dtype = v->small[probe]->dtype;
        out->rank = v->small[probe]->rank;
        memcpy(out->dim, v->small[probe]->dim, sizeof(out->dim));
    } else if (v->constant) {
        onnx_constant_type(v->constant, out);
    } else {
        return onnx_fail(im, INFER_EFORMAT, "nothing produces input %d", i);
    }
    return 0;
}

struct graph_type onnx_type_of_input(struct onnx_import *im, int i, int probe)
{
    struct graph_type t;

    onnx_input_type(im, i, probe, &t);
    return t;
}

int onnx_axes(struct onnx_import *im, const char *name, int input, int since,
              int64_t *out, int *n)
{
    if (im->opset < since)
        return onnx_ints(im, name, INFER_MAX_RANK, out, n);
    return onnx_input_ints(im, input, name, INFER_MAX_RANK, out, n);
}
