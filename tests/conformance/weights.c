/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trained weights of others, end to end: read, bound, optimised, written,
 * opened and run, against outputs and counts that were computed independently
 * (TEST_DATA/weights/reference_outputs.json).
 *
 * usage: weights [--device=cpu|cuda|cuda:N] [--precision=fp32|tf32|fp16|bf16]
 *                [--backend=auto|ref|cpu|onednn|cuda|cudnn] [--tune=off|on]
 *                [--markdown]
 *                [--match=TEXT] only models whose path holds the text
 *                [--list] only the paths of the networks
 *
 * Each model is run three ways: the graph as read on the reference backend and
 * the optimised model file on the reference and on the backend asked for (the
 * first ten rows of each, within 1e-5 of the largest output); then the whole
 * data set is classified on the backend asked for, whose count must be exact.
 * recorded.c runs what comes with arrays instead of pictures, or with
 * nothing.  Every record and every weight file of the folder is in some case.
 *
 * On a GPU its rows are held against those of the reference, within the bound
 * of the precision (recorded.c allows networks more that make more of
 * roundings), and where products are not IEEE single precision the count may
 * differ by 2 of 1,000.  Other precisions than fp32 are for a GPU.  Steps that
 * the backend asked for has no kernel for, and so ran on another one's, are
 * named.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "libinfer/model/model.h"
#include "tests/conformance/data.h"
#include "tests/conformance/model.h"
#include "tests/conformance/recorded.h"
#include "tests/conformance/tensor.h"

#define BATCH 100
/* Rows that the reference computes too, twice, and pictures that are
 * classified.  The sanitizers make them take several times as long; the plain
 * build compares all ten and counts over the whole data set. */
#ifdef __SANITIZE_ADDRESS__
#define ROWS   2
#define COUNTS false
#else
#define ROWS   10
#define COUNTS true
#endif

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
static struct infer_session_options asked; /* of the command line */
static bool on_gpu;
static bool markdown, list_only;
static const char *match = "";

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
    status = tensor_run(session, &in, 1, &y, 1, err);
    *out = y.data;
    *row = y.bytes / sizeof(float) / (size_t)n;
    free(in.data);
    return status;
}

/* The first rows, up to ten; *out is to be freed. */
static int first_rows(struct infer_model *model,
                      const struct infer_session_options *options,
                      const struct model_case *m, const struct dataset *d,
                      float **out, size_t *row, int *n, struct infer_error *err)
{
    struct infer_session *session = NULL;
    struct infer_tensor_info info;
    int status = infer_session_create(model, options, err, &session);

    infer_model_input(model, 0, &info);
    *n = info.dim[0] > 0 ? (int)info.dim[0] : ROWS;
    if (status == INFER_OK)
        status = run(model, session, m, d, 0, *n, out, row, err);
    infer_session_close(&session);
    return status;
}

/* Largest difference, relative to the largest expected value. */
static double departure(const float *y, const float *expected, size_t n)
{
    double largest = 0, difference = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        double diff = fabs((double)y[i] - (double)expected[i]);

        largest = fmax(largest, fabs((double)expected[i]));
        if (!(diff <= difference))
            difference = isnan(diff) ? INFINITY : diff;
    }
    return n > 0 && largest > 0 ? difference / largest : -1;
}

/* The recorded rows as an array like that of first_rows(). */
static float *recorded_rows(const cJSON *expected, size_t row, int n,
                            size_t *count, struct infer_error *err)
{
    float *out = calloc((size_t)n * row + 1, sizeof(*out));
    const cJSON *line, *value;
    size_t i = 0;

    cJSON_ArrayForEach(line, expected)
    {
        size_t k = 0;

        if (out == NULL || i == (size_t)n * row)
            break;
        cJSON_ArrayForEach(value, line)
        {
            if (k < row)
                out[i + k] = (float)value->valuedouble;
            k++;
        }
        if (k != row) {
            error_set(err, INFER_EMISMATCH, "%zu outputs, %zu expected", row,
                      k);
            free(out);
            return NULL;
        }
        i += row;
    }
    *count = i;
    return out;
}

/* How far the first rows are from the recorded ones; negative on failure. */
static double compare_rows(struct infer_model *model,
                           const struct infer_session_options *options,
                           const struct model_case *m, const struct dataset *d,
                           const cJSON *expected, struct infer_error *err)
{
    float *y = NULL, *record = NULL;
    double worst = -1;
    size_t row, count = 0;
    int n;

    if (first_rows(model, options, m, d, &y, &row, &n, err) == INFER_OK)
        record = recorded_rows(expected, row, n, &count, err);
    if (record != NULL)
        worst = departure(y, record, count);
    free(record);
    free(y);
    return worst;
}

/* How far the GPU's first rows are from the reference's. */
static double compare_gpu(struct infer_model *model, const struct model_case *m,
                          const struct dataset *d, struct infer_error *err)
{
    float *y = NULL, *expected = NULL;
    double worst = -1;
    size_t row, other;
    int n;

    if (first_rows(model, &asked, m, d, &y, &row, &n, err) == INFER_OK &&
        first_rows(model, model_reference(), m, d, &expected, &other, &n,
                   err) == INFER_OK &&
        row == other)
        worst = departure(y, expected, row * (size_t)n);
    free(expected);
    free(y);
    return worst;
}

/* What a model gave. */
struct outcome {
    double worst[3]; /* departures: as read, reference, backend */
    int right;
    char others[256]; /* " softmax 1 pool_fprop 2": steps of other backends */
};

static int count_right(struct infer_model *model, const struct model_case *m,
                       const struct dataset *d, struct outcome *o,
                       struct infer_error *err)
{
    struct infer_session *session = NULL;
    struct infer_tensor_info info;
    int status, first, right = 0, batch;

    status = infer_session_create(model, &asked, err, &session);
    infer_model_input(model, 0, &info);
    batch = info.dim[0] > 0 ? (int)info.dim[0] : BATCH;
    for (first = 0; status == INFER_OK && first + batch <= d->count &&
                    (COUNTS || first < BATCH);
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
    if (status == INFER_OK)
        model_name_others(session, asked.backend, o->others, sizeof(o->others));
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

static void print_row(const struct model_case *m, bool good,
                      const struct outcome *o, int expected)
{
    const char *others = o->others[0] != '\0' ? o->others : " none";

    if (markdown)
        printf("| %s | %d | %d | %.1e | %.1e | %.1e |%s | %s |\n", m->path,
               o->right, expected, o->worst[0], o->worst[1], o->worst[2],
               others, good ? "pass" : "FAIL");
    else
        printf("%-6s %-64s %5d right (%d), %.1e as read, %.1e reference, "
               "%.1e backend; others:%s\n",
               good ? "ok" : "FAILED", m->path, o->right, expected, o->worst[0],
               o->worst[1], o->worst[2], others);
}

/* Whether the departures and the count are those of a sound run. */
static bool judge(const struct outcome *o, int expected, int count)
{
    const double last = model_bound(&asked, 0);
    const int slack = on_gpu && asked.precision != INFER_PRECISION_FP32
                          ? 2 * count / 1000
                          : 0;
    int k;

    for (k = 0; k < 3; k++)
        if (!(o->worst[k] >= 0 &&
              o->worst[k] <= (k == 2 ? last : CONFORMANCE_RELATIVE)))
            return false;
    /* One batch: a third of it right is far from chance. */
    if (!COUNTS)
        return o->right > BATCH / 3;
    return o->right >= 0 && abs(o->right - expected) <= slack;
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
    struct outcome o = {.worst = {-1, -1, -1}, .right = -1};
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
    if (model_read(data_folder, m->path, m->arch, &g, &err) == INFER_OK &&
        model_optimise(g, &lean, &err) == INFER_OK) {
        struct graph *copy = graph_copy(g);

        if (copy != NULL && model_from_graph(copy, &err, &plain) == INFER_OK)
            o.worst[0] =
                compare_rows(plain, model_reference(), m, &d, rows, &err);
        o.worst[1] = compare_rows(lean, model_reference(), m, &d, rows, &err);
        o.worst[2] = on_gpu ? compare_gpu(lean, m, &d, &err)
                            : compare_rows(lean, &asked, m, &d, rows, &err);
        o.right = count_right(lean, m, &d, &o, &err);
    }
    good = judge(&o, expected_count(record), d.count);
    print_row(m, good, &o, expected_count(record));
    if (!good && err.code != 0)
        printf("       %s\n", err.text);
    fflush(stdout);
    infer_model_close(&plain);
    infer_model_close(&lean);
    graph_free(g);
    dataset_free(&d);
    return good;
}

/* Index of the word behind name= in an argument, or otherwise what it was. */
static int take_word(const char *argument, const char *name,
                     const char *const *words, int otherwise)
{
    const size_t n = strlen(name);
    int k;

    for (k = 0; words[k] != NULL; k++)
        if (strncmp(argument, name, n) == 0 &&
            strcmp(argument + n, words[k]) == 0)
            return k;
    return otherwise;
}

static void take_argument(const char *a)
{
    static const char *const backends[] = {"auto",  "ref", "onednn", "cuda",
                                           "cudnn", "cpu", NULL};
    static const char *const precisions[] = {"fp32", "tf32", "fp16", "bf16",
                                             NULL};
    static const char *const tunes[] = {"off", "on", NULL};

    markdown = markdown || strcmp(a, "--markdown") == 0;
    list_only = list_only || strcmp(a, "--list") == 0;
    if (strncmp(a, "--device=", 9) == 0)
        asked.device = a + 9;
    if (strncmp(a, "--match=", 8) == 0)
        match = a + 8;
    asked.backend = (enum infer_backend)take_word(a, "--backend=", backends,
                                                  (int)asked.backend);
    asked.precision = (enum infer_precision)take_word(
        a, "--precision=", precisions, (int)asked.precision);
    asked.tune = take_word(a, "--tune=", tunes, asked.tune);
    on_gpu = model_on_gpu(&asked);
}

static bool has_pictures(const char *path)
{
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (strcmp(cases[i].path, path) == 0)
            return true;
    return false;
}

/* Records and weight files that no case looks at. */
static size_t uncovered(const cJSON *models)
{
    char path[4096], line[4096];
    const cJSON *record;
    size_t failed = 0;
    FILE *f;

    cJSON_ArrayForEach(record, models)
    {
        if (!has_pictures(record->string) && !recorded_has(record->string)) {
            printf("FAILED %s: recorded, but in no case\n", record->string);
            failed++;
        }
    }
    snprintf(path, sizeof(path), "%s/weights/MANIFEST.tsv", data_folder);
    f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\t")] = '\0';
        if (strcmp(line, "file") != 0 && strstr(line, ".pb") == NULL &&
            !has_pictures(line) && !recorded_has(line)) {
            printf("FAILED %s: in no case\n", line);
            failed++;
        }
    }
    if (f == NULL) {
        printf("FAILED %s cannot be read\n", path);
        return failed + 1;
    }
    fclose(f);
    return failed;
}

int main(int argc, char **argv)
{
    size_t i, failed = 0, checked = 0;
    cJSON *records;
    int a;

    infer_session_options_init(&asked);
    for (a = 1; a < argc; a++)
        take_argument(argv[a]);
    if (list_only) {
        for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
            printf("%s\n", cases[i].path);
        recorded_list(has_pictures);
        return 0;
    }
    if (asked.precision != INFER_PRECISION_FP32 && !on_gpu) {
        printf("FAILED a precision other than fp32 wants --device=cuda\n");
        return 1;
    }
    data_folder = getenv("TEST_DATA");
    if (data_folder == NULL || data_folder[0] == '\0') {
        printf("skipped: TEST_DATA is not set\n");
        return 77;
    }
    records = model_records(data_folder);
    if (records == NULL) {
        printf("FAILED reference_outputs.json cannot be read\n");
        return 1;
    }
    if (markdown)
        printf("| model | right | expected | as read | optimised, reference "
               "| optimised, backend | steps of other backends | |\n"
               "|---|---|---|---|---|---|---|---|\n");
    for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if (strstr(cases[i].path, match) != NULL) {
            failed += !check(&cases[i], json_member(records, "models"));
            checked++;
        }
    checked += recorded_run(data_folder, &asked, match,
                            json_member(records, "models"), &failed);
    failed += uncovered(json_member(records, "models"));
    cJSON_Delete(records);
    printf("%zu models, %zu failed\n", checked, failed);
    return failed > 0 || checked == 0;
}
