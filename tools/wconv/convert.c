/* SPDX-License-Identifier: Apache-2.0 */
/* wconv IN -o OUT: read, bind, optimise, verify, write, report. */
#include "tools/wconv/wconv.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/model_file.h"
#include "tools/labels.h"

enum {
    OPT_OUTPUT,
    OPT_FROM,
    OPT_ARCH,
    OPT_SRC_LAYOUT,
    OPT_DENSE_ORDER,
    OPT_BN_EPS,
    OPT_INPUT_SHAPE,
    OPT_LEVEL,
    OPT_KEEP_BN,
    OPT_KEEP_TRAINING,
    OPT_DISABLE_PASS,
    OPT_LIST_PASSES,
    OPT_LIST_OPS,
    OPT_LIST_ARCHS,
    OPT_LIST_FORMATS,
    OPT_DTYPE,
    OPT_NAME,
    OPT_LABELS,
    OPT_VERIFY,
    OPT_ATOL,
    OPT_RTOL
};

static const struct cli_option options[] = {
    {"output", 'o', CLI_VALUE, "FILE", "the model file to write", OPT_OUTPUT},
    {"from", 0, CLI_VALUE, "FORMAT",
     "auto, onnx, pytorch, safetensors, npz or keras", OPT_FROM},
    {"arch", 0, CLI_VALUE, "FILE|NAME", "architecture for bare weights",
     OPT_ARCH},
    {"src-layout", 0, CLI_VALUE, "LAYOUT",
     "layout of bare weights: auto, nchw or nhwc", OPT_SRC_LAYOUT},
    {"dense-order", 0, CLI_VALUE, "ORDER",
     "inputs of a dense layer behind a picture: auto, hwc or chw",
     OPT_DENSE_ORDER},
    {"input-shape", 0, CLI_VALUE, "[NAME:]SHAPE",
     "fix an input's shape, e.g. 1x3x224x224 (-1: free)", OPT_INPUT_SHAPE},
    {"bn-eps", 0, CLI_VALUE, "X", "epsilon of every batch norm", OPT_BN_EPS},
    {"opt-level", 'O', CLI_VALUE, "0|1|2", "how much to optimise (2)",
     OPT_LEVEL},
    {"keep-bn", 0, CLI_FLAG, NULL, "do not fold batch norm", OPT_KEEP_BN},
    {"keep-training", 0, CLI_FLAG, NULL,
     "leave what training needs: batch norm and dropout", OPT_KEEP_TRAINING},
    {"disable-pass", 0, CLI_VALUE, "NAME,...", "leave passes out",
     OPT_DISABLE_PASS},
    {"dtype", 0, CLI_VALUE, "TYPE", "store weights as fp32, fp16 or bf16",
     OPT_DTYPE},
    {"name", 0, CLI_VALUE, "NAME", "name of the network", OPT_NAME},
    {"labels", 0, CLI_VALUE, "FILE", "class labels, one a line", OPT_LABELS},
    {"preset", 0, CLI_VALUE, "NAME",
     "preprocessing: imagenet, caffe, unit, signed or raw", WCONV_PRESET},
    {"scale", 0, CLI_VALUE, "X", "pixels (0-255) times this, e.g. 1/255",
     WCONV_SCALE},
    {"mean", 0, CLI_VALUE, "A,B,C", "then minus the mean", WCONV_MEAN},
    {"std", 0, CLI_VALUE, "A,B,C", "then divided by this", WCONV_STD},
    {"color", 0, CLI_VALUE, "ORDER", "rgb, bgr or gray", WCONV_COLOR},
    {"resize", 0, CLI_VALUE, "HOW",
     "shorter side in pixels (then centre crop), exact, letterbox or none",
     WCONV_RESIZE},
    {"crop", 0, CLI_VALUE, "SIZE",
     "then the middle of it: 224 or 224x224 (the input's size)", WCONV_CROP},
    {"interp", 0, CLI_VALUE, "FILTER", "bilinear, nearest or bicubic",
     WCONV_INTERP},
    {"fill", 0, CLI_VALUE, "0-255", "colour of letterbox bars (114)",
     WCONV_FILL},
    {"verify", 0, CLI_OPTIONAL, "REF.npz",
     "compare with the network as read, or with recorded arrays", OPT_VERIFY},
    {"atol", 0, CLI_VALUE, "X", "absolute tolerance (1e-5)", OPT_ATOL},
    {"rtol", 0, CLI_VALUE, "X", "relative to the largest output (1e-4)",
     OPT_RTOL},
    {"list-formats", 0, CLI_FLAG, NULL, "list what can be read",
     OPT_LIST_FORMATS},
    {"list-archs", 0, CLI_FLAG, NULL, "list built-in architectures",
     OPT_LIST_ARCHS},
    {"list-ops", 0, CLI_FLAG, NULL,
     "list operations, their inputs and attributes", OPT_LIST_OPS},
    {"list-passes", 0, CLI_FLAG, NULL, "list passes", OPT_LIST_PASSES},
    {NULL, 0, CLI_FLAG, NULL, NULL, 0}};

static const char usage[] =
    "usage: wconv IN -o OUT [options]\n"
    "       wconv inspect FILE [--layers] [--weights] [--dot]\n"
    "       wconv diff A B\n"
    "\n"
    "Reads trained weights (ONNX, PyTorch, safetensors, npz, Keras), folds\n"
    "batch normalisation, fuses, strips what only training needs and writes\n"
    "one model file for infer and libinfer.\n";

/* ---- option values ------------------------------------------------- */

static int add_shape(const struct cli *cli, struct wconv_request *r,
                     const char *value)
{
    struct weights_input_shape *s = &r->shape[r->weights.input_count];
    char *name;

    if (r->weights.input_count == (int)(sizeof(r->shape) / sizeof(*r->shape)))
        return cli_bad_value(cli, "input-shape", value, "at most 16 shapes");
    if (!cli_shape(value, &name, &s->rank, s->dim))
        return cli_bad_value(cli, "input-shape", value,
                             "a shape such as x:1x3x224x224 or [1,3,224,224]");
    s->name = name;
    r->weights.input_shape = r->shape;
    r->weights.input_count++;
    return 0;
}

static int disable_passes(const struct cli *cli, struct wconv_request *r,
                          const char *value)
{
    size_t n = 0;
    char *word, *rest = NULL;

    free(r->disabled_text);
    r->disabled_text = strdup(value);
    if (r->disabled_text == NULL) {
        cli_error(cli, "out of memory");
        return -1;
    }
    for (word = strtok_r(r->disabled_text, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        if (pass_find(word) == NULL ||
            n + 1 == sizeof(r->disabled) / sizeof(*r->disabled))
            return cli_bad_value(cli, "disable-pass", word,
                                 "names of --list-passes");
        r->disabled[n++] = word;
    }
    r->disabled[n] = NULL;
    r->passes.disabled = r->disabled;
    return 0;
}

static int set_dtype(const struct cli *cli, struct wconv_request *r,
                     const char *value)
{
    static const char *const words[] = {"fp32", "fp16", "bf16", NULL};
    static const enum infer_dtype dtypes[] = {INFER_F32, INFER_F16, INFER_BF16};
    int which = cli_word(value, words);

    if (which < 0)
        return cli_bad_value(cli, "dtype", value, "fp32, fp16 or bf16");
    r->dtype = dtypes[which];
    return 0;
}

static int set_layout(const struct cli *cli, struct wconv_request *r,
                      const char *value)
{
    static const char *const words[] = {"auto", "nchw", "nhwc", NULL};
    int which = cli_word(value, words);

    if (which < 0)
        return cli_bad_value(cli, "src-layout", value, "auto, nchw or nhwc");
    r->weights.layout = (enum weights_layout)which;
    return 0;
}

static int set_dense_order(const struct cli *cli, struct wconv_request *r,
                           const char *value)
{
    static const char *const words[] = {"auto", "hwc", "chw", NULL};
    int which = cli_word(value, words);

    if (which < 0)
        return cli_bad_value(cli, "dense-order", value, "auto, hwc or chw");
    r->weights.dense_order = (enum weights_dense_order)which;
    return 0;
}

static int convert_option(struct cli *cli, int id, const char *value,
                          void *user)
{
    struct wconv_request *r = user;
    int64_t number;

    switch (id) {
    case OPT_OUTPUT:
        r->out = value;
        return 0;
    case OPT_FROM:
        r->weights.from = value;
        return 0;
    case OPT_ARCH:
        r->weights.arch = value;
        return 0;
    case OPT_SRC_LAYOUT:
        return set_layout(cli, r, value);
    case OPT_DENSE_ORDER:
        return set_dense_order(cli, r, value);
    case OPT_NAME:
        r->name = value;
        return 0;
    case OPT_LABELS:
        r->labels = value;
        return 0;
    case OPT_INPUT_SHAPE:
        return add_shape(cli, r, value);
    case OPT_BN_EPS:
        return cli_option_amount(cli, "bn-eps", value, &r->bn_eps);
    case OPT_LEVEL:
        if (!cli_int(value, 0, 2, &number))
            return cli_bad_value(cli, "opt-level", value, "0, 1 or 2");
        r->passes.level = (int)number;
        return 0;
    case OPT_KEEP_BN:
        r->passes.keep_bn = true;
        return 0;
    case OPT_KEEP_TRAINING:
        r->passes.keep_training = true;
        return 0;
    case OPT_DISABLE_PASS:
        return disable_passes(cli, r, value);
    case OPT_DTYPE:
        return set_dtype(cli, r, value);
    case OPT_VERIFY:
        r->verify = true;
        r->verify_reference = value;
        return 0;
    case OPT_ATOL:
        r->tolerance = true;
        return cli_option_amount(cli, "atol", value, &r->atol);
    case OPT_RTOL:
        r->tolerance = true;
        return cli_option_amount(cli, "rtol", value, &r->rtol);
    case OPT_LIST_PASSES:
    case OPT_LIST_OPS:
    case OPT_LIST_ARCHS:
    case OPT_LIST_FORMATS:
        r->list = (enum wconv_list)(id - OPT_LIST_PASSES);
        return 0;
    default:
        return wconv_preprocess_option(cli, id, value, &r->preprocess);
    }
}

static void request_init(struct wconv_request *r)
{
    memset(r, 0, sizeof(*r));
    weights_options_init(&r->weights);
    pass_options_init(&r->passes);
    r->list = WCONV_NO_LIST;
    r->bn_eps = -1;
    r->atol = 1e-5;
    r->rtol = 1e-4;
    wconv_preprocess_init(&r->preprocess);
}

static void request_clear(struct wconv_request *r)
{
    int i;

    for (i = 0; i < r->weights.input_count; i++)
        free((char *)r->shape[i].name);
    free(r->disabled_text);
}

/* ---- the conversion ------------------------------------------------ */

/* Of the progress bar: read, optimise, verify, write. */
#define STAGES 4

/* A dictionary of bare weights becomes a graph. */
static int bind_architecture(const struct wconv_request *r,
                             struct weights_network *s, struct infer_error *err)
{
    int status;

    if (r->weights.arch == NULL)
        return error_set(err, INFER_EUNSUPPORTED,
                         "%s: holds %zu tensor%s but no network: name its "
                         "architecture with --arch (see --list-archs)",
                         r->in, s->import.dict.count,
                         s->import.dict.count == 1 ? "" : "s");
    status = arch_open(r->weights.arch, &s->import.dict, err, &s->graph);
    if (status == INFER_OK)
        status = weights_bind(s->graph, &s->import.dict, &r->weights, err);
    if (status < 0)
        error_prefix(err, "%s", r->in);
    return status;
}

/* An architecture alone is no network that could run. */
static int check_has_weights(const struct wconv_request *r,
                             const struct graph *g, struct infer_error *err)
{
    int i, missing = 0;

    for (i = 0; i < g->n_values; i++)
        missing += g->value[i].name != NULL && g->value[i].producer < 0 &&
                   g->value[i].data == NULL;
    missing -= g->n_inputs;
    if (missing == 0)
        return INFER_OK;
    return error_set(err, INFER_EUNSUPPORTED,
                     "%s: an architecture without weights (%d tensors): name "
                     "the file that holds them, and this with --arch",
                     r->in, missing);
}

/* Gives batch norms the epsilon of --bn-eps. */
static int set_epsilon(struct graph *g, const struct wconv_request *r,
                       struct infer_error *err)
{
    int i, met = 0;

    if (r->bn_eps < 0)
        return INFER_OK;
    for (i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == GRAPH_BATCH_NORM) {
            g->node[i].attr.norm.epsilon = (float)r->bn_eps;
            met++;
        }
    return met > 0 ? INFER_OK
                   : error_set(err, INFER_EARGUMENT,
                               "--bn-eps: %s has no batch norm", r->in);
}

/* Options of bare weights say nothing of a network that the file holds. */
static int check_network(const struct wconv_request *r, const struct graph *g,
                         struct infer_error *err)
{
    if (r->weights.arch != NULL)
        return error_set(err, INFER_EARGUMENT,
                         "%s: holds a network of its own: --arch is for "
                         "bare weights",
                         r->in);
    if (r->weights.layout != WEIGHTS_LAYOUT_AUTO ||
        r->weights.dense_order != WEIGHTS_DENSE_AUTO)
        return error_set(err, INFER_EARGUMENT,
                         "%s: holds a network of its own: --src-layout and "
                         "--dense-order are for bare weights",
                         r->in);
    return check_has_weights(r, g, err);
}

/* Gives inputs the shapes of --input-shape. */
static int set_shapes(struct graph *g, const struct wconv_request *r,
                      struct infer_error *err)
{
    int i, j;

    for (i = 0; i < r->weights.input_count; i++) {
        const struct weights_input_shape *s = &r->shape[i];
        struct graph_value *v = NULL;

        for (j = 0; j < g->n_inputs; j++)
            if (s->name != NULL
                    ? strcmp(g->value[g->input[j]].name, s->name) == 0
                    : j == i)
                v = &g->value[g->input[j]];
        if (v == NULL)
            return error_set(err, INFER_EARGUMENT,
                             "--input-shape: the network has no input '%s'",
                             s->name != NULL ? s->name : "of this position");
        if (v->rank >= 0 && v->rank != s->rank)
            return error_set(err, INFER_EARGUMENT,
                             "--input-shape: input '%s' has %d dimensions, "
                             "not %d",
                             v->name, v->rank, s->rank);
        v->rank = s->rank;
        memcpy(v->dim, s->dim, sizeof(v->dim));
    }
    return INFER_OK;
}

static int store_labels(const char *path, struct graph *g,
                        struct infer_error *err)
{
    struct labels labels;
    int i, status = labels_read(path, err, &labels);

    if (status < 0)
        return status;
    for (i = 0; i < g->n_labels; i++)
        free(g->label[i]);
    free(g->label);
    g->label = labels.text;
    g->n_labels = labels.count;
    return INFER_OK;
}

/* The passes compute with weights; those of a model file still lie in it. */
static int load_weights(struct graph *g, struct infer_error *err)
{
    int i, status = INFER_OK;

    for (i = 0; status == INFER_OK && i < g->n_values; i++) {
        struct constant *c;

        if (g->value[i].data == NULL)
            continue;
        status = constant_in_memory(g->value[i].data, err, &c);
        if (status == INFER_OK)
            status = graph_set_constant(g, i, c, err);
    }
    return status;
}

/* Reads, binds, names: the graph as the file means it. */
static int load(struct wconv_request *r, struct weights_network *s,
                struct infer_error *err)
{
    struct graph *g;
    int status = weights_network_open(r->in, &r->weights, err, s);

    if (status < 0)
        return status;
    status = s->graph == NULL ? bind_architecture(r, s, err)
                              : check_network(r, s->graph, err);
    if (status == INFER_OK)
        status = load_weights(s->graph, err);
    if (status < 0)
        return status;
    g = s->graph;
    if ((status = set_epsilon(g, r, err)) < 0 ||
        (status = set_shapes(g, r, err)) < 0)
        return status;
    if (r->name != NULL) {
        free(g->name);
        g->name = strdup(r->name);
        if (g->name == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    if ((status = wconv_preprocess_store(&r->preprocess, g, err)) < 0)
        return status;
    if (r->labels != NULL && (status = store_labels(r->labels, g, err)) < 0)
        return status;
    if ((status = graph_compact(g, err)) < 0 ||
        (status = graph_validate(g, err)) < 0 ||
        (status = graph_infer_shapes(g, NULL, err)) < 0)
        error_prefix(err, "%s", r->in);
    return status;
}

/* The model must not take the place of what it was made from.  Only a model
 * file may be converted in place: nothing of it is lost. */
static int check_target(const struct wconv_request *r,
                        const struct weights_network *s,
                        struct infer_error *err)
{
    const char *const read[] = {s->import.format != NULL ? r->in : NULL,
                                r->weights.arch, r->labels,
                                r->verify_reference};
    size_t i;

    for (i = 0; i < sizeof(read) / sizeof(*read); i++)
        if (cli_same_file(read[i], r->out))
            return error_set(err, INFER_EARGUMENT,
                             "%s: the conversion reads this file: name "
                             "another with -o",
                             r->out);
    return INFER_OK;
}

/* Stores floating-point weights as dtype; vectors stay fp32, they are small
 * and biases need the range. */
static int convert_weights(struct graph *g, enum infer_dtype dtype)
{
    int i;

    for (i = 0; i < g->n_values; i++) {
        struct graph_value *v = &g->value[i];
        struct constant *to;

        if (v->data == NULL ||
            (v->data->dtype != INFER_F32 && v->data->dtype != INFER_F16 &&
             v->data->dtype != INFER_BF16))
            continue;
        to = constant_convert(v->data, v->data->rank > 1 ? dtype : INFER_F32);
        if (to == NULL)
            return INFER_EMEMORY;
        constant_unref(v->data);
        v->data = to;
        v->dtype = to->dtype;
    }
    return INFER_OK;
}

/* Everything between a loaded graph and a written file. */
static int optimise_and_write(struct cli *cli, struct wconv_request *r,
                              struct weights_network *s,
                              struct infer_error *err)
{
    struct wconv_summary summary = {0};
    struct wconv_verdict verdict;
    struct pass_report report;
    struct graph *original = NULL;
    double start = cli_now();
    int status;

    pass_report_init(&report);
    summary.nodes_before = s->graph->n_nodes;
    if (r->verify && r->verify_reference == NULL &&
        (original = graph_copy(s->graph)) == NULL) {
        status = error_set(err, INFER_EMEMORY, "out of memory");
        goto done;
    }
    cli_progress(cli, "optimise", 1, STAGES);
    status = weights_run_passes(s->graph, &r->passes, &report, err);
    if (status < 0)
        goto done;
    if (r->dtype != INFER_NONE &&
        (status = convert_weights(s->graph, r->dtype)) < 0) {
        error_set(err, status, "out of memory");
        goto done;
    }
    if (r->verify) {
        cli_progress(cli, "verify", 2, STAGES);
        status = wconv_verify(s->graph, original, r, cli, err, &verdict);
        if (status < 0)
            goto done;
        summary.verdict = &verdict;
    }
    cli_progress(cli, "write", 3, STAGES);
    status = model_file_write(s->graph, r->out, &summary.bytes_after, err);
    if (status < 0)
        goto done;
    summary.import = &s->import;
    summary.graph = s->graph;
    summary.passes = &report;
    summary.bytes_before = s->bytes;
    summary.weight_bytes_after = wconv_weight_bytes(s->graph);
    summary.seconds = cli_now() - start;
    wconv_report(cli, r, &summary);
done:
    graph_free(original);
    pass_report_clear(&report);
    return status;
}

int wconv_convert(int argc, char **argv)
{
    struct cli cli = {.tool = "wconv", .usage = usage, .option = options};
    struct wconv_request r;
    struct weights_network subject = {0};
    struct infer_error err = {0};
    int status, count, code = CLI_OK;

    request_init(&r);
    status = cli_parse(&cli, argc, argv, convert_option, &r, &count);
    if (status != 0) {
        code = status > 0 ? CLI_OK : CLI_USAGE;
    } else if (r.list != WCONV_NO_LIST) {
        wconv_print_list(r.list, cli.json);
    } else if (count != 1 || r.out == NULL) {
        cli_error(&cli, count == 0   ? "no input file (see --help)"
                        : count != 1 ? "one input file, please (see --help)"
                                     : "no output file: add -o FILE");
        code = CLI_USAGE;
    } else if (r.tolerance && !r.verify) {
        cli_error(&cli, "--atol and --rtol go with --verify");
        code = CLI_USAGE;
    } else {
        r.in = argv[0];
        cli_progress(&cli, "read", 0, STAGES);
        status = load(&r, &subject, &err);
        if (status == INFER_OK)
            status = check_target(&r, &subject, &err);
        if (status == INFER_OK)
            status = optimise_and_write(&cli, &r, &subject, &err);
        if (status < 0)
            code = cli_fail(&cli, &err);
    }
    weights_network_close(&subject);
    request_clear(&r);
    return code;
}
