/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of an ONNX graph by name, and the inputs of the current node. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "kernels/base/scalar.h"
#include "weights/onnx/onnx.h"

/* Constants of equal elements that a few bytes of file ask for: enough for the
 * weights of the largest classifiers.  They take memory when all is read. */
#define MAX_FILLED ((uint64_t)640 << 20)

/* Others, beyond what was read of the file. */
#define MAX_GENERATED ((uint64_t)20 << 20)

int onnx_no_memory(struct onnx_import *im)
{
    return onnx_fail(im, INFER_EMEMORY, "out of memory");
}

/* ---- names --------------------------------------------------------- */

static bool same(struct pb_span a, struct pb_span b)
{
    return a.bytes == b.bytes &&
           (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static size_t find_slot(const struct onnx_import *im, struct pb_span name)
{
    size_t i = (size_t)hash_bytes(name.data, name.bytes) & (im->slots - 1);

    while (im->slot[i] && !same(im->value[im->slot[i] - 1].name, name))
        i = (i + 1) & (im->slots - 1);
    return i;
}

int onnx_value_find(const struct onnx_import *im, struct pb_span name)
{
    if (im->slots == 0)
        return -1;
    return (int)im->slot[find_slot(im, name)] - 1;
}

/* Keeps the hash at most half full. */
static bool grow_slots(struct onnx_import *im)
{
    size_t slots = im->slots ? im->slots * 2 : 256;
    uint32_t *slot;
    int i;

    if ((size_t)im->n_values * 2 < im->slots)
        return true;
    slot = calloc(slots, sizeof(*slot));
    if (!slot)
        return false;
    free(im->slot);
    im->slot = slot;
    im->slots = slots;
    for (i = 0; i < im->n_values; i++)
        slot[find_slot(im, im->value[i].name)] = (uint32_t)i + 1;
    return true;
}

int onnx_value_get(struct onnx_import *im, struct pb_span name, int *out)
{
    struct onnx_value *v;
    size_t at;

    if (!grow_slots(im))
        return onnx_no_memory(im);
    at = find_slot(im, name);
    if (im->slot[at]) {
        *out = (int)im->slot[at] - 1;
        return 0;
    }
    if (im->n_values == ONNX_MAX_TENSORS)
        return onnx_fail(im, INFER_EFORMAT, "more than %d tensors",
                         ONNX_MAX_TENSORS);
    if (im->n_values == im->values_capacity) {
        int capacity = im->values_capacity ? im->values_capacity * 2 : 256;

        v = realloc(im->value, (size_t)capacity * sizeof(*v));
        if (!v)
            return onnx_no_memory(im);
        im->value = v;
        im->values_capacity = capacity;
    }
    v = &im->value[im->n_values];
    memset(v, 0, sizeof(*v));
    v->name = name;
    v->graph = -1;
    im->slot[at] = (uint32_t)++im->n_values;
    *out = im->n_values - 1;
    return 0;
}

void onnx_values_clear(struct onnx_import *im)
{
    int i;

    for (i = 0; i < im->n_values; i++)
        constant_unref(im->value[i].constant);
    free(im->value);
    free(im->slot);
    free(im->type);
    free(im->fixed);
    onnx_arena_clear(&im->keep);
    onnx_arena_clear(&im->scratch);
}

/* ---- types at the probes ------------------------------------------- */

/* What has no type yet; never written. */
static struct graph_type no_type[ONNX_PROBES];

int onnx_value_type(struct onnx_import *im, int graph_value,
                    const struct graph_type *type)
{
    const size_t bytes = sizeof(*type) * (size_t)im->probes;
    struct graph_type *own;

    if (graph_value >= im->types_capacity) {
        int capacity = im->types_capacity ? im->types_capacity : 128;
        void *p;

        while (capacity <= graph_value)
            capacity *= 2;
        p = realloc(im->type, (size_t)capacity * sizeof(*im->type));
        if (!p)
            return onnx_no_memory(im);
        im->type = p;
        for (int v = im->types_capacity; v < capacity; v++)
            im->type[v] = no_type;
        p = realloc(im->fixed, (size_t)capacity);
        if (!p)
            return onnx_no_memory(im);
        im->fixed = p;
        im->types_capacity = capacity;
    }
    own = im->type[graph_value];
    if (own == no_type)
        own = onnx_alloc(&im->keep, bytes);
    if (!own)
        return onnx_no_memory(im);
    memcpy(own, type, bytes);
    im->type[graph_value] = own;
    im->fixed[graph_value] = onnx_computes_constant(im, graph_value);
    return 0;
}

static void type_of_constant(const struct constant *c, struct graph_type *out)
{
    memset(out, 0, sizeof(*out));
    out->dtype = c->dtype;
    out->rank = c->rank;
    memcpy(out->dim, c->dim, sizeof(out->dim));
}

/* ---- materialising ------------------------------------------------- */

/* Doubles are computed in single precision. */
static struct constant *as_computed(struct constant *c)
{
    if (c->dtype == INFER_F64)
        return constant_convert(c, INFER_F32);
    return constant_ref(c);
}

/* Adds under the name, or a fresh one where it is NULL. */
static int add_named(struct onnx_import *im, const char *name,
                     struct constant *c, int *value)
{
    struct graph_type type[ONNX_PROBES];
    struct constant *stored = as_computed(c);
    int p, v;

    if (!stored)
        return onnx_no_memory(im);
    for (p = 0; p < im->probes; p++)
        type_of_constant(stored, &type[p]);
    v = graph_add_constant(im->g, name, stored);
    if (v == INFER_EARGUMENT)
        return onnx_fail(im, INFER_EFORMAT, "two tensors are named '%s'",
                         name ? name : "");
    if (v < 0)
        return im->rc = graph_no_room(im->g, im->err);
    *value = v;
    return onnx_value_type(im, v, type);
}

int onnx_add_constant(struct onnx_import *im, struct constant *c, int *value)
{
    *value = -1;
    if (!c)
        return onnx_no_memory(im);
    if (im->rc == 0)
        add_named(im, NULL, c, value);
    constant_unref(c);
    return im->rc;
}

/* Loads an initializer on its first use. */
static int load_lazy(struct onnx_import *im, struct onnx_value *v)
{
    const uint64_t made = im->generated + im->filled;

    if (v->state != ONNX_LAZY || im->rc < 0)
        return im->rc;
    im->rc = v->is_sparse ? onnx_sparse_load(im, v->tensor, &v->constant)
                          : im->source->load(im, v->tensor, &v->constant);
    if (im->rc < 0)
        return im->rc;
    v->state = ONNX_CONSTANT;
    if (im->generated + im->filled == made)
        im->held += v->constant->bytes;
    v->narrow = im->model && !v->is_sparse
                    ? onnx_tensor_narrow(im->model, v->tensor)
                    : 0;
    return 0;
}

/* The constant of a small tensor that is the same at every probe. */
static int small_constant(struct onnx_import *im, struct onnx_value *v)
{
    if (v->constant || v->state != ONNX_SMALL ||
        !onnx_small_is_fixed(im, v->small))
        return 0;
    v->constant = onnx_small_to_constant(v->small[0]);
    return v->constant ? 0 : onnx_no_memory(im);
}

int onnx_name(struct onnx_import *im, struct pb_span name, char **out)
{
    return im->rc =
               onnx_string(&im->scratch, name, "tensor name", im->err, out);
}

int onnx_value_graph(struct onnx_import *im, int value, int *out)
{
    struct onnx_value *v = &im->value[value];
    char *name;

    if (load_lazy(im, v) < 0 || small_constant(im, v) < 0 ||
        onnx_name(im, v->name, &name) < 0)
        return im->rc;
    if (v->sized && v->state == ONNX_SMALL)
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "'%s' depends on how many entries a tensor has, which "
                         "is computed at run time, and is used as data",
                         name);
    if (v->graph < 0) {
        if (v->state == ONNX_SMALL && !v->constant && im->node) {
            int expanded;

            if (onnx_expand_small(im, v->small, &expanded) < 0 ||
                (expanded < 0 && onnx_is_chosen(im, value) &&
                 onnx_unfold(im, value, &expanded) < 0))
                return im->rc;
            v = &im->value[value];
            if ((expanded < 0 &&
                 onnx_numbers_of_sizes(im, v->small, &expanded) < 0) ||
                (expanded < 0 && onnx_unfold(im, value, &expanded) < 0))
                return im->rc;
            v = &im->value[value];
            v->graph = expanded;
            if (expanded >= 0) {
                *out = expanded;
                return 0;
            }
        }
        if (v->state == ONNX_SMALL && !v->constant)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "'%s' depends on the batch and is used as data",
                             name);
        if (v->state == ONNX_DROPPED)
            return onnx_fail(im, INFER_EUNSUPPORTED,
                             "'%s' is an extra output that is not supported",
                             name);
        if (!v->constant)
            return onnx_fail(im, INFER_EFORMAT, "nothing produces '%s'", name);
        add_named(im, name, v->constant, &v->graph);
    }
    *out = v->graph;
    return im->rc;
}

/* ---- inputs of the current node ------------------------------------ */

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
    if (load_lazy(im, &im->value[v]) < 0)
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

    *out = v && small_constant(im, v) == 0 && onnx_value_evaluate(im, v) == 0
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
        type_of_constant(v->constant, out);
    } else {
        return onnx_fail(im, INFER_EFORMAT, "nothing produces input %d", i);
    }
    return 0;
}

int onnx_axes(struct onnx_import *im, const char *name, int input, int since,
              int64_t *out, int *n)
{
    if (im->opset < since)
        return onnx_ints(im, name, INFER_MAX_RANK, out, n);
    return onnx_input_ints(im, input, name, INFER_MAX_RANK, out, n);
}

/* ---- outputs ------------------------------------------------------- */

/* NULL where the node does not have the output, or it found no room. */
static struct onnx_value *output_value(struct onnx_import *im, int i)
{
    int v;

    if (im->rc < 0 || !onnx_has_output(im, i) ||
        onnx_value_get(im, im->node->out[i], &v) < 0)
        return NULL;
    return &im->value[v];
}

int onnx_set_constant(struct onnx_import *im, int i, struct constant *c)
{
    struct onnx_value *v = output_value(im, i);

    if (!c)
        return onnx_no_memory(im);
    if (!v) {
        constant_unref(c);
        return im->rc;
    }
    v->constant = c;
    v->state = ONNX_CONSTANT;
    return 0;
}

int onnx_set_small(struct onnx_import *im, int i,
                   const struct onnx_small **small)
{
    struct onnx_value *v = output_value(im, i);

    if (v) {
        v->small = small;
        v->state = ONNX_SMALL;
    }
    return im->rc;
}

/* Bytes of a constant of such a shape; false where there are too many. */
static bool bytes_within(enum infer_dtype dtype, int rank, const int64_t *dim,
                         uint64_t most, size_t *bytes)
{
    int64_t count;

    return rank <= INFER_MAX_RANK && checked_count(rank, dim, &count) &&
           checked_mul((size_t)count, infer_dtype_size(dtype), bytes) &&
           *bytes <= most;
}

uint64_t onnx_room(const struct onnx_import *im)
{
    const uint64_t most = MAX_GENERATED + im->held;

    return most > im->generated ? most - im->generated : 0;
}

static int no_room(struct onnx_import *im)
{
    return onnx_fail(im, INFER_EUNSUPPORTED,
                     "a constant that is too large to compute here (all "
                     "together at most 20 MiB and what was read of the "
                     "file)");
}

int onnx_charge(struct onnx_import *im, uint64_t bytes)
{
    if (bytes > onnx_room(im))
        return no_room(im);
    im->generated += bytes;
    return 0;
}

int onnx_new_constant(struct onnx_import *im, enum infer_dtype dtype, int rank,
                      const int64_t *dim, struct constant **out)
{
    size_t bytes;

    *out = NULL;
    if (im->rc < 0)
        return im->rc;
    if (!bytes_within(dtype, rank, dim, onnx_room(im), &bytes))
        return no_room(im);
    *out = constant_new(dtype, rank, dim);
    return *out ? onnx_charge(im, bytes) : onnx_no_memory(im);
}

/* One that operators read; given up where there is no room. */
static int fill_small(struct onnx_import *im, struct constant *c)
{
    if (onnx_charge(im, c->bytes) == 0)
        constant_fill(c);
    else
        constant_unref(c);
    return im->rc;
}

int onnx_new_fill(struct onnx_import *im, enum infer_dtype dtype, int rank,
                  const int64_t *dim, const void *element,
                  struct constant **out)
{
    static const double zero;
    size_t bytes;

    *out = NULL;
    if (im->rc < 0)
        return im->rc;
    if (!bytes_within(dtype, rank, dim, MAX_FILLED - im->filled, &bytes))
        return onnx_fail(im, INFER_EUNSUPPORTED,
                         "a constant of equal elements that is too large to "
                         "compute here (all together at most 640 MiB)");
    *out = constant_new_fill(dtype, rank, dim, element ? element : &zero);
    if (!*out)
        return onnx_no_memory(im);
    if (constant_count(*out) > ONNX_MAX_SMALL) {
        im->filled += bytes;
        return 0;
    }
    if (fill_small(im, *out) < 0)
        *out = NULL;
    return im->rc;
}

int onnx_fill(struct onnx_import *im, struct constant *c)
{
    if (im->rc < 0 || !c || !c->unfilled)
        return im->rc;
    if (onnx_charge(im, c->bytes) == 0)
        constant_fill(c);
    return im->rc;
}
