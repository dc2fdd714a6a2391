/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of an ONNX graph by name, and the constants of a node. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/array_bytes.h"
#include "kernels/base/checked.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"
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

void onnx_constant_type(const struct constant *c, struct graph_type *out)
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
        onnx_constant_type(stored, &type[p]);
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

int onnx_load_lazy(struct onnx_import *im, struct onnx_value *v)
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

int onnx_load_small(struct onnx_import *im, struct onnx_value *v)
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

    if (onnx_load_lazy(im, v) < 0 || onnx_load_small(im, v) < 0 ||
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
    *bytes = rank <= INFER_MAX_RANK ? array_bytes(dtype, rank, dim) : SIZE_MAX;
    return *bytes <= most;
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
