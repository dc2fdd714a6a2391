/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trained weights of others, end to end: read, bound, optimised, written,
 * opened and run, against outputs and counts that were computed independently
 * (TEST_DATA/weights/reference_outputs.json).
 *
 * usage: weights [--backend=auto|ref|onednn] [--markdown]
 *
 * Each model is run three ways: the graph as read on the reference backend and
 * the optimised model file on the reference and on the backend asked for (the
 * first ten rows of each, within 1e-4 of the largest output); then the whole
 * data set is classified on the backend asked for, whose count must be exact.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/error.h"
#include "libinfer/json.h"
#include "libinfer/model.h"
#include "libinfer/model_file.h"
#include "tests/conformance/data.h"
#include "weights/arch.h"
#include "weights/passes.h"
#include "weights/weights.h"

#define RELATIVE 1e-4
#define BATCH    100
#define ROWS     10

enum source { MNIST, MNIST_1000, CIFAR };

/* A pixel becomes (pixel * scale - mean) / std. */
struct norm {
    float scale, mean[3], std[3];
};

struct model_case {
    const char *path; /* below weights/ */
    const char *arch; /* built-in name, or a file of tests/arch; or NULL */
    enum source source;
    const struct norm *norm;
    const char *record; /* NULL: path.  The twin with the same weights */
};

#define U (1.0f / 255)
static const struct norm raw = {1, {0}, {1, 1, 1}};
static const struct norm unit = {U, {0}, {1, 1, 1}};
static const struct norm half = {U, {.5f, .5f, .5f}, {.5f, .5f, .5f}};
static const struct norm imagenet = {
    U, {.485f, .456f, .406f}, {.229f, .224f, .225f}};
static const struct norm oval = {
    U, {.485f, .456f, .406f}, {.225f, .225f, .225f}};
static const struct norm cifar_2023 = {
    U, {.4914f, .4822f, .4465f}, {.2023f, .1994f, .2010f}};
static const struct norm cifar_2471 = {
    U, {.4914f, .4822f, .4465f}, {.2471f, .2435f, .2616f}};
static const struct norm mnist = {U, {.1307f}, {.3081f}};

static const struct model_case cases[] = {
    {"cifar10-resnet-akamaster/resnet20-12fca82f.th", "resnet20-cifar", CIFAR,
     &imagenet, NULL},
    {"cifar10-nets-atreides/resnet_neo_v1_5e4_20.pth", "resnet20-atreides.json",
     CIFAR, &cifar_2023, NULL},
    {"cifar10-nets-atreides/plainnet_neo_v1_5e4_20.pth",
     "plainnet20-atreides.json", CIFAR, &cifar_2023, NULL},
    {"cifar10-nets-atreides/base_cnn_exp0.5_sgd_lr01_e75_stepLR.pth",
     "base-cnn-atreides.json", CIFAR, &cifar_2023, NULL},
    {"cifar10-resnet-vnncomp/resnet_2b.onnx", NULL, CIFAR, &cifar_2471, NULL},
    {"cifar10-resnet-vnncomp/resnet2b-model_best.pth", "resnet_2b.json", CIFAR,
     &cifar_2471, "cifar10-resnet-vnncomp/resnet_2b.onnx"},
    {"cifar10-oval21/cifar_base_kw.onnx", NULL, CIFAR, &oval, NULL},
    {"cifar10-oval21/cifar_base_kw.pth", "cifar_base_kw.json", CIFAR, &oval,
     "cifar10-oval21/cifar_base_kw.onnx"},
    {"cifar10-marabou-tf2onnx/cifar10_small.onnx", NULL, CIFAR, &unit, NULL},
    {"cifar10-marabou-tf2onnx/cifar10_large.onnx", NULL, CIFAR, &unit, NULL},
    {"cifar10-cnn-winml/ImageClassifier.onnx", NULL, CIFAR, &half, NULL},
    {"mnist-vnncomp/Convnet_avgpool.onnx", NULL, MNIST, &unit, NULL},
    {"mnist-vnncomp/mnist-net_256x2.onnx", NULL, MNIST, &unit, NULL},
    {"onnx-winml/mnist.onnx", NULL, MNIST_1000, &raw, NULL},
    {"onnx-zoo-with-io/mnist_8/model.onnx", NULL, MNIST_1000, &raw, NULL},
    {"mnist-cnn-burn/mnist.pt", "mnist-cnn-burn.json", MNIST, &mnist, NULL},
    {"mnist-cnn-burn/mnist.safetensors", "mnist-cnn-burn.json", MNIST, &mnist,
     NULL},
    {"mnist-cnn-jq/mnist_cnn.safetensors", "mnist-cnn-jq.json", MNIST, &mnist,
     NULL},
    {"keras-mlperf-tiny/pretrainedResnet.h5", NULL, CIFAR, &raw, NULL},
    {"keras-mnist-cnn/mnist_cnn.h5", NULL, MNIST, &unit, NULL},
    {"keras-mnist-cnn/mnist_cnn.keras", NULL, MNIST, &unit, NULL},
};

static const char *data_folder;
static enum infer_backend backend = INFER_BACKEND_AUTO;
static bool markdown;

/* ---- building ------------------------------------------------------ */

/* The graph of a weight file, as read. */
static int read_graph(const struct model_case *c, struct graph **out,
                      struct infer_error *err)
{
    struct weights_options options;
    struct weights_import import;
    char path[4096], arch[4096];
    int status;

    snprintf(path, sizeof(path), "%s/weights/%s", data_folder, c->path);
    weights_options_init(&options);
    weights_import_init(&import);
    status = weights_read(path, &options, err, &import);
    if (status == INFER_OK && import.graph == NULL && c->arch != NULL) {
        snprintf(arch, sizeof(arch), "%s", c->arch);
        if (strstr(c->arch, ".json") != NULL)
            snprintf(arch, sizeof(arch), "%s/tests/arch/%s", SOURCE_DIR,
                     c->arch);
        status = arch_open(arch, &import.dict, err, &import.graph);
        if (status == INFER_OK)
            status = weights_bind(import.graph, &import.dict, NULL, err);
    }
    if (status == INFER_OK) {
        *out = import.graph;
        import.graph = NULL;
        status = graph_compact(*out, err);
        if (status == INFER_OK)
            status = graph_validate(*out, err);
        if (status == INFER_OK)
            status = graph_infer_shapes(*out, NULL, err);
        if (status < 0) {
            graph_free(*out);
            *out = NULL;
        }
    }
    weights_import_clear(&import);
    return status;
}

/* The optimised graph, through a model file on disk. */
static int convert(const struct graph *g, struct infer_model **out,
                   struct infer_error *err)
{
    char path[] = "conformance-XXXXXX";
    struct pass_options options;
    struct pass_report report;
    struct graph *copy = graph_copy(g);
    int status, fd = mkstemp(path);

    if (fd < 0 || copy == NULL) {
        graph_free(copy);
        return error_set(err, INFER_EIO, "no temporary file");
    }
    close(fd);
    pass_options_init(&options);
    pass_report_init(&report);
    status = weights_run_passes(copy, &options, &report, err);
    if (status == INFER_OK)
        status = model_file_write(copy, path, NULL, err);
    if (status == INFER_OK)
        status = infer_model_open(path, err, out);
    unlink(path);
    pass_report_clear(&report);
    graph_free(copy);
    return status;
}

/* ---- running ------------------------------------------------------- */

/* Values of picture i in the layout of the input. */
static void fill(const struct model_case *m, const struct dataset *d, int i,
                 bool channels_last, float *out)
{
    size_t plane = (size_t)d->height * (size_t)d->width, k;
    const uint8_t *from = d->pixel + (size_t)i * plane * (size_t)d->channels;
    int c;

    for (c = 0; c < d->channels; c++)
        for (k = 0; k < plane; k++) {
            size_t to = channels_last ? k * (size_t)d->channels + (size_t)c
                                      : (size_t)c * plane + k;

            out[to] = (from[(size_t)c * plane + k] * m->norm->scale -
                       m->norm->mean[c]) /
                      m->norm->std[c];
        }
}

/* Runs pictures first .. first+n-1; *out is to be freed, one row a picture. */
static int run(struct infer_model *model, struct infer_session *session,
               const struct model_case *m, const struct dataset *d, int first,
               int n, float **out, size_t *row, struct infer_error *err)
{
    size_t item = (size_t)d->channels * (size_t)d->height * (size_t)d->width;
    struct infer_tensor_info info;
    struct infer_array in = {0}, y = {0};
    bool last;
    int i, status;

    infer_model_input(model, 0, &info);
    last = info.rank == 4 && info.dim[3] == 3 && info.dim[1] != 3;
    in.dtype = INFER_F32;
    in.rank = info.rank;
    memcpy(in.dim, info.dim, sizeof(in.dim));
    in.dim[0] = n;
    in.bytes = (size_t)n * item * sizeof(float);
    in.data = malloc(in.bytes);
    for (i = 0; i < n; i++)
        fill(m, d, first + i, last, (float *)in.data + (size_t)i * item);
    status = infer_session_run(session, &in, 1, &y, 1, err);
    *out = calloc(1, y.bytes + 1);
    y.data = *out;
    if (status == INFER_OK)
        status = infer_session_run(session, &in, 1, &y, 1, err);
    *row = y.bytes / sizeof(float) / (size_t)n;
    free(in.data);
    return status;
}

/* Largest difference of the first rows from the recorded ones, relative to the
 * largest recorded value; negative on failure. */
static double compare_rows(struct infer_model *model, enum infer_backend which,
                           const struct model_case *m, const struct dataset *d,
                           const cJSON *expected, struct infer_error *err)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    double worst = -1, largest = 0, difference = 0;
    const cJSON *line, *value;
    float *y = NULL;
    size_t row, i = 0;
    int status, fixed;
    struct infer_tensor_info info;

    infer_session_options_init(&options);
    options.backend = which;
    status = infer_session_create(model, &options, err, &session);
    infer_model_input(model, 0, &info);
    fixed = info.dim[0] > 0 ? (int)info.dim[0] : ROWS;
    if (status == INFER_OK)
        status = run(model, session, m, d, 0, fixed, &y, &row, err);
    if (status == INFER_OK) {
        cJSON_ArrayForEach(line, expected)
        {
            size_t k = 0;

            if ((int)(i / row) >= fixed)
                break;
            cJSON_ArrayForEach(value, line)
            {
                double e = value->valuedouble, diff = fabs(y[i + k++] - e);

                largest = fmax(largest, fabs(e));
                if (!(diff <= difference))
                    difference = isnan(diff) ? INFINITY : diff;
            }
            if (k != row) {
                error_set(err, INFER_EMISMATCH, "%zu outputs, %zu expected",
                          row, k);
                status = INFER_EMISMATCH;
                break;
            }
            i += row;
        }
        if (status == INFER_OK && i > 0 && largest > 0)
            worst = difference / largest;
    }
    free(y);
    infer_session_close(&session);
    return worst;
}

static int count_right(struct infer_model *model, const struct model_case *m,
                       const struct dataset *d, struct infer_error *err)
{
    struct infer_session_options options;
    struct infer_session *session = NULL;
    struct infer_tensor_info info;
    int status, first, right = 0, batch;

    infer_session_options_init(&options);
    options.backend = backend;
    status = infer_session_create(model, &options, err, &session);
    infer_model_input(model, 0, &info);
    batch = info.dim[0] > 0 ? (int)info.dim[0] : BATCH;
    for (first = 0; status == INFER_OK && first + batch <= d->count;
         first += batch) {
        float *y = NULL;
        size_t row, i, k;

        status = run(model, session, m, d, first, batch, &y, &row, err);
        for (i = 0; status == INFER_OK && i < (size_t)batch; i++) {
            size_t best = 0;

            for (k = 1; k < row; k++)
                if (y[i * row + k] > y[i * row + best])
                    best = k;
            right += best == d->label[(size_t)first + i];
        }
        free(y);
    }
    infer_session_close(&session);
    return status < 0 ? -1 : right;
}

/* ---- judging ------------------------------------------------------- */

/* "915/1000" of the record. */
static int expected_count(const cJSON *record)
{
    const char *text = json_string(record, "top1");

    return text != NULL ? atoi(text) : -1;
}

static void print_row(const struct model_case *m, bool good, int right,
                      int expected, const double *worst)
{
    if (markdown)
        printf("| %s | %d | %d | %.1e | %.1e | %.1e | %s |\n", m->path, right,
               expected, worst[0], worst[1], worst[2], good ? "pass" : "FAIL");
    else
        printf("%-6s %-64s %5d right (%d), %.1e as read, %.1e reference, "
               "%.1e backend\n",
               good ? "ok" : "FAILED", m->path, right, expected, worst[0],
               worst[1], worst[2]);
}

/* True where the model does all it must. */
static bool check(const struct model_case *m, const cJSON *models)
{
    const cJSON *record =
        json_member(models, m->record != NULL ? m->record : m->path);
    const cJSON *rows = json_member(record, "outputs_first10");
    struct infer_model *plain = NULL, *lean = NULL;
    struct infer_error err = {0};
    struct graph *g = NULL;
    struct dataset d = {0};
    double worst[3] = {-1, -1, -1};
    int right = -1, k;
    bool good;

    if (record == NULL || rows == NULL) {
        printf("FAILED %s: no record\n", m->path);
        return false;
    }
    if ((m->source == CIFAR
             ? dataset_cifar10(data_folder, 1000, &d)
             : dataset_mnist(data_folder, m->source == MNIST ? 10000 : 1000,
                             &d)) < 0)
        return false;
    if (read_graph(m, &g, &err) == INFER_OK &&
        convert(g, &lean, &err) == INFER_OK) {
        struct graph *copy = graph_copy(g);

        if (copy != NULL &&
            infer_model_from_graph(copy, &err, &plain) == INFER_OK)
            worst[0] =
                compare_rows(plain, INFER_BACKEND_REF, m, &d, rows, &err);
        worst[1] = compare_rows(lean, INFER_BACKEND_REF, m, &d, rows, &err);
        worst[2] = compare_rows(lean, backend, m, &d, rows, &err);
        right = count_right(lean, m, &d, &err);
    }
    good = right == expected_count(record);
    for (k = 0; k < 3; k++)
        good = good && worst[k] >= 0 && worst[k] <= RELATIVE;
    print_row(m, good, right, expected_count(record), worst);
    if (!good && err.code != 0)
        printf("       %s\n", err.text);
    fflush(stdout);
    infer_model_close(&plain);
    infer_model_close(&lean);
    graph_free(g);
    dataset_free(&d);
    return good;
}

static cJSON *read_records(void)
{
    char path[4096];
    char *text = calloc(1, 1 << 20);
    cJSON *json = NULL;
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/weights/reference_outputs.json",
             data_folder);
    f = fopen(path, "rb");
    if (f != NULL) {
        n = fread(text, 1, 1 << 20, f);
        fclose(f);
    }
    if (json_parse(text, n, false, NULL, &json) < 0)
        json = NULL;
    free(text);
    return json;
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"auto", "ref", "onednn", NULL};
    size_t i, failed = 0, n = sizeof(cases) / sizeof(*cases);
    cJSON *records;
    int k, a;

    data_folder = getenv("TEST_DATA");
    if (data_folder == NULL || data_folder[0] == '\0') {
        printf("skipped: TEST_DATA is not set\n");
        return 77;
    }
    for (a = 1; a < argc; a++) {
        markdown = markdown || strcmp(argv[a], "--markdown") == 0;
        for (k = 0; words[k] != NULL; k++)
            if (strncmp(argv[a], "--backend=", 10) == 0 &&
                strcmp(argv[a] + 10, words[k]) == 0)
                backend = (enum infer_backend)k;
    }
    records = read_records();
    if (records == NULL) {
        printf("FAILED reference_outputs.json cannot be read\n");
        return 1;
    }
    if (markdown)
        printf("| model | right | expected | as read | optimised, reference "
               "| optimised, backend | |\n|---|---|---|---|---|---|---|\n");
    for (i = 0; i < n; i++)
        failed += !check(&cases[i], json_member(records, "models"));
    cJSON_Delete(records);
    printf("%zu models, %zu failed\n", n, failed);
    return failed > 0;
}
