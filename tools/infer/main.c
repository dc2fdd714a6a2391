/* SPDX-License-Identifier: Apache-2.0 */
/* infer: run a model file on pictures or arrays, time it, check it. */
#include "tools/infer/coco.h"
#include "tools/infer/evaluate.h"
#include "tools/infer/iou.h"
#include "tools/terminal.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "libinfer/device/device.h"

static const char usage[] =
    "usage: infer -m MODEL PICTURE|FOLDER|@LIST|-... [-o FILE|DIR] [options]\n"
    "       infer -m MODEL --load-inputs=x:in.npy --export-output=out.npy\n"
    "       infer -m MODEL --evaluate=DIR|LIST\n"
    "       infer -m DETECTOR --evaluate=COCO.json [FOLDER]\n"
    "       infer -m MODEL --bench [-b N]\n"
    "       infer --bench --compare-with=OLD.json NEW.json\n"
    "       infer --doctor\n"
    "\n"
    "Runs a model file that wconv wrote.\n";

/* Turns "name: value" lines into an object. */
static cJSON *doctor_json(char *text)
{
    cJSON *json = cJSON_CreateObject();
    char *line, *value, *rest = NULL;

    for (line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        value = strstr(line, ": ");
        if (value == NULL)
            continue;
        *value = '\0';
        cJSON_AddStringToObject(json, line, value + 2);
    }
    return json;
}

static void print_doctor(bool as_json)
{
    size_t need = infer_doctor(NULL, 0);
    char *text = malloc(need + 1);

    if (text == NULL) {
        cli_lose_output();
        return;
    }
    infer_doctor(text, need + 1);
    if (as_json)
        cli_print_json(doctor_json(text), false);
    else
        fputs(text, stdout);
    free(text);
}

/* ---- running ------------------------------------------------------- */

int tool_prepare(struct tool_run *run, struct arrays *in, struct arrays *out,
                 struct infer_error *err)
{
    const double start = cli_now();
    int rc = tool_make_inputs(run, in, err);

    if (rc == INFER_OK)
        rc = infer_session_prepare(run->session, in->item, in->count, err);
    run->plan_seconds = cli_now() - start;
    return rc < 0 ? rc : tool_make_outputs(run->session, run->model, out, err);
}

int tool_run_arrays(struct tool_run *run, struct infer_error *err)
{
    struct arrays in = {0}, out = {0};
    int rc = tool_prepare(run, &in, &out, err);

    if (rc == INFER_OK)
        rc = infer_session_run(run->session, in.item, in.count, out.item,
                               out.count, err);
    if (rc == INFER_OK && run->request->export_output != NULL) {
        rc = tool_export(run->request->export_output, &out, err);
    } else if (rc == INFER_OK && run->cli->json) {
        run->result = tool_outputs_json(&out);
        run->result_name = "outputs";
    } else if (rc == INFER_OK && run->request->dump_layers == NULL) {
        rc = tool_export("-", &out, err);
    }
    arrays_clear(&in);
    arrays_clear(&out);
    return rc;
}

/* Runs the requested mode. */
static int run_mode(struct tool_run *run, const struct tool_list *list,
                    struct infer_error *err)
{
    const struct tool_request *r = run->request;
    int rc;

    /* Before anything is printed. */
    if (r->dump_layers != NULL &&
        (rc = tool_make_folder(r->dump_layers, err)) < 0)
        return rc;
    if (r->compare != NULL)
        rc = tool_compare(run, err);
    else if (r->bench)
        rc = tool_bench(run, err);
    else if (r->try_presets)
        rc = tool_try_presets(run, list, err);
    else if (r->tile)
        rc = tool_run_tiles(run, list, err);
    else if (list->count > 0)
        rc = tool_run_pictures(run, list, err);
    else
        rc = tool_run_arrays(run, err);
    if (rc == INFER_OK && r->dump_layers != NULL)
        rc = tool_dump_layers(run->session, r->dump_layers, err);
    /* A result is reported even if the run failed later. */
    if (rc == INFER_OK || run->result != NULL) {
        const int told = tool_report(run, rc == INFER_OK ? err : NULL);

        rc = rc == INFER_OK ? told : rc;
    }
    return rc;
}

/* Reports an unusable tuning cache; with -v also what was tuned. */
static void report_tuning(const struct tool_run *run)
{
    struct infer_tuning_info t;

    if (run->session == NULL || infer_session_tuning(run->session, &t) < 0)
        return;
    if (t.note[0] != '\0' && run->cli->verbosity >= 0)
        cli_error(run->cli, "%s", t.note);
    if (t.measured + t.cached > 0)
        cli_verbose(run->cli,
                    "tuning: %d problems measured in %.2f s, %d from '%s', "
                    "%d exchanged in the network",
                    t.measured, t.seconds, t.cached, t.cache, t.exchanged);
}

static void show_tuning(void *user, int done, int total)
{
    const struct cli *cli = user;

    cli_progress(cli, "choose kernels", (uint64_t)done, (uint64_t)total);
    if (done == total)
        cli_progress_end(cli);
}

/* With -v: why each layer has its type (--precision=best). */
static void show_log(void *user, int level, const char *text)
{
    (void)level;
    cli_verbose(user, "%s", text);
}

/* Checks the output files before the run. */
static int try_outputs(const struct tool_request *r, struct infer_error *err)
{
    int rc = cli_try_file(r->profile_file, err);

    if (rc == INFER_OK)
        rc = cli_try_file(r->coco, err);

    return rc < 0 || tool_exports_folder(r->export_output)
               ? rc
               : cli_try_file(r->export_output, err);
}

static bool is_absent(const char *path)
{
    return path != NULL && access(path, F_OK) < 0;
}

static int open_and_run(struct cli *cli, const struct tool_request *r,
                        char **paths, int n_paths, struct infer_error *err)
{
    struct tool_run run = {.cli = cli, .request = r};
    struct tool_list list = {0};
    const bool new_output = is_absent(r->output);
    const bool new_layers = is_absent(r->dump_layers);
    double start = cli_now();
    int i, rc;

    rc = try_outputs(r, err);
    if (rc == INFER_OK && strcmp(r->model, "-") == 0 && access("-", F_OK) < 0)
        rc = error_set(err, INFER_EARGUMENT,
                       "-m -: a model is read from a file, not from standard "
                       "input");
    if (rc == INFER_OK)
        rc = infer_model_open(r->model, err, &run.model);
    if (rc == INFER_OK && r->compare == NULL)
        rc = (n_paths > 0 && !r->bench && !r->try_presets) || r->evaluate
                 ? tool_pictures_open(&run, err)
                 : infer_session_create(run.model, &r->session, err,
                                        &run.session);
    run.load_seconds = cli_now() - start;
    if (rc == INFER_OK && r->labels != NULL)
        rc = labels_read(r->labels, err, &run.labels);
    if (rc == INFER_OK && coco_is_file(r->evaluate))
        rc = coco_open(&run, n_paths > 0 ? paths[0] : NULL, &list, err);
    else if (rc == INFER_OK && iou_is_source(r->evaluate))
        rc = iou_open(&run, &list, err);
    else if (rc == INFER_OK && r->evaluate != NULL)
        rc = evaluate_list(&run, &list, err);
    for (i = 0; rc == INFER_OK && !run.coco && i < n_paths; i++)
        rc = tool_list_add(&list, paths[i], err);
    if (rc == INFER_OK && n_paths > 0 && list.count == 0)
        rc = error_set(err, INFER_EFORMAT, "%s: no PNG or JPEG pictures there",
                       paths[0]);
    if (list.left_out > 0 && cli->verbosity >= 0)
        cli_error(cli,
                  "note: %zu picture%s that %s neither PNG nor JPEG left out "
                  "(%s)",
                  list.left_out, list.left_out == 1 ? "" : "s",
                  list.left_out == 1 ? "is" : "are",
                  list.left_out_text ? list.left_out_text : "out of memory");
    if (rc == INFER_OK && r->output != NULL)
        rc = tool_open_output(r, list.count, err);
    if (rc == INFER_OK)
        rc = run_mode(&run, &list, err);
    /* A folder that was made for results which never came goes again. */
    if (rc < 0 && new_output)
        (void)rmdir(r->output);
    if (rc < 0 && new_layers)
        (void)rmdir(r->dump_layers);
    report_tuning(&run);
    cJSON_Delete(run.result);
    tool_list_clear(&list);
    labels_clear(&run.labels);
    evaluate_free(run.evaluation);
    coco_free(run.coco);
    iou_free(run.iou);
    free(run.shown_as);
    free(run.first_embedding);
    while (run.n_written > 0)
        free(run.written[--run.n_written]);
    free(run.written);
    infer_session_close(&run.session);
    infer_model_close(&run.pixels);
    infer_model_close(&run.model);
    return rc;
}

/* CUDA opens eight queues to a GPU unless it is told otherwise; a session uses
 * one.  On an H200 the other seven take 50 ms at the start, 45 at the end, and
 * 47 MiB of host memory.  Blocks of a constant on its way to the GPU go back to
 * the system: malloc() keeps them once it has seen one freed. */
static void prepare_for_gpu(const struct tool_request *r)
{
    if (!r->session.device || strncmp(r->session.device, "cuda", 4) != 0)
        return;
    if (r->streams <= 1)
        (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
#ifdef M_MMAP_THRESHOLD
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

static int infer(int argc, char **argv)
{
    struct cli cli = {.tool = "infer", .usage = usage, .option = tool_options};
    struct infer_error err = {0};
    struct tool_request r;
    int count, rc, code = CLI_OK;

    tool_request_init(&r);
    r.session.progress = show_tuning;
    r.session.progress_user = &cli;
    rc = cli_parse(&cli, argc, argv, &r, &count);
    r.session.profile = r.profile;
    r.session.keep_tensors = r.dump_layers != NULL;
    if (r.session.precision == INFER_PRECISION_BEST && cli.verbosity > 0) {
        r.session.log = show_log;
        r.session.log_user = &cli;
    }
    if (rc != 0) {
        code = rc > 0 ? CLI_OK : CLI_USAGE;
    } else if (r.doctor) {
        print_doctor(cli.json);
    } else if (r.model == NULL && r.bench && r.compare_with != NULL &&
               count == 1) {
        rc = bench_compare_files(&cli, &r, argv[0], &err);
        code = rc < 0 ? (int)cli_fail(&cli, &err) : CLI_OK;
    } else if (r.model == NULL || r.model[0] == '\0') {
        cli_error(&cli, "no model: add -m FILE (see --help)");
        code = CLI_USAGE;
    } else if (count == 0 && !r.bench && r.n_load == 0 && r.compare == NULL &&
               r.dump_layers == NULL && r.evaluate == NULL &&
               r.export_output == NULL) {
        cli_error(&cli, "nothing to run on: name pictures, --load-inputs or "
                        "--bench (see --help)");
        code = CLI_USAGE;
    } else if (tool_check_request(&cli, &r, count) < 0 ||
               tool_check_targets(&cli, &r, argv, count) < 0) {
        code = CLI_USAGE;
    } else {
        prepare_for_gpu(&r);
        rc = open_and_run(&cli, &r, argv, count, &err);
        code = rc < 0 ? (int)cli_fail(&cli, &err) : terminal_interrupt_code();
    }
    tool_request_clear(&r);
    return code;
}

int main(int argc, char **argv)
{
    return cli_main("infer", argc, argv, infer);
}
