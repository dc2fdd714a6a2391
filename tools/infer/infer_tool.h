/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the command line `infer`. */
#ifndef TOOLS_INFER_INFER_TOOL_H
#define TOOLS_INFER_INFER_TOOL_H

#include "include/infer.h"
#include "tools/array.h"
#include "tools/cli.h"
#include "tools/labels.h"

struct tool_named_file {
    char *name; /* NULL: by position */
    const char *path;
};

struct tool_shape {
    char *name;
    int rank;
    int64_t dim[INFER_MAX_RANK];
};

/* Everything one run was asked for. */
struct tool_request {
    const char *model;
    struct infer_session_options session;
    int64_t batch; /* 0: 1, or what the model fixes */
    int top;
    bool top_given;
    const char *labels;
    struct tool_named_file load[ARRAYS_MAX];
    int n_load;
    struct tool_shape shape[ARRAYS_MAX];
    int n_shape;
    const char *export_output;
    bool bench, include_transfers;
    bool timing;             /* an option of --bench was given */
    double warmup, duration; /* seconds */
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
    bool doctor; /* say what this machine offers, and nothing else */
};

/* A model that is open and has a session. */
struct tool_run {
    struct cli *cli;
    const struct tool_request *request;
    struct infer_model *model;
    struct infer_model *pixels; /* the session's, where it is not `model` */
    struct infer_session *session;
    double load_seconds, plan_seconds;
    struct labels labels;    /* of --labels; none: the model's are used */
    cJSON *result;           /* with --json: what tool_report() is to print */
    const char *result_name; /* NULL: an object that takes more members */
};

/* ---- arrays.c ------------------------------------------------------ */

/* Arrays for every input: from --load-inputs where given, else random, with
 * the shapes of --input-shape and --batch. */
int tool_make_inputs(const struct tool_run *run, struct arrays *in,
                     struct infer_error *err);
/* Room for every output of the latest plan. */
int tool_make_outputs(struct infer_session *session,
                      const struct infer_model *model, struct arrays *out,
                      struct infer_error *err);
/* {"name": {"dtype", "shape", "data": [flat]}} */
cJSON *tool_outputs_json(const struct arrays *out);
/* Whether a path of --export-output, or NULL, is that of a folder. */
bool tool_exports_folder(const char *path);
/* Writes outputs: .npy (one output), .json (all), or a folder of .npy. */
int tool_export(const char *path, const struct arrays *out,
                struct infer_error *err);

/* ---- images.c ------------------------------------------------------ */

struct tool_list {
    char **path;
    size_t count, capacity;
};
/* Collects picture files: a picture is taken as it is, a folder is searched
 * (sorted, with its folders), any other file is a list of paths, one a line. */
int tool_list_add(struct tool_list *list, const char *path,
                  struct infer_error *err);
void tool_list_clear(struct tool_list *list);
/* Creates the session for pictures: on a GPU one that takes pixels. */
int tool_pictures_open(struct tool_run *run, struct infer_error *err);
/* Runs all pictures in batches and prints the best classes of each.  Pictures
 * that cannot be read are named and left out; the others are run all the same
 * before the status says so. */
int tool_classify(struct tool_run *run, const struct tool_list *list,
                  struct infer_error *err);

/* ---- the other modes ----------------------------------------------- */

/* One run on arrays; prints or exports the outputs. */
int tool_run_arrays(struct tool_run *run, struct infer_error *err);
int tool_bench(struct tool_run *run, struct infer_error *err);
int tool_compare(struct tool_run *run, struct infer_error *err);
/* Every tensor of the last run as DIR/<number>-<name>.npy. */
int tool_dump_layers(struct infer_session *session, const char *folder,
                     struct infer_error *err);

/* ---- report.c ------------------------------------------------------ */

/* The end of a run: --profile, --report-memory and --report-load-time, and with
 * --json the result and them in one document. */
int tool_report(struct tool_run *run, struct infer_error *err);
/* The most memory that the process ever held. */
size_t tool_peak_bytes(void);

#endif
