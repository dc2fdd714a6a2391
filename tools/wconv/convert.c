/* SPDX-License-Identifier: Apache-2.0 */
/* wconv IN -o OUT: read, bind, optimise, verify, write, report. */
#include "tools/wconv/wconv.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "libinfer/graph/model_file.h"
#include "libinfer/task/task.h"
#include "tools/labels.h"
#include "tools/preprocess.h"

static const char usage[] =
    "usage: wconv IN -o OUT [options]\n"
    "       wconv NETWORK WEIGHTS -o OUT [options]\n"
    "       wconv inspect FILE [--layers] [--weights] [--dot] [--html=FILE]\n"
    "       wconv diff A B\n"
    "\n"
    "Reads trained weights (ONNX, PyTorch, safetensors, npz, Keras,\n"
    "TensorFlow, TensorFlow Lite, Darknet, Caffe, ncnn), folds batch\n"
    "normalisation, fuses, strips what only training needs and writes one\n"
    "model file for infer and libinfer.\n";

/* ---- option values ------------------------------------------------- */

static int disable_passes(struct cli *cli, const struct cli_option *o,
                          const char *value, void *user)
{
    struct wconv_request *r = user;
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
            return cli_bad_value(cli, o->name, word, o->wanted);
        r->disabled[n++] = word;
    }
    r->disabled[n] = NULL;
    r->passes.disabled = r->disabled;
    return 0;
}

static int set_task(struct cli *cli, const struct cli_option *o,
                    const char *value, void *user)
{
    struct wconv_request *r = user;
    struct infer_error err;
    struct task task;

    (void)o;
    if (task_parse(value, &err, &task) < 0) {
        cli_error(cli, "--task: %s", err.text);
        return -1;
    }
    r->task = value;
    return 0;
}

static int set_dtype(struct cli *cli, const struct cli_option *o,
                     const char *value, void *user)
{
    static const char *const words[] = {"fp32", "fp16", "bf16", NULL};
    static const enum infer_dtype dtypes[] = {INFER_F32, INFER_F16, INFER_BF16};
    struct wconv_request *r = user;
    const int which = cli_word(value, words);

    (void)cli, (void)o;
    if (which < 0)
        return CLI_BAD;
    r->dtype = dtypes[which];
    return 0;
}

/* ---- the options --------------------------------------------------- */

#define TO(member)    CLI_FIELD(struct wconv_request, member)
#define GIVEN(member) .given = offsetof(struct wconv_request, member)
#define PREPROCESS    GIVEN(preprocess.given)

/* Each in the order of its enumeration. */
static const char *const bits[] = {"none", "int8", "fp8", NULL};
static const char *const methods[] = {"max", "percentile", "mse", "entropy",
                                      NULL};
static const char *const layouts[] = {"auto", "nchw", "nhwc", NULL};
static const char *const orders[] = {"auto", "hwc", "chw", NULL};
static const char *const colors[] = {"rgb", "bgr", "gray", NULL};
static const char *const filters[] = {"bilinear", "nearest", "bicubic", NULL};

static const struct cli_option options[] = {
    {"output", 'o', CLI_TEXT, "FILE", "the model file to write", TO(out)},
    {"emit-c", 0, CLI_TEXT, "FILE.c",
     "the network as C99 too, with its header beside it", TO(emit_c)},
    {"from", 0, CLI_TEXT, "FORMAT", "auto, or a name of --list-formats",
     TO(weights.from)},
    {"arch", 0, CLI_TEXT, "FILE|NAME", "architecture for bare weights",
     TO(weights.arch)},
    {"src-layout", 0, CLI_WORD, "LAYOUT",
     "layout of bare weights: auto, nchw or nhwc", TO(weights.layout),
     .words = layouts},
    {"dense-order", 0, CLI_WORD, "ORDER",
     "order in which a dense layer reads a flattened picture: auto, hwc or chw",
     TO(weights.dense_order), .words = orders},
    {"input-type", 0, CLI_SET, "[NAME:]TYPE",
     "state an input's type where the file (TorchScript) does not: F32, I64, "
     "BOOL, ...",
     .set = wconv_add_type, .wanted = "a type such as mask:BOOL or I64"},
    {"input-shape", 0, CLI_SET, "[NAME:]SHAPE",
     "fix an input's shape, e.g. 1x3x224x224 (-1: free)",
     .set = wconv_add_shape,
     .wanted = "a shape such as x:1x3x224x224 or [1,3,224,224]"},
    {"input-value", 0, CLI_SET, "NAME:NUMBER,...",
     "make an input a constant, e.g. sample_rate:16000 (ONNX, TensorFlow, "
     "PyTorch)",
     .set = wconv_add_value, .wanted = "numbers such as sr:16000 or size:3,4"},
    {"dynamic-range", 0, CLI_FLAG, NULL,
     "TensorFlow Lite: round activations beside weights of 8 bits as its "
     "kernels do",
     TO(weights.dynamic_range)},
    {"bn-eps", 0, CLI_AMOUNT, "X", "epsilon of every batch norm", TO(bn_eps)},
    {"opt-level", 'O', CLI_INT, "0|1|2", "how much to optimise (2)",
     TO(passes.level), .max = 2, .wanted = "0, 1 or 2"},
    {"keep-bn", 0, CLI_FLAG, NULL, "do not fold batch norm",
     TO(passes.keep_bn)},
    {"keep-training", 0, CLI_FLAG, NULL,
     "leave what training needs: batch norm and dropout",
     TO(passes.keep_training)},
    {"disable-pass", 0, CLI_SET, "NAME,...", "leave passes out",
     .set = disable_passes, .wanted = "names of --list-passes"},
    {"dtype", 0, CLI_SET, "TYPE", "store weights as fp32, fp16 or bf16",
     .set = set_dtype, .wanted = "fp32, fp16 or bf16"},
    {"quantize", 0, CLI_WORD, "int8|fp8",
     "8 bits in convolutions and dense layers: integers, or floats (e4m3)",
     TO(quantize), .words = bits},
    {"calibrate", 0, CLI_TEXT, "FOLDER|FILE.npz[:N]",
     "samples that tell the ranges: pictures or arrays, at most N (128)",
     TO(calibrate)},
    {"calib", 0, CLI_WORD, "METHOD",
     "ranges by max, percentile (99.99), mse or entropy (mse)", TO(calib),
     GIVEN(calib_given), .words = methods},
    {"keep-float", 0, CLI_TEXT, "LAYER,...",
     "layers that are not quantised; * and ? match", TO(keep_float)},
    {"equalize", 0, CLI_FLAG, NULL,
     "equalise the channels of tensors between layers first", TO(equalize)},
    {"evaluate", 0, CLI_TEXT, "FOLDER|FILE.npz[:N]",
     "samples to judge accuracy by, with labels or without (--calibrate's)",
     TO(evaluate)},
    {"min-sqnr", 0, CLI_AMOUNT, "DB",
     "keep layers in floats until the signal-to-noise ratio of the outputs is "
     "this many dB",
     TO(min_sqnr)},
    {"max-drop", 0, CLI_AMOUNT, "POINTS",
     "keep layers in floats until at most this much accuracy is lost",
     TO(max_drop)},
    {"agreement", 0, CLI_AMOUNT, "PERCENT",
     "least share of equal top classes for --verify (90)", TO(agreement)},
    {"multiplier", 0, CLI_TEXT, "FILE|NAME|none",
     "approximate multiplier that infer is to use, stored in the model",
     TO(multiplier)},
    {"multiplier-exact", 0, CLI_TEXT, "LAYER,...",
     "layers that multiply exactly; * and ? match, also first, last",
     TO(multiplier_exact)},
    {"name", 0, CLI_TEXT, "NAME", "name of the network", TO(name)},
    {"labels", 0, CLI_TEXT, "FILE", "class labels, one per line", TO(labels)},
    {"task", 0, CLI_SET, "TASK",
     "what the outputs are: classify, detect, segment, image, depth, "
     "embedding, landmarks",
     .set = set_task},
    {"preset", 0, CLI_SET, "NAME",
     "preprocessing: imagenet, caffe, unit, signed, raw or raw-bgr", PREPROCESS,
     .set = wconv_set_preset,
     .wanted = "imagenet, caffe, unit, signed, raw or raw-bgr"},
    {"scale", 0, CLI_REAL, "X",
     "pixels (0-255) times this, e.g. 1/255 (1 if a mean or "
     "std is above 1, else that)",
     TO(preprocess.stored.scale), PREPROCESS, .min = -DBL_MAX, .max = DBL_MAX,
     .wanted = "a number or fraction"},
    {"mean", 0, CLI_SET, "A,B,C", "then minus the mean", PREPROCESS,
     .set = wconv_set_mean, .wanted = "1 to 4 numbers"},
    {"std", 0, CLI_SET, "A,B,C", "then divided by this", PREPROCESS,
     .set = wconv_set_std, .wanted = "1 to 4 numbers other than 0"},
    {"color", 0, CLI_WORD, "ORDER", "rgb, bgr or gray",
     TO(preprocess.stored.color), PREPROCESS, .words = colors},
    {"resize", 0, CLI_SET, "HOW",
     "shorter side in pixels (then centre crop), exact, letterbox or none",
     PREPROCESS, .set = wconv_set_resize,
     .wanted = "pixels, exact, shorter, letterbox or none"},
    {"crop", 0, CLI_SET, "SIZE",
     "then the middle of it: 224 or 224x224 (the input's size)", PREPROCESS,
     .set = wconv_set_crop, .wanted = "a size: 224 or 224x224"},
    {"interp", 0, CLI_WORD, "FILTER", "bilinear, nearest or bicubic",
     TO(preprocess.stored.filter), PREPROCESS, .words = filters},
    {"fill", 0, CLI_INT, "0-255", "colour of letterbox bars (114)",
     TO(preprocess.fill), PREPROCESS, .max = 255, .wanted = "0 to 255"},
    {"verify", 0, CLI_TEXT, "reference|REF.npz",
     "compare with the network as read (reference: on the reference kernels), "
     "or with recorded arrays",
     TO(verify_reference), GIVEN(verify), .optional = true},
    {"atol", 0, CLI_AMOUNT, "X", "absolute tolerance (1e-5)", TO(atol),
     GIVEN(tolerance)},
    {"rtol", 0, CLI_AMOUNT, "X", "relative to the largest output (1e-4)",
     TO(rtol), GIVEN(tolerance)},
    {"list-formats", 0, CLI_FLAG, NULL, "list what can be read", TO(list),
     .store = WCONV_LIST_FORMATS},
    {"list-archs", 0, CLI_FLAG, NULL, "list built-in architectures", TO(list),
     .store = WCONV_LIST_ARCHS},
    {"list-ops", 0, CLI_FLAG, NULL,
     "list operations, their inputs and attributes", TO(list),
     .store = WCONV_LIST_OPS},
    {"list-passes", 0, CLI_FLAG, NULL, "list passes", TO(list),
     .store = WCONV_LIST_PASSES},
    {NULL}};

static void request_init(struct wconv_request *r)
{
    memset(r, 0, sizeof(*r));
    weights_options_init(&r->weights);
    pass_options_init(&r->passes);
    r->bn_eps = -1;
    r->atol = 1e-5;
    r->rtol = 1e-4;
    r->calib = QUANTIZE_MSE;
    r->agreement = 90;
    r->min_sqnr = r->max_drop = -1;
    wconv_preprocess_init(&r->preprocess);
}

static void request_clear(struct wconv_request *r)
{
    wconv_clear_inputs(r);
    free(r->disabled_text);
}

/* ---- the conversion ------------------------------------------------ */

/* Stages of the progress bar: read, optimise, verify, write. */
#define STAGES 4

/* Makes a graph from bare weights and --arch, or the built-in architecture that
 * they fit. */
static int bind_architecture(const struct wconv_request *r,
                             struct weights_network *s, struct infer_error *err)
{
    const char *name = r->weights.arch;
    const struct arch_row *row;
    int rc = INFER_OK;

    if (name == NULL) {
        char *detail = s->import.detail;
        const size_t used = strlen(detail);

        rc = arch_recognise(&s->import.dict, err, &row);
        if (rc == INFER_OK) {
            name = row->name;
            snprintf(detail + used, sizeof(s->import.detail) - used,
                     "%s%s fits", used > 0 ? ", " : "", name);
        }
    }
    if (rc == INFER_OK)
        rc = arch_open(name, &s->import.dict, err, &s->graph);
    if (rc == INFER_OK)
        rc = weights_bind(s->graph, &s->import.dict, &r->weights, err);
    if (rc < 0)
        error_prefix(err, "%s", r->in);
    return rc;
}

/* Refuses an architecture without weights. */
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

/* Applies --bn-eps. */
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

/* Refuses options for bare weights if the file holds a network. */
static int check_network(const struct wconv_request *r,
                         const struct weights_network *s,
                         struct infer_error *err)
{
    if (r->weights.arch != NULL && !s->import.arch_read)
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
    return check_has_weights(r, s->graph, err);
}

static int store_labels(const char *path, struct graph *g,
                        struct infer_error *err)
{
    struct labels labels;
    int i, rc = labels_read(path, err, &labels);

    if (rc < 0)
        return rc;
    for (i = 0; i < g->n_labels; i++)
        free(g->label[i]);
    free(g->label);
    g->label = labels.text;
    g->n_labels = labels.count;
    return INFER_OK;
}

/* Loads the weights of a model file into memory, for the passes. */
static int load_weights(struct graph *g, struct infer_error *err)
{
    int i, rc = INFER_OK;

    for (i = 0; rc == INFER_OK && i < g->n_values; i++) {
        struct constant *c;

        if (g->value[i].data == NULL)
            continue;
        rc = constant_in_memory(g->value[i].data, NULL, err, &c);
        if (rc == INFER_OK)
            rc = graph_set_constant(g, i, c, err);
    }
    return rc;
}

static bool is_script(const struct weights_network *s)
{
    return s->import.format && strcmp(s->import.format, "torchscript") == 0;
}

/* Reads and binds; applies the options that change the graph. */
static int load(struct wconv_request *r, struct weights_network *s,
                struct infer_error *err)
{
    struct graph *g;
    int rc;

    r->weights.unroll = r->emit_c != NULL || r->multiplier != NULL;
    rc = weights_network_open(r->in, &r->weights, err, s);
    if (rc < 0)
        return rc;
    rc = s->graph == NULL ? bind_architecture(r, s, err)
                          : check_network(r, s, err);
    if (rc == INFER_OK)
        rc = load_weights(s->graph, err);
    if (rc < 0)
        return rc;
    g = s->graph;
    if ((rc = set_epsilon(g, r, err)) < 0 ||
        (rc = wconv_set_inputs(g, r, is_script(s), err)) < 0)
        return rc;
    if (r->name != NULL) {
        free(g->name);
        g->name = strdup(r->name);
        if (g->name == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    if ((rc = wconv_preprocess_store(&r->preprocess, g, err)) < 0)
        return rc;
    if (r->labels != NULL && (rc = store_labels(r->labels, g, err)) < 0)
        return rc;
    if (r->task != NULL) {
        free(g->task);
        g->task = strdup(r->task);
        if (g->task == NULL)
            return error_set(err, INFER_EMEMORY, "out of memory");
    }
    if ((rc = graph_compact(g, err)) < 0 || (rc = graph_validate(g, err)) < 0 ||
        (rc = graph_infer_shapes(g, NULL, err)) < 0)
        error_prefix(err, "%s", r->in);
    return rc;
}

/* A note where --labels names another number of classes than a network has
 * whose only output is a row of scores for each picture. */
static void note_labels(const struct cli *cli, const struct wconv_request *r,
                        const struct graph *g)
{
    const struct graph_value *v =
        g->n_outputs == 1 ? &g->value[g->output[0]] : NULL;

    if (r->labels == NULL || r->task != NULL || v == NULL || v->rank < 2 ||
        v->dim[1] < 2 || v->dim[1] == g->n_labels || cli->verbosity < 0)
        return;
    for (int k = 2; k < v->rank; k++)
        if (v->dim[k] != 1)
            return;
    cli_error(cli, "note: %s has %d labels for %lld classes", r->labels,
              g->n_labels, (long long)v->dim[1]);
}

/* Refuses an output file that the conversion reads.  A model file may be
 * converted in place. */
static int check_target(const struct wconv_request *r,
                        const struct weights_network *s,
                        struct infer_error *err)
{
    const char *const read[] = {s->import.format != NULL ? r->in : NULL,
                                s->import.second, r->weights.arch, r->labels,
                                r->verify_reference};
    size_t i;

    for (i = 0; i < sizeof(read) / sizeof(*read); i++)
        if (r->out != NULL && cli_same_file(read[i], r->out))
            return error_set(err, INFER_EARGUMENT,
                             "%s: the conversion reads this file: name "
                             "another with -o",
                             r->out);
    return INFER_OK;
}

/* Converts floating-point weights to dtype; vectors stay fp32: they are small,
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

/* Writes the model and the C of it: both, or neither. */
static int write_results(const struct wconv_request *r, const struct graph *g,
                         struct emit_summary *emitted, uint64_t *bytes,
                         struct infer_error *err)
{
    struct file_writer w[EMIT_FILES + 1];
    char pictures[256];
    int n = 0, rc = 0;

    if (r->emit_c != NULL) {
        const bool told =
            preprocess_text(g, "stored", pictures, sizeof pictures);

        rc = emit_c_put(g, r->emit_c, told ? pictures : NULL, err, emitted, w);
        n = rc < 0 ? 0 : EMIT_FILES;
    }
    if (rc == 0 && r->out != NULL &&
        (rc = file_writer_open(r->out, err, &w[n])) == 0)
        rc = model_file_put(g, &w[n++], bytes, err);
    if (rc == 0)
        return file_writers_commit(w, n, true, err);
    while (n > 0)
        file_writer_abort(&w[--n]);
    return rc;
}

/* Runs passes, verifies, writes, reports. */
static int optimise_and_write(struct cli *cli, struct wconv_request *r,
                              struct weights_network *s,
                              struct infer_error *err)
{
    struct wconv_summary summary = {0};
    struct wconv_verdict verdict;
    struct pass_report report;
    struct wconv_quantized quantized = {0};
    struct emit_summary emitted = {0};
    struct graph *original = NULL;
    double start = cli_now();
    int rc;

    pass_report_init(&report);
    summary.nodes_before = s->graph->n_nodes;
    if (r->verify && r->verify_reference == NULL &&
        (original = graph_copy(s->graph)) == NULL) {
        rc = error_set(err, INFER_EMEMORY, "out of memory");
        goto done;
    }
    cli_progress(cli, "optimise", 1, STAGES);
    rc = weights_run_passes(s->graph, &r->passes, &report, err);
    if (rc < 0)
        goto done;
    if (r->dtype != INFER_NONE &&
        (rc = convert_weights(s->graph, r->dtype)) < 0) {
        error_set(err, rc, "out of memory");
        goto done;
    }
    if (r->verify) {
        cli_progress(cli, "verify", 2, STAGES);
        rc = wconv_verify(s->graph, original, r, cli, err, &verdict);
        if (rc < 0)
            goto done;
        summary.verdict = &verdict;
    }
    if (r->quantize) {
        rc = wconv_quantize(s->graph, r, cli, &quantized, err);
        if (rc < 0)
            goto done;
        summary.quantized = &quantized;
    }
    cli_progress(cli, "write", 3, STAGES);
    rc = wconv_store_multiplier(r, s->graph, err);
    if (rc == 0)
        rc = write_results(r, s->graph, &emitted, &summary.bytes_after, err);
    if (rc < 0)
        goto done;
    summary.emitted = r->emit_c != NULL ? &emitted : NULL;
    summary.import = &s->import;
    summary.graph = s->graph;
    summary.passes = &report;
    summary.bytes_before = s->bytes;
    summary.weight_bytes_after = wconv_weight_bytes(s->graph);
    summary.seconds = cli_now() - start;
    wconv_report(cli, r, &summary);
done:
    wconv_quantized_clear(&quantized);
    graph_free(original);
    pass_report_clear(&report);
    return rc;
}

/* Options of quantisation that do not go together. */
static bool check_quantize(struct cli *cli, const struct wconv_request *r)
{
    const char *fault = NULL;

    if (r->quantize && r->calibrate == NULL)
        fault = "--quantize needs samples: add --calibrate=FOLDER or FILE.npz";
    else if (!r->quantize &&
             (r->calibrate != NULL || r->calib_given || r->keep_float != NULL))
        fault = "--calibrate, --calib and --keep-float go with --quantize";
    else if (!r->quantize && (r->evaluate != NULL || r->equalize ||
                              r->min_sqnr >= 0 || r->max_drop >= 0))
        fault = "--evaluate, --equalize, --min-sqnr and --max-drop go with "
                "--quantize";
    else if (r->quantize && r->dtype != INFER_NONE && r->dtype != INFER_F32)
        fault = "--quantize goes with --dtype=fp32 alone";
    else if (r->quantize && (r->passes.keep_training || r->passes.keep_bn))
        fault = "--quantize folds batch norm: not with --keep-bn or "
                "--keep-training";
    if (fault != NULL)
        cli_error(cli, "%s", fault);
    return fault == NULL;
}

/* True for the network of a format that has its weights in another file. */
static bool is_network(const char *path)
{
    struct weights_file file;
    struct infer_error err;
    bool found = false;

    if (weights_file_read(path, 0, &err, &file) < 0)
        return false;
    for (size_t i = 0; i < weights_format_count() && !found; i++) {
        const struct weights_format *f = weights_format_at(i);

        found = f->is_network && f->probe(&file) > 0 && f->is_network(&file);
    }
    weights_file_close(&file);
    return found;
}

/* One file; or two, the network's text and its weights in either order, as
 * Caffe, Darknet and ncnn have them. */
static bool take_inputs(const struct cli *cli, struct wconv_request *r,
                        char **argv, int count)
{
    if (count == 1) {
        r->in = argv[0];
        return true;
    }
    if (count == 2 && r->weights.arch == NULL) {
        bool text[2] = {weights_is_text(argv[0]), weights_is_text(argv[1])};

        if (text[0] && text[1]) { /* a few weights may look like text */
            text[0] = is_network(argv[0]);
            text[1] = is_network(argv[1]);
        }
        if (text[0] != text[1]) {
            r->weights.arch = argv[text[1]];
            r->in = argv[text[0]];
            return true;
        }
    }
    cli_error(cli, count == 0 ? "no input file (see --help)"
                   : count == 2
                       ? "takes one input file, or a network (.prototxt, .cfg, "
                         ".param, .json) and its weights; other commands: "
                         "wconv inspect, wconv diff (see --help)"
                       : "takes one input file; other commands: wconv "
                         "inspect, wconv diff (see --help)");
    return false;
}

int wconv_convert(int argc, char **argv)
{
    struct cli cli = {.tool = "wconv", .usage = usage, .option = options};
    struct wconv_request r;
    struct weights_network subject = {0};
    struct infer_error err = {0};
    int rc, count, code = CLI_OK;

    request_init(&r);
    rc = cli_parse(&cli, argc, argv, &r, &count);
    if (rc != 0) {
        code = rc > 0 ? CLI_OK : CLI_USAGE;
    } else if (r.list != WCONV_NO_LIST) {
        wconv_print_list(r.list, cli.json);
    } else if (!take_inputs(&cli, &r, argv, count)) {
        code = CLI_USAGE;
    } else if (r.out == NULL && r.emit_c == NULL) {
        cli_error(&cli, "no output file: add -o FILE");
        code = CLI_USAGE;
    } else if (r.out != NULL && strcmp(r.out, "-") == 0) {
        cli_error(&cli, "-o -: a model is written to a file, not to standard "
                        "output");
        code = CLI_USAGE;
    } else if (!check_quantize(&cli, &r)) {
        code = CLI_USAGE;
    } else if (r.tolerance && !r.verify) {
        cli_error(&cli, "--atol and --rtol go with --verify");
        code = CLI_USAGE;
    } else {
        if (r.verify_reference != NULL &&
            strcmp(r.verify_reference, "reference") == 0) {
            r.verify_reference = NULL;
            r.verify_on_reference = true;
        }
        cli_progress(&cli, "read", 0, STAGES);
        rc = load(&r, &subject, &err);
        if (rc == INFER_OK)
            rc = check_target(&r, &subject, &err);
        if (rc == INFER_OK)
            rc = optimise_and_write(&cli, &r, &subject, &err);
        if (rc < 0)
            code = cli_fail(&cli, &err);
        else
            note_labels(&cli, &r, subject.graph);
    }
    weights_network_close(&subject);
    request_clear(&r);
    return code;
}
