/* SPDX-License-Identifier: Apache-2.0 */
/* Weight files of TEST_DATA as graphs, as model files and as models. */
#ifndef TESTS_CONFORMANCE_MODEL_H
#define TESTS_CONFORMANCE_MODEL_H

#include <cJSON.h>

#include "libinfer/graph/graph.h"
#include "libinfer/model/model.h"

/* Largest difference from recorded outputs, relative to the largest of them:
 * the roundings of single precision over a score of layers, in two orders. */
#define CONFORMANCE_RELATIVE 1e-5

/* That of a session with these options from the reference.  rounded: how far
 * from it one with the options of model_rounding() is; 0: not known. */
double model_bound(const struct infer_session_options *asked, double rounded);
bool model_on_gpu(const struct infer_session_options *asked);

/* The graph of the file below folder/weights, as read.  arch: a built-in name
 * or a file of tests/arch, for bare weights, of which there is no graph (*out
 * is NULL) without it; else NULL. */
int model_read(const char *folder, const char *file, const char *arch,
               struct graph **out, struct infer_error *err);

/* The optimised graph, through a model file on disk. */
int model_optimise(const struct graph *g, struct infer_model **out,
                   struct infer_error *err);

/* Options of a session on the reference backend. */
const struct infer_session_options *model_reference(void);

/* The same for one that rounds weights and activations to the type of this
 * precision, and nothing else: to halves for TF32, which keeps as many bits. */
const struct infer_session_options *
model_rounding(const struct infer_session_options *asked);

/* How often each operation ran on another backend than this: " softmax 1". */
void model_name_others(const struct infer_session *session,
                       enum infer_backend asked, char *out, size_t bytes);

/* folder/weights/reference_outputs.json; NULL where it cannot be read. */
cJSON *model_records(const char *folder);

#endif
