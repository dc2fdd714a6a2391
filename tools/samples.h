/* SPDX-License-Identifier: Apache-2.0 */
/* Samples: inputs of a network that are like those that it will meet. */
#ifndef TOOLS_SAMPLES_H
#define TOOLS_SAMPLES_H

#include "include/infer.h"
#include "libinfer/graph/graph.h"

struct samples {
    struct infer_array *in; /* n_inputs of each sample, one after the other */
    int n, n_inputs;
};

/* Reads samples for graph g from `source`: a folder of pictures, a picture or a
 * list of pictures, which get the preprocessing of the network's only input; or
 * an .npz with an array for each input, as many samples as its first dimension
 * holds batches.  ":N" behind it: at most N of them (128), spread evenly.
 * Free dimensions of the arrays come from the file; a free batch is 1.
 * EARGUMENT, EIO, EFORMAT; EUNSUPPORTED: pictures for a network without one
 * input of pictures. */
int samples_read(const char *source, const struct graph *g,
                 struct infer_error *err, struct samples *out);
void samples_clear(struct samples *s);

#endif
