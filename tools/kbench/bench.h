/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by bench.c and timing.c: one problem on one device. */
#ifndef TOOLS_KBENCH_BENCH_H
#define TOOLS_KBENCH_BENCH_H

#include "tools/kbench/kbench.h"

/* Copies of all data that launches rotate through, at most. */
#define BENCH_SETS 32

#define BENCH_MEMORY 4096

struct candidate {
    struct kern_exec exec;
    bool prepared;
    int result; /* index in the case */
    bool out;   /* wrong, failed, or too slow to go on with */
    void *packed[BENCH_SETS][KERN_MAX_IN];
    void *host[KERN_MAX_IN]; /* packed inputs before the copy to the device */
    int pack_code;
    struct infer_error pack_why;
    struct device_graph *graph; /* `launches` launches, where recorded */
    int launches;
    double *times; /* seconds a launch, one a round */
    int n_times;
};

struct bench {
    const struct kb_plan *plan;
    const struct kb_verification *verification;
    struct kb_case *c;
    struct candidate *candidate;
    int count;
    struct kb_values values;
    int sets;
    char *in[BENCH_SETS][KERN_MAX_IN], *out[BENCH_SETS];
    void *host[KERN_MAX_IN]; /* constant inputs, for pack() */
    char *fetched;           /* the output's storage on the host */
    char *chunk;             /* values before the copy to the device */
    void *workspace;
    size_t workspace_bytes;
    void *memory[BENCH_MEMORY];
    int n_memory;
};

struct kb_result *bench_result(const struct bench *b,
                               const struct candidate *k);
int bench_launch(struct bench *b, struct candidate *k, int set,
                 struct infer_error *err);
/* Excludes the candidate and notes the reason.  Negative if the device has
 * failed. */
int bench_fail(struct bench *b, struct candidate *k,
               const struct infer_error *why, struct infer_error *err);
/* Times all candidates that are not out, in turns. */
int bench_time(struct bench *b, struct infer_error *err);

#endif
