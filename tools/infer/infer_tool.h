/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the command line `infer`. */
#ifndef TOOLS_INFER_INFER_TOOL_H
#define TOOLS_INFER_INFER_TOOL_H

#include "include/infer.h"
#include "libinfer/task/task.h"
#include "tools/array.h"
#include "tools/cli.h"
#include "tools/labels.h"
#include "tools/picture_list.h"

struct tool_named_file {
    char *name; /* NULL: by position */
    const char *path;
};

struct tool_shape {
    char *name;
    int rank;
    int64_t dim[INFER_MAX_RANK];
};

/* The request of the command line. */
struct tool_request {
    const char *model;
    struct infer_session_options session;
    int64_t batch; /* 0: 1, or what the model fixes */
    int top;
    bool top_given;
    const char *labels;
    int64_t max_pixels; /* of a picture; 0: the library's default */
    const char *task;   /* NULL: the model's, or told by its outputs */
    const char *output; /* pictures are written there; NULL: they are not */
    struct task_limits limits;
    bool limits_given;
    bool tile;                       /* pictures are run tile by tile */
    int64_t tile_side, tile_overlap; /* pixels; -1: by default */
    struct tool_named_file load[ARRAYS_MAX];
    int n_load;
    struct tool_shape shape[ARRAYS_MAX];
    int n_shape;
    const char *export_output;
    bool bench, include_transfers;
    bool timing;             /* an option of --bench was given */
    double warmup, duration; /* seconds */
    int64_t runs;            /* to be timed; 0: as long as the duration */
    int streams;             /* sessions at once; 0: not given */
    double rate;             /* runs that arrive a second; 0: not given */
    bool histogram;
    const char *compare_with; /* what --json wrote earlier; NULL: none */
    double fail_below;        /* least speedup of the median; 0: any */
    double percentile[16];
    int n_percentile;
    bool profile;
    const char *profile_file;
    bool report_memory, report_load_time;
    const char *compare;
    bool layers;
    bool tolerance;    /* --atol or --rtol was given */
    double atol, rtol; /* rtol < 0: not given */
    const char *dump_layers;
    const char *evaluate; /* a folder, a list or annotations; NULL: no */
    const char *coco;     /* boxes are written there as COCO's results */
    bool try_presets;
    bool doctor; /* print what this machine offers and end */
};

/* An open model with its session. */
struct tool_run {
    struct cli *cli;
    const struct tool_request *request;
    struct infer_model *model;
    struct infer_model *pixels; /* the session's, where it is not `model` */
    struct infer_session *session;
    double load_seconds, plan_seconds;
    struct labels labels; /* of --labels; none: the model's are used */
    struct task task;     /* of pictures; known from the first run on */
    bool task_known;
    char **written; /* files of --output so far */
    size_t n_written;
    struct evaluation *evaluation; /* with --evaluate of classes */
    struct iou *iou;               /* with --evaluate of masks */
    struct coco *coco;             /* with --evaluate of annotations */
    size_t *shown_as; /* pictures shown as each class; NULL: none yet */
    int64_t classes;
    size_t shown; /* the sum */
    size_t judged,
        doubtful;           /* pictures of boxes or made pictures; those without
                             * a box, or at the limits of their values */
    float *first_embedding; /* of the first picture; NULL: none yet */
    cJSON *result;          /* with --json: what tool_report() is to print */
    const char *result_name; /* NULL: an object that takes more members */
};

/* ---- options.c ----------------------------------------------------- */

/* For cli_parse(); they fill a struct tool_request. */
extern const struct cli_option tool_options[];
void tool_request_init(struct tool_request *r);
void tool_request_clear(struct tool_request *r);
/* Reports options without effect in the requested mode; -1 if there are. */
int tool_check_request(const struct cli *cli, const struct tool_request *r,
                       int n_paths);
/* Reports output files that the run reads; -1 if there are. */
int tool_check_targets(const struct cli *cli, const struct tool_request *r,
                       char **pictures, int n_pictures);

/* ---- arrays.c ------------------------------------------------------ */

/* Makes an array for each input: from --load-inputs, else random, with the
 * shapes of --input-shape and --batch. */
int tool_make_inputs(const struct tool_run *run, struct arrays *in,
                     struct infer_error *err);
/* Allocates every output of the latest plan. */
int tool_make_outputs(struct infer_session *session,
                      const struct infer_model *model, struct arrays *out,
                      struct infer_error *err);
/* Both, and the plan for the inputs between them (main.c). */
int tool_prepare(struct tool_run *run, struct arrays *in, struct arrays *out,
                 struct infer_error *err);
/* {"name": {"dtype", "shape", "data": [flat]}} */
cJSON *tool_outputs_json(const struct arrays *out);
/* True if the path of --export-output names a folder; NULL does not. */
bool tool_exports_folder(const char *path);
/* Writes outputs: .npy (one output), .json (all), or a folder of .npy. */
int tool_export(const char *path, const struct arrays *out,
                struct infer_error *err);

/* ---- pictures.c ---------------------------------------------------- */

/* *info is the input if that is one picture of float values, as N,C,H,W.
 * EARGUMENT. */
int tool_check_input(const struct infer_model *model,
                     struct infer_tensor_info *info, struct infer_error *err);
/* Sets rank and sizes of the array for pictures of shape dim (N,C,H,W): the
 * network's own, which has no N where its input is one picture. */
void tool_picture_array(const struct infer_model *model, const int64_t *dim,
                        struct infer_array *out);
/* How many pictures such an array holds. */
int64_t tool_pictures_in(const struct infer_array *in);
/* Creates the session for pictures; on a GPU its input is 8-bit pixels. */
int tool_pictures_open(struct tool_run *run, struct infer_error *err);
/* Pictures a run: of the model, of --batch, or 1. */
int64_t tool_batch_limit(const struct tool_run *run,
                         const struct infer_tensor_info *info);
/* Runs all pictures in batches and shows what the network says of each.
 * Unreadable pictures are reported and skipped; they make the status negative
 * after the others have run. */
int tool_run_pictures(struct tool_run *run, const struct tool_list *list,
                      struct infer_error *err);

/* ---- classes.c ----------------------------------------------------- */

/* The label of a class, from --labels or the model; NULL: it has none. */
const char *tool_label(const struct tool_run *run, int64_t class);
/* How many labels there are. */
int tool_label_count(const struct tool_run *run);
/* The scores of row `row` as probabilities: the row itself after a softmax,
 * else its softmax.  p has room for all classes. */
void tool_probabilities(const struct infer_array *out, int64_t row, double *p);
/* Prints the best classes of row `row` of an output. */
int tool_show_classes(struct tool_run *run, const struct infer_array *out,
                      int64_t row, const char *path, struct infer_error *err);
/* Notes on standard error: an unequal number of labels, or an output that does
 * not look like class scores. */
void tool_note_classes(const struct tool_run *run,
                       const struct infer_array *out);
/* Notes after several pictures that all, or of many classes nearly all, were
 * shown as one. */
void tool_note_same(const struct tool_run *run);
/* Notes where the file states no preprocessing and every picture was doubtful.
 */
void tool_note_doubtful(const struct tool_run *run);

/* ---- try_presets.c ------------------------------------------------- */

/* Runs the pictures with each preset of preprocessing and prints what each
 * gives: the best class, the boxes, how much of a made picture is at its
 * limits. */
int tool_try_presets(struct tool_run *run, const struct tool_list *list,
                     struct infer_error *err);

/* ---- tasks.c ------------------------------------------------------- */

/* One picture of a batch that has run. */
struct tool_shown {
    const char *path;
    const struct infer_image *source; /* pixels NULL: they were not kept */
    const int64_t *hw;                /* of the network's input */
    int64_t batch, entry;
};

/* Sets run->task at the first plan: from --task, the model, or the outputs. */
int tool_find_task(struct tool_run *run, const struct arrays *out,
                   const int64_t *hw, int64_t batch, struct infer_error *err);
/* Shows boxes, a map of classes or a picture, and writes it where --output says
 * so. */
int tool_show(struct tool_run *run, const struct arrays *out,
              const struct tool_shown *shown, struct infer_error *err);
/* The boxes of one picture, in its own pixels.  boxes->box: free(). */
int tool_find_boxes(const struct tool_run *run, const struct arrays *out,
                    const struct tool_shown *shown,
                    const struct task_limits *limits, struct infer_error *err,
                    struct task_boxes *boxes);
/* The outputs of one run as tasks read them. */
struct task_outputs tool_outputs(const struct tool_run *run,
                                 const struct arrays *out, const int64_t *hw,
                                 int64_t batch, int64_t entry);
/* With --json the object of a picture in the result, and, unless list is NULL,
 * an empty list of that name in it; else prints the path, and both are NULL. */
cJSON *tool_begin(const struct tool_run *run, const struct tool_shown *shown,
                  const char *list, cJSON **items);
/* Share of the values of a picture that are 0 or 255. */
double tool_share_at_limits(const struct infer_image *image);
/* Writes a picture where --output says so. */
int tool_write_picture(struct tool_run *run, const char *source,
                       const struct infer_image *image,
                       struct infer_error *err);
/* Writes and prints a picture that the network made. */
int tool_show_made(struct tool_run *run, const struct tool_shown *shown,
                   const struct infer_image *image, struct infer_error *err);
/* Makes a folder for results, which may be there already. */
int tool_make_folder(const char *path, struct infer_error *err);
/* Prepares --output for `count` pictures: makes the folder. */
int tool_open_output(const struct tool_request *r, size_t count,
                     struct infer_error *err);

/* ---- values.c ------------------------------------------------------ */

int tool_show_depth(struct tool_run *run, const struct task_outputs *o,
                    const struct preprocess_window *window,
                    const struct tool_shown *shown, struct infer_error *err);
/* From the second picture on also the cosine with the first. */
int tool_show_embedding(struct tool_run *run, const struct task_outputs *o,
                        const struct tool_shown *shown,
                        struct infer_error *err);
int tool_show_landmarks(struct tool_run *run, const struct task_outputs *o,
                        const struct preprocess_window *window,
                        const struct tool_shown *shown,
                        struct infer_error *err);

/* ---- tiles.c ------------------------------------------------------- */

/* --tile: runs pictures of any size tile by tile and joins what the network
 * makes of them. */
int tool_run_tiles(struct tool_run *run, const struct tool_list *list,
                   struct infer_error *err);

/* ---- the other modes ----------------------------------------------- */

/* One run on arrays; prints or exports the outputs. */
int tool_run_arrays(struct tool_run *run, struct infer_error *err);
int tool_compare(struct tool_run *run, struct infer_error *err);
/* Every tensor of the last run as DIR/<number>-<name>.npy, where DIR exists. */
int tool_dump_layers(struct infer_session *session, const char *folder,
                     struct infer_error *err);

/* ---- bench.c, bench_streams.c, bench_report.c ---------------------- */

int tool_bench(struct tool_run *run, struct infer_error *err);

/* Limit of timed runs; each takes more than a microsecond. */
#define BENCH_MAX_RUNS 1000000

struct bench_times {
    double *run;    /* seconds of each run; with --rate from its arrival */
    size_t count;   /* of runs; the array has room for BENCH_MAX_RUNS */
    double elapsed; /* seconds from the first start to the last end */
    int64_t batch;  /* images of a run */
    int streams;    /* sessions at work at the same time */
    double rate;    /* arrivals a second; 0: a run begins when one ends */
    size_t waiting; /* with --rate: arrivals that no run had begun for */
};

/* Times runs of --streams sessions, each in a thread of its own, at --rate
 * where it is given.  run->session becomes the first of the sessions. */
int bench_streams(struct tool_run *run, struct bench_times *t,
                  struct infer_error *err);

/* Sorts the runs and prints them; with --json run->result is the document.
 * `waited`: the share of time without a core. */
int bench_report(struct tool_run *run, struct bench_times *t, double waited,
                 struct infer_error *err);
/* Compares the documents of two earlier runs, --compare-with and `path`. */
int bench_compare_files(struct cli *cli, const struct tool_request *r,
                        const char *path, struct infer_error *err);

/* ---- report.c ------------------------------------------------------ */

/* Prints --profile, --report-memory and --report-load-time; with --json one
 * document with the result. */
int tool_report(struct tool_run *run, struct infer_error *err);
/* Peak resident memory of the process, bytes. */
size_t tool_peak_bytes(void);

#endif
