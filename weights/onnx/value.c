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

/* Constants that a few bytes of file ask for (ConstantOfShape, Expand): enough
 * for the weights of the largest classifiers, and a bound for hostile files. */
#define MAX_GENERATED ((uint64_t)640 << 20)

static int out_of_memory(struct infer_error *err)
{
    return error_set(err, INFER_EMEMORY, "out of memory");
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

int onnx_value_get(struct onnx_import *im, struct pb_span name,
                   struct infer_error *err, int *out)
{
    struct onnx_value *v;
    size_t at;

    if (!grow_slots(im))
        return out_of_memory(err);
    at = find_slot(im, name);
    if (im->slot[at]) {
        *out = (int)im->slot[at] - 1;
        return 0;
    }
    if (im->n_values == ONNX_MAX_TENSORS)
        return error_set(err, INFER_EFORMAT, "more than %d tensors",
                         ONNX_MAX_TENSORS);
    if (im->n_values == im->values_capacity) {
        int capacity = im->values_capacity ? im->values_capacity * 2 : 256;

        v = realloc(im->value, (size_t)capacity * sizeof(*v));
        if (!v)
            return out_of_memory(err);
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
    onnx_arena_clear(&im->keep);
    onnx_arena_clear(&im->scratch);
}

/* ---- types at the probes ------------------------------------------- */

int onnx_value_type(struct onnx_import *im, int graph_value,
                    const struct graph_type *type, struct infer_error *err)
{
    if (graph_value >= im->types_capacity) {
        int capacity = im->types_capacity ? im->types_capacity : 128;
        void *p;

        while (capacity <= graph_value)
            capacity *= 2;
        p = realloc(im->type, (size_t)capacity * sizeof(*im->type));
        if (!p)
            return out_of_memory(err);
        im->type = p;
        im->types_capacity = capacity;
    }
    memcpy(im->type[graph_value], type, sizeof(*type) * (size_t)im->probes);
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
                     struct constant *c, int *value, struct infer_error *err)
{
    struct graph_type type[ONNX_PROBES];
    struct constant *stored = as_computed(c);
    int p, v;

    if (!stored)
        return out_of_memory(err);
    for (p = 0; p < im->probes; p++)
        type_of_constant(stored, &type[p]);
    v = graph_add_constant(im->g, name, stored);
    if (v == INFER_EARGUMENT)
        return error_set(err, INFER_EFORMAT, "two tensors are named '%s'",
                         name ? name : "");
    if (v < 0)
        return graph_no_room(im->g, err);
    *value = v;
    return onnx_value_type(im, v, type, err);
}

int onnx_add_constant(struct onnx_import *im, struct constant *c, int *value,
                      struct infer_error *err)
{
    int rc = add_named(im, NULL, c, value, err);

    constant_unref(c);
    return rc;
}

/* Loads an initializer on its first use. */
static int load_lazy(struct onnx_import *im, struct onnx_value *v,
                     struct infer_error *err)
{
    struct constant *c;
    int rc;

    if (v->state != ONNX_LAZY)
        return 0;
    rc = onnx_tensor_load(im->model, v->tensor, err, &c);
    if (rc < 0)
        return rc;
    v->constant = constant_ref(c);
    v->state = ONNX_CONSTANT;
    return 0;
}

/* The constant of a small tensor that is the same at every probe. */
static int small_constant(struct onnx_import *im, struct onnx_value *v,
                          struct infer_error *err)
{
    if (v->constant || v->state != ONNX_SMALL ||
        !onnx_small_is_fixed(im, v->small))
        return 0;
    v->constant = onnx_small_to_constant(v->small[0]);
    return v->constant ? 0 : out_of_memory(err);
}

static int name_of(struct onnx_import *im, const struct onnx_value *v,
                   char **out, struct infer_error *err)
{
    return onnx_string(&im->scratch, v->name, "tensor name", err, out);
}

int onnx_value_graph(struct onnx_import *im, int value, int *out,
                     struct infer_error *err)
{
    struct onnx_value *v = &im->value[value];
    char *name;
    int rc = load_lazy(im, v, err);

    if (rc == 0)
        rc = small_constant(im, v, err);
    if (rc == 0)
        rc = name_of(im, v, &name, err);
    if (rc < 0)
        return rc;
    if (v->graph < 0) {
        if (v->state == ONNX_SMALL && !v->constant)
            return error_set(err, INFER_EUNSUPPORTED,
                             "'%s' depends on the batch and is used as data",
                             name);
        if (v->state == ONNX_DROPPED)
            return error_set(err, INFER_EUNSUPPORTED,
                             "'%s' is an extra output that is not supported",
                             name);
        if (!v->constant)
            return error_set(err, INFER_EFORMAT, "nothing produces '%s'", name);
        rc = add_named(im, name, v->constant, &v->graph, err);
    }
    *out = v->graph;
    return rc;
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

int onnx_arity(const struct onnx_import *im, int min, int max,
               struct infer_error *err)
{
    int i;

    if (im->node->n_in < min || (max >= 0 && im->node->n_in > max))
        return error_set(err, INFER_EFORMAT, "%d inputs", im->node->n_in);
    for (i = 0; i < min; i++)
        if (!onnx_has_input(im, i))
            return error_set(err, INFER_EFORMAT, "input %d is missing", i);
    return 0;
}

int onnx_drop_outputs(struct onnx_import *im, int first,
                      struct infer_error *err)
{
    int i, v, rc;

    for (i = first; i < im->node->n_out; i++) {
        if (!onnx_has_output(im, i))
            continue;
        rc = onnx_value_get(im, im->node->out[i], err, &v);
        if (rc < 0)
            return rc;
        im->value[v].state = ONNX_DROPPED;
    }
    return 0;
}

/* The value of input i, loaded; NULL in *out where it is absent. */
static int input_value(struct onnx_import *im, int i, struct onnx_value **out,
                       struct infer_error *err)
{
    int v;

    *out = NULL;
    if (!onnx_has_input(im, i))
        return 0;
    v = onnx_value_find(im, im->node->in[i]);
    if (v < 0) /* the driver has looked all inputs up */
        return error_set(err, INFER_EFORMAT, "input %d is unknown", i);
    *out = &im->value[v];
    return load_lazy(im, *out, err);
}

int onnx_input(struct onnx_import *im, int i, int *out, struct infer_error *err)
{
    struct onnx_value *v;
    int rc = input_value(im, i, &v, err);

    *out = -1;
    if (rc < 0 || !v)
        return rc;
    return onnx_value_graph(im, (int)(v - im->value), out, err);
}

int onnx_input_constant(struct onnx_import *im, int i, struct constant **out,
                        struct infer_error *err)
{
    struct onnx_value *v;
    int rc = input_value(im, i, &v, err);

    *out = NULL;
    if (rc == 0 && v)
        rc = small_constant(im, v, err);
    if (rc == 0 && v)
        *out = v->constant;
    return rc;
}

/* True where a constant is worth computing with while importing. */
static bool is_small(const struct constant *c)
{
    return constant_count(c) <= ONNX_MAX_SMALL && c->data;
}

int onnx_input_small(struct onnx_import *im, int i,
                     const struct onnx_small *const **out,
                     struct infer_error *err)
{
    const struct onnx_small **small;
    struct onnx_small *s;
    struct onnx_value *v;
    int p, rc = input_value(im, i, &v, err);

    *out = NULL;
    if (rc < 0 || !v)
        return rc;
    if (!v->small && v->constant && is_small(v->constant)) {
        rc = onnx_small_from_constant(im, v->constant, err, &s);
        if (rc < 0)
            return rc;
        small = onnx_alloc(&im->keep, sizeof(*small) * ONNX_PROBES);
        if (!small)
            return out_of_memory(err);
        for (p = 0; p < ONNX_PROBES; p++)
            small[p] = s;
        v->small = small;
    }
    *out = (const struct onnx_small *const *)v->small;
    return 0;
}

int onnx_input_ints(struct onnx_import *im, int i, const char *what, int max,
                    int64_t *out, int *n, struct infer_error *err)
{
    const struct onnx_small *const *small;
    int rc, k;

    if (!onnx_has_input(im, i))
        return 0;
    rc = onnx_input_small(im, i, &small, err);
    if (rc < 0)
        return rc;
    if (!small)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%s must be a constant, but is computed at run time",
                         what);
    if (!onnx_small_is_fixed(im, small))
        return error_set(err, INFER_EUNSUPPORTED, "%s depends on the batch",
                         what);
    if (!small[0]->i)
        return error_set(err, INFER_EFORMAT, "%s must be integers, not %s",
                         what, infer_dtype_name(small[0]->dtype));
    if (small[0]->rank > 1 || small[0]->count > max)
        return error_set(err, INFER_EFORMAT,
                         "%s has rank %d and %lld entries, at most %d are read",
                         what, small[0]->rank, (long long)small[0]->count, max);
    for (k = 0; k < (int)small[0]->count; k++)
        out[k] = small[0]->i[k];
    *n = k;
    return 0;
}

int onnx_input_float(struct onnx_import *im, int i, const char *what,
                     float *out, struct infer_error *err)
{
    const struct onnx_small *const *small;
    int rc;

    if (!onnx_has_input(im, i))
        return 0;
    rc = onnx_input_small(im, i, &small, err);
    if (rc < 0)
        return rc;
    if (!small || !onnx_small_is_fixed(im, small))
        return error_set(err, INFER_EUNSUPPORTED, "%s must be a constant",
                         what);
    if (small[0]->count != 1)
        return error_set(err, INFER_EFORMAT, "%s has %lld elements", what,
                         (long long)small[0]->count);
    *out = small[0]->i ? (float)small[0]->i[0] : (float)small[0]->d[0];
    return 0;
}

int onnx_input_type(struct onnx_import *im, int i, int probe,
                    struct graph_type *out, struct infer_error *err)
{
    struct onnx_value *v;
    int rc = input_value(im, i, &v, err);

    memset(out, 0, sizeof(*out));
    if (rc < 0 || !v)
        return rc;
    if (v->state == ONNX_GRAPH) {
        *out = im->type[v->graph][probe];
    } else if (v->small) {
        out->dtype = v->small[probe]->dtype;
        out->rank = v->small[probe]->rank;
        memcpy(out->dim, v->small[probe]->dim, sizeof(out->dim));
    } else if (v->constant) {
        type_of_constant(v->constant, out);
    } else {
        return error_set(err, INFER_EFORMAT, "nothing produces input %d", i);
    }
    return 0;
}

int onnx_axes(struct onnx_import *im, const char *name, int input, int since,
              int64_t *out, int *n, struct infer_error *err)
{
    if (im->opset < since)
        return onnx_ints(im, name, INFER_MAX_RANK, out, n, err);
    return onnx_input_ints(im, input, name, INFER_MAX_RANK, out, n, err);
}

/* ---- outputs ------------------------------------------------------- */

static int output_value(struct onnx_import *im, int i, struct onnx_value **out,
                        struct infer_error *err)
{
    int v, rc;

    *out = NULL;
    if (!onnx_has_output(im, i))
        return 0;
    rc = onnx_value_get(im, im->node->out[i], err, &v);
    if (rc == 0)
        *out = &im->value[v];
    return rc;
}

int onnx_set_constant(struct onnx_import *im, int i, struct constant *c,
                      struct infer_error *err)
{
    struct onnx_value *v;
    int rc = output_value(im, i, &v, err);

    if (rc < 0 || !v) {
        constant_unref(c);
        return rc;
    }
    v->constant = c;
    v->state = ONNX_CONSTANT;
    return 0;
}

int onnx_set_small(struct onnx_import *im, int i,
                   const struct onnx_small **small, struct infer_error *err)
{
    struct onnx_value *v;
    int rc = output_value(im, i, &v, err);

    if (rc < 0 || !v)
        return rc;
    v->small = small;
    v->state = ONNX_SMALL;
    return 0;
}

int onnx_new_constant(struct onnx_import *im, enum infer_dtype dtype, int rank,
                      const int64_t *dim, struct infer_error *err,
                      struct constant **out)
{
    size_t bytes;
    int64_t count;

    if (rank > INFER_MAX_RANK || !checked_count(rank, dim, &count) ||
        !checked_mul((size_t)count, infer_dtype_size(dtype), &bytes) ||
        bytes > MAX_GENERATED - im->generated)
        return error_set(err, INFER_EUNSUPPORTED,
                         "a constant that is too large to compute here (all "
                         "together at most 640 MiB)");
    *out = constant_new(dtype, rank, dim);
    if (!*out)
        return out_of_memory(err);
    im->generated += bytes;
    return 0;
}
