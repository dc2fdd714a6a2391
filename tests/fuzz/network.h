/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph on the reference within a small budget, on values that are no
 * two alike in a row. */
#ifndef TESTS_FUZZ_NETWORK_H
#define TESTS_FUZZ_NETWORK_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libinfer/graph/graph.h"
#include "libinfer/model/model.h"

#define NETWORK_ARRAYS 8
#define NETWORK_MEMORY ((uint64_t)16 << 20)
#define NETWORK_WORK   3e7

struct network_result {
    struct infer_array out[NETWORK_ARRAYS];
    int count;
};

static inline void network_clear(struct network_result *r)
{
    for (int i = 0; i < NETWORK_ARRAYS; i++)
        free(r->out[i].data);
    memset(r, 0, sizeof *r);
}

/* An array of this shape with free sizes set; false if it is too large. */
static inline bool network_array(const struct infer_tensor_info *t,
                                 struct infer_array *a)
{
    double bytes = (double)infer_dtype_size(t->dtype);

    memset(a, 0, sizeof *a);
    a->dtype = t->dtype;
    a->rank = t->rank < 0 ? 0 : t->rank;
    for (int i = 0; i < a->rank; i++) {
        a->dim[i] = t->dim[i] >= 0 ? t->dim[i] : i ? 5 : 2;
        bytes *= (double)a->dim[i];
    }
    if (!(bytes < (double)NETWORK_MEMORY))
        return false;
    a->bytes = (size_t)bytes;
    a->data = calloc(1, a->bytes + 1);
    for (size_t i = 0; a->data && t->dtype == INFER_F32 && i < a->bytes / 4;
         i++)
        ((float *)a->data)[i] = (float)(i * 7 % 19) / 8 - 1.1f;
    return a->data != NULL;
}

static inline int network_outputs(const struct infer_model *model,
                                  struct infer_session *s,
                                  struct network_result *r)
{
    struct infer_tensor_info t;
    const int n = infer_model_output_count(model);

    for (int i = 0; i < n; i++)
        if (infer_session_output(s, i, &t) < 0 ||
            !network_array(&t, &r->out[i]))
            return 1;
    r->count = n;
    return 0;
}

/* Takes over the graph.  keep: no memory of values is shared.  0: *r has the
 * outputs; 1: beyond the budget of this header; negative: the library's
 * refusal.  *r is to be cleared in each case. */
static inline int network_run(struct graph *g, bool keep,
                              struct network_result *r, struct infer_error *err)
{
    struct infer_session_options o;
    struct infer_array in[NETWORK_ARRAYS] = {{0}};
    struct infer_model *model = NULL;
    struct infer_session *s = NULL;
    struct infer_tensor_info t;
    int n = 0, rc;

    memset(r, 0, sizeof *r);
    infer_session_options_init(&o);
    o.backend = INFER_BACKEND_REF;
    o.tune_cache = "";
    o.threads = 1;
    o.keep_tensors = keep;
    o.max_memory = NETWORK_MEMORY;
    o.max_work = NETWORK_WORK;
    rc = model_from_graph(g, err, &model);
    if (rc == 0)
        rc = infer_session_create(model, &o, err, &s);
    if (rc == 0) {
        n = infer_model_input_count(model);
        if (n > NETWORK_ARRAYS ||
            infer_model_output_count(model) > NETWORK_ARRAYS)
            rc = 1;
    }
    for (int i = 0; rc == 0 && i < n; i++)
        rc = infer_model_input(model, i, &t) < 0 || !network_array(&t, &in[i]);
    if (rc == 0)
        rc = infer_session_prepare(s, in, n, err);
    if (rc == 0)
        rc = network_outputs(model, s, r);
    if (rc == 0)
        rc = infer_session_run(s, in, n, r->out, r->count, err);
    for (int i = 0; i < NETWORK_ARRAYS; i++)
        free(in[i].data);
    infer_session_close(&s);
    infer_model_close(&model);
    return rc;
}

#endif
