/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that show inner values of a network. */
#ifndef TOOLS_PROBE_H
#define TOOLS_PROBE_H

#include "tools/samples.h"

/* A session whose outputs are chosen values of a graph, all of them floats. */
struct probe {
    struct infer_model *model;
    struct infer_session *session;
    struct infer_array *out; /* all outputs of the graph */
    int n_out;
    int *place; /* of each chosen value: its index in out */
    int n;
};

/* Opens a session for n values of g, which are to be floats; multiplies
 * exactly.  probe_close() also after a failure. */
int probe_open(const struct graph *g, const int *value, int n,
               struct infer_error *err, struct probe *p);
void probe_close(struct probe *p);
/* Runs a sample; value i is then p->out[p->place[i]]. */
int probe_run(struct probe *p, const struct samples *s, int sample,
              struct infer_error *err);

#endif
