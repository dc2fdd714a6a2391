/* SPDX-License-Identifier: Apache-2.0 */
/* Running a model that was read and comparing it with recorded outputs whose
 * order of axes is Keras', for the tests of the Keras reader. */
#ifndef TESTS_UNIT_WEIGHTS_KERAS_RUN_H
#define TESTS_UNIT_WEIGHTS_KERAS_RUN_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/infer.h"
#include "kernels/base/scalar.h"
#include "libinfer/graph/graph.h"
#include "libinfer/model/model.h"
#include "weights/weights.h"

/* True where both shapes agree; the batch (dimension 0) does not count. */
static inline bool run_same_shape(int rank, const int64_t *a, const int64_t *b)
{
    for (int i = 1; i < rank; i++)
        if (a[i] != b[i] && a[i] >= 0 && b[i] >= 0)
            return false;
    return true;
}

/* N,spatial,C -> N,C,spatial */
static inline struct constant *run_swap(const struct constant *c)
{
    int order[INFER_MAX_RANK] = {0};

    order[1] = c->rank - 1;
    for (int i = 2; i < c->rank; i++)
        order[i] = i - 1;
    return constant_transpose(c, order);
}

/* The tensor in whichever order has the shape asked for; NULL for neither. */
static inline struct constant *run_in_shape(struct constant *c, int rank,
                                            const int64_t *dim)
{
    if (c == NULL || c->rank != rank)
        return NULL;
    if (run_same_shape(rank, c->dim, dim))
        return constant_ref(c);
    struct constant *s = rank > 2 ? run_swap(c) : NULL;
    if (s != NULL && !run_same_shape(rank, s->dim, dim)) {
        constant_unref(s);
        s = NULL;
    }
    return s;
}

/* Largest difference, relative to the largest recorded value. */
static inline double run_difference(const float *y, const struct constant *c)
{
    double worst = 0, largest = 1e-30;

    for (int64_t i = 0; i < constant_count(c); i++) {
        const double e = scalar_load(c->dtype, c->data, i);
        const double d = fabs((double)y[i] - e);
        largest = fmax(largest, fabs(e));
        if (!(d <= worst))
            worst = d == d ? d : INFINITY;
    }
    return worst / largest;
}

static inline double run_compare_output(struct infer_session *session, int i,
                                        struct infer_array *y,
                                        const struct weights_dict *io)
{
    char name[32];
    double best = INFINITY;

    (void)session;
    snprintf(name, sizeof name, "output%d", i);
    struct constant *e = weights_dict_find(io, name);
    if (e == NULL || e->rank != y->rank ||
        (size_t)constant_count(e) * sizeof(float) != y->bytes)
        return INFINITY;
    /* Both orders where both fit. */
    if (run_same_shape(e->rank, e->dim, y->dim))
        best = run_difference(y->data, e);
    if (e->rank > 2) {
        struct constant *s = run_swap(e);
        if (s != NULL && run_same_shape(s->rank, s->dim, y->dim))
            best = fmin(best, run_difference(y->data, s));
        constant_unref(s);
    }
    return best;
}

/* Runs a graph (a copy of it) on "input0", ... of io and returns the largest
 * relative difference from "output0", ...; INFINITY with a message where it
 * cannot be run. */
static inline double run_graph(const struct graph *g,
                               const struct weights_dict *io)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_model *model = NULL;
    struct infer_error err = {0};
    struct infer_array in[8] = {{0}}, out[64] = {{0}};
    struct constant *held[8] = {NULL};
    double worst = 0;
    int n_in = 0, n_out = 0, rc;

    rc = model_from_graph(graph_copy(g), &err, &model);
    infer_session_options_init(&options);
    options.backend = INFER_BACKEND_REF;
    options.threads = 1;
    if (rc == 0)
        rc = infer_session_create(model, &options, &err, &session);
    if (rc == 0) {
        n_in = infer_model_input_count(model);
        n_out = infer_model_output_count(model);
    }
    for (int i = 0; rc == 0 && i < n_in && i < 8; i++) {
        struct infer_tensor_info info;
        char name[32];
        infer_model_input(model, i, &info);
        snprintf(name, sizeof name, "input%d", i);
        held[i] =
            run_in_shape(weights_dict_find(io, name), info.rank, info.dim);
        if (held[i] == NULL) {
            snprintf(err.text, sizeof err.text, "input %d has another shape",
                     i);
            rc = -1;
            break;
        }
        in[i].dtype = held[i]->dtype;
        in[i].rank = held[i]->rank;
        memcpy(in[i].dim, held[i]->dim, sizeof in[i].dim);
        in[i].data = held[i]->data;
        in[i].bytes = held[i]->bytes;
    }
    if (rc == 0)
        rc = infer_session_run(session, in, n_in, out, n_out, &err);
    for (int i = 0; rc == 0 && i < n_out; i++)
        out[i].data = malloc(out[i].bytes + 1);
    if (rc == 0)
        rc = infer_session_run(session, in, n_in, out, n_out, &err);
    for (int i = 0; rc == 0 && i < n_out; i++) {
        const double d = run_compare_output(session, i, &out[i], io);
        if (!(d <= 1e-4))
            fprintf(stderr, "    output %d (%s): %g\n", i, out[i].name, d);
        worst = fmax(worst, d);
    }
    if (rc != 0) {
        fprintf(stderr, "    %s\n", err.text);
        worst = INFINITY;
    }
    for (int i = 0; i < 8; i++)
        constant_unref(held[i]);
    for (int i = 0; i < n_out; i++)
        free(out[i].data);
    infer_session_close(&session);
    infer_model_close(&model);
    return worst;
}

#endif
