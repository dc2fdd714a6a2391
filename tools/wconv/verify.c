/* SPDX-License-Identifier: Apache-2.0 */
/* --verify: compares the outputs of the converted graph with those of the
 * original. */
#include "tools/wconv/wconv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "libinfer/model/model.h"
#include "tools/array.h"
#include "tools/difference.h"

/* Free dimensions are verified at this size (batch) or extent (space).  The
 * extent is halved, down to LEAST_EXTENT, until the input has no more than
 * MOST_ELEMENTS: a few seconds for a classifier (two pictures of 224x224 have a
 * third of that). */
#define FREE_BATCH    2
#define FREE_EXTENT   64
#define LEAST_EXTENT  8
#define MOST_ELEMENTS ((double)(1 << 20))

/* The shape of an input with its free dimensions set to `extent`.  Returns the
 * number of elements. */
static double fix_shape(const struct graph_value *v, int64_t extent,
                        struct infer_array *a)
{
    double elements = 1;

    a->rank = v->rank;
    for (int k = 0; k < v->rank; k++) {
        a->dim[k] = v->dim[k] >= 0 ? v->dim[k]
                    : k == 0       ? FREE_BATCH
                    : k == 1       ? 3
                                   : extent;
        elements *= (double)a->dim[k];
    }
    return elements;
}

/* Random inputs: values in [-1, 1), or small counts for integer inputs. */
static int random_inputs(const struct graph *g, uint64_t seed,
                         struct arrays *in, struct infer_error *err)
{
    bool made[ARRAYS_MAX];
    int64_t extent;
    int i, rc;

    for (i = 0; i < g->n_inputs; i++) {
        const struct graph_value *v = &g->value[g->input[i]];
        struct infer_array *a = &in->item[i];

        if (v->rank < 0)
            return error_set(err, INFER_EARGUMENT,
                             "--verify: the shape of input '%s' is open: name "
                             "one with --input-shape",
                             v->name);
        memset(a, 0, sizeof(*a));
        a->name = v->name;
        a->dtype = scalar_is_integer(v->dtype) ? v->dtype : INFER_F32;
        for (extent = FREE_EXTENT;
             fix_shape(v, extent, a) > MOST_ELEMENTS && extent > LEAST_EXTENT;
             extent /= 2)
            continue;
        made[i] = true;
    }
    state_sizes(g, made, in->item);
    for (i = 0; i < g->n_inputs; i++) {
        struct infer_array *a = &in->item[i];

        rc = array_alloc("input", a->name, a, err);
        if (rc < 0)
            return rc;
        in->count = i + 1;
        array_fill(a, &seed);
    }
    return INFER_OK;
}

/* Inputs of a graph from recorded arrays. */
static int recorded_inputs(const struct graph *g,
                           const struct weights_dict *recorded,
                           struct arrays *in, struct infer_error *err)
{
    int i;

    for (i = 0; i < g->n_inputs; i++) {
        const char *name = g->value[g->input[i]].name;
        const struct constant *c = weights_dict_find(recorded, name);
        struct infer_array *a = &in->item[i];

        if (c == NULL)
            return error_set(err, INFER_EARGUMENT, "no array for input '%s'",
                             name);
        memset(a, 0, sizeof(*a));
        a->name = name;
        a->dtype = c->dtype;
        a->rank = c->rank;
        memcpy(a->dim, c->dim, sizeof(a->dim));
        a->bytes = c->bytes;
        a->data = malloc(c->bytes > 0 ? c->bytes : 1);
        if (a->data == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
        in->count = i + 1;
        memcpy(a->data, c->data, c->bytes);
    }
    return INFER_OK;
}

/* Runs a copy of the graph on a backend of the CPU. */
static int run_graph(const struct graph *g, enum infer_backend backend,
                     const struct arrays *in, struct arrays *out,
                     struct infer_error *err)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct graph *copy = graph_copy(g);
    int i, rc;

    if (copy == NULL)
        return error_set(err, INFER_EMEMORY, "out of memory");
    infer_session_options_init(&options);
    options.multiplier = "none";
    options.backend = backend;
    rc = model_from_graph(copy, err, &model);
    if (rc == INFER_OK)
        rc = infer_session_create(model, &options, err, &session);
    if (rc == INFER_OK)
        rc = infer_session_prepare(session, in->item, in->count, err);
    for (i = 0; rc == INFER_OK && i < g->n_outputs; i++) {
        struct infer_array *a = &out->item[i];
        struct infer_tensor_info info;

        memset(a, 0, sizeof(*a));
        infer_session_output(session, i, &info);
        a->dtype = info.dtype;
        a->rank = info.rank;
        memcpy(a->dim, info.dim, sizeof(a->dim));
        rc = array_alloc("output", info.name, a, err);
        if (rc == INFER_OK)
            out->count = i + 1;
    }
    if (rc == INFER_OK)
        rc = infer_session_run(session, in->item, in->count, out->item,
                               out->count, err);
    for (i = 0; rc == INFER_OK && i < out->count; i++)
        out->item[i].name = g->value[g->output[i]].name;
    infer_session_close(&session);
    infer_model_close(&model);
    return rc;
}

/* Adds the differences of one output to the verdict; false if the numbers of
 * elements differ. */
static bool compare(const struct infer_array *a, enum infer_dtype dtype,
                    const void *expected, size_t count,
                    struct wconv_verdict *verdict)
{
    struct difference d;

    if (a->bytes / infer_dtype_size(a->dtype) != count)
        return false;
    difference_of(a->dtype, a->data, dtype, expected, (int64_t)count, &d);
    if (d.max_abs >= verdict->max_abs)
        snprintf(verdict->worst, sizeof(verdict->worst),
                 "%.48s, element %lld: %.9g, expected %.9g", a->name,
                 (long long)d.at, d.found, d.expected);
    verdict->elements += (int64_t)count;
    verdict->finite += d.finite;
    verdict->max_abs = fmax(verdict->max_abs, d.max_abs);
    verdict->max_rel = fmax(verdict->max_rel, d.max_rel);
    return true;
}

static int judge(const struct wconv_request *r,
                 const struct wconv_verdict *verdict, struct infer_error *err)
{
    const bool half = r->dtype == INFER_F16 || r->dtype == INFER_BF16;

    if (verdict->elements > 0 && verdict->finite == 0)
        return error_set(err, INFER_EMISMATCH,
                         "%s: verification shows nothing: no output holds a "
                         "finite number (--verify=REF.npz takes recorded "
                         "arrays)",
                         r->in);
    if (verdict->max_abs <= r->atol || verdict->max_rel <= r->rtol)
        return INFER_OK;
    return error_set(
        err, INFER_EMISMATCH,
        "%s: verification failed: largest difference %.3g, %.3g "
        "of the largest output (%s); tolerances %.3g and %.3g%s",
        r->in, verdict->max_abs, verdict->max_rel, verdict->worst, r->atol,
        r->rtol, half ? " (--rtol: weights of 16 bits need a wider one)" : "");
}

static int against_original(const struct graph *converted,
                            const struct graph *original,
                            enum infer_backend backend, const struct arrays *in,
                            struct wconv_verdict *verdict,
                            struct infer_error *err)
{
    struct arrays a = {0}, b = {0};
    int i, rc = run_graph(converted, backend, in, &a, err);

    if (rc == INFER_OK)
        rc = run_graph(original, backend, in, &b, err);
    for (i = 0; rc == INFER_OK && i < a.count; i++)
        if (!compare(&a.item[i], b.item[i].dtype, b.item[i].data,
                     b.item[i].bytes / infer_dtype_size(b.item[i].dtype),
                     verdict))
            rc = error_set(err, INFER_EMISMATCH, "output '%s' changed its size",
                           a.item[i].name);
    arrays_clear(&a);
    arrays_clear(&b);
    return rc;
}

static int against_recorded(const struct graph *converted,
                            const struct weights_dict *recorded,
                            enum infer_backend backend, const struct arrays *in,
                            struct wconv_verdict *verdict,
                            struct infer_error *err)
{
    struct arrays a = {0};
    int i, rc = run_graph(converted, backend, in, &a, err);

    for (i = 0; rc == INFER_OK && i < a.count; i++) {
        const struct constant *c = weights_dict_find(recorded, a.item[i].name);

        if (c == NULL)
            rc = error_set(err, INFER_EARGUMENT, "no array for output '%s'",
                           a.item[i].name);
        else if (!compare(&a.item[i], c->dtype, c->data,
                          (size_t)constant_count(c), verdict))
            rc = error_set(err, INFER_EMISMATCH,
                           "output '%s' has %zu elements, the array %lld",
                           a.item[i].name,
                           a.item[i].bytes / infer_dtype_size(a.item[i].dtype),
                           (long long)constant_count(c));
    }
    arrays_clear(&a);
    return rc;
}

static int with_recorded(const struct graph *converted, const char *path,
                         struct wconv_verdict *verdict, struct infer_error *err)
{
    struct weights_import recorded;
    struct arrays in = {0};
    int rc;

    weights_import_init(&recorded);
    rc = weights_read_arrays(path, err, &recorded);
    if (rc < 0)
        return rc;
    rc = recorded_inputs(converted, &recorded.dict, &in, err);
    if (rc == INFER_OK)
        rc = against_recorded(converted, &recorded.dict, INFER_BACKEND_AUTO,
                              &in, verdict, err);
    if (rc < 0)
        error_prefix(err, "%s", path);
    arrays_clear(&in);
    weights_import_clear(&recorded);
    return rc;
}

static int with_random(const struct graph *converted,
                       const struct graph *original, enum infer_backend backend,
                       uint64_t seed, struct wconv_verdict *verdict,
                       struct infer_error *err)
{
    struct arrays in = {0};
    int rc = random_inputs(converted, seed, &in, err);

    if (rc == INFER_OK)
        rc = against_original(converted, original, backend, &in, verdict, err);
    arrays_clear(&in);
    return rc;
}

int wconv_verify(const struct graph *converted, const struct graph *original,
                 const struct wconv_request *request, struct cli *cli,
                 struct infer_error *err, struct wconv_verdict *out)
{
    struct wconv_verdict verdict = {0};
    int rc;

    if (converted->n_inputs > ARRAYS_MAX || converted->n_outputs > ARRAYS_MAX)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%s: --verify takes at most %d inputs and outputs",
                         request->in, ARRAYS_MAX);
    if (original == NULL)
        rc = with_recorded(converted, request->verify_reference, &verdict, err);
    else
        rc = with_random(converted, original,
                         request->verify_on_reference ? INFER_BACKEND_REF
                                                      : INFER_BACKEND_AUTO,
                         cli->seed, &verdict, err);
    if (rc == INFER_OK)
        rc = judge(request, &verdict, err);
    if (rc == INFER_OK)
        *out = verdict;
    return rc;
}
