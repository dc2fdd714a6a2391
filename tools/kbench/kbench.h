/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kbench: verifies and times the kernels of the table, problem by problem.
 *
 *     figures.c, sweep.c, layers.c   problems from words or from a model
 *     population.c                   problems from a file, and samples of it
 *     direction.c                    backward problems: dgrad, wgrad
 *     verification.c                 expected outputs and tolerances
 *     bench.c, timing.c              candidates: verified, then timed
 *     peaks.c                        what the device can do at best
 *     stats.c, compare.c             numbers, and those of an earlier run
 *     report_*.c, page.html           for people and for machines
 */
#ifndef TOOLS_KBENCH_KBENCH_H
#define TOOLS_KBENCH_KBENCH_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/kern.h"
#include "libinfer/device/device.h"
#include "tools/cli.h"

/* ---- problems ------------------------------------------------------ */

/* Products are rounded as the precision says; F32 stays exact. */
struct kb_precision {
    const char *name; /* "fp32", "tf32", "fp16", "bf16" */
    enum infer_dtype dtype;
    bool allow_tf32;
};
/* NULL where there is none of the name. */
const struct kb_precision *kb_precision_find(const char *name);

/* The convolution itself, the gradient of its input and that of its weights. */
enum kb_dir { KB_FPROP, KB_DGRAD, KB_WGRAD, KB_DIRS };
extern const char *const kb_dir_names[]; /* "fprop", ...; NULL at the end */

/* Changes a convolution's problem into its dgrad or wgrad problem, as training
 * has it: no epilogue, dw in single precision.  The weights of a dgrad count as
 * constant, so that a library may reorder them once, before the timing; our
 * rows that flip them in each launch do so within the measured time. */
void kb_problem_backward(struct kern_problem *p, enum kb_dir dir);
/* One line of kern_problem_format().  A backward problem shows the figures of
 * its forward problem: "conv_dgrad mb1ic64ih56oc64oh56kh3ph1 nhwc F32".
 * Returns buf. */
const char *kb_problem_text(const struct kern_problem *p, enum kb_dir dir,
                            char *buf, size_t bytes);

/* A convolution, pooling or dense problem.  0 means not given: 1 for most, H
 * for W, R for S; p and q follow from the rest. */
struct kb_figures {
    enum kern_op op; /* of the forward problem */
    enum kb_dir dir;
    int64_t n, c, h, w, k, r, s, p, q;
    int groups, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_left, pad_bottom, pad_right; /* -1: as top or left */
    bool bias, residual, residual_last, average, factors;
    struct kern_unary act;
    enum infer_dtype dtype; /* of a printed line; INFER_NONE: none */
};
void kb_figures_init(struct kb_figures *f, enum kern_op op);
/* Reads benchdnn's letters, and what kern_problem_format() prints after them:
 * "mb32ic64ih56oc64oh56kh3ph1 +bias +relu".  Fields that are not named stay as
 * they are.  EARGUMENT says what is wrong. */
int kb_figures_parse(const char *text, struct kb_figures *f,
                     struct infer_error *err);
/* Sets one figure by its letter or word: "n", "hw", "stride", "pad", ... */
bool kb_figures_set(struct kb_figures *f, const char *name, int64_t value);
/* The complete problem; EARGUMENT if the figures are inconsistent. */
int kb_figures_problem(const struct kb_figures *f,
                       const struct kb_precision *precision,
                       enum kern_layout layout, struct infer_error *err,
                       struct kern_problem *out);

/* "n=1:64:2", "n=1:64:x2", "k=1,4,16": the figure and its values. */
#define KB_SWEEP_VALUES 256
struct kb_sweep {
    char name[16];
    int64_t value[KB_SWEEP_VALUES];
    int count;
};
int kb_sweep_parse(const char *text, struct kb_sweep *out,
                   struct infer_error *err);

/* ---- results ------------------------------------------------------- */

enum kb_side { KB_OURS, KB_BASELINE, KB_REFERENCE, KB_SIDES };
extern const char *const kb_side_names[KB_SIDES];
/* cuDNN's and oneDNN's rows are the baselines. */
enum kb_side kb_side_of(const struct kern_row *row);

enum kb_state {
    KB_TIMED,
    KB_WRONG,  /* verification failed: no time */
    KB_FAILED, /* could not run */
    KB_DROPPED /* timed once, far slower than the best */
};
extern const char *const kb_state_names[];

/* Seconds a launch. */
struct kb_stats {
    double min, median, p95;
    double spread; /* (third quartile - first) / median */
    int rounds;
};
/* Sorts the times. */
struct kb_stats kb_stats_of(double *times, int n);

struct kb_result {
    const struct kern_row *row;
    char variant[KERN_VARIANT_NAME];
    enum kb_side side;
    enum kb_state state;
    struct kb_stats time;
    int launches; /* a round */
    size_t workspace;
    unsigned flags; /* of the kernel as prepared */
    double worst;   /* largest difference / tolerance */
    char text[384]; /* reason if wrong or failed */
};

/* One problem and its results. */
struct kb_case {
    char model[64], name[128]; /* "" outside a model */
    int64_t batch;
    int count; /* number of layers with this problem */
    enum kb_dir dir;
    struct kern_problem p;
    const struct kb_precision *precision;
    char text[256];
    double flops, bytes;
    double floor; /* seconds; 0 before peaks are known */
    bool by_bytes;
    int64_t verified; /* outputs compared with the reference */
    struct kb_result *result;
    int n_results;
    int best[KB_SIDES]; /* index of the fastest, or -1 */
    double ratio;       /* best median: baseline / ours; 0: one is missing */
    int untried;        /* variants left out by --prepare-limit */
    double before;      /* seconds of our best in an earlier run, or 0 */
};

struct kb_cases {
    struct kb_case *item;
    int count, capacity;
};
/* Adds a case with the problem and its derived fields; NULL when out of
 * memory. */
struct kb_case *kb_cases_add(struct kb_cases *list,
                             const struct kern_problem *p, enum kb_dir dir,
                             const struct kb_precision *precision);
void kb_cases_clear(struct kb_cases *list);
struct kb_result *kb_case_add(struct kb_case *c);
/* Sets best[] and ratio. */
void kb_case_judge(struct kb_case *c);

struct kb_peak {
    double value; /* FLOP/s or bytes/s; 0: not measured */
    char how[160];
};
struct kb_peaks {
    struct kb_peak flops[4]; /* in the order of the precisions */
    struct kb_peak memory, cache;
    size_t cache_bytes; /* largest problem, in bytes, that stays in the cache */
    double launch;      /* shortest launch of a series, seconds */
};
int kb_precision_index(const struct kb_precision *precision);
void kb_peaks_apply(const struct kb_peaks *peaks, bool cold, struct kb_case *c);

/* ---- what was asked ------------------------------------------------ */

#define KB_MAX_ITEMS 16

enum kb_sort { KB_SORT_NONE, KB_SORT_RATIO, KB_SORT_TIME };

struct kb_request {
    struct cli *cli;
    struct kb_figures figures;
    bool any_figure; /* given on the command line */
    const char *problem[64];
    int n_problems;
    struct kb_sweep *sweep;
    int n_sweeps;
    const char *model[KB_MAX_ITEMS];
    int n_models;
    const char *population[KB_MAX_ITEMS]; /* files of problems */
    int n_populations;
    int64_t sample; /* problems drawn from each; 0: all */
    bool list;      /* print the problems, measure nothing */
    int64_t batch[KB_MAX_ITEMS];
    int n_batches;
    int64_t extent; /* of free spatial dimensions */
    bool ops[KERN_OP_COUNT];
    bool dir[KB_DIRS];
    const char *device;
    int threads;
    const struct kb_precision *precision[4];
    int n_precisions;
    enum kern_layout layout;
    bool narrow_gradient; /* weight gradient in the type of the activations */
    bool backend[INFER_BACKEND_COUNT]; /* none: all of the device */
    const char *kernels;               /* glob */
    bool list_kernels;
    bool cold, all, every_kernel;
    int rounds, variants;
    double fail_below, time_limit; /* time_limit in seconds */
    double reference_limit;        /* MFLOP */
    double prepare_limit;          /* seconds; 0: none */
    enum kb_sort sort;
    const char *csv, *json, *html, *before;
};

/* Fills *r from the command line.  As cli_parse(): 0 to go on, 1 to end here,
 * -1 after a usage error was printed.  To be cleared in all cases. */
int kb_parse(struct cli *cli, int argc, char **argv, struct kb_request *r);
void kb_request_clear(struct kb_request *r);
/* Prints the rows of the kernel table that the request names, all by default;
 * returns how many. */
int kb_list_kernels(const struct kb_request *r);
/* Measures and reports.  *code: 3 where a kernel is wrong or a ratio lower
 * than asked. */
int kb_run(const struct kb_request *r, const char *command,
           struct infer_error *err, enum cli_exit *code);

/* Lays out the weights or their gradient of a backward problem as training
 * does: on a GPU as the activations, else row-major.  On a GPU weights change
 * in each step and are no constants.  Gradients are in single precision, or
 * with --narrow-gradient in the type of the activations. */
void kb_problem_lay_weights(const struct kb_request *r, enum kb_dir dir,
                            struct kern_problem *p);
/* Adds the problem of these figures. */
int kb_cases_add_figures(const struct kb_request *r, const struct kb_figures *f,
                         const struct kb_precision *precision,
                         struct kb_cases *out, struct infer_error *err);
/* All problems of the request. */
int kb_collect(const struct kb_request *r, struct kb_cases *out,
               struct infer_error *err);
/* The problems of one model at one batch in one direction. */
int kb_layers(const struct kb_request *r, const char *model, int64_t batch,
              enum kb_dir dir, const struct kb_precision *precision,
              struct kb_cases *out, struct infer_error *err);
/* The problems of a file of them, or r->sample of them: drawn by their weights
 * and without repetition, each at one of the batches of the request.  The seed
 * decides alone.  EIO, EARGUMENT with the line. */
int kb_population(const struct kb_request *r, const char *path, enum kb_dir dir,
                  const struct kb_precision *precision, struct kb_cases *out,
                  struct infer_error *err);

/* ---- verification ---------------------------------------------------------
 */

/* Elements after which the values of an input repeat: a prime. */
#define KB_PERIOD 65521

/* Input values: element at storage offset o of input i is value o % KB_PERIOD
 * of its pool. */
struct kb_values {
    void *pool[KERN_MAX_IN];
};
bool kb_values_new(struct kb_values *v, const struct kern_problem *p,
                   uint64_t seed);
void kb_values_free(struct kb_values *v);

/* Indices of tolerances.  A kernel may round its operands to TF32, its bias,
 * or both; transform kernels (Winograd, FFT) round neither. */
enum {
    KB_ROUNDS_TF32 = 1,
    KB_ROUNDS_BIAS = 2,
    KB_WINOGRAD = 4,
    KB_FOURIER,
    KB_BOUNDS
};

/* The reference's outputs, all or a sample, and the tolerances of kernels. */
struct kb_verification {
    struct kern_tensor out; /* of the sample, dense, in the reference's type */
    void *expected;
    double *tol[KB_BOUNDS]; /* NULL: no kernel of this kind */
    /* Storage of the sample in the output: `ranges` ranges in elements, and the
     * offset of each sampled element. */
    int64_t (*range)[2]; /* first, count */
    int n_ranges;
    int64_t *offset;
    int64_t count;
};
int kb_verification_new(const struct kern_problem *p, uint64_t seed,
                        struct kb_verification *out, struct infer_error *err);
void kb_verification_free(struct kb_verification *verification);
/* e: the prepared kernel; y: storage of the output with the ranges filled. */
bool kb_verification_check(const struct kb_verification *verification,
                           const struct kern_problem *p,
                           const struct kern_exec *e, const void *y,
                           double *worst, char *text, size_t bytes);

/* ---- measuring ----------------------------------------------------- */

/* Device memory that the cases of a run share, so that no case waits for the
 * driver.  Pieces are taken from the front. */
struct kb_pool {
    char *memory; /* NULL: every piece is allocated */
    size_t bytes, used;
};

/* How candidates of a case are chosen and timed. */
struct kb_plan {
    const struct device *device;
    struct kb_pool *pool;
    bool backend[INFER_BACKEND_COUNT];
    const char *kernels; /* glob or NULL */
    bool cold;           /* rotate through more memory than the cache holds */
    size_t cache_bytes;
    int rounds;
    bool every_kernel; /* estimates exclude no kernel */
    int variants;      /* of a row at most; 0: all */
    double time_limit; /* seconds for one problem */
    /* Seconds after which no further variant of a row is prepared, but for the
     * first three; 0: none is left out. */
    double prepare_limit;
    uint64_t seed;
};
/* Adds one result a candidate.  A wrong or failed candidate is noted in its
 * result; an error means that the device has failed or memory ran out. */
int kb_bench(const struct kb_plan *plan,
             const struct kb_verification *verification, struct kb_case *c,
             struct infer_error *err);

/* Measures the device's peak rates in the named precisions. */
int kb_peaks_measure(const struct kb_plan *plan,
                     const struct kb_precision *const *precision, int n,
                     struct kb_peaks *out, struct infer_error *err);
/* On a CPU: multiply-adds a second of `threads` threads, and bytes a second
 * copied (read and written) between blocks of `bytes`. */
double kb_cpu_flops(int threads);
double kb_cpu_copy(int threads, size_t bytes);

/* ---- reports ------------------------------------------------------- */

/* "kbench multiplier": prints the errors of approximate multipliers and writes
 * their tables.  The body of cli_main(). */
int kb_multiplier(int argc, char **argv);

struct kb_machine {
    char device[128], host[128], system[128], date[64];
    char software[160]; /* versions that matter */
    const char *command;
    double waited; /* share of the threads' time without a core; CPU only */
};
void kb_machine_describe(const struct device *d, const char *command,
                         struct kb_machine *out);
/* The command line as one text, malloc()ed; cli_parse() changes argv. */
char *kb_command(int argc, char **argv);

/* Layers of one network at one batch size and precision. */
struct kb_group {
    const char *model;
    int64_t batch;
    enum kb_dir dir;
    const struct kb_precision *precision;
    int compared, ahead, layers;  /* problems; layers counts repeats */
    double mean;                  /* geometric, of the ratios */
    double ours, baseline, floor; /* seconds, layers summed up */
};
struct kb_summary {
    struct kb_group all;
    struct kb_group *group;
    int n_groups;
    int *below; /* cases under 0.9, worst first */
    int n_below;
};
int kb_summarise(const struct kb_cases *cases, struct kb_summary *out);
void kb_summary_free(struct kb_summary *s);

/* Our best kernels compared with those of an earlier run. */
struct kb_change {
    int count;           /* problems that both have */
    double mean;         /* geometric, of before / now */
    int *moved, n_moved; /* cases that changed by more than KB_NOISE, those
                          * that became slower first */
    int n_slower;
};
#define KB_NOISE 0.05
/* Reads what --json wrote and sets `before` of each case with the same problem,
 * precision and state of the cache.  EIO, EFORMAT. */
int kb_compare(const char *path, bool cold, struct kb_cases *cases,
               struct infer_error *err);
int kb_change_of(const struct kb_cases *cases, struct kb_change *out);
void kb_change_free(struct kb_change *c);

struct kb_report {
    const struct kb_request *request;
    const struct kb_cases *cases;
    const struct kb_peaks *peaks;
    const struct kb_machine *machine;
    const struct kb_summary *summary;
    const struct kb_change *change; /* NULL without an earlier run */
};

double kb_rate(double amount, double seconds); /* 0 where seconds is 0 */
/* "conv2d_... [eng3 k1=2]".  Returns buf. */
const char *kb_kernel_text(const struct kb_result *r, char *buf, size_t bytes);
/* Order in which results of a case are shown: fastest first, then those
 * without a time.  malloc()ed. */
int *kb_order(const struct kb_case *c);

void kb_text_head(const struct kb_report *r);
void kb_text_case(const struct kb_report *r, const struct kb_case *c);
void kb_text_summary(const struct kb_report *r);
void kb_text_change(const struct kb_report *r);
void kb_csv(const struct kb_report *r, FILE *f);
cJSON *kb_json(const struct kb_report *r);
void kb_html(const struct kb_report *r, FILE *f);

#endif
