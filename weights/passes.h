/* SPDX-License-Identifier: Apache-2.0 */
/* The passes: graph in, leaner graph out, same function.  Each is a row of
 * passes.def and one file; weights_run_passes() runs them in that order, and
 * again while anything changes. */
#ifndef WEIGHTS_PASSES_H
#define WEIGHTS_PASSES_H

#include "libinfer/graph/graph.h"
#include "weights/weights.h"

/* What happened to the network, for people: read, folded, fused, removed,
 * stripped. */
struct pass_event {
    const char *pass; /* row name */
    char *text;       /* "bn1 into conv1" */
    int64_t bytes;    /* weight bytes saved; 0 where none */
};
struct pass_report {
    struct pass_event *event;
    size_t count, capacity;
};
void pass_report_init(struct pass_report *report);
void pass_report_clear(struct pass_report *report);
/* Failing to note an event for lack of memory is not an error of the pass. */
void pass_report_add(struct pass_report *report, const char *pass,
                     int64_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The functions of the rows.  One for a node returns 1 if it changed the graph,
 * 0 if not; one for the graph the number of changes; both a negative
 * INFER_E*. */
struct pass; /* weights/passes/pass.h */
#define PASS(function, name, level, description)                               \
    int function(struct pass *p, int node);
#define PASS_GRAPH(function, name, level, description)                         \
    int function(struct pass *p);
#define PASS_LAST(function, name, level, description)                          \
    int function(struct pass *p);
#include "weights/passes.def"
#undef PASS
#undef PASS_GRAPH
#undef PASS_LAST

struct pass_row {
    const char *name;        /* "fold-batch-norm" */
    const char *description; /* one line */
    int level;               /* runs at -O<level> and above: 0, 1, 2 */
    /* One of the two: for each node in order, or for the graph. */
    int (*visit)(struct pass *p, int node);
    int (*whole)(struct pass *p);
    bool last; /* once, after the others */
};
/* Returns how many changes were made, or a negative INFER_E*.  The graph is
 * sorted and has its shapes inferred as far as they are known; it is brought to
 * that state again after a pass that changed it. */
int pass_run(const struct pass_row *row, struct graph *g,
             struct pass_report *report, struct infer_error *err);

size_t pass_count(void);
const struct pass_row *pass_at(size_t i);
const struct pass_row *pass_find(const char *name);

struct pass_options {
    int level; /* 0, 1 or 2 (default) */
    bool keep_bn;
    /* What training goes on with stays: batch norm with its statistics, and
     * dropout. */
    bool keep_training;
    const char *const *disabled; /* row names, NULL-terminated; may be NULL */
};
void pass_options_init(struct pass_options *options);

int weights_run_passes(struct graph *g, const struct pass_options *options,
                       struct pass_report *report, struct infer_error *err);

#endif
