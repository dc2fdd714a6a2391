/* SPDX-License-Identifier: Apache-2.0 */
/* Architectures for bare weights: built-in ones (archs.def) and files. */
#ifndef WEIGHTS_ARCH_H
#define WEIGHTS_ARCH_H

#include "libinfer/graph/graph.h"
#include "weights/weights.h"

struct arch_row {
    const char *name;        /* "resnet50" */
    const char *description; /* one line: paper, input, whose tensor names */
    /* Builds the graph with weights unbound.  classes 0: the usual number. */
    int (*build)(const struct arch_row *row, int classes,
                 struct infer_error *err, struct graph **out);
    int variant[8]; /* depths and widths, as the builder reads them */
};

size_t arch_count(void);
const struct arch_row *arch_at(size_t i);
const struct arch_row *arch_find(const char *name);

/* A graph from a built-in name or an architecture file.  For a built-in, the
 * number of classes is taken from the dictionary's last dense or conv weight
 * where dict is not NULL. */
int arch_open(const char *name_or_path, const struct weights_dict *dict,
              struct infer_error *err, struct graph **out);

/* Binds a dictionary to a graph's weights by name.  A prefix of more than half
 * of the keys ("module.", "backbone.net.") may stand before the names of the
 * graph; shapes must agree but for dimensions of size 1.  Missing, surplus and
 * mis-shaped tensors are all listed in one report.  Surplus training state
 * (num_batches_tracked) is noted as stripped.  Of the options (NULL: the
 * defaults), layout, dense_order and partial count. */
int weights_bind(struct graph *g, struct weights_dict *dict,
                 const struct weights_options *options,
                 struct infer_error *err);

/* How a dictionary and a graph's weights agree, without binding them. */
struct weights_fit {
    size_t agree;      /* weights whose tensor has their shape */
    size_t misshaped;  /* weights whose tensor has another shape */
    size_t missing;    /* weights without a tensor */
    size_t surplus;    /* tensors without a weight, training state excepted */
    char example[256]; /* of the first that disagrees; "" if none does */
};
/* Entries that are no training state, whatever prefix their names have: each
 * of them agrees with a graph, or is a fault. */
size_t weights_count_needed(const struct weights_dict *dict);
/* Values of the graph that wait for data. */
size_t weights_count_open(const struct graph *g);
/* Counts by the rules of weights_bind(): names with their prefixes, shapes in
 * channels-first or channels-last order (one for all tensors).  EMEMORY. */
int weights_measure_fit(const struct graph *g, const struct weights_dict *dict,
                        struct infer_error *err, struct weights_fit *out);

/* The built-in architecture that the dictionary's names and shapes fit without
 * exception.  EUNSUPPORTED if none does (the error names the nearest ones with
 * what differs) or several do (it lists them). */
int arch_recognise(const struct weights_dict *dict, struct infer_error *err,
                   const struct arch_row **out);

#endif
