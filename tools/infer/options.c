/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the command line: their table, values and limits, and which of
 * them go together. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libinfer/device/device.h"
#include "tools/infer/coco.h"
#include "tools/infer/infer_tool.h"

/* ---- option values ------------------------------------------------- */

static bool is_file(const char *path, size_t length)
{
    char *copy = strndup(path, length);
    const bool there = copy != NULL && access(copy, F_OK) == 0;

    free(copy);
    return there;
}

/* The colon of NAME:FILE, or NULL: FILE alone.  Both may have colons
 * ("serving_default_x:0"): the first one counts behind which there is a file,
 * else the last one. */
static const char *find_colon(const char *word, size_t length)
{
    const char *end = word + length, *colon = memchr(word, ':', length);
    const char *last = NULL;

    while (colon != NULL && !is_file(colon + 1, (size_t)(end - colon - 1))) {
        last = colon;
        colon = memchr(last + 1, ':', (size_t)(end - last - 1));
    }
    if (colon != NULL || last == NULL || is_file(word, length))
        return colon;
    return last;
}

/* NAME:FILE,NAME:FILE or FILE alone. */
static int add_loads(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user)
{
    struct tool_request *r = user;
    const char *word = value;

    for (;;) {
        const size_t length = strcspn(word, ",");
        const char *colon = find_colon(word, length);
        const char *path = colon != NULL ? colon + 1 : word;
        struct tool_named_file *f = &r->load[r->n_load];

        if (r->n_load == ARRAYS_MAX)
            return cli_bad_value(cli, o->name, value, "at most 64 files");
        if (path == word + length)
            return CLI_BAD;
        f->path = strndup(path, (size_t)(word + length - path));
        f->name = colon != NULL ? strndup(word, (size_t)(colon - word)) : NULL;
        r->n_load++;
        if (f->path == NULL || (colon != NULL && f->name == NULL)) {
            cli_error(cli, "out of memory");
            return -1;
        }
        if (word[length] == '\0')
            return 0;
        word += length + 1;
    }
}

static int add_shape(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user)
{
    struct tool_request *r = user;
    struct tool_shape *s = &r->shape[r->n_shape];

    (void)cli, (void)o;
    if (r->n_shape == ARRAYS_MAX ||
        !cli_shape(value, &s->name, &s->rank, s->dim))
        return CLI_BAD;
    r->n_shape++;
    return 0;
}

static int set_percentiles(struct cli *cli, const struct cli_option *o,
                           const char *value, void *user)
{
    struct tool_request *r = user;

    (void)cli, (void)o;
    r->n_percentile = cli_doubles(value, r->percentile, 16);
    for (int i = 0; i < r->n_percentile; i++)
        if (r->percentile[i] < 0 || r->percentile[i] > 100)
            r->n_percentile = -1;
    return r->n_percentile < 0 ? CLI_BAD : 0;
}

/* N or N:OVERLAP; NULL: both by default. */
static int set_tile(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user)
{
    struct tool_request *r = user;
    const size_t length = value ? strcspn(value, ":") : 0;
    char side[24];

    (void)cli, (void)o;
    r->tile = true;
    r->tile_side = r->tile_overlap = -1;
    if (value == NULL)
        return 0;
    snprintf(side, sizeof side, "%.*s", length < sizeof side ? (int)length : 0,
             value);
    if (!cli_int(side, 8, 1 << 15, &r->tile_side) ||
        (value[length] != '\0' &&
         !cli_int(value + length + 1, 0, r->tile_side / 2, &r->tile_overlap)))
        return CLI_BAD;
    return 0;
}

/* ---- the options --------------------------------------------------- */

#define TO(member)    CLI_FIELD(struct tool_request, member)
#define GIVEN(member) .given = offsetof(struct tool_request, member)

const struct cli_option tool_options[] = {
    {"model", 'm', CLI_TEXT, "FILE", "the model file", TO(model)},
    {"topk", 'k', CLI_INT, "N", "classes shown for a picture (5)", TO(top),
     GIVEN(top_given), .min = 1, .max = 1000000},
    {"labels", 0, CLI_TEXT, "FILE", "class labels, one per line", TO(labels)},
    {"max-pixels", 0, CLI_INT, "N", "largest picture (67108864)",
     TO(max_pixels), .min = 1, .max = 1e15},
    {"task", 0, CLI_TEXT, "TASK",
     "classify, detect, segment, image, depth, embedding or landmarks (told "
     "by the model)",
     TO(task)},
    {"output", 'o', CLI_TEXT, "FILE|DIR",
     "write each picture with its boxes, mask or result", TO(output)},
    {"tile", 0, CLI_SET, "N[:OVERLAP]",
     "with -o: run pictures of any size in tiles and join the results",
     .optional = true, .set = set_tile,
     .wanted = "N or N:OVERLAP, 8 to 32768 pixels, an overlap of at most half"},
    {"score", 0, CLI_REAL, "X", "least score of a box (the decoder's)",
     TO(limits.score), GIVEN(limits_given), .max = 1},
    {"iou", 0, CLI_REAL, "X", "boxes that overlap more are one (0.45)",
     TO(limits.iou), GIVEN(limits_given), .max = 1},
    {"batch", 'b', CLI_INT, "N", "pictures per run (1)", TO(batch), .min = 1,
     .max = 1 << 20},
    {"device", 'd', CLI_TEXT, "DEVICE", "cpu (default), cuda or cuda:N",
     TO(session.device)},
    {"backend", 0, CLI_WORD, "NAME", "auto, ref, cpu, onednn, cuda or cudnn",
     TO(session.backend), .words = device_backend_names},
    {"precision", 0, CLI_WORD, "P", "fp32 (default), tf32, fp16, bf16, or best",
     TO(session.precision), .words = device_precision_names,
     .wanted = "fp32, tf32, fp16, bf16 or best (8 bits: wconv "
               "--quantize=int8)"},
    {"threads", 0, CLI_INT, "N", "CPU threads (all cores, 7 of 8 of many)",
     TO(session.threads), .min = 1, .max = 1024},
    {"max-memory", 0, CLI_BYTES, "BYTES",
     "most memory of a plan (CPU: 3/4 of what there is); larger batches run in "
     "parts",
     TO(session.max_memory), .min = 1},
    {"max-work", 0, CLI_AMOUNT, "X",
     "most operations and bytes moved of a run (CPU: 1e14)",
     TO(session.max_work)},
    {"multiplier", 0, CLI_TEXT, "FILE|NAME|none",
     "approximate multiplier of convolutions and dense layers (the model's)",
     TO(session.multiplier)},
    {"multiplier-exact", 0, CLI_TEXT, "LAYER,...",
     "layers that multiply exactly; * and ? match, also first, last",
     TO(session.multiplier_exact)},
    {"deterministic", 0, CLI_FLAG, NULL, "the same bits on every run",
     TO(session.deterministic)},
    {"tune", 0, CLI_WORD, "on|off|exhaustive",
     "measured kernel choice on a GPU (on)", TO(session.tune),
     .words = cli_tune_words, .wanted = "on, off or exhaustive"},
    {"tune-cache", 0, CLI_TEXT, "FILE", "where measured choices are kept",
     TO(session.tune_cache), .empty = true},
    {"load-inputs", 0, CLI_SET, "NAME:FILE,...",
     "inputs from .npy or .npz files",
     .wanted = "files such as x:in.npy,y:other.npy", .set = add_loads},
    {"input-shape", 0, CLI_SET, "[NAME:]SHAPE", "shape of a free input",
     .wanted = "a shape such as x:1x3x224x224 or [1,3,224,224]",
     .set = add_shape},
    {"export-output", 0, CLI_TEXT, "FILE",
     "outputs as .npy, .json or into a folder", TO(export_output)},
    {"bench", 0, CLI_FLAG, NULL, "time runs on random input", TO(bench)},
    {"include-transfers", 0, CLI_FLAG, NULL,
     "with --bench on a GPU: time copies of arrays, too", TO(include_transfers),
     GIVEN(timing)},
    {"warmup", 0, CLI_TIME, "TIME", "untimed runs first (200ms)", TO(warmup),
     GIVEN(timing), .wanted = "a time such as 200ms or 3s"},
    {"duration", 0, CLI_TIME, "TIME", "how long to time (3s)", TO(duration),
     GIVEN(timing), .wanted = "a time such as 200ms or 3s"},
    {"runs", 0, CLI_INT, "N", "how many runs to time, instead", TO(runs),
     GIVEN(timing), .min = 1, .max = 1000000},
    {"streams", 0, CLI_INT, "N",
     "sessions that run at the same time; they share the threads (1)",
     TO(streams), GIVEN(timing), .min = 1, .max = 1024},
    {"rate", 0, CLI_REAL, "X",
     "runs that arrive per second, timed from their arrival (each begins when "
     "one ends)",
     TO(rate), GIVEN(timing), .min = 1e-3, .max = 1e6},
    {"histogram", 0, CLI_FLAG, NULL, "how often runs took how long",
     TO(histogram), GIVEN(timing)},
    {"compare-with", 0, CLI_TEXT, "FILE",
     "what --bench --json wrote earlier: speedup since then", TO(compare_with),
     GIVEN(timing)},
    {"fail-below", 0, CLI_AMOUNT, "X",
     "with --compare-with: exit 3 where the speedup is lower", TO(fail_below)},
    {"percentile", 0, CLI_SET, "P,...", "percentiles shown (50,90,95,99)",
     GIVEN(timing), .wanted = "numbers from 0 to 100 such as 50,99",
     .set = set_percentiles},
    {"profile", 0, CLI_TEXT, "FILE", "time of each layer (FILE: as JSON)",
     TO(profile_file), GIVEN(profile), .optional = true},
    {"report-memory", 0, CLI_FLAG, NULL, "bytes held", TO(report_memory)},
    {"report-load-time", 0, CLI_FLAG, NULL, "seconds to open and to plan",
     TO(report_load_time)},
    {"compare", 0, CLI_TEXT, "BACKEND,...",
     "the same input through other backends", TO(compare)},
    {"layers", 0, CLI_FLAG, NULL, "with --compare: every tensor", TO(layers)},
    {"atol", 0, CLI_AMOUNT, "X", "absolute tolerance (1e-6)", TO(atol),
     GIVEN(tolerance)},
    {"rtol", 0, CLI_AMOUNT, "X", "relative to the largest value (fp32: 1e-4)",
     TO(rtol), GIVEN(tolerance)},
    {"dump-layers", 0, CLI_TEXT, "DIR", "every tensor as .npy",
     TO(dump_layers)},
    {"evaluate", 0, CLI_TEXT, "DIR|LIST|JSON",
     "accuracy on pictures of known classes: DIR/CLASS/..., or \"PATH CLASS\" "
     "lines; of a detector by COCO's annotations; of masks by DIR/images and "
     "DIR/masks",
     TO(evaluate)},
    {"coco", 0, CLI_TEXT, "FILE",
     "with --evaluate=JSON: the boxes as COCO's results", TO(coco)},
    {"try-presets", 0, CLI_FLAG, NULL,
     "the best class of each picture with every preset of wconv",
     TO(try_presets)},
    {"doctor", 0, CLI_FLAG, NULL, "what this machine offers", TO(doctor)},
    {NULL}};

void tool_request_init(struct tool_request *r)
{
    static const double percentiles[] = {50, 90, 95, 99};

    memset(r, 0, sizeof(*r));
    infer_session_options_init(&r->session);
    r->top = 5;
    r->limits = (struct task_limits){.score = -1, .iou = 0.45f};
    r->warmup = 0.2;
    r->duration = 3;
    memcpy(r->percentile, percentiles, sizeof(percentiles));
    r->n_percentile = 4;
    r->atol = 1e-6;
    r->rtol = -1; /* by the precision */
}

void tool_request_clear(struct tool_request *r)
{
    int i;

    for (i = 0; i < r->n_load; i++) {
        free(r->load[i].name);
        free((char *)r->load[i].path);
    }
    for (i = 0; i < r->n_shape; i++)
        free(r->shape[i].name);
}

/* ---- which options go together ------------------------------------- */

/* Refuses options without effect in the requested mode; all are reported. */
int tool_check_request(const struct cli *cli, const struct tool_request *r,
                       int n_paths)
{
    const bool list = n_paths > 0, coco = coco_is_file(r->evaluate);
    const bool pictures = list || r->evaluate != NULL;
    const bool compare = r->compare != NULL;
    const struct {
        bool given, fits;
        const char *text;
    } rules[] = {
        {r->bench, !compare, "--bench and --compare are two runs"},
        {pictures, !r->bench && !compare,
         "--bench and --compare run on arrays, not on pictures"},
        {r->n_load > 0, !pictures, "--load-inputs goes without pictures"},
        {r->n_shape > 0, !pictures, "--input-shape goes without pictures"},
        {r->labels != NULL, pictures, "--labels is for pictures"},
        {r->top_given, pictures, "--topk is for pictures"},
        {r->max_pixels > 0, pictures, "--max-pixels is for pictures"},
        {r->task != NULL, pictures, "--task is for pictures"},
        {r->output != NULL, pictures, "--output is for pictures"},
        {r->tile, list && r->output && !r->evaluate && !r->try_presets,
         "--tile goes with pictures and --output"},
        {r->limits_given, pictures, "--score and --iou are for pictures"},
        {r->evaluate && !coco, !list, "--evaluate names its pictures itself"},
        {coco, n_paths <= 1,
         "--evaluate of annotations takes one folder, where the pictures lie"},
        {r->coco != NULL, coco, "--coco goes with --evaluate=FILE.json"},
        {r->evaluate, !r->bench && !compare && !r->try_presets,
         "--evaluate, --bench, --compare and --try-presets exclude each other"},
        {r->evaluate || r->try_presets,
         r->output == NULL && !r->top_given && !r->dump_layers,
         "--output, --topk and --dump-layers show single pictures: not with "
         "--evaluate and --try-presets"},
        {r->try_presets, pictures && !r->bench && !compare && !cli->json,
         "--try-presets takes pictures, and neither --bench, --compare nor "
         "--json"},
        {r->layers, compare, "--layers goes with --compare"},
        {r->tolerance, compare, "--atol and --rtol go with --compare"},
        {r->timing, r->bench,
         "--warmup, --duration, --runs, --streams, --rate, --histogram, "
         "--compare-with, --percentile and --include-transfers go with "
         "--bench"},
        {r->fail_below > 0, r->compare_with != NULL,
         "--fail-below goes with --compare-with"},
        {r->streams > 0 || r->rate > 0, !r->profile && !r->dump_layers,
         "--profile and --dump-layers are of one session: not with --streams "
         "and --rate"},
        {r->export_output != NULL, !pictures && !r->bench && !compare,
         "--export-output is for arrays: not with pictures, --bench or "
         "--compare"},
        {r->dump_layers != NULL || r->profile || r->report_memory ||
             r->report_load_time,
         !compare,
         "--dump-layers, --profile and --report-... do not go with --compare"},
    };
    int rc = 0;
    size_t i;

    for (i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (rules[i].given && !rules[i].fits) {
            cli_error(cli, "%s", rules[i].text);
            rc = -1;
        }
    return rc;
}

/* Refuses output files that the run reads. */
int tool_check_targets(const struct cli *cli, const struct tool_request *r,
                       char **pictures, int n_pictures)
{
    const struct {
        const char *option, *path;
    } target[] = {{"profile", r->profile_file},
                  {"export-output", r->export_output},
                  {"coco", r->coco}};
    int rc = 0, i;
    size_t k;

    for (k = 0; k < sizeof(target) / sizeof(*target); k++) {
        const char *path = target[k].path;
        bool read = cli_same_file(path, r->model) ||
                    cli_same_file(path, r->compare_with) ||
                    cli_same_file(path, r->labels) ||
                    cli_same_file(path, r->evaluate);

        for (i = 0; i < r->n_load; i++)
            read = read || cli_same_file(path, r->load[i].path);
        for (i = 0; i < n_pictures; i++)
            read = read || cli_same_file(path, pictures[i]);
        if (read) {
            cli_error(cli,
                      "%s: the run reads this file: name another with --%s",
                      path, target[k].option);
            rc = -1;
        }
    }
    return rc;
}
