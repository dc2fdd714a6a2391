/* SPDX-License-Identifier: Apache-2.0 */
/* struct infer_session, for the files that implement it. */
#ifndef LIBINFER_SESSION_H
#define LIBINFER_SESSION_H

#include "libinfer/device.h"
#include "libinfer/model.h"
#include "libinfer/plan.h"

struct infer_session {
    struct infer_model *model; /* a reference */
    struct device device;
    struct plan_config config;
    struct tuner *tuner;
    bool profile;
    struct plan **plan; /* one for each set of input shapes seen */
    int n_plans;
    struct plan *current; /* the latest prepared, or the first chosen */
    struct plan *ran;     /* the one whose results are in the arena */
    void *arena, *workspace;
    size_t arena_bytes, workspace_bytes;
    /* Work space of a run, one entry an input or output, so that nothing is
     * allocated then. */
    const struct infer_array **in; /* matched to the graph's inputs */
    const unsigned char **base;    /* where each input is read */
    struct graph_shape *shape;
    int *out_index;
};

/* Checks the arrays against the graph's inputs; fills session->in and
 * session->shape.  With data: also that there is data and enough of it. */
int session_match_inputs(struct infer_session *s, const struct infer_array *in,
                         int n_in, bool data, struct infer_error *err);
/* Which graph output each array asks for, and that it is large enough. */
int session_match_outputs(struct infer_session *s, struct infer_array *out,
                          int n_out, struct infer_error *err);
/* Points the plan at the inputs, converting where types differ. */
int session_take_inputs(struct infer_session *s, struct infer_error *err);
int session_give_outputs(struct infer_session *s, struct infer_array *out,
                         int n_out, struct infer_error *err);

#endif
