/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of kbench. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/error.h"
#include "libinfer/graph/graph.h"
#include "tools/kbench/kbench.h"

/* ---- values -------------------------------------------------------- */

/* A figure goes by its letter, or by its name where it has none. */
static int set_figure(struct cli *cli, const struct cli_option *o,
                      const char *value, void *user)
{
    const char letter[] = {(char)tolower((unsigned char)o->letter), '\0'};
    struct kb_request *r = user;
    int64_t number;

    (void)cli;
    return cli_int(value, 0, INT32_MAX, &number) &&
                   kb_figures_set(&r->figures, letter[0] ? letter : o->name,
                                  number)
               ? 0
               : CLI_BAD;
}

static int set_activation(struct cli *cli, const struct cli_option *o,
                          const char *value, void *user)
{
    const int kind = cli_word(value, kern_unary_names);
    struct kb_request *r = user;

    (void)cli, (void)o;
    if (kind < 0)
        return CLI_BAD;
    r->figures.act = graph_unary((enum kern_unary_kind)kind);
    return 0;
}

static int add_batch(struct cli *cli, const struct cli_option *o,
                     const char *word, void *user)
{
    struct kb_request *r = user;

    (void)cli, (void)o;
    return r->n_batches < KB_MAX_ITEMS &&
                   cli_int(word, 1, 1 << 20, &r->batch[r->n_batches++])
               ? 0
               : CLI_BAD;
}

static int add_precision(struct cli *cli, const struct cli_option *o,
                         const char *word, void *user)
{
    const struct kb_precision *p = kb_precision_find(word);
    struct kb_request *r = user;

    (void)cli, (void)o;
    for (int i = 0; i < r->n_precisions; i++)
        if (r->precision[i] == p)
            return CLI_BAD;
    if (!p)
        return CLI_BAD;
    r->precision[r->n_precisions++] = p;
    return 0;
}

static int add_sweep(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user)
{
    struct kb_request *r = user;
    struct infer_error err = {0};
    struct kb_sweep *list =
        realloc(r->sweep, ((size_t)r->n_sweeps + 1) * sizeof(*list));

    (void)o;
    if (!list) {
        cli_error(cli, "out of memory");
        return -1;
    }
    r->sweep = list;
    if (kb_sweep_parse(value, &list[r->n_sweeps], &err) < 0) {
        cli_error(cli, "%s", err.text);
        return -1;
    }
    r->n_sweeps++;
    return 0;
}

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

static int add_problem(struct cli *cli, const struct cli_option *o,
                       const char *value, void *user)
{
    struct kb_request *r = user;

    return add_text(cli, o->name, r->problem, &r->n_problems, 64, value);
}

static int add_model(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user)
{
    struct kb_request *r = user;

    return add_text(cli, o->name, r->model, &r->n_models, KB_MAX_ITEMS, value);
}

static int set_json(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user)
{
    struct kb_request *r = user;

    (void)cli, (void)o;
    r->json = value ? value : "-";
    return 0;
}

/* ---- the options --------------------------------------------------- */

#define TO(member)    CLI_FIELD(struct kb_request, member)
#define GIVEN(member) .given = offsetof(struct kb_request, member)

static const char *const layouts[] = {
    [KERN_NCHW] = "nchw", [KERN_NHWC] = "nhwc", NULL};
static const char *const orders[] = {[KB_SORT_NONE] = "none",
                                     [KB_SORT_RATIO] = "ratio",
                                     [KB_SORT_TIME] = "time",
                                     NULL};

/* A size of the problem that --help shows as a letter. */
#define FIGURE(name, key, letter, help)                                        \
    {                                                                          \
        name, key, CLI_SET, letter, help, GIVEN(any_figure),                   \
            .set = set_figure, .wanted = "a number from 1 to 16777216"         \
    }

static const struct cli_option options[] = {
    FIGURE("images", 'n', "N", "images (1)"),
    FIGURE("channels", 'c', "C", "channels of the input"),
    FIGURE("height", 'H', "H", "height of the input"),
    FIGURE("width", 'W', "W", "its width (as the height)"),
    FIGURE("filters", 'k', "K", "channels of the output"),
    FIGURE("window-height", 'R', "R", "height of the window"),
    FIGURE("window-width", 'S', "S", "its width (as the height)"),
    FIGURE("groups", 'g', "G", "groups (1)"),
    FIGURE("stride", 0, "N", "stride, both ways (1)"),
    {"pad", 0, CLI_SET, "N", "padding on all sides (0)", GIVEN(any_figure),
     .set = set_figure, .wanted = "a number from 0 to 16777216"},
    FIGURE("dilation", 0, "N", "dilation, both ways (1)"),
    {"bias", 0, CLI_FLAG, NULL, "adds a bias", TO(figures.bias),
     GIVEN(any_figure)},
    {"residual", 0, CLI_FLAG, NULL, "adds a residual", TO(figures.residual),
     GIVEN(any_figure)},
    {"act", 0, CLI_SET, "NAME", "activation at the end", GIVEN(any_figure),
     .set = set_activation, .wanted = "an activation such as relu"},
    {"average", 0, CLI_FLAG, NULL, "average pooling (max)", TO(figures.average),
     GIVEN(any_figure)},
    {"problem", 0, CLI_SET, "TEXT", "figures in benchdnn's letters",
     .set = add_problem},
    {"sweep", 0, CLI_SET, "NAME=VALUES",
     "n=1:64:x2, k=1,4,16; may be given "
     "again",
     .set = add_sweep},
    {"model", 'm', CLI_SET, "FILE",
     "layers of a model file, an architecture file or a built-in name",
     .set = add_model},
    {"sample", 0, CLI_INT, "N",
     "problems drawn from each file of problems (all of them)", TO(sample),
     .min = 1, .max = 1 << 20},
    {"batch", 'b', CLI_EACH, "N,...",
     "batch sizes of the model (1) or of a sample (1,8,64,128)",
     .set = add_batch, .wanted = "numbers from 1 to 1048576"},
    {"extent", 0, CLI_INT, "N", "free height and width of a model (224)",
     TO(extent), .min = 1, .max = 1 << 20},
    {"dir", 0, CLI_WORDS, "D,...",
     "of convolutions: fprop (default), dgrad, wgrad", TO(dir),
     .words = kb_dir_names, .wanted = "fprop, dgrad, wgrad"},
    {"device", 'd', CLI_TEXT, "DEVICE", "cpu (default), cuda or cuda:N",
     TO(device)},
    {"threads", 0, CLI_INT, "N", "CPU threads (all cores, 7 of 8 of many)",
     TO(threads), .min = 1, .max = 1024},
    {"backends", 0, CLI_WORDS, "NAME,...",
     "cuda, cudnn, cpu, onednn, ref (all of the device but ref)", TO(backend),
     .min = 1, .words = device_backend_names,
     .wanted = "cuda, cudnn, cpu, onednn, ref"},
    {"kernels", 0, CLI_TEXT, "GLOB", "rows of the table by name", TO(kernels)},
    {"list-kernels", 0, CLI_FLAG, NULL,
     "list the rows of the table (--kernels and --backends choose)",
     TO(list_kernels)},
    {"dtype", 0, CLI_EACH, "P,...", "fp32 (default), tf32, fp16, bf16",
     .set = add_precision, .wanted = "each of fp32, tf32, fp16, bf16 once"},
    {"layout", 0, CLI_WORD, "nhwc|nchw", "layout of activations (nhwc)",
     TO(layout), .words = layouts, .wanted = "nhwc or nchw"},
    {"narrow-gradient", 0, CLI_FLAG, NULL,
     "gradients of weights in the type of the activations (fp32)",
     TO(narrow_gradient)},
    {"cold-cache", 0, CLI_FLAG, NULL,
     "pass through twice the cache between launches on the same data",
     TO(cold)},
    {"variants", 0, CLI_INT, "N", "variants of a row at most (all)",
     TO(variants), .min = 1, .max = 10000},
    {"prepare-limit", 0, CLI_TIME, "TIME",
     "no variant of a row is prepared after that (none)", TO(prepare_limit)},
    {"rounds", 0, CLI_INT, "N", "measured rounds (11)", TO(rounds), .min = 1,
     .max = 10000},
    {"time-limit", 0, CLI_TIME, "TIME", "rounds of one problem (2s)",
     TO(time_limit)},
    {"reference-limit", 0, CLI_AMOUNT, "MFLOP",
     "larger problems are not timed on ref (100)", TO(reference_limit)},
    {"all", 'a', CLI_FLAG, NULL, "show every kernel of every problem", TO(all)},
    {"every-kernel", 0, CLI_FLAG, NULL,
     "try also kernels whose estimate is hopeless", TO(every_kernel)},
    {"list", 0, CLI_FLAG, NULL,
     "print the problems with their number of layers, measure nothing",
     TO(list)},
    {"sort", 0, CLI_WORD, "ratio|time|none", "order of problems (none)",
     TO(sort), .words = orders, .wanted = "ratio, time or none"},
    {"csv", 0, CLI_TEXT, "FILE", "a line for each kernel", TO(csv)},
    {"json", 0, CLI_SET, "FILE", "everything (standard output)",
     .set = set_json, .optional = true},
    {"html", 0, CLI_TEXT, "FILE", "one page with charts", TO(html)},
    {"compare-with", 0, CLI_TEXT, "FILE",
     "what --json wrote earlier: which kernels of ours became slower",
     TO(before)},
    {"fail-below", 0, CLI_AMOUNT, "RATIO",
     "exit 3 where a problem's ratio is lower", TO(fail_below)},
    {NULL}};

/* ---- the whole ----------------------------------------------------- */

/* Words other than operations are files of problems. */
static int take_population(struct kb_request *r, const char *word)
{
    if (!strpbrk(word, "/.") && access(word, F_OK) != 0) {
        cli_error(r->cli,
                  "no operation '%s' (conv, dense, pool, transpose, all), and "
                  "no file of that name",
                  word);
        return -1;
    }
    if (r->n_populations == KB_MAX_ITEMS) {
        cli_error(r->cli, "%d files of problems may be given at most",
                  KB_MAX_ITEMS);
        return -1;
    }
    r->population[r->n_populations++] = word;
    return 0;
}

/* The operations named in front, "conv", "all", and files of problems.  A file
 * alone means all its operations. */
static int take_words(struct kb_request *r, int count, char **words)
{
    static const struct {
        const char *name;
        enum kern_op op;
    } known[] = {{"conv", KERN_CONV_FPROP},
                 {"dense", KERN_DENSE_FPROP},
                 {"pool", KERN_POOL_FPROP},
                 {"transpose", KERN_CONV_TRANSPOSE_FPROP}};
    int operations = 0;

    for (int i = 0; i < count; i++) {
        bool found = strcmp(words[i], "all") == 0;
        for (int op = 0; found && op < KERN_OP_COUNT; op++)
            r->ops[op] = true;
        for (size_t k = 0; !found && k < sizeof(known) / sizeof(*known); k++)
            if (strcmp(words[i], known[k].name) == 0) {
                r->figures.op = known[k].op;
                r->ops[known[k].op] = found = true;
            }
        operations += found;
        if (!found && take_population(r, words[i]) < 0)
            return -1;
    }
    if (operations > 1 && r->n_models + r->n_populations == 0) {
        cli_error(r->cli, "one operation at a time (conv, dense, pool or "
                          "transpose); several are for --model or a file of "
                          "problems");
        return -1;
    }
    for (int op = 0; operations == 0 && op < KERN_OP_COUNT; op++)
        r->ops[op] = op == KERN_CONV_FPROP || r->n_populations > 0;
    return 0;
}

static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* True if two reports share a file, or one would replace a model. */
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

/* Refuses options that contradict each other or have no effect. */
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
        {!model && r->n_populations == 0 && r->n_batches > 0,
         "--batch goes with --model or a file of problems (-n: images)"},
        {r->n_populations == 0 && r->sample > 0,
         "--sample goes with a file of problems"},
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

static void default_batches(struct kb_request *r)
{
    static const int64_t sampled[] = {1, 8, 64, 128};

    if (r->n_batches > 0)
        return;
    r->n_batches = r->sample > 0 ? 4 : 1;
    memcpy(r->batch, sampled, sizeof(sampled));
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
    r->reference_limit = 100;
    kb_figures_init(&r->figures, KERN_CONV_FPROP);
    int rc = cli_parse(cli, argc, argv, r, &count);
    if (rc == 0)
        rc = take_words(r, count, argv);
    if (rc == 0)
        rc = check_request(r);
    if (r->extent == 0)
        r->extent = 224;
    default_batches(r);
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
