/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of kbench. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph.h"
#include "tools/kbench/kbench.h"

enum {
    OPT_N,
    OPT_C,
    OPT_H,
    OPT_W,
    OPT_K,
    OPT_R,
    OPT_S,
    OPT_GROUPS,
    OPT_STRIDE,
    OPT_PAD,
    OPT_DILATION,
    OPT_BIAS,
    OPT_RESIDUAL,
    OPT_ACT,
    OPT_AVERAGE,
    OPT_PROBLEM,
    OPT_SWEEP,
    OPT_MODEL,
    OPT_BATCH,
    OPT_EXTENT,
    OPT_DIR,
    OPT_DEVICE,
    OPT_THREADS,
    OPT_BACKENDS,
    OPT_KERNELS,
    OPT_DTYPE,
    OPT_LAYOUT,
    OPT_NARROW,
    OPT_COLD,
    OPT_ROUNDS,
    OPT_VARIANTS,
    OPT_TIME_LIMIT,
    OPT_REFERENCE_LIMIT,
    OPT_ALL,
    OPT_EVERY,
    OPT_SORT,
    OPT_CSV,
    OPT_JSON,
    OPT_HTML,
    OPT_FAIL_BELOW,
    OPT_PREPARE_LIMIT,
    OPT_BEFORE
};

static const struct cli_option options[] = {
    {"images", 'n', CLI_VALUE, "N", "images (1)", OPT_N},
    {"channels", 'c', CLI_VALUE, "C", "channels of the input", OPT_C},
    {"height", 'H', CLI_VALUE, "H", "height of the input", OPT_H},
    {"width", 'W', CLI_VALUE, "W", "its width (as the height)", OPT_W},
    {"filters", 'k', CLI_VALUE, "K", "channels of the output", OPT_K},
    {"window-height", 'R', CLI_VALUE, "R", "height of the window", OPT_R},
    {"window-width", 'S', CLI_VALUE, "S", "its width (as the height)", OPT_S},
    {"groups", 'g', CLI_VALUE, "G", "groups (1)", OPT_GROUPS},
    {"stride", 0, CLI_VALUE, "N", "stride, both ways (1)", OPT_STRIDE},
    {"pad", 0, CLI_VALUE, "N", "padding on all sides (0)", OPT_PAD},
    {"dilation", 0, CLI_VALUE, "N", "dilation, both ways (1)", OPT_DILATION},
    {"bias", 0, CLI_FLAG, NULL, "adds a bias", OPT_BIAS},
    {"residual", 0, CLI_FLAG, NULL, "adds a residual", OPT_RESIDUAL},
    {"act", 0, CLI_VALUE, "NAME", "activation at the end", OPT_ACT},
    {"average", 0, CLI_FLAG, NULL, "average pooling (max)", OPT_AVERAGE},
    {"problem", 0, CLI_VALUE, "TEXT", "figures in benchdnn's letters",
     OPT_PROBLEM},
    {"sweep", 0, CLI_VALUE, "NAME=VALUES",
     "n=1:64:x2, k=1,4,16; may be given "
     "again",
     OPT_SWEEP},
    {"model", 'm', CLI_VALUE, "FILE",
     "layers of a model file, an architecture file or a built-in name",
     OPT_MODEL},
    {"batch", 'b', CLI_VALUE, "N,...", "batch sizes of the model (1)",
     OPT_BATCH},
    {"extent", 0, CLI_VALUE, "N", "free height and width of a model (224)",
     OPT_EXTENT},
    {"dir", 0, CLI_VALUE, "D,...",
     "of convolutions: fprop (default), dgrad, wgrad", OPT_DIR},
    {"device", 'd', CLI_VALUE, "DEVICE", "cpu (default), cuda or cuda:N",
     OPT_DEVICE},
    {"threads", 0, CLI_VALUE, "N", "CPU threads (all cores, 7 of 8 of many)",
     OPT_THREADS},
    {"backends", 0, CLI_VALUE, "NAME,...",
     "cuda, cudnn, onednn, ref (all of the device but ref)", OPT_BACKENDS},
    {"kernels", 0, CLI_VALUE, "GLOB", "rows of the table by name", OPT_KERNELS},
    {"dtype", 0, CLI_VALUE, "P,...", "fp32 (default), tf32, fp16, bf16",
     OPT_DTYPE},
    {"layout", 0, CLI_VALUE, "nhwc|nchw", "layout of activations (nhwc)",
     OPT_LAYOUT},
    {"narrow-gradient", 0, CLI_FLAG, NULL,
     "gradients of weights in the type of the activations (fp32)", OPT_NARROW},
    {"cold-cache", 0, CLI_FLAG, NULL,
     "pass through twice the cache between launches on the same data",
     OPT_COLD},
    {"variants", 0, CLI_VALUE, "N", "variants of a row at most (all)",
     OPT_VARIANTS},
    {"prepare-limit", 0, CLI_VALUE, "TIME",
     "no variant of a row is prepared after that (none)", OPT_PREPARE_LIMIT},
    {"rounds", 0, CLI_VALUE, "N", "measured rounds (11)", OPT_ROUNDS},
    {"time-limit", 0, CLI_VALUE, "TIME", "rounds of one problem (2s)",
     OPT_TIME_LIMIT},
    {"reference-limit", 0, CLI_VALUE, "MFLOP",
     "larger problems are not timed on ref (100)", OPT_REFERENCE_LIMIT},
    {"all", 'a', CLI_FLAG, NULL, "show every kernel of every problem", OPT_ALL},
    {"every-kernel", 0, CLI_FLAG, NULL,
     "try also kernels whose estimate is hopeless", OPT_EVERY},
    {"sort", 0, CLI_VALUE, "ratio|time|none", "order of problems (none)",
     OPT_SORT},
    {"csv", 0, CLI_VALUE, "FILE", "a line a kernel", OPT_CSV},
    {"json", 0, CLI_OPTIONAL, "FILE", "everything (standard output)", OPT_JSON},
    {"html", 0, CLI_VALUE, "FILE", "one page with charts", OPT_HTML},
    {"compare-with", 0, CLI_VALUE, "FILE",
     "what --json wrote earlier: which kernels of ours became slower",
     OPT_BEFORE},
    {"fail-below", 0, CLI_VALUE, "RATIO",
     "exit 3 where a problem's ratio is lower", OPT_FAIL_BELOW},
    {NULL, 0, CLI_FLAG, NULL, NULL, 0}};

/* ---- values -------------------------------------------------------- */

static int set_figure(struct kb_request *r, const char *option,
                      const char *figure, const char *value)
{
    int64_t number;

    r->any_figure = true;
    if (cli_int(value, 0, INT32_MAX, &number) &&
        kb_figures_set(&r->figures, figure, number))
        return 0;
    return cli_bad_value(r->cli, option, value,
                         strcmp(figure, "pad") == 0
                             ? "a number from 0 to 16777216"
                             : "a number from 1 to 16777216");
}

/* Calls add() with each word of a comma-separated list. */
static int each_word(struct kb_request *r, const char *option,
                     const char *value,
                     bool (*add)(struct kb_request *r, const char *word),
                     const char *expected)
{
    char word[64];

    for (;;) {
        const size_t n = strcspn(value, ",");
        if (n == 0 || n >= sizeof(word))
            return cli_bad_value(r->cli, option, value, expected);
        memcpy(word, value, n);
        word[n] = '\0';
        if (!add(r, word))
            return cli_bad_value(r->cli, option, word, expected);
        if (value[n] == '\0')
            return 0;
        value += n + 1;
    }
}

static bool add_batch(struct kb_request *r, const char *word)
{
    return r->n_batches < KB_MAX_ITEMS &&
           cli_int(word, 1, 1 << 20, &r->batch[r->n_batches++]);
}

static bool add_precision(struct kb_request *r, const char *word)
{
    const struct kb_precision *p = kb_precision_find(word);

    for (int i = 0; i < r->n_precisions; i++)
        if (r->precision[i] == p)
            return false;
    if (p)
        r->precision[r->n_precisions++] = p;
    return p != NULL;
}

static bool add_direction(struct kb_request *r, const char *word)
{
    const int i = cli_word(word, kb_dir_names);

    return i >= 0 && (r->dir[i] = true);
}

static bool add_backend(struct kb_request *r, const char *word)
{
    const int i = cli_word(word, device_backend_names);

    if (i < 1)
        return false;
    return r->backend[i] = true;
}

static int add_sweep(struct kb_request *r, const char *value)
{
    struct infer_error err = {0};
    struct kb_sweep *list =
        realloc(r->sweep, ((size_t)r->n_sweeps + 1) * sizeof(*list));

    if (!list) {
        cli_error(r->cli, "out of memory");
        return -1;
    }
    r->sweep = list;
    if (kb_sweep_parse(value, &list[r->n_sweeps], &err) < 0) {
        cli_error(r->cli, "%s", err.text);
        return -1;
    }
    r->n_sweeps++;
    return 0;
}

static int set_activation(struct kb_request *r, const char *value)
{
    const int kind = cli_word(value, kern_unary_names);

    r->any_figure = true;
    if (kind < 0)
        return cli_bad_value(r->cli, "act", value,
                             "an activation such as relu");
    r->figures.act = graph_unary((enum kern_unary_kind)kind);
    return 0;
}

static int set_number(struct kb_request *r, int id, const char *value)
{
    int64_t n;
    double x;

    switch (id) {
    case OPT_EXTENT:
        if (!cli_int(value, 1, 1 << 20, &r->extent))
            return cli_bad_value(r->cli, "extent", value,
                                 "a number from 1 to 1048576");
        return 0;
    case OPT_THREADS:
        if (!cli_int(value, 1, 1024, &n))
            return cli_bad_value(r->cli, "threads", value,
                                 "a number from 1 to 1024");
        r->threads = (int)n;
        return 0;
    case OPT_ROUNDS:
        if (!cli_int(value, 1, 10000, &n))
            return cli_bad_value(r->cli, "rounds", value,
                                 "a number from 1 to 10000");
        r->rounds = (int)n;
        return 0;
    case OPT_VARIANTS:
        if (!cli_int(value, 1, 10000, &n))
            return cli_bad_value(r->cli, "variants", value,
                                 "a number from 1 to 10000");
        r->variants = (int)n;
        return 0;
    case OPT_TIME_LIMIT:
        if (!cli_seconds(value, &r->time_limit))
            return cli_bad_value(r->cli, "time-limit", value,
                                 "a time such as 2s");
        return 0;
    case OPT_PREPARE_LIMIT:
        if (!cli_seconds(value, &r->prepare_limit))
            return cli_bad_value(r->cli, "prepare-limit", value,
                                 "a time such as 2s");
        return 0;
    case OPT_REFERENCE_LIMIT:
        if (cli_option_amount(r->cli, "reference-limit", value, &x) < 0)
            return -1;
        r->reference_limit = x * 1e6;
        return 0;
    default:
        return cli_option_amount(r->cli, "fail-below", value, &r->fail_below);
    }
}

static int set_word(struct kb_request *r, int id, const char *value)
{
    static const char *const layouts[] = {"nchw", "nhwc", NULL};
    static const char *const orders[] = {"none", "ratio", "time", NULL};
    int i;

    if (id == OPT_LAYOUT) {
        i = cli_word(value, layouts);
        r->layout = i == 0 ? KERN_NCHW : KERN_NHWC;
        return i < 0 ? cli_bad_value(r->cli, "layout", value, "nhwc or nchw")
                     : 0;
    }
    r->sort = value;
    return cli_word(value, orders) < 0
               ? cli_bad_value(r->cli, "sort", value, "ratio, time or none")
               : 0;
}

/* ---- the handler --------------------------------------------------- */

/* Options that are one figure. */
static const struct {
    int id;
    const char *option, *figure;
} figures[] = {
    {OPT_N, "images", "n"},
    {OPT_C, "channels", "c"},
    {OPT_H, "height", "h"},
    {OPT_W, "width", "w"},
    {OPT_K, "filters", "k"},
    {OPT_R, "window-height", "r"},
    {OPT_S, "window-width", "s"},
    {OPT_GROUPS, "groups", "g"},
    {OPT_STRIDE, "stride", "stride"},
    {OPT_PAD, "pad", "pad"},
    {OPT_DILATION, "dilation", "dilation"},
};

static int add_text(const struct cli *cli, const char *option,
                    const char **list, int *n, int capacity, const char *value)
{
    if (*n == capacity) {
        cli_error(cli, "--%s may be given %d times at most", option, capacity);
        return -1;
    }
    list[(*n)++] = value;
    return 0;
}

static int set_flag(struct kb_request *r, int id)
{
    switch (id) {
    case OPT_BIAS:
        r->figures.bias = r->any_figure = true;
        return 0;
    case OPT_RESIDUAL:
        r->figures.residual = r->any_figure = true;
        return 0;
    case OPT_AVERAGE:
        r->figures.average = r->any_figure = true;
        return 0;
    case OPT_NARROW:
        r->narrow_gradient = true;
        return 0;
    case OPT_COLD:
        r->cold = true;
        return 0;
    case OPT_ALL:
        r->all = true;
        return 0;
    default:
        r->every_kernel = true;
        return 0;
    }
}

static int handle(struct cli *cli, int id, const char *value, void *user)
{
    struct kb_request *r = user;

    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
        if (figures[i].id == id)
            return set_figure(r, figures[i].option, figures[i].figure, value);
    switch (id) {
    case OPT_ACT:
        return set_activation(r, value);
    case OPT_PROBLEM:
        return add_text(cli, "problem", r->problem, &r->n_problems, 64, value);
    case OPT_SWEEP:
        return add_sweep(r, value);
    case OPT_MODEL:
        return add_text(cli, "model", r->model, &r->n_models, KB_MAX_ITEMS,
                        value);
    case OPT_BATCH:
        return each_word(r, "batch", value, add_batch,
                         "numbers from 1 to 1048576");
    case OPT_DTYPE:
        return each_word(r, "dtype", value, add_precision,
                         "each of fp32, tf32, fp16, bf16 once");
    case OPT_BACKENDS:
        return each_word(r, "backends", value, add_backend,
                         "cuda, cudnn, onednn, ref");
    case OPT_DEVICE:
        r->device = value;
        return 0;
    case OPT_KERNELS:
        r->kernels = value;
        return 0;
    case OPT_CSV:
        r->csv = value;
        return 0;
    case OPT_JSON:
        r->json = value ? value : "-";
        return 0;
    case OPT_HTML:
        r->html = value;
        return 0;
    case OPT_BEFORE:
        r->before = value;
        return 0;
    case OPT_DIR:
        return each_word(r, "dir", value, add_direction, "fprop, dgrad, wgrad");
    case OPT_LAYOUT:
    case OPT_SORT:
        return set_word(r, id, value);
    case OPT_EXTENT:
    case OPT_THREADS:
    case OPT_ROUNDS:
    case OPT_VARIANTS:
    case OPT_TIME_LIMIT:
    case OPT_PREPARE_LIMIT:
    case OPT_REFERENCE_LIMIT:
    case OPT_FAIL_BELOW:
        return set_number(r, id, value);
    default:
        return set_flag(r, id);
    }
}

/* ---- the whole ----------------------------------------------------- */

/* The operations named in front: "conv", "all". */
static int take_operations(struct kb_request *r, int count, char **words)
{
    static const struct {
        const char *name;
        enum kern_op op;
    } known[] = {{"conv", KERN_CONV_FPROP},
                 {"dense", KERN_DENSE_FPROP},
                 {"pool", KERN_POOL_FPROP}};

    for (int i = 0; i < count; i++) {
        bool found = strcmp(words[i], "all") == 0;
        for (int op = 0; found && op < KERN_OP_COUNT; op++)
            r->ops[op] = true;
        for (size_t k = 0; !found && k < sizeof(known) / sizeof(*known); k++)
            if (strcmp(words[i], known[k].name) == 0) {
                r->figures.op = known[k].op;
                r->ops[known[k].op] = found = true;
            }
        if (!found) {
            cli_error(r->cli, "no operation '%s' (conv, dense, pool, all)",
                      words[i]);
            return -1;
        }
    }
    if (count == 0)
        r->ops[KERN_CONV_FPROP] = true;
    return 0;
}

static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* Two reports in one file, or one in the place of a model. */
static bool overwrites(const struct kb_request *r)
{
    const char *const file[] = {r->csv, r->json, r->html};

    for (int i = 0; i < 3; i++) {
        for (int k = i + 1; k < 3; k++)
            if (!is_stdout(file[i]) && cli_same_target(file[i], file[k]))
                return true;
        for (int k = 0; k < r->n_models; k++)
            if (cli_same_file(file[i], r->model[k]))
                return true;
    }
    return false;
}

/* Words that do not go together, or would have no effect. */
static int check_request(const struct kb_request *r)
{
    const bool model = r->n_models > 0;
    const struct {
        bool wrong;
        const char *text;
    } rules[] = {
        {is_stdout(r->csv) + is_stdout(r->json) + is_stdout(r->html) > 1,
         "of --csv, --json and --html one can go to standard output"},
        {overwrites(r), "--csv, --json and --html need a file each, which is "
                        "none of the models"},
        {model && r->any_figure && r->n_problems + r->n_sweeps == 0,
         "the layers of --model have figures of their own (-b is the batch)"},
        {!model && r->n_batches > 0, "--batch goes with --model (-n: images)"},
        {!model && r->extent > 0, "--extent goes with --model"},
    };
    int rc = 0;

    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (rules[i].wrong) {
            cli_error(r->cli, "%s", rules[i].text);
            rc = -1;
        }
    return rc;
}

int kb_parse(struct cli *cli, int argc, char **argv, struct kb_request *r)
{
    int count = 0;

    memset(r, 0, sizeof(*r));
    cli->option = options;
    r->cli = cli;
    r->device = "cpu";
    r->layout = KERN_NHWC;
    r->rounds = 11;
    r->time_limit = 2;
    r->reference_limit = 1e8;
    r->sort = "none";
    kb_figures_init(&r->figures, KERN_CONV_FPROP);
    int rc = cli_parse(cli, argc, argv, handle, r, &count);
    if (rc == 0)
        rc = take_operations(r, count, argv);
    if (rc == 0)
        rc = check_request(r);
    if (r->extent == 0)
        r->extent = 224;
    if (r->n_batches == 0)
        r->batch[r->n_batches++] = 1;
    if (!r->dir[KB_FPROP] && !r->dir[KB_DGRAD] && !r->dir[KB_WGRAD])
        r->dir[KB_FPROP] = true;
    if (r->n_precisions == 0)
        r->precision[r->n_precisions++] = kb_precision_find("fp32");
    return rc;
}

void kb_request_clear(struct kb_request *r)
{
    free(r->sweep);
    r->sweep = NULL;
}
