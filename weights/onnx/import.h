/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of one import share: inputs, attempts, refusals. */
#ifndef WEIGHTS_ONNX_IMPORT_H
#define WEIGHTS_ONNX_IMPORT_H

#include "weights/onnx/onnx.h"

/* Sizes that replace the usual ones, by the slot of a free dimension. */
struct onnx_few_sizes {
    int64_t fixed[INFER_MAX_RANK]; /* in an import at fixed sizes */
    int64_t low[INFER_MAX_RANK];   /* at the probes, both ends included; */
    int64_t high[INFER_MAX_RANK];  /* 0: as without a window */
};
/* Reads a network of free sizes that takes few (few_sizes.c).  The refusal so
 * far, in the settings' error, stands where that does not help. */
int onnx_import_few_sizes(struct onnx_import *settings, struct pb_span name,
                          struct graph **out);
/* Attempts at large sizes, then at small ones (onnx.c). */
int onnx_import_large_or_small(struct onnx_import *settings,
                               struct pb_span name, struct graph **out);

/* The size of a free dimension at a probe (sizes.c).  Slot 0 is the batch; one
 * input's dimension d has slot d where no other input has it. */
int64_t onnx_probe_size(const struct onnx_import *im, int probe, int slot);
/* The size of a free dimension in an import at fixed sizes. */
int64_t onnx_fixed_size(const struct onnx_import *im, int slot);
/* The numbers of an import that are the same at all its probes (numbers.c). */
struct onnx_number;
struct onnx_numbers {
    struct onnx_number *item; /* free() */
    size_t n;
};
/* Replaces *out.  EMEMORY, as an error of the import. */
int onnx_numbers_of(const struct onnx_import *im, struct onnx_numbers *out);
/* The name of a number that is another in b, or NULL. */
const char *onnx_numbers_differ(const struct onnx_numbers *a,
                                const struct onnx_numbers *b);

/* Compares a graph with imports at fixed sizes that were no probe: EUNSUPPORTED
 * where shapes of outputs differ or numbers of the file (verify.c). */
int onnx_verify_sizes(struct onnx_import *settings, struct pb_span name,
                      const struct graph *g,
                      const struct onnx_numbers *numbers);
/* Compares the shapes of all values of a graph with those of an import at fixed
 * sizes, where both take these: EUNSUPPORTED where one differs (verify.c). */
int onnx_verify_at(const struct onnx_import *settings, struct pb_span name,
                   const struct onnx_few_sizes *sizes, const struct graph *g);
/* Compares how many elements the values of a graph have at a batch of 1 with
 * those of an import at that batch, where a batch of 1 is left out:
 * EUNSUPPORTED where they differ (verify.c). */
int onnx_verify_one(const struct onnx_import *settings, struct pb_span name,
                    const struct graph *g);
#define ONNX_CHECK_ONE 4 /* sizes of onnx_fixed_size() */
/* EUNSUPPORTED unless the graph of an import that took free sizes of several
 * inputs for one refuses others (verify.c). */
int onnx_verify_alike(struct onnx_import *settings, const struct graph *g);
/* One import with these settings (onnx.c). */
int onnx_attempt(struct onnx_import *settings, struct pb_span name,
                 bool *choice, struct graph **out);
/* Adds the source's inputs that are no constants. */
int onnx_add_inputs(struct onnx_import *im);

/* The first reason's code (refused.c). */
int onnx_first_refusal(const struct onnx_import *im);
/* A line a reason in the error; none is left then. */
void onnx_report_refusals(struct onnx_import *im);
/* True where all refused nodes are of unknown kinds, and no output of the graph
 * needs one: what a loss or a metric of training left behind. */
bool onnx_refused_are_dead(struct onnx_import *im);

/* Attempts with several readings of free sizes; the settings have a source
 * (onnx.c). */
int onnx_import_either(struct onnx_import *settings, struct pb_span name,
                       struct graph **out);

#endif
