/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weight files that are not tried with pictures of a data set: recorded arrays
 * where there are some, the same network in another format where there is one,
 * and else the network as read against itself after the passes.  What cannot
 * be converted must be refused, with all of its reasons.
 */
#include "tests/conformance/recorded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/scalar.h"
#include "tests/conformance/model.h"
#include "tests/conformance/tensor.h"
#include "weights/weights.h"

#define MAX_ARRAYS 8

enum source {
    DATA_SETS, /* test_data_set_N beside the model; argument: how many */
    ROWS,      /* argument: input, N,H,W,C; the record's outputs_first10 */
    TOP5,      /* argument: input; the record's results of that input */
    TWIN,      /* argument: another file of the same network */
    FIRST,     /* the same, but only the first outputs are alike */
    SELF,      /* nothing is recorded */
    SHRUNK,    /* the same, at this height and width, on values of pixels */
    BARE       /* tensors without a network */
};

struct recorded_case {
    const char *path;
    const char *arch; /* as model_read() takes it */
    enum source source;
    const char *argument;
};

#define INPUT(name) "reference-inputs/" name "-input.npy"
#define FER2013     "fer2013_mini_XCEPTION.102-0.66"
#define GENDER      "gender_mini_XCEPTION.21-0.95"
#define CAT         "reference-inputs/SqueezeNet-onnx-tutorials-cat-input-f16.npy"
#define HUMMINGBIRD                                                            \
    "reference-inputs/SqueezeNet-winml-hummingbird-input-f16.npy"

static const struct recorded_case cases[] = {
    {"onnx-zoo-with-io/mnist_8/model.onnx", NULL, DATA_SETS, "3"},
    {"onnx-zoo-with-io/super_resolution_10/model.onnx", NULL, DATA_SETS, "1"},
    {"keras-mlperf-tiny/vww_96.h5", NULL, ROWS, INPUT("vww_96")},
    {"keras-mini-xception/" FER2013 ".hdf5", NULL, ROWS, INPUT(FER2013)},
    {"keras-mini-xception/" GENDER ".hdf5", NULL, ROWS, INPUT(GENDER)},
    {"onnx-winml/SqueezeNet_fp16.onnx", NULL, TOP5, CAT},
    {"onnx-winml/SqueezeNet_fp16.onnx", NULL, TOP5, HUMMINGBIRD},
    {"ultraface/version-RFB-320.onnx", NULL, SELF, NULL},
    /* The ONNX file decodes the boxes, its second output, in the graph. */
    {"ultraface/version-RFB-320.pth", "ultraface-rfb-320.json", FIRST,
     "ultraface/version-RFB-320.onnx"},
    {"ultraface/version-slim-320_simplified.onnx", NULL, SELF, NULL},
    {"ultraface/version-slim-320.pth", "ultraface-slim-320.json", TWIN,
     "ultraface/version-slim-320_simplified.onnx"},
    /* Another training than ImageClassifier.onnx. */
    {"cifar10-cnn-winml/myFirstModel.pth", "cifar10-cnn-winml.json", SELF,
     NULL},
    {"blazeface/blazeface.pth", "blazeface.json", SELF, NULL},
    {"retinaface-landmark/mobilenet0.25_Final.pth",
     "retinaface-mobilenet0.25.json", SELF, NULL},
    {"mtcnn-facenet-pytorch/pnet.pt", "mtcnn-pnet.json", SELF, NULL},
    {"mtcnn-facenet-pytorch/rnet.pt", "mtcnn-rnet.json", SELF, NULL},
    {"npz-waifu2x-chainer/vgg7-anime_style_noise0_rgb.npz", "waifu2x-vgg7.json",
     SELF, NULL},
    {"npz-waifu2x-chainer/resnet10-anime_style_noise1_y.npz",
     "waifu2x-resnet10.json", SELF, NULL},
    {"keras-squeezenet/"
     "squeezenet_weights_tf_dim_ordering_tf_kernels_notop.h5",
     "keras-squeezenet-notop.json", SELF, NULL},
    {"onnx-winml/candy.onnx", NULL, SHRUNK, "48"},
    {"lpips/v0.1-alex.pth", NULL, BARE, NULL},
    {"lpips/v0.1-squeeze.pth", NULL, BARE, NULL},
    {"blazeface/anchors.npy", NULL, BARE, NULL},
};

bool recorded_has(const char *path)
{
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (strcmp(cases[i].path, path) == 0)
            return true;
    return false;
}

/* ---- arrays -------------------------------------------------------- */

struct arrays {
    int n;
    struct constant *item[MAX_ARRAYS];
    char others[256]; /* of outputs: as model_name_others() says */
};

static void clear(struct arrays *a)
{
    while (a->n > 0)
        constant_unref(a->item[--a->n]);
}

static void add(struct arrays *a, struct constant *c)
{
    if (c != NULL && a->n < MAX_ARRAYS)
        a->item[a->n++] = c;
}

/* The array of a .npy file. */
static void add_npy(const char *folder, const char *path, struct arrays *out)
{
    struct weights_options options;
    struct weights_import import;
    struct infer_error err;
    char file[4096];

    snprintf(file, sizeof(file), "%s/weights/%s", folder, path);
    weights_options_init(&options);
    weights_import_init(&import);
    if (weights_read(file, &options, &err, &import) == INFER_OK &&
        import.dict.count == 1)
        add(out, constant_ref(import.dict.entry[0].value));
    weights_import_clear(&import);
}

/* N,H,W,C becomes N,C,H,W, the order of every picture here. */
static void channels_first(struct arrays *a)
{
    static const int order[4] = {0, 3, 1, 2};
    struct constant *c = NULL;

    if (a->n == 1 && a->item[0]->rank == 4)
        c = constant_transpose(a->item[0], order);
    clear(a);
    add(a, c);
}

/* kind_0.pb, kind_1.pb ... of data set k beside the model. */
static void add_data_set(const char *folder, const char *model, int k,
                         const char *kind, struct arrays *out)
{
    const char *slash = strrchr(model, '/');
    struct constant *c;
    char file[4096];

    do {
        snprintf(file, sizeof(file),
                 "%s/weights/%.*s/test_data_set_%d/%s_%d.pb", folder,
                 (int)(slash - model), model, k, kind, out->n);
        c = tensor_file(file, NULL);
        add(out, c);
    } while (c != NULL && out->n < MAX_ARRAYS);
}

/* A JSON matrix. */
static void add_rows(const cJSON *rows, struct arrays *out)
{
    int64_t dim[2] = {cJSON_GetArraySize(rows),
                      cJSON_GetArraySize(cJSON_GetArrayItem(rows, 0))};
    struct constant *c = constant_new(INFER_F32, 2, dim);
    const cJSON *row, *value;
    int64_t i = 0;

    if (c == NULL)
        return;
    cJSON_ArrayForEach(row, rows) cJSON_ArrayForEach(value, row)
    {
        if (i < dim[0] * dim[1])
            scalar_store(INFER_F32, c->data, i++, value->valuedouble);
    }
    add(out, c);
}

/* For every input of g the same smooth wave in [-size, size]; free sizes are 1
 * for the batch and 40 else. */
static void add_waves(const struct graph *g, double size, struct arrays *out)
{
    int k, d;

    for (k = 0; k < g->n_inputs; k++) {
        const struct graph_value *v = &g->value[g->input[k]];
        int64_t dim[INFER_MAX_RANK], i;
        struct constant *c;

        for (d = 0; d < v->rank; d++)
            dim[d] = v->dim[d] >= 0 ? v->dim[d] : d == 0 ? 1 : 40;
        c = constant_new(INFER_F32, v->rank, dim);
        for (i = 0; c != NULL && i < constant_count(c); i++)
            scalar_store(INFER_F32, c->data, i, size * sin((double)i * 0.37));
        add(out, c);
    }
}

/* ---- running ------------------------------------------------------- */

static int run(struct infer_model *model,
               const struct infer_session_options *options,
               const struct arrays *in, struct arrays *out,
               struct infer_error *err)
{
    struct infer_array from[MAX_ARRAYS] = {{0}}, to[MAX_ARRAYS] = {{0}};
    int n_out = infer_model_output_count(model), i, status;
    struct infer_session *session = NULL;

    if (n_out > MAX_ARRAYS)
        return error_set(err, INFER_EUNSUPPORTED, "%d outputs", n_out);
    for (i = 0; i < in->n; i++) {
        from[i].dtype = in->item[i]->dtype;
        from[i].rank = in->item[i]->rank;
        memcpy(from[i].dim, in->item[i]->dim, sizeof(from[i].dim));
        from[i].data = in->item[i]->data;
        from[i].bytes = in->item[i]->bytes;
    }
    status = infer_session_create(model, options, err, &session);
    if (status == INFER_OK)
        status = tensor_run(session, from, in->n, to, n_out, err);
    for (i = 0; i < n_out && status == INFER_OK; i++) {
        struct constant *c = constant_new(to[i].dtype, to[i].rank, to[i].dim);

        if (c != NULL)
            memcpy(c->data, to[i].data, c->bytes);
        add(out, c);
    }
    for (i = 0; i < n_out; i++)
        free(to[i].data);
    if (status == INFER_OK)
        model_name_others(session, options->backend, out->others,
                          sizeof(out->others));
    infer_session_close(&session);
    return status;
}

/* Largest difference relative to the largest value that is expected, of the
 * worst of the first n outputs; infinite where they cannot be compared. */
static double difference(const struct arrays *got, const struct arrays *want,
                         int outputs)
{
    double worst = 0;
    int k;

    if (outputs == 0 || got->n != want->n)
        return INFINITY;
    for (k = 0; k < outputs; k++) {
        const struct constant *a = got->item[k], *b = want->item[k];
        int64_t i, n = constant_count(b);
        double most = 0, largest = 0;

        if (constant_count(a) != n || n == 0)
            return INFINITY;
        for (i = 0; i < n; i++) {
            double x = scalar_load(a->dtype, a->data, i);
            double y = scalar_load(b->dtype, b->data, i);

            if (!isfinite(x) || !isfinite(y))
                return INFINITY;
            most = fmax(most, fabs(x - y));
            largest = fmax(largest, fabs(y));
        }
        worst = fmax(worst, largest > 0 ? most / largest : INFINITY);
    }
    return worst;
}

/* Half a unit in the last of the five digits that a probability is recorded
 * with. */
static double left_open(double value)
{
    return value > 0 ? 0.5 * pow(10, floor(log10(value)) - 4) : 0;
}

/* Classes and probabilities of the five best, against those of the record. */
static double difference_top5(const struct arrays *got, const cJSON *top5)
{
    const struct constant *y = got->n == 1 ? got->item[0] : NULL;
    int64_t k, best, n = y != NULL ? constant_count(y) : 0;
    double worst = 0, last = INFINITY, largest = 0;
    const cJSON *line;

    if (n == 0 || cJSON_GetArraySize(top5) != 5)
        return INFINITY;
    cJSON_ArrayForEach(line, top5)
    {
        double value = -1, want = cJSON_GetArrayItem(line, 2)->valuedouble;

        for (best = k = 0; k < n; k++) {
            double v = scalar_load(y->dtype, y->data, k);

            if (v > value && v < last) {
                value = v;
                best = k;
            }
        }
        if (best != cJSON_GetArrayItem(line, 0)->valueint)
            return INFINITY;
        last = value;
        largest = fmax(largest, want);
        worst = fmax(worst, fabs(value - want) - left_open(want));
    }
    return worst / largest;
}

/* ---- what is expected ---------------------------------------------- */

static const cJSON *top5_of(const cJSON *record, const char *input)
{
    const cJSON *line;

    cJSON_ArrayForEach(line, json_member(record, "results"))
    {
        const char *name = json_string(line, "input");

        if (name != NULL && strcmp(name + strlen("weights/"), input) == 0)
            return json_member(line, "top5");
    }
    return NULL;
}

/* The outputs of a graph as it is. */
static int run_graph(const struct graph *g,
                     const struct infer_session_options *options,
                     const struct arrays *in, struct arrays *out,
                     struct infer_error *err)
{
    struct graph *copy = graph_copy(g);
    struct infer_model *model = NULL;
    int status = copy != NULL ? model_from_graph(copy, err, &model)
                              : error_set(err, INFER_EMEMORY, "no memory");

    if (status == INFER_OK)
        status = run(model, options, in, out, err);
    infer_model_close(&model);
    return status;
}

/* Inputs and outputs of a case (of data set k).  Of a TOP5 case the outputs
 * stay empty, and where nothing is recorded. */
static int expectation(const char *folder, const struct recorded_case *c, int k,
                       const cJSON *record, const struct graph *g,
                       struct arrays *in, struct arrays *out,
                       struct infer_error *err)
{
    struct graph *twin = NULL;
    int status = INFER_OK;

    if (c->source == DATA_SETS) {
        add_data_set(folder, c->path, k, "input", in);
        add_data_set(folder, c->path, k, "output", out);
    } else if (c->source == ROWS || c->source == TOP5) {
        add_npy(folder, c->argument, in);
        if (c->source == ROWS)
            channels_first(in);
        if (c->source == ROWS)
            add_rows(json_member(record, "outputs_first10"), out);
    } else {
        add_waves(g, c->source == SHRUNK ? 128 : 1, in);
        if (c->source == TWIN || c->source == FIRST) {
            status = model_read(folder, c->argument, NULL, &twin, err);
            if (status == INFER_OK)
                status = run_graph(twin, model_reference(), in, out, err);
        }
        graph_free(twin);
    }
    return status;
}

/* ---- judging ------------------------------------------------------- */

/* The network as read, then optimised, through the reference, through the
 * backend asked for and, where that is a GPU's and rounds, through the
 * reference that rounds likewise. */
struct ways {
    struct arrays reference[2], backend[2], rounding[2];
};

static bool has_rounding(const struct infer_session_options *options)
{
    return model_on_gpu(options) && options->precision != INFER_PRECISION_FP32;
}

static int run_ways(const struct graph *g,
                    const struct infer_session_options *options,
                    bool with_reference, const struct arrays *in,
                    struct ways *w, struct infer_error *err)
{
    struct infer_model *lean = NULL;
    int status = run_graph(g, options, in, &w->backend[0], err);

    if (status == INFER_OK && with_reference)
        status = run_graph(g, model_reference(), in, &w->reference[0], err);
    if (status == INFER_OK && has_rounding(options))
        status =
            run_graph(g, model_rounding(options), in, &w->rounding[0], err);
    if (status == INFER_OK)
        status = model_optimise(g, &lean, err);
    if (status == INFER_OK && with_reference)
        status = run(lean, model_reference(), in, &w->reference[1], err);
    if (status == INFER_OK)
        status = run(lean, options, in, &w->backend[1], err);
    if (status == INFER_OK && has_rounding(options))
        status = run(lean, model_rounding(options), in, &w->rounding[1], err);
    infer_model_close(&lean);
    return status;
}

static void clear_ways(struct ways *w)
{
    int i;

    for (i = 0; i < 2; i++) {
        clear(&w->reference[i]);
        clear(&w->backend[i]);
        clear(&w->rounding[i]);
    }
}

/* How far a result is from the record. */
static double departure(const struct recorded_case *c, const struct arrays *got,
                        const struct arrays *want, const cJSON *top5)
{
    if (c->source == TOP5)
        return difference_top5(got, top5);
    return difference(got, want, c->source == FIRST ? 1 : want->n);
}

/* Departures of the network as read, then optimised. */
struct verdict {
    bool good;
    double reference[2], backend[2], rounding[2];
};

/* The reference runs every case; under the sanitizers, where it takes minutes,
 * only those of which nothing is recorded. */
static bool has_reference(const struct recorded_case *c,
                          const struct infer_session_options *options)
{
#ifdef __SANITIZE_ADDRESS__
    return model_on_gpu(options) ||
           (c->source != DATA_SETS && c->source != ROWS && c->source != TOP5);
#else
    (void)c;
    (void)options;
    return true;
#endif
}

/* The reference is held against the record, and so is a CPU's backend; a
 * GPU's against the reference.  Where nothing is recorded, *want is what the
 * reference makes of the network as read. */
static void judge(const struct recorded_case *c,
                  const struct infer_session_options *options,
                  const struct ways *w, const struct arrays *want,
                  const cJSON *top5, struct verdict *v)
{
    int i;

    for (i = 0; i < 2; i++) {
        const struct arrays *base = &w->reference[i], *got = &w->backend[i];

        v->reference[i] =
            has_reference(c, options) ? departure(c, base, want, top5) : NAN;
        v->backend[i] = model_on_gpu(options) ? difference(got, base, base->n)
                                              : departure(c, got, want, top5);
        v->rounding[i] = has_rounding(options)
                             ? difference(&w->rounding[i], base, base->n)
                             : 0;
        v->good = v->good &&
                  (!has_reference(c, options) ||
                   v->reference[i] <= CONFORMANCE_RELATIVE) &&
                  v->backend[i] <= model_bound(options, v->rounding[i]);
    }
}

/* Departures of the network as read (0) or optimised (1). */
static void print_departures(const char *which, const struct verdict *v, int i,
                             bool rounds)
{
    printf("%s ", which);
    if (isnan(v->reference[i]))
        printf("no reference");
    else
        printf("%.1e reference", v->reference[i]);
    printf(", %.1e backend", v->backend[i]);
    if (rounds)
        printf(", %.1e rounding", v->rounding[i]);
}

static void print_line(const struct recorded_case *c, int k,
                       const struct verdict *v, bool rounds, const char *others)
{
    printf("%-6s %s", v->good ? "ok" : "FAILED", c->path);
    if (c->source == DATA_SETS)
        printf(", test_data_set_%d", k);
    else if (c->argument != NULL)
        printf(", %s", c->argument);
    print_departures(": as read", v, 0, rounds);
    print_departures("; optimised", v, 1, rounds);
    printf("; others:%s\n", others[0] != '\0' ? others : " none");
}

static bool check_one(const char *folder,
                      const struct infer_session_options *options,
                      const struct recorded_case *c, int k, const cJSON *record,
                      const struct graph *g)
{
    const cJSON *top5 = c->source == TOP5 ? top5_of(record, c->argument) : NULL;
    struct arrays in = {0}, want = {0};
    struct infer_error err = {0};
    struct verdict v = {0};
    struct ways w = {0};
    int status;

    status = expectation(folder, c, k, record, g, &in, &want, &err);
    if (status == INFER_OK)
        status = run_ways(g, options, has_reference(c, options), &in, &w, &err);
    v.good = status == INFER_OK;
    judge(c, options, &w,
          c->source == SELF || c->source == SHRUNK ? &w.reference[0] : &want,
          top5, &v);
    print_line(c, k, &v, has_rounding(options), w.backend[1].others);
    if (status != INFER_OK)
        printf("       %s\n", err.text);
    clear(&in);
    clear(&want);
    clear_ways(&w);
    return v.good;
}

/* Makes an extent of the output that is fixed one that follows the input's. */
static int free_extent(const struct graph *g, struct graph_node *node,
                       struct infer_error *err)
{
    const struct graph_value *x = &g->value[node->in[0]];
    const struct graph_value *w = &g->value[node->in[1]];
    struct graph_conv *conv = &node->attr.conv;
    int i;

    for (i = 0; i < 2; i++) {
        const int64_t full =
            (x->dim[2 + i] - 1) * conv->conv.stride[i] + w->dim[2 + i];

        if (conv->output_size[i] == 0)
            continue;
        if (conv->auto_pad != GRAPH_PAD_VALID || conv->conv.dilation[i] != 1 ||
            conv->output_pad[i] != 0 || conv->output_size[i] < full)
            return error_set(err, INFER_EUNSUPPORTED,
                             "the output's extent cannot be freed");
        conv->output_pad[i] = (int)(conv->output_size[i] - full);
        conv->output_size[i] = 0;
    }
    return 0;
}

/* Gives the network's one input this extent both ways: its own would take the
 * reference minutes. */
static int shrink(struct graph *g, int extent, struct infer_error *err)
{
    struct graph_value *x = &g->value[g->input[0]];
    int i, status = INFER_OK;

    if (g->n_inputs != 1 || x->rank != 4 || extent < 1)
        return error_set(err, INFER_EARGUMENT, "no picture to shrink");
    for (i = 0; i < g->n_nodes && status == INFER_OK; i++)
        if (g->node[i].op == GRAPH_CONV_TRANSPOSE)
            status = free_extent(g, &g->node[i], err);
    x->dim[2] = x->dim[3] = extent;
    return status < 0 ? status : graph_infer_shapes(g, NULL, err);
}

/* Returns how many comparisons it made. */
static size_t check(const char *folder,
                    const struct infer_session_options *options,
                    const struct recorded_case *c, const cJSON *record,
                    size_t *failed)
{
    struct infer_error err = {0};
    struct graph *g = NULL;
    int k, status = model_read(folder, c->path, c->arch, &g, &err);
    int n = c->source == DATA_SETS ? atoi(c->argument) : 1;

    if (status == INFER_OK && g != NULL && c->source == SHRUNK)
        status = shrink(g, atoi(c->argument), &err);
    if (c->source == BARE) {
        bool good = status == INFER_OK && g == NULL;

        printf("%-6s %s: tensors without a network\n", good ? "ok" : "FAILED",
               c->path);
        *failed += !good;
    } else if (status < 0 || g == NULL) {
        printf("FAILED %s: %s\n", c->path, status < 0 ? err.text : "no graph");
        *failed += (size_t)n;
    } else {
        for (k = 0; k < n; k++)
            *failed += !check_one(folder, options, c, k, record, g);
    }
    fflush(stdout);
    graph_free(g);
    return (size_t)n;
}

void recorded_list(bool (*known)(const char *path))
{
    size_t i;

    /* Cases of one file stand side by side. */
    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (cases[i].source != BARE && !known(cases[i].path) &&
            (i == 0 || strcmp(cases[i].path, cases[i - 1].path) != 0))
            printf("%s\n", cases[i].path);
}

size_t recorded_run(const char *folder,
                    const struct infer_session_options *options,
                    const char *word, const cJSON *models, size_t *failed)
{
    size_t i, n = 0;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (strstr(cases[i].path, word) != NULL)
            n += check(folder, options, &cases[i],
                       json_member(models, cases[i].path), failed);
    return n;
}
